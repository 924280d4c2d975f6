"""Separated symbols made of networks: a_ij(x, ξ) = Σ_r b_rij(x) c_rij(ξ), on a grid or anywhere.

The networks see x · coordinate_scale and ξ / frequency_scale (see `symbols.scale`). Operators ask
for c on the kept modes of a grid, the theory at any other frequency: symbol classes are statements
about |ξ| -> ∞, where no grid reaches.

What a symbol sees beside x and ξ are the same numbers at every point: the time, if it takes it,
and then the pde_parameters μ of the equation, such as a viscosity. Samples may have their own.
"""

__all__ = ["SeparatedSymbol", "check_numbers", "check_time", "with_numbers"]

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pdno.spectral.fourier import Modes
from pdno.spectral.grid import Grid
from pdno.symbols.base import Symbol, SymbolValues, Time
from pdno.symbols.mlp import SymbolMLP, join_parts
from pdno.symbols.nodes import MOST, STEP, count_nodes, node_basis, node_points, probe_lines
from pdno.symbols.scale import InputScale

POINTS_PER_NODE = 8  # from how many points or modes for each node on interpolation pays


class SeparatedSymbol(Symbol):
    """Σ_r b_rij(x) c_rij(ξ) with factors that are networks of the scaled x and ξ."""

    periodic = False  # whether b is periodic by construction
    exact_structure = False  # whether c has one, as positivity, that must hold to the last bit

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        scale: InputScale,
        depends_on_x: bool,
        takes_time: bool,
        pde_parameters: int = 0,
    ) -> None:
        super().__init__(in_channels, out_channels)
        if pde_parameters < 0:
            raise ValueError(
                f"pde_parameters is {pde_parameters}; expected how many numbers the symbol sees"
            )
        self.scale, self.depends_on_x, self.takes_time = scale, depends_on_x, takes_time
        self.pde_parameters = pde_parameters

    space: SymbolMLP | None

    @property
    def numbers(self) -> int:
        """How many numbers it sees beside x and ξ: the time, if it takes it, and the pde_parameters."""
        return self.takes_time + self.pde_parameters

    @abstractmethod
    def frequency_factor(self, xi: Tensor, t: Tensor | None) -> Tensor:
        """c at ξ / frequency_scale, (*K, d) -> (R, O, I, *K) complex.

        t are the numbers that it sees, (P,), or (B, P), which puts B after I; None without any.
        """

    def frequency_on(self, grid: Grid, modes: Modes, xi: Tensor, t: Tensor | None) -> Tensor:
        """c at the kept modes of a grid, given as ξ / frequency_scale."""
        return self.frequency_factor(xi, t)

    def space_factor(self, x: Tensor, t: Tensor | None) -> Tensor:
        """b at x · coordinate_scale, (*N, d) -> (R, O or 1, I or 1, *N) real; B as for c.

        Here that of one network `space` of x (and the numbers t) for all pairs.
        """
        assert self.space is not None
        # all pairs of a point lie together in memory, as the operator reads them
        return self._by_pairs(self.space(with_numbers(x, t)).movedim(-1, 0))

    def _by_pairs(self, values: Tensor) -> Tensor:
        """(O·I, *N) -> (1, O, I, *N)."""
        return values.reshape(1, self.out_channels, self.in_channels, *values.shape[1:])

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
        times = check_numbers(t, self.takes_time, self.pde_parameters, like)
        xi = self.scale.xi(grid, modes, like)
        line = smooth and grid.dim == 1
        between = line and not self.exact_structure
        c = _interpolate(self.frequency_factor, xi, times) if between else None
        c = self.frequency_on(grid, modes, xi, times) if c is None else c
        if not self.depends_on_x:
            return _times_first(c, None, times)
        counts = self._count_nodes(grid, times, most_nodes) if most_nodes else None
        if counts is None:
            x = self.scale.x(grid, like)
            b = _interpolate(self.space_factor, x, times) if line else None
            return _times_first(c, self.space_factor(x, times) if b is None else b, times)
        axes, bases = grid.axes(), [like.new_empty(0, 0)] * grid.dim
        for axis, count in enumerate(counts):
            if count is not None:
                places = tuple(axes[axis].tolist())
                bases[axis] = node_basis(places, count, periodic=self.periodic).to(like)
                axes[axis] = node_points(count, periodic=self.periodic)
        points = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)
        b = self.space_factor(self._scaled(points, like), times)
        return _times_first(c, b, times, bases[-1], tuple(basis.T for basis in bases[:-1]))

    def _count_nodes(self, grid: Grid, t: Tensor | None, most: int) -> list[int | None] | None:
        """Nodes of each axis that give b, None for all points; None if the last needs too many."""
        like = next(self.parameters())
        lines = probe_lines(grid.dim, periodic=self.periodic)
        with torch.no_grad():
            b = self.space_factor(self._scaled(lines, like).flatten(0, 1), t)
        b = b.reshape(*b.shape[:-2], *lines.shape[:2], b.shape[-1])
        counts = [count_nodes(line, periodic=self.periodic) for line in b.unbind(-3)]
        if counts[-1] is None or counts[-1] > most:
            return None
        axes = zip(counts, grid.shape, strict=True)
        return [count if count is not None and count < n else None for count, n in axes]

    def _scaled(self, x: Tensor, like: Tensor) -> Tensor:
        """Points (..., d) as the networks see them."""
        return (x.to(like.device) * self.scale.coordinate.to(like.device)).to(like.dtype)

    def evaluate_at(self, x: Tensor, xi: Tensor, t: Time = None) -> SymbolValues:
        """c at any frequencies (M, d), also those that are no integers, and b at points (P, d)."""
        if not self.scale.chosen:
            cure = "build it with one, or use it on a grid first"
            raise ValueError(f"this symbol has not chosen its frequency_scale yet: {cure}")
        like = next(self.parameters())
        times = check_numbers(t, self.takes_time, self.pde_parameters, like)
        seen = (xi.to(like.device) / self.scale.frequency.to(like.device)).to(like.dtype)
        b = self.space_factor(self._scaled(x, like), times) if self.depends_on_x else None
        return _times_first(self.frequency_factor(seen, times), b, times)


def check_time(t: Time, takes_time: bool, like: Tensor) -> Tensor | None:
    """The time as a tensor () or (B,) where a symbol takes one."""
    if takes_time and t is None:
        raise ValueError("this symbol depends on time: give t, one number or one per sample")
    if t is None:
        return None
    if not takes_time:
        raise ValueError("this symbol has no time: leave t out, or build it with takes_time=True")
    times = torch.as_tensor(t, dtype=like.dtype, device=like.device)
    if times.dim() > 1:
        raise ValueError(f"t has shape {tuple(times.shape)}; expected one number or (B,)")
    return times


def check_numbers(t: Time, takes_time: bool, pde_parameters: int, like: Tensor) -> Tensor | None:
    """What a symbol sees, (P,) for all samples or (B, P): its time, and then its pde_parameters.

    One number alone may come without the last axis, (), or (B,).
    """
    if not pde_parameters:
        times = check_time(t, takes_time, like)
        return None if times is None else times[..., None]
    names = (
        f"{'the time and ' if takes_time else ''}{pde_parameters} pde_parameters of the equation"
    )
    if t is None:
        raise ValueError(
            f"this symbol sees {names}: give them, (B, {takes_time + pde_parameters})"
        )
    seen = torch.as_tensor(t, dtype=like.dtype, device=like.device)
    if takes_time + pde_parameters == 1 and seen.dim() < 2:
        return seen[..., None]
    if seen.dim() != 2 or seen.shape[1] != takes_time + pde_parameters:
        expected = f"(B, {takes_time + pde_parameters}), one row for each sample or for all"
        raise ValueError(
            f"this symbol sees {names}, given {tuple(seen.shape)}: expected {expected}"
        )
    return seen[0] if len(seen) == 1 else seen


def with_numbers(points: Tensor, t: Tensor | None) -> Tensor:
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
    places = tuple(torch.linspace(0, 1, len(points), dtype=torch.float64).tolist())
    basis, values = node_basis(places, count, periodic=False).to(points), at_nodes(count)
    if not values.is_complex():
        return values @ basis
    return join_parts(values.real @ basis, values.imag @ basis)


def _times_first(c: Tensor, b: Tensor | None, t: Tensor | None, *tables: Any) -> SymbolValues:
    """(R, O, I, B, *K) -> (B, R, O, I, *K) where each sample has its own numbers."""
    if t is not None and t.dim() == 2:
        c, b = c.movedim(3, 0), None if b is None else b.movedim(3, 0)
    return SymbolValues(c, b, *tables)
