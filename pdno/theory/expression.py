"""Symbols a(x, ξ) as expressions that the prover reads, those of the package among them.

    a = (2 + Harmonic("cos", (1,))) * Frequency(0) / Bracket()      # (2 + cos 2πx) ξ/⟨ξ⟩

An expression is a function of x (P, 1, d) and ξ (1, M, d) like any other symbol. The same tree is
evaluated in float64 and by intervals on the compactified phase space: each has an `Arithmetic`,
whose values have their components along the last axis.
"""

import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from pdno.symbols.analytic import (
    Advection,
    BiotSavart,
    DifferentialOperator,
    FractionalLaplacian,
    Gradient,
    HeatSymbol,
    Resolvent,
)
from pdno.symbols.base import Symbol
from pdno.symbols.classical import ClassicalSymbol, ParityMLP
from pdno.symbols.mlp import ACTIVATIONS, SymbolMLP
from pdno.symbols.network import (
    SCALES,
    LowRankSymbol,
    NetworkSymbol,
    SeparatedSymbol,
    TableSymbol,
    TrunkSymbol,
)

V = TypeVar("V")
Number = float | complex
SMOOTH = ("exp", "cos", "sin", "tanh", "sigmoid", "gelu", "softplus", "silu")
"""Functions that are smooth on the real line; the first three are entire."""
ROUGH = ("relu",)


class Arithmetic(Protocol[V]):
    """What an expression needs of its values, besides their sum and product."""

    def constant(self, values: Tensor) -> V: ...
    def frequency(self, axis: int) -> V: ...
    def coordinate(self, axis: int) -> V: ...
    def harmonic(self, name: str, wave: Sequence[int]) -> V: ...
    def radius_squared(self, shift: float, scale: Sequence[float]) -> V: ...
    def apply(self, name: str, value: V) -> V: ...
    def power(self, value: V, exponent: float) -> V: ...
    def affine(self, value: V, weight: Tensor, bias: Tensor) -> V: ...
    def stack(self, values: Sequence[V]) -> V: ...
    def leaf(self, function: Callable[[Tensor, Tensor], Tensor]) -> V: ...


class Expression:
    """A symbol a(x, ξ) that is put together from parts."""

    parts: tuple["Expression", ...]

    def on(self, arithmetic: Arithmetic[V], values: dict[int, V] | None = None) -> V:
        """The value in an arithmetic; that of a part that occurs often is computed once."""
        values = {} if values is None else values
        if id(self) not in values:
            values[id(self)] = self._on(arithmetic, values)
        return values[id(self)]

    def _on(self, arithmetic: Arithmetic[V], values: dict[int, V]) -> V:
        match self:
            case Constant(numbers):
                return arithmetic.constant(numbers)
            case Frequency(axis):
                return arithmetic.frequency(axis)
            case Coordinate(axis):
                return arithmetic.coordinate(axis)
            case Harmonic(name, wave):
                return arithmetic.harmonic(name, wave)
            case Bracket(shift, scale):
                return arithmetic.power(arithmetic.radius_squared(shift, scale), 0.5)
            case Opaque(function):
                return arithmetic.leaf(function)
            case Power((Bracket(shift, scale),), exponent):  # as one of the smooth square
                square = arithmetic.radius_squared(shift, scale)
                return arithmetic.power(square, exponent / 2)
        operands = [part.on(arithmetic, values) for part in self.parts]
        match self:
            case Sum() | Product():
                combine = operator.add if isinstance(self, Sum) else operator.mul
                total: V = functools.reduce(combine, operands)
                return total
            case Power(_, exponent):
                return arithmetic.power(operands[0], exponent)
            case Apply(_, name):
                return arithmetic.apply(name, operands[0])
            case Affine(_, weight, bias):
                return arithmetic.affine(operands[0], weight, bias)
        return arithmetic.stack(operands)

    def label(self, parts: Sequence[str]) -> str:
        """The expression as text, with those of its parts."""
        match self:
            case Constant(values) if values.numel() > 1:
                return f"{values.numel()} constants"
            case Constant(values):
                number = values.item()
                return "i" if number == 1j else f"{number:.6g}"
            case Frequency(axis):
                return f"ξ_{axis + 1}"
            case Coordinate(axis):
                return f"x_{axis + 1}"
            case Harmonic(name, wave):
                return f"{name}(2π{wave[0] if len(wave) == 1 else wave}·x)"
            case Bracket(shift, scale):
                plain = shift == 1 and set(scale) == {1.0}
                return "⟨ξ⟩" if plain else f"⟨ξ⟩_{{{shift:.4g}}}"
            case Opaque(_, name):
                return name
            case Sum():
                return f"({' + '.join(parts)})"
            case Product():
                return " ".join(parts)
            case Power(base, exponent):
                return f"{parts[0] if parts else base[0]}^{exponent:g}"
            case Apply(_, name):
                return f"{name}({parts[0]})"
            case Affine(_, _, bias):
                return f"(W {parts[0]}{' + b' * bool(bias.any())})"
        return f"({', '.join(parts)})"

    def __str__(self) -> str:
        return self.label([str(part) for part in self.parts])

    def __call__(self, x: Tensor, xi: Tensor) -> Tensor:
        """a at x (P, 1, d) and ξ (1, M, d), (P, M); with several components (P, M, C)."""
        values = self.on(Floating(x.double(), xi.double()))
        return values.squeeze(-1) if values.shape[-1] == 1 else values

    def __add__(self, other: "Expression | Number") -> "Expression":
        return Sum((self, as_expression(other)))

    def __mul__(self, other: "Expression | Number") -> "Expression":
        return Product((self, as_expression(other)))

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> "Expression":
        return self * -1.0

    def __sub__(self, other: "Expression | Number") -> "Expression":
        return self + -as_expression(other)

    def __rsub__(self, other: "Expression | Number") -> "Expression":
        return -self + other

    def __pow__(self, exponent: float) -> "Expression":
        return Power((self,), float(exponent))

    def __truediv__(self, other: "Expression | Number") -> "Expression":
        return self * as_expression(other) ** -1

    def __rtruediv__(self, other: "Expression | Number") -> "Expression":
        return self**-1 * other


class Atom(Expression):
    """What has no parts."""

    parts = ()


@dataclass(frozen=True, eq=False)
class Constant(Atom):
    """Numbers in float64 or complex128, one per component."""

    values: Tensor


@dataclass(frozen=True, eq=False)
class Frequency(Atom):
    """ξ_j, with j from 0."""

    axis: int


@dataclass(frozen=True, eq=False)
class Coordinate(Atom):
    """x_j on the box [0, 1], which is not periodic."""

    axis: int


@dataclass(frozen=True, eq=False)
class Harmonic(Atom):
    """cos 2πk·x or sin 2πk·x."""

    name: str
    wave: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.name not in ("cos", "sin") or any(k != int(k) for k in self.wave):
            raise ValueError(f"{self.name} with k = {self.wave}; expected cos or sin and integers")


@dataclass(frozen=True, eq=False)
class Bracket(Atom):
    """⟨ξ⟩_s = (s² + Σ_j (ξ_j / σ_j)²)^{1/2} with s > 0; σ is one scale or one per axis."""

    shift: float = 1.0
    scale: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        if not (self.shift > 0 and all(0 < s < math.inf for s in self.scale)):
            problem = f"bracket of s {self.shift} and scale {self.scale}"
            raise ValueError(f"{problem}; expected s, σ > 0")


@dataclass(frozen=True, eq=False)
class Opaque(Atom):
    """A function of x and ξ that is in S^m, m = `order`, by a lemma on its kind."""

    function: Callable[[Tensor, Tensor], Tensor]
    name: str
    lemma: str
    order: float
    real: bool = False
    lattice: bool = False  # on Z^n alone


@dataclass(frozen=True, eq=False)
class Node(Expression):
    """What has parts."""

    parts: tuple[Expression, ...]


class Sum(Node):
    """u + v + ..."""


class Product(Node):
    """u v ..., component by component."""


class Stack(Node):
    """Components (u, v, ...)."""


@dataclass(frozen=True, eq=False)
class Power(Node):
    """u^p."""

    exponent: float


@dataclass(frozen=True, eq=False)
class Apply(Node):
    """σ(u), component by component."""

    name: str


@dataclass(frozen=True, eq=False)
class Affine(Node):
    """W u + b of the components of u."""

    weight: Tensor
    bias: Tensor


def as_expression(value: "Expression | Number | Tensor") -> Expression:
    """The expression itself, or a constant."""
    if isinstance(value, Expression):
        return value
    whole = isinstance(value, complex) or (isinstance(value, Tensor) and value.is_complex())
    double = torch.complex128 if whole else torch.float64
    return Constant(torch.as_tensor(value, dtype=double).reshape(-1))


def apply(name: str, argument: Expression) -> Expression:
    """σ(u) for a function of `SMOOTH`, or relu."""
    if name not in SMOOTH + ROUGH:
        raise ValueError(f"function {name!r}; expected one of {', '.join(SMOOTH + ROUGH)}")
    return Apply((argument,), name)


def riesz(exponent: float) -> Expression:
    """|ξ|^p for ξ ≠ 0, and 0 at ξ = 0."""

    def values(x: Tensor, xi: Tensor) -> Tensor:
        square = xi.square().sum(dim=-1, keepdim=True)
        return torch.where(square == 0, 0.0, square.where(square != 0, 1.0) ** (exponent / 2))

    lemma = "lemma 8, cut off at ξ = 0"
    return Opaque(values, f"|ξ|^{exponent:g}", lemma, exponent, real=True, lattice=True)


@dataclass(frozen=True)
class Floating:
    """The arithmetic of float64: tensors at x (P, 1, d) and ξ (1, M, d)."""

    x: Tensor
    xi: Tensor

    def constant(self, values: Tensor) -> Tensor:
        return values[None, None]

    def frequency(self, axis: int) -> Tensor:
        return self.xi[..., axis, None]

    def coordinate(self, axis: int) -> Tensor:
        return self.x[..., axis, None]

    def harmonic(self, name: str, wave: Sequence[int]) -> Tensor:
        phase = self.x[..., : len(wave)] @ torch.tensor(wave, dtype=torch.float64)
        return (torch.cos if name == "cos" else torch.sin)(2 * math.pi * phase)[..., None]

    def radius_squared(self, shift: float, scale: Sequence[float]) -> Tensor:
        sides = torch.tensor(scale, dtype=torch.float64)
        return shift**2 + (self.xi / sides).square().sum(dim=-1, keepdim=True)

    def apply(self, name: str, value: Tensor) -> Tensor:
        own = {"exp": torch.exp, "cos": torch.cos, "sin": torch.sin}
        return own[name](value) if name in own else ACTIVATIONS[name].function(value)

    def power(self, value: Tensor, exponent: float) -> Tensor:
        return value**exponent

    def affine(self, value: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return torch.nn.functional.linear(value, weight.to(value.dtype), bias.to(value.dtype))

    def stack(self, values: Sequence[Tensor]) -> Tensor:
        shape = [max(sizes) for sizes in zip(*(v.shape[:-1] for v in values), strict=True)]
        return torch.cat([v.expand(*shape, v.shape[-1]) for v in values], dim=-1)

    def leaf(self, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        return function(self.x, self.xi)


# ---- Symbols of the package ----


def structure_of(symbol: Symbol, dim: int, t: Tensor | None = None) -> Expression | None:
    """The channel pairs of a symbol in float64 as components, at time and PDE parameters t.

    None without an expression. Classes derived from known ones may compute something else: they
    return their own by `Symbol.structure`.
    """
    kinds = (NetworkSymbol, LowRankSymbol, TrunkSymbol, ClassicalSymbol)
    if isinstance(symbol, SeparatedSymbol) and type(symbol) in kinds:
        return _separated(symbol, t)
    if type(symbol) is TableSymbol:
        return _table(symbol)
    own = symbol.structure(t)
    if isinstance(own, Expression):
        return own
    return _formula(symbol, dim, 0.0 if t is None else float(t.flatten()[0]))


def _formula(symbol: Symbol, dim: int, t: float) -> Expression | None:
    xi = [Frequency(axis) for axis in range(dim)]
    match symbol:
        case _ if type(symbol).__module__ != HeatSymbol.__module__:
            return None
        case HeatSymbol():
            square = Sum(tuple(part**2 for part in xi))
            return apply("exp", square * (-4 * math.pi**2 * symbol.diffusivity * t))
        case DifferentialOperator():
            pairs = zip(symbol.powers, symbol.coefficients, strict=True)
            return Sum(tuple(_monomial(power) * c for power, c in pairs))
        case Gradient():
            return Stack(tuple(part * (2j * math.pi) for part in xi))
        case BiotSavart():
            return Stack((xi[1] * (0.5j / math.pi), xi[0] * (-0.5j / math.pi))) * riesz(-2.0)
        case FractionalLaplacian():
            return riesz(2 * symbol.power) * float((2 * math.pi) ** (2 * symbol.power))
        case Resolvent():
            return Bracket(math.sqrt(symbol.shift) / (2 * math.pi)) ** -2 * (0.25 / math.pi**2)
        case Advection():
            phases = map(operator.mul, xi, [-2j * math.pi * t * v for v in symbol.velocity])
            return apply("exp", Sum(tuple(phases)))
    return None


def _monomial(powers: Sequence[int]) -> Expression:
    """(2πiξ)^α."""
    factors = [(Frequency(a) * (2j * math.pi)) ** power for a, power in enumerate(powers)]
    return Product(tuple(factors))


def _table(symbol: TableSymbol) -> Expression:
    def values(x: Tensor, xi: Tensor) -> Tensor:
        here, there = (symbol.evaluate_at(x[:, 0], s * xi[0]).frequency[0] for s in (1, -1))
        share = 0.5 * (1 + xi[0, :, -1].sign())
        return (share * here + (1 - share) * there.conj()).flatten(0, 1).T[None]

    name = f"a table of {symbol.modes} modes"
    return Opaque(values, name, "lemma 8, finitely many modes", -math.inf, lattice=True)


def _separated(symbol: SeparatedSymbol, t: Tensor | None) -> Expression:
    """Σ_r b_r(x) c_r(ξ)."""
    c = frequency_factor(symbol, t)
    if not symbol.depends_on_x:
        return c
    b, rank, pairs = space_factor(symbol, t), symbol.rank, symbol.pairs
    if isinstance(symbol, LowRankSymbol):
        # b as (R, O or 1, 1) for the pairs (R, O, I) of c
        assert isinstance(b, Affine)
        shape = rank, symbol.out_channels, symbol.in_channels
        rows = torch.arange(len(b.weight)).reshape(rank, -1, 1).expand(shape).flatten()
        b = Affine(b.parts, b.weight[rows], b.bias[rows])
    if rank == 1:
        return b * c
    total = torch.eye(pairs, dtype=torch.float64).repeat(1, rank)
    return Affine((b * c,), total, torch.zeros(pairs, dtype=torch.float64))


def _scale(symbol: SeparatedSymbol) -> tuple[float, ...]:
    """The frequency scale, 1 before it is settled."""
    return tuple(symbol.scale.frequency.tolist()) if symbol.scale.chosen else (1.0,) * symbol.dim


def _with(parts: Sequence[Expression], t: Tensor | None) -> Expression:
    constants = [] if t is None else [as_expression(value) for value in t.flatten()]
    return Stack((*parts, *constants))


def _affine(layer: torch.nn.Module, inputs: Expression) -> Affine:
    """A linear layer of the components of an expression."""
    weight, bias = layer.get_parameter("weight"), layer.bias
    assert isinstance(bias, Tensor)
    return Affine((inputs,), weight.detach().double(), bias.detach().double())


def _perceptron(network: SymbolMLP, inputs: Expression) -> Expression:
    """A network up to its last hidden layer, of the components of an expression."""
    first, name = network.names
    value = apply(first, _affine(network.linear_in, inputs))
    for layer in network.hidden:
        value = apply(name, _affine(layer, value))
    return value


def _network(network: SymbolMLP, inputs: Expression) -> Expression:
    """All outputs, with the parity of a classical symbol."""
    hidden = _perceptron(network, inputs)
    if isinstance(network, ParityMLP) and network.parity != "none":
        sign = torch.ones(network.linear_in.in_features, dtype=torch.float64)
        sign[1 : 1 + network.dim] = -1.0
        mirror = Affine((inputs,), torch.diag(sign), torch.zeros_like(sign))
        weight = 1.0 if network.parity == "even" else -1.0
        hidden = 0.5 * (hidden + weight * _perceptron(network, mirror))
    return _affine(network.linear_out, hidden)


def frequency_factor(symbol: SeparatedSymbol, t: Tensor | None) -> Expression:
    """c of all terms and pairs."""
    scale = _scale(symbol)
    xi = [Frequency(axis) * (1 / s) for axis, s in enumerate(scale)]
    if isinstance(symbol, TrunkSymbol):
        features = [
            part * Bracket(s, scale) ** -1 for s in SCALES for part in (*xi, as_expression(s))
        ]
        values = _network(symbol.trunk, _with(features, t))
        assert isinstance(values, Affine)
        halves = zip(values.weight.chunk(2), values.bias.chunk(2), strict=True)
        real, imaginary = (Affine(values.parts, weight, bias) for weight, bias in halves)
        return real + 1j * imaginary
    if isinstance(symbol, ClassicalSymbol):
        return _classical(symbol, xi, t)
    inputs = _with(xi, t)
    return _network(symbol.real, inputs) + 1j * _network(symbol.imaginary, inputs)


def _classical(symbol: ClassicalSymbol, xi: list[Expression], t: Tensor | None) -> Expression:
    """⟨ξ⟩^m b(ω); with time, or a unitary factor, an exponential of it."""
    bracket = Bracket(1.0, _scale(symbol))
    omega = [part * bracket**-1 for part in (as_expression(1.0), *xi)]
    inputs = _with(omega, None if t is None else t.flatten()[-symbol.pde_parameters or None :])
    unitary = symbol.elliptic and not (symbol.self_adjoint or symbol.dissipative)
    if not (symbol.takes_time or unitary):
        return bracket**symbol.order * _matrix(symbol, inputs, omega)

    def values(x: Tensor, at: Tensor) -> Tensor:
        moment = None if t is None else t.reshape(() if t.numel() == 1 else (1, -1))
        return symbol.evaluate_at(x[:1, 0], at[0], moment).frequency[0].flatten(0, 1).T[None]

    name, order = f"⟨ξ⟩^{symbol.order:g} (c + M M*) e^K of networks of ω", symbol.order
    if unitary and not symbol.takes_time:
        return Opaque(values, name, "lemma 9, entire functions of smooth matrices of ω", order)
    assert t is not None
    name = f"e^(tA), A = ⟨ξ⟩^{symbol.order:g} (K - M M*) of networks of ω"
    order = -math.inf if order > 0 and float(t.flatten()[0]) else 0.0
    return Opaque(values, name, "lemma 10, the exponential of a dissipative matrix", order)


def _matrix(symbol: ClassicalSymbol, inputs: Expression, omega: list[Expression]) -> Expression:
    """The entries of N, (N + N*)/2, c + M M*, or K - M M* - c |ξ|²/⟨ξ⟩², K = (N - N*)/2."""
    real, imaginary = _network(symbol.real, inputs), _network(symbol.imaginary, inputs)
    n, size = real + 1j * imaginary, symbol.in_channels
    if not symbol.exact_structure:
        return n
    entries = torch.arange(size**2).reshape(size, size)
    adjoint = _chosen(real, entries.T) - 1j * _chosen(imaginary, entries.T)
    if not (symbol.elliptic or symbol.dissipative):
        return 0.5 * (n + adjoint)
    # (M M*)_ij = Σ_k M_ik conj M_jk, all (i, j, k) and then their sums over k
    left, right = (entries[:, None].expand(size, size, size), entries.expand(size, size, size))
    x, y = _network(symbol.root_real, inputs), _network(symbol.root_imaginary, inputs)
    root = _chosen(x, left) + 1j * _chosen(y, left)
    conjugate = _chosen(x, right) - 1j * _chosen(y, right)
    sums = torch.eye(size**2, dtype=torch.float64).repeat_interleave(size, dim=1)
    matrix: Expression = Affine((root * conjugate,), sums, torch.zeros(size**2).double())
    if symbol.elliptic:
        unit = as_expression(symbol.log_ellipticity.exp().double() * torch.eye(size).double())
        square = Sum(tuple(part**2 for part in omega[1:]))
        matrix = matrix + (unit * square if symbol.dissipative else unit)
    if not symbol.dissipative:
        return matrix
    return -matrix if symbol.self_adjoint else 0.5 * (n - adjoint) - matrix


def _chosen(values: Expression, entries: Tensor) -> Expression:
    """Some components."""
    count = values.weight.shape[0] if isinstance(values, Affine) else int(entries.max()) + 1
    weight = torch.nn.functional.one_hot(entries.flatten(), count).double()
    return Affine((values,), weight, torch.zeros(len(weight)).double())


def space_factor(symbol: SeparatedSymbol, t: Tensor | None) -> Expression:
    """b of all terms and pairs, or of those that share it."""
    assert symbol.space is not None
    if not isinstance(symbol, ClassicalSymbol):
        scale = symbol.scale.coordinate.tolist()
        x = [Coordinate(axis) * c for axis, c in enumerate(scale)]
        return _network(symbol.space, _with(x, t))
    waves = torch.eye(symbol.dim).long().tolist()
    parts = [Harmonic(name, tuple(k)) for name, k in itertools.product(("cos", "sin"), waves)]
    own = None if t is None else t.flatten()[len(t.flatten()) - symbol.pde_parameters :]
    values = _network(symbol.space, _with(parts, own))
    return apply("exp", values) if symbol.elliptic else values
