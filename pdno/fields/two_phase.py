"""Two-phase media: a Gaussian field thresholded at zero, the permeability of the Darcy problem.

k(x) = high where g(x) >= 0, low elsewhere,        g ~ N(0, 9(-Δ + 9)^-2), Neumann.
"""

__all__ = ["TwoPhaseField"]

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from pdno.fields.gaussian import GaussianField
from pdno.grid import Grid


@dataclass(frozen=True)
class TwoPhaseField:
    """The push-forward of a Gaussian field by a threshold.

    Arguments:
        gaussian: Law of g.
        low: Value where g < 0.
        high: Value where g >= 0.
    """

    gaussian: GaussianField
    low: float = 3.0
    high: float = 12.0

    def sample(self, grid: Grid, *, seed: int, indices: Iterable[int]) -> Tensor:
        """Samples `indices` of `seed` on `grid`, shape (B, 1, *N), float64 on the CPU."""
        g = self.gaussian.sample(grid, seed=seed, indices=indices)
        return torch.where(g >= 0, self.high, self.low).to(torch.float64)
