"""Run folders are found at any depth, grouped by their specification and shown at their best."""

import json
import math
import shutil

import pytest

from pdno.report.budget import Budget, describe_budgets, lowest_level
from pdno.report.groups import Results
from pdno.report.models import FAMILIES, PROVABLE, family_of, is_of_the_paper, setting_of
from pdno.report.runs import find_runs, find_unfinished
from pdno.report.style import COLOURS, colour_of, line_of, marker_of, signed

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
    (folder / "metrics.json").unlink()
    with pytest.raises(ValueError, match="no finished run"):
        find_runs([tmp_path])
    assert find_unfinished([tmp_path]) == [folder.name]


def test_damaged_files_are_named(tmp_path, make_run):
    folder = make_run(tmp_path, "darcy", "FNO", metrics=HALF)
    (folder / "specification.json").write_text("{")
    with pytest.raises(ValueError, match="specification.json is not readable as JSON"):
        find_runs([tmp_path])
    (folder / "specification.json").write_text("[]")
    with pytest.raises(ValueError, match="specification.json holds list"):
        find_runs([tmp_path])


def test_a_record_says_what_its_files_say(tmp_path, make_run):
    pictures = {"error": [0.25, 0.5]}
    options = {"seed": 3, "epochs": 7, "pictures": pictures, "times": [1.0, 2.0]}
    folder = make_run(tmp_path, "heat", "PDIO a(x,ξ,t)", metrics=HALF, **options)
    (record,) = find_runs([folder])
    assert (record.experiment, record.study, record.seed) == ("heat", "heat", 3)
    assert record.resolution == 32 and record.times == (1.0, 2.0)
    assert [row["epoch"] for row in record.history] == [1, 3, 7]
    assert record.picture("error").tolist() == [0.25, 0.5]
    assert record.picture("prediction") is None
    (folder / "history.csv").write_text("epoch,test\n1,\n")
    (again,) = find_runs([folder])
    assert math.isnan(again.history[0]["test"])
    (folder / "pictures.safetensors").unlink()
    assert again.times is None and again.picture("error") is None


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
    assert [group.first.folder for group in results.groups] == [best]
    assert sorted(group.budget.epochs for group in results.left_out) == [10, 20]


def test_smoke_runs_give_way_within_their_study_only(tmp_path, make_run):
    make_run(tmp_path, "darcy", "FNO", metrics=HALF, train=8, resolution=16)
    make_run(tmp_path, "burgers", "FNO", metrics=HALF, train=8, resolution=16)
    assert len(read(tmp_path).groups) == 2
    make_run(tmp_path, "darcy", "FNO", metrics=HALF)
    shown = {(g.first.study, g.resolution) for g in read(tmp_path).groups}
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
    assert flow.viscosity == 1e-5 and flow.budget.samples == 1000
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
    assert read(tmp_path).groups[0].budget.epochs == 250
    assert read(tmp_path).groups[0].budget.level == "small"


def test_the_least_budget_decides_and_equal_ones_are_told_once():
    small, smoke = Budget(1, 100, 1, None, 500, None), Budget(1, 2, 1, None, 500, None)
    assert lowest_level([small, smoke]) == "smoke" and lowest_level([]) is None
    text = "small budget: 1 of 500 epochs, 100 training samples, 1 seed"
    assert describe_budgets([("a", small), ("b", small)]) == text
    assert describe_budgets([("a", small), ("b", smoke)]).startswith(f"{text} (a); smoke")


# Models


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("PDIO a(x,ξ,t)", "PDNO a(x,ξ,t)"),
        ("PDNO a(ξ) width=5", "PDNO a(ξ)"),
        ("PDNO k_max=4", "PDNO a(x,ξ)"),
        ("PDNO GELU", "PDNO a(x,ξ)"),
        ("PDNO ReLU", "PDNO ReLU"),
        ("PDNO Markov", "PDNO a(x,ξ)"),
        ("FNO-2D", "FNO"),
        ("FNO-3D", "FNO-3D"),
        ("MWT Chb", "MWT Chb"),
        ("something", None),
    ],
)
def test_families(model, family):
    assert family_of(model) == family


def test_every_model_of_the_recipes_has_a_family():
    from pdno.experiments import recipes

    for recipe in ("heat", "darcy", "burgers", "navier_stokes", "darcy_modes", "darcy_activation"):
        for preset in ("smoke", "small", "paper"):
            for experiment in getattr(recipes, recipe)(preset).experiments:
                assert family_of(experiment.model) in (*FAMILIES, PROVABLE)
                ours = "Markov" in experiment.model or experiment.model == PROVABLE
                assert is_of_the_paper(experiment.model) == (not ours)


def test_settings_are_read_from_names():
    assert setting_of("FNO k_max=12 width=20", "k_max") == "12"
    assert setting_of("PDNO k_max=all", "k_max") == "all" and setting_of("FNO", "width") is None


def test_every_family_has_a_colour_and_a_marker_of_its_own():
    styles = [marker_of(family) for family in (*FAMILIES, PROVABLE)]
    assert len({style["color"] for style in styles}) == len(FAMILIES) + 1
    assert len({style["marker"] for style in styles}) == len(FAMILIES) + 1
    assert not is_of_the_paper(PROVABLE)
    # the palette of Okabe and Ito, and grey
    assert {colour_of(family) for family in FAMILIES} <= {*COLOURS, "#7F7F7F"}
    assert colour_of("PDNO rollout") == colour_of("PDNO a(x,ξ)") != colour_of("FNO rollout")
    assert line_of("FNO", "train")["linestyle"] != line_of("FNO", "test")["linestyle"]
    assert marker_of("FNO Markov")["markerfacecolor"] != marker_of("FNO")["markerfacecolor"]


def test_signed_maps_are_symmetric():
    style = signed([1.0, -3.0], [2.0])
    assert (style["vmin"], style["vmax"]) == (-3.0, 3.0)
    assert signed([0.0])["vmax"] == signed([math.nan])["vmax"] == signed([math.inf])["vmax"] == 1.0


def test_a_fabricated_specification_has_the_keys_of_a_real_one(tmp_path, make_run):
    from pdno.experiments import recipes

    folder = make_run(tmp_path, "darcy", "FNO", metrics=HALF)
    ours = json.loads((folder / "specification.json").read_text())
    (real, *_) = recipes.darcy("smoke").experiments
    real = json.loads(real.model_dump_json())
    assert set(ours) <= set(real)
    assert set(ours["network"]) <= set(real["network"])
    assert set(ours["training"]) <= set(real["training"])
