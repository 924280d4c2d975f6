"""Symbols a(x, ξ) as expressions that the prover reads.

    a = (2 + Harmonic("cos", (1,))) * Frequency(0) / Bracket()      # (2 + cos 2πx) ξ/⟨ξ⟩

An expression is a function of x (P, 1, d) and ξ (1, M, d) like any other symbol. The same tree is
evaluated in float64, by intervals on the compactified phase space and with any number of digits:
each has an `Arithmetic`, whose values have their components along the last axis.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

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


class Expression(ABC):
    """A symbol a(x, ξ) that is put together from pieces."""

    parts: tuple["Expression", ...] = ()

    @abstractmethod
    def on(self, arithmetic: Arithmetic[V]) -> V:
        """The value in an arithmetic."""

    @abstractmethod
    def label(self, parts: Sequence[str]) -> str:
        """The expression as text, with those of its parts."""

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
        return Power(self, float(exponent))

    def __truediv__(self, other: "Expression | Number") -> "Expression":
        return self * as_expression(other) ** -1

    def __rtruediv__(self, other: "Expression | Number") -> "Expression":
        return self**-1 * other


def as_expression(value: "Expression | Number | Tensor") -> Expression:
    """The expression itself, or a constant."""
    if isinstance(value, Expression):
        return value
    double = torch.complex128 if isinstance(value, complex) else torch.float64
    return Constant(value if isinstance(value, Tensor) else torch.tensor(value, dtype=double))


def apply(name: str, argument: Expression) -> Expression:
    """σ(u) for a function of `SMOOTH`, or relu."""
    if name not in SMOOTH + ROUGH:
        raise ValueError(f"function {name!r}; expected one of {', '.join(SMOOTH + ROUGH)}")
    return Apply(name, argument)


# ---- Leaves ----


@dataclass(frozen=True, eq=False)
class Constant(Expression):
    """Numbers, real or complex, one per component."""

    values: Tensor

    def on(self, arithmetic: Arithmetic[V]) -> V:
        kind = torch.complex128 if self.values.is_complex() else torch.float64
        return arithmetic.constant(self.values.to(kind).reshape(-1))

    def label(self, parts: Sequence[str]) -> str:
        several = self.values.numel() > 1
        if several:
            return f"{self.values.numel()} constants"
        number = self.values.item()
        return "i" if number == 1j else f"{number:.6g}"


@dataclass(frozen=True, eq=False)
class Frequency(Expression):
    """ξ_j, with j from 0."""

    axis: int

    def on(self, arithmetic: Arithmetic[V]) -> V:
        return arithmetic.frequency(self.axis)

    def label(self, parts: Sequence[str]) -> str:
        return f"ξ_{self.axis + 1}"


@dataclass(frozen=True, eq=False)
class Coordinate(Expression):
    """x_j on the box [0, 1], which is not periodic."""

    axis: int

    def on(self, arithmetic: Arithmetic[V]) -> V:
        return arithmetic.coordinate(self.axis)

    def label(self, parts: Sequence[str]) -> str:
        return f"x_{self.axis + 1}"


@dataclass(frozen=True, eq=False)
class Harmonic(Expression):
    """cos 2πk·x or sin 2πk·x."""

    name: str
    wave: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.name not in ("cos", "sin") or any(k != int(k) for k in self.wave):
            raise ValueError(f"{self.name} with k = {self.wave}; expected cos or sin and integers")

    def on(self, arithmetic: Arithmetic[V]) -> V:
        return arithmetic.harmonic(self.name, self.wave)

    def label(self, parts: Sequence[str]) -> str:
        wave = self.wave[0] if len(self.wave) == 1 else self.wave
        return f"{self.name}(2π{wave}·x)"


@dataclass(frozen=True, eq=False)
class Bracket(Expression):
    """⟨ξ⟩_s = (s² + Σ_j (ξ_j / σ_j)²)^{1/2} with s > 0; σ is one scale or one per axis."""

    shift: float = 1.0
    scale: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        if not (self.shift > 0 and all(0 < s < math.inf for s in self.scale)):
            raise ValueError(
                f"bracket of s {self.shift} and scale {self.scale}; expected s, σ > 0"
            )

    def on(self, arithmetic: Arithmetic[V]) -> V:
        return self.to(arithmetic, 1.0)

    def to(self, arithmetic: Arithmetic[V], exponent: float) -> V:
        """A power of it, as one of the smooth square."""
        square = arithmetic.radius_squared(self.shift, self.scale)
        return arithmetic.power(square, exponent / 2)

    def label(self, parts: Sequence[str]) -> str:
        return (
            "⟨ξ⟩" if self.shift == 1 and set(self.scale) == {1.0} else f"⟨ξ⟩_{{{self.shift:.4g}}}"
        )


@dataclass(frozen=True, eq=False)
class Riesz(Expression):
    """|ξ|^p for ξ ≠ 0, and 0 at ξ = 0."""

    exponent: float

    def on(self, arithmetic: Arithmetic[V]) -> V:
        p = self.exponent

        def riesz(x: Tensor, xi: Tensor) -> Tensor:
            square = xi.square().sum(dim=-1, keepdim=True)
            return torch.where(square == 0, 0.0, square.where(square != 0, 1.0) ** (p / 2))

        return arithmetic.leaf(riesz)

    def label(self, parts: Sequence[str]) -> str:
        return f"|ξ|^{self.exponent:g}"


@dataclass(frozen=True, eq=False)
class Leaf(Expression):
    """A function of x and ξ whose class follows from a lemma on its kind, of some order."""

    function: Callable[[Tensor, Tensor], Tensor]
    name: str
    lemma: str
    order: float
    in_x: bool = False
    lattice: bool = False  # on Z^n alone

    def on(self, arithmetic: Arithmetic[V]) -> V:
        return arithmetic.leaf(self.function)

    def label(self, parts: Sequence[str]) -> str:
        return self.name


# ---- Nodes ----


@dataclass(frozen=True, eq=False)
class Sum(Expression):
    """u + v + ..."""

    parts: tuple[Expression, ...]

    def on(self, arithmetic: Arithmetic[V]) -> V:
        first, *rest = [part.on(arithmetic) for part in self.parts]
        for value in rest:
            first = first + value  # type: ignore[operator]
        return first

    def label(self, parts: Sequence[str]) -> str:
        return "(" + " + ".join(parts) + ")"


@dataclass(frozen=True, eq=False)
class Product(Expression):
    """u v ..., component by component."""

    parts: tuple[Expression, ...]

    def on(self, arithmetic: Arithmetic[V]) -> V:
        first, *rest = [part.on(arithmetic) for part in self.parts]
        for value in rest:
            first = first * value  # type: ignore[operator]
        return first

    def label(self, parts: Sequence[str]) -> str:
        return " ".join(parts)


@dataclass(frozen=True, eq=False)
class Power(Expression):
    """u^p."""

    base: Expression
    exponent: float

    @property
    def parts(self) -> tuple[Expression, ...]:  # type: ignore[override]
        return (self.base,)

    def on(self, arithmetic: Arithmetic[V]) -> V:
        if isinstance(self.base, Bracket):
            return self.base.to(arithmetic, self.exponent)
        return arithmetic.power(self.base.on(arithmetic), self.exponent)

    def label(self, parts: Sequence[str]) -> str:
        return f"{parts[0] if parts else self.base}^{self.exponent:g}"


@dataclass(frozen=True, eq=False)
class Apply(Expression):
    """σ(u), component by component."""

    name: str
    argument: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:  # type: ignore[override]
        return (self.argument,)

    def on(self, arithmetic: Arithmetic[V]) -> V:
        return arithmetic.apply(self.name, self.argument.on(arithmetic))

    def label(self, parts: Sequence[str]) -> str:
        return f"{self.name}({parts[0]})"


@dataclass(frozen=True, eq=False)
class Stack(Expression):
    """Components (u, v, ...)."""

    parts: tuple[Expression, ...]

    def on(self, arithmetic: Arithmetic[V]) -> V:
        return arithmetic.stack([part.on(arithmetic) for part in self.parts])

    def label(self, parts: Sequence[str]) -> str:
        return "(" + ", ".join(parts) + ")"


@dataclass(frozen=True, eq=False)
class Affine(Expression):
    """W u + b of the components of u."""

    argument: Expression
    weight: Tensor
    bias: Tensor

    @property
    def parts(self) -> tuple[Expression, ...]:  # type: ignore[override]
        return (self.argument,)

    def on(self, arithmetic: Arithmetic[V]) -> V:
        return arithmetic.affine(self.argument.on(arithmetic), self.weight, self.bias)

    def label(self, parts: Sequence[str]) -> str:
        bias = " + b" if bool(self.bias.any()) else ""
        return f"(W {parts[0]}{bias})"


def perceptron(network: SymbolMLP, inputs: Expression) -> Expression:
    """A network up to its last hidden layer, of the components of an expression."""
    first, name = network.names
    value = apply(first, affine(network.linear_in, inputs))
    for layer in network.hidden:
        value = apply(name, affine(layer, value))
    return value


def affine(layer: torch.nn.Module, inputs: Expression) -> Expression:
    """A linear layer of the components of an expression."""
    weight, bias = layer.weight, layer.bias
    assert isinstance(weight, Tensor) and isinstance(bias, Tensor)
    return Affine(inputs, weight.detach().double(), bias.detach().double())


# ---- Arithmetic in float64 and with many digits ----


@dataclass(frozen=True)
class Floating:
    """Tensors at x (P, 1, d) and ξ (1, M, d)."""

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
        function = torch.cos if name == "cos" else torch.sin
        return function(2 * math.pi * phase)[..., None]

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


class Digits:
    """Arrays (C,) of mpmath's numbers at one x and one ξ, with the digits of its context."""

    def __init__(self, x: Sequence[Any], xi: Sequence[Any]) -> None:
        import mpmath
        import numpy as np

        self.x, self.xi, self.mp = x, xi, mpmath
        self.array: Callable[[Sequence[Any]], Any] = lambda v: np.array(list(v), dtype=object)

    def constant(self, values: Tensor) -> Any:
        return self.array([self.mp.mpmathify(value) for value in values.tolist()])

    def frequency(self, axis: int) -> Any:
        return self.array([self.xi[axis]])

    def coordinate(self, axis: int) -> Any:
        return self.array([self.x[axis]])

    def harmonic(self, name: str, wave: Sequence[int]) -> Any:
        phase = 2 * self.mp.pi * sum(k * x for k, x in zip(wave, self.x, strict=False))
        return self.array([getattr(self.mp, name)(phase)])

    def radius_squared(self, shift: float, scale: Sequence[float]) -> Any:
        sides = list(scale) * (len(self.xi) if len(scale) == 1 else 1)
        squares = [(xi / self.mp.mpf(s)) ** 2 for xi, s in zip(self.xi, sides, strict=True)]
        return self.array([self.mp.mpf(shift) ** 2 + sum(squares)])

    def apply(self, name: str, value: Any) -> Any:
        mp = self.mp
        functions = {
            "sigmoid": lambda z: 1 / (1 + mp.exp(-z)),
            "gelu": lambda z: z * mp.erfc(-z / mp.sqrt(2)) / 2,
            "softplus": lambda z: mp.log1p(mp.exp(-abs(z))) + max(z, mp.mpf(0)),
            "silu": lambda z: z / (1 + mp.exp(-z)),
            "relu": lambda z: max(z, mp.mpf(0)),
        }
        function = functions[name] if name in functions else getattr(mp, name)
        return self.array([function(z) for z in value])

    def power(self, value: Any, exponent: float) -> Any:
        return self.array([z ** self.mp.mpf(exponent) for z in value])

    def affine(self, value: Any, weight: Tensor, bias: Tensor) -> Any:
        return self.constant(weight.flatten()).reshape(weight.shape) @ value + self.constant(bias)

    def stack(self, values: Sequence[Any]) -> Any:
        return self.array([z for value in values for z in value])

    def leaf(self, function: Callable[[Tensor, Tensor], Tensor]) -> Any:
        raise NotImplementedError("this part has values in float64 alone")
