"""The schemes that made the published data, for comparison with published numbers."""

import math
from collections.abc import Sequence

import numpy as np
import scipy.interpolate
import scipy.sparse.linalg
import torch
from torch import Tensor

from pdno.equations.darcy import Darcy
from pdno.equations.evolution import NavierStokes
from pdno.interface.errors import SolverError
from pdno.spectral.calculus import laplacian_symbol
from pdno.spectral.fourier import inverse, transform
from pdno.spectral.grid import Grid

PUBLISHED_STEP = 1e-4

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def integrate_published(equation: NavierStokes, state: Tensor, times: Sequence[float]) -> Tensor:
    """The solution at `times` by the published scheme, (B, 1, *N) -> (B, T, 1, *N), float64.

    Crank-Nicolson for diffusion, forward Euler for transport and forcing, first order in time:

        ω̂' = [ -h F[v·∇ω] + h f̂ + (1 - hν|k|²/2) ω̂ ] / (1 + hν|k|²/2),    |k|² = 4π²|ξ|²

    with h = 1e-4; only the transport term is dealiased, |ξ_j| <= N/3.
    """
    grid, step = equation.check(state), PUBLISHED_STEP
    xi = grid.modes().to(torch.float64)
    waves, k_squared = 2j * math.pi * xi, -laplacian_symbol(grid)
    invertible = torch.where(k_squared == 0, 1.0, k_squared)
    mask = (xi.abs() <= torch.tensor([n / 3 for n in grid.shape])).all(dim=-1)
    force = transform(equation.force(grid), 2) * step
    decay = step * equation.viscosity * k_squared / 2
    kept, divisor = 1 - decay, 1 + decay

    def advance(w_hat: Tensor) -> Tensor:
        psi = w_hat / invertible
        v1, v2 = (inverse(wave * psi, grid.shape) for wave in (waves[..., 1], -waves[..., 0]))
        w1, w2 = (inverse(waves[..., axis] * w_hat, grid.shape) for axis in (0, 1))
        transport = transform(v1 * w1 + v2 * w2, 2) * mask
        return (-step * transport + force + kept * w_hat) / divisor

    w_hat, taken, frames = transform(state.to(torch.float64), 2), 0, []
    for target in times:
        while taken < round(target / step):
            w_hat, taken = advance(w_hat), taken + 1
        frames.append(inverse(w_hat, grid.shape))
    return torch.stack(frames, dim=1)


def solve_elliptic_published(
    equation: Darcy, permeability: Tensor, *, tolerance: float
) -> tuple[Tensor, Tensor]:
    """`solve_elliptic` by the published scheme; the residual is that at the nodes.

    k and f go from the cell centres (i + 1/2) / K to the nodes i / (K - 1) by cubic splines along
    each axis, u goes back by the same splines. A spline overshoots where the permeability jumps:
    some faces get a negative coefficient, and nothing guarantees u > 0.
    """
    shape, cure = tuple(permeability.shape[2:]), "use Darcy(scheme='conservative')"
    if len(shape) != 2 or min(shape) < 4:
        needed = "the published scheme needs two axes of at least 4 cells"
        raise ValueError(f"permeability has a grid of {shape}; {needed}: {cure}")
    cells, nodes = Grid.cells(shape), Grid(shape, periodic=False)
    source = _spline(equation.source(cells).numpy(), cells, nodes)[1:-1, 1:-1].ravel()
    scale = float(np.linalg.norm(source)) or 1.0
    solution, residuals = torch.empty_like(permeability), permeability.new_empty(len(permeability))
    for sample, k in enumerate(permeability[:, 0].cpu().numpy()):
        matrix = _matrix(_spline(k, cells, nodes))
        try:  # with pivoting, since the matrix is not definite where the spline overshoots
            inner = scipy.sparse.linalg.splu(matrix, permc_spec="MMD_AT_PLUS_A").solve(source)
        except RuntimeError:
            inner = np.full_like(source, np.nan)
        size = float(np.linalg.norm(source - matrix @ inner)) / scale
        if not size <= tolerance:
            reason = f"has relative residual {size:.1e} in the published scheme"
            raise SolverError(sample, f"{reason}; expected at most {tolerance:.1e}: {cure}")
        u = np.pad(inner.reshape(shape[0] - 2, shape[1] - 2), 1)
        solution[sample, 0] = torch.from_numpy(_spline(u, nodes, cells))
        residuals[sample] = size
    return solution, residuals


def _spline(values: Array, old: Grid, new: Grid) -> Array:
    """Values on the grid `new` of the tensor-product spline through values on `old`."""
    for axis, (nodes, points) in enumerate(zip(old.axes(), new.axes(), strict=True)):
        values = scipy.interpolate.CubicSpline(nodes.numpy(), values, axis=axis)(points.numpy())
    return values


def _matrix(k: Array) -> scipy.sparse.csc_matrix:
    """The five-point scheme on the inner nodes, with arithmetic means of nodal k on the faces."""
    index = np.arange(k.size).reshape(k.shape)
    rows, columns, values = [], [], []
    for axis in (0, 1):
        left, right = np.delete(index, -1, axis).ravel(), np.delete(index, 0, axis).ravel()
        face = (k.flat[left] + k.flat[right]) / 2 * (k.shape[axis] - 1) ** 2
        rows += [left, right, left, right]
        columns += [right, left, left, right]
        values += [-face, -face, face, face]
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    inside = index[1:-1, 1:-1].ravel()
    return scipy.sparse.csc_matrix(entries, shape=(k.size, k.size))[inside][:, inside]
