"""Darcy flow: the solution of -∇·(k ∇u) = f to a checked residual, by finite volumes.

Moderate contrasts of k are solved by conjugate gradients, large ones by elimination; the scheme
of the published data, which always eliminates, is at the end.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import scipy.fft
import scipy.sparse.linalg
import torch
from torch import Tensor

from pdno.equations.darcy import Darcy
from pdno.interface.errors import SolverError, check_choice, check_shape
from pdno.spectral.calculus import interpolate
from pdno.spectral.grid import Grid

Map = Callable[[Tensor], Tensor]
Method = Literal["auto", "conjugate-gradient", "direct"]

# The contrast above which elimination is faster, per dimension, measured with log-normal fields:
# squares 30 (64²) to 900 (512²), cubes (32³) 1e4, where the factors of an elimination fill up.
_DIRECT_ABOVE = {1: 1.0, 2: 100.0, 3: 1e4}
_POINTS = 2**16  # per batch, whose vectors should stay in the cache
_MAX_ITERATIONS, _MAX_CORRECTIONS = 5000, 3
_MAX_ROUNDING = 1e-6  # what rounding spoils more is an error unless the caller tolerates it


def solve_elliptic(
    equation: Darcy, permeability: Tensor, *, tolerance: float = 1e-10, method: Method = "auto"
) -> tuple[Tensor, Tensor]:
    """Solve -∇·(k ∇u) = f with u = 0 on the boundary; the solutions and their true residuals.

    Shapes: permeability k > 0 and solution (B, 1, *N) at cell centres, residual (B,); float64.
    Computed on the CPU, returned on the device of k.

    A residual ||f - A u|| / ||f|| above `tolerance` is a SolverError, unless it is at the rounding
    level of float64, 2 ε ||diag(A) u|| / ||f||, and below 1e-6. The method "auto" chooses for each
    sample by its contrast; the published scheme always eliminates.
    """
    if not 0.0 < tolerance < 1.0:
        raise ValueError(f"tolerance is {tolerance}; expected a number between 0 and 1")
    check_shape("permeability", permeability, "B", 1, "*N", cure="add axes with unsqueeze")
    k = permeability.detach().to("cpu", torch.float64)
    for sample in (~(k.isfinite() & (k > 0))).flatten(1).any(dim=1).nonzero():
        raise ValueError(f"permeability of sample {int(sample)} has values that are not > 0")
    if equation.scheme == "published":
        solution, residuals = _solve_published(equation, k, tolerance)
        return solution.to(permeability.device), residuals.to(permeability.device)
    source = equation.source(Grid.cells(k.shape[2:]))
    solution, residuals = torch.empty_like(k), k.new_empty(len(k))
    for samples, direct in _batches(k, method):
        u, sizes, allowed = _solve(source, k[samples, 0], direct, tolerance)
        for missed in (~(sizes <= allowed)).nonzero():
            way = "elimination" if direct else "conjugate gradients"
            reason = f"has relative residual {float(sizes[missed]):.1e} after {way}"
            cure = f"expected at most {tolerance:.1e}: try method='direct'"
            raise SolverError(int(samples[missed]), f"{reason}; {cure}")
        solution[samples, 0], residuals[samples] = u, sizes
    return solution.to(permeability.device), residuals.to(permeability.device)


def _solve(source: Tensor, k: Tensor, direct: bool, tolerance: float) -> tuple[Tensor, ...]:
    """Solution, relative residual, and the residual that counts as converged; k is (B, *N)."""
    operator = FiniteVolumes(k)
    invert = _elimination(k) if direct else _iteration(operator, k, tolerance)
    # of unit norm, so that a small forcing survives float32; without squaring very small numbers
    peak = source.abs().max().item() or 1.0
    scale = peak * ((source / peak).norm().item() or 1.0)
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


def _iteration(operator: "FiniteVolumes", k: Tensor, tolerance: float) -> Map:
    """A⁻¹ by conjugate gradients, to a residual of norm `tolerance`.

    The preconditioner is L⁻¹, L being A for k = 1, which the sine transform diagonalises, in
    float32. The eigenvalues of L⁻¹A lie between min k and max k, so the error in the norm of
    energy falls by `tolerance` within ½ √contrast · ln(2 / tolerance) iterations on every grid.
    """
    eigenvalues = laplacian_eigenvalues(k.shape[1:]).to(torch.float32)
    # twice the bound above, which is that of another norm than the residual's
    bound = 10 + math.sqrt(_contrast(k).max().item()) * math.log(2 / tolerance)
    most = int(min(bound, _MAX_ITERATIONS))

    def precondition(remainder: Tensor) -> Tensor:
        coefficients = sine_transform(remainder.to(torch.float32), k.dim() - 1).div_(eigenvalues)
        return sine_transform(coefficients, k.dim() - 1, inverse=True).to(remainder.dtype)

    return lambda source: conjugate_gradient(
        operator.apply, source, preconditioner=precondition, tolerance=tolerance, iterations=most
    )


def conjugate_gradient(
    operator: Map, source: Tensor, *, preconditioner: Map, tolerance: float, iterations: int
) -> Tensor:
    """Solve A u = f from u = 0 until ||f - A u|| <= tolerance, (B, ...) -> (B, ...).

    A is symmetric and positive definite. Each sample has its own steps and stays as it is when it
    has converged. The residual is updated, not recomputed.
    """
    u, remainder = torch.zeros_like(source), source.clone()
    direction, previous = torch.zeros_like(source), source.new_ones(source.shape[0])

    def of_active(values: Tensor) -> Tensor:
        # Zero rather than 0/0: a converged sample may have no residual at all.
        return values.where(active, 0.0).view(-1, *(1,) * (u.dim() - 1))

    for _ in range(iterations):
        active = norm(remainder) > tolerance
        if not bool(active.any()):
            break
        ascent = preconditioner(remainder)
        product = dot(remainder, ascent)
        direction.mul_(of_active(product / previous)).add_(ascent)
        image = operator(direction)
        step = of_active(product / dot(direction, image))
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


def _elimination(k: Tensor) -> Map:
    """A⁻¹ of one sample, k of shape (1, *N), by sparse elimination on the CPU."""
    factors = scipy.sparse.linalg.splu(
        assemble(k[0]).tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,  # positive definite: the diagonal is always a good pivot
        options={"SymmetricMode": True},
    )
    return lambda f: torch.from_numpy(factors.solve(f.flatten().numpy())).view_as(k)


def _batches(k: Tensor, method: Method) -> list[tuple[Tensor, bool]]:
    """Indices of the samples to solve together, and whether to eliminate."""
    limits = {"auto": _DIRECT_ABOVE[k.dim() - 2], "conjugate-gradient": math.inf, "direct": 0.0}
    check_choice("method", method, limits)
    direct = _contrast(k) > limits[method]
    together = max(1, _POINTS // math.prod(k.shape[1:]))
    batches = torch.split((~direct).nonzero().squeeze(1), together)
    iterated = [(samples, False) for samples in batches if len(samples)]
    return [*iterated, *((sample, True) for sample in direct.nonzero())]


def _contrast(k: Tensor) -> Tensor:
    return k.flatten(1).amax(dim=1) / k.flatten(1).amin(dim=1)


class FiniteVolumes:
    """The operator A of the permeabilities k > 0, (B, *N): each cell balances its fluxes.

    A face between two cells carries the harmonic mean of their permeabilities (two resistors in
    series), a face on the boundary lies half a cell from the centre and sees u = 0 there:

        (A u)_i = Σ_axes [ k_{i+1/2} (u_i - u_{i+1}) + k_{i-1/2} (u_i - u_{i-1}) ] / h²,
        k_{i+1/2} = 2 k_i k_{i+1} / (k_i + k_{i+1}),      on the boundary 2 k_i u_i / h².

    A is symmetric, positive definite and has no positive off-diagonal entry, so f > 0 gives u > 0
    whatever the jumps of k. `faces` are k_{i+1/2} / h², one tensor (B, *N) per axis with one cell
    fewer along it; `diagonal` (B, *N) is the sum of k / h² over all faces of a cell.
    """

    def __init__(self, k: Tensor) -> None:
        self.faces, self.diagonal = [], torch.zeros_like(k)
        for axis, n in enumerate(k.shape[1:], start=1):
            face = 2 * n**2 / (1 / k.narrow(axis, 0, n - 1) + 1 / k.narrow(axis, 1, n - 1))
            self.diagonal.narrow(axis, 0, n - 1).add_(face)
            self.diagonal.narrow(axis, 1, n - 1).add_(face)
            for end in (0, n - 1):
                self.diagonal.narrow(axis, end, 1).add_(k.narrow(axis, end, 1), alpha=2 * n**2)
            self.faces.append(face)

    def apply(self, u: Tensor) -> Tensor:
        """A u, (B, *N) -> (B, *N)."""
        image = self.diagonal * u
        for axis, face in enumerate(self.faces, start=1):
            n = face.shape[axis]
            image.narrow(axis, 0, n).addcmul_(face, u.narrow(axis, 1, n), value=-1)
            image.narrow(axis, 1, n).addcmul_(face, u.narrow(axis, 0, n), value=-1)
        return image


def assemble(permeability: Tensor) -> scipy.sparse.csc_matrix:
    """The matrix A of one sample, (*N) -> (|N|, |N|), rows in the order of `Tensor.flatten`."""
    operator = FiniteVolumes(permeability.detach().to("cpu", torch.float64).unsqueeze(0))
    matrix = _balance([face[0] for face in operator.faces])
    matrix.setdiag(operator.diagonal.flatten().numpy())
    return matrix


def _balance(faces: Sequence[Tensor]) -> scipy.sparse.csc_matrix:
    """The matrix that gives each cell its fluxes k (u_i - u_j) through the faces between cells."""
    shape = (len(faces[0]) + 1, *faces[0].shape[1:])
    index = np.arange(math.prod(shape)).reshape(shape)
    rows, columns, values = [], [], []
    for axis, face in enumerate(faces):
        left, right = np.delete(index, -1, axis).ravel(), np.delete(index, 0, axis).ravel()
        rows += [left, right, left, right]
        columns += [right, left, left, right]
        values += [face.flatten().numpy() * sign for sign in (-1, -1, 1, 1)]
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return scipy.sparse.csc_matrix(entries, shape=(index.size, index.size))


def sine_transform(f: Tensor, dim: int, *, inverse: bool = False) -> Tensor:
    """Coefficients Σ_x f(x) s_j(x) (DST-II) over the last `dim` axes, or back, on the CPU.

    At the cell centres x the functions s_j(x) = √(2/N) sin(π (j + 1) x), j = 0 .. N - 1, the last
    one divided by √2, are orthonormal.
    """
    apply = scipy.fft.idstn if inverse else scipy.fft.dstn
    axes = tuple(range(-dim, 0))
    return torch.from_numpy(apply(f.detach().numpy(), type=2, axes=axes, norm="ortho"))


def laplacian_eigenvalues(shape: Sequence[int]) -> Tensor:
    """Σ_axes 4 N² sin²(π (j + 1) / (2N)), the eigenvalues of A for k = 1, shape (*N), float64."""
    modes = [torch.arange(1, n + 1, dtype=torch.float64) for n in shape]
    axes = [4 * len(j) ** 2 * torch.sin(math.pi / (2 * len(j)) * j).square() for j in modes]
    return functools.reduce(torch.add, torch.meshgrid(*axes, indexing="ij"))


def _solve_published(equation: Darcy, k: Tensor, tolerance: float) -> tuple[Tensor, Tensor]:
    """`solve_elliptic` by the scheme of the published data; the residual is that at the nodes.

    k and f go from the cell centres (i + 1/2) / K to the nodes i / (K - 1) by cubic splines along
    each axis, u goes back by the same splines. A spline overshoots where the permeability jumps:
    some faces, with the arithmetic mean of nodal k, get a negative coefficient, and nothing
    guarantees u > 0.
    """
    shape, cure = tuple(k.shape[2:]), "use Darcy(scheme='conservative')"
    if len(shape) != 2 or min(shape) < 4:
        raise ValueError(f"the published scheme needs two axes of 4 cells, not {shape}: {cure}")
    cells, nodes = Grid.cells(shape), Grid(shape, periodic=False)
    source = interpolate(equation.source(cells), cells, nodes)[1:-1, 1:-1].numpy().ravel()
    inside = np.arange(nodes.size).reshape(shape)[1:-1, 1:-1].ravel()
    u, residuals = torch.zeros_like(k), k.new_empty(len(k))
    for sample, at_nodes in enumerate(interpolate(k[:, 0], cells, nodes)):
        pairs = [(at_nodes[:-1], at_nodes[1:]), (at_nodes[:, :-1], at_nodes[:, 1:])]
        faces = [(a + b) / 2 * (n - 1) ** 2 for (a, b), n in zip(pairs, shape, strict=True)]
        matrix = _balance(faces)[inside][:, inside]
        try:  # with pivoting, since the matrix is not definite where the spline overshoots
            inner = scipy.sparse.linalg.splu(matrix, permc_spec="MMD_AT_PLUS_A").solve(source)
        except RuntimeError:
            inner = np.full_like(source, np.nan)
        scale = float(np.linalg.norm(source)) or 1.0
        residuals[sample] = size = float(np.linalg.norm(source - matrix @ inner)) / scale
        if not size <= tolerance:
            reason = f"has relative residual {size:.1e} in the published scheme"
            raise SolverError(sample, f"{reason}; expected at most {tolerance:.1e}: {cure}")
        u[sample, 0, 1:-1, 1:-1] = torch.from_numpy(inner).view(shape[0] - 2, shape[1] - 2)
    return interpolate(u, nodes, cells), residuals
