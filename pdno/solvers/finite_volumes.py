"""Finite volumes: -∇·(k ∇u) on the cells of the unit box with u = 0 on its boundary.

Each cell balances the fluxes through its faces. A face between two cells carries the harmonic
mean of their permeabilities (two resistors in series), a face on the boundary lies half a cell
from the centre and sees u = 0 there:

    (A u)_i = Σ_axes [ k_{i+1/2} (u_i - u_{i+1}) + k_{i-1/2} (u_i - u_{i-1}) ] / h²,
    k_{i+1/2} = 2 k_i k_{i+1} / (k_i + k_{i+1}),      on the boundary 2 k_i u_i / h².

A is symmetric, positive definite and has no positive off-diagonal entry, so f > 0 gives u > 0
whatever the jumps of k. For smooth k the solution of A u = f has an error of O(h²).
"""

__all__ = ["FiniteVolumes", "assemble"]

from dataclasses import dataclass

import numpy as np
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
