"""The notebooks run, in plain Python and in an empty folder, and are stored with small outputs."""

import ast
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from notebooks import NOTEBOOKS, execute, render_all  # noqa: E402

FILES = sorted(NOTEBOOKS.glob("*.ipynb"))
notebooks = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
MOST_BYTES = 150_000


def cells_of(path, kind="code"):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == kind]
    return [{**cell, "source": "".join(cell["source"])} for cell in cells]


def test_there_are_five():
    assert len(FILES) == 5


@notebooks
def test_outputs_are_stored_and_small(path):
    outputs = [output for cell in cells_of(path) for output in cell["outputs"]]
    assert any("text" in output or "data" in output for output in outputs)
    assert len(path.read_bytes()) < MOST_BYTES
    assert not any(output["output_type"] == "error" for output in outputs)


@notebooks
def test_cells_are_python_and_lines_fit_the_page(path):
    for cell in cells_of(path):
        ast.parse(cell["source"])
        assert max(map(len, cell["source"].splitlines())) <= 110


def test_pages_have_the_cells_and_what_they_draw(tmp_path):
    render_all(tmp_path / "pages")
    for path in FILES:
        page = (tmp_path / "pages" / f"{path.stem}.md").read_text(encoding="utf-8")
        assert page.startswith("# ")
        assert all(cell["source"] in page for cell in cells_of(path))
    assert list((tmp_path / "pages").glob("*.png"))


@pytest.mark.slow
@notebooks
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = execute(json.loads(path.read_text(encoding="utf-8")))
    stored = [len(cell["outputs"]) for cell in cells_of(path)]
    assert [len(c["outputs"]) for c in done["cells"] if c["cell_type"] == "code"] == stored


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ("x = 1", []),
        ("print('a'); 2", ["stream", "execute_result"]),
        ("None", []),
        ("def f():\n    return 3\nf()", ["execute_result"]),
    ],
)
def test_a_cell_shows_what_it_prints_and_its_last_value(source, kinds):
    cell = {"cell_type": "code", "source": source, "outputs": []}
    (done,) = execute({"cells": [cell]})["cells"]
    assert [output["output_type"] for output in done["outputs"]] == kinds
