"""One run: data, training, evaluation, and a folder that holds all of it.

    specification.json    the experiment
    environment.json      versions, device, threads and whether there was compiled code
    history.csv           one row per epoch
    weights.safetensors   the learner: network and normalisers
    pictures.safetensors  fields and symbols for figures
    rows.csv              the numbers, as tidy rows
    metrics.json          the same by split and metric, and the seconds; written last

A folder with metrics.json is a finished run, and is not run again.
"""

__all__ = ["FinishedRun", "load_run", "run_experiment"]

import json
import platform
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pdno.allocator import allocator_state
from pdno.atomic import write_text
from pdno.data.dataset import OperatorDataset
from pdno.evaluation.rows import Row, make_rows, read_rows, write_rows
from pdno.experiments.datasets import ensure_dataset, open_experiment_data
from pdno.experiments.measure import heat_comparison, measure
from pdno.experiments.networks import build_network
from pdno.experiments.pictures import keep_pictures
from pdno.experiments.specification import Experiment
from pdno.grid import Grid
from pdno.native.build import status
from pdno.networks.count import count_parameters
from pdno.training.checkpoint import read_tensors, write_tensors
from pdno.training.distributed import Crew, crew
from pdno.training.fit import Run, fit
from pdno.training.learner import Learner
from pdno.training.normalized import Normalized
from pdno.training.normalizer import Normalizer
from pdno.training.task import Task

SPECIFICATION, METRICS, WEIGHTS, ROWS = (
    "specification.json",
    "metrics.json",
    "weights.safetensors",
    "rows.csv",
)


@dataclass(frozen=True)
class FinishedRun:
    """A run folder, read.

    Arguments:
        folder: Where it is.
        experiment: What was run.
        model: The trained learner.
        grid: The grid of the training.
        rows: Its numbers.
    """

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
    datasets = place.parent / "data" if data is None else Path(data)
    with crew(device) as ours:
        if _is_finished(place, experiment):
            return read_rows(place / ROWS)
        if ours.leads:
            _begin(place, experiment, ours)
            if experiment.problem is not None:
                ensure_dataset(experiment.problem, datasets)
        ours.wait()
        return _train_and_measure(experiment, place, datasets, ours, tensorboard=tensorboard)


def _train_and_measure(
    experiment: Experiment, place: Path, datasets: Path, ours: Crew, *, tensorboard: bool
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
        device=ours.device,
        tensorboard=tensorboard,
        title=f"{experiment.name}: {experiment.model}",
    )
    rows: list[Row] = []
    if ours.leads:
        rows = _rows(experiment, run, network, measure(experiment, run, samples))
        keep_pictures(place, run, samples, heat_comparison(experiment, run, samples))
        _save(place, run, samples.train, rows)
    ours.wait()
    return rows


def load_run(folder: Path | str, device: torch.device | str = "cpu") -> FinishedRun:
    """Read a run folder: the experiment, the trained model and its numbers."""
    place = Path(folder)
    if not (place / METRICS).is_file():
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

    def normalizer(name: str) -> Normalizer | None:
        prefix = f"normalized.{name}"
        if f"{prefix}.mean" not in tensors:
            return None
        return Normalizer(tensors[f"{prefix}.mean"], tensors[f"{prefix}.std"], grid)

    normalized = Normalized(
        network, normalizer("inputs"), normalizer("outputs"), channels=shape["out"]
    )
    double = experiment.training.precision == "float64"
    dtype = torch.float64 if double else torch.float32
    learner = Learner(normalized, experiment.task).to(device, dtype)
    learner.load_state_dict(tensors)
    return FinishedRun(place, experiment, learner.eval(), grid, read_rows(place / ROWS))


def _channels(task: Task, data: OperatorDataset) -> tuple[int, int]:
    """Channels that the network gets and gives."""
    inputs, targets = data[0]
    out = targets.shape[-data.grid.dim - 1]
    seen = getattr(task, "frames", None)
    return inputs.shape[0] if seen is None else seen * out, out


def _is_finished(place: Path, experiment: Experiment) -> bool:
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
    return (place / METRICS).is_file()


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


def _begin(place: Path, experiment: Experiment, ours: Crew) -> None:
    place.mkdir(parents=True, exist_ok=True)
    environment = {
        "pdno": version("pdno"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "device": str(ours.device),
        "processes": ours.size,
        "threads": torch.get_num_threads(),
        "allocator": allocator_state(),
        "native": str(status()),
    }
    write_text(place / "environment.json", json.dumps(environment, indent=2) + "\n")
    write_text(place / SPECIFICATION, experiment.model_dump_json(indent=2) + "\n")


def _rows(
    experiment: Experiment, run: Run, network: nn.Module, measured: list[dict[str, Any]]
) -> list[Row]:
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
    shutil.rmtree(place / "checkpoints", ignore_errors=True)
