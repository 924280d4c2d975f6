"""Preconditioned conjugate gradients for a batch of systems A u = f.

A is symmetric and positive definite, P approximates A⁻¹. Each iteration applies A once and P
once; the error in the energy norm falls at least by (√κ - 1) / (√κ + 1), where κ is the quotient
of the largest and the smallest eigenvalue of P A, whatever the size of the system:

    iterations <= ½ √κ · ln(2 / tolerance).

The samples of a batch share the work of A and P and nothing else: each has its own step lengths,
and one that has converged is left as it is while the others go on.
"""

__all__ = ["conjugate_gradient", "dot", "norm"]

from collections.abc import Callable

import torch
from torch import Tensor

Map = Callable[[Tensor], Tensor]


def conjugate_gradient(
    operator: Map, source: Tensor, *, preconditioner: Map, tolerance: float, iterations: int
) -> Tensor:
    """Solve A u = f from u = 0 until ||f - A u|| <= tolerance, (B, ...) -> (B, ...).

    The residual is updated, not recomputed, and the result is returned after `iterations` at the
    latest: compute f - A u to know what was reached.

    Arguments:
        operator: A.
        source: f.
        preconditioner: P. It may be less precise than A: float32 in place of float64 changes
            neither the limit nor, noticeably, the number of iterations.
        tolerance: Bound for the norm of the residual of each sample.
        iterations: Largest number of iterations.

    Example:
        >>> f = torch.ones(2, 3)
        >>> A = torch.tensor([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 4.0]])
        >>> u = conjugate_gradient(
        ...     lambda u: u @ A, f, preconditioner=torch.clone, tolerance=1e-6, iterations=5
        ... )
        >>> torch.allclose(u @ A, f)
        True
    """
    u, remainder = torch.zeros_like(source), source.clone()
    direction, previous = torch.zeros_like(source), source.new_ones(source.shape[0])
    for _ in range(iterations):
        active = norm(remainder) > tolerance
        if not bool(active.any()):
            break
        ascent = preconditioner(remainder)
        product = dot(remainder, ascent)
        direction.mul_(_where(active, product / previous, like=u)).add_(ascent)
        image = operator(direction)
        step = _where(active, product / dot(direction, image), like=u)
        u.addcmul_(step, direction)
        remainder.addcmul_(step, image, value=-1)
        previous = product
    return u


def dot(a: Tensor, b: Tensor) -> Tensor:
    """The scalar product of each sample, (B, ...) -> (B,)."""
    return torch.einsum("bi,bi->b", a.flatten(1), b.flatten(1))


def norm(a: Tensor) -> Tensor:
    """The Euclidean norm of each sample, (B, ...) -> (B,)."""
    return dot(a, a).sqrt()


def _where(active: Tensor, values: Tensor, *, like: Tensor) -> Tensor:
    """The values of active samples and 0 of the others, shaped to multiply a field."""
    # Zero rather than 0/0: a converged sample may have no residual at all.
    return values.where(active, 0.0).view(-1, *(1,) * (like.dim() - 1))
