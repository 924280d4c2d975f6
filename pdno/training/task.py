"""Tasks: how a network meets a dataset, in training and afterwards.

A task says three things: which examples a dataset gives, what the network does with an example,
and how it answers when all targets of a sample are wanted. Tasks are frozen records, so that they
can stand in the specification of an experiment.

    StaticMap       f -> u                                             (Darcy, Burgers)
    Rollout         the network is fed with its own predictions, also in training (paper, 5.2)
    TeacherForcing  one step from true frames
    Markov          one step from one true frame with noise, as an increment
    OneShot         (f, t) -> u(t)                                     (heat, and a(x, ξ, t))
    SpaceTime       all frames at once, time as one more axis          (FNO-3D, MWT)
"""

__all__ = ["StaticMap", "Task", "Whole"]

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict
from torch import Tensor

from pdno.grid import Grid
from pdno.metrics import relative_error
from pdno.training.examples import Batch, Examples, Samples
from pdno.training.normalized import Normalized
from pdno.training.normalizer import Normalization, Normalizer, fit_normalizer


class Task(BaseModel, ABC):
    """What every task has."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @abstractmethod
    def examples(self, samples: Samples) -> Examples:
        """The examples of a dataset."""

    @abstractmethod
    def normalizers(
        self, samples: Samples, kind: Normalization
    ) -> tuple[Normalizer | None, Normalizer | None]:
        """The normalisers of inputs and outputs, fitted to the training samples."""

    @abstractmethod
    def answer(self, network: Normalized, batch: Batch, grid: Grid) -> Tensor:
        """What the network says to a batch of examples, of the shape of its targets."""

    @abstractmethod
    def predict(
        self, network: Normalized, inputs: Tensor, grid: Grid, times: Sequence[float] | None
    ) -> Tensor:
        """The prediction of all targets of some samples."""

    def errors(self, said: Tensor, targets: Tensor, *, dim: int, order: float) -> Tensor:
        """The terms of the loss, (B, K): the relative error of each example in H^order."""
        return relative_error(said, targets, dim=dim, s=order)[:, None]


class StaticMap(Task):
    """f -> u in one application (Darcy and Burgers)."""

    kind: Literal["static"] = "static"

    def examples(self, samples: Samples) -> Examples:
        if samples.data.times is not None and len(samples.data.times) != 1:
            raise ValueError(
                f"a static map has one target; this dataset has {len(samples.data.times)} frames: "
                "take another task, for example Rollout or OneShot"
            )
        return Whole(samples)

    def normalizers(
        self, samples: Samples, kind: Normalization
    ) -> tuple[Normalizer | None, Normalizer | None]:
        inputs, targets = samples.batch(range(len(samples)))
        grid = samples.data.grid
        return (
            fit_normalizer(inputs, grid, kind),
            fit_normalizer(_one_frame(targets, grid), grid, kind),
        )

    def answer(self, network: Normalized, batch: Batch, grid: Grid) -> Tensor:
        said: Tensor = network(batch.inputs, grid)
        return said[:, None] if batch.targets.dim() > said.dim() else said

    def predict(
        self, network: Normalized, inputs: Tensor, grid: Grid, times: Sequence[float] | None
    ) -> Tensor:
        said: Tensor = network(inputs, grid)
        return said if times is None else said[:, None]


class Whole(Examples):
    """The samples themselves."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def batch(self, indices: Sequence[int], *, seed: int, epoch: int) -> Batch:
        return Batch(*self.samples.batch(indices))


def _one_frame(targets: Tensor, grid: Grid) -> Tensor:
    """(B, 1, C, *N) or (B, C, *N) -> (B, C, *N)."""
    return targets[:, 0] if targets.dim() == grid.dim + 3 else targets
