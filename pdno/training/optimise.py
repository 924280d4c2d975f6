"""Optimisers, from the settings of a run."""

__all__ = ["make_optimiser"]

from torch import nn
from torch.optim import Adam, AdamW, Optimizer

from pdno.training.settings import TrainingSettings


def make_optimiser(module: nn.Module, settings: TrainingSettings) -> Optimizer:
    """Adam (weight decay in the gradient, as published) or AdamW."""
    kind: type[Adam] = {"adam": Adam, "adamw": AdamW}[settings.optimiser]
    return kind(module.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
