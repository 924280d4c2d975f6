"""Physical constants from a learned symbol.

The solution operator of u_t = c Δu has the symbol a(ξ) = e^{-4π²c|ξ|²t}, so

    y = -log |a|,    q = 4π²|ξ|²t,    y = c q

and c is the slope of a line through the origin. Noise of one size in a is of the size 1/|a| in y:
the right weights are |a|², those of the fitted symbol, as a noisy one would trust the modes that
hold nothing but noise. So the line is fitted a few times, which is the Gauss-Newton method for
Σ (|a| - e^{-cq})².

The error is that of the fit. With g = w^{1/2} q and residuals ρ = w^{1/2} (y - c q), which for the
weights |a|² are those of a, c is off by Σ_ξ g_ξ·ρ_ξ / Σ g², where products are sums over times.
Few modes count, often one, so its own residual, which the fit has made small, says little; and
errors of one mode at several times may be the same. So ξ gets the residuals of n modes, those that
count most, at the same times:

    error² = Σ_ξ 1/(n - 1) Σ_ξ' (g_ξ·ρ_ξ')² / (Σ g²)²

That is right for noise that is alike in these modes, however it is correlated in time. It says
nothing of an error that is no noise, such as a wrong model.
"""

__all__ = ["Estimate", "recover_diffusivity"]

import math
from dataclasses import dataclass

import torch
from torch import Tensor

OTHERS = 16  # modes whose residuals tell the size of the noise


@dataclass(frozen=True)
class Estimate:
    """A number and the standard error of the fit that it comes from."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:.6g} ± {self.error:.1g}"


def recover_diffusivity(
    values: Tensor, xi: Tensor, t: Tensor | float, weights: Tensor | None = None
) -> Estimate:
    """c of a symbol e^{-4π²c|ξ|²t} from its values (..., *K^) at modes ξ (*K^, d).

    For a(x, ξ) give the mean over x. Leading axes may hold times or repetitions; t broadcasts
    against the values. Without weights, noise of one size in the symbol is supposed.

    Example:
        >>> xi = torch.arange(6)[:, None]
        >>> heat = torch.exp(-4 * math.pi**2 * 0.05 * xi[:, 0].double() ** 2)
        >>> round(recover_diffusivity(heat, xi, t=1.0).value, 12)
        0.05
    """
    squared = xi.to(torch.float64).square().sum(dim=-1)
    if values.shape[values.dim() - squared.dim() :] != squared.shape:
        raise ValueError(
            f"values of shape {tuple(values.shape)} at modes of shape {tuple(xi.shape)}; expected "
            "the axes of the modes last"
        )
    q = (4 * math.pi**2 * squared * t).expand(values.shape).reshape(-1, squared.numel())
    a = values.detach().to(torch.complex128 if values.is_complex() else torch.float64)
    a = a.reshape(q.shape)
    y = -a.abs().log()
    usable = (q > 0) & torch.isfinite(y)
    if not bool(usable.any()):
        raise ValueError("no mode ξ ≠ 0 at a time t > 0 has a value that is finite and not zero")
    if weights is not None:
        given = weights.to(torch.float64).expand(values.shape).reshape(q.shape)
        w = torch.where(usable, given, 0.0)
        slope = _fit(y, q, w)
        return Estimate(slope, _error(q, w, torch.where(usable, w.sqrt() * (y - slope * q), 0.0)))
    # a first guess from the modes that stand out of the noise
    stands_out = usable & (y < y[usable].min() + math.log(4))
    slope = _fit(y, q, torch.where(stands_out, torch.exp(-2 * y), 0.0))
    for _ in range(100):
        before, w = slope, torch.where(usable, torch.exp(-2 * max(slope, 0.0) * q), 0.0)
        slope = _fit(y, q, w)
        if abs(slope - before) <= 1e-14 * abs(before):
            break
    return Estimate(slope, _error(q, w, torch.where(usable, _residual(a, w.sqrt()), 0.0)))


def _fit(y: Tensor, q: Tensor, w: Tensor) -> float:
    """The slope of y = c q."""
    total = (w * q.square()).sum()
    if not float(total) > 0:
        raise ValueError("all weights are zero; expected some positive ones")
    return float(torch.where(w > 0, w * q * y, 0.0).sum() / total)


def _residual(a: Tensor, fitted: Tensor) -> Tensor:
    """|a| - fitted where that is the noise; of modes that are nothing but noise the real part."""
    radial = a.abs() - fitted
    return torch.where(fitted > radial.abs(), fitted - a.abs(), -a.real)


def _error(q: Tensor, w: Tensor, rho: Tensor) -> float:
    """The error of the slope, for times and modes (T, M)."""
    g = w.sqrt() * q
    counts = g.square().sum(dim=0)
    # one mode alone has no error bar
    known = int((counts > 0).sum())
    if known < 2:
        return math.inf
    others = counts.argsort(descending=True)[: min(known, OTHERS)]
    squares = (g.T @ rho[:, others]).square().sum() / (len(others) - 1)
    return float(squares.sqrt() / counts.sum())
