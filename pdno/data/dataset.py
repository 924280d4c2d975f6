"""Datasets of operators: pairs (input, target) with their grid and times.

A dataset is a view on a source, which is arrays in memory or the shards of a folder: choosing
samples, points or frames makes a new view and copies nothing. Samples are read when they are asked
for.
"""

__all__ = ["ArraySource", "OperatorDataset", "ShardSource", "Source", "open_dataset"]

import copy
import math
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from pdno.atomic import sha256
from pdno.data.manifest import FieldKey, ShardRecord, read_manifest
from pdno.data.shards import read_samples
from pdno.grid import Grid


class ArraySource:
    """Samples in memory: inputs (B, C, *N), outputs (B, T, C, *N) with times, else (B, C, *N)."""

    def __init__(
        self, inputs: Tensor, outputs: Tensor, grid: Grid, times: Sequence[float] | None = None
    ) -> None:
        self.grid = grid
        self.times = None if times is None else _checked_times(times)
        _check_field("inputs", inputs, grid, in_time=False)
        _check_field("outputs", outputs, grid, in_time=self.times is not None)
        if len(inputs) != len(outputs):
            raise ValueError(
                f"{len(inputs)} inputs but {len(outputs)} outputs; expected one output per input"
            )
        if self.times is not None and len(self.times) != outputs.shape[1]:
            raise ValueError(
                f"{len(self.times)} times but {outputs.shape[1]} frames of outputs; expected one "
                "time per frame"
            )
        self.inputs, self.outputs = inputs, outputs

    def __len__(self) -> int:
        return len(self.inputs)

    def read(self, rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Inputs and outputs of some samples."""
        index = torch.as_tensor(list(rows), dtype=torch.long)
        return self.inputs[index], self.outputs[index]


class ShardSource:
    """Samples of a dataset folder; only what is asked for is read (see `open_dataset`)."""

    def __init__(self, folder: Path, *, verify: bool = True, partial: bool = False) -> None:
        self.folder = Path(folder)
        self.manifest = manifest = read_manifest(self.folder)
        if not manifest.complete and not partial:
            raise ValueError(
                f"{folder} is partial: {manifest.made} of {manifest.samples} samples; run its "
                "`pdno generate` command again to finish it, or open it with partial=True"
            )
        self.shards: list[ShardRecord] = []
        for shard in manifest.shards:
            if shard.first != len(self):  # a gap: only the samples before it have their places
                break
            path = self.folder / shard.file
            cure = "run the dataset's `pdno generate` command again"
            if not path.is_file():
                raise ValueError(f"{path} is missing: {cure}")
            if verify and sha256(path) != shard.sha256:
                cause = "its SHA-256 differs from the manifest"
                raise ValueError(f"{path} is damaged ({cause}): {cure} to repair it")
            self.shards.append(shard)
        self.starts = [shard.first for shard in self.shards]
        self.times, self.grid = manifest.times, manifest.grid.open()

    def __len__(self) -> int:
        return sum(shard.count for shard in self.shards)

    def read(self, rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Inputs and outputs of some samples, one visit to each shard."""
        places: dict[int, list[int]] = {}
        for place, row in enumerate(rows):
            places.setdefault(bisect_right(self.starts, row) - 1, []).append(place)
        inputs, outputs = (self._read_field(key, rows, places) for key in ("input", "output"))
        # the axis of channels, which fields have in memory and not on disk
        return inputs.unsqueeze(1), outputs.unsqueeze(-1 - self.grid.dim)

    def _read_field(
        self, key: FieldKey, rows: Sequence[int], places: dict[int, list[int]]
    ) -> Tensor:
        """One field of the samples `rows`; `places` are their positions in `rows`, by shard."""
        values = np.empty((len(rows), *self.manifest.stored_shape(key)), self.manifest.dtype)
        for number, positions in places.items():
            shard = self.shards[number]
            inside = {place: rows[place] - shard.first for place in positions}
            path = self.folder / shard.file
            read_samples(path, self.manifest.fields[key], inside, values, count=shard.count)
        return torch.from_numpy(values)


Source: TypeAlias = ArraySource | ShardSource


class OperatorDataset(Dataset[tuple[Tensor, Tensor]]):
    """Pairs (input, target) of an operator.

    Shapes: static (C, *N) -> (C, *N); trajectories (C, *N) -> (T, C, *N); windows of k frames
    (k·C, *N) -> (T - k, C, *N).

    Example:
        >>> frames = torch.randn(6, 5, 1, 8)
        >>> data = OperatorDataset.from_arrays(frames[:, 0], frames, Grid((8,)), times=range(5))
        >>> train, test = data.window(inputs=2).split(test=2)
        >>> len(train), len(test), tuple(test[0][0].shape), tuple(test[0][1].shape)
        (4, 2, (2, 8), (3, 1, 8))
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.grid = source.grid
        self.times = source.times
        self.input_frames: int | None = None
        self.dtype = torch.float32
        self._rows: Sequence[int] = range(len(source))
        self._every = 1

    @classmethod
    def from_arrays(
        cls, inputs: Tensor, outputs: Tensor, grid: Grid, times: Sequence[float] | None = None
    ) -> "OperatorDataset":
        """A dataset of tensors: inputs (B, C, *N), outputs (B, T, C, *N) or (B, C, *N)."""
        return cls(ArraySource(inputs, outputs, grid, times))

    @property
    def target_times(self) -> tuple[float, ...] | None:
        """Times of the frames of the targets; None for a static dataset."""
        return None if self.times is None else self.times[self.input_frames or 0 :]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} of a dataset with {len(self)} samples")
        inputs, targets = self.batch([index])
        return inputs[0], targets[0]

    def batch(self, indices: Sequence[int] | None = None) -> tuple[Tensor, Tensor]:
        """Several samples at once, or all of them: inputs and targets with a batch axis."""
        chosen = range(len(self)) if indices is None else indices
        self._check_rows(chosen, least=-len(self))
        inputs, outputs = self.source.read([self._rows[index] for index in chosen])
        if self.times is not None:
            outputs = outputs[:, : len(self.times)]
        points: tuple[Any, ...] = (..., *(slice(None, None, self._every),) * self.grid.dim)
        inputs, outputs = inputs[points].to(self.dtype), outputs[points].to(self.dtype)
        if self.input_frames is None:
            return inputs, outputs
        # the only place where the frames of a window become channels
        window = outputs[:, : self.input_frames].flatten(1, 2)
        return window, outputs[:, self.input_frames :]

    def subset(self, rows: Sequence[int]) -> "OperatorDataset":
        """The samples `rows` of this dataset."""
        self._check_rows(rows)
        view = copy.copy(self)
        view._rows = [self._rows[row] for row in rows]
        return view

    def _check_rows(self, rows: Sequence[int], *, least: int = 0) -> None:
        for row in rows:
            if not least <= row < len(self):
                raise ValueError(f"sample {row} of a dataset with {len(self)} samples")

    def split(
        self, train: int | Sequence[int] | None = None, *, test: int | Sequence[int]
    ) -> tuple["OperatorDataset", "OperatorDataset"]:
        """Disjoint training and test sets.

        Arguments:
            train: Number of first samples, or which ones; None takes all that are not for testing.
            test: Number of last samples, or which ones.
        """
        size = len(self)
        test_rows = self._chosen("test", test, last=True)
        if train is None:
            train = sorted(set(range(size)) - set(test_rows))
        first, second = self.subset(self._chosen("train", train)), self.subset(test_rows)
        common = set(first._rows) & set(second._rows)
        if common:
            raise ValueError(
                f"train={_short(train)} and test={_short(test)} of {size} samples share "
                f"{len(common)} samples: ask for fewer so that the two sets are disjoint"
            )
        return first, second

    def _chosen(
        self, name: str, choice: int | Sequence[int], *, last: bool = False
    ) -> Sequence[int]:
        """The rows that a count or a list of rows means."""
        size = len(self)
        rows: Sequence[int]
        if isinstance(choice, int):
            rows = range(size - choice, size) if last else range(choice)
        else:
            rows = list(choice)
        if not 0 < len(rows) < size:
            raise ValueError(
                f"{name}={_short(choice)} of {size} samples: expected 1 to {size - 1}"
            )
        return rows

    def subsample(self, every: int) -> "OperatorDataset":
        """Every r-th grid point along each axis, starting with the first, as in the paper."""
        view = copy.copy(self)
        view.grid = self.grid.coarsen(every)
        view._every = self._every * every
        return view

    def window(self, inputs: int, outputs: int | None = None) -> "OperatorDataset":
        """The first `inputs` frames as channels, the next `outputs` (None: all) as the target."""
        if self.times is None:
            raise ValueError("a static dataset has no frames to take a window of")
        if self.input_frames is not None:
            raise ValueError("this dataset is a window already: take it of the whole dataset")
        total = len(self.times)
        end = total if outputs is None else inputs + outputs
        if not 0 < inputs < end <= total:
            raise ValueError(
                f"a window of {inputs} inputs and {outputs} outputs does not fit {total} frames"
            )
        view = copy.copy(self)
        view.input_frames, view.times = inputs, self.times[:end]
        return view

    def to(self, dtype: torch.dtype) -> "OperatorDataset":
        """The same samples in another number type (float32 by default)."""
        if not dtype.is_floating_point:
            raise ValueError(f"dtype is {dtype}; expected a real one, for example torch.float64")
        view = copy.copy(self)
        view.dtype = dtype
        return view


def open_dataset(
    folder: Path | str, *, verify: bool = True, partial: bool = False
) -> OperatorDataset:
    """Open a dataset folder made by `pdno generate`.

    Arguments:
        folder: The dataset.
        verify: Compare every shard with its SHA-256 first.
        partial: Whether to accept a dataset that is not complete; the samples before the first
            gap are used.
    """
    return OperatorDataset(ShardSource(Path(folder), verify=verify, partial=partial))


def _short(choice: int | Sequence[int] | None) -> str:
    return f"{len(choice)} chosen" if isinstance(choice, Sequence) else str(choice)


def _checked_times(times: Sequence[float]) -> tuple[float, ...]:
    moments = tuple(float(t) for t in times)
    increasing = all(a < b for a, b in zip(moments, moments[1:], strict=False))
    if not moments or not increasing or not all(map(math.isfinite, moments)):
        raise ValueError(f"times {moments}: expected one or more finite, increasing times")
    return moments


def _check_field(name: str, field: Tensor, grid: Grid, *, in_time: bool) -> None:
    """Refuse what is not a finite real field (B, C, *N) or (B, T, C, *N) on the grid."""
    if not isinstance(field, Tensor):
        raise ValueError(
            f"{name} are a {type(field).__name__}; expected a tensor: use torch.as_tensor"
        )
    if not field.dtype.is_floating_point:
        raise ValueError(f"{name} are of type {field.dtype}; expected real floats")
    if field.dim() != grid.dim + 2 + in_time:
        layout = "(B, T, C, *N)" if in_time else "(B, C, *N)"
        raise ValueError(
            f"{name} have shape {tuple(field.shape)}; expected {layout} on {grid.shape}"
        )
    grid.check(field, name)
    finite = torch.isfinite(field).flatten(1).all(dim=1)
    if not bool(finite.all()):
        bad = int((~finite).nonzero()[0])
        raise ValueError(f"{name} of sample {bad} have NaN or infinity: leave it out")
