"""Constants recovered from symbols, with error bars that are true."""

import math

import pytest
import torch

import pdno
from pdno import Grid
from pdno.theory.extraction import extract_symbol, recover_diffusivity


def heat(xi, t, diffusivity):
    squared = xi.to(torch.float64).square().sum(dim=-1)
    return torch.exp(-4 * math.pi**2 * diffusivity * squared * t)


@pytest.mark.parametrize("t", [0.005, 0.3, 1.0])
@pytest.mark.parametrize("shape", [(64,), (8, 8)])
@pytest.mark.parametrize("diffusivity", [0.05, 0.4])
def test_exact_symbols(shape, t, diffusivity):
    xi = Grid(shape).modes()
    estimate = recover_diffusivity(heat(xi, t, diffusivity), xi, t)
    assert estimate.value == pytest.approx(diffusivity, rel=1e-12)
    assert estimate.error < 1e-7


def test_from_the_solver_to_the_constant():
    """Extract the symbol of the heat solver, and read its diffusivity off."""
    grid = Grid((32,))
    equation = pdno.Heat(diffusivity=0.07)

    def solver(u):
        return pdno.solve(equation, u, times=[0.2])[:, 0]

    symbol = extract_symbol(solver, grid, channels=1, modes=8)
    estimate = recover_diffusivity(symbol.mean_over_x()[0, 0], symbol.xi, 0.2)
    assert estimate.value == pytest.approx(0.07, rel=1e-10)


@pytest.mark.parametrize("noise", [1e-4, 1e-2])
@pytest.mark.parametrize("times", [[0.005], [0.05 + 0.1 * n for n in range(10)]])
def test_noise_makes_the_error_that_the_bar_says(noise, times):
    """Complex noise on all modes, also on those that have died out and are nothing but noise."""
    generator = torch.Generator().manual_seed(0)
    xi, t = torch.arange(33)[:, None], torch.tensor(times, dtype=torch.float64)[:, None]
    exact = heat(xi, t, 0.05)
    misses, bars = [], []
    for _ in range(200):
        parts = torch.randn(2, *exact.shape, generator=generator, dtype=torch.float64)
        estimate = recover_diffusivity(exact + noise * torch.complex(*parts), xi, t)
        misses.append(estimate.value - 0.05)
        bars.append(estimate.error)
    spread = torch.tensor(misses).square().mean().sqrt()
    assert float(torch.tensor(bars).mean() / spread) == pytest.approx(1, abs=0.2)
    inside = sum(abs(miss) < 2 * bar for miss, bar in zip(misses, bars, strict=True))
    assert inside >= 0.9 * 200
    # noise σ in |a| = e^{-cq} moves c by σ / (Σ q² e^{-2cq})^{1/2}, and no unbiased fit by less
    q = 4 * math.pi**2 * xi[:, 0] ** 2 * t
    least = noise / float((q.square() * exact.square()).sum().sqrt())
    assert float(spread) == pytest.approx(least, rel=0.2)


def test_given_weights_choose_the_modes():
    """With a wrong value at one mode, its weight zero gives the right constant."""
    xi = torch.arange(6)[:, None]
    values = heat(xi, 0.1, 0.05)
    values[3] *= 2
    weights = torch.ones(6)
    assert recover_diffusivity(values, xi, 0.1, weights).value < 0.049
    weights[3] = 0
    assert recover_diffusivity(values, xi, 0.1, weights).value == pytest.approx(0.05, rel=1e-12)
    # by hand: Σ w q y / Σ w q² for two modes
    q = 4 * math.pi**2 * torch.tensor([1.0, 4.0]).double() * 0.1
    y = torch.tensor([0.3, 0.5]).double()
    pair = recover_diffusivity(
        torch.exp(-y), torch.tensor([[1], [2]]), 0.1, torch.tensor([2.0, 1.0])
    )
    slope = (2 * q[0] * y[0] + q[1] * y[1]) / (2 * q[0] ** 2 + q[1] ** 2)
    assert pair.value == pytest.approx(float(slope), rel=1e-12)


def test_zeros_and_the_mode_zero_say_nothing():
    xi = torch.arange(8)[:, None]
    values = heat(xi, 0.2, 0.05)
    values[0], values[6:] = 7.0, 0.0
    assert recover_diffusivity(values, xi, 0.2).value == pytest.approx(0.05, rel=1e-12)


def test_printing_and_wrong_input():
    xi = torch.arange(4)[:, None]
    assert str(recover_diffusivity(heat(xi, 0.1, 0.05), xi, 0.1)).startswith("0.05 ± ")
    with pytest.raises(ValueError, match="axes of the modes last"):
        recover_diffusivity(torch.ones(3), xi, 0.1)
    with pytest.raises(ValueError, match="no mode"):
        recover_diffusivity(torch.zeros(4), xi, 0.1)
    with pytest.raises(ValueError, match="all weights are zero"):
        recover_diffusivity(heat(xi, 0.1, 0.05), xi, 0.1, torch.zeros(4))
