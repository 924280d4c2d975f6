"""Enclosures over all of T^n x R^n: lower bounds, class constants, and the bounds of operators.

A symbol a of order m is A(τ, ξ) = τ^m a(ξ/τ) at τ = 1, and A is homogeneous of degree m. So

    |∂_ξ^α ∂_x^β a| ⟨ξ⟩^{|α|-m} = |p|^{|α|-m} |∂_ξ^α ∂_x^β A(p)|,      p = (τ, ξ),

is of degree 0 in p: its supremum C_αβ is that over the half τ >= 0 of the surface of a cube, which
is compact. ξ_j remains ξ_j, s² + |ξ|² becomes s² τ² + |ξ|², and lifting a part from order k to m
multiplies it by τ^{m-k}. Boxes of the surface and of x are halved until the bounds by interval
arithmetic, rounding included, are good. Proofs are in docs/theory_operators.md.
"""

import copy
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from pdno.symbols.classical import ClassicalSymbol
from pdno.theory.expression import Expression, frequency_factor, space_factor
from pdno.theory.interval import Ball, Jet, indices_of, join
from pdno.theory.probe import MultiIndex, multi_indices

FAR = 1 / 16  # of τ/max |ξ_j|, where infinity begins
MOST_BOXES = 2**12
MOST_FACTORS = 8  # of powers that are products
NUMBERS_AT_ONCE = 2**18
SHELLS = 64  # of aliases that are summed one by one
SLACK = 1 + 1e-12  # of the few operations on bounds after the enclosure
WHOLE = 1e-12  # orders that differ from an integer by less are rounded decimals

Cells = tuple[Tensor, Tensor, Tensor]
"""Boxes: lower and upper corners, (P, d) or (P, 2d) with x, and their face of the cube."""
Enclosures = list[tuple[Tensor, Tensor]]
"""Sizes over boxes from below and from above, one row for each quantity, (2P, C)."""
Jets = Literal["all", "x", "none"]
"""The variables of jets: (τ, ξ) and x, x alone, or none."""


class NotEnclosed(Exception):
    """A part of an expression has no jet that is bounded on the compactified phase space."""


@dataclass(frozen=True)
class Weighted:
    """A over boxes as jets (J, 2P, C), of its real part or of its real and imaginary part."""

    order: float  #: m
    parts: list[Jet]
    at: "Compactified"

    def lifted(self, order: float) -> "Weighted":
        """As a symbol of higher order."""
        if order == self.order:
            return self
        weight = self.at.power_of_tau(order - self.order)
        return self.mapped(order, lambda part: part * weight)

    def mapped(self, order: float, change: Callable[[Jet], Jet]) -> "Weighted":
        """A linear map of both parts."""
        return Weighted(order, [change(part) for part in self.parts], self.at)

    def __add__(self, other: "Weighted") -> "Weighted":
        order = max(self.order, other.order)
        pairs = itertools.zip_longest(self.lifted(order).parts, other.lifted(order).parts)
        return Weighted(order, [a + b if a and b else a or b for a, b in pairs], self.at)

    def __mul__(self, other: "Weighted") -> "Weighted":
        (a, *x), (b, *y) = self.parts, other.parts
        real = a * b - x[0] * y[0] if x and y else a * b
        mixed = [*(a * part for part in y), *(b * part for part in x)]
        imaginary = [functools.reduce(Jet.__add__, mixed)] if mixed else []
        return Weighted(self.order + other.order, [real, *imaginary], self.at)

    def reciprocal(self) -> "Weighted":
        """1/a, of either sign."""
        x, *y = self.parts
        squares = [part.square() for part in self.parts]
        inverse = functools.reduce(Jet.__add__, squares).power(-1.0)
        parts = [x * inverse, *(-(part * inverse) for part in y)]
        return Weighted(-self.order, parts, self.at)

    def derivative(self, alpha: MultiIndex, beta: MultiIndex) -> list[Ball]:
        """The parts of |p|^{|α|-m} ∂_ξ^α ∂_x^β A, (2P, C)."""
        powers = enumerate((*alpha, *beta), start=1)
        slopes = [self.at.variables[c] for c, power in powers for _ in range(power)]
        radius_squared = self.at.radius_squared(1.0, (1.0,)).parts[0]()
        weight = radius_squared.power((sum(alpha) - self.order) / 2)
        units = [unit**-k for unit, k in zip(self.at.units, alpha, strict=True)]
        return [part(*slopes) * weight * Ball.near(math.prod(units)) for part in self.parts]


class Compactified:
    """Intervals over P boxes of one face and their middles before them, an `Arithmetic`.

    Coordinates are (τ, ξ, x), ξ in some units. Face 0 is τ = 1, then come ξ_j = 1 and ξ_j = -1.
    """

    def __init__(
        self, face: int, lo: Tensor, hi: Tensor, units: Sequence[float], jets: Jets
    ) -> None:
        self.units, self.dim = units, len(units)
        box = Ball.between(lo, hi)
        free = join([Ball.point(box.mid), box])
        self.points = [free[:, k : k + 1] for k in range(lo.shape[1])]
        widths = list(box.rad.unbind(1))
        fixed, sign = (face - self.dim, -1.0) if face > self.dim else (face, 1.0)
        self.points.insert(fixed, Ball.point(torch.ones_like(self.points[0].mid)) * sign)
        widths.insert(fixed, torch.zeros_like(widths[0]))
        first = {"all": 0, "x": 1 + self.dim, "none": len(self.points)}[jets]
        self.variables = {c: c - first for c in range(first, len(self.points))}
        self.half = torch.stack(widths, dim=1)[:, first:]

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
        whole = values.is_complex() and bool(values.imag.any())
        parts = [values.real, values.imag] if whole else [values.real]
        shape = len(self.points[0].mid), -1
        balls = [Ball.point(part.expand(shape).clone()) for part in parts]
        jets = [Jet.of_variable(ball, None, len(self.variables)) for ball in balls]
        return Weighted(0.0, jets, self)

    def frequency(self, axis: int) -> Weighted:
        return Weighted(1.0, [self._xi(axis)], self)

    def coordinate(self, axis: int) -> Weighted:
        return Weighted(0.0, [self._variable(1 + self.dim + axis)], self)

    def harmonic(self, name: str, wave: Sequence[int]) -> Weighted:
        turns = [
            self._variable(1 + self.dim + axis) * (Ball.near(2 * math.pi) * float(k))
            for axis, k in enumerate(wave)
        ]
        return Weighted(0.0, [functools.reduce(Jet.__add__, turns).apply(name)], self)

    def radius_squared(self, shift: float, scale: Sequence[float]) -> Weighted:
        sides = list(scale) * (self.dim if len(scale) == 1 else 1)
        total = (self._variable(0) * Ball.near(shift)).square()
        for axis, side in enumerate(sides):
            total = total + (self._xi(axis) * Ball.near(1 / side)).square()
        return Weighted(2.0, [total], self)

    def apply(self, name: str, value: Weighted) -> Weighted:
        if value.order > WHOLE or len(value.parts) > 1 or name == "relu":
            raise NotEnclosed(f"{name} of a part of order {value.order:g}")
        u = self.nearer(value.lifted(0.0)).parts[0]
        return Weighted(0.0, [u.exponential() if name == "exp" else u.apply(name)], self)

    def power(self, value: Weighted, exponent: float) -> Weighted:
        if exponent == int(exponent) and abs(exponent) <= MOST_FACTORS:
            base = value.reciprocal() if exponent < 0 else value
            one = self.constant(torch.ones(1, dtype=torch.float64))
            return functools.reduce(Weighted.__mul__, [base] * abs(int(exponent)) or [one])
        if len(value.parts) > 1:
            raise NotEnclosed(f"power {exponent:g} of a complex part")
        return value.mapped(value.order * exponent, lambda part: part.power(exponent))

    def affine(self, value: Weighted, weight: Tensor, bias: Tensor) -> Weighted:
        mapped = value.mapped(value.order, lambda part: part.linear(weight))
        return self.nearer(mapped + self.constant(bias) if bool(bias.any()) else mapped)

    def stack(self, values: Sequence[Weighted]) -> Weighted:
        if any(len(value.parts) > 1 for value in values):
            raise NotEnclosed("components that are complex")
        order = max(value.order for value in values)
        jets = [value.lifted(order).parts[0] for value in values]
        return Weighted(order, [join(jets, dim=-1)], self)

    def leaf(self, function: Callable[[Tensor, Tensor], Tensor]) -> Weighted:
        raise NotEnclosed("a part without a formula")


# ---- Boxes ----


def cells(dim: int, *, in_x: bool, far: bool = False, in_xi: bool = True) -> Cells:
    """Boxes of the faces times those of x; with `far` near infinity, without `in_xi` at ξ = 0."""
    both = [(-1.0, -0.5), (-0.5, 0.0), (0.0, 0.5), (0.5, 1.0)]
    tau = [(FAR * a, FAR * b) for a, b in both[2:]] if far else both[2:]
    rows, faces = list[Tensor](), list[int]()
    for face in range(int(far), 2 * dim + 1 if in_xi else 1):
        sides = [tau, *[both] * (dim - 1)] if face else [both] * dim
        sides = [*(sides if in_xi else [[(0.0, 0.0)]] * dim), *[both[2:]] * (dim * in_x)]
        rows.append(torch.tensor(list(itertools.product(*sides)), dtype=torch.float64))
        faces += [face] * len(rows[-1])
    lo, hi = torch.cat(rows).unbind(-1)
    return lo, hi, torch.tensor(faces)


def _halve(boxes: Cells, chosen: Tensor) -> Cells:
    """Each of the chosen boxes cut in two across its longest side."""
    lo, hi, face = (part[chosen] for part in boxes)
    side = torch.nn.functional.one_hot((hi - lo).argmax(dim=1), lo.shape[1]).bool()
    middle = 0.5 * (lo + hi)
    lows = torch.cat([lo, torch.where(side, middle, lo)])
    return lows, torch.cat([torch.where(side, middle, hi), hi]), face.repeat(2)


def _over(
    expression: Expression, boxes: Cells, units: Sequence[float], jets: Jets
) -> Iterator[tuple[Tensor, Weighted]]:
    """The numbers of boxes, some of one face at a time, and the expression over them."""
    lo, hi, faces = boxes
    variables = {"all": lo.shape[1] + 1, "x": len(units), "none": 0}[jets]
    at_once = max(1, NUMBERS_AT_ONCE // (64 * math.comb(variables + 3, 3)))
    for face in torch.unique(faces).tolist():
        for chunk in torch.split((faces == face).nonzero()[:, 0], at_once):
            at = Compactified(face, lo[chunk], hi[chunk], units, jets)
            yield chunk, at.nearer(expression.on(at))


def least(
    expression: Expression, dim: int, *, in_x: bool, far: bool = False, size: bool = False
) -> tuple[float, float]:
    """The order m of an expression, and c > 0 with a >= c ⟨ξ⟩^m, or 0 if there is no proof of one.

    Everywhere, or `far` out only; with `size` it is a bound of |a|, for each component.
    """
    boxes, bound, used, order = cells(dim, in_x=in_x, far=far), math.inf, 0, 0.0
    while count := len(boxes[0]):
        used += count
        if used > MOST_BOXES:
            return order, 0.0
        bounds = torch.full((2, count), -math.inf, dtype=torch.float64)
        for chunk, value in _over(expression, boxes, (1.0,) * dim, "none"):
            order, values = value.order, value.derivative((0,) * dim, ())
            if size or len(values) == 1:
                below = values[0].mid - values[0].rad - 1e-12 * values[0].size()
                smallest = sizes_of(values)[0] if size else below
                bounds[:, chunk] = torch.unflatten(smallest.amin(dim=1), 0, (2, -1))
        middle, lower = bounds.nan_to_num(nan=-math.inf)
        if not bool((middle > 0).all()):
            return order, 0.0
        done = lower > 0
        bound = min([bound, *lower[done].tolist()])
        boxes = _halve(boxes, ~done)
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
    jets: Jets = "all",
) -> tuple[float, Tensor, int]:
    """The order, enclosures (rows, 2, C) and the boxes used, by halving the worst of them."""
    best, done, used, order = torch.zeros(()), torch.zeros(()), 0, 0.0
    while count := len(boxes[0]):
        used += count
        chunks, parts = list[Tensor](), list[Tensor]()
        for chunk, value in _over(expression, boxes, units, jets):
            order, sizes = value.order, rows(value)
            low = torch.stack([low[: len(chunk)] for low, _ in sizes]).nan_to_num(nan=0.0)
            high = torch.stack([high[len(chunk) :] for _, high in sizes])
            chunks.append(chunk)
            parts.append(torch.stack([low, high.nan_to_num(nan=math.inf, posinf=math.inf)]))
        lower, upper = torch.cat(parts, dim=2)[:, :, torch.cat(chunks).argsort()]
        best = torch.maximum(best, lower.amax(dim=1))
        enough = looseness * best.amax(dim=1) + 1e-6 * best.max()
        excess = (upper.amax(dim=2) / enough[:, None]).amax(dim=0)
        halved = min(int((excess > 1).sum()), max(0, (budget - used) // 2))
        again, kept = excess.argsort(descending=True).tensor_split([halved])
        if len(kept):
            done = torch.maximum(done, upper[:, kept].amax(dim=1))
        boxes = _halve(boxes, again)
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


# ---- Classical symbols ----


@dataclass(frozen=True)
class ProvenConstants:
    """Enclosures of suprema, (2, O, I): attained, and no less than the supremum.

    They hold for the symbol in exact arithmetic with these weights. The keys of `space` are β,
    "gradient" and "laplacian" of a1, those of `frequency` are α and "matrix", the norm of the
    whole channel matrix of the other factor.
    """

    order: float  #: m
    dim: int  #: n
    space: dict[MultiIndex | str, Tensor] | None  #: None if a does not depend on x
    frequency: dict[MultiIndex | str, Tensor]
    boxes: int  #: how many were looked at
    shared: bool = False  #: whether all pairs have the same a1

    def seminorm(self, alpha: MultiIndex, beta: MultiIndex) -> tuple[float, float]:
        """C_αβ, the largest of all pairs of channels, from below and from above."""
        both = self.frequency[alpha]
        if self.space is not None:
            both = both * self.space[beta]
        elif sum(beta):
            return 0.0, 0.0
        low, high = both.amax(dim=(1, 2)).tolist()
        return low / SLACK, high * SLACK

    def norm(self, s: float = 0.0) -> float:
        """‖K f‖_{H^{s-m}} <= norm(s) ‖f‖_{H^s} on the torus, for |s - m| <= 2."""
        whole = float(self.frequency["matrix"][1].max())
        if self.space is None:
            return whole * SLACK
        factors = self._multiplication(abs(s - self.order))
        entries = torch.linalg.matrix_norm(factors * self.frequency[(0,) * self.dim][1], 2)
        bounds = [float(entries), *([float(factors.max()) * whole] if self.shared else [])]
        return min(bounds) * SLACK

    def truncation(self, modes: int, s: float, r: float = 0.0) -> float:
        """‖K f - K_k f‖_{H^r} <= truncation(k, s, r) ‖f‖_{H^s}, r <= s - m and |r| <= 2."""
        gain = s - self.order - r
        gain = 0.0 if abs(gain) < WHOLE else gain
        if modes < 1 or gain < 0:
            problem = f"modes {modes}, s {s:g} and r {r:g} for a symbol of order {self.order:g}"
            raise ValueError(f"{problem}; expected modes >= 1 and r <= s - m")
        return float(self.norm(r + self.order) * (1 + modes**2) ** (-gain / 2)) * SLACK

    def aliasing(self, points: int, s: float) -> float:
        """‖K_N f - K f‖_{L2 of the grid N} <= aliasing(N, s) ‖f - Π_N f‖_{H^s}, N >= points.

        Π_N f are the modes |ξ_j| < N_j/2 of f. It needs s > m + n/2 and s > n/2. Between two grids
        f is the function that the finer one resolves.
        """
        power = s - max(self.order, 0.0)
        if points < 2 or 2 * power <= self.dim:
            problem = f"points {points} and s {s:g} for order {self.order:g} and n = {self.dim}"
            raise ValueError(f"{problem}; expected points >= 2 and s - max(m, 0) > n/2")
        n, total = self.dim, 0.0
        for k in range(1, SHELLS):
            count = (2 * k + 1) ** n - (2 * k - 1) ** n
            total += count * (1 + (points * (k - 0.5)) ** 2) ** -power
        edge, q = SHELLS - 0.5, n - 1 - 2 * power
        rest = edge**q + edge ** (q + 1) / (-q - 1)
        total += 2 * n * (2 * (1 + 1 / edge)) ** (n - 1) * points ** (-2 * power) * rest
        return 2 * self.norm(self.order) * math.sqrt(total) * SLACK

    def _multiplication(self, sigma: float) -> Tensor:
        """Bounds of f -> a1 f on H^σ and H^-σ, (O, I), for 0 <= σ <= 2."""
        assert self.space is not None
        if sigma > 2:
            raise ValueError(f"|s - m| is {sigma:g}; expected at most 2: a1 has two derivatives")
        value, gradient, laplacian = (
            self.space[key][1] for key in ((0,) * self.dim, "gradient", "laplacian")
        )
        first = value + gradient / (2 * math.pi)
        second = first + laplacian / (4 * math.pi**2)
        if sigma <= 1:
            return value ** (1 - sigma) * first**sigma
        return first ** (2 - sigma) * second ** (sigma - 1)


def enclose(
    symbol: ClassicalSymbol, *, looseness: float = 1.5, boxes: int = 2**14
) -> ProvenConstants:
    """C_αβ, |α|, |β| <= 2, of a classical symbol, to that looseness or with so many boxes each.

    Symbols with time and elliptic ones that are not self-adjoint or dissipative are exponentials
    of matrices, and those that are not Hermitian act by other values: they are refused.

    Example:
        >>> from pdno.symbols import InputScale
        >>> symbol = ClassicalSymbol(1, 1, scale=InputScale(1, 1.0, 4.0), order=-1.0, hidden=4)
        >>> constants = enclose(symbol)
        >>> low, high = constants.seminorm((1,), (0,))
        >>> low <= high <= 3 * low
        True
    """
    exponential = symbol.elliptic and not (symbol.self_adjoint or symbol.dissipative)
    if symbol.takes_time or exponential or not symbol.hermitian or not symbol.scale.chosen:
        raise ValueError(
            "this symbol has time, is elliptic with a unitary factor, is not Hermitian or has no "
            "frequency_scale yet; expected none of these (bounds on grids: pdno.theory.norms)"
        )
    double, dim = copy.deepcopy(symbol).double(), symbol.scale.dim
    indices, shape = multi_indices(dim, 2), (symbol.out_channels, symbol.in_channels)

    def of_xi(value: Weighted) -> Enclosures:
        """|∂_ξ^α a2| and the norm of the matrix a2."""
        parts = [value.derivative(alpha, ()) for alpha in indices]
        return [*map(sizes_of, parts), _matrix_norm(parts[0], shape)]

    def of_x(value: Weighted) -> Enclosures:
        """|∂_x^β a1|, |∇a1| and |Δa1|."""
        parts = {beta: value.derivative((0,) * dim, beta)[0] for beta in indices}
        slopes, second = ([parts[b] for b in indices if max(b) == k == sum(b)] for k in (1, 2))
        rows = [*([part] for part in parts.values()), slopes]
        return [*map(sizes_of, rows), sizes_of([functools.reduce(Ball.__add__, second)])]

    search = functools.partial(
        suprema, units=symbol.scale.frequency.tolist(), looseness=looseness, budget=boxes
    )
    space: dict[MultiIndex | str, Tensor] | None = None
    used = 0
    if symbol.depends_on_x:
        torus = cells(dim, in_x=True, in_xi=False)
        _, bounds, used = search(space_factor(double, None), boxes=torus, rows=of_x, jets="x")
        bounds = torch.unflatten(bounds.expand(-1, -1, symbol.pairs), 2, shape)
        space = dict(zip([*indices, "gradient", "laplacian"], bounds, strict=True))
    cube = cells(dim, in_x=False)
    _, bounds, more = search(frequency_factor(double, None), boxes=cube, rows=of_xi)
    names: list[MultiIndex | str] = [*indices, "matrix"]
    frequency = dict(zip(names, torch.unflatten(bounds, 2, shape), strict=True))
    return ProvenConstants(symbol.order, dim, space, frequency, used + more, symbol.elliptic)


def _matrix_norm(parts: list[Ball], shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Norms of matrices by their entries, in all of these."""
    mid, rad = parts[0].mid, parts[0].rad
    if len(parts) == 2:
        mid, rad = torch.complex(mid, parts[1].mid), torch.complex(rad, parts[1].rad)
    norm = torch.linalg.matrix_norm(torch.unflatten(mid, 1, shape), 2)[:, None].expand(mid.shape)
    spread = torch.linalg.vector_norm(rad, dim=1)[:, None] * SLACK
    return ((norm - spread) / SLACK).clamp_min(0.0), (norm + spread) * SLACK
