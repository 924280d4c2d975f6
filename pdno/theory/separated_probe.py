"""Separated symbols at any points: x-derivatives are those of the factors b_r.

    Δ_ξ^α ∂_x^β a(x, ξ) = Σ_r ∂_x^β b_r(x) Δ_ξ^α c_r(ξ)

so that c is evaluated at frequencies and b at points, and never a at pairs of both.
"""

__all__ = ["SeparatedProbe"]

from collections.abc import Callable

import torch
from torch import Tensor

from pdno.theory.probe import Probe, squared_size

PLACES, PLACES_OF_SUMS = 32, 4
"""How many x: a product is judged factor by factor, a sum of R terms point by point."""


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
            places=PLACES if terms == 1 else PLACES_OF_SUMS,
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
            return squared_size(parts.sum(dim=1)).amax(dim=0).sqrt()[None]
        wanted = self.derivatives if derivatives else self.derivatives[:1]
        if parts.shape[1] == 1:  # |b c| = |b| |c|
            squared = squared_size(parts[:, 0])
            factors = wanted[:, 0].square().amax(dim=-1)
            return torch.stack([(each[:, None] * squared).amax(dim=0).sqrt() for each in factors])
        return torch.stack([self._largest_sum(each, parts) for each in wanted])

    def _largest_sum(self, b: Tensor, c: Tensor) -> Tensor:
        sums = ((each[..., None] * c).sum(dim=1) for each in b.unbind(dim=-1))
        return torch.stack([squared_size(each).amax(dim=0) for each in sums]).amax(dim=0).sqrt()

    def noise(self, sizes: Tensor) -> Tensor:
        """∂^β b multiplies the values of c, errors included."""
        return sizes

    def along(self, x: Tensor) -> Tensor:
        """b."""
        assert self.space is not None
        return self.space(x).flatten(0, 1)
