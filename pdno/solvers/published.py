"""The scheme that made the published Navier-Stokes data, for comparison.

Crank-Nicolson for diffusion, forward Euler for transport and forcing, on integer wavenumbers:

    ω̂' = [ -h F[v·∇ω] + h f̂ + (1 - hν|k|²/2) ω̂ ] / (1 + hν|k|²/2),    |k|² = 4π²|ξ|²

with h = 1e-4; only the transport term is dealiased, |ξ_j| <= N/3. First order in time.
"""

__all__ = ["PUBLISHED_STEP", "integrate_published", "published_stepper"]

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from pdno.equations.navier_stokes import NavierStokes
from pdno.fourier import inverse, transform
from pdno.grid import Grid
from pdno.spectral import laplacian_symbol

PUBLISHED_STEP = 1e-4


def published_stepper(
    equation: NavierStokes, grid: Grid, *, step: float = PUBLISHED_STEP
) -> Callable[[Tensor], Tensor]:
    """One step ω̂ -> ω̂' of the published scheme on a grid, for (B, 1, *N^)."""
    xi = grid.modes().to(torch.float64)
    waves = 2j * math.pi * xi
    k_squared = -laplacian_symbol(grid)
    invertible = k_squared.clone()
    invertible[0, 0] = 1.0
    mask = (xi.abs() <= torch.tensor([n / 3 for n in grid.shape])).all(dim=-1)
    phase = 2 * math.pi * grid.points().sum(dim=-1)
    force = transform(equation.forcing * (torch.sin(phase) + torch.cos(phase)), 2) * step
    kept = 1 - step * equation.viscosity * k_squared / 2
    divisor = 1 + step * equation.viscosity * k_squared / 2

    def advance(w_hat: Tensor) -> Tensor:
        psi = w_hat / invertible
        first = inverse(waves[..., 1] * psi, grid.shape) * inverse(
            waves[..., 0] * w_hat, grid.shape
        )
        second = inverse(-waves[..., 0] * psi, grid.shape) * inverse(
            waves[..., 1] * w_hat, grid.shape
        )
        transport = transform(first + second, 2) * mask
        return (-step * transport + force + kept * w_hat) / divisor

    return advance


def integrate_published(
    equation: NavierStokes, state: Tensor, times: Sequence[float], *, step: float = PUBLISHED_STEP
) -> Tensor:
    """The solution at `times` by the published scheme, (B, 1, *N) -> (B, T, 1, *N), float64."""
    grid = equation.check(state)
    advance = published_stepper(equation, grid, step=step)
    w_hat, taken, frames = transform(state.to(torch.float64), 2), 0, []
    for target in times:
        while taken < round(target / step):
            w_hat, taken = advance(w_hat), taken + 1
        frames.append(inverse(w_hat, grid.shape))
    return torch.stack(frames, dim=1)
