"""Reproducing an experiment runs what is missing, once, and gathers all of its numbers."""

import csv
import sys
from dataclasses import replace

import pytest
from one_machine import OneMachine

from pdno.files.atomic import sha256
from pdno.files.metric_table import COLUMNS, read_metrics
from pdno.paper.recipes import Study
from pdno.paper.reproduce import (
    gather_metrics,
    reproduce,
    run,
    run_experiment,
    run_folder,
    run_study,
    study_of,
)
from pdno.report.tables import summarise
from pdno.runs.plugins import RECIPES
from pdno.runs.specification import Experiment

WALL_CLOCK = ("speed", "solver", "training")
"""Splits whose numbers are seconds and ratios of them."""


def fingerprint(folder):
    """All files but metrics.csv, which is gathered anew, and the locks of datasets."""
    return {
        path.relative_to(folder): (sha256(path), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock" and path != folder / "metrics.csv"
    }


def numbers(rows, seed=0):
    """What does not depend on the machine."""
    return {
        (
            row.experiment,
            row.model,
            row.resolution,
            row.split,
            row.metric,
            row.parameters,
        ): row.value
        for row in rows
        if row.seed == seed and row.split not in WALL_CLOCK
    }


def check_smoke(name, out, **options):
    """Run it, then again; every run has its folder, its rows and its place in the summary."""
    rows = reproduce(name, out, preset="smoke", **options)
    with open(out / "metrics.csv", encoding="utf-8", newline="") as file:
        table = list(csv.reader(file))
    assert table[0] == list(COLUMNS)
    assert len(table) == len(rows) + 1 > 1
    assert read_metrics(out / "metrics.csv") == rows
    before = fingerprint(out)
    assert reproduce(name, out, preset="smoke", **options) == rows
    assert fingerprint(out) == before
    text = summarise(rows)
    if name == "resources":
        return rows
    study = study_of(name, "smoke", **options)
    for experiment in study.experiments:
        folder = run_folder(experiment, out)
        mine = read_metrics(folder / "metrics.csv")
        assert {(r.experiment, r.model, r.seed) for r in mine} == {
            (experiment.name, experiment.model, experiment.seed)
        }
        assert {replace(r.metadata, commit="") for r in mine} == {experiment.metadata}
        assert {"train", "test"} <= {row.split for row in mine} and set(mine) <= set(rows)
        assert experiment.model in text
    assert len({(row.experiment, row.model, row.seed) for row in rows}) == len(study.experiments)
    assert len(list((out / "data").iterdir())) == 1  # all runs share their data
    return rows


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("heat", {}),
        ("darcy", {"models": ["PDNO a(x,ξ)", "MWT Leg"]}),
        ("navier-stokes", {"models": ["PDNO Markov", "FNO rollout"]}),
        ("darcy-modes", {}),
        ("darcy-samples", {"models": ["FNO", "PDNO classical"]}),
    ],
)
def test_some_experiments_run_from_nothing_and_only_once(tmp_path, name, options):
    check_smoke(name, tmp_path, **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_every_experiment_of_the_catalogue_runs_from_nothing_and_only_once(tmp_path, name):
    check_smoke(name, tmp_path)


def test_seeds_are_runs_of_their_own(tmp_path):
    """Other weights and numbers; those of seed 0 are the same however many seeds there are."""
    one = reproduce("heat", tmp_path / "one", preset="smoke")
    two = reproduce("heat", tmp_path / "two", preset="smoke", seeds=2)
    first, _, second, _ = study_of("heat", "smoke", seeds=2).experiments
    weights = {
        run_folder(experiment, tmp_path / out) / "weights.safetensors"
        for experiment, out in ((first, "one"), (first, "two"), (second, "two"))
    }
    assert len(weights) == 3 and len({sha256(path) for path in weights}) == 2
    assert numbers(one) == numbers(two)
    assert numbers(two).keys() == numbers(two, seed=1).keys()
    assert numbers(two) != numbers(two, seed=1)
    # one more seed later is as good as two at once
    later = reproduce("heat", tmp_path / "one", preset="smoke", seeds=2)
    assert numbers(later, seed=1) == numbers(two, seed=1)


def test_a_study_goes_on_where_it_stopped(tmp_path, darcy, heat, monkeypatch):
    """The finished run stays as it is, and its rows are gathered before the next one begins."""
    study = Study(name="mine", preset="smoke", experiments=(heat, darcy))
    whole = run_study(study, tmp_path / "whole")

    def stop(experiment, *given, **more):
        if experiment == darcy:
            raise KeyboardInterrupt
        return run_experiment(experiment, *given, **more)

    with monkeypatch.context() as patch:
        patch.setattr("pdno.paper.reproduce.run_experiment", stop)
        with pytest.raises(KeyboardInterrupt):
            run_study(study, tmp_path / "cut")
    assert {row.experiment for row in read_metrics(tmp_path / "cut" / "metrics.csv")} == {"heat"}
    before = fingerprint(run_folder(heat, tmp_path / "cut"))
    rows = run_study(study, tmp_path / "cut")
    assert fingerprint(run_folder(heat, tmp_path / "cut")) == before
    assert numbers(rows) == numbers(whole) and len(rows) == len(whole)


def test_one_command_for_a_study_and_for_one_run(tmp_path, heat):
    alone = run(heat, tmp_path / "alone")
    study = run(Study(name="mine", preset="smoke", experiments=(heat,)), tmp_path / "study")
    assert numbers(alone) == numbers(study)
    assert (tmp_path / "alone" / "checksums.json").is_file()
    assert (run_folder(heat, tmp_path / "study") / "checksums.json").is_file()


def test_rows_are_those_of_finished_runs(tmp_path, heat):
    rows = run_study(Study(name="mine", preset="smoke", experiments=(heat,)), tmp_path)
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "metrics.csv").write_text("nothing yet")
    assert gather_metrics(tmp_path) == rows
    (run_folder(heat, tmp_path) / "checksums.json").unlink()
    assert gather_metrics(tmp_path) == [] == read_metrics(tmp_path / "metrics.csv")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("heat", {"resolution": 64}, "heat has no option resolution: leave it out"),
        ("heat", {"models": ["FNO"]}, "heat has no option models"),
        ("darcy", {"models": ["UNet"]}, "no model 'UNet'"),
        ("darcy", {"preset": "huge"}, "preset: Input should be 'smoke', 'small'"),
        ("darcy", {"seeds": 0}, "seeds: Input should be"),
        ("wave", {}, "experiment 'wave'; expected one of heat, darcy"),
        ("resources", {"resolution": 64}, "resources has no option resolution"),
        ("resources", {"models": ["FNO"]}, "resources has no option models"),
        ("resources", {"seeds": 2}, "resources has no option seeds"),
        ("resources", {"device": "cpu"}, "leave engine and device out"),
        ("resources", {"preset": "huge"}, "preset: Input should be 'smoke', 'small'"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_made(tmp_path, name, options, message):
    with pytest.raises(ValueError, match=message):
        reproduce(name, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


# Several machines


def test_a_cluster_needs_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"ray is not installed.*pdno\[cluster\]"):
        reproduce("heat", tmp_path, preset="smoke", engine="ray")
    assert not list(tmp_path.rglob("*.h5"))


def test_only_names_travel_to_a_cluster(tmp_path, monkeypatch):
    """Each task is a specification and a folder; what comes back is a name, too."""
    ray = OneMachine()
    monkeypatch.setitem(sys.modules, "ray", ray)
    options = {"preset": "smoke", "seeds": 2}
    rows = reproduce("heat", tmp_path / "cluster", engine="ray", **options)
    experiments = study_of("heat", "smoke", seeds=2).experiments
    place = [str((tmp_path / "cluster").resolve()), None]
    assert [place for _, *place in ray.sent] == [place] * len(experiments)
    assert [Experiment.model_validate_json(text) for text, *_ in ray.sent] == list(experiments)
    serial = reproduce("heat", tmp_path / "serial", **options)
    assert numbers(rows) == numbers(serial) and numbers(rows, 1) == numbers(serial, 1)
    assert {path.name for path in (tmp_path / "cluster").iterdir()} == {
        path.name for path in (tmp_path / "serial").iterdir()
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_gives_the_same_numbers(tmp_path):
    pytest.importorskip("ray")
    options = {"preset": "smoke", "seeds": 2}
    serial = reproduce("heat", tmp_path / "serial", **options)
    cluster = reproduce("heat", tmp_path / "cluster", engine="ray", **options)
    for seed in range(2):
        assert numbers(serial, seed) == pytest.approx(numbers(cluster, seed), rel=1e-3)
