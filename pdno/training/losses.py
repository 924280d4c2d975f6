"""Losses: objects that can be added and scaled, and are recorded with the training.

Physics without data is `loss=Residual(pdno.Burgers())`; beside targets it is
`loss=RelativeError() + 0.1 * Residual(pdno.Burgers())`. ∂/∂t is that of the network itself. In
H^{-2} a residual of second order in x weighs all modes about alike.
"""

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from pdno.spectral.grid import Grid
from pdno.spectral.metrics import relative_error, sobolev_norm
from pdno.training.samples import Batch
from pdno.training.task import NormalizedNetwork


class Loss(ABC):
    """A loss; `a + b` and `2 * a` are losses, too."""

    @abstractmethod
    def terms(self, net: NormalizedNetwork, batch: Batch, output: Tensor) -> Tensor:
        """The terms of each example, (B, K), which a step adds up; `output` is that of `net`."""

    @abstractmethod
    def describe(self) -> object:
        """What it is, as plain JSON: a run continues only with the loss that it began with."""

    def __add__(self, other: "Loss") -> "Weighted":
        return Weighted((*_parts(self), *_parts(other)))

    def __rmul__(self, weight: float) -> "Weighted":
        return Weighted(tuple((weight * w, part) for w, part in _parts(self)))


def _parts(loss: Loss) -> tuple[tuple[float, Loss], ...]:
    return loss.parts if isinstance(loss, Weighted) else ((1.0, loss),)


@dataclass(frozen=True)
class Weighted(Loss):
    """Σ_k w_k loss_k."""

    parts: tuple[tuple[float, Loss], ...]

    def terms(self, net: NormalizedNetwork, batch: Batch, output: Tensor) -> Tensor:
        return torch.cat([w * part.terms(net, batch, output) for w, part in self.parts], dim=1)

    def describe(self) -> object:
        return [[w, part.describe()] for w, part in self.parts]


@dataclass(frozen=True)
class RelativeError(Loss):
    """‖v - u‖ / ‖u‖ in H^order of the torus, L2 for order 0; in a rollout frame by frame."""

    order: float = 0.0

    def terms(self, net: NormalizedNetwork, batch: Batch, output: Tensor) -> Tensor:
        keep, grid = 2 if batch.frame_by_frame else 1, net.target_grid
        if self.order and type(grid) is not Grid:
            raise ValueError("a norm in H^s needs a whole grid: take order 0 on scattered points")
        pair = [grid.weigh(field) for field in (output, batch.targets)]
        errors = relative_error(*pair, dim=grid.space_axes, s=self.order, keep=keep)
        return errors.reshape(len(errors), -1)

    def describe(self) -> object:
        return {"relative error in H": self.order}


class HasRate(Protocol):
    """An evolution equation u_t = rate(u), as those of `pdno.equations`."""

    def rate(self, u: Tensor) -> Tensor:
        """L u + N(u) of real fields (B, C, *N)."""


@dataclass(frozen=True)
class Residual(Loss):
    """‖∂v/∂t - L v - N(v)‖_{H^order} T / ‖u₀‖ and ‖v(0) - u₀‖ / ‖u₀‖ of v(t) = G(u₀, t).

    No targets are used. T is the `span` of the task `OneShot`.
    """

    equation: HasRate
    order: float = -2.0

    def terms(self, net: NormalizedNetwork, batch: Batch, output: Tensor) -> Tensor:
        if type(net.grid) is not Grid:
            raise ValueError("a residual needs a whole grid: it has derivatives in space")
        if batch.t is None:
            cure = "take task=OneShot() and takes_time=True"
            raise ValueError(f"this task gives the network no time for ∂/∂t: {cure}")
        u0, solution = batch.inputs, partial(net, batch.inputs)
        v, v_t, *_ = torch.func.jvp(solution, (batch.t,), (torch.ones_like(batch.t),))
        size, dim = u0.flatten(1).norm(dim=1), net.grid.dim
        residual = sobolev_norm(v_t - self.equation.rate(v), self.order, dim=dim)
        whole = sobolev_norm(u0, 0.0, dim=dim)
        start = (solution(torch.zeros_like(batch.t)) - u0).flatten(1).norm(dim=1)
        return torch.stack([net.time_scale[1] * residual / whole, start / size], dim=1)

    def describe(self) -> object:
        equation: object = self.equation
        numbers: object = str(equation)
        if dataclasses.is_dataclass(equation) and not isinstance(equation, type):
            numbers = dataclasses.asdict(equation)
        return {"residual of": type(equation).__name__, "numbers": numbers, "in H": self.order}
