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
        fused = all(p.device.type == "cpu" and p.is_floating_point() for p in rest)
        self.parts: list[tuple[Optimizer, float]] = []
        if rest:
            self.parts.append((kind(rest, weight_decay=decay, fused=fused), 1.0))
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
            by_shape: defaultdict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
            for matrix in group["params"]:
                if matrix.grad is not None:
                    by_shape[matrix.shape].append((matrix, matrix.grad))
            for (rows, columns), pairs in by_shape.items():  # all of a shape together
                matrices = [matrix for matrix, _ in pairs]
                states = [self.state[matrix] for matrix in matrices]
                for matrix, state in zip(matrices, states, strict=True):
                    state.setdefault("momentum_buffer", torch.zeros_like(matrix))
                gradients = torch.stack([gradient for _, gradient in pairs])
                momenta = [state["momentum_buffer"] for state in states]
                torch._foreach_lerp_(momenta, gradients.unbind(), 1 - MOMENTUM)
                moved = orthogonal_factor(gradients.lerp(torch.stack(momenta), MOMENTUM))
                torch._foreach_mul_(matrices, 1 - rate * decay)
                size = math.sqrt(min(max(1, rows / columns), MOST_ROWS))
                torch._foreach_add_(matrices, moved.unbind(), alpha=-rate * size)


def orthogonal_factor(matrix: Tensor) -> Tensor:
    """About U Vᵀ of U S Vᵀ (..., R, C): singular values that are not tiny become 0.7 to 1.2."""
    a, b, c = NEWTON_SCHULZ
    wide = matrix if matrix.shape[-2] <= matrix.shape[-1] else matrix.mT
    size = wide.norm(dim=(-2, -1), keepdim=True)
    wide = wide / size.clamp_min(torch.finfo(wide.dtype).tiny)
    gram, product = wide @ wide.mT, None
    for iteration in range(ITERATIONS):
        polynomial = torch.add(b * gram, gram @ gram, alpha=c)
        polynomial.diagonal(dim1=-2, dim2=-1).add_(a)
        product = polynomial if product is None else polynomial @ product
        if iteration < ITERATIONS - 1:
            gram = polynomial @ gram @ polynomial
    assert product is not None
    moved: Tensor = product @ wide
    return moved if moved.shape == matrix.shape else moved.mT
