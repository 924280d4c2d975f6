"""Low-rank symbols: x-dependence at about the price of a(ξ)."""

__all__ = ["LowRankSymbol"]

import torch
from torch import Tensor

from pdno.fourier import Modes
from pdno.grid import Grid
from pdno.symbols.base import Symbol, SymbolValues
from pdno.symbols.mlp import SymbolMLP
from pdno.symbols.network import check_time, with_time
from pdno.symbols.scale import InputScale


class LowRankSymbol(Symbol):
    """a_ij(x, ξ) = Σ_{r<=R} b_jr(x) c_ijr(ξ), or with shared factors Σ_r b_r(x) c_ijr(ξ).

    The sum over i stays in frequency space, so R·O inverse transforms do instead of the I·O of
    a1_ij(x) a2_ij(ξ). For R > 1 a channel pair is more general than one product. b_1 starts near
    the constant 1 and the others near 0, so that the operator starts as an a(ξ).

    Arguments:
        in_channels: I.
        out_channels: O.
        scale: What the networks see of x and ξ.
        rank: R.
        shared: Whether all output channels share the x-factors.
        takes_time: Whether there is a t.
        network: Arguments of `SymbolMLP`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        scale: InputScale,
        rank: int = 2,
        shared: bool = False,
        takes_time: bool = False,
        **network: int | str | None,
    ) -> None:
        super().__init__(in_channels, out_channels)
        if rank < 1:
            raise ValueError(f"rank is {rank}; expected at least 1")
        self.scale, self.takes_time, self.rank, self.shared = scale, takes_time, rank, shared
        features = scale.dim + takes_time
        factors, pairs = rank * (1 if shared else out_channels), rank * out_channels * in_channels
        self.real = SymbolMLP(features, pairs, **network)  # type: ignore[arg-type]
        self.imaginary = SymbolMLP(features, pairs, **network)  # type: ignore[arg-type]
        self.space = SymbolMLP(features, factors, **network)  # type: ignore[arg-type]
        with torch.no_grad():
            self.space.linear_out.bias.view(rank, -1)[0].add_(1.0)

    def evaluate(
        self, grid: Grid, modes: Modes = None, t: Tensor | float | None = None
    ) -> SymbolValues:
        """c on the kept modes, b on the whole grid."""
        like = self.real.linear_in.weight
        times = check_time(t, self.takes_time, like)
        xi = with_time(self.scale.xi(grid, modes, like), times)
        c = torch.complex(self.real(xi), self.imaginary(xi))
        b = self.space(with_time(self.scale.x(grid, like), times))
        c = c.reshape(self.rank, self.out_channels, self.in_channels, *c.shape[1:])
        b = b.reshape(self.rank, -1, 1, *b.shape[1:])
        if times is not None and times.dim():
            b, c = b.movedim(3, 0), c.movedim(3, 0)
        return SymbolValues(c, b)
