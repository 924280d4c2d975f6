"""Recipes compare like with like: the same data for all networks, one thing changed at a time."""

import sys
from pathlib import Path

import pytest
import torch
from small_experiments import presets_of

from pdno.paper import recipes
from pdno.paper.reproduce import run_folder, study_of
from pdno.runs.plugins import RECIPES
from pdno.runs.specification import ensure_dataset, open_experiment_data

STUDIES = [name for name in RECIPES if name not in ("resources", "discovery")]
everywhere = pytest.mark.parametrize(
    ("name", "preset"), [(name, preset) for name in STUDIES for preset in presets_of(name)]
)


def test_every_study_of_the_catalogue_is_a_recipe():
    for name, recipe in RECIPES.items():
        assert recipe in vars(sys.modules[recipe.__module__]).values()
        assert recipe.__module__ == recipes.__name__
        assert recipe.__name__ == name.replace("-", "_")


@everywhere
def test_a_study_is_named_as_it_is_called(name, preset):
    study = study_of(name, preset)
    assert (study.name, study.preset) == (name, preset)
    assert {experiment.metadata.study for experiment in study.experiments} == {name}


@everywhere
def test_no_two_runs_share_a_folder(name, preset):
    experiments = study_of(name, preset, seeds=3).experiments
    folders = {run_folder(experiment, Path("out")) for experiment in experiments}
    assert len(folders) == len(experiments)
    for folder in folders:
        assert folder.parent == Path("out") and folder.name.isascii()
        assert not set(folder.name) & set(" ()/\\,")


@everywhere
def test_seeds_change_the_seed_alone(name, preset):
    one, three = (study_of(name, preset, seeds=seeds).experiments for seeds in (1, 3))
    assert three[: len(one)] == one
    for seed in range(3):
        part = three[seed * len(one) : (seed + 1) * len(one)]
        for first, experiment in zip(one, part, strict=True):
            settings = first.training.model_copy(update={"seed": seed})
            assert experiment == first.with_changes(training=settings)


@everywhere
def test_all_networks_meet_the_same_samples(name, preset):
    """Of one experiment at one resolution; the data have one seed whatever that of the run."""
    met = {}
    for experiment in study_of(name, preset, seeds=2).experiments:
        data = (experiment.problem, experiment.train, experiment.test)
        frames = (experiment.window, experiment.targets)
        assert met.setdefault((experiment.name, experiment.resolution), (data, frames)) == (
            data,
            frames,
        )
    assert met


@pytest.mark.parametrize("name", ["darcy", "burgers"])
def test_small_trainings_are_as_long_for_all_networks(name):
    (settings,) = {
        (e.training.epochs, e.training.batch_size, e.training.schedule)
        for e in study_of(name, "small").experiments
    }
    assert settings[1:] == (20, "one-cycle")


def test_learning_curves_have_equal_steps_and_the_samples_of_darcy(tmp_path):
    curves, darcy = study_of("darcy-samples").experiments, study_of("darcy").experiments
    sizes = {-(-e.train // e.training.batch_size) * e.training.epochs for e in curves}
    assert sizes == {3000} and len(curves) == 4 * 5
    assert all(e.problem == darcy[0].problem for e in curves)
    by_model = {e.model: e for e in darcy}
    for experiment in (e for e in curves if e.train == 1000):
        alike = by_model[experiment.model]
        for name in ("network", "training", "train", "validation", "test", "normalization"):
            assert getattr(experiment, name) == getattr(alike, name), name
    few, more = (study_of("darcy-samples", "smoke").experiments[k] for k in (0, -1))
    ensure_dataset(few.problem, tmp_path)
    one, other = (open_experiment_data(e, tmp_path) for e in (few, more))
    assert (len(one.train), len(other.train)) == (4, 8)
    for name in ("validation", "test"):
        pair = [getattr(data, name).batch()[0] for data in (one, other)]
        assert torch.equal(*pair) and len(pair[0]) == 2
    assert torch.equal(one.train.batch()[0], other.train.batch()[0][:4])


@pytest.mark.parametrize("viscosity", [1e-3, 1e-4, 1e-5])
def test_small_flows_of_every_viscosity_see_as_many_frames(viscosity):
    """Of the flow that is asked for; longer trajectories have as many fewer epochs."""
    study = study_of("navier-stokes", viscosity=viscosity)
    assert {run.problem.viscosity for run in study.experiments} == {viscosity}
    for run in study.experiments:
        frames = run.problem.final_time - run.window
        steps = run.problem.final_time - 1 if run.task.kind == "markov" else frames
        usual = {"PDNO Markov": 31 * 19, "FNO Markov": 34 * 19}.get(run.model, 160)
        assert usual - steps < run.training.epochs * steps <= usual
        if run.task.kind == "one-shot":
            assert run.task.scaled_time(run.problem.final_time) == 1
            assert run.task.scaled_time(run.window) == 0


def test_a_resolution_that_does_not_divide_the_usual_points_has_its_own_data():
    """85 x 85 is the grid of others' tables."""
    for points, stored, solved in ((32, 128, 512), (64, 128, 512), (85, 170, 510)):
        runs = study_of("darcy", resolution=points).experiments
        assert {(run.problem.resolution, run.problem.solver_points) for run in runs} == {
            (stored, solved)
        }
        assert {run.zero_shot[0] for run in runs} == {2 * points}
        assert {run.metadata.family for run in runs} >= {"PDNO", "FNO"}


def only_change(experiments):
    """The settings of the networks that differ between some experiments."""
    first, *rest = [experiment.network.model_dump() for experiment in experiments]
    return {key for network in rest for key in network if network[key] != first[key]}


@pytest.mark.parametrize("preset", presets_of("darcy-modes"))
def test_an_ablation_changes_one_thing(preset):
    modes = recipes.darcy_modes(preset).experiments
    assert only_change(modes) == {"modes"} and len({e.training for e in modes}) == 1
    assert [e.network.modes for e in modes] == list(dict.fromkeys(e.network.modes for e in modes))
    activations = recipes.darcy_activation(preset).experiments
    for points in {e.resolution for e in activations}:
        pair = [e for e in activations if e.resolution == points]
        assert only_change(pair) == {"activation"} and pair[0].training == pair[1].training
        assert [e.network.activation for e in pair] == ["gelu", "relu"]
    widths = recipes.navier_stokes_width(preset).experiments
    for kind in ("pdno", "fno"):
        assert only_change([e for e in widths if e.network.kind == kind]) == {"width"}
    for experiment in widths:  # all modes are kept in both
        network = experiment.network
        every = None if network.kind == "pdno" else experiment.resolution // 2
        assert network.modes == every and not getattr(network, "depends_on_x", False)


def test_some_networks_and_one_resolution():
    study = recipes.darcy("small", models=["FNO", "PDNO a(ξ)"], resolution=64, seeds=2)
    assert [(e.model, e.seed) for e in study.experiments] == [
        ("FNO", 0),
        ("PDNO a(ξ)", 0),
        ("FNO", 1),
        ("PDNO a(ξ)", 1),
    ]
    assert {e.resolution for e in study.experiments} == {64}
    assert {e.zero_shot for e in study.experiments} == {(128,)}
    (viscosity,) = {
        e.problem.viscosity for e in recipes.navier_stokes("paper", viscosity=1e-3).experiments
    }
    assert viscosity == 1e-3


@pytest.mark.parametrize(
    ("name", "preset", "options", "message"),
    [
        ("darcy", "small", {"models": ["UNet"]}, "no model 'UNet': expected some of PDNO"),
        ("darcy", "small", {"seeds": 0}, "seeds: Input should be greater than or equal to 1"),
        ("darcy", "small", {"resolution": 85, "models": ["MWT Leg"]}, "no model 'MWT Leg'"),
        (
            "darcy",
            "paper",
            {"resolution": 1},
            "resolution: Input should be greater than or equal to 2",
        ),
        (
            "darcy-modes",
            "paper",
            {"resolution": 0},
            "resolution: Input should be greater than or equal to 2",
        ),
        ("heat", "small", {"resolution": 64}, "heat has no option resolution: leave it out"),
        ("heat", "small", {"models": ["PDIO"]}, "heat has no option models: leave it out"),
        ("navier-stokes", "small", {"resolution": 64}, "navier-stokes has no option resolution"),
        ("darcy", "huge", {}, "preset: Input should be 'smoke', 'small', 'best' or 'paper'"),
        ("heat", "huge", {}, "preset: Input should be"),
        ("navier-stokes", "huge", {}, "preset: Input should be"),
        ("wave", "small", {}, "experiment 'wave'"),
        ("study", "small", {}, "experiment 'study'"),
        ("resources", "best", {}, "preset: Input should be"),
        ("resources", "small", {"seeds": 2}, "resources has no option seeds"),
    ],
)
def test_wrong_options_are_refused_by_name(name, preset, options, message):
    with pytest.raises(ValueError, match=message):
        study_of(name, preset, **options)


def test_wrong_viscosities_are_refused():
    with pytest.raises(ValueError, match=r"preset 'best' has no viscosity 0.001: take 1e-05"):
        recipes.navier_stokes("best", viscosity=1e-3)
    for preset in ("small", "paper"):
        with pytest.raises(ValueError, match=r"has no viscosity 0.1: take 1e-0"):
            recipes.navier_stokes(preset, viscosity=0.1)
    with pytest.raises(ValueError, match="darcy has no option viscosity: leave it out"):
        study_of("darcy", viscosity=1e-3)
    with pytest.raises(ValueError, match="give at least one"):
        recipes.Study(name="none", preset="small", experiments=())
