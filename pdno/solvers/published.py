"""The time stepping of the published Navier-Stokes data, to compare its cost."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from pdno.equations.evolution import NavierStokes
from pdno.spectral.calculus import laplacian_symbol
from pdno.spectral.fourier import inverse, transform

PUBLISHED_STEP = 1e-4


def integrate_published(equation: NavierStokes, state: Tensor, times: Sequence[float]) -> Tensor:
    """The solution at `times` by the published scheme, (B, 1, *N) -> (B, T, 1, *N), float64.

    Crank-Nicolson for diffusion, forward Euler for transport and forcing, first order in time:

        ω̂' = [ -h F[v·∇ω] + h f̂ + (1 - hν|k|²/2) ω̂ ] / (1 + hν|k|²/2),    |k|² = 4π²|ξ|²

    with h = 1e-4; only the transport term is dealiased, |ξ_j| <= N/3.
    """
    grid, step = equation.check(state), PUBLISHED_STEP
    xi = grid.modes().to(torch.float64)
    waves, k_squared = 2j * math.pi * xi, -laplacian_symbol(grid)
    invertible = torch.where(k_squared == 0, 1.0, k_squared)
    mask = (xi.abs() <= torch.tensor([n / 3 for n in grid.shape])).all(dim=-1)
    force = transform(equation.force(grid), 2) * step
    decay = step * equation.viscosity * k_squared / 2
    kept, divisor = 1 - decay, 1 + decay

    def advance(w_hat: Tensor) -> Tensor:
        psi = w_hat / invertible
        v1, v2 = (inverse(wave * psi, grid.shape) for wave in (waves[..., 1], -waves[..., 0]))
        w1, w2 = (inverse(waves[..., axis] * w_hat, grid.shape) for axis in (0, 1))
        transport = transform(v1 * w1 + v2 * w2, 2) * mask
        return (-step * transport + force + kept * w_hat) / divisor

    w_hat, taken, frames = transform(state.to(torch.float64), 2), 0, []
    for target in times:
        while taken < round(target / step):
            w_hat, taken = advance(w_hat), taken + 1
        frames.append(inverse(w_hat, grid.shape))
    return torch.stack(frames, dim=1)
