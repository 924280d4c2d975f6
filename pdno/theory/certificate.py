"""Is a symbol in S^m_{1,0}? By a theorem, or by evidence: what a search for witnesses shows.

    |Δ_ξ^α ∂_x^β a(x, ξ)| <= C_αβ ⟨ξ⟩^{m-|α|},     x ∈ T^n, ξ ∈ Z^n,     ⟨ξ⟩ = (1 + |ξ|²)^{1/2}

Bounds of |α| <= k, the least integer above n/2, are enough for the operator to be bounded
(theorem 2); |α| <= k + 1 and |β| <= 2 are examined (docs/theory_symbol_classes.md).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from pdno.interface.display import html_table
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.symbols.base import Symbol, Time
from pdno.symbols.network import SeparatedSymbol
from pdno.theory.measurement import (
    EVERY_POWER,
    Indices,
    Measurement,
    Row,
    growth_tendency,
    measure_differences,
)
from pdno.theory.probe import AnySymbol, Probe, make_probe
from pdno.theory.search import RATIO
from pdno.theory.smoothness import Roughness, find_kink, find_seam, functions_of_x, show_point
from pdno.theory.stencil import MultiIndex, multi_indices

if TYPE_CHECKING:
    from pdno.figures.style import Figure

Kind = Literal["growth", "differences", "not finite", "kink in ξ", "kink in x", "seam"]
Assessment = Literal["accepted", "undecided", "refused"]

LINES = 16
CLOSE = 0.05  # a fitted order so near to a proven one is that
EDGE = 8.0  # kinks in ξ are looked for where |ξ_j| is below that many scales
LOST = 1e4  # a difference so much larger than a itself does not vanish without a reason


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


@dataclass(frozen=True)
class Certificate:
    """The assessment of a symbol, with what it rests on.

    A symbol is accepted by a theorem, or because every bound is level where it was examined. It is
    refused if there is a witness, and undecided if a bound grows, but not for long, slower and
    slower, or by little. Evidence is no proof: beyond |ξ| = 10^10 a symbol may do anything.
    """

    assessment: Assessment
    proof: Literal["theorem", "evidence"]  #: what the assessment rests on
    certainty: str  #: how sure it is, in words
    requested: float  #: m
    order: float  #: the exponent of |a| itself; -inf for faster decay than every power
    dim: int  #: n
    seminorms: Mapping[Indices, float]  #: sup |Δ^α ∂_x^β a| ⟨ξ⟩^{|α|-m} where examined, by (α, β)
    growth: Mapping[Indices, float]  #: exponents of |Δ^α ∂_x^β a|; -inf where nothing is seen
    periodic: bool | None  #: whether a fits together at x = 0 and 1; None without x
    smooth: bool  #: whether there is no kink or jump inside
    witnesses: tuple[Witness, ...]  #: everything that speaks against it, the first of each kind
    reasons: tuple[str, ...]  #: the assessment in words
    radii: tuple[float, ...]  #: |ξ| in the middle of each shell
    curves: Mapping[int, tuple[float, ...]]  #: largest |Δ^α a| ⟨ξ⟩^{|α|-m} in each shell, by |α|

    @property
    def accepted(self) -> bool:
        """Whether the assessment is "accepted"."""
        return self.assessment == "accepted"

    @property
    def witness(self) -> Witness | None:
        """The first thing that speaks against it."""
        return self.witnesses[0] if self.witnesses else None

    def plot(self) -> "Figure":
        """Weighted differences against |ξ|: level or falling curves are those of the class."""
        from pdno.figures.curves import plot_certificate

        first, ray = self.witness, list[tuple[float, float]]()
        if first is not None and first.kind in ("growth", "differences"):
            ray = list(zip((math.hypot(*p) for p in first.points), first.values, strict=True))
        words = {"accepted": "In", "undecided": "Perhaps in", "refused": "Not in"}
        title = f"{words[self.assessment]} S^{self.requested:g}, n = {self.dim}"
        return plot_certificate(title, self.radii, self.curves, witness=ray)

    @property
    def headline(self) -> str:
        """The class, the assessment and the fitted order in one line."""
        symbol_class = f"S^{self.requested:g}_{{1,0}}, n = {self.dim}"
        return f"{symbol_class}: {self.assessment}; order {self.order:.2f}"

    def __repr__(self) -> str:
        return f"<Certificate {self.headline}>"

    def _repr_html_(self) -> str:
        """For notebooks."""
        lines = enumerate([*self.reasons, self.certainty], start=1)
        return html_table(f"Certificate {self.headline}", {str(n): text for n, text in lines})

    def __str__(self) -> str:
        """The assessment and its reasons, one a line, and how sure it is."""
        return "\n- ".join([self.headline, *self.reasons, self.certainty])


@torch.no_grad()
def certify(
    symbol: AnySymbol | PseudoDifferentialOperator,
    order: float | None = None,
    *,
    dim: int | None = None,
    t: Time = None,
    space: Literal["torus", "box"] = "torus",
    frequencies: Literal["integer", "real"] | None = None,
    acting: bool = False,
    frequency_scale: float | Sequence[float] | None = None,
    shells: int = 16,
    generator: torch.Generator | None = None,
) -> Certificate:
    """Assess whether a symbol is in S^m_{1,0}(T^n x Z^n), all channel pairs at once.

    Arguments:
        symbol: Any symbol, an operator with one, or a function a(x, ξ) from x (P, 1, d) and
            ξ (1, M, d) to (P, M) or (O, I, P, M).
        order: m; None takes the order that is fitted.
        dim: n, for functions and formulas that do not know it.
        t: The time, for symbols that have one; (1, P) numbers for those with PDE parameters.
        space: "torus", or "box" to examine smoothness inside of the box only.
        frequencies: "real" requires smoothness on R^n as well, "integer" does not. None means
            "real" for networks, because the claim about them is made there, else "integer".
        acting: Whether to assess the part that acts on real functions (see `theory.probe`).
        frequency_scale: Unit of ξ, for functions; networks bring their own. One that has not
            settled its own yet is assessed in this unit, or in 1: the class does not depend on it.
        shells: J: frequencies go up to 4^(J + 1) units.
        generator: Draws points and directions.

    Example:
        >>> from pdno.symbols import Resolvent
        >>> certificate = certify(Resolvent(), order=-2, dim=2)
        >>> certificate.assessment, certificate.proof, round(certificate.order, 2)
        ('accepted', 'theorem', -2.0)
    """
    symbol = _single_symbol(symbol)
    if isinstance(symbol, SeparatedSymbol) and not symbol.scale.chosen:
        frequency_scale = frequency_scale or 1.0
    probe = make_probe(
        symbol,
        dim=dim,
        t=t,
        acting=acting,
        frequency_scale=frequency_scale,
        shells=shells,
        generator=generator,
    )
    if frequencies == "real" and probe.only_integers:
        raise ValueError(
            "this symbol lives on the lattice: give frequencies='integer', or leave it out"
        )
    real = isinstance(symbol, SeparatedSymbol) and not probe.only_integers
    real = real if frequencies is None else frequencies == "real"
    # the theorem
    proven = _proven_order(symbol, probe, t, acting)
    # the search
    doubtful = proven is None or order is None or order < proven
    measurement = measure_differences(probe, probe.dim // 2 + 2, search=doubtful)  # k + 1
    kinks, seam = _find_kinks(probe, real) if measurement.not_finite is None else ([], None)
    # the rules
    requested = _requested_order(order, measurement.fitted_order, proven)
    findings = _Findings(kinks, seam)
    if measurement.not_finite is not None:
        findings.witnesses = [_not_finite(measurement.not_finite)]
    elif proven is not None and requested >= proven:
        findings.proven = proven
    else:
        violations, findings.unclear = _find_violations(measurement, requested)
        findings.witnesses = [*violations, *kinks, *([seam] if seam and space == "torus" else [])]
    remarks = _remarks(symbol, probe, measurement)
    return _make_certificate(findings, probe, measurement, requested, remarks)


@dataclass
class _Findings:
    """What the theorem, the search and the rules say."""

    kinks: list[Witness]
    seam: Witness | None
    witnesses: list[Witness] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)
    proven: float | None = None  # the order, where the theorem decides


def _make_certificate(
    findings: _Findings, probe: Probe, measurement: Measurement, order: float, remarks: list[str]
) -> Certificate:
    witnesses, unclear = findings.witnesses, findings.unclear
    assessment: Assessment = "refused" if witnesses else "undecided" if unclear else "accepted"
    seminorms = measurement.seminorms(order)
    alphas = dict.fromkeys(row.alpha for row in measurement.rows)
    indices = [(a, b) for a in alphas for b in multi_indices(probe.dim, 2)]
    return Certificate(
        assessment=assessment,
        proof="evidence" if findings.proven is None else "theorem",
        certainty=_certainty(assessment, measurement, findings.proven),
        requested=order,
        order=measurement.fitted_order,
        dim=probe.dim,
        seminorms={i: seminorms.get(i, 0.0) for i in indices},
        growth={
            i: measurement.growth[i].exponent if i in seminorms else -math.inf for i in indices
        },
        periodic=findings.seam is None if probe.depends_on_x else None,
        smooth=not findings.kinks,
        witnesses=tuple(witnesses),
        reasons=(*([witness.reason for witness in witnesses] or unclear), *remarks),
        radii=tuple(float(2 * RATIO**j * probe.scale.mean()) for j in range(1, probe.shells + 1)),
        curves=measurement.curves(order),
    )


def _single_symbol(symbol: object) -> AnySymbol:
    """The symbol itself, or that of an operator."""
    if isinstance(symbol, PseudoDifferentialOperator):
        return symbol.symbol
    name = type(symbol).__name__
    if isinstance(symbol, nn.Module) and not isinstance(symbol, Symbol):
        modules = symbol.named_modules()
        layers = [n for n, m in modules if isinstance(m, PseudoDifferentialOperator)]
        raise ValueError(
            f"a {name} has no single symbol; its layers with one are {', '.join(layers) or 'none'}"
            ": give that of a layer, for example certify(model.operators[0].symbol); "
            "`pdno symbol RUN` assesses them all"
        )
    if not callable(symbol):
        wanted = "a symbol, a layer with one, or a function a(x, ξ)"
        hint = "of a trained operator it is for example operator.operators[0].symbol"
        raise ValueError(f"a {name} is no symbol; expected {wanted}: {hint}")
    return symbol


# ---- The theorem and the rules ----


def _proven_order(symbol: AnySymbol, probe: Probe, t: Time, acting: bool) -> float | None:
    """m if the symbol, or the part of it that acts on real functions, is proven to be in S^m."""
    if not isinstance(symbol, Symbol) or (acting and probe.dim > 1 and not symbol.hermitian):
        return None
    return symbol.proven_order(None if t is None else float(torch.as_tensor(t).flatten()[0]))


def _requested_order(order: float | None, fitted: float, proven: float | None) -> float:
    """m: as given, or the proven order if the fitted one is close to it, else the fitted one."""
    if order is not None:
        return order
    if proven is not None and abs(fitted - proven) < CLOSE:
        return proven
    return fitted if math.isfinite(fitted) else 0.0


def _find_violations(measurement: Measurement, order: float) -> tuple[list[Witness], list[str]]:
    """A witness for each |α| whose bound is broken, for |α| = 0 no others; what is unclear."""
    witnesses, unclear = dict[int, Witness](), dict[int, str]()
    windows = [
        (row, *row.window(order, measurement.near_origin(row, order))) for row in measurement.rows
    ]
    values = windows[0][2]
    widest = {row.alpha: row for row in measurement.rows if not sum(row.beta)}
    # what steps of |ξ|/16 see up to the end: growth with short ones below that is nothing new
    wide = {row.alpha: 2 * max(sizes) for row, _, sizes in windows if not sum(row.beta)}
    in_x = {row.beta: max(sizes) for row, _, sizes in windows if not sum(row.alpha)}
    for row, rays, sizes in windows:
        total = sum(row.alpha)
        ratio = max(1.0, in_x[row.beta] / max(values)) if max(values) > 0 else 1.0
        covered = total and row is not widest[row.alpha] and max(sizes) <= ratio * wide[row.alpha]
        if total in witnesses or covered:
            continue
        tendency = growth_tendency(sizes)
        # a thin set that was lost from sight, unless a itself is gone
        vanished = max(sizes[-3:]) < 0.1 * max(sizes) and max(sizes) > LOST * max(values)
        if tendency == "growing":
            witnesses[total] = _growth_witness(row, rays, order)
        elif tendency == "unclear" or (vanished and total and max(values[-3:]) > 0):
            how = "vanishes far out" if tendency == "level" else "grows, but not steadily"
            ends = f"{sizes[len(sizes) // 2]:.2g} to {sizes[-1]:.2g}"
            unclear[total] = f"|{_name(row)}a| ⟨ξ⟩^{total - order:g} {how}: from {ends}"
    broken = [witnesses[q] for q in sorted(witnesses) if q == 0 or 0 not in witnesses]
    return broken, [unclear[q] for q in sorted(unclear)]


# ---- The search for kinks ----


def _find_kinks(probe: Probe, real: bool) -> tuple[list[Witness], Witness | None]:
    """Kinks in ξ, if a is assessed on R^n, and in x; the seam."""
    generator, kinks, seam = probe.generator, list[Witness | None](), None
    if real:
        unit = 2 * torch.rand(2, LINES, probe.dim, generator=generator, dtype=torch.float64) - 1
        lines = EDGE * unit * probe.scale
        kink = find_kink("ξ", lambda xi: probe.values(xi).flatten(0, 1), lines)
        kinks.append(_rough_witness("kink in ξ", kink))
    if probe.depends_on_x:
        along = functions_of_x(probe)
        lines = torch.rand(2, LINES, probe.dim, generator=generator, dtype=torch.float64)
        kinks.append(_rough_witness("kink in x", find_kink("x", along, lines)))
        seam = _rough_witness("seam", find_seam(along, probe.dim, generator))
    return [kink for kink in kinks if kink is not None], seam


# ---- Witnesses and words ----


def _rough_witness(kind: Kind, rough: Roughness | None) -> Witness | None:
    if rough is None:
        return None
    none = (0,) * len(rough.point)
    return Witness(kind, rough.reason, none, rough.beta, (rough.point,), rough.values)


def _not_finite(point: tuple[float, ...]) -> Witness:
    none = (0,) * len(point)
    reason = f"a is not finite at ξ = {show_point(point)}: define its value there"
    return Witness("not finite", reason, none, none, (point,), (math.nan,))


def _growth_witness(row: Row, rays: Tensor, order: float) -> Witness:
    """The ray where the weighted sizes of a row are large all along."""
    length, a = rays.shape[1], row.alpha
    ray = int(rays[:, -4:].clamp(1e-300, 1e300).log().sum(dim=1).argmax())
    xi, values = row.points[ray, :length], rays[ray]
    middle, radius = length // 2, xi.norm(dim=-1)
    outer = rays[:, max(0, length - 5) :].amax(dim=0).clamp(1e-300, 1e300).log()
    slope = float(outer[-1] - outer[0]) / ((len(outer) - 1) * math.log(RATIO))
    exponent = slope + order - sum(a)
    by_power = math.isfinite(float(values[-1])) and slope < EVERY_POWER
    speed = f"like |ξ|^{exponent:.2f}" if by_power else "faster than every power"
    reason = (
        f"|{_name(row)}a| {'grows' if exponent > 0.05 else 'behaves'} {speed}, and the bound is "
        f"|ξ|^{order - sum(a):g}: its weighted size is {float(values[middle]):.2g} at "
        f"|ξ| = {float(radius[middle]):.2g} and {float(values[-1]):.2g} at "
        f"|ξ| = {float(radius[-1]):.2g}, ξ = {show_point(xi[-1].tolist())}"
    )
    points = tuple(tuple(point) for point in xi.tolist())
    steps = tuple(int(h) for h in row.steps[ray, :length].tolist())
    kind: Kind = "differences" if sum(a) else "growth"
    return Witness(kind, reason, a, row.beta, points, tuple(values.tolist()), steps)


def _name(row: Row) -> str:
    name = f"Δ^{show_point(row.alpha)} " if sum(row.alpha) else ""
    return name + (f"∂_x^{show_point(row.beta)} " if sum(row.beta) else "")


def _certainty(assessment: Assessment, measurement: Measurement, proven: float | None) -> str:
    """How sure the assessment is; with the proven order where it rests on a theorem."""
    if proven is not None:
        order = "every order" if proven == -math.inf else f"S^{proven:g}"
        return f"proven: {order} by construction, whatever the numbers; constants are measured"
    farthest = float(measurement.rows[0].points.norm(dim=-1).max())
    values = f"{measurement.value_count:,} values up to |ξ| = {farthest:.1g}"
    return {
        "accepted": f"evidence: level in {values}; what is thinner or beyond is not seen",
        "undecided": f"undecided by {values}: neither level nor steadily growing",
        "refused": f"evidence: {values}; the witness can be checked by hand",
    }[assessment]


def _remarks(symbol: AnySymbol, probe: Probe, measurement: Measurement) -> list[str]:
    """What a reader of the assessment should know besides."""
    remarks, support, none = [], probe.support, (0,) * probe.dim
    if support is not None:
        firsts = [
            sizes.max() for (a, b), sizes in measurement.core.items() if (sum(a), sum(b)) == (1, 0)
        ]
        largest = max(map(float, firsts)) / float(measurement.core[none, none].max())
        remarks.append(
            f"a table: zero where some |ξ_j| > {support}, so it is of every order, with constants "
            f"that hold for these modes only. Neighbours differ by up to {largest:.2g} times the "
            f"largest entry; for a smooth function of ξ/{support} that is {math.pi / support:.2g}"
        )
    elif measurement.fitted_order == -math.inf:
        remarks.append("a decays faster than every power of |ξ|, so it is of every order")
    if isinstance(symbol, Symbol) and probe.dim > 1 and not probe.only_integers:
        directions = torch.tensor([[1.0, 2.0, -3.0], [5.0, -1.0, 2.0]])[:, : probe.dim]
        xi = (probe.scale * directions).round()
        here, there = probe.values(xi), probe.values(-xi).conj()
        if bool((here - there).abs().max() > 1e-9 * here.abs().max()):
            remarks.append(
                "a(x, -ξ) is not conj a(x, ξ): on real functions its Hermitian completion acts, "
                "which jumps at ξ_n = 0; pdno.certify(symbol, acting=True) assesses that"
            )
    return remarks
