"""Conjugate gradients: exact in as many steps as there are eigenvalues, each sample by itself."""

import torch

from pdno.solvers.conjugate_gradient import conjugate_gradient, dot, norm


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
