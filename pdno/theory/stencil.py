"""Stencils: differences Δ^α in ξ and derivatives ∂_x^β as sums over a few points."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

MultiIndex = tuple[int, ...]

SPACING = 1.07 / 2**13  # of the points for ∂_x: it resolves waves of some thousand periods
# fourth order, at -2h .. 2h
_CENTRAL = {
    0: (0.0, 0.0, 1.0, 0.0, 0.0),
    1: (1 / 12, -8 / 12, 0.0, 8 / 12, -1 / 12),
    2: (-1 / 12, 16 / 12, -30 / 12, 16 / 12, -1 / 12),
}


@dataclass(frozen=True)
class Stencil:
    """Offsets (G, d) of the points to evaluate, and weights (G, number of indices) to sum with.

    All Δ^α with |α| <= k need the values of a at the points ξ + γ, |γ| <= k, and nothing else.
    """

    indices: tuple[MultiIndex, ...]
    offsets: Tensor
    weights: Tensor

    @property
    def totals(self) -> list[int]:
        """|α| of each index."""
        return [sum(index) for index in self.indices]

    @property
    def amplification(self) -> Tensor:
        """By how much each sum may enlarge errors of the values, (number of indices,)."""
        return self.weights.abs().sum(dim=0)


def multi_indices(dim: int, most: int) -> tuple[MultiIndex, ...]:
    """All α in N^d with |α| <= most, by |α|.

    Example:
        >>> multi_indices(2, 1)
        ((0, 0), (0, 1), (1, 0))
    """
    indices = itertools.product(range(most + 1), repeat=dim)
    return tuple(sorted((i for i in indices if sum(i) <= most), key=lambda i: (sum(i), i)))


def difference_stencil(dim: int, most: int) -> Stencil:
    """Δ^α for |α| <= most, Δ^α a(ξ) = Σ_{γ <= α} (-1)^{|α - γ|} C(α, γ) a(ξ + γ)."""
    indices = multi_indices(dim, most)
    return _stencil(indices, indices, 1.0, lambda a, g: (-1) ** (a + g) * math.comb(a, g))


def derivative_stencil(dim: int, most: int, spacing: float = SPACING) -> Stencil:
    """Central differences of fourth order for ∂^β, |β| <= most <= 2."""
    points = itertools.product(range(-2, 3), repeat=dim)
    near = [point for point in points if sum(p != 0 for p in point) <= 2]
    return _stencil(multi_indices(dim, most), near, spacing, lambda b, p: _CENTRAL[b][p + 2])


def _stencil(
    indices: tuple[MultiIndex, ...],
    points: Sequence[MultiIndex],
    step: float,
    weight: Callable[[int, int], float],
) -> Stencil:
    """Products of the weights of each axis at the points, for each index, over h^|index|."""
    weights = [
        [math.prod(map(weight, index, point)) / step ** sum(index) for index in indices]
        for point in points
    ]
    offsets = step * torch.tensor(points, dtype=torch.float64)
    return Stencil(indices, offsets, torch.tensor(weights, dtype=torch.float64))
