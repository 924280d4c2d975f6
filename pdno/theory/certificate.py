"""Is a symbol in S^m_{1,0}? A theorem, evidence for it, or the ray that speaks against.

    |Δ_ξ^α ∂_x^β a(x, ξ)| <= C_αβ ⟨ξ⟩^{m-|α|},     x ∈ T^n, ξ ∈ Z^n,     ⟨ξ⟩ = (1 + |ξ|²)^{1/2}

For the boundedness of the operator |α| <= k, the least integer above n/2, is enough (theorem 2);
|α| <= k + 1 and |β| <= 2 are judged. There are three verdicts:

    accepted     by a theorem, or because every bound is level where it was looked at
    refused      a bound is broken along a ray, without end or slowing down; or one of the below
    undecided    a bound grows, but not for long, slower and slower, or by little

    growth        |a|, or an x-derivative of it, grows faster than |ξ|^m
    differences   Δ^α a does not decay as it should along some ray
    not finite    a has no value at some point
    kink in ξ     a is not smooth as a function on R^n
    kink in x     a is not smooth in x
    seam          a does not fit together at x = 0 and x = 1, so it is not smooth on the torus

Evidence is no proof: a symbol that is looked at up to |ξ| = 10^10 may do anything beyond. Networks
are judged on R^n unless asked otherwise, because that is where the claim about them is made;
formulas, tables and functions on the lattice (docs/theory_symbol_classes.md).
"""

__all__ = ["Certificate", "Witness", "certify"]

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack

import torch
from torch import nn

from pdno.interface.display import html_table
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.symbols.base import Symbol, Time
from pdno.symbols.separated import SeparatedSymbol
from pdno.theory.measurement import EVERY_POWER, LOST, Measurement, Row, judge, measure
from pdno.theory.probe import AnySymbol, Probe, make_probe
from pdno.theory.search import RATIO
from pdno.theory.smoothness import Roughness, find_kink, find_seam, functions_of_x
from pdno.theory.stencil import MultiIndex, multi_indices

Indices = tuple[MultiIndex, MultiIndex]
Kind = Literal["growth", "differences", "not finite", "kink in ξ", "kink in x", "seam"]
Verdict = Literal["accepted", "undecided", "refused"]

LINES = 16
CLOSE = 0.05  # a fitted order so near to a proven one is that
EDGE = 8.0  # kinks in ξ are looked for where |ξ_j| is below that many scales


@dataclass(frozen=True)
class Witness:
    """What breaks a bound."""

    kind: Kind  #: which condition of the class fails
    reason: str  #: in words
    alpha: MultiIndex  #: of the difference
    beta: MultiIndex  #: of the x-derivative
    points: tuple[tuple[float, ...], ...]  #: frequencies of a ray; the place of a kink or seam
    #: |Δ_h^α ∂_x^β a| / h^|α| ⟨ξ⟩^{|α|-m} at these points; for kinks the difference quotients as
    #: the step shrinks, for seams the jump
    values: tuple[float, ...]
    steps: tuple[int, ...] = ()  #: h at these points


@dataclass(frozen=True)
class Certificate:
    """The verdict on a symbol, with what it rests on."""

    verdict: Verdict
    proof: Literal["theorem", "evidence"]  #: what the verdict rests on
    certainty: str  #: how sure it is, in words
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

    @property
    def accepted(self) -> bool:
        """Whether the verdict is "accepted"."""
        return self.verdict == "accepted"

    @property
    def witness(self) -> Witness | None:
        """The first thing that speaks against it."""
        return self.witnesses[0] if self.witnesses else None

    def plot(self) -> Any:
        """Weighted differences against |ξ|: level or falling curves are those of the class."""
        first, ray = self.witness, list[tuple[float, float]]()
        if first is not None and first.kind in ("growth", "differences"):
            ray = list(zip((math.hypot(*p) for p in first.points), first.values, strict=True))
        words = {"accepted": "In", "undecided": "Perhaps in", "refused": "Not in"}
        title = f"{words[self.verdict]} S^{self.asked:g}, n = {self.dim}"
        from pdno.figures.curves import plot_certificate

        return plot_certificate(title, self.radii, self.curves, witness=ray)

    @property
    def headline(self) -> str:
        """The class, the answer and the fitted order in one line."""
        asked = f"S^{self.asked:g}_{{1,0}}, n = {self.dim}"
        return f"{asked}: {self.verdict}; order {self.order:.2f}"

    def __repr__(self) -> str:
        return f"<Certificate {self.headline}>"

    def _repr_html_(self) -> str:
        """For notebooks."""
        told = dict(enumerate([*self.reasons, self.certainty], start=1))
        return html_table(f"Certificate {self.headline}", told)

    def __str__(self) -> str:
        """The verdict and its reasons, one a line, and how sure it is."""
        return "\n- ".join([self.headline, *self.reasons, self.certainty])


class _Rare(TypedDict, total=False):
    """Arguments of `certify` that are seldom needed; `make_probe` takes them."""

    acting: bool
    frequency_scale: float | Sequence[float] | None
    shells: int
    generator: torch.Generator | None


@torch.no_grad()
def certify(
    symbol: AnySymbol | PseudoDifferentialOperator,
    order: float | None = None,
    *,
    dim: int | None = None,
    t: Time = None,
    space: Literal["torus", "box"] = "torus",
    frequencies: Literal["integer", "real"] | None = None,
    **rare: Unpack[_Rare],
) -> Certificate:
    """Judge whether a symbol is in S^m_{1,0}(T^n x Z^n), all channel pairs at once.

    Arguments:
        symbol: Any symbol, an operator with one, or a function a(x, ξ) from x (P, 1, d) and
            ξ (1, M, d) to (P, M) or (O, I, P, M).
        order: m; None takes the order that is fitted.
        dim: n, for functions and formulas that do not know it.
        t: The time, for symbols that have one; (1, P) numbers for those that see pde_parameters, too.
        space: "torus", or "box" to judge smoothness inside of the box only.
        frequencies: "real" asks for smoothness on R^n as well, "integer" does not. None means
            "real" for networks, else "integer".
        acting: Whether to judge the part that acts on real functions (see `theory.probe`).
        frequency_scale: Unit of ξ, for functions; networks bring their own. One that has not
            settled its own yet is judged in this unit, or in 1: the class does not depend on it.
        shells: J, 16 by default: frequencies go up to 4^(J + 1) units.
        generator: Draws points and directions.

    Example:
        >>> from pdno.symbols import Resolvent
        >>> certificate = certify(Resolvent(), order=-2, dim=2)
        >>> certificate.verdict, certificate.proof, round(certificate.order, 2)
        ('accepted', 'theorem', -2.0)
    """
    symbol = _only_symbol(symbol)
    if isinstance(symbol, SeparatedSymbol) and not symbol.scale.chosen:
        rare["frequency_scale"] = rare.get("frequency_scale") or 1.0
    probe = make_probe(symbol, dim=dim, t=t, **rare)
    if frequencies == "real" and probe.only_integers:
        raise ValueError(
            "this symbol lives on the lattice: give frequencies='integer', or leave it out"
        )
    by_default = isinstance(symbol, SeparatedSymbol) and not probe.only_integers
    proven = _proven_order(symbol, probe, t, rare.get("acting", False))
    doubtful = proven is None or order is None or order < proven
    seen = measure(probe, probe.dim // 2 + 2, search=doubtful)  # k + 1
    real = by_default if frequencies is None else frequencies == "real"
    kinks, seam = _find_kinks(probe, real) if seen.not_finite is None else ([], None)
    none = (0,) * probe.dim
    fitted = seen.growth[none, none].exponent
    asked = order if order is not None else fitted if math.isfinite(fitted) else 0.0
    if order is None and proven is not None and abs(fitted - proven) < CLOSE:
        asked = proven
    broken, unclear = _find_violations(seen, asked)
    witnesses = [*broken, *kinks, *([seam] if seam and space == "torus" else [])]
    verdict: Verdict = "refused" if witnesses else "undecided" if unclear else "accepted"
    by_theorem = proven is not None and asked >= proven and seen.not_finite is None
    if by_theorem:
        witnesses, unclear, verdict = [], [], "accepted"
    elif seen.not_finite is not None:
        witnesses, verdict = [_not_finite(seen.not_finite)], "refused"
    reasons = [witness.reason for witness in witnesses] or unclear
    return Certificate(
        verdict,
        "theorem" if by_theorem else "evidence",
        _certainty(verdict, by_theorem, seen, proven),
        asked,
        fitted,
        probe.dim,
        *_by_indices(seen, asked),
        seam is None if probe.depends_on_x else None,
        not kinks,
        tuple(witnesses),
        (*reasons, *_remarks(symbol, probe, seen)),
        tuple(float(2 * RATIO**j * probe.scale.mean()) for j in range(1, probe.shells + 1)),
        _curves(seen, asked),
    )


def _only_symbol(given: AnySymbol | nn.Module) -> AnySymbol:
    if isinstance(given, PseudoDifferentialOperator):
        return given.symbol
    if isinstance(given, nn.Module) and not isinstance(given, Symbol):
        layers = [n for n, m in given.named_modules() if isinstance(m, PseudoDifferentialOperator)]
        found = ", ".join(layers) or "none"
        cure = "for example certify(model.operators[0].symbol); `pdno symbol RUN` judges them all"
        raise ValueError(
            f"a {type(given).__name__} has no single symbol; its layers with one are {found}: "
            f"give that of a layer, {cure}"
        )
    if not callable(given):
        wanted = "a symbol, a layer with one, or a function a(x, ξ)"
        cure = "of a run it is for example run.network.operators[0]"
        raise ValueError(f"a {type(given).__name__} is no symbol; expected {wanted}: {cure}")
    return given


def _proven_order(symbol: AnySymbol, probe: Probe, t: Time, acting: bool) -> float | None:
    """m if the symbol, or the part of it that acts on real functions, is proven to be in S^m."""
    if not isinstance(symbol, Symbol) or (acting and probe.dim > 1 and not symbol.hermitian):
        return None
    return symbol.proven_order(None if t is None else float(torch.as_tensor(t).flatten()[0]))


def _certainty(verdict: Verdict, by_theorem: bool, seen: Measurement, proven: float | None) -> str:
    if by_theorem:
        order = "every order" if proven == -math.inf else f"S^{proven:g}"
        return f"proven: {order} by construction, whatever the numbers; constants are measured"
    first = seen.rows[0]
    looked = f"{seen.looked_at:,} values up to |ξ| = {float(first.points.norm(dim=-1).max()):.1g}"
    return {
        "accepted": f"evidence: level in {looked}; what is thinner or beyond is not seen",
        "undecided": f"undecided by {looked}: neither level nor steadily growing",
        "refused": f"evidence: {looked}; the witness can be checked by hand",
    }[verdict]


def _not_finite(point: tuple[float, ...]) -> Witness:
    none = (0,) * len(point)
    reason = f"a is not finite at ξ = {_show(point)}: say what its value is there"
    return Witness("not finite", reason, none, none, (point,), (math.nan,))


def _by_indices(
    seen: Measurement, order: float
) -> tuple[dict[Indices, float], dict[Indices, float]]:
    """Seminorms and exponents by (α, β); a symbol without x has no x-derivatives."""
    seminorms, growth = dict[Indices, float](), dict[Indices, float]()
    known = seen.seminorms(order)
    alphas = dict.fromkeys(row.alpha for row in seen.rows)
    for a in alphas:
        for b in multi_indices(len(a), 2):
            seminorms[a, b] = known.get((a, b), 0.0)
            growth[a, b] = seen.growth[a, b].exponent if (a, b) in known else -math.inf
    return seminorms, growth


def _curves(seen: Measurement, order: float) -> dict[int, tuple[float, ...]]:
    """The largest of all steps; nan where nothing is seen."""
    curves: dict[int, torch.Tensor] = {}
    for row in seen.rows:
        if sum(row.beta) == 0:
            shown, total = row.weighted(order)[0].amax(dim=0), sum(row.alpha)
            curves[total] = torch.maximum(shown, curves.get(total, shown))
    cut = {total: torch.where(curve == 0, math.nan, curve) for total, curve in curves.items()}
    return {total: tuple(curve.tolist()) for total, curve in cut.items()}


def _remarks(symbol: AnySymbol, probe: Probe, seen: Measurement) -> list[str]:
    """What a reader of the verdict should know besides."""
    remarks, support, none = [], probe.support, (0,) * probe.dim
    if support is not None:
        firsts = [sizes.max() for (a, b), sizes in seen.core.items() if (sum(a), sum(b)) == (1, 0)]
        largest = max(map(float, firsts)) / float(seen.core[none, none].max())
        remarks.append(
            f"a table: zero where some |ξ_j| > {support}, so it is of every order, with constants "
            f"that hold for these modes only. Neighbours differ by up to "
            f"{largest:.2g} times the largest entry; for a smooth function of "
            f"ξ/{support} that is {math.pi / support:.2g}"
        )
    elif seen.growth[none, none].exponent == -math.inf:
        remarks.append("a decays faster than every power of |ξ|, so it is of every order")
    if isinstance(symbol, Symbol) and probe.dim > 1 and not probe.only_integers:
        some = torch.tensor([[1.0, 2.0, -3.0], [5.0, -1.0, 2.0]])[:, : probe.dim]
        xi = (probe.scale * some).round()
        here, there = probe.values(xi), probe.values(-xi).conj()
        if bool((here - there).abs().max() > 1e-9 * here.abs().max()):
            remarks.append(
                "a(x, -ξ) is not conj a(x, ξ): on real functions its Hermitian completion acts, "
                "which jumps at ξ_n = 0; pdno.certify(symbol, acting=True) judges that"
            )
    return remarks


def _find_violations(seen: Measurement, order: float) -> tuple[list[Witness], list[str]]:
    """A witness for each |α| whose bound is broken, for |α| = 0 no others; what is unclear."""
    witnesses, unclear = dict[int, Witness](), dict[int, str]()
    windows = [(row, *row.window(order, seen.near_origin(row, order))) for row in seen.rows]
    values = windows[0][2]
    widest = {row.alpha: row for row in seen.rows if not sum(row.beta)}
    # what steps of |ξ|/16 see up to the end: growth with short ones below that is nothing new
    wide = {row.alpha: 2 * max(sizes) for row, _, sizes in windows if not sum(row.beta)}
    in_x = {row.beta: max(sizes) for row, _, sizes in windows if not sum(row.alpha)}
    for row, rays, sizes in windows:
        total = sum(row.alpha)
        ratio = max(1.0, in_x[row.beta] / max(values)) if max(values) > 0 else 1.0
        covered = total and row is not widest[row.alpha] and max(sizes) <= ratio * wide[row.alpha]
        if total in witnesses or covered:
            continue
        tendency = judge(sizes)
        # a thin set that was lost from sight, unless a itself is gone
        vanished = max(sizes[-3:]) < 0.1 * max(sizes) and max(sizes) > LOST * max(values)
        if tendency == "growing":
            witnesses[total] = _witness(row, rays, order)
        elif tendency == "unclear" or (vanished and total and max(values[-3:]) > 0):
            how = "vanishes far out" if tendency == "level" else "grows, but not steadily"
            sizes_text = f"{sizes[len(sizes) // 2]:.2g} to {sizes[-1]:.2g}"
            unclear[total] = f"|{_name(row)}a| ⟨ξ⟩^{total - order:g} {how}: from {sizes_text}"
    broken = [witnesses[q] for q in sorted(witnesses) if q == 0 or 0 not in witnesses]
    return broken, [unclear[q] for q in sorted(unclear)]


def _name(row: Row) -> str:
    name = f"Δ^{_show(row.alpha)} " if sum(row.alpha) else ""
    return name + (f"∂_x^{_show(row.beta)} " if sum(row.beta) else "")


def _witness(row: Row, rays: torch.Tensor, order: float) -> Witness:
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
        f"|ξ| = {float(radius[-1]):.2g}, ξ = {_show(xi[-1].tolist())}"
    )
    points = tuple(tuple(point) for point in xi.tolist())
    kind: Kind = "differences" if sum(a) else "growth"
    steps = tuple(int(h) for h in row.steps[ray, :length].tolist())
    return Witness(kind, reason, a, row.beta, points, tuple(values.tolist()), steps)


def _find_kinks(probe: Probe, real: bool) -> tuple[list[Witness], Witness | None]:
    """Kinks in ξ, if a is judged on R^n, and in x; the seam."""
    draw, found = probe.generator, list[Witness | None]()
    if real:
        unit = 2 * torch.rand(2, LINES, probe.dim, generator=draw, dtype=torch.float64) - 1
        lines = EDGE * unit * probe.scale
        kink = find_kink("ξ", lambda xi: probe.values(xi).flatten(0, 1), lines)
        found.append(_of_roughness("kink in ξ", kink))
    seam = None
    if probe.depends_on_x:
        along = functions_of_x(probe)
        lines = torch.rand(2, LINES, probe.dim, generator=draw, dtype=torch.float64)
        found.append(_of_roughness("kink in x", find_kink("x", along, lines)))
        seam = _of_roughness("seam", find_seam(along, probe.dim, draw))
    return [kink for kink in found if kink is not None], seam


def _of_roughness(kind: Kind, rough: Roughness | None) -> Witness | None:
    if rough is None:
        return None
    none = (0,) * len(rough.point)
    return Witness(kind, rough.reason, none, rough.beta, (rough.point,), rough.values)


def _show(numbers: Sequence[float]) -> str:
    return "(" + ", ".join(f"{number:.12g}" for number in numbers) + ")"
