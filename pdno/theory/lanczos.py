"""The method of Lanczos: the largest eigenvalue of a symmetric map S that is only applied.

Power iteration looks at S^k v for the last k alone. Here the vectors v, S v, ..., S^k v span a
space, and the largest θ = ⟨v, S v⟩/⟨v, v⟩ in that space is taken, which is never less and comes
much nearer with the same work. In an orthonormal basis of the space S is tridiagonal, and the
residual of θ is the next entry beside the diagonal times the last entry of its vector.
"""

__all__ = ["LargestEigenvalue", "largest_eigenvalue"]

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class LargestEigenvalue:
    """An eigenvalue estimated from below.

    Arguments:
        value: θ.
        residual: ‖S v - θ v‖ / (θ ‖v‖) for its vector v: some eigenvalue is no farther from θ.
        iterations: How often S was applied.
    """

    value: float
    residual: float
    iterations: int


def largest_eigenvalue(
    symmetric: Callable[[Tensor], Tensor], start: Tensor, *, iterations: int, tolerance: float
) -> LargestEigenvalue:
    """The largest eigenvalue of a symmetric map S that is not negative.

    Arguments:
        symmetric: S on vectors (n,).
        start: The first vector, (n,), not zero.
        iterations: At most so many.
        tolerance: Residual at which to stop.
    """
    steps = min(iterations, len(start))
    basis = start.new_empty(steps, len(start))
    basis[0] = start / start.norm()
    diagonal: list[float] = []
    beside: list[float] = []
    value, residual = 0.0, 0.0
    for step in range(steps):
        w = symmetric(basis[step])
        diagonal.append(float(w @ basis[step]))
        for _ in range(2):  # once loses digits
            w = w - basis[: step + 1].T @ (basis[: step + 1] @ w)
        length = float(w.norm())
        eigenvalues, vectors = torch.linalg.eigh(_tridiagonal(diagonal, beside))
        value = max(float(eigenvalues[-1]), 0.0)
        residual = length * abs(float(vectors[-1, -1])) / value if value > 0 else 0.0
        if residual <= tolerance or step + 1 == steps:
            break
        beside.append(length)
        basis[step + 1] = w / length
    return LargestEigenvalue(value, residual, len(diagonal))


def _tridiagonal(diagonal: list[float], beside: list[float]) -> Tensor:
    matrix = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    if beside:
        off = torch.diag(torch.tensor(beside, dtype=torch.float64), 1)
        matrix = matrix + off + off.T
    return matrix
