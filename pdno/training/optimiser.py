"""Optimisers: Adam and AdamW for all weights, or Muon for matrices with AdamW for the rest.

Muon moves a matrix along the orthogonal factor of its momentum, so that every direction of a
layer learns at the same pace. Networks of symbols are stacks of matrices; free tables are not.

A running mean of the weights, if wanted, is kept beside the state of the optimiser, and so it is
in every checkpoint: a run that is resumed ends with the same mean to the bit.
"""

__all__ = ["Optimiser"]

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Muon, Optimizer

from pdno.training.settings import TrainingSettings

SMALLEST_MATRIX = 16  # matrices with a shorter side are left to AdamW
MEAN, BEST = "mean", "best"  # keys of the running mean and of the best in a weight's state


class Optimiser:
    """What changes the weights of a module; `state` has the tensors it remembers of each."""

    def __init__(self, module: nn.Module, settings: TrainingSettings) -> None:
        self.weights: list[Tensor] = [p for p in module.parameters() if p.requires_grad]
        self.settings, decay = settings, settings.weight_decay
        matrices, rest = list[Tensor](), self.weights
        if settings.optimiser == "muon":
            real = [p for p in rest if p.dim() == 2 and not p.is_complex()]
            matrices = [p for p in real if min(p.shape) >= SMALLEST_MATRIX]
            rest = [p for p in rest if not any(p is matrix for matrix in matrices)]
        # Adam has the weight decay in the gradient, as published
        kind = Adam if settings.optimiser == "adam" else AdamW
        self.parts: list[tuple[Optimizer, float]] = []
        if rest:
            self.parts.append((kind(rest, weight_decay=decay), 1.0))
        if matrices:
            factor = settings.matrix_learning_rate / settings.learning_rate
            self.parts.append((Muon(matrices, weight_decay=decay), factor))
        self.state: defaultdict[Tensor, Any] = defaultdict(dict)
        for part, _ in self.parts:
            part.state = self.state

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for part, _ in self.parts:
            part.zero_grad(set_to_none=True)

    def step(self, rate: float, count: int) -> None:
        """Change the weights at a learning rate; `count` steps were taken before."""
        for part, factor in self.parts:
            for group in part.param_groups:
                group["lr"] = rate * factor
            part.step()
        if self.settings.averaging:
            # at first the mean forgets faster, for the start is nothing to remember
            keep = min(self.settings.averaging, (1 + count) / (10 + count))
            for weight in self.weights:
                mean = self.state[weight].setdefault(MEAN, weight.detach().clone())
                mean.lerp_(weight.detach(), 1 - keep)

    @contextmanager
    def mean_weights(self) -> Iterator[None]:
        """Within this block the weights are their running means, if there are some."""
        if not self.settings.averaging:
            yield
            return
        now = [weight.detach().clone() for weight in self.weights]
        self.finish()
        try:
            yield
        finally:
            with torch.no_grad():
                for weight, value in zip(self.weights, now, strict=True):
                    weight.copy_(value)

    def remember(self) -> None:
        """Keep the weights as they are now as the best ones."""
        for weight in self.weights:
            self.state[weight][BEST] = weight.detach().clone()

    @torch.no_grad()
    def restore_best(self) -> None:
        """Let the weights be the best ones for good, if any were kept."""
        for weight in self.weights:
            if BEST in self.state.get(weight, {}):
                weight.copy_(self.state[weight][BEST])

    @torch.no_grad()
    def finish(self) -> None:
        """Let the weights be their running means for good, if there are some."""
        for weight in self.weights:
            if MEAN in self.state.get(weight, {}):
                weight.copy_(self.state[weight][MEAN])
