"""Draw the layout of the package and list its files, both from the code.

    python tools/draw_architecture.py           write the picture and the list
    python tools/draw_architecture.py --check   only report what is out of date

The picture is `docs/images/architecture.svg`; the list is the part of `docs/architecture.md`
between two markers. Every path that the page names must exist.
"""

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from html import escape
from itertools import pairwise
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

import tree
from tree import FLOW, PACKAGE, ROOT, Sources, first_line

PICTURE = Path("docs/images/architecture.svg")
PAGE = Path("docs/architecture.md")
START = "<!-- packages: written by tools/draw_architecture.py -->"
END = "<!-- end of packages -->"
PATH = re.compile(r"`((?:pdno|tests|tools|docs|examples|results)/[\w./-]*)")

WIDTH, HEIGHT, GAP, TITLE = 168, 96, 22, 30
"""Of a box, between two boxes, and above a row, in pixels."""
ROWS = (
    ("physics", "Physics: makes the data", ("fields", "equations", "solvers", "data")),
    ("learning", "Learning: makes the operator", ("symbols", "operators", "networks", "training")),
    (
        "result",
        "What comes of it",
        ("theory", "exports", "discovery", "evaluation", "runs", "report"),
    ),
    ("top", "On top, imported by nothing", ("paper", "benchmark", "laboratory", "cli")),
    ("base", "Imported by all of them", ("interface", "files", "spectral", "figures", "native")),
)
"""Kind, title and packages of each row, from left to right; "" leaves a column empty."""
FLOWS = (
    ("fields", "equations", "solvers", "data", "training"),
    ("symbols", "operators", "networks", "training", "evaluation", "runs", "report"),
)
"""The way of a sample, and that of a network."""
HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>The packages of pdno in the order of the data flow</title>
<style>
text {{ font: 11px Helvetica, Arial, "Liberation Sans", sans-serif; fill: #24292f }}
.name {{ font-size: 15px; font-weight: bold }} .files {{ text-anchor: end }}
.title {{ font-size: 12.5px; font-weight: bold }} .title, .files {{ fill: #57606a }}
.page {{ fill: #fcfcfa }} .box {{ fill: #fff; stroke-width: 1.5 }} .base {{ stroke: #57606a }}
.physics {{ stroke: #b35900 }} .learning {{ stroke: #1a7f4b }} .result {{ stroke: #33608f }}
.top {{ stroke: #7a4f9e }} .head {{ fill: #7fa6d1 }}
.flow {{ fill: none; stroke: #7fa6d1; stroke-width: 3; marker-end: url(#head) }}
@media (prefers-color-scheme: dark) {{
  text {{ fill: #e6edf3 }} .title, .files {{ fill: #a5afba }} .page {{ fill: #14181d }}
  .box {{ fill: #1c2229 }}
}}
</style>
<marker id="head" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="4" markerHeight="4"
 orient="auto"><path class="head" d="M0 0L8 4L0 8Z"/></marker>
<rect class="page" width="{width}" height="{height}" rx="10"/>
"""


class Box(NamedTuple):
    """A package in the picture."""

    kind: str
    left: int
    top: int


BOXES = {
    package: Box(kind, GAP + column * (WIDTH + GAP), TITLE + GAP + row * (HEIGHT + TITLE + GAP))
    for row, (kind, _, packages) in enumerate(ROWS)
    for column, package in enumerate(packages)
    if package
}


def files_by_package(sources: Sources) -> dict[str, Sources]:
    """The Python files of every package, in the order of the flow."""
    packages: dict[str, Sources] = defaultdict(dict)
    for path, text in tree.python_files(sources).items():
        packages[tree.package_of(path)][path] = text
    packages.pop(PACKAGE, None)  # the public names
    for package in packages:
        if package not in FLOW or package not in BOXES:
            remedy = "add it to MAY_IMPORT of tools/tree.py and ROWS of tools/draw_architecture.py"
            raise SystemExit(f"{PACKAGE}/{package} is not part of the layout: {remedy}")
    return {package: packages[package] for package in FLOW if package in packages}


def about(package: str, files: Sources) -> str:
    """The first line of the docstring of a package, or of a module beside the packages."""
    homes = (f"{PACKAGE}/{package}/__init__.py", f"{PACKAGE}/{package}.py")
    return first_line("".join(files.get(home, "") for home in homes))


def draw(sources: Sources) -> str:
    """The picture: the packages in rows, and the flow of data through them."""
    width = GAP + max(len(packages) for _, _, packages in ROWS) * (WIDTH + GAP)
    height = TITLE + len(ROWS) * (HEIGHT + TITLE + GAP)
    parts = [HEAD.format(width=width, height=height)]
    for _, title, packages in ROWS:
        first = BOXES[packages[0]]
        parts.append(_text(first.left, first.top - 10, "title", title))
    edges = dict.fromkeys(edge for flow in FLOWS for edge in pairwise(flow))
    parts += [f'<path class="flow" d="{_path(BOXES[a], BOXES[b])}"/>' for a, b in edges]
    for package, files in files_by_package(sources).items():
        parts += _box(package, files)
    return "\n".join(parts) + "\n</svg>\n"


def _path(start: Box, end: Box) -> str:
    """An arrow to the neighbour on the right, or to the one below."""
    if start.top == end.top:
        y = start.top + HEIGHT // 2
        return f"M{start.left + WIDTH} {y}L{end.left - 4} {y}"
    middle = start.left + WIDTH // 2
    return f"M{middle} {start.top + HEIGHT}L{middle} {end.top - 4}"


def _box(package: str, files: Sources) -> Iterator[str]:
    """Name, number of files, and the docstring's first line."""
    kind, left, top = BOXES[package]
    frame = f'x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}" rx="7"'
    yield f'<rect class="box {kind}" {frame}/>'
    yield _text(left + 10, top + 22, "name", package)
    yield _text(left + WIDTH - 10, top + 21, "files", f"{len(files)} file{'s' * (len(files) > 1)}")
    most = (HEIGHT - 36) // 14
    lines = wrap(about(package, files).replace("`", "").rstrip("."), (WIDTH - 16) * 10 // 60)
    lines = [*lines[: most - 1], f"{lines[most - 1]} …"] if len(lines) > most else lines
    for number, line in enumerate(lines):
        yield _text(left + 10, top + 40 + 14 * number, "line", line)


def _text(x: float, y: float, kind: str, content: str) -> str:
    return f'<text class="{kind}" x="{x:.0f}" y="{y:.0f}">{escape(content)}</text>'


def list_packages(sources: Sources) -> str:
    """The written part of the page: every package with its files."""
    lines = list[str]()
    for package, files in files_by_package(sources).items():
        lines += [
            f"### {package}",
            "",
            _markdown(about(package, files)) or "No docstring yet.",
            "",
        ]
        lines += ["| file | content |", "|---|---|"]
        for path, text in files.items():
            if not path.endswith("/__init__.py"):
                lines.append(f"| `{path}` | {_markdown(first_line(text))} |")
        lines.append("")
    return "\n".join(lines)


def _markdown(text: str) -> str:
    """Text with everything escaped that has a meaning in Markdown, except in code."""
    pieces = text.split("`")
    pieces[::2] = (re.sub(r"([*_|$<\[]|(?<=\])\()", r"\\\1", piece) for piece in pieces[::2])
    return "`".join(pieces)


def missing_paths(page: str, root: Path) -> list[str]:
    """Paths in the code of a page that do not exist; NAME stands for a file yet to be written."""
    paths = [path for path in PATH.findall(page) if not (root / path).exists()]
    return [path for path in paths if "NAME" not in path or not (root / path).parent.is_dir()]


def main() -> int:
    """Write or check the picture and the page; 0 if both agree with the code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    sources = tree.read_folder(ROOT)
    before, _, rest = (ROOT / PAGE).read_text(encoding="utf-8").partition(START)
    page = f"{before}{START}\n\n{list_packages(sources)}\n{END}{rest.partition(END)[2]}"
    problems = [f"{PAGE} names {path}, which does not exist" for path in missing_paths(page, ROOT)]
    for path, text in {PICTURE: draw(sources), PAGE: page}.items():
        if (ROOT / path).is_file() and (ROOT / path).read_text(encoding="utf-8") == text:
            continue
        if check:
            problems.append(f"{path} is out of date: run python tools/draw_architecture.py")
        else:
            (ROOT / path).write_text(text, encoding="utf-8")
            print(f"wrote {path}")
    print("".join(f"{problem}\n" for problem in problems), end="", file=sys.stderr)
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
