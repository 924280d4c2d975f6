"""Darcy flow: both methods find the same solution, and it obeys the laws of the equation.

Conjugate gradients: exact in as many steps as there are eigenvalues, each sample by itself.
"""

import math

import numpy as np
import pytest
import scipy.fft
import scipy.interpolate
import scipy.sparse.linalg
import torch

from pdno.equations.darcy import Darcy
from pdno.interface.errors import SolverError
from pdno.solvers import elliptic
from pdno.solvers.elliptic import (
    FiniteVolumes,
    assemble,
    conjugate_gradient,
    dot,
    laplacian_eigenvalues,
    norm,
    solve_elliptic,
)
from pdno.spectral.grid import Grid

SHAPES = [(30,), (24, 31), (8, 9, 10)]


def two_phase(shape, samples=2, *, low=3.0, high=12.0, seed=0):
    """The permeability of the paper: the sign of a Gaussian field with Neumann covariance."""
    generator = np.random.default_rng(seed)
    axes = np.meshgrid(*[np.arange(n) for n in shape], indexing="ij")
    amplitude = 1 / (math.pi**2 * sum(axis**2 for axis in axes) + 9)
    amplitude.flat[0] = 0
    noise = amplitude * generator.standard_normal((samples, *shape))
    field = scipy.fft.idctn(noise, type=2, norm="ortho", axes=tuple(range(1, noise.ndim)))
    return torch.from_numpy(np.where(field >= 0, high, low)).unsqueeze(1)


def before_spline(values, cells, nodes):
    """Cell values whose spline takes `values` at the nodes of a square."""
    known, wanted = cells.axes()[0].numpy(), nodes.axes()[0].numpy()
    matrix = torch.from_numpy(scipy.interpolate.CubicSpline(known, np.eye(len(known)))(wanted))
    return torch.linalg.solve(matrix, torch.linalg.solve(matrix, values).T).T


def relative(a, b):
    return ((a - b).norm() / b.norm()).item()


def residual(k, u):
    """||f - A u|| / ||f|| of each sample for f = 1."""
    remainder = 1 - FiniteVolumes(k[:, 0]).apply(u[:, 0])
    return remainder.flatten(1).norm(dim=1) / math.sqrt(remainder[0].numel())


@pytest.mark.parametrize("low", [3.0, 0.5])
@pytest.mark.parametrize("shape", SHAPES)
def test_conjugate_gradients_equal_elimination(shape, low):
    k = two_phase(shape, low=low)
    iterated, _ = solve_elliptic(Darcy(), k, method="conjugate-gradient")
    eliminated, _ = solve_elliptic(Darcy(), k, method="direct")
    assert relative(iterated, eliminated) < 1e-8


@pytest.mark.parametrize("shape", SHAPES)
def test_solution_equals_an_independent_solve_of_the_matrix(shape):
    k = two_phase(shape, 1)
    u, _ = solve_elliptic(Darcy(forcing=2.0), k)
    reference = scipy.sparse.linalg.spsolve(assemble(k[0, 0]), np.full(math.prod(shape), 2.0))
    assert relative(u.flatten(), torch.from_numpy(reference)) < 1e-9


@pytest.mark.parametrize("method", ["conjugate-gradient", "direct"])
def test_residual_is_true_and_below_the_tolerance(method):
    k = two_phase((40, 40), 3)
    for tolerance in (1e-4, 1e-8, 1e-12):
        u, residuals = solve_elliptic(Darcy(), k, tolerance=tolerance, method=method)
        assert residuals.shape == (3,) and residuals.max() <= tolerance
        assert torch.allclose(residual(k, u), residuals, rtol=1e-3, atol=1e-13)
    assert torch.allclose(residual(k, 0 * u), torch.ones(3).double())


@pytest.mark.parametrize("scheme", ["conservative", "published"])
def test_solution_is_small_but_not_zero_beside_the_boundary(scheme):
    u, _ = solve_elliptic(Darcy(scheme=scheme), two_phase((121, 121), 4))
    for edge in (u[:, :, 0], u[:, :, -1], u[..., 0], u[..., -1]):
        assert 7e-5 < edge.mean() < 3e-4


@pytest.mark.parametrize("low", [3.0, 1e-3])
@pytest.mark.parametrize("shape", SHAPES)
def test_maximum_principle(shape, low):
    """Positive for f = 1 whatever the jumps, and below the solution for the smallest k."""
    k = two_phase(shape, low=low)
    u, _ = solve_elliptic(Darcy(), k)
    upper, _ = solve_elliptic(Darcy(), torch.full_like(k, low))
    assert u.min() > 0
    assert u.mean() < upper.mean()


@pytest.mark.parametrize("mode", [(1, 1), (2, 3), (7, 1)])
def test_a_sine_is_divided_by_its_eigenvalue(mode):
    shape = (12, 15)

    def forcing(x):
        return torch.sin(math.pi * x * torch.tensor(mode)).prod(dim=-1)

    u, _ = solve_elliptic(Darcy(forcing), torch.full((1, 1, *shape), 5.0))
    eigenvalue = laplacian_eigenvalues(shape)[mode[0] - 1, mode[1] - 1]
    assert relative(u[0, 0], forcing(Grid.cells(shape).points()) / (5 * eigenvalue)) < 1e-9


@pytest.mark.parametrize("scheme", ["conservative", "published"])
def test_axes_are_alike(scheme):
    k = two_phase((20, 27))
    u, _ = solve_elliptic(Darcy(scheme=scheme), k)
    transposed, _ = solve_elliptic(Darcy(scheme=scheme), k.mT.contiguous())
    assert relative(transposed.mT, u) < 1e-9


@pytest.mark.parametrize("scheme", ["conservative", "published"])
def test_linear_in_f_and_inverse_in_k(scheme):
    k = two_phase((24, 24))
    u, _ = solve_elliptic(Darcy(scheme=scheme), k)
    scaled, _ = solve_elliptic(Darcy(-3.0, scheme), 1e-12 * k)
    assert relative(-scaled / 3e12, u) < 1e-9


@pytest.mark.parametrize("forcing", [1e-300, 1e-40, 1e200])
def test_no_forcing_is_too_small_or_too_large(forcing):
    k = two_phase((16, 16))
    u, residuals = solve_elliptic(Darcy(forcing), k)
    assert residuals.min() > 0
    assert relative(u / forcing, solve_elliptic(Darcy(), k)[0]) < 1e-9


def test_no_forcing_no_flow():
    u, residuals = solve_elliptic(Darcy(0.0), two_phase((16, 16)))
    assert not u.any() and not residuals.any()


def test_samples_do_not_know_of_each_other(monkeypatch):
    k = torch.cat(
        [two_phase((16, 16), 5), torch.ones(1, 1, 16, 16), two_phase((16, 16), low=0.01)]
    )
    together, _ = solve_elliptic(Darcy(), k)
    for sample in range(len(k)):
        alone, _ = solve_elliptic(Darcy(), k[sample : sample + 1])
        assert relative(alone[0], together[sample]) < 1e-12
    monkeypatch.setattr(elliptic, "_POINTS", 2 * 16 * 16)
    assert relative(solve_elliptic(Darcy(), k)[0], together) < 1e-12


@pytest.mark.parametrize(("shape", "low", "expected"), [
    ((16, 16), 3.0, "iterate"),
    ((16, 16), 0.0012, "eliminate"),
    ((30,), 3.0, "eliminate"),
    ((6, 6, 6), 0.012, "iterate"),
])  # fmt: skip
def test_contrast_and_dimension_choose_the_method(monkeypatch, shape, low, expected):
    used = set()
    iterate, eliminate = elliptic._iteration, elliptic._elimination
    monkeypatch.setattr(
        elliptic, "_iteration", lambda *args: used.add("iterate") or iterate(*args)
    )
    monkeypatch.setattr(
        elliptic, "_elimination", lambda *args: used.add("eliminate") or eliminate(*args)
    )
    solve_elliptic(Darcy(), two_phase(shape, low=low))
    assert used == {expected}


def test_iterations_do_not_grow_with_the_grid(monkeypatch):
    """At most the bound of the theory for contrast 4 and tolerance 1e-8, and a few more."""
    monkeypatch.setattr(elliptic, "_MAX_ITERATIONS", 25)
    monkeypatch.setattr(elliptic, "_MAX_CORRECTIONS", 1)
    for n in (32, 64, 128, 256):
        solve_elliptic(Darcy(), two_phase((n, n), 1), tolerance=1e-8)


def test_single_precision_input_is_solved_in_double():
    u, residuals = solve_elliptic(Darcy(), two_phase((16, 16)).float().requires_grad_())
    assert u.dtype == residuals.dtype == torch.float64
    assert not u.requires_grad and residuals.max() < 1e-10


def test_an_unconverged_sample_is_an_error(monkeypatch):
    monkeypatch.setattr(elliptic, "_MAX_ITERATIONS", 2)
    k = torch.cat([torch.ones(1, 1, 16, 16), two_phase((16, 16), 1)])
    with pytest.raises(SolverError, match="sample 1 .* conjugate gradients"):
        solve_elliptic(Darcy(), k)


def test_a_contrast_beyond_double_precision_is_an_error():
    noise = torch.rand(1, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    k = torch.full_like(noise, 1e6).masked_fill(noise > 0.5, 1e-6)
    for method in ("conjugate-gradient", "direct"):
        with pytest.raises(SolverError, match="sample 0 "):
            solve_elliptic(Darcy(), k, method=method)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("scheme", ["conservative", "published"])
def test_permeability_must_be_positive(scheme, value):
    k = two_phase((8, 8), 3)
    k[2, 0, 1, 3] = value
    with pytest.raises(ValueError, match="sample 2 "):
        solve_elliptic(Darcy(scheme=scheme), k)


@pytest.mark.parametrize("shape", [(8,), (8, 8), (2, 3, 8, 8), (1, 1, 4, 4, 4, 4), (1, 1, 8, 1)])
def test_wrong_shapes_are_named(shape):
    with pytest.raises(ValueError, match=r"\(8, 1\)|shape \(|4 axes"):
        solve_elliptic(Darcy(), torch.ones(shape))


def test_wrong_options_are_named():
    k = two_phase((8, 8))
    with pytest.raises(ValueError, match="tolerance is 0"):
        solve_elliptic(Darcy(), k, tolerance=0)
    with pytest.raises(ValueError, match="'magic'"):
        solve_elliptic(Darcy(), k, method="magic")
    with pytest.raises(ValueError, match="two axes"):
        solve_elliptic(Darcy(scheme="published"), torch.ones(1, 1, 8))


def test_wrong_equations_are_named():
    with pytest.raises(ValueError, match="'spectral'"):
        Darcy(scheme="spectral")
    with pytest.raises(ValueError, match="forcing is nan"):
        Darcy(math.nan)
    with pytest.raises(ValueError, match=r"returned has shape \(4, 4, 2\)"):
        solve_elliptic(Darcy(lambda x: x), torch.ones(1, 1, 4, 4))
    with pytest.raises(ValueError, match="NaN or infinity"):
        solve_elliptic(Darcy(lambda x: x[..., 0] / 0), torch.ones(1, 1, 4, 4))


def test_an_empty_batch_is_solved():
    for scheme in ("conservative", "published"):
        u, residuals = solve_elliptic(Darcy(scheme=scheme), torch.ones(0, 1, 8, 8))
        assert u.shape == (0, 1, 8, 8) and residuals.shape == (0,)


def test_published_scheme_is_its_five_point_formula():
    """For a permeability that the splines reproduce, check the differences at the nodes."""
    n = 9
    cells, nodes = Grid.cells((n, n)), Grid((n, n), periodic=False)

    def k(x):
        return 2 + x[..., 0] ** 3 - x[..., 0] * x[..., 1]

    def u(x):
        return x[..., 0] * (1 - x[..., 0]) * x[..., 1] * (1 - x[..., 1])

    def forcing(x):
        """The five-point formula applied to u around x."""
        total = torch.zeros_like(x[..., 0])
        for axis in (0, 1):
            for sign in (-1, 1):
                y = x.clone()
                y[..., axis] += sign / (n - 1)
                total += (k(x) + k(y)) / 2 * (u(x) - u(y)) * (n - 1) ** 2
        return total

    # Of too high a degree for a cubic spline: give cell values whose spline hits it at the nodes.
    values = before_spline(forcing(nodes.points()), cells, nodes)
    equation = Darcy(lambda x: values, "published")
    solution, residuals = solve_elliptic(equation, k(cells.points())[None, None])
    assert residuals.max() < 1e-13
    assert relative(solution[0, 0], u(cells.points())) < 1e-12


def test_statistics_of_the_published_recipe():
    """Anchors 5.54e-3 and 3.71e-3 (40 samples, K = 121); three standard errors of 20 samples."""
    k = two_phase((121, 121), 20)
    published, _ = solve_elliptic(Darcy(scheme="published"), k)
    conservative, _ = solve_elliptic(Darcy(), k)
    assert math.isclose(published.mean(), 5.54e-3, rel_tol=0.06)
    assert math.isclose(published.std(), 3.71e-3, rel_tol=0.06)
    assert math.isclose(published.mean(), conservative.mean(), rel_tol=0.02)
    assert math.isclose(published.std(), conservative.std(), rel_tol=0.02)
    assert relative(published, conservative) < 0.02


# Conjugate gradients


def systems(eigenvalues, samples=3):
    """Dense symmetric positive definite systems with the given eigenvalues."""
    generator = torch.Generator().manual_seed(0)
    n = len(eigenvalues)
    basis = torch.linalg.qr(torch.randn(samples, n, n, generator=generator).double()).Q
    matrix = basis @ torch.diag(torch.tensor(eigenvalues).double()) @ basis.mT
    return matrix, torch.randn(samples, n, generator=generator).double()


def solve(matrix, source, **options):
    options = {"preconditioner": torch.clone, "tolerance": 1e-10, "iterations": 50} | options
    return conjugate_gradient(lambda u: (matrix @ u.unsqueeze(-1)).squeeze(-1), source, **options)


def test_three_eigenvalues_need_three_iterations():
    matrix, source = systems([1.0] * 6 + [4.0] * 5 + [9.0] * 4)
    u = solve(matrix, source, iterations=3)
    assert torch.allclose(u, torch.linalg.solve(matrix, source), atol=1e-10)


def test_exact_preconditioner_needs_one_iteration():
    matrix, source = systems([1.0, 10.0, 100.0, 1000.0])
    u = solve(matrix, source, preconditioner=lambda r: torch.linalg.solve(matrix, r), iterations=1)
    assert torch.allclose(u, torch.linalg.solve(matrix, source), rtol=1e-10)


def test_converged_samples_are_left_alone():
    matrix, source = systems(list(range(1, 21)))
    matrix[0] = torch.eye(20)
    together = solve(matrix, source)
    assert torch.equal(together[0], solve(matrix, source, iterations=1)[0])
    for sample in range(3):
        alone = solve(matrix[sample : sample + 1], source[sample : sample + 1])
        assert torch.allclose(together[sample : sample + 1], alone, rtol=0, atol=1e-12)


def test_a_zero_source_gives_zero_beside_another():
    matrix, source = systems(list(range(1, 21)))
    source[1] = 0.0
    u = solve(matrix, source)
    assert not u[1].any()
    assert torch.allclose(u, torch.linalg.solve(matrix, source), atol=1e-9)


def test_dot_and_norm_sum_over_all_but_the_samples():
    a = torch.arange(12.0).view(2, 3, 2)
    assert dot(a, torch.ones_like(a)).tolist() == [15.0, 51.0]
    assert torch.allclose(norm(a), a.flatten(1).norm(dim=1))
