"""The distributions: variance of every mode, independence, the same function on every grid."""

import math

import numpy as np
import pytest
import torch
from scipy.fft import dctn

from pdno.fields.distributions import (
    GaussianField,
    burgers_initial,
    darcy_permeability,
    heat_initial,
    navier_stokes_initial,
)
from pdno.spectral.fourier import transform
from pdno.spectral.grid import Grid


def mode_variance(distribution, grid, samples):
    f_hat = transform(distribution.sample(grid, seed=3, indices=range(samples)), grid.dim)
    return f_hat.abs().square().mean(dim=(0, 1))


@pytest.mark.parametrize(
    ("distribution", "grid"),
    [
        (heat_initial(), Grid((32,))),
        (burgers_initial(), Grid((33,))),
        (navier_stokes_initial(), Grid((10, 11))),
        (GaussianField(variance=3.0, tau=2.0, alpha=3.0), Grid((6, 5, 6))),
    ],
)
def test_each_mode_has_the_variance_of_the_distribution(distribution, grid):
    samples = 3000
    xi = grid.modes().double()
    expected = (
        distribution.variance
        * (4 * math.pi**2 * xi.square().sum(-1) + distribution.tau**2) ** -distribution.alpha
    )
    expected.view(-1)[0] = distribution.mean_deviation**2
    for axis, n in enumerate(grid.shape):  # modes from N/2 on are left out
        expected = expected * (xi[..., axis].abs() < n / 2)
    variance = mode_variance(distribution, grid, samples)
    assert torch.allclose(variance, expected, rtol=0.15, atol=1e-12)


def test_neumann_modes_have_the_variance_of_the_published_recipe():
    distribution, k = darcy_permeability().gaussian, 12
    g = distribution.sample(Grid.cells((k, k)), seed=1, indices=range(3000))[:, 0].numpy()
    # L[k1,k2] = K tau^(alpha-1) (pi^2 |k|^2 + tau^2)^(-alpha/2) N(0,1), orthonormal inverse DCT-II
    coefficients = dctn(g, type=2, norm="ortho", axes=(1, 2))
    k1, k2 = np.meshgrid(np.arange(k), np.arange(k), indexing="ij")
    expected = (k * 3.0 * (math.pi**2 * (k1**2 + k2**2) + 9) ** -1.0) ** 2
    expected[0, 0] = 0
    assert np.allclose((coefficients**2).mean(0), expected, rtol=0.15, atol=1e-12)


@pytest.mark.parametrize(
    ("distribution", "coarse", "fine"),
    [
        (heat_initial(), Grid((128,)), Grid((1024,))),
        (navier_stokes_initial(), Grid((32, 32)), Grid((64, 64))),
        (darcy_permeability().gaussian, Grid.cells((32, 32)), Grid.cells((96, 96))),
    ],
)
def test_a_sample_is_the_same_function_on_every_grid(distribution, coarse, fine):
    a = distribution.sample(coarse, seed=5, indices=[2])[0, 0]
    b = distribution.sample(fine, seed=5, indices=[2])[0, 0]
    if coarse.periodic:
        f, g = transform(a, coarse.dim), transform(b, fine.dim)
        kept = 10
        f, g = transform(a, coarse.dim, kept), transform(b, fine.dim, kept)
        assert torch.allclose(f, g, atol=1e-12)
    else:
        f = dctn(a.numpy(), norm="forward")[:10, :10]
        g = dctn(b.numpy(), norm="forward")[:10, :10]
        assert np.allclose(f, g, atol=1e-12)


def test_a_sample_depends_on_seed_and_index_only():
    distribution, grid = navier_stokes_initial(), Grid((16, 16))
    together = distribution.sample(grid, seed=0, indices=range(5))
    alone = torch.cat([distribution.sample(grid, seed=0, indices=[i]) for i in (4, 2)])
    assert torch.equal(together[[4, 2]], alone)
    assert not torch.equal(distribution.sample(grid, seed=1, indices=[2]), together[2:3])


@pytest.mark.parametrize(
    ("amplitude", "deviation"), [("published", 0.262), ("ported", 0.185), ("printed", 0.043)]
)
def test_navier_stokes_amplitudes(amplitude, deviation):
    distribution = navier_stokes_initial(amplitude)
    w = distribution.sample(Grid((64, 64)), seed=0, indices=range(200))
    assert float(w.std()) == pytest.approx(deviation, rel=0.05)


def test_pointwise_deviation_of_the_published_recipes():
    heat = heat_initial().sample(Grid((1024,)), seed=0, indices=range(400))
    burgers = burgers_initial().sample(Grid((1024,)), seed=0, indices=range(400))
    assert float(heat.std()) == pytest.approx(0.274, rel=0.06)
    assert float(burgers.std()) == pytest.approx(0.594, rel=0.06)


def test_two_phase_media_have_two_values_in_equal_parts():
    k = darcy_permeability().sample(Grid.cells((32, 32)), seed=0, indices=range(300))
    assert sorted(k.unique().tolist()) == [3.0, 12.0]
    assert float((k == 12).double().mean()) == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: heat_initial().sample(Grid.cells((8,)), seed=0, indices=[0]), "Grid"),
        (lambda: GaussianField(-1.0, 1.0, 1.0), "variance is -1.0; expected at least 0"),
        (lambda: GaussianField(1.0, 1.0, 1.0, boundary="open"), "boundary"),
        (lambda: navier_stokes_initial("loud"), "amplitude"),
        (lambda: heat_initial().sample(Grid((8,)), seed=-1, indices=[0]), "index is -1"),
    ],
)
def test_wrong_distributions_are_refused(action, message):
    with pytest.raises(ValueError, match=message):
        action()
