"""Sources of samples: arrays in memory, HDF5 files, and iterables of pairs."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import compress, pairwise, product
from pathlib import Path
from typing import NamedTuple, TypeAlias

import h5py
import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, RandomSampler, SequentialSampler, default_collate

from pdno.equations.symmetries import Symmetries, box_symmetries
from pdno.interface.errors import LONGEST_MESSAGE, check_shape
from pdno.spectral.grid import Grid
from pdno.spectral.points import Points

Numbers: TypeAlias = Tensor | np.ndarray


class Channels(NamedTuple):
    """The names of the channels of a dataset."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Source(ABC):
    """Where samples come from: inputs (B, C, *N), outputs (B, T, C, *N), without times no T.

    `dtype` holds the samples without loss, `pde_parameters` are (B,) float64 each.
    """

    grid: Grid
    output_grid: Grid | None = None  # of the outputs, where it is another one
    times: tuple[float, ...] | None
    channels: Channels
    dtype: torch.dtype
    pde_parameters: Mapping[str, Tensor]

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def read(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Inputs and outputs of some samples."""

    def symmetries(self, grid: Grid) -> Symmetries:
        """The maps of fields on a grid that turn samples into samples; at least x -> x."""
        return Symmetries(box_symmetries(grid)[:1])


@dataclass
class ArraySource(Source):
    """Samples in memory, checked by `OperatorDataset.from_arrays`."""

    inputs: Tensor
    outputs: Tensor
    grid: Grid
    times: tuple[float, ...] | None
    channels: Channels
    pde_parameters: Mapping[str, Tensor]
    output_grid: Grid | None = None

    def __post_init__(self) -> None:
        wider = torch.promote_types(self.inputs.dtype, self.outputs.dtype)
        self.dtype = torch.promote_types(wider, torch.float32)

    def __len__(self) -> int:
        return len(self.inputs)

    def read(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        index = torch.as_tensor(list(indices), dtype=torch.long)
        return self.inputs[index], self.outputs[index]


class Field(NamedTuple):
    """A field or scalar in The Well's layout, (B, T, *N, d, ...), and along which axes it varies.

    Axes along which it does not vary are left out; `order` counts the axes of its components.
    """

    path: str
    order: int
    by_sample: bool
    by_time: bool
    by_axis: tuple[bool, ...]

    def channels(self, axes: Sequence[str]) -> list[str]:
        """Names of its channels, velocity_x and velocity_y of a vector."""
        name = self.path.rpartition("/")[2]
        indices = product(axes, repeat=self.order)
        return [f"{name}_{''.join(index)}" if index else name for index in indices]

    def stored_shape(self, count: int, frames: int, shape: Sequence[int]) -> tuple[int, ...]:
        """Its shape in a file of `count` samples."""
        ahead = [count] * self.by_sample + [frames] * self.by_time
        return (*ahead, *compress(shape, self.by_axis), *[len(shape)] * self.order)

    def read(
        self, file: h5py.File, row: int, frames: slice | int, shape: Sequence[int]
    ) -> np.ndarray:
        """One sample as channels first, ([T,] C, *N)."""
        block = np.asarray(file[self.path][(row,) * self.by_sample + (frames,) * self.by_time])
        ahead = block.shape[: self.by_time and isinstance(frames, slice)]
        sizes = [n if varies else 1 for n, varies in zip(shape, self.by_axis, strict=True)]
        block = block.reshape(*ahead, *sizes, len(shape) ** self.order)
        whole = np.broadcast_to(block, (*ahead, *shape, block.shape[-1]))
        return np.moveaxis(whole, -1, len(ahead))


class FileSource(Source):
    """Samples in HDF5 files, `counts` in each, read lazily.

    Inputs are the first frames of the first `fields`, outputs all frames of the second ones.
    """

    files: Sequence[Path]
    counts: Sequence[int]
    fields: Sequence[Sequence[Field]]

    def __len__(self) -> int:
        return sum(self.counts)

    @abstractmethod
    def opened(self, number: int) -> AbstractContextManager[h5py.File]:
        """One of the files, with errors that name it."""

    def read(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        shape, frames = self.grid.shape, () if self.times is None else (len(self.times),)
        inputs, outputs = (
            torch.empty((len(indices), *ahead, len(names), *shape), dtype=self.dtype)
            for ahead, names in zip(((), frames), self.channels, strict=True)
        )
        parts = (inputs, self.fields[0], 0), (outputs, self.fields[1], slice(None))
        ends = np.cumsum(self.counts)
        numbers = np.searchsorted(ends, np.asarray(indices, dtype=int), side="right")
        for number in dict.fromkeys(numbers.tolist()):
            first = int(ends[number]) - self.counts[number]
            with self.opened(number) as file:
                for target in np.flatnonzero(numbers == number).tolist():
                    for part, fields, cut in parts:
                        row = indices[target] - first
                        values = [field.read(file, row, cut, shape) for field in fields]
                        out = part[target].numpy()
                        np.concatenate(values, -1 - len(shape), out=out, casting="unsafe")
        return inputs, outputs


def stacked_pairs(source: object) -> tuple[Tensor, Tensor]:
    """Inputs and targets of all samples of a torch Dataset, DataLoader or iterable of pairs."""
    if isinstance(source, DataLoader):
        if not isinstance(source.sampler, (SequentialSampler, RandomSampler)):
            sampler = type(source.sampler).__name__
            raise ValueError(f"the DataLoader has a {sampler}: give a Subset of its dataset")
        source = source.dataset
    kind = type(source).__name__
    if isinstance(source, Dataset) and (size := getattr(source, "__len__", None)):
        source = map(source.__getitem__, range(size()))
    if not isinstance(source, Iterable) or isinstance(source, (Tensor, np.ndarray, str, Path)):
        cure = "give pairs (input, target), or use OperatorDataset.from_arrays or pdno.read_own"
        raise ValueError(f"a {kind} is no dataset: {cure}")
    samples = [(s.get("x"), s.get("y")) if isinstance(s, Mapping) else s for s in source]
    if not samples:
        raise ValueError(f"the {kind} has no samples; expected at least one")
    try:
        pairs = [tuple(as_tensor("samples", part) for part in pair) for pair in samples]
        inputs, targets = default_collate(pairs)
        if inputs.dim() > 2 and targets.dim() > 2:
            return inputs, targets
        reason = f"they have shapes {tuple(inputs.shape[1:])} and {tuple(targets.shape[1:])}"
    except (AttributeError, RuntimeError, TypeError, ValueError) as problem:
        reason = str(problem)[:LONGEST_MESSAGE]
    raise ValueError(
        f"the samples of the {kind} are no pairs (input, target) of arrays (C, *N), alike on one "
        f"grid, or dicts with x and y ({reason}): OperatorDataset.from_arrays takes whole arrays"
    )


def numbered(name: str, count: int) -> tuple[str, ...]:
    """Names of `count` channels: the name alone of one, name_0, name_1, ... of several."""
    return (name,) if count == 1 else tuple(f"{name}_{k}" for k in range(count))


def channel_names(kind: str, names: Sequence[str], count: int) -> tuple[str, ...]:
    """The names of channels, by default numbered ones."""
    if names and (len(names) != count or len(set(names)) != count or not all(names)):
        listed = f"names {', '.join(names)} of {count} {kind} channels"
        raise ValueError(f"{listed}: expected {count} different ones")
    return tuple(names) or numbered(kind, count)


def as_tensor(name: str, numbers: object) -> Tensor:
    """Numbers as a tensor; a tensor as it is."""
    if isinstance(numbers, Tensor):
        return numbers
    array = np.asanyarray(numbers)
    if isinstance(array, np.ma.MaskedArray):
        cure = "fill the gaps, for example with .filled(0.0), or leave these samples out"
        raise ValueError(f"{name} are a masked array, and fields have no masks: {cure}")
    try:
        # torch knows neither foreign byte orders nor negative strides, and warns of read-only ones
        return torch.from_numpy(np.require(array, array.dtype.newbyteorder("="), ["C", "W"]))
    except TypeError as problem:
        raise _not_floats(name, array.dtype) from problem


def _not_floats(name: str, dtype: object) -> ValueError:
    cure = "convert them with .float(), or astype('float32') in NumPy"
    return ValueError(f"{name} are of type {dtype}; expected real floats: {cure}")


def checked_field(name: str, numbers: object, grid: Grid, *, in_time: bool) -> Tensor:
    """A finite real field (B, C, *N) or (B, T, C, *N) on the grid, or ValueError."""
    if isinstance(grid, Points) and isinstance(numbers, Sequence):
        numbers = grid.pad(numbers)
    if not isinstance(numbers, (Tensor, np.ndarray)):
        kind = type(numbers).__name__
        raise ValueError(f"{name} are a {kind}; expected a tensor or NumPy array")
    field, first = as_tensor(name, numbers), 1 + in_time
    if field.shape[-grid.space_axes :] == grid.shape and grid.sets in (None, len(field)):
        field = grid.cover(field)
    if not field.dtype.is_floating_point:
        raise _not_floats(name, field.dtype)
    cure = ""
    if field.shape[first:] == grid.shape:
        cure = f"{name}[:, {':, ' * in_time}None] adds the channel axis"
    elif field.shape[first:-1] == grid.shape:
        cure = f"channels come before space, as in numpy.moveaxis({name}, -1, {first})"
    check_shape(name, field, "B", *["T"] * in_time, "C", *grid.shape, cure=cure)
    if grid.sets not in (None, len(field)):
        raise ValueError(f"{name} of {len(field)} samples on {grid.sets} sets of points or masks")
    if (bad := not_finite(field)) is not None:
        mask = "Points(..., mask=)" if isinstance(grid, Points) else "mask="
        cure = f"leave it out, or, where it is outside of the domain, give {mask}"
        raise ValueError(f"{name} of sample {bad} have NaN or infinity: {cure}")
    return field


def checked_parameters(numbers: Mapping[str, Numbers], count: int) -> dict[str, Tensor]:
    """PDE parameters of `count` samples, (B,) float64 and finite, or ValueError."""
    parameters = {}
    for name, values in numbers.items():
        what = f"PDE parameter {name}"
        parameters[name] = column = as_tensor(what, values).double()
        if column.shape != (count,) or not bool(column.isfinite().all()):
            shape = f"{what} has shape {tuple(column.shape)}"
            raise ValueError(f"{shape}; expected a finite number for each of {count} samples")
    return parameters


def not_finite(field: Tensor) -> int | None:
    """The first sample with NaN or infinity."""
    bad = (~field.isfinite()).flatten(1).any(dim=1).nonzero()
    return int(bad[0]) if len(bad) else None


def check_times(times: Sequence[float] | None) -> None:
    """Refuse times of frames that do not increase."""
    increasing = times is None or (len(times) > 0 and all(a < b for a, b in pairwise(times)))
    if not increasing or not all(map(math.isfinite, times or ())):
        raise ValueError(f"times {times}: expected one or more finite, increasing times")
