"""Train from a file, evaluate anywhere, predict for a file: the numbers are those of the model."""

import json

import h5py
import numpy as np
import pytest
import scipy.io
import torch

from pdno.cli import main
from pdno.data.dataset import open_dataset
from pdno.data.generate import generate_dataset
from pdno.data.problems import HeatProblem
from pdno.evaluation.evaluate import evaluate
from pdno.files.metric_table import read_metrics
from pdno.files.run_folder import WITH_CHECKSUMS, write_checksums
from pdno.runs.execute import run_experiment
from pdno.runs.run import load_run
from pdno.runs.specification import open_experiment_data, read_experiment
from pdno.spectral.grid import Grid


@pytest.fixture
def trained(tmp_path, datasets):
    """Run an experiment; returns its folder, beside its data."""

    def run(experiment):
        folder = datasets.parent / tmp_path.name
        run_experiment(experiment, folder, data=datasets)
        return folder

    return run


def specification(path, experiment):
    path.write_text(experiment.model_dump_json(), encoding="utf-8")
    return path


# Training


def test_a_file_is_trained_as_it_says(tmp_path, datasets, heat):
    path = specification(tmp_path / "heat.json", heat)
    rows = run_experiment(read_experiment(path), tmp_path / "run")
    assert load_run(tmp_path / "run").experiment == heat
    again = run_experiment(heat, tmp_path / "other", data=datasets)
    told, expected = (
        {
            (r.split, r.metric): r.value
            for r in some
            if r.split not in {"speed", "solver", "training"}
        }
        for some in (rows, again)
    )
    assert told == expected


def test_epochs_and_seed_of_the_command_count(tmp_path, heat):
    path = specification(tmp_path / "heat.json", heat)
    changed = read_experiment(path, {"epochs": 3, "seed": 7})
    run_experiment(changed, tmp_path / "run")
    found = load_run(tmp_path / "run").experiment
    assert (found.training.epochs, found.training.seed, found.seed) == (3, 7, 7)
    settings = heat.training.model_copy(update={"epochs": 3, "seed": 7})
    assert found == heat.with_changes(training=settings)
    assert len((tmp_path / "run" / "history.csv").read_text().splitlines()) == 4


# Evaluation


def test_evaluation_at_home_is_that_of_the_run(trained, darcy):
    folder = trained(darcy)
    told = {r.metric: r.value for r in read_metrics(folder / "metrics.csv") if r.split == "test"}
    rows = load_run(folder).evaluate()
    assert {(row.split, row.resolution, row.seed) for row in rows} == {("test", 8, 0)}
    assert {r.metric: r.value for r in rows}.items() <= told.items()


def test_evaluation_elsewhere_is_that_of_the_model(trained, datasets, darcy):
    folder = trained(darcy)
    rows = load_run(folder).evaluate(resolution=16)
    assert {row.resolution for row in rows} == {16}
    zero_shot = {
        r.metric: r.value for r in read_metrics(folder / "metrics.csv") if r.split == "zero-shot"
    }
    assert {r.metric: r.value for r in rows} == zero_shot
    finest = open_experiment_data(darcy, datasets).finest_test
    assert zero_shot == evaluate(load_run(folder).operator, finest).metrics()


def test_evaluation_on_other_data(trained, tmp_path, flow):
    folder = trained(flow)
    other = flow.problem.model_copy(update={"seed": 5, "samples": 3})
    generate_dataset(other, tmp_path / "other")
    rows = load_run(folder).evaluate(file=tmp_path / "other")
    assert {(row.split, row.resolution) for row in rows} == {("other", 16)}
    data = open_dataset(tmp_path / "other").window(2)
    assert {r.metric: r.value for r in rows} == evaluate(load_run(folder).operator, data).metrics()
    (half,) = {
        row.resolution for row in load_run(folder).evaluate(file=tmp_path / "other", resolution=8)
    }
    assert half == 8


@pytest.mark.parametrize(
    ("resolution", "message"),
    [
        (0, "resolution is 0; expected at least 1"),
        (-8, "resolution is -8; expected at least 1"),
        (12, "resolution 12 is not among the points of data stored at 16"),
        (32, "resolution 32 is not among the points of data stored at 16"),
    ],
)
def test_resolutions_that_the_data_do_not_have_are_refused(trained, darcy, resolution, message):
    with pytest.raises(ValueError, match=message):
        load_run(trained(darcy)).evaluate(resolution=resolution)


def test_data_that_were_moved_are_missed_by_name(tmp_path, heat):
    run_experiment(heat, tmp_path / "here" / "run")
    (tmp_path / "here" / "run").rename(tmp_path / "run")
    with pytest.raises(ValueError, match=r"heat-5x32-.* is missing or was moved: .* with --file"):
        load_run(tmp_path / "run").evaluate()
    (data,) = (tmp_path / "here" / "data").iterdir()
    assert load_run(tmp_path / "run").evaluate(file=data)


# Prediction


def write(path, **arrays):
    if path.suffix == ".npy":
        np.save(path, next(iter(arrays.values())))
    elif path.suffix == ".npz":
        np.savez(path, **arrays)
    elif path.suffix == ".mat":
        scipy.io.savemat(path, arrays)
    else:
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file[name] = array


@pytest.mark.parametrize("ending", ["npy", "npz", "mat", "h5"])
def test_a_prediction_is_that_of_the_model(trained, tmp_path, darcy, ending):
    folder = trained(darcy)
    f = np.random.default_rng(0).standard_normal((3, 8, 8)).astype(np.float32)
    found = load_run(folder)
    expected = found.operator.predict(
        torch.from_numpy(f)[:, None], grid=found.operator.sampling.grid
    ).numpy()
    assert expected.shape == (3, 1, 8, 8)
    for fields in (f, f[:, None]):  # one channel may be left out
        write(tmp_path / f"f.{ending}", f=fields)
        shape = load_run(folder).predict(tmp_path / f"f.{ending}", tmp_path / "u.npy", times=None)
        assert shape == expected.shape
        assert np.array_equal(np.load(tmp_path / "u.npy"), expected)


def test_a_prediction_for_many_samples_is_made_batch_by_batch(trained, tmp_path, darcy):
    folder = trained(darcy)
    f = np.random.default_rng(0).standard_normal((45, 8, 8)).astype(np.float32)
    np.save(tmp_path / "f.npy", f)
    load_run(folder).predict(tmp_path / "f.npy", tmp_path / "u.npy", times=None)
    found = load_run(folder)
    alone = found.operator.predict(
        torch.from_numpy(f[43:44, None]), grid=found.operator.sampling.grid
    )
    assert np.allclose(np.load(tmp_path / "u.npy")[43:44], alone.numpy(), rtol=1e-4, atol=1e-6)


def test_a_prediction_on_a_finer_grid_starts_where_the_training_did(trained, tmp_path, darcy):
    """Darcy data are cell centres of 16 points; every second of them begins at x = 1/32, too."""
    folder = trained(darcy)
    found = load_run(folder)
    assert found.operator.sampling.grid == Grid((8, 8), periodic=False, offset=0.25)
    f = np.random.default_rng(0).standard_normal((1, 16, 16)).astype(np.float32)
    np.save(tmp_path / "f.npy", f)
    load_run(folder).predict(tmp_path / "f.npy", tmp_path / "u.npy", times=None)
    expected = found.operator.predict(torch.from_numpy(f)[:, None], grid=Grid.cells((16, 16)))
    assert np.array_equal(np.load(tmp_path / "u.npy"), expected.numpy())
    # finer than the data that the training was taken from: cell centres again
    f = np.random.default_rng(1).standard_normal((1, 128, 128)).astype(np.float32)
    np.save(tmp_path / "f.npy", f)
    load_run(folder).predict(tmp_path / "f.npy", tmp_path / "u.npy", times=None)
    expected = found.operator.predict(torch.from_numpy(f)[:, None], grid=Grid.cells((128, 128)))
    assert np.array_equal(np.load(tmp_path / "u.npy"), expected.numpy())


def test_frames_are_predicted_at_the_times_of_the_training_or_at_others(trained, tmp_path, heat):
    folder = trained(heat)
    f = np.random.default_rng(0).standard_normal((2, 32)).astype(np.float32)
    np.save(tmp_path / "f.npy", f)
    found = load_run(folder)
    for times, wanted in ((None, [0.25, 0.5, 0.75, 1.0]), ([0.1, 0.33], [0.1, 0.33])):
        load_run(folder).predict(tmp_path / "f.npy", tmp_path / "u.npy", times=times)
        expected = found.operator.predict(
            torch.from_numpy(f)[:, None], grid=found.operator.sampling.grid, times=wanted
        )
        assert expected.shape == (2, len(wanted), 1, 32)
        assert np.array_equal(np.load(tmp_path / "u.npy"), expected.numpy())


def test_frames_of_a_rollout_come_one_after_another(trained, tmp_path, flow):
    """Asked for t = 5 alone it would give t = 3 under a wrong name."""
    some = flow.with_changes(targets=2)
    folder = trained(some)
    f = np.random.default_rng(0).standard_normal((1, 2, 16, 16)).astype(np.float32)
    np.save(tmp_path / "f.npy", f)

    def predict(times):
        load_run(folder).predict(tmp_path / "f.npy", tmp_path / "u.npy", times=times)
        return np.load(tmp_path / "u.npy")

    usual = predict(None)
    assert usual.shape == (1, 2, 1, 16, 16)  # t = 3 and 4, the targets
    longer = predict([3.0, 4.0, 5.0, 6.0])
    assert longer.shape[1] == 4 and np.array_equal(longer[:, :2], usual)
    for times in ([5.0], [3.0, 5.0], [2.0, 3.0]):
        with pytest.raises(ValueError, match=r"this run predicts t = 3, 4, \.\.\. in turn"):
            predict(times)


def test_wrong_inputs_are_refused_by_name(trained, tmp_path, darcy):
    folder = trained(darcy)
    f = np.zeros((2, 8, 8))
    for name, arrays, options, message in (
        ("two.npz", {"f": f, "g": f}, {}, "has the arrays of real numbers f, g: choose one"),
        ("two.npz", {"f": f, "g": f}, {"array": "h"}, "has no array 'h': it has f, g"),
        ("none.npz", {"f": f + 1j}, {}, "has the arrays of real numbers none"),
        ("a.npy", {"f": f[0]}, {}, r"shape \(8, 8\); expected \(B, C, \*N\)"),
        ("b.npy", {"f": f[None, None]}, {}, r"have shape \(1, 1, 2, 8, 8\)"),
        ("c.npy", {"f": f[:0]}, {}, "B > 0"),
        ("d.npy", {"f": np.zeros((2, 3, 8, 8))}, {}, r"takes \(B, 1, N1, N2\)"),
    ):
        write(tmp_path / name, **arrays)
        with pytest.raises(ValueError, match=message):
            load_run(folder).predict(
                tmp_path / name, tmp_path / "u.npy", **{"times": None, **options}
            )
    assert not (tmp_path / "u.npy").exists()
    write(tmp_path / "two.npz", f=f, g=f + 1)
    load_run(folder).predict(tmp_path / "two.npz", tmp_path / "u.npy", array="g", times=None)
    found = load_run(folder)
    said = found.operator.predict(torch.ones(2, 1, 8, 8), grid=found.operator.sampling.grid)
    assert np.array_equal(np.load(tmp_path / "u.npy"), said.numpy())


def test_the_times_that_a_network_sees_are_scaled_when_it_predicts(trained, tmp_path, heat):
    """The same weights with another origin of time are another operator, by that shift alone."""
    folder = trained(heat)
    shifted = tmp_path / "shifted"
    shifted.mkdir()
    for path in folder.iterdir():
        (shifted / path.name).write_bytes(path.read_bytes())
    record = json.loads((shifted / "operator.json").read_text())
    record["task"] |= {"start": 1.0, "span": 2.0}
    (shifted / "operator.json").write_text(json.dumps(record))
    write_checksums(shifted, WITH_CHECKSUMS)
    np.save(tmp_path / "f.npy", np.random.default_rng(0).standard_normal((2, 32)))
    for run, times in ((folder, [0.25, 0.5]), (shifted, [1.5, 2.0])):
        load_run(run).predict(
            tmp_path / "f.npy", tmp_path / f"{len(times)}{run.name}.npy", times=times
        )
    first, second = (np.load(tmp_path / f"2{run.name}.npy") for run in (folder, shifted))
    assert np.array_equal(first, second)


def test_an_operator_of_a_family_predicts_with_its_parameters_by_name(trained, tmp_path, heat):
    """From a file and by the command line; without them, the message names them."""
    family = HeatProblem(samples=5, resolution=32, frames=4, vary={"diffusivity": (0.01, 0.1)})
    network = heat.network.model_copy(update={"pde_parameters": 1})
    folder = trained(heat.with_changes(problem=family, network=network))
    f = np.random.default_rng(0).standard_normal((2, 32)).astype(np.float32)
    np.save(tmp_path / "f.npy", f)
    run, chosen = load_run(folder), {"diffusivity": 0.05}
    run.predict(tmp_path / "f.npy", tmp_path / "u.npy", pde_parameters=chosen)
    expected = run.operator.predict(f[:, None], pde_parameters=chosen)
    assert np.array_equal(np.load(tmp_path / "u.npy"), expected)
    files = ["predict", str(folder), str(tmp_path / "f.npy"), "--out", str(tmp_path / "v.npy")]
    assert main([*files, "--pde-parameters", "diffusivity", "0.05"]) == 0
    assert np.array_equal(np.load(tmp_path / "v.npy"), expected)
    with pytest.raises(ValueError, match="one of a family: give .*diffusivity"):
        run.predict(tmp_path / "f.npy", tmp_path / "u.npy")


# Fine-tuning


def test_a_run_starts_from_the_operator_of_another(trained, tmp_path, darcy):
    first = trained(darcy)
    path = tmp_path / "tuned.yaml"
    path.write_text(
        f"start: {first}\n"
        "problem: {name: darcy, samples: 5, resolution: 16, solver_resolution: 16, high: 20}\n"
        "train: 3\n"
        "test: 2\n"
        "resolution: 16\n"
        "training: {epochs: 1, learning_rate: 1e-9, optimiser: adam, frozen: [lift]}\n",
        encoding="utf-8",
    )
    experiment = read_experiment(path)
    assert experiment.network == darcy.network and experiment.model == "FNO"
    assert experiment.normalization == "pointwise"
    run_experiment(experiment, tmp_path / "tuned")
    start, tuned = load_run(first).operator, load_run(tmp_path / "tuned").operator
    assert torch.equal(tuned.network.lift.weight, start.network.lift.weight)
    moved = [p - q for p, q in zip(tuned.parameters(), start.parameters(), strict=True)]
    assert 0 < max(float(difference.detach().abs().max()) for difference in moved) < 1e-6
    f = torch.rand(2, 1, 16, 16)
    assert torch.allclose(tuned.predict(f), start.predict(f), rtol=1e-3)
    # the folder describes the run without the first one, which only a start needs
    assert load_run(tmp_path / "tuned").experiment == experiment
    padded = experiment.with_changes(network=experiment.network.with_changes(padding=0.25))
    run_experiment(padded, tmp_path / "padded", data=tmp_path / "data")
    assert load_run(tmp_path / "padded").operator.network.padding == (0.25, 0.25)
    other = experiment.with_changes(network=experiment.network.with_changes(width=5))
    with pytest.raises(ValueError, match="a network of other weights: leave network out"):
        run_experiment(other, tmp_path / "other", data=tmp_path / "data")
    path.write_text(path.read_text().replace(str(first), str(tmp_path / "nothing")))
    with pytest.raises(ValueError, match="holds no specification: give the folder of a finished"):
        read_experiment(path)
