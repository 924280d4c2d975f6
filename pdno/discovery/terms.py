"""Terms of a right-hand side, parsed from text: "u_xx", "u u_x", "Δu", "v·∇u", "cos(1,1)".

A term is a source f(x), one factor a(D)u, or the product (a(D)u)·(b(D)u) of two, which may be
vectors. Each factor is a symbol of one field; v·∇u is the one with a = Biot-Savart, b = gradient.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, product

import torch
from torch import Tensor, nn

from pdno.spectral.grid import Grid
from pdno.symbols.analytic import BiotSavart, DifferentialOperator, Gradient
from pdno.symbols.base import Symbol

AXES = "xyz"


@dataclass(frozen=True)
class Wave:
    """The source cos 2πk·x, or sin; with k = 0 it is the constant 1."""

    k: tuple[int, ...]
    sine: bool = False

    def values(self, grid: Grid) -> Tensor:
        """f at the points of a grid, (*N), float64."""
        phase = 2 * math.pi * (grid.points() @ torch.tensor(self.k, dtype=torch.float64))
        return torch.sin(phase) if self.sine else torch.cos(phase)


class Term(nn.Module):
    """A term f(x), a(D)u_i or (a(D)u_i)·(b(D)u_j) in the equation of one field.

    Without a `source`, `symbols` are one or two, each with the number of its field in `inputs`;
    `field` is the one whose time derivative has the term.
    """

    def __init__(
        self,
        text: str,
        symbols: Sequence[Symbol] = (),
        inputs: Sequence[int] | None = None,
        *,
        source: Wave | None = None,
        field: int = 0,
    ) -> None:
        super().__init__()
        if len(symbols) > 2 or bool(symbols) == (source is not None):
            wrong = f"term {text!r} has {len(symbols)} symbols, source {source}"
            raise ValueError(f"{wrong}; expected one or two symbols, or a source")
        if any(s.in_channels != 1 or s.depends_on_x or s.takes_time for s in symbols):
            raise ValueError(f"term {text!r}: expected symbols a(ξ) of one field")
        lengths = {symbol.out_channels for symbol in symbols}
        if len(lengths) > 1 or (len(symbols) == 1 and lengths != {1}):
            raise ValueError(f"the factors of term {text!r} differ in length")
        self.text, self.source, self.field = text, source, field
        self.symbols = nn.ModuleList(symbols)
        self.inputs = tuple(inputs or (field,) * len(symbols))

    @property
    def linear(self) -> bool:
        """Whether it is a(D)u."""
        return len(self.symbols) == 1

    @property
    def diagonal(self) -> bool:
        """Whether it is a(D)u in the equation of u itself."""
        return self.linear and self.inputs == (self.field,)

    @property
    def complexity(self) -> float:
        """Factors and orders, by which simpler terms are preferred."""
        orders = [symbol.class_order for symbol in self._factors()]
        return len(orders) + sum(map(abs, orders)) + (self.source is not None) / 2

    def _factors(self) -> list[Symbol]:
        return [symbol for symbol in self.symbols if isinstance(symbol, Symbol)]

    def tables(self, xi: Tensor, dim: int) -> list[Tensor]:
        """a(ξ) of each factor at frequencies (*N^, d), as (O, *N^) complex128."""
        flat, values = xi.reshape(-1, dim), list[Tensor]()
        for symbol in self._factors():
            c = symbol.evaluate_at(flat.new_zeros(1, dim), flat).frequency[:, :, 0].sum(dim=0)
            values.append(c.to(torch.complex128).reshape(-1, *xi.shape[:-1]))
        return values


def parse_term(text: str, dim: int, names: Sequence[str] = ("u",), field: int = 0) -> Term:
    """The term of a text.

    Fields are called by `names`, derivatives u_x, u_xxy, Δu and Δ²u; two factors stand side by
    side, as in "u u_x". Further terms are "v·∇u", the transport by the velocity of the vorticity
    u, and sources "1", "cos(1,1)", "sin(1,1)", with one integer per axis.
    """
    if text == "1":
        return Term(text, source=Wave((0,) * dim), field=field)
    if wave := re.fullmatch(r"(cos|sin)\(([-\d, ]+)\)", text):
        k = tuple(int(number) for number in wave[2].split(","))
        if len(k) != dim:
            raise ValueError(f"source {text!r} has {len(k)} numbers in {dim} dimensions")
        return Term(text, source=Wave(k, wave[1] == "sin"), field=field)
    if (flow := re.fullmatch(r"v·∇(\w+)", text)) and flow[1] in names:
        if dim != 2:
            raise ValueError(f"term {text!r} in {dim} dimensions; expected a flow in the plane")
        return Term(text, [BiotSavart(), Gradient(2)], [names.index(flow[1])] * 2, field=field)
    symbols, inputs = list[Symbol](), list[int]()
    pattern = rf"(Δ²|Δ|)({'|'.join(map(re.escape, names))})(?:_([{AXES[:dim]}]+))?"
    for part in text.split():
        factor = re.fullmatch(pattern, part)
        if factor is None:
            fields = f"the fields {', '.join(names)} in {dim} dimensions"
            example = f"{names[0]}_x, Δ{names[0]}, v·∇{names[0]}, cos({','.join('1' * dim)})"
            raise ValueError(f"cannot read {part!r} with {fields}; expected words as {example}")
        powers = Counter(
            tuple((factor[3] or "").count(AXES[k]) + 2 * axes.count(k) for k in range(dim))
            for axes in product(range(dim), repeat=("", "Δ", "Δ²").index(factor[1]))
        )
        symbols.append(DifferentialOperator(list(powers), list(map(float, powers.values()))))
        inputs.append(names.index(factor[2]))
    return Term(text, symbols, inputs, field=field)


def field_names(count: int) -> tuple[str, ...]:
    """The names of fields that have none: u, v, w, ..."""
    return tuple("uvwpqrs"[:count])


def usual_terms(dim: int, names: Sequence[str] = ("u",)) -> list[str]:
    """The library that is tried by default, for each field.

    On a line derivatives up to the fourth order, products of two with at most two derivatives
    together, and a constant. In the plane and in space powers of Δ, first derivatives, products
    and, for one field in the plane, a flow of vorticity with sources of the lowest modes.
    """
    if dim == 1:
        words = [f"{name}_{'x' * n}".rstrip("_") for name in names for n in range(5)]
        low = [word for word in words if word.count("x") <= 2]
        pairs = combinations_with_replacement(low, 2)
        products = [f"{a} {b}" for a, b in pairs if (a + b).count("x") <= 2]
        return ["1", *words, *products]
    terms = ["1"]
    for name in names:
        terms += [name, *(f"{name}_{axis}" for axis in AXES[:dim]), f"Δ{name}", f"Δ²{name}"]
    terms += [f"{a} {b}" for a, b in combinations_with_replacement(names, 2)]
    if dim == 2 and len(names) == 1:
        waves = [k for k in product((-1, 0, 1), repeat=2) if k > (0, 0)]
        terms += [f"v·∇{names[0]}"]
        terms += [f"{wave}({k[0]},{k[1]})" for k in waves for wave in ("cos", "sin")]
    return terms
