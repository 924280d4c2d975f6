"""The warp v(x + δ(x)): shifts, convergence, gradients, adjoints, the compiled kernel."""

import math

import pytest
import torch

from pdno import Grid
from pdno.operators import compiled, reference
from pdno.operators.warp import DEGREES, interpolation_coefficients, read_between, warp

SHAPES = {1: (24,), 2: (12, 10), 3: (6, 8, 5)}
ORDERS = {"keys": 2.7, "cubic": 3.7, "quintic": 5.5}


def wave(x):
    """A smooth periodic field of x (*N, d), (1, 1, *N)."""
    phase = sum((axis + 1) * 2 * math.pi * x[..., axis] for axis in range(x.shape[-1]))
    return (torch.sin(phase) + 0.5 * torch.cos(2 * math.pi * x[..., 0]))[None, None]


def constant(shift, shape, batch=1):
    d = torch.tensor(shift, dtype=torch.float64).reshape(1, -1, *[1] * len(shape))
    return d.expand(batch, -1, *shape)


@pytest.mark.parametrize("interpolation", DEGREES)
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_whole_steps_are_rolls(dim, interpolation):
    shape = SHAPES[dim]
    v = torch.randn(2, 3, *shape, dtype=torch.float64)
    steps = [3, -5, 2][:dim]
    shift = constant([s / n for s, n in zip(steps, shape, strict=True)], shape, 2)
    moved = warp(v, shift, interpolation)
    expected = v.roll([-s for s in steps], dims=tuple(range(2, 2 + dim)))
    torch.testing.assert_close(moved, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("interpolation", DEGREES)
@pytest.mark.parametrize("dim", [1, 2])
def test_it_converges_with_its_order(dim, interpolation):
    errors = []
    for n in (16, 32):
        x = Grid((n,) * dim).points()
        shift = [0.0137, -0.2071, 0.3333][:dim]
        d = 0.03 * torch.sin(2 * math.pi * x) + torch.tensor(shift, dtype=torch.float64)
        moved = warp(wave(x), d.movedim(-1, 0)[None], interpolation)
        errors.append((moved - wave(x + d)).abs().max())
    assert math.log2(errors[0] / errors[1]) > ORDERS[interpolation] and errors[1] < 3e-3


@pytest.mark.parametrize(
    ("interpolation", "expected"), [("keys", 0.073), ("cubic", 0.0145), ("quintic", 0.0011)]
)
def test_errors_at_the_highest_frequencies(interpolation, expected):
    """The largest error for a wave of frequency 28 on 64 points, as docs/training.md has it."""
    x = torch.arange(64, dtype=torch.float64) / 64
    shifts = torch.linspace(0, 1 / 64, 101, dtype=torch.float64)[:, None, None]
    v = torch.cos(2 * math.pi * 28 * x)[None, None].expand(len(shifts), 1, 64)
    moved = warp(v, shifts.expand(-1, 1, 64), interpolation)
    error = (moved - torch.cos(2 * math.pi * 28 * (x + shifts))).abs().max()
    assert float(error) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_a_turn_around_the_domain_changes_nothing(dim):
    shape = SHAPES[dim]
    v = torch.randn(1, 2, *shape, dtype=torch.float64)
    d = 0.1 * torch.randn(1, dim, *shape, dtype=torch.float64)
    torch.testing.assert_close(warp(v, d), warp(v, d + 1), rtol=0, atol=1e-11)


@pytest.mark.parametrize("interpolation", DEGREES)
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_gradients_and_the_adjoint(dim, interpolation):
    shape = {1: (5,), 2: (4, 3), 3: (2, 3, 2)}[dim]
    torch.manual_seed(0)
    v = torch.randn(1, 2, *shape, dtype=torch.float64, requires_grad=True)
    d = 0.3 * torch.randn(1, dim, *shape, dtype=torch.float64)
    refine = 1 if dim == 3 else 2
    assert torch.autograd.gradcheck(
        lambda v, d: warp(v, d, interpolation, refine), (v, d.requires_grad_())
    )
    u, w, d = torch.randn_like(v), torch.randn_like(v), d.detach()
    (adjoint,) = torch.autograd.grad(warp(v, d, interpolation), v, w)
    u = u.detach()
    assert abs(float((warp(u, d, interpolation) * w).sum() - (u * adjoint).sum())) < 1e-12


@pytest.mark.parametrize("interpolation", DEGREES)
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_the_kernel_agrees_with_the_reference(dim, interpolation):
    shape, degree = SHAPES[dim], DEGREES[interpolation]
    v, d = torch.randn(2, 3, *shape), 0.7 * torch.randn(2, dim, *shape)
    c = interpolation_coefficients(v, interpolation, 2)
    pairs = [[c.clone().requires_grad_(), d.clone().requires_grad_()] for _ in range(2)]
    grad = torch.randn_like(v)
    for function, inputs in zip((compiled.read_spline, reference.read_spline), pairs, strict=True):
        function(*inputs, degree).backward(grad)
    torch.testing.assert_close(
        compiled.read_spline(c, d, degree), reference.read_spline(c, d, degree), rtol=0, atol=1e-5
    )
    for ours, theirs in zip(*pairs, strict=True):
        scale = float(theirs.grad.abs().max())
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=3e-6 * scale)


def test_the_kernel_has_the_same_bits_with_any_number_of_threads():
    c, d = torch.randn(3, 2, 48, 40), torch.randn(3, 2, 24, 20)
    threads, results = torch.get_num_threads(), []
    for count in (1, 2, 5):
        torch.set_num_threads(count)
        inputs = c.clone().requires_grad_(), d.clone().requires_grad_()
        out = read_between(*inputs, "quintic")
        out.square().sum().backward()
        results.append([out.detach(), *(tensor.grad for tensor in inputs)])
    torch.set_num_threads(threads)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1e30, 3e9])
def test_displacements_beyond_any_use_stay_in_bounds(wrong):
    c, d = torch.randn(1, 1, 32, 32), torch.zeros(1, 2, 16, 16)
    d[0, 1, 3, 4] = wrong
    inputs = c.requires_grad_(), d.requires_grad_()
    out = compiled.read_spline(*inputs, 3)
    out.sum().backward()
    others = torch.ones(16, 16, dtype=torch.bool)
    others[3, 4] = False
    assert out[0, 0, 3, 4].isnan() and bool(out[0, 0][others].isfinite().all())


@pytest.mark.parametrize(
    ("coefficients", "displacement", "degree"),
    [
        ((1, 1, 32), (1, 2, 16), 3),
        ((1, 1, 30), (1, 1, 16), 3),
        ((2, 1, 32), (1, 1, 16), 3),
        ((1, 1, 32), (1, 1, 16), 4),
        ((1, 1, 8, 8, 8, 8), (1, 4, 4, 4, 4, 4), 3),
    ],
)
def test_wrong_shapes_never_reach_the_kernel(coefficients, displacement, degree):
    with pytest.raises(ValueError, match=r"expected|needs"):
        compiled.read_spline(torch.zeros(coefficients), torch.zeros(displacement), degree)
