"""Normalisers: the statistics of the training samples, on their grid and on all others."""

import math

import numpy as np
import pytest
import torch

from pdno.spectral.grid import Grid
from pdno.training.statistics import EPSILON, Normalizer, fit_normalizer

GRIDS = [Grid((12,)), Grid.cells((8, 6)), Grid((5, 7), periodic=False)]
TORI = (lambda n: Grid((n,)), lambda n: Grid((n,), offset=0.25))
# of mean 0 and unbiased deviation 1
COEFFICIENTS = torch.tensor([-1.5, 0.5, 0.5, 0.5], dtype=torch.float64)


def samples_on(grid, count=6, channels=2):
    return torch.randn(count, channels, *grid.shape, dtype=torch.float64) * 3 + 5


def family(grid, mean, deviation):
    """u_i(x) = m(x) + c_i s(x): the mean is m and the deviation s, on every grid."""
    x = grid.points()
    c = COEFFICIENTS.reshape(-1, 1, *[1] * grid.dim)
    return mean(x) + c * deviation(x)


def fine_error(coarse, fine, mean, deviation):
    """How far the encoded samples on the fine grid are from their coefficients."""
    normalizer = fit_normalizer(family(coarse, mean, deviation), coarse, "pointwise")
    encoded = normalizer.encode(family(fine, mean, deviation), fine)
    s = deviation(fine.points())
    largest = deviation(coarse.points()).max()
    expected = COEFFICIENTS.reshape(-1, 1, *[1] * fine.dim) * s / (s + EPSILON * largest)
    return (encoded - expected).abs().max().item()


@pytest.mark.parametrize("kind", ["pointwise", "channel"])
@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_decode_is_the_inverse_of_encode(grid, kind):
    samples = samples_on(grid)
    normalizer = fit_normalizer(samples, grid, kind)
    u = samples_on(grid, count=3)
    back = normalizer.decode(normalizer.encode(u, grid), grid)
    assert (back - u).abs().max() < 1e-13 * u.abs().max()


def test_a_value_that_never_changes_has_an_inverse_too():
    grid = Grid((8,), periodic=False)
    samples = samples_on(grid)
    samples[..., 0] = 0.25  # a boundary value
    normalizer = fit_normalizer(samples, grid, "pointwise")
    encoded = normalizer.encode(samples, grid)
    assert (encoded[..., 0] == 0).all() and encoded.isfinite().all()
    assert (normalizer.decode(encoded, grid) - samples).abs().max() < 1e-13


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_pointwise_statistics_are_mean_and_unbiased_deviation(grid):
    samples = samples_on(grid)
    normalizer = fit_normalizer(samples, grid, "pointwise")
    values = samples.numpy()
    np.testing.assert_allclose(normalizer.mean, values.mean(axis=0), rtol=1e-13)
    deviation = values.std(axis=0, ddof=1)
    largest = deviation.reshape(2, -1).max(axis=1).reshape(2, *[1] * grid.dim)
    np.testing.assert_allclose(normalizer.std, deviation + EPSILON * largest, rtol=1e-13)
    encoded = normalizer.encode(samples, grid)
    assert encoded.mean(dim=0).abs().max() < 1e-13
    expected = torch.from_numpy(deviation / (deviation + EPSILON * largest))
    torch.testing.assert_close(encoded.std(dim=0), expected, rtol=1e-12, atol=0)


def test_statistics_of_float32_samples_are_computed_in_float64():
    grid = Grid((4,))
    samples = torch.randn(200, 1, 4) + 4096
    normalizer = fit_normalizer(samples, grid, "pointwise")
    exact = samples.double()
    assert normalizer.std.dtype == torch.float32
    deviation = exact.std(dim=0)
    deviation = (deviation + EPSILON * deviation.max()).float()
    torch.testing.assert_close(normalizer.std, deviation, rtol=1e-6, atol=0)
    torch.testing.assert_close(normalizer.mean, exact.mean(dim=0).float(), rtol=1e-7, atol=0)


def test_frames_count_as_samples_of_their_own():
    grid = Grid((6,))
    frames = torch.randn(3, 4, 2, 6, dtype=torch.float64)
    for kind in ("pointwise", "channel"):
        normalizer = fit_normalizer(frames, grid, kind, frames=True)
        flat = fit_normalizer(frames.reshape(12, 2, 6), grid, kind)
        assert torch.equal(normalizer.mean, flat.mean) and torch.equal(normalizer.std, flat.std)
        # and they are broadcast over the axes before the channels
        torch.testing.assert_close(
            normalizer.encode(frames, grid)[:, 2], flat.encode(frames[:, 2], grid)
        )


@pytest.mark.parametrize("make", TORI)
def test_on_a_finer_torus_they_are_interpolated_with_order_four(make):
    def mean(x):
        return torch.sin(2 * math.pi * x[..., 0])

    def deviation(x):
        return 1.5 + torch.cos(2 * math.pi * x[..., 0])

    # the least deviation, at x = 1/2, lies between the points of the second torus
    errors = [fine_error(make(n), make(96), mean, deviation) for n in (16, 32)]
    assert errors[0] < 5e-3
    assert 3.5 < math.log2(errors[0] / errors[1]) < 4.6


@pytest.mark.parametrize(
    ("coarse", "fine"),
    [
        (Grid.cells((8, 8)), Grid.cells((32, 16))),
        (Grid.cells((32, 32)).coarsen(4), Grid.cells((32, 32))),
        (Grid((7, 7), periodic=False), Grid((19, 13), periodic=False)),
    ],
    ids=["cells", "every fourth cell", "both ends"],
)
def test_on_a_finer_box_cubic_statistics_are_exact(coarse, fine):
    error = fine_error(
        coarse,
        fine,
        lambda x: (x[..., 0] - 1) ** 3 + x[..., 0] * x[..., 1] ** 2,
        lambda x: 0.5 + x[..., 0] + x[..., 1] ** 3,
    )
    assert error < 1e-11


def test_on_another_grid_the_deviation_stays_above_half_the_least_one():
    """A spline through a single spike swings below zero; a deviation must not."""
    grid, fine = Grid((16,)), Grid((64,))
    std = torch.full((1, 16), 0.125, dtype=torch.float64)
    std[0, 8] = 40.0
    normalizer = Normalizer(torch.zeros_like(std), std, grid)
    one = normalizer.decode(torch.ones(1, 1, 64, dtype=torch.float64), fine)
    assert one.min().item() == pytest.approx(0.125 / 2, rel=1e-12)
    assert one[0, 0, 32].item() == pytest.approx(40.0, rel=1e-4)
    u = torch.randn(2, 1, 64, dtype=torch.float64)
    back = normalizer.decode(normalizer.encode(u, fine), fine)
    assert (back - u).abs().max() < 1e-12


def test_channel_statistics_do_not_depend_on_the_grid():
    fine = Grid.cells((8, 8))
    samples = samples_on(fine)
    normalizer = fit_normalizer(samples, fine, "channel")
    values = samples.movedim(1, 0).reshape(2, -1).numpy()
    np.testing.assert_allclose(normalizer.mean.flatten(), values.mean(axis=1), rtol=1e-13)
    deviation = (1 + EPSILON) * values.std(axis=1, ddof=1)
    np.testing.assert_allclose(normalizer.std.flatten(), deviation, rtol=1e-13)
    whole = normalizer.encode(samples, fine)
    part = normalizer.encode(samples[..., ::2, ::2], fine.coarsen(2))
    assert torch.equal(part, whole[..., ::2, ::2])
    # not even on the kind of grid
    torus = Grid((8, 8))
    assert torch.equal(normalizer.encode(samples, torus), whole)


def test_none_is_no_normaliser_and_other_words_are_refused():
    grid = Grid((8,))
    assert fit_normalizer(torch.randn(3, 1, 8), grid, "none") is None
    with pytest.raises(ValueError, match="'gaussian'; expected one of none, pointwise, channel"):
        fit_normalizer(torch.randn(3, 1, 8), grid, "gaussian")
    with pytest.raises(ValueError, match="1 sample: pointwise statistics need at least 2"):
        fit_normalizer(torch.randn(1, 1, 8), grid, "pointwise")
    with pytest.raises(ValueError, match="samples has shape"):
        fit_normalizer(torch.randn(3, 1, 9), grid, "channel")
