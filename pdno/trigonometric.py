"""The sine transform on cell centres: a basis of functions that vanish on the boundary of a box.

On the cells x_n = (n + 1/2) / N of (0, 1) the functions

    s_k(x) = √(2/N) sin(π (k + 1) x),    k = 0 .. N - 1    (the last one divided by √2),

are orthonormal, vanish at 0 and 1, and are exactly the eigenvectors of the finite-volume
Laplacian with zero boundary values,

    (2 u_n - u_{n-1} - u_{n+1}) / h²  with ghosts u_{-1} = -u_0, u_N = -u_{N-1},
    eigenvalues 4 N² sin²(π (k + 1) / (2N)).

This is the transform known as DST-II. Being orthonormal, its inverse is its transpose.
The CPU takes the fast transform of scipy, every other device one matrix product per axis: the
grids are small enough for it and there is no fast sine transform in torch.
"""

__all__ = ["inverse_sine_transform", "laplacian_eigenvalues", "sine_matrix", "sine_transform"]

import functools
import math
from collections.abc import Sequence

import scipy.fft
import torch
from torch import Tensor


def sine_transform(f: Tensor, dim: int) -> Tensor:
    """Coefficients Σ_x f(x) s_k(x), (..., *N) -> (..., *N), in the dtype of f.

    Arguments:
        f: Samples at cell centres, float32 or float64; the last `dim` axes are the grid.
        dim: Number of grid axes d.

    Example:
        >>> f = torch.randn(2, 5, 6, dtype=torch.float64)
        >>> torch.allclose(inverse_sine_transform(sine_transform(f, 2), 2), f)
        True
    """
    return _by_scipy(f, dim) if f.device.type == "cpu" else _by_matrices(f, dim)


def inverse_sine_transform(f_hat: Tensor, dim: int) -> Tensor:
    """The function Σ_k f̂_k s_k(x) at the cell centres, (..., *N) -> (..., *N)."""
    if f_hat.device.type == "cpu":
        return _by_scipy(f_hat, dim, inverse=True)
    return _by_matrices(f_hat, dim, inverse=True)


def laplacian_eigenvalues(
    shape: Sequence[int],
    *,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
) -> Tensor:
    """Σ_j 4 N_j² sin²(π (k_j + 1) / (2 N_j)), the eigenvalues of -Δ on the cells, shape (*N)."""
    total = torch.zeros(tuple(shape), dtype=torch.float64, device=device)
    for axis, n in enumerate(shape):
        mode = torch.arange(1, n + 1, dtype=torch.float64, device=device)
        values = 4 * n**2 * torch.sin(math.pi / (2 * n) * mode).square()
        total += values.view(-1, *(1,) * (len(shape) - 1 - axis))
    return total.to(dtype)


# A solver asks for the same few matrices in every iteration.
@functools.lru_cache(maxsize=8)
def sine_matrix(n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The matrix of s_k(x_i), shape (n, n): row k holds one function."""
    index = torch.arange(n, device=device)
    # sin(π m / 2n) has period 4n in m: reducing the integer keeps the argument exact.
    phase = torch.outer(index + 1, 2 * index + 1).remainder_(4 * n)
    matrix = math.sqrt(2 / n) * torch.sin(phase.to(torch.float64) * (math.pi / (2 * n)))
    matrix[-1] /= math.sqrt(2)
    return matrix.to(dtype)


def _by_scipy(f: Tensor, dim: int, *, inverse: bool = False) -> Tensor:
    apply = scipy.fft.idstn if inverse else scipy.fft.dstn
    return torch.from_numpy(
        apply(f.detach().numpy(), type=2, axes=tuple(range(-dim, 0)), norm="ortho")
    )


def _by_matrices(f: Tensor, dim: int, *, inverse: bool = False) -> Tensor:
    for axis in range(-dim, 0):
        matrix = sine_matrix(f.shape[axis], f.dtype, f.device)
        f = (f.movedim(axis, -1) @ (matrix if inverse else matrix.T)).movedim(-1, axis)
    return f
