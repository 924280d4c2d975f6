"""Symbols: the functions a(x, ξ) that make an operator K[f](x) = Σ_ξ a(x, ξ) f̂(ξ) e^{2πi ξ·x}.

All symbols that are not evaluated pair by pair (see `symbols.direct`) have the separated form

    a_ij(x, ξ) = Σ_r b_rij(x) c_rij(ξ)                                       (eq. 16 has one r)

for each pair of an output j and an input i (in this order, as in the published weights), which
needs few inverse transforms:

    b = 1                 a(ξ): the sum over i is taken in frequency space, O transforms;
    b_r(x) or b_rj(x)     x-factors shared or per output channel: R·O transforms;
    b_rij(x)              the paper's a1_ij(x) a2_ij(ξ), R = 1: O·I transforms.
"""

__all__ = ["Symbol", "SymbolValues", "Time", "interpolate_rows"]

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from pdno.interface.arguments import RecordsArguments
from pdno.spectral.fourier import Modes
from pdno.spectral.grid import Grid

Time = Tensor | float | None


@dataclass(frozen=True)
class SymbolValues:
    """Values of a separated symbol on a grid and its kept modes.

    Arguments:
        frequency: c, shape (R, O, I, *N^), complex. With times per sample (B, R, O, I, *N^).
        space: b, shape (R, O or 1, I or 1, *N), real, with the same leading B; None means 1.
        basis: ℓ, shape (M, N_d), if b is given at M nodes of each row, (R, O, I, *N[:-1], M), and
            stands for Σ_m b_m ℓ_m (see `symbols.nodes`).
        rows: The same for the axes before the last, a table (N_a, P_a) each, if b is given at P_a
            points of them, (R, O, I, *P, M); a table without numbers stands for all points.
    """

    frequency: Tensor
    space: Tensor | None = None
    basis: Tensor | None = None
    rows: tuple[Tensor, ...] = ()

    def on_rows(self) -> "SymbolValues":
        """The same with b on all rows of the grid."""
        if self.space is None or not self.rows:
            return self
        channels = self.space.dim() - 1 - len(self.rows)
        first, last = tuple(range(channels)), tuple(range(-channels, 0))
        full = interpolate_rows(self.space.movedim(first, last), self.rows).movedim(last, first)
        return SymbolValues(self.frequency, full, self.basis)

    def on_grid(self) -> "SymbolValues":
        """The same with b on the whole grid."""
        b = self.on_rows().space
        if self.basis is None or b is None:
            return self
        return SymbolValues(self.frequency, b @ self.basis)


def interpolate_rows(values: Tensor, rows: Sequence[Tensor], *, back: bool = False) -> Tensor:
    """Σ_p rows_a(x, p) v_p along the first axes, (*P, ...) -> (*N, ...), or its transpose."""
    for axis, table in enumerate(rows):
        if table.numel():
            matrix = table.T if back else table
            moved = matrix @ values.reshape(*values.shape[: axis + 1], -1)
            values = moved.reshape(*values.shape[:axis], len(matrix), *values.shape[axis + 1 :])
    return values


class Symbol(RecordsArguments, nn.Module):
    """A symbol a_ij(x, ξ), perhaps with time and with numbers μ of the equation."""

    pde_parameters = 0  # how many μ it sees
    hermitian = False  # whether a(x, -ξ) = conj a(x, ξ): what acts on real functions is a

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        if in_channels < 1 or out_channels < 1:
            raise ValueError(f"from {in_channels} to {out_channels} channels; expected at least 1")
        self.in_channels, self.out_channels = in_channels, out_channels

    @abstractmethod
    def evaluate(self, grid: Grid, modes: Modes = None, t: Time = None) -> SymbolValues:
        """The values on `grid` and its kept `modes`, at time t (one, or one per sample).

        A symbol that sees pde_parameters of the equation is given (B, P) numbers, time first if it takes
        it; a single row stands for all samples.
        """

    def forward(self, grid: Grid, modes: Modes = None, t: Time = None) -> SymbolValues:
        """The same as `evaluate`."""
        return self.evaluate(grid, modes, t)

    def proven_order(self, t: float | None = None) -> float | None:
        """An m for which a is in S^m_{1,0} by a theorem, -inf for every m; None without one.

        Proofs are in docs/theory_symbol_classes.md.
        """
        return None
