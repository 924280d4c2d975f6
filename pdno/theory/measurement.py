"""What is seen of a symbol: the sizes of all Δ_ξ^α ∂_x^β a, its kinks, and its seam.

A symbol of order m obeys |Δ_h^α ∂_x^β a(x, ξ)| <= C h^|α| ⟨ξ⟩^{m-|α|} for every step h <= |ξ|/16.
Steps of 1 see ripples of the lattice, but rounding hides third differences beyond |ξ| = 10^4;
steps of |ξ|/16 see 10^10. So each quantity is measured with h = 1, |ξ|^{1/2} and |ξ|/16, in shells
4^j <= |ξ| < 4^{j+1}, up to the shell where rounding may hide more than has been seen.

Where f is smooth, the difference quotient |Σ_k (-1)^k C(q, k) f(p + kh)| / h^q tends to |f^(q)(p)|
as h -> 0. Where f is like |p - p_0|^r with r < q it grows like h^{r-q}. So its largest value is
followed to smaller and smaller h, for q = 2 (jumps and kinks) and q = 4 (those of derivatives).
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from pdno.theory.probe import (
    Factor,
    MultiIndex,
    Probe,
    SeparatedProbe,
    Stencil,
    Where,
    difference_stencil,
    real_parts,
)
from pdno.theory.search import find_points, spread_directions

Indices = tuple[MultiIndex, MultiIndex]
"""α of a difference in ξ, and β of a derivative in x."""

RESOLVED = 0.05  # of the largest derivative that a spacing can show; beyond, waves are too short
EVERY_POWER = 16.0  # beyond it growth is faster than every power; its squares are still numbers
EPSILON = torch.finfo(torch.float64).eps
MARGIN = 256.0  # rounding errors that count as unseen: a network sums up many terms
FEWEST, FITTED = 3, 6  # shells of a fit
CORE = {1: 64, 2: 6, 3: 3}  # edges of the box around the origin, by dimension
BOX = {1: 2048, 2: 32, 3: 8}  # and of that where values must be finite
MIXED = 8  # shells in which differences in ξ of derivatives in x are measured
PARTS = 16  # of |ξ|, one is the widest step
Kind = Literal["growth", "differences", "not finite", "kink in ξ", "kink in x", "seam"]

LINES = 16
EDGE = 8.0  # kinks in ξ are looked for where |ξ_j| is below that many scales
COARSE, FINE, ZOOMS = 128, 32, 4
FACTOR = FINE / 4  # a window reaches two spacings to both sides
STENCILS = {2: (1.0, -2.0, 1.0), 4: (1.0, -4.0, 6.0, -4.0, 1.0)}
RATE = 0.7  # powers of 1/h by which a quotient grows at least where f is rough
VISIBLE = 1e3 * torch.finfo(torch.float64).eps
SEAM_SPACING, SEAM_TOLERANCE = 1 / 2048, 1e-2
FREQUENCIES = (1.0, 7.0, 60.0, 1e3, 1e5)  # of the frequencies at which a is a function of x
# value and derivatives from one side, third order, at 0, h, .., 4h
_ONE_SIDED = (
    (1.0, 0.0, 0.0, 0.0, 0.0),
    (-11 / 6, 3.0, -3 / 2, 1 / 3, 0.0),
    (35 / 12, -26 / 3, 19 / 2, -14 / 3, 11 / 12),
)


@dataclass(frozen=True)
class Row:
    """|Δ_h^α ∂_x^β a| / h^|α|, the largest over x and pairs, for one α, β and rule for h."""

    alpha: MultiIndex
    beta: MultiIndex
    points: Tensor  # lattice points of the rays, (K, J, d)
    steps: Tensor  # h there, (K, J)
    sizes: Tensor  # there, (K, J)
    floor: Tensor  # what rounding can make, (J,); inf where waves in x are too short to be seen

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
        largest = [core, *rays.amax(dim=0).tolist()]
        most, length = list(itertools.accumulate(largest, max))[1:], 0
        for shell, (seen, unseen) in enumerate(zip(most, hidden.tolist(), strict=True), start=1):
            if unseen == math.inf:
                break
            length = shell if seen >= unseen else length
        return rays[:, :length], largest[: length + 1]

    def growth(self) -> tuple[float, int]:
        """The exponent of the largest sizes in the shells, and the last where they are seen.

        -inf where a vanishes or is unseen, inf where it is faster than any power; -1 for no shell.
        """
        sizes = self.sizes.amax(dim=0)
        radii = self.points.norm(dim=-1).amin(dim=0).clamp_min(1.0)
        if not bool(torch.isfinite(sizes).all()):
            return math.inf, int((~torch.isfinite(sizes)).nonzero()[0])
        visible = ((sizes > self.floor) & (sizes > 0)).nonzero().flatten()
        last = int(visible[-1]) if len(visible) else -1
        outer = visible[visible > 0][-FITTED:]  # the first shell is not far out
        if len(outer) < FEWEST:
            return -math.inf, last
        x, y = radii[outer].log(), sizes[outer].log()
        x = x - x.mean()
        slope = float((x * y).sum() / x.square().sum())
        return math.copysign(math.inf, slope) if abs(slope) > EVERY_POWER else slope, last


@dataclass(frozen=True)
class Measurement:
    """What was seen of a symbol."""

    rows: tuple[Row, ...]  # those with the step 1 and β = 0 first, by α
    unit_rows: dict[Indices, Row]  # those with the step 1
    core_points: Tensor  # lattice points around the origin, (M, d)
    core: dict[Indices, Tensor]  # |Δ^α ∂_x^β a| there, (M,)
    not_finite: tuple[float, ...] | None  # a lattice point where a has no value

    @property
    def fitted_order(self) -> float:
        """The exponent of |a|."""
        return self.rows[0].growth()[0]

    def near_origin(self, row: Row, order: float) -> float:
        """The largest |Δ^α ∂_x^β a| ⟨ξ⟩^{|α|-m} around the origin."""
        power = sum(row.alpha) - order
        brackets = (1.0 + self.core_points.square().sum(dim=-1)).sqrt()
        return float((self.core[row.alpha, row.beta] * brackets**power).max())

    def seminorms(self, order: float) -> dict[Indices, float]:
        """The largest |Δ^α ∂_x^β a| ⟨ξ⟩^{|α|-m} that was met with the step 1; not unseen ones."""
        largest = dict[Indices, float]()
        for indices, row in self.unit_rows.items():
            outer = row.weighted(order)[0][:, : row.growth()[1] + 1]
            beyond = float(outer.max()) if outer.numel() else 0.0
            largest[indices] = max(self.near_origin(row, order), beyond)
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


def measure_differences(
    probe: Probe, stencil: Stencil, rays: Tensor, *, every_step: bool
) -> Measurement:
    """All differences of a stencil along rays (K, J, d), and two derivatives in x.

    With all three rules for the step, or with the step 1 alone.
    """
    radius, zero, none = rays.norm(dim=-1), difference_stencil(probe.dim, 0), (0,) * probe.dim
    ones, rows = torch.ones_like(radius), list[Row]()
    noise = _noise(probe, zero, rays)
    for rule in (ones, radius.sqrt(), radius / PARTS)[: 3 if every_step else 1]:
        steps = rule.round().clamp_min(1.0)
        sizes = probe.differences(rays, stencil, steps, "many")[:, 0]
        for alpha, total, size in zip(stencil.indices, stencil.totals, sizes, strict=True):
            floor = _rounding((2.0 / steps.amin(dim=0)) ** total * noise)
            rows.append(Row(alpha, none, rays, steps, size, floor))
    if probe.depends_on_x:
        near = _rows_in_x(probe, stencil, rays[:, :MIXED], noise[:MIXED])
        rows += _rows_in_x(probe, zero, rays, noise) + [row for row in near if sum(row.alpha)]
    unit_rows = {(r.alpha, r.beta): r for r in reversed(rows) if bool((r.steps == 1).all())}
    # lattice points around the origin, or those where a table is not 0
    edge = CORE[probe.dim] if probe.support is None else probe.support + max(stencil.totals)
    points = _box(edge, probe.dim)
    where: Where = "near" if probe.depends_on_x else "many"
    at = torch.ones(len(points)).double()
    sizes = probe.differences(points, stencil, at, where).flatten(0, 1)
    core = dict(zip(itertools.product(stencil.indices, probe.stencil.indices), sizes, strict=True))
    return Measurement(tuple(rows), unit_rows, points, core, _find_infinite(probe, rays))


def _rounding(sizes: Tensor) -> Tensor:
    """What the rounding of numbers of some size can make."""
    return (MARGIN * EPSILON * sizes).nan_to_num(nan=0.0, posinf=0.0)


def _noise(probe: Probe, zero: Stencil, rays: Tensor) -> Tensor:
    """Sizes of the numbers whose rounding errors are in a, by shell, (J,).

    |ξ| |∇a|, large for phases e^{2πi v·ξ}, enlarges rounding: it is the change by a digit of ξ. A
    phase that turns faster than once between neighbours is none on the lattice, but a jump is.
    """
    radius, digit = rays.norm(dim=-1), 4 * EPSILON
    noise = probe.differences(rays, zero, torch.ones_like(radius), "many")[0, 0].amax(dim=0)
    if probe.only_integers:
        return noise
    xi = rays.flatten(0, 1)
    change = probe.sizes(real_parts(probe.values(xi * (1 + digit)) - probe.values(xi)))[0] / digit
    change = change.nan_to_num(nan=0.0, posinf=0.0).reshape(radius.shape).amax(dim=0)
    return noise + torch.minimum(change, 2 * math.pi * radius.amax(dim=0) * noise)


def _rows_in_x(probe: Probe, stencil: Stencil, rays: Tensor, noise: Tensor) -> list[Row]:
    """Δ^α ∂_x^β a for β ≠ 0 with the step 1; where waves in x are too short they are not seen."""
    ones, amplification = torch.ones(rays.shape[:2]).double(), probe.stencil.weights.abs().sum(0)
    sizes, rows = probe.differences(rays, stencil, ones, "near"), []
    resolved = sizes[0] <= RESOLVED * amplification[:, None, None] * sizes[0, :1]
    for i, alpha in enumerate(stencil.indices):
        for j, beta in enumerate(probe.stencil.indices[1:], start=1):
            floor = _rounding(2.0 ** sum(alpha) * amplification[j] * noise)
            floor = torch.where(resolved[j].all(dim=0), floor, math.inf)
            rows.append(Row(alpha, beta, rays, ones, sizes[i, j], floor))
    return rows


def _box(edge: int, dim: int) -> Tensor:
    axis = torch.arange(-edge, edge + 1, dtype=torch.float64)
    return torch.cartesian_prod(*[axis] * dim).reshape(-1, dim)


def _find_infinite(probe: Probe, rays: Tensor) -> tuple[float, ...] | None:
    """A lattice point near the origin, or a nan on a ray, where a is no number, or None."""
    box = _box(BOX[probe.dim], probe.dim)
    for points, is_bad in ((box, lambda v: ~torch.isfinite(v)), (rays.flatten(0, 1), torch.isnan)):
        for chunk in torch.split(points, 1024):
            bad = is_bad(torch.view_as_real(probe.values(chunk, "many"))).any(dim=-1)
            infinite = chunk[bad.flatten(0, 1).any(dim=0)]
            if len(infinite):
                return tuple(infinite[infinite.norm(dim=-1).argmin()].tolist())
    return None


# ---- Kinks and seams ----


@dataclass(frozen=True)
class Witness:
    """What breaks a bound.

    growth        |a|, or an x-derivative of it, grows faster than |ξ|^m
    differences   Δ^α a does not decay as it should along some ray
    not finite    a has no value at some point
    kink in ξ, x  a is not smooth as a function on R^n, or not smooth in x
    seam          a does not fit together at x = 0 and x = 1, so it is not smooth on the torus
    """

    kind: Kind  #: which condition of the class fails
    reason: str  #: in words
    alpha: MultiIndex  #: of the difference
    beta: MultiIndex  #: of the x-derivative
    points: tuple[tuple[float, ...], ...]  #: frequencies of a ray; the point of a kink or seam
    #: |Δ_h^α ∂_x^β a| / h^|α| ⟨ξ⟩^{|α|-m} at these points; for kinks the difference quotients as
    #: the step shrinks, for seams the jump
    values: tuple[float, ...]
    steps: tuple[int, ...] = ()  #: h at these points


def find_kinks(probe: Probe, *, real: bool) -> tuple[list[Witness], Witness | None]:
    """Kinks in ξ, if a is assessed on R^n, and in x; the seam."""
    kinks, seam = list[Witness | None](), None
    shape = 2, LINES, probe.dim
    if real:
        lines = EDGE * (2 * probe.uniform(*shape) - 1) * probe.scale
        kinks.append(_find_kink("kink in ξ", lambda xi: probe.values(xi).flatten(0, 1), lines))
    if probe.depends_on_x:
        along = _functions_of_x(probe)
        kinks.append(_find_kink("kink in x", along, probe.uniform(*shape)))
        seam = _find_seam(along, 0.9 * probe.uniform(16, probe.dim))
    return [kink for kink in kinks if kink is not None], seam


def _functions_of_x(probe: Probe) -> Factor:
    """x (P, d) ↦ a(x, ξ) for ξ of all sizes and many directions, (functions, P).

    They are divided by the largest |a| at that |ξ| on one fixed set of points. Those of a
    separated symbol are its b_r.
    """
    if isinstance(probe, SeparatedProbe):
        space = probe.space
        return lambda x: space(x).flatten(0, 1)
    fixed, directions = find_points(probe)[0], spread_directions(probe, 6)
    shells = [(radius * directions * probe.scale).round() for radius in FREQUENCIES]
    sizes = [float(probe.table(fixed, xi).abs().nan_to_num(nan=0.0).max()) for xi in shells]
    usable = [(xi, size) for xi, size in zip(shells, sizes, strict=True) if 0 < size < math.inf]

    def along(x: Tensor) -> Tensor:
        tables = [probe.table(x, xi).movedim(-1, 0).flatten(0, 2) / size for xi, size in usable]
        return torch.cat(tables) if tables else torch.zeros(1, len(x), dtype=torch.complex128)

    return along


def _find_kink(kind: Kind, function: Factor, lines: Tensor) -> Witness | None:
    """The worst kink or jump of (M, d) -> (functions, M) on lines (2, L, d), or None."""
    starts, across = lines[0], lines[1] - lines[0]
    for order, stencil in STENCILS.items():
        low, high = torch.zeros(len(starts), 1).double(), torch.ones(len(starts), 1).double()
        weights, levels = torch.tensor(stencil, dtype=torch.float64), []
        for count in (COARSE, *[FINE] * ZOOMS):
            at = low + (high - low) * torch.linspace(0, 1, count + 1, dtype=torch.float64)
            values = function((starts[:, None] + at[..., None] * across[:, None]).flatten(0, 1))
            values = values.reshape(len(values), *at.shape)
            differences = values.unfold(-1, order + 1, 1) @ weights.to(values.dtype)
            largest, index = differences.abs().amax(dim=0).max(dim=-1)
            h = (high - low) / count
            step = h[:, 0] * across.norm(dim=-1)
            visible = largest > VISIBLE * values.abs().amax(dim=(0, 2))
            levels.append(torch.stack([step, largest / step**order, visible]))
            centre = torch.gather(at, 1, index[:, None] + order // 2)
            low, high = centre - 2 * h, centre + 2 * h
        steps, quotients, seen = torch.stack(levels, dim=1)
        # levels below rounding, which come last, do not count; two rates need three others
        depth = seen.int().cumprod(dim=0).sum(dim=0)
        if order == 2:
            depth = torch.where(depth > ZOOMS, depth, 0)
        rates = (quotients[1:] / quotients[:-1].clamp_min(1e-300)).log() / math.log(FACTOR)
        last = (depth - 2).clamp_min(1)[None]
        slowest = torch.minimum(rates.gather(0, last), rates.gather(0, last - 1))[0]
        rough = (depth >= 3) & (slowest > RATE)
        if bool(rough.any()):
            worst = int(torch.where(rough, slowest, -math.inf).argmax())
            point = tuple((starts + 0.5 * (low + high) * across)[worst].tolist())
            growth, end = quotients[: depth[worst], worst].tolist(), int(depth[worst]) - 1
            power = order - math.log(growth[-1] / growth[-3]) / (2 * math.log(FACTOR))
            name = "jump" if power < 0.5 else "kink" if power < 1.5 else "kink of a derivative"
            reason = (
                f"a has a {name} in {kind[-1]} at {show_point(point)}: the difference quotient of "
                f"order {order} is {growth[-2]:.2g} with the step {steps[end - 1, worst]:.1g} and "
                f"{growth[-1]:.2g} with {steps[end, worst]:.1g}"
            )
            none = (0,) * len(point)
            return Witness(kind, reason, none, none, (point,), tuple(growth))
    return None


def _find_seam(along: Factor, inside: Tensor) -> Witness | None:
    """The first jump between x_j = 0 and x_j = 1 of a or of two derivatives, or None.

    On the torus x = 1 is x = 0: values and one-sided derivatives of both sides are compared, at
    points x (P, d) with another x_j.
    """
    rows = torch.tensor(_ONE_SIDED, dtype=torch.float64)

    def one_sided(x: Tensor, direction: Tensor) -> Tensor:
        """Value and two derivatives along +-e_j, from that side: (3, functions, P)."""
        points = x[:, None] + SEAM_SPACING * torch.arange(rows.shape[1])[:, None] * direction
        values, h = along(points.flatten(0, 1)), float(direction.sum()) * SEAM_SPACING
        values = values.reshape(len(values), *points.shape[:2])
        return torch.stack([values @ (row / h**k).to(values.dtype) for k, row in enumerate(rows)])

    dim = inside.shape[1]
    for axis, normal in enumerate(torch.eye(dim, dtype=torch.float64)):
        left = inside * (1 - normal)
        jumps = (one_sided(left, normal) - one_sided(left + normal, -normal)).abs().amax(dim=1)
        around = one_sided(inside, normal)
        values = float(around[0].abs().amax())
        around[0] -= around[0].mean(dim=-1, keepdim=True)  # what varies, not what is large
        for order, name in enumerate(("a", "∂a", "∂²a")):
            jump, index = jumps[order].max(dim=0)
            size = float(around[order].abs().amax())
            rounding = VISIBLE * values / SEAM_SPACING**order
            if float(jump) > SEAM_TOLERANCE * size + rounding:
                along_axis = f"/∂x_{axis + 1}" if order else ""
                reason = (
                    f"a is not smooth on the torus: {name}{along_axis} jumps by {float(jump):.2g} "
                    f"of its size between x_{axis + 1} = 0 and 1; inside it varies by {size:.2g}"
                )
                point, beta = tuple(left[int(index)].tolist()), (order * normal).int().tolist()
                return Witness("seam", reason, (0,) * dim, tuple(beta), (point,), (float(jump),))
    return None


def show_point(numbers: Sequence[float]) -> str:
    """Coordinates as text."""
    return "(" + ", ".join(f"{number:.12g}" for number in numbers) + ")"
