"""Examples: what one step of training is made of, and in which order they come.

A dataset has samples; a task makes examples of them: a sample itself, a window of a trajectory,
or a sample at a time. The order of an epoch is a function of (seed, epoch) and the noise of an
example a function of (seed, epoch, example), so there is no state to save and nothing depends on
the number of processes.
"""

__all__ = ["Batch", "Examples", "Samples", "epoch_order", "example_noise"]

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
        size = sum(part.numel() * part.element_size() for part in first) * len(data)
        self._kept = self._load() if size <= MOST_IN_MEMORY else None

    def __len__(self) -> int:
        return len(self.data)

    def batch(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Inputs and targets of some samples."""
        if self._kept is None:
            inputs, targets = self.data.batch(indices)
            return inputs.to(self.device), targets.to(self.device)
        rows = torch.as_tensor(indices, device=self.device)
        return self._kept[0][rows], self._kept[1][rows]

    def _load(self) -> tuple[Tensor, Tensor]:
        inputs, targets = self.data.batch()
        return inputs.to(self.device), targets.to(self.device)


class Examples(ABC):
    """The examples that a task makes of samples."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def batch(self, indices: Sequence[int], *, seed: int, epoch: int) -> Batch:
        """Some examples, with the noise of this epoch where the task adds noise."""


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
