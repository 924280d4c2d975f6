"""Measures of the package: how large it is, and where it is hard to read.

    python tools/measure.py                     this tree
    python tools/measure.py --revision REV      a commit
    python tools/measure.py --compare REV       a commit, and beside it this tree
    python tools/measure.py --places            this tree, and what each number counts

They name places to look at, are no verdicts, and fail no build.
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
from tree import FLOW, ROOT, Sources, python_files

LONG, WIDE = 40, 7
RUN, DIFFERENT, TOO_COMMON = 6, 5, 8

IGNORE = re.compile(r"#\s*type:\s*ignore")
STRING = re.compile(r"""[a-z]{0,2}("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""", re.IGNORECASE)
WORD = re.compile(r"[A-Za-z_]\w*|\d[\w.]*")
COMMENT = ("#", "//", "/*")


def sizes(sources: Sources) -> dict[str, str]:
    """How large a tree is; lines are all lines of a file."""
    lines = {path: text.count("\n") for path, text in sources.items()}
    python = {path: lines[path] for path in python_files(sources)}
    modules = [python[path] for path in python if not path.endswith("/__init__.py")]
    largest = max(python, key=python.__getitem__)
    widest = max(functions(sources), key=lambda found: found[2], default=("", 0, 0))
    return {
        "Python files": f"{len(python):,}",
        "Python lines": f"{sum(python.values()):,}",
        "C lines": f"{sum(lines.values()) - sum(python.values()):,}",
        "median file, without __init__": f"{statistics.median(modules):g}",
        "largest file": f"{python[largest]:,} ({largest.partition('/')[2]})",
        "parameters of the widest function": f"{widest[2]} ({widest[0]})",
    }


def places(sources: Sources) -> dict[str, list[str]]:
    """Where a tree is hard to read, by the name of the measure."""
    found = list(functions(sources))
    ignored = {path: len(IGNORE.findall(text)) for path, text in python_files(sources).items()}
    return {
        f"functions over {LONG} lines": [f"{n} {f}" for f, n, _ in found if n > LONG],
        f"functions of more than {WIDE} parameters": [f"{n} {f}" for f, _, n in found if n > WIDE],
        "type: ignore": [path for path, number in ignored.items() for _ in range(number)],
        "modules with one importer": single_importers(sources),
        "imports against the flow": against_the_flow(sources),
        "pairs of files with repeated runs": repeated_runs(sources),
    }


def functions(sources: Sources) -> Iterator[tuple[str, int, int]]:
    """Place, lines and parameters of every function and method, nested ones too.

    Lines go from `def` to the end, without the docstring; parameters are all but self and cls.
    """
    for path, text in python_files(sources).items():
        for node in ast.walk(tree.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                docstring = node.body[:1] if ast.get_docstring(node) is not None else []
                lines = len(_span(node)) - sum(len(_span(part)) for part in docstring)
                given = node.args
                named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
                named += [star for star in (given.vararg, given.kwarg) if star]
                parameters = sum(one.arg not in ("self", "cls") for one in named)
                yield f"{path.partition('/')[2]} {node.name}", lines, parameters


def _span(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def single_importers(sources: Sources) -> list[str]:
    """Modules that exactly one other file imports.

    An `__init__` is no such module; as an importer it counts, as what it passes on is public.
    """
    importers = defaultdict(list)
    for path, targets in tree.module_imports(sources).items():
        for target in targets:
            importers[target].append(path)
    alone = sorted(path for path, users in importers.items() if len(users) == 1)
    return [f"{path} < {importers[path][0]}" for path in alone if "/__init__" not in path]


def against_the_flow(sources: Sources) -> list[str]:
    """Imports of a later room, counted by file."""
    order = {room: place for place, room in enumerate(FLOW)}
    return [
        f"{room} imports {used}"
        for room, used in tree.room_imports(sources).elements()
        if order.get(used, len(FLOW)) > order.get(room, len(FLOW))
    ]


def repeated_runs(sources: Sources) -> list[str]:
    """Pairs of files (also a file and itself) that share a run of six lines of code.

    A run is shared if its lines are the same to the letter, or of the same shape: names, strings
    and numbers folded, and at least five of its lines different from each other, as lists of
    fields all look alike. Blank lines, comments, docstrings, imports and lone punctuation are
    passed over. What stands in more than eight places is the language, not a repetition.
    """
    places = defaultdict(list)
    for path, text in sources.items():
        code = list(_code(path, text))
        for start in range(len(code) - RUN + 1):
            numbers, lines, shapes = zip(*code[start : start + RUN], strict=True)
            for run in {lines, shapes} if len(set(shapes)) >= DIFFERENT else {lines}:
                places[run].append((path, start, numbers[0]))
    pairs: dict[tuple[str, str], str] = {}
    for found in places.values():
        for (path, start, line), (other, later, again) in combinations(found, 2):
            if len(found) <= TOO_COMMON and (path != other or later - start >= RUN):
                pairs.setdefault((path, other), f"{path}:{line} ~ {other}:{again}")
    return sorted(pairs.values())


def _code(path: str, text: str) -> Iterator[tuple[int, str, str]]:
    """Number, content and shape of each line that counts."""
    passed: set[int] = set()
    for node in ast.walk(tree.parse(text)) if path.endswith(".py") else ():
        prose = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.stmt) and (prose or isinstance(node, ast.Import | ast.ImportFrom)):
            passed.update(_span(node))
    for number, line in enumerate(text.splitlines(), start=1):
        content = " ".join(line.split())
        if number not in passed and WORD.search(content) and not content.startswith(COMMENT):
            shape = STRING.sub('"', content).partition("#")[0]
            yield number, content, WORD.sub(_fold, shape)


def _fold(word: re.Match[str]) -> str:
    return word[0] if keyword.iskeyword(word[0]) else "0" if word[0][0].isdigit() else "x"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--revision", metavar="REV", help="a commit instead of the working tree")
    parser.add_argument("--compare", metavar="REV", help="a commit to print beside it")
    parser.add_argument("--places", action="store_true", help="print what the numbers count")
    chosen = parser.parse_args()
    columns, listed = {}, {}
    for revision in [*filter(None, [chosen.compare]), chosen.revision]:
        try:
            sources = tree.read_revision(ROOT, revision) if revision else tree.read_folder(ROOT)
        except (OSError, subprocess.CalledProcessError):
            print(f"no commit {revision} in the history here", file=sys.stderr)
            continue
        listed = places(sources)
        counts = {name: f"{len(found):,}" for name, found in listed.items()}
        columns[revision or "this tree"] = sizes(sources) | counts
    for name in ["", *next(iter(columns.values()), ())]:
        cells = [column.get(name, title) for title, column in columns.items()]
        print(f"{name:<40}" + "".join(f"{cell:<34}" for cell in cells).rstrip())
        print("".join(f"    {place}\n" for place in listed.get(name, ()) if chosen.places), end="")


if __name__ == "__main__":
    main()
