"""Where samples come from: arrays in memory, or the shards of a dataset folder read lazily."""

__all__ = ["ArraySource", "ShardSource", "Source"]

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from pdno.atomic import sha256
from pdno.data.manifest import read_manifest
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
        self.times = tuple(float(t) for t in times) if times is not None else None
        axes = grid.dim + (2 if self.times is None else 3)
        for name, field, expected in (
            ("inputs", inputs, grid.dim + 2),
            ("outputs", outputs, axes),
        ):
            if field.dim() != expected:
                layout = "(B, T, C, *N)" if expected == grid.dim + 3 else "(B, C, *N)"
                raise ValueError(
                    f"{name} have shape {tuple(field.shape)}; expected {layout} on {grid.shape}"
                )
            grid.check(field, name)
        if len(inputs) != len(outputs):
            raise ValueError(f"{len(inputs)} inputs but {len(outputs)} outputs")
        if self.times is not None and len(self.times) != outputs.shape[1]:
            raise ValueError(f"{len(self.times)} times but {outputs.shape[1]} frames of outputs")
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
        partial: Whether to accept a dataset that is not complete: its first shards are used.
    """

    def __init__(self, folder: Path, *, verify: bool = True, partial: bool = False) -> None:
        self.folder = Path(folder)
        self.manifest = manifest = read_manifest(self.folder)
        planned = {file: first for file, first, _ in manifest.plan()}
        have = sum(shard.count for shard in manifest.shards)
        if not manifest.complete and not partial:
            raise ValueError(
                f"{folder} is partial: {have} of {manifest.samples} samples; run its "
                "`pdno generate` command again to finish it"
            )
        self.shards = []
        for shard, first in zip(manifest.shards, planned.values(), strict=False):
            if shard.first != first:  # a gap: only the samples before it have their places
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
        parts: list[tuple[np.ndarray, np.ndarray] | None] = [None] * len(rows)
        for number, positions in places.items():
            shard = self.shards[number]
            local = [rows[position] - shard.first for position in positions]
            path = self.folder / shard.file
            inputs, outputs = (
                read_samples(path, self.manifest.fields[key], local) for key in ("input", "output")
            )
            for position, pair in zip(positions, zip(inputs, outputs, strict=True), strict=True):
                parts[position] = pair
        stacked = [np.stack([part[k] for part in parts if part is not None]) for k in (0, 1)]
        inputs, outputs = (torch.from_numpy(array) for array in stacked)
        return inputs.unsqueeze(1), outputs.unsqueeze(-1 - self.grid.dim)
