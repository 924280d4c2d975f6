"""Solutions of all equations in float64: `solve(equation, data, times)`.

Linear evolution equations have an exact propagator, û(t) = e^{tL(ξ)} û(0), semilinear ones take
steps of an exponential Runge-Kutta method (`_Tables`).
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from pdno.equations.base import EvolutionEquation, Semilinear
from pdno.equations.darcy import Darcy
from pdno.interface.errors import SolverError
from pdno.solvers.elliptic import solve_elliptic
from pdno.spectral.fourier import inverse, transform

CARRY = 1.25  # largest angle by which a step may turn a mode; the method is stable to 2.8
STEPS_BETWEEN_LOOKS, SPEED_UP_ALLOWED = 8, 1.5
MOST_STEPS = 200_000  # between two frames


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
    divided by `refine`; a fixed one is rounded down to divide every interval.

    Example:
        >>> from pdno.equations.evolution import Heat
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
    shape, state = data.shape[2:], data.to(torch.float64)
    u_hat = transform(state, len(shape), system.modes)
    if system.nonlinear is None:
        t = torch.tensor(moments, dtype=torch.float64, device=data.device)
        factor = torch.exp(system.linear * t.reshape(-1, 1, *[1] * len(shape)))
        return inverse(u_hat.unsqueeze(1) * factor, shape, system.modes)
    stepper, frames = _Stepper(system, step, refine), [state] if moments[0] == 0.0 else []
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

    h · carry <= CARRY, unless diffusion tames the modes that the flow would turn faster, and
    h · deform <= `Semilinear.deformation`. The rates (`FlowRates`) are evaluated every few steps;
    if the flow has sped up too much meanwhile, these steps are repeated, smaller.
    """

    def __init__(self, system: Semilinear, step: float | None, refine: int) -> None:
        if system.nonlinear is None or system.rates is None:
            raise ValueError("an equation with a nonlinear term needs the rates of its flow")
        self.rates, self.fixed_step, self.refine = system.rates, step, refine
        self.linear, self.nonlinear = system.linear, system.nonlinear
        self.deformation, self.fastest = system.deformation, 0
        self.tables: _Tables | None = None
        # a real L multiplies real and imaginary parts alike, several times faster than complex
        self.real = not system.linear.is_complex()
        if self.real:
            of_complex, self.linear = system.nonlinear, torch.stack([system.linear] * 2, dim=-1)
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
            self.tables = _Tables(self.linear, step)
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
        carry = torch.maximum(CARRY / rates.carry, CARRY**2 / rates.damped)
        limit = float(torch.minimum(carry, self.deformation / rates.deform).min())
        return self.fixed_step or limit / self.refine


class _Tables:
    """A step h of the method of Cox and Matthews (J. Comput. Phys. 176, 2002, eq. 26-29), z = hL:

    a  = e^{z/2} u + h/2 φ₁(z/2) N(u)
    b  = e^{z/2} u + h/2 φ₁(z/2) N(a)
    c  = e^{z/2} a + h/2 φ₁(z/2) (2 N(b) - N(u))
    u' = e^z u + h(φ₁ - 3φ₂ + 4φ₃) N(u) + h(2φ₂ - 4φ₃)(N(a) + N(b)) + h(4φ₃ - φ₂) N(c)

    φ₁ = (e^z - 1)/z, φ₂ = (e^z - 1 - z)/z², φ₃ = (e^z - 1 - z - z²/2)/z³.
    """

    def __init__(self, linear: Tensor, step: float) -> None:
        self.step, z = step, linear * step
        phi_1, phi_2, phi_3 = _phi(z)
        self.half, self.full = torch.exp(z / 2), torch.exp(z)
        self.stage = _phi(z / 2)[0].mul_(step / 2)
        self.first = (phi_1 - 3 * phi_2 + 4 * phi_3).mul_(step)
        self.middle = (2 * phi_2 - 4 * phi_3).mul_(step)
        self.last = (4 * phi_3 - phi_2).mul_(step)

    def etdrk4(self, nonlinear: Callable[[Tensor], Tensor], u: Tensor) -> Tensor:
        """One step."""
        n_u, half_u = nonlinear(u), self.half * u
        a = torch.addcmul(half_u, self.stage, n_u)
        n_a = nonlinear(a)
        b = half_u.addcmul_(self.stage, n_a)
        n_b = nonlinear(b)
        c = (self.half * a).addcmul_(self.stage, (2 * n_b).sub_(n_u))
        n_c = nonlinear(c)
        out = (self.full * u).addcmul_(self.first, n_u)
        return out.addcmul_(self.middle, n_a.add_(n_b)).addcmul_(self.last, n_c)


def _phi(z: Tensor) -> list[Tensor]:
    """φ₁, φ₂, φ₃ of z; by φ_k = Σ_j z^j/(j+k)! where |z| < 1, since the formulas cancel there."""
    small = z.abs() < 1
    safe, near = torch.where(small, 1.0, z), torch.where(small, z, 0.0)
    closed, functions = torch.expm1(safe) / safe, []
    for k in (1, 2, 3):
        series = torch.zeros_like(near)
        for j in range(18, -1, -1):
            series = series * near + 1 / math.factorial(j + k)
        functions.append(torch.where(small, series, closed))
        closed = (closed - 1 / math.factorial(k)) / safe
    return functions
