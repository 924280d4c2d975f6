"""Optimisers: Adam and AdamW for all weights, or Muon for matrices with AdamW for the rest.

A running mean of the weights is kept in the state of the optimiser, and so in every checkpoint.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer

from pdno.training.settings import TrainingSettings

SMALLEST_MATRIX = 16  # matrices with a shorter side are left to AdamW
MOMENTUM, ITERATIONS = 0.95, 5
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # a, b, c: singular values come near 1, not to it
MOST_ROWS = 16  # per column, that count
MEAN, BEST = "mean", "best"  # keys of the running mean and of the best in a weight's state


class Optimiser:
    """Updates the weights of a module; `state` holds its tensors per weight."""

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
        self.state: defaultdict[Tensor, dict[str, Tensor]] = defaultdict(dict)
        for part, _ in self.parts:
            part.state = self.state

    def step(self, rate: float, count: int) -> None:
        """Change the weights at a learning rate, after `count` steps."""
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
        now = [weight.detach().clone() for weight in self.weights if self.settings.averaging]
        self.finish()
        try:
            yield
        finally:
            with torch.no_grad():
                for weight, value in zip(self.weights, now, strict=False):
                    weight.copy_(value)

    def remember(self) -> None:
        for weight in self.weights:
            self.state[weight][BEST] = weight.detach().clone()

    @torch.no_grad()
    def finish(self, key: str = MEAN) -> None:
        """Let the weights be their running means for good, or the best ones, if any were kept."""
        for weight in self.weights:
            if key in self.state.get(weight, {}):
                weight.copy_(self.state[weight][key])

    def tensors(self, module: nn.Module) -> dict[str, Tensor]:
        """Its state, by names of the weights."""
        return {
            f"{name}.{key}": value
            for name, weight in module.named_parameters()
            for key, value in self.state.get(weight, {}).items()
        }

    def load_tensors(self, module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
        weights = dict(module.named_parameters())
        for full, value in tensors.items():
            name, key = full.rsplit(".", 1)
            # the step counter of Adam stays on the CPU
            where = "cpu" if key == "step" else weights[name].device
            self.state[weights[name]][key] = value.to(where)


class Muon(Optimizer):
    """Orthogonalised momentum for real matrices: all directions learn at the same rate.

        m ← 0.95 m + 0.05 g,   u = 0.05 g + 0.95 m,   W ← W - rate · s · X₅(u)
        s² = rows/columns, but no less than 1 and no more than 16
        X₀ = u/‖u‖,   X_{k+1} = (a + b G_k + c G_k²) X_k,   G_k = X_k X_kᵀ    (Newton-Schulz)

    As torch's Muon (Jordan 2024), but in the precision of the weights. s is bounded because the
    last map of a symbol has a row for each pair of channels, which add up in K.
    """

    def __init__(self, matrices: list[Tensor], weight_decay: float) -> None:
        super().__init__(matrices, {"lr": 0.0, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move all matrices that have a gradient."""
        for group in self.param_groups:
            rate, decay = group["lr"], group["weight_decay"]
            for matrix in (weight for weight in group["params"] if weight.grad is not None):
                state = self.state[matrix]
                momentum = state.setdefault("momentum_buffer", torch.zeros_like(matrix))
                momentum.lerp_(matrix.grad, 1 - MOMENTUM)
                moved = orthogonal_factor(matrix.grad.lerp(momentum, MOMENTUM))
                rows = min(max(1, matrix.shape[0] / matrix.shape[1]), MOST_ROWS)
                matrix.mul_(1 - rate * decay)
                matrix.sub_(moved, alpha=rate * math.sqrt(rows))


def orthogonal_factor(matrix: Tensor) -> Tensor:
    """About U Vᵀ of U S Vᵀ: singular values that are not tiny become 0.7 to 1.2."""
    a, b, c = NEWTON_SCHULZ
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.mT
    wide = wide / wide.norm().clamp_min(torch.finfo(wide.dtype).tiny)
    gram = wide @ wide.mT
    product = torch.eye(len(gram)).to(gram)
    for _ in range(ITERATIONS):
        polynomial = torch.addmm(gram, gram, gram, beta=b, alpha=c)
        polynomial.diagonal().add_(a)
        product, gram = polynomial @ product, polynomial @ gram @ polynomial
    moved: Tensor = product @ wide
    return moved if moved.shape == matrix.shape else moved.mT
