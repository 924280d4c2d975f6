"""One run: data, training, evaluation, and a folder that holds all of it (`pdno.run_folder`).

A folder with metrics.json is a finished run, and is not run again.
"""

__all__ = ["FinishedRun", "load_run", "run_experiment"]

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pdno.atomic import write_text
from pdno.data.dataset import OperatorDataset
from pdno.evaluation.rows import Row, make_rows, read_rows, write_rows
from pdno.experiments.datasets import ensure_dataset, open_experiment_data
from pdno.experiments.environment import run_environment
from pdno.experiments.measure import Part, measure
from pdno.experiments.networks import build_network
from pdno.experiments.specification import Experiment
from pdno.grid import Grid
from pdno.networks.neural_operator import count_parameters
from pdno.run_folder import (
    CHECKPOINTS,
    DATA,
    ENVIRONMENT,
    METRICS,
    PICTURES,
    ROWS,
    SPECIFICATION,
    WEIGHTS,
    is_finished,
)
from pdno.training.checkpoint import read_tensors, write_tensors
from pdno.training.distributed import ProcessGroup, process_group
from pdno.training.fit import Run, fit
from pdno.training.normalizer import NormalizedNetwork, Normalizer
from pdno.training.task import Learner, Task


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

    Arguments:
        experiment: What to run.
        folder: The run folder.
        data: Folder of datasets; None takes `data` beside the run folder.
        device: Where to train; None takes CUDA where there is one.
        tensorboard: Whether to write event files, too.
    """
    place = Path(folder)
    datasets = place.parent / DATA if data is None else Path(data)
    with process_group(device) as group:
        if _has_run(place, experiment):
            return read_rows(place / ROWS)
        if group.is_rank_0:
            _begin(place, experiment, group)
            if experiment.problem is not None:
                ensure_dataset(experiment.problem, datasets)
        group.barrier()
        return _train_and_measure(experiment, place, datasets, group, tensorboard=tensorboard)


def _train_and_measure(
    experiment: Experiment, place: Path, datasets: Path, group: ProcessGroup, *, tensorboard: bool
) -> list[Row]:
    samples = open_experiment_data(experiment, datasets)
    channels = _channels(experiment.task, samples.train)
    network = build_network(
        experiment.network, samples.train.grid.dim, *channels, seed=experiment.seed
    )
    run = fit(
        network,
        samples.train,
        samples.test,
        task=experiment.task,
        normalization=experiment.normalization,
        settings=experiment.training,
        folder=place,
        device=group.device,
        tensorboard=tensorboard,
        title=f"{experiment.name}: {experiment.model}",
    )
    rows: list[Row] = []
    if group.is_rank_0:
        measured, pictures = measure(experiment, run, samples)
        rows = _rows(experiment, run, network, measured)
        _save_pictures(place, pictures, samples.test)
        _save(place, run, samples.train, rows)
    group.barrier()
    return rows


def load_run(folder: Path | str, device: torch.device | str = "cpu") -> FinishedRun:
    """Read a run folder: the experiment, the trained model and its numbers."""
    place = Path(folder)
    if not is_finished(place):
        raise ValueError(
            f"{place} holds no finished run ({METRICS} is missing): finish it with the command "
            "that began it"
        )
    experiment = _read_specification(place)
    tensors, header = read_tensors(place / WEIGHTS, device)
    shape = json.loads(header["shape"])
    network = build_network(
        experiment.network, shape["dim"], shape["in"], shape["out"], seed=experiment.seed
    )
    grid = Grid(tuple(shape["grid"]), shape["periodic"], shape["offset"])
    means = {name: f"normalized.{name}.mean" for name in ("inputs", "outputs")}
    normalizers = {
        name: Normalizer(tensors[mean], tensors[f"normalized.{name}.std"], grid)
        for name, mean in means.items()
        if mean in tensors
    }
    normalized = NormalizedNetwork(network, **normalizers, channels=shape["out"])
    dtype = torch.float64 if experiment.training.precision == "float64" else torch.float32
    learner = Learner(normalized, experiment.task).to(device, dtype)
    learner.load_state_dict(tensors)
    return FinishedRun(place, experiment, learner.eval(), grid, read_rows(place / ROWS))


def _channels(task: Task, data: OperatorDataset) -> tuple[int, int]:
    """Channels that the network gets and gives."""
    inputs, targets = data[0]
    out = targets.shape[-data.grid.dim - 1]
    seen = getattr(task, "frames", None)
    return inputs.shape[0] if seen is None else seen * out, out


def _has_run(place: Path, experiment: Experiment) -> bool:
    """Whether the folder holds this run, finished; ValueError where it holds another one."""
    if not (place / SPECIFICATION).is_file():
        return False
    before = _read_specification(place).completed_by(experiment)
    if before != experiment:
        then, now = before.model_dump(mode="json"), experiment.model_dump(mode="json")
        other = ", ".join(_differences(then, now))
        raise ValueError(
            f"{place} holds a run with another specification ({other}): take another folder, or "
            "remove this one"
        )
    return is_finished(place)


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


def _read_specification(place: Path) -> Experiment:
    text = (place / SPECIFICATION).read_text(encoding="utf-8")
    return Experiment.model_validate_json(text)


def _begin(place: Path, experiment: Experiment, group: ProcessGroup) -> None:
    place.mkdir(parents=True, exist_ok=True)
    environment = run_environment(group.device, group.size)
    write_text(place / ENVIRONMENT, json.dumps(environment, indent=2) + "\n")
    write_text(place / SPECIFICATION, experiment.model_dump_json(indent=2) + "\n")


def _rows(experiment: Experiment, run: Run, network: nn.Module, measured: list[Part]) -> list[Row]:
    """Tidy rows; `measured` are parts of them: resolution, split and metrics."""
    common = {
        "experiment": experiment.name,
        "model": experiment.model,
        "facts": experiment.facts,
        "seed": experiment.seed,
        "seconds": run.seconds,
        "parameters": count_parameters(network, complex_once=False),
    }
    return [row for part in measured for row in make_rows(part.pop("metrics"), **part, **common)]


def _save_pictures(place: Path, pictures: dict[str, Tensor], data: OperatorDataset) -> None:
    grid = data.grid
    header = {
        "grid": json.dumps([grid.shape, grid.periodic, grid.offset]),
        "times": json.dumps(data.target_times),
    }
    write_tensors(place / PICTURES, pictures, header)


def _save(place: Path, run: Run, data: OperatorDataset, rows: list[Row]) -> None:
    grid, (inputs, out) = data.grid, _channels(run.model.task, data)
    shape = {
        "dim": grid.dim,
        "in": inputs,
        "out": out,
        "grid": grid.shape,
        "periodic": grid.periodic,
        "offset": grid.offset,
    }
    header = {"shape": json.dumps(shape)}
    write_tensors(place / WEIGHTS, run.model.state_dict(), header)
    write_rows(place / ROWS, rows)
    metrics: dict[str, Any] = {"seconds": run.seconds, "parameters": rows[0].parameters}
    for row in rows:
        metrics.setdefault(f"{row.split} {row.resolution}", {})[row.metric] = row.value
    write_text(place / METRICS, json.dumps(metrics, indent=2) + "\n")
    # the weights are safe; the state of the optimiser is not needed any more
    shutil.rmtree(place / CHECKPOINTS, ignore_errors=True)
