"""Spectral calculus on waves; splines between grids: exact for cubics, of order 4 on the torus."""

import itertools
import math

import pytest
import torch
from oracles import derivative

from pdno.spectral.calculus import band_mask, interpolate, resample, sample_at_grid
from pdno.spectral.grid import Grid


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


FOLDED = [((48,), (32,)), ((24, 18), (16, 12)), ((8, 6), (12, 10))]


@pytest.mark.parametrize(("old", "new"), FOLDED)
def test_sampling_at_another_grid_folds_what_it_cannot_hold(old, new):
    xi = [n // 2 - 1 for n in old]
    sampled = sample_at_grid(wave(old, xi)[None, None], new)
    torch.testing.assert_close(sampled[0, 0], wave(new, xi), rtol=0, atol=1e-12)


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
    from pdno.spectral.fourier import inverse, transform

    mask = band_mask(grid)
    u = inverse(mask * transform(torch.randn(shape, dtype=torch.float64), grid.dim), shape)
    product = mask * transform(u * u, grid.dim)
    exact = mask * transform(resample(resample(u, fine) ** 2, shape), grid.dim)
    assert torch.allclose(product, exact, atol=1e-13)


# Splines

BOXES = {
    "both ends": (Grid((7,), periodic=False), Grid((31,), periodic=False)),
    "cells": (Grid.cells((8,)), Grid.cells((64,))),
    "cells to fewer": (Grid.cells((64,)), Grid.cells((8,))),
    # every fourth of 32 cell centres: x = (i + 1/8) / 8
    "coarsened cells": (Grid.cells((32,)).coarsen(4), Grid.cells((32,))),
    "cells to coarsened": (Grid.cells((8,)), Grid.cells((64,)).coarsen(2)),
    "cells to ends": (Grid.cells((9,)), Grid((5,), periodic=False)),
    "plane": (Grid.cells((24, 16)).coarsen(2), Grid.cells((9, 25))),
    "space": (Grid((4, 5, 6), periodic=False), Grid((9, 4, 7), periodic=False)),
}


def cubic(grid):
    """A polynomial of degree 3 in every coordinate, with all its products."""
    x = grid.points()
    factors = [
        2 - x[..., j] + (j + 3) * x[..., j] ** 2 - 5 * x[..., j] ** 3 for j in range(grid.dim)
    ]
    return math.prod(factors) + x.sum(dim=-1) ** 3


def two_waves(grid):
    x = grid.points()
    return torch.sin(2 * math.pi * x[..., 0] + 0.3) + torch.cos(4 * math.pi * x.sum(dim=-1))


def largest(values):
    return values.abs().max().item()


@pytest.mark.parametrize("name", BOXES)
def test_cubic_polynomials_are_exact_on_boxes(name):
    old, new = BOXES[name]
    assert largest(interpolate(cubic(old), old, new) - cubic(new)) < 1e-12


def test_the_doubled_degree_is_not_exact():
    """So the test above has something to find."""
    old, new = BOXES["cells"]
    assert largest(interpolate(cubic(old) ** 2, old, new) - cubic(new) ** 2) > 1e-4


@pytest.mark.parametrize("offset", [0.0, 0.5, 0.125])
@pytest.mark.parametrize("dim", [1, 2])
def test_waves_converge_with_order_four_on_the_torus(offset, dim):
    new = Grid((45,) * dim, offset=0.25)
    errors = []
    for n in (16, 32, 64):
        old = Grid((n,) * dim, offset=offset)
        errors.append(largest(interpolate(two_waves(old), old, new) - two_waves(new)))
    for coarse, fine in itertools.pairwise(errors):
        assert 3.7 < math.log2(coarse / fine) < 4.5


def test_the_torus_has_no_seam():
    """Moving the samples around the torus moves the spline with them."""
    old, new = Grid((8,)), Grid((32,))
    f = torch.randn(3, 8, dtype=torch.float64)
    rolled = interpolate(f.roll(3, -1), old, new)
    assert largest(rolled - interpolate(f, old, new).roll(12, -1)) < 1e-12


@pytest.mark.parametrize(
    "old", [Grid((24,)), Grid.cells((24,)), Grid((24, 12), offset=0.5)], ids=str
)
def test_the_spline_passes_through_its_samples(old):
    f = torch.randn(2, 3, *old.shape, dtype=torch.float64)
    kept = (..., *(slice(None, None, 3),) * old.dim)
    assert largest(interpolate(f, old, old.coarsen(3)) - f[kept]) < 1e-12
    assert torch.equal(interpolate(f, old, old), f)


def test_leading_axes_and_number_types_stay():
    old, new = Grid.cells((6, 5)), Grid.cells((7, 9))
    f = torch.randn(2, 3, 6, 5)
    out = interpolate(f, old, new)
    assert out.shape == (2, 3, 7, 9) and out.dtype == torch.float32
    one = interpolate(f[1, 2].double(), old, new)
    assert largest(out[1, 2] - one) < 1e-5


def test_other_boxes_and_too_few_points_are_refused():
    f = torch.zeros(8)
    with pytest.raises(
        ValueError, match="cannot interpolate from .* expected the same kind of box"
    ):
        interpolate(f, Grid((8,)), Grid.cells((8,)))
    with pytest.raises(ValueError, match="cannot interpolate from"):
        interpolate(f, Grid((8,)), Grid((8, 8)))
    with pytest.raises(ValueError, match="f has shape"):
        interpolate(f, Grid((9,)), Grid((8,)))
    with pytest.raises(ValueError, match="3 points on axis 1: a spline needs 4"):
        interpolate(torch.zeros(8, 3), Grid.cells((8, 3)), Grid.cells((8, 8)))
