"""The finite-volume operator is symmetric, positive definite and monotone.

The sine transform diagonalises it on constant permeability, and both of its codes agree.
"""

import math

import numpy as np
import pytest
import torch

from pdno.solvers.elliptic import (
    FiniteVolumes,
    assemble,
    laplacian_eigenvalues,
    sine_transform,
)
from pdno.spectral.grid import Grid

SHAPES = [(12,), (7, 10), (4, 5, 6)]


def random_positive(shape, samples=2, seed=0):
    noise = torch.randn(samples, *shape, generator=torch.Generator().manual_seed(seed))
    return noise.double().exp()


@pytest.mark.parametrize("shape", SHAPES)
def test_operator_equals_its_transpose(shape):
    operator = FiniteVolumes(random_positive(shape))
    u, v = random_positive(shape, seed=1).log(), random_positive(shape, seed=2).log()
    left, right = (operator.apply(u) * v).sum(), (u * operator.apply(v)).sum()
    assert math.isclose(left.item(), right.item(), rel_tol=1e-12)
    assert (operator.apply(u) * u).sum() > 0


@pytest.mark.parametrize("shape", SHAPES)
def test_matrix_is_the_operator(shape):
    k, u = random_positive(shape), random_positive(shape, seed=1)
    image = FiniteVolumes(k).apply(u)
    for sample in range(2):
        expected = assemble(k[sample]) @ u[sample].flatten().numpy()
        assert np.allclose(image[sample].flatten().numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_matrix_is_positive_definite_with_a_positive_inverse(shape):
    matrix = assemble(random_positive(shape)[0]).toarray()
    assert np.array_equal(matrix, matrix.T)
    assert np.linalg.eigvalsh(matrix).min() > 0
    assert (matrix - np.diag(np.diag(matrix))).max() <= 0
    assert np.linalg.inv(matrix).min() > 0


def test_faces_are_resistors_in_series():
    k = torch.tensor([[3.0, 12.0, 12.0]], dtype=torch.float64)
    operator = FiniteVolumes(k)
    assert torch.allclose(operator.faces[0], 9 * torch.tensor([[4.8, 12.0]]).double())
    assert torch.allclose(operator.diagonal, 9 * torch.tensor([[10.8, 16.8, 36.0]]).double())


@pytest.mark.parametrize("shape", SHAPES)
def test_fluxes_balance_in_every_inner_cell(shape):
    """A linear u has no divergence for k = 1: only cells on the boundary see a source."""
    u = Grid.cells(shape).points().sum(dim=-1).unsqueeze(0)
    image = FiniteVolumes(torch.ones_like(u)).apply(u)
    inner = image[(slice(None), *(slice(1, -1),) * len(shape))]
    assert inner.abs().max() < 1e-10 < image.abs().max()


# The sine transform

SINE_SHAPES = [(8,), (5,), (6, 9), (4, 3, 7)]
TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-13}


def sine_matrix(n, dtype):
    """The matrix of s_j(x_i), shape (n, n): row j holds one function."""
    index = torch.arange(n)
    # sin(π m / 2n) has period 4n in m: reducing the integer keeps the argument exact.
    phase = torch.outer(index + 1, 2 * index + 1).remainder_(4 * n)
    matrix = math.sqrt(2 / n) * torch.sin(phase.to(torch.float64) * (math.pi / (2 * n)))
    matrix[-1] /= math.sqrt(2)
    return matrix.to(dtype)


def random_field(shape, dtype=torch.float64):
    return torch.randn(2, *shape, generator=torch.Generator().manual_seed(0)).to(dtype)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("shape", SINE_SHAPES)
def test_matrices_and_fast_transform_agree(shape, inverse, dtype):
    f = random_field(shape, dtype)
    fast = sine_transform(f, len(shape), inverse=inverse)
    slow = f
    for axis in range(-len(shape), 0):
        matrix = sine_matrix(f.shape[axis], dtype)
        slow = (slow.movedim(axis, -1) @ (matrix if inverse else matrix.T)).movedim(-1, axis)
    assert fast.dtype == slow.dtype == dtype
    assert torch.allclose(fast, slow, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("shape", SINE_SHAPES)
def test_round_trip_and_parseval(shape):
    f = random_field(shape)
    f_hat = sine_transform(f, len(shape))
    assert torch.allclose(sine_transform(f_hat, len(shape), inverse=True), f, rtol=0, atol=1e-13)
    assert math.isclose(f_hat.norm().item(), f.norm().item(), rel_tol=1e-13)


@pytest.mark.parametrize("n", [2, 7, 512])
def test_matrix_is_orthonormal(n):
    matrix = sine_matrix(n, torch.float64)
    assert torch.allclose(matrix @ matrix.T, torch.eye(n, dtype=torch.float64), atol=1e-12)


def test_one_sine_is_one_coefficient():
    x = Grid.cells((16,)).points().squeeze(-1)
    f_hat = sine_transform(torch.sin(3 * math.pi * x), 1)
    expected = torch.zeros(16, dtype=torch.float64)
    expected[2] = math.sqrt(16 / 2)
    assert torch.allclose(f_hat, expected, atol=1e-13)


def test_eigenvalues_are_those_of_the_laplacian():
    shape = (3, 5)
    for mode in [(0, 0), (2, 1), (1, 4)]:
        f_hat = torch.zeros(shape, dtype=torch.float64)
        f_hat[mode] = 1.0
        u = sine_transform(f_hat, 2, inverse=True)
        image = torch.zeros_like(u)
        for axis, n in enumerate(shape):
            first, last = u.narrow(axis, 0, 1), u.narrow(axis, n - 1, 1)
            padded = torch.cat([-first, u, -last], dim=axis)
            image += n**2 * (2 * u - padded.narrow(axis, 0, n) - padded.narrow(axis, 2, n))
        assert torch.allclose(image, laplacian_eigenvalues(shape)[mode] * u, atol=1e-11)


def test_eigenvalues_approach_those_of_the_continuum():
    lowest = laplacian_eigenvalues((1000, 1000))[0, 0].item()
    assert math.isclose(lowest, 2 * math.pi**2, rel_tol=1e-6)
