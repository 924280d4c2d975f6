"""Which package may import which. Every import counts, inside functions and for types, too.

The table is `MAY_IMPORT` of `tools/tree.py`. Physics (fields, equations, solvers) and learning
(symbols, operators, networks) never import each other, and the library imports nothing of what
stands on top of it.
"""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import measure  # noqa: E402
import tree  # noqa: E402
from tree import LEARNING, LIBRARY, MAY_IMPORT, PHYSICS, TOP  # noqa: E402

FILES = tree.python_files(tree.read_folder(ROOT))
IMPORTS = tree.module_imports(tree.read_folder(ROOT))


def packages(path):
    """Packages of ours that a file imports."""
    return {tree.package_of(target) for target in IMPORTS[path]} - {tree.package_of(path)}


def nodes(path, kind):
    return [node for node in ast.walk(tree.parse(FILES[path])) if isinstance(node, kind)]


def users(*modules):
    """Files that import one of some foreign modules, or something of them."""
    return {
        path
        for path, text in FILES.items()
        for name in tree.imported_names(text, path)
        if any(f"{name}.".startswith(f"{module}.") for module in modules)
    }


@pytest.mark.parametrize("path", FILES)
def test_a_module_imports_only_the_layers_below_it(path):
    package = tree.package_of(path)
    if path == "pdno/__init__.py":  # the public names
        return
    assert package in MAY_IMPORT, f"add the package of {path} to MAY_IMPORT of tools/tree.py"
    public = {tree.PACKAGE} if package == "cli" else set()  # it uses the public names
    above = packages(path) - MAY_IMPORT[package] - public
    assert not above, f"{package} may import {sorted(MAY_IMPORT[package])}, not {sorted(above)}"


def test_no_import_goes_against_the_flow():
    assert not measure.against_the_flow(tree.read_folder(ROOT))


def test_the_table_has_no_cycles():
    done, left = set(), dict(MAY_IMPORT)
    while left:
        ready = {package for package, below in left.items() if below - {package} <= done}
        assert ready, f"cycle among {sorted(left)}"
        done |= ready
        left = {package: below for package, below in left.items() if package not in ready}


def test_physics_and_learning_never_import_each_other():
    for path in FILES:
        if tree.package_of(path) in PHYSICS:
            assert not packages(path) & LEARNING, path
        if tree.package_of(path) in LEARNING:
            assert not packages(path) & PHYSICS, path


def test_the_library_imports_nothing_on_top_of_it():
    assert {*LIBRARY, *TOP} == set(MAY_IMPORT)
    for path in FILES:
        if tree.package_of(path) in LIBRARY:
            assert not packages(path) & TOP, path


def test_modules_import_each_other_without_cycles():
    """Not even within a package; imports for type checking count, as a reader follows them."""
    done, left = set(), {path: targets - {path} for path, targets in IMPORTS.items()}
    # an `__init__` re-exports what is below it, and modules below import their neighbours
    left = {p: {t for t in ts if not t.endswith("__init__.py")} for p, ts in left.items()}
    while left:
        ready = {path for path, targets in left.items() if targets <= done}
        assert ready, f"cycle among {sorted(left)}"
        done |= ready
        left = {path: targets for path, targets in left.items() if path not in ready}


def test_matplotlib_is_for_figures_only():
    homes = ("pdno/figures/", "pdno/report/", "pdno/paper/")
    assert all(path.startswith(homes) for path in users("matplotlib", "mpl_toolkits"))


def test_nothing_is_ever_unpickled():
    assert not users("pickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal")
    assert not users("torch.load", "torch.hub")
    for path in FILES:
        for node in nodes(path, ast.Attribute):
            assert ast.unparse(node) not in ("torch.load", "torch.hub", "torch.jit.load"), path
        for node in nodes(path, ast.keyword):
            assert node.arg not in ("allow_pickle", "weights_only"), path
        for node in nodes(path, ast.Call):
            assert ast.unparse(node.func) not in ("eval", "exec"), path


def test_the_fast_fourier_transform_has_one_home():
    modules = ("torch.fft", "numpy.fft", "scipy.fft", "np.fft")
    homes = {"pdno/spectral/fourier.py", "pdno/solvers/elliptic.py"}
    assert users(*modules) <= homes
    for path in set(FILES) - homes:
        assert not {ast.unparse(node) for node in nodes(path, ast.Attribute)} & {*modules}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import pdno.spectral.grid", {"pdno.spectral.grid"}),
        ("from pdno.spectral.grid import Grid", {"pdno.spectral.grid.Grid"}),
        ("from pdno import data, theory", {"pdno.data", "pdno.theory"}),
        ("def f():\n    from pdno.data import dataset", {"pdno.data.dataset"}),
        ("if TYPE_CHECKING:\n    import pdno.cli", {"pdno.cli"}),
        ("from .shards import x", {"pdno.data.shards.x"}),
        ("from ..fields import parameters", {"pdno.fields.parameters"}),
        ("from .. import networks", {"pdno.networks"}),
        ("import_module('pdno.training')", {"pdno.training"}),
        ("importlib.import_module('pdno.training')", {"pdno.training"}),
    ],
)
def test_the_reader_of_imports_misses_nothing(source, expected):
    assert set(tree.imported_names(source, "pdno/data/here.py")) == expected


def test_imports_lead_to_the_files_that_define_a_name():
    sources = {
        "pdno/__init__.py": "from pdno.data import Shard as Shard\n",
        "pdno/data/__init__.py": "from pdno.data.shards import Shard as Shard\n",
        "pdno/data/shards.py": "class Shard: ...\n",
        "pdno/cli.py": "from pdno import Shard\nimport pdno.data.shards\n",
    }
    assert tree.module_imports(sources)["pdno/cli.py"] == {"pdno/data/shards.py"}
    assert tree.package_imports(sources) == {("cli", "data"): 1}
