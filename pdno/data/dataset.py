"""Datasets of operators: pairs (input, target) with their grid and times.

A dataset is a view on a source: choosing samples, points or frames makes a new view and copies
nothing. Samples are read when they are asked for.
"""

__all__ = ["OperatorDataset", "open_dataset"]

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from pdno.data.source import ArraySource, ShardSource, Source
from pdno.grid import Grid


class OperatorDataset(Dataset[tuple[Tensor, Tensor]]):
    """Pairs (input, target) of an operator.

    Shapes: static (C, *N) -> (C, *N); trajectories (C, *N) -> (T, C, *N); windows of k frames
    (k·C, *N) -> (T - k, C, *N).

    Arguments:
        source: Where samples come from.

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
        self._frames = slice(None)

    @classmethod
    def from_arrays(
        cls, inputs: Tensor, outputs: Tensor, grid: Grid, times: Sequence[float] | None = None
    ) -> "OperatorDataset":
        """A dataset of tensors: inputs (B, C, *N), outputs (B, T, C, *N) or (B, C, *N)."""
        return cls(ArraySource(inputs, outputs, grid, times))

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def target_times(self) -> tuple[float, ...] | None:
        """Times of the targets: those behind the window where there is one; None if static."""
        return None if self.times is None else tuple(self.times[self.input_frames or 0 :])

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} of a dataset with {len(self)} samples")
        inputs, targets = self.batch([index])
        return inputs[0], targets[0]

    def batch(self, indices: Sequence[int] | None = None) -> tuple[Tensor, Tensor]:
        """Several samples at once, or all of them: inputs and targets with a batch axis."""
        chosen = range(len(self)) if indices is None else indices
        bad = [index for index in chosen if not -len(self) <= index < len(self)]
        if bad:
            raise ValueError(f"sample {bad[0]} of a dataset with {len(self)} samples")
        inputs, outputs = self.source.read([self._rows[index] for index in chosen])
        points: tuple[Any, ...] = (..., *(slice(None, None, self._every),) * self.grid.dim)
        inputs, outputs = inputs[points].to(self.dtype), outputs[points].to(self.dtype)
        if self.times is None:
            return inputs, outputs
        outputs = outputs[:, self._frames]
        if self.input_frames is None:
            return inputs, outputs
        window = outputs[:, : self.input_frames].flatten(1, 2)
        return window, outputs[:, self.input_frames :]

    def subset(self, rows: Sequence[int]) -> "OperatorDataset":
        """The samples `rows` of this dataset."""
        bad = [row for row in rows if not 0 <= row < len(self)]
        if bad:
            raise ValueError(f"sample {bad[0]} of a dataset with {len(self)} samples")
        view = copy.copy(self)
        view._rows = [self._rows[row] for row in rows]
        return view

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
            held_out = set(test_rows)
            train = [row for row in range(size) if row not in held_out]
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
        view.input_frames, view._frames = inputs, slice(0, end)
        view.times = self.times[:end]
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
