"""Proven constants of classical symbols in the continuum, and the bounds that follow from them.

    C_αβ = sup_{x, ξ} |∂_ξ^α ∂_x^β a(x, ξ)| ⟨ξ⟩^{|α|-m},     |α|, |β| <= 2,

are enclosed by interval arithmetic, rounding included. Both factors are examined on compact sets,
which are cut into boxes; those with the largest bounds are halved until the bound is near a value
that is attained, or the boxes are too many. Proofs are in docs/theory_operators.md.
"""

import copy
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pdno.symbols.classical import ClassicalSymbol, ParityMLP
from pdno.symbols.mlp import SymbolMLP
from pdno.theory.interval import AnyBall, Ball, Jet, join, stack
from pdno.theory.probe import MultiIndex, multi_indices

NUMBERS_AT_ONCE = 2**18
SLACK = 1 + 1e-12  # of the few operations on bounds after the enclosure
SHELLS = 64  # of aliases that are summed one by one
Sizes = Callable[[int, Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class ProvenConstants:
    """Enclosures of suprema, (2, O, I): attained, and no less than the supremum.

    They hold for the symbol in exact arithmetic with these weights. The keys of `space` are β,
    "gradient" and "laplacian" of a1, those of `frequency` are α and
    "matrix", the norm of the whole channel matrix of the other factor.
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
        gain = 0.0 if abs(gain) < 1e-12 else gain  # s = m + r, as decimals are rounded
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


@torch.no_grad()
def enclose(
    symbol: ClassicalSymbol, *, looseness: float = 1.5, boxes: int = 2**14
) -> ProvenConstants:
    """The constants of a classical symbol, of each factor to that looseness or with so many boxes.

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
            "frequency_scale yet; expected none of these: e^{tA} has norm 1 at most by "
            "construction, the others have bounds on grids (pdno.theory.norms)"
        )
    double = copy.deepcopy(symbol).double()
    dim, indices = symbol.scale.dim, list(multi_indices(symbol.scale.dim, 2))
    pairs, jet = symbol.in_channels * symbol.out_channels, math.comb(dim + 3, 3)
    at_once = max(1, NUMBERS_AT_ONCE // (2 * jet * max(pairs, symbol.real.linear_in.out_features)))
    space: dict[MultiIndex | str, Tensor] | None = None
    used = 0
    if symbol.depends_on_x:
        sizes, torus = functools.partial(_of_x, double, indices), [(0.0, 1.0)] * dim
        largest, used = suprema(sizes, _cells(torus, 1), looseness, boxes, at_once)
        space = dict(zip([*indices, "gradient", "laplacian"], largest, strict=True))
    # τ = 1, where -ξ has the same sizes as ξ, and ξ_j = 1
    cube = _cells([(0.0, 1.0), *[(-1.0, 1.0)] * (dim - 1)], dim + 1)
    sizes = functools.partial(_of_xi, double, indices)
    largest, more = suprema(sizes, cube, looseness, boxes, at_once)
    names: list[MultiIndex | str] = [*indices, "matrix"]
    frequency = dict(zip(names, largest, strict=True))
    return ProvenConstants(symbol.order, dim, space, frequency, used + more, symbol.elliptic)


def _cells(sides: Sequence[tuple[float, float]], faces: int) -> tuple[Tensor, Tensor, Tensor]:
    """Boxes with sides of at most 1/2 on some equal faces: corners, lower and upper, and face."""
    lo = torch.cartesian_prod(*[torch.arange(a, b, 0.5, dtype=torch.float64) for a, b in sides])
    lo = lo.reshape(-1, len(sides)).repeat(faces, 1)
    return lo, lo + 0.5, torch.arange(faces).repeat_interleave(len(lo) // faces)


def suprema(
    sizes: Sizes,
    cells: tuple[Tensor, Tensor, Tensor],
    looseness: float,
    budget: int,
    at_once: int,
) -> tuple[Tensor, int]:
    """Enclosures (rows, 2, O, I) over boxes (P, n), by halving those whose bound is too large."""
    best, done, used = torch.zeros(()), torch.zeros(()), 0
    lo, hi, face = cells
    while len(lo):
        used += len(lo)
        # some boxes of one face at a time
        groups = [(face == number).nonzero()[:, 0] for number in torch.unique(face)]
        chunks = [chunk for group in groups for chunk in torch.split(group, at_once)]
        parts = [sizes(int(face[chunk[0]]), lo[chunk], hi[chunk]) for chunk in chunks]
        back = torch.cat(chunks).argsort()
        upper, lower = (torch.cat(part, dim=1)[:, back] for part in zip(*parts, strict=True))
        best = torch.maximum(best, lower.amax(dim=1))
        enough = looseness * best.amax(dim=(1, 2)) + 1e-6 * best.max()
        excess = (upper.amax(dim=(2, 3)) / enough[:, None]).amax(dim=0)
        order = excess.argsort(descending=True)
        again = order[: min(int((excess > 1).sum()), max(0, (budget - used) // 2))]
        kept = torch.ones(len(lo), dtype=torch.bool)
        kept[again] = False
        if bool(kept.any()):
            done = torch.maximum(done, upper[:, kept].amax(dim=1))
        lo, hi, face = halve(lo[again], hi[again], face[again])
    return torch.stack([torch.minimum(best, done), done], dim=1), used


def halve(lo: Tensor, hi: Tensor, face: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Each box cut in two across its longest side."""
    side = torch.nn.functional.one_hot((hi - lo).argmax(dim=1), lo.shape[1]).bool()
    middle = 0.5 * (lo + hi)
    lows = torch.cat([lo, torch.where(side, middle, lo)])
    return lows, torch.cat([torch.where(side, middle, hi), hi]), face.repeat(2)


def _of_xi(
    symbol: ClassicalSymbol, indices: list[MultiIndex], face: int, lo: Tensor, hi: Tensor
) -> tuple[Tensor, Tensor]:
    """Sizes of s^{-α} w^{|α|-m} ∂_ξ^α A over boxes of one face, (rows, P, O, I), and at middles.

    They are homogeneous of degree 0 in (τ, ξ), A(τ, ξ) = r^m a2((τ, ξ)/r), and those of a2 at
    τ = 1: it is enough to examine the half τ >= 0 of the surface of the cube. The variables are
    all of (τ, ξ) but the one that is 1 on the face.
    """
    (at, half), n, m = middles_and_boxes(lo, hi), lo.shape[1], symbol.order
    unit_ball = Ball.point(torch.ones_like(at.mid[:, 0]))
    variable = {c: v for v, c in enumerate(c for c in range(n + 1) if c != face)}
    points = [at[:, variable[c]] if c in variable else unit_ball for c in range(n + 1)]
    jets = [Jet.of_variable(point, variable.get(c), n) for c, point in enumerate(points)]
    squared = functools.reduce(Jet.__add__, [jet.square() for jet in jets])
    shrink = squared.power(-0.5)
    omega = stack([jet * shrink for jet in jets], dim=-1)
    matrix = squared.power(m / 2)[..., None, None] * _structured(symbol, omega, half)
    matrix = matrix.centred(half)
    weight = points[0].square()
    for point, s in zip(points[1:], symbol.scale.frequency.tolist(), strict=True):
        weight = weight + point.square() * Ball.near(s * s)
    rows, wide = [], [point[:, None, None] for point in points]
    for alpha in indices:
        factor = weight.power((sum(alpha) - m) / 2)
        for s, power in zip(symbol.scale.frequency.tolist(), alpha, strict=True):
            factor = factor * Ball.near(s**-power)
        derivative = _homogeneous(matrix, (0, *alpha), m, wide, variable) * factor[:, None, None]
        parts = _real_and_imaginary(derivative)
        rows.append(_sizes(parts))
        if not sum(alpha):
            norms = _matrix_norm(*parts)
    return _split([*rows, norms], len(half))


def _homogeneous(
    jet: Jet, index: MultiIndex, degree: float, points: list[Ball], variable: dict[int, int]
) -> Ball:
    """∂^index of a function of (τ, ξ) that is homogeneous, where one coordinate is 1.

    Euler: Σ_c p_c ∂_c A = degree A gives the derivative by that coordinate.
    """
    missing = next(c for c in range(len(index)) if c not in variable)
    if index[missing] == 0:
        return jet(*(variable[c] for c, power in enumerate(index) for _ in range(power)))
    less = tuple(power - (c == missing) for c, power in enumerate(index))
    rest = degree - sum(less)
    value = _homogeneous(jet, less, degree, points, variable) * Ball.near(rest)
    for c in variable:
        more = tuple(power + (k == c) for k, power in enumerate(less))
        value = value - points[c] * _homogeneous(jet, more, degree, points, variable)
    return value


def _of_x(
    symbol: ClassicalSymbol, indices: list[MultiIndex], face: int, lo: Tensor, hi: Tensor
) -> tuple[Tensor, Tensor]:
    """Sizes of ∂_x^β a1, |∇a1| and |Δa1| over boxes, (rows, P, O, I), and at their middles."""
    (at, half), n = middles_and_boxes(lo, hi), lo.shape[1]
    turns = [Jet.of_variable(at[:, v], v, n) * Ball.near(2 * math.pi) for v in range(n)]
    waves = [turn.apply(name) for name in ("cos", "sin") for turn in turns]
    assert symbol.space is not None
    shape = (symbol.out_channels, symbol.in_channels)
    a1 = _network(symbol.space, stack(waves, dim=-1), half, (1, 1) if symbol.elliptic else shape)
    a1 = a1.exponential().centred(half) if symbol.elliptic else a1
    slopes = [[v for v, power in enumerate(beta) for _ in range(power)] for beta in indices]
    rows = [_sizes([a1(*variables)]) for variables in slopes]
    rows.append(_sizes([a1(v) for v in range(n)]))
    rows.append(_sizes([functools.reduce(Ball.__add__, [a1(v, v) for v in range(n)])]))
    whole = [(low.expand(-1, *shape), high.expand(-1, *shape)) for low, high in rows]
    return _split(whole, len(half))


def middles_and_boxes(lo: Tensor, hi: Tensor) -> tuple[Ball, Tensor]:
    """Middles and boxes (2P, n), and half widths (P, n)."""
    box = Ball.between(lo, hi)
    return join([Ball.point(box.mid), box]), box.rad


# ---- The networks of a symbol over boxes; complex matrices are real ones, Re above Im ----


def _structured(symbol: ClassicalSymbol, omega: Jet, half: Tensor) -> Jet:
    """A ⟨ξ⟩^{-m} from its networks, as `ClassicalSymbol` puts it together, (J, 2P, 2 O, I)."""
    shape = (symbol.out_channels, symbol.in_channels)

    def matrix_of(*networks: ParityMLP) -> Jet:
        return join([_network(network, omega, half, shape) for network in networks], dim=-2)

    n = matrix_of(symbol.real, symbol.imaginary)
    if not symbol.exact_structure:
        return n
    x, y = _real_and_imaginary(n)
    adjoint = join([x.map(torch.adjoint), -y.map(torch.adjoint)], dim=-2)
    if not (symbol.elliptic or symbol.dissipative):
        return (n + adjoint) * 0.5
    x, y = _real_and_imaginary(matrix_of(symbol.root_real, symbol.root_imaginary))
    # M M*, column by column of M
    sides = [(join([x, y], dim=-2), x), (join([y, -x], dim=-2), y)]
    columns = itertools.product(range(symbol.in_channels), sides)
    products = [a[..., :, None, k] * b[..., None, :, k] for k, (a, b) in columns]
    matrix = functools.reduce(Jet.__add__, products)
    if symbol.elliptic:
        unit = torch.eye(2 * symbol.in_channels, symbol.in_channels, dtype=torch.float64)
        unit_c = Ball.near(float(symbol.log_ellipticity.exp())) * Ball.point(unit)
        ones = torch.ones_like(omega.mid[0, :, 0])
        weight = Jet.of_variable(Ball.point(ones), None, omega.variables)
        if symbol.dissipative:
            squares = [omega[..., c].square() for c in range(1, symbol.scale.dim + 1)]
            weight = functools.reduce(Jet.__add__, squares)
        matrix = matrix + Ball.__mul__(weight[..., None, None], unit_c)
    if not symbol.dissipative:
        return matrix
    return -matrix if symbol.self_adjoint else (n - adjoint) * 0.5 - matrix


def _network(network: SymbolMLP, points: Jet, half: Tensor, shape: tuple[int, int]) -> Jet:
    """A network at points (J, 2P, d) over boxes, as matrices (J, 2P, O, I)."""
    first, others = network.names
    parity = network.parity if isinstance(network, ParityMLP) else "none"
    weight, features, last = network.linear_in.weight, list[Jet](), network.linear_out
    mirrored = torch.cat([weight[:, :1], -weight[:, 1:]], dim=1)  # at (τ, -ξ)
    for matrix in (weight,) if parity == "none" else (weight, mirrored):
        z = points.affine(matrix, network.linear_in.bias).centred(half).apply(first)
        for layer in network.hidden:
            assert isinstance(layer, torch.nn.Linear)
            z = z.affine(layer.weight, layer.bias).centred(half).apply(others)
        features.append(z)
    if parity != "none":
        z = (features[0] + features[1] if parity == "even" else features[0] - features[1]) * 0.5
    values = z.affine(last.weight, last.bias).centred(half)
    return values.map(lambda part: part.reshape(*part.shape[:-1], *shape))


def _real_and_imaginary(matrix: AnyBall) -> tuple[AnyBall, AnyBall]:
    rows = matrix.mid.shape[-2] // 2
    return matrix[..., :rows, :], matrix[..., rows:, :]


def _sizes(parts: Sequence[Ball]) -> tuple[Tensor, Tensor]:
    """Euclidean sizes of vectors, from below and from above."""
    low = torch.stack([part.mignitude() for part in parts]).square().sum(dim=0).sqrt()
    high = torch.stack([part.size() for part in parts]).square().sum(dim=0).sqrt()
    return low / SLACK, high * SLACK


def _matrix_norm(real: Ball, imaginary: Ball) -> tuple[Tensor, Tensor]:
    """Norms of matrices (P, O, I), in all of their entries."""
    norm = torch.linalg.matrix_norm(torch.complex(real.mid, imaginary.mid), 2)
    spread = torch.linalg.matrix_norm(torch.complex(real.rad, imaginary.rad)) * SLACK
    low, high = ((norm - spread) / SLACK).clamp_min(0.0), (norm + spread) * SLACK
    return low[:, None, None].expand(real.mid.shape), high[:, None, None].expand(real.mid.shape)


def _split(rows: Sequence[tuple[Tensor, Tensor]], count: int) -> tuple[Tensor, Tensor]:
    """From above over the boxes, from below at their middles."""
    upper = torch.stack([high[count:] for _, high in rows])
    # where the box is so large that a power has no bound
    lower = torch.stack([low[:count] for low, _ in rows])
    return upper.nan_to_num(nan=math.inf, posinf=math.inf), lower
