"""Darcy flow: the solution of -∇·(k ∇u) = f to a checked residual.

For k = 1 the sine transform diagonalises the finite-volume operator A of `finite_volumes`; call
that operator L. The eigenvalues of L⁻¹A lie between min k and max k, so conjugate gradients with
L⁻¹ as preconditioner reduce the error (in the norm of energy) by `tolerance` within

    ½ √contrast · ln(2 / tolerance) iterations,      contrast = max k / min k,

on every grid. The two-phase fields of the paper (contrast 4) take 25 to a residual of 1e-10. A
constant factor of L cancels, hence no representative k. L⁻¹ is applied in float32, which halves
the time of the whole; the residual is kept in float64. Splitting k over both sides, √k L √k,
took more iterations wherever k jumps. Large contrasts go to sparse elimination.

Whatever the method, the residual f - A u of the result is computed afresh, corrected by another
solve where it is too large, returned, and a sample that misses the tolerance raises an error.
"""

__all__ = ["conjugate_gradient", "solve_elliptic"]

import math
from collections.abc import Callable, Iterator
from typing import Literal

import scipy.sparse.linalg
import torch
from torch import Tensor

from pdno.equations.darcy import Darcy
from pdno.errors import SolverError
from pdno.grid import Grid
from pdno.solvers.finite_volumes import (
    FiniteVolumes,
    assemble,
    inverse_sine_transform,
    laplacian_eigenvalues,
    sine_transform,
)
from pdno.solvers.published import solve_elliptic_published

Map = Callable[[Tensor], Tensor]
Method = Literal["auto", "conjugate-gradient", "direct"]

# The contrast above which elimination is faster, per dimension, measured with log-normal fields:
# always on lines, above 30 (64²) to 900 (512²) on squares, above 1e4 on cubes (32³), where the
# factors of an elimination fill up.
_DIRECT_ABOVE = {1: 1.0, 2: 100.0, 3: 1e4}
# Points per batch. On the CPU the vectors of one batch should stay in the cache.
_POINTS_CPU, _POINTS = 2**16, 2**24
_MAX_ITERATIONS = 5000
# A solution that rounding spoils more than this is an error unless the caller tolerates it.
_MAX_ROUNDING = 1e-6
_MAX_CORRECTIONS = 3


def solve_elliptic(
    equation: Darcy, permeability: Tensor, *, tolerance: float = 1e-10, method: Method = "auto"
) -> tuple[Tensor, Tensor]:
    """Solve -∇·(k ∇u) = f with u = 0 on the boundary, for each sample.

    Shapes: permeability and solution (B, 1, *N) at cell centres, residual (B,); float64.

    Arguments:
        equation: Forcing and scheme. The published scheme always eliminates.
        permeability: k > 0.
        tolerance: Bound for ||f - A u|| / ||f||. A residual at the rounding level of float64,
            2 ε ||diag(A) u|| / ||f||, counts as converged up to 1e-6: fine grids and large
            contrasts cannot go below it.
        method: "auto" chooses for each sample by its contrast.

    Returns:
        The solution and its true relative residual; SolverError where that is too large.

    Example:
        >>> u, residuals = solve_elliptic(Darcy(), torch.ones(1, 1, 64))
        >>> round(u.max().item(), 3), residuals.max().item() < 1e-10
        (0.125, True)
    """
    if not 0.0 < tolerance < 1.0:
        raise ValueError(f"tolerance is {tolerance}; expected a number between 0 and 1")
    k = _checked(permeability)
    if equation.scheme == "published":
        return solve_elliptic_published(equation, k, tolerance=tolerance)
    source = equation.source(Grid.cells(k.shape[2:]), device=k.device)
    solution, residuals = torch.empty_like(k), k.new_empty(k.shape[0])
    for samples, direct in _batches(k, method):
        u, sizes, allowed = _solve(source, k[samples, 0], direct=direct, tolerance=tolerance)
        missed = (~(sizes <= allowed)).nonzero()
        if len(missed) > 0:
            size, way = float(sizes[missed[0]]), "elimination" if direct else "conjugate gradients"
            raise SolverError(
                int(samples[missed[0]]),
                f"has relative residual {size:.1e} after {way}; expected at most "
                f"{tolerance:.1e}: try method='direct', a larger tolerance or a smaller contrast",
            )
        solution[samples, 0], residuals[samples] = u, sizes
    return solution, residuals


def _solve(
    source: Tensor, k: Tensor, *, direct: bool, tolerance: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Solution, relative residual, and the residual that counts as converged; k is (B, *N)."""
    operator, scale = FiniteVolumes.of(k), _scale(source)
    invert = _elimination(k) if direct else _iteration(operator, k, tolerance)
    # Of unit norm, so that a small forcing survives the float32 of the preconditioner.
    source = (source / scale).expand_as(k)
    u, remainder = torch.zeros_like(k), source
    for _ in range(_MAX_CORRECTIONS):
        u = u + invert(remainder)
        remainder = source - operator.apply(u)
        sizes = norm(remainder)
        rounding = 2 * torch.finfo(k.dtype).eps * norm(operator.diagonal * u)
        allowed = rounding.clamp(max=_MAX_ROUNDING).clamp(min=tolerance)
        if bool((sizes <= allowed).all()):
            break
    return u * scale, sizes, allowed


def _iteration(operator: FiniteVolumes, k: Tensor, tolerance: float) -> Map:
    """A⁻¹ by conjugate gradients, to a residual of norm `tolerance`."""
    dim = k.dim() - 1
    eigenvalues = laplacian_eigenvalues(k.shape[1:], dtype=torch.float32, device=k.device)
    # Twice the bound above, which speaks of another norm than the residual's.
    bound = 10 + math.sqrt(_contrast(k).max().item()) * math.log(2 / tolerance)

    def precondition(remainder: Tensor) -> Tensor:
        coefficients = sine_transform(remainder.to(torch.float32), dim).div_(eigenvalues)
        return inverse_sine_transform(coefficients, dim).to(remainder.dtype)

    return lambda source: conjugate_gradient(
        operator.apply,
        source,
        preconditioner=precondition,
        tolerance=tolerance,
        iterations=int(min(bound, _MAX_ITERATIONS)),
    )


def conjugate_gradient(
    operator: Map, source: Tensor, *, preconditioner: Map, tolerance: float, iterations: int
) -> Tensor:
    """Solve A u = f from u = 0 until ||f - A u|| <= tolerance, (B, ...) -> (B, ...).

    The samples of a batch share the work of A and P and nothing else: each has its own step
    lengths, and one that has converged is left as it is while the others go on. The residual is
    updated, not recomputed, and the result is returned after `iterations` at the latest: compute
    f - A u to know what was reached.

    Arguments:
        operator: A, symmetric and positive definite.
        source: f.
        preconditioner: P, an approximation of A⁻¹. It may be less precise than A: float32 in place
            of float64 changes neither the limit nor, noticeably, the number of iterations.
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


def _elimination(k: Tensor) -> Map:
    """A⁻¹ of one sample, k of shape (1, *N), by sparse elimination on the CPU."""
    factors = scipy.sparse.linalg.splu(
        assemble(k[0]).tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,  # positive definite: the diagonal is always a good pivot
        options={"SymmetricMode": True},
    )

    def solve(source: Tensor) -> Tensor:
        return torch.from_numpy(factors.solve(source.flatten().cpu().numpy())).view_as(k).to(k)

    return solve


def _batches(k: Tensor, method: Method) -> Iterator[tuple[Tensor, bool]]:
    """Indices of the samples to solve together, and whether to eliminate."""
    limits = {"auto": _DIRECT_ABOVE[k.dim() - 2], "conjugate-gradient": math.inf, "direct": 0.0}
    if method not in limits:
        raise ValueError(f"method is {method!r}; expected one of {', '.join(limits)}")
    direct = _contrast(k) > limits[method]
    points = _POINTS_CPU if k.device.type == "cpu" else _POINTS
    together = max(1, points // math.prod(k.shape[1:]))
    for samples in torch.split((~direct).nonzero().squeeze(1), together):
        if len(samples) > 0:
            yield samples, False
    for sample in direct.nonzero():
        yield sample, True


def _checked(permeability: Tensor) -> Tensor:
    """The permeability in float64, or ValueError naming the sample that is not positive."""
    if not 3 <= permeability.dim() <= 5 or permeability.shape[1] != 1:
        raise ValueError(
            f"permeability has shape {tuple(permeability.shape)}; expected (B, 1, *N) with one to "
            "three grid axes: add the missing axes with unsqueeze"
        )
    Grid.cells(permeability.shape[2:])
    k = permeability.detach().to(torch.float64)
    bad = ~(k.isfinite() & (k > 0)).flatten(1).all(dim=1)
    if bool(bad.any()):
        sample = int(bad.nonzero()[0])
        raise ValueError(
            f"permeability of sample {sample} has values from {k[sample].min().item()} to "
            f"{k[sample].max().item()}; expected finite values > 0"
        )
    return k


def _contrast(k: Tensor) -> Tensor:
    return k.flatten(1).amax(dim=1) / k.flatten(1).amin(dim=1)


def _scale(source: Tensor) -> float:
    """||f||, without squaring numbers that are out of range then, and 1 for f = 0."""
    peak = source.abs().max().item() or 1.0
    return peak * ((source / peak).norm().item() or 1.0)
