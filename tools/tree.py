"""The package as text: its files, what they import, and its rooms in the order of the data.

A room is a sub-package, `cli` (with `__main__`), or `pdno`: the modules that all others share.
"""

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

Sources = dict[str, str]
"""Path from the root of the repository -> text, of Python and C files."""

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "pdno"
SUFFIXES = (".py", ".c", ".h")
NAME_OF_MODULE = re.compile(rf"{PACKAGE}(\.[a-z]\w*)+")

FLOW = (
    *(PACKAGE, "fields", "equations", "solvers", "data"),
    *("native", "symbols", "operators", "networks", "training"),
    *("evaluation", "theory", "report", "portable", "experiments", "laboratory", "cli"),
)
"""A room uses rooms before it; an import of a later one goes against the flow."""


def read_folder(root: Path) -> Sources:
    """The files of a working tree."""
    paths = sorted(path for path in (root / PACKAGE).rglob("*") if path.suffix in SUFFIXES)
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def read_revision(root: Path, revision: str) -> Sources:
    """The files of a commit, from the history; nothing is checked out."""
    listed = _git(root, "ls-tree", "-r", "--name-only", revision, f"{PACKAGE}/").splitlines()
    paths = sorted(path for path in listed if path.endswith(SUFFIXES))
    return {path: _git(root, "show", f"{revision}:{path}") for path in paths}


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout


@cache
def parse(text: str) -> ast.Module:
    """A Python file as a tree."""
    return ast.parse(text)


def python_files(sources: Sources) -> Sources:
    """The Python files alone."""
    return {path: text for path, text in sources.items() if path.endswith(".py")}


def room_of(path: str) -> str:
    """The room of a file, by its place."""
    _, first, *inside = path.split("/")
    return first if inside else "cli" if first in ("cli.py", "__main__.py") else PACKAGE


def first_line(text: str) -> str:
    """The first line of the docstring of a module, or nothing."""
    return (ast.get_docstring(parse(text)) or "").partition("\n")[0]


def module_imports(sources: Sources) -> dict[str, set[str]]:
    """Python file -> files of the package that it imports, wherever in it.

    A name that an `__init__` passes on, as in `from pdno.symbols import Symbol`, counts for the
    module it comes from.
    """
    names = {path: set(_imported(text, path)) for path, text in python_files(sources).items()}
    modules = {_dotted(path): path for path in names}
    passed_on = {
        f"{_dotted(path)}.{name.rpartition('.')[2]}": name
        for path, imported in names.items()
        if path.endswith("/__init__.py")
        for name in imported
    }
    return {
        path: {_file_of(name, modules, passed_on) for name in imported} - {path, ""}
        for path, imported in names.items()
    }


def _dotted(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported(text: str, path: str) -> Iterator[str]:
    """Dotted names that a file imports; a string that is one is imported when it is needed."""
    home = path.split("/")[:-1]
    for node in ast.walk(parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = home[: len(home) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and NAME_OF_MODULE.fullmatch(str(node.value)):
            yield str(node.value)


def _file_of(name: str, modules: dict[str, str], passed_on: dict[str, str]) -> str:
    """The file of a dotted name, or of the module that has it; "" if it is not ours."""
    for _ in range(3):  # an `__init__` may pass on what another one passes on
        name = name if name in modules else passed_on.get(name, name)
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return modules.get(name, "")


def room_imports(sources: Sources) -> Counter[tuple[str, str]]:
    """(room, room that it imports) -> how many of its files do; the `__init__` of pdno aside."""
    public = f"{PACKAGE}/__init__.py"
    found = {
        (room_of(path), room_of(target), path)
        for path, targets in module_imports(sources).items()
        for target in targets
        if public not in (path, target) and room_of(path) != room_of(target)
    }
    return Counter((room, used) for room, used, _ in sorted(found))
