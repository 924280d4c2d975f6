"""Symbols that are learned freely: the paper's a1(x) a2(ξ), sums of products, and FNO's table."""

__all__ = ["LowRankSymbol", "NetworkSymbol", "TableSymbol"]

import math
from collections.abc import Sequence
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from pdno.spectral.fourier import Modes
from pdno.spectral.grid import Grid, kept_per_axis
from pdno.symbols.base import Symbol, SymbolValues, Time
from pdno.symbols.mlp import MLPOptions, SymbolMLP, join_parts
from pdno.symbols.scale import InputScale
from pdno.symbols.separated import SeparatedSymbol, with_numbers


class NetworkSymbol(SeparatedSymbol):
    """a_ij(x, ξ) = a1_ij(x) a2_ij(ξ), three networks for all channel pairs (eq. 9, 16, 19).

    a1 (real), Re a2 and Im a2 each map R^d to O·I numbers. With time they see t as well, and with
    pde_parameters of the equation μ: a(x, ξ; t, μ).
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        scale: InputScale,
        depends_on_x: bool = True,
        takes_time: bool = False,
        pde_parameters: int = 0,
        **network: Unpack[MLPOptions],
    ) -> None:
        parts: Any = {"scale": scale, "depends_on_x": depends_on_x, "takes_time": takes_time}
        parts["pde_parameters"] = pde_parameters
        super().__init__(in_channels, out_channels, **parts)
        sizes = scale.dim + self.numbers, in_channels * out_channels
        self.real, self.imaginary = SymbolMLP(*sizes, **network), SymbolMLP(*sizes, **network)
        self.space = SymbolMLP(*sizes, **network) if depends_on_x else None

    def frequency_factor(self, xi: Tensor, t: Tensor | None) -> Tensor:
        points = with_numbers(xi, t)
        return self._by_pairs(join_parts(self.real.fields(points), self.imaginary.fields(points)))


class LowRankSymbol(SeparatedSymbol):
    """a_ij(x, ξ) = Σ_{r<=R} b_jr(x) c_ijr(ξ), or with shared factors Σ_r b_r(x) c_ijr(ξ).

    The sum over i stays in frequency space, so R·O inverse transforms do instead of I·O:
    x-dependence at about the price of a(ξ). b_1 starts near the constant 1 and the others near 0,
    so that the operator starts as an a(ξ).
    """

    space: SymbolMLP

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        scale: InputScale,
        rank: int = 2,
        shared: bool = False,
        takes_time: bool = False,
        pde_parameters: int = 0,
        **network: Unpack[MLPOptions],
    ) -> None:
        parts: Any = {"scale": scale, "depends_on_x": True, "takes_time": takes_time}
        parts["pde_parameters"] = pde_parameters
        super().__init__(in_channels, out_channels, **parts)
        if rank < 1:
            raise ValueError(f"rank is {rank}; expected at least 1")
        self.rank = rank
        sizes = scale.dim + self.numbers, rank * out_channels * in_channels
        self.real, self.imaginary = SymbolMLP(*sizes, **network), SymbolMLP(*sizes, **network)
        self.space = SymbolMLP(sizes[0], rank * (1 if shared else out_channels), **network)
        with torch.no_grad():
            self.space.linear_out.bias.view(rank, -1)[0].add_(1.0)

    def frequency_factor(self, xi: Tensor, t: Tensor | None) -> Tensor:
        points = with_numbers(xi, t)
        c = join_parts(self.real.fields(points), self.imaginary.fields(points))
        return c.reshape(self.rank, self.out_channels, self.in_channels, *c.shape[1:])

    def space_factor(self, x: Tensor, t: Tensor | None) -> Tensor:
        b = self.space.fields(with_numbers(x, t))
        return b.reshape(self.rank, -1, 1, *b.shape[1:])


class TableSymbol(Symbol):
    """a_ij(ξ) = R_ij(ξ), one free complex number per pair and kept mode (eq. 3).

    Stored as real numbers (O, I, *K^, 2); rows hold ξ = 0..k-1 and then -k..-1, so the published
    corner blocks lie one after the other. Nothing makes R smooth in ξ.
    """

    hermitian = True  # what acts of it is known only, and of every order: it is finite

    def __init__(self, in_channels: int, out_channels: int, *, modes: Sequence[int]) -> None:
        super().__init__(in_channels, out_channels)
        self.modes = tuple(modes)
        size = (out_channels, in_channels, *(2 * k for k in self.modes[:-1]), self.modes[-1], 2)
        # the published start: scale · U[0, 1) for both parts, scale = 1/(I·O)
        self.table = nn.Parameter(torch.rand(size) / (in_channels * out_channels))

    def evaluate(self, grid: Grid, modes: Modes = None, t: Time = None) -> SymbolValues:
        """The table itself; it has no other modes than its own."""
        if t is not None:
            raise ValueError("a table symbol does not depend on time: leave t out")
        if kept_per_axis(grid.shape, modes) != self.modes:
            raise ValueError(f"modes {modes} of a table with modes {self.modes}: give the table's")
        return SymbolValues(torch.view_as_complex(self.table).unsqueeze(0))

    def proven_order(self, t: float | None = None) -> float:
        return -math.inf
