"""Trained operators in folders: weights as safetensors, what they are as JSON, and a model card.

    weights.safetensors   network, normalisers and error bars
    operator.json         how to make the network again, its task, grid, times and training
    model_card.md         the same for a reader, with errors and limits
    metrics.csv           the errors
    checksums.json        the SHA-256 of all of these, written last (`pdno.files.checksums`)

Nothing is unpickled and no code is imported by name (see `pdno.interface.arguments`). A network that does
not keep its arguments is saved by its weights, and loaded into one that is given.
"""

__all__ = ["load_operator", "save_operator"]

import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor, nn

from pdno.evaluation.metric_table import nested_metrics
from pdno.files import run_folder
from pdno.files.atomic import sha256, write_text
from pdno.files.checksums import verified_path, write_checksums
from pdno.files.limits import read_text
from pdno.interface.arguments import describe, rebuild
from pdno.networks.fno import FNO
from pdno.networks.mwt import MWT
from pdno.networks.neural_operator import count_parameters
from pdno.networks.pdno import PDNO
from pdno.networks.transport import Transport
from pdno.training.checkpoint import read_tensors, write_tensors
from pdno.training.error_bars import ErrorBars
from pdno.training.normalizer import NormalizedNetwork, Normalizer, ParameterScale, move
from pdno.training.operator_record import OperatorRecord, TrainingRecord, model_card
from pdno.training.sampling import Sampling
from pdno.training.task import TASKS, Task, TrainedOperator, task_of

OURS = (PDNO, FNO, MWT, Transport)  # imported here, so that a file may name them
Metrics = Mapping[str, Any]


def save_operator(
    folder: Path,
    learner: TrainedOperator,
    training: TrainingRecord,
    metrics: Metrics,
    header: Mapping[str, str] | None = None,
) -> None:
    """Write a trained operator; a folder that is not written to its end holds none.

    metrics.csv has to be there, `metrics` are those of the card; `header` is kept with the weights.
    """
    if learner.sampling is None:
        raise ValueError("this learner does not know what it was trained on: train it by pdno.fit")
    folder.mkdir(parents=True, exist_ok=True)
    run_folder.reopen(folder)
    weights = folder / run_folder.WEIGHTS
    write_tensors(weights, learner.state_dict(), header or {})
    try:
        network: dict[str, Any] | None = describe(learner.network)
    except ValueError:
        network = None
    record = OperatorRecord(
        sha256=sha256(weights),
        network=network,
        network_class=type(learner.network).__name__,
        parameters=count_parameters(learner.network, complex_once=False),
        dtype="float64" if training.settings.precision == "float64" else "float32",
        task=learner.task.model_dump(mode="json"),
        sampling=learner.sampling,
        training=training,
        versions={
            "pdno": version("pdno"),
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        coverage=None if learner.bars is None else float(learner.bars.coverage),
    )
    write_text(folder / run_folder.OPERATOR, record.model_dump_json(indent=2) + "\n")
    write_text(folder / run_folder.MODEL_CARD, model_card(record, metrics))
    write_checksums(folder, run_folder.WITH_CHECKSUMS)


def load_operator(
    folder: Path, network: nn.Module | None = None, device: torch.device | str = "cpu"
) -> TrainedOperator:
    """The operator of a folder; into `network`, where that does not keep its arguments."""
    record = read_record(folder)
    weights = verified_path(folder / run_folder.WEIGHTS)
    if not weights.is_file() or sha256(weights) != record.sha256:
        told = "damaged, or of another operator" if weights.is_file() else "missing"
        cure = "copy the whole folder again, or save it anew"
        raise ValueError(f"cannot read {weights}, which is {told}: {cure}")
    tensors, _ = read_tensors(weights, device)
    made = _network(folder, record) if network is None else network
    learner = assemble(made, _task(record, folder), record.sampling, tensors)
    try:
        move(learner, device, getattr(torch, record.dtype))
        learner.load_state_dict(tensors)
    except RuntimeError as problem:
        told = " ".join(str(problem).split())
        raise ValueError(
            f"the weights of {folder} are of another {record.network_class} than this one: {told}"
        ) from problem
    learner.metrics = nested_metrics(folder)
    return learner.eval()


def assemble(
    network: nn.Module, task: Task, sampling: Sampling, tensors: Mapping[str, Tensor]
) -> TrainedOperator:
    """The learner around a network, with the normalisers that the tensors have statistics of."""
    found = {
        name: Normalizer(tensors[f"{key}.mean"], tensors[f"{key}.std"], sampling.grid)
        for name in ("inputs", "outputs")
        if f"{(key := f'normalized.{name}')}.mean" in tensors
    }
    ends = [f"normalized.pde_parameters.{end}" for end in ("low", "high")]
    scale = ParameterScale(*(tensors[end] for end in ends)) if ends[0] in tensors else None
    parts: Any = {**found, "channels": sampling.output_channels, "pde_parameters": scale}
    normalized = NormalizedNetwork(network, **parts)
    learner = TrainedOperator(normalized, task, sampling)
    if "bars.field" in tensors:
        field, point, coverage = (tensors[f"bars.{name}"] for name in ErrorBars.KEPT)
        learner.bars = ErrorBars(field, point, coverage, sampling.grid)
    return learner


def read_record(folder: Path) -> OperatorRecord:
    """The record of a folder."""
    path = folder / run_folder.OPERATOR
    try:
        return OperatorRecord.model_validate_json(read_text(verified_path(path)))
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(map(str, first["loc"])) or "it"
        raise ValueError(
            f"{path} is not readable ({where}: {first['msg']}): it is damaged, or of a newer pdno"
        ) from problem


def _network(folder: Path, record: OperatorRecord) -> nn.Module:
    """The network of a record with any weights; the global generator is left alone."""
    if record.network is None:
        name = record.network_class
        raise ValueError(
            f"{folder} holds the weights of a {name}, and not how to make one: make it as for the "
            f"training and call pdno.load(folder, network={name}(...))"
        )
    with torch.random.fork_rng(devices=[]):
        try:
            network: nn.Module = rebuild(record.network)
        except (KeyError, TypeError, ValueError) as problem:
            raise ValueError(
                f"the network of {folder / run_folder.OPERATOR} cannot be made ({problem}): make "
                f"it yourself and call pdno.load(folder, network={record.network_class}(...))"
            ) from problem
    return network


def _task(record: OperatorRecord, folder: Path) -> Task:
    name = record.task.get("kind")
    if name not in TASKS:
        raise ValueError(
            f"the task {name!r} of {folder / run_folder.OPERATOR} is none of {', '.join(TASKS)}: "
            "import the module that registers it first"
        )
    return task_of(record.task)
