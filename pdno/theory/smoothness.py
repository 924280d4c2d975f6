"""Kinks and jumps of a function: found by looking closer and closer.

Where f is smooth, |f(p + h) - 2 f(p) + f(p - h)| / h² tends to |f''(p)| as h -> 0. At a kink it
grows like 1/h, at a jump like 1/h². So along a line the largest second difference is looked for
on a coarse set of points, then again around it with an eighth of the spacing, and so on; how the
quotient grows tells what is there. Kinks of second derivatives and weaker ones are not seen.

On the torus x = 1 is x = 0, and functions on the box must fit together there: at the seam values
and one-sided derivatives of both sides are compared.
"""

__all__ = ["Kink", "Seam", "find_kink", "find_seam"]

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

Function = Callable[[Tensor], Tensor]
"""From points (M, d) to values (functions, M)."""

COARSE, FINE, ZOOMS = 128, 32, 4
FACTOR = FINE / 4  # a window reaches two spacings to both sides
SEEN = 1e3 * torch.finfo(torch.float64).eps
SEAM_SPACING = 1 / 2048
# value and derivatives from one side, third order, at 0, h, .., 4h
_ONE_SIDED = torch.tensor(
    [
        [1.0, 0.0, 0.0, 0.0, 0.0],
        [-11 / 6, 3.0, -3 / 2, 1 / 3, 0.0],
        [35 / 12, -26 / 3, 19 / 2, -14 / 3, 11 / 12],
    ],
    dtype=torch.float64,
)
SEAM_TOLERANCE = 1e-2


class Kink(NamedTuple):
    """A point where a function is not smooth: h and |second difference| / h² of each look."""

    point: tuple[float, ...]
    spacings: tuple[float, ...]
    quotients: tuple[float, ...]

    @property
    def rate(self) -> float:
        """p of the growth h^-p: 1 is a kink, 2 a jump."""
        return math.log(self.quotients[-1] / self.quotients[-3]) / (2 * math.log(FACTOR))


class Seam(NamedTuple):
    """A jump between x_j = 0 and x_j = 1, of the derivative along x_j of some order."""

    axis: int
    derivative: int
    jump: float
    size: float
    """Largest value of that derivative."""
    point: tuple[float, ...]


def find_kink(function: Function, starts: Tensor, ends: Tensor) -> Kink | None:
    """The worst kink or jump that is found on lines from (L, d) to (L, d), or None."""
    low, high = torch.zeros(len(starts), 1).double(), torch.ones(len(starts), 1).double()
    lengths = (ends - starts).norm(dim=-1)
    spacings, quotients = [], []
    for look in range(ZOOMS + 1):
        count = COARSE if look == 0 else FINE
        unit = torch.linspace(0, 1, count + 1, dtype=torch.float64)
        places = low + (high - low) * unit
        points = starts[:, None] + places[..., None] * (ends - starts)[:, None]
        values = function(points.flatten(0, 1))
        values = values.reshape(len(values), *places.shape)
        seconds = (values[..., 2:] - 2 * values[..., 1:-1] + values[..., :-2]).abs().amax(dim=0)
        largest, place = seconds.max(dim=-1)
        h = (high - low)[:, 0] / count
        spacings.append(h * lengths)
        quotients.append(largest / spacings[-1].square())
        centre = torch.gather(places, 1, place[:, None] + 1)
        low, high = centre - 2 * h[:, None], centre + 2 * h[:, None]
    seen = largest > SEEN * values.abs().amax(dim=(0, 2))
    history = torch.stack(quotients)
    rates = (history[1:] / history[:-1].clamp_min(1e-300)).log() / math.log(FACTOR)
    rough = seen & (rates[-1] > 0.7) & (rates[-2] > 0.7)
    if not bool(rough.any()):
        return None
    worst = int(torch.where(rough, history[-1], 0.0).argmax())
    at = starts[worst] + 0.5 * (low + high)[worst] * (ends - starts)[worst]
    return Kink(
        tuple(at.tolist()),
        tuple(float(h[worst]) for h in spacings),
        tuple(history[:, worst].tolist()),
    )


def find_seam(function: Function, dim: int, generator: torch.Generator) -> Seam | None:
    """The first jump between x_j = 0 and x_j = 1 of a function or of two derivatives, or None."""
    inside = 0.9 * torch.rand(16, dim, generator=generator, dtype=torch.float64)
    for axis in range(dim):
        normal = torch.zeros(dim, dtype=torch.float64)
        normal[axis] = 1.0
        left = inside * (1 - normal)
        here = _one_sided(function, left, normal)
        there = _one_sided(function, left + normal, -normal)
        around = _one_sided(function, inside, normal)
        values = around[0].abs().amax()
        around[0] -= around[0].mean(dim=-1, keepdim=True)  # what varies, not what is large
        for order in range(len(_ONE_SIDED)):
            jump, place = (here - there)[order].abs().amax(dim=0).max(dim=0)
            size = float(around[order].abs().amax())
            rounding = SEEN * float(values) / SEAM_SPACING**order
            if float(jump) > SEAM_TOLERANCE * size + rounding:
                return Seam(axis, order, float(jump), size, tuple(left[int(place)].tolist()))
    return None


def _one_sided(function: Function, x: Tensor, direction: Tensor) -> Tensor:
    """Value and two derivatives along +-e_j at x (P, d), from that side: (3, functions, P)."""
    steps = SEAM_SPACING * torch.arange(_ONE_SIDED.shape[1], dtype=torch.float64)
    points = x[:, None] + steps[:, None] * direction
    values = function(points.flatten(0, 1))
    values = values.reshape(len(values), *points.shape[:2])
    sign = float(direction.sum())
    weights = [row / (sign * SEAM_SPACING) ** order for order, row in enumerate(_ONE_SIDED)]
    return torch.stack([values @ row.to(values.dtype) for row in weights])
