"""The `paper` presets are the published protocol: table 5, the text, and the published scripts."""

import pytest
import torch

from pdno.networks.neural_operator import count_parameters
from pdno.paper import recipes
from pdno.paper.reproduce import reproduce

COMMON = {"optimiser": "adam", "schedule": "step", "step_factor": 0.5, "reduction": "sum"}
SHARED = {**COMMON, "loss_order": 0.0, "clip": None, "patience": None, "precision": "float32"}
BASELINE = {"epochs": 500, "learning_rate": 1e-3, "weight_decay": 1e-4}

# Table 5: batch, learning rate, weight decay, epochs, step; channels, layers, hidden, activation
TABLE_5 = {
    "heat": ((20, 1e-2, 1e-6, 10_000, 2000), (None, 2, 40, "gelu")),
    "darcy": ((20, 1e-2, 1e-6, 1000, 200), (20, 3, 32, "gelu")),
    "navier-stokes": ((20, 5e-3, 1e-6, 1000, 200), (20, 2, 32, "gelu")),
    "burgers": ((20, 5e-3, 0.0, 1000, 100), (64, 2, 64, "tanh")),
}
STUDIES = {
    "heat": recipes.heat,
    "darcy": recipes.darcy,
    "navier-stokes": recipes.navier_stokes,
    "burgers": recipes.burgers,
}


def experiments(name, *models):
    """The runs of some networks, or of all."""
    found = STUDIES[name]("paper").experiments
    chosen = [e for e in found if not models or e.model in models]
    assert {e.model for e in chosen} >= set(models)
    return chosen


def settings(experiment):
    training = experiment.training
    return (
        training.batch_size,
        training.learning_rate,
        training.weight_decay,
        training.epochs,
        training.step_size,
    )


@pytest.mark.parametrize("name", TABLE_5)
def test_table_5(name):
    trained, symbol = TABLE_5[name]
    ours = [e for e in experiments(name) if e.model.startswith(("PDNO", "PDIO"))]
    assert ours
    for experiment in ours:
        network = experiment.network
        channels = getattr(network, "width", None)
        sizes = (channels, network.symbol_layers, network.symbol_hidden, network.activation)
        assert sizes == symbol
        small_batch = name == "navier-stokes" and experiment.problem.viscosity == 1e-3
        expected = (10, *trained[1:]) if small_batch else trained  # the text, not the table
        assert settings(experiment) == expected
        assert network.modes is None and getattr(network, "layers", 4) == 4
        assert getattr(network, "first_activation", None) is None


@pytest.mark.parametrize("name", STUDIES)
def test_what_all_trainings_have_in_common(name):
    for experiment in experiments(name):
        training = experiment.training.model_dump()
        assert {key: training[key] for key in SHARED} == SHARED
        assert training["seed"] == 0


@pytest.mark.parametrize("name", ["darcy", "navier-stokes", "burgers"])
def test_baselines_are_trained_as_published(name):
    rest = [e for e in experiments(name) if not e.model.startswith("PDNO")]
    assert rest
    for experiment in rest:
        training = experiment.training
        # the multiwavelet checkpoint of the long set is called one of 200 epochs
        long = experiment.model.startswith("MWT") and experiment.train == 9800
        expected = BASELINE | ({"epochs": 200} if long else {})
        assert {key: getattr(training, key) for key in BASELINE} == expected
        blocks = experiment.model.startswith("MWT") and name != "burgers"
        blocks = blocks or experiment.model == "FNO-3D"
        assert training.batch_size == (10 if blocks else 20)
        assert training.step_size == (
            50 if (name, experiment.model) == ("burgers", "FNO") else 100
        )


def test_heat():
    (experiment,) = experiments("heat")
    problem = experiment.problem
    assert (experiment.train, experiment.test, problem.samples) == (100, 20, 120)
    assert problem.resolution == experiment.resolution == 1024 and problem.diffusivity == 0.05
    assert problem.times == pytest.approx([0.05 + 0.05 * n for n in range(20)])
    trained_at = problem.times[:: experiment.task.train_every]
    assert trained_at == pytest.approx([0.05 + 0.1 * n for n in range(10)])
    # the network sees time as it is, and integer frequencies
    assert (experiment.task.start, experiment.task.span) == (0, 1)
    assert experiment.network.frequency_scale == 1 and experiment.normalization == "none"


def test_darcy():
    found = experiments("darcy")
    models = ["PDNO a(x,ξ)", "PDNO a(ξ)", "MWT Leg", "FNO"]
    table = [(s, model) for s in (32, 64, 128, 256, 512) for model in models]
    assert [(e.resolution, e.model) for e in found] == table
    for experiment in found:
        assert (experiment.train, experiment.test) == (1000, 100)
        problem, network = experiment.problem, experiment.network
        assert (problem.resolution, problem.low, problem.high, problem.forcing) == (512, 3, 12, 1)
        assert experiment.normalization == "pointwise" and experiment.task.kind == "static"
        s = experiment.resolution
        if network.kind == "mwt":
            sizes = (network.wavelets, network.width, network.modes, network.blocks)
            assert (sizes, network.coarsest, network.base) == ((4, 4, 12, 4), 0, "legendre")
            assert network.append_coordinates
            continue
        # x = i/(s-1) and ξ/s, as the published code has them
        assert network.coordinate_scale == pytest.approx(s / (s - 1))
        if network.kind == "pdno":
            assert network.frequency_scale == s
            assert network.depends_on_x == (experiment.model == "PDNO a(x,ξ)")
        else:
            assert (network.modes, network.width) == (12, 32)
            assert network.padding == 9 and isinstance(network.padding, int)


def test_navier_stokes_data():
    """Four datasets; of the 10,000 samples 200 are kept from training, unlike in the paper."""
    models = ["PDNO a(x,ξ)", "PDNO a(x,ξ,t)", "MWT Leg", "MWT Chb", "FNO-2D", "FNO-3D"]
    found = experiments("navier-stokes")
    table = [(e.problem.viscosity, e.problem.final_time, e.train) for e in found]
    sets = [(1e-3, 50, 1000), (1e-4, 30, 1000), (1e-4, 30, 9800), (1e-5, 20, 1000)]
    assert table == [one for one in sets for _ in models]
    assert [e.model for e in found] == models * 4
    for experiment in found:
        problem = experiment.problem
        assert experiment.test == 200 and problem.samples == experiment.train + 200
        assert experiment.resolution == problem.resolution == 64 and experiment.window == 10
        assert experiment.targets is None and problem.amplitude == "published"
        assert (
            len(problem.times) - experiment.window == {50: 40, 30: 20, 20: 10}[problem.final_time]
        )


def test_navier_stokes_networks():
    for experiment in experiments("navier-stokes"):
        network, task = experiment.network, experiment.task
        targets = experiment.problem.final_time - 10
        if experiment.model.startswith("PDNO"):
            assert (network.frequency_scale, network.depends_on_x) == (64, True)
            assert network.coordinate_scale == pytest.approx(64 / 63)
        if experiment.model in ("PDNO a(x,ξ)", "FNO-2D"):
            # all steps, fed with its own predictions; the next frame and not an increment
            assert (task.kind, task.steps, task.residual) == ("rollout", None, False)
            assert experiment.normalization == "none"
        elif experiment.model == "PDNO a(x,ξ,t)":
            assert (task.kind, task.train_every) == ("one-shot", 1)
            seen = [(t - task.start) / task.span for t in experiment.problem.times[10:]]
            assert seen == pytest.approx([(k + 1) / targets for k in range(targets)])
        else:
            assert task.kind == "space-time" and experiment.normalization == "pointwise"
        if experiment.model == "FNO-2D":
            assert (network.modes, network.width, network.padding) == (12, 20, 0)
        if experiment.model == "FNO-3D":
            assert (network.modes, network.width, network.padding) == (8, 20, (0, 0, 6))
            assert network.coordinate_scale[2] == pytest.approx(targets / (targets - 1))
        if experiment.model.startswith("MWT"):
            sizes = (network.wavelets, network.width, network.modes, network.blocks)
            assert (sizes, network.coarsest) == ((3, 4, 12, 4), 0)
            assert network.base == {"Leg": "legendre", "Chb": "chebyshev"}[experiment.model[4:]]


def test_burgers():
    found = experiments("burgers")
    models = ["PDNO a(x,ξ)", "PDNO a(ξ)", "MWT Leg", "MWT Chb", "FNO"]
    table = [(s, model) for s in (256, 512, 1024, 2048, 4096) for model in models]
    assert [(e.resolution, e.model) for e in found] == table
    for experiment in found:
        problem, network = experiment.problem, experiment.network
        assert (experiment.train, experiment.test) == (1000, 100)
        assert (problem.resolution, problem.viscosity, problem.times) == (8192, 0.1, (1.0,))
        assert experiment.normalization == "none" and experiment.task.kind == "static"
        if network.kind == "pdno":
            assert network.frequency_scale == experiment.resolution
        if network.kind == "fno":
            assert (network.modes, network.width, network.padding) == (16, 64, 0)
        if network.kind == "mwt":
            sizes = (network.wavelets, network.width, network.modes, network.blocks)
            assert sizes == (4, 16, 10, 2) and not network.append_coordinates


def test_ablations():
    """k_max on 256 points, ReLU at all resolutions, channels on ν = 1e-5 without truncation."""
    assert {e.resolution for e in recipes.darcy_modes("paper").experiments} == {256}
    both = recipes.darcy_activation("paper").experiments
    assert {e.resolution for e in both} == {32, 64, 128, 256, 512}
    # the published 2D code has GELU in the first layer, whatever the others have
    assert {e.network.first_activation for e in both} == {"gelu"}
    assert {e.network.activation for e in both} == {"gelu", "relu"}
    widths = recipes.navier_stokes_width("paper").experiments
    assert {(e.problem.viscosity, e.train) for e in widths} == {(1e-5, 1000)}
    assert {e.network.modes for e in widths if e.network.kind == "fno"} == {32}
    for experiment in both:
        assert settings(experiment) == TABLE_5["darcy"][0]


# Numbers of parameters, a complex number counted once


def built(experiment, dim, channels):
    with torch.device("meta"):
        return experiment.network.build(dim, channels, 1)


@pytest.mark.parametrize(
    ("name", "model", "channels", "count"),
    [
        ("heat", "PDIO a(x,ξ,t)", 1, 10_323),
        ("darcy", "PDNO a(x,ξ)", 1, 202_145),
        ("darcy", "PDNO a(ξ)", 1, 136_289),
        ("darcy", "FNO", 1, 1_188_353),
        ("darcy", "MWT Leg", 1, 5_089_281),
        ("navier-stokes", "PDNO a(x,ξ)", 10, 189_653),
        ("navier-stokes", "FNO-2D", 10, 465_557),
        ("navier-stokes", "FNO-3D", 10, 3_281_577),
        ("burgers", "PDNO a(x,ξ)", 1, 3_321_537),
        ("burgers", "PDNO a(ξ)", 1, 2_222_785),
        ("burgers", "FNO", 1, 287_425),
        ("burgers", "MWT Leg", 1, 254_377),
        ("burgers", "MWT Chb", 1, 254_377),
    ],
)
def test_networks_have_the_published_number_of_parameters(name, model, channels, count):
    for experiment in experiments(name, model):
        network = built(experiment, experiment.problem.dim, channels)
        assert count_parameters(network) == count


@pytest.mark.parametrize("model", ["MWT Leg", "MWT Chb"])
def test_the_space_time_wavelets_are_as_large_as_published(model):
    for experiment in experiments("navier-stokes", model):
        network = built(experiment, 2, 10)
        assert count_parameters(network, complex_once=False) == 215_017_817


def test_time_adds_one_input_to_each_symbol_network():
    plain, timed = (
        count_parameters(built(experiments("navier-stokes", model)[0], 2, 10))
        for model in ("PDNO a(x,ξ)", "PDNO a(x,ξ,t)")
    )
    assert timed - plain == 4 * 3 * 32


def test_table_6(monkeypatch, tmp_path):
    """The six networks of the resource table, by their printed numbers of parameters."""

    def count(_, experiment):
        sizes = (experiment.resolution, experiment.training.batch_size, experiment.targets)
        assert sizes == (64, 20, 10)
        with torch.device("meta"):
            made = experiment.network.build(2, 10, 1)
        return {"once": count_parameters(made)}, count_parameters(made, complex_once=False)

    monkeypatch.setattr("pdno.paper.reproduce.in_own_process", count)
    assert {row.model: row.value for row in reproduce("resources", tmp_path, preset="paper")} == {
        "PDNO k_max=12 width=20": 189_653,
        "PDNO k_max=12 width=30": 391_103,
        "PDNO k_max=32 width=20": 189_653,
        "FNO k_max=12 width=20": 465_557,
        "FNO k_max=12 width=30": 1_045_007,
        "FNO k_max=32 width=20": 3_281_557,
    }
