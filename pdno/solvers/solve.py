"""One verb for every equation: `solve(equation, data, times)`, in float64.

Linear evolution equations have an exact propagator, û(t) = e^{tL(ξ)} û(0), one multiplication for
any time. Semilinear ones are integrated step by step (`pdno.solvers.exponential`), Darcy's
equation goes to `pdno.solvers.elliptic`.
"""

__all__ = ["solve", "solve_with_residual"]

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from pdno.equations.base import EvolutionEquation
from pdno.equations.darcy import Darcy
from pdno.solvers.elliptic import solve_elliptic
from pdno.solvers.exponential import integrate
from pdno.spectral.fourier import inverse, transform


@torch.no_grad()
def solve(
    equation: EvolutionEquation | Darcy,
    data: Tensor,
    times: Sequence[float] | None = None,
    *,
    step: float | None = None,
    refine: int = 1,
) -> Tensor:
    """Solve an equation for a batch of initial states or coefficients.

    Shapes: evolution (B, 1, *N) -> (B, T, 1, *N); Darcy (B, 1, *N) -> (B, 1, *N); float64.

    Data are initial states on a periodic grid, or the permeability at cell centres. `times` of an
    evolution equation increase from 0 on. Without a fixed `step` the steps follow the flow,
    divided by `refine`.

    Example:
        >>> from pdno.equations.heat import Heat
        >>> solve(Heat(diffusivity=0.05), torch.ones(2, 1, 16), times=[0.5, 1.0]).shape
        torch.Size([2, 2, 1, 16])
    """
    if isinstance(equation, Darcy):
        return solve_with_residual(equation, data, times)[0]
    if times is None:
        raise ValueError("an evolution equation needs `times`, for example times=[0.5, 1.0]")
    moments = [float(t) for t in times]
    if not moments or moments[0] < 0 or not all(a < b for a, b in pairwise(moments)):
        raise ValueError(f"times {moments}: expected increasing times >= 0")
    if (step is not None and not step > 0) or refine < 1:
        raise ValueError(f"step {step} and refine {refine}: expected positive numbers")
    system = equation.discretise(equation.check(data), data.device)
    if system.nonlinear is not None:
        return integrate(system, data, moments, step=step, refine=refine)
    shape = data.shape[2:]
    u_hat = transform(data.to(torch.float64), len(shape), system.modes)
    t = torch.tensor(moments, dtype=torch.float64, device=data.device)
    factor = torch.exp(system.linear * t.reshape(-1, 1, *[1] * len(shape)))
    return inverse(u_hat.unsqueeze(1) * factor, shape, system.modes)


def solve_with_residual(
    equation: EvolutionEquation | Darcy, data: Tensor, times: Sequence[float] | None = None
) -> tuple[Tensor, float]:
    """The solution, and its largest relative residual: 0 for evolution equations."""
    if not isinstance(equation, Darcy):
        return solve(equation, data, times), 0.0
    if times is not None:
        raise ValueError("Darcy's equation has no time: leave `times` out")
    solution, residuals = solve_elliptic(equation, data)
    return solution, float(residuals.max()) if len(residuals) else 0.0
