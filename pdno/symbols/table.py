"""The free table R(ξ) of the Fourier neural operator, seen as a symbol."""

__all__ = ["TableSymbol"]

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pdno.fourier import Modes
from pdno.grid import Grid, kept_per_axis
from pdno.symbols.base import Symbol, SymbolValues


class TableSymbol(Symbol):
    """a_ij(ξ) = R_ij(ξ), one free complex number per pair and kept mode (eq. 3).

    Stored as real numbers (O, I, *K^, 2); rows hold ξ = 0..k-1 and then -k..-1, so the published
    corner blocks lie one after the other. Nothing makes R smooth in ξ.

    Arguments:
        in_channels: I.
        out_channels: O.
        modes: Kept modes, one per axis.
    """

    def __init__(self, in_channels: int, out_channels: int, *, modes: Sequence[int]) -> None:
        super().__init__(in_channels, out_channels)
        self.modes = tuple(modes)
        kept = (*(2 * k for k in self.modes[:-1]), self.modes[-1])
        # the published start: scale · U[0, 1) for both parts, scale = 1/(I·O)
        start = torch.rand(out_channels, in_channels, *kept, 2) / (in_channels * out_channels)
        self.table = nn.Parameter(start)

    def evaluate(
        self, grid: Grid, modes: Modes = None, t: Tensor | float | None = None
    ) -> SymbolValues:
        """The table itself; it has no other modes than its own."""
        if t is not None:
            raise ValueError("a table symbol does not depend on time: leave t out")
        if kept_per_axis(grid.shape, modes) != self.modes:
            raise ValueError(f"modes {modes} of a table with modes {self.modes}: give the table's")
        return SymbolValues(torch.view_as_complex(self.table).unsqueeze(0))
