"""Proofs that a symbol is in S^m_{1,0}, from its structure, rule by rule.

Each rule is a lemma of docs/theory_symbol_classes.md. A rule that does not apply ends the proof
with the reason: there is none for what may fail, such as a function of an unbounded part.
"""

import math
from dataclasses import dataclass

from pdno.theory.enclosure import NotEnclosed, least
from pdno.theory.expression import (
    ROUGH,
    Affine,
    Apply,
    Bracket,
    Constant,
    Coordinate,
    Expression,
    Frequency,
    Harmonic,
    Opaque,
    Power,
    Product,
    Stack,
    Sum,
)

ENTIRE = ("exp", "cos", "sin")
VANISHING = ("sin", "tanh", "gelu", "silu", "relu")  # σ(0) = 0
BOUNDED = ("tanh", "sigmoid")  # constant at both ends, up to Schwartz functions
AFFINE = ("gelu", "softplus", "silu", "relu")  # 0 and z at the ends, up to Schwartz functions


class NoProof(Exception):
    """No rule applies."""


@dataclass(frozen=True)
class Fact:
    """a ∈ S^m, by a rule and the facts that it rests on."""

    expression: Expression
    rule: str  #: the lemma and its condition
    order: float  #: m; -inf for every order
    premises: tuple["Fact", ...] = ()
    real: bool = True  #: whether all values are real
    in_x: bool = False  #: whether it depends on x
    lattice: bool = False  #: whether it holds on Z^n alone
    #: of the polynomials in ξ that it is at both ends, up to Schwartz functions, for n = 1
    degree: float | None = None

    @property
    def membership(self) -> str:
        """The class in words."""
        order = "every S^m" if self.order == -math.inf else f"S^{self.order:g}"
        return order + " on the lattice" * self.lattice

    @property
    def line(self) -> str:
        """The last step in words."""
        steps = f"{len(self.derivation())} steps; the last: {self.rule}"
        return f"a ∈ {self.membership} by {steps}"

    def derivation(self) -> list[str]:
        """The proof, one step a line, in terms of the numbers of earlier ones."""
        lines, names = list[str](), dict[int, str]()

        def name(fact: "Fact") -> str:
            if id(fact) not in names:
                text = fact.expression.label([name(premise) for premise in fact.premises])
                if isinstance(fact.expression, Constant):
                    return text
                lines.append(f"[{len(lines) + 1}] {text} ∈ {fact.membership}: {fact.rule}")
                names[id(fact)] = f"[{len(lines)}]"
            return names[id(fact)]

        name(self)
        return lines


def prove(expression: Expression, dim: int, *, box: bool = False) -> Fact:
    """The smallest order that the rules give, on T^n, or with `box` on [0, 1]^n; else `NoProof`.

    Example:
        >>> from pdno.theory.expression import Bracket, Frequency
        >>> print(*prove(Frequency(0) / Bracket(), dim=2).derivation(), sep="\\n")
        [1] ξ_1 ∈ S^1: lemma 1, a frequency
        [2] ⟨ξ⟩^-1 ∈ S^-1: lemma 1, a power of ⟨ξ⟩
        [3] [1] [2] ∈ S^0: lemma 2, a product
    """
    return _Prover(dim, box).prove(expression)


class _Prover:
    """The rules, by kind of expression."""

    def __init__(self, dim: int, box: bool) -> None:
        self.dim, self.box, self.facts = dim, box, dict[int, Fact]()

    def prove(self, e: Expression) -> Fact:
        """The fact of an expression, once for each that is used several times."""
        if id(e) not in self.facts:
            match e:
                case Power((Bracket(),), exponent):
                    fact = Fact(e, "lemma 1, a power of ⟨ξ⟩", exponent)
                case Power():
                    fact = self._power(e, self.prove(e.parts[0]))
                case Apply():
                    fact = self._function(e, self.prove(e.parts[0]))
                case Sum() | Product() | Stack() | Affine():
                    fact = self._combined(e, [self.prove(part) for part in e.parts])
                case _:
                    fact = self._leaf(e)
            self.facts[id(e)] = fact
        return self.facts[id(e)]

    def _leaf(self, e: Expression) -> Fact:
        line = self.dim == 1
        match e:
            case Frequency(axis) if axis >= self.dim:
                raise NoProof(f"axis {axis + 1} of n = {self.dim}")
            case Harmonic(_, wave) if len(wave) > self.dim:
                raise NoProof(f"axis {len(wave)} of n = {self.dim}")
            case Constant(values):
                real, degree = not values.is_complex(), 0.0 if line else None
                return Fact(e, "lemma 1, a constant", 0.0, real=real, degree=degree)
            case Frequency():
                return Fact(e, "lemma 1, a frequency", 1.0, degree=1.0 if line else None)
            case Bracket():
                return Fact(e, "lemma 1, a power of ⟨ξ⟩", 1.0)
            case Harmonic():
                return Fact(e, "lemma 1, smooth and periodic in x", 0.0, in_x=True)
            case Coordinate() if self.box:
                return Fact(e, "lemma 1, smooth on the box", 0.0, in_x=True)
            case Coordinate():
                raise NoProof(f"{e} is not periodic: use cos and sin of 2πx, or the box")
            case Opaque(_, _, lemma, order, real, lattice):
                return Fact(e, lemma, order, real=real, lattice=lattice)
        raise NoProof(f"{e}: a {type(e).__name__} has no rule")

    def _combined(self, e: Expression, facts: list[Fact]) -> Fact:
        orders, degrees = [f.order for f in facts], [f.degree for f in facts]
        known = [d for d in degrees if d is not None]
        if isinstance(e, Product):
            order, degree, rule = sum(orders), sum(known), "lemma 2, a product"
        else:
            order, degree, rule = max(orders), max(known, default=0.0), "lemma 2, a sum"
        if isinstance(e, Stack):
            rule = "component by component"
        if isinstance(e, Affine) and bool(e.bias.any()):
            order = max(order, 0.0)
        return self._of(facts, e, rule, order, degree if len(known) == len(facts) else None)

    def _of(
        self,
        facts: list[Fact],
        e: Expression,
        rule: str,
        order: float,
        degree: float | None = None,
        *,
        lattice: bool = False,
    ) -> Fact:
        """What follows from facts, with their properties that carry over."""
        real, in_x = all(fact.real for fact in facts), any(fact.in_x for fact in facts)
        lattice = lattice or any(fact.lattice for fact in facts)
        return Fact(e, rule, order, tuple(facts), real, in_x, lattice, degree)

    def _power(self, e: Power, u: Fact) -> Fact:
        p, whole = e.exponent, e.exponent == int(e.exponent)
        if p >= 0 and whole:
            degree = None if u.degree is None else p * u.degree
            return self._of([u], e, "lemma 2, a product", p * u.order if p else 0.0, degree)
        # u of a whole power may be complex or negative
        self._require_elliptic(e.parts[0], u, size=whole)
        bound = "|u| >= c ⟨ξ⟩^m" if whole else "u >= c ⟨ξ⟩^m"
        return self._of([u], e, f"lemma 4, a power of u with {bound}", p * u.order)

    def _function(self, e: Apply, u: Fact) -> Fact:
        name = e.name
        if name not in ENTIRE and not u.real:
            raise NoProof(f"{name} of {u.expression}, which may be complex")
        if u.degree is not None and u.real and not u.in_x and name not in ENTIRE:
            degree = 0.0 if name in BOUNDED else u.degree
            rule = "lemma 5, n = 1 and u a polynomial at both ends up to Schwartz functions"
            return self._of([u], e, rule, degree, degree, lattice=name in ROUGH)
        if u.order <= 0 and name not in ROUGH:
            order = u.order if name in VANISHING else 0.0
            return self._of([u], e, "lemma 3, a smooth function of u in S^0", order)
        if name == "exp" and u.order > 0:
            self._require_elliptic(-e.parts[0], u, far=True)
            rule = "lemma 6, e^u with Re u <= -c ⟨ξ⟩^m far out"
            return self._of([u], e, rule, -math.inf)
        if name in AFFINE + BOUNDED and u.order > -math.inf:
            inside = name in ROUGH and (u.in_x or u.order <= 0)
            self._require_elliptic(e.parts[0], u, far=not inside, size=True)
            order = 0.0 if name in BOUNDED else u.order
            rule = f"lemma 7, |u| >= c ⟨ξ⟩^m{' far out' * (not inside)}"
            return self._of([u], e, rule, order, lattice=name in ROUGH and not inside)
        raise NoProof(f"{name} of a part of order {u.order:g}, which is not bounded")

    def _require_elliptic(
        self, e: Expression, u: Fact, *, far: bool = False, size: bool = False
    ) -> None:
        """That u >= c ⟨ξ⟩^m, or |u| >= c ⟨ξ⟩^m, by interval arithmetic."""
        what = f"{u.expression}, which is of order {u.order:g}"
        try:
            order, bound = least(e, self.dim, in_x=u.in_x, far=far, size=size)
        except NotEnclosed as reason:
            raise NoProof(f"{what}, is not enclosed: {reason}") from None
        if order != u.order or not bound > 0:
            sign = "|u|" if size else "u"
            raise NoProof(f"no c > 0 with {sign} >= c ⟨ξ⟩^{u.order:g} for {what}")
