"""The pseudo-differential integral operator, the K of a PDNO.

    K_a[f]_j(x) = Σ_i a1_ij(x) F⁻¹[ a2_ij(ξ) F[f_i](ξ) ](x)                             (eq. 1.6)

and the same for every other symbol of the separated form (see `symbols.base`). One class serves
one, two and three dimensions and every symbol; the Fourier integral operator of FNO is this
operator with a table for a symbol.
"""

__all__ = ["FourierIntegralOperator", "PseudoDifferentialOperator", "apply_symbol"]

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pdno.fourier import Method, Modes
from pdno.grid import Grid
from pdno.operators.kept_values import KeptValues
from pdno.operators.kernel import apply_values
from pdno.symbols.base import Symbol, SymbolValues
from pdno.symbols.full import FullSymbol, apply_directly
from pdno.symbols.table import TableSymbol


class PseudoDifferentialOperator(nn.Module):
    """K_a for a symbol a (eq. 1.6): transform, multiply, invert, mix.

    Shapes: (B, I, *N) -> (B, O, *N).

    Arguments:
        symbol: a_ij(x, ξ).
        modes: Kept modes k_max, one or one per axis; None keeps all modes of the grid.
        method: How to transform: "fft", "matrix", or "auto" for the cheaper one.
    """

    def __init__(
        self,
        symbol: Symbol,
        modes: Sequence[int] | int | None = None,
        *,
        method: Method = "auto",
    ) -> None:
        super().__init__()
        self.method = method
        self.symbol = symbol
        self.kept = KeptValues()
        self.modes: Modes = modes if modes is None or isinstance(modes, int) else tuple(modes)

    def forward(
        self, f: Tensor, grid: Grid | None = None, t: Tensor | float | None = None
    ) -> Tensor:
        """K_a[f] on the grid of f, which is periodic unless given."""
        where = grid or Grid(tuple(f.shape[2:]))
        where.check(f, "f")
        if f.dim() != where.dim + 2 or f.shape[1] != self.symbol.in_channels:
            raise ValueError(
                f"f has shape {tuple(f.shape)}; this operator takes (B, "
                f"{self.symbol.in_channels}, *N): {self.symbol.in_channels} channels first"
            )
        # half precision has too few digits for a Fourier transform
        with torch.autocast(f.device.type, enabled=False):
            full = f if f.dtype in (torch.float32, torch.float64) else f.float()
            return apply_values(self.values(where, t), full, where, self.modes, method=self.method)

    def values(self, grid: Grid, t: Tensor | float | None = None) -> SymbolValues:
        """The values of the symbol on a grid, shared or frozen ones where they hold."""
        kept = self.kept.get(self.symbol, grid, self.modes) if t is None else None
        return kept or self.symbol.evaluate(grid, self.modes, t)


class FourierIntegralOperator(PseudoDifferentialOperator):
    """K_R[f] = F⁻¹[R(ξ) F[f](ξ)] with a free table R on the kept modes (eq. 1.2).

    Arguments:
        in_channels: I.
        out_channels: O.
        modes: Kept modes, one per axis.
    """

    def __init__(self, in_channels: int, out_channels: int, *, modes: Sequence[int]) -> None:
        super().__init__(TableSymbol(in_channels, out_channels, modes=modes), modes)


def apply_symbol(
    symbol: Symbol | FullSymbol,
    f: Tensor,
    grid: Grid | None = None,
    *,
    t: Tensor | float | None = None,
    modes: Modes = None,
) -> Tensor:
    """K_a[f] for any symbol; a symbol of one channel acts on each channel of f.

    Shapes: (B, I, *N) -> (B, O, *N).

    Arguments:
        symbol: a(x, ξ).
        f: Real fields.
        grid: Their grid; periodic if not given.
        t: Time, for symbols that depend on it.
        modes: Kept modes; None keeps all.

    Example:
        >>> from pdno.symbols import Derivative
        >>> x = Grid((32,)).points().T[None]
        >>> u = torch.sin(2 * torch.pi * x)
        >>> du = apply_symbol(Derivative((1,)), u)
        >>> torch.allclose(du, 2 * torch.pi * torch.cos(2 * torch.pi * x))
        True
    """
    where = grid or Grid(tuple(f.shape[2:]))
    where.check(f, "f")
    if isinstance(symbol, FullSymbol):
        return apply_directly(symbol.values(where, modes), f, where, modes)
    values = _like(symbol.evaluate(where, modes, t), f)
    if symbol.in_channels == symbol.out_channels == 1:
        single = apply_values(values, f.flatten(0, 1).unsqueeze(1), where, modes)
        return single.reshape(f.shape)
    return apply_values(values, f, where, modes)


def _like(values: SymbolValues, f: Tensor) -> SymbolValues:
    """The values on the device and in the precision of f."""
    frequency = values.frequency.to(f.device, f.dtype.to_complex())
    space = None if values.space is None else values.space.to(f)
    return SymbolValues(frequency, space)
