"""A symbol at any points, in double precision: the basis of statements about |ξ| -> ∞.

What *acts* on real functions is not a itself but its Hermitian completion: a(x, ξ) where ξ_d > 0,
conj a(x, -ξ) where ξ_d < 0, and the mean of both where ξ_d = 0. A table, which is stored for
ξ_d >= 0, is defined by its completion only.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from pdno.symbols.base import FullSymbol, Symbol, Time, as_parameters
from pdno.symbols.network import LowRankSymbol, NetworkSymbol, SeparatedSymbol, TableSymbol
from pdno.symbols.scale import scale_per_axis
from pdno.theory.stencil import Stencil, derivative_stencil

# a from x (P, 1, d) and ξ (1, M, d) to (P, M) or (O, I, P, M)
Pairs = Callable[[Tensor, Tensor], Tensor]
AnySymbol = Symbol | FullSymbol | Pairs
# c from ξ (M, d) to (R, pairs, M), or b from x (P, d) to (R, pairs or 1, P)
Factor = Callable[[Tensor], Tensor]
# the points x: a few, many, or those of stencils for ∂_x at the few
Where = Literal["few", "many", "near", "fine"]

BUDGET = 2**20  # numbers that are worked on at a time
FINE_SPACING = 1.07 / 2**13  # of points for ∂_x a, where nothing else is differenced
RESOLVED = 0.05  # of the largest derivative that a spacing can show; beyond, waves are too short
_MIXING = torch.tensor([6364136223846793005, 3202034522624059733, 1442695040888963407])


class Probe(ABC):
    """A symbol at any ξ, and at a `few` x, at `many`, or at stencils around the few."""

    scale: Tensor  # unit of ξ per axis, (d,): radii are measured in it
    shells: int  # how far out to look: up to |ξ| = 4^(shells + 1)
    only_integers = False  # whether a is defined on the lattice alone
    planes: Tensor | None = None  # where units of a first layer bend: w·ξ/scale + b = 0, (w, b)
    support: int | None = None  # a = 0 where some |ξ_j| is larger
    finest: Where = "near"  # the stencil for ∂_x a, where nothing else is differenced

    def __init__(self, dim: int, depends_on_x: bool, generator: torch.Generator) -> None:
        self.dim, self.depends_on_x, self.generator = dim, depends_on_x, generator
        self.scale = torch.ones(dim, dtype=torch.float64)
        self.stencil = derivative_stencil(dim, 2 if depends_on_x else 0)

    @abstractmethod
    def table(self, x: Tensor, xi: Tensor) -> Tensor:
        """a at all pairs of points (P, d) and frequencies (M, d): (O, I, P, M)."""

    @abstractmethod
    def set_points(self, many: Tensor, few: Tensor) -> None:
        """Look at these points x, (P, d) each."""

    @abstractmethod
    def values(self, xi: Tensor, where: Where = "few") -> Tensor:
        """What `sizes` needs of a at ξ (M, d): (terms, channel pairs, M)."""

    @abstractmethod
    def sizes(self, parts: Tensor, where: Where = "few") -> Tensor:
        """max over x and pairs of |∂_x^β a|, (indices β, M); only β = 0 at `few` and `many`.

        `parts` are real and imaginary parts of (differences of) values, (2, terms, pairs, M).
        """

    def noise(self, sizes: Tensor) -> Tensor:
        """Sizes of the numbers whose rounding errors are in ∂_x^β a, for sizes (indices β, J)."""
        return sizes

    @property
    def derivative_noise(self) -> Tensor:
        """By how much `x_derivatives` may enlarge errors of a, (indices β,)."""
        return self.stencil.amplification

    def differences(
        self, xi: Tensor, stencil: Stencil, steps: Tensor, where: Where = "few"
    ) -> Tensor:
        """max over x and pairs of |Δ_h^α ∂_x^β a| / h^|α| at ξ (M, d), h (M,): (α, β, M)."""

        def sizes(points: Tensor) -> Tensor:
            largest = self.sizes(self._near(points, stencil, where).flatten(-2), where)
            return largest.reshape(len(largest), len(points), -1).permute(2, 0, 1)

        points = xi[:, None] + steps[:, None, None] * stencil.offsets
        largest = self._in_chunks(sizes, points, where)
        return largest / steps ** torch.tensor(stencil.totals)[:, None, None]

    def x_derivatives(self, xi: Tensor) -> tuple[Tensor, Tensor]:
        """max over x and pairs of |∂_x^β a|, (indices β, M), and whether it is resolved."""
        where = self.finest

        def sizes(points: Tensor) -> Tensor:
            return self.sizes(_parts(self.values(points, where)), where)

        largest = self._in_chunks(sizes, xi, where)
        return largest, self.is_resolved(largest)

    def is_resolved(self, derivatives: Tensor) -> Tensor:
        """Whether the points of the stencil lie close enough for such derivatives."""
        return torch.ones_like(derivatives, dtype=torch.bool)

    def changes(self, xi: Tensor, other: Tensor, where: Where = "few") -> Tensor:
        """max over x and pairs of |∂_x^β a(x, ξ') - ∂_x^β a(x, ξ)|, (indices β, M)."""

        def sizes(points: Tensor) -> Tensor:
            here, there = (self.values(xi, where) for xi in points.unbind(1))
            return self.sizes(_parts(there - here), where)

        return self._in_chunks(sizes, torch.stack([xi, other], dim=1), where)

    def strengths(
        self, xi: Tensor, stencil: Stencil, step: int, pairs: Tensor | None = None
    ) -> Tensor:
        """|Δ^α| of what a is made of, pair by pair, (indices α, pairs, M): quick, for a search."""

        def squares(points: Tensor) -> Tensor:
            parts = self._near(points, stencil, "few", pairs)
            return _squared_size(parts).amax(dim=0).movedim(-1, 0)

        return self._in_chunks(squares, xi[:, None] + step * stencil.offsets, "few").sqrt_()

    def _in_chunks(self, function: Factor, points: Tensor, where: Where) -> Tensor:
        numbers = self.values(points[:1].flatten(0, -2), where).numel()
        chunks = torch.split(points, max(1, BUDGET // numbers))
        return torch.cat([function(chunk) for chunk in chunks], dim=-1)

    def _near(
        self, points: Tensor, stencil: Stencil, where: Where, pairs: Tensor | None = None
    ) -> Tensor:
        """Both parts of all Δ^α at the points (M, G, d) of a stencil, (2, terms, pairs, M, α)."""
        # neighbours share most of their stencils
        unique, index = _unique(points.flatten(0, 1))
        values = self.values(unique, where)
        values = values if pairs is None else values[:, pairs]
        parts = _parts(values).index_select(-1, index)
        return parts.reshape(*parts.shape[:-1], *points.shape[:2]) @ stencil.weights


class SeparatedProbe(Probe):
    """Σ_r b_r(x) c_r(ξ), or c(ξ) alone, where b is None.

    Δ_ξ^α ∂_x^β a(x, ξ) = Σ_r ∂_x^β b_r(x) Δ_ξ^α c_r(ξ), so that c is evaluated at frequencies and
    b at points, and never a at pairs of both.
    """

    def __init__(
        self, c: Factor, b: Factor | None, symbol: Symbol, dim: int, generator: torch.Generator
    ) -> None:
        super().__init__(dim, b is not None, generator)
        self.frequency, self.space = c, b
        self.channels = symbol.out_channels, symbol.in_channels

    def set_points(self, many: Tensor, few: Tensor) -> None:
        if self.space is not None:
            points = (few[:, None] + self.stencil.offsets).flatten(0, 1)
            near = torch.unflatten(self.space(points), -1, (-1, len(self.stencil.offsets)))
            weighed = (near @ self.stencil.weights).movedim(-1, 0)  # (β, R, pairs, P)
            at_few, at_many = self.space(few)[None], self.space(many)[None]
            self.b = {"near": weighed, "few": at_few, "many": at_many}

    def table(self, x: Tensor, xi: Tensor) -> Tensor:
        c = self.frequency(xi)[..., None, :]
        b = torch.ones(1, 1, len(x)) if self.space is None else self.space(x)
        return (b[..., None] * c).sum(dim=0).reshape(*self.channels, len(x), len(xi))

    def values(self, xi: Tensor, where: Where = "few") -> Tensor:
        return self.frequency(xi)

    def sizes(self, parts: Tensor, where: Where = "few") -> Tensor:
        """max |Σ_r ∂^β b_r c_r|."""
        if self.space is None:
            return _squared_size(parts.sum(dim=1)).amax(dim=0).sqrt()[None]
        b = self.b[where]
        if parts.shape[1] == 1:  # |b c| = |b| |c|
            squared = _squared_size(parts[:, 0])
            factors = b[:, 0].square().amax(dim=-1)
            return torch.stack([(f[:, None] * squared).amax(dim=0).sqrt() for f in factors])
        return torch.stack([self._largest_sum(derivative, parts) for derivative in b])

    def _largest_sum(self, b: Tensor, c: Tensor) -> Tensor:
        sums = ((at_x[..., None] * c).sum(dim=1) for at_x in b.unbind(dim=-1))
        return torch.stack([_squared_size(s).amax(dim=0) for s in sums]).amax(dim=0).sqrt()


class DirectProbe(Probe):
    """a(x, ξ) by a function of x (P, 1, d) and ξ (1, M, d), at the points of an x-stencil.

    ∂_x a by itself has a spacing that resolves waves of some thousand periods.
    """

    finest = "fine"

    def __init__(self, function: Pairs, dim: int, generator: torch.Generator) -> None:
        super().__init__(dim, True, generator)
        self.function, self.fine = function, derivative_stencil(dim, 2, FINE_SPACING)

    def set_points(self, many: Tensor, few: Tensor) -> None:
        near, fine = (few[:, None] + each.offsets for each in (self.stencil, self.fine))
        self.x = {"many": many, "few": few, "near": near.flatten(0, 1), "fine": fine.flatten(0, 1)}

    def table(self, x: Tensor, xi: Tensor) -> Tensor:
        values = torch.as_tensor(self.function(x[:, None], xi[None])).to(torch.complex128)
        if values.dim() not in (0, 2, 4):
            raise ValueError(
                f"the symbol gave values of shape {tuple(values.shape)} for x of shape (P, 1, d) "
                "and ξ of shape (1, M, d); expected (P, M) or (O, I, P, M)"
            )
        channels = values.shape[:2] if values.dim() == 4 else (1, 1)
        return values.expand(*channels, len(x), len(xi))

    def values(self, xi: Tensor, where: Where = "few") -> Tensor:
        """a at the points; they take the place of terms."""
        return self.table(self.x[where], xi).flatten(0, 1).movedim(0, 1)

    def sizes(self, parts: Tensor, where: Where = "few") -> Tensor:
        """max |Σ_s w_βs a(x + s)|."""
        if where in ("few", "many"):
            return _squared_size(parts).amax(dim=(0, 1)).sqrt()[None]
        stencil = self.stencil if where == "near" else self.fine
        near = parts.reshape(2, -1, len(stencil.offsets), *parts.shape[2:])
        combined = torch.einsum("kpsqm,sb->kbpqm", near, stencil.weights)
        return _squared_size(combined).amax(dim=(1, 2)).sqrt()

    def is_resolved(self, derivatives: Tensor) -> Tensor:
        resolved = derivatives <= RESOLVED * self.derivative_noise[:, None] * derivatives[:1]
        resolved[0] = True
        return resolved

    @property
    def derivative_noise(self) -> Tensor:
        return self.fine.amplification

    def noise(self, sizes: Tensor) -> Tensor:
        """The formulas for ∂^β enlarge the errors of a."""
        return self.stencil.amplification[:, None] * sizes[:1]


@torch.no_grad()
def evaluate_at(
    symbol: AnySymbol, x: Tensor, xi: Tensor, *, t: Time = None, acting: bool = False
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
    return probe.table(x.double(), xi.double())


def make_probe(
    symbol: AnySymbol,
    *,
    dim: int | None = None,
    t: Time = None,
    acting: bool = False,
    frequency_scale: float | Sequence[float] | None = None,
    shells: int = 16,
    generator: torch.Generator | None = None,
) -> Probe:
    """The probe of a symbol, with the arguments of `certify`; networks become float64 copies."""
    own = symbol.dim if isinstance(symbol, Symbol) else None
    if dim is not None and own is not None and dim != own:
        raise ValueError(f"dim is {dim}, but this symbol has {own} axes: leave dim out")
    axes = own or dim
    if axes is None:
        raise ValueError("this symbol does not know its number of axes: give dim=1, 2 or 3")
    generator = generator or torch.Generator().manual_seed(0)
    acting = acting or isinstance(symbol, TableSymbol)
    probe: Probe
    if isinstance(symbol, Symbol):
        symbol = copy.deepcopy(symbol).cpu().double().requires_grad_(False)
        scale = symbol.scale if isinstance(symbol, SeparatedSymbol) else None
        if scale is not None and not scale.chosen and frequency_scale is not None:
            scale.settle(frequency_scale)
        c, b = _factors(symbol, axes, t)
        probe = SeparatedProbe(_what_acts(c) if acting else c, b, symbol, axes, generator)
    else:
        if t is not None:
            raise ValueError("a function a(x, ξ) has no time: leave t out, or bind it")
        function = symbol.function if isinstance(symbol, FullSymbol) else symbol
        probe = DirectProbe(_what_acts(function) if acting else function, axes, generator)
    if isinstance(symbol, SeparatedSymbol):
        probe.scale, probe.planes = symbol.scale.frequency.double(), _first_layer(symbol, t)
    if frequency_scale is not None:
        probe.scale = scale_per_axis(frequency_scale, axes)
    probe.support = max(symbol.modes) if isinstance(symbol, TableSymbol) else None
    probe.only_integers, probe.shells = acting, shells
    return probe


def _factors(symbol: Symbol, dim: int, t: Time) -> tuple[Factor, Factor | None]:
    """c and b."""
    origin = torch.zeros(1, dim, dtype=torch.float64)

    def space(x: Tensor) -> Tensor:
        b = symbol.evaluate_at(x, origin, t).space
        assert b is not None
        return b.expand(-1, symbol.out_channels, symbol.in_channels, -1).flatten(1, 2)

    return (
        lambda xi: symbol.evaluate_at(origin, xi, t).frequency.flatten(1, 2),
        space if symbol.depends_on_x else None,
    )


def _first_layer(symbol: SeparatedSymbol, t: Time) -> Tensor | None:
    """Rows (w, b) of the units w·ξ/s + b of networks that see ξ itself."""
    if not isinstance(symbol, (NetworkSymbol, LowRankSymbol)):
        return None
    layers = (symbol.real.linear_in, symbol.imaginary.linear_in)
    rows = torch.cat([torch.cat([layer.weight, layer.bias[:, None]], dim=1) for layer in layers])
    w, b = rows[:, : symbol.scale.dim], rows[:, -1:]
    parameters = as_parameters(t, symbol, rows)
    if parameters is not None:
        b = b + rows[:, symbol.scale.dim : -1] @ parameters[:, None]
    return torch.cat([w, b], dim=1)


def _what_acts(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The part of c(ξ) or a(x, ξ) that acts on real functions."""

    def acting(*arguments: Tensor) -> Tensor:
        *x, xi = arguments
        here, there = (torch.as_tensor(function(*x, sign * xi)) for sign in (1, -1))
        share = 0.5 * (1 + xi.flatten(0, -2)[:, -1].sign())
        return share * here + (1 - share) * there.conj()

    return acting


def _parts(values: Tensor) -> Tensor:
    return torch.stack([values.real, values.imag])


def _squared_size(parts: Tensor) -> Tensor:
    """|z|² of real and imaginary parts (2, ...)."""
    return parts[0].square().addcmul_(parts[1], parts[1])


def _unique(points: Tensor) -> tuple[Tensor, Tensor]:
    """Different rows of (M, d) and the index of each row among them, by sorting one key."""
    keys = (points.long() * _MIXING[: points.shape[1]]).sum(dim=1)
    index = torch.unique(keys, return_inverse=True)[1]
    first = torch.empty(int(index.max()) + 1, dtype=torch.long)
    first.scatter_(0, index, torch.arange(len(points)))
    if torch.equal(points[first][index], points):
        return points[first], index
    rows, index = torch.unique(points, dim=0, return_inverse=True)  # two rows with the same key
    return rows, index
