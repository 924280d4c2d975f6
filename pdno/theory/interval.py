"""Interval arithmetic: balls of float64 numbers with rigorous rounding, and jets of them.

Rounding is part of the radius of a ball. The elementary functions of torch are taken to err by
less than `MARGIN`, relative to 1, to |z| and to their value; tests/theory/test_interval.py
compares them, their derivatives and the bounds of these with 40 digits.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import EllipsisType
from typing import Self, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

MARGIN = 2.0**-44
UNIT = 2.0**-52
TINY = 1e-300
Key = int | slice | None | tuple[int | slice | EllipsisType | None, ...]
Index = tuple[int, ...]
"""Variables by which a function is differentiated, in rising order."""


@dataclass(frozen=True)
class Ball:
    """m ± r, all numbers so near to m, entry by entry of two tensors of one shape.

    The sum, product or function of balls contains all sums, products or values.
    """

    mid: Tensor
    rad: Tensor

    @classmethod
    def rounded(cls, mid: Tensor, rad: Tensor) -> Self:
        """A result that was computed with a few roundings."""
        return cls(mid, torch.add(rad * (1 + 4 * UNIT), mid.abs(), alpha=UNIT).add_(TINY))

    @classmethod
    def point(cls, value: Tensor) -> Self:
        """Exact numbers."""
        return cls(value, torch.zeros_like(value))

    @classmethod
    def near(cls, value: float) -> Self:
        """A number up to a few roundings."""
        at = torch.tensor(value, dtype=torch.float64)
        return cls(at, MARGIN * (1 + at.abs()))

    @classmethod
    def between(cls, lo: Tensor, hi: Tensor) -> Self:
        """All numbers from lo to hi."""
        mid = 0.5 * (lo + hi)
        return cls.rounded(mid, torch.maximum(hi - mid, mid - lo))

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Entries in another order or shape."""
        return type(self)(change(self.mid), change(self.rad))

    def __getitem__(self, index: Key) -> Self:
        return self.map(lambda values: values[index])

    def __neg__(self) -> Self:
        return type(self)(-self.mid, self.rad)

    def __add__(self, other: "Ball") -> Self:
        return self.rounded(self.mid + other.mid, self.rad + other.rad)

    def __sub__(self, other: "Ball") -> Self:
        return self + (-other)

    def __mul__(self, other: "Ball | float") -> Self:
        if not isinstance(other, Ball):
            return self.rounded(self.mid * other, self.rad * abs(other))
        spread = self.mid.abs() * other.rad + self.rad * (other.mid.abs() + other.rad)
        return self.rounded(self.mid * other.mid, spread)

    def square(self) -> Self:
        """z², which is not negative."""
        lo, hi = self.mignitude().square(), self.size().square()
        return self.between(lo * (1 - 8 * UNIT), hi * (1 + 8 * UNIT))

    def power(self, exponent: float) -> Self:
        """z^exponent of z > 0, which rises or falls."""
        lo = ((self.mid - self.rad) * (1 - UNIT)).clamp_min(0.0)
        ends = lo**exponent, ((self.mid + self.rad) * (1 + UNIT)) ** exponent
        least, most = torch.minimum(*ends), torch.maximum(*ends)
        return self.between(least * (1 - MARGIN), most * (1 + MARGIN))

    def size(self) -> Tensor:
        """The largest |z|, up to one rounding."""
        return self.mid.abs() + self.rad

    def mignitude(self) -> Tensor:
        """The smallest |z|, up to one rounding."""
        return (self.mid.abs() - self.rad).clamp_min(0.0)

    def linear(self, weight: Tensor) -> Self:
        """W z of z (..., I) with an exact matrix W (O, I).

        |fl(W v) - W v| <= γ_n |W| |v| with γ_n = n u / (1 - n u), u = 2^-53, for every order of
        summation (Rump's form by middle and radius).
        """
        loss = (weight.shape[1] + 4) * UNIT  # twice γ_n and more
        spread = (self.rad + loss * self.mid.abs()) @ weight.abs().T
        return self.rounded(self.mid @ weight.T, spread * (1 + loss))


AnyBall = TypeVar("AnyBall", bound=Ball)


def join(balls: Sequence[AnyBall], dim: int = 0) -> AnyBall:
    """One after another along an axis."""
    mids, rads = [ball.mid for ball in balls], [ball.rad for ball in balls]
    return type(balls[0])(torch.cat(mids, dim), torch.cat(rads, dim))


@lru_cache(maxsize=16)
def indices_of(variables: int) -> tuple[Index, ...]:
    """All derivatives of order up to three, in the order of a jet."""
    orders = (itertools.combinations_with_replacement(range(variables), k) for k in range(4))
    return tuple(itertools.chain(*orders))


@lru_cache(maxsize=64)
def _splits(index: Index) -> tuple[tuple[Index, Index], ...]:
    """Leibniz: all ways to give the derivatives to two factors."""
    numbers = range(len(index))
    chosen = itertools.chain(*(itertools.combinations(numbers, k) for k in range(len(index) + 1)))
    return tuple(
        (tuple(index[k] for k in some), tuple(index[k] for k in numbers if k not in some))
        for some in chosen
    )


class Jet(Ball):
    """All derivatives ∂^α f, |α| <= 3, over boxes: a ball with these along its first axis."""

    @property
    def variables(self) -> int:
        """How many there are."""
        return next(n for n in itertools.count() if math.comb(n + 3, 3) == len(self.mid))

    def __call__(self, *index: int) -> Ball:
        """∂_v ∂_w ... f; f itself without an index."""
        row = indices_of(self.variables).index(tuple(sorted(index)))
        return Ball(self.mid[row], self.rad[row])

    def __getitem__(self, index: Key) -> "Jet":
        rest = index if isinstance(index, tuple) else (index,)
        return self.map(lambda values: values[(slice(None), *rest)])

    @classmethod
    def of(cls, rows: Sequence[Ball]) -> "Jet":
        """From all derivatives in their order."""
        return cls(torch.stack([row.mid for row in rows]), torch.stack([row.rad for row in rows]))

    @classmethod
    def of_variable(cls, at: Ball, v: int | None, variables: int) -> "Jet":
        """The v-th variable itself, or with None a constant."""
        indices, slope = indices_of(variables)[1:], torch.ones_like(at.mid)
        slopes = [Ball.point(slope * (index == (v,))) for index in indices]
        return cls.of([at, *slopes])

    def __mul__(self, other: Ball | float) -> "Jet":
        if not isinstance(other, Jet):
            return super().__mul__(other)
        rows = []
        for index in indices_of(self.variables):
            first, *rest = [self(*ours) * other(*theirs) for ours, theirs in _splits(index)]
            rows.append(sum(rest, start=first))
        return self.of(rows)

    def compose(self, of: Sequence[Ball]) -> "Jet":
        """σ(f) by the ranges of σ, σ', σ'' and σ''' over the values of f (Faà di Bruno)."""
        rows, products = [of[0]], dict[Index, Ball]()
        for index in indices_of(self.variables)[1:]:
            row = of[1] * self(*index)
            if len(index) > 1:
                ways = range(1 if len(index) == 2 else 3)
                pairs = [self(index[k]) * self(*index[:k], *index[k + 1 :]) for k in ways]
                row = row + of[2] * sum(pairs[1:], start=pairs[0])
                products[index] = pairs[0]
            if len(index) == 3:
                row = row + of[3] * (self(index[0]) * products[index[1:]])
            rows.append(row)
        return self.of(rows)

    def apply(self, name: str) -> "Jet":
        """σ(f) for a function of `FUNCTIONS`, by Taylor's formula with a bound B_k of |σ^(k)|,

        σ^(k)(m ± r) ⊂ σ^(k)(m) ± (r |σ^(k+1)(m)| + r² B_{k+2} / 2).
        """
        z, function = self(), FUNCTIONS[name]
        at, square = function.derivatives(z.mid), 0.5 * z.rad.square()
        of = []
        for k in range(4):
            reach = z.rad * at[k + 1].abs() + square * function.bounds[k + 2]
            reach = reach * (1 + MARGIN) + MARGIN * (1 + z.mid.abs() + at[k].abs())
            lo, hi, most = at[k] - reach, at[k] + reach, function.bounds[k]
            of.append(Ball.between(lo.clamp_min(-most), hi.clamp_max(most)))
        return self.compose(of)

    def square(self) -> "Jet":
        """f²."""
        z, two = self(), torch.full_like(self.mid[0], 2.0)
        return self.compose([z.square(), z * 2.0, Ball.point(two), Ball.point(0 * two)])

    def exponential(self) -> "Jet":
        """e^f."""
        z = self()
        lo, hi = torch.exp(z.mid - z.rad), torch.exp(z.mid + z.rad)
        slack = MARGIN * (1 + z.size())  # an end that is rounded by u |z| moves e^z by that share
        return self.compose([Ball.between(lo * (1 - slack), hi * (1 + slack))] * 4)

    def power(self, exponent: float) -> "Jet":
        """f^exponent of f > 0."""
        factors = [math.prod(exponent - j for j in range(k)) for k in range(4)]
        of = [self().power(exponent - k) * Ball.near(c) for k, c in enumerate(factors)]
        return self.compose(of)

    def centred(self, half: Tensor) -> "Jet":
        """The same by the mean value theorem, where that is smaller: of second order in h.

            ∂^α f(p) ∈ ∂^α f(c) + Σ_v ∂_v ∂^α f(box) [-h_v, h_v],      |α| <= 2

        Along axis 1 the first half are middles c, the second half the boxes around them, with half
        widths h (P, V).
        """
        at, box = self[: len(half)], self[len(half) :]
        steps = half.reshape(*half.shape, *[1] * (self.mid.dim() - 2)).unbind(1)
        reach = torch.full_like(box.mid, math.inf)  # of the third derivatives nothing is known
        for row, index in enumerate(i for i in indices_of(self.variables) if len(i) < 3):
            slopes = [h * box(*index, v).size() for v, h in enumerate(steps)]
            reach[row] = torch.stack(slopes).sum(dim=0)
        around = Ball.rounded(at.mid, at.rad + reach * (1 + MARGIN))
        nearer, pairs = around.rad < box.rad, ((around.mid, box.mid), (around.rad, box.rad))
        return join([at, Jet(*[torch.where(nearer, *pair) for pair in pairs])], dim=1)


@dataclass(frozen=True)
class Function:
    """σ, and bounds of |σ|, ..., |σ^(5)|; those of σ and σ' may be infinite."""

    value: Callable[[Tensor], Tensor]
    bounds: tuple[float, ...]

    @torch.enable_grad()
    def derivatives(self, z: Tensor) -> list[Tensor]:
        """σ, ..., σ^(4) at points."""
        z = z.detach().requires_grad_()
        values = [self.value(z)]
        for _ in range(4):
            values += torch.autograd.grad(values[-1].sum(), z, create_graph=True)
        return [value.detach() for value in values]


FUNCTIONS: dict[str, Function] = {
    "gelu": Function(functional.gelu, (math.inf, 1.13, 0.80, 0.78, 1.60, 2.85)),
    "tanh": Function(torch.tanh, (1.0, 1.0, 0.77, 2.0, 4.09, 16.0)),
    "sigmoid": Function(torch.sigmoid, (1.0, 0.25, 0.0963, 0.125, 0.128, 0.25)),
    "softplus": Function(
        lambda z: torch.logaddexp(z, torch.zeros_like(z)),
        (math.inf, 1.0, 0.25, 0.0963, 0.125, 0.128),
    ),
    "silu": Function(functional.silu, (math.inf, 1.10, 0.50, 0.309, 0.50, 0.66)),
    "cos": Function(torch.cos, (1.0,) * 6),
    "sin": Function(torch.sin, (1.0,) * 6),
}
