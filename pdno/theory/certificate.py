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

A bound is broken where the exponent μ of |Δ^α ∂_x^β a| is above m - |α|. Two things keep small
effects from being taken for it: the growth must be seen up to the outermost shell, or have led to
values twice as large as everything nearer to the origin. (A unit w·ξ + b of one frequency with a
tiny w is constant for long before it decays.)

By theorem 1 a function on the lattice is in the class if and only if *some* smooth symbol on R^n
has its values there. So a ReLU network of one frequency, whose kinks are finitely many, passes on
the lattice and fails on R. Networks are judged on R^n unless asked otherwise, because that is
where the claim about them is made; formulas, tables and functions on the lattice.
"""

__all__ = ["Certificate", "Witness", "certify"]

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from pdno.symbols.base import Symbol
from pdno.symbols.scale import scale_per_axis
from pdno.symbols.separated import SeparatedSymbol
from pdno.theory.differences import MultiIndex, multi_indices
from pdno.theory.measurement import TOLERANCE, Measurement, measure
from pdno.theory.probe import AnySymbol, Probe, make_probe
from pdno.theory.search import RATIO
from pdno.theory.smoothness import Kink, Seam, find_kink, find_seam

Indices = tuple[MultiIndex, MultiIndex]
Kind = Literal["growth", "differences", "kink in ξ", "kink in x", "seam"]

GROWN = 2.0
LINES = 16
EDGE = 8.0
"""Kinks in ξ are looked for where |ξ_j| is below that many scales."""


@dataclass(frozen=True)
class Witness:
    """What breaks a bound.

    Arguments:
        kind: Which condition of the class fails.
        reason: In words.
        alpha: Multi-index of the difference.
        beta: Multi-index of the x-derivative.
        points: Frequencies of a ray, for growth and differences; the place of a kink or seam.
        values: |Δ^α ∂_x^β a| ⟨ξ⟩^{|α|-m} at these points; for kinks the second difference
            quotients as the step shrinks, for seams the jump.
        step: h of the differences Δ_h^α / h^|α|.
    """

    kind: Kind
    reason: str
    alpha: MultiIndex
    beta: MultiIndex
    points: tuple[tuple[float, ...], ...]
    values: tuple[float, ...]
    step: int = 1


@dataclass(frozen=True)
class Certificate:
    """The verdict on a symbol, with what it rests on.

    Arguments:
        accepted: Whether nothing speaks against S^m_{1,0}.
        asked: m.
        order: The exponent of |a| itself, fitted; -inf for faster decay than every power.
        dim: n.
        seminorms: sup |Δ^α ∂_x^β a| ⟨ξ⟩^{|α|-m} over all points that were visited, by (α, β).
        growth: Fitted exponents of |Δ^α ∂_x^β a|, by (α, β); -inf where nothing is seen.
        periodic: Whether a fits together at x = 0 and 1; None for symbols without x.
        smooth: Whether no kink or jump was found inside.
        witnesses: Everything that speaks against it, the first of each kind.
        reasons: The verdict in words.
        radii: |ξ| in the middle of each shell.
        curves: The largest |Δ^α a| ⟨ξ⟩^{|α|-m} in each shell, by |α|; nan where unseen.
    """

    accepted: bool
    asked: float
    order: float
    dim: int
    seminorms: Mapping[Indices, float]
    growth: Mapping[Indices, float]
    periodic: bool | None
    smooth: bool
    witnesses: tuple[Witness, ...]
    reasons: tuple[str, ...]
    radii: tuple[float, ...]
    curves: Mapping[int, tuple[float, ...]]

    @property
    def witness(self) -> Witness | None:
        """The first thing that speaks against it."""
        return self.witnesses[0] if self.witnesses else None

    draw: ClassVar[Callable[..., Any] | None] = None
    """Makes the figure. Drawing belongs to `pdno.report`, a layer above this one: `pdno` and the
    command line hand it in here."""

    def plot(self) -> Any:
        """Weighted differences against |ξ|: level or falling curves are those of the class."""
        draw = type(self).draw
        if draw is None:
            raise RuntimeError(
                "Certificate.draw is None, so nothing draws yet: take certify from pdno, as in "
                "pdno.certify(...).plot()"
            )
        return draw(
            f"{'In' if self.accepted else 'Not in'} S^{self.asked:g}, n = {self.dim}",
            self.radii,
            self.curves,
            witness=[
                (math.hypot(*point), value)
                for witness in self.witnesses[:1]
                if witness.kind in ("growth", "differences")
                for point, value in zip(witness.points, witness.values, strict=True)
            ],
        )

    def __str__(self) -> str:
        """The verdict and its reasons, one a line."""
        verdict = "accepted" if self.accepted else "refused"
        title = f"S^{self.asked:g}_{{1,0}}, n = {self.dim}: {verdict}; order {self.order:.2f}"
        return "\n- ".join([title, *self.reasons])


@torch.no_grad()
def certify(
    symbol: AnySymbol,
    order: float | None = None,
    *,
    dim: int | None = None,
    t: float | None = None,
    space: Literal["torus", "box"] = "torus",
    frequencies: Literal["integer", "real"] | None = None,
    acting: bool = False,
    frequency_scale: float | Sequence[float] | None = None,
    shells: int = 10,
    generator: torch.Generator | None = None,
) -> Certificate:
    """Judge whether a symbol is in S^m_{1,0}(T^n x Z^n).

    Arguments:
        symbol: Any symbol, or a function a(x, ξ) from x (P, 1, d) and ξ (1, M, d) to (P, M) or
            (O, I, P, M). All channel pairs are judged at once.
        order: m; None takes the order that is fitted.
        dim: n, for functions and formulas that do not know it.
        t: Time, for symbols that depend on it.
        space: "torus", or "box" to judge smoothness inside of the box only.
        frequencies: "real" asks for smoothness on R^n as well, "integer" does not. None means
            "real" for networks, else "integer".
        acting: Whether to judge the part that acts on real functions (see `theory.probe`).
        frequency_scale: Unit of ξ, for functions; networks bring their own. One that has not
            settled its own yet is judged in this unit, or in 1: the class does not depend on it.
        shells: J: frequencies go up to 4^(J + 1) units.
        generator: Draws points and directions; the same by default.

    Example:
        >>> from pdno.symbols import Resolvent
        >>> certificate = certify(Resolvent(), order=-2, dim=2)
        >>> certificate.accepted, round(certificate.order, 2)
        (True, -2.0)
    """
    draw = generator or torch.Generator().manual_seed(0)
    unit = 1.0 if frequency_scale is None else frequency_scale
    probe = make_probe(symbol, dim=dim, t=t, acting=acting, scale=unit, generator=draw)
    if frequency_scale is not None:
        probe.scale = scale_per_axis(frequency_scale, probe.dim)
    measurements = measure(probe, probe.dim // 2 + 2, shells=shells, generator=draw)  # k + 1
    real = _judged_on_reals(symbol, probe, frequencies)
    rough, smooth, periodic = _judge_smoothness(probe, real, space == "torus", draw)
    first = measurements[0]
    fitted = first.growth[0, 0].exponent
    asked = order if order is not None else fitted if math.isfinite(fitted) else 0.0
    broken = max((_find_violations(each, asked) for each in measurements), key=len)
    witnesses = (*broken, *rough)
    return Certificate(
        not witnesses,
        asked,
        fitted,
        probe.dim,
        _by_indices(first, lambda a, b: first.seminorm(a, b, asked), 0.0),
        _by_indices(first, lambda a, b: first.growth[a, b].exponent, -math.inf),
        periodic,
        smooth,
        witnesses,
        (*(witness.reason for witness in witnesses), *_remarks(symbol, probe, first)),
        tuple(float(2 * RATIO**j * probe.scale.mean()) for j in range(1, shells + 1)),
        _curves(measurements[-1], asked),
    )


def _judged_on_reals(
    symbol: AnySymbol, probe: Probe, frequencies: Literal["integer", "real"] | None
) -> bool:
    if frequencies == "real" and probe.only_integers:
        raise ValueError(
            "this symbol lives on the lattice: give frequencies='integer', or leave it out"
        )
    by_default = isinstance(symbol, SeparatedSymbol) and not probe.only_integers
    return frequencies == "real" or (frequencies is None and by_default)


def _by_indices(
    measurement: Measurement, number: Callable[[int, int], float], without_x: float
) -> dict[Indices, float]:
    """A number for each (α, β); a symbol without x has no x-derivatives."""
    alphas, betas = measurement.alphas, measurement.betas
    return {
        (a, b): number(row, column) if column < len(betas) else without_x
        for row, a in enumerate(alphas)
        for column, b in enumerate(multi_indices(len(a), 2))
    }


def _curves(measurement: Measurement, order: float) -> dict[int, tuple[float, ...]]:
    curves: dict[int, Tensor] = {}
    for row, alpha in enumerate(measurement.alphas):
        weighted, _ = measurement.weighted(row, 0, order)
        shown = weighted.amax(dim=0)
        shown[measurement.growth[row, 0].last + 1 :] = math.nan
        other = curves.get(sum(alpha), shown)
        curves[sum(alpha)] = torch.fmax(shown, other)
    return {total: tuple(curve.tolist()) for total, curve in curves.items()}


def _remarks(symbol: AnySymbol, probe: Probe, measurement: Measurement) -> list[str]:
    """What a reader of the verdict should know besides."""
    remarks = []
    if probe.support is not None:
        remarks.append(_about_table(probe.support, measurement))
    elif measurement.growth[0, 0].exponent == -math.inf:
        remarks.append("a decays faster than every power of |ξ|, so it is of every order")
    acts = isinstance(symbol, Symbol) and probe.dim > 1 and not probe.only_integers
    if acts and not _is_hermitian(probe):
        remarks.append(
            "a(x, -ξ) is not conj a(x, ξ): on real functions its Hermitian completion acts, which "
            "jumps at ξ_n = 0; judge that with acting=True"
        )
    return remarks


def _about_table(support: int, measurement: Measurement) -> str:
    largest = measurement.core[:, 0].amax(dim=-1)
    steepest = max(
        float(largest[row] / largest[0])
        for row, alpha in enumerate(measurement.alphas)
        if sum(alpha) == 1
    )
    return (
        f"a table: zero where some |ξ_j| > {support}, so it is of every order, with constants "
        f"that hold for these modes only. Neighbours differ by up to {steepest:.2g} times the "
        f"largest entry; for a smooth function of ξ/{support} that is {math.pi / support:.2g}"
    )


def _is_hermitian(probe: Probe) -> bool:
    xi = (probe.scale * torch.tensor([[1.0, 2.0, -3.0], [5.0, -1.0, 2.0]])[:, : probe.dim]).round()
    here, there = probe.values(xi), probe.values(-xi).conj()
    return bool((here - there).abs().max() <= 1e-9 * here.abs().max())


def _find_violations(measurement: Measurement, order: float) -> list[Witness]:
    """A witness for each |α| whose bound is broken; for |α| = 0 no others."""
    witnesses: dict[int, Witness] = {}
    pairs = itertools.product(range(len(measurement.alphas)), range(len(measurement.betas)))
    for alpha, beta in sorted(pairs, key=lambda pair: (pair[1], pair[0])):
        total = sum(measurement.alphas[alpha])
        if total not in witnesses and _is_broken(measurement, alpha, beta, order):
            witnesses[total] = _make_witness(measurement, alpha, beta, order)
    if 0 in witnesses:
        return [witnesses[0]]
    return [witnesses[total] for total in sorted(witnesses)]


def _is_broken(measurement: Measurement, alpha: int, beta: int, order: float) -> bool:
    growth = measurement.growth[alpha, beta]
    if growth.exponent <= order - sum(measurement.alphas[alpha]) + TOLERANCE:
        return False
    rays, core = measurement.weighted(alpha, beta, order)
    before = rays[:, : growth.last].max() if growth.last else torch.zeros(())
    largest = max(core, float(before))
    return growth.to_the_end or float(rays[:, growth.last].max()) > GROWN * largest


def _make_witness(measurement: Measurement, alpha: int, beta: int, order: float) -> Witness:
    growth = measurement.growth[alpha, beta]
    rays, _ = measurement.weighted(alpha, beta, order)
    shown = slice(0, growth.last + 1)
    outer = rays[:, max(0, growth.last - 3) : growth.last + 1]
    ray = int(outer.clamp(1e-300, 1e300).log().sum(dim=1).argmax())  # large all along
    points, values = measurement.points[ray, shown], rays[ray, shown]
    a, b = measurement.alphas[alpha], measurement.betas[beta]
    return Witness(
        "differences" if sum(a) else "growth",
        _in_words(a, b, growth.exponent, order, points, values),
        a,
        b,
        tuple(tuple(point) for point in points.tolist()),
        tuple(values.tolist()),
        measurement.step,
    )


def _in_words(
    alpha: MultiIndex, beta: MultiIndex, exponent: float, order: float, xi: Tensor, values: Tensor
) -> str:
    name = f"Δ^{_show(alpha)} " if sum(alpha) else ""
    name += f"∂_x^{_show(beta)} " if sum(beta) else ""
    speed = "faster than every power" if exponent == math.inf else f"like |ξ|^{exponent:.2f}"
    allowed, change = order - sum(alpha), "grows" if exponent > 0.05 else "behaves"
    first, last = (float(xi[place].norm()) for place in (len(xi) // 2, -1))
    return (
        f"|{name}a| {change} {speed}, and the bound is |ξ|^{allowed:g}: its weighted size "
        f"is {float(values[len(xi) // 2]):.2g} at |ξ| = {first:.2g} and {float(values[-1]):.2g} "
        f"at |ξ| = {last:.2g}, ξ = {_show(xi[-1].tolist())}"
    )


def _judge_smoothness(
    probe: Probe, real: bool, torus: bool, generator: torch.Generator
) -> tuple[list[Witness], bool, bool | None]:
    """Witnesses against smoothness; whether a is smooth; whether it is periodic (None: no x)."""
    none, witnesses = (0,) * probe.dim, []
    if real:
        ends = EDGE * (2 * torch.rand(2, LINES, probe.dim, generator=generator) - 1) * probe.scale
        kink = find_kink(lambda xi: probe.values(xi).flatten(0, 1), ends[0], ends[1])
        if kink is not None:
            witnesses.append(_kink_witness("kink in ξ", kink, none))
    if not probe.depends_on_x:
        return witnesses, not witnesses, None
    ends = torch.rand(2, LINES, probe.dim, generator=generator, dtype=torch.float64)
    kink = find_kink(probe.along, ends[0], ends[1])
    if kink is not None:
        witnesses.append(_kink_witness("kink in x", kink, none))
    smooth = not witnesses
    seam = find_seam(probe.along, probe.dim, generator)
    if seam is not None and torus:
        witnesses.append(_seam_witness(seam, none))
    return witnesses, smooth, seam is None


def _kink_witness(
    kind: Literal["kink in ξ", "kink in x"], kink: Kink, none: MultiIndex
) -> Witness:
    what, variable = "kink" if kink.rate < 1.5 else "jump", kind[-1]
    reason = (
        f"a has a {what} in {variable} at {_show(kink.point)}: the second difference quotient is "
        f"{kink.quotients[-2]:.2g} with the step {kink.spacings[-2]:.1g} and "
        f"{kink.quotients[-1]:.2g} with {kink.spacings[-1]:.1g}"
    )
    return Witness(kind, reason, none, none, (kink.point,), kink.quotients)


def _seam_witness(seam: Seam, none: MultiIndex) -> Witness:
    what = ("a", "∂a", "∂²a")[seam.derivative]
    along = f"/∂x_{seam.axis + 1}" if seam.derivative else ""
    reason = (
        f"a is not smooth on the torus: {what}{along} jumps by {seam.jump:.2g} between "
        f"x_{seam.axis + 1} = 0 and 1; inside it varies by {seam.size:.2g}"
    )
    beta = tuple(seam.derivative if axis == seam.axis else 0 for axis in range(len(none)))
    return Witness("seam", reason, none, beta, (seam.point,), (seam.jump,))


def _show(numbers: tuple[float, ...] | list[float]) -> str:
    return "(" + ", ".join(f"{number:.12g}" for number in numbers) + ")"
