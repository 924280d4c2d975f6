"""Low-rank symbols: x-dependence at about the price of a(ξ)."""

__all__ = ["LowRankSymbol"]

from typing import Unpack

import torch
from torch import Tensor

from pdno.symbols.mlp import MLPOptions, SymbolMLP, evaluate_complex
from pdno.symbols.scale import InputScale
from pdno.symbols.separated import SeparatedSymbol, with_time


class LowRankSymbol(SeparatedSymbol):
    """a_ij(x, ξ) = Σ_{r<=R} b_jr(x) c_ijr(ξ), or with shared factors Σ_r b_r(x) c_ijr(ξ).

    The sum over i stays in frequency space, so R·O inverse transforms do instead of the I·O of
    a1_ij(x) a2_ij(ξ). For R > 1 a channel pair is more general than one product. b_1 starts near
    the constant 1 and the others near 0, so that the operator starts as an a(ξ).

    Arguments:
        in_channels, out_channels, scale, takes_time: As in `SeparatedSymbol`.
        rank: R.
        shared: Whether all output channels share the x-factors.
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
        **network: Unpack[MLPOptions],
    ) -> None:
        super().__init__(
            in_channels, out_channels, scale=scale, depends_on_x=True, takes_time=takes_time
        )
        if rank < 1:
            raise ValueError(f"rank is {rank}; expected at least 1")
        self.rank, self.shared = rank, shared
        features = scale.dim + takes_time
        factors, pairs = rank * (1 if shared else out_channels), rank * out_channels * in_channels
        self.real = SymbolMLP(features, pairs, **network)
        self.imaginary = SymbolMLP(features, pairs, **network)
        self.space = SymbolMLP(features, factors, **network)
        with torch.no_grad():
            self.space.linear_out.bias.view(rank, -1)[0].add_(1.0)

    def frequency_factor(self, xi: Tensor, t: Tensor | None) -> Tensor:
        """c at ξ."""
        c = evaluate_complex(self.real, self.imaginary, with_time(xi, t))
        return c.reshape(self.rank, self.out_channels, self.in_channels, *c.shape[1:])

    def space_factor(self, x: Tensor, t: Tensor | None) -> Tensor:
        """b at x."""
        b = self.space.fields(with_time(x, t))
        return b.reshape(self.rank, -1, 1, *b.shape[1:])
