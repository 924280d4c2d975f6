"""The four distributions that the published data are drawn from, and PDE parameters from ranges.

The Navier-Stokes amplitude A is 2·7³ in the code that made the published data, 7³ after that code
was ported in 2022, and 7^{3/2} as the papers print it. The first is the default: with it the
published weights reach the published error on data of our own solver.
"""

__all__ = [
    "Distribution",
    "Ranges",
    "TwoPhaseField",
    "burgers_initial",
    "darcy_permeability",
    "draw_parameters",
    "heat_initial",
    "navier_stokes_initial",
]

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from pdno.fields.gaussian import GaussianField
from pdno.spectral.grid import Grid

Amplitude = Literal["published", "ported", "printed"]
AMPLITUDES: dict[Amplitude, float] = {"published": 2 * 7.0**3, "ported": 7.0**3, "printed": 7**1.5}

Ranges = Mapping[str, tuple[float, float]]
"""Lowest and highest value of PDE parameters by name."""


class Distribution(Protocol):
    """A distribution of inputs; sample i depends on (seed, i) and the grid only."""

    def sample(self, grid: Grid, *, seed: int, indices: Iterable[int]) -> Tensor:
        """Samples `indices` of `seed` on `grid`, shape (B, C, *N), float64 on the CPU."""


@dataclass(frozen=True)
class TwoPhaseField:
    """A two-phase medium: k(x) = high where the Gaussian field g(x) >= 0, low elsewhere."""

    gaussian: GaussianField
    low: float = 3.0
    high: float = 12.0

    def sample(self, grid: Grid, *, seed: int, indices: Iterable[int]) -> Tensor:
        """Samples `indices` of `seed` on `grid`, shape (B, 1, *N), float64 on the CPU."""
        g = self.gaussian.sample(grid, seed=seed, indices=indices)
        return torch.where(g >= 0, self.high, self.low).to(torch.float64)


def heat_initial() -> GaussianField:
    """u₀ of the heat problem: N(0, 7⁴(-Δ + 49)^-2.5) plus a constant N(0, 0.01²), periodic.

    The constant is in the published code, not in the paper.
    """
    return GaussianField(variance=7.0**4, tau=7.0, alpha=2.5, mean_deviation=0.01)


def burgers_initial() -> GaussianField:
    """u₀ of the Burgers problem: N(0, 625(-Δ + 25)^-2), periodic."""
    return GaussianField(variance=625.0, tau=5.0, alpha=2.0)


def darcy_permeability(low: float = 3.0, high: float = 12.0) -> TwoPhaseField:
    """k of the Darcy problem: high or low by the sign of N(0, 9(-Δ + 9)^-2), Neumann."""
    return TwoPhaseField(GaussianField(9.0, tau=3.0, alpha=2.0, boundary="neumann"), low, high)


def navier_stokes_initial(amplitude: Amplitude = "published") -> GaussianField:
    """ω₀ of the Navier-Stokes problem: N(0, A(-Δ + 49)^-2.5), periodic."""
    if amplitude not in AMPLITUDES:
        raise ValueError(f"amplitude {amplitude!r}; expected one of {', '.join(AMPLITUDES)}")
    return GaussianField(variance=AMPLITUDES[amplitude], tau=7.0, alpha=2.5)


def draw_parameters(ranges: Ranges, *, seed: int, index: int) -> dict[str, float]:
    """The PDE parameters of sample `index`, which depend on (seed, index, name) and the range.

    A positive range is that of a scale such as a viscosity: log μ is uniform. Else μ is uniform.

    Example:
        >>> drawn = draw_parameters({"viscosity": (1e-5, 1e-3)}, seed=0, index=7)
        >>> 1e-5 <= drawn["viscosity"] <= 1e-3
        True
    """
    drawn = {}
    for name, (low, high) in ranges.items():
        # the letters of the name make the stream of each parameter its own
        part = float(np.random.default_rng([seed, index, *name.encode()]).random())
        drawn[name] = low * (high / low) ** part if low > 0 else low + (high - low) * part
    return drawn
