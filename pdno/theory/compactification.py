"""Interval bounds of expressions over all of T^n x R^n: lower bounds, and class constants.

With ω = (1, ξ)/⟨ξ⟩ = (τ, η) the phase space is T^n x {ω : |ω| = 1, τ >= 0}, which is compact. At a
fixed ξ the numbers ⟨ξ⟩^{|α|-m} ∂_ξ^α a are the derivatives of h -> ⟨ξ⟩^{-m} a(ξ + ⟨ξ⟩ h) at h = 0.
So they are those of a jet, and sums, products and functions of symbols are those of jets:

    ξ_j has the jet η_j + h_j,    s² + |ξ|² that of s² τ² + |η + h|²,    order k < m gives τ^{m-k}.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pdno.theory.enclosure import SLACK, halve, middles_and_boxes, suprema
from pdno.theory.expression import Expression
from pdno.theory.interval import Ball, Jet, join
from pdno.theory.probe import MultiIndex, multi_indices

FAR = 1 / 16  # of τ/max |η_j|, where infinity begins
MOST_BOXES = 2**12
MOST_FACTORS = 8  # of powers that are products
AT_ONCE = 2**16  # numbers of a jet that are worked on together


class NotEnclosed(Exception):
    """A part of an expression has no jet that is bounded on the compactified phase space."""


@dataclass(frozen=True)
class Weighted:
    """⟨ξ⟩^{-m} a over boxes as jets (J, P, C) of its real and imaginary part, None for 0."""

    order: float  #: m
    real: Jet
    imaginary: Jet | None
    tau: Ball  #: τ of the boxes, (P, 1)

    def lifted(self, order: float) -> "Weighted":
        """As a symbol of higher order."""
        gain = order - self.order
        if gain == 0:
            return self
        weight = self.tau.power(gain)
        return self.mapped(order, lambda part: Ball.__mul__(part, weight))

    def mapped(self, order: float, change: Callable[[Jet], Jet]) -> "Weighted":
        """A linear map of both parts."""
        imaginary = None if self.imaginary is None else change(self.imaginary)
        return Weighted(order, change(self.real), imaginary, self.tau)

    def __add__(self, other: "Weighted") -> "Weighted":
        order = max(self.order, other.order)
        a, b = self.lifted(order), other.lifted(order)
        imaginary = [part for part in (a.imaginary, b.imaginary) if part is not None]
        total = functools.reduce(Jet.__add__, imaginary) if imaginary else None
        return Weighted(order, a.real + b.real, total, self.tau)

    def __mul__(self, other: "Weighted") -> "Weighted":
        real, imaginary = self.real * other.real, None
        if self.imaginary is not None and other.imaginary is not None:
            real = real - self.imaginary * other.imaginary
        mixed = [
            a * b
            for a, b in ((self.real, other.imaginary), (other.real, self.imaginary))
            if b is not None
        ]
        if mixed:
            imaginary = functools.reduce(Jet.__add__, mixed)
        return Weighted(self.order + other.order, real, imaginary, self.tau)

    def reciprocal(self) -> "Weighted":
        """1/a."""
        if self.imaginary is None:
            # of either sign
            square = self.real.square().power(-1.0)
            return Weighted(-self.order, self.real * square, None, self.tau)
        inverse = (self.real.square() + self.imaginary.square()).power(-1.0)
        real, imaginary = self.real * inverse, -(self.imaginary * inverse)
        return Weighted(-self.order, real, imaginary, self.tau)


class Compactified:
    """Intervals over P boxes of a face of the cube (τ, ξ) and of x, an `Arithmetic`."""

    def __init__(self, face: int, box: Ball, dim: int, *, in_x: bool, jets: bool) -> None:
        self.dim, sign = dim, -1.0 if face > dim else 1.0
        unit = Ball.point(torch.ones_like(box.mid[:, :1]))
        free = [box[:, k : k + 1] for k in range(dim)]
        # face 0 is τ = 1, then come ξ_j = 1 and ξ_j = -1
        missing = face - dim if face > dim else face
        points = [*free[:missing], unit * sign, *free[missing:]]
        shrink = functools.reduce(Ball.__add__, [p.square() for p in points]).power(-0.5)
        self.tau, *self.eta = (p * shrink for p in points)
        self.x = [box[:, dim + k : dim + k + 1] for k in range(dim)] if in_x else []
        self.variables = (dim + len(self.x)) * jets

    def _variable(self, at: Ball, v: int | None) -> Jet:
        return Jet.of_variable(at, v if self.variables else None, self.variables)

    def constant(self, values: Tensor) -> Weighted:
        parts = [values.real, values.imag if values.is_complex() else None]
        real, imaginary = (
            None
            if p is None or (k and not bool(p.any()))
            else self._variable(Ball.point(p.expand(len(self.tau.mid), -1).clone()), None)
            for k, p in enumerate(parts)
        )
        assert real is not None
        return Weighted(0.0, real, imaginary, self.tau)

    def frequency(self, axis: int) -> Weighted:
        return Weighted(1.0, self._variable(self.eta[axis], axis), None, self.tau)

    def coordinate(self, axis: int) -> Weighted:
        return Weighted(0.0, self._variable(self.x[axis], self.dim + axis), None, self.tau)

    def harmonic(self, name: str, wave: Sequence[int]) -> Weighted:
        turns = [
            self.coordinate(axis).real * (Ball.near(2 * math.pi) * float(k))
            for axis, k in enumerate(wave)
        ]
        angle = functools.reduce(Jet.__add__, turns)
        return Weighted(0.0, angle.apply(name), None, self.tau)

    def radius_squared(self, shift: float, scale: Sequence[float]) -> Weighted:
        sides = list(scale) * (self.dim if len(scale) == 1 else 1)
        total = self._variable(self.tau.square() * (Ball.near(shift) * Ball.near(shift)), None)
        for axis, side in enumerate(sides):
            total = total + (self.frequency(axis).real * Ball.near(1 / side)).square()
        return Weighted(2.0, total, None, self.tau)

    def apply(self, name: str, value: Weighted) -> Weighted:
        if value.order > 0 or value.imaginary is not None or name == "relu":
            raise NotEnclosed(f"{name} of a part of order {value.order:g}")
        u = value.lifted(0.0).real
        return Weighted(0.0, u.exponential() if name == "exp" else u.apply(name), None, self.tau)

    def power(self, value: Weighted, exponent: float) -> Weighted:
        if exponent == int(exponent) and abs(exponent) <= MOST_FACTORS:
            base = value.reciprocal() if exponent < 0 else value
            one = self.constant(torch.ones(1, dtype=torch.float64))
            factors = [base] * abs(int(exponent))
            return functools.reduce(Weighted.__mul__, factors) if factors else one
        if value.imaginary is not None:
            raise NotEnclosed(f"power {exponent:g} of a complex part")
        return Weighted(value.order * exponent, value.real.power(exponent), None, self.tau)

    def affine(self, value: Weighted, weight: Tensor, bias: Tensor) -> Weighted:
        mapped = value.mapped(value.order, lambda part: part.linear(weight))
        return mapped + self.constant(bias) if bool(bias.any()) else mapped

    def stack(self, values: Sequence[Weighted]) -> Weighted:
        order = max(value.order for value in values)
        lifted = [value.lifted(order) for value in values]
        if any(value.imaginary is not None for value in lifted):
            raise NotEnclosed("components that are complex")
        return Weighted(order, join([value.real for value in lifted], dim=-1), None, self.tau)

    def leaf(self, function: Callable[[Tensor, Tensor], Tensor]) -> Weighted:
        raise NotEnclosed("a part without a formula")


def _cells(dim: int, *, in_x: bool, far: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Boxes of the faces τ = 1 and ξ_j = ±1 times those of x; with `far` near infinity only."""
    cells = []
    for face in range(1 if far else 0, 2 * dim + 1):
        edge = 1 if not far else FAR
        sides = [(-1.0, 1.0, 0.5)] * dim if face == 0 else [(0.0, edge, edge / 2)]
        sides += [(-1.0, 1.0, 0.5)] * (dim - 1) if face else []
        sides += [(0.0, 1.0, 0.5)] * dim if in_x else []
        corners = [
            [(a + k * h, a + (k + 1) * h) for k in range(round((b - a) / h))] for a, b, h in sides
        ]
        boxes = torch.tensor(list(itertools.product(*corners)), dtype=torch.float64)
        cells.append((*boxes.unbind(-1), torch.full((len(boxes),), face)))
    lo, hi, faces = zip(*cells, strict=True)
    return torch.cat(lo), torch.cat(hi), torch.cat(faces)


def least(
    expression: Expression, dim: int, *, in_x: bool, far: bool = False, size: bool = False
) -> tuple[float, float]:
    """The order m of an expression, and c > 0 with a >= c ⟨ξ⟩^m, or 0 if there is no proof of one.

    Everywhere, or `far` out only; with `size` it is a bound of |a|, for each component.
    """
    lo, hi, faces = _cells(dim, in_x=in_x, far=far)
    bound, used, order = math.inf, 0, 0.0
    while len(lo):
        used += len(lo)
        if used > MOST_BOXES:
            return order, 0.0
        below, middle = [], []
        for face in sorted(set(faces.tolist())):
            at, _ = middles_and_boxes(lo[faces == face], hi[faces == face])
            value = expression.on(Compactified(face, at, dim, in_x=in_x, jets=False))
            order, (real, imaginary) = value.order, (value.real(), value.imaginary)
            parts = [real] if imaginary is None else [real, imaginary()]
            if size:
                sizes = torch.stack([part.mignitude() for part in parts]).square().sum(0).sqrt()
                smallest = sizes / SLACK
            else:
                smallest = (real.mid - real.rad) - 1e-12 * real.size()
                smallest = smallest if imaginary is None else torch.full_like(smallest, -math.inf)
            count = int((faces == face).sum())
            middle.append(smallest[:count].amin(dim=1))
            below.append(smallest[count:].amin(dim=1))
        # in the order of faces
        rank = faces.argsort(stable=True)
        lo, hi, faces = lo[rank], hi[rank], faces[rank]
        lower = torch.cat(below).nan_to_num(nan=-math.inf)
        if not bool((torch.cat(middle) > 0).all()):
            return order, 0.0
        done = lower > 0
        bound = min(bound, float(lower[done].min())) if bool(done.any()) else bound
        lo, hi, faces = halve(lo[~done], hi[~done], faces[~done])
    return order, bound


@torch.no_grad()
def enclose_expression(
    expression: Expression, dim: int, *, in_x: bool, looseness: float = 1.5, boxes: int = 2**10
) -> tuple[float, dict[tuple[MultiIndex, MultiIndex], tuple[float, float]]]:
    """The order m, and enclosures of sup |∂_ξ^α ∂_x^β a| ⟨ξ⟩^{|α|-m} for |α| + |β| <= 3.

    From below they are attained, from above they bound; inf where no bound was found.
    """
    variables = dim * (1 + in_x)
    indices = [i for i in multi_indices(variables, 3)]
    order = 0.0

    def sizes(face: int, lo: Tensor, hi: Tensor) -> tuple[Tensor, Tensor]:
        nonlocal order
        at, _ = middles_and_boxes(lo, hi)
        value = expression.on(Compactified(face, at, dim, in_x=in_x, jets=True))
        order, rows = value.order, []
        for index in indices:
            slopes = [v for v, power in enumerate(index) for _ in range(power)]
            parts = [p(*slopes) for p in (value.real, value.imaginary) if p is not None]
            low = torch.stack([p.mignitude() for p in parts]).square().sum(dim=0).sqrt() / SLACK
            high = torch.stack([p.size() for p in parts]).square().sum(dim=0).sqrt() * SLACK
            rows.append((low[..., None], high[..., None]))
        upper = torch.stack([high[len(lo) :] for _, high in rows])
        lower = torch.stack([low[: len(lo)] for low, _ in rows])
        return upper.nan_to_num(nan=math.inf, posinf=math.inf), lower.nan_to_num(nan=0.0)

    at_once = max(1, AT_ONCE // math.comb(variables + 3, 3))
    found, _ = suprema(sizes, _cells(dim, in_x=in_x, far=False), looseness, boxes, at_once)
    bounds = found.amax(dim=(2, 3)).tolist()
    pairs = [(index[:dim], index[dim:] or (0,) * dim) for index in indices]
    return order, {pair: (low, high) for pair, (low, high) in zip(pairs, bounds, strict=True)}
