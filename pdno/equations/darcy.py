"""Darcy flow: the pressure u of a fluid in a porous medium of permeability k."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from pdno.equations.symmetries import Symmetries, box_symmetries
from pdno.interface.errors import check_choice, check_shape
from pdno.spectral.grid import Grid


@dataclass(frozen=True)
class Darcy:
    """-∇·(k ∇u) = f on the unit box with u = 0 on its boundary, k(x) > 0.

    The minus sign, which the paper does not print but its data have, makes u > 0 for f = 1. Fields
    are sampled at cell centres (`Grid.cells`), so the outermost samples of u are not zero.

    Arguments:
        forcing: f, a number or a function of the points, (*N, d) -> (*N).
        scheme: "conservative" (`pdno.solvers.elliptic`: u > 0 and second order for smooth k) or
            "published" (as the published data, two-dimensional only).
    """

    forcing: float | Callable[[Tensor], Tensor] = 1.0
    scheme: Literal["conservative", "published"] = "conservative"

    def __post_init__(self) -> None:
        check_choice("Darcy scheme", self.scheme, ("conservative", "published"))
        if not callable(self.forcing) and not math.isfinite(self.forcing):
            raise ValueError(f"Darcy forcing is {self.forcing}; expected a finite number")

    def source(self, grid: Grid, *, device: torch.device | str | None = None) -> Tensor:
        """The forcing f at the points of a grid, shape (*N), float64."""
        if not callable(self.forcing):
            return torch.full(grid.shape, self.forcing, dtype=torch.float64, device=device)
        values = self.forcing(grid.points(device=device)).detach().to(torch.float64)
        check_shape("what the Darcy forcing returned", values, *grid.shape, cure="one per point")
        if not bool(values.isfinite().all()):
            raise ValueError("Darcy forcing returned NaN or infinity; expected finite values")
        return values

    def symmetries(self, grid: Grid) -> Symmetries:
        """All turns and reflections of the box, for a forcing that is the same everywhere."""
        return Symmetries(box_symmetries(grid)[: 1 if callable(self.forcing) else None])
