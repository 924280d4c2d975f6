"""Datasets of operators: pairs (input, target) with their grid and times.

A dataset is a view on a source, which is arrays in memory or the shards of a folder: choosing
samples, points or frames makes a new view, copies nothing and reads nothing.
"""

__all__ = ["ArraySource", "OperatorDataset", "ShardSource", "open_dataset"]

import copy
import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from pdno.atomic import sha256
from pdno.data.manifest import FieldKey, ShardRecord, read_manifest
from pdno.data.problems import PROBLEMS
from pdno.data.shards import read_samples
from pdno.equations.symmetries import Symmetries, Symmetry, box_symmetries
from pdno.grid import Grid


class ArraySource:
    """Samples in memory: inputs (B, C, *N), outputs (B, T, C, *N) with times, else (B, C, *N)."""

    def __init__(
        self, inputs: Tensor, outputs: Tensor, grid: Grid, times: Sequence[float] | None = None
    ) -> None:
        self.inputs, self.outputs, self.grid = inputs, outputs, grid
        self.times = None if times is None else tuple(float(t) for t in times)
        if self.times is not None:
            increasing = all(a < b for a, b in pairwise(self.times))
            if not self.times or not increasing or not all(map(math.isfinite, self.times)):
                raise ValueError(f"times {times}: expected one or more finite, increasing times")
        _check_field("inputs", inputs, grid, in_time=False)
        _check_field("outputs", outputs, grid, in_time=self.times is not None)
        count, frames = len(outputs), outputs.shape[1]
        if len(inputs) != count:
            raise ValueError(f"{len(inputs)} inputs but {count} outputs; expected as many of both")
        if self.times is not None and len(self.times) != frames:
            raise ValueError(
                f"{len(self.times)} times but {frames} frames of outputs; expected one per frame"
            )

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
        cure = "run the dataset's `pdno generate` command again"
        for shard in manifest.shards:
            if shard.first != len(self):  # a gap: only the samples before it have their places
                break
            path = self.folder / shard.file
            if not path.is_file():
                raise ValueError(f"{path} is missing: {cure}")
            if verify and sha256(path) != shard.sha256:
                cause = "its SHA-256 differs from the manifest"
                raise ValueError(f"{path} is damaged ({cause}): {cure} to repair it")
            self.shards.append(shard)
        self.times, self.grid = manifest.times, manifest.grid.open()

    def __len__(self) -> int:
        return sum(shard.count for shard in self.shards)

    def symmetries(self, grid: Grid) -> Symmetries:
        """Those of the equation that the samples are solutions of."""
        problem = PROBLEMS[self.manifest.problem](**self.manifest.parameters)
        return problem.physics()[1].symmetries(grid)

    def read(self, rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Inputs and outputs of some samples, one visit to each shard."""
        inside: dict[int, dict[int, int]] = {}  # by shard: its sample for each place of the result
        for place, row in enumerate(rows):
            number = bisect_right(self.shards, row, key=lambda shard: shard.first) - 1
            inside.setdefault(number, {})[place] = row - self.shards[number].first
        size = len(rows)
        return self._field("input", size, inside), self._field("output", size, inside)

    def _field(self, key: FieldKey, size: int, inside: dict[int, dict[int, int]]) -> Tensor:
        name, shape = self.manifest.fields[key], self.manifest.stored_shape(key)
        values = np.empty((size, *shape), self.manifest.dtype)
        for number, rows in inside.items():
            shard = self.shards[number]
            read_samples(self.folder / shard.file, name, rows, values, count=shard.count)
        # the axis of channels, which fields have in memory and not on disk
        return torch.from_numpy(values).unsqueeze(-1 - self.grid.dim)


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

    def __init__(self, source: ArraySource | ShardSource) -> None:
        self.source, self.grid, self.times = source, source.grid, source.times
        self.input_frames: int | None = None
        self.dtype = torch.float32
        self._rows: Sequence[int] = range(len(source))
        self._every = 1
        self._turn: Symmetry | None = None
        self._symmetries: Callable[[Grid], Symmetries] | None = None
        if isinstance(source, ShardSource) and source.manifest.problem in PROBLEMS:
            self._symmetries = source.symmetries

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
        if self._turn is not None:
            turn, whole = self._turn, self.source.grid
            inputs, outputs = turn.apply(inputs, whole), turn.apply(outputs, whole)
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
        return self._view(_rows=[self._rows[row] for row in rows])

    def _view(self, **changes: Any) -> "OperatorDataset":
        view = copy.copy(self)
        view.__dict__.update(changes)
        return view

    def _check_rows(self, rows: Sequence[int], *, least: int = 0) -> None:
        for row in rows:
            if not least <= row < len(self):
                raise ValueError(f"sample {row} of a dataset with {len(self)} samples")

    def split(
        self, train: int | Sequence[int] | None = None, *, test: int | Sequence[int]
    ) -> tuple["OperatorDataset", "OperatorDataset"]:
        """Disjoint training and test sets: numbers of first and of last samples, or which ones.

        Without `train` it is all samples that are not for testing.
        """
        size = len(self)
        second = range(size - test, size) if isinstance(test, int) else test
        if train is None:
            train = sorted(set(range(size)) - set(second))
        first = range(train) if isinstance(train, int) else train
        for name, choice, rows in (("test", test, second), ("train", train, first)):
            if not 0 < len(rows) < size:
                asked = f"{name}={_short(choice)} of {size} samples"
                raise ValueError(f"{asked}: expected 1 to {size - 1}")
        parts = self.subset(first), self.subset(second)
        common = set(parts[0]._rows) & set(parts[1]._rows)
        if common:
            raise ValueError(
                f"train={_short(train)} and test={_short(test)} of {size} samples share "
                f"{len(common)} samples: ask for fewer so that the two sets are disjoint"
            )
        return parts

    def subsample(self, every: int) -> "OperatorDataset":
        """Every r-th grid point along each axis, starting with the first, as in the paper."""
        return self._view(grid=self.grid.coarsen(every), _every=self._every * every)

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
        return self._view(input_frames=inputs, times=self.times[:end])

    def symmetries(self) -> Symmetries:
        """The maps of fields on this grid that turn samples into samples; at least x -> x."""
        if self._symmetries is None:
            return Symmetries(box_symmetries(self.grid)[:1])
        return self._symmetries(self.grid)

    def with_symmetries(self, symmetries: Callable[[Grid], Symmetries]) -> "OperatorDataset":
        """The same samples, with symmetries of one's own: a function of a grid."""
        return self._view(_symmetries=symmetries)

    def turns(self) -> "list[OperatorDataset]":
        """These samples, reflected in all ways that are exact only before points are left out.

        Every r-th point of a box does not lie symmetrically in it, so reflected samples are other
        ones: a reflection of the whole grid, and then every r-th point. Empty where reflections
        map this grid to itself and so are among its `symmetries`.
        """
        whole, same = self.source.grid, tuple(range(self.grid.dim))
        reflected = any(any(turn.flips) for turn in self.symmetries().turns)
        if self._symmetries is None or self.grid.periodic or reflected:
            return []
        flips = [turn for turn in self._symmetries(whole).turns if turn.axes == same]
        return [self._view(_turn=turn) for turn in flips]

    def to(self, dtype: torch.dtype) -> "OperatorDataset":
        """The same samples in another number type (float32 by default)."""
        if not dtype.is_floating_point:
            raise ValueError(f"dtype is {dtype}; expected a real one, for example torch.float64")
        return self._view(dtype=dtype)


def open_dataset(
    folder: Path | str, *, verify: bool = True, partial: bool = False
) -> OperatorDataset:
    """Open a dataset folder made by `pdno generate`.

    `verify` compares every shard with its SHA-256 first; `partial` accepts a dataset that is not
    complete, of which the samples before the first gap are used.
    """
    return OperatorDataset(ShardSource(Path(folder), verify=verify, partial=partial))


def _short(choice: int | Sequence[int]) -> str:
    return f"{len(choice)} chosen" if isinstance(choice, Sequence) else str(choice)


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
    bad = (~field.isfinite()).flatten(1).any(dim=1).nonzero()
    if len(bad):
        raise ValueError(f"{name} of sample {int(bad[0])} have NaN or infinity: leave it out")
