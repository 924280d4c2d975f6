"""A symbol at any points: what is needed to ask how a(x, ξ) behaves for |ξ| -> ∞.

An operator asks its symbol on the modes of a grid. Symbol classes ask for the sizes

    sup_x |Δ_ξ^α ∂_x^β a_ij(x, ξ)|      at frequencies that no grid holds,

so here every kind of symbol becomes a `Probe`: values at any ξ, in double precision, and the sizes
of their x-derivatives. There are two kinds, for separated symbols and for all others.
"""

__all__ = ["Probe", "squared_size"]

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from pdno.theory.differences import Stencil, derivative_stencil

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
            return squared_size(parts).amax(dim=0).movedim(-1, 0)

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


def squared_size(parts: Tensor) -> Tensor:
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
