"""Errors: exact values of single modes, Parseval, the order of the spaces H^s, bands."""

import math

import pytest
import torch
from oracles import derivative

from pdno.spectral.calculus import resample
from pdno.spectral.grid import Grid
from pdno.spectral.metrics import (
    band_errors,
    relative_error,
    relative_l2,
    sobolev_norm,
    sobolev_weights,
)

SHAPES = [(16,), (15,), (8, 12), (9, 8), (4, 5, 6)]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def fields(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def wave(shape, xi, shift=0.3):
    phase = 2 * math.pi * (Grid(shape).points() * torch.tensor(xi).double()).sum(-1)
    return torch.cos(phase + shift)[None, None]


# Relative L2


def test_a_multiple_of_the_truth_is_off_by_its_factor():
    u = fields(3, 2, 8, 8)
    assert torch.equal(relative_l2(u, u), torch.zeros(3).double())
    assert torch.allclose(relative_l2(1.1 * u, u), torch.full((3,), 0.1).double(), rtol=1e-13)


def test_the_error_of_known_numbers():
    target = torch.tensor([[[3.0, 4.0]], [[0.0, 2.0]]])
    prediction = torch.tensor([[[3.0, 1.0]], [[1.5, 0.0]]])
    assert relative_l2(prediction, target).tolist() == pytest.approx([3 / 5, 2.5 / 2])


def test_frames_and_block_are_one_norm():
    u, v = fields(2, 3, 5, 2, 8)
    frames = relative_l2(v, u, keep=2)
    sizes = u.flatten(2).norm(dim=2)
    block = (frames * sizes).norm(dim=1) / sizes.norm(dim=1)
    assert frames.shape == (3, 5)
    assert torch.allclose(relative_l2(v, u), block, rtol=1e-12)


def test_samples_do_not_see_each_other():
    u, v = fields(2, 4, 1, 8)
    assert torch.allclose(relative_l2(v, u)[2:3], relative_l2(v[2:3], u[2:3]), rtol=1e-14)


@pytest.mark.parametrize("metric", ["relative_l2", "h1", "bands"])
def test_a_target_of_zero_has_no_relative_error(metric):
    u = fields(2, 1, 8)
    u[1] = 0
    compute = {
        "relative_l2": lambda: relative_l2(u + 1, u),
        "h1": lambda: relative_error(u + 1, u, dim=1, s=1.0),
        "bands": lambda: band_errors(u + 1, u, dim=1, edges=[0, 2]),
    }[metric]
    with pytest.raises(ValueError, match="zero everywhere"):
        compute()


def test_shapes_must_agree_before_broadcasting_hides_it():
    u = fields(4, 1, 8)
    for compute in (
        lambda: relative_l2(u[:1], u),
        lambda: relative_error(u[:1], u, dim=1, s=1.0),
        lambda: band_errors(u[:1], u, dim=1, edges=[0]),
    ):
        with pytest.raises(ValueError, match=r"\(1, 1, 8\) and target \(4, 1, 8\)"):
            compute()


# H^s


@every_shape
def test_order_zero_is_parseval(shape):
    u = fields(3, 2, *shape)
    mean_square = u.square().sum(dim=1).flatten(1).mean(dim=1)
    assert torch.allclose(sobolev_norm(u, 0.0, dim=len(shape)) ** 2, mean_square, rtol=1e-12)


@pytest.mark.parametrize("s", [-1.5, 0.5, 1.0, 2.0])
@pytest.mark.parametrize(
    ("shape", "xi"), [((16,), (3,)), ((16, 12), (2, 3)), ((16, 12), (-5, 1)), ((9, 8), (4, 0))]
)
def test_the_norm_of_a_wave(shape, xi, s):
    # cos has two coefficients of size 1/2
    expected = (1 + sum(k * k for k in xi)) ** (s / 2) / math.sqrt(2)
    assert float(sobolev_norm(wave(shape, xi), s, dim=len(shape))) == pytest.approx(expected)


@pytest.mark.parametrize("s", [-1.0, 1.0])
def test_the_norm_of_the_highest_mode(s):
    # (-1)^i is one coefficient of size 1 at N/2
    u = (-1.0) ** torch.arange(12, dtype=torch.float64)[None, None]
    assert float(sobolev_norm(u, s, dim=1)) == pytest.approx((1 + 36) ** (s / 2))


def test_order_one_is_the_function_and_its_gradient():
    u = resample(fields(2, 1, 7, 9), (16, 18))  # without the mode N/2, which has no derivative
    gradient = derivative(u, (1, 0)).square() + derivative(u, (0, 1)).square()
    energy = (u.square() + gradient / (4 * math.pi**2)).flatten(1).mean(dim=1)
    assert torch.allclose(sobolev_norm(u, 1.0, dim=2) ** 2, energy, rtol=1e-12)


@every_shape
def test_norms_grow_with_the_order_and_interpolate(shape):
    u = fields(4, 1, *shape)
    norms = [sobolev_norm(u, s, dim=len(shape)) for s in (-2.0, -1.0, 0.0, 1.0, 2.0)]
    for lower, middle, upper in zip(norms, norms[1:], norms[2:], strict=False):
        assert (lower < middle).all()
        assert (middle**2 <= lower * upper * (1 + 1e-12)).all()


def test_a_constant_has_one_norm_for_all_orders():
    u = torch.full((1, 1, 8, 8), -2.5).double()
    assert [float(sobolev_norm(u, s, dim=2)) for s in (-3.0, 0.0, 4.0)] == pytest.approx([2.5] * 3)


def test_a_norm_belongs_to_the_function_not_to_its_grid():
    u = fields(2, 1, 7, 9)
    for fine in [(16, 18), (9, 32)]:
        coarse, other = sobolev_norm(u, 1.5, dim=2), sobolev_norm(resample(u, fine), 1.5, dim=2)
        assert torch.allclose(coarse, other, rtol=1e-12)


def test_frames_can_be_kept_apart():
    u = fields(2, 3, 1, 8, 8)
    apart = sobolev_norm(u, 1.0, dim=2, keep=2)
    assert torch.allclose(apart[1], sobolev_norm(u[1], 1.0, dim=2), rtol=1e-13)
    assert torch.allclose(apart.norm(dim=1), sobolev_norm(u, 1.0, dim=2), rtol=1e-13)


@every_shape
def test_weights_count_every_mode_once(shape):
    whole = Grid(shape).modes(half=False).double()
    expected = float((1 + whole.square().sum(-1)).pow(0.75).sum())
    assert float(sobolev_weights(Grid(shape), 1.5).sum()) == pytest.approx(expected)


def test_high_modes_weigh_more_in_h1_and_less_in_negative_orders():
    u = wave((64,), (1,))
    v = u + 0.01 * wave((64,), (20,))
    weigh = {s: float(relative_error(v, u, dim=1, s=s)) for s in (-1.0, 0.0, 1.0)}
    for s, value in weigh.items():
        assert value == pytest.approx(0.01 * (401 / 2) ** (s / 2))


def test_errors_have_finite_gradients_even_at_the_truth():
    u = fields(2, 1, 8)
    for s in (0.0, 1.0):
        v = u.clone().requires_grad_()
        relative_error(v, u, dim=1, s=s).sum().backward()
        assert torch.isfinite(v.grad).all()


def test_the_gradient_of_h1_is_that_of_its_formula():
    u, start = fields(2, 2, 1, 8)
    compute = lambda v: relative_error(v, u, dim=1, s=1.0)  # noqa: E731
    assert torch.autograd.gradcheck(compute, start.requires_grad_())


# Bands


@every_shape
@pytest.mark.parametrize("edges", [[0], [0, 1, 2, 4], [0, 3, 50]])
def test_bands_add_up_in_squares(shape, edges):
    u, v = fields(2, 3, 2, *shape)
    bands = band_errors(v, u, dim=len(shape), edges=edges)
    assert bands.shape == (3, len(edges))
    assert torch.allclose(bands.norm(dim=1), relative_l2(v, u), rtol=1e-12)


@pytest.mark.parametrize(("xi", "band"), [((0, 0), 0), ((1, 0), 1), ((-3, 2), 2), ((2, -7), 3)])
def test_a_wave_lies_in_the_band_of_its_largest_component(xi, band):
    u = fields(1, 1, 16, 16)
    error = wave((16, 16), xi)
    bands = band_errors(u + error, u, dim=2, edges=[0, 1, 2, 4])[0]
    expected = torch.zeros(4).double()
    expected[band] = error.norm() / u.norm()
    assert torch.allclose(bands, expected, atol=1e-12)


def test_bands_of_trajectories_hold_all_frames():
    u, v = fields(2, 3, 5, 1, 16)
    bands = band_errors(v, u, dim=1, edges=[0, 2])
    alone = band_errors(v.flatten(1, 2), u.flatten(1, 2), dim=1, edges=[0, 2])
    assert torch.allclose(bands, alone, rtol=1e-13)
