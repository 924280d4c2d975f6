"""A symbol at any x and ξ in double precision, its differences in ξ, and where to look for growth.

What *acts* on real functions is not a itself but its Hermitian completion: a(x, ξ) where ξ_d > 0,
conj a(x, -ξ) where ξ_d < 0, and the mean of both where ξ_d = 0. A table, which is stored for
ξ_d >= 0, is defined by its completion only.

A sequence has one lattice point in each shell 4^j <= |ξ| < 4^{j+1}, j = 1, ..., J, in units of the
frequency scale. There are rays in many directions, sequences of integers such as 3^k, and points
that a search has found: from wide steps to narrow ones in each shell, and ridges, which are met on
circles around the origin and followed outwards along their tangent.
"""

import copy
import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import normalize

from pdno.symbols.base import FullSymbol, Symbol, Time
from pdno.symbols.network import SeparatedSymbol, TableSymbol
from pdno.symbols.scale import scale_per_axis
from pdno.theory.expression import Affine, Expression, Floating

MultiIndex = tuple[int, ...]
# a from x (P, 1, d) and ξ (1, M, d) to (P, M) or (O, I, P, M)
Pairs = Callable[[Tensor, Tensor], Tensor]
AnySymbol = Symbol | FullSymbol | Pairs

AT_ONCE = 2**19  # numbers that are worked on at a time
FUNCTIONS = 6  # channel pairs, or random combinations of more
EPSILON = torch.finfo(torch.float64).eps

RATIO = 4.0
SHELLS = 20  # up to |ξ| of about 10^12
DRAWN = {1: 8, 2: 24, 3: 32}  # random directions
STARTS, CANDIDATES = 64, 16  # of the search in each shell, per dimension and per step
RADII = RATIO ** torch.arange(1, SHELLS + 1, dtype=torch.float64)  # in units of the scale
CIRCLES = {2: (12.0, 48.0, 192.0, 768.0), 3: (12.0, 24.0, 96.0)}
FOLLOWED, REACH = 4, 6  # ridges per order of difference, and lattice points around a prediction
UNITS = 8  # of a network's first layer
POINTS, FEW, MANY = 512, 4, 12  # x that are compared, and that are looked at


def multi_indices(dim: int, most: int) -> tuple[MultiIndex, ...]:
    """All α in N^d with |α| <= most, by |α|."""
    indices = itertools.product(range(most + 1), repeat=dim)
    return tuple(sorted((i for i in indices if sum(i) <= most), key=lambda i: (sum(i), i)))


def difference_weights(indices: Sequence[MultiIndex]) -> tuple[Tensor, Tensor]:
    """Δ^α a(ξ) = Σ_{γ <= α} (-1)^{|α - γ|} C(α, γ) a(ξ + γ): the γ (G, d), and weights (G, A)."""
    below = [itertools.product(*(range(a + 1) for a in alpha)) for alpha in indices]
    offsets = sorted(set(itertools.chain(*below)))
    weights = [
        [
            math.prod((-1) ** (a + g) * math.comb(a, g) for a, g in zip(alpha, gamma, strict=True))
            for alpha in indices
        ]
        for gamma in offsets
    ]
    return torch.tensor(offsets).double(), torch.tensor(weights).double()


class Probe:
    """A few scalar functions of x and ξ: the channel pairs of a symbol, or combinations of many.

    A combination with fixed coefficients is in S^m if the pairs are, and almost none is if one of
    them is not. On the torus x is taken modulo 1. Arguments are those of `certify`; networks are
    copied in float64.
    """

    def __init__(
        self,
        symbol: AnySymbol,
        dim: int | None = None,
        *,
        t: Time = None,
        acting: bool = False,
        torus: bool = True,
        frequency_scale: float | Sequence[float] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        own = symbol.dim if isinstance(symbol, Symbol) else None
        if dim is not None and own is not None and dim != own:
            raise ValueError(f"dim is {dim}, but this symbol has {own} axes: leave dim out")
        if (axes := own or dim) is None:
            raise ValueError("this symbol does not know its number of axes: give dim=1, 2 or 3")
        if t is not None and not isinstance(symbol, Symbol):
            raise ValueError("a function a(x, ξ) has no time: leave t out, or bind it")
        if isinstance(symbol, Symbol):
            symbol = copy.deepcopy(symbol).cpu().double().requires_grad_(False)
        scale = torch.ones(axes, dtype=torch.float64)
        if isinstance(symbol, SeparatedSymbol):
            if not symbol.scale.chosen and frequency_scale:
                symbol.scale.settle(frequency_scale)
            scale = symbol.scale.frequency.double()
        if frequency_scale is not None:
            scale = scale_per_axis(frequency_scale, axes)
        self.symbol, self.dim, self.t, self.torus = symbol, axes, t, torus
        self.scale = scale  # unit of ξ per axis
        self.generator = generator or torch.Generator().manual_seed(0)
        self.acting, self.evaluations = acting or isinstance(symbol, TableSymbol), 0
        self.channels: Sequence[int] = (1, 1)
        self.depends_on_x = symbol.depends_on_x if isinstance(symbol, Symbol) else True
        zero = torch.zeros(1, axes, dtype=torch.float64)
        self.pairs = len(self._values(zero, zero, None))
        self.weights = torch.eye(self.pairs, dtype=torch.float64)
        if self.pairs > FUNCTIONS:
            self.weights = self.normal(FUNCTIONS, self.pairs) / math.sqrt(self.pairs)

    def normal(self, *shape: int) -> Tensor:
        """Random numbers of a normal distribution."""
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64)

    def uniform(self, *shape: int) -> Tensor:
        """Random numbers between 0 and 1."""
        return torch.rand(*shape, generator=self.generator, dtype=torch.float64)

    def table(self, x: Tensor, xi: Tensor, *, pairs: bool = False) -> Tensor:
        """The functions, or all `pairs`, at points (P, d) and frequencies (M, d): (K, P, M)."""
        weights = None if pairs else self.weights
        x = x % 1 if self.torus else x
        self.evaluations += len(x) * len(xi)
        if not self.acting:
            return self._values(x, xi, weights)
        here, there = (self._values(x, sign * xi, weights) for sign in (1, -1))
        share = 0.5 * (1 + xi[:, -1].sign())
        return share * here + (1 - share) * there.conj()

    def _values(self, x: Tensor, xi: Tensor, weights: Tensor | None) -> Tensor:
        if isinstance(self.symbol, Symbol):
            values = self.symbol.evaluate_at(x, xi, self.t)
            c = values.frequency.to(torch.complex128).flatten(1, 2)  # (R, Q, M)
            b = torch.ones(len(c), c.shape[1], 1).double()
            if values.space is not None:
                pairs = self.symbol.out_channels, self.symbol.in_channels
                b = values.space.expand(-1, *pairs, -1).flatten(1, 2)  # (R, Q, P)
            if weights is None:
                products = (b[..., None] * c[:, :, None]).sum(dim=0)
            else:
                left = (weights[:, None, :, None] * b).movedim(-1, 1).flatten(2)
                products = left.to(c.dtype) @ c.flatten(0, 1)
            return products.expand(-1, len(x), -1)
        function = self.symbol.function if isinstance(self.symbol, FullSymbol) else self.symbol
        result = torch.as_tensor(function(x[:, None], xi[None])).to(torch.complex128)
        if isinstance(function, Expression) and result.dim() == 3:
            result = result.movedim(-1, 0)[:, None]
        if result.dim() not in (0, 2, 4):
            raise ValueError(
                f"the symbol gave values of shape {tuple(result.shape)} for x of shape (P, 1, d) "
                "and ξ of shape (1, M, d); expected (P, M) or (O, I, P, M)"
            )
        self.channels = channels = result.shape[:2] if result.dim() == 4 else (1, 1)
        result = result.expand(*channels, len(x), len(xi)).flatten(0, 1)
        return result if weights is None else torch.tensordot(weights.to(result.dtype), result, 1)

    def differences(
        self, x: Tensor, xi: Tensor, steps: Tensor, indices: Sequence[MultiIndex]
    ) -> tuple[Tensor, Tensor]:
        """|Δ_h^α a| / h^|α| at ξ (M, d) with steps h (M,), (A, M), and |a| around them, (M,).

        The largest over x and functions.
        """
        offsets, weights = difference_weights(indices)
        at_once = max(1, AT_ONCE // (len(x) * len(offsets) * FUNCTIONS))
        rows, around = list[Tensor](), list[Tensor]()
        for some, h in zip(torch.split(xi, at_once), torch.split(steps, at_once), strict=True):
            points = some[:, None] + h[:, None, None] * offsets
            values = torch.unflatten(self.table(x, points.flatten(0, 1)), -1, (len(some), -1))
            rows.append((values @ weights.to(values.dtype)).abs().amax(dim=(0, 1)).T)
            around.append(values.abs().amax(dim=(0, 1, 3)))
        orders = torch.tensor([sum(alpha) for alpha in indices])
        sizes = torch.cat(rows, dim=1) / steps ** orders[:, None]
        return sizes.nan_to_num(nan=math.inf), torch.cat(around)


@torch.no_grad()
def evaluate_at(
    symbol: AnySymbol, x: Tensor, xi: Tensor, *, t: Time = None, acting: bool = False
) -> Tensor:
    """a_ij(x, ξ) at all pairs of points (P, d) and frequencies (M, d), (O, I, P, M), complex128.

    Frequencies need not be integers, except for tables; with `acting` it is the part that acts.

    Example:
        >>> from pdno.symbols import FractionalLaplacian
        >>> xi = torch.tensor([[3_000_000.0, 4_000_000.0]])
        >>> evaluate_at(FractionalLaplacian(0.5), torch.zeros(1, 2), xi).real.item() / torch.pi
        10000000.0
    """
    probe = Probe(symbol, xi.shape[-1], t=t, acting=acting, torus=False)
    values = probe.table(x.double(), xi.double(), pairs=True)
    outputs = symbol.out_channels if isinstance(symbol, Symbol) else probe.channels[0]
    return torch.unflatten(values, 0, (outputs, -1))


# ---- Candidates for counterexamples ----


def find_points(probe: Probe) -> Tensor:
    """Points x (P, d): half evenly spread, half where |a| or a difference of it is largest."""
    dim = probe.dim
    if not probe.depends_on_x:
        return torch.full((1, dim), 0.5, dtype=torch.float64)
    x = probe.uniform(POINTS, dim)
    directions = normalize(probe.normal(3, dim), dim=-1)
    xi = torch.cat([r * directions * probe.scale for r in (3.0, 100.0, 1e4, 1e8)]).round()

    def worst(x: Tensor) -> Tensor:
        values = torch.stack([probe.table(x, xi + k).nan_to_num() for k in range(2)])
        sizes = torch.stack([values[0].abs(), (values[1] - values[0]).abs()]).amax(dim=1)
        return x[sizes.argmax(dim=1).flatten()]

    best, reach = worst(x), POINTS ** (-1 / dim)
    for _ in range(3):
        near = best[:, None] + reach * (2 * probe.uniform(6, dim) - 1)
        best, reach = worst(torch.cat([best, near.flatten(0, 1).clamp(0.0, 1.0)])), reach / 4
    return torch.cat([x[: MANY - FEW], best[:: max(1, len(best) // FEW)][:FEW]])


def find_sequences(
    probe: Probe, x: Tensor, indices: tuple[MultiIndex, ...], expression: Expression | None
) -> Tensor:
    """Lattice points (S, J, d): rays, integers, and what the search found."""
    few, rays = x[-2:], [radial(probe), _integers(probe)]
    if probe.dim > 1:
        rays += [_ridges(probe, few, indices), *_units(probe, expression)]
    return torch.cat([*rays, _zoomed(probe, few)])


def radial(probe: Probe) -> Tensor:
    """Axes, diagonals and random directions."""
    signs = [p for p in itertools.product((-1.0, 0.0, 1.0), repeat=probe.dim) if any(p)]
    drawn = probe.normal(DRAWN[probe.dim], probe.dim)
    directions = normalize(torch.cat([torch.tensor(signs).double(), drawn]), dim=-1)
    factors = torch.cat([torch.ones(len(signs), 1), 1 + 2 * probe.uniform(len(drawn), 1)])
    return _outwards(probe, factors * directions)


def _outwards(probe: Probe, directions: Tensor) -> Tensor:
    return (RADII[:, None] * directions[:, None] * probe.scale).round()


def _integers(probe: Probe) -> Tensor:
    """Powers and their neighbours, squares, cubes, factorials and Fibonacci's, along the axes."""
    ends, fibonacci = [int(RATIO**j) for j in range(1, SHELLS + 1)], [1, 2]
    while fibonacci[-1] < 8 * ends[-1]:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    bases = itertools.product((2, 3, 5, 6, 7, 10, 12), (-1, 0, 1))
    families = [[b**k + c for k in range(1, 64)] for b, c in bases]
    families += [[math.factorial(k) for k in range(1, 20)], fibonacci]
    for power in (2, 3, 4):
        families.append([int((2 * end) ** (1 / power)) ** power for end in ends])
    chosen = [[max([n for n in family if n < 4 * e] or [1]) for e in ends] for family in families]
    axes = torch.cat([torch.eye(probe.dim), torch.ones(1, probe.dim)]).double()
    axes = axes[:1] if probe.dim == 1 else axes
    points: Tensor = torch.tensor(chosen).double()[:, None, :, None] * axes[:, None]
    return points.flatten(0, 1)


def _zoomed(probe: Probe, x: Tensor) -> Tensor:
    """In each shell where differences with wide steps are largest, then with narrower ones.

    Jumps, kinks and steep slopes are between points with different values, however far apart.
    """
    dim, count, sequences = probe.dim, STARTS * probe.dim, list[Tensor]()
    for order in (1, 2):
        indices = [tuple(order * k for k in axis) for axis in torch.eye(dim).long().tolist()]
        directions = normalize(probe.normal(count, dim), dim=-1)
        directions = directions * (1 + 2 * probe.uniform(count, 1))
        points = _outwards(probe, directions).flatten(0, 1)
        step = (RADII / 8 * probe.scale.min()).clamp_min(1.0).round()
        widest = step.max()
        while True:
            steps = step.repeat(len(points) // SHELLS)
            sizes = probe.differences(x, points, steps, indices)[0].amax(dim=0)
            top = sizes.reshape(-1, SHELLS).topk(2, dim=0).indices
            best = points.reshape(-1, SHELLS, dim).gather(0, top[..., None].expand(-1, -1, dim))
            # the same direction in every shell, from one in the middle
            if float(widest) > RATIO ** (SHELLS // 2):
                middle = normalize(best[:, SHELLS // 2] / probe.scale, dim=-1)
                sequences.append(_outwards(probe, middle))
            if widest <= 1:
                break
            near = best[None] + step[:, None] * (2 * probe.uniform(CANDIDATES, 2, SHELLS, dim) - 1)
            points = torch.cat([best, near.flatten(0, 1)]).round().flatten(0, 1)
            step, widest = (step / RATIO).clamp_min(1.0).round(), widest / RATIO
        sequences.append(best)
    return torch.cat(sequences)


def _ridges(probe: Probe, x: Tensor, indices: tuple[MultiIndex, ...]) -> Tensor:
    """The largest unit differences on circles around the origin, followed outwards."""
    dim, starts = probe.dim, list[Tensor]()
    orders = torch.tensor([sum(alpha) for alpha in indices])
    for radius in CIRCLES[dim]:
        frames = torch.linalg.qr(probe.normal(1 if dim == 2 else 4, dim, 2)).Q
        angle = torch.arange(0, 2 * math.pi, 1 / radius, dtype=torch.float64)
        circle = torch.stack([angle.cos(), angle.sin()], dim=-1)
        ring = radius * torch.einsum("mk,cdk->cmd", circle, frames) * probe.scale
        ring = ring.round().flatten(0, 1)
        sizes, _ = probe.differences(x, ring, torch.ones(len(ring)).double(), indices)
        for order in range(1, int(orders.max()) + 1):
            size, chosen = sizes[orders == order].amax(dim=0), list[int]()
            for index in size.argsort(descending=True)[:256].tolist():
                apart = (ring[index] - ring[chosen]).norm(dim=-1) > radius / 4
                if len(chosen) < FOLLOWED and bool(apart.all()):
                    chosen.append(index)
            starts.append(ring[chosen])
    return _followed(probe, x, torch.cat(starts), indices)


def _followed(probe: Probe, x: Tensor, start: Tensor, indices: tuple[MultiIndex, ...]) -> Tensor:
    """Points of the ridges through some starts (S, d), in each shell, (S, J, d)."""
    step, axes = 1e-3 * float(probe.scale.min()), torch.eye(probe.dim, dtype=torch.float64)
    steps = step if not probe.acting else 1.0
    values = torch.stack([probe.table(x, start + s * steps * e) for e in axes for s in (1, -1)])
    slopes = (values[0::2] - values[1::2]).nan_to_num().flatten(1, 2)  # (d, K P, S)
    strongest = slopes.abs().square().sum(dim=0).argmax(dim=0)
    normal = slopes[:, strongest, torch.arange(len(start))].T  # (S, d), up to a phase
    pivot = normal.gather(1, normal.abs().argmax(dim=1, keepdim=True))
    normal = normalize((normal * pivot.conj()).real, dim=-1)
    tangent = start - (start * normal).sum(dim=1, keepdim=True) * normal
    tangent = normalize(tangent, dim=-1)
    span = torch.arange(-REACH, REACH + 1, dtype=torch.float64)
    cross = torch.cat([(span[:, None] * axis) for axis in axes])
    first, sequence, at = start, [], start
    for radius in RADII * float(probe.scale.mean()):
        along = tangent if at is first else normalize(at - first, dim=-1)
        at = (first + radius * along).round()
        for _ in range(2):
            near = at[:, None] + cross
            ones = torch.ones(near.shape[0] * near.shape[1]).double()
            sizes = probe.differences(x, near.flatten(0, 1), ones, indices)[0][1:].amax(dim=0)
            chosen = sizes.reshape(len(near), -1).argmax(dim=1)
            at = near[torch.arange(len(near)), chosen]
        sequence.append(at)
        at = at if float(radius) > 16 else first
    return torch.stack(sequence, dim=1)


def _units(probe: Probe, expression: Expression | None) -> list[Tensor]:
    """Lattice points beside the hyperplanes w·ξ + b = 0 of the units of a known network."""
    planes, stack = list[Tensor](), [expression] if expression is not None else []
    zero = torch.zeros(1, 1, probe.dim, dtype=torch.float64)
    while stack:
        node = stack.pop()
        stack += node.parts
        if isinstance(node, Affine):
            at = [zero, *torch.eye(probe.dim).double()[:, None, None], zero + 3.5]
            first, *units, other = (node.on(Floating(zero, xi)).flatten() for xi in at)
            slopes = torch.stack(units) - first  # (d, units)
            linear = torch.allclose(first + 3.5 * slopes.sum(dim=0), other)
            if linear and bool(slopes.abs().sum() > 0) and not first.is_complex():
                planes.append(torch.cat([slopes, first[None]]).T[:UNITS])
    if not planes:
        return []
    w, b = torch.split(torch.cat(planes), [probe.dim, 1], dim=1)
    kept = w.abs().sum(dim=1) > 0
    w, b = w[kept], b[kept]
    direction = probe.normal(*w.shape)
    across = (direction * w).sum(1, keepdim=True) / w.square().sum(1, keepdim=True) * w
    direction = normalize(direction - across, dim=-1)
    points = (RADII[:, None] * direction[:, None] * probe.scale.mean()).round()
    rows, axis = torch.arange(len(w)), w.abs().argmax(dim=1)
    points[rows, :, axis] = 0.0
    rest = (points * w[:, None]).sum(dim=-1) + b
    points[rows, :, axis] = (-rest / w[rows, axis][:, None]).round()
    return [points]
