"""Symbols a(x, ξ) that are given by a function: evaluated at the points of an x-stencil."""

__all__ = ["DirectProbe"]

from collections.abc import Callable

import torch
from torch import Tensor

from pdno.theory.probe import Probe, squared_size

PLACES = 4


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
            places=PLACES,
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
            return squared_size(parts).amax(dim=(0, 1)).sqrt()[None]
        near = parts.reshape(2, -1, len(self.stencil.offsets), *parts.shape[2:])
        combined = torch.einsum("kpsqm,sb->kbpqm", near, self.stencil.weights)
        return squared_size(combined).amax(dim=(1, 2)).sqrt()

    def noise(self, sizes: Tensor) -> Tensor:
        """The formulas for ∂^β enlarge the errors of a."""
        return self.stencil.weights.abs().sum(dim=0)[:, None] * sizes[:1]

    def along(self, x: Tensor) -> Tensor:
        """a at some frequencies."""
        places = torch.tensor([0.0, 1.0, -2.0, 7.0, -30.0], dtype=torch.float64)
        xi = places[:, None] * self.scale
        return self.table(x, xi.round()).movedim(-1, 2).flatten(0, 2)
