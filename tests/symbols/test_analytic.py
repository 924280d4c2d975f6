"""Analytic symbols at known values, and their rule for the mode N/2."""

import math

import pytest
import torch

from pdno import Grid, apply_symbol
from pdno.symbols import (
    Advection,
    BiotSavart,
    Derivative,
    FractionalLaplacian,
    Gradient,
    HeatSymbol,
    Multiplication,
    Resolvent,
    Wave,
)

ODD = Grid((9,))  # ξ = 0..4, none of them N/2
PI = math.pi


def values(symbol, grid=ODD, modes=None, t=None):
    return symbol.evaluate(grid, modes, t).frequency[0, 0, 0]


@pytest.mark.parametrize(
    ("xi", "t", "expected"),
    [
        (1, 0.05, 0.906),
        (1, 0.5, 0.373),
        (1, 1.0, 0.139),
        (2, 0.05, 0.674),
        (2, 0.5, 0.0193),
        (2, 1.0, 3.72e-4),
        (4, 0.05, 0.206),
    ],
)
def test_heat_values_of_the_fact_sheet(xi, t, expected):
    assert values(HeatSymbol(0.05), t=t)[xi].real.item() == pytest.approx(expected, rel=5e-3)


@pytest.mark.parametrize(
    ("symbol", "t", "formula"),
    [
        (HeatSymbol(0.3), 0.2, lambda xi: math.exp(-4 * PI**2 * xi**2 * 0.06)),
        (Derivative((1,)), None, lambda xi: 2j * PI * xi),
        (Derivative((3,)), None, lambda xi: -8j * PI**3 * xi**3),
        (FractionalLaplacian(0.5), None, lambda xi: 2 * PI * xi),
        (FractionalLaplacian(-1.0), None, lambda xi: 0 if xi == 0 else 1 / (4 * PI**2 * xi**2)),
        (Resolvent(2.5), None, lambda xi: 1 / (2.5 + 4 * PI**2 * xi**2)),
        (Advection((0.7,)), 0.3, lambda xi: complex(math.cos(x := 0.42 * PI * xi), -math.sin(x))),
        (Wave(1.5), 0.3, lambda xi: math.cos(0.9 * PI * xi)),
        (Multiplication(lambda x: x[..., 0]), None, lambda xi: 1.0),
    ],
)
def test_formulas(symbol, t, formula):
    expected = torch.tensor([formula(xi) for xi in range(5)], dtype=torch.complex128)
    assert torch.allclose(values(symbol, t=t), expected, rtol=1e-14, atol=1e-14)


def test_gradients_and_velocities_have_several_outputs():
    grid, f_grid = Grid((7, 9)), Grid((16, 12))
    xi = grid.modes().double()
    gradient, flow = (symbol.evaluate(grid).frequency for symbol in (Gradient(2), BiotSavart()))
    assert gradient.shape == flow.shape == (1, 2, 1, *grid.half_shape)
    assert torch.allclose(gradient[0, :, 0], 2j * PI * xi.movedim(-1, 0))
    # the velocity has no divergence, and its curl is the vorticity but for the mean
    derivative = gradient[0, :, 0]
    assert float((derivative * flow[0, :, 0]).sum(dim=0).abs().max()) < 1e-15
    curl = derivative[0] * flow[0, 1, 0] - derivative[1] * flow[0, 0, 0]
    expected = torch.ones(grid.half_shape, dtype=torch.complex128)
    expected[0, 0] = 0
    assert torch.allclose(curl, expected, atol=1e-14)
    x, y = (2 * PI * f_grid.points()).unbind(-1)
    moved = apply_symbol(BiotSavart(), (8 * PI**2 * torch.sin(x) * torch.cos(y))[None, None])
    expected = 2 * PI * torch.stack([-torch.sin(x) * torch.sin(y), -torch.cos(x) * torch.cos(y)])
    assert torch.allclose(moved[0], expected, atol=1e-12)


def test_multiplication_has_its_function_in_space():
    grid = Grid((4, 6))
    result = Multiplication(lambda x: x[..., 0] + 10 * x[..., 1]).evaluate(grid)
    assert result.space.shape == (1, 1, 1, 4, 6)
    assert result.space[0, 0, 0, 1, 3].item() == pytest.approx(0.25 + 5.0)


def test_in_several_dimensions_modes_add_up():
    grid = Grid((5, 7, 9))
    heat = values(HeatSymbol(0.02), grid, t=0.4)
    xi = grid.modes().double()
    product = torch.exp(-4 * PI**2 * 0.008 * xi**2).prod(dim=-1)
    assert torch.allclose(heat.real, product, rtol=1e-13)
    translation = values(Advection((0.1, -0.2, 0.3)), grid, t=2.0)
    phase = -4 * PI * (0.1 * xi[..., 0] - 0.2 * xi[..., 1] + 0.3 * xi[..., 2])
    assert torch.allclose(translation, torch.polar(torch.ones_like(phase), phase), atol=1e-13)


@pytest.mark.parametrize("shape", [(8,), (8, 6), (6, 7), (7, 6), (4, 6, 8), (4, 5, 6)])
def test_the_mode_n_half_has_the_mean_of_all_its_signs(shape):
    """Where several axes meet at N/2 each sign counts the same."""
    grid, velocity = Grid(shape), (0.31, -0.77, 0.45)[: len(shape)]
    xi = grid.modes().double()
    expected = torch.ones(grid.half_shape, dtype=torch.complex128)
    for axis, v in enumerate(velocity):
        angle = 2 * PI * v * xi[..., axis]
        factor = torch.polar(torch.ones_like(angle), -angle)
        # the mean of e^{-iθ} and e^{iθ}
        nyquist = 2 * xi[..., axis].abs() == shape[axis]
        expected = expected * torch.where(nyquist, torch.cos(angle).to(factor.dtype), factor)
    assert torch.allclose(values(Advection(velocity), grid, t=1.0), expected, atol=1e-13)
    mixed = values(Derivative((1,) * len(shape)), grid)
    on_edge = torch.stack([2 * xi[..., k].abs() == n for k, n in enumerate(shape)]).any(dim=0)
    assert on_edge.any() and mixed[on_edge].abs().max() < 1e-9
    assert bool((mixed[~on_edge & (xi != 0).all(dim=-1)].abs() > 1).all())


def test_mean_of_even_symbols_is_exact():
    """Symbols that do not see the sign keep every bit."""
    grid = Grid((6, 8, 4))
    xi = grid.modes().double()
    expected = 1.0 / (0.7 + 4 * PI**2 * xi.square().sum(dim=-1))
    assert torch.equal(values(Resolvent(0.7), grid).real, expected)


@pytest.mark.parametrize("modes", [(2, 2), (3, 4), (4, 3), (None, 2), (2, None)])
def test_kept_modes_are_those_of_all_modes(modes):
    grid, symbol = Grid((8, 6)), Advection((0.3, 0.4))
    every, kept = grid.modes().reshape(-1, 2).tolist(), grid.modes(modes).reshape(-1, 2).tolist()
    whole = dict(zip(map(tuple, every), values(symbol, grid, t=1.0).flatten(), strict=True))
    some = values(symbol, grid, modes, t=1.0).flatten()
    assert torch.equal(torch.stack([whole[tuple(xi)] for xi in kept]), some)


@pytest.mark.parametrize("symbol", [HeatSymbol(0.1), Advection((0.3, 0.4)), Wave(2.0)])
@pytest.mark.parametrize("shape", [(4, 5), (6, 6)])
def test_one_time_per_sample_is_each_time_by_itself(symbol, shape):
    times = torch.tensor([0.0, 0.1, 0.5, 1.0])  # as many as columns of a half spectrum
    together = symbol.evaluate(Grid(shape), None, times).frequency
    alone = [symbol.evaluate(Grid(shape), None, t).frequency for t in times]
    assert torch.allclose(together, torch.stack(alone), rtol=0, atol=1e-15)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="HeatSymbol depends on time: give t"):
        HeatSymbol().evaluate(ODD)
    with pytest.raises(ValueError, match="Resolvent has no time: leave t out"):
        Resolvent().evaluate(ODD, t=1.0)
    with pytest.raises(ValueError, match=r"\(2, 1\); expected one number or \(B,\)"):
        HeatSymbol().evaluate(ODD, t=torch.ones(2, 1))
    with pytest.raises(ValueError, match=r"derivative \(1, 1\) on a grid of 1 axes"):
        Derivative((1, 1)).evaluate(ODD)
    with pytest.raises(ValueError, match=r"velocity \(1.0,\) on a grid of 2 axes"):
        Advection((1.0,)).evaluate(Grid((4, 4)), t=1.0)
    for shift in (0.0, -1.0):
        with pytest.raises(ValueError, match="expected z > 0, where z - Δ is invertible"):
            Resolvent(shift)
