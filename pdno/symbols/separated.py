"""Separated symbols made of networks: a_ij(x, ξ) = Σ_r b_rij(x) c_rij(ξ), on a grid or anywhere.

Operators evaluate c on the kept modes of a grid, the theory at any frequency: symbol classes are
statements about |ξ| -> ∞. Networks see x and ξ scaled (see `symbols.scale`), and at every point
the same parameters: the time, if the symbol depends on it, and the PDE parameters μ.
"""

from collections.abc import Callable
from typing import Required, Unpack

import torch
from torch import Tensor

from pdno.spectral.fourier import Modes
from pdno.spectral.grid import Grid
from pdno.symbols.base import Symbol, SymbolValues, Time, as_parameters
from pdno.symbols.mlp import MLPOptions, SymbolMLP, join_parts
from pdno.symbols.nodes import MOST, STEP, count_nodes, node_basis, node_points, probe_lines
from pdno.symbols.scale import InputScale

POINTS_PER_NODE = 8  # fewer points or modes per node are evaluated faster than interpolated


class SymbolOptions(MLPOptions, total=False):
    """Options of symbols made of networks, with those of their networks."""

    scale: Required[InputScale]
    depends_on_x: bool
    takes_time: bool
    pde_parameters: int


class SeparatedSymbol(Symbol):
    """Σ_r b_rij(x) c_rij(ξ) with factors that are networks of the scaled x and ξ.

    Arguments:
        scale: The scales of x and ξ.
        depends_on_x: Whether there are x-factors; without them the symbol is c(ξ).
        takes_time: Whether the networks see the time.
        pde_parameters: How many PDE parameters μ they see.
        network: Options of `SymbolMLP`.
    """

    rank = 1
    periodic = False  # whether b is periodic by construction
    exact_structure = False  # whether c has one, as positivity, that must hold to the last bit
    real: SymbolMLP
    imaginary: SymbolMLP
    space: SymbolMLP | None

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
        super().__init__(in_channels, out_channels)
        if pde_parameters < 0:
            raise ValueError(f"pde_parameters is {pde_parameters}; expected 0 or more")
        self.dim, self.scale, self.depends_on_x = scale.dim, scale, depends_on_x
        self.takes_time, self.pde_parameters = takes_time, pde_parameters
        self.network_options = network
        self.pairs = in_channels * out_channels
        self.inputs = scale.dim + takes_time + pde_parameters  # of a network of x or ξ

    def frequency_factor(self, xi: Tensor, t: Tensor | None) -> Tensor:
        """c at ξ / frequency_scale, (*K, d) -> (R, O, I, *K) complex.

        Here that of two networks, `real` and `imaginary`, of ξ and the parameters t, (P,), or
        (B, P), which puts B after I; None without any.
        """
        points = append_parameters(xi, t)
        return self._by_pairs(join_parts(self.real.fields(points), self.imaginary.fields(points)))

    def frequency_on(self, grid: Grid, modes: Modes, xi: Tensor, t: Tensor | None) -> Tensor:
        """c at the kept modes of a grid, given as ξ / frequency_scale."""
        return self.frequency_factor(xi, t)

    def space_factor(self, x: Tensor, t: Tensor | None) -> Tensor:
        """b at x · coordinate_scale, (*N, d) -> (R, O or 1, I or 1, *N) real; B as for c.

        Here that of one network `space` of x and the parameters for all pairs.
        """
        assert self.space is not None
        # all pairs of a point lie together in memory, as the operator reads them
        return self._by_pairs(self.space(append_parameters(x, t)).movedim(-1, 0))

    def _by_pairs(self, values: Tensor) -> Tensor:
        """(R·O·I, *N) -> (R, O, I, *N)."""
        shape = self.rank, self.out_channels, self.in_channels
        return values.reshape(*shape, *values.shape[1:])

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
        p = as_parameters(t, self, like)
        xi = self.scale.xi(grid, modes, like)
        line = smooth and grid.dim == 1
        between = line and not self.exact_structure
        c = _interpolate(self.frequency_factor, xi, p) if between else None
        c = self.frequency_on(grid, modes, xi, p) if c is None else c
        if not self.depends_on_x:
            return _samples_first(SymbolValues(c), p)
        counts = self._count_nodes(grid, p, most_nodes) if most_nodes else None
        if counts is None:
            x = self.scale.x(grid, like)
            b = _interpolate(self.space_factor, x, p) if line else None
            return _samples_first(SymbolValues(c, self.space_factor(x, p) if b is None else b), p)
        axes, bases = grid.axes(), [like.new_empty(0, 0)] * grid.dim
        for axis, count in enumerate(counts):
            if count is not None:
                points = tuple(axes[axis].tolist())
                bases[axis] = node_basis(points, count, periodic=self.periodic).to(like)
                axes[axis] = node_points(count, periodic=self.periodic)
        nodes = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)
        b = self.space_factor(self.scale.points(nodes, like), p)
        return _samples_first(
            SymbolValues(c, b, bases[-1], tuple(basis.T for basis in bases[:-1])), p
        )

    def _count_nodes(self, grid: Grid, t: Tensor | None, most: int) -> list[int | None] | None:
        """Nodes of each axis that give b, None for all points; None if the last needs too many."""
        lines = probe_lines(grid.dim, periodic=self.periodic)
        with torch.no_grad():
            x = self.scale.points(lines, next(self.parameters()))
            b = self.space_factor(x.flatten(0, 1), t)
        b = b.reshape(*b.shape[:-2], *lines.shape[:2], b.shape[-1])
        counts = [count_nodes(line, periodic=self.periodic) for line in b.unbind(-3)]
        if counts[-1] is None or counts[-1] > most:
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
) -> Tensor | None:
    """A factor at many points of a line, (K, 1) -> (..., K), from few nodes; None if too rough."""
    if len(points) < POINTS_PER_NODE * STEP:
        return None

    def at_nodes(count: int) -> Tensor:
        nodes = node_points(count, periodic=False).to(points)
        return factor(torch.lerp(points[0], points[-1], nodes[:, None]), t)

    with torch.no_grad():
        probed = at_nodes(MOST)
    parts = torch.view_as_real(probed).movedim(-1, 0) if probed.is_complex() else probed
    count = count_nodes(parts, periodic=False)
    if count is None or len(points) < POINTS_PER_NODE * count:
        return None
    axis = tuple(torch.linspace(0, 1, len(points), dtype=torch.float64).tolist())
    basis, values = node_basis(axis, count, periodic=False).to(points), at_nodes(count)
    if not values.is_complex():
        return values @ basis
    return join_parts(values.real @ basis, values.imag @ basis)


def _samples_first(values: SymbolValues, t: Tensor | None) -> SymbolValues:
    """(R, O, I, B, *K) -> (B, R, O, I, *K) where each sample has its own parameters."""
    if t is None or t.dim() < 2:
        return values
    c, b = values.frequency.movedim(3, 0), values.space
    return SymbolValues(c, None if b is None else b.movedim(3, 0), values.basis, values.rows)
