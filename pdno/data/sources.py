"""Sources of samples: arrays in memory, and anything that yields pairs of input and target.

A source has a grid, times, names of channels, and reads any of its samples.
"""

__all__ = ["ArraySource", "Channels", "Numbers", "Source", "stacked_pairs"]

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, RandomSampler, SequentialSampler

from pdno.spectral.grid import Grid

Numbers: TypeAlias = Tensor | np.ndarray


class Channels(NamedTuple):
    """The names of the channels of a dataset."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Source(Protocol):
    """Where samples come from: inputs (B, C, *N), outputs (B, T, C, *N), without times no T."""

    grid: Grid
    times: tuple[float, ...] | None
    channels: Channels
    dtype: torch.dtype
    """The number type that holds the samples without loss."""
    pde_parameters: Mapping[str, Tensor]
    """PDE parameters that each sample has for itself, (B,) float64 each, by name."""

    def __len__(self) -> int: ...

    def read(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Inputs and outputs of some samples."""


class ArraySource:
    """Samples in memory: inputs (B, C, *N), outputs (B, T, C, *N) with times, else (B, C, *N)."""

    def __init__(
        self,
        inputs: Numbers,
        outputs: Numbers,
        grid: Grid,
        times: Sequence[float] | None = None,
        channels: Channels | None = None,
        pde_parameters: Mapping[str, Numbers] | None = None,
    ) -> None:
        self.times = None if times is None else tuple(float(t) for t in times)
        if self.times is not None:
            increasing = all(a < b for a, b in pairwise(self.times))
            if not self.times or not increasing or not all(map(math.isfinite, self.times)):
                raise ValueError(f"times {times}: expected one or more finite, increasing times")
        self.grid, self.inputs, self.outputs = grid, _as_tensor(inputs), _as_tensor(outputs)
        _check_field("inputs", self.inputs, grid, in_time=False)
        _check_field("outputs", self.outputs, grid, in_time=self.times is not None)
        names = channels or Channels((), ())
        self.channels = Channels(
            _channel_names("input", names.inputs, self.inputs.shape[1]),
            _channel_names("output", names.outputs, self.outputs.shape[-1 - grid.dim]),
        )
        wider = torch.promote_types(self.inputs.dtype, self.outputs.dtype)
        self.dtype = torch.promote_types(wider, torch.float32)
        count, frames = len(outputs), outputs.shape[1]
        if len(inputs) != count:
            raise ValueError(f"{len(inputs)} inputs but {count} outputs; expected as many of both")
        if self.times is not None and len(self.times) != frames:
            raise ValueError(
                f"{len(self.times)} times but {frames} frames of outputs; expected one per frame"
            )
        self.pde_parameters: Mapping[str, Tensor] = {
            name: _check_parameter(name, values, count)
            for name, values in (pde_parameters or {}).items()
        }

    def __len__(self) -> int:
        return len(self.inputs)

    def read(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Inputs and outputs of some samples."""
        index = torch.as_tensor(list(indices), dtype=torch.long)
        return self.inputs[index], self.outputs[index]


def stacked_pairs(source: object) -> tuple[Tensor, Tensor]:
    """Inputs and targets of all samples of a torch Dataset, DataLoader or iterable of pairs."""
    pairs = [_pair(item, number) for number, item in enumerate(_items(source))]
    if not pairs:
        raise ValueError(f"the {type(source).__name__} has no samples; expected at least one")
    inputs, targets = (_stack(part) for part in zip(*pairs, strict=True))
    return inputs, targets


def _items(source: object) -> Iterable[object]:
    """The samples of a source, one by one."""
    if isinstance(source, DataLoader):
        if not isinstance(source.sampler, (SequentialSampler, RandomSampler)):
            chooser = type(source.sampler).__name__
            raise ValueError(
                f"the DataLoader chooses its samples by a {chooser}: give its dataset, or "
                "torch.utils.data.Subset(dataset, indices)"
            )
        source = source.dataset
    if isinstance(source, Dataset) and (size := getattr(source, "__len__", None)):
        return (source[index] for index in range(size()))
    if isinstance(source, Iterable) and not isinstance(source, (Tensor, np.ndarray, str, Path)):
        return source
    raise ValueError(
        f"a {type(source).__name__} is no dataset: give an OperatorDataset, which "
        "OperatorDataset.from_arrays(inputs, targets, grid) makes of arrays and pdno.read_own of "
        "files, or pairs (input, target)"
    )


def _pair(item: object, number: int) -> tuple[Tensor, Tensor]:
    """Input and target of one sample."""
    pair = (item.get("x"), item.get("y")) if isinstance(item, Mapping) else item
    if isinstance(pair, (tuple, list)) and len(pair) == 2:
        first, second = map(_as_tensor, pair)
        if isinstance(first, Tensor) and isinstance(second, Tensor) and first.dim() > 1:
            return first, second
    kind = f"keys {', '.join(map(str, item))}" if isinstance(item, Mapping) else _kind(item)
    raise ValueError(
        f"sample {number} is {kind}; expected a pair (input, target) of arrays (C, *N), or a dict "
        "of them with x and y: arrays of all samples go into OperatorDataset.from_arrays"
    )


def _kind(item: object) -> str:
    if isinstance(item, (tuple, list)):
        return f"a {type(item).__name__} of {', '.join(_kind(part) for part in item[:4])}"
    shape = getattr(item, "shape", None)
    return f"a {type(item).__name__}" + ("" if shape is None else f" {tuple(shape)}")


def _stack(parts: Sequence[Tensor]) -> Tensor:
    shapes = {tuple(part.shape) for part in parts}
    if len(shapes) > 1:
        listed = ", ".join(map(str, sorted(shapes)[:3]))
        raise ValueError(f"the samples have different shapes {listed}: bring them to one grid")
    return torch.stack(list(parts))


def _channel_names(kind: str, names: Sequence[str], count: int) -> tuple[str, ...]:
    """The names of channels, by default numbered ones."""
    if not names:
        return (kind,) if count == 1 else tuple(f"{kind}_{k}" for k in range(count))
    if len(names) != count or len(set(names)) != count or not all(names):
        listed = f"names {', '.join(names)} of {count} {kind} channels"
        raise ValueError(f"{listed}: expected {count} different ones")
    return tuple(names)


def _as_tensor(numbers: Any) -> Any:
    """NumPy arrays as tensors; all else as it is."""
    if not isinstance(numbers, np.ndarray):
        return numbers
    # torch knows neither foreign byte orders nor negative strides, and warns of read-only memory
    native = numbers.astype(numbers.dtype.newbyteorder("="), copy=not numbers.flags.writeable)
    return torch.from_numpy(np.ascontiguousarray(native))


def _check_parameter(name: str, values: Numbers, count: int) -> Tensor:
    """A PDE parameter of each sample as float64, (B,)."""
    numbers = torch.as_tensor(_as_tensor(values)).to(torch.float64)
    if numbers.shape != (count,) or not bool(numbers.isfinite().all()):
        shape = f"PDE parameter {name} has shape {tuple(numbers.shape)}"
        raise ValueError(f"{shape}; expected a finite number for each of {count} samples")
    return numbers


def _check_field(name: str, field: object, grid: Grid, *, in_time: bool) -> None:
    """Refuse what is not a finite real field (B, C, *N) or (B, T, C, *N) on the grid."""
    if not isinstance(field, Tensor):
        raise ValueError(
            f"{name} are a {type(field).__name__}; expected a tensor or a NumPy array"
        )
    if not field.dtype.is_floating_point:
        cure = "convert them with .float(), or astype('float32') in NumPy"
        raise ValueError(f"{name} are of type {field.dtype}; expected real floats: {cure}")
    if field.dim() != grid.dim + 2 + in_time:
        layout = "(B, T, C, *N)" if in_time else "(B, C, *N)"
        bare = field.dim() == grid.dim + 1 + in_time and tuple(field.shape[1 + in_time :])
        index = "[:, :, None]" if in_time else "[:, None]"
        cure = f": {name}{index} has the axis of channels" if bare == grid.shape else ""
        raise ValueError(
            f"{name} have shape {tuple(field.shape)}; expected {layout} on {grid.shape}{cure}"
        )
    grid.check(field, name)
    bad = (~field.isfinite()).flatten(1).any(dim=1).nonzero()
    if len(bad):
        raise ValueError(f"{name} of sample {int(bad[0])} have NaN or infinity: leave it out")
