"""What may import what. Every import counts, also inside functions and for type checking.

Layer 0 is the modules beside `__init__`. Above it, data flow from physics (fields, equations,
solvers) to datasets, and learning (symbols, operators, networks, training) never meets physics.
"""

import ast
from pathlib import Path

import pytest

import pdno

ROOT = Path(pdno.__file__).parent
BASE = "layer 0"
PHYSICS = {"fields", "equations", "solvers"}
LEARNING = {"symbols", "operators", "networks", "training"}
BELOW_EXPERIMENTS = {*PHYSICS, *LEARNING, "native", "data", "evaluation", "report", "theory"}
BELOW_EXPERIMENTS |= {"portable"}

# Which packages a package may import besides itself and layer 0.
MAY_IMPORT = {
    BASE: set(),
    "fields": set(),
    "equations": set(),
    "symbols": set(),
    "solvers": {"equations"},
    "native": set(),
    "operators": {"symbols", "native"},
    "data": {"fields", "equations", "solvers"},
    "networks": {"operators", "symbols"},
    "training": {"data", "symbols", "operators", "networks"},
    "evaluation": {"training", "data", "symbols"},
    "portable": {"training", "networks", "operators", "symbols"},
    "report": {"evaluation"},
    "theory": {"symbols", "operators", "networks"},
    "experiments": BELOW_EXPERIMENTS,
    "laboratory": {*BELOW_EXPERIMENTS, "experiments"},
    "cli": {"data", "evaluation", "experiments", "laboratory", "report"},
    "__main__": {"cli"},
}

MODULES = sorted(ROOT.rglob("*.py"))


def package_of(path):
    """The package of a file, by its place."""
    place = path.relative_to(ROOT)
    if len(place.parts) > 1:
        return place.parts[0]
    return place.stem if place.stem in ("__init__", "__main__", "cli") else BASE


def package_named(module):
    """The package of a module of ours, by its name."""
    first = module.split(".")[1] if "." in module else ""
    if first and (ROOT / first).is_dir():
        return first
    known = (ROOT / f"{first}.py").is_file()
    return package_of(ROOT / f"{first}.py") if known else "__init__"


def imports(source, home=""):
    """Names of the modules that a file imports, wherever in it; `home` is its own package."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = home.split(".")[: len(home.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            # `from pdno import fourier` imports a module, too
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and called(node) in ("import_module", "__import__"):
            yield from (str(a.value) for a in node.args if isinstance(a, ast.Constant))


def called(node):
    function = node.func
    return getattr(function, "id", getattr(function, "attr", ""))


def every_import(path):
    home = ".".join(["pdno", *path.relative_to(ROOT).parts[:-1]])
    return set(imports(path.read_text(encoding="utf-8"), home))


def packages(path):
    """Our packages that a file imports."""
    return {package_named(name) for name in every_import(path) if name.startswith("pdno")}


def nodes(path, kind):
    tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [node for node in tree if isinstance(node, kind)]


def users(*modules):
    """Files that import one of some foreign modules, or something of them."""
    return {
        show(path)
        for path in MODULES
        for name in every_import(path)
        if any(f"{name}.".startswith(f"{module}.") for module in modules)
    }


def show(path):
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", MODULES, ids=show)
def test_a_module_imports_only_the_layers_below_it(path):
    package = package_of(path)
    if package == "__init__":  # the public names
        return
    assert package in MAY_IMPORT, f"give {package} its place in the table of layers"
    allowed = {package, BASE, *MAY_IMPORT[package]}
    above = packages(path) - allowed
    assert not above, f"{package} may import {sorted(allowed)}, not {sorted(above)}"


def test_the_table_has_no_circles():
    done, left = set(), dict(MAY_IMPORT)
    while left:
        ready = {package for package, below in left.items() if below <= done}
        assert ready, f"circle among {sorted(left)}"
        done |= ready
        left = {package: below for package, below in left.items() if package not in ready}


def test_physics_and_learning_never_import_each_other():
    for path in MODULES:
        if package_of(path) in PHYSICS:
            assert not packages(path) & LEARNING, path
        if package_of(path) in LEARNING:
            assert not packages(path) & PHYSICS, path
        if package_of(path) == "report":
            assert not packages(path) & {*LEARNING, *PHYSICS}, path


def test_matplotlib_is_for_reports_only():
    assert all(name.startswith("report/") for name in users("matplotlib", "mpl_toolkits"))


def test_nothing_is_ever_unpickled():
    assert not users("pickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal")
    assert not users("torch.load", "torch.hub")
    for path in MODULES:
        for node in nodes(path, ast.Attribute):
            assert ast.unparse(node) not in ("torch.load", "torch.hub", "torch.jit.load"), path
        for node in nodes(path, ast.keyword):
            assert node.arg not in ("allow_pickle", "weights_only"), path
        for node in nodes(path, ast.Call):
            assert ast.unparse(node.func) not in ("eval", "exec"), path


def test_the_fast_fourier_transform_has_one_home():
    modules = ("torch.fft", "numpy.fft", "scipy.fft", "np.fft")
    homes = {"fourier.py", "solvers/elliptic.py"}
    assert users(*modules) <= homes
    for path in MODULES:
        if show(path) not in homes:
            assert not {ast.unparse(node) for node in nodes(path, ast.Attribute)} & {*modules}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import pdno.spectral.grid", {"pdno.spectral.grid"}),
        ("from pdno.spectral.grid import Grid", {"pdno.spectral.grid.Grid"}),
        ("from pdno import grid, fourier", {"pdno.spectral.grid", "pdno.spectral.fourier"}),
        ("def f():\n    from pdno.data import dataset", {"pdno.data.dataset"}),
        ("if TYPE_CHECKING:\n    import pdno.cli", {"pdno.cli"}),
        ("from .shards import x", {"pdno.data.shards.x"}),
        ("from ..fields import gaussian", {"pdno.fields.gaussian"}),
        ("from .. import networks", {"pdno.networks"}),
        ("import_module('pdno.training')", {"pdno.training"}),
        ("importlib.import_module('pdno.training')", {"pdno.training"}),
    ],
)
def test_the_reader_of_imports_misses_nothing(source, expected):
    assert set(imports(source, "pdno.data")) == expected


def test_the_names_of_modules_lead_to_their_packages():
    assert (
        package_named("pdno.spectral.grid.Grid") == package_named("pdno.spectral.calculus") == BASE
    )
    assert package_named("pdno.data.problems.Problem") == package_named("pdno.data") == "data"
    assert package_named("pdno.cli.main") == "cli" and package_named("pdno") == "__init__"
    assert package_named("pdno.networks.published_weights") == "networks"
    assert package_named("pdno.NavierStokes") == "__init__"
