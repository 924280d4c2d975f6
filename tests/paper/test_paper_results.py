"""Results are grouped by network, shown at their best, and go by metadata, never by a name."""

import json
import re
import shutil
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fabricated_runs import FLOW, errors, read, write_paper, write_run
from small_experiments import presets_of

from pdno.figures.style import COLOURS
from pdno.files.metric_table import Metadata, read_metrics, write_metrics
from pdno.files.run_folder import WITH_CHECKSUMS, write_checksums
from pdno.paper.chapters import TABLES
from pdno.paper.claims import CLAIMS, assess
from pdno.paper.published import Budget, describe_budgets
from pdno.paper.reproduce import study_of
from pdno.paper.results import MARKERS, line_of
from pdno.runs.plugins import RECIPES
from pdno.runs.run import find_runs, find_unfinished

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import keep  # noqa: E402  (a tool of the repository, not of the package)

HALF = errors(0.4, 0.5)


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
    with pytest.raises(ValueError, match="no folder is named: give folders of finished runs"):
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
    write_metrics(folder / "metrics.csv", [])
    write_checksums(folder, WITH_CHECKSUMS)
    with pytest.raises(ValueError, match="has no metric: remove the folder and run it again"):
        find_runs([tmp_path])


# Networks


def test_seeds_are_averaged(tmp_path, make_run):
    for seed, error in enumerate((1.0, 2.0, 3.0)):
        metrics = {"test": {"relative_l2": error}}
        make_run(tmp_path, "darcy", "FNO", metrics=metrics, seed=seed)
    (network,) = read(tmp_path).networks
    summary = network.summary()
    assert (summary.mean, summary.deviation, summary.count) == (2.0, 1.0, 3)
    assert Budget.of(network).seeds == 3 and network.seconds == 13.0
    assert network.summary("train") is None and network.summary(resolution=64) is None


def test_the_same_run_in_two_folders_counts_once(tmp_path, make_run):
    folder = make_run(tmp_path, "darcy", "FNO", metrics=HALF)
    shutil.copytree(folder, tmp_path / "copy")
    assert len(find_runs([tmp_path])) == 2
    (network,) = read(tmp_path).networks
    assert Budget.of(network).seeds == 1


def test_the_largest_training_is_shown_and_the_others_are_named(tmp_path, make_run):
    make_run(tmp_path, "darcy", "FNO", metrics=HALF, epochs=10)
    best = make_run(tmp_path, "darcy", "FNO", metrics=HALF, epochs=30)
    make_run(tmp_path, "darcy", "FNO", metrics=HALF, epochs=20)
    results = read(tmp_path)
    assert [results.run(network).folder for network in results.networks] == [best]
    assert sorted(Budget.of(network).epochs for network in results.left_out) == [10, 20]


def test_smoke_runs_give_way_within_their_study_only(tmp_path, make_run):
    make_run(tmp_path, "darcy", "FNO", metrics=HALF, train=8, resolution=16)
    make_run(tmp_path, "burgers", "FNO", metrics=HALF, train=8, resolution=16)
    assert len(read(tmp_path).networks) == 2
    make_run(tmp_path, "darcy", "FNO", metrics=HALF)
    shown = {(n.metadata.study, n.resolution) for n in read(tmp_path).networks}
    assert shown == {("darcy", 32), ("burgers", 16)}


def test_figures_compare_one_dataset_at_one_resolution(tmp_path, make_run):
    for model in ("FNO", "MWT Leg"):
        for points in (32, 64):
            make_run(tmp_path, "darcy", model, metrics=HALF, resolution=points)
    make_run(tmp_path, "darcy", "FNO", metrics=HALF, resolution=128)
    for viscosity, samples in ((1e-3, 1000), (1e-5, 200), (1e-5, 1000)):
        name = FLOW.format(viscosity, 20, samples)
        make_run(tmp_path, name, "FNO-2D", metrics=HALF, train=samples)
    results = read(tmp_path)
    shown = {(network.model, network.resolution) for network in results.shown("darcy")}
    assert shown == {("FNO", 64), ("MWT Leg", 64)}
    (flow,) = results.shown("navier-stokes")
    assert flow.metadata.viscosity == 1e-5 and flow.metadata.samples == 1000
    assert results.shown("heat") == []


def test_series_are_those_of_the_own_resolution(tmp_path, make_run):
    metrics = {"test": {"relative_l2 t=0.5": 0.1, "relative_l2 t=1": 0.2, "relative_h1": 3.0}}
    more = [(64, "test", 0.7)]
    make_run(tmp_path, "heat", "PDIO a(x,ξ,t)", metrics=metrics, more_metrics=more)
    (network,) = read(tmp_path).networks
    assert {t: s.mean for t, s in network.over_time().items()} == {0.5: 0.1, 1.0: 0.2}
    assert network.summary() is None and network.summary(resolution=64).mean == 0.7


# Budgets


@pytest.mark.parametrize(
    ("epochs", "samples", "level"),
    [(1000, 1000, "paper"), (999, 1000, "small"), (1000, 999, "small"), (1000, 9, "smoke")],
)
def test_levels(epochs, samples, level):
    budget = Budget(epochs, samples, 1, 1000, 1000)
    assert budget.level == level and str(budget).startswith(f"{level} budget: {epochs} of 1000")


def test_a_budget_counts_the_epochs_that_were_done(tmp_path, make_run):
    make_run(tmp_path / "whole", "darcy", "FNO", metrics=HALF, epochs=500)
    assert Budget.of(read(tmp_path / "whole").networks[0]).level == "paper"
    for seed, done in enumerate((250.0, 300.0)):  # stopped early
        metrics = HALF | {"training": {"epochs": done}}
        make_run(tmp_path / "less", "darcy", "FNO", metrics=metrics, epochs=500, seed=seed)
    (network,) = read(tmp_path / "less").networks
    assert (Budget.of(network).epochs, Budget.of(network).seeds) == (250, 2)
    assert Budget.of(network).level == "small"


def test_equal_budgets_are_named_once():
    small, smoke = Budget(1, 100, 1, 500), Budget(1, 2, 1, 500)
    text = "small budget: 1 of 500 epochs, 100 training samples, 1 seed"
    assert describe_budgets([("a", small), ("b", small)]) == text
    assert describe_budgets([("a", small), ("b", smoke)]).startswith(f"{text} (a); smoke")


# Studies without run folders


def test_a_study_keeps_what_its_runs_had(tmp_path, make_run):
    """Metrics, curves and the errors of samples come back from the files of `tools/keep.py`."""
    runs, study = tmp_path / "runs", tmp_path / "results" / "flow"
    arrays = {"error": [0.5, 0.25], "frame_error": [[0.5, 0.5], [0.25, 0.25]]}
    for seed in range(2):
        for model in ("PDNO rollout", "FNO rollout"):
            metrics = errors(0.1, 0.2 + seed)
            metrics["train"] |= {"relative_l2 band 0-1": 0.1, "worst relative_l2": 1.0}
            options = {"arrays": arrays, "times": [1.0, 2.0], "epochs": 30, "seed": seed}
            make_run(runs, FLOW.format(1e-5, 20, 200), model, metrics=metrics, **options)
    for run in find_runs([runs]):
        for _ in range(2):  # once more changes nothing
            keep.keep_run(study, run, history=True, errors=True)
    kept, results = read_stored(study), read(runs)
    assert len(read_metrics(study / "metrics.csv")) == 2 * 2 * 2  # train and test error
    assert [n.summary() for n in kept.networks] == [n.summary() for n in results.networks]
    for ours, theirs in zip(kept.networks, results.networks, strict=True):
        assert kept.run(ours) is None
        assert kept.array(ours, "frame_error").tolist() == arrays["frame_error"]
        assert kept.array(ours, "prediction") is None
        for split in ("train", "test"):
            curve = np.array(kept.curve(ours, split))
            assert curve == pytest.approx(np.array(results.curve(theirs, split)), rel=1e-3)
    changed = [replace(metric, value=9.0) for metric in run.metrics]
    with pytest.raises(ValueError, match="has another run"):
        keep.keep_metrics(study, changed)


def test_a_resource_table_is_kept_whole(tmp_path, make_resources):
    lines = {"PDNO k_max=12 width=20": (1, 2, 3), "FNO k_max=12 width=20": (1, 1, 1)}
    make_resources(tmp_path / "runs", lines)
    for run in find_runs([tmp_path / "runs"]):
        keep.keep_run(tmp_path / "study", run)
    ours, theirs = read_stored(tmp_path / "study"), read(tmp_path / "runs")
    assert ours.resources == theirs.resources and len(ours.resources) == 6


def read_stored(folder):
    """The results of a study without run folders."""
    from pdno.paper.results import Results

    return Results.of((), [folder])


# Metadata


EVERYWHERE = [(name, preset) for name in RECIPES for preset in presets_of(name)]
EVERYWHERE = [
    (name, preset) for name, preset in EVERYWHERE if name not in ("resources", "discovery")
]


@pytest.mark.parametrize(("name", "preset"), EVERYWHERE)
def test_every_network_of_a_recipe_has_its_marker(name, preset):
    networks = {experiment.metadata.network for experiment in study_of(name, preset).experiments}
    assert networks <= MARKERS.keys()


def test_every_network_has_a_colour_and_a_line_of_its_own():
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
    assert line_of(markov)["color"] == line_of(fno)["color"]
    assert line_of(markov)["markerfacecolor"] != line_of(fno)["markerfacecolor"]
    assert line_of(Metadata("mine"))["color"] not in {colour for colour, _ in MARKERS.values()}


def everything(results):
    """Assessments, table lines and markers."""
    assessments = [assess(claim, results) for claim in CLAIMS]
    tables = {entry.key: entry(results) for entry in TABLES}
    return (
        [(found.answer, found.numbers, found.budget) for found in assessments],
        {key: (table.lines, table.strong) for key, table in tables.items() if table is not None},
        {network.model: line_of(network.metadata) for network in results.networks},
    )


def write_runs(out):
    """The paper's own numbers, and what it prints none of."""
    write_paper(out)
    for model, error in (("PDNO Markov", 0.01), ("FNO Markov", 0.02), ("PDNO rollout", 0.3)):
        metrics = errors(error, 2 * error)
        metrics["test"] |= {f"relative_l2 t={t}": error * t for t in (11, 12)}
        write_run(out, FLOW.format(1e-5, 20, 200), model, metrics=metrics, train=200)
    for value, error in ((4, 0.012), (20, 0.011), ("all", 0.01)):
        write_run(out, "darcy-modes", f"PDNO k_max={value}", metrics=errors(0.01, error))
    for width in (5, 10):
        for model in ("PDNO a(ξ)", "FNO"):
            name = f"{model} width={width}"
            write_run(out, "navier-stokes-width nu=1e-05", name, metrics=errors(1, 1 / width))
    for model, error in (("PDNO GELU", 0.0105), ("PDNO ReLU", 0.02), ("DeepONet", 0.03)):
        write_run(out, "darcy-activation", model, metrics=errors(0.01, error))


def rename(source, target, names):
    """Copies of all runs with other names of models, in folders that sort the other way."""
    for number, folder in enumerate(sorted(source.iterdir(), reverse=True)):
        copy = shutil.copytree(folder, target / f"run-{number:03d}")
        metrics = read_metrics(copy / "metrics.csv")
        write_metrics(copy / "metrics.csv", [replace(m, model=names[m.model]) for m in metrics])
        if (copy / "specification.json").is_file():
            specification = json.loads((copy / "specification.json").read_text())
            specification["model"] = names[specification["model"]]
            (copy / "specification.json").write_text(json.dumps(specification))
        write_checksums(copy, WITH_CHECKSUMS)


def test_renaming_every_model_changes_no_assessment_colour_or_table(tmp_path):
    write_runs(tmp_path / "runs")
    models = sorted({m.model for run in find_runs([tmp_path / "runs"]) for m in run.metrics})
    # the last becomes the first, and no name tells anything
    names = {model: f"<{len(models) - k:02d}>" for k, model in enumerate(models)}
    rename(tmp_path / "runs", tmp_path / "renamed", names)
    assessments, tables, markers = everything(read(tmp_path / "runs"))
    assert Counter(answer for answer, *_ in assessments)["holds"] > 10
    back = {new: old for old, new in names.items()}

    def old_names(text):
        return re.sub(r"<\d\d>", lambda found: back[found[0]], text)

    again, tables_again, markers_again = everything(read(tmp_path / "renamed"))
    assert [tuple(map(old_names, found)) for found in again] == assessments
    assert {old_names(model): marker for model, marker in markers_again.items()} == markers
    assert tables_again.keys() == tables.keys()
    for key, (lines, strong) in tables_again.items():
        named = [tuple(map(old_names, line)) for line in lines]
        assert (named, strong) == (list(tables[key][0]), tables[key][1]), key


def test_a_fabricated_specification_has_the_keys_of_a_real_one(tmp_path, make_run):
    folder = make_run(tmp_path, "darcy", "FNO", metrics=HALF)
    ours = json.loads((folder / "specification.json").read_text())
    (real, *_) = study_of("darcy", "smoke").experiments
    real = json.loads(real.model_dump_json())
    assert set(ours) <= set(real)
    assert set(ours["network"]) <= set(real["network"])
    assert set(ours["training"]) <= set(real["training"])
