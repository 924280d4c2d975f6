"""A symbol at any points: what is needed to ask how a(x, ξ) behaves for |ξ| -> ∞.

Every kind of symbol becomes a `Probe`: values at any ξ, in double precision, and the sizes of
their x-derivatives. What *acts* on real functions is not a itself but its Hermitian completion,

    a(x, ξ) where ξ_d > 0,   conj a(x, -ξ) where ξ_d < 0,   the mean of both where ξ_d = 0.

A table is stored for ξ_d >= 0 and known by its completion only.
"""

__all__ = [
    *("AnySymbol", "DirectProbe", "Probe", "SeparatedProbe", "Stencil", "derivative_stencil"),
    *("difference_stencil", "evaluate_at", "make_probe", "multi_indices"),
]

import copy
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pdno.symbols.analytic import Advection, AnalyticSymbol, Derivative, Multiplication
from pdno.symbols.base import Symbol
from pdno.symbols.direct import FullSymbol
from pdno.symbols.network import LowRankSymbol, NetworkSymbol, TableSymbol
from pdno.symbols.scale import scale_per_axis
from pdno.symbols.separated import SeparatedSymbol, check_time

# a from x (P, 1, d) and ξ (1, M, d) to (P, M) or (O, I, P, M)
Pairs = Callable[[Tensor, Tensor], Tensor]
AnySymbol = Symbol | FullSymbol | Pairs
# c from ξ (M, d) to (R, pairs, M), or b from x (P, d) to (R, pairs or 1, P)
Factor = Callable[[Tensor], Tensor]
MultiIndex = tuple[int, ...]

BUDGET = 2**20  # numbers that are worked on at a time
# how many x: a product is judged factor by factor, a sum of R terms point by point
POINTS, POINTS_OF_SUMS = 32, 4
# of the points for ∂_x: at twenty waves per period the fourth order formulas err by 1 percent
SPACING = 1 / 128
# fourth order, at -2h .. 2h
_CENTRAL = {
    0: (0.0, 0.0, 1.0, 0.0, 0.0),
    1: (1 / 12, -8 / 12, 0.0, 8 / 12, -1 / 12),
    2: (-1 / 12, 16 / 12, -30 / 12, 16 / 12, -1 / 12),
}
_MIXING = torch.tensor([6364136223846793005, 3202034522624059733, 1442695040888963407])


@dataclass(frozen=True)
class Stencil:
    """Where to evaluate, offsets (G, d), and what to combine: weights (G, number of indices).

    All Δ^α with |α| <= k need the values of a at the points ξ + γ, |γ| <= k, and nothing else.
    """

    indices: tuple[MultiIndex, ...]
    offsets: Tensor
    weights: Tensor

    @property
    def totals(self) -> list[int]:
        """|α| of each index."""
        return [sum(index) for index in self.indices]


def multi_indices(dim: int, most: int) -> tuple[MultiIndex, ...]:
    """All α in N^d with |α| <= most, by |α|.

    Example:
        >>> multi_indices(2, 1)
        ((0, 0), (0, 1), (1, 0))
    """
    found = itertools.product(range(most + 1), repeat=dim)
    return tuple(sorted((i for i in found if sum(i) <= most), key=lambda i: (sum(i), i)))


def difference_stencil(dim: int, most: int, step: int = 1) -> Stencil:
    """Δ^α / h^|α| for |α| <= most, Δ^α a(ξ) = Σ_{γ <= α} (-1)^{|α - γ|} C(α, γ) a(ξ + hγ)."""
    indices = multi_indices(dim, most)
    return _stencil(indices, indices, step, lambda a, g: (-1) ** (a + g) * math.comb(a, g))


def derivative_stencil(dim: int, most: int) -> Stencil:
    """Central differences of fourth order for ∂^β, |β| <= most <= 2."""
    places = itertools.product(range(-2, 3), repeat=dim)
    near = [place for place in places if sum(p != 0 for p in place) <= 2]
    return _stencil(multi_indices(dim, most), near, SPACING, lambda b, p: _CENTRAL[b][p + 2])


def _stencil(
    indices: tuple[MultiIndex, ...],
    places: Sequence[MultiIndex],
    step: float,
    weight: Callable[[int, int], float],
) -> Stencil:
    """Products of the weights of each axis at the places, for each index, over h^|index|."""
    weights = [
        [math.prod(map(weight, index, place)) / step ** sum(index) for index in indices]
        for place in places
    ]
    offsets = step * torch.tensor(places, dtype=torch.float64)
    return Stencil(indices, offsets, torch.tensor(weights, dtype=torch.float64))


class Probe(ABC):
    """A symbol at any points; x-derivatives are taken at some that the generator draws."""

    scale: Tensor  # unit of ξ per axis, (d,): radii are measured in it
    shells: int  # how far out to look: up to |ξ| = 4^(shells + 1)
    only_integers = False  # whether a is defined on the lattice alone
    planes: Tensor | None = None  # where units of a first layer bend: w·ξ/scale + b = 0, (w, b)
    support: int | None = None  # a = 0 where some |ξ_j| is larger

    def __init__(self, dim: int, points: int, depends_on_x: bool, draw: torch.Generator) -> None:
        self.dim, self.depends_on_x, self.generator = dim, depends_on_x, draw
        self.scale = torch.ones(dim, dtype=torch.float64)
        self.stencil = derivative_stencil(dim, 2 if depends_on_x else 0)
        margin = float(self.stencil.offsets.abs().max())
        unit = torch.rand(points, 1, dim, generator=draw, dtype=torch.float64)
        self.x = ((margin + (1 - 2 * margin) * unit) + self.stencil.offsets).flatten(0, 1)

    @abstractmethod
    def values(self, xi: Tensor, *, derivatives: bool = True) -> Tensor:
        """What `sizes` needs of a at ξ (M, d), with or without derivatives: (terms, pairs, M)."""

    @abstractmethod
    def sizes(self, parts: Tensor, *, derivatives: bool = True) -> Tensor:
        """max over x and pairs of |∂_x^β a|, (indices β, M); without `derivatives` β = 0 alone.

        `parts` are real and imaginary parts of (differences of) values, (2, terms, pairs, M).
        """

    def noise(self, sizes: Tensor) -> Tensor:
        """Sizes of the numbers whose rounding errors are in ∂_x^β a, for sizes (indices β, J)."""
        return sizes

    @abstractmethod
    def along(self, x: Tensor) -> Tensor:
        """The functions of x that the symbol is made of, at points (P, d): (functions, P)."""

    def differences(self, xi: Tensor, stencil: Stencil, *, derivatives: bool = True) -> Tensor:
        """max over x and pairs of |Δ^α ∂_x^β a| at ξ (M, d), (indices α, indices β, M)."""

        def sizes(points: Tensor) -> Tensor:
            parts = self._near(points, stencil, derivatives)
            found = self.sizes(parts.flatten(-2), derivatives=derivatives)
            return found.reshape(len(found), len(points), -1).permute(2, 0, 1)

        return self._in_chunks(sizes, xi[:, None] + stencil.offsets, derivatives)

    def changes(self, xi: Tensor, other: Tensor, *, derivatives: bool = True) -> Tensor:
        """max over x and pairs of |∂_x^β a(x, ξ') - ∂_x^β a(x, ξ)|, (indices β, M)."""

        def sizes(points: Tensor) -> Tensor:
            here, there = (self.values(each, derivatives=derivatives) for each in points.unbind(1))
            change = there - here
            return self.sizes(torch.stack([change.real, change.imag]), derivatives=derivatives)

        return self._in_chunks(sizes, torch.stack([xi, other], dim=1), derivatives)

    def strengths(self, xi: Tensor, stencil: Stencil, pairs: Tensor | None = None) -> Tensor:
        """|Δ^α| of what a is made of, pair by pair, (indices α, pairs, M): quick, for a search."""

        def squares(points: Tensor) -> Tensor:
            parts = self._near(points, stencil, False, pairs)
            return _squared_size(parts).amax(dim=0).movedim(-1, 0)

        return self._in_chunks(squares, xi[:, None] + stencil.offsets, False).sqrt_()

    def _in_chunks(self, function: Factor, points: Tensor, derivatives: bool) -> Tensor:
        one = self.values(points[0], derivatives=derivatives)
        chunks = torch.split(points, max(1, BUDGET // one.numel()))
        return torch.cat([function(each) for each in chunks], dim=-1)

    def _near(
        self, points: Tensor, stencil: Stencil, derivatives: bool, pairs: Tensor | None = None
    ) -> Tensor:
        """Both parts of all Δ^α at the points (M, G, d) of a stencil, (2, terms, pairs, M, α)."""
        # neighbours share most of their stencils
        unique, place = _unique(points.flatten(0, 1))
        values = self.values(unique, derivatives=derivatives)
        if pairs is not None:
            values = values[:, pairs]
        parts = torch.stack([values.real, values.imag]).index_select(-1, place)
        return parts.reshape(*parts.shape[:-1], *points.shape[:2]) @ stencil.weights


class SeparatedProbe(Probe):
    """Σ_r b_r(x) c_r(ξ), or c(ξ) alone, where b is None.

    Δ_ξ^α ∂_x^β a(x, ξ) = Σ_r ∂_x^β b_r(x) Δ_ξ^α c_r(ξ), so that c is evaluated at frequencies and
    b at points, and never a at pairs of both.
    """

    def __init__(self, c: Factor, b: Factor | None, dim: int, draw: torch.Generator) -> None:
        terms = len(c(torch.zeros(1, dim, dtype=torch.float64)))
        super().__init__(dim, POINTS if terms == 1 else POINTS_OF_SUMS, b is not None, draw)
        self.frequency, self.space = c, b
        if b is not None:
            near = torch.unflatten(b(self.x), -1, (-1, len(self.stencil.offsets)))
            self.derivatives = (near @ self.stencil.weights).movedim(-1, 0)  # (β, R, pairs, P)

    def values(self, xi: Tensor, *, derivatives: bool = True) -> Tensor:
        return self.frequency(xi)

    def sizes(self, parts: Tensor, *, derivatives: bool = True) -> Tensor:
        """max |Σ_r ∂^β b_r c_r|."""
        if self.space is None:
            return _squared_size(parts.sum(dim=1)).amax(dim=0).sqrt()[None]
        wanted = self.derivatives if derivatives else self.derivatives[:1]
        if parts.shape[1] == 1:  # |b c| = |b| |c|
            squared = _squared_size(parts[:, 0])
            factors = wanted[:, 0].square().amax(dim=-1)
            return torch.stack([(each[:, None] * squared).amax(dim=0).sqrt() for each in factors])
        return torch.stack([self._largest_sum(each, parts) for each in wanted])

    def _largest_sum(self, b: Tensor, c: Tensor) -> Tensor:
        sums = ((each[..., None] * c).sum(dim=1) for each in b.unbind(dim=-1))
        return torch.stack([_squared_size(each).amax(dim=0) for each in sums]).amax(dim=0).sqrt()

    def along(self, x: Tensor) -> Tensor:
        assert self.space is not None
        return self.space(x).flatten(0, 1)


class DirectProbe(Probe):
    """a(x, ξ) by a function of x (P, 1, d) and ξ (1, M, d), at the points of an x-stencil."""

    def __init__(self, function: Pairs, dim: int, draw: torch.Generator) -> None:
        super().__init__(dim, POINTS_OF_SUMS, True, draw)
        self.function = function

    def table(self, x: Tensor, xi: Tensor) -> Tensor:
        """a at all pairs of points (P, d) and frequencies (M, d): (O, I, P, M)."""
        given = torch.as_tensor(self.function(x[:, None], xi[None])).to(torch.complex128)
        if given.dim() not in (0, 2, 4):
            raise ValueError(
                f"the symbol gave values of shape {tuple(given.shape)} for x of shape (P, 1, d) "
                "and ξ of shape (1, M, d); expected (P, M) or (O, I, P, M)"
            )
        channels = given.shape[:2] if given.dim() == 4 else (1, 1)
        return given.expand(*channels, len(x), len(xi))

    def values(self, xi: Tensor, *, derivatives: bool = True) -> Tensor:
        """a at the points of the x-stencil, or at their centres."""
        centre = int((self.stencil.offsets == 0).all(dim=-1).nonzero()[0])
        x = self.x if derivatives else self.x[centre :: len(self.stencil.offsets)]
        return self.table(x, xi).flatten(0, 1).movedim(0, 1)

    def sizes(self, parts: Tensor, *, derivatives: bool = True) -> Tensor:
        """max |Σ_s w_βs a(x + s)|."""
        if not derivatives:
            return _squared_size(parts).amax(dim=(0, 1)).sqrt()[None]
        near = parts.reshape(2, -1, len(self.stencil.offsets), *parts.shape[2:])
        combined = torch.einsum("kpsqm,sb->kbpqm", near, self.stencil.weights)
        return _squared_size(combined).amax(dim=(1, 2)).sqrt()

    def noise(self, sizes: Tensor) -> Tensor:
        """The formulas for ∂^β enlarge the errors of a."""
        return self.stencil.weights.abs().sum(dim=0)[:, None] * sizes[:1]

    def along(self, x: Tensor) -> Tensor:
        """a at some frequencies."""
        places = torch.tensor([0.0, 1.0, -2.0, 7.0, -30.0], dtype=torch.float64)
        xi = places[:, None] * self.scale
        return self.table(x, xi.round()).movedim(-1, 2).flatten(0, 2)


@torch.no_grad()
def evaluate_at(
    symbol: AnySymbol, x: Tensor, xi: Tensor, *, t: float | None = None, acting: bool = False
) -> Tensor:
    """a_ij(x, ξ) at all pairs of points (P, d) and frequencies (M, d), (O, I, P, M), complex128.

    Frequencies need not be integers, except for tables; with `acting` it is the part that acts on
    real functions. A function takes x (P, 1, d) and ξ (1, M, d) to (P, M) or (O, I, P, M).

    Example:
        >>> from pdno.symbols import FractionalLaplacian
        >>> xi = torch.tensor([[3_000_000.0, 4_000_000.0]])
        >>> evaluate_at(FractionalLaplacian(0.5), torch.zeros(1, 2), xi).real.item() / torch.pi
        10000000.0
    """
    probe = make_probe(symbol, dim=xi.shape[-1], t=t, acting=acting)
    x, xi = x.double(), xi.double()
    if isinstance(probe, DirectProbe):
        return probe.table(x, xi)
    assert isinstance(symbol, Symbol)
    c = probe.values(xi)[..., None, :]
    b = torch.ones(1, 1, len(x)) if probe.space is None else probe.space(x)
    values = (b[..., None] * c).sum(dim=0)
    return values.reshape(symbol.out_channels, symbol.in_channels, len(x), len(xi))


def make_probe(
    symbol: AnySymbol,
    *,
    dim: int | None = None,
    t: float | None = None,
    acting: bool = False,
    frequency_scale: float | Sequence[float] | None = None,
    shells: int = 10,
    generator: torch.Generator | None = None,
) -> SeparatedProbe | DirectProbe:
    """The probe of a symbol, with the arguments of `certify`; networks become float64 copies."""
    known = _known_dim(symbol)
    if dim is not None and known is not None and dim != known:
        raise ValueError(f"dim is {dim}, but this symbol has {known} axes: leave dim out")
    axes = known if known is not None else dim
    if axes is None:
        raise ValueError("this symbol does not know its number of axes: give dim=1, 2 or 3")
    draw = generator or torch.Generator().manual_seed(0)
    acting = acting or isinstance(symbol, TableSymbol)
    probe: SeparatedProbe | DirectProbe
    if isinstance(symbol, Symbol):
        if isinstance(symbol, SeparatedSymbol):
            symbol = copy.deepcopy(symbol).cpu().double().requires_grad_(False)
            if frequency_scale is not None and not symbol.scale.chosen:
                symbol.scale.settle(frequency_scale)
        frequency, space = _factors(symbol, t)
        probe = SeparatedProbe(_what_acts(frequency) if acting else frequency, space, axes, draw)
    else:
        if t is not None:
            raise ValueError("a function a(x, ξ) has no time: leave t out, or bind it")
        function = symbol.function if isinstance(symbol, FullSymbol) else symbol
        probe = DirectProbe(_what_acts(function) if acting else function, axes, draw)
    if isinstance(symbol, SeparatedSymbol):
        probe.scale, probe.planes = symbol.scale.frequency.double(), _first_layer(symbol, t)
    if frequency_scale is not None:
        probe.scale = scale_per_axis(frequency_scale, axes)
    probe.support = max(symbol.modes) if isinstance(symbol, TableSymbol) else None
    probe.only_integers, probe.shells = acting, shells
    return probe


def _known_dim(symbol: AnySymbol) -> int | None:
    if isinstance(symbol, SeparatedSymbol):
        return symbol.scale.dim
    if isinstance(symbol, TableSymbol):
        return len(symbol.modes)
    if isinstance(symbol, Derivative):
        return len(symbol.order)
    return len(symbol.velocity) if isinstance(symbol, Advection) else None


def _factors(symbol: Symbol, t: float | None) -> tuple[Factor, Factor | None]:
    """c and b; a table is zero outside of its modes."""
    if isinstance(symbol, TableSymbol):
        return _stored(symbol), None
    if isinstance(symbol, AnalyticSymbol):
        time = check_time(t, symbol.takes_time, torch.zeros((), dtype=torch.float64))
        b = symbol.function if isinstance(symbol, Multiplication) else None
        return (
            lambda xi: symbol.formula(xi, time).to(torch.complex128)[None, None],
            None if b is None else lambda x: b(x).double()[None, None],
        )
    if not isinstance(symbol, SeparatedSymbol):
        raise ValueError(
            f"{type(symbol).__name__} has no values away from a grid: give a function a(x, ξ) "
            "instead"
        )
    nowhere = torch.zeros(1, symbol.scale.dim, dtype=torch.float64)

    def space(x: Tensor) -> Tensor:
        b = symbol.evaluate_at(x, nowhere, t).space
        assert b is not None
        return b.expand(-1, symbol.out_channels, symbol.in_channels, -1).flatten(1, 2)

    return (
        lambda xi: symbol.evaluate_at(nowhere, xi, t).frequency.flatten(1, 2),
        space if symbol.depends_on_x else None,
    )


def _stored(symbol: TableSymbol) -> Factor:
    kept = torch.view_as_complex(symbol.table.detach().cpu().double()).flatten(0, 1).movedim(0, -1)
    lowest = torch.tensor([-k for k in symbol.modes[:-1]] + [0])
    highest, sizes = torch.tensor(symbol.modes) - 1, torch.tensor(kept.shape[:-1])

    def stored(xi: Tensor) -> Tensor:
        places = xi.round().long()
        inside = ((places >= lowest) & (places <= highest)).all(dim=-1)
        found = kept[(places % sizes).unbind(dim=-1)].T
        return torch.where(inside, found, 0.0)[None]

    return stored


def _first_layer(symbol: SeparatedSymbol, t: float | None) -> Tensor | None:
    """Rows (w, b) of the units w·ξ/s + b of networks that see ξ itself."""
    if not isinstance(symbol, (NetworkSymbol, LowRankSymbol)):
        return None
    layers = (symbol.real.linear_in, symbol.imaginary.linear_in)
    rows = torch.cat([torch.cat([layer.weight, layer.bias[:, None]], dim=1) for layer in layers])
    w, b = rows[:, : symbol.scale.dim], rows[:, -1:]
    return torch.cat([w, b if t is None else b + t * rows[:, -2:-1]], dim=1)


def _what_acts(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The part of c(ξ) or a(x, ξ) that acts on real functions."""

    def acting(*given: Tensor) -> Tensor:
        *x, xi = given
        here, there = (torch.as_tensor(function(*x, each)) for each in (xi, -xi))
        share = 0.5 * (1 + xi.flatten(0, -2)[:, -1].sign())
        return share * here + (1 - share) * there.conj()

    return acting


def _squared_size(parts: Tensor) -> Tensor:
    """|z|² of real and imaginary parts (2, ...)."""
    return parts[0].square().addcmul_(parts[1], parts[1])


def _unique(points: Tensor) -> tuple[Tensor, Tensor]:
    """Different rows of (M, d) and the place of each row among them, by sorting one key."""
    keys = (points.long() * _MIXING[: points.shape[1]]).sum(dim=1)
    place = torch.unique(keys, return_inverse=True)[1]
    count = int(place.max()) + 1
    first = torch.empty(count, dtype=torch.long).scatter_(0, place, torch.arange(len(points)))
    if torch.equal(points[first][place], points):
        return points[first], place
    rows, place = torch.unique(points, dim=0, return_inverse=True)  # two rows with the same key
    return rows, place
