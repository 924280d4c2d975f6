"""A symbol at any ξ in double precision, and the sizes of its differences as |ξ| -> ∞.

What *acts* on real functions is not a itself but its Hermitian completion: a(x, ξ) where ξ_d > 0,
conj a(x, -ξ) where ξ_d < 0, and the mean of both where ξ_d = 0. A table, which is stored for
ξ_d >= 0, is defined by its completion only.
"""

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from pdno.symbols.base import FullSymbol, Symbol, Time
from pdno.symbols.network import SeparatedSymbol, TableSymbol
from pdno.symbols.scale import scale_per_axis

MultiIndex = tuple[int, ...]
# a from x (P, 1, d) and ξ (1, M, d) to (P, M) or (O, I, P, M)
Pairs = Callable[[Tensor, Tensor], Tensor]
AnySymbol = Symbol | FullSymbol | Pairs
# c from ξ (M, d) to (R, pairs, M), or b from x (P, d) to (R, pairs, P)
Factor = Callable[[Tensor], Tensor]
# the points x: a few, many, or those of stencils for ∂_x at the few
Where = Literal["few", "many", "near"]

RATIO = 4.0  # of the radii of shells, 4^j <= |ξ| < 4^{j+1} in units of the scale
BUDGET = 2**20  # numbers that are worked on at a time
SPACING = 1.07 / 2**13  # of the points for ∂_x: it resolves waves of some thousand periods
# ∂ and ∂² of fourth order, at -2h .. 2h
_CENTRAL = (
    (0.0, 0.0, 1.0, 0.0, 0.0),
    (1 / 12, -8 / 12, 0.0, 8 / 12, -1 / 12),
    (-1 / 12, 16 / 12, -30 / 12, 16 / 12, -1 / 12),
)
_MIXING = torch.tensor([6364136223846793005, 3202034522624059733, 1442695040888963407])


def multi_indices(dim: int, most: int) -> tuple[MultiIndex, ...]:
    """All α in N^d with |α| <= most, by |α|.

    Example:
        >>> multi_indices(2, 1)
        ((0, 0), (0, 1), (1, 0))
    """
    indices = itertools.product(range(most + 1), repeat=dim)
    return tuple(sorted((i for i in indices if sum(i) <= most), key=lambda i: (sum(i), i)))


@dataclass(frozen=True)
class Stencil:
    """Differences Δ^α in ξ, or derivatives ∂_x^β, as sums over a few points."""

    indices: tuple[MultiIndex, ...]
    offsets: Tensor  # of the points to evaluate, (G, d)
    weights: Tensor  # to sum with, (G, number of indices)

    @property
    def totals(self) -> list[int]:
        """|α| of each index."""
        return [sum(index) for index in self.indices]


def difference_stencil(dim: int, most: int) -> Stencil:
    """Δ^α for |α| <= most, Δ^α a(ξ) = Σ_{γ <= α} (-1)^{|α - γ|} C(α, γ) a(ξ + γ)."""
    signed = [
        [(-1) ** (a + g) * math.comb(a, g) for g in range(most + 1)] for a in range(most + 1)
    ]
    return _stencil(dim, signed, 0, 1.0)


def _stencil(dim: int, table: Sequence[Sequence[float]], first: int, step: float) -> Stencil:
    """Products of rows of a table for one axis, weights at first, first + 1, ..., by h^|index|."""
    indices = multi_indices(dim, len(table) - 1)
    points = torch.tensor(list(itertools.product(range(len(table[0])), repeat=dim)))
    axes, orders = torch.tensor(table, dtype=torch.float64), torch.tensor(indices)
    weights = axes[orders, points[:, None]].prod(dim=-1) / step ** orders.sum(dim=1)
    used = weights.ne(0).any(dim=1)
    return Stencil(indices, step * (points[used] + first).double(), weights[used])


class Probe:
    """a(x, ξ) at any ξ, and at a `few` x, at `many`, or at stencils for ∂_x around the few.

    Here by a function of x (P, 1, d) and ξ (1, M, d); the points take the place of terms.
    """

    only_integers = False  # whether a is defined on the lattice alone
    support: int | None = None  # a = 0 where some |ξ_j| is larger
    shells = 16  # how far out to look: up to |ξ| = 4^(shells + 1)

    def __init__(
        self, function: Pairs, dim: int, generator: torch.Generator, *, depends_on_x: bool = True
    ) -> None:
        self.function, self.dim, self.generator = function, dim, generator
        self.depends_on_x = depends_on_x
        self.scale = torch.ones(dim, dtype=torch.float64)  # unit of ξ per axis
        self.stencil = _stencil(dim, _CENTRAL[: 3 if depends_on_x else 1], -2, SPACING)

    def normal(self, *shape: int) -> Tensor:
        """Random numbers of a normal distribution."""
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64)

    def uniform(self, *shape: int) -> Tensor:
        """Random numbers between 0 and 1."""
        return torch.rand(*shape, generator=self.generator, dtype=torch.float64)

    def set_points(self, many: Tensor, few: Tensor) -> None:
        """Look at these points x, (P, d) each."""
        near = (few[:, None] + self.stencil.offsets).flatten(0, 1)
        self.x = {"many": many, "few": few, "near": near}

    def table(self, x: Tensor, xi: Tensor) -> Tensor:
        """a at all pairs of points (P, d) and frequencies (M, d): (O, I, P, M)."""
        values = torch.as_tensor(self.function(x[:, None], xi[None])).to(torch.complex128)
        if values.dim() not in (0, 2, 4):
            raise ValueError(
                f"the symbol gave values of shape {tuple(values.shape)} for x of shape (P, 1, d) "
                "and ξ of shape (1, M, d); expected (P, M) or (O, I, P, M)"
            )
        channels = values.shape[:2] if values.dim() == 4 else (1, 1)
        return values.expand(*channels, len(x), len(xi))

    def values(self, xi: Tensor, where: Where = "few") -> Tensor:
        """What `sizes` needs of a at ξ (M, d): (terms, channel pairs, M)."""
        return self.table(self.x[where], xi).flatten(0, 1).movedim(0, 1)

    def sizes(self, parts: Tensor, where: Where = "few") -> Tensor:
        """max over x and pairs of |∂_x^β a|, (indices β, M); only β = 0 at `few` and `many`.

        `parts` are real and imaginary parts of (differences of) values, (2, terms, pairs, M).
        """
        if where != "near":
            return _squared_size(parts).amax(dim=(0, 1)).sqrt()[None]
        near = torch.unflatten(parts, 1, (-1, len(self.stencil.offsets)))
        derivatives = torch.einsum("kpsqm,sb->kbpqm", near, self.stencil.weights)
        return _squared_size(derivatives).amax(dim=(1, 2)).sqrt()

    def differences(
        self, xi: Tensor, stencil: Stencil, steps: Tensor, where: Where = "few"
    ) -> Tensor:
        """max over x and pairs of |Δ_h^α ∂_x^β a| / h^|α| at ξ (..., d), h (...): (α, β, ...)."""

        points, rows = (xi[..., None, :] + steps[..., None, None] * stencil.offsets), []
        for parts in self._parts(points.flatten(0, -3), stencil, where):
            largest = self.sizes(parts.flatten(-2), where)
            rows.append(torch.unflatten(largest, -1, parts.shape[-2:]).movedim(-1, 0))
        powers = steps.flatten() ** torch.tensor(stencil.totals)[:, None, None]
        sizes = (torch.cat(rows, dim=-1) / powers).nan_to_num(nan=math.inf)
        return torch.unflatten(sizes, -1, steps.shape)

    def strengths(
        self, xi: Tensor, stencil: Stencil, step: int, pairs: Tensor | slice = slice(None)
    ) -> Tensor:
        """|Δ^α| of what a is made of, pair by pair, (indices α, pairs, M): quick, for a search."""
        chunks = self._parts(xi[:, None] + step * stencil.offsets, stencil, "few", pairs)
        rows = [_squared_size(parts).amax(dim=0).movedim(-1, 0) for parts in chunks]
        return torch.cat(rows, dim=-1).sqrt_()

    def _parts(
        self, points: Tensor, stencil: Stencil, where: Where, pairs: Tensor | slice = slice(None)
    ) -> Iterator[Tensor]:
        """Both parts of all Δ^α at some points (M, G, d) after others, (2, terms, pairs, M, α)."""
        numbers = self.values(points[0], where).numel()
        for chunk in torch.split(points, max(1, BUDGET // numbers)):
            flat = chunk.flatten(0, 1)
            # neighbours share most of their stencils: equal points by sorting one key
            keys = (flat.long() * _MIXING[: self.dim]).sum(dim=1)
            index = torch.unique(keys, return_inverse=True)[1]
            first = torch.empty(int(index.max()) + 1, dtype=torch.long)
            unique = flat[first.scatter_(0, index, torch.arange(len(flat)))]
            if not torch.equal(unique[index], flat):  # two points with the same key
                unique, index = torch.unique(flat, dim=0, return_inverse=True)
            parts = real_parts(self.values(unique, where)[:, pairs])[..., index]
            yield torch.unflatten(parts, -1, chunk.shape[:2]) @ stencil.weights


class SeparatedProbe(Probe):
    """Σ_r b_r(x) c_r(ξ), at some time; networks become float64 copies.

    Δ_ξ^α ∂_x^β a(x, ξ) = Σ_r ∂_x^β b_r(x) Δ_ξ^α c_r(ξ), so that c is evaluated at frequencies and
    b at points, and never a at pairs of both.
    """

    def __init__(
        self, symbol: Symbol, dim: int, generator: torch.Generator, t: Time, *, acting: bool
    ) -> None:
        super().__init__(self.table, dim, generator, depends_on_x=symbol.depends_on_x)
        self.symbol, self.t = symbol, t

        def frequency(xi: Tensor) -> Tensor:
            return symbol.evaluate_at(torch.zeros_like(xi[:1]), xi, t).frequency.flatten(1, 2)

        self.frequency = _what_acts(frequency) if acting else frequency
        if isinstance(symbol, SeparatedSymbol):
            self.scale = symbol.scale.frequency.double()
        self.support = max(symbol.modes) if isinstance(symbol, TableSymbol) else None
        if not symbol.depends_on_x:
            self.set_points(torch.zeros(1, dim).double(), torch.zeros(1, dim).double())

    def space(self, x: Tensor) -> Tensor:
        """b at points (P, d), (R, pairs, P)."""
        b = self.symbol.evaluate_at(x, torch.zeros_like(x[:1]), self.t).space
        b = torch.ones(1, 1, 1, len(x)).double() if b is None else b
        return b.expand(-1, self.symbol.out_channels, self.symbol.in_channels, -1).flatten(1, 2)

    def set_points(self, many: Tensor, few: Tensor) -> None:
        super().set_points(many, few)
        near = torch.unflatten(self.space(self.x["near"]), -1, (len(few), -1))
        # (β, R, pairs, P)
        self.b = {"few": self.space(few)[None], "many": self.space(many)[None]}
        self.b["near"] = (near @ self.stencil.weights).movedim(-1, 0)

    def table(self, x: Tensor, xi: Tensor) -> Tensor:
        a = (self.space(x)[..., None] * self.frequency(xi)[..., None, :]).sum(dim=0)
        return torch.unflatten(a, 0, (self.symbol.out_channels, self.symbol.in_channels))

    def values(self, xi: Tensor, where: Where = "few") -> Tensor:
        return self.frequency(xi)

    def sizes(self, parts: Tensor, where: Where = "few") -> Tensor:
        """max |Σ_r ∂^β b_r c_r|."""
        rows = []
        for b in self.b[where]:
            if parts.shape[1] == 1:  # |b c| = |b| |c|
                largest = b[0].square().amax(dim=-1)[:, None] * _squared_size(parts[:, 0])
            else:
                sums = ((at_x[..., None] * parts).sum(dim=1) for at_x in b.unbind(dim=-1))
                largest = torch.stack([_squared_size(s).amax(dim=0) for s in sums])
            rows.append(largest.amax(dim=0))
        return torch.stack(rows).sqrt()


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
    probe = make_probe(symbol, dim=xi.shape[-1], t=t, acting=acting)
    return probe.table(x.double(), xi.double())


def make_probe(
    symbol: AnySymbol,
    *,
    dim: int | None = None,
    t: Time = None,
    acting: bool = False,
    frequency_scale: float | Sequence[float] | None = None,
    generator: torch.Generator | None = None,
) -> Probe:
    """The probe of a symbol, with the arguments of `certify`."""
    own = symbol.dim if isinstance(symbol, Symbol) else None
    if dim is not None and own is not None and dim != own:
        raise ValueError(f"dim is {dim}, but this symbol has {own} axes: leave dim out")
    axes = own or dim
    if axes is None:
        raise ValueError("this symbol does not know its number of axes: give dim=1, 2 or 3")
    generator = generator or torch.Generator().manual_seed(0)
    acting = acting or isinstance(symbol, TableSymbol)
    if isinstance(symbol, Symbol):
        symbol = copy.deepcopy(symbol).cpu().double().requires_grad_(False)
        if isinstance(symbol, SeparatedSymbol) and not symbol.scale.chosen and frequency_scale:
            symbol.scale.settle(frequency_scale)
        probe: Probe = SeparatedProbe(symbol, axes, generator, t, acting=acting)
    else:
        if t is not None:
            raise ValueError("a function a(x, ξ) has no time: leave t out, or bind it")
        function = symbol.function if isinstance(symbol, FullSymbol) else symbol
        probe = Probe(_what_acts(function) if acting else function, axes, generator)
    if frequency_scale is not None:
        probe.scale = scale_per_axis(frequency_scale, axes)
    probe.only_integers = acting
    return probe


def _what_acts(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The part of c(ξ) or a(x, ξ) that acts on real functions."""

    def acting(*arguments: Tensor) -> Tensor:
        *x, xi = arguments
        here, there = (torch.as_tensor(function(*x, sign * xi)) for sign in (1, -1))
        share = 0.5 * (1 + xi.flatten(0, -2)[:, -1].sign())
        return share * here + (1 - share) * there.conj()

    return acting


def real_parts(values: Tensor) -> Tensor:
    return torch.stack([values.real, values.imag])


def _squared_size(parts: Tensor) -> Tensor:
    """|z|² of real and imaginary parts (2, ...)."""
    return parts[0].square().addcmul_(parts[1], parts[1])
