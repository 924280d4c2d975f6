"""Configuration of the manual: Sphinx reads the pages of this folder and the docstrings of pdno.

`make docs` builds it into `docs/_build/html`, with warnings as errors and without the network:
mathematics becomes MathML, fonts are those of the reader's machine. The build also fails when a
public name or a module is missing from the API pages.
"""

import pkgutil
import re
import runpy
import sys
import typing
from importlib import import_module, metadata
from pathlib import Path
from types import FunctionType
from typing import Any

from docutils.nodes import Element, SkipNode, document, literal
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

sys.path.insert(0, str(Path(__file__).parent))

from docstrings import skip_member, to_restructured_text

import pdno

# docs/notebooks, pages of the manual
runpy.run_path(str(Path(__file__).parents[1] / "tools" / "notebooks.py"))["render_all"]()

project = "pdno"
author = "the authors of pdno"
release = version = metadata.version("pdno")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]

# Pages
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4

# Docstrings
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88
napoleon_google_docstring = True
napoleon_numpy_docstring = False
nitpicky = True  # a reference into pdno must have a target; other packages have none here
nitpick_ignore_regex = [(r"py:.*", r"(?!pdno\.).*")]

# Looks
html_theme = "furo"
html_title = f"pdno {release}"
html_math_renderer = "mathml"
html_show_sourcelink = False
html_show_sphinx = False
html_copy_source = False
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["pdno.css"]

LOGGER = logging.getLogger("pdno.docs")
INTERNAL = ("pdno.__main__", "pdno.native", "pdno.benchmark")
"""Modules without a page: nobody should call them."""


def visit_math(self: HTML5Translator, node: Element) -> None:
    """Write inline mathematics as MathML, which browsers show without a script."""
    self.body.append(to_mathml(node))
    raise SkipNode


def visit_display_math(self: HTML5Translator, node: Element) -> None:
    """Write an equation on a line of its own."""
    self.body.append(f'<div class="math">{to_mathml(node, as_block=True)}</div>')
    raise SkipNode


def to_mathml(node: Element, *, as_block: bool = False) -> str:
    """MathML of a formula; a warning names what docutils does not know."""
    try:
        return tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        LOGGER.warning("formula %r: %s", node.astext(), error, location=node)
        return ""


def link_names(app: Sphinx, doctree: document) -> None:
    """Make a link of every name like `pdno.Grid` in the text of a page."""
    for node in list(doctree.findall(literal)):
        name = node.astext()
        if re.fullmatch(r"pdno(\.\w+)+", name) and not isinstance(node.parent, pending_xref):
            place = {"refdomain": "py", "reftype": "obj", "reftarget": name, "refexplicit": False}
            link = pending_xref("", node.deepcopy(), refdoc=app.env.docname, **place)
            node.replace_self(link)


def resolve_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: Element
) -> Element | None:
    """Find the home of a name that pdno or a package of it passes on, as `pdno.Grid`.

    Private names, type variables, packages and internal modules have no entry: no link.
    """
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py" or not target.startswith("pdno."):
        return None
    if "[" in target:  # what Sphinx leaves of an annotation
        return content
    try:
        found = find_object(target)
    except ImportError:
        if hasattr(typing, target.rpartition(".")[2]):  # imported for type checkers alone
            return content
        raise
    in_annotation = isinstance(found, FunctionType) and node.get("reftype") == "class"
    if in_annotation or isinstance(found, typing.TypeVar):
        return content
    home = getattr(found, "__module__", None)
    name = f"{home}.{getattr(found, '__qualname__', '')}"
    if not name.startswith("pdno."):
        return content
    python = env.domains.python_domain
    if name in python.objects:
        return python.resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, content)
    return content if name.rpartition(".")[2].startswith("_") else None


def find_object(name: str) -> Any:
    """The module, class, function or method of this dotted name; ImportError if there is none."""
    head, _, last = name.rpartition(".")
    if not head:
        return import_module(name)
    parent = find_object(head)
    return getattr(parent, last) if hasattr(parent, last) else import_module(name)


def check_api_is_complete(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn, which ends the build, where a module or a public name is on no API page."""
    python = env.domains.python_domain
    modules = pkgutil.walk_packages(pdno.__path__, "pdno.")
    found = {module.name for module in modules if not module.ispkg}
    for name in sorted(found - set(python.modules)):
        if not name.startswith(INTERNAL):
            LOGGER.warning("module %s is on no page of docs/api", name)
    listed = Path(app.srcdir, "api.md").read_text(encoding="utf-8")
    for name in pdno.__all__:
        if f"`pdno.{name}`" not in listed:
            LOGGER.warning("public name pdno.%s is not in docs/api.md", name)


def setup(app: Sphinx) -> None:
    """Connect our renderer and our docstrings to Sphinx."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_display_math, None))
    # before napoleon, which has the priority 500
    app.connect("autodoc-process-docstring", to_restructured_text, priority=400)
    app.connect("autodoc-skip-member", skip_member)
    app.connect("doctree-read", link_names)
    app.connect("missing-reference", resolve_name)
    app.connect("env-check-consistency", check_api_is_complete)
