"""A symbol at any points: what is needed to ask how a(x, ξ) behaves for |ξ| -> ∞.

An operator asks its symbol on the modes of a grid. Symbol classes ask for the sizes

    sup_x |Δ_ξ^α ∂_x^β a_ij(x, ξ)|      at frequencies that no grid holds,

so here every kind of symbol becomes a `Probe`: values at any ξ, in double precision, and the sizes
of their x-derivatives. A separated symbol Σ_r b_r(x) c_r(ξ) has its x-derivatives in the b_r; one
that is given by a function is evaluated at the points of an x-stencil.
"""

__all__ = ["AnySymbol", "DirectProbe", "Probe", "SeparatedProbe"]

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from pdno.symbols.base import Symbol
from pdno.symbols.full import FullSymbol
from pdno.theory.differences import Stencil, derivative_stencil

AnySymbol = Symbol | FullSymbol | Callable[[Tensor, Tensor], Tensor]

PLACES = {"product": 32, "sum": 4, "direct": 4}
"""How many x: a product is judged factor by factor, a sum of R terms point by point."""

_MIXING = torch.tensor([6364136223846793005, 3202034522624059733, 1442695040888963407])
BUDGET = 2**20
"""Numbers that are worked on at a time."""


class Probe(ABC):
    """A symbol that can be asked anywhere.

    Arguments:
        dim: d.
        scale: Unit of ξ per axis, (d,): radii are measured in it.
        places: Number of points x where x-derivatives are taken.
        generator: Draws the points x.
        depends_on_x: Whether there is any x.
        only_integers: Whether a is defined on the lattice alone.
        planes: Hyperplanes w·ξ/scale + b = 0 where units of a first layer bend, rows (w, b).
        support: a = 0 where some |ξ_j| is larger; None for most symbols.
    """

    def __init__(
        self,
        dim: int,
        *,
        places: int,
        generator: torch.Generator,
        scale: Tensor | None = None,
        depends_on_x: bool = True,
        only_integers: bool = False,
        planes: Tensor | None = None,
        support: int | None = None,
    ) -> None:
        self.dim, self.depends_on_x, self.only_integers = dim, depends_on_x, only_integers
        self.scale = torch.ones(dim, dtype=torch.float64) if scale is None else scale.double()
        self.planes, self.support = planes, support
        self.stencil: Stencil = derivative_stencil(dim, 2 if depends_on_x else 0)
        margin = float(self.stencil.offsets.abs().max())
        unit = torch.rand(places, 1, dim, generator=generator, dtype=torch.float64)
        self.x = ((margin + (1 - 2 * margin) * unit) + self.stencil.offsets).flatten(0, 1)

    @abstractmethod
    def values(self, xi: Tensor, *, derivatives: bool = True) -> Tensor:
        """What a is made of at ξ (M, d): complex, (terms, pairs, M).

        Without `derivatives` only what `sizes` needs without them.
        """

    @abstractmethod
    def sizes(self, parts: Tensor, *, derivatives: bool = True) -> Tensor:
        """max over x and pairs of |∂_x^β a| for (differences of) values, (indices β, M).

        Arguments:
            parts: Real and imaginary parts of such values, (2, terms, pairs, M).
            derivatives: Whether there are other β than 0.
        """

    @abstractmethod
    def noise(self, sizes: Tensor) -> Tensor:
        """Sizes of the numbers whose rounding errors are in ∂_x^β a, for sizes (indices β, J)."""

    @abstractmethod
    def along(self, x: Tensor) -> Tensor:
        """The functions of x that the symbol is made of, at points (P, d): (functions, P)."""

    def differences(self, xi: Tensor, stencil: Stencil, *, derivatives: bool = True) -> Tensor:
        """max over x and pairs of |Δ^α ∂_x^β a| at ξ (M, d), (indices α, indices β, M)."""

        def sizes(points: Tensor) -> Tensor:
            parts = self._near(points, stencil, derivatives)
            found = self.sizes(parts.flatten(-2), derivatives=derivatives)
            return found.reshape(len(found), len(points), -1).permute(2, 0, 1)

        chunks = self._chunks(xi[:, None] + stencil.offsets, derivatives)
        return torch.cat([sizes(points) for points in chunks], dim=-1)

    def changes(self, xi: Tensor, other: Tensor, *, derivatives: bool = True) -> Tensor:
        """max over x and pairs of |∂_x^β a(x, ξ') - ∂_x^β a(x, ξ)|, (indices β, M)."""

        def sizes(points: Tensor) -> Tensor:
            here, there = (self.values(each, derivatives=derivatives) for each in points.unbind(1))
            change = there - here
            return self.sizes(torch.stack([change.real, change.imag]), derivatives=derivatives)

        chunks = self._chunks(torch.stack([xi, other], dim=1), derivatives)
        return torch.cat([sizes(points) for points in chunks], dim=-1)

    def strengths(self, xi: Tensor, stencil: Stencil, pairs: Tensor | None = None) -> Tensor:
        """|Δ^α| of what a is made of, pair by pair, (indices α, pairs, M): quick, for a search."""

        def squares(points: Tensor) -> Tensor:
            parts = self._near(points, stencil, False, pairs)
            return _squared(parts).amax(dim=0).movedim(-1, 0)

        chunks = self._chunks(xi[:, None] + stencil.offsets, False)
        return torch.cat([squares(points) for points in chunks], dim=-1).sqrt_()

    def _chunks(self, points: Tensor, derivatives: bool) -> tuple[Tensor, ...]:
        one = self.values(points[0], derivatives=derivatives)
        return torch.split(points, max(1, BUDGET // one.numel()))

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
    """Σ_r b_r(x) c_r(ξ), or c(ξ) alone.

    Arguments:
        frequency: c, from ξ (M, d) to (R, pairs, M).
        space: b, from x (P, d) to (R, pairs or 1, P); None means 1.
        terms: R.
        options: Of `Probe`.
    """

    def __init__(
        self,
        frequency: Callable[[Tensor], Tensor],
        space: Callable[[Tensor], Tensor] | None,
        dim: int,
        *,
        generator: torch.Generator,
        terms: int = 1,
        scale: Tensor | None = None,
        only_integers: bool = False,
        planes: Tensor | None = None,
        support: int | None = None,
    ) -> None:
        super().__init__(
            dim,
            places=PLACES["product" if terms == 1 else "sum"],
            generator=generator,
            scale=scale,
            depends_on_x=space is not None,
            only_integers=only_integers,
            planes=planes,
            support=support,
        )
        self.frequency, self.space = frequency, space
        if space is not None:
            b = space(self.x)
            near = b.reshape(*b.shape[:-1], -1, len(self.stencil.offsets))
            self.derivatives = (near @ self.stencil.weights).movedim(-1, 0)  # (β, R, pairs, P)

    def values(self, xi: Tensor, *, derivatives: bool = True) -> Tensor:
        """c."""
        return self.frequency(xi)

    def sizes(self, parts: Tensor, *, derivatives: bool = True) -> Tensor:
        """max |Σ_r ∂^β b_r c_r|."""
        if self.space is None:
            return _squared(parts.sum(dim=1)).amax(dim=0).sqrt()[None]
        wanted = self.derivatives if derivatives else self.derivatives[:1]
        if parts.shape[1] == 1:  # |b c| = |b| |c|
            squared = _squared(parts[:, 0])
            factors = wanted[:, 0].square().amax(dim=-1)
            return torch.stack([(each[:, None] * squared).amax(dim=0).sqrt() for each in factors])
        return torch.stack([self._largest_sum(each, parts) for each in wanted])

    def _largest_sum(self, b: Tensor, c: Tensor) -> Tensor:
        sums = ((each[..., None] * c).sum(dim=1) for each in b.unbind(dim=-1))
        return torch.stack([_squared(each).amax(dim=0) for each in sums]).amax(dim=0).sqrt()

    def noise(self, sizes: Tensor) -> Tensor:
        """∂^β b multiplies the values of c, errors included."""
        return sizes

    def along(self, x: Tensor) -> Tensor:
        """b."""
        assert self.space is not None
        return self.space(x).flatten(0, 1)


class DirectProbe(Probe):
    """a(x, ξ) given by a function.

    Arguments:
        function: From x (P, 1, d) and ξ (1, M, d) to (O, I, P, M) or (P, M).
        options: Of `Probe`.
    """

    def __init__(
        self,
        function: Callable[[Tensor, Tensor], Tensor],
        dim: int,
        *,
        generator: torch.Generator,
        scale: Tensor | None = None,
        only_integers: bool = False,
    ) -> None:
        super().__init__(
            dim,
            places=PLACES["direct"],
            generator=generator,
            scale=scale,
            only_integers=only_integers,
        )
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
            return _squared(parts).amax(dim=(0, 1)).sqrt()[None]
        near = parts.reshape(2, -1, len(self.stencil.offsets), *parts.shape[2:])
        combined = torch.einsum("kpsqm,sb->kbpqm", near, self.stencil.weights)
        return _squared(combined).amax(dim=(1, 2)).sqrt()

    def noise(self, sizes: Tensor) -> Tensor:
        """The formulas for ∂^β enlarge the errors of a."""
        return self.stencil.weights.abs().sum(dim=0)[:, None] * sizes[:1]

    def along(self, x: Tensor) -> Tensor:
        """a at some frequencies."""
        places = torch.tensor([0.0, 1.0, -2.0, 7.0, -30.0], dtype=torch.float64)
        xi = places[:, None] * self.scale
        return self.table(x, xi.round()).movedim(-1, 2).flatten(0, 2)


def _squared(parts: Tensor) -> Tensor:
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
