"""The sizes of all Δ_ξ^α ∂_x^β a along rays and around the origin, and whether they grow.

A symbol of order m obeys |Δ_h^α ∂_x^β a(x, ξ)| <= C h^|α| ⟨ξ⟩^{m-|α|} for every step h <= |ξ|/16.
Steps of 1 see ripples of the lattice, but rounding hides third differences beyond |ξ| = 10^4;
steps of |ξ|/16 see 10^10. So each quantity is measured with h = 1, |ξ|^{1/2} and |ξ|/16, in shells
4^j <= |ξ| < 4^{j+1}, up to the shell where rounding may hide more than has been seen.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from pdno.theory.probe import Probe
from pdno.theory.search import RATIO, find_points, find_rays
from pdno.theory.stencil import MultiIndex, Stencil, difference_stencil

Indices = tuple[MultiIndex, MultiIndex]
"""α of a difference in ξ, and β of a derivative in x."""

EVERY_POWER = 16.0  # beyond it growth is faster than every power; its squares are still numbers
EPSILON = torch.finfo(torch.float64).eps
MARGIN = 256.0  # rounding errors that count as unseen: a network sums up many terms
FEWEST, FITTED = 3, 6  # shells of a fit
CORE = {1: 64, 2: 6, 3: 3}  # edges of the box around the origin, by dimension
BOX = {1: 2048, 2: 32, 3: 8}  # and of that where values must be finite
MIXED = 8  # shells in which differences in ξ of derivatives in x are measured
PARTS = 16  # of |ξ|, one is the widest step

Tendency = Literal["level", "unclear", "growing"]
LEVEL = 0.03  # relative growth over three shells that counts as none
SLOWING, STEADY = 0.5, 0.8  # increments over four shells in terms of those before
GROWN = 1.6  # by what steady growth over eight shells speaks against a bound: log ⟨ξ⟩ makes 2


class Growth(NamedTuple):
    """The growth of one quantity."""

    exponent: float  # -inf where it vanishes or is unseen, inf where it is faster than any power
    last: int  # the last shell where it is seen, -1 for none


@dataclass(frozen=True)
class Row:
    """|Δ_h^α ∂_x^β a| / h^|α|, the largest over x and pairs, for one α, β and rule for h."""

    alpha: MultiIndex
    beta: MultiIndex
    points: Tensor  # lattice points of the rays, (K, J, d)
    steps: Tensor  # h there, (K, J)
    sizes: Tensor  # there, (K, J)
    floor: Tensor  # what rounding can make, (J,); inf where waves in x are too short to be seen

    @property
    def has_unit_steps(self) -> bool:
        """Whether h = 1."""
        return bool((self.steps == 1).all())

    def weighted(self, order: float) -> tuple[Tensor, Tensor]:
        """Sizes times ⟨ξ⟩^{|α|-m}, (K, J), zero if unseen, and the largest unseen ones, (J,)."""
        bracket = (1.0 + self.points.square().sum(dim=-1)).log() / 2
        weights = ((sum(self.alpha) - order) * bracket).exp()
        visible = (self.sizes > self.floor) | ~torch.isfinite(self.sizes)
        sizes = torch.where(visible, self.sizes, 0.0)
        hidden = torch.where(self.floor == 0, 0.0, self.floor * weights.amax(dim=0))
        return torch.where(sizes == 0, 0.0, sizes * weights), hidden

    def window(self, order: float, core: float) -> tuple[Tensor, list[float]]:
        """Weighted sizes on the rays, (K, n), and the largest of each shell, from the core on.

        The first n shells are those where no more than what has been seen can be hidden.
        """
        rays, hidden = self.weighted(order)
        largest, most, length = [core], core, 0
        for size, unseen in zip(rays.amax(dim=0).tolist(), hidden.tolist(), strict=True):
            if unseen == math.inf:
                break
            largest.append(size)
            most = max(most, size)
            length = len(largest) - 1 if most >= unseen else length
        return rays[:, :length], largest[: length + 1]

    def growth(self) -> Growth:
        """The exponent of the largest sizes in the shells, unseen below the floor."""
        sizes = self.sizes.amax(dim=0)
        radii = self.points.norm(dim=-1).amin(dim=0).clamp_min(1.0)
        if not bool(torch.isfinite(sizes).all()):
            return Growth(math.inf, int((~torch.isfinite(sizes)).nonzero()[0]))
        visible = ((sizes > self.floor) & (sizes > 0)).nonzero().flatten()
        last = int(visible[-1]) if len(visible) else -1
        outer = visible[visible > 0][-FITTED:]  # the first shell is not far out
        if len(outer) < FEWEST:
            return Growth(-math.inf, last)
        x, y = radii[outer].log(), sizes[outer].log()
        x = x - x.mean()
        slope = float((x * y).sum() / x.square().sum())
        return Growth(math.copysign(math.inf, slope) if abs(slope) > EVERY_POWER else slope, last)


@dataclass(frozen=True)
class Measurement:
    """What was seen of a symbol."""

    rows: tuple[Row, ...]  # those with the step 1 and β = 0 first, by α
    core_points: Tensor  # lattice points around the origin, (M, d)
    core: dict[Indices, Tensor]  # |Δ^α ∂_x^β a| there, (M,)
    growth: dict[Indices, Growth]  # of the largest sizes, with the step 1
    not_finite: tuple[float, ...] | None  # a lattice point where a has no value
    value_count: int  # how many values of Δ^α ∂_x^β a were computed

    @property
    def fitted_order(self) -> float:
        """The exponent of |a|."""
        none = (0,) * self.core_points.shape[1]
        return self.growth[none, none].exponent

    def near_origin(self, row: Row, order: float) -> float:
        """The largest |Δ^α ∂_x^β a| ⟨ξ⟩^{|α|-m} around the origin."""
        power = sum(row.alpha) - order
        brackets = (1.0 + self.core_points.square().sum(dim=-1)).sqrt()
        return float((self.core[row.alpha, row.beta] * brackets**power).max())

    def seminorms(self, order: float) -> dict[Indices, float]:
        """The largest |Δ^α ∂_x^β a| ⟨ξ⟩^{|α|-m} that was met with the step 1; not unseen ones."""
        largest = dict[Indices, float]()
        for row in self.rows:
            if (row.alpha, row.beta) not in largest and row.has_unit_steps:
                rays, last = row.weighted(order)[0], self.growth[row.alpha, row.beta].last
                outer = float(rays[:, : last + 1].max()) if last >= 0 else 0.0
                largest[row.alpha, row.beta] = max(self.near_origin(row, order), outer)
        return largest

    def curves(self, order: float) -> dict[int, tuple[float, ...]]:
        """The largest weighted |Δ^α a| of each shell and all steps, by |α|; nan where unseen."""
        curves: dict[int, Tensor] = {}
        for row in self.rows:
            if sum(row.beta) == 0:
                largest, total = row.weighted(order)[0].amax(dim=0), sum(row.alpha)
                curves[total] = torch.maximum(largest, curves.get(total, largest))
        masked = {total: torch.where(c == 0, math.nan, c) for total, c in curves.items()}
        return {total: tuple(curve.tolist()) for total, curve in masked.items()}


def measure_differences(probe: Probe, highest: int, *, search: bool = True) -> Measurement:
    """All differences up to an order, with three steps, and two derivatives in x.

    Without a search on sampled rays and with the step 1 alone, for constants and no assessment.
    """
    if probe.shells < 4:
        raise ValueError(f"shells is {probe.shells}; expected at least 4 to see growth")
    if probe.depends_on_x:
        probe.set_points(*find_points(probe))
    stencil = difference_stencil(probe.dim, highest)
    rays = find_rays(probe, stencil, search=search)
    noise = _noise(probe, rays)
    rules = _steps(rays) if search else _steps(rays)[:1]
    rows = [row for steps in rules for row in _in_xi(probe, stencil, rays, steps, noise)]
    if probe.depends_on_x:
        rows += _in_x(probe, rays, noise) + _mixed(probe, stencil, rays[:, :MIXED])
    points, core = _around_origin(probe, stencil)
    growth = {(r.alpha, r.beta): r.growth() for r in reversed(rows) if r.has_unit_steps}
    count = sum(row.sizes.numel() for row in rows) + len(core) * len(points)
    return Measurement(tuple(rows), points, core, growth, _find_infinite(probe, rays), count)


def _steps(rays: Tensor) -> list[Tensor]:
    """h at the points of the rays, (K, J): 1, the root of |ξ|, and a part of it."""
    radius = rays.norm(dim=-1)
    rules = [torch.ones_like(radius), radius.sqrt(), radius / PARTS]
    return [rule.round().clamp_min(1.0) for rule in rules]


def _around_origin(probe: Probe, stencil: Stencil) -> tuple[Tensor, dict[Indices, Tensor]]:
    """Lattice points around the origin, or those where a table is not 0, and the sizes there."""
    edge = CORE[probe.dim] if probe.support is None else probe.support + max(stencil.totals)
    points, betas = _box(edge, probe.dim), probe.stencil.indices
    ones = torch.ones(len(points), dtype=torch.float64)
    near = probe.differences(points, stencil, ones, "near" if probe.depends_on_x else "many")
    if probe.depends_on_x:
        many = probe.differences(points, stencil, ones, "many")[:, 0]
        near[:, 0] = torch.maximum(near[:, 0], many)
    pairs = itertools.product(enumerate(stencil.indices), enumerate(betas))
    return points, {(alpha, beta): near[i, j] for (i, alpha), (j, beta) in pairs}


def _box(edge: int, dim: int) -> Tensor:
    axis = torch.arange(-edge, edge + 1, dtype=torch.float64)
    return torch.cartesian_prod(*[axis] * dim).reshape(-1, dim)


def _noise(probe: Probe, rays: Tensor) -> Tensor:
    """Sizes of the numbers whose rounding errors are in a, by shell, (J,)."""
    flat = rays.flatten(0, 1)
    unit = difference_stencil(probe.dim, 0)
    sizes = probe.differences(flat, unit, torch.ones(len(flat), dtype=torch.float64), "many")
    largest = sizes.reshape(rays.shape[:2]).amax(dim=0)
    return largest + _conditioning(probe, rays, largest[None])[0]


def _conditioning(probe: Probe, rays: Tensor, noise: Tensor) -> Tensor:
    """|ξ| |∇∂^β a|, large for phases e^{2πi v·ξ}, enlarges rounding: the change by a digit of ξ.

    A phase that turns faster than once between neighbours is none on the lattice, but a jump is.
    """
    if probe.only_integers:
        return torch.zeros(1, rays.shape[1], dtype=torch.float64)
    digit, xi = 4 * EPSILON, rays.flatten(0, 1)
    change = probe.changes(xi, xi * (1 + digit), "few" if len(noise) == 1 else "near") / digit
    change = change.reshape(len(change), *rays.shape[:2]).nan_to_num(nan=0.0, posinf=0.0)
    return torch.minimum(change.amax(dim=1), 2 * math.pi * rays.norm(dim=-1).amax(dim=0) * noise)


def _floor(noise: Tensor, alpha: MultiIndex, steps: Tensor) -> Tensor:
    """What rounding can make of Δ^α/h^|α| of numbers of the size of the noise, by shell."""
    factor = MARGIN * EPSILON * (2.0 / steps.amin(dim=0)) ** sum(alpha)
    return (factor * noise).nan_to_num(nan=0.0, posinf=0.0)


def _in_xi(
    probe: Probe, stencil: Stencil, rays: Tensor, steps: Tensor, noise: Tensor
) -> list[Row]:
    """Δ^α a with one rule for the step."""
    sizes = probe.differences(rays.flatten(0, 1), stencil, steps.flatten(), "many")[:, 0]
    sizes = sizes.reshape(len(sizes), *rays.shape[:2]).nan_to_num(nan=math.inf)
    none = (0,) * probe.dim
    return [
        Row(alpha, none, rays, steps, size, _floor(noise, alpha, steps))
        for alpha, size in zip(stencil.indices, sizes, strict=True)
    ]


def _in_x(probe: Probe, rays: Tensor, noise: Tensor) -> list[Row]:
    """∂_x^β a for β ≠ 0; shells where waves in x are too short to be resolved are not seen."""
    derivatives, resolved = probe.x_derivatives(rays.flatten(0, 1))
    none, ones = (0,) * probe.dim, torch.ones(rays.shape[:2], dtype=torch.float64)
    rows = []
    for j, beta in enumerate(probe.stencil.indices[1:], start=1):
        floor = MARGIN * EPSILON * (probe.derivative_noise[j] * noise).nan_to_num(posinf=0.0)
        sizes = derivatives[j].reshape(rays.shape[:2]).nan_to_num(nan=math.inf)
        blind = ~resolved[j].reshape(rays.shape[:2]).all(dim=0)
        rows.append(Row(none, beta, rays, ones, sizes, torch.where(blind, math.inf, floor)))
    return rows


def _mixed(probe: Probe, stencil: Stencil, rays: Tensor) -> list[Row]:
    """Δ^α ∂_x^β a for α, β ≠ 0 with the step 1."""
    ones = torch.ones(rays.shape[:2], dtype=torch.float64)
    sizes = probe.differences(rays.flatten(0, 1), stencil, ones.flatten(), "near")
    sizes = sizes.reshape(*sizes.shape[:2], *rays.shape[:2]).nan_to_num(nan=math.inf)
    noise = probe.noise(sizes[0].amax(dim=1))
    noise = noise + _conditioning(probe, rays, noise)
    return [
        Row(alpha, beta, rays, ones, sizes[i, j], _floor(noise[j], alpha, ones))
        for i, alpha in enumerate(stencil.indices)
        for j, beta in enumerate(probe.stencil.indices)
        if i and j
    ]


def _find_infinite(probe: Probe, rays: Tensor) -> tuple[float, ...] | None:
    """A lattice point near the origin, or a nan on a ray, where a is no number, or None."""
    box = _box(BOX[probe.dim], probe.dim)
    for points, is_bad in ((box, lambda v: ~torch.isfinite(v)), (rays.flatten(0, 1), torch.isnan)):
        for chunk in torch.split(points, 1024):
            values = torch.view_as_real(probe.values(chunk, "many"))
            bad = is_bad(values).any(dim=-1).flatten(0, 1).any(dim=0)
            if bool(bad.any()):
                infinite = chunk[bad]
                return tuple(infinite[infinite.norm(dim=-1).argmin()].tolist())
    return None


def growth_tendency(sizes: list[float]) -> Tendency:
    """Whether weighted sizes of shells, from the origin outwards, stay bounded.

    What counts is the largest size up to each shell. It is level if it is the same over the last
    three shells, or its increments halve over four. It grows if it does so in almost every one of
    the last eight shells without slowing down, by a factor that even a logarithm makes. All else
    is unclear, and so is a size that was far above a itself and then vanishes.

    Example:
        >>> steady = growth_tendency([2.0**n for n in range(9)])
        >>> growth_tendency([1.0, 3.0, 3.5, 3.6, 3.6, 3.6, 3.6]), steady
        ('level', 'growing')
    """
    most = list(itertools.accumulate(sizes, max))
    if most[-1] == math.inf:
        return "growing"
    if len(most) < 6 or most[-1] == 0 or most[-1] < (1 + LEVEL) * most[-4]:
        return "level"
    if most[-2] > 0 and math.log(most[-1] / most[-2], RATIO) > EVERY_POWER:
        return "growing"
    start = max(-9, -len(most))
    recent, before = most[-1] - most[-5], most[-5] - most[start]
    if recent < SLOWING * before:
        return "level" if recent < SLOWING * most[-1] else "unclear"
    rises = [after > (1 + 1e-3) * this for this, after in itertools.pairwise(most[start:])]
    steady = recent >= STEADY * before and sum(rises[-4:]) >= 3 and sum(rises) >= 0.7 * len(rises)
    grown = most[start] == 0 or most[-1] >= GROWN * most[start]
    return "growing" if steady and grown else "unclear"
