import math

import pytest
import torch

from pdno.grid import Grid
from pdno.spectral import band_mask, derivative, resample


def wave(shape, xi, shift=0.3):
    phase = 2 * math.pi * (Grid(shape).points() * torch.tensor(xi).double()).sum(-1)
    return torch.cos(phase + shift)


@pytest.mark.parametrize("order", [(1, 0), (0, 1), (2, 1), (3, 2)])
def test_derivatives_of_a_wave(order):
    xi = (2, -3)
    shape, total = (16, 15), sum(order)
    factor = math.prod((2 * math.pi * k) ** p for k, p in zip(xi, order, strict=True))
    expected = factor * wave(shape, xi, shift=0.3 + total * math.pi / 2)
    assert torch.allclose(derivative(wave(shape, xi), order), expected, rtol=1e-10, atol=1e-8)


def test_derivative_is_antisymmetric():
    u, v = torch.randn(2, 12, 10, dtype=torch.float64)
    left, right = (u * derivative(v, (0, 1))).sum(), (derivative(u, (0, 1)) * v).sum()
    assert torch.allclose(left, -right)


@pytest.mark.parametrize("old", [(8, 9), (8, 8), (7, 10)])
@pytest.mark.parametrize("new", [(12, 16), (9, 11), (16, 18)])
def test_finer_and_back_is_the_identity(old, new):
    u = torch.randn(2, *old, dtype=torch.float64)
    assert torch.allclose(resample(resample(u, new), old), u, atol=1e-13)


def test_resampling_interpolates():
    u = torch.randn(8, 6, dtype=torch.float64)
    assert torch.allclose(resample(u, (16, 18))[::2, ::3], u, atol=1e-13)


@pytest.mark.parametrize("new", [(6, 7), (11, 20)])
def test_a_smooth_function_keeps_its_values_on_any_grid(new):
    assert torch.allclose(resample(wave((12, 10), (2, -1)), new), wave(new, (2, -1)), atol=1e-13)


@pytest.mark.parametrize("shape", [(12,), (16,), (9, 14)])
def test_the_two_thirds_rule_removes_aliasing(shape):
    grid = Grid(shape)
    fine = tuple(4 * n for n in shape)
    from pdno.fourier import inverse, transform

    mask = band_mask(grid)
    u = inverse(mask * transform(torch.randn(shape, dtype=torch.float64), grid.dim), shape)
    product = mask * transform(u * u, grid.dim)
    exact = mask * transform(resample(resample(u, fine) ** 2, shape), grid.dim)
    assert torch.allclose(product, exact, atol=1e-13)
