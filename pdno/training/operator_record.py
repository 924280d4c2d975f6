"""What a trained operator records of itself: its sampling, its training, and a model card."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ValidationError
from torch import Tensor, nn

from pdno.data.dataset import OperatorDataset
from pdno.files import run_folder
from pdno.files.checksums import verified_path
from pdno.files.limits import read_text
from pdno.files.metric_table import Metric
from pdno.interface.arguments import rebuild
from pdno.spectral.grid import Grid
from pdno.training.settings import TrainingSettings

CENTRE = 0.5  # the offset of cell centres
SAME_TIME = 1e-6  # relative distance up to which two times are equal
MOST_ERRORS = 12  # of a split that the card shows; metrics.csv has all


@dataclass(frozen=True)
class Sampling:
    """Grid and channels of the training samples; times of the targets and their step.

    An array has no grid. One that is given to a trained operator is taken as the training samples
    were: periodic or not, with the same first point, and its frames at the same times.

    `input_frames` are those of a window, None where the input is no frames. `pde_parameters` are
    the names of the PDE parameters that every sample has, `ranges` their least and largest values.
    """

    grid: Grid
    input_channels: int
    output_channels: int
    times: tuple[float, ...] | None = None
    step: float | None = None
    input_frames: int | None = None
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    pde_parameters: tuple[str, ...] = ()
    ranges: tuple[tuple[float, float], ...] = ()

    @classmethod
    def of(cls, data: OperatorDataset) -> "Sampling":
        """That of a dataset."""
        (inputs, targets), grid, times = data[0], data.grid, data.times
        parameters = data.pde_parameters()
        columns = () if parameters is None else parameters.unbind(dim=1)
        return cls(
            grid,
            input_channels=inputs.shape[0],
            output_channels=targets.shape[-grid.dim - 1],
            times=data.target_times,
            step=None if times is None else times[0] if len(times) == 1 else times[1] - times[0],
            input_frames=data.input_frames,
            pde_parameters=data.pde_parameter_names,
            ranges=tuple((float(column.min()), float(column.max())) for column in columns),
        )

    def named(self, inputs: Sequence[str], outputs: Sequence[str]) -> "Sampling":
        """The same with names of its channels; an empty sequence names none."""
        for side, names in (("input", inputs), ("output", outputs)):
            count = getattr(self, f"{side}_channels")
            if isinstance(names, str) or len(names) not in (0, count):
                expected = f"one name for each of {count} {side} channels, for example ['u']"
                raise ValueError(f"{side}s are named {names!r}; expected {expected}")
        return replace(self, input_names=tuple(inputs), output_names=tuple(outputs))

    def grid_of(self, inputs: Tensor) -> Grid:
        """The grid of inputs (B, C, *N), which begins at the first point of the training.

        Fewer points are every n-th of those of the training, more are the finer grid that those
        were taken from. Points finer than that are cell centres where the first point is one.
        """
        trained, shape = self.grid, tuple(inputs.shape[2:])
        if inputs.dim() != trained.dim + 2 or not len(inputs):
            raise ValueError(
                f"the inputs have shape {tuple(inputs.shape)}; expected (B, C, *N) with "
                f"{trained.dim} axes of space and at least one sample"
            )
        ratios = {n / m for n, m in zip(shape, trained.shape, strict=True)}
        if trained.offset == 0 or ratios == {1.0}:
            return Grid(shape, trained.periodic, trained.offset)
        largest = trained.offset * max(ratios)
        if len(ratios) == 1 and largest < CENTRE:
            return Grid(shape, trained.periodic, largest)
        # more points than the grid behind the training had, or other proportions
        every = CENTRE / trained.offset
        if largest >= CENTRE and math.isclose(every, round(every)) and every > 0.9:
            return Grid(shape, trained.periodic, CENTRE)
        raise ValueError(
            f"inputs on {shape} points: where they begin does not follow from the training, on "
            f"{trained.shape} points with offset {trained.offset:g}: give a grid=pdno.Grid(...)"
        )

    def frames_at(self, times: Sequence[float] | None) -> Sequence[float]:
        """The times to predict at, frame after frame; None are those of the training.

        A time is a number of steps there: frames cannot be left out, nor others be asked for.
        """
        trained, step = self.times, self.step
        if trained is None or step is None:
            if times is None:
                raise ValueError("this run predicts frames: give the times of the wanted ones")
            return times
        if times is None:
            return trained
        frames = [*trained, *(trained[-1] + step * k for k in range(1, len(times) + 1))]
        for time, frame in zip(times, frames, strict=False):
            if abs(time - frame) > SAME_TIME * max(abs(frame), step):
                raise ValueError(
                    f"times {list(times)}; this run predicts t = {frames[0]:g}, {frames[1]:g}, "
                    "... in turn: ask for all frames up to the last one wanted"
                )
        return times


class TrainingRecord(BaseModel, frozen=True, extra="forbid"):
    """What an operator was trained with; `cpu_seconds` are those of all threads."""

    samples: int
    normalization: str
    settings: TrainingSettings
    seconds: float
    cpu_seconds: float


class OperatorRecord(BaseModel, frozen=True, extra="forbid"):
    """All of a trained operator but its weights and its errors: operator.json."""

    format: Literal[1] = 1
    sha256: str  #: of the file of the weights
    network: dict[str, Any] | None  #: its class and arguments; None where it does not record them
    network_class: str
    parameters: int
    dtype: Literal["float32", "float64"]
    task: dict[str, Any]
    sampling: Sampling
    training: TrainingRecord
    versions: dict[str, str]
    coverage: float | None = None  #: of its error bars; None without

    def build(self, folder: Path) -> nn.Module:
        """The network with any weights; the global generator is left alone."""
        name = self.network_class
        if self.network is None:
            raise ValueError(
                f"{folder} holds the weights of a {name}, and not how to make one: make it as for "
                f"the training and call pdno.load(folder, network={name}(...))"
            )
        with torch.random.fork_rng(devices=[]):
            try:
                network: nn.Module = rebuild(self.network)
            except (KeyError, TypeError, ValueError) as problem:
                raise ValueError(
                    f"the network of {folder / run_folder.OPERATOR} cannot be made ({problem}): "
                    f"make it yourself and call pdno.load(folder, network={name}(...))"
                ) from problem
        return network


def read_record(folder: Path) -> OperatorRecord:
    """The record of a folder."""
    path = folder / run_folder.OPERATOR
    try:
        return OperatorRecord.model_validate_json(read_text(verified_path(path)))
    except ValidationError as problem:
        first = problem.errors()[0]
        key = ".".join(map(str, first["loc"])) or "it"
        raise ValueError(
            f"{path} is not readable ({key}: {first['msg']}): it is damaged, or of a newer pdno"
        ) from problem


def model_card(record: OperatorRecord, metrics: Sequence[Metric]) -> str:
    """What it was trained on, its errors and its limits, in Markdown."""
    return (
        f"# {record.network_class}, trained by pdno\n\n{_use(record)}\n\n"
        f"## Network\n\n{_network(record)}\n\n## Training\n\n{_training(record)}\n\n"
        f"## Errors\n\n{_errors(metrics)}\n\n## Limits\n\n{_limits(record)}\n"
    )


def _use(record: OperatorRecord) -> str:
    network = "" if record.network else f", network={record.network_class}(...)"
    names = ", ".join(f'"{name}": ...' for name in record.sampling.pde_parameters)
    parameters = f", pde_parameters={{{names}}}" if names else ""
    versions = ", ".join(f"{name} {number}" for name, number in record.versions.items())
    return (
        f"```python\noperator = pdno.load(FOLDER{network})\nu = operator.predict(f{parameters})\n"
        f"```\n\nf {_channels(record, 'input')}, as numpy or torch, in the units of the data; u "
        f"{_channels(record, 'output')}. Made with {versions}."
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


def _errors(metrics: Sequence[Metric]) -> str:
    """The errors by split and resolution, in the order that they were measured."""
    if not metrics:
        return "None was measured: there were no test samples."
    lines = ["| split and points | metric | value |", "|---|---|---|"]
    for split, group in groupby(metrics, lambda metric: f"{metric.split} {metric.resolution}"):
        shown = list(group)[:MOST_ERRORS]
        lines += [f"| {split} | {metric.metric} | {metric.value:.4g} |" for metric in shown]
    return "\n".join(lines) + "\n\nMeans over samples; all digits are in metrics.csv."


def _limits(record: OperatorRecord) -> str:
    sampling = record.sampling
    grid = sampling.grid
    limits = [
        f"It was trained on {record.training.samples} samples of one distribution; nothing is "
        "known of its error on others.",
        f"It was trained on {grid.shape} points. It takes other resolutions; measure the error "
        "there before you trust it.",
    ]
    if record.coverage is not None:
        limits.append(
            f"Its error bars hold for {100 * record.coverage:g} % of samples drawn as those of "
            "the calibration, on their grid; of other samples they promise nothing."
        )
    for name, (low, high) in _ranges(sampling):
        limits.append(f"Nothing is known of its error where {name} is not in {low:g} to {high:g}.")
    if not grid.periodic:
        limits.append("Its points lie in a box; the boundary was learned, not imposed.")
    if sampling.times is not None and record.task["kind"] != "static":
        last = f"after t = {sampling.times[-1]:g}, the last time of the training"
        limits.append(f"Nothing is known of its error {last}.")
    return "\n".join(f"- {sentence}" for sentence in limits)
