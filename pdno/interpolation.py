"""Cubic splines between grids of the same box: for statistics, which are smooth but not periodic.

Fields on the torus are moved by `spectral.resample`, which is exact for what the grid holds. A
mean or a standard deviation over samples on a box has no period; there a spline through its
values, axis by axis, serves both. Points beyond the first or last one are extrapolated.
"""

__all__ = ["interpolate"]

from functools import lru_cache

import torch
from scipy.interpolate import CubicSpline
from torch import Tensor

from pdno.grid import Grid

CUBIC_POINTS = 4


def interpolate(f: Tensor, old: Grid, new: Grid) -> Tensor:
    """The spline through the samples f on `old`, at the points of `new`, (..., *N) -> (..., *M).

    Example:
        >>> old, new = Grid((8,), periodic=False), Grid((15,), periodic=False)
        >>> cubic = lambda grid: grid.points().squeeze(-1) ** 3
        >>> torch.allclose(interpolate(cubic(old), old, new), cubic(new))
        True
    """
    old.check(f, "f")
    if new.dim != old.dim or new.periodic != old.periodic:
        raise ValueError(f"cannot interpolate from {old} to {new}: expected the same kind of box")
    if new == old:
        return f
    for axis in range(old.dim):
        table = _table(old, new, axis).to(f)
        f = torch.movedim(torch.movedim(f, axis - old.dim, -1) @ table.T, -1, axis - old.dim)
    return f


@lru_cache(maxsize=16)
def _table(old: Grid, new: Grid, axis: int) -> Tensor:
    """The matrix (M, N) of the spline along one axis."""
    nodes, points = old.axes()[axis], new.axes()[axis]
    values = torch.eye(len(nodes), dtype=torch.float64)
    if old.periodic:
        nodes = torch.cat([nodes, nodes[:1] + 1])
        values = torch.cat([values, values[:1]])
        points = nodes[0] + (points - nodes[0]) % 1
    elif len(nodes) < CUBIC_POINTS:
        raise ValueError(f"{len(nodes)} points on axis {axis}: a spline needs {CUBIC_POINTS}")
    ends = "periodic" if old.periodic else "not-a-knot"
    return torch.as_tensor(
        CubicSpline(nodes.numpy(), values.numpy(), bc_type=ends)(points.numpy())
    )
