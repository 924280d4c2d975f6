"""How fast a quantity grows with |ξ|: the exponent, as far as rounding lets it be seen.

For |ξ| -> ∞ a symbol of order m has |Δ^α ∂_x^β a| = O(|ξ|^{m-|α|}). The exponent μ of a quantity
is the slope of its largest values in the shells 4^j <= |ξ| < 4^{j+1} in logarithmic scales, over
the last shells where it is seen at all.

A difference of order q of numbers of size A has a rounding error of about 2^q ε A. Where Δ^α a is
below that, nothing is known but that it is small. For q = 3 this is so from |ξ| = 10^4 on for
every symbol of the class; a symbol that is not in the class has differences that stay large, and
these are seen. So what is unseen speaks for a symbol.
"""

__all__ = ["TOLERANCE", "Growth", "fit_growth", "rounding_floor"]

import math
from dataclasses import dataclass

import torch
from torch import Tensor

TOLERANCE = 0.1
"""Of exponents. A logarithm, of slope 1/log |ξ|, is within it."""
EVERY_POWER = 16.0
"""Beyond it, growth or decay is taken for faster than that of every power: squares of |ξ|^16 are
still numbers."""
MARGIN = 256.0
"""How many rounding errors count as unseen: a network sums up many terms."""
FITTED = 4
FEWEST = 3


@dataclass(frozen=True)
class Growth:
    """The growth of one quantity.

    Arguments:
        exponent: μ; -inf where it vanishes or is unseen, +inf where it is faster than any power.
        last: The last shell where it is seen, -1 for none.
        to_the_end: Whether that is the outermost shell.
    """

    exponent: float
    last: int
    to_the_end: bool


def fit_growth(sizes: Tensor, floor: Tensor, radii: Tensor) -> Growth:
    """The growth of sizes (J,) in shells of radii (J,), unseen below a floor (J,)."""
    if not bool(torch.isfinite(sizes).all()):
        return Growth(math.inf, int((~torch.isfinite(sizes)).nonzero()[0]), True)
    seen = ((sizes > floor) & (sizes > 0)).nonzero().flatten()
    last = int(seen[-1]) if len(seen) else -1
    to_the_end = last == len(sizes) - 1
    outer = seen[seen > 0][-FITTED:]  # the first shell is not far out
    if len(outer) < FEWEST:
        return Growth(-math.inf, last, to_the_end)
    x, y = radii[outer].log(), sizes[outer].log()
    # a limit that is approached from below looks like growth, but less and less so
    at_the_end = float((y[-1] - y[-2]) / (x[-1] - x[-2]))
    x = x - x.mean()
    slope = min(float((x * y).sum() / x.square().sum()), at_the_end)
    exponent = math.copysign(math.inf, slope) if abs(slope) > EVERY_POWER else slope
    return Growth(exponent, last, to_the_end)


def rounding_floor(noise: Tensor, total: int, step: int) -> Tensor:
    """What rounding can make of Δ^α/h^|α| of numbers of the sizes `noise`, |α| = total."""
    floor = MARGIN * torch.finfo(torch.float64).eps * (2.0 / step) ** total * noise
    return floor.nan_to_num(nan=0.0, posinf=0.0)
