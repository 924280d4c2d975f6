"""One run: data, training, evaluation, and a folder that holds all of it (`pdno.files.run_folder`).

A folder with checksums.json is a finished run, and is not run again.
"""

__all__ = [
    "FinishedRun",
    "evaluate_run",
    "load",
    "load_run",
    "predict_run",
    "run_experiment",
    "train",
]

import contextlib
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pdno.data.array_files import read_arrays
from pdno.data.dataset import OperatorDataset
from pdno.data.layout import DataFile
from pdno.data.manifest import MANIFEST
from pdno.data.own import open_file, read_inputs
from pdno.evaluation.evaluate import evaluate
from pdno.evaluation.metric_table import (
    Metric,
    make_metrics,
    metrics_of_run,
    nested_metrics,
    write_metrics,
)
from pdno.exports.export import FORMATS, Exported, Format, export
from pdno.files import run_folder
from pdno.files.atomic import atomic_path, clear_lock, only_writer, write_text
from pdno.files.checksums import verified_path
from pdno.files.limits import read_json
from pdno.networks.neural_operator import count_parameters
from pdno.runs import datasets
from pdno.runs.environment import run_environment
from pdno.runs.measure import measure
from pdno.runs.networks import build_network
from pdno.runs.specification import Experiment, read_experiment
from pdno.spectral.grid import Grid
from pdno.training.checkpoint import read_tensors
from pdno.training.distributed import ProcessGroup, check_device, process_group
from pdno.training.fit import Run, fit
from pdno.training.operator_folder import assemble, load_operator, save_operator
from pdno.training.sample_arrays import write_pictures
from pdno.training.sampling import Sampling
from pdno.training.settings import TrainingSettings
from pdno.training.task import TrainedOperator

Times = Sequence[float] | None
MOST_KEPT = 4  # samples that an exported file is run on


@dataclass(frozen=True)
class FinishedRun:
    """A run folder, read; `model` is the trained learner, `grid` that of the training.

    What `pdno.fit` and `run.save` wrote has no experiment.
    """

    folder: Path
    experiment: Experiment | None
    model: TrainedOperator
    grid: Grid
    rows: list[Metric] = field(repr=False)


def run_experiment(
    experiment: Experiment,
    folder: Path | str,
    *,
    data: Path | str | None = None,
    device: torch.device | str | None = None,
    tensorboard: bool = False,
    wait: bool = False,
) -> list[Metric]:
    """Run an experiment, go on with one that was interrupted, or return what a finished one found.

    Datasets lie in the folder `data`, or else in `data` beside the run folder. Where another
    process runs it, `wait` says whether to wait for that, or else to raise.
    """
    place = Path(folder)
    store = place.parent / run_folder.DATA if data is None else Path(data)
    with process_group(device) as group, contextlib.ExitStack() as stack:
        if _has_run(place, experiment):  # which reads, and needs no lock
            clear_lock(place)
            return metrics_of_run(place)
        if group.is_rank_0:
            stack.enter_context(only_writer(place, wait=wait))
            if _has_run(place, experiment):  # by the process that we waited for
                if group.size == 1:
                    return metrics_of_run(place)
                raise ValueError(f"{place} was finished by another process: run the command again")
            _begin(experiment, place, group)
            if experiment.problem is not None:
                datasets.ensure_dataset(experiment.problem, store)
        group.barrier()
        samples = datasets.open_experiment_data(experiment, store)
        grid, channels = samples.train.grid, _channels(experiment, samples.train)
        silent = experiment.problem or "normalization" in experiment.model_fields_set
        run = fit(
            build_network(experiment.network, grid.dim, *channels, seed=experiment.seed),
            samples.train,
            samples.watched,
            task=experiment.task,
            normalization=experiment.normalization if silent else None,
            settings=experiment.training,
            folder=place,
            device=group.device,
            tensorboard=tensorboard,
            title=f"{experiment.name}: {experiment.model}",
            save=False,
        )
        rows = _measure_and_save(experiment, run, samples, place) if group.is_rank_0 else []
        group.barrier()
        return rows


def _begin(experiment: Experiment, place: Path, group: ProcessGroup) -> None:
    """Write what is to be run, and where."""
    run_folder.reopen(place)
    path, environment = place / run_folder.ENVIRONMENT, run_environment(group.device, group.size)
    before = read_json(path) if path.is_file() else {}
    then, now = before.get("native", environment["native"]), environment["native"]
    if then != now:
        told = f"this run began with compiled loops {then}, and goes on with {now}"
        print(f"pdno: {told}: its last digits are not those of one machine", file=sys.stderr)
    write_text(path, json.dumps(environment, indent=2) + "\n")
    write_text(place / run_folder.SPECIFICATION, experiment.model_dump_json(indent=2) + "\n")


def _measure_and_save(
    experiment: Experiment, run: Run, samples: datasets.ExperimentData, place: Path
) -> list[Metric]:
    """Rows, pictures and weights; the metrics, by which a run is finished, come last."""
    measured, pictures = measure(experiment, run, samples)
    parameters = count_parameters(run.network, complex_once=False)
    commit = read_json(place / run_folder.ENVIRONMENT)["commit"] or ""
    metadata = replace(experiment.metadata, epochs=run.history[-1].epoch, commit=commit)
    common = {"experiment": experiment.name, "model": experiment.model, "metadata": metadata}
    common |= {"seed": experiment.seed, "seconds": run.seconds, "parameters": parameters}
    rows = []
    for resolution, split, metrics in measured:
        rows += make_metrics(metrics, resolution=resolution, split=split, **common)
    write_pictures(place, pictures, samples.test)
    grid, (inputs, out) = samples.train.grid, _channels(experiment, samples.train)
    shape = {"dim": grid.dim, "in": inputs, "out": out, "grid": grid.shape}
    shape |= {"periodic": grid.periodic, "offset": grid.offset}
    write_metrics(place / run_folder.METRICS, rows)
    found: dict[str, Any] = {"seconds": run.seconds, "parameters": parameters}
    for row in rows:
        found.setdefault(f"{row.split} {row.resolution}", {})[row.metric] = row.value
    save_operator(place, run.model, run.training, found, {"shape": json.dumps(shape)})
    # the weights are safe; the state of the optimiser is not needed any more
    shutil.rmtree(place / run_folder.CHECKPOINTS, ignore_errors=True)
    return rows


def load(
    folder: Path | str,
    network: nn.Module | None = None,
    *,
    device: torch.device | str = "cpu",
) -> TrainedOperator:
    """The trained operator of a folder of `pdno.fit`, `run.save`, `pdno train` or `reproduce`.

    Arguments:
        network: One made as for the training, where it is not a network of this package: its
            weights are replaced by those of the folder.

    Example:
        >>> operator = load("runs/mine")                    # doctest: +SKIP
        >>> u = operator.predict(f)                         # doctest: +SKIP
    """
    place = Path(folder)
    if not run_folder.is_finished(place):
        if not place.is_dir():
            raise ValueError(f"there is no folder {place}: give one of `pdno.fit` or `pdno train`")
        raise ValueError(
            f"{place} holds no finished run ({run_folder.CHECKSUMS} is missing): finish it with the "
            "command that began it"
        )
    check_device(device)
    if verified_path(place / run_folder.OPERATOR).is_file():
        return load_operator(place, network, device)
    return _load_older(place, _experiment(place), device)


def load_run(folder: Path | str, device: torch.device | str = "cpu") -> FinishedRun:
    """Read a run folder: the experiment, the trained model and its numbers."""
    place, model = Path(folder), load(folder, device=device)
    assert model.sampling is not None
    specification = verified_path(place / run_folder.SPECIFICATION)
    experiment = read_experiment(specification) if specification.is_file() else None
    return FinishedRun(place, experiment, model, model.sampling.grid, metrics_of_run(place))


def _experiment(place: Path) -> Experiment:
    return read_experiment(verified_path(place / run_folder.SPECIFICATION))


def _load_older(
    place: Path, experiment: Experiment, device: torch.device | str
) -> TrainedOperator:
    """The operator of a folder without operator.json, by its specification."""
    tensors, header = read_tensors(verified_path(place / run_folder.WEIGHTS), device)
    shape = json.loads(header["shape"])
    sizes = (shape["dim"], shape["in"], shape["out"])
    network = build_network(experiment.network, *sizes, seed=experiment.seed)
    grid = Grid(tuple(shape["grid"]), shape["periodic"], shape["offset"])
    problem, window, targets = experiment.problem, experiment.window or 0, experiment.targets
    known = problem.times if problem else None
    times = step = None
    if known is not None:
        times = tuple(known[window : None if targets is None else window + targets])
        step = known[0] if len(known) == 1 else known[1] - known[0]
    sampling = Sampling(grid, shape["in"], shape["out"], times, step)
    dtype = torch.float64 if experiment.training.precision == "float64" else torch.float32
    learner = assemble(network, experiment.task, sampling, tensors).to(device, dtype)
    learner.load_state_dict(tensors)
    learner.metrics = nested_metrics(place)
    return learner.eval()


def _channels(experiment: Experiment, data: OperatorDataset) -> tuple[int, int]:
    """Channels that the network gets and gives; pde_parameters are channels where no symbol sees them."""
    inputs, targets = data[0]
    out = targets.shape[-data.grid.dim - 1]
    seen = getattr(experiment.task, "frames", None)
    constant = (
        0 if getattr(experiment.network, "pde_parameters", 0) else len(data.pde_parameter_names)
    )
    return constant + (inputs.shape[0] if seen is None else seen * out), out


def _has_run(place: Path, experiment: Experiment) -> bool:
    """Whether the folder holds this run, finished; ValueError where it holds another one."""
    if not (place / run_folder.SPECIFICATION).is_file():
        return False
    before = _experiment(place).completed_by(experiment)
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
) -> list[Metric]:
    """Train as a JSON or YAML file says, or go on with a run that was interrupted.

    `changes` are settings of the training that are not None, for example epochs=20 or seed=1.
    """
    experiment = read_experiment(file)
    given = {name: value for name, value in changes.items() if value is not None}
    settings = TrainingSettings(**{**experiment.training.model_dump(), **given})
    experiment = experiment.with_changes(training=settings)
    return run_experiment(experiment, out, device=device, tensorboard=tensorboard)


def evaluate_run(
    run: Path,
    *,
    file: DataFile | Path | None = None,
    resolution: int | None = None,
    device: str = "cpu",
) -> list[Metric]:
    """Evaluate a finished run on its test samples, or on all samples of a file.

    A file that says nothing of its arrays is read as that of the training. A resolution of None
    takes the points of the training, or of the file.
    """
    found = load_run(run, device)
    if resolution is not None and resolution < 1:
        raise ValueError(f"resolution is {resolution}; expected at least 1")
    given = DataFile(path=file) if isinstance(file, Path) else file
    data = _test_samples(found) if given is None else _samples_of(given, found)
    finest = max(data.grid.shape)
    points = resolution or (max(found.grid.shape) if file is None else finest)
    if finest % points:
        raise ValueError(f"resolution {points} does not divide the {data.grid.shape} grid")
    found_there = evaluate(found.model, data.subsample(finest // points), device=device)
    split = "test" if given is None else given.path.name
    first = replace(found.rows[0], split=split, resolution=points)
    metrics = found_there.metrics().items()
    return [replace(first, metric=metric, value=value) for metric, value in metrics]


def _test_samples(found: FinishedRun) -> OperatorDataset:
    """The test samples of a run on their finest grid."""
    experiment = found.experiment
    if experiment is None:
        raise ValueError(
            f"{found.folder} does not hold the test samples, which were in memory: give a dataset "
            "with --file"
        )
    # beside the run, as `run_experiment` puts them
    problem, store = experiment.problem, found.folder.resolve().parent / run_folder.DATA
    if problem and not (place := datasets.dataset_folder(problem, store)).is_dir():
        raise ValueError(
            f"{place} is missing: the data of this run were moved; give a dataset with --file"
        )
    return datasets.open_experiment_data(experiment, store).finest_test


def _samples_of(file: DataFile, found: FinishedRun) -> OperatorDataset:
    """All samples of a file, with the window that the run was trained with.

    It is read as that of the training where it says nothing.
    """
    experiment, sampling = found.experiment, found.model.sampling
    trained = None if experiment is None else experiment.file
    itself = (file.path / MANIFEST).is_file()
    if trained is not None and not itself and not file.keyword_arguments():
        file = trained.model_copy(update={"path": file.path})
    data = open_file(file)
    if experiment is not None:
        window, targets = experiment.window, experiment.targets
        return data if window is None else data.window(window, targets)
    frames = None if sampling is None else sampling.input_frames
    return data if frames is None or data.input_frames else data.window(frames)


def predict_run(
    run: Path,
    inputs: Path,
    out: Path,
    *,
    array: str | None = None,
    times: Times,
    device: str = "cpu",
) -> tuple[int, ...]:
    """Predict for the inputs (B, C, *N) or (B, *N) of a file and write an .npy file; its shape.

    The array needs its name where the file has several; the times are those of wanted frames.
    """
    found = load_run(run, device)
    trained = None if found.experiment is None else found.experiment.file
    given = _read_inputs(inputs, array, found.grid.dim, trained)
    _check_finite(f"the inputs in {inputs}", given)
    prediction = found.model.predict(given, times=times)
    _check_finite("the prediction", prediction)
    with atomic_path(out) as temporary, open(temporary, "wb") as file:
        np.save(file, prediction.numpy())
    return tuple(prediction.shape)


def _check_finite(what: str, field: Tensor) -> None:
    bad = (~field.isfinite()).flatten(1).any(dim=1).nonzero()
    if len(bad):
        raise ValueError(
            f"{what} has NaN or infinity in sample {int(bad[0])}: nothing was written; leave such "
            "inputs out"
        )


def export_run(run: Path, out: Path | None = None, *, format: Format, **options: Any) -> Exported:
    """Write the operator of a run as a file (see `portable.export`), compared on its test samples.

    Runs that kept no test samples are compared on random ones.
    """
    model = load(run)
    target = out or run / f"operator{FORMATS[format]}"
    return export(model, target, format=format, samples=kept_samples(run), card=run, **options)


def kept_samples(run: Path) -> tuple[Tensor, Grid] | None:
    """A few test inputs that lie in a run folder, and their grid; None where there are none."""
    path = verified_path(run / run_folder.SAMPLES)
    if not path.is_file():
        return None
    tensors, header = read_tensors(path, "cpu")
    shape, periodic, offset = json.loads(header["grid"])
    return tensors["input"][:MOST_KEPT], Grid(tuple(shape), periodic, offset)


def _read_inputs(path: Path, array: str | None, dim: int, trained: DataFile | None) -> Tensor:
    """The inputs (B, C, *N) of a file, where no array is named those of the training data."""
    arrays = read_arrays(path, None if array is None else [array])
    if array is None and trained and trained.inputs and {*trained.inputs} <= {*arrays}:
        return read_inputs(arrays, trained)
    if len(arrays) != 1:
        names = ", ".join(arrays) or "none"
        example = next(iter(arrays), "NAME")
        raise ValueError(
            f"{path} has the arrays of real numbers {names}: choose one by its name, for example "
            f"--array {example}"
        )
    f = torch.from_numpy(np.ascontiguousarray(next(iter(arrays.values())), dtype=np.float32))
    if f.dim() not in (dim + 1, dim + 2) or not len(f):
        raise ValueError(
            f"the array of {path} has shape {tuple(f.shape)}; expected (B, C, *N) or (B, *N) with "
            f"{dim} axes of space and at least one sample"
        )
    return f[:, None] if f.dim() == dim + 1 else f
