"""Physical constants from a learned symbol.

The solution operator of u_t = c Δu has the symbol a(ξ) = e^{-4π²c|ξ|²t}, so

    y = -log |a|,    q = 4π²|ξ|²t,    y = c q

and c is the slope of a line through the origin. Noise of one size in a is of the size 1/|a| in y:
the right weights are |a|², those of the fitted symbol, as a noisy one would trust the modes that
hold nothing but noise. So the line is fitted a few times, which is the Gauss-Newton method for
Σ (|a| - e^{-cq})². The variance of c is Σ (w q r / (1 - h))² / (Σ w q²)² with residuals r and the
leverage h = w q² / Σ w q² (HC3 of MacKinnon and White, J. Econometrics 29, 1985).
"""

__all__ = ["Estimate", "recover_diffusivity"]

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Estimate:
    """A number and its standard error."""

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
    q = (4 * math.pi**2 * squared * t).expand(values.shape).flatten()
    y = -values.detach().abs().to(torch.float64).log().flatten()
    usable = (q > 0) & torch.isfinite(y)
    if not bool(usable.any()):
        raise ValueError("no mode ξ ≠ 0 at a time t > 0 has a value that is finite and not zero")
    y, q = y[usable], q[usable]
    if weights is not None:
        return _fit(y, q, weights.to(torch.float64).expand(values.shape).flatten()[usable])
    # a first guess from the modes that stand out of the noise
    guess = _fit(y, q, torch.where(y < y.min() + math.log(4), torch.exp(-2 * y), 0.0))
    for _ in range(100):
        estimate = _fit(y, q, torch.exp(-2 * max(guess.value, 0.0) * q))
        if abs(estimate.value - guess.value) <= 1e-14 * abs(guess.value):
            break
        guess = estimate
    return estimate


def _fit(y: Tensor, q: Tensor, w: Tensor) -> Estimate:
    """The slope of y = c q and its error."""
    total = (w * q.square()).sum()
    if not float(total) > 0:
        raise ValueError("all weights are zero; expected some positive ones")
    slope = (w * q * y).sum() / total
    free = (1 - w * q.square() / total).clamp_min(1e-8)  # one point alone has no error bar
    spread = (w * q * (y - slope * q) / free).square().sum().sqrt()
    return Estimate(float(slope), float(spread / total))
