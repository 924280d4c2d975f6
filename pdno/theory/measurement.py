"""The sizes of all Δ_ξ^α ∂_x^β a along rays and around the origin, and how they grow.

Two things are measured: the values near the origin, on a small box of lattice points, and those
on rays that reach out to |ξ| = 4^J, in units of the frequency scale s. Where s is large, unit
steps see tiny differences only, so that differences with a step of about s/4 are taken as well.

For |ξ| -> ∞ a symbol of order m has |Δ^α ∂_x^β a| = O(|ξ|^{m-|α|}). The exponent μ of a quantity
is the slope of its largest values in the shells 4^j <= |ξ| < 4^{j+1} in logarithmic scales, over
the last shells where it is seen at all. A difference of order q of numbers of size A has a
rounding error of about 2^q ε A; below that, nothing is known but that it is small. For q = 3 this
is so from |ξ| = 10^4 on for every symbol of the class; a symbol that is not in the class has
differences that stay large, and these are seen. So what is unseen speaks for a symbol.
"""

__all__ = ["TOLERANCE", "Growth", "Measurement", "measure"]

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pdno.theory.differences import MultiIndex, Stencil, difference_stencil
from pdno.theory.probe import Probe
from pdno.theory.search import RATIO, find_rays

TOLERANCE = 0.1
"""Of exponents. A logarithm, of slope 1/log |ξ|, is within it."""
EVERY_POWER = 16.0
"""Beyond it, growth or decay is taken for faster than that of every power: squares of |ξ|^16 are
still numbers."""
MARGIN = 256.0
"""How many rounding errors count as unseen: a network sums up many terms."""
FEWEST, FITTED = 3, 4
"""Shells of a fit."""
CORE = {1: 64, 2: 6, 3: 3}
"""Edges of the box around the origin, by dimension."""


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


@dataclass(frozen=True)
class Measurement:
    """What was seen of a symbol with one step.

    Arguments:
        alphas: Multi-indices of the differences.
        betas: Multi-indices of the x-derivatives.
        step: h.
        points: Lattice points of the rays, (K, J, d).
        sizes: max over x and pairs of |Δ^α ∂_x^β a| there, (indices α, indices β, K, J).
        core_points: Lattice points around the origin, (M, d).
        core: The same there, (indices α, indices β, M).
        growth: Of the largest sizes in each shell.
    """

    alphas: tuple[MultiIndex, ...]
    betas: tuple[MultiIndex, ...]
    step: int
    points: Tensor
    sizes: Tensor
    core_points: Tensor
    core: Tensor
    growth: dict[tuple[int, int], Growth]

    def weighted(self, alpha: int, beta: int, order: float) -> tuple[Tensor, float]:
        """|Δ^α ∂_x^β a| ⟨ξ⟩^{|α|-m} on the rays, (K, J), and its largest value near the origin."""
        power = sum(self.alphas[alpha]) - order
        core = self.core[alpha, beta] * _bracket(self.core_points) ** power
        rays = self.sizes[alpha, beta] * _bracket(self.points) ** power
        return torch.where(self.sizes[alpha, beta] == 0, 0.0, rays), float(core.max())

    def seminorm(self, alpha: int, beta: int, order: float) -> float:
        """The largest |Δ^α ∂_x^β a| ⟨ξ⟩^{|α|-m} that was met; unseen ones do not count."""
        rays, core = self.weighted(alpha, beta, order)
        last = self.growth[alpha, beta].last
        return max(core, float(rays[:, : last + 1].max())) if last >= 0 else core


def measure(
    probe: Probe, highest: int, *, shells: int, generator: torch.Generator
) -> list[Measurement]:
    """What is seen with the step 1 and, where the scale is large, with one that fits it."""
    if shells < 4:
        raise ValueError(f"shells is {shells}; expected at least 4 to see growth")
    step = max(1, int(probe.scale.min() / 4))
    wide = difference_stencil(probe.dim, highest, step)
    rays = find_rays(probe, wide, shells=shells, step=step, generator=generator)
    unit = difference_stencil(probe.dim, highest)
    found = [_measure_on(probe, unit, 1, rays, derivatives=True)]
    if step > 1:
        found.append(_measure_on(probe, wide, step, rays, derivatives=False))
    return found


def _measure_on(
    probe: Probe, stencil: Stencil, step: int, rays: Tensor, *, derivatives: bool
) -> Measurement:
    sizes = probe.differences(rays.flatten(0, 1), stencil, derivatives=derivatives)
    sizes = sizes.reshape(*sizes.shape[:2], *rays.shape[:2])
    highest = int(stencil.totals.max())
    edge = CORE[probe.dim] if probe.support is None else probe.support + highest
    axis = torch.arange(-edge, edge + 1, dtype=torch.float64)
    core_points = torch.cartesian_prod(*[axis] * probe.dim).reshape(-1, probe.dim)
    radii = RATIO ** torch.arange(1, rays.shape[1] + 1, dtype=torch.float64)
    largest = sizes.nan_to_num(nan=math.inf).amax(dim=2)
    noise = probe.noise(largest[0])
    # a phase that turns faster than once between neighbours is none on the lattice, but a jump is
    fastest = 2 * math.pi * rays.norm(dim=-1).amax(dim=0) * noise
    noise = noise + torch.minimum(_conditioning(probe, rays, derivatives), fastest)
    growth = {}
    for alpha, beta in itertools.product(range(len(sizes)), range(sizes.shape[1])):
        floor = _rounding_floor(noise[beta], sum(stencil.indices[alpha]), step)
        growth[alpha, beta] = _fit_growth(largest[alpha, beta], floor, radii)
    return Measurement(
        stencil.indices,
        probe.stencil.indices[: sizes.shape[1]],
        step,
        rays,
        sizes.nan_to_num(nan=math.inf),
        core_points,
        probe.differences(core_points, stencil, derivatives=derivatives),
        growth,
    )


def _conditioning(probe: Probe, rays: Tensor, derivatives: bool) -> Tensor:
    """|ξ| |∇a|, by which rounding in the formula of a is enlarged, per shell.

    A fast phase like e^{2πi v·ξ} has it; the change of a by one digit of ξ shows it.
    """
    if probe.only_integers:
        return torch.zeros(1, rays.shape[1], dtype=torch.float64)
    digit = 4 * torch.finfo(torch.float64).eps
    xi = rays.flatten(0, 1)
    change = probe.changes(xi, xi * (1 + digit), derivatives=derivatives) / digit
    return change.reshape(len(change), *rays.shape[:2]).nan_to_num(nan=0.0, posinf=0.0).amax(dim=1)


def _bracket(xi: Tensor) -> Tensor:
    return (1.0 + xi.square().sum(dim=-1)).sqrt()


def _fit_growth(sizes: Tensor, floor: Tensor, radii: Tensor) -> Growth:
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


def _rounding_floor(noise: Tensor, total: int, step: int) -> Tensor:
    """What rounding can make of Δ^α/h^|α| of numbers of the sizes `noise`, |α| = total."""
    floor = MARGIN * torch.finfo(torch.float64).eps * (2.0 / step) ** total * noise
    return floor.nan_to_num(nan=0.0, posinf=0.0)
