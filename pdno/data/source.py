"""Where samples come from: arrays in memory, or the shards of a dataset folder read lazily."""

__all__ = ["ArraySource", "ShardSource", "Source"]

import math
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from pdno.atomic import sha256
from pdno.data.manifest import ShardRecord, read_manifest
from pdno.data.shards import read_samples
from pdno.grid import Grid


class Source(Protocol):
    """Samples on one grid: inputs (B, C, *N), outputs (B, T, C, *N) or (B, C, *N)."""

    grid: Grid
    times: tuple[float, ...] | None

    def __len__(self) -> int: ...

    def read(self, rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Inputs and outputs of some samples."""


class ArraySource:
    """Samples that are in memory.

    Arguments:
        inputs: (B, C, *N).
        outputs: (B, T, C, *N) with times, (B, C, *N) without.
        grid: Where the samples live.
        times: Times of the outputs; None for a static problem.
    """

    def __init__(
        self, inputs: Tensor, outputs: Tensor, grid: Grid, times: Sequence[float] | None = None
    ) -> None:
        self.grid = grid
        self.times = _checked_times(times)
        axes = grid.dim + (2 if self.times is None else 3)
        for name, field, expected in (
            ("inputs", inputs, grid.dim + 2),
            ("outputs", outputs, axes),
        ):
            _check_tensor(name, field)
            if field.dim() != expected:
                layout = "(B, T, C, *N)" if expected == grid.dim + 3 else "(B, C, *N)"
                raise ValueError(
                    f"{name} have shape {tuple(field.shape)}; expected {layout} on {grid.shape}"
                )
            grid.check(field, name)
        if len(inputs) != len(outputs):
            raise ValueError(
                f"{len(inputs)} inputs but {len(outputs)} outputs; expected one output per input"
            )
        if self.times is not None and len(self.times) != outputs.shape[1]:
            raise ValueError(
                f"{len(self.times)} times but {outputs.shape[1]} frames of outputs; expected one "
                "time per frame"
            )
        for name, field in (("inputs", inputs), ("outputs", outputs)):
            finite = torch.isfinite(field).flatten(1).all(dim=1)
            if not bool(finite.all()):
                bad = int((~finite).nonzero()[0])
                raise ValueError(f"{name} of sample {bad} have NaN or infinity: leave it out")
        self.inputs, self.outputs = inputs, outputs

    def __len__(self) -> int:
        return len(self.inputs)

    def read(self, rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Inputs and outputs of some samples."""
        index = torch.as_tensor(list(rows), dtype=torch.long)
        return self.inputs[index], self.outputs[index]


class ShardSource:
    """Samples of a dataset folder; only what is asked for is read.

    Arguments:
        folder: The dataset.
        verify: Compare every shard with its SHA-256 first.
        partial: Whether to accept a dataset that is not complete; the samples before the first
            gap are used.
    """

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
            self._check(self.folder / shard.file, shard.sha256, verify=verify)
            self.shards.append(shard)
        self.starts = [shard.first for shard in self.shards]
        self.times = manifest.times
        record = manifest.grid
        self.grid = Grid(record.shape, record.periodic, record.offset)

    @staticmethod
    def _check(path: Path, digest: str, *, verify: bool) -> None:
        if not path.is_file():
            raise ValueError(f"{path} is missing: run the dataset's `pdno generate` command again")
        if verify and sha256(path) != digest:
            raise ValueError(
                f"{path} is damaged (its SHA-256 differs from the manifest): run the dataset's "
                "`pdno generate` command again to repair it"
            )

    def __len__(self) -> int:
        return sum(shard.count for shard in self.shards)

    def read(self, rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Inputs and outputs of some samples, one visit to each shard."""
        places: dict[int, list[int]] = {}
        for position, row in enumerate(rows):
            places.setdefault(bisect_right(self.starts, row) - 1, []).append(position)
        inputs, outputs = (self._read_field(key, rows, places) for key in ("input", "output"))
        return inputs.unsqueeze(1), outputs.unsqueeze(-1 - self.grid.dim)

    def _read_field(
        self, key: Literal["input", "output"], rows: Sequence[int], places: dict[int, list[int]]
    ) -> Tensor:
        """One field of the samples `rows`; `places` are their positions in `rows`, by shard."""
        manifest = self.manifest
        in_time = key == "output" and manifest.times is not None
        shape = (*(len(manifest.times or ()),) * in_time, *self.grid.shape)
        values = np.empty((len(rows), *shape), manifest.dtype)
        for number, positions in places.items():
            shard = self.shards[number]
            values[positions] = read_samples(
                self.folder / shard.file,
                manifest.fields[key],
                [rows[position] - shard.first for position in positions],
                shape=(shard.count, *shape),
                dtype=manifest.dtype,
            )
        return torch.from_numpy(values)


def _checked_times(times: Sequence[float] | None) -> tuple[float, ...] | None:
    if times is None:
        return None
    moments = tuple(float(t) for t in times)
    increasing = all(a < b for a, b in zip(moments, moments[1:], strict=False))
    if not moments or not increasing or not all(map(math.isfinite, moments)):
        raise ValueError(f"times {moments}: expected one or more finite, increasing times")
    return moments


def _check_tensor(name: str, field: Tensor) -> None:
    if not isinstance(field, Tensor):
        raise ValueError(
            f"{name} are a {type(field).__name__}; expected a tensor: use torch.as_tensor"
        )
    if not field.dtype.is_floating_point:
        raise ValueError(f"{name} are of type {field.dtype}; expected real floats")
