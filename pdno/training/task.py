"""Tasks: how a network meets a dataset, in training and afterwards.

A task says three things: which examples a dataset gives, what the network makes of an example,
and how it predicts all targets of a sample. Tasks are frozen records, so that they can stand in
the specification of an experiment.

    StaticMap       f -> u                                             (Darcy, Burgers)
    Rollout         the network is fed with its own predictions, also in training (paper, 5.2)
    TeacherForcing  one step from true frames
    Markov          one step from one true frame with noise, as an increment
    OneShot         (f, t) -> u(t)                                     (heat, and a(x, ξ, t))
    SpaceTime       all frames at once, time as one more axis          (FNO-3D, MWT)
"""

__all__ = ["StaticMap", "Task"]

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict
from torch import Tensor

from pdno.grid import Grid
from pdno.metrics import relative_error
from pdno.training.normalizer import Normalization, NormalizedNetwork, Normalizers, fit_normalizer
from pdno.training.samples import Batch, Examples, Samples, WholeSamples


class Task(BaseModel, ABC):
    """What every task has."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @abstractmethod
    def examples(self, samples: Samples) -> Examples:
        """The examples of a dataset."""

    def normalizers(self, samples: Samples, kind: Normalization) -> Normalizers:
        """The normalisers of inputs and outputs, fitted to the training samples."""
        (inputs, targets), grid = samples.all(), samples.data.grid
        frames = samples.data.times is not None
        outputs = fit_normalizer(targets, grid, kind, frames=frames)
        return fit_normalizer(inputs, grid, kind), outputs

    @abstractmethod
    def forward(self, network: NormalizedNetwork, batch: Batch, grid: Grid) -> Tensor:
        """The output for a batch of examples, of the shape of its targets."""

    @abstractmethod
    def predict(
        self, network: NormalizedNetwork, inputs: Tensor, grid: Grid, times: Sequence[float] | None
    ) -> Tensor:
        """The prediction of all targets of some samples."""

    def loss_terms(self, prediction: Tensor, targets: Tensor, *, dim: int, order: float) -> Tensor:
        """The terms of the loss, (B, K): the relative error of each example in H^order."""
        return relative_error(prediction, targets, dim=dim, s=order)[:, None]


class StaticMap(Task):
    """f -> u in one application (Darcy and Burgers)."""

    kind: Literal["static"] = "static"

    def examples(self, samples: Samples) -> Examples:
        if samples.data.times is not None and len(samples.data.times) != 1:
            raise ValueError(
                f"a static map has one target; this dataset has {len(samples.data.times)} frames: "
                "take another task, for example Rollout or OneShot"
            )
        return WholeSamples(samples)

    def forward(self, network: NormalizedNetwork, batch: Batch, grid: Grid) -> Tensor:
        output: Tensor = network(batch.inputs, grid)
        return output[:, None] if batch.targets.dim() > output.dim() else output

    def predict(
        self, network: NormalizedNetwork, inputs: Tensor, grid: Grid, times: Sequence[float] | None
    ) -> Tensor:
        if times is not None and len(times) != 1:
            raise ValueError(
                f"a static map gives one frame, the dataset wants {len(times)}: take a task that "
                "rolls the network out or feeds it the times"
            )
        output: Tensor = network(inputs, grid)
        return output if times is None else output[:, None]
