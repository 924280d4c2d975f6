"""Print the size of the package and where it is hard to read.

    python tools/measure.py                     the working tree
    python tools/measure.py --revision REV      a commit
    python tools/measure.py --compare REV       a commit beside the working tree
    python tools/measure.py --list              every place that a number counts

The numbers point at code to look at. They are not rules, and no build fails because of them.
"""

import argparse
import ast
import keyword
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations

import tree
from tree import FLOW, LIBRARY, ROOT, Sources, python_files

LONG, WIDE = 40, 7
RUN, DIFFERENT, TOO_COMMON = 6, 5, 8

IGNORE = re.compile(r"#\s*type:\s*ignore")
ANY = re.compile(r"\bAny\b")
STRING = re.compile(r"""[a-z]{0,2}("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""", re.IGNORECASE)
WORD = re.compile(r"[A-Za-z_]\w*|\d[\w.]*")
COMMENT = ("#", "//", "/*")
PARTS = {
    "library": {*LIBRARY, tree.PACKAGE, "portable"},
    "paper and benchmark": {"paper", "benchmark", "experiments"},
    "laboratory": {"laboratory"},
    "command line": {"cli"},
}
"""Packages by what they are for; the names of an earlier layout are listed, too."""


def sizes(sources: Sources) -> dict[str, str]:
    """The size of a tree; lines are all lines of a file."""
    lines = {path: text.count("\n") for path, text in sources.items()}
    python = {path: lines[path] for path in python_files(sources)}
    modules = [python[path] for path in python if not path.endswith("/__init__.py")]
    largest = max(python, key=python.__getitem__)
    widest = max(functions(sources), key=lambda function: function[2], default=("", 0, 0))
    table = {
        "Python files": f"{len(python):,}",
        "Python lines": f"{sum(python.values()):,}",
    }
    for name, packages in PARTS.items():
        count = sum(n for path, n in python.items() if tree.package_of(path) in packages)
        table[f"  {name}"] = f"{count:,}"
    return table | {
        "C lines": f"{sum(lines.values()) - sum(python.values()):,}",
        "median file, without __init__": f"{statistics.median(modules):g}",
        "largest file": f"{python[largest]:,} ({largest.partition('/')[2]})",
        "parameters of the widest function": f"{widest[2]} ({widest[0]})",
    }


def places(sources: Sources) -> dict[str, list[str]]:
    """Where a tree is hard to read, by the name of the measure."""
    measured = list(functions(sources))
    files = python_files(sources)
    return {
        f"functions over {LONG} lines": [f"{n} {f}" for f, n, _ in measured if n > LONG],
        f"functions of more than {WIDE} parameters": [
            f"{n} {f}" for f, _, n in measured if n > WIDE
        ],
        "uses of Any": _matches(files, ANY),
        "type: ignore": _matches(files, IGNORE),
        "modules with one importer": single_importers(sources),
        "imports against the flow": against_the_flow(sources),
        "pairs of files with repeated runs": repeated_runs(sources),
    }


def _matches(files: Sources, pattern: re.Pattern[str]) -> list[str]:
    """The path of a file once for every match."""
    return [path for path, text in files.items() for _ in pattern.findall(text)]


def functions(sources: Sources) -> Iterator[tuple[str, int, int]]:
    """Name, lines and parameters of every function and method, nested ones too.

    Lines run from `def` to the end, without the docstring; self and cls are not parameters.
    """
    for path, text in python_files(sources).items():
        for node in ast.walk(tree.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                docstring = node.body[:1] if ast.get_docstring(node) is not None else []
                lines = len(_span(node)) - sum(len(_span(part)) for part in docstring)
                signature = node.args
                named = [*signature.posonlyargs, *signature.args, *signature.kwonlyargs]
                named += [star for star in (signature.vararg, signature.kwarg) if star]
                parameters = sum(part.arg not in ("self", "cls") for part in named)
                yield f"{path.partition('/')[2]} {node.name}", lines, parameters


def _span(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def single_importers(sources: Sources) -> list[str]:
    """Modules that exactly one other file imports.

    An `__init__` is not such a module; as an importer it counts, since what it exports is public.
    """
    importers = defaultdict(list)
    for path, targets in tree.module_imports(sources).items():
        for target in targets:
            importers[target].append(path)
    alone = sorted(path for path, users in importers.items() if len(users) == 1)
    return [f"{path} < {importers[path][0]}" for path in alone if "/__init__" not in path]


def against_the_flow(sources: Sources) -> list[str]:
    """Imports of a later package, once per importing file."""
    order = {package: position for position, package in enumerate(FLOW)}
    return [
        f"{package} imports {used}"
        for package, used in tree.package_imports(sources).elements()
        if order.get(used, len(FLOW)) > order.get(package, len(FLOW))
    ]


def repeated_runs(sources: Sources) -> list[str]:
    """Pairs of files (also a file and itself) that share a run of six lines of code.

    A run is shared if its lines are the same to the letter, or of the same shape: names, strings
    and numbers folded, and at least five of its lines different from each other, as lists of
    fields all look alike. Blank lines, comments, docstrings, imports and lone punctuation are
    skipped. A run in more than eight places is idiom, not repetition.
    """
    starts = defaultdict(list)
    for path, text in sources.items():
        code = list(_code(path, text))
        for start in range(len(code) - RUN + 1):
            numbers, lines, shapes = zip(*code[start : start + RUN], strict=True)
            for run in {lines, shapes} if len(set(shapes)) >= DIFFERENT else {lines}:
                starts[run].append((path, start, numbers[0]))
    pairs: dict[tuple[str, str], str] = {}
    for occurrences in starts.values():
        for (path, start, line), (other, later, again) in combinations(occurrences, 2):
            if len(occurrences) <= TOO_COMMON and (path != other or later - start >= RUN):
                pairs.setdefault((path, other), f"{path}:{line} ~ {other}:{again}")
    return sorted(pairs.values())


def _code(path: str, text: str) -> Iterator[tuple[int, str, str]]:
    """Number, content and shape of each line that counts."""
    skipped: set[int] = set()
    for node in ast.walk(tree.parse(text)) if path.endswith(".py") else ():
        prose = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.stmt) and (prose or isinstance(node, ast.Import | ast.ImportFrom)):
            skipped.update(_span(node))
    for number, line in enumerate(text.splitlines(), start=1):
        content = " ".join(line.split())
        if number not in skipped and WORD.search(content) and not content.startswith(COMMENT):
            shape = STRING.sub('"', content).partition("#")[0]
            yield number, content, WORD.sub(_fold, shape)


def _fold(word: re.Match[str]) -> str:
    return word[0] if keyword.iskeyword(word[0]) else "0" if word[0][0].isdigit() else "x"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--revision", metavar="REV", help="a commit instead of the working tree")
    parser.add_argument("--compare", metavar="REV", help="a commit to print beside it")
    parser.add_argument("--list", action="store_true", help="print what the numbers count")
    options = parser.parse_args()
    columns, listed = {}, {}
    for revision in [*filter(None, [options.compare]), options.revision]:
        try:
            sources = tree.read_revision(ROOT, revision) if revision else tree.read_folder(ROOT)
        except (OSError, subprocess.CalledProcessError):
            print(f"the history has no commit {revision}", file=sys.stderr)
            continue
        listed = places(sources)
        counts = {name: f"{len(entries):,}" for name, entries in listed.items()}
        columns[revision or "working tree"] = sizes(sources) | counts
    for name in ["", *next(iter(columns.values()), ())]:
        cells = [column.get(name, title) for title, column in columns.items()]
        print(f"{name:<40}" + "".join(f"{cell:<34}" for cell in cells).rstrip())
        print("".join(f"    {entry}\n" for entry in listed.get(name, ()) if options.list), end="")


if __name__ == "__main__":
    main()
