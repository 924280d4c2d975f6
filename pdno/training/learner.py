"""A learner: a network, its normalisers and its task, which is all that predicting needs."""

__all__ = ["Learner", "make_learner"]

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pdno.grid import Grid
from pdno.metrics import relative_l2
from pdno.training.examples import Batch, Samples
from pdno.training.normalized import Normalized
from pdno.training.normalizer import Normalization
from pdno.training.task import Task


class Learner(nn.Module):
    """decode ∘ network ∘ encode, used as a task says; it predicts in the units of the data.

    Arguments:
        network: The network between its normalisers.
        task: How it is used.
    """

    def __init__(self, network: Normalized, task: Task) -> None:
        super().__init__()
        self.normalized, self.task = network, task

    @property
    def network(self) -> nn.Module:
        """The network alone."""
        return self.normalized.network

    def forward(self, batch: Batch, grid: Grid, order: float = 0.0) -> tuple[Tensor, Tensor]:
        """Terms of the loss (B, K) and relative L2 errors (B,) of a batch of examples."""
        said = self.task.answer(self.normalized, batch, grid)
        said = said.to(batch.targets.dtype)  # autocast may have left it in half precision
        terms = self.task.errors(said, batch.targets, dim=grid.dim, order=order)
        with torch.no_grad():
            errors = relative_l2(said, batch.targets)
        return terms, errors

    def predict(
        self, inputs: Tensor, *, grid: Grid, times: Sequence[float] | None = None
    ) -> Tensor:
        """The prediction for inputs (B, C, *N): (B, C, *N), or (B, T, C, *N) at `times`.

        Arguments:
            inputs: As the dataset has them.
            grid: Their grid, which may be another one than in training.
            times: Times of the wanted frames; None for a static problem.
        """
        was_training = self.training
        self.eval()
        try:
            with torch.no_grad():
                like = next(self.parameters(), inputs)
                said = self.task.predict(self.normalized, inputs.to(like), grid, times)
                return said.to(inputs)
        finally:
            self.train(was_training)


def make_learner(
    network: nn.Module, task: Task, samples: Samples, normalization: Normalization = "none"
) -> Learner:
    """A learner with normalisers fitted to the training samples, which have to fit the task."""
    task.examples(samples)
    inputs, outputs = None, None
    if normalization != "none":  # statistics need all samples in memory
        inputs, outputs = task.normalizers(samples, normalization)
    channels = samples.batch([0])[1].shape[-samples.data.grid.dim - 1]
    learner = Learner(Normalized(network, inputs, outputs, channels), task)
    like = next(network.parameters(), None)
    return learner if like is None else learner.to(like.device)
