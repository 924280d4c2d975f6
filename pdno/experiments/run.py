"""One run: data, training, evaluation, and a folder that holds all of it (`pdno.run_folder`).

A folder with metrics.json is a finished run, and is not run again.
"""

__all__ = ["FinishedRun", "evaluate_run", "load_run", "predict_run", "run_experiment", "train"]

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pdno import run_folder
from pdno.atomic import atomic_path, write_text
from pdno.data.array_files import read_arrays
from pdno.data.dataset import OperatorDataset
from pdno.evaluation.evaluate import evaluate
from pdno.evaluation.rows import Row, make_rows, read_rows, write_rows
from pdno.experiments import datasets
from pdno.experiments.environment import run_environment
from pdno.experiments.measure import measure
from pdno.experiments.networks import build_network
from pdno.experiments.specification import Experiment, read_experiment
from pdno.grid import Grid
from pdno.networks.neural_operator import count_parameters
from pdno.training.checkpoint import read_tensors, write_tensors
from pdno.training.distributed import process_group
from pdno.training.fit import Run, fit
from pdno.training.normalizer import NormalizedNetwork, Normalizer
from pdno.training.settings import TrainingSettings
from pdno.training.task import Learner, Task

BATCH = 20  # of predictions
Times = Sequence[float] | None


@dataclass(frozen=True)
class FinishedRun:
    """A run folder, read; `model` is the trained learner, `grid` that of the training."""

    folder: Path
    experiment: Experiment
    model: Learner
    grid: Grid
    rows: list[Row]


def run_experiment(
    experiment: Experiment,
    folder: Path | str,
    *,
    data: Path | str | None = None,
    device: torch.device | str | None = None,
    tensorboard: bool = False,
) -> list[Row]:
    """Run an experiment, go on with one that was interrupted, or return what a finished one found.

    Datasets lie in the folder `data`, or else in `data` beside the run folder.
    """
    place = Path(folder)
    store = place.parent / run_folder.DATA if data is None else Path(data)
    with process_group(device) as group:
        if _has_run(place, experiment):
            return read_rows(place / run_folder.ROWS)
        if group.is_rank_0:
            place.mkdir(parents=True, exist_ok=True)
            environment = run_environment(group.device, group.size)
            write_text(place / run_folder.ENVIRONMENT, json.dumps(environment, indent=2) + "\n")
            text = experiment.model_dump_json(indent=2)
            write_text(place / run_folder.SPECIFICATION, text + "\n")
            if experiment.problem is not None:
                datasets.ensure_dataset(experiment.problem, store)
        group.barrier()
        samples = datasets.open_experiment_data(experiment, store)
        grid, channels = samples.train.grid, _channels(experiment.task, samples.train)
        run = fit(
            build_network(experiment.network, grid.dim, *channels, seed=experiment.seed),
            samples.train,
            samples.watched,
            task=experiment.task,
            normalization=experiment.normalization,
            settings=experiment.training,
            folder=place,
            device=group.device,
            tensorboard=tensorboard,
            title=f"{experiment.name}: {experiment.model}",
        )
        rows = _measure_and_save(experiment, run, samples, place) if group.is_rank_0 else []
        group.barrier()
        return rows


def _measure_and_save(
    experiment: Experiment, run: Run, samples: datasets.ExperimentData, place: Path
) -> list[Row]:
    """Rows, pictures and weights; the metrics, by which a run is finished, come last."""
    measured, pictures = measure(experiment, run, samples)
    parameters = count_parameters(run.network, complex_once=False)
    common = {"experiment": experiment.name, "model": experiment.model, "facts": experiment.facts}
    common |= {"seed": experiment.seed, "seconds": run.seconds, "parameters": parameters}
    rows = []
    for resolution, split, metrics in measured:
        rows += make_rows(metrics, resolution=resolution, split=split, **common)
    grid, times = samples.test.grid, samples.test.target_times
    shown = json.dumps([grid.shape, grid.periodic, grid.offset])
    header = {"grid": shown, "times": json.dumps(times)}
    write_tensors(place / run_folder.PICTURES, pictures, header)
    grid, (inputs, out) = samples.train.grid, _channels(experiment.task, samples.train)
    shape = {"dim": grid.dim, "in": inputs, "out": out, "grid": grid.shape}
    shape |= {"periodic": grid.periodic, "offset": grid.offset}
    write_tensors(place / run_folder.WEIGHTS, run.model.state_dict(), {"shape": json.dumps(shape)})
    write_rows(place / run_folder.ROWS, rows)
    found: dict[str, Any] = {"seconds": run.seconds, "parameters": parameters}
    for row in rows:
        found.setdefault(f"{row.split} {row.resolution}", {})[row.metric] = row.value
    write_text(place / run_folder.METRICS, json.dumps(found, indent=2) + "\n")
    # the weights are safe; the state of the optimiser is not needed any more
    shutil.rmtree(place / run_folder.CHECKPOINTS, ignore_errors=True)
    return rows


def load_run(folder: Path | str, device: torch.device | str = "cpu") -> FinishedRun:
    """Read a run folder: the experiment, the trained model and its numbers."""
    place = Path(folder)
    if not run_folder.is_finished(place):
        raise ValueError(
            f"{place} holds no finished run ({run_folder.METRICS} is missing): finish it with the "
            "command that began it"
        )
    experiment = read_experiment(place / run_folder.SPECIFICATION)
    tensors, header = read_tensors(place / run_folder.WEIGHTS, device)
    shape = json.loads(header["shape"])
    sizes = (shape["dim"], shape["in"], shape["out"])
    network = build_network(experiment.network, *sizes, seed=experiment.seed)
    grid = Grid(tuple(shape["grid"]), shape["periodic"], shape["offset"])
    statistics = {name: f"normalized.{name}" for name in ("inputs", "outputs")}
    normalizers = {
        name: Normalizer(tensors[f"{key}.mean"], tensors[f"{key}.std"], grid)
        for name, key in statistics.items()
        if f"{key}.mean" in tensors
    }
    normalized = NormalizedNetwork(network, **normalizers, channels=shape["out"])
    dtype = torch.float64 if experiment.training.precision == "float64" else torch.float32
    learner = Learner(normalized, experiment.task).to(device, dtype)
    learner.load_state_dict(tensors)
    return FinishedRun(place, experiment, learner.eval(), grid, read_rows(place / run_folder.ROWS))


def _channels(task: Task, data: OperatorDataset) -> tuple[int, int]:
    """Channels that the network gets and gives."""
    inputs, targets = data[0]
    out = targets.shape[-data.grid.dim - 1]
    seen = getattr(task, "frames", None)
    return inputs.shape[0] if seen is None else seen * out, out


def _has_run(place: Path, experiment: Experiment) -> bool:
    """Whether the folder holds this run, finished; ValueError where it holds another one."""
    if not (place / run_folder.SPECIFICATION).is_file():
        return False
    before = read_experiment(place / run_folder.SPECIFICATION).completed_by(experiment)
    if before != experiment:
        then, now = before.model_dump(mode="json"), experiment.model_dump(mode="json")
        other = ", ".join(_differences(then, now))
        raise ValueError(
            f"{place} holds a run with another specification ({other}): take another folder, or "
            "remove this one"
        )
    return run_folder.is_finished(place)


def _differences(then: Mapping[str, Any], now: Mapping[str, Any], path: str = "") -> list[str]:
    """The keys in which two specifications differ, with both values."""
    found = []
    for key in sorted({*then, *now}):
        a, b = then.get(key), now.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            found += _differences(a, b, f"{path}{key}.")
        elif a != b:
            found.append(f"{path}{key} was {a}, is {b}")
    return found


def train(
    file: Path, out: Path, *, device: str | None = None, tensorboard: bool = False, **changes: Any
) -> list[Row]:
    """Train as a JSON or YAML file says, or go on with a run that was interrupted.

    `changes` are settings of the training that are not None, for example epochs=20 or seed=1.
    """
    experiment = read_experiment(file)
    given = {name: value for name, value in changes.items() if value is not None}
    settings = TrainingSettings(**{**experiment.training.model_dump(), **given})
    experiment = experiment.with_changes(training=settings)
    return run_experiment(experiment, out, device=device, tensorboard=tensorboard)


def evaluate_run(
    run: Path, *, file: Path | None = None, resolution: int | None = None, device: str = "cpu"
) -> list[Row]:
    """Evaluate a finished run on its test samples, or on all samples of a file.

    A resolution of None takes the points of the training, or of the file.
    """
    found = load_run(run, device)
    experiment = found.experiment
    if resolution is not None and resolution < 1:
        raise ValueError(f"resolution is {resolution}; expected at least 1")
    if file is None:
        # beside the run, as `run_experiment` puts them
        problem, store = experiment.problem, found.folder.resolve().parent / run_folder.DATA
        if problem and not (place := datasets.dataset_folder(problem, store)).is_dir():
            raise ValueError(
                f"{place} is missing: the data of this run were moved; give a dataset with --file"
            )
        data = datasets.open_experiment_data(experiment, store).finest_test
    else:
        data = datasets.open_file(file)
        if experiment.window is not None:
            data = data.window(experiment.window, experiment.targets)
    finest = max(data.grid.shape)
    points = resolution or (experiment.resolution if file is None else finest)
    if finest % points:
        raise ValueError(f"resolution {points} does not divide the {data.grid.shape} grid")
    found_there = evaluate(found.model, data.subsample(finest // points), device=device)
    split = "test" if file is None else file.name
    first = replace(found.rows[0], split=split, resolution=points)
    metrics = found_there.metrics().items()
    return [replace(first, metric=metric, value=value) for metric, value in metrics]


def predict_run(
    run: Path, inputs: Path, out: Path, *, array: str | None = None, times: Times
) -> tuple[int, ...]:
    """Predict for the inputs (B, C, *N) or (B, *N) of a file and write an .npy file; its shape.

    The array needs its name where the file has several; the times are those of wanted frames.
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


def _wanted_times(found: FinishedRun, times: Times) -> Times:
    """The times to predict at; those of the targets where none are given."""
    experiment, problem = found.experiment, found.experiment.problem
    window, targets = experiment.window or 0, experiment.targets
    known = problem.times if problem else None
    if experiment.task.kind == "static":
        return times
    if known is None and times is None:
        raise ValueError("this run predicts frames: give the times of the wanted ones")
    if known is None or (times is not None and experiment.task.kind == "one-shot"):
        return times
    trained = known[window : None if targets is None else window + targets]
    if times is None:
        return trained
    # frames come one after another: a time is a number of steps
    step = known[0] if len(known) == 1 else known[1] - known[0]
    frames = [trained[0] + step * k for k in range(len(times))]
    if not np.allclose(times, frames, rtol=1e-6):
        raise ValueError(
            f"times {list(times)}; a {experiment.task.kind} run predicts t = {trained[0]:g}, "
            f"{trained[0] + step:g}, ... in turn: ask for all frames up to the last one wanted"
        )
    return times
