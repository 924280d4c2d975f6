"""Interpolation of smooth factors from few nodes along an axis, b(r, y) = Σ_m ℓ_m(y) b(r, y_m).

Where M nodes of each row give b to the precision of float32, the operator needs M transforms of
rows instead of one per input channel. Nodes are Chebyshev's, for periodic b equally spaced ones. M
is measured from weights alone, so that a resumed run makes the same choices.
"""

import math
from functools import lru_cache

import torch
from torch import Tensor

MOST = 32
STEP = 4  # numbers of nodes are multiples of it, as the compiled kernels expect
LINES = 2  # along each axis, on which the smoothness of b is measured
TOLERANCE = 2e-7  # of the root mean square of b; the unit of float32 is 1.2e-7


def node_points(count: int, *, periodic: bool) -> Tensor:
    """The nodes y_m in [0, 1], shape (M,), float64."""
    m = torch.arange(count, dtype=torch.float64)
    return m / count if periodic else (1 - torch.cos((m + 0.5) * math.pi / count)) / 2


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # a table made during inference serves training too
def node_basis(axis: tuple[float, ...], count: int, *, periodic: bool) -> Tensor:
    """The cardinal functions ℓ_m at points of an axis, shape (M, N), float64."""
    y = torch.tensor(axis, dtype=torch.float64)
    coefficients = _waves(node_points(count, periodic=periodic), count, periodic=periodic)
    basis: Tensor = torch.linalg.solve(coefficients, _waves(y, count, periodic=periodic))
    return basis


def count_nodes(values: Tensor, *, periodic: bool) -> int | None:
    """How many nodes are enough for functions at `MOST` nodes, (..., MOST); None if too few."""
    lines = values.reshape(-1, MOST)
    coefficients = lines @ _expansion(periodic).to(lines)
    # the mean square of what is left out when the first ones are kept
    tails = coefficients.square().mean(dim=0).double().flip(0).cumsum(0).flip(0).tolist()
    allowed = TOLERANCE**2 * float(lines.square().mean())
    return next((m for m in range(STEP, MOST, STEP) if tails[m] <= allowed), None)


@lru_cache(maxsize=6)
@torch.inference_mode(False)
def probe_lines(dim: int, *, periodic: bool) -> Tensor:
    """`MOST` nodes on some lines along each axis, shape (axes, lines, MOST, d), float64."""
    count = LINES if dim > 1 else 1
    starts = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    # across the box, so that no two have a coordinate in common
    lines = torch.stack([starts.roll(axis) for axis in range(dim)], dim=-1)
    points = lines[None, :, None, :].repeat(dim, 1, MOST, 1)
    for axis in range(dim):
        points[axis, :, :, axis] = node_points(MOST, periodic=periodic)
    return points


@lru_cache(maxsize=2)
@torch.inference_mode(False)
def _expansion(periodic: bool) -> Tensor:
    """Values at `MOST` nodes -> coefficients in the order of `_waves`, (MOST, MOST)."""
    return _waves(node_points(MOST, periodic=periodic), MOST, periodic=periodic).inverse()


def _waves(y: Tensor, count: int, *, periodic: bool) -> Tensor:
    """T_0, T_1, ... of Chebyshev, or 1, cos 2πy, sin 2πy, cos 4πy, ...; shape (count, points)."""
    k = torch.arange(count, dtype=torch.float64)[:, None]
    if not periodic:
        return torch.cos(k * torch.acos((1 - 2 * y).clamp(-1, 1)))
    angle = 2 * math.pi * ((k + 1) // 2) * y
    return torch.where(k % 2 == 1, torch.cos(angle), torch.where(k == 0, 1.0, torch.sin(angle)))
