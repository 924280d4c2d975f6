"""Separated symbols made of networks: a_ij(x, ξ) = Σ_r b_rij(x) c_rij(ξ), on a grid or anywhere.

The networks see x · coordinate_scale and ξ / frequency_scale (see `symbols.scale`), so one and
the same function c can be asked on the kept modes of a grid, which is what an operator does, and
at any other frequency, which is what the theory asks for: symbol classes are statements about
|ξ| -> ∞, where no grid reaches.
"""

__all__ = ["SeparatedSymbol", "check_time", "with_time"]

from abc import abstractmethod

import torch
from torch import Tensor

from pdno.fourier import Modes
from pdno.grid import Grid
from pdno.symbols.base import Symbol, SymbolValues
from pdno.symbols.mlp import join_parts
from pdno.symbols.nodes import MOST, STEP, count_nodes, node_basis, node_points, probe_lines
from pdno.symbols.scale import InputScale

MODES_PER_NODE = 8
"""From how many modes for each node on interpolation of c pays."""


class SeparatedSymbol(Symbol):
    """Σ_r b_rij(x) c_rij(ξ) with factors that are networks of the scaled x and ξ."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        scale: InputScale,
        depends_on_x: bool,
        takes_time: bool,
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.scale, self.depends_on_x, self.takes_time = scale, depends_on_x, takes_time

    periodic = False
    """Whether b is periodic by construction."""

    exact_structure = False
    """Whether c has a structure, such as positivity, that must hold at every ξ to the last bit."""

    @abstractmethod
    def frequency_factor(self, xi: Tensor, t: Tensor | None) -> Tensor:
        """c at ξ / frequency_scale.

        Shapes: (*K, d) -> (R, O, I, *K), complex; with one time per sample B stands after I.
        """

    @abstractmethod
    def space_factor(self, x: Tensor, t: Tensor | None) -> Tensor:
        """b at x · coordinate_scale, for symbols that depend on x.

        Shapes: (*N, d) -> (R, O or 1, I or 1, *N), real; with one time per sample B after I.
        """

    def evaluate(
        self,
        grid: Grid,
        modes: Modes = None,
        t: Tensor | float | None = None,
        *,
        most_nodes: int = 0,
        smooth_frequency: bool = False,
    ) -> SymbolValues:
        """c on the kept modes, b on the whole grid, or at nodes of its rows.

        Arguments:
            grid: The grid.
            modes: Kept modes.
            t: Time, for symbols that depend on it.
            most_nodes: Up to how many nodes of each row are wanted where they are enough.
            smooth_frequency: Whether c may be interpolated between the modes, to float32.
        """
        like = next(self.parameters())
        times = check_time(t, self.takes_time, like)
        xi = self.scale.xi(grid, modes, like)
        interpolated = smooth_frequency and not self.exact_structure and times is None
        c = self._interpolate_frequency(xi) if interpolated and grid.dim == 1 else None
        c = self.frequency_factor(xi, times) if c is None else c
        if not self.depends_on_x:
            return _times_first(c, None, times)
        counts = self._count_nodes(grid, times, most_nodes) if most_nodes else None
        if counts is None:
            return _times_first(c, self.space_factor(self.scale.x(grid, like), times), times)
        axes, bases = grid.axes(), list[Tensor]()
        for axis, count in enumerate(counts):
            if count is None:
                bases.append(like.new_empty(0, 0))
                continue
            points = tuple(axes[axis].tolist())
            bases.append(node_basis(points, count, periodic=self.periodic).to(like))
            axes[axis] = node_points(count, periodic=self.periodic)
        b = self.space_factor(self._scaled(axes, like), times)
        return _times_first(c, b, times, bases[-1], tuple(basis.T for basis in bases[:-1]))

    def _interpolate_frequency(self, xi: Tensor) -> Tensor | None:
        """c at many modes of a line from few nodes, (K, 1) -> (R, O, I, K); None if too rough."""
        if len(xi) < MODES_PER_NODE * STEP:
            return None

        def at_nodes(count: int) -> Tensor:
            nodes = node_points(count, periodic=False).to(xi)
            return self.frequency_factor(torch.lerp(xi[0], xi[-1], nodes[:, None]), None)

        with torch.no_grad():
            probed = torch.view_as_real(at_nodes(MOST)).movedim(-1, 0)
        count = count_nodes(probed, periodic=False)
        if count is None or len(xi) < MODES_PER_NODE * count:
            return None
        places = tuple(torch.linspace(0, 1, len(xi), dtype=torch.float64).tolist())
        basis, c = node_basis(places, count, periodic=False).to(xi), at_nodes(count)
        return join_parts(c.real @ basis, c.imag @ basis)

    def _count_nodes(self, grid: Grid, t: Tensor | None, most: int) -> list[int | None] | None:
        """How many nodes of each axis give b, None for those that need all points.

        None if the last axis needs more than `most`.
        """
        like = next(self.parameters())
        lines = probe_lines(grid.dim, periodic=self.periodic).to(like.device)
        scaled = (lines * self.scale.coordinate.to(like.device)).to(like.dtype)
        with torch.no_grad():
            b = self.space_factor(scaled.flatten(0, 1), t)
        b = b.reshape(*b.shape[:-2], *lines.shape[:2], b.shape[-1])
        counts = [
            count_nodes(b.select(-3, axis), periodic=self.periodic) for axis in range(grid.dim)
        ]
        last = counts[-1]
        if last is None or last > most:
            return None
        return [
            count if count is not None and count < points else None
            for count, points in zip(counts, grid.shape, strict=True)
        ]

    def _scaled(self, axes: list[Tensor], like: Tensor) -> Tensor:
        """The points of a lattice, scaled, (*N, d)."""
        x = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).to(like.device)
        return (x * self.scale.coordinate.to(like.device)).to(like.dtype)

    def evaluate_at(self, x: Tensor, xi: Tensor, t: Tensor | float | None = None) -> SymbolValues:
        """c at any frequencies (M, d), also those that are no integers, and b at points (P, d)."""
        if not self.scale.chosen:
            raise ValueError(
                "this symbol has not chosen its frequency_scale yet: build it with one, or use "
                "it on a grid first"
            )
        like = next(self.parameters())
        times = check_time(t, self.takes_time, like)
        seen = (xi.to(like.device) / self.scale.frequency.to(like.device)).to(like.dtype)
        points = (x.to(like.device) * self.scale.coordinate.to(like.device)).to(like.dtype)
        b = self.space_factor(points, times) if self.depends_on_x else None
        return _times_first(self.frequency_factor(seen, times), b, times)


def check_time(t: Tensor | float | None, takes_time: bool, like: Tensor) -> Tensor | None:
    """The time as a tensor () or (B,) where a symbol takes one."""
    if takes_time != (t is not None):
        raise ValueError(
            "this symbol depends on time: give t, one number or one per sample"
            if takes_time
            else "this symbol has no time: leave t out, or build it with takes_time=True"
        )
    if t is None:
        return None
    times = torch.as_tensor(t, dtype=like.dtype, device=like.device)
    if times.dim() > 1:
        raise ValueError(f"t has shape {tuple(times.shape)}; expected one number or (B,)")
    return times


def with_time(points: Tensor, t: Tensor | None) -> Tensor:
    """Append t to every point: (*N, d) -> (*N, d + 1), or (B, *N, d + 1) for t of shape (B,)."""
    if t is None:
        return points
    if t.dim():
        points = points.expand(len(t), *points.shape)
        t = t.reshape(-1, *[1] * (points.dim() - 1))
    return torch.cat([points, t.expand(*points.shape[:-1], 1)], dim=-1)


def _times_first(
    c: Tensor,
    b: Tensor | None,
    t: Tensor | None,
    basis: Tensor | None = None,
    rows: tuple[Tensor, ...] = (),
) -> SymbolValues:
    """(R, O, I, B, *K) -> (B, R, O, I, *K) where there is one time per sample."""
    if t is not None and t.dim():
        c, b = c.movedim(3, 0), None if b is None else b.movedim(3, 0)
    return SymbolValues(c, b, basis, rows)
