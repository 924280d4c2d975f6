"""Darcy flow by the scheme behind the published data: splines to nodes, differences, and back.

Data are given at the cell centres (i + 1/2) / K, the equation is solved at the nodes i / (K - 1):

    1. k and f go from centres to nodes by cubic splines along each axis (not-a-knot, with
       extrapolation by half a cell);
    2. the five-point scheme on the (K - 2)² inner nodes, each face with the arithmetic mean of
       its two nodal permeabilities, times (K - 1)²; u = 0 on the boundary; sparse elimination;
    3. u goes back from nodes to centres by the same splines.

It is kept for comparison with published numbers. A cubic spline through a permeability that
jumps overshoots: some faces get a negative coefficient, the operator is then no longer elliptic
there, and nothing guarantees u > 0. Statistics agree with `pdno.solvers.elliptic` all the same.
"""

__all__ = ["solve_published"]

import numpy as np
import scipy.interpolate
import scipy.sparse
import scipy.sparse.linalg
import torch
from torch import Tensor

from pdno.equations.darcy import Darcy
from pdno.grid import Grid
from pdno.solvers.errors import SolverError

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def solve_published(
    equation: Darcy, permeability: Tensor, *, tolerance: float = 1e-10
) -> tuple[Tensor, Tensor]:
    """Solve -∇·(k ∇u) = f by the published scheme, for each sample.

    Shapes: permeability and solution (B, 1, K_1, K_2) at cell centres, residual (B,); float64.

    Arguments:
        equation: The forcing.
        permeability: k > 0 at the cell centres.
        tolerance: Bound for the relative residual of the nodal system.

    Returns:
        The solution and the relative residual of its nodal system.
    """
    shape = tuple(permeability.shape[2:])
    if len(shape) != 2 or min(shape) < 4:
        raise ValueError(
            f"the published scheme got a grid of {shape}; it needs two axes of at least 4 cells: "
            "use Darcy(scheme='conservative')"
        )
    cells, nodes = Grid.cells(shape), Grid(shape, periodic=False)
    source = _spline(equation.source(cells).numpy(), cells, nodes)[1:-1, 1:-1].ravel()
    solution, residuals = torch.empty_like(permeability), permeability.new_empty(len(permeability))
    for sample, k in enumerate(permeability[:, 0].cpu().numpy()):
        inner, size = _eliminate(_matrix(_spline(k, cells, nodes)), source)
        if not size <= tolerance:
            raise SolverError(
                f"sample {sample} has relative residual {size:.1e} in the published scheme; "
                f"expected at most {tolerance:.1e}: use Darcy(scheme='conservative')"
            )
        u = np.pad(inner.reshape(shape[0] - 2, shape[1] - 2), 1)
        solution[sample, 0] = torch.from_numpy(_spline(u, nodes, cells))
        residuals[sample] = size
    return solution, residuals


def _spline(values: Array, old: Grid, new: Grid) -> Array:
    """Values on the grid `new` of the tensor-product spline through values on `old`."""
    for axis, (known, wanted) in enumerate(zip(old.axes(), new.axes(), strict=True)):
        values = scipy.interpolate.CubicSpline(known.numpy(), values, axis=axis)(wanted.numpy())
    return values


def _matrix(k: Array) -> scipy.sparse.csc_matrix:
    """The five-point scheme on the inner nodes for nodal permeabilities k."""
    index = np.arange(k.size).reshape(k.shape)
    inside = np.zeros(k.shape, dtype=bool)
    inside[1:-1, 1:-1] = True
    rows, columns, values = [], [], []
    for axis in (0, 1):
        left, right = np.delete(index, -1, axis).ravel(), np.delete(index, 0, axis).ravel()
        face = (k.flat[left] + k.flat[right]) / 2 * (k.shape[axis] - 1) ** 2
        rows += [left, right, left, right]
        columns += [right, left, left, right]
        values += [-face, -face, face, face]
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    matrix = scipy.sparse.csc_matrix(entries, shape=(k.size, k.size))
    keep = np.flatnonzero(inside)
    return matrix[keep][:, keep]


def _eliminate(matrix: scipy.sparse.csc_matrix, source: Array) -> tuple[Array, float]:
    """Solution and relative residual; NaN for a singular matrix."""
    try:
        # With pivoting, since the matrix is not definite where the spline overshoots.
        factors = scipy.sparse.linalg.splu(matrix, permc_spec="MMD_AT_PLUS_A")
    except RuntimeError:
        return np.full_like(source, np.nan), float("nan")
    u: Array = factors.solve(source)
    scale = float(np.linalg.norm(source)) or 1.0
    return u, float(np.linalg.norm(source - matrix @ u)) / scale
