"""Counterexamples to a bound: growth along a sequence, and points where a is not smooth.

A symbol of order m obeys |Δ_h^α ∂_x^β a(x, ξ)| <= C h^|α| ⟨ξ⟩^{m-|α|} for every step h <= |ξ|/16.
Steps of 1 see ripples of the lattice, and rounding hides them far out; steps of |ξ|/16 see as far
as numbers go. So each is measured with h = 1, |ξ|^{1/2} and |ξ|/16.

Where f is smooth the quotients D_q(h) = |Δ_h^q f|/h^q tend to |f^(q)|. Where f^(r) jumps they grow
like h^{r-q} for q > r. A steep slope looks like a jump until h resolves it: D_q counts only for
steps below which D_{q-1} no longer changes.

What float64 shows is a witness only if it is so with 50 digits too, where no rounding is left.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from pdno.theory.digits import Digits, exact_digits
from pdno.theory.probe import EPSILON, RATIO, SHELLS, MultiIndex, Probe, difference_weights

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
DIGITS = 50
SLOW = 0.3  # growth, on the logarithmic scale, over four shells in terms of those before
SHARPER = 8  # levels below those of float64, by which a kink is confirmed
TRIED = 3  # sequences of each row that are computed with all digits


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
    pair: int  #: of channels, output by output; for kinks -1 - k for the k-th function
    order: float  #: m


@dataclass(frozen=True)
class WitnessCheck:
    """A witness recomputed with independent arithmetic."""

    confirmed: bool  #: whether the values are the same and grow, beyond float64 for kinks
    grows: bool  #: whether they grow, the same or not
    values: tuple[float, ...]
    digits: int


def growth_tendency(sizes: Sequence[float]) -> Tendency:
    """Whether weighted sizes of shells, from the origin outwards, stay bounded.

    What counts is the largest size up to each shell. It is level if it is the same over the last
    three shells, or its increments halve over four. It grows if it does so in almost every one of
    the last eight shells without slowing down, by a factor that even a logarithm makes. All else
    is unclear.
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

    def weighted(self, order: float) -> tuple[Tensor, Tensor]:
        """Sizes times ⟨ξ⟩^{|α|-m}, nan where rounding may hide more than was seen; near 0."""
        weights = _weights(self.xi, sum(self.alpha) - order)
        values, hidden = self.sizes * weights, self.floor * weights
        visible = torch.where(self.sizes > self.floor, values, 0.0)
        unseen = (self.sizes <= self.floor) & (self.sizes > 0)
        unseen &= hidden > 0.5 * visible.cummax(dim=1).values
        core = self.core * _weights(self.core_xi, sum(self.alpha) - order)
        return visible.masked_fill(unseen, math.nan), core

    def envelope(self, order: float) -> Tensor:
        """The largest weighted size in each shell, with that around the origin first, (1 + J,)."""
        values, core = self.weighted(order)
        start = core.max().reshape(1) if len(core) else torch.zeros(1)
        return torch.cat([start, values.nan_to_num(nan=0.0, posinf=math.inf).amax(dim=0)])

    def growing(self, order: float) -> tuple[list[tuple[int, int]], bool]:
        """The sequences that grow most, with their lengths, and whether others are unclear."""
        values, envelope = self.weighted(order)[0], self.envelope(order)
        lengths = SHELLS - values.isnan().flip(1).long().cumprod(dim=1).sum(dim=1)
        ends = values.nan_to_num(nan=0.0, posinf=1e300)
        last = ends[torch.arange(len(ends)), (lengths - 1).clamp_min(0)]
        growing, unclear = list[tuple[int, int]](), False
        for s in last.argsort(descending=True)[:12].tolist():
            n = int(lengths[s])
            series = values[s, :n].nan_to_num(nan=0.0, posinf=math.inf).tolist()
            both = growth_tendency(envelope[: n + 1].tolist()), growth_tendency(series)
            if n >= FEWEST and both == ("growing", "growing"):
                growing.append((s, n))
            else:
                unclear |= "level" not in both
        return growing[:TRIED], unclear or len(growing) > TRIED

    def candidates(
        self, probe: Probe, x: Tensor, order: float, growing: Sequence[tuple[int, int]]
    ) -> Iterator["Witness"]:
        """Those of the sequences whose growth goes on, at the pair and the x that are worst."""
        kind: Kind = "differences" if any(self.alpha) else "growth"
        for s, n in growing:
            xi, steps = self.xi[s, :n], self.steps[s, :n]
            sizes = quotients(probe, x, xi, steps, self.alpha, self.beta)  # (Q, P, n)
            pair, at = divmod(int(sizes[..., -1].nan_to_num(nan=math.inf).argmax()), len(x))
            values = (sizes[pair, at] * _weights(xi, sum(self.alpha) - order)).tolist()
            if self._goes_on(probe, x[at : at + 1], xi[-1:], values[-1], pair, order):
                places = _points(x[at : at + 1]) * n, _points(xi)
                numbers = tuple(values), tuple(steps.tolist())
                yield Witness(kind, "", self.alpha, self.beta, *places, *numbers, pair, order)

    def _goes_on(
        self, probe: Probe, x: Tensor, xi: Tensor, size: float, pair: int, order: float
    ) -> bool:
        """Whether wide steps, where they see the same, see it grow beyond the last shell."""

        def wide(xi: Tensor) -> Tensor:
            steps = (xi.norm(dim=-1) / PARTS).round().clamp_min(1.0)
            sizes = quotients(probe, x, xi, steps, self.alpha, self.beta)[pair, 0]
            weighted: Tensor = sizes.log() + (sum(self.alpha) - order) * xi.norm(dim=-1).log()
            return weighted.exp()

        if not (math.isfinite(size) and float(wide(xi)) > 0.25 * size):
            return True
        radii = torch.tensor(FAR, dtype=torch.float64)[:, None]
        sizes = wide((normalize(xi, dim=-1) * radii).round())
        numbers = sizes[~sizes.isnan()]
        return not len(numbers) or bool((numbers[-2:] > 1.05 * size).all())


def _weights(xi: Tensor, power: float) -> Tensor:
    """⟨ξ⟩^power."""
    return (power * (1 + xi.square().sum(dim=-1)).log() / 2).exp()


def _points(points: Tensor) -> tuple[Point, ...]:
    return tuple(map(tuple, points.tolist()))


def quotients(
    probe: Probe, x: Tensor, xi: Tensor, steps: Tensor, alpha: MultiIndex, beta: MultiIndex
) -> Tensor:
    """|Δ_h^α ∂_x^β a| / h^|α| of all pairs, (Q, P, n), β along one axis."""
    offsets, weights = difference_weights([alpha])
    points = (xi[:, None] + steps[:, None, None] * offsets).flatten(0, 1)
    q = sum(beta)
    shifts = torch.arange(-2, 3, dtype=torch.float64) * DERIVED if q else torch.zeros(1).double()
    axis = torch.tensor(beta).double() / max(1, q)
    near = (x[:, None] + shifts[:, None] * axis).flatten(0, 1)
    values = torch.unflatten(probe.table(near, points, pairs=True), -1, (len(xi), -1))
    values = torch.unflatten(values, 1, (len(x), -1)) @ weights[:, 0].to(values.dtype)
    along = torch.tensor(CENTRAL[q - 1] if q else (1.0,)).to(values.dtype) / DERIVED**q
    sizes: Tensor = (values * along[:, None]).sum(dim=2).abs() / steps ** sum(alpha)
    return sizes


def measure(
    probe: Probe, x: Tensor, sequences: Tensor, core: Tensor, indices: Sequence[MultiIndex]
) -> list[Sizes]:
    """All differences along sequences with three rules for h, and two derivatives in x."""
    flat, shape = sequences.flatten(0, 1), sequences.shape[:2]
    radius, none, rows = flat.norm(dim=-1), (0,) * probe.dim, list[Sizes]()
    change = _change(probe, x, flat).reshape(shape)
    at, _ = probe.differences(x, core, torch.ones(len(core)).double(), indices)
    for rule, wish in enumerate((torch.ones_like(radius), radius.sqrt(), radius / PARTS)):
        steps = wish.round().clamp_min(1.0)
        sizes, around = probe.differences(x, flat, steps, indices)
        sizes, around = torch.unflatten(sizes, -1, shape), around.reshape(shape)
        h = steps.reshape(shape)
        if rule == 0:
            change = torch.minimum(change, 2 * math.pi * radius.reshape(shape) * around)
        noise = (NOISE * (around + change)).nan_to_num(nan=0.0, posinf=0.0)
        for k, alpha in enumerate(indices):
            if sum(alpha) or not rule:
                floor = noise * (2 / h) ** sum(alpha)
                rows.append(Sizes(alpha, none, rule, sequences, h, sizes[k], floor, at[k], core))
    return rows + (_in_x(probe, x, sequences, noise, core) if probe.depends_on_x else [])


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
    rows, none, ones = list[Sizes](), (0,) * probe.dim, torch.ones(noise.shape)
    offsets = torch.arange(-2, 3, dtype=torch.float64) * DERIVED
    weights = torch.tensor(CENTRAL, dtype=torch.complex128)
    inside = x if probe.torus else x.clamp(2 * DERIVED, 1 - 2 * DERIVED)
    for axis in torch.eye(probe.dim, dtype=torch.float64):
        near, parts = (inside[:, None] + offsets[:, None] * axis).flatten(0, 1), list[Tensor]()
        both = torch.cat([sequences.flatten(0, 1), core])
        for part in torch.split(both, max(1, 2**16 // len(near))):
            values = torch.unflatten(probe.table(near, part), 1, (len(x), 5))
            sums = torch.einsum("kpsm,qs->qkpm", values, weights).abs().amax(dim=(1, 2))
            parts.append(sums.nan_to_num(nan=math.inf))
        sizes = torch.cat(parts, dim=1) / DERIVED ** torch.tensor([[1.0], [2.0]])
        far, at = torch.split(sizes, [noise.numel(), len(core)], dim=1)
        far = far.reshape(2, *noise.shape)
        waves = far[1] > RESOLVED * 5 * noise / (NOISE * DERIVED**2)
        for k, q in enumerate((1, 2)):
            floor = torch.where(waves, math.inf, noise * 4 / DERIVED**q)
            beta = tuple(int(q * side) for side in axis.tolist())
            rows.append(Sizes(none, beta, 0, sequences, ones, far[k], floor, at[k], core))
    return rows


# ---- Kinks and seams ----


@dataclass(frozen=True)
class Section:
    """a over its size as a function of ξ alone, at some x, or of x alone, at some ξ."""

    probe: Probe
    in_x: bool
    other: Tensor  # the fixed ξ, or x
    sizes: Tensor  # of a there
    unit: float  # of length

    def __call__(self, points: Tensor) -> Tensor:
        """All functions at points (M, d), those of one of the others side by side, (C, M)."""
        if self.in_x:
            return (self.probe.table(points, self.other) / self.sizes).movedim(1, -1).flatten(0, 1)
        return self.probe.table(self.other, points).flatten(0, 1)


def find_kinks(probe: Probe, x: Tensor, *, real: bool) -> Iterator[Witness]:
    """Kinks in ξ, if a is assessed on R^n, and in x, and the seam on the torus."""
    dim = probe.dim
    if real:
        radius = 8.0 * float(probe.scale.max())
        section = Section(probe, False, x[:2], torch.ones(len(x[:2])), radius)
        yield from _zoom(section, radius * (2 * probe.uniform(1024, dim) - 1), "kink in ξ")
    if not probe.depends_on_x:
        return
    directions = normalize(probe.normal(3, dim), dim=-1)
    xi = torch.cat([r * directions * probe.scale for r in (1.0, 7.0, 60.0, 1e3, 1e5)]).round()
    sizes = probe.table(x, xi).abs().nan_to_num(nan=0.0, posinf=0.0).amax(dim=(0, 1))
    section = Section(probe, True, xi[sizes > 0], sizes[sizes > 0], 1.0)
    if not len(section.other):
        return
    for axis in torch.eye(dim, dtype=torch.float64) if probe.torus else ():
        centres = (probe.uniform(8, dim) * (1 - axis)).expand(LEVELS, -1, -1)
        yield from _singular_at(section, centres, axis, "seam")
    drawn = probe.uniform(1024, dim)
    yield from _zoom(section, drawn if probe.torus else 0.2 + 0.6 * drawn, "kink in x")


def _zoom(section: Section, starts: Tensor, kind: Kind) -> Iterator[Witness]:
    """Towards the points where differences of order 2 or 4 are largest, for smaller steps."""
    axes, unit = torch.eye(starts.shape[1], dtype=torch.float64), section.unit

    def strength(points: Tensor, h: float, q: int) -> Tensor:
        """|Δ_h^q f| along each axis, (d, M)."""
        stencil = torch.arange(q + 1, dtype=torch.float64)[:, None] - q / 2
        near = torch.stack([points[:, None] + h * unit * stencil * axis for axis in axes])
        values = torch.unflatten(section(near.flatten(0, 2)), -1, near.shape[:3])
        sizes = values.diff(n=q)[..., 0].abs().amax(dim=0)
        return sizes.nan_to_num(nan=0.0, posinf=0.0)

    for q in (2, 4):
        first = strength(starts, WIDEST, q)
        for axis, direction in enumerate(axes):
            centre, levels = starts[first[axis].topk(4).indices], []
            for level in range(LEVELS):
                h = WIDEST / SHRINK**level
                drawn = 2 * section.probe.uniform(4, min(96, 4 ** (len(axes) + 1)), len(axes)) - 1
                near = torch.cat([centre[:, None], centre[:, None] + 2 * h * unit * drawn], dim=1)
                sizes = strength(near.flatten(0, 1), h / 2, q)[axis].reshape(4, -1)
                centre = near[torch.arange(4), sizes.argmax(dim=1)]
                levels.append(centre)
            yield from _singular_at(section, torch.stack(levels), direction, kind)


def _singular_at(section: Section, centres: Tensor, axis: Tensor, kind: Kind) -> Iterator[Witness]:
    """Where quotients D_q around centres (levels, S, d) grow as steps along an axis shrink."""
    h = section.unit * WIDEST / SHRINK ** torch.arange(len(centres), dtype=torch.float64)
    points = centres[:, :, None] + (h[:, None, None, None] * SPAN[:, None]) * axis
    # (C, levels, S, 13)
    values = torch.unflatten(section(points.flatten(0, 2)), -1, points.shape[:3])
    size = values.abs().amax(dim=(1, 2, 3)).clamp_min(1e-300)
    powers = torch.arange(1, HIGHEST + 1)[:, None]
    for start in range(centres.shape[1]):
        for c in values[:, :, start].var(dim=(1, 2)).argsort(descending=True)[:3].tolist():
            rows = [_largest_window(values[c, :, start], q) for q in range(1, HIGHEST + 1)]
            sizes = torch.stack(rows).nan_to_num(nan=0.0, posinf=0.0) / h**powers
            rough = _singular(sizes, BEYOND_ROUNDING * 4 * EPSILON * size[c] * (2 / h) ** powers)
            if rough is None:
                continue
            q, first, last = rough
            pair, at = divmod(c, len(section.other))
            here = _points(centres[first:last, start])
            there = _points(section.other[at : at + 1]) * len(here)
            index, none = tuple(int(q * k) for k in axis.tolist()), (0,) * len(axis)
            places = (none, index, here, there) if section.in_x else (index, none, there, here)
            values_there = (float(section.sizes[at]) * sizes[q - 1, first:last]).tolist()
            numbers = tuple(values_there), tuple(h[first:last].tolist())
            yield Witness(kind, "", *places, *numbers, -1 - pair, 0.0)
            return


def _largest_window(values: Tensor, q: int) -> Tensor:
    """The largest |Δ^q| of neighbours, (..., 13) -> (...)."""
    return values.diff(n=q, dim=-1).abs().amax(dim=-1)


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


# ---- Without rounding ----


@torch.no_grad()
def check(witness: Witness, probe: Probe, digits: int = DIGITS) -> WitnessCheck:
    """The values of a witness, and whether they grow, with so many digits; else `NoDigits`."""
    x, xi = (torch.tensor(points, dtype=torch.float64) for points in (witness.x, witness.points))
    steps = torch.tensor(witness.steps, dtype=torch.float64)
    with exact_digits(digits) as exact:
        exact.follow(x, xi, steps)
        if witness.kind == "not finite":
            numbers = exact.read(probe.table(x, xi, pairs=True)).flatten()
            finite = all(bool(torch.isfinite(torch.tensor(complex(n)).abs())) for n in numbers)
            return WitnessCheck(not finite, not finite, (), digits)
        if witness.kind in ("growth", "differences"):
            alpha, power = witness.alpha, sum(witness.alpha) - witness.order
            sizes = quotients(probe, x[:1], xi, steps, alpha, witness.beta)[witness.pair, 0]
            weights = (1 + xi.square().sum(dim=-1)) ** (power / 2)
            values = tuple(float(n) for n in exact.read(sizes * weights))
            grows = growth_tendency(values) == "growing" and not _slows(values)
        else:
            q, axis = _order_and_axis(witness)
            at, other = (x, xi[:1]) if any(witness.beta) else (xi, x[:1])
            sizes = _windows(probe, witness, at, other, steps[:, None] * axis) / steps**q
            values = tuple(float(n) for n in exact.read(sizes))
            grows = _grows_on(probe, witness, exact, at[-1:], other, steps[-1:])
    pairs = list(zip(values, witness.values, strict=True))[-RATES:]
    close = all(a == b or abs(a - b) <= 0.05 * abs(b) for a, b in pairs)
    return WitnessCheck(grows and close, grows, values, digits)


def _order_and_axis(witness: Witness) -> tuple[int, Tensor]:
    """q and the direction of the quotients of a kink."""
    index = witness.beta if any(witness.beta) else witness.alpha
    return sum(index), torch.tensor(index, dtype=torch.float64) / sum(index)


def _windows(probe: Probe, witness: Witness, at: Tensor, other: Tensor, step: Tensor) -> Tensor:
    """The largest |Δ^q| around points (L, d) of a kink's function, steps (L or 1, d)."""
    points = (at[:, None] + step[:, None] * SPAN[:, None]).flatten(0, 1)
    pairs = (points, other) if any(witness.beta) else (other, points)
    values = probe.table(*pairs)[-1 - witness.pair].reshape(len(at), len(SPAN))
    return _largest_window(values, _order_and_axis(witness)[0])


def _grows_on(
    probe: Probe, witness: Witness, exact: Digits, centre: Tensor, other: Tensor, h: Tensor
) -> bool:
    """Whether quotients grow below the steps of float64 too, towards where they are largest."""
    (q, axis), sizes, seam = _order_and_axis(witness), [], witness.kind == "seam"
    for _ in range(SHARPER):
        h = h / SHRINK
        for direction in torch.eye(len(axis), dtype=torch.float64)[: 1 if seam else None]:
            # along the axis what the last window held, beside it what its centre left open
            reach, step = (24.0, 8.0) if bool(direction @ axis) else (4.0, 2.0)
            offsets = torch.arange(-reach, reach + 1, step, dtype=torch.float64)
            offsets = offsets[:1] * 0 if seam else offsets  # the place of a seam is known
            near = centre + h * offsets[:, None] * direction
            numbers = exact.read(_windows(probe, witness, near, other, h * axis[None]) / h**q)
            best = max(range(len(near)), key=lambda k: numbers[k])
            centre = near[best : best + 1]
        sizes.append(max(numbers))
    if not (sizes[0] > 0 and sizes[-1] > 0):
        return False
    log = math.log(float(sizes[-1] / sizes[0]), SHRINK)
    return log > ROUGH * (SHARPER - 1)


def _slows(values: Sequence[float]) -> bool:
    """Whether exact values come to rest, as those of a steep slope do once steps resolve it."""
    most = list(itertools.accumulate(values, max))
    if len(most) < 9 or not 0 < most[-9] <= most[-1] < math.inf:
        return False
    return math.log(most[-1] / most[-5]) < SLOW * math.log(most[-5] / most[-9])


@torch.no_grad()
def _narrowed(witness: Witness, probe: Probe) -> Witness:
    """The last shells with unit steps, where they see most of what wider steps see.

    Δ_h^α is a sum of Δ_1^α in its box, so one of these is as large in terms of h^|α|. Only their
    growth contradicts the class whatever the scale of the function.
    """
    x, xi = (torch.tensor(points, dtype=torch.float64) for points in (witness.x, witness.points))
    xi, steps = xi[-10:], torch.tensor(witness.steps[-10:], dtype=torch.float64)
    sides = [torch.arange(3.0 * power + 1) for power in witness.alpha]
    grid = torch.cartesian_prod(*sides).reshape(-1, len(sides)).double()
    with exact_digits(DIGITS) as exact:
        while float(steps.max()) > 1:
            steps = (steps / SHRINK).ceil()
            near = (xi[:, None] + steps[:, None, None] * grid).flatten(0, 1)
            exact.follow(near)
            wide = steps.repeat_interleave(len(grid))
            sizes = quotients(probe, x[:1], near, wide, witness.alpha, witness.beta)
            rows = exact.read(sizes[witness.pair, 0]).reshape(len(xi), -1).tolist()
            best = torch.tensor([max(range(len(row)), key=row.__getitem__) for row in rows])
            xi = near.reshape(len(xi), len(grid), -1)[torch.arange(len(xi)), best]
    ones = (1.0,) * len(xi)
    return replace(witness, x=witness.x[-10:], points=_points(xi), steps=ones, values=ones)


def confirmed(witness: Witness, probe: Probe) -> Witness | None:
    """A witness with its exact values and its reason, if they grow; else `NoDigits` or None."""
    if witness.kind == "differences" and max(witness.steps) > 1:
        witness = _narrowed(witness, probe)
    again = check(witness, probe)
    if not again.grows:
        return None
    witness = replace(witness, values=again.values)
    return replace(witness, reason=_reason(witness))


def _reason(witness: Witness) -> str:
    """A counterexample in words."""
    values, steps, last = witness.values, witness.steps, show_point(witness.points[-1])
    if witness.kind == "not finite":
        return f"a is not finite at ξ = {last}: define its value there"
    if witness.kind not in ("growth", "differences"):
        in_x = any(witness.beta)
        where = "between x = 0 and 1 at x" if witness.kind == "seam" else f"in {'ξx'[in_x]} at"
        here = show_point(witness.x[-1]) if in_x else last
        return (
            f"a is not smooth {where} = {here}: the difference quotient of order "
            f"{_order_and_axis(witness)[0]} grows from {values[-RATES - 1]:.2g} to "
            f"{values[-1]:.2g} as h shrinks from {steps[-RATES - 1]:.1g} to {steps[-1]:.1g}"
        )
    radius, bound = [math.hypot(*point) for point in witness.points], sum(witness.alpha)
    tail, power = max(0, len(values) - 6), witness.order - bound
    gain = math.log(max(values[-1], 1e-300)) - math.log(max(values[tail], 1e-300))
    speed = gain / math.log(radius[-1] / radius[tail]) + power
    how = f"like |ξ|^{speed:.2f}" if speed < EVERY_POWER else "faster than every power"
    name = f"Δ^{show_point(witness.alpha)} " if bound else ""
    name += f"∂_x^{show_point(witness.beta)} " if any(witness.beta) else ""
    middle, here = len(values) // 2, show_point(witness.x[-1])
    return (
        f"|{name}a| {'grows' if speed > 0.05 else 'behaves'} {how}, and the bound is "
        f"|ξ|^{power:g}: its weighted size is {values[middle]:.2g} at |ξ| = {radius[middle]:.2g} "
        f"and {values[-1]:.2g} at |ξ| = {radius[-1]:.2g}, x = {here}, ξ = {last}"
    )


def show_point(numbers: Sequence[float]) -> str:
    """Coordinates as text."""
    return "(" + ", ".join(f"{number:.12g}" for number in numbers) + ")"
