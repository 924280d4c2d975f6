"""Burgers' equation u_t + (u²/2)_x = ν u_xx: steepening against diffusion."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pdno.equations.base import EvolutionEquation, FlowRates, Semilinear
from pdno.equations.symmetries import Symmetries, all_translations, box_symmetries
from pdno.spectral.calculus import band_limits, laplacian_symbol
from pdno.spectral.fourier import inverse, transform
from pdno.spectral.grid import Grid


@dataclass(frozen=True)
class Burgers(EvolutionEquation):
    """u_t + (u²/2)_x = ν u_xx, periodic on (0, L) (paper section 5.3), in one dimension.

    At small ν shocks of width ν/|u| form in finite time; at the paper's ν = 0.1 and L = 1 none
    does. The grid's x ∈ [0, 1) stands for the point L·x, L the period.
    """

    viscosity: float = 0.1
    period: float = 1.0
    dim = 1

    def __post_init__(self) -> None:
        if not (self.viscosity > 0 and self.period > 0):
            wrong = f"viscosity {self.viscosity} and period {self.period}"
            raise ValueError(f"{wrong}: expected both positive")

    def discretise(self, grid: Grid, device: torch.device | None = None) -> Semilinear:
        """L(ξ) = -ν(2πξ/L)² and N(û) = -πi ξ/L F[u²], on the modes |ξ| < N/3."""
        modes = band_limits(grid)
        linear = laplacian_symbol(grid, device)[: modes[-1]] * (self.viscosity / self.period**2)
        xi = torch.arange(len(linear), dtype=torch.float64, device=device)
        wave = 2 * math.pi / self.period * xi
        flux, slope = -0.5j * wave, 1j * wave

        def nonlinear(u_hat: Tensor) -> Tensor:
            u = inverse(u_hat, grid.shape, modes)
            return transform(u.square(), 1, modes).mul_(flux)

        def rates(u_hat: Tensor) -> FlowRates:
            u, u_x = inverse(torch.stack([u_hat, slope * u_hat]), grid.shape, modes).abs()
            speed = u.flatten(1).amax(dim=1)
            return FlowRates(
                carry=speed * wave[-1],
                damped=speed.square() / self.viscosity,
                deform=u_x.flatten(1).amax(dim=1) - linear[1],
            )

        return Semilinear(linear, modes, nonlinear, rates, deformation=0.02)

    def symmetries(self, grid: Grid) -> Symmetries:
        """Translations, and u(x) -> -u(-x)."""
        same, flipped = box_symmetries(grid)
        return Symmetries((same, replace(flipped, sign=-1)), all_translations(grid))
