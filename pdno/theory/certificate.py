"""Is a symbol in S^m_{1,0}? By a theorem, or by evidence: what a search for witnesses shows.

    |Δ_ξ^α ∂_x^β a(x, ξ)| <= C_αβ ⟨ξ⟩^{m-|α|},     x ∈ T^n, ξ ∈ Z^n,     ⟨ξ⟩ = (1 + |ξ|²)^{1/2}

Bounds of |α| <= k, the least integer above n/2, are enough for the operator to be bounded
(theorem 2); |α| <= k + 1 and |β| <= 2 are examined (docs/theory_symbol_classes.md).
"""

import copy
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from pdno.interface.display import html_table
from pdno.interface.errors import check_at_least
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.symbols.base import FullSymbol, Symbol, Time
from pdno.symbols.network import SeparatedSymbol
from pdno.theory.measurement import (
    EVERY_POWER,
    Indices,
    Kind,
    Measurement,
    Row,
    Witness,
    find_kinks,
    measure_differences,
    show_point,
)
from pdno.theory.probe import (
    RATIO,
    AnySymbol,
    Probe,
    difference_stencil,
    make_probe,
    multi_indices,
)
from pdno.theory.prover import NoProof, prove
from pdno.theory.search import RaySearch, find_points
from pdno.theory.structure import structure_of

if TYPE_CHECKING:
    from pdno.figures.style import Figure

Assessment = Literal["accepted", "undecided", "refused"]
Tendency = Literal["level", "unclear", "growing"]

CLOSE = 0.05  # a fitted order so near to a proven one is that
LOST = 1e4  # a difference so much larger than a itself does not vanish without a reason
LEVEL = 0.03  # relative growth over three shells that counts as none
SLOWING, STEADY = 0.5, 0.8  # increments over four shells in terms of those before
GROWN = 1.6  # by what steady growth over eight shells speaks against a bound: log ⟨ξ⟩ makes 2


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
        """The first evidence against it."""
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
        name = f"S^{self.requested:g}_{{1,0}}, n = {self.dim}"
        return f"{name}: {self.assessment}; order {self.order:.2f}"

    def __repr__(self) -> str:
        return f"<Certificate {self.headline}>"

    def _repr_html_(self) -> str:
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
        symbol, dim=dim, t=t, acting=acting, frequency_scale=frequency_scale, generator=generator
    )
    if frequencies == "real" and probe.only_integers:
        cure = "give frequencies='integer', or leave it out"
        raise ValueError(f"this symbol lives on the lattice: {cure}")
    check_at_least("shells", shells, 4)
    probe.shells = shells
    proven = None  # the order of the symbol, or of the part that acts on real functions
    if isinstance(symbol, Symbol) and (symbol.hermitian or not acting or probe.dim == 1):
        rough = frequencies == "real" or (
            frequencies is None and isinstance(symbol, SeparatedSymbol)
        )
        proven = _proven_order(symbol, probe.dim, t, box=space == "box", real=rough)
    if probe.depends_on_x:
        probe.set_points(*find_points(probe))
    # up to k + 1 differences; where a theorem answers on sampled rays, for constants alone
    stencil = difference_stencil(probe.dim, probe.dim // 2 + 2)
    doubtful, rays = proven is None or order is None or order < proven, RaySearch(probe, stencil)
    points = rays.find_rays() if doubtful else rays.sampled()
    measurement = measure_differences(probe, stencil, points, every_step=doubtful)
    fitted, finite = measurement.fitted_order, measurement.not_finite is None
    network = isinstance(symbol, SeparatedSymbol) and not probe.only_integers
    real = network if frequencies is None else frequencies == "real"
    kinks, seam = find_kinks(probe, real=real) if finite else ([], None)
    m = order
    if m is None:
        m = fitted if math.isfinite(fitted) else 0.0
        m = proven if proven is not None and abs(fitted - proven) < CLOSE else m
    theorem = proven is not None and m >= proven and finite
    witnesses, unclear = ([], []) if theorem else _find_violations(measurement, m)
    if finite and not theorem:
        witnesses += [*kinks, *([seam] if seam and space == "torus" else [])]
    assessment: Assessment = "refused" if witnesses else "undecided" if unclear else "accepted"
    seminorms, units = measurement.seminorms(m), measurement.unit_rows
    indices = list(itertools.product(stencil.indices, multi_indices(probe.dim, 2)))
    middles = 2 * RATIO ** torch.arange(1, shells + 1) * probe.scale.mean()
    remarks = _remarks(symbol, probe, measurement)
    return Certificate(
        assessment=assessment,
        proof="theorem" if theorem else "evidence",
        certainty=_certainty(assessment, measurement, proven if theorem else None),
        requested=m,
        order=fitted,
        dim=probe.dim,
        seminorms={i: seminorms.get(i, 0.0) for i in indices},
        growth={i: units[i].growth()[0] if i in units else -math.inf for i in indices},
        periodic=seam is None if probe.depends_on_x else None,
        smooth=not kinks,
        witnesses=tuple(witnesses),
        reasons=(*([witness.reason for witness in witnesses] or unclear), *remarks),
        radii=tuple(middles.tolist()),
        curves=measurement.curves(m),
    )


def _proven_order(symbol: Symbol, dim: int, t: Time, *, box: bool, real: bool) -> float | None:
    """The order that follows from the structure of a symbol, None where no rule applies."""
    numbers = None if t is None else torch.as_tensor(t, dtype=torch.float64).reshape(-1)
    expression = structure_of(copy.deepcopy(symbol).double(), dim, numbers)
    try:
        fact = None if expression is None else prove(expression, dim, box=box)
        return None if fact is None or (real and fact.lattice) else fact.order
    except NoProof:
        return None


def _single_symbol(symbol: object) -> AnySymbol:
    """The symbol itself, or that of an operator."""
    if isinstance(symbol, PseudoDifferentialOperator):
        return symbol.symbol
    module = isinstance(symbol, nn.Module)
    if isinstance(symbol, (Symbol, FullSymbol)) or (callable(symbol) and not module):
        return symbol
    modules = symbol.named_modules() if isinstance(symbol, nn.Module) else ()
    layers = [name for name, m in modules if isinstance(m, PseudoDifferentialOperator)]
    hint = f"its layers with one are {', '.join(layers)}; " if layers else ""
    raise ValueError(
        f"a {type(symbol).__name__} is no symbol; {hint}expected a symbol, a function a(x, ξ) or "
        "a layer, for example operator.operators[0]; `pdno symbol RUN` assesses them all"
    )


def _find_violations(measurement: Measurement, order: float) -> tuple[list[Witness], list[str]]:
    """A witness for each |α| whose bound is broken, for |α| = 0 no others; what is unclear."""
    if measurement.not_finite is not None:
        point = measurement.not_finite
        reason = f"a is not finite at ξ = {show_point(point)}: define its value there"
        none = (0,) * len(point)
        return [Witness("not finite", reason, none, none, (point,), (math.nan,))], []
    witnesses, unclear = dict[int, Witness](), dict[int, str]()
    windows = [
        (row, *row.window(order, measurement.near_origin(row, order))) for row in measurement.rows
    ]
    values = windows[0][2]
    # what steps of |ξ|/16 see up to the end: growth with short ones below that is nothing new
    wide = {row.alpha: (row, 2 * max(sizes)) for row, _, sizes in windows if not sum(row.beta)}
    in_x = {row.beta: max(sizes) for row, _, sizes in windows if not sum(row.alpha)}
    for row, rays, sizes in windows:
        total, (widest, limit) = sum(row.alpha), wide[row.alpha]
        ratio = max(1.0, in_x[row.beta] / max(values)) if max(values) > 0 else 1.0
        covered = total and row is not widest and max(sizes) <= ratio * limit
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


# ---- Witnesses and words ----


def _growth_witness(row: Row, rays: Tensor, order: float) -> Witness:
    """The ray where the weighted sizes of a row are large all along."""
    length, a = rays.shape[1], row.alpha
    ray = int(rays[:, -4:].clamp(1e-300, 1e300).log().sum(dim=1).argmax())
    xi, values = row.points[ray, :length], rays[ray].tolist()
    middle, radius = length // 2, xi.norm(dim=-1).tolist()
    outer = rays[:, max(0, length - 5) :].amax(dim=0).clamp(1e-300, 1e300).log()
    slope = float(outer[-1] - outer[0]) / ((len(outer) - 1) * math.log(RATIO))
    exponent = slope + order - sum(a)
    by_power = math.isfinite(values[-1]) and slope < EVERY_POWER
    speed = f"like |ξ|^{exponent:.2f}" if by_power else "faster than every power"
    reason = (
        f"|{_name(row)}a| {'grows' if exponent > 0.05 else 'behaves'} {speed}, and the bound is "
        f"|ξ|^{order - sum(a):g}: its weighted size is {values[middle]:.2g} at "
        f"|ξ| = {radius[middle]:.2g} and {values[-1]:.2g} at "
        f"|ξ| = {radius[-1]:.2g}, ξ = {show_point(xi[-1].tolist())}"
    )
    points = tuple(tuple(point) for point in xi.tolist())
    steps = tuple(int(h) for h in row.steps[ray, :length].tolist())
    kind: Kind = "differences" if sum(a) else "growth"
    return Witness(kind, reason, a, row.beta, points, tuple(values), steps)


def _name(row: Row) -> str:
    name = f"Δ^{show_point(row.alpha)} " if sum(row.alpha) else ""
    return name + (f"∂_x^{show_point(row.beta)} " if sum(row.beta) else "")


def _certainty(assessment: Assessment, measurement: Measurement, proven: float | None) -> str:
    """How sure the assessment is; with the proven order where it rests on a theorem."""
    if proven is not None:
        order = "every order" if proven == -math.inf else f"S^{proven:g}"
        return f"proven: {order} by construction, whatever the numbers; constants are measured"
    farthest = float(measurement.rows[0].points.norm(dim=-1).max())
    values = (
        f"{sum(row.sizes.numel() for row in measurement.rows):,} values up to |ξ| = {farthest:.1g}"
    )
    return {
        "accepted": f"evidence: level in {values}; what is thinner or beyond is not seen",
        "undecided": f"undecided by {values}: neither level nor steadily growing",
        "refused": f"evidence: {values}; the witness can be checked by hand",
    }[assessment]


def _remarks(symbol: AnySymbol, probe: Probe, measurement: Measurement) -> list[str]:
    """What a reader of the assessment should know besides."""
    remarks = []
    if probe.support is not None:
        remarks.append(
            f"a table: zero where some |ξ_j| > {probe.support}, so it is of every order, with "
            "constants that hold for these modes only"
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
