"""Is a symbol in S^m_{1,0}? Evidence for it, or the ray that speaks against.

    |Δ_ξ^α ∂_x^β a(x, ξ)| <= C_αβ ⟨ξ⟩^{m-|α|},     x ∈ T^n, ξ ∈ Z^n,     ⟨ξ⟩ = (1 + |ξ|²)^{1/2}

For the boundedness of the operator |α| <= k, the least integer above n/2, is enough (theorem 2);
|α| <= k + 1 and |β| <= 2 are judged. A refusal comes with a witness. An acceptance is no proof: it
says that nothing was found where it was looked for. `symbols.classical` has symbols with a proof.

    growth        |a|, or an x-derivative of it, grows faster than |ξ|^m
    differences   Δ^α a does not decay as it should along some ray
    kink in ξ     a is not smooth as a function on R^n
    kink in x     a is not smooth in x
    seam          a does not fit together at x = 0 and x = 1, so it is not smooth on the torus

A bound is broken where the exponent μ of |Δ^α ∂_x^β a| is above m - |α|, and the growth is seen up
to the outermost shell, or has led to values twice as large as everything nearer to the origin.
Networks are judged on R^n unless asked otherwise, because that is where the claim about them is
made; formulas, tables and functions on the lattice (docs/theory_symbol_classes.md).
"""

__all__ = ["Certificate", "Witness", "certify"]

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypedDict, Unpack

import torch
from torch import Tensor

from pdno.symbols.base import Symbol
from pdno.symbols.separated import SeparatedSymbol
from pdno.theory.measurement import RATIO, TOLERANCE, Measurement, measure
from pdno.theory.probe import AnySymbol, Factor, MultiIndex, Probe, make_probe, multi_indices

Indices = tuple[MultiIndex, MultiIndex]
Kind = Literal["growth", "differences", "kink in ξ", "kink in x", "seam"]

GROWN, LINES = 2.0, 16
EDGE = 8.0  # kinks in ξ are looked for where |ξ_j| is below that many scales
COARSE, FINE, ZOOMS = 128, 32, 4
FACTOR = FINE / 4  # a window reaches two spacings to both sides
SEEN = 1e3 * torch.finfo(torch.float64).eps
SEAM_SPACING, SEAM_TOLERANCE = 1 / 2048, 1e-2
# value and derivatives from one side, third order, at 0, h, .., 4h
_ONE_SIDED = (
    (1.0, 0.0, 0.0, 0.0, 0.0),
    (-11 / 6, 3.0, -3 / 2, 1 / 3, 0.0),
    (35 / 12, -26 / 3, 19 / 2, -14 / 3, 11 / 12),
)


@dataclass(frozen=True)
class Witness:
    """What breaks a bound."""

    kind: Kind  #: which condition of the class fails
    reason: str  #: in words
    alpha: MultiIndex  #: of the difference
    beta: MultiIndex  #: of the x-derivative
    points: tuple[tuple[float, ...], ...]  #: frequencies of a ray; the place of a kink or seam
    #: |Δ^α ∂_x^β a| ⟨ξ⟩^{|α|-m} at these points; for kinks the second difference quotients as the
    #: step shrinks, for seams the jump
    values: tuple[float, ...]
    step: int = 1  #: h of the differences Δ_h^α / h^|α|


@dataclass(frozen=True)
class Certificate:
    """The verdict on a symbol, with what it rests on."""

    accepted: bool  #: whether nothing speaks against S^m_{1,0}
    asked: float  #: m
    order: float  #: the exponent of |a| itself; -inf for faster decay than every power
    dim: int  #: n
    seminorms: Mapping[Indices, float]  #: sup |Δ^α ∂_x^β a| ⟨ξ⟩^{|α|-m} where visited, by (α, β)
    growth: Mapping[Indices, float]  #: exponents of |Δ^α ∂_x^β a|; -inf where nothing is seen
    periodic: bool | None  #: whether a fits together at x = 0 and 1; None without x
    smooth: bool  #: whether no kink or jump was found inside
    witnesses: tuple[Witness, ...]  #: everything that speaks against it, the first of each kind
    reasons: tuple[str, ...]  #: the verdict in words
    radii: tuple[float, ...]  #: |ξ| in the middle of each shell
    curves: Mapping[int, tuple[float, ...]]  #: largest |Δ^α a| ⟨ξ⟩^{|α|-m} in each shell, by |α|

    #: makes the figure: `pdno.report` is a layer above, so `pdno` and the command line hand it in
    draw: ClassVar[Callable[..., Any] | None] = None

    @property
    def witness(self) -> Witness | None:
        """The first thing that speaks against it."""
        return self.witnesses[0] if self.witnesses else None

    def plot(self) -> Any:
        """Weighted differences against |ξ|: level or falling curves are those of the class."""
        draw = type(self).draw
        if draw is None:
            raise RuntimeError(
                "Certificate.draw is None, so nothing draws yet: take certify from pdno, as in "
                "pdno.certify(...).plot()"
            )
        first, ray = self.witness, list[tuple[float, float]]()
        if first is not None and first.kind in ("growth", "differences"):
            ray = list(zip((math.hypot(*p) for p in first.points), first.values, strict=True))
        title = f"{'In' if self.accepted else 'Not in'} S^{self.asked:g}, n = {self.dim}"
        return draw(title, self.radii, self.curves, witness=ray)

    def __str__(self) -> str:
        """The verdict and its reasons, one a line."""
        verdict = "accepted" if self.accepted else "refused"
        title = f"S^{self.asked:g}_{{1,0}}, n = {self.dim}: {verdict}; order {self.order:.2f}"
        return "\n- ".join([title, *self.reasons])


class _Rare(TypedDict, total=False):
    """Arguments of `certify` that are seldom needed; `make_probe` takes them."""

    acting: bool
    frequency_scale: float | Sequence[float] | None
    shells: int
    generator: torch.Generator | None


@torch.no_grad()
def certify(
    symbol: AnySymbol,
    order: float | None = None,
    *,
    dim: int | None = None,
    t: float | None = None,
    space: Literal["torus", "box"] = "torus",
    frequencies: Literal["integer", "real"] | None = None,
    **rare: Unpack[_Rare],
) -> Certificate:
    """Judge whether a symbol is in S^m_{1,0}(T^n x Z^n), all channel pairs at once.

    Arguments:
        symbol: Any symbol, or a function a(x, ξ) from x (P, 1, d) and ξ (1, M, d) to (P, M) or
            (O, I, P, M).
        order: m; None takes the order that is fitted.
        dim: n, for functions and formulas that do not know it.
        space: "torus", or "box" to judge smoothness inside of the box only.
        frequencies: "real" asks for smoothness on R^n as well, "integer" does not. None means
            "real" for networks, else "integer".
        acting: Whether to judge the part that acts on real functions (see `theory.probe`).
        frequency_scale: Unit of ξ, for functions; networks bring their own. One that has not
            settled its own yet is judged in this unit, or in 1: the class does not depend on it.
        shells: J, 10 by default: frequencies go up to 4^(J + 1) units.
        generator: Draws points and directions.

    Example:
        >>> from pdno.symbols import Resolvent
        >>> certificate = certify(Resolvent(), order=-2, dim=2)
        >>> certificate.accepted, round(certificate.order, 2)
        (True, -2.0)
    """
    if isinstance(symbol, SeparatedSymbol) and not symbol.scale.chosen:
        rare["frequency_scale"] = rare.get("frequency_scale") or 1.0
    probe = make_probe(symbol, dim=dim, t=t, **rare)
    if frequencies == "real" and probe.only_integers:
        raise ValueError(
            "this symbol lives on the lattice: give frequencies='integer', or leave it out"
        )
    by_default = isinstance(symbol, SeparatedSymbol) and not probe.only_integers
    measurements = measure(probe, probe.dim // 2 + 2)  # k + 1
    kinks, seam = _find_kinks(probe, by_default if frequencies is None else frequencies == "real")
    first = measurements[0]
    fitted = first.growth[0, 0].exponent
    asked = order if order is not None else fitted if math.isfinite(fitted) else 0.0
    broken = max((_find_violations(each, asked) for each in measurements), key=len)
    witnesses = (*broken, *kinks, *([seam] if seam and space == "torus" else []))
    seminorms, growth = _by_indices(first, asked)
    return Certificate(
        not witnesses,
        asked,
        fitted,
        probe.dim,
        seminorms,
        growth,
        seam is None if probe.depends_on_x else None,
        not kinks,
        witnesses,
        (*(witness.reason for witness in witnesses), *_remarks(symbol, probe, first)),
        tuple(float(2 * RATIO**j * probe.scale.mean()) for j in range(1, probe.shells + 1)),
        _curves(measurements[-1], asked),
    )


def _by_indices(seen: Measurement, order: float) -> tuple[dict[Indices, float], ...]:
    """Seminorms and exponents by (α, β); a symbol without x has no x-derivatives."""
    seminorms, growth = dict[Indices, float](), dict[Indices, float]()
    for row, a in enumerate(seen.alphas):
        for column, b in enumerate(multi_indices(len(a), 2)):
            known = column < len(seen.betas)
            seminorms[a, b] = seen.seminorm(row, column, order) if known else 0.0
            growth[a, b] = seen.growth[row, column].exponent if known else -math.inf
    return seminorms, growth


def _curves(measurement: Measurement, order: float) -> dict[int, tuple[float, ...]]:
    curves: dict[int, Tensor] = {}
    for row, alpha in enumerate(measurement.alphas):
        shown = measurement.weighted(row, 0, order)[0].amax(dim=0)
        shown[measurement.growth[row, 0].last + 1 :] = math.nan
        curves[sum(alpha)] = torch.fmax(shown, curves.get(sum(alpha), shown))
    return {total: tuple(curve.tolist()) for total, curve in curves.items()}


def _remarks(symbol: AnySymbol, probe: Probe, measurement: Measurement) -> list[str]:
    """What a reader of the verdict should know besides."""
    remarks, support = [], probe.support
    if support is not None:
        largest = measurement.core[:, 0].amax(dim=-1) / measurement.core[0, 0].max()
        rows = [row for row, alpha in enumerate(measurement.alphas) if sum(alpha) == 1]
        remarks.append(
            f"a table: zero where some |ξ_j| > {support}, so it is of every order, with constants "
            f"that hold for these modes only. Neighbours differ by up to "
            f"{float(largest[rows].max()):.2g} times the largest entry; for a smooth function of "
            f"ξ/{support} that is {math.pi / support:.2g}"
        )
    elif measurement.growth[0, 0].exponent == -math.inf:
        remarks.append("a decays faster than every power of |ξ|, so it is of every order")
    if isinstance(symbol, Symbol) and probe.dim > 1 and not probe.only_integers:
        some = torch.tensor([[1.0, 2.0, -3.0], [5.0, -1.0, 2.0]])[:, : probe.dim]
        xi = (probe.scale * some).round()
        here, there = probe.values(xi), probe.values(-xi).conj()
        if bool((here - there).abs().max() > 1e-9 * here.abs().max()):
            remarks.append(
                "a(x, -ξ) is not conj a(x, ξ): on real functions its Hermitian completion acts, "
                "which jumps at ξ_n = 0; judge that with acting=True"
            )
    return remarks


def _find_violations(measurement: Measurement, order: float) -> list[Witness]:
    """A witness for each |α| whose bound is broken; for |α| = 0 no others."""
    witnesses: dict[int, Witness] = {}
    pairs = itertools.product(range(len(measurement.betas)), range(len(measurement.alphas)))
    for beta, alpha in pairs:
        total = sum(measurement.alphas[alpha])
        found = None if total in witnesses else _judge(measurement, alpha, beta, order)
        if found is not None:
            witnesses[total] = found
    return [witnesses[total] for total in sorted(witnesses) if total == 0 or 0 not in witnesses]


def _judge(measurement: Measurement, alpha: int, beta: int, order: float) -> Witness | None:
    """The ray where the bound of |Δ^α ∂_x^β a| is broken, or None."""
    exponent, last, to_the_end = measurement.growth[alpha, beta]
    a, b = measurement.alphas[alpha], measurement.betas[beta]
    if exponent <= order - sum(a) + TOLERANCE:
        return None
    rays, core = measurement.weighted(alpha, beta, order)
    # a unit w·ξ + b of one frequency with a tiny w is constant for long before it decays
    before = max(core, float(rays[:, :last].max()) if last else 0.0)
    if not to_the_end and float(rays[:, last].max()) <= GROWN * before:
        return None
    outer = rays[:, max(0, last - 3) : last + 1]
    ray = int(outer.clamp(1e-300, 1e300).log().sum(dim=1).argmax())  # large all along
    xi, values = measurement.points[ray, : last + 1], rays[ray, : last + 1]
    name = f"Δ^{_show(a)} " if sum(a) else ""
    name += f"∂_x^{_show(b)} " if sum(b) else ""
    speed = "faster than every power" if exponent == math.inf else f"like |ξ|^{exponent:.2f}"
    middle, radius = len(xi) // 2, xi.norm(dim=-1)
    reason = (
        f"|{name}a| {'grows' if exponent > 0.05 else 'behaves'} {speed}, and the bound is "
        f"|ξ|^{order - sum(a):g}: its weighted size is {float(values[middle]):.2g} at "
        f"|ξ| = {float(radius[middle]):.2g} and {float(values[-1]):.2g} at "
        f"|ξ| = {float(radius[-1]):.2g}, ξ = {_show(xi[-1].tolist())}"
    )
    points = tuple(tuple(point) for point in xi.tolist())
    kind: Kind = "differences" if sum(a) else "growth"
    return Witness(kind, reason, a, b, points, tuple(values.tolist()), measurement.step)


def _find_kinks(probe: Probe, real: bool) -> tuple[list[Witness], Witness | None]:
    """Kinks in ξ, if a is judged on R^n, and in x; the seam."""
    draw, found = probe.generator, list[Witness | None]()
    if real:
        unit = 2 * torch.rand(2, LINES, probe.dim, generator=draw) - 1
        lines = EDGE * unit * probe.scale
        found.append(_find_kink("kink in ξ", lambda xi: probe.values(xi).flatten(0, 1), lines))
    seam = None
    if probe.depends_on_x:
        lines = torch.rand(2, LINES, probe.dim, generator=draw, dtype=torch.float64)
        found.append(_find_kink("kink in x", probe.along, lines))
        seam = _find_seam(probe)
    return [kink for kink in found if kink is not None], seam


def _find_kink(kind: Kind, function: Factor, lines: Tensor) -> Witness | None:
    """The worst kink or jump of a function, (M, d) -> (functions, M), on lines (2, L, d), or None.

    Where f is smooth, |f(p + h) - 2 f(p) + f(p - h)| / h² tends to |f''(p)| as h -> 0. At a kink
    it grows like 1/h, at a jump like 1/h². So its largest value is looked for on a coarse set of
    points, then again around it with an eighth of the spacing, and so on.
    """
    starts, across = lines[0], lines[1] - lines[0]
    low, high = torch.zeros(len(starts), 1).double(), torch.ones(len(starts), 1).double()
    spacings, quotients = [], []
    for count in (COARSE, *[FINE] * ZOOMS):
        unit = torch.linspace(0, 1, count + 1, dtype=torch.float64)
        places = low + (high - low) * unit
        points = starts[:, None] + places[..., None] * across[:, None]
        values = function(points.flatten(0, 1))
        values = values.reshape(len(values), *places.shape)
        seconds = (values[..., 2:] - 2 * values[..., 1:-1] + values[..., :-2]).abs().amax(dim=0)
        largest, place = seconds.max(dim=-1)
        h = (high - low)[:, 0] / count
        spacings.append(h * across.norm(dim=-1))
        quotients.append(largest / spacings[-1].square())
        centre = torch.gather(places, 1, place[:, None] + 1)
        low, high = centre - 2 * h[:, None], centre + 2 * h[:, None]
    seen = largest > SEEN * values.abs().amax(dim=(0, 2))
    history = torch.stack(quotients)
    rates = (history[1:] / history[:-1].clamp_min(1e-300)).log() / math.log(FACTOR)
    rough = seen & (rates[-1] > 0.7) & (rates[-2] > 0.7)
    if not bool(rough.any()):
        return None
    worst = int(torch.where(rough, history[-1], 0.0).argmax())
    point = tuple((starts[worst] + 0.5 * (low + high)[worst] * across[worst]).tolist())
    growth = tuple(history[:, worst].tolist())
    rate = math.log(growth[-1] / growth[-3]) / (2 * math.log(FACTOR))  # 1 at a kink, 2 at a jump
    reason = (
        f"a has a {'kink' if rate < 1.5 else 'jump'} in {kind[-1]} at {_show(point)}: the second "
        f"difference quotient is {growth[-2]:.2g} with the step {float(spacings[-2][worst]):.1g} "
        f"and {growth[-1]:.2g} with {float(spacings[-1][worst]):.1g}"
    )
    none = (0,) * len(point)
    return Witness(kind, reason, none, none, (point,), growth)


def _find_seam(probe: Probe) -> Witness | None:
    """The first jump between x_j = 0 and x_j = 1 of a or of two derivatives, or None.

    On the torus x = 1 is x = 0: values and one-sided derivatives of both sides are compared.
    """
    inside = 0.9 * torch.rand(16, probe.dim, generator=probe.generator, dtype=torch.float64)
    for axis, normal in enumerate(torch.eye(probe.dim, dtype=torch.float64)):
        left = inside * (1 - normal)
        here = _one_sided(probe.along, left, normal)
        there = _one_sided(probe.along, left + normal, -normal)
        around = _one_sided(probe.along, inside, normal)
        values = around[0].abs().amax()
        around[0] -= around[0].mean(dim=-1, keepdim=True)  # what varies, not what is large
        for order, name in enumerate(("a", "∂a", "∂²a")):
            jump, place = (here - there)[order].abs().amax(dim=0).max(dim=0)
            size = float(around[order].abs().amax())
            rounding = SEEN * float(values) / SEAM_SPACING**order
            if float(jump) > SEAM_TOLERANCE * size + rounding:
                along = f"/∂x_{axis + 1}" if order else ""
                reason = (
                    f"a is not smooth on the torus: {name}{along} jumps by {float(jump):.2g} "
                    f"between x_{axis + 1} = 0 and 1; inside it varies by {size:.2g}"
                )
                beta = tuple((order * normal).int().tolist())
                point = tuple(left[int(place)].tolist())
                none = (0,) * probe.dim
                return Witness("seam", reason, none, beta, (point,), (float(jump),))
    return None


def _one_sided(function: Factor, x: Tensor, direction: Tensor) -> Tensor:
    """Value and two derivatives along +-e_j at x (P, d), from that side: (3, functions, P)."""
    rows = torch.tensor(_ONE_SIDED, dtype=torch.float64)
    steps = SEAM_SPACING * torch.arange(rows.shape[1], dtype=torch.float64)
    points = x[:, None] + steps[:, None] * direction
    values = function(points.flatten(0, 1))
    values = values.reshape(len(values), *points.shape[:2])
    h = float(direction.sum()) * SEAM_SPACING
    return torch.stack([values @ (row / h**k).to(values.dtype) for k, row in enumerate(rows)])


def _show(numbers: Sequence[float]) -> str:
    return "(" + ", ".join(f"{number:.12g}" for number in numbers) + ")"
