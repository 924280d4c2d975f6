"""Symbols a(x, ξ) as expressions that the prover reads.

    a = (2 + Harmonic("cos", (1,))) * Frequency(0) / Bracket()      # (2 + cos 2πx) ξ/⟨ξ⟩

An expression is a function of x (P, 1, d) and ξ (1, M, d) like any other symbol. The same tree is
evaluated in float64 and by intervals on the compactified phase space: each has an `Arithmetic`,
whose values have their components along the last axis.
"""

import functools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from pdno.symbols.mlp import ACTIVATIONS, SymbolMLP

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


def perceptron(network: SymbolMLP, inputs: Expression) -> Expression:
    """A network up to its last hidden layer, of the components of an expression."""
    first, name = network.names
    value = apply(first, affine(network.linear_in, inputs))
    for layer in network.hidden:
        value = apply(name, affine(layer, value))
    return value


def affine(layer: torch.nn.Module, inputs: Expression) -> Affine:
    """A linear layer of the components of an expression."""
    weight, bias = layer.get_parameter("weight"), layer.bias
    assert isinstance(bias, Tensor)
    return Affine((inputs,), weight.detach().double(), bias.detach().double())


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
