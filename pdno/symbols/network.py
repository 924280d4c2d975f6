"""Learned symbols: the paper's a1(x) a2(ξ), the same with one trunk, low rank, and FNO's table."""

import math
from collections.abc import Sequence
from typing import Unpack

import torch
from torch import Tensor, nn

from pdno.spectral.fourier import Modes
from pdno.spectral.grid import Grid, kept_per_axis
from pdno.symbols.base import Symbol, SymbolValues, Time, as_parameters
from pdno.symbols.mlp import ACTIVATIONS, SymbolMLP, join_parts
from pdno.symbols.separated import SeparatedSymbol, SymbolOptions, append_parameters

SCALES = (1.0, 4.0)  # the s of the features of a trunk, in units of the `frequency_scale`
GAIN = 3.0  # features lie on spheres, where torch's own start would be almost linear


class NetworkSymbol(SeparatedSymbol):
    """a_ij(x, ξ) = a1_ij(x) a2_ij(ξ), three networks for all channel pairs (eq. 9, 16, 19).

    a1 (real), Re a2 and Im a2 each map R^d to O·I numbers. With time they see t as well, and with
    PDE parameters μ: a(x, ξ; t, μ). The options are those of `SeparatedSymbol`.
    """

    def __init__(
        self, in_channels: int, out_channels: int, **options: Unpack[SymbolOptions]
    ) -> None:
        super().__init__(in_channels, out_channels, **options)
        network = self.network_options
        self.real = SymbolMLP(self.inputs, self.pairs, **network)
        self.imaginary = SymbolMLP(self.inputs, self.pairs, **network)
        self.space = SymbolMLP(self.inputs, self.pairs, **network) if self.depends_on_x else None


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
        rank: int = 2,
        shared: bool = False,
        **options: Unpack[SymbolOptions],
    ) -> None:
        super().__init__(in_channels, out_channels, **options)
        if not self.depends_on_x:
            raise ValueError("a low-rank symbol depends on x: for a(ξ) take symbol='network'")
        if rank < 1:
            raise ValueError(f"rank is {rank}; expected at least 1")
        self.rank, network = rank, self.network_options
        self.real = SymbolMLP(self.inputs, rank * self.pairs, **network)
        self.imaginary = SymbolMLP(self.inputs, rank * self.pairs, **network)
        self.space = SymbolMLP(self.inputs, rank * (1 if shared else out_channels), **network)
        with torch.no_grad():
            self.space.linear_out.bias.view(rank, -1)[0].add_(1.0)

    def space_factor(self, x: Tensor, t: Tensor | None) -> Tensor:
        b = self.space.fields(append_parameters(x, t))
        return b.reshape(self.rank, -1, 1, *b.shape[1:])


class TrunkSymbol(SeparatedSymbol):
    """a_ij(x, ξ) = a1_ij(x) a2_ij(ξ) with one network for all of a2 (eq. 9, 16).

        (Re a2, Im a2) = linear(trunk(φ(ξ))),    φ(ξ) = ( ξ/⟨ξ⟩_s, s/⟨ξ⟩_s  for s = 1, 4 )

    where ⟨ξ⟩_s = (s² + |ξ|²)^{1/2}. φ lies on half spheres, where R^d is a bounded set with the
    directions of infinity as its rim, so with a smooth activation a2 is in S^0_{1,0} in every
    dimension (docs/theory_symbol_classes.md). `space_hidden` is the width of a1; None for that of
    the trunk. The options are those of `SeparatedSymbol`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        space_hidden: int | None = None,
        **options: Unpack[SymbolOptions],
    ) -> None:
        super().__init__(in_channels, out_channels, **options)
        network, dim = self.network_options, self.scale.dim
        features = self.inputs - dim + len(SCALES) * (dim + 1)
        self.trunk = SymbolMLP(features, 2 * self.pairs, **network)
        with torch.no_grad():
            self.trunk.linear_in.weight.mul_(GAIN)
        if space_hidden is not None:
            network = {**network, "hidden": space_hidden}
        self.space = SymbolMLP(self.inputs, self.pairs, **network) if self.depends_on_x else None
        names = [network.get("activation", "gelu"), network.get("first_activation")]
        self.smooth = all(ACTIVATIONS[name].order is not None for name in names if name)

    def proven_order(self, t: float | None = None) -> float | None:
        return 0.0 if self.smooth and not self.depends_on_x else None

    def frequency_factor(self, xi: Tensor, t: Tensor | None) -> Tensor:
        """a2."""
        squares = xi.square().sum(dim=-1, keepdim=True)
        features = []
        for s in SCALES:
            root = (s * s + squares).sqrt()
            features += [xi / root, s / root]
        values = self.trunk.fields(append_parameters(torch.cat(features, dim=-1), t))
        return self._by_pairs(join_parts(*values.chunk(2)))


class TableSymbol(Symbol):
    """a_ij(ξ) = R_ij(ξ), one free complex number per pair and kept mode (eq. 3).

    Stored as real numbers (O, I, *K^, 2); rows hold ξ = 0..k-1 and then -k..-1, so the published
    corner blocks lie one after the other. Nothing makes R smooth in ξ.
    """

    hermitian = True  # it is defined by what acts; of every order, as it is finite

    def __init__(self, in_channels: int, out_channels: int, *, modes: Sequence[int]) -> None:
        super().__init__(in_channels, out_channels)
        self.modes, self.dim = tuple(modes), len(modes)
        size = (out_channels, in_channels, *(2 * k for k in self.modes[:-1]), self.modes[-1], 2)
        # the published start: scale · U[0, 1) for both parts, scale = 1/(I·O)
        self.table = nn.Parameter(torch.rand(size) / (in_channels * out_channels))

    def evaluate(self, grid: Grid, modes: Modes = None, t: Time = None) -> SymbolValues:
        """The table itself; it has no other modes than its own."""
        as_parameters(t, self, self.table)
        if kept_per_axis(grid.shape, modes) != self.modes:
            raise ValueError(f"modes {modes} of a table with modes {self.modes}: give the table's")
        return SymbolValues(torch.view_as_complex(self.table).unsqueeze(0))

    def evaluate_at(self, x: Tensor, xi: Tensor, t: Time = None) -> SymbolValues:
        """The table at the nearest integers, 0 outside of its modes; (1, O, I, M)."""
        as_parameters(t, self, self.table)
        table, integers = torch.view_as_complex(self.table.detach().double()), xi.round().long()
        lowest = integers.new_tensor([-k for k in self.modes[:-1]] + [0])
        inside = ((integers >= lowest) & (integers < integers.new_tensor(self.modes))).all(dim=-1)
        rows = (integers % integers.new_tensor(table.shape[2:])).unbind(dim=-1)
        values = table.movedim((0, 1), (-2, -1))[rows].movedim(0, -1)
        return SymbolValues(torch.where(inside, values, 0.0)[None])

    def proven_order(self, t: float | None = None) -> float:
        return -math.inf
