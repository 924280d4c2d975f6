"""The finite-volume operator is symmetric, positive definite and monotone."""

import math

import numpy as np
import pytest
import torch

from pdno.grid import Grid
from pdno.solvers.finite_volumes import FiniteVolumes, assemble

SHAPES = [(12,), (7, 10), (4, 5, 6)]


def random_positive(shape, samples=2, seed=0):
    noise = torch.randn(samples, *shape, generator=torch.Generator().manual_seed(seed))
    return noise.double().exp()


@pytest.mark.parametrize("shape", SHAPES)
def test_operator_equals_its_transpose(shape):
    operator = FiniteVolumes.of(random_positive(shape))
    u, v = random_positive(shape, seed=1).log(), random_positive(shape, seed=2).log()
    left, right = (operator.apply(u) * v).sum(), (u * operator.apply(v)).sum()
    assert math.isclose(left.item(), right.item(), rel_tol=1e-12)
    assert (operator.apply(u) * u).sum() > 0


@pytest.mark.parametrize("shape", SHAPES)
def test_matrix_is_the_operator(shape):
    k, u = random_positive(shape), random_positive(shape, seed=1)
    image = FiniteVolumes.of(k).apply(u)
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
    operator = FiniteVolumes.of(k)
    assert torch.allclose(operator.faces[0], 9 * torch.tensor([[4.8, 12.0]]).double())
    assert torch.allclose(operator.diagonal, 9 * torch.tensor([[10.8, 16.8, 36.0]]).double())


@pytest.mark.parametrize("shape", SHAPES)
def test_fluxes_balance_in_every_inner_cell(shape):
    """A linear u has no divergence for k = 1: only cells on the boundary see a source."""
    u = Grid.cells(shape).points().sum(dim=-1).unsqueeze(0)
    image = FiniteVolumes.of(torch.ones_like(u)).apply(u)
    inner = image[(slice(None), *(slice(1, -1),) * len(shape))]
    assert inner.abs().max() < 1e-10 < image.abs().max()
