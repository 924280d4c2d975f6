"""The package as text: its files, what they import, and the order of its packages.

`MAY_IMPORT` is the layout. A package imports itself and the packages listed for it, nothing else;
`tests/test_layers.py` enforces the table, the architecture page and the size report read it.
"""

import ast
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

Sources = dict[str, str]
"""Path from the root of the repository -> text, of Python and C files."""

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "pdno"
SUFFIXES = (".py", ".c", ".cpp", ".h")

FOUNDATION = {"interface", "files", "spectral"}
PHYSICS = {"fields", "equations", "solvers"}
LEARNING = {"native", "symbols", "operators", "networks"}
LIBRARY = {*FOUNDATION, *PHYSICS, *LEARNING}
LIBRARY |= {"figures", "data", "training", "evaluation", "theory", "exports", "runs", "report"}
LIBRARY |= {"discovery"}
TOP = {"paper", "benchmark", "laboratory", "cli"}

MAY_IMPORT: dict[str, set[str]] = {
    "interface": set(),
    "files": {"interface"},
    "spectral": {"interface"},
    "figures": FOUNDATION,
    "fields": FOUNDATION,
    "equations": FOUNDATION,
    "solvers": {*FOUNDATION, "equations"},
    "data": {*FOUNDATION, *PHYSICS, "figures"},
    "native": FOUNDATION,
    "symbols": FOUNDATION,
    "operators": {*FOUNDATION, "symbols", "native"},
    "networks": {*FOUNDATION, "symbols", "operators"},
    "training": {*FOUNDATION, *LEARNING, "figures", "data"},
    "evaluation": {*FOUNDATION, *LEARNING, "figures", "data", "training"},
    "theory": {*FOUNDATION, *LEARNING, "figures"},
    "discovery": {*FOUNDATION, *PHYSICS, "symbols", "figures", "data"},
    "exports": {*FOUNDATION, *LEARNING, "training", "evaluation"},
    "runs": LIBRARY - {"report"},
    "report": LIBRARY,
    "paper": LIBRARY,
    "benchmark": LIBRARY,
    "laboratory": LIBRARY,
    "cli": LIBRARY | TOP,
}
"""Which packages each package may import besides itself, in the order of the data flow."""
FLOW = tuple(MAY_IMPORT)


def read_folder(root: Path) -> Sources:
    """The files of a working tree."""
    paths = sorted(path for path in (root / PACKAGE).rglob("*") if path.suffix in SUFFIXES)
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def read_revision(root: Path, revision: str) -> Sources:
    """The files of a commit, from the history; nothing is checked out."""
    listing = _git(root, "ls-tree", "-r", "--name-only", revision, f"{PACKAGE}/").splitlines()
    paths = sorted(path for path in listing if path.endswith(SUFFIXES))
    return {path: _git(root, "show", f"{revision}:{path}") for path in paths}


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout


@cache
def parse(text: str) -> ast.Module:
    """A Python file as a syntax tree."""
    return ast.parse(text)


def python_files(sources: Sources) -> Sources:
    """The Python files alone."""
    return {path: text for path, text in sources.items() if path.endswith(".py")}


def package_of(path: str) -> str:
    """The package of a file; a module beside the packages is one, `__main__` belongs to `cli`."""
    _, first, *inside = path.split("/")
    name = first if inside else first.removesuffix(".py").replace("__main__", "cli")
    return name if inside or name in MAY_IMPORT else PACKAGE


def first_line(text: str) -> str:
    """The first line of a module's docstring, or an empty string."""
    return (ast.get_docstring(parse(text)) or "").partition("\n")[0]


def module_imports(sources: Sources) -> dict[str, set[str]]:
    """Python file -> files of the package that it imports, anywhere in it.

    A name that an `__init__` re-exports, as in `from pdno.symbols import Symbol`, counts for the
    module that defines it.
    """
    names = {path: set(imported_names(text, path)) for path, text in python_files(sources).items()}
    modules = {_dotted(path): path for path in names}
    exported = {
        f"{_dotted(path)}.{name.rpartition('.')[2]}": name
        for path, imported in names.items()
        if path.endswith("/__init__.py")
        for name in imported
    }
    return {
        path: {_file_of(name, modules, exported) for name in imported} - {path, ""}
        for path, imported in names.items()
    }


def _dotted(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imported_names(text: str, path: str) -> Iterator[str]:
    """Dotted names that a file imports, also by `import_module("name")`, inside functions and for
    type checking."""
    home = path.split("/")[:-1]
    for node in ast.walk(parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = home[: len(home) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call):
            function = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if function in ("import_module", "__import__"):
                yield from (str(a.value) for a in node.args if isinstance(a, ast.Constant))


def _file_of(name: str, modules: dict[str, str], exported: dict[str, str]) -> str:
    """The file of a dotted name, or of the module that has it; "" outside the package."""
    for _ in range(3):  # an `__init__` may re-export what another one re-exports
        name = name if name in modules else exported.get(name, name)
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return modules.get(name, "")


def package_imports(sources: Sources) -> Counter[tuple[str, str]]:
    """(package, package that it imports) -> number of its files that do.

    `pdno/__init__.py`, which holds the public names, does not count.
    """
    public = f"{PACKAGE}/__init__.py"
    triples = {
        (package_of(path), package_of(target), path)
        for path, targets in module_imports(sources).items()
        for target in targets
        if public not in (path, target) and package_of(path) != package_of(target)
    }
    return Counter((package, used) for package, used, _ in sorted(triples))
