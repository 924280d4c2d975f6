"""A run folder holds all of a run, is never run twice, and gives its model back to the bit."""

import csv
import json
import struct

import numpy as np
import pytest
import scipy.io
import torch
from safetensors import safe_open

import pdno.runs.execute as running
import pdno.runs.measure as measuring
from pdno.data.generate import generate_dataset
from pdno.data.problems import BurgersProblem, HeatProblem
from pdno.evaluation.evaluate import evaluate
from pdno.files.atomic import sha256
from pdno.files.metric_table import read_metrics
from pdno.networks.specification import specify
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.paper import recipes
from pdno.runs.execute import run_experiment
from pdno.runs.run import load_run
from pdno.runs.specification import Experiment, open_experiment_data
from pdno.training.settings import TrainingSettings
from pdno.training.task import Markov, OneShot, SpaceTime, StaticMap, TeacherForcing
from pdno.training.trained_operator import TrainedOperator

FILES = {
    ".lock",
    "checksums.json",
    "specification.json",
    "environment.json",
    "history.csv",
    "weights.safetensors",
    "operator.json",
    "model_card.md",
    "samples.safetensors",
    "metrics.csv",
}


def pictures(folder):
    with safe_open(folder / "samples.safetensors", framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def fingerprint(folder):
    return {
        path.relative_to(folder): (sha256(path), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_folder_holds_all_of_a_run(tmp_path, datasets, darcy):
    rows = run_experiment(darcy, tmp_path / "run", data=datasets)
    assert {path.name for path in (tmp_path / "run").iterdir()} == FILES
    text = (tmp_path / "run" / "specification.json").read_text(encoding="utf-8")
    assert Experiment.model_validate_json(text) == darcy
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert environment["torch"] == torch.__version__ and environment["device"] == "cpu"
    assert environment["processes"] == environment["threads"] == 1
    with open(tmp_path / "run" / "history.csv", newline="") as file:
        history = list(csv.DictReader(file))
    assert [row["epoch"] for row in history] == ["1", "2"]
    assert read_metrics(tmp_path / "run" / "metrics.csv") == rows
    (test,) = [row for row in rows if (row.split, row.metric) == ("test", "relative_l2")]
    # the history measures in single precision
    assert test.value == pytest.approx(float(history[-1]["test"]), rel=1e-5)
    assert test.seconds == pytest.approx(float(history[-1]["seconds"]))


def test_metrics_are_the_rows(tmp_path, datasets, darcy):
    metrics = run_experiment(darcy, tmp_path, data=datasets)
    assert load_run(tmp_path).operator.metrics == tuple(metrics)
    assert metrics[0].seconds > 0 and metrics[0].parameters > 0
    assert {f"{metric.split} {metric.resolution}" for metric in metrics} == {
        "train 8",
        "test 8",
        "zero-shot 16",
        "interpolated 16",
        "solver 8",
        "solver 12",
        "training 8",
        "roughness 8",
        "speed 8",
    }


def test_the_gap_and_the_best_epoch(tmp_path, datasets, darcy):
    rows = run_experiment(darcy, tmp_path, data=datasets)
    value = {(row.split, row.metric): row.value for row in rows}
    gap = value["test", "relative_l2"] - value["train", "relative_l2"]
    assert value["test", "gap relative_l2"] == gap
    with open(tmp_path / "history.csv", newline="") as file:
        errors = [float(row["test"]) for row in csv.DictReader(file)]
    assert value["test", "best epoch relative_l2"] == min(errors)


def small(network, **changes):
    return network.model_copy(update=changes)


def cases(heat, darcy, flow):
    """One experiment of each kind of network, task and normalisation."""
    tiny = {"width": 2, "symbol_hidden": 4, "modes": 3}
    paper = {e.model: e for e in recipes.navier_stokes("paper", viscosity=1e-5).experiments}
    block = paper["FNO-3D"].network
    wavelets = {"modes": 2, "width": 1, "wavelets": 2, "blocks": 1}
    burgers = BurgersProblem(samples=6, resolution=32, solver_resolution=32)
    line = {"problem": burgers, "resolution": 16, "zero_shot": (), "normalization": "none"}
    half = TrainingSettings(epochs=1, batch_size=2, precision="bfloat16")
    double = TrainingSettings(epochs=1, batch_size=2, precision="float64")
    return {
        "PDIO": heat,
        "FNO, pointwise": darcy,
        "PDNO, channel": darcy.with_changes(
            network=specify("pdno", **tiny), normalization="channel", zero_shot=()
        ),
        "PDNO of low rank": darcy.with_changes(
            network=specify("pdno", **tiny, symbol="low-rank"), zero_shot=()
        ),
        "PDNO of a table": darcy.with_changes(
            network=specify("pdno", **tiny, symbol="table", padding=2), zero_shot=()
        ),
        "PDNO, all modes": darcy.with_changes(
            network=specify("pdno", **{**tiny, "modes": None}), zero_shot=()
        ),
        "MWT": darcy.with_changes(network=specify("mwt", **wavelets)),
        "MWT without x": darcy.with_changes(
            network=specify("mwt", **wavelets, append_coordinates=False), **line
        ),
        "float64": darcy.with_changes(training=double, zero_shot=()),
        "bfloat16": darcy.with_changes(training=half, zero_shot=()),
        "rollout": flow.with_changes(normalization="channel"),
        "rollout of some frames": flow.with_changes(targets=2),
        "teacher forcing": flow.with_changes(task=TeacherForcing(noise=0.1)),
        "Markov": flow.with_changes(task=Markov(), normalization="pointwise"),
        "one-shot": flow.with_changes(
            network=specify("pdno", **tiny, takes_time=True), task=OneShot(start=2, span=3)
        ),
        "MWT of blocks": flow.with_changes(
            network=specify("mwt", **wavelets, space_time=True),
            task=SpaceTime(),
            normalization="pointwise",
        ),
        "FNO of blocks": flow.with_changes(
            network=small(block, width=2, modes=3), task=SpaceTime(), normalization="pointwise"
        ),
    }


@pytest.mark.parametrize(
    "case",
    [
        "PDIO",
        "FNO, pointwise",
        "PDNO, channel",
        "PDNO of low rank",
        "PDNO of a table",
        "PDNO, all modes",
        "MWT",
        "MWT without x",
        "float64",
        "bfloat16",
        "rollout",
        "rollout of some frames",
        "teacher forcing",
        "Markov",
        "one-shot",
        "MWT of blocks",
        "FNO of blocks",
    ],
)
def test_a_loaded_run_is_the_run(tmp_path, datasets, heat, darcy, flow, case):
    """Of every kind: the same weights, predictions and errors, to the last bit."""
    experiment = cases(heat, darcy, flow)[case]
    rows = run_experiment(experiment, tmp_path, data=datasets)
    found = load_run(tmp_path)
    assert (
        found.experiment == experiment
        and list(found.metrics) == rows
        and not found.operator.training
    )
    data = open_experiment_data(experiment, datasets)
    assert found.operator.sampling.grid == data.train.grid
    test = data.test
    times = None if test.times is None else test.times[test.input_frames or 0 :]
    inputs, targets = test.batch()
    kept = pictures(tmp_path)
    said = found.operator.predict(inputs, grid=test.grid, times=times)
    assert said.shape == targets.shape and torch.equal(said, kept["prediction"])
    for split, samples in (("train", data.train), ("test", test)):
        errors = evaluate(found.operator, samples).metrics()
        told = {row.metric: row.value for row in rows if row.split == split}
        assert errors == {metric: told[metric] for metric in errors}
    if times is not None:
        frames = kept["frame_error"].mean(dim=0).tolist()
        assert frames == pytest.approx([told[f"relative_l2 t={t:g}"] for t in times], rel=1e-5)
    assert ("frame_error" in kept) == (times is not None)


def test_a_run_is_watched_on_its_validation_and_never_on_its_test(tmp_path, datasets, darcy):
    watched = darcy.with_changes(train=3, validation=1)
    rows = run_experiment(watched, tmp_path, data=datasets)
    data = open_experiment_data(watched, datasets)
    whole = open_experiment_data(darcy, datasets)
    assert torch.equal(data.validation.batch()[0], whole.train.batch()[0][3:])
    assert torch.equal(data.test.batch()[0], whole.test.batch()[0])
    found = load_run(tmp_path)
    told = {row.metric: row.value for row in rows if row.split == "test"}
    assert told["relative_l2"] == evaluate(found.operator, data.test).mean()
    history = (tmp_path / "history.csv").read_text().splitlines()
    column = history[0].split(",").index("test")
    last = float(history[-1].split(",")[column])
    assert last == pytest.approx(evaluate(found.operator, data.validation).mean(), rel=1e-5)
    with pytest.raises(ValueError, match="overlap"):
        darcy.with_changes(validation=1)


@pytest.mark.parametrize("kind", ["pdno", "fno"])
def test_a_flow_learns_by_transport_with_every_new_setting(tmp_path, datasets, flow, kind):
    network = {
        "pdno": specify(
            "pdno", width=16, modes=3, symbol="trunk", space_hidden=4, head="transport"
        ),
        "fno": specify("fno", width=16, modes=3, head="transport"),
    }[kind]
    training = TrainingSettings(
        epochs=2, batch_size=4, optimiser="muon", averaging=0.9, augment=True, learning_rate=1e-3
    )
    task = Markov(residual=False)
    changes = {"network": network, "task": task, "training": training}
    experiment = flow.with_changes(normalization="channel", **changes)
    rows = run_experiment(experiment, tmp_path, data=datasets)
    told = {row.metric: row.value for row in rows if row.split == "test"}
    assert 0 < told["relative_l2"] < 0.9
    again = load_run(tmp_path)
    assert again.experiment == experiment
    test = open_experiment_data(experiment, datasets).test
    assert evaluate(again.operator, test).mean() == told["relative_l2"]


def test_a_finished_run_is_not_touched(tmp_path, datasets, darcy, monkeypatch):
    rows = run_experiment(darcy, tmp_path, data=datasets)
    before = fingerprint(tmp_path)

    def fail(*given, **more):
        raise AssertionError("trained again")

    monkeypatch.setattr(running, "fit", fail)
    monkeypatch.setattr(running.specification, "ensure_dataset", fail)
    assert run_experiment(darcy, tmp_path, data=datasets) == rows
    assert fingerprint(tmp_path) == before


def test_another_specification_in_the_same_folder_is_refused(tmp_path, datasets, darcy):
    run_experiment(darcy, tmp_path, data=datasets)
    before = fingerprint(tmp_path)
    for changes, message in (
        ({"training": {"epochs": 2, "batch_size": 2, "seed": 1}}, "training.seed was 0, is 1"),
        ({"network": {"kind": "fno", "width": 5, "modes": 3}}, "network.width was 4, is 5"),
        ({"model": "mine", "train": 3}, "model was FNO, is mine, train was 4, is 3"),
        ({"zero_shot": ()}, r"zero_shot was \[16\], is \[\]"),
    ):
        with pytest.raises(ValueError, match=f"another specification \\({message}\\)"):
            run_experiment(darcy.with_changes(**changes), tmp_path, data=datasets)
    assert fingerprint(tmp_path) == before


def test_a_run_that_stopped_before_its_numbers_goes_on(tmp_path, datasets, darcy, monkeypatch):
    """Nothing is trained again, and an unfinished run is not taken for a finished one."""
    peace, cut = tmp_path / "peace", tmp_path / "cut"
    run_experiment(darcy, peace, data=datasets)

    def fail(*given):
        raise RuntimeError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(running, "measure", fail)
        with pytest.raises(RuntimeError, match="power cut"):
            run_experiment(darcy, cut, data=datasets)
    assert not (cut / "checksums.json").exists()
    with pytest.raises(ValueError, match=r"no finished run \(checksums.json is missing\)"):
        load_run(cut)
    monkeypatch.setattr(TrainedOperator, "forward", fail)  # a step of training would fail
    rows = run_experiment(darcy, cut, data=datasets)
    assert {path.name for path in cut.iterdir()} == FILES
    assert sha256(cut / "weights.safetensors") == sha256(peace / "weights.safetensors")
    timed = {"speed", "solver", "training"}
    values = {(r.split, r.metric, r.resolution): r.value for r in rows if r.split not in timed}
    assert values == {
        (r.split, r.metric, r.resolution): r.value
        for r in read_metrics(peace / "metrics.csv")
        if r.split not in timed
    }


def test_a_run_that_stopped_in_training_ends_with_the_same_weights(
    tmp_path, datasets, darcy, monkeypatch
):
    settings = TrainingSettings(epochs=4, batch_size=2, checkpoint_seconds=0)
    experiment = darcy.with_changes(training=settings)
    peace, cut = tmp_path / "peace", tmp_path / "cut"
    run_experiment(experiment, peace, data=datasets)
    whole, calls = TrainedOperator.forward, []

    def stumble(self, *given):
        calls.append(1)
        if len(calls) == 4:
            raise RuntimeError("power cut")
        return whole(self, *given)

    monkeypatch.setattr(TrainedOperator, "forward", stumble)
    with pytest.raises(RuntimeError, match="power cut"):
        run_experiment(experiment, cut, data=datasets)
    run_experiment(experiment, cut, data=datasets)
    assert len(calls) == 8 + 1  # eight steps, one of them twice
    assert sha256(cut / "weights.safetensors") == sha256(peace / "weights.safetensors")


def test_weights_are_tensors_and_text_alone(tmp_path, datasets, flow):
    """A safetensors file: its length, a table in JSON, and numbers; nothing to unpickle."""
    run_experiment(flow, tmp_path, data=datasets)
    raw = (tmp_path / "weights.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    table = json.loads(raw[8 : 8 + length])
    table.pop("__metadata__")
    state = load_run(tmp_path).operator.state_dict()
    assert set(table) == set(state)
    # numbers to the last byte
    assert max(entry["data_offsets"][1] for entry in table.values()) == len(raw) - 8 - length


def test_damaged_weights_are_refused(tmp_path, datasets, flow):
    run_experiment(flow, tmp_path, data=datasets)
    (tmp_path / "weights.safetensors").write_bytes(b"not tensors")
    with pytest.raises(ValueError, match="weights.safetensors was changed"):
        _ = load_run(tmp_path).operator


# What is measured


@pytest.mark.parametrize("name", ["heat", "darcy"])
def test_every_sample_is_predicted_once_per_resolution(
    tmp_path, datasets, request, name, monkeypatch
):
    """For metrics, other times, other resolutions and pictures together; speed is timed apart."""
    experiment = request.getfixturevalue(name)
    if name == "darcy":
        experiment = experiment.with_changes(zero_shot=(8, 16))
    predicted, compared, fitted = [], [], []
    recovery = measuring.symbol_recovery
    predict, fit, compare = TrainedOperator.predict, running.fit, recovery.compare_heat_symbol

    def count(self, inputs, *, grid, **options):
        if fitted:
            predicted.append((grid.shape[0], len(inputs)))
        return predict(self, inputs, grid=grid, **options)

    monkeypatch.setattr(TrainedOperator, "predict", count)
    monkeypatch.setattr(running, "fit", lambda *a, **k: (fit(*a, **k), fitted.append(1))[0])
    monkeypatch.setattr(measuring, "compare_speed", lambda *arguments: {})
    monkeypatch.setattr(
        recovery, "compare_heat_symbol", lambda *a, **k: compared.append(1) or compare(*a, **k)
    )
    run_experiment(experiment, tmp_path, data=datasets)
    expected = [(32, 3), (32, 2)] if name == "heat" else [(8, 4), (8, 2), (16, 2)]
    assert predicted == expected and len(compared) == (name == "heat")


def test_times_between_those_of_the_training_have_their_own_rows(tmp_path, datasets, heat):
    rows = run_experiment(heat, tmp_path, data=datasets)
    value = {row.metric: row.value for row in rows if row.split == "test"}
    model, test = load_run(tmp_path).operator, open_experiment_data(heat, datasets).test
    inputs, targets = test.batch()
    said = model.predict(inputs, grid=test.grid, times=test.times)
    for name, chosen in (("trained", slice(0, None, 2)), ("other", slice(1, None, 2))):
        off = (said[:, chosen] - targets[:, chosen]).double().flatten(1).norm(dim=1)
        error = (off / targets[:, chosen].double().flatten(1).norm(dim=1)).mean()
        assert value[f"relative_l2 {name} times"] == pytest.approx(float(error), rel=1e-5)


def test_the_heat_symbol_is_compared_at_the_times_that_the_network_sees(tmp_path, datasets, heat):
    """A symbol that was trained on scaled times is asked at scaled times."""
    scaled = heat.with_changes(task=OneShot(start=0.25, span=2.0))
    run_experiment(scaled, tmp_path, data=datasets)
    symbol, grid = (
        load_run(tmp_path).operator.network.symbol,
        load_run(tmp_path).operator.sampling.grid,
    )
    kept = pictures(tmp_path)
    assert kept["heat.times"].tolist() == pytest.approx([0.25, 0.5, 0.75, 1.0])
    for row, t in enumerate(heat.problem.times):
        with torch.no_grad():
            values = symbol.evaluate(
                grid, None, torch.tensor([(t - 0.25) / 2], dtype=torch.float64)
            )
        learned = values.space.mean() * values.frequency.flatten()[:13].real
        assert torch.allclose(kept["heat.learned"][row, 12:], learned.float(), atol=1e-6)


@pytest.mark.parametrize(
    "changes",
    [
        {"resolution": 8},  # fewer modes than the figure has
        {
            "problem": HeatProblem(samples=5, resolution=32, frames=1),
            "task": StaticMap(),
            "network": specify("pdio", symbol_hidden=8),
        },
    ],
)
def test_heat_on_a_small_grid_or_at_one_time(tmp_path, datasets, heat, changes):
    rows = run_experiment(heat.with_changes(**changes), tmp_path, data=datasets)
    measured = {row.metric for row in rows if row.split == "symbol"}
    assert bool(measured) == ("task" not in changes)


def test_pictures_show_the_symbols_at_the_time_that_the_network_sees(tmp_path, datasets, flow):
    network = specify("pdno", width=2, symbol_hidden=4, layers=2, takes_time=True)
    timed = flow.with_changes(network=network, task=OneShot(start=2, span=3))
    run_experiment(timed, tmp_path, data=datasets)
    kept, found = pictures(tmp_path), load_run(tmp_path)
    operators = [m for m in found.operator.modules() if isinstance(m, PseudoDifferentialOperator)]
    assert len(operators) == 2
    for layer, operator in enumerate(operators):
        with torch.no_grad():
            values = operator.values(found.operator.sampling.grid, 1.0)  # t = 5, the last one
        a1, a2 = values.space[0].float(), values.frequency[0].to(torch.complex64)
        assert torch.equal(kept[f"symbol.{layer}.real"], a2.real)
        assert torch.equal(kept[f"symbol.{layer}.imaginary"], a2.imag)
        assert torch.equal(kept[f"symbol.{layer}.space"], a1)


# Data of files


def test_a_run_on_a_published_file(tmp_path):
    """Burgers as MATLAB stores it; the numbers of the file are those of the run."""
    fields = np.random.default_rng(0).standard_normal((2, 6, 32)).astype(np.float32)
    scipy.io.savemat(tmp_path / "burgers.mat", {"a": fields[0], "u": fields[1]})
    experiment = Experiment(
        name="burgers",
        model="FNO",
        file=tmp_path / "burgers.mat",
        train=4,
        test=2,
        resolution=16,
        network=specify("fno", width=4, modes=3),
        training=TrainingSettings(epochs=1),
        zero_shot=(32,),
    )
    rows = run_experiment(experiment, tmp_path / "run")
    assert {row.split for row in rows} == {
        "train",
        "test",
        "zero-shot",
        "interpolated",
        "training",
        "roughness",
    }
    kept = pictures(tmp_path / "run")
    assert torch.equal(kept["input"][:, 0], torch.from_numpy(fields[0, 4:, ::2]))
    assert torch.equal(kept["target"][:, 0, 0], torch.from_numpy(fields[1, 4:, ::2]))
    assert not (tmp_path / "data").exists()
    for changes, message in (
        ({"train": 5}, "train=5 and test=2 overlap in 6 samples"),
        ({"resolution": 12}, "resolution 12 is not among the points"),
        ({"window": 1}, "does not fit 1 frames"),
    ):
        with pytest.raises(ValueError, match=message):
            run_experiment(experiment.with_changes(**changes), tmp_path / "other")
        for path in (tmp_path / "other").iterdir():
            path.unlink()


def test_a_run_on_a_dataset_folder_is_that_on_its_problem(tmp_path, datasets, darcy):
    generate_dataset(darcy.problem, tmp_path / "mine")
    first = run_experiment(darcy, tmp_path / "a", data=datasets)
    given = darcy.with_changes(problem=None, file=tmp_path / "mine")
    second = run_experiment(given, tmp_path / "b")
    a, b = (
        {
            (r.split, r.metric, r.resolution): r.value
            for r in rows
            if r.split not in {"speed", "solver", "training"}
        }
        for rows in (first, second)
    )
    assert a == b and len(a) > 9


def test_data_lie_beside_the_run_where_nothing_else_is_said(tmp_path, heat):
    run_experiment(heat, tmp_path / "run")
    (folder,) = (tmp_path / "data").iterdir()
    assert folder.name.startswith("heat-5x32-") and (folder / "manifest.json").is_file()
