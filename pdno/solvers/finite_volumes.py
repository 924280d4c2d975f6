"""Finite volumes: -∇·(k ∇u) on the cells of the unit box with u = 0 on its boundary.

Each cell balances the fluxes through its faces. A face between two cells carries the harmonic
mean of their permeabilities (two resistors in series), a face on the boundary lies half a cell
from the centre and sees u = 0 there:

    (A u)_i = Σ_axes [ k_{i+1/2} (u_i - u_{i+1}) + k_{i-1/2} (u_i - u_{i-1}) ] / h²,
    k_{i+1/2} = 2 k_i k_{i+1} / (k_i + k_{i+1}),      on the boundary 2 k_i u_i / h².

A is symmetric, positive definite and has no positive off-diagonal entry, so f > 0 gives u > 0
whatever the jumps of k. For smooth k the solution of A u = f has an error of O(h²).

For k = 1 the sine transform (DST-II) diagonalises A: at the cell centres x = (n + 1/2) / N

    s_j(x) = √(2/N) sin(π (j + 1) x),    j = 0 .. N - 1    (the last one divided by √2)

are orthonormal eigenvectors with the eigenvalues 4 N² sin²(π (j + 1) / (2N)). The CPU takes the
fast transform of scipy, every other device one matrix product per axis: the grids are small
enough for it and there is no fast sine transform in torch.
"""

__all__ = [
    "FiniteVolumes",
    "assemble",
    "inverse_sine_transform",
    "laplacian_eigenvalues",
    "sine_matrix",
    "sine_transform",
]

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.fft
import scipy.sparse
import torch
from torch import Tensor


@dataclass(frozen=True)
class FiniteVolumes:
    """The operator A of a batch of permeabilities.

    Shapes: diagonal (B, *N); faces[j] (B, *N) with one cell fewer along axis j.

    Arguments:
        faces: k_{i+1/2} / h² on the inner faces, one tensor per axis.
        diagonal: The sum of k / h² over all faces of a cell.
    """

    faces: tuple[Tensor, ...]
    diagonal: Tensor

    @classmethod
    def of(cls, permeability: Tensor) -> "FiniteVolumes":
        """The operator of the permeabilities k > 0, shape (B, *N)."""
        faces, diagonal = [], torch.zeros_like(permeability)
        for axis in range(1, permeability.dim()):
            n = permeability.shape[axis]
            left, right = permeability.narrow(axis, 0, n - 1), permeability.narrow(axis, 1, n - 1)
            face = 2 * n**2 / (1 / left + 1 / right)
            diagonal.narrow(axis, 0, n - 1).add_(face)
            diagonal.narrow(axis, 1, n - 1).add_(face)
            for end in (0, n - 1):
                boundary = permeability.narrow(axis, end, 1)
                diagonal.narrow(axis, end, 1).add_(boundary, alpha=2 * n**2)
            faces.append(face)
        return cls(tuple(faces), diagonal)

    def apply(self, u: Tensor) -> Tensor:
        """A u, (B, *N) -> (B, *N)."""
        image = self.diagonal * u
        for axis, face in enumerate(self.faces, start=1):
            n = face.shape[axis]
            image.narrow(axis, 0, n).addcmul_(face, u.narrow(axis, 1, n), value=-1)
            image.narrow(axis, 1, n).addcmul_(face, u.narrow(axis, 0, n), value=-1)
        return image


def assemble(permeability: Tensor) -> scipy.sparse.csr_matrix:
    """The matrix A of one sample, (*N) -> (|N|, |N|), rows in the order of `Tensor.flatten`.

    Example:
        >>> assemble(torch.ones(3)).toarray().tolist()
        [[27.0, -9.0, 0.0], [-9.0, 18.0, -9.0], [0.0, -9.0, 27.0]]
    """
    operator = FiniteVolumes.of(permeability.detach().to("cpu", torch.float64).unsqueeze(0))
    index = np.arange(permeability.numel()).reshape(permeability.shape)
    rows, columns = [index.ravel()], [index.ravel()]
    values = [operator.diagonal.numpy().ravel()]
    for axis, face in enumerate(operator.faces):
        left, right = np.delete(index, -1, axis).ravel(), np.delete(index, 0, axis).ravel()
        rows += [left, right]
        columns += [right, left]
        values += [-face.numpy().ravel()] * 2
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return scipy.sparse.csr_matrix(entries, shape=(index.size, index.size))


def sine_transform(f: Tensor, dim: int, *, inverse: bool = False) -> Tensor:
    """Coefficients Σ_x f(x) s_j(x) over the last `dim` axes, (..., *N) -> (..., *N).

    Example:
        >>> f = torch.randn(2, 5, 6, dtype=torch.float64)
        >>> torch.allclose(inverse_sine_transform(sine_transform(f, 2), 2), f)
        True
    """
    if f.device.type == "cpu":
        apply = scipy.fft.idstn if inverse else scipy.fft.dstn
        axes = tuple(range(-dim, 0))
        return torch.from_numpy(apply(f.detach().numpy(), type=2, axes=axes, norm="ortho"))
    return _by_matrices(f, dim, inverse=inverse)


def inverse_sine_transform(f_hat: Tensor, dim: int) -> Tensor:
    """The function Σ_j f̂_j s_j(x) at the cell centres, (..., *N) -> (..., *N)."""
    return sine_transform(f_hat, dim, inverse=True)


def laplacian_eigenvalues(
    shape: Sequence[int],
    *,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
) -> Tensor:
    """Σ_axes 4 N² sin²(π (j + 1) / (2N)), the eigenvalues of A for k = 1, shape (*N)."""
    total = torch.zeros(tuple(shape), dtype=torch.float64, device=device)
    for axis, n in enumerate(shape):
        mode = torch.arange(1, n + 1, dtype=torch.float64, device=device)
        values = 4 * n**2 * torch.sin(math.pi / (2 * n) * mode).square()
        total += values.view(-1, *(1,) * (len(shape) - 1 - axis))
    return total.to(dtype)


# A solver asks for the same few matrices in every iteration.
@functools.lru_cache(maxsize=8)
def sine_matrix(n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The matrix of s_j(x_i), shape (n, n): row j holds one function."""
    index = torch.arange(n, device=device)
    # sin(π m / 2n) has period 4n in m: reducing the integer keeps the argument exact.
    phase = torch.outer(index + 1, 2 * index + 1).remainder_(4 * n)
    matrix = math.sqrt(2 / n) * torch.sin(phase.to(torch.float64) * (math.pi / (2 * n)))
    matrix[-1] /= math.sqrt(2)
    return matrix.to(dtype)


def _by_matrices(f: Tensor, dim: int, *, inverse: bool) -> Tensor:
    for axis in range(-dim, 0):
        matrix = sine_matrix(f.shape[axis], f.dtype, f.device)
        f = (f.movedim(axis, -1) @ (matrix if inverse else matrix.T)).movedim(-1, axis)
    return f
