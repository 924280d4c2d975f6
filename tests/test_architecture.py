"""The drawn layout is that of the code, and the measures are exact, on a package made for it."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import draw_architecture  # noqa: E402
import measure  # noqa: E402
import tree  # noqa: E402

# The layout

YAML = sorted((ROOT / "pdno" / "paper").glob("*.yaml"))
OTHERS = ("pdno/__init__.pyi", *(str(path.relative_to(ROOT)) for path in YAML))
"""Files that the page names."""


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs the script on a tree; what it returns and what it complains of."""

    def run(root, *arguments):
        monkeypatch.setattr(draw_architecture, "ROOT", root)
        monkeypatch.setattr(sys, "argv", ["draw_architecture.py", *arguments])
        return draw_architecture.main(), capsys.readouterr().err

    return run


@pytest.fixture
def copy(tmp_path, run):
    """The tree as it is, to be changed."""
    for path in tree.read_folder(ROOT):
        write(tmp_path / path, (ROOT / path).read_text(encoding="utf-8"))
    for path in (draw_architecture.PAGE, draw_architecture.PICTURE, *OTHERS):
        write(tmp_path / path, (ROOT / path).read_text(encoding="utf-8"))
    for folder in ("tests", "tools"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    assert run(tmp_path, "--check") == (0, "")
    return tmp_path


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_picture_and_page_agree_with_the_code():
    command = [sys.executable, str(ROOT / "tools" / "draw_architecture.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_new_file_is_noticed_until_the_layout_is_drawn_again(copy, run):
    write(copy / "pdno/fields/waves.py", '"""Waves * of [one](kind)."""\n')
    failed, message = run(copy, "--check")
    assert failed
    assert "docs/architecture.md is out of date" in message
    assert "docs/images/architecture.svg is out of date" in message
    assert run(copy) == (0, "")
    assert run(copy, "--check") == (0, "")
    page = (copy / "docs/architecture.md").read_text(encoding="utf-8")
    assert r"| `pdno/fields/waves.py` | Waves \* of \[one]\(kind). |" in page


def test_a_package_outside_the_layout_is_named(copy, run):
    write(copy / "pdno/garden/__init__.py", "")
    with pytest.raises(
        SystemExit, match="pdno/garden is not part of the layout: add it to MAY_IMPORT"
    ):
        run(copy, "--check")


@pytest.mark.parametrize("path", ["pdno/fields/nowhere.py", "pdno/nowhere/NAME.py"])
def test_a_path_that_does_not_exist_is_named(copy, run, path):
    page = copy / "docs/architecture.md"
    write(page, f"See `{path}`.\n\n" + page.read_text(encoding="utf-8"))
    expected = f"docs/architecture.md names {path}, which does not exist\n"
    assert run(copy, "--check") == (1, expected)
    assert run(copy) == (1, expected)


def test_every_task_of_the_page_touches_three_files_at_most():
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    table = page.partition("| to add | touch | tests |\n")[2].partition("\n\n")[0]
    rows = [row.split("|")[1:4] for row in table.splitlines()[1:]]
    assert {"a symbol family", "a figure of the paper", "a training task"} <= {
        row[0].strip() for row in rows
    }
    for _, touched, tests in rows:
        assert 1 <= len(re.findall(r"`pdno/[^`]+`", touched)) <= 3
        assert re.fullmatch(r" `tests/[^`]+` ", tests)


def test_the_picture_shows_every_package_inside_its_frame():
    drawn = ElementTree.parse(ROOT / "docs/images/architecture.svg").getroot()
    width, height = map(float, drawn.attrib["viewBox"].split()[2:])
    texts = [element for element in drawn.iter() if element.tag.endswith("text")]
    names = {element.text for element in texts if element.attrib["class"] == "name"}
    assert names == draw_architecture.files_by_package(tree.read_folder(ROOT)).keys()
    for element in texts:
        assert 0 < float(element.attrib["x"]) < width and 0 < float(element.attrib["y"]) < height


def test_boxes_do_not_overlap():
    corners = [(box.left, box.top) for box in draw_architecture.BOXES.values()]
    assert len({*corners}) == len(corners)
    for left, top in corners:
        for other_left, other_top in corners:
            apart = abs(left - other_left) >= draw_architecture.WIDTH
            same = (left, top) == (other_left, other_top)
            assert same or apart or abs(top - other_top) >= draw_architecture.HEIGHT


# The measures


def lines(count):
    return "".join(f"    x = {number}\n" for number in range(count))


SAME = "".join(
    f"    {name} = call({name}, 1)[{name}:] {op} 'a'\n"
    for name, op in zip("abcdef", "+-*/%@", strict=True)
)
RENAMED = SAME.replace("call", "other").replace("'a'", '"b # c"').replace("1", "2.5e3")
IN_C = "int sum(void) {\nint a = 1;\nfor (;;)\na += 2;\nif (a)\nreturn a;\n}\n"

SMALL = {
    "pdno/__init__.py": "from pdno.spectral.grid import Grid as Grid\n",
    "pdno/spectral/grid.py": "class Grid:\n    pass\n",
    "pdno/cli.py": "import pdno.report.page\n",
    "pdno/data/__init__.py": '"""Data."""\nfrom pdno.data.shards import Shard as Shard\n',
    "pdno/data/shards.py": "from ..spectral.grid import Grid\nShard = Grid  # type: ignore\n",
    "pdno/data/reader.py": "import_module('pdno.data.writer')\n",
    "pdno/data/writer.py": "import torch  # type: ignore\nX = 'type: ignore'\n",
    "pdno/report/page.py": "def f():\n    from pdno.data import Shard\n",
    "pdno/fields/distributions.py": "from pdno.report import page\n",
    "pdno/native/sum.c": IN_C,
}


def measured(**files):
    return measure.places(SMALL | {f"pdno/{name}.py": text for name, text in files.items()})


def test_sizes_of_a_small_package():
    assert measure.sizes(SMALL) == {
        "Python files": "9",
        "Python lines": "14",
        "  library": "13",
        "  paper and benchmark": "0",
        "  laboratory": "0",
        "  command line": "1",
        "C lines": "7",
        "median file, without __init__": "2",
        "largest file": "2 (spectral/grid.py)",
        "parameters of the widest function": "0 (report/page.py f)",
    }


def test_modules_with_one_importer():
    """`grid` and `shards` have two: an __init__ counts, and so does a name taken through it."""
    assert measured()["modules with one importer"] == ["pdno/data/writer.py < pdno/data/reader.py"]
    assert "pdno/spectral/grid.py < pdno/data/shards.py" in measure.single_importers(
        SMALL | {"pdno/__init__.py": ""}
    )


def test_imports_against_the_flow():
    assert measured()["imports against the flow"] == ["fields imports report"]
    assert tree.package_imports(SMALL) == {
        ("cli", "report"): 1,
        ("data", "spectral"): 1,
        ("fields", "report"): 1,
        ("report", "data"): 1,
    }


def test_every_use_of_any_counts():
    text = "from typing import Any\nx: Any = 1  # Any\nAnything = 2\n"
    assert measured(loose=text)["uses of Any"] == ["pdno/loose.py"] * 3


def test_ignored_types_are_comments():
    assert measured()["type: ignore"] == ["pdno/data/shards.py", "pdno/data/writer.py"]


@pytest.mark.parametrize(
    ("text", "length"),
    [
        (f"def f():\n{lines(40)}", 41),
        (f"def f(\n    a,\n    b,\n):\n{lines(37)}", 41),
        (f'def f():\n    """One.\n\n    Two.\n    """\n{lines(39)}', 40),
        (f'def f():\n    """One."""\n{lines(40)}', 41),
        (f"@decorated\n@twice\nasync def f():\n{lines(39)}", 40),
        (f"def f():\n    # why\n\n{lines(38)}", 41),
    ],
)
def test_long_functions(text, length):
    """From `def` to the end with its whole signature, but without docstring and decorators."""
    ((_, length_measured, _),) = measure.functions({"pdno/long.py": text})
    assert length_measured == length
    assert len(measured(long=text)["functions over 40 lines"]) == (length > 40)


def test_nested_functions_count_in_themselves_and_in_those_around_them():
    inner = f"def inner():\n{lines(40)}".replace("\n", "\n    ")
    functions = measured(long=f"class C:\n  def outer(self):\n    {inner}")[
        "functions over 40 lines"
    ]
    assert functions == ["42 long.py outer", "41 long.py inner"]


@pytest.mark.parametrize(
    ("signature", "count"),
    [
        ("a, b, c, d, e, f, g", 7),
        ("self, a, b, c, d, e, f, g", 7),
        ("a, b, /, c, d=1, *args, e, f=2, **kwargs", 8),
        ("\n    a: int,\n    b: int,\n    c,\n    d,\n    e,\n    f,\n    g,\n    h,\n", 8),
        ("a=lambda b, c, d, e, f, g, h: b", 1),
    ],
)
def test_wide_functions(signature, count):
    text = f"def f({signature}):\n    pass\n"
    ((_, _, parameters),) = measure.functions({"pdno/wide.py": text})
    assert parameters == count
    wide = measured(wide=text)["functions of more than 7 parameters"]
    assert wide == [f"{count} wide.py f"] * (count > 7)


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        (SAME, SAME, True),
        (SAME, RENAMED, True),
        (SAME, RENAMED.replace("+", "-"), False),
        (SAME, "\n    # why\n".join(SAME.split("\n")), True),
        (SAME, "    import os\n".join(RENAMED.splitlines(keepends=True)), True),
        ("".join(SAME.splitlines(keepends=True)[:5]), SAME, False),
        (lines(6), lines(6), True),
        (lines(6), lines(6).replace("x", "y"), False),
        ("    '''" + SAME.replace("'", "") + "    '''\n", SAME, False),
    ],
    ids=["letters", "shape", "other", "comments", "imports", "five", "fields", "names", "prose"],
)
def test_repeated_runs(first, second, shared):
    places = measured(one=f"def f():\n{first}", two=f"def g(a):\n{second}")
    assert len(places["pairs of files with repeated runs"]) == shared


def test_repeated_runs_within_a_file_and_in_c():
    twice = f"def f():\n{SAME}\n\ndef g():\n{RENAMED}"
    assert measure.repeated_runs({"pdno/a.py": twice}) == ["pdno/a.py:1 ~ pdno/a.py:10"]
    assert measure.repeated_runs({"pdno/a.c": IN_C, "pdno/b.h": IN_C}) == [
        "pdno/a.c:1 ~ pdno/b.h:1"
    ]
    overlapping = "def f():\n" + lines(7).replace("6", "0")
    assert measure.repeated_runs({"pdno/a.py": overlapping}) == []


def test_what_stands_everywhere_is_no_repetition():
    files = {f"pdno/{number}.py": f"def f():\n{SAME}" for number in range(9)}
    assert measure.repeated_runs(files) == []
    del files["pdno/8.py"]
    assert len(measure.repeated_runs(files)) == 28


def test_a_revision_is_read_from_the_history(tmp_path):
    """The files of the commit, not those of the folder."""
    for path, text in SMALL.items():
        write(tmp_path / path, text)
    write(tmp_path / "pdno/notes.md", "not code")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], check=True)
    write(tmp_path / "pdno/spectral/grid.py", "")
    assert tree.read_revision(tmp_path, "HEAD") == dict(sorted(SMALL.items()))
    assert tree.read_folder(tmp_path) == SMALL | {"pdno/spectral/grid.py": ""}


def test_without_a_history_the_tree_is_measured_alone(tmp_path, monkeypatch, capsys):
    for path, text in SMALL.items():
        write(tmp_path / path, text)
    monkeypatch.setattr(measure, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["measure.py", "--compare", "02d9ea8", "--list"])
    measure.main()
    printed = capsys.readouterr()
    assert printed.err == "the history has no commit 02d9ea8\n"
    assert printed.out.split()[:2] == ["working", "tree"] and "02d9ea8" not in printed.out
    assert "against the flow                1\n    fields imports report\n" in printed.out
