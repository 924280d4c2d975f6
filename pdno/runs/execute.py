"""Run an experiment: data, training, evaluation, and a folder that holds all of it."""

import contextlib
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import torch

from pdno.data.dataset import OperatorDataset
from pdno.files import run_folder
from pdno.files.atomic import clear_lock, only_writer, write_text
from pdno.files.checksums import verified_path
from pdno.files.limits import read_json
from pdno.files.metric_table import Metric, make_metrics, metrics_of_run
from pdno.networks.neural_operator import count_parameters
from pdno.runs import datasets
from pdno.runs.environment import run_environment
from pdno.runs.measure import measure
from pdno.runs.specification import Experiment, differences, read_experiment
from pdno.training.distributed import ProcessGroup, process_group
from pdno.training.fit import fit
from pdno.training.settings import TrainingSettings
from pdno.training.trained_operator import TrainedOperator


def run_experiment(
    experiment: Experiment,
    folder: Path | str,
    *,
    data: Path | str | None = None,
    device: torch.device | str | None = None,
    tensorboard: bool = False,
    wait: bool = False,
) -> list[Metric]:
    """Run an experiment, continue an interrupted one, or return the metrics of a finished one.

    Datasets lie in the folder `data`, or else in `data` beside the run folder. Raises if another
    process writes to the folder; with `wait`, blocks instead.
    """
    folder = Path(folder)
    store = folder.parent / run_folder.DATA if data is None else Path(data)
    with process_group(device) as group, contextlib.ExitStack() as stack:
        if _is_finished(folder, experiment):  # which only reads, and needs no lock
            clear_lock(folder)
            return metrics_of_run(folder)
        if group.is_rank_0:
            stack.enter_context(only_writer(folder, wait=wait))
            if _is_finished(folder, experiment):  # by the process that held the lock
                if group.size == 1:
                    return metrics_of_run(folder)
                raise ValueError(
                    f"{folder} was finished by another process: run the command again"
                )
            _begin(experiment, folder, group)
            if experiment.problem is not None:
                datasets.ensure_dataset(experiment.problem, store)
        group.barrier()
        samples = datasets.open_experiment_data(experiment, store)
        grid, channels = samples.train.grid, _channels(experiment, samples.train)
        silent = experiment.problem or "normalization" in experiment.model_fields_set
        operator = fit(
            experiment.network.build(grid.dim, *channels, seed=experiment.seed),
            samples.train,
            samples.watched,
            task=experiment.task,
            normalization=experiment.normalization if silent else None,
            settings=experiment.training,
            folder=folder,
            device=group.device,
            tensorboard=tensorboard,
            title=f"{experiment.name}: {experiment.model}",
            save=False,
        )
        metrics = (
            _measure_and_save(experiment, operator, samples, folder) if group.is_rank_0 else []
        )
        group.barrier()
        return metrics


def _is_finished(folder: Path, experiment: Experiment) -> bool:
    """Whether the folder holds this run, finished; ValueError where it holds another one."""
    path = folder / run_folder.SPECIFICATION
    if not path.is_file():
        return False
    existing = read_experiment(verified_path(path))
    if existing != experiment:
        raise ValueError(
            f"{folder} holds a run with another specification "
            f"({', '.join(differences(existing, experiment))}): take another folder, or remove "
            "this one"
        )
    return run_folder.is_finished(folder)


def _begin(experiment: Experiment, folder: Path, group: ProcessGroup) -> None:
    """Write the specification and the environment."""
    run_folder.reopen(folder)
    path, environment = folder / run_folder.ENVIRONMENT, run_environment(group.device, group.size)
    before = read_json(path) if path.is_file() else environment
    then, now = before.get("native"), environment["native"]
    if then != now:
        print(
            f"pdno: this run began with compiled kernels {then} and continues with {now}: its "
            "last digits will differ from those of an uninterrupted run",
            file=sys.stderr,
        )
    write_text(path, json.dumps(environment, indent=2) + "\n")
    write_text(folder / run_folder.SPECIFICATION, experiment.model_dump_json(indent=2) + "\n")


def _channels(experiment: Experiment, data: OperatorDataset) -> tuple[int, int]:
    """Input and output channels of the network.

    PDE parameters are further input channels of a network whose symbols do not take them.
    """
    inputs, targets = data[0]
    out = targets.shape[-data.grid.dim - 1]
    frames = getattr(experiment.task, "frames", None)
    in_symbols = experiment.network.option("pde_parameters")
    constant = 0 if in_symbols else len(data.pde_parameter_names)
    return constant + (inputs.shape[0] if frames is None else frames * out), out


def _measure_and_save(
    experiment: Experiment,
    operator: TrainedOperator,
    samples: datasets.ExperimentData,
    folder: Path,
) -> list[Metric]:
    """Metrics, sample arrays and weights; then the checkpoints are not needed any more."""
    measured, arrays = measure(experiment, operator, samples)
    environment = read_json(folder / run_folder.ENVIRONMENT)
    metadata = replace(experiment.metadata, commit=environment["commit"] or "")
    metrics: list[Metric] = []
    for resolution, split, values in measured:
        metrics += make_metrics(
            values,
            experiment=experiment.name,
            model=experiment.model,
            seed=experiment.seed,
            seconds=operator.history[-1].seconds,
            parameters=count_parameters(operator.network, complex_once=False),
            metadata=metadata,
            resolution=resolution,
            split=split,
        )
    operator.metrics, operator.sample_arrays = tuple(metrics), arrays
    operator.write(folder)
    shutil.rmtree(folder / run_folder.CHECKPOINTS, ignore_errors=True)
    return metrics


def train(
    specification: Path,
    out: Path,
    *,
    epochs: int | None = None,
    seed: int | None = None,
    device: str | None = None,
    tensorboard: bool = False,
) -> list[Metric]:
    """Train as a JSON or YAML file says, or continue a run that was interrupted.

    Epochs and seed replace those of the file; the other options are those of `pdno train`.
    """
    experiment = read_experiment(specification)
    changes = {"epochs": epochs, "seed": seed}
    changes = {name: value for name, value in changes.items() if value is not None}
    settings = TrainingSettings(**{**experiment.training.model_dump(), **changes})
    experiment = experiment.with_changes(training=settings)
    return run_experiment(experiment, out, device=device, tensorboard=tensorboard)
