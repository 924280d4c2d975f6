"""Metadata of a trained operator: sampling, training, model card, sample arrays.

The sample arrays are what its figures are made of, all float32:

    input, target, prediction        samples
    error                            relative L2 error of every test sample, (samples,)
    frame_error                      that of every frame of them, (samples, times)
    symbol.K.real, symbol.K.imaginary    a2 of block K for the first channel pairs, (O, I, *N^)
    symbol.K.space                   a1 of block K for these pairs, (O, I, *N), where it has one
"""

import contextlib
import json
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from pathlib import Path
from typing import Annotated, Literal, cast

import torch
from pydantic import BaseModel, BeforeValidator, PlainSerializer, ValidationError
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from pdno.data.dataset import OperatorDataset
from pdno.data.sources import not_finite
from pdno.files import run_folder
from pdno.files.limits import MemoryLimitError, read_text
from pdno.files.metric_table import Metric
from pdno.files.run_folder import verified_path
from pdno.interface.arguments import rebuild
from pdno.interface.display import render
from pdno.interface.errors import LONGEST_MESSAGE, check_shape
from pdno.interface.records import Options, error_message
from pdno.networks.neural_operator import NeuralOperator
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.spectral.grid import Grid, MaskedGrid
from pdno.spectral.points import Points
from pdno.symbols.base import Time
from pdno.training.settings import TrainingSettings
from pdno.training.task import OneShot, SpaceTime, Task, Times

CENTRE = 0.5  # the offset of cell centres
SAME_TIME = 1e-6  # relative distance up to which two times are equal
REPLACED = 4  # times the parameters of a network that its constructors may make on the way
MOST_ERRORS = 12  # of a split that the card shows; metrics.csv has all
PAIRS = 3  # channels, in and out, whose symbols are kept
SampleArrays = dict[str, Tensor]


def plain_grid(grid: Grid) -> Options:
    if isinstance(grid, Points):
        return grid.to_plain()
    return {"shape": grid.shape, "periodic": grid.periodic, "offset": grid.offset}


def read_grid(values: object) -> object:
    """The points of `plain_grid`, before it is validated."""
    if isinstance(values, dict) and "coordinates" in values:
        return Points.of_plain(values)
    return values


SavedGrid = Annotated[Grid, BeforeValidator(read_grid), PlainSerializer(plain_grid)]


@dataclass(frozen=True)
class Sampling:
    """Grid and channels of the training samples; times of the targets and their step.

    An array has no grid: inputs of a trained operator are taken as its training samples were.
    `input_frames` are those of a window, if any; `ranges` the extremes of the PDE parameters. Of
    points that each sample has for itself, those of the first sample stand for all.
    """

    grid: SavedGrid
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
        (inputs, targets), grid, times = data[0], data.grid, data.times
        parameters = data.pde_parameters()
        columns = () if parameters is None else parameters.unbind(dim=1)
        names = [() if part[0].startswith(("input", "output")) else part for part in data.channels]
        if isinstance(grid, MaskedGrid):
            grid = Grid(grid.shape, grid.periodic, grid.offset)
        return cls(
            grid.of_samples([0]),
            input_channels=inputs.shape[0],
            output_channels=targets.shape[-data.target_grid.space_axes - 1],
            times=data.target_times,
            step=None if times is None else times[0] if len(times) == 1 else times[1] - times[0],
            input_frames=data.input_frames,
            input_names=names[0],
            output_names=names[1],
            pde_parameters=data.pde_parameter_names,
            ranges=tuple((float(column.min()), float(column.max())) for column in columns),
        )

    def named(self, inputs: Sequence[str], outputs: Sequence[str]) -> "Sampling":
        for side, names in (("input", inputs), ("output", outputs)):
            count = getattr(self, f"{side}_channels")
            if isinstance(names, str) or len(names) not in (0, count):
                expected = f"one name for each of {count} {side} channels"
                raise ValueError(f"{side}s are named {names!r}; expected {expected}")
        return replace(self, input_names=tuple(inputs), output_names=tuple(outputs))

    def check(self, inputs: Tensor, grid: Grid | None = None) -> None:
        """Refuse inputs on another kind of box, with channels last, or that are not finite."""
        if grid is not None and (grid.dim, grid.periodic) != (self.grid.dim, self.grid.periodic):
            trained = f"the samples are on {grid}, the training was on {self.grid}"
            raise ValueError(f"{trained}: expected the same kind of box, all periodic or none")
        channels, shape = self.input_channels, inputs.shape
        axes = (grid or self.grid).space_axes
        if len(shape) == axes + 2 and shape[1] != channels == shape[-1]:
            cure = "channels come before space, as in numpy.moveaxis(inputs, -1, 1)"
            check_shape("inputs", inputs, "B", channels, "*N", cure=cure)
        covered = inputs if grid is None or inputs.dim() <= axes else grid.cover(inputs)
        if inputs.dim() > 1 and (bad := not_finite(covered)) is not None:
            raise ValueError(f"inputs of sample {bad} have NaN or infinity: leave it out")

    def grid_of(self, inputs: Tensor) -> Grid:
        """The grid of inputs (B, C, *N), which begins at the first point of the training.

        Fewer points are every n-th of those of the training, more the finer grid behind those, or
        its cell centres.
        """
        trained, shape = self.grid, tuple(inputs.shape[2:])
        if isinstance(trained, Points):
            if trained.sets or shape != trained.shape:
                which = "other points" if not trained.sets else "points of each sample"
                raise ValueError(f"the training was on {which}: give grid=pdno.Points(...)")
            return trained
        if inputs.dim() != trained.dim + 2 or not len(inputs):
            expected = f"expected (B, C, *N) with {trained.dim} axes of space, B > 0"
            raise ValueError(f"inputs have shape {tuple(inputs.shape)}; {expected}")
        ratios = {n / m for n, m in zip(shape, trained.shape, strict=True)}
        largest = trained.offset * max(ratios)
        if trained.offset == 0 or ratios == {1.0} or (len(ratios) == 1 and largest < CENTRE):
            return Grid(shape, trained.periodic, largest)
        every = CENTRE / trained.offset
        if largest >= CENTRE and math.isclose(every, round(every)) and every > 0.9:
            return Grid(shape, trained.periodic, CENTRE)
        follow = f"where they begin does not follow from the training on {trained.shape}"
        raise ValueError(f"inputs on {shape} points: {follow}: give a grid=pdno.Grid(...)")

    def frames_at(self, times: Sequence[float] | None) -> Sequence[float]:
        """The times to predict at, frame after frame; None are those of the training."""
        trained, step = self.times, self.step
        if trained is None or step is None or times is None:
            if times is None and trained is None:
                raise ValueError("this run predicts frames: give the times of the wanted ones")
            return times or trained or ()
        frames = [*trained, *(trained[-1] + step * k for k in range(1, len(times) + 1))]
        for time, frame in zip(times, frames, strict=False):
            if abs(time - frame) > SAME_TIME * max(abs(frame), step):
                turn = f"this run predicts t = {frames[0]:g}, {frames[1]:g}, ... in turn"
                raise ValueError(f"times {list(times)}; {turn}: ask for all of them")
        return times


class TrainingRecord(BaseModel, frozen=True, extra="forbid"):
    """What an operator was trained with; `cpu_seconds` are those of all threads."""

    samples: int
    normalization: str
    settings: TrainingSettings
    seconds: float
    cpu_seconds: float


class OperatorRecord(BaseModel, frozen=True, extra="forbid"):
    """A trained operator without its weights and errors: operator.json."""

    format: Literal[1] = 1
    sha256: str  #: of the file of the weights
    network: Options | None  #: its class and arguments; None where it does not record them
    network_class: str
    parameters: int
    dtype: Literal["float32", "float64"]
    task: Options
    sampling: Sampling
    training: TrainingRecord
    versions: dict[str, str]
    coverage: float | None = None  #: of its error bars; None without

    def build(self, folder: Path, most: int) -> nn.Module:
        """The network with any weights, at most so many; the global generator is left alone."""
        cure = f"make one and call pdno.load(folder, network={self.network_class}(...))"
        if self.network is None:
            raise ValueError(f"{folder} holds weights of a {self.network_class}, no more: {cure}")
        count, thread = 0, threading.get_ident()

        def check(module: nn.Module, name: str, weight: nn.Parameter | None) -> None:
            nonlocal count
            if weight is not None and thread == threading.get_ident():
                count += weight.numel()
                if count > REPLACED * most:
                    wrong = f"it has more parameters than the {most} of its weights"
                    raise MemoryLimitError(wrong)

        try:
            hook = register_module_parameter_registration_hook(check)
            with hook, torch.random.fork_rng(devices=[]):
                try:  # first without memory for its parameters
                    with torch.device("meta"):
                        rebuild(self.network)
                except MemoryLimitError:
                    raise
                except Exception:  # not every class of others can be made there
                    pass
                count = 0
                return cast(nn.Module, rebuild(self.network))
        except (KeyError, TypeError, ValueError) as problem:
            wrong = f"cannot make the network of {folder} ({problem})"
            raise ValueError(f"{wrong}: {cure}") from problem


def read_record(folder: Path) -> OperatorRecord:
    path = folder / run_folder.OPERATOR
    try:
        return OperatorRecord.model_validate_json(read_text(verified_path(path)))
    except ValidationError as problem:
        reason = f"is not readable ({error_message(problem)[:LONGEST_MESSAGE]})"
        raise ValueError(f"{path} {reason}: it is damaged, or of a newer pdno") from problem


def model_card(record: OperatorRecord, metrics: Sequence[Metric]) -> str:
    """What it was trained on, its errors and its limits, in Markdown."""
    sampling, training = record.sampling, record.training
    splits = groupby(metrics, lambda metric: (metric.split, metric.resolution))
    return render(
        Path(__file__).with_name("model_card.md.jinja"),
        record=record,
        sampling=sampling,
        training=training,
        grid=sampling.grid,
        settings=training.settings.model_dump(exclude_defaults=True),
        network=json.dumps(record.network, indent=2),
        space=", ".join(f"N{axis + 1}" for axis in range(sampling.grid.space_axes)),
        frames=sampling.times is not None and record.task["kind"] != "static",
        ranges=list(zip(sampling.pde_parameters, sampling.ranges, strict=True)),
        metrics=[metric for _, group in splits for metric in islice(group, MOST_ERRORS)],
    )


def symbol_arguments(network: nn.Module, task: Task, time: float | None) -> Time:
    """What symbols see beside x and ξ: a time, and PDE parameters mid-range, where they are 0."""
    moments = [task.scaled_time(time)] if isinstance(task, OneShot) and time is not None else []
    layers = (m for m in network.modules() if isinstance(m, PseudoDifferentialOperator))
    numbers = moments + [0.0] * max((layer.pde_parameters for layer in layers), default=0)
    return torch.tensor([numbers]) if len(numbers) > len(moments) else next(iter(numbers), None)


@torch.no_grad()
def symbol_arrays(network: nn.Module, task: Task, grid: Grid, times: Times) -> SampleArrays:
    """The first rank term of all symbols, at the last time and middle PDE parameters."""
    if isinstance(task, SpaceTime) or isinstance(grid, Points):  # of other axes than the arrays
        return {}
    t, blocks = symbol_arguments(network, task, float(times[-1]) if times else None), []
    operators = [m for m in network.modules() if isinstance(m, PseudoDifferentialOperator)]
    if isinstance(network, NeuralOperator) and t is None:
        inner = network.inner_grid(grid)
        blocks = [operator.values_at_nodes(inner).on_grid() for operator in operators]
        operators = []
    for operator in operators:
        step = t is None and getattr(operator.symbol, "takes_time", False)
        with contextlib.suppress(ValueError):  # a layer on other axes than those of the data
            blocks.append(operator.values(grid, 1.0 if step else t))  # a step of a semigroup: e^A
    arrays: SampleArrays = {}
    for layer, values in enumerate(blocks):
        a2 = values.frequency[0, :PAIRS, :PAIRS].cpu()
        arrays |= {f"symbol.{layer}.real": a2.real, f"symbol.{layer}.imaginary": a2.imag}
        if values.space is not None:
            arrays[f"symbol.{layer}.space"] = values.space[0, :PAIRS, :PAIRS].cpu()
    return arrays
