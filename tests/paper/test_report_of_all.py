"""From nothing to the report: smoke runs of every recipe give every table and figure."""

import pytest

from pdno.paper.chapters import FIGURES, TABLES, add_paper_chapters
from pdno.paper.reproduce import reproduce
from pdno.report.page import write_report
from pdno.runs.plugins import RECIPES
from pdno.runs.symbol import inspect_symbols


@pytest.mark.slow
def test_smoke_runs_of_every_recipe_make_every_table_and_figure(tmp_path):
    runs = tmp_path / "runs"
    for name in RECIPES:
        reproduce(name, runs / name, preset="smoke")
    # certificates come from a look inside one run
    heat = next((runs / "heat").glob("heat-*"))
    inspect_symbols(heat)
    page = write_report([runs], tmp_path / "report", add_paper_chapters)
    text = page.read_text(encoding="utf-8")
    missing = [e.key for e in (*TABLES, *FIGURES) if f'<section id="{e.key}">' not in text]
    assert missing == []
    made = {path.name for path in (tmp_path / "report" / "figures").iterdir()}
    figures = {name for name in made if not name.startswith("runs-")}
    assert len(made) > len(figures)
    assert figures == {f"{entry.key}.{kind}" for entry in FIGURES for kind in ("png", "pdf")}
