"""Counterexamples to a bound: growth along a sequence, and points where a is not smooth.

A symbol of order m obeys |Δ_h^α ∂_x^β a(x, ξ)| <= C h^|α| ⟨ξ⟩^{m-|α|} for every step h <= |ξ|/16.
Steps of 1 see ripples of the lattice, and rounding hides them far out; steps of |ξ|/16 see as far
as numbers go. So each is measured with h = 1, |ξ|^{1/2} and |ξ|/16.

Where f is smooth the quotients D_q(h) = |Δ_h^q f|/h^q tend to |f^(q)|. Where f^(r) jumps they grow
like h^{r-q} for q > r. A steep slope looks like a jump until h resolves it: D_q counts only for
steps below which D_{q-1} no longer changes.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from pdno.theory.expression import Digits, Expression
from pdno.theory.probe import EPSILON, MultiIndex, Probe, difference_weights
from pdno.theory.search import RATIO, SHELLS

Kind = Literal["growth", "differences", "not finite", "kink in ξ", "kink in x", "seam"]
Point = tuple[float, ...]
Tendency = Literal["level", "unclear", "growing"]

NOISE = 512 * EPSILON  # what rounding makes of a, and of |ξ| |∇a|: many operations
LEVEL = 0.03  # relative growth over three shells that counts as none
SLOWING, STEADY = 0.5, 0.8  # increments over four shells in terms of those before
GROWN = 1.6  # by what steady growth over eight shells speaks against a bound: log ⟨ξ⟩ makes 2
EVERY_POWER = 16.0
FEWEST = 14  # shells of a sequence that shows growth: short ones end where rounding begins
FAR = (1e16, 1e24, 1e32, 1e48)  # |ξ| where growth with wide steps must go on
PARTS = 16  # of |ξ|, one is the widest step
DERIVED = 1 / 2**12  # step of ∂_x and ∂_x²
CENTRAL = ((1 / 12, -8 / 12, 0.0, 8 / 12, -1 / 12), (-1 / 12, 16 / 12, -30 / 12, 16 / 12, -1 / 12))
RESOLVED = 0.05  # of the largest derivative that a step can show

LEVELS, SHRINK, WIDEST = 20, 4.0, 1 / 32  # steps h = 4^-l / 32 of quotients
HIGHEST = 4  # q
SPAN = torch.arange(-6, 7, dtype=torch.float64)  # points around a centre, in steps
ROUGH, SMOOTH = 0.45, 0.2  # powers of 1/h by which quotients grow at least, at most
RATES = 3  # rates, of steps by 4, that show it
BEYOND_ROUNDING = 30.0


@dataclass(frozen=True)
class Witness:
    """Points that violate a bound, with the values there.

    growth        |a|, or an x-derivative of it, grows faster than |ξ|^m
    differences   Δ^α a does not decay as it should along a sequence
    not finite    a has no value at a lattice point
    kink in ξ, x  a is not smooth as a function on R^n, or not smooth in x
    seam          a does not fit together at x = 0 and x = 1, so it is not smooth on the torus
    """

    kind: Kind  #: which condition of the class fails
    reason: str  #: in words
    alpha: MultiIndex  #: of the difference in ξ
    beta: MultiIndex  #: of the derivative, or difference, in x
    x: tuple[Point, ...]  #: the points
    points: tuple[Point, ...]  #: the frequencies
    #: |Δ_h^α ∂_x^β a| / h^|α| ⟨ξ⟩^{|α|-m} there; for kinks and seams D_q as the step shrinks
    values: tuple[float, ...]
    steps: tuple[float, ...]  #: h
    pair: int = 0  #: of channels, output by output


@dataclass(frozen=True)
class WitnessCheck:
    """A witness recomputed with independent arithmetic."""

    confirmed: bool  #: whether the values are the same and grow as they did
    values: tuple[float, ...]
    digits: int  #: of the values of a; the differences are exact where these have 16


def growth_tendency(sizes: Sequence[float]) -> Tendency:
    """Whether weighted sizes of shells, from the origin outwards, stay bounded.

    What counts is the largest size up to each shell. It is level if it is the same over the last
    three shells, or its increments halve over four. It grows if it does so in almost every one of
    the last eight shells without slowing down, by a factor that even a logarithm makes. All else
    is unclear.

    Example:
        >>> steady = growth_tendency([2.0**n for n in range(9)])
        >>> growth_tendency([1.0, 3.0, 3.5, 3.6, 3.6, 3.6, 3.6]), steady
        ('level', 'growing')
    """
    most = list(itertools.accumulate(sizes, max))
    if not most or most[-1] == 0:
        return "level"
    if most[-1] == math.inf:
        return "growing"
    if len(most) < 6 or most[-1] < (1 + LEVEL) * most[-4]:
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


# ---- Growth ----


@dataclass(frozen=True)
class Sizes:
    """|Δ_h^α ∂_x^β a| / h^|α|, the largest over x and functions, along sequences (S, J, d)."""

    alpha: MultiIndex
    beta: MultiIndex
    rule: int  # 0, 1 and 2 for the steps 1, |ξ|^{1/2} and |ξ|/16
    xi: Tensor
    steps: Tensor  # (S, J)
    sizes: Tensor  # (S, J)
    floor: Tensor  # what rounding can make, (S, J)
    core: Tensor  # the same around the origin, at core_xi
    core_xi: Tensor

    def _weights(self, xi: Tensor, order: float) -> Tensor:
        return ((sum(self.alpha) - order) * (1 + xi.square().sum(dim=-1)).log() / 2).exp()

    def weighted(self, order: float) -> tuple[Tensor, Tensor]:
        """Sizes times ⟨ξ⟩^{|α|-m}, nan where rounding may hide more than was seen; near 0."""
        weights = self._weights(self.xi, order)
        values, hidden = self.sizes * weights, self.floor * weights
        values = torch.where(self.sizes == 0, 0.0, values)
        largest = torch.where(self.sizes > self.floor, values, 0.0).cummax(dim=1).values
        unseen = (self.sizes <= self.floor) & (hidden > 0.5 * largest)
        values = torch.where(self.sizes > self.floor, values, 0.0).masked_fill(unseen, math.nan)
        return values, self.core * self._weights(self.core_xi, order)

    def envelope(self, order: float) -> Tensor:
        """The largest weighted size in each shell, with that around the origin first, (1 + J,)."""
        values, core = self.weighted(order)
        start = core.max().reshape(1) if len(core) else torch.zeros(1)
        return torch.cat([start, values.nan_to_num(nan=0.0, posinf=math.inf).amax(dim=0)])

    def growing(self, order: float) -> tuple[int, int] | Tendency:
        """The sequence that grows most and its length, or how the sizes behave."""
        values, envelope = self.weighted(order)[0], self.envelope(order)
        lengths = SHELLS - values.isnan().flip(1).long().cumprod(dim=1).sum(dim=1)
        answer: Tendency = "level"
        ends = values.nan_to_num(nan=0.0, posinf=1e300)
        last = ends[torch.arange(len(ends)), (lengths - 1).clamp_min(0)]
        for s in last.argsort(descending=True)[:12].tolist():
            n = int(lengths[s])
            series = values[s, :n].nan_to_num(nan=0.0, posinf=math.inf).tolist()
            both = growth_tendency(envelope[: n + 1].tolist()), growth_tendency(series)
            if n >= FEWEST and both == ("growing", "growing"):
                return s, n
            if "level" not in both:
                answer = "unclear"
        return answer


def measure(
    probe: Probe, x: Tensor, sequences: Tensor, core: Tensor, indices: Sequence[MultiIndex]
) -> list[Sizes]:
    """All differences along sequences with three rules for h, and two derivatives in x."""
    flat, shape = sequences.flatten(0, 1), sequences.shape[:2]
    radius, none = flat.norm(dim=-1), (0,) * probe.dim
    rows, change, at = list[Sizes](), torch.zeros(shape), torch.zeros(0)
    for rule, wish in enumerate((torch.ones_like(radius), radius.sqrt(), radius / PARTS)):
        steps = wish.round().clamp_min(1.0)
        sizes, around = probe.differences(x, flat, steps, indices)
        sizes, around = torch.unflatten(sizes, -1, shape), around.reshape(shape)
        if rule == 0:
            change = _change(probe, x, flat).reshape(shape)
            change = torch.minimum(change, 2 * math.pi * radius.reshape(shape) * around)
            at, _ = probe.differences(x, core, torch.ones(len(core)).double(), indices)
        noise = (NOISE * (around + change)).nan_to_num(nan=0.0, posinf=0.0)
        for k, alpha in enumerate(indices):
            if rule and not sum(alpha):
                continue
            h = steps.reshape(shape)
            floor = noise * (2 / h) ** sum(alpha)
            rows.append(Sizes(alpha, none, rule, sequences, h, sizes[k], floor, at[k], core))
    if probe.depends_on_x:
        rows += _in_x(probe, x, sequences, noise, core)
    return rows


def _change(probe: Probe, x: Tensor, xi: Tensor) -> Tensor:
    """|a(ξ + δ|ξ|) - a(ξ)|/δ for δ of a few digits, two signs for the other axes, (M,)."""
    if probe.acting:
        return torch.zeros(len(xi), dtype=torch.float64)
    base, changes = probe.table(x[-2:], xi), []
    for sign in (1.0, -1.0)[: probe.dim]:
        signs = sign ** torch.arange(probe.dim, dtype=torch.float64)
        moved = probe.table(x[-2:], xi * (1 + 4 * EPSILON * signs))
        changes.append((moved - base).abs().amax(dim=(0, 1)))
    return torch.stack(changes).amax(dim=0) / (4 * EPSILON)


def _in_x(probe: Probe, x: Tensor, sequences: Tensor, noise: Tensor, core: Tensor) -> list[Sizes]:
    """∂_x a and ∂_x² a along the axes; where waves in x are too short they are not seen."""
    rows, flat = list[Sizes](), sequences.flatten(0, 1)
    offsets, none = torch.arange(-2, 3, dtype=torch.float64) * DERIVED, (0,) * probe.dim
    inside = x if probe.torus else x.clamp(2 * DERIVED, 1 - 2 * DERIVED)
    for axis in torch.eye(probe.dim, dtype=torch.float64):
        near = (inside[:, None] + offsets[:, None] * axis).flatten(0, 1)
        parts = torch.split(torch.cat([flat, core]), max(1, 2**16 // len(near)))
        weights = [
            torch.tensor(w).to(torch.complex128) / DERIVED**q for q, w in enumerate(CENTRAL, 1)
        ]
        found = [[], []]  # type: list[list[Tensor]]
        for part in parts:
            values = torch.unflatten(probe.table(near, part), 1, (len(x), 5))
            for q in range(2):
                sums = torch.einsum("kpsm,s->kpm", values, weights[q])
                found[q].append(sums.abs().amax(dim=(0, 1)).nan_to_num(nan=math.inf))
        sizes = [torch.cat(part) for part in found]
        scale = noise / NOISE
        unresolved = sizes[1][: len(flat)].reshape(noise.shape) > RESOLVED / DERIVED**2 * 5 * scale
        for q in (1, 2):
            floor = noise * 4 / DERIVED**q
            floor = torch.where(unresolved, math.inf, floor)
            size, at = torch.split(sizes[q - 1], [len(flat), len(core)])
            beta = tuple(int(q * k) for k in axis.tolist())
            ones = torch.ones(noise.shape)
            size = size.reshape(noise.shape)
            rows.append(Sizes(none, beta, 0, sequences, ones, size, floor, at, core))
    return rows


def growth_witness(
    probe: Probe, x: Tensor, row: Sizes, order: float, s: int, n: int
) -> Witness | None:
    """The pair and the x that are worst along a sequence, if growth goes on beyond it."""
    xi, steps = row.xi[s, :n], row.steps[s, :n]
    sizes = _pairwise(probe, x, xi, steps, row)  # (Q, P, n)
    pair, at = divmod(int(sizes[..., -1].nan_to_num(nan=math.inf).argmax()), len(x))
    weights = row._weights(xi, order)
    values = (sizes[pair, at] * weights).tolist()
    seen = torch.where(sizes[pair, at] > row.floor[s, :n], sizes[pair, at] * weights, 0.0)
    if growth_tendency(seen.tolist()) != "growing":
        return None
    wide = replace(row, rule=2)
    widest = (xi.norm(dim=-1) / PARTS).round().clamp_min(1.0)
    last = _pairwise(probe, x[at : at + 1], xi[-1:], widest[-1:], wide)[pair, 0, 0] * weights[-1]
    if float(last) > 0.25 * values[-1] and math.isfinite(values[-1]):
        far = torch.tensor(FAR, dtype=torch.float64)
        beyond = (normalize(xi[-1], dim=-1) * far[:, None]).round()
        more = _pairwise(probe, x[at : at + 1], beyond, (far / PARTS).round(), wide)[pair, 0]
        more = (more.log() + (sum(row.alpha) - order) * far.log()).exp()
        known = more[~more.isnan()]
        if len(known) and not bool((known[-2:] > 1.05 * values[-1]).all()):
            return None
    radius = xi.norm(dim=-1)
    tail = max(1, n - 5)
    speed = (
        math.log(max(values[-1], 1e-300) / max(values[tail - 1], 1e-300))
        if math.isfinite(values[-1])
        else math.inf
    )
    speed = (
        speed / max(1e-9, math.log(float(radius[-1] / radius[tail - 1]))) + order - sum(row.alpha)
    )
    how = f"like |ξ|^{speed:.2f}" if speed < EVERY_POWER else "faster than every power"
    name = (f"Δ^{show_point(row.alpha)} " if any(row.alpha) else "") + (
        f"∂_x^{show_point(row.beta)} " if any(row.beta) else ""
    )
    reason = (
        f"|{name}a| {'grows' if speed > 0.05 else 'behaves'} {how}, and the bound is "
        f"|ξ|^{order - sum(row.alpha):g}: its weighted size is {values[n // 2]:.2g} at |ξ| = "
        f"{float(radius[n // 2]):.2g} and {values[-1]:.2g} at |ξ| = {float(radius[-1]):.2g}, "
        f"x = {show_point(x[at].tolist())}, ξ = {show_point(xi[-1].tolist())}"
    )
    kind: Kind = "differences" if any(row.alpha) else "growth"
    points = tuple(tuple(point) for point in xi.tolist())
    place = (tuple(x[at].tolist()),) * n
    return Witness(
        kind,
        reason,
        row.alpha,
        row.beta,
        place,
        points,
        tuple(values),
        tuple(steps.tolist()),
        pair,
    )


def _pairwise(probe: Probe, x: Tensor, xi: Tensor, steps: Tensor, row: Sizes) -> Tensor:
    """|Δ_h^α ∂_x^β a| / h^|α| of all pairs, (Q, P, n)."""
    offsets, weights = difference_weights([row.alpha])
    points = (xi[:, None] + steps[:, None, None] * offsets).flatten(0, 1)
    q = sum(row.beta)
    shifts = torch.arange(-2, 3, dtype=torch.float64) * DERIVED if q else torch.zeros(1).double()
    axis = torch.tensor(row.beta).double() / max(1, q)
    near = (x[:, None] + shifts[:, None] * axis).flatten(0, 1)
    values = probe.table(near, points, pairs=True)
    values = torch.unflatten(values, -1, (len(xi), -1))
    values = torch.unflatten(values, 1, (len(x), -1)) @ weights[:, 0].to(values.dtype)
    along = torch.tensor(CENTRAL[q - 1] if q else (1.0,)).to(values.dtype) / DERIVED**q
    sizes = torch.einsum("kpsm,s->kpm", values, along).abs() / steps ** sum(row.alpha)
    return sizes.nan_to_num(nan=math.inf)


# ---- Kinks and seams ----


def find_kinks(probe: Probe, x: Tensor, *, real: bool, torus: bool) -> list[Witness]:
    """Kinks in ξ, if a is assessed on R^n, and in x, and the seam on the torus."""
    dim, found = probe.dim, list[Witness | None]()
    if real:
        radius = 8.0 * float(probe.scale.max())
        place, ones = x[:2], torch.ones(len(x[:2])).double()

        def of_xi(xi: Tensor) -> Tensor:
            return probe.table(place, xi).flatten(0, 1)

        starts = radius * (2 * probe.uniform(1024, dim) - 1)
        found += [_zoom(probe, of_xi, starts, radius, q, "kink in ξ", place, ones) for q in (2, 4)]
    if probe.depends_on_x:
        directions = normalize(probe.normal(3, dim), dim=-1)
        xi = torch.cat([r * directions * probe.scale for r in (1.0, 7.0, 60.0, 1e3, 1e5)]).round()
        sizes = probe.table(x, xi).abs().nan_to_num(nan=0.0, posinf=0.0).amax(dim=(0, 1))
        xi, sizes = xi[sizes > 0], sizes[sizes > 0]

        def of_x(at: Tensor) -> Tensor:
            return (probe.table(at, xi) / sizes).movedim(1, -1).flatten(0, 1)

        if len(xi):
            for axis in torch.eye(dim, dtype=torch.float64) if torus else ():
                centres = (probe.uniform(8, dim) * (1 - axis)).expand(LEVELS, -1, -1)
                found.append(_quotients(of_x, centres, axis, 1.0, "seam", xi, sizes))
            inside = (
                0.2 + 0.6 * probe.uniform(1024, dim) if not torus else probe.uniform(1024, dim)
            )
            found += [_zoom(probe, of_x, inside, 1.0, q, "kink in x", xi, sizes) for q in (2, 4)]
    return [witness for witness in found if witness is not None]


def _zoom(
    probe: Probe,
    function: Callable[[Tensor], Tensor],
    starts: Tensor,
    unit: float,
    order: int,
    kind: Kind,
    other: Tensor,
    factors: Tensor,
) -> Witness | None:
    """Towards the points where differences of some order are largest, for smaller steps."""
    dim = starts.shape[1]
    stencil = torch.arange(order + 1, dtype=torch.float64) - order / 2
    weights = torch.tensor([(-1.0) ** k * math.comb(order, k) for k in range(order + 1)])

    def strength(points: Tensor, h: float) -> Tensor:
        """|Δ_h^q f| along each axis, (d, M)."""
        near = [points[:, None] + h * unit * stencil[:, None] * e for e in torch.eye(dim).double()]
        values = function(torch.cat(near).flatten(0, 1))
        values = torch.unflatten(values, -1, (dim, len(points), order + 1))
        values = values @ weights.to(values.dtype)
        return values.abs().amax(dim=0).nan_to_num(nan=0.0, posinf=0.0)

    first = strength(starts, WIDEST)
    for axis in range(dim):
        centre, levels = starts[first[axis].topk(4).indices], []
        for level in range(LEVELS):
            h = WIDEST / SHRINK**level
            drawn = 2 * probe.uniform(4, min(96, 4 ** (dim + 1)), dim) - 1
            near = centre[:, None] + 2 * h * unit * drawn
            near = torch.cat([centre[:, None], near], dim=1)
            best = strength(near.flatten(0, 1), h / 2)[axis].reshape(4, -1).argmax(dim=1)
            centre = near[torch.arange(4), best]
            levels.append(centre)
        direction = torch.eye(dim, dtype=torch.float64)[axis]
        witness = _quotients(function, torch.stack(levels), direction, unit, kind, other, factors)
        if witness is not None:
            return witness
    return None


def _quotients(
    function: Callable[[Tensor], Tensor],
    centres: Tensor,
    axis: Tensor,
    unit: float,
    kind: Kind,
    other: Tensor,
    factors: Tensor,
) -> Witness | None:
    """A witness if quotients D_q around centres (levels, S, d) grow as steps along an axis shrink.

    `other` are the frequencies of a function of x, or the points x of one of ξ; the function is a
    over the `factors`.
    """
    h = unit * WIDEST / SHRINK ** torch.arange(len(centres), dtype=torch.float64)
    points = centres[:, :, None] + (h[:, None, None, None] * SPAN[:, None]) * axis
    # (C, levels, S, 13)
    values = torch.unflatten(function(points.flatten(0, 2)), -1, points.shape[:3])
    size = values.abs().amax(dim=(1, 2, 3)).clamp_min(1e-300)
    for start in range(centres.shape[1]):
        for c in values[:, :, start].var(dim=(1, 2)).argsort(descending=True)[:3].tolist():
            quotients = torch.stack(
                [_largest_window(values[c, :, start], q) / h**q for q in range(1, HIGHEST + 1)]
            )
            noise = torch.stack(
                [2.0**q * 4 * EPSILON * size[c] / h**q for q in range(1, HIGHEST + 1)]
            )
            rough = _singular(quotients, BEYOND_ROUNDING * noise)
            if rough is None:
                continue
            q, first, last = rough
            factor = float(factors[c % len(other)])
            used, order = (
                (factor * quotients[q - 1, first:last]).tolist(),
                tuple(int(q * k) for k in axis.tolist()),
            )
            here = tuple(tuple(p) for p in centres[first:last, start].tolist())
            there = (tuple(other[c % len(other)].tolist()),) * len(here)
            none, steps = (0,) * len(order), h[first:last].tolist()
            where = "between x = 0 and 1 at x" if kind == "seam" else f"in {kind[-1]} at"
            reason = (
                f"a is not smooth {where} = {show_point(here[-1])}: the difference quotient of "
                f"order {q} grows from {used[-RATES - 1]:.2g} to {used[-1]:.2g} as h shrinks "
                f"from {steps[-RATES - 1]:.1g} to {steps[-1]:.1g}"
            )
            in_x = kind != "kink in ξ"
            return Witness(
                kind, reason, none if in_x else order, order if in_x else none,
                here if in_x else there, there if in_x else here, tuple(used), tuple(steps),
                -1 - c // len(other),
            )  # fmt: skip
    return None


def _largest_window(values: Tensor, q: int) -> Tensor:
    """The largest |Δ^q| of neighbours, (..., 13) -> (...)."""
    return values.diff(n=q, dim=-1).abs().amax(dim=-1).nan_to_num(nan=0.0, posinf=0.0)


def _singular(quotients: Tensor, noise: Tensor) -> tuple[int, int, int] | None:
    """The order q whose quotients grow to the finest step, and the range of its levels."""
    first = 0
    for q, (row, floor) in enumerate(zip(quotients, noise, strict=True), start=1):
        visible = int((row[first:] > floor[first:]).long().cumprod(dim=0).sum())
        used = row[first : first + visible]
        if len(used) <= RATES:
            return None
        rates = ((used[1:] / used[:-1]).log() / math.log(SHRINK)).tolist()
        if min(rates[-RATES:]) > ROUGH:
            return q, first, first + visible
        if max(rates[-RATES:]) > SMOOTH:
            return None
        first += max((k + 1 for k, rate in enumerate(rates) if rate > SMOOTH), default=0)
    return None


def show_point(numbers: Sequence[float]) -> str:
    """Coordinates as text."""
    return "(" + ", ".join(f"{number:.12g}" for number in numbers) + ")"


# ---- Again, with more digits ----


def check(
    witness: Witness, probe: Probe, expression: Expression | None, order: float, digits: int = 50
) -> WitnessCheck:
    """The values of a witness from a(x, ξ) one by one, with many digits if the formula is known.

    Otherwise a has the 16 digits of its function, and the differences are exact.
    """
    import mpmath

    with mpmath.workdps(digits):
        value = _Value(probe, expression, witness.pair)
        again = [
            _again(witness, value, k, order)
            for k in range(len(witness.points) if witness.kind != "not finite" else 0)
        ]
    if witness.kind == "not finite":
        x, xi = (torch.tensor(p[:1]).double() for p in (witness.x, witness.points))
        finite = bool(torch.isfinite(torch.view_as_real(probe.table(x, xi, pairs=True))).all())
        return WitnessCheck(not finite, (), 16)
    close = [
        a == b or abs(a - b) <= 0.05 * abs(b) for a, b in zip(again, witness.values, strict=True)
    ]
    if witness.kind in ("growth", "differences"):
        grows = growth_tendency(again) == "growing"
    else:
        rates = [
            math.log(b / a, SHRINK) if a > 0 and b > 0 else 0.0
            for a, b in itertools.pairwise(again)
        ]
        grows = min(rates[-RATES:]) > ROUGH
    return WitnessCheck(grows and all(close[-RATES:]), tuple(again), digits if value.exact else 16)


class _Value:
    """a of one pair at one x and one ξ, as a number of mpmath."""

    def __init__(self, probe: Probe, expression: Expression | None, pair: int) -> None:
        import mpmath

        self.probe, self.expression, self.pair, self.mp = probe, expression, pair, mpmath
        self.exact = expression is not None
        self.known = dict[Any, Any]()

    def __call__(self, x: Sequence[Any], xi: Sequence[Any]) -> Any:
        key = tuple(x), tuple(xi)
        if key not in self.known:
            self.known[key] = self._value(x, xi)
        return self.known[key]

    def _value(self, x: Sequence[Any], xi: Sequence[Any]) -> Any:
        if self.probe.torus:
            x = [c - self.mp.floor(c) for c in x]
        if self.exact:
            assert self.expression is not None
            try:
                if not self.probe.acting:
                    return self._component(self.expression.on(Digits(x, xi)))
                here, there = (
                    self._component(self.expression.on(Digits(x, [s * c for c in xi])))
                    for s in (1, -1)
                )
                share = self.mp.mpf(int(self.mp.sign(xi[-1])) + 1) / 2
                return share * here + (1 - share) * self.mp.conj(there)
            except NotImplementedError:
                self.exact = False
        point = [torch.tensor([[float(c) for c in p]], dtype=torch.float64) for p in (x, xi)]
        number = self.probe.table(*point, pairs=self.pair >= 0)[:, 0, 0]
        return self.mp.mpmathify(complex(number[self.pair if self.pair >= 0 else -1 - self.pair]))

    def _component(self, values: Any) -> Any:
        if self.pair >= 0:
            return values[self.pair if len(values) > 1 else 0]
        weights = self.probe.weights[-1 - self.pair].tolist()
        return sum(self.mp.mpf(w) * v for w, v in zip(weights, values, strict=True))


def _again(witness: Witness, value: _Value, k: int, order: float) -> float:
    mp = value.mp
    h = mp.mpf(witness.steps[k])
    x, xi = [mp.mpf(c) for c in witness.x[k]], [mp.mpf(c) for c in witness.points[k]]
    if witness.kind in ("growth", "differences"):
        q = sum(witness.beta)
        shifts = (
            [
                (s * DERIVED, w / DERIVED**q)
                for s, w in zip(range(-2, 3), CENTRAL[q - 1], strict=True)
            ]
            if q
            else [(0.0, 1.0)]
        )
        offsets, weights = difference_weights([witness.alpha])
        total = mp.mpf(0)
        for (shift, factor), (offset, weight) in itertools.product(
            shifts, zip(offsets.tolist(), weights[:, 0].tolist(), strict=True)
        ):
            at = [c + mp.mpf(shift) * b / max(1, q) for c, b in zip(x, witness.beta, strict=True)]
            to = [c + h * o for c, o in zip(xi, offset, strict=True)]
            total += mp.mpf(factor) * weight * value(at, to)
        bracket = mp.sqrt(1 + sum(c * c for c in xi))
        return float(
            abs(total) / h ** sum(witness.alpha) * bracket ** (sum(witness.alpha) - order)
        )
    in_x = any(witness.beta)
    q, index = max(sum(witness.beta), sum(witness.alpha)), witness.beta if in_x else witness.alpha
    row = []
    for s in SPAN.tolist():
        moved = [c + h * s * b / q for c, b in zip(x if in_x else xi, index, strict=True)]
        row.append(value(moved, xi) if in_x else value(x, moved))
    for _ in range(q):
        row = [b - a for a, b in itertools.pairwise(row)]
    return float(max(abs(v) for v in row) / h**q)
