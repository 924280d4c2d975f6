"""Semilinear equations û_t = L û + N(û) by the exponential Runge-Kutta method of order 4.

The linear part is integrated exactly, so stiff diffusion costs no stability; the nonlinear part by
four stages (Cox and Matthews, J. Comput. Phys. 176, 2002, eq. 26-29), with z = hL:

    a  = e^{z/2} u + h/2 φ₁(z/2) N(u)
    b  = e^{z/2} u + h/2 φ₁(z/2) N(a)
    c  = e^{z/2} a + h/2 φ₁(z/2) (2 N(b) - N(u))
    u' = e^z u + h(φ₁ - 3φ₂ + 4φ₃) N(u) + h(2φ₂ - 4φ₃)(N(a) + N(b)) + h(4φ₃ - φ₂) N(c)

φ₁ = (e^z - 1)/z, φ₂ = (e^z - 1 - z)/z², φ₃ = (e^z - 1 - z - z²/2)/z³, by their series near zero.

The step follows the flow. It satisfies h · carry <= CARRY, unless diffusion tames the modes that
are carried fastest (h · damped <= CARRY²), and h · deform <= the equation's deformation, for the
rates of the flow (`FlowRates`). They are looked at again every few steps; if the flow has sped up
too much meanwhile, the steps since the last look are taken again, smaller. A state that is not
finite is an error that names the sample and the time.
"""

__all__ = ["CARRY", "integrate"]

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pdno.equations.base import FlowRates, Semilinear
from pdno.errors import SolverError
from pdno.fourier import inverse, transform

CARRY = 1.25
"""Largest angle by which the flow may turn a mode in one step; the method is stable to 2.8."""
STEPS_BETWEEN_LOOKS = 8
SPEED_UP_ALLOWED = 1.5
MOST_STEPS = 200_000
"""Steps between two frames beyond which a flow is given up."""


@dataclass(frozen=True)
class _Coefficients:
    """The tables of one step size, as wide as the state they multiply."""

    step: float
    half: Tensor
    full: Tensor
    stage: Tensor
    first: Tensor
    middle: Tensor
    last: Tensor


def integrate(
    system: Semilinear,
    state: Tensor,
    times: Sequence[float],
    *,
    step: float | None = None,
    refine: int = 1,
) -> Tensor:
    """The solution at `times`, (B, C, *N) -> (B, T, C, *N), float64; see `solve`.

    Only the kept modes of the system enter. A fixed step is rounded down to divide every interval.
    """
    shape = state.shape[2:]
    u_hat = transform(state.to(torch.float64), len(shape), system.modes)
    stepper = _Stepper(system, step, refine)
    frames, t = [], 0.0
    for target in times:
        if target == 0.0:
            frames.append(state.to(torch.float64))
            continue
        u_hat = stepper.advance(u_hat, t, target)
        frames.append(inverse(u_hat, shape, system.modes))
        t = target
    return torch.stack(frames, dim=1)


class _Stepper:
    """Takes steps of a chosen size and keeps the tables of the last one."""

    def __init__(self, system: Semilinear, step: float | None, refine: int) -> None:
        if system.nonlinear is None or system.rates is None:
            raise ValueError("a linear equation has an exact propagator: use solve")
        self.rates, self.fixed_step, self.refine = system.rates, step, refine
        self.deformation = system.deformation
        # A real L multiplies real and imaginary parts alike: on the real view of the state that
        # is one plain product, several times cheaper than a complex one.
        self.real = not system.linear.is_complex()
        self.linear, nonlinear = system.linear, system.nonlinear
        self.nonlinear = nonlinear
        if self.real:
            self.linear = system.linear.unsqueeze(-1).expand(*system.linear.shape, 2).contiguous()
            self.nonlinear = lambda u: torch.view_as_real(nonlinear(torch.view_as_complex(u)))
        self.coefficients: _Coefficients | None = None
        self.fastest = 0

    def advance(self, u_hat: Tensor, start: float, end: float) -> Tensor:
        """From `start` to `end`."""
        t = start
        limit = self._limit(u_hat)
        self._check(limit, t, t, 0.0)
        while t < end:
            count = max(1, math.ceil((end - t) / limit - 1e-9))
            if self.fixed_step is None and count > MOST_STEPS:
                raise SolverError(
                    self.fastest,
                    f"moves so fast at t={t:g} that {count:.1e} steps are needed until t={end:g}: "
                    "lower its amplitude or forcing, or give a step",
                )
            coefficients = self._tables((end - t) / count)
            taken = min(count, STEPS_BETWEEN_LOOKS)
            new = self._take(u_hat, coefficients, taken)
            reached = end if taken == count else t + taken * coefficients.step
            new_limit = self._limit(new)
            if self.fixed_step is None and not coefficients.step <= SPEED_UP_ALLOWED * new_limit:
                # The flow sped up, or the steps were so large that nothing finite is left. What
                # such a state says of the flow is not to be trusted: no more than a quarter.
                limit = max(new_limit, coefficients.step / 4)
                continue
            self._check(new_limit, t, reached, coefficients.step)
            u_hat, t = new, reached
            # a new table costs about a stage: change the step only where it pays
            if not limit * 0.95 < new_limit < limit * 1.2:
                limit = min(new_limit, 2 * coefficients.step)
        return u_hat

    def _take(self, u_hat: Tensor, coefficients: _Coefficients, count: int) -> Tensor:
        u = torch.view_as_real(u_hat) if self.real else u_hat
        for _ in range(count):
            u = _etdrk4(self.nonlinear, u, coefficients)
        return torch.view_as_complex(u) if self.real else u

    def _limit(self, u_hat: Tensor) -> float:
        """The largest step at this state; 0 if it is not finite."""
        rates = self.rates(u_hat)
        finite = torch.isfinite(rates.deform) & torch.isfinite(rates.carry)
        if not bool(finite.all()):
            self.fastest = int((~finite).nonzero()[0])
            return 0.0
        self.fastest = int(rates.carry.argmax())
        return self.fixed_step or _largest_step(rates, self.deformation) / self.refine

    def _check(self, limit: float, since: float, t: float, step: float) -> None:
        """An error that names the sample and the time if the last state was not finite."""
        if limit > 0:
            return
        cure = "use a smaller one, or step=None" if self.fixed_step else "use a finer grid"
        raise SolverError(
            self.fastest,
            f"turned non-finite between t={since:g} and t={t:g} with the step {step:g}: {cure}",
        )

    def _tables(self, step: float) -> _Coefficients:
        if self.coefficients is None or abs(self.coefficients.step / step - 1) > 1e-12:
            self.coefficients = _coefficients(self.linear, step)
        return self.coefficients


def _largest_step(rates: FlowRates, deformation: float) -> float:
    """min over the batch of min(deformation/deform, max(CARRY/carry, CARRY²/damped))."""
    carry = torch.maximum(CARRY / rates.carry, CARRY**2 / rates.damped)
    return float(torch.minimum(carry, deformation / rates.deform).min())


def _etdrk4(nonlinear: Callable[[Tensor], Tensor], u: Tensor, k: _Coefficients) -> Tensor:
    """One step, in the notation of the module."""
    n_u = nonlinear(u)
    half_u = k.half * u
    a = torch.addcmul(half_u, k.stage, n_u)
    n_a = nonlinear(a)
    b = half_u.addcmul_(k.stage, n_a)
    n_b = nonlinear(b)
    c = (k.half * a).addcmul_(k.stage, (2 * n_b).sub_(n_u))
    n_c = nonlinear(c)
    out = (k.full * u).addcmul_(k.first, n_u)
    return out.addcmul_(k.middle, n_a.add_(n_b)).addcmul_(k.last, n_c)


def _coefficients(linear: Tensor, step: float) -> _Coefficients:
    """The tables of a step h: functions of z = hL."""
    z = linear * step
    phi_1, phi_2, phi_3 = _phi(z)
    return _Coefficients(
        step=step,
        half=torch.exp(z / 2),
        full=torch.exp(z),
        stage=_phi(z / 2)[0].mul_(step / 2),
        first=(phi_1 - 3 * phi_2 + 4 * phi_3).mul_(step),
        middle=(2 * phi_2 - 4 * phi_3).mul_(step),
        last=(4 * phi_3 - phi_2).mul_(step),
    )


def _phi(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """φ₁, φ₂, φ₃ of z; by φ_k = Σ_j z^j/(j+k)! where |z| < 1, since the formulas cancel there."""
    small = z.abs() < 1
    safe = torch.where(small, 1.0, z)
    phi_1 = torch.expm1(safe) / safe
    phi_2 = (phi_1 - 1) / safe
    phi_3 = (phi_2 - 0.5) / safe
    near = torch.where(small, z, 0.0)

    def select(k: int, closed: Tensor) -> Tensor:
        series = torch.zeros_like(near)
        for j in range(18, -1, -1):
            series = series * near + 1 / math.factorial(j + k)
        return torch.where(small, series, closed)

    return select(1, phi_1), select(2, phi_2), select(3, phi_3)
