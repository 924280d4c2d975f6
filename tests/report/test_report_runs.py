"""Run folders are found at any depth, grouped by their specification and shown at their best."""

import json
import math
import shutil

import pytest
from fabricated_runs import finish
from small_experiments import presets_of

from pdno.figures.fields import signed
from pdno.figures.style import COLOURS
from pdno.files.metric_table import Metadata, Metric
from pdno.paper.exhibits import MARKERS, line_of, marker_of
from pdno.paper.reproduce import study_of
from pdno.report.runs import (
    Budget,
    Results,
    describe_budgets,
    find_runs,
    find_unfinished,
    old_facts,
)
from pdno.runs.plugins import RECIPES

HALF = {"train": {"relative_l2": 0.4}, "test": {"relative_l2": 0.5}}


def read(*places):
    return Results(tuple(find_runs(places)))


# Folders


def test_runs_are_found_in_a_run_a_study_and_a_parent_once_each(tmp_path, make_run):
    first = make_run(tmp_path / "a" / "darcy", "darcy", "FNO", metrics=HALF)
    second = make_run(tmp_path / "b", "darcy", "MWT Leg", metrics=HALF)
    assert [record.folder for record in find_runs([first])] == [first]
    assert [record.folder for record in find_runs([tmp_path])] == [first, second]
    assert len(find_runs([tmp_path, first, tmp_path / "a"])) == 2


def test_no_finished_run_is_an_error_that_says_what_to_give(tmp_path, make_run):
    with pytest.raises(ValueError, match=f"no finished run in {tmp_path}.*pdno reproduce"):
        find_runs([tmp_path])
    with pytest.raises(ValueError, match="no finished run in nothing"):
        find_runs([])
    with pytest.raises(ValueError, match="absent is not a folder"):
        find_runs([tmp_path / "absent"])
    folder = make_run(tmp_path, "darcy", "FNO", metrics=HALF)
    (folder / "checksums.json").unlink()
    with pytest.raises(ValueError, match="no finished run"):
        find_runs([tmp_path])
    assert find_unfinished([tmp_path]) == [folder.name]


def test_damaged_files_are_named(tmp_path, make_run):
    folder = make_run(tmp_path, "darcy", "FNO", metrics=HALF)
    (folder / "specification.json").write_text("{")
    finish(folder)
    with pytest.raises(ValueError, match="specification.json is not readable as JSON"):
        find_runs([tmp_path])
    (folder / "specification.json").write_text("[]")
    finish(folder)
    with pytest.raises(ValueError, match="specification.json holds list"):
        find_runs([tmp_path])


def test_a_record_says_what_its_files_say(tmp_path, make_run):
    pictures = {"error": [0.25, 0.5]}
    options = {"seed": 3, "epochs": 7, "pictures": pictures, "times": [1.0, 2.0]}
    folder = make_run(tmp_path, "heat", "PDIO a(x,ξ,t)", metrics=HALF, **options)
    (record,) = find_runs([folder])
    assert (record.metadata.study, record.model, record.seed) == ("heat", "PDIO a(x,ξ,t)", 3)
    assert record.resolution == 32 and record.times == (1.0, 2.0)
    assert [row["epoch"] for row in record.history] == [1, 3, 7]
    assert record.picture("error").tolist() == [0.25, 0.5]
    with pytest.raises(ValueError, match="has no picture prediction: run it again"):
        record.picture("prediction")
    (folder / "history.csv").write_text("epoch,test\n1,\n")
    (folder / "samples.safetensors").unlink()
    finish(folder)
    (again,) = find_runs([folder])
    assert math.isnan(again.history[0]["test"])
    assert again.times is None and again.picture_names == ()


# Groups


def test_seeds_are_averaged(tmp_path, make_run):
    for seed, error in enumerate((1.0, 2.0, 3.0)):
        metrics = {"test": {"relative_l2": error}}
        make_run(tmp_path, "darcy", "FNO", metrics=metrics, seed=seed)
    (group,) = read(tmp_path).groups
    summary = group.summary()
    assert (summary.mean, summary.deviation, summary.count) == (2.0, 1.0, 3)
    assert group.budget.seeds == 3 and group.budget.seconds == 13.0
    assert group.summary("train") is None and group.summary(resolution=64) is None


def test_the_same_run_in_two_folders_counts_once(tmp_path, make_run):
    folder = make_run(tmp_path, "darcy", "FNO", metrics=HALF)
    shutil.copytree(folder, tmp_path / "copy")
    results = read(tmp_path)
    assert len(results.records) == 2
    (group,) = results.groups
    assert group.budget.seeds == 1


def test_the_largest_training_is_shown_and_the_others_are_named(tmp_path, make_run):
    make_run(tmp_path, "darcy", "FNO", metrics=HALF, epochs=10)
    best = make_run(tmp_path, "darcy", "FNO", metrics=HALF, epochs=30)
    make_run(tmp_path, "darcy", "FNO", metrics=HALF, epochs=20)
    results = read(tmp_path)
    assert [group.folder for group in results.groups] == [best]
    assert sorted(group.budget.epochs for group in results.left_out) == [10, 20]


def test_smoke_runs_give_way_within_their_study_only(tmp_path, make_run):
    make_run(tmp_path, "darcy", "FNO", metrics=HALF, train=8, resolution=16)
    make_run(tmp_path, "burgers", "FNO", metrics=HALF, train=8, resolution=16)
    assert len(read(tmp_path).groups) == 2
    make_run(tmp_path, "darcy", "FNO", metrics=HALF)
    shown = {(g.metadata.study, g.resolution) for g in read(tmp_path).groups}
    assert shown == {("darcy", 32), ("burgers", 16)}


def test_figures_compare_one_dataset_at_one_resolution(tmp_path, make_run):
    for model in ("FNO", "MWT Leg"):
        for points in (32, 64):
            make_run(tmp_path, "darcy", model, metrics=HALF, resolution=points)
    make_run(tmp_path, "darcy", "FNO", metrics=HALF, resolution=128)
    for viscosity, samples in ((1e-3, 1000), (1e-5, 200), (1e-5, 1000)):
        make_run(
            tmp_path,
            f"navier-stokes nu={viscosity:g} T=20 N={samples}",
            "FNO-2D",
            metrics=HALF,
            train=samples,
        )
    results = read(tmp_path)
    assert {(g.model, g.resolution) for g in results.shown("darcy")} == {
        ("FNO", 64),
        ("MWT Leg", 64),
    }
    (flow,) = results.shown("navier-stokes")
    assert flow.metadata.viscosity == 1e-5 and flow.budget.samples == 1000
    assert results.shown("heat") == []


def test_series_are_those_of_the_own_resolution(tmp_path, make_run):
    metrics = {"test": {"relative_l2 t=0.5": 0.1, "relative_l2 t=1": 0.2, "relative_h1": 3.0}}
    make_run(tmp_path, "heat", "PDIO a(x,ξ,t)", metrics=metrics)
    (group,) = read(tmp_path).groups
    assert {t: s.mean for t, s in group.over_time().items()} == {0.5: 0.1, 1.0: 0.2}


# Budgets


@pytest.mark.parametrize(
    ("epochs", "samples", "level"),
    [(1000, 1000, "paper"), (999, 1000, "small"), (1000, 999, "small"), (1000, 9, "smoke")],
)
def test_levels(epochs, samples, level):
    budget = Budget(epochs, samples, 1, None, 1000, 1000)
    assert budget.level == level and str(budget).startswith(f"{level} budget: {epochs} of 1000")


def test_a_budget_counts_the_epochs_that_were_done(tmp_path, make_run):
    folder = make_run(tmp_path, "darcy", "FNO", metrics=HALF, epochs=500)
    assert read(tmp_path).groups[0].budget.level == "paper"
    lines = (folder / "history.csv").read_text().splitlines()
    (folder / "history.csv").write_text("\n".join(lines[:-1]) + "\n")
    finish(folder)
    assert read(tmp_path).groups[0].budget.epochs == 250
    assert read(tmp_path).groups[0].budget.level == "small"


def test_equal_budgets_are_told_once():
    small, smoke = Budget(1, 100, 1, None, 500, None), Budget(1, 2, 1, None, 500, None)
    text = "small budget: 1 of 500 epochs, 100 training samples, 1 seed"
    assert describe_budgets([("a", small), ("b", small)]) == text
    assert describe_budgets([("a", small), ("b", smoke)]).startswith(f"{text} (a); smoke")


# Metadata


def names(experiment, model):
    return Metric(experiment, model, resolution=32, seed=0, split="test", metric="e", value=1.0)


@pytest.mark.parametrize(
    ("model", "network", "of_paper"),
    [
        ("PDIO a(x,ξ,t)", "PDNO a(x,ξ,t)", True),
        ("PDNO a(ξ) width=5", "PDNO a(ξ)", True),
        ("PDNO k_max=4", "PDNO a(x,ξ)", True),
        ("PDNO GELU", "PDNO a(x,ξ)", True),
        ("PDNO ReLU", "PDNO a(x,ξ) relu", True),
        ("PDNO Markov", "PDNO a(x,ξ)", False),
        ("PDNO provable", "PDNO provable", False),
        ("FNO-2D", "FNO", True),
        ("FNO-3D", "FNO-3D", True),
        ("MWT Chb", "MWT Chb", True),
        ("something", "", False),
    ],
)
def test_networks_of_older_versions_are_told_by_their_names(model, network, of_paper):
    facts = old_facts(names("darcy", model), {})
    assert (facts.network, facts.of_paper) == (network, of_paper)


def test_settings_and_data_of_older_versions_are_told_by_their_names():
    facts = old_facts(names("resources", "FNO k_max=12 width=20"), {})
    assert facts.study == "resources" and facts.sweep == {"modes": 12.0, "width": 20.0}
    assert old_facts(names("darcy-modes", "PDNO k_max=all"), {}).sweep == {"modes": math.inf}
    flow = old_facts(names("navier-stokes nu=1e-05 T=20 N=200", "FNO"), {})
    assert (flow.study, flow.viscosity) == ("navier-stokes", 1e-5)
    assert flow.dataset == "ν = 1e-5, T = 20, N = 200" and flow.sweep == {}


EVERYWHERE = [(name, preset) for name in RECIPES for preset in presets_of(name)]
EVERYWHERE = [(name, preset) for name, preset in EVERYWHERE if name != "resources"]


@pytest.mark.parametrize(("name", "preset"), EVERYWHERE)
def test_every_network_of_a_recipe_has_its_marker(name, preset):
    assert {one.metadata.network for one in study_of(name, preset).experiments} <= MARKERS.keys()


def test_every_network_has_a_colour_and_a_marker_of_its_own():
    assert len({colour for colour, _ in MARKERS.values()}) == len(MARKERS)
    assert len({marker for _, marker in MARKERS.values()}) == len(MARKERS)
    # the palette of Okabe and Ito, grey, and those of networks that are ours
    assert {colour for colour, _ in MARKERS.values()} <= {
        *COLOURS,
        "#7F7F7F",
        "#332288",
        "#117733",
        "#882255",
        "#44AA99",
    }
    fno = Metadata("darcy", family="FNO", of_paper=True)
    markov = Metadata("darcy", family="FNO", mode="markov")
    assert line_of(fno, "train")["linestyle"] != line_of(fno, "test")["linestyle"]
    assert marker_of(markov)["color"] == marker_of(fno)["color"]
    assert marker_of(markov)["markerfacecolor"] != marker_of(fno)["markerfacecolor"]
    assert marker_of(Metadata("mine"))["color"] not in {colour for colour, _ in MARKERS.values()}


def test_signed_maps_are_symmetric():
    style = signed([1.0, -3.0], [2.0])
    assert (style["vmin"], style["vmax"]) == (-3.0, 3.0)
    assert signed([0.0])["vmax"] == signed([math.nan])["vmax"] == signed([math.inf])["vmax"] == 1.0


def test_a_fabricated_specification_has_the_keys_of_a_real_one(tmp_path, make_run):
    folder = make_run(tmp_path, "darcy", "FNO", metrics=HALF)
    ours = json.loads((folder / "specification.json").read_text())
    (real, *_) = study_of("darcy", "smoke").experiments
    real = json.loads(real.model_dump_json())
    assert set(ours) <= set(real)
    assert set(ours["network"]) <= set(real["network"])
    assert set(ours["training"]) <= set(real["training"])
