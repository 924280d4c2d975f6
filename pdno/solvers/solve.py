"""Solutions of all equations in float64: `solve(equation, data, times)`.

Linear evolution equations have an exact propagator, û(t) = e^{tL(ξ)} û(0), semilinear ones take
steps of an exponential Runge-Kutta method (`_Tables`); the time stepping of the published
Navier-Stokes data, to compare its cost, is at the end.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from pdno.equations.base import ACCURATE, EvolutionEquation, Scheme, Semilinear, apply_linear
from pdno.equations.darcy import Darcy
from pdno.equations.evolution import NavierStokes
from pdno.interface.errors import SolverError
from pdno.solvers.elliptic import solve_elliptic
from pdno.spectral.calculus import laplacian_symbol
from pdno.spectral.fourier import inverse, transform

STEPS_BETWEEN_LOOKS, SPEED_UP_ALLOWED = 8, 1.5
MOST_STEPS = 200_000  # between two frames
PUBLISHED_STEP = 1e-4


@torch.no_grad()
def solve(
    equation: EvolutionEquation | Darcy,
    data: Tensor,
    times: Sequence[float] | None = None,
    *,
    step: float | None = None,
    refine: int = 1,
) -> Tensor:
    """Solve an equation for initial states on a periodic grid, or permeabilities at cell centres.

    Shapes: evolution (B, C, *N) -> (B, T, C, *N); Darcy (B, 1, *N) -> (B, 1, *N). `times` of an
    evolution equation increase from 0 on. Without a fixed `step` steps follow the flow, divided by
    `refine`; a fixed one is rounded down to divide every interval.

    Example:
        >>> solve(NavierStokes(viscosity=0.1), torch.ones(2, 1, 8, 8), times=[0.5, 1.0]).shape
        torch.Size([2, 2, 1, 8, 8])
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
    system, dtype = equation.discretise(equation.check(data), data.device), equation.scheme.dtype
    shape, u_hat = data.shape[2:], system.coefficients(data)
    if system.nonlinear is None:
        propagators = [_functions(system.linear * t, data.dim(), 0)[0] for t in moments]
        moved = torch.stack([apply_linear(table, u_hat) for table in propagators], dim=1)
        return inverse(moved, shape, system.modes)
    u_hat, stepper = u_hat.to(dtype.to_complex()), _Stepper(system, step, refine, equation.scheme)
    frames = [data.to(dtype)] if moments[0] == 0.0 else []
    for start, end in pairwise([0.0, *moments]):
        if end > 0.0:
            u_hat = stepper.advance(u_hat, start, end)
            frames.append(inverse(u_hat, shape, system.modes))
    return torch.stack(frames, dim=1)


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


class _Stepper:
    """Takes steps whose size follows the flow, and keeps the tables of the last one.

    h · carry <= angle, unless diffusion tames the modes that the flow would turn faster, and
    h · deform <= `Semilinear.deformation`. The rates (`FlowRates`) are evaluated every few steps;
    if the flow has sped up too much meanwhile, these steps are repeated, smaller.
    """

    def __init__(
        self, system: Semilinear, step: float | None, refine: int, scheme: Scheme
    ) -> None:
        if system.nonlinear is None or system.rates is None:
            raise ValueError("an equation with a nonlinear term needs the rates of its flow")
        self.rates, self.fixed_step, self.refine = system.rates, step, refine
        self.system, self.nonlinear, self.scheme = system, system.nonlinear, scheme
        self.tables: _Tables | None = None
        self.fastest = 0
        # real tables multiply real and imaginary parts alike, several times faster than complex
        dim = len(system.modes)
        self.real = not system.linear.is_complex() and system.linear.dim() < dim + 2
        if self.real:
            of_complex = system.nonlinear
            self.nonlinear = lambda u: torch.view_as_real(of_complex(torch.view_as_complex(u)))

    def advance(self, u_hat: Tensor, start: float, end: float) -> Tensor:
        since, t, step, limit = start, start, 0.0, self._limit(u_hat)
        while t < end or not limit > 0:
            if not limit > 0:  # the last state is not finite
                cure = "use a smaller one, or step=None" if self.fixed_step else "use a finer grid"
                reason = f"turned non-finite between t={since:g} and t={t:g} with step {step:g}"
                raise SolverError(self.fastest, f"{reason}: {cure}")
            count = max(1, math.ceil((end - t) / limit - 1e-9))
            if self.fixed_step is None and count > MOST_STEPS:
                reason = f"is too fast at t={t:g}: {count:.1e} steps are needed until t={end:g}"
                raise SolverError(self.fastest, f"{reason}; lower its amplitude, or give a step")
            taken = min(count, STEPS_BETWEEN_LOOKS)
            new, step = self._take(u_hat, (end - t) / count, taken)
            reached = end if taken == count else t + taken * step
            new_limit = self._limit(new)
            if self.fixed_step is None and not step <= SPEED_UP_ALLOWED * new_limit:
                # the rates of a state after such steps cannot be trusted: no more than a quarter
                limit = max(new_limit, step / 4)
                continue
            u_hat, since, t = new, t, reached
            # a new table costs about a stage: change the step only where it pays
            if not limit * 0.95 < new_limit < limit * 1.2:
                limit = min(new_limit, 2 * step)
        return u_hat

    def _take(self, u_hat: Tensor, step: float, count: int) -> tuple[Tensor, float]:
        """The state after some steps, and their size: that of the last tables if it is as good."""
        if self.tables is None or abs(self.tables.step / step - 1) > 1e-12:
            self.tables = _Tables(self.system, step, self.real, self.scheme.dtype)
        u = torch.view_as_real(u_hat) if self.real else u_hat
        for _ in range(count):
            u = self.tables.etdrk4(self.nonlinear, u)
        return torch.view_as_complex(u) if self.real else u, self.tables.step

    def _limit(self, u_hat: Tensor) -> float:
        """The largest step at this state; 0 if it is not finite."""
        rates = self.rates(u_hat)
        finite = torch.isfinite(rates.deform) & torch.isfinite(rates.carry)
        if not bool(finite.all()):
            self.fastest = int((~finite).nonzero()[0])
            return 0.0
        self.fastest = int(rates.carry.argmax())
        angle = self.scheme.angle
        carry = torch.maximum(angle / rates.carry, angle**2 / rates.damped)
        deformation = self.system.deformation * angle / ACCURATE.angle
        limit = float(torch.minimum(carry, deformation / rates.deform).min())
        return self.fixed_step or limit / self.refine


class _Tables:
    """A step h of the method of Cox and Matthews (J. Comput. Phys. 176, 2002, eq. 26-29), z = hL:

    a  = e^{z/2} u + h/2 φ₁(z/2) N(u)
    b  = e^{z/2} u + h/2 φ₁(z/2) N(a)
    c  = e^{z/2} a + h/2 φ₁(z/2) (2 N(b) - N(u))
    u' = e^z u + h(φ₁ - 3φ₂ + 4φ₃) N(u) + h(2φ₂ - 4φ₃)(N(a) + N(b)) + h(4φ₃ - φ₂) N(c)

    φ₁ = (e^z - 1)/z, φ₂ = (e^z - 1 - z)/z², φ₃ = (e^z - 1 - z - z²/2)/z³.
    """

    def __init__(self, system: Semilinear, step: float, real: bool, dtype: torch.dtype) -> None:
        z, dims = system.linear * step, len(system.modes) + 2
        whole, phi_1, phi_2, phi_3 = _functions(z, dims, 3)
        half, phi_half = _functions(z / 2, dims, 1)
        self.step, first = step, phi_1 - 3 * phi_2 + 4 * phi_3
        weights = [phi_half / 2, first, 2 * phi_2 - 4 * phi_3, 4 * phi_3 - phi_2]
        weights = [weight.mul_(step) for weight in weights]
        if system.band is not None:
            weights = [weight * system.band for weight in weights]
        tables = [half, whole, *weights]
        tables = [t.to(dtype.to_complex() if t.is_complex() else dtype) for t in tables]
        if real:
            tables = [torch.stack([table] * 2, dim=-1) for table in tables]
        self.half, self.full, self.stage, self.first, self.middle, self.last = tables

    def etdrk4(self, nonlinear: Callable[[Tensor], Tensor], u: Tensor) -> Tensor:
        """One step."""
        n_u, half_u = nonlinear(u), apply_linear(self.half, u)
        a = _add(half_u.clone(), self.stage, n_u)
        n_a = nonlinear(a)
        b = _add(half_u, self.stage, n_a)
        n_b = nonlinear(b)
        c = _add(apply_linear(self.half, a), self.stage, (2 * n_b).sub_(n_u))
        n_c = nonlinear(c)
        out = _add(apply_linear(self.full, u), self.first, n_u)
        out = _add(out, self.middle, n_a.add_(n_b))
        return _add(out, self.last, n_c)


def _add(total: Tensor, table: Tensor, u: Tensor) -> Tensor:
    if table.dim() < u.dim():
        return total.addcmul_(table, u)
    return total.add_(apply_linear(table, u))


def _functions(z: Tensor, dims: int, count: int) -> list[Tensor]:
    """e^z, φ₁, ..., φ_count of numbers, or of matrices (C, C, *N^), which have `dims` axes."""
    if z.dim() == dims:
        # the first row of the exponential of the blocks [z 1 0 ..; 0 0 1 ..; ..; 0 0 0 ..]
        fields, size = len(z), len(z) * (count + 1)
        blocks = torch.zeros(*z.shape[2:], size, size, dtype=z.dtype, device=z.device)
        blocks[..., :fields, :fields] = z.movedim((0, 1), (-2, -1))
        blocks.diagonal(fields, -2, -1).fill_(1.0)
        row = torch.linalg.matrix_exp(blocks)[..., :fields, :].movedim((-2, -1), (0, 1))
        return list(row.split(fields, dim=1))
    # φ_k = Σ_j z^j/(j+k)! where |z| < 1, since the formulas cancel there
    small = z.abs() < 1
    safe, near = torch.where(small, 1.0, z), torch.where(small, z, 0.0)
    closed, functions = torch.expm1(safe) / safe, [torch.exp(z)]
    for k in range(1, count + 1):
        series = torch.zeros_like(near)
        for j in range(18, -1, -1):
            series = series * near + 1 / math.factorial(j + k)
        functions.append(torch.where(small, series, closed))
        closed = (closed - 1 / math.factorial(k)) / safe
    return functions


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
