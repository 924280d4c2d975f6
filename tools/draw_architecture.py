"""The map of the package, drawn from its code.

    python tools/draw_architecture.py           write the picture and the page anew
    python tools/draw_architecture.py --check   only say what is out of step with the code

The picture is `docs/images/architecture.svg`. Of `docs/architecture.md` the part between two
markers is written, and every path that the page names must exist.
"""

import argparse
import re
import sys
from collections import Counter, defaultdict
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
START = "<!-- rooms: written by tools/draw_architecture.py -->"
END = "<!-- end of rooms -->"
PATH = re.compile(r"`((?:pdno|tests|tools|docs|examples|benchmarks)/[\w./-]*)")

Point = tuple[float, float]
Edge = tuple[str, str]
"""A room and one that imports it: the way of the data."""


class Box(NamedTuple):
    """Where a room stands in the picture."""

    kind: str
    left: int
    top: int
    width: int = 176
    height: int = 92

    def point(self, side: str, fraction: float) -> Point:
        """A point of the frame, by the fraction of a side."""
        across, down = {"left": 0, "right": 1}.get(side), {"top": 0, "bottom": 1}.get(side)
        x = self.left + self.width * (fraction if across is None else across)
        return x, self.top + self.height * (fraction if down is None else down)


BOXES = {
    "fields": Box("physics", 26, 62),
    "equations": Box("physics", 26, 192),
    "solvers": Box("physics", 26, 322),
    PACKAGE: Box("shared", 286, 62, height=222),
    "data": Box("shared", 286, 322),
    "native": Box("learning", 546, 62),
    "operators": Box("learning", 546, 192),
    "networks": Box("learning", 546, 322),
    "symbols": Box("learning", 806, 62, height=222),
    "theory": Box("result", 806, 322),
    "training": Box("result", 286, 462),
    "evaluation": Box("result", 546, 462),
    "report": Box("result", 806, 462),
    "portable": Box("result", 286, 592),
    "laboratory": Box("command", 806, 592, height=92),
    "experiments": Box("command", 26, 722, width=696, height=78),
    "cli": Box("command", 806, 722, height=78),
}
"""Rooms that import each other are neighbours: no arrow runs behind a box."""

PANELS = {
    "physics": "M14 30H214V426H14Z",
    "shared": "M274 30H474V426H274Z",
    "learning": "M534 30H994V296H734V426H534Z",
}
LABELS = (
    (26, 48, "title", "Physics"),
    (286, 48, "title", "Grid and data: both sides"),
    (546, 48, "title", "Learning"),
    (14, 482, "small", "Wide: the way of a sample, and that of"),
    (14, 498, "small", "a network; they meet in training."),
    (14, 514, "small", "Arrows: from what is imported to what"),
    (14, 530, "small", "imports it; numbers: files that do."),
    (14, 546, "small", f"The other rooms import {PACKAGE}/, too."),
)
WAYS = (
    ("symbols", "operators", "networks", "training"),
    ("fields", "equations", "solvers", "data", "training", "evaluation", "report"),
)
HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1008 818" role="img">
<title>The rooms of pdno and the way of the data through them</title>
<style>
text { font: 11px Helvetica, Arial, "Liberation Sans", sans-serif; fill: #24292f }
.name { font-size: 15px; font-weight: bold } .files { text-anchor: end }
.title { font-size: 12.5px; font-weight: bold; fill: #57606a } .small { fill: #57606a }
.paper { fill: #fcfcfa } .box { fill: #fff; stroke-width: 1.5 }
.way { fill: none; stroke: #cfe0f2; stroke-width: 18; marker-start: url(#along) }
.along { fill: none; stroke: #7fa6d1; stroke-width: 2 }
.arrow { fill: none; stroke: #57606a; marker-end: url(#head) } .head { fill: #57606a }
.count { text-anchor: middle; stroke: #fcfcfa; stroke-width: 4; paint-order: stroke }
.panel { stroke-width: 12; stroke-linejoin: round }
path.physics { fill: #fdf0e1; stroke: #fdf0e1 } rect.physics { stroke: #b35900 }
path.shared { fill: #eceff3; stroke: #eceff3 } rect.shared { stroke: #57606a }
path.learning { fill: #e7f4ec; stroke: #e7f4ec } rect.learning { stroke: #1a7f4b }
rect.result { stroke: #33608f } rect.command { stroke: #7a4f9e } .against { stroke: #d1242f }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .small, .title { fill: #a5afba } .count { stroke: #14181d }
  .paper { fill: #14181d } .box { fill: #1c2229 } .way { stroke: #28405a }
  .arrow { stroke: #a5afba } .against { stroke: #ff7b72 } .head { fill: #a5afba }
  path.physics { fill: #2d2317; stroke: #2d2317 } path.shared { fill: #222931; stroke: #222931 }
  path.learning { fill: #172a20; stroke: #172a20 }
}
</style>
<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9"
 markerUnits="userSpaceOnUse" orient="auto"><path class="head" d="M0 0L8 4L0 8Z"/></marker>
<marker id="along" viewBox="0 0 12 16" refX="0" refY="8" markerWidth="12" markerHeight="16"
 markerUnits="userSpaceOnUse" orient="auto"><path class="along" d="M4 2L9 8L4 14"/></marker>
<rect class="paper" width="1008" height="818" rx="10"/>
"""


def rooms_of(sources: Sources) -> dict[str, Sources]:
    """The Python files of every room, in the order of the flow."""
    rooms: dict[str, Sources] = defaultdict(dict)
    for path, text in tree.python_files(sources).items():
        rooms[tree.room_of(path)][path] = text
    for room in rooms:
        if room not in FLOW or room not in BOXES:
            cure = "put it into FLOW of tools/tree.py and BOXES of tools/draw_architecture.py"
            raise SystemExit(f"{PACKAGE}/{room} has no place in the map: {cure}")
    return {room: rooms[room] for room in FLOW if room in rooms}


def about(room: str, files: Sources) -> str:
    """What lives in a room: the first line of its docstring."""
    homes = {"cli": "cli.py", PACKAGE: "__init__.py"}
    return first_line(files.get(f"{PACKAGE}/{homes.get(room, f'{room}/__init__.py')}", ""))


def _uses(room: str, imports: Counter[Edge]) -> str:
    return ", ".join(f"{used} {imports[room, used]}" for used in FLOW if imports[room, used])


def draw(sources: Sources) -> str:
    """The picture: the rooms, the way of the data through them, and who imports whom."""
    rooms, imports = rooms_of(sources), tree.room_imports(sources)
    edges = {(used, room): number for (room, used), number in imports.items()}
    ways = [edge for way in WAYS for edge in pairwise(way) if rooms.keys() >= {*edge}]
    parts = [f'<path class="panel {kind}" d="{path}"/>' for kind, path in PANELS.items()]
    parts += [f'<path class="way" d="{_path(_curve(edge))}"/>' for edge in ways]
    parts += _arrows({edge: number for edge, number in edges.items() if _is_drawn(edge)})
    parts += [_text(*label) for label in LABELS]
    for kind, start, end in (("physics", 286, 220), ("learning", 462, 528)):
        members = [room for room in rooms if BOXES[room].kind == kind]
        number = sum(imports[room, PACKAGE] for room in members)
        parts += _arrow([(start, 90), (end, 90), (start, 90), (end, 90)], number)
    for room, files in rooms.items():
        parts += _box(room, files, _uses(room, imports))
    return HEAD + "\n".join(parts) + "\n</svg>\n"


def _is_drawn(edge: Edge) -> bool:
    """Not the arrows from a room that all use, nor into one that uses all."""
    commands = [room for room in edge if BOXES[room].kind == "command"]
    return edge == (PACKAGE, "data") or (PACKAGE not in edge and len(commands) != 1)


def _sides(edge: Edge) -> tuple[str, str]:
    """The sides of two boxes that face each other."""
    start, end = (BOXES[room] for room in edge)
    if start.left == end.left:
        return ("bottom", "top") if start.top < end.top else ("top", "bottom")
    return ("right", "left") if start.left < end.left else ("left", "right")


def _curve(edge: Edge, fractions: tuple[float, float] = (0.5, 0.5)) -> list[Point]:
    """The four points of a curve that leaves and meets two sides at right angles."""
    first, second = _sides(edge)
    x, y = BOXES[edge[0]].point(first, fractions[0])
    u, v = BOXES[edge[1]].point(second, fractions[1])
    middle_x, middle_y = (x + u) / 2, (y + v) / 2
    upright = first in ("top", "bottom")
    bends = [(x, middle_y), (u, middle_y)] if upright else [(middle_x, y), (middle_x, v)]
    return [(x, y), *bends, (u, v)]


def _path(curve: list[Point]) -> str:
    first, *others = (f"{x:.0f} {y:.0f}" for x, y in curve)
    return f"M{first}C{', '.join(others)}"


def _arrows(edges: dict[Edge, int]) -> Iterator[str]:
    """Arrows that share a side of a box are spread over it, in the order of their other ends."""
    sharing = defaultdict(list)
    for edge in edges:
        for end, side in enumerate(zip(edge, _sides(edge), strict=True)):
            other = BOXES[edge[1 - end]]
            sharing[side].append((other.top, other.left, edge, end))
    fractions = {}
    for ends in sharing.values():
        for place, (_, _, edge, end) in enumerate(sorted(ends), start=1):
            fractions[edge, end] = place / (len(ends) + 1)
    for edge, number in edges.items():
        curve = _curve(edge, (fractions[edge, 0], fractions[edge, 1]))
        yield from _arrow(curve, number, against=FLOW.index(edge[0]) > FLOW.index(edge[1]))


def _arrow(curve: list[Point], number: int, against: bool = False) -> Iterator[str]:
    width = f'stroke-width="{min(1 + 0.25 * number, 4):g}"'
    yield f'<path class="arrow{" against" * against}" {width} d="{_path(curve)}"/>'
    weights = (0.34, 0.43, 0.19, 0.04)  # of a Bézier curve near t = 0.3
    x = sum(weight * point[0] for weight, point in zip(weights, curve, strict=True))
    y = sum(weight * point[1] for weight, point in zip(weights, curve, strict=True))
    yield _text(x, y + 4, "count", str(number))


def _box(room: str, files: Sources, uses: str) -> Iterator[str]:
    """Name, number of files, and what the docstring says, or else the names of the files."""
    kind, left, top, width, height = BOXES[room]
    names = ", ".join(Path(path).stem for path in files if not path.endswith("__.py"))
    says = about(room, files).replace("`", "").rstrip(".") if room != PACKAGE else ""
    text = [says or names, *(["", names] if says and height > 200 else [])]
    text += [f"uses {uses}"] * (kind == "command")
    lines = [line for part in text for line in wrap(part, (width - 16) * 10 // 62) or [""]]
    most = (height - 36) // 14
    lines = [*lines[: most - 1], f"{lines[most - 1]} …"] if len(lines) > most else lines
    frame = f'x="{left}" y="{top}" width="{width}" height="{height}" rx="7"'
    yield f'<rect class="box {kind}" {frame}/>'
    yield _text(left + 10, top + 22, "name", room if room == "cli" else f"{room}/")
    yield _text(left + width - 10, top + 21, "small files", f"{len(files)} files")
    for place, line in enumerate(lines):
        yield _text(left + 10, top + 40 + 14 * place, "line", line)


def _text(x: float, y: float, kind: str, content: str) -> str:
    return f'<text class="{kind}" x="{x:.0f}" y="{y:.0f}">{escape(content)}</text>'


def list_rooms(sources: Sources) -> str:
    """The written part of the page: every room with its files."""
    imports, lines = tree.room_imports(sources), list[str]()
    for room, files in rooms_of(sources).items():
        used = _uses(room, imports)
        lines += [f"### {room}", "", _markdown(about(room, files)) or "No docstring yet.", ""]
        lines += [f"Imports, by number of files: {used}.", ""] if used else []
        lines += ["| file | what it is |", "|---|---|"]
        for path, text in files.items():
            if path != f"{PACKAGE}/{room}/__init__.py":
                lines.append(f"| `{path}` | {_markdown(first_line(text))} |")
        lines.append("")
    return "\n".join(lines)


def _markdown(text: str) -> str:
    """Text with all that would mean something in Markdown escaped, but for code."""
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
    page = f"{before}{START}\n\n{list_rooms(sources)}\n{END}{rest.partition(END)[2]}"
    problems = [f"{PAGE} names {path}, which does not exist" for path in missing_paths(page, ROOT)]
    for path, text in {PICTURE: draw(sources), PAGE: page}.items():
        if (ROOT / path).is_file() and (ROOT / path).read_text(encoding="utf-8") == text:
            continue
        if check:
            problems.append(f"{path} is out of step: run python tools/draw_architecture.py")
        else:
            (ROOT / path).write_text(text, encoding="utf-8")
            print(f"wrote {path}")
    print("".join(f"{problem}\n" for problem in problems), end="", file=sys.stderr)
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
