"""Spectral calculus on periodic grids: the Laplacian, dealiasing, moving between grids.

Keeping only |ξ_j| < N/3 before and after a product of two functions removes its aliasing exactly
(the 2/3 rule). Periodic fields move between grids by `resample`, other fields by splines.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import torch
from scipy.interpolate import CubicSpline
from torch import Tensor

from pdno.spectral.fourier import inverse, transform
from pdno.spectral.grid import Device, Grid

Dealiasing = Literal["two-thirds", "smooth"]


def laplacian_symbol(grid: Grid, device: Device = None) -> Tensor:
    """-4π²|ξ|², the symbol of Δ on the half spectrum, shape (*N^), float64."""
    xi = grid.modes(device=device).to(torch.float64)
    return xi.square().sum(dim=-1).mul_(-4 * math.pi**2)


def band_limits(grid: Grid, dealiasing: Dealiasing = "two-thirds") -> tuple[int | None, ...]:
    """Kept modes that hold the band of a rule: only the half axis is cut short."""
    n = grid.shape[-1]
    kept = (n - 1) // 3 + 1 if dealiasing == "two-thirds" else (n + 1) // 2
    return (*(None,) * (grid.dim - 1), kept)


def band_mask(grid: Grid, device: Device = None, dealiasing: Dealiasing = "two-thirds") -> Tensor:
    """What multiplies the modes under a rule against aliasing, (*N^), float64.

    "two-thirds" is 1 where |ξ_j| < N_j/3 on every axis and 0 elsewhere, "smooth" the product of
    e^{-36 |2ξ_j/N_j|^36} (Hou and Li, J. Comput. Phys. 226, 2007), 0 where |ξ_j| = N_j/2.
    """
    xi, n = grid.modes(device=device).abs().double(), torch.tensor(grid.shape, device=device)
    if dealiasing == "two-thirds":
        return (3 * xi < n).all(dim=-1).to(torch.float64)
    damped = torch.exp(-36 * (2 * xi / n) ** 36)
    return torch.where(2 * xi == n, 0.0, damped).prod(dim=-1)


def resample(f: Tensor, shape: Sequence[int], *, multiplier: Tensor | None = None) -> Tensor:
    """The trigonometric polynomial through the samples f, on another grid, (..., *N) -> (..., *M).

    Modes that the new grid cannot hold are dropped; one at N/2 of an even grid stands for both
    signs. A `multiplier` (*N^), the same at both signs, multiplies the modes of f.
    """
    new = Grid(tuple(shape)).shape
    f_hat = transform(f, len(new))
    if multiplier is not None:
        f_hat = f_hat * multiplier
    for position in range(-len(new), 0):
        if f.shape[position] != new[position]:
            f_hat = _resize_axis(f_hat, position, f.shape[position], new[position])
    return inverse(f_hat, new)


def resample_by_axis(f: Tensor, shape: Sequence[int]) -> Tensor:
    """As `resample`, by a real matrix for each axis: faster for small grids, and exportable."""
    for axis, m in enumerate(shape, start=f.dim() - len(shape)):
        if f.shape[axis] != m:
            matrix = resampling_matrix(f.shape[axis], m).to(f)
            f = torch.movedim(torch.movedim(f, axis, -1) @ matrix, -1, axis)
    return f.contiguous()


@lru_cache(maxsize=32)
def resampling_matrix(n: int, m: int) -> Tensor:
    """The matrix (N, M) of `resample` on one axis, float64."""
    return resample(torch.eye(n, dtype=torch.float64), (m,))


def every_point(f: Tensor, step: int, dim: int) -> Tensor:
    """Every step-th point along the last `dim` axes."""
    for axis in range(-dim, 0):
        f = torch.unflatten(f, axis, (-1, step)).select(axis, 0)
    return f


def sample_at_grid(f: Tensor, shape: Sequence[int]) -> Tensor:
    """As `resample`, but modes that the new grid cannot hold stay, aliased to lower ones.

    So they do in data that are every r-th point of a solver's grid. (..., *N) -> (..., *M).
    """
    new = Grid(tuple(shape)).shape
    common = [math.lcm(n, m) for n, m in zip(f.shape[-len(new) :], new, strict=True)]
    fine = resample(f, common)
    for axis, (n, m) in enumerate(zip(common, new, strict=True), start=-len(new)):
        fine = fine.index_select(axis, torch.arange(0, n, n // m, device=f.device))
    return fine


def _resize_axis(f_hat: Tensor, position: int, n: int, m: int) -> Tensor:
    f_hat, half, small = f_hat.movedim(position, -1), position == -1, min(n, m)
    out = f_hat.new_zeros((*f_hat.shape[:-1], m // 2 + 1 if half else m))
    inner = (small - 1) // 2  # the modes strictly below N/2 of the smaller grid
    out[..., : inner + 1] = f_hat[..., : inner + 1]
    if not half and inner:
        out[..., -inner:] = f_hat[..., -inner:]
    k = small // 2
    if small % 2 == 0 and half:  # weights w of the Hermitian rule: 1 on the Nyquist line, else 2
        out[..., k] = f_hat[..., k] * (0.5 if m > n else 2.0)
    elif small % 2 == 0 and m > n:
        out[..., k] = out[..., -k] = f_hat[..., k] * 0.5
    elif small % 2 == 0:
        out[..., k] = f_hat[..., k] + f_hat[..., -k]
    return out.movedim(-1, position)


def interpolate(f: Tensor, old: Grid, new: Grid) -> Tensor:
    """The cubic spline through f on `old`, at the points of `new`, (..., *N) -> (..., *M)."""
    old.check(f, "f")
    if new.dim != old.dim or new.periodic != old.periodic:
        cure = "make both periodic, or both a box, as in Grid(shape, periodic=False)"
        cannot = f"cannot interpolate from {old} to {new}"
        raise ValueError(f"{cannot}: expected the same kind of box; {cure}")
    if new == old:
        return f
    for axis in range(old.dim):
        table = _spline_table(old, new, axis).to(f)
        f = torch.movedim(torch.movedim(f, axis - old.dim, -1) @ table.T, -1, axis - old.dim)
    return f


@lru_cache(maxsize=16)
def _spline_table(old: Grid, new: Grid, axis: int) -> Tensor:
    """The matrix (M, N) of the spline along one axis."""
    nodes, points = old.axes()[axis], new.axes()[axis]
    values = torch.eye(len(nodes), dtype=torch.float64)
    if old.periodic:
        nodes, values = torch.cat([nodes, nodes[:1] + 1]), torch.cat([values, values[:1]])
        points = nodes[0] + (points - nodes[0]) % 1
    elif len(nodes) < 4:
        raise ValueError(f"{len(nodes)} points on axis {axis}: a spline needs 4; use a finer grid")
    ends = "periodic" if old.periodic else "not-a-knot"
    spline = CubicSpline(nodes.numpy(), values.numpy(), bc_type=ends)
    return torch.as_tensor(spline(points.numpy()))
