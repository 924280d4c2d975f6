"""Interval bounds of expressions over all of T^n x R^n: lower bounds, and class constants.

A symbol a of order m is A(τ, ξ) = τ^m a(ξ/τ) at τ = 1, and A is homogeneous of degree m. So

    |∂_ξ^α ∂_x^β a| ⟨ξ⟩^{|α|-m} = |p|^{|α|-m} |∂_ξ^α ∂_x^β A(p)|,      p = (τ, ξ),

is of degree 0 in p: its supremum is that over the half τ >= 0 of the surface of a cube, which is
compact. ξ_j remains ξ_j, s² + |ξ|² becomes s² τ² + |ξ|², and lifting a part from order k to m
multiplies it by τ^{m-k}. Boxes of the surface and of x are halved until the bounds are good.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pdno.theory.expression import Expression
from pdno.theory.interval import Ball, Jet, indices_of, join
from pdno.theory.probe import MultiIndex, multi_indices

FAR = 1 / 16  # of τ/max |ξ_j|, where infinity begins
MOST_BOXES = 2**12
MOST_FACTORS = 8  # of powers that are products
NUMBERS_AT_ONCE = 2**18
SLACK = 1 + 1e-12  # of the few operations on bounds after the enclosure
WHOLE = 1e-12  # orders that differ from an integer by less are rounded decimals

Cells = tuple[Tensor, Tensor, Tensor]
"""Boxes: lower and upper corners, (P, d) or (P, 2d) with x, and their face of the cube."""
Enclosures = list[tuple[Tensor, Tensor]]
"""Sizes over boxes from below and from above, one row for each quantity, (2P, C)."""


class NotEnclosed(Exception):
    """A part of an expression has no jet that is bounded on the compactified phase space."""


@dataclass(frozen=True)
class Weighted:
    """A over boxes as jets (J, 2P, C) of its real and imaginary part, None for 0."""

    order: float  #: m
    real: Jet
    imaginary: Jet | None
    at: "Compactified"

    def lifted(self, order: float) -> "Weighted":
        """As a symbol of higher order."""
        gain = order - self.order
        if gain == 0:
            return self
        weight = self.at.power_of_tau(gain)
        return self.mapped(order, lambda part: part * weight)

    def mapped(self, order: float, change: Callable[[Jet], Jet]) -> "Weighted":
        """A linear map of both parts."""
        imaginary = None if self.imaginary is None else change(self.imaginary)
        return Weighted(order, change(self.real), imaginary, self.at)

    def __add__(self, other: "Weighted") -> "Weighted":
        order = max(self.order, other.order)
        a, b = self.lifted(order), other.lifted(order)
        parts = [part for part in (a.imaginary, b.imaginary) if part is not None]
        total = functools.reduce(Jet.__add__, parts) if parts else None
        return Weighted(order, a.real + b.real, total, self.at)

    def __mul__(self, other: "Weighted") -> "Weighted":
        real, x, y = self.real * other.real, self.imaginary, other.imaginary
        if x is not None and y is not None:
            real = real - x * y
        mixed = [a * b for a, b in ((self.real, y), (other.real, x)) if b is not None]
        imaginary = functools.reduce(Jet.__add__, mixed) if mixed else None
        return Weighted(self.order + other.order, real, imaginary, self.at)

    def reciprocal(self) -> "Weighted":
        """1/a, of either sign."""
        x, y = self.real, self.imaginary
        inverse = (x.square() if y is None else x.square() + y.square()).power(-1.0)
        return Weighted(-self.order, x * inverse, None if y is None else -(y * inverse), self.at)

    def derivative(self, alpha: MultiIndex, beta: MultiIndex) -> list[Ball]:
        """Real and imaginary part of |p|^{|α|-m} ∂_ξ^α ∂_x^β A, (2P, C)."""
        powers = zip(itertools.count(1), (*alpha, *beta), strict=False)
        slopes = [self.at.variables[c] for c, power in powers for _ in range(power)]
        weight = self.at.radius_squared(1.0, (1.0,)).real().power((sum(alpha) - self.order) / 2)
        units = [unit**-k for unit, k in zip(self.at.units, alpha, strict=True)]
        parts = [part for part in (self.real, self.imaginary) if part is not None]
        return [part(*slopes) * weight * Ball.near(math.prod(units)) for part in parts]


class Compactified:
    """Intervals over P boxes of one face and their middles before them, an `Arithmetic`.

    Coordinates are (τ, ξ, x), ξ in some units. Face 0 is τ = 1, then come ξ_j = 1 and ξ_j = -1.
    Jets have as variables x alone, or (τ, ξ) and what there is of x, or nothing.
    """

    def __init__(
        self, face: int, lo: Tensor, hi: Tensor, units: Sequence[float], *, jets: str = "all"
    ) -> None:
        dim, self.units = len(units), units
        box, self.dim = Ball.between(lo, hi), dim
        free = join([Ball.point(box.mid), box])
        columns = [free[:, k : k + 1] for k in range(lo.shape[1])]
        unit = Ball.point(torch.ones_like(free.mid[:, :1]))
        missing = face - dim if face > dim else face
        self.points = [
            *columns[:missing],
            unit * (-1.0 if face > dim else 1.0),
            *columns[missing:],
        ]
        widths = [*box.rad.unbind(1)]
        widths.insert(missing, torch.zeros_like(box.rad[:, 0]))
        first = {"all": 0, "x": 1 + dim, "none": len(self.points)}[jets]
        self.variables = {c: c - first for c in range(first, len(self.points))}
        self.half = torch.stack(widths[first:], dim=1) if self.variables else box.rad[:, :0]

    def _variable(self, coordinate: int) -> Jet:
        at, v = self.points[coordinate], self.variables.get(coordinate)
        return Jet.of_variable(at, v, len(self.variables))

    def _xi(self, axis: int) -> Jet:
        return self._variable(1 + axis) * Ball.near(self.units[axis])

    def nearer(self, value: Weighted) -> Weighted:
        """The same by the mean value theorem, where that is smaller."""
        if not self.variables:
            return value
        return value.mapped(value.order, lambda part: part.centred(self.half))

    def power_of_tau(self, exponent: float) -> Jet:
        """τ^exponent, whose derivatives are those by τ."""
        whole, tau, rows = round(exponent), self.points[0], list[Ball]()
        power = float(whole) if abs(exponent - whole) < WHOLE else exponent
        for index in indices_of(len(self.variables)):
            factor = math.prod(power - k for k in range(len(index)))
            factor = 0.0 if any(index) or (index and 0 not in self.variables) else factor
            zero = Ball.point(torch.zeros_like(tau.mid))
            rows.append(tau.power(power - len(index)) * Ball.near(factor) if factor else zero)
        return Jet.of(rows)

    def constant(self, values: Tensor) -> Weighted:
        rows = len(self.points[0].mid)
        parts = [
            Jet.of_variable(Ball.point(part.expand(rows, -1).clone()), None, len(self.variables))
            for part in ([values.real, values.imag] if values.is_complex() else [values])
        ]
        imaginary = parts[1] if len(parts) == 2 and bool(values.imag.any()) else None
        return Weighted(0.0, parts[0], imaginary, self)

    def frequency(self, axis: int) -> Weighted:
        return Weighted(1.0, self._xi(axis), None, self)

    def coordinate(self, axis: int) -> Weighted:
        return Weighted(0.0, self._variable(1 + self.dim + axis), None, self)

    def harmonic(self, name: str, wave: Sequence[int]) -> Weighted:
        turns = [
            self.coordinate(axis).real * (Ball.near(2 * math.pi) * float(k))
            for axis, k in enumerate(wave)
        ]
        angle = functools.reduce(Jet.__add__, turns)
        return Weighted(0.0, angle.apply(name), None, self)

    def radius_squared(self, shift: float, scale: Sequence[float]) -> Weighted:
        sides = list(scale) * (self.dim if len(scale) == 1 else 1)
        total = (self._variable(0) * Ball.near(shift)).square()
        for axis, side in enumerate(sides):
            total = total + (self._xi(axis) * Ball.near(1 / side)).square()
        return Weighted(2.0, total, None, self)

    def apply(self, name: str, value: Weighted) -> Weighted:
        if value.order > WHOLE or value.imaginary is not None or name == "relu":
            raise NotEnclosed(f"{name} of a part of order {value.order:g}")
        u = self.nearer(value.lifted(0.0)).real
        return Weighted(0.0, u.exponential() if name == "exp" else u.apply(name), None, self)

    def power(self, value: Weighted, exponent: float) -> Weighted:
        if exponent == int(exponent) and abs(exponent) <= MOST_FACTORS:
            base = value.reciprocal() if exponent < 0 else value
            one = self.constant(torch.ones(1, dtype=torch.float64))
            return functools.reduce(Weighted.__mul__, [base] * abs(int(exponent)) or [one])
        if value.imaginary is not None:
            raise NotEnclosed(f"power {exponent:g} of a complex part")
        return Weighted(value.order * exponent, value.real.power(exponent), None, self)

    def affine(self, value: Weighted, weight: Tensor, bias: Tensor) -> Weighted:
        mapped = value.mapped(value.order, lambda part: part.linear(weight))
        return self.nearer(mapped + self.constant(bias) if bool(bias.any()) else mapped)

    def stack(self, values: Sequence[Weighted]) -> Weighted:
        order = max(value.order for value in values)
        lifted = [value.lifted(order) for value in values]
        if any(value.imaginary is not None for value in lifted):
            raise NotEnclosed("components that are complex")
        return Weighted(order, join([value.real for value in lifted], dim=-1), None, self)

    def leaf(self, function: Callable[[Tensor, Tensor], Tensor]) -> Weighted:
        raise NotEnclosed("a part without a formula")


# ---- Boxes ----


def cells(dim: int, *, in_x: bool, far: bool = False, in_xi: bool = True) -> Cells:
    """Boxes of the faces times those of x; with `far` near infinity, without `in_xi` at ξ = 0."""
    rows, faces = list[Tensor](), list[int]()
    for face in range(1 if far else 0, 2 * dim + 1 if in_xi else 1):
        edge = FAR if far else 1.0
        sides = [(-1.0, 1.0, 0.5)] * dim if face == 0 else [(0.0, edge, edge / 2)]
        sides += [(-1.0, 1.0, 0.5)] * (dim - 1) if face else []
        sides = sides if in_xi else [(0.0, 0.0, 0.0)] * dim
        sides += [(0.0, 1.0, 0.5)] * dim if in_x else []
        corners = [
            [(a + k * h, a + (k + 1) * h) for k in range(round((b - a) / h) if h else 1)]
            for a, b, h in sides
        ]
        rows.append(torch.tensor(list(itertools.product(*corners)), dtype=torch.float64))
        faces += [face] * len(rows[-1])
    lo, hi = torch.cat(rows).unbind(-1)
    return lo, hi, torch.tensor(faces)


def halve(lo: Tensor, hi: Tensor, face: Tensor) -> Cells:
    """Each box cut in two across its longest side."""
    side = torch.nn.functional.one_hot((hi - lo).argmax(dim=1), lo.shape[1]).bool()
    middle = 0.5 * (lo + hi)
    lows = torch.cat([lo, torch.where(side, middle, lo)])
    return lows, torch.cat([torch.where(side, middle, hi), hi]), face.repeat(2)


def least(
    expression: Expression, dim: int, *, in_x: bool, far: bool = False, size: bool = False
) -> tuple[float, float]:
    """The order m of an expression, and c > 0 with a >= c ⟨ξ⟩^m, or 0 if there is no proof of one.

    Everywhere, or `far` out only; with `size` it is a bound of |a|, for each component.
    """
    (lo, hi, faces), bound, used, order = cells(dim, in_x=in_x, far=far), math.inf, 0, 0.0
    while len(lo):
        used += len(lo)
        rank = faces.argsort(stable=True)
        (lo, hi, faces), parts = (lo[rank], hi[rank], faces[rank]), list[Tensor]()
        if used > MOST_BOXES:
            return order, 0.0
        for face in torch.unique(faces).tolist():
            here = faces == face
            value = expression.on(
                Compactified(face, lo[here], hi[here], (1.0,) * dim, jets="none")
            )
            order, values = value.order, value.derivative((0,) * dim, ())
            smallest = (values[0].mid - values[0].rad) - 1e-12 * values[0].size()
            if size:
                sizes = torch.stack([part.mignitude() for part in values])
                smallest = sizes.square().sum(dim=0).sqrt() / SLACK
            elif len(values) > 1:
                smallest = torch.full_like(smallest, -math.inf)
            parts.append(torch.unflatten(smallest.amin(dim=1), 0, (2, -1)))
        middle, lower = torch.cat(parts, dim=1).nan_to_num(nan=-math.inf)
        if not bool((middle > 0).all()):
            return order, 0.0
        done = lower > 0
        bound = min(bound, float(lower[done].min())) if bool(done.any()) else bound
        lo, hi, faces = halve(lo[~done], hi[~done], faces[~done])
    return order, bound


@torch.no_grad()
def suprema(
    expression: Expression,
    units: Sequence[float],
    boxes: Cells,
    rows: Callable[[Weighted], Enclosures],
    *,
    looseness: float,
    budget: int,
    jets: str = "all",
) -> tuple[float, Tensor, int]:
    """The order, enclosures (rows, 2, C) and the boxes used, by halving the worst of them."""
    best, done, used, order = torch.zeros(()), torch.zeros(()), 0, 0.0
    lo, hi, face = boxes
    variables = lo.shape[1] + 1 if jets == "all" else len(units)
    at_once = max(1, NUMBERS_AT_ONCE // (64 * math.comb(variables + 3, 3)))
    while len(lo):
        used += len(lo)
        groups = [(face == number).nonzero()[:, 0] for number in torch.unique(face)]
        chunks = [chunk for group in groups for chunk in torch.split(group, at_once)]
        parts = list[Tensor]()
        for chunk in chunks:
            at = Compactified(int(face[chunk[0]]), lo[chunk], hi[chunk], units, jets=jets)
            value = at.nearer(expression.on(at))
            order, sizes = value.order, rows(value)
            low = torch.stack([low[: len(chunk)] for low, _ in sizes]).nan_to_num(nan=0.0)
            high = torch.stack([high[len(chunk) :] for _, high in sizes])
            parts.append(torch.stack([low, high.nan_to_num(nan=math.inf, posinf=math.inf)]))
        lower, upper = torch.cat(parts, dim=2)[:, :, torch.cat(chunks).argsort()]
        best = torch.maximum(best, lower.amax(dim=1))
        enough = looseness * best.amax(dim=1) + 1e-6 * best.max()
        excess = (upper.amax(dim=2) / enough[:, None]).amax(dim=0)
        worst = excess.argsort(descending=True)
        again = worst[: min(int((excess > 1).sum()), max(0, (budget - used) // 2))]
        kept = torch.ones(len(lo), dtype=torch.bool)
        kept[again] = False
        if bool(kept.any()):
            done = torch.maximum(done, upper[:, kept].amax(dim=1))
        lo, hi, face = halve(lo[again], hi[again], face[again])
    return order, torch.stack([torch.minimum(best, done), done], dim=1), used


def sizes_of(parts: Sequence[Ball]) -> tuple[Tensor, Tensor]:
    """Euclidean sizes of vectors, from below and from above."""
    low = torch.stack([part.mignitude() for part in parts]).square().sum(dim=0).sqrt()
    high = torch.stack([part.size() for part in parts]).square().sum(dim=0).sqrt()
    return low / SLACK, high * SLACK


def enclose_expression(
    expression: Expression, dim: int, *, in_x: bool, looseness: float = 1.5, boxes: int = 2**10
) -> tuple[float, dict[tuple[MultiIndex, MultiIndex], tuple[float, float]]]:
    """The order m, and enclosures of sup |∂_ξ^α ∂_x^β a| ⟨ξ⟩^{|α|-m} for |α| + |β| <= 3.

    From below they are attained, from above they bound; inf where no bound was found.
    """
    indices = [(index[:dim], index[dim:]) for index in multi_indices(dim * (1 + in_x), 3)]
    order, bounds, _ = suprema(
        expression, (1.0,) * dim, cells(dim, in_x=in_x),
        lambda value: [sizes_of(value.derivative(*index)) for index in indices],
        looseness=looseness, budget=boxes,
    )  # fmt: skip
    pairs = [(alpha, beta or (0,) * dim) for alpha, beta in indices]
    largest = bounds.amax(dim=2).tolist()
    return order, {pair: (low, high) for pair, (low, high) in zip(pairs, largest, strict=True)}
