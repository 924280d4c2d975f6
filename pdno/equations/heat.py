"""The heat equation u_t = c Δu on the torus; its solution operator has symbol e^{-4π²|ξ|²ct}."""

from dataclasses import dataclass, replace

import torch

from pdno.equations.base import EvolutionEquation, Semilinear
from pdno.equations.symmetries import Symmetries, all_translations, box_symmetries
from pdno.interface.errors import check_at_least
from pdno.spectral.calculus import laplacian_symbol
from pdno.spectral.grid import Grid


@dataclass(frozen=True)
class Heat(EvolutionEquation):
    """u_t = c Δu (paper section 5.1), c the diffusivity, in any dimension."""

    diffusivity: float = 0.05

    def __post_init__(self) -> None:
        check_at_least("diffusivity", self.diffusivity, 0)

    def discretise(self, grid: Grid, device: torch.device | None = None) -> Semilinear:
        """L(ξ) = -4π²|ξ|²c and no N."""
        linear = laplacian_symbol(grid, device).mul_(self.diffusivity)
        return Semilinear(linear, modes=(None,) * grid.dim)

    def symmetries(self, grid: Grid) -> Symmetries:
        """Every turn, reflection and translation, and u -> -u."""
        turns = box_symmetries(grid)
        negative = tuple(replace(turn, sign=-1) for turn in turns)
        return Symmetries(turns + negative, all_translations(grid))
