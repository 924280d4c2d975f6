"""Is a symbol in S^m_{1,0}? Proved by its structure, or tested by a search for counterexamples.

    |Δ_ξ^α ∂_x^β a(x, ξ)| <= C_αβ ⟨ξ⟩^{m-|α|},     x ∈ T^n, ξ ∈ Z^n,     ⟨ξ⟩ = (1 + |ξ|²)^{1/2}

No number of values decides this: between and beyond them a symbol may do anything. So "proved" is
for symbols whose formula is known, and everything else is what a test has seen, with its limits.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from pdno.interface.display import html_table
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.symbols.base import FullSymbol, Symbol, Time
from pdno.symbols.classical import ClassicalSymbol
from pdno.symbols.network import SeparatedSymbol, TableSymbol
from pdno.theory.digits import NoDigits
from pdno.theory.enclosure import NotEnclosed, enclose, enclose_expression
from pdno.theory.expression import Expression, structure_of
from pdno.theory.probe import (
    RATIO,
    SHELLS,
    AnySymbol,
    MultiIndex,
    Probe,
    find_points,
    find_sequences,
    multi_indices,
    radial,
)
from pdno.theory.prover import Fact, NoProof, prove
from pdno.theory.witness import (
    EVERY_POWER,
    WIDEST,
    Sizes,
    Witness,
    WitnessCheck,
    check,
    confirmed,
    find_kinks,
    measure,
    show_point,
)

if TYPE_CHECKING:
    from pdno.figures.style import Figure

Assessment = Literal["proved", "consistent", "undecided", "counterexample"]
Indices = tuple[MultiIndex, MultiIndex]
"""α of a difference in ξ, and β of a derivative in x."""

CORE = {1: 64, 2: 6, 3: 3}  # edges of the box of ξ around the origin, by dimension
BOX = {1: 2048, 2: 32, 3: 8}  # and of that where values must be finite
FITTED = 6  # shells of a fitted order


@dataclass(frozen=True)
class Certificate:
    """The answer for one symbol and one class: proved, or how a test ended.

    proved          a theorem applies to the formula of the symbol; `proof` has the steps
    consistent      tested: no bound was seen to fail, which is no proof
    counterexample  tested: a bound fails along a sequence, or a is not smooth at a point
    undecided       tested: a bound grows, but not for long, slower and slower, or by little
    """

    assessment: Assessment
    requested: float  #: m
    order: float  #: the proven one, else the exponent of |a|; -inf for decay beyond every power
    dim: int  #: n
    proof: tuple[str, ...]  #: the derivation, step by step
    gap: str  #: why there is none
    scope: str  #: what the answer rests on: how far was looked, with what resolution
    seminorms: Mapping[Indices, float]  #: largest |Δ^α ∂_x^β a| ⟨ξ⟩^{|α|-m} that was seen
    witnesses: tuple[Witness, ...]  #: the counterexamples, the first of each kind
    reasons: tuple[str, ...]  #: the answer in words
    radii: tuple[float, ...]  #: |ξ| in the middle of each shell
    curves: Mapping[int, tuple[float, ...]]  #: largest |Δ^α a| ⟨ξ⟩^{|α|-m} in each shell, by |α|
    subject: "Subject" = field(repr=False, compare=False)  #: what was examined

    @property
    def accepted(self) -> bool:
        """Whether membership is proved; never for a test, however it ended."""
        return self.assessment == "proved"

    @property
    def periodic(self) -> bool | None:
        """Whether no seam was found at x = 0 and 1; None without x."""
        seams = [witness for witness in self.witnesses if witness.kind == "seam"]
        return not seams if self.subject.probe.depends_on_x else None

    @property
    def witness(self) -> Witness | None:
        """The first counterexample."""
        return self.witnesses[0] if self.witnesses else None

    def check_witness(self) -> WitnessCheck:
        """Compute the first witness again, with 50 digits."""
        if self.witness is None:
            raise ValueError(f"the answer is {self.assessment}: it has no witness to check")
        return check(self.witness, self.subject.probe)

    def constants(self, *, boxes: int = 2**12) -> dict[Indices, tuple[float, float]]:
        """Enclosures of sup |∂_ξ^α ∂_x^β a| ⟨ξ⟩^{|α|-m} by interval arithmetic, for proofs.

        The first number is attained, the second an upper bound, the largest of all channel pairs;
        empty where the rules of the proof have no intervals, as for networks of unbounded ξ.
        """
        fact, symbol = self.subject.fact, self.subject.probe.symbol
        if not self.accepted or fact is None:
            raise ValueError(f"the answer is {self.assessment}; only proofs have constants")
        try:
            if isinstance(symbol, ClassicalSymbol):
                known, indices = enclose(symbol, boxes=boxes), multi_indices(self.dim, 2)
                return {(a, b): known.seminorm(a, b) for a in indices for b in indices}
            return enclose_expression(fact.expression, self.dim, in_x=fact.in_x, boxes=boxes)[1]
        except (NotEnclosed, ValueError):
            return {}

    def plot(self) -> "Figure":
        """Weighted differences against |ξ|: level or falling curves are those of the class."""
        from pdno.figures.curves import plot_certificate

        first, ray = self.witness, list[tuple[float, float]]()
        if first is not None and first.kind in ("growth", "differences"):
            ray = list(zip((math.hypot(*p) for p in first.points), first.values, strict=True))
        title = f"S^{self.requested:g}, n = {self.dim}: {self.assessment}"
        return plot_certificate(title, self.radii, self.curves, witness=ray)

    @property
    def headline(self) -> str:
        """The class and the answer in one line."""
        how = "proved" if self.accepted else f"tested, {self.assessment}"
        return f"S^{self.requested:g}_{{1,0}}, n = {self.dim}: {how}; order {self.order:.2f}"

    def __repr__(self) -> str:
        return f"<Certificate {self.headline}>"

    def _repr_html_(self) -> str:
        lines = enumerate([*self.reasons, self.scope], start=1)
        return html_table(f"Certificate {self.headline}", {str(n): text for n, text in lines})

    def __str__(self) -> str:
        """The answer, its reasons and what it rests on, one a line."""
        return "\n- ".join([self.headline, *self.reasons, self.scope])


@dataclass(frozen=True)
class Subject:
    """What is examined, with what the rules give."""

    probe: Probe
    expression: Expression | None
    fact: Fact | None
    gap: str  # why there is no fact
    real: bool  # whether it must be smooth on R^n

    @classmethod
    def of(cls, probe: Probe, t: Time, *, real: bool) -> "Subject":
        """The formula of a symbol, if it is known, and the order that the rules give."""
        expression = _expression(probe, t)
        if expression is None:
            return cls(probe, None, None, "no proof: the formula is not known", real)
        try:
            fact = prove(expression, probe.dim, box=not probe.torus)
            if real and fact.lattice:
                raise NoProof("the rules hold on the lattice alone")
        except NoProof as reason:
            return cls(probe, expression, None, f"no proof: {reason}", real)
        return cls(probe, expression, fact, f"the rules give order {fact.order:g}", real)


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
    generator: torch.Generator | None = None,
) -> Certificate:
    """Prove that a symbol is in S^m_{1,0}(T^n x Z^n), or test it; all channel pairs at once.

    Arguments:
        symbol: Any symbol, an operator with one, an expression (`pdno.theory.expression`), or a
            function a(x, ξ) from x (P, 1, d) and ξ (1, M, d) to (P, M) or (O, I, P, M).
        order: m; None takes the order that is proved or fitted.
        dim: n, for functions and formulas that do not know it.
        t: The time, for symbols that have one; (1, P) numbers for those with PDE parameters.
        space: "torus", or "box" to examine smoothness inside of the box only.
        frequencies: "real" requires smoothness on R^n as well, "integer" does not. None means
            "real" for networks, because the claim about them is made there, else "integer".
        acting: Whether to assess the part that acts on real functions (see `theory.probe`).
        frequency_scale: Unit of ξ, for functions; networks bring their own. One that has not
            settled its own yet is assessed in this unit, or in 1: the class does not depend on it.
        generator: Draws points and directions.

    Example:
        >>> from pdno.symbols import Resolvent
        >>> certificate = certify(Resolvent(), order=-2, dim=2)
        >>> certificate.assessment, certificate.proof[-1]
        ('proved', '[2] [1] 0.0253303 ∈ S^-2: lemma 2, a product')
    """
    symbol = _single_symbol(symbol)
    if isinstance(symbol, SeparatedSymbol) and not symbol.scale.chosen:
        frequency_scale = frequency_scale or 1.0
    probe = Probe(
        symbol, dim, t=t, acting=acting, torus=space == "torus",
        frequency_scale=frequency_scale, generator=generator,
    )  # fmt: skip
    if frequencies == "real" and probe.acting:
        cure = "give frequencies='integer', or leave it out"
        raise ValueError(f"this symbol lives on the lattice: {cure}")
    network = isinstance(symbol, SeparatedSymbol) and not probe.acting
    real = network if frequencies is None else frequencies == "real"
    return _assess(Subject.of(probe, t, real=real), order)


def _assess(subject: Subject, order: float | None) -> Certificate:
    """The proof, or else what a search finds."""
    probe, fact = subject.probe, subject.fact
    indices, x = multi_indices(probe.dim, probe.dim // 2 + 2), find_points(probe)
    broken = _not_finite(probe, x, order or 0.0)
    if broken or (fact is not None and order is not None and order < fact.order):
        fact = None
    searched = fact is None and not broken
    found = find_sequences(probe, x, indices, subject.expression) if searched else radial(probe)
    rows = measure(probe, x, found, _box(CORE[probe.dim], probe.dim), indices)
    fitted = _fitted_order(rows[0]) if fact is None else fact.order
    if order is None:
        order = fitted if math.isfinite(fitted) else 0.0
    doubts = _search(subject, x, rows, order) if searched else [broken] if broken else []
    witnesses = [doubt for doubt in doubts if isinstance(doubt, Witness)]
    unclear = [doubt for doubt in doubts if isinstance(doubt, str)]
    reasons = [subject.gap] * (subject.fact is None) if fact is None else [fact.line]
    middles = 2 * RATIO ** torch.arange(1, SHELLS + 1) * probe.scale.mean()
    assessment: Assessment = (
        "proved" if fact is not None else "counterexample" if witnesses
        else "undecided" if unclear else "consistent"
    )  # fmt: skip
    return Certificate(
        assessment=assessment,
        requested=order,
        order=fitted,
        dim=probe.dim,
        proof=() if fact is None else tuple(fact.derivation()),
        gap=subject.gap if fact is None else "",
        scope=_scope(probe, fact is not None, order, float(middles[-1])),
        seminorms={
            (row.alpha, row.beta): float(row.envelope(order).max()) for row in rows if not row.rule
        },
        witnesses=tuple(witnesses),
        reasons=(*reasons, *([w.reason for w in witnesses] or unclear), *_remarks(probe)),
        radii=tuple(middles.tolist()),
        curves=_curves(rows, order),
        subject=subject,
    )


def _single_symbol(symbol: object) -> AnySymbol:
    """The symbol itself, or that of an operator."""
    if isinstance(symbol, PseudoDifferentialOperator):
        return symbol.symbol
    modules = dict(symbol.named_modules()) if isinstance(symbol, nn.Module) else {}
    if isinstance(symbol, Symbol | FullSymbol) or (callable(symbol) and not modules):
        return symbol
    layers = [name for name, m in modules.items() if isinstance(m, PseudoDifferentialOperator)]
    hint = f"its layers with one are {', '.join(layers)}; " if layers else ""
    raise ValueError(
        f"a {type(symbol).__name__} is no symbol; {hint}expected a symbol, a function a(x, ξ) or "
        "a layer, for example operator.operators[0]; `pdno symbol RUN` assesses them all"
    )


# ---- Proofs ----


def _expression(probe: Probe, t: Time) -> Expression | None:
    """The formula of a symbol, after a check that it has the same values."""
    symbol = probe.symbol.function if isinstance(probe.symbol, FullSymbol) else probe.symbol
    if not isinstance(symbol, Symbol):
        return symbol if isinstance(symbol, Expression) else None
    numbers = None if t is None else torch.as_tensor(t, dtype=torch.float64).reshape(-1)
    expression = structure_of(symbol, probe.dim, numbers)
    if expression is None:
        return None
    x = 0.1 + 0.8 * probe.uniform(4, probe.dim)
    xi = (16 * probe.scale * probe.normal(16, probe.dim)).round()
    values, again = probe.table(x, xi, pairs=True), expression(x[:, None], xi[None])
    again = again.movedim(-1, 0) if again.dim() == 3 else again[None]
    far = bool(((again - values).abs() > 1e-9 * (1 + values.abs().amax())).any())
    if probe.acting and not isinstance(symbol, TableSymbol):
        # what acts is in the class of a, if n = 1, or is a itself
        return expression if probe.dim == 1 or not far else None
    if far:
        name = type(symbol).__name__
        raise ValueError(f"structure() of {name} has other values than the symbol itself")
    return expression


# ---- Tests ----


def _search(subject: Subject, x: Tensor, rows: list[Sizes], order: float) -> list[Witness | str]:
    """Witnesses for each |α| + |β|, if |a| has none, and of kinks; what is unclear."""
    probe, growth, kinks = subject.probe, dict[int, Witness](), dict[str, Witness]()
    unclear = dict[int | str, str]()
    # what steps of |ξ|/16 see as a constant: growth with short ones below that is nothing new
    wide = {row.alpha: 2 * float(row.envelope(order).max()) for row in rows if row.rule == 2}
    for row in rows:
        total, largest = sum(row.alpha) + sum(row.beta), row.envelope(order)
        covered = row.rule < 2 and float(largest.max()) <= wide.get(row.alpha, -1.0)
        if total in growth or 0 in growth or covered:
            continue
        growing, doubtful = row.growing(order)
        witness = _first_confirmed(row.candidates(probe, x, order, growing), probe)
        if isinstance(witness, Witness):
            growth[total] = witness
        elif witness or doubtful:
            ends = f"{float(largest[len(largest) // 2]):.2g} to {float(largest[-1]):.2g}"
            name = f"Δ^{show_point(row.alpha)} ∂_x^{show_point(row.beta)} a"
            size = f"|{name}| ⟨ξ⟩^{sum(row.alpha) - order:g} grows"
            unclear[total] = f"{size}, {witness or 'not steadily'}: {ends}"
    for candidate in find_kinks(probe, x, real=subject.real):
        if candidate.kind not in kinks:
            witness = _first_confirmed([candidate], probe)
            if isinstance(witness, Witness):
                kinks[candidate.kind] = witness
            elif witness:
                unclear[candidate.kind] = f"a {candidate.kind} in float64, {witness}"
    return [*(growth[q] for q in sorted(growth)), *kinks.values(), *unclear.values()]


def _first_confirmed(candidates: Iterable[Witness], probe: Probe) -> Witness | str | None:
    """The first one that is so without rounding, or why that cannot be told."""
    try:
        return next(filter(None, (confirmed(candidate, probe) for candidate in candidates)), None)
    except NoDigits as reason:
        return f"which cannot be confirmed ({reason})"


def _not_finite(probe: Probe, x: Tensor, order: float) -> Witness | str | None:
    """A witness at the lattice point nearest to the origin where a is no number, or a doubt."""
    for part in torch.split(_box(BOX[probe.dim], probe.dim), 1024):
        bad = part[~torch.isfinite(probe.table(x, part)).flatten(0, 1).all(dim=0)]
        if len(bad):
            point, none = tuple(bad[bad.norm(dim=-1).argmin()].tolist()), (0,) * probe.dim
            places = (tuple(x[0].tolist()),), (point,), (math.nan,), (1.0,)
            witness = Witness("not finite", "", none, none, *places, 0, order)
            answer = _first_confirmed([witness], probe)
            doubt = f"a is not finite at ξ = {show_point(point)}, {answer}"
            return doubt if isinstance(answer, str) else answer
    return None


def _box(edge: int, dim: int) -> Tensor:
    axis = torch.arange(-edge, edge + 1, dtype=torch.float64)
    points = torch.cartesian_prod(*[axis] * dim).reshape(-1, dim)
    return points[points.norm(dim=-1).argsort(stable=True)]


def _fitted_order(row: Sizes) -> float:
    """The slope of log |a| over log |ξ| in the outer shells where it is seen."""
    sizes = torch.where(row.sizes > row.floor, row.sizes, 0.0).amax(dim=0)
    if not bool(torch.isfinite(sizes).all()):
        return math.inf
    seen = (sizes > 0).nonzero().flatten()[1:][-FITTED:]
    if len(seen) < 3 or bool(row.sizes[:, -1].eq(0).all()):
        return -math.inf
    x = math.log(RATIO) * seen.double()
    y, x = sizes[seen].log(), x - x.mean()
    slope = float((x * y).sum() / x.square().sum())
    return math.copysign(math.inf, slope) if abs(slope) > EVERY_POWER else slope


def _curves(rows: list[Sizes], order: float) -> dict[int, tuple[float, ...]]:
    """The largest weighted |Δ^α a| of each shell and all steps, by |α|; nan where unseen."""
    curves = dict[int, Tensor]()
    for row in rows:
        if not any(row.beta):
            largest, total = row.envelope(order)[1:], sum(row.alpha)
            curves[total] = torch.maximum(largest, curves.get(total, largest))
    masked = {total: torch.where(c == 0, math.nan, c) for total, c in curves.items()}
    return {total: tuple(curve.tolist()) for total, curve in masked.items()}


# ---- Words ----


def _scope(probe: Probe, proved: bool, order: float, radius: float) -> str:
    if proved:
        return f"proved for all x, ξ, α and β; {probe.evaluations:,} values for the curves"
    return (
        f"tested for order {order:g} on |ξ| <= {radius:.1g}, with steps in x from "
        f"{WIDEST / 4:.2g} down to rounding, up to differences of order {probe.dim // 2 + 2} in ξ "
        f"and 4 in x, with {probe.evaluations:,} values; what is thinner or beyond is not seen"
    )


def _remarks(probe: Probe) -> tuple[str, ...]:
    """What a reader should know besides."""
    symbol = probe.symbol
    if isinstance(symbol, Symbol) and probe.dim > 1 and not probe.acting and not symbol.hermitian:
        xi = torch.tensor([[1.0, 2.0, -3.0], [5.0, -1.0, 2.0]])[:, : probe.dim].double()
        x = torch.full((1, probe.dim), 0.3).double()
        here, there = (probe.table(x, (s * probe.scale * xi).round()) for s in (1, -1))
        if bool((here - there.conj()).abs().max() > 1e-9 * here.abs().max()):
            return (
                "a(x, -ξ) is not conj a(x, ξ): on real functions its Hermitian completion acts; "
                "pdno.certify(symbol, acting=True) assesses that",
            )
    return ()
