"""Tables say what the rows say, with the paper's number beside it, in all three notations."""

import re

import pytest
from fabricated_runs import errors, read

from pdno.paper.published import TABLE_1, TABLE_2, TABLE_3, TABLE_6, published_dataset
from pdno.paper.tables import (
    SYMBOL_COMMAND,
    burgers_table,
    darcy_table,
    navier_stokes_table,
    resource_numbers,
    resource_table,
    settings_table,
)
from pdno.report.tables import MISSING


def line_of(table, *start):
    (found,) = [line for line in table.lines if line[: len(start)] == start]
    return dict(zip([f"{k} {name}" for k, name in enumerate(table.head)], found, strict=True))


# Tables of the paper


def test_darcy_has_our_number_the_papers_and_the_budget(tmp_path, make_run):
    for seed, test in enumerate((0.004, 0.006)):
        make_run(
            tmp_path, "darcy", "PDNO a(x,ξ)", metrics=errors(0.003, test), seed=seed, epochs=60
        )
    make_run(tmp_path, "darcy", "FNO", metrics=errors(0.001, 0.02), epochs=60)
    make_run(tmp_path, "darcy", "FNO", metrics=errors(0.5, 0.6), resolution=16, epochs=60)
    table = darcy_table(read(tmp_path))
    line = line_of(table, "32", "PDNO a(x,ξ)")
    assert line == {
        "0 s": "32",
        "1 network": "PDNO a(x,ξ)",
        "2 train": "3.00e-3 ± 0",
        "3 paper": "3.52e-3",
        "4 test": "5.00e-3 ± 1.4e-3",
        "5 paper": "3.34e-3",
        "6 test / paper": "1.50",
        "7 seeds": "2",
        "8 epochs": "60",
        "9 training samples": "1000",
        "10 seconds": "12.5",
    }
    for text in (table.markdown(), table.html()):
        assert "5.00e-3 ± 1.4e-3" in text
    assert r"5.00e-3 $\pm$ 1.4e-3" in table.latex()
    assert line_of(table, "16", "FNO")["5 paper"] == MISSING
    assert line_of(table, "32", "MWT Leg")["4 test"] == MISSING
    assert line_of(table, "32", "MWT Leg")["5 paper"] == "0.0162"
    assert len(table.lines) == 1 + 4  # grids that were not run are named below
    (place,) = table.strong
    assert table.lines[place[0]][1] == "PDNO a(x,ξ)" and table.head[place[1]] == "test"
    assert "`pdno reproduce darcy --preset small --resolution 64`" in table.notes[0]


def test_burgers_has_our_number_and_the_papers(tmp_path, make_run):
    make_run(tmp_path, "burgers", "FNO", metrics=errors(0.1, 6.49e-4), resolution=256)
    make_run(tmp_path, "burgers", "DeepONet", metrics=errors(0.1, 0.2), resolution=256)
    table = burgers_table(read(tmp_path))
    assert line_of(table, "256", "FNO")["5 test / paper"] == "1.00"
    assert line_of(table, "256", "DeepONet")["4 paper"] == MISSING
    assert len(table.lines) == 5 + 1


def test_navier_stokes_stands_beside_the_dataset_of_its_viscosity(tmp_path, make_run):
    name = "navier-stokes nu=1e-05 T=20 N=200"
    for model, error in (("PDNO rollout", 0.2186), ("PDNO Markov", 0.3), ("FNO rollout", 0.4)):
        make_run(tmp_path, name, model, metrics=errors(0.1, error), resolution=64, train=200)
    table = navier_stokes_table(read(tmp_path))
    label = "ν = 1e-5, T = 20, N = 200"
    line = line_of(table, label, "PDNO rollout")
    assert (line["3 test"], line["4 paper"], line["5 test / paper"]) == ("0.219", "0.109", "2.00")
    assert line_of(table, label, "FNO rollout")["4 paper"] == "0.156"
    assert line_of(table, label, "PDNO Markov")["4 paper"] == MISSING
    assert line_of(table, label, "MWT Leg")["3 test"] == MISSING
    assert {line[0] for line in table.lines} == {label}
    assert "N = 200 beside ν = 1e-5, T = 20, N = 1000" in table.notes[0]
    assert "Not run: ν = 1e-3, T = 50, N = 1000; " in table.notes[1]
    assert "pdno reproduce navier-stokes --preset paper" in table.notes[1]


def test_the_nearest_dataset_of_a_viscosity():
    assert published_dataset(1e-4, 9800).samples == 10000
    assert published_dataset(1e-4, 1000).samples == 1000
    assert published_dataset(0.5, 10) is None and published_dataset(None, 10) is None


def test_settings_stand_below_the_papers(tmp_path, make_run):
    make_run(tmp_path, "darcy", "PDNO a(x,ξ)", metrics=errors(1, 1), epochs=60)
    table = settings_table(read(tmp_path))
    paper = [line for line in table.lines if line[:2] == ("darcy", "paper")]
    ours = [line for line in table.lines if line[:2] == ("darcy", "ours")]
    common = ("0.01", "1.00e-6", "1000", "halved every 200", "20", "3", "32", "gelu", "all")
    assert paper == [("darcy", "paper", "20", *common)]
    changed = ("5.00e-3", "1.00e-6", "60", "halved every 200", "4", "2", "8", "gelu", "3")
    assert ours == [("darcy", "ours", "20", *changed)]
    assert settings_table(read(make_run(tmp_path / "b", "x", "FNO", metrics=errors(1, 1)))) is None


def test_resources_have_ratios(tmp_path, make_resources, make_run):
    make_run(tmp_path, "darcy", "FNO", metrics=errors(1, 1))
    assert resource_table(read(tmp_path)) is None
    lines = {
        "PDNO k_max=12 width=20": (300.0, 189653, 90.0),
        "FNO k_max=12 width=20": (100, 2, 30),
    }
    make_resources(tmp_path, lines)
    make_resources(tmp_path, {"PDNO k_max=4 width=4": (1, 1, 1)}, resolution=16)
    results = read(tmp_path)
    assert set(resource_numbers(results)) == {("PDNO", 12, 20), ("FNO", 12, 20)}
    table = resource_table(results)
    assert line_of(table, "PDNO", "12", "20")["3 memory MB"] == "300"
    assert line_of(table, "PDNO", "12", "20")["4 paper"] == "9939"
    ratio = line_of(table, "PDNO / FNO", "12", "20")
    assert (ratio["3 memory MB"], ratio["4 paper"]) == ("3.00", "2.74")
    assert (ratio["7 seconds per epoch"], ratio["8 paper"]) == ("3.00", "4.53")
    assert line_of(table, "PDNO / FNO", "32", "20")["3 memory MB"] == MISSING


def test_the_papers_numbers_as_runs_have_ratio_one(paper_runs):
    results = read(paper_runs)
    for table, count in (
        (darcy_table(results), 20),
        (navier_stokes_table(results), 24),
        (burgers_table(results), 25),
    ):
        column = table.head.index("test / paper")
        assert [line[column] for line in table.lines] == ["1.00"] * count
        assert not [note for note in table.notes if "Not run" in note]


def test_published_numbers_are_whole():
    assert [len(line) for line in TABLE_1.values()] == [4] * 5
    assert [len(line) for line in TABLE_2.values()] == [6] * 4
    assert [len(line) for line in TABLE_3.values()] == [5] * 5
    # the paper prints which network is the best of each dataset
    best = [min(line, key=lambda network: line[network][1]) for line in TABLE_2.values()]
    assert best == ["MWT Leg", "PDNO a(x,ξ)", "MWT Leg", "PDNO a(x,ξ)"]
    # and table 6 are counts that the networks themselves have
    assert TABLE_6["PDNO", 12, 20].parameters == pytest.approx(189_653, rel=5e-3)
    assert TABLE_6["FNO", 32, 20].parameters == pytest.approx(3_281_557, rel=5e-3)


def test_no_table_without_runs(tmp_path, make_run):
    make_run(tmp_path, "heat", "PDIO a(x,ξ,t)", metrics=errors(1, 1))
    results = read(tmp_path)
    made = [make(results) for make in (darcy_table, burgers_table, navier_stokes_table)]
    assert made == [None] * 3


def test_commands_of_notes_are_of_the_catalog(tmp_path, make_run):
    from pdno.paper.chapters import FIGURES, TABLES
    from pdno.paper.claims import CLAIMS
    from pdno.paper.reproduce import RECIPES

    named = {study for entry in (*CLAIMS, *FIGURES, *TABLES) for study in entry.studies}
    of_their_own = {  # among your runs
        "heat-family",
        "navier-stokes-family",
        "navier-stokes-decay",
        "burgers-rollout",
        "burgers-shocks",
        "discovery",
    }
    assert named == {*RECIPES, SYMBOL_COMMAND} - of_their_own
    make_run(tmp_path, "darcy", "FNO", metrics=errors(1, 1))
    (command,) = re.findall(r"pdno reproduce (\S+)", darcy_table(read(tmp_path)).notes[0])
    assert command in RECIPES
