"""A learner: a network, its normalisers and its task, which is all that predicting needs."""

__all__ = ["Learner", "evaluation_mode", "make_learner"]

import contextlib
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from pdno.grid import Grid
from pdno.metrics import relative_l2
from pdno.training.normalizer import Normalization, NormalizedNetwork
from pdno.training.samples import Batch, Samples
from pdno.training.task import Task


class Learner(nn.Module):
    """decode ∘ network ∘ encode, used as a task says; it predicts in the units of the data.

    Arguments:
        network: The network between its normalisers.
        task: How it is used.
    """

    def __init__(self, network: NormalizedNetwork, task: Task) -> None:
        super().__init__()
        self.normalized, self.task = network, task

    @property
    def network(self) -> nn.Module:
        """The network alone."""
        return self.normalized.network

    def forward(self, batch: Batch, grid: Grid, order: float = 0.0) -> tuple[Tensor, Tensor]:
        """Terms of the loss (B, K) and relative L2 errors (B,) of a batch of examples."""
        output = self.task.forward(self.normalized, batch, grid)
        output = output.to(batch.targets.dtype)  # autocast may have left it in half precision
        terms = self.task.loss_terms(output, batch.targets, dim=grid.dim, order=order)
        with torch.no_grad():
            errors = relative_l2(output, batch.targets)
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
        with evaluation_mode(self):
            like = next((p for p in self.parameters() if p.is_floating_point()), inputs)
            prediction = self.task.predict(self.normalized, inputs.to(like), grid, times)
            return prediction.to(inputs)


@contextlib.contextmanager
def evaluation_mode(predictor: object) -> Iterator[None]:
    """No gradients, and evaluation mode where the predictor is a module; its modes come back."""
    modules = list(predictor.modules()) if isinstance(predictor, nn.Module) else []
    before = [module.training for module in modules]
    try:
        for module in modules:
            module.training = False
        # not inference mode: values that a network keeps must serve a later training step, too
        with torch.no_grad():
            yield
    finally:
        for module, training in zip(modules, before, strict=True):
            module.training = training


def make_learner(
    network: nn.Module, task: Task, samples: Samples, normalization: Normalization = "none"
) -> Learner:
    """A learner with normalisers fitted to the training samples, which have to fit the task."""
    task.examples(samples)
    inputs, outputs = None, None
    if normalization != "none":  # statistics need all samples in memory
        inputs, outputs = task.normalizers(samples, normalization)
    normalized = NormalizedNetwork(network, inputs, outputs, channels=samples.channels)
    like = next(network.parameters(), None)
    return Learner(normalized, task) if like is None else Learner(normalized, task).to(like.device)
