"""Symbols made of networks, a_ij(x, ξ) = Σ_r b_rij(x) c_rij(ξ), and FNO's table of numbers.

Networks see x and ξ scaled (see `symbols.scale`), and at every point the time, if the symbol
`takes_time`, and PDE parameters μ. Without `depends_on_x` the symbol is c(ξ).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pdno.interface.errors import check_at_least
from pdno.spectral.fourier import Modes, truncate_modes
from pdno.spectral.grid import Grid, kept_per_axis
from pdno.symbols.base import Symbol, SymbolValues, Time, as_parameters
from pdno.symbols.mlp import SymbolMLP, join_parts
from pdno.symbols.nodes import MOST, STEP, count_nodes, node_basis, node_points, probe_lines
from pdno.symbols.scale import InputScale

POINTS_PER_NODE = 8  # fewer points or modes per node are evaluated faster than interpolated
SCALES = (1.0, 4.0)  # the s of the features of a trunk, in units of the `frequency_scale`
GAIN = 3.0  # features lie on spheres, where torch's own start would be almost linear


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """The options of all symbols of networks; those of the networks are `SymbolMLP`'s."""

    scale: InputScale
    depends_on_x: bool = True
    takes_time: bool = False
    pde_parameters: int = 0
    layers: int = 2
    hidden: int = 32
    activation: str = "gelu"
    first_activation: str | None = None


class SeparatedSymbol(Symbol):
    """Σ_r b_rij(x) c_rij(ξ) with factors that are networks of the scaled x and ξ."""

    dim: int
    rank = 1
    periodic = False  # whether b is periodic by construction
    exact_structure = False  # whether c has one, as positivity, that must hold to the last bit
    real: SymbolMLP
    imaginary: SymbolMLP
    space: SymbolMLP | None

    def __init__(self, in_channels: int, out_channels: int, **options: Any) -> None:
        super().__init__(in_channels, out_channels)
        record = NetworkOptions(**options)
        self.scale, self.dim = record.scale, record.scale.dim
        self.depends_on_x, self.takes_time = record.depends_on_x, record.takes_time
        self.pde_parameters = record.pde_parameters
        self.pairs = in_channels * out_channels
        self.inputs = self.dim + self.takes_time + self.pde_parameters  # of a network of x or ξ
        self.network = record.layers, record.hidden, record.activation, record.first_activation

    def frequency_factor(self, xi: Tensor, t: Tensor | None) -> Tensor:
        """c at ξ / frequency_scale, (*K, d) -> (R, O, I, *K) complex; t (B, P) puts B after I."""
        return self.complex_matrix(self.real, self.imaginary, append_parameters(xi, t))

    def complex_matrix(self, real: SymbolMLP, imaginary: SymbolMLP, points: Tensor) -> Tensor:
        """Two networks as one of complex matrices, (*K, d) -> (R, O, I, *K)."""
        return self._by_pairs(join_parts(real.fields(points), imaginary.fields(points)))

    def frequency_on(self, grid: Grid, modes: Modes, xi: Tensor, t: Tensor | None) -> Tensor:
        """c at the kept modes of a grid, given as ξ / frequency_scale."""
        return self.frequency_factor(xi, t)

    def space_factor(self, x: Tensor, t: Tensor | None) -> Tensor:
        """b at x · coordinate_scale, (*N, d) -> (R, O or 1, I or 1, *N) real; B as for c."""
        assert self.space is not None
        # all pairs of a point lie together in memory, as the operator reads them
        return self._by_pairs(self.space(append_parameters(x, t)).movedim(-1, 0))

    def _by_pairs(self, values: Tensor) -> Tensor:
        return values.reshape(self.rank, self.out_channels, self.in_channels, *values.shape[1:])

    def evaluate(
        self,
        grid: Grid,
        modes: Modes = None,
        t: Time = None,
        *,
        most_nodes: int = 0,
        smooth: bool = False,
    ) -> SymbolValues:
        """c on the kept modes, b on the whole grid, or at up to `most_nodes` nodes of its rows.

        With `smooth` both may be interpolated along the line of one dimension, to float32.
        """
        like = next(self.parameters())
        p, xi = as_parameters(t, self, like), self.scale.xi(grid, modes, like)
        between = smooth and grid.dim == 1
        if between and not self.exact_structure:
            c = _interpolate(self.frequency_factor, xi, p)
        else:
            c = self.frequency_on(grid, modes, xi, p)
        if not self.depends_on_x:
            return _samples_first(SymbolValues(c), p)
        counts = self._count_nodes(grid, p, most_nodes) if most_nodes else None
        if counts is None:
            x = self.scale.x(grid, like)
            b = _interpolate(self.space_factor, x, p) if between else self.space_factor(x, p)
            return _samples_first(SymbolValues(c, b), p)
        axes, bases = grid.axes(), [like.new_empty(0, 0)] * grid.dim
        for axis, count in enumerate(counts):
            if count is not None:
                points = tuple(axes[axis].tolist())
                bases[axis] = node_basis(points, count, periodic=self.periodic).to(like)
                axes[axis] = node_points(count, periodic=self.periodic)
        nodes = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)
        b = self.space_factor(self.scale.points(nodes, like), p)
        rows = tuple(basis.T for basis in bases[:-1])
        return _samples_first(SymbolValues(c, b, bases[-1], rows), p)

    def _count_nodes(self, grid: Grid, t: Tensor | None, most: int) -> list[int | None] | None:
        """Nodes of each axis that give b, None for all points; None if the last needs too many."""
        lines = probe_lines(grid.dim, periodic=self.periodic)
        with torch.no_grad():
            x = self.scale.points(lines, next(self.parameters()))
            b = self.space_factor(x.flatten(0, 1), t)
        b = b.reshape(*b.shape[:-2], *lines.shape[:2], b.shape[-1])
        counts = [count_nodes(line, periodic=self.periodic) for line in b.unbind(-3)]
        if counts[-1] is None or counts[-1] > min(most, grid.shape[-1] - 1):
            return None
        axes = zip(counts, grid.shape, strict=True)
        return [count if count is not None and count < n else None for count, n in axes]

    def evaluate_at(self, x: Tensor, xi: Tensor, t: Time = None) -> SymbolValues:
        """c at any frequencies (M, d), also those that are no integers, and b at points (P, d)."""
        like = next(self.parameters())
        p = as_parameters(t, self, like)
        c = self.frequency_factor(self.scale.frequencies(xi, like), p)
        b = self.space_factor(self.scale.points(x, like), p) if self.depends_on_x else None
        return _samples_first(SymbolValues(c, b), p)


def append_parameters(points: Tensor, t: Tensor | None) -> Tensor:
    """Append t to every point: (*N, d) -> (*N, d + P), or (B, *N, d + P) for t of shape (B, P)."""
    if t is None:
        return points
    if t.dim() == 2:
        points = points.expand(len(t), *points.shape)
        t = t.reshape(len(t), *[1] * (points.dim() - 2), -1)
    return torch.cat([points, t.expand(*points.shape[:-1], t.shape[-1])], dim=-1)


def _interpolate(
    factor: Callable[[Tensor, Tensor | None], Tensor], points: Tensor, t: Tensor | None
) -> Tensor:
    """A factor at many points of a line, (K, 1) -> (..., K), from few nodes unless too rough."""
    if len(points) < POINTS_PER_NODE * STEP:
        return factor(points, t)

    def at_nodes(count: int) -> Tensor:
        nodes = node_points(count, periodic=False).to(points)
        values = factor(torch.lerp(points[0], points[-1], nodes[:, None]), t)
        return torch.view_as_real(values).movedim(-1, 0) if values.is_complex() else values[None]

    with torch.no_grad():
        count = count_nodes(at_nodes(MOST), periodic=False)
    if count is None or len(points) < POINTS_PER_NODE * count:
        return factor(points, t)
    axis = tuple(torch.linspace(0, 1, len(points), dtype=torch.float64).tolist())
    parts = [part @ node_basis(axis, count, periodic=False).to(points) for part in at_nodes(count)]
    return join_parts(*parts) if len(parts) == 2 else parts[0]


def _samples_first(values: SymbolValues, t: Tensor | None) -> SymbolValues:
    """(R, O, I, B, *K) -> (B, R, O, I, *K) where each sample has its own parameters."""
    if t is None or t.dim() < 2:
        return values
    c, b = values.frequency.movedim(3, 0), values.space
    return SymbolValues(c, None if b is None else b.movedim(3, 0), values.basis, values.rows)


class NetworkSymbol(SeparatedSymbol, options=NetworkOptions):
    """a_ij(x, ξ) = a1_ij(x) a2_ij(ξ), three networks for all channel pairs (eq. 9, 16, 19).

    a1 (real), Re a2 and Im a2 each map R^d to O·I numbers. With time they see t as well, and with
    PDE parameters μ: a(x, ξ; t, μ).
    """

    def __init__(self, in_channels: int, out_channels: int, **options: Any) -> None:
        super().__init__(in_channels, out_channels, **options)
        self.real = SymbolMLP(self.inputs, self.pairs, *self.network)
        self.imaginary = SymbolMLP(self.inputs, self.pairs, *self.network)
        self.space = None
        if self.depends_on_x:
            self.space = SymbolMLP(self.inputs, self.pairs, *self.network)


class LowRankSymbol(SeparatedSymbol, options=NetworkOptions):
    """a_ij(x, ξ) = Σ_{r<=R} b_jr(x) c_ijr(ξ), or with shared factors Σ_r b_r(x) c_ijr(ξ).

    R·O inverse transforms do instead of I·O: x-dependence at about the price of a(ξ). b_1 starts
    near the constant 1 and the others near 0, so that the operator starts as an a(ξ).
    """

    space: SymbolMLP

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        rank: int = 2,
        shared: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(in_channels, out_channels, **options)
        check_at_least("rank", rank, 1)
        if not self.depends_on_x:
            raise ValueError("a low-rank symbol depends on x: for a(ξ) take symbol='network'")
        self.rank = rank
        self.real = SymbolMLP(self.inputs, rank * self.pairs, *self.network)
        self.imaginary = SymbolMLP(self.inputs, rank * self.pairs, *self.network)
        self.space = SymbolMLP(self.inputs, rank * (1 if shared else out_channels), *self.network)
        with torch.no_grad():
            self.space.linear_out.bias.view(rank, -1)[0].add_(1.0)

    def space_factor(self, x: Tensor, t: Tensor | None) -> Tensor:
        b = self.space.fields(append_parameters(x, t))
        return b.reshape(self.rank, -1, 1, *b.shape[1:])


class TrunkSymbol(SeparatedSymbol, options=NetworkOptions):
    """a_ij(x, ξ) = a1_ij(x) a2_ij(ξ) with one network for all of a2 (eq. 9, 16).

        (Re a2, Im a2) = linear(trunk(φ(ξ))),    φ(ξ) = ( ξ/⟨ξ⟩_s, s/⟨ξ⟩_s  for s = 1, 4 )

    where ⟨ξ⟩_s = (s² + |ξ|²)^{1/2}. With a smooth activation a2 is in S^0_{1,0} in every dimension
    (docs/theory_symbol_classes.md). `space_hidden` is the width of a1; None for that of the trunk.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        space_hidden: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(in_channels, out_channels, **options)
        features = self.inputs - self.dim + len(SCALES) * (self.dim + 1)
        self.trunk = SymbolMLP(features, 2 * self.pairs, *self.network)
        with torch.no_grad():
            self.trunk.linear_in.weight.mul_(GAIN)
        self.space = None
        if self.depends_on_x:
            layers, hidden, name, first = self.network
            network = layers, hidden if space_hidden is None else space_hidden, name, first
            self.space = SymbolMLP(self.inputs, self.pairs, *network)

    def frequency_factor(self, xi: Tensor, t: Tensor | None) -> Tensor:
        """a2."""
        squares, features = xi.square().sum(dim=-1, keepdim=True), list[Tensor]()
        for s in SCALES:
            root = (s * s + squares).sqrt()
            features += [xi / root, s / root]
        values = self.trunk.fields(append_parameters(torch.cat(features, dim=-1), t))
        return self._by_pairs(join_parts(*values.chunk(2)))


class TableSymbol(Symbol):
    """a_ij(ξ) = R_ij(ξ), one free complex number per pair and kept mode (eq. 3).

    Stored as real numbers (O, I, *K^, 2); rows hold ξ = 0..k-1 and then -k..-1.
    """

    hermitian = True  # it is defined by what acts; of every order, as it is finite

    def __init__(self, in_channels: int, out_channels: int, *, modes: Sequence[int]) -> None:
        super().__init__(in_channels, out_channels)
        self.modes, self.dim = tuple(modes), len(modes)
        size = (out_channels, in_channels, *(2 * k for k in self.modes[:-1]), self.modes[-1], 2)
        # the published start: scale · U[0, 1) for both parts, scale = 1/(I·O)
        self.table = nn.Parameter(torch.rand(size) / (in_channels * out_channels))

    def evaluate(self, grid: Grid, modes: Modes = None, t: Time = None) -> SymbolValues:
        """The table itself, or of fewer modes its part; it has no others than its own."""
        as_parameters(t, self, self.table)
        kept = kept_per_axis(grid.shape, modes)
        if any(k is None or k > own for k, own in zip(kept, self.modes, strict=True)):
            raise ValueError(f"modes {modes} of a table with modes {self.modes}: give the table's")
        whole = [2 * k for k in self.modes]  # the grid whose modes are the rows of the table
        table = truncate_modes(torch.view_as_complex(self.table), whole, kept)
        return SymbolValues(table.unsqueeze(0))

    def evaluate_at(self, x: Tensor, xi: Tensor, t: Time = None) -> SymbolValues:
        """The table at the nearest integers, 0 outside of its modes; (1, O, I, M)."""
        as_parameters(t, self, self.table)
        table, integers = torch.view_as_complex(self.table.detach().double()), xi.round().long()
        lowest = integers.new_tensor([-k for k in self.modes[:-1]] + [0])
        inside = ((integers >= lowest) & (integers < integers.new_tensor(self.modes))).all(dim=-1)
        rows = (integers % integers.new_tensor(table.shape[2:])).unbind(dim=-1)
        values = table.movedim((0, 1), (-2, -1))[rows].movedim(0, -1)
        return SymbolValues(torch.where(inside, values, 0.0)[None])
