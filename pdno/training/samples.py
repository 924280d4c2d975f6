"""Samples and examples: what one step of training is made of, and in which order they come.

A dataset has samples; a task makes examples of them: a sample itself, a window of a trajectory,
or a sample at a time. The order of an epoch is a function of (seed, epoch) and the noise of an
example a function of (seed, epoch, example), so there is no state to save and nothing depends on
the number of processes.
"""

__all__ = ["Batch", "Examples", "Samples", "WholeSamples", "epoch_order", "example_noise"]

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pdno.data.dataset import OperatorDataset

MOST_IN_MEMORY = 4 * 2**30
"""Bytes up to which the samples of a dataset are read once and kept."""


@dataclass(frozen=True)
class Batch:
    """Inputs and targets of some examples, and their times where the task has such.

    Shapes: inputs (B, C, *N), targets (B, C, *N) or (B, T, C, *N), t (B,).
    """

    inputs: Tensor
    targets: Tensor
    t: Tensor | None = None


class Samples:
    """The samples of a dataset on a device, kept in memory where they fit.

    Arguments:
        data: The dataset.
        device: Where batches are wanted.
        dtype: Their number type.
    """

    def __init__(
        self, data: OperatorDataset, device: torch.device, dtype: torch.dtype = torch.float32
    ) -> None:
        self.data, self.device = data.to(dtype), device
        first = self.data.batch([0])
        self.channels: int = first[1].shape[-data.grid.dim - 1]
        size = sum(part.numel() * part.element_size() for part in first) * len(data)
        self._kept: tuple[Tensor, Tensor] | None = None
        self._trajectories: Tensor | None = None
        if size <= MOST_IN_MEMORY:
            self._kept = self._read(None)
            if data.input_frames is not None:
                window = data.input_frames
                whole = self._trajectories = self._join(self._kept)
                # views of the trajectories, so that nothing is kept twice
                self._kept = whole[:, :window].flatten(1, 2), whole[:, window:]

    def __len__(self) -> int:
        return len(self.data)

    def batch(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Inputs and targets of some samples."""
        if self._kept is None:
            return self._read(indices)
        rows = torch.as_tensor(indices, device=self.device)
        return self._kept[0][rows], self._kept[1][rows]

    def all(self) -> tuple[Tensor, Tensor]:
        """Inputs and targets of all samples, for statistics."""
        return self._read(None) if self._kept is None else self._kept

    def trajectories(self, indices: Sequence[int] | None = None) -> Tensor:
        """All frames of all or some samples, those of the window first, (B, T, C, *N)."""
        if self._trajectories is None:
            return self._join(self._read(indices))
        return self._trajectories if indices is None else self._trajectories[list(indices)]

    def frames(self, indices: Sequence[int], first: Sequence[int], count: int) -> Tensor:
        """`count` frames of some trajectories, each from its own first one on, (B, k, C, *N)."""
        whole = self._trajectories
        if whole is None:  # every trajectory is read once, however many of its windows are wanted
            rows = {index: row for row, index in enumerate(dict.fromkeys(indices))}
            whole, indices = self.trajectories(list(rows)), [rows[index] for index in indices]
        starts = torch.as_tensor(first, device=self.device)[:, None]
        chosen = torch.as_tensor(indices, device=self.device)[:, None]
        return whole[chosen, starts + torch.arange(count, device=self.device)]

    def _read(self, indices: Sequence[int] | None) -> tuple[Tensor, Tensor]:
        inputs, targets = self.data.batch(indices)
        return inputs.to(self.device), targets.to(self.device)

    def _join(self, parts: tuple[Tensor, Tensor]) -> Tensor:
        """Windows (B, k·C, *N) and targets (B, T, C, *N) -> (B, k + T, C, *N)."""
        window, targets = parts
        frames = window.reshape(len(window), -1, *targets.shape[2:])
        return torch.cat([frames, targets], dim=1)


class Examples(ABC):
    """The examples that a task makes of samples."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def batch(self, indices: Sequence[int], *, seed: int, epoch: int) -> Batch:
        """Some examples, with the noise of this epoch where the task adds noise."""


class WholeSamples(Examples):
    """The samples themselves, with the first `steps` frames of their targets (None: all)."""

    def __init__(self, samples: Samples, steps: int | None = None) -> None:
        self.samples, self.steps = samples, steps

    def __len__(self) -> int:
        return len(self.samples)

    def batch(self, indices: Sequence[int], *, seed: int, epoch: int) -> Batch:
        inputs, targets = self.samples.batch(indices)
        return Batch(inputs, targets if self.steps is None else targets[:, : self.steps])


def epoch_order(count: int, *, seed: int, epoch: int) -> list[int]:
    """The order of the examples in an epoch."""
    generator = np.random.default_rng(np.random.SeedSequence([seed, epoch]))
    order: list[int] = generator.permutation(count).tolist()
    return order


def example_noise(like: Tensor, indices: Sequence[int], *, seed: int, epoch: int) -> Tensor:
    """Standard normal numbers of the shape of `like`, row by row those of one example."""
    rows = []
    for index in indices:
        generator = np.random.default_rng(np.random.SeedSequence([seed, epoch, index, 1]))
        rows.append(generator.standard_normal(like.shape[1:], dtype=np.float32))
    return torch.from_numpy(np.stack(rows)).to(like)
