"""Commands on one run: train from a specification file, evaluate, predict."""

__all__ = ["evaluate_run", "predict_run", "train"]

import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pdno.atomic import atomic_path
from pdno.data.array_files import read_arrays
from pdno.evaluation.evaluate import evaluate
from pdno.evaluation.rows import Row, make_rows
from pdno.experiments.datasets import dataset_folder, open_experiment_data, open_file
from pdno.experiments.run import FinishedRun, load_run, run_experiment
from pdno.experiments.specification import read_experiment
from pdno.grid import Grid
from pdno.networks.neural_operator import count_parameters
from pdno.run_folder import DATA
from pdno.training.settings import TrainingSettings

BATCH = 20


def train(
    specification: Path,
    out: Path,
    *,
    epochs: int | None = None,
    seed: int | None = None,
    device: str | None = None,
    tensorboard: bool = False,
) -> list[Row]:
    """Train as a specification file says, or go on with a run that was interrupted.

    Arguments:
        specification: A JSON or YAML file, see `Experiment`.
        out: The run folder.
        epochs: Other number of epochs than in the file.
        seed: Other seed than in the file.
        device: Where to train; None takes CUDA where there is one.
        tensorboard: Whether to write event files, too.
    """
    experiment = read_experiment(specification)
    given = {"epochs": epochs, "seed": seed}
    changes = {name: value for name, value in given.items() if value is not None}
    settings = TrainingSettings(**{**experiment.training.model_dump(), **changes})
    experiment = experiment.with_changes(training=settings)
    return run_experiment(experiment, out, device=device, tensorboard=tensorboard)


def evaluate_run(
    run: Path, *, file: Path | None = None, resolution: int | None = None, device: str = "cpu"
) -> list[Row]:
    """Evaluate a finished run on its test samples, or on all samples of a file.

    Arguments:
        run: The run folder.
        file: A dataset folder or published file; None takes the test samples of the run.
        resolution: Points per axis; None takes those of the training, or of the file.
        device: Where to predict.
    """
    found = load_run(run, device)
    experiment = found.experiment
    if resolution is not None and resolution < 1:
        raise ValueError(f"resolution is {resolution}; expected at least 1")
    if file is None:
        data = open_experiment_data(experiment, _datasets(found)).finest_test
        points = resolution or experiment.resolution
    else:
        data = open_file(file)
        if experiment.window is not None:
            data = data.window(experiment.window, experiment.targets)
        points = resolution or max(data.grid.shape)
    if max(data.grid.shape) % points:
        raise ValueError(f"resolution {points} does not divide the {data.grid.shape} grid")
    data = data.subsample(max(data.grid.shape) // points)
    metrics = evaluate(found.model, data, device=device).metrics()
    return make_rows(
        metrics,
        experiment=experiment.name,
        model=experiment.model,
        resolution=points,
        facts=found.rows[0].facts,
        seed=experiment.seed,
        split="test" if file is None else file.name,
        seconds=found.rows[0].seconds,
        parameters=count_parameters(found.model.network, complex_once=False),
    )


def predict_run(
    run: Path, inputs: Path, out: Path, *, array: str | None = None, times: list[float] | None
) -> tuple[int, ...]:
    """Predict for the inputs of a file and write an .npy file; returns its shape.

    Arguments:
        run: The run folder.
        inputs: A .npy, .npz, .mat or HDF5 file with an array (B, C, *N), or (B, *N).
        out: The .npy file to write.
        array: Name of the array; needed where the file has several.
        times: Times of the wanted frames, for networks that predict frames.
    """
    found = load_run(run)
    f = _read_inputs(inputs, array, found.grid.dim)
    grid = _grid_like(found.grid, tuple(f.shape[2:]))
    wanted = _wanted_times(found, times)
    parts = [found.model.predict(part, grid=grid, times=wanted) for part in torch.split(f, BATCH)]
    prediction = torch.cat(parts).numpy()
    with atomic_path(out) as temporary, open(temporary, "wb") as file:
        np.save(file, prediction)
    return prediction.shape


def _read_inputs(path: Path, array: str | None, dim: int) -> Tensor:
    """The inputs (B, C, *N) of a file."""
    arrays = read_arrays(path, None if array is None else [array])
    if len(arrays) != 1:
        names = ", ".join(arrays) or "none"
        raise ValueError(f"{path} has the arrays of real numbers {names}: choose one by name")
    f = torch.from_numpy(np.ascontiguousarray(next(iter(arrays.values())), dtype=np.float32))
    if f.dim() not in (dim + 1, dim + 2) or not len(f):
        raise ValueError(
            f"the array of {path} has shape {tuple(f.shape)}; expected (B, C, *N) or (B, *N) with "
            f"{dim} axes of space and at least one sample"
        )
    return f[:, None] if f.dim() == dim + 1 else f


def _grid_like(trained: Grid, shape: tuple[int, ...]) -> Grid:
    """The grid of this shape with the first point of the training, as subsampled data have it."""
    offset = trained.offset * shape[0] / trained.shape[0]
    if offset >= 1:
        most = math.ceil(trained.shape[0] / trained.offset) - 1
        raise ValueError(
            f"inputs on {shape} points are finer than the data of this run, whose first point is "
            f"x = {trained.offset / trained.shape[0]:g}: give at most {most} points per axis"
        )
    return Grid(shape, trained.periodic, offset)


def _wanted_times(found: FinishedRun, times: list[float] | None) -> list[float] | None:
    """The times to predict at; those of the targets where none are given."""
    experiment = found.experiment
    problem, window, targets = experiment.problem, experiment.window or 0, experiment.targets
    if experiment.task.kind == "static":
        return times
    if problem is None or problem.times is None:
        if times is None:
            raise ValueError("this run predicts frames: give the times of the wanted ones")
        return times
    trained = list(problem.times[window : None if targets is None else window + targets])
    if times is None or experiment.task.kind == "one-shot":
        return trained if times is None else times
    # frames come one after another: a time is a number of steps
    step = problem.times[0] if len(problem.times) == 1 else problem.times[1] - problem.times[0]
    frames = [trained[0] + step * k for k in range(len(times))]
    if not np.allclose(times, frames, rtol=1e-6):
        raise ValueError(
            f"times {times}; a {experiment.task.kind} run predicts t = {trained[0]:g}, "
            f"{trained[0] + step:g}, ... in turn: ask for all frames up to the last one wanted"
        )
    return times


def _datasets(found: FinishedRun) -> Path:
    """Where the datasets of a run are: beside it, as `run_experiment` puts them."""
    problem, place = found.experiment.problem, found.folder.resolve().parent / DATA
    if problem is not None and not dataset_folder(problem, place).is_dir():
        raise ValueError(
            f"{dataset_folder(problem, place)} is missing: the data of this run were moved; give "
            "a dataset with --file"
        )
    return place
