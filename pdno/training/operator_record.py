"""What a trained operator says of itself: a record for programs and a model card for readers."""

__all__ = ["OperatorRecord", "TrainingRecord", "model_card"]

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel

from pdno.training.sampling import Sampling
from pdno.training.settings import TrainingSettings

MOST_ERRORS = 12  # of a split that the card shows; metrics.csv has all


class TrainingRecord(BaseModel, frozen=True, extra="forbid"):
    """What an operator was trained with."""

    samples: int
    normalization: str
    settings: TrainingSettings
    seconds: float


class OperatorRecord(BaseModel, frozen=True, extra="forbid"):
    """All of a trained operator but its weights and its errors."""

    format: Literal[1] = 1
    sha256: str  #: of the file of the weights
    network: dict[str, Any] | None  #: how to make it; None where it does not tell
    network_class: str
    parameters: int
    dtype: Literal["float32", "float64"]
    task: dict[str, Any]
    sampling: Sampling
    training: TrainingRecord
    versions: dict[str, str]
    coverage: float | None = None  #: of its error bars; None without


def model_card(record: OperatorRecord, metrics: Mapping[str, Any]) -> str:
    """What it was trained on, its errors and its limits, in Markdown."""
    chapters = {
        f"{record.network_class}, trained by pdno": _use(record),
        "Network": _network(record),
        "Training": _training(record),
        "Errors": _errors(metrics),
        "Limits": _limits(record),
    }
    # one mark less for the first, the title of the whole
    return "\n".join(f"## {title}\n\n{text}\n" for title, text in chapters.items())[1:]


def _use(record: OperatorRecord) -> str:
    told = "" if record.network else f", network={record.network_class}(...)"
    names = ", ".join(f'"{name}": ...' for name in record.sampling.pde_parameters)
    given = f", pde_parameters={{{names}}}" if names else ""
    made = ", ".join(f"{name} {number}" for name, number in record.versions.items())
    return (
        f"```python\noperator = pdno.load(FOLDER{told})\nu = operator.predict(f{given})\n```\n\n"
        f"f {_channels(record, 'input')}, as numpy or torch, in the units of the data; u "
        f"{_channels(record, 'output')}. Made with {made}."
    )


def _channels(record: OperatorRecord, side: Literal["input", "output"]) -> str:
    """The shape of inputs or outputs, with the names of their channels."""
    sampling = record.sampling
    frames = side == "output" and sampling.times is not None and record.task["kind"] != "static"
    count = getattr(sampling, f"{side}_channels")
    names = ", ".join(getattr(sampling, f"{side}_names"))
    space = ", ".join(f"N{axis + 1}" for axis in range(sampling.grid.dim))
    shape = f"(B, {'T, ' if frames else ''}{count}, {space})"
    return f"{shape}, with channels {names}" if names else shape


def _network(record: OperatorRecord) -> str:
    counted = f"{record.parameters:,} parameters, {record.dtype}."
    if record.network is None:
        return f"{record.network_class}, {counted} Its arguments are not known."
    return f"{counted}\n\n```json\n{json.dumps(record.network, indent=2)}\n```"


def _training(record: OperatorRecord) -> str:
    sampling, training = record.sampling, record.training
    grid, times = sampling.grid, sampling.times
    kind = "periodic" if grid.periodic else "in a box"
    lines = {
        "samples": training.samples,
        "grid": f"{grid.shape} points, {kind}, the first at offset {grid.offset:g}",
        **{name: f"{a:g} to {b:g}" for name, (a, b) in _ranges(sampling)},
        "times of the targets": None if times is None else ", ".join(f"{t:g}" for t in times),
        "task": ", ".join(f"{name} {value}" for name, value in record.task.items()),
        "normalisation": training.normalization,
        **training.settings.model_dump(exclude_defaults=True),
        "seconds": f"{training.seconds:.3g}",
    }
    return "\n".join(f"- {name}: {value}" for name, value in lines.items() if value is not None)


def _ranges(sampling: Sampling) -> list[tuple[str, tuple[float, float]]]:
    return list(zip(sampling.pde_parameters, sampling.ranges, strict=True))


def _errors(metrics: Mapping[str, Any]) -> str:
    """The errors by split and resolution, in the order that they were measured."""
    lines = ["| split and points | metric | value |", "|---|---|---|"]
    for split, found in metrics.items():
        numbers = list(found.items()) if isinstance(found, Mapping) else []
        lines += [f"| {split} | {name} | {x:.4g} |" for name, x in numbers[:MOST_ERRORS]]
    if len(lines) == 2:
        return "None was measured: there were no test samples."
    return "\n".join(lines) + "\n\nMeans over samples; all digits are in metrics.csv."


def _limits(record: OperatorRecord) -> str:
    sampling = record.sampling
    grid = sampling.grid
    told = [
        f"It has seen {record.training.samples} samples of one law, and knows no other inputs.",
        f"It was trained on {grid.shape} points. It takes other resolutions; measure the error "
        "there before you trust it.",
    ]
    if record.coverage is not None:
        told.append(
            f"Its error bars hold for {100 * record.coverage:g} % of samples drawn as those of "
            "the calibration, on their grid; of other samples they promise nothing."
        )
    for name, (low, high) in _ranges(sampling):
        told.append(f"Nothing is known of its error where {name} is not in {low:g} to {high:g}.")
    if not grid.periodic:
        told.append("Its points lie in a box; how it meets the boundary was learned, not imposed.")
    if sampling.times is not None and record.task["kind"] != "static":
        last = f"after t = {sampling.times[-1]:g}, the last time of the training"
        told.append(f"Nothing is known of its error {last}.")
    return "\n".join(f"- {sentence}" for sentence in told)
