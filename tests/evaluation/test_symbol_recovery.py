"""Symbol recovery: exact symbols are recognised, known errors are measured, silence is not."""

import math
from dataclasses import replace

import pytest
import torch

from pdno.evaluation.symbol_recovery import (
    compare_heat_symbol,
    compare_velocity_law,
    roughness,
)
from pdno.fields.distributions import heat_initial
from pdno.networks.heads import Transport, TransportHead
from pdno.operators.pseudo_differential import PseudoDifferentialOperator, apply_symbol
from pdno.spectral.grid import Grid
from pdno.symbols.analytic import Advection, BiotSavart, HeatSymbol
from pdno.symbols.base import Symbol, SymbolValues
from pdno.symbols.network import LowRankSymbol, NetworkSymbol
from pdno.symbols.scale import InputScale

GRID = Grid((64,))
TIMES = (0.05, 0.5, 1.0)
T = torch.tensor(TIMES, dtype=torch.float64)
INPUTS = heat_initial().sample(GRID, seed=0, indices=range(50))


class Changed(Symbol):
    """The heat symbol with x-factor b(x, t) and error δ(ξ, t), given by functions."""

    def __init__(self, space=None, error=None):
        super().__init__(1, 1)
        self.space, self.error = space, error

    def evaluate(self, grid, modes=None, t=None):
        values = HeatSymbol(0.05).evaluate(grid, modes, t).frequency
        if self.error:
            values = values + self.error(grid.modes(modes)[:, 0], t[:, None])[:, None, None, None]
        if self.space is None:
            return SymbolValues(values)
        b = self.space(grid.points()[:, 0], t[:, None])
        return SymbolValues(values, b[:, None, None, None])


def compare(symbol, exact=None, **options):
    options = {"excitation": INPUTS, **options}
    return compare_heat_symbol(symbol, exact or HeatSymbol(0.05), GRID, TIMES, **options)


def largest(result, name="symbol difference"):
    return result.metrics()[name]


def variation(result):
    """Deviation of a1 over x relative to its mean, at each time."""
    return result.space.std(dim=1, correction=0)


def test_the_exact_symbol_has_no_difference():
    result = compare(HeatSymbol(0.05))
    assert set(result.metrics().values()) == {0.0}
    assert torch.equal(variation(result), torch.zeros(3).double())
    expected = torch.exp(-4 * math.pi**2 * 0.05 * torch.outer(T, result.xi.double() ** 2))
    assert torch.allclose(result.exact, expected + 0j, rtol=1e-12)
    assert result.xi.tolist() == list(range(-12, 13))


def test_another_diffusivity_is_off_by_its_formula():
    result = compare(HeatSymbol(0.04))
    decay = 4 * math.pi**2 * result.xi.double() ** 2 * T[:, None]
    expected = (torch.exp(-0.04 * decay) - torch.exp(-0.05 * decay)).abs()
    assert torch.allclose((result.learned - result.exact).abs(), expected, atol=1e-14)
    assert largest(result) == pytest.approx(float(expected.max()))


def test_what_acts_on_real_functions_is_compared():
    # at -ξ a network may say anything; the operator has the conjugate, and Re at ξ = 0
    values = compare(Advection((0.3,))).learned
    assert torch.allclose(values, values.flip(1).conj(), atol=1e-14)
    error = compare(Changed(error=lambda xi, t: 0.5j * (xi == 0) * torch.ones_like(t)))
    assert largest(error) == 0


def test_the_values_are_those_of_the_operator():
    torch.manual_seed(1)
    scale = InputScale(1, frequency_scale=4.0)
    symbol = NetworkSymbol(1, 1, scale=scale, takes_time=True, hidden=8).double()
    result = compare(symbol)
    x = GRID.points()[:, 0]
    for xi in (0, 1, 5):
        with torch.no_grad():
            u = apply_symbol(symbol, torch.cos(2 * math.pi * xi * x)[None, None], GRID, t=0.5)
        values = symbol.evaluate(GRID, None, 0.5)
        a1 = values.space.detach().flatten()
        learned = result.learned[1, 12 + xi]
        wave = (learned * torch.exp(2j * math.pi * xi * x)).real * a1 / a1.mean()
        assert torch.allclose(u[0, 0], wave, atol=1e-12)


def test_only_the_mean_over_x_counts_and_its_variation_is_told():
    result = compare(Changed(space=lambda x, t: 3 * t * (1 + 0.2 * torch.sin(2 * math.pi * x))))
    exact = result.exact * 3 * T[:, None]
    assert torch.allclose(result.learned, exact, rtol=1e-12)
    assert variation(result).tolist() == pytest.approx([0.2 / math.sqrt(2)] * 3)
    assert result.metrics()["symbol variation over x"] == pytest.approx(0.2 / math.sqrt(2))


def test_the_weight_is_what_an_error_costs():
    """An error δ at ±ξ changes the relative L2 error by |δ| w, at rms over the inputs."""
    for xi, delta in ((0, 0.3), (2, 0.1), (7, 0.4)):
        wrong = Changed(error=lambda k, t, xi=xi, delta=delta: delta * (k == xi).double() + 0 * t)
        result = compare(wrong)
        for row, t in enumerate(TIMES):
            times = torch.full((len(INPUTS),), t, dtype=torch.float64)
            truth, found = (
                apply_symbol(s, INPUTS, GRID, t=times) for s in (HeatSymbol(0.05), wrong)
            )
            cost = float((found - truth).norm() / truth.norm())
            assert float(result.weight[row, 12 + xi]) * delta == pytest.approx(cost, rel=1e-9)
            assert float(result.weight[row, 12 - xi]) == float(result.weight[row, 12 + xi])


def test_errors_where_the_data_are_silent_are_told_apart():
    x = GRID.points().T[None]
    inputs = torch.cos(2 * math.pi * x) + 0.5 * torch.cos(2 * math.pi * 3 * x)
    wrong = Changed(error=lambda xi, t: 0.01 * (xi == 3) + 0.7 * (xi == 4) + 0 * t)
    result = compare(wrong, excitation=inputs)
    assert (result.weight >= 0.1).any(dim=0).nonzero().flatten().tolist() == [9, 11, 13, 15]
    assert largest(result) == pytest.approx(0.7)
    assert largest(result, "symbol difference excited") == pytest.approx(0.01)
    # mode 3 has died out at t = 1, but an error there would still be seen
    assert float(result.weight[2, 15]) >= 0.1 and float(result.exact[2, 15].abs()) < 1e-7


def test_a_symbol_may_see_scaled_times():
    # e^{-4π² 0.5 ξ² (t/10)} is the heat symbol of 0.05 in its own unit of time
    result = compare(HeatSymbol(0.5), network_times=[t / 10 for t in TIMES])
    assert result.times == TIMES and largest(result) < 1e-15
    with pytest.raises(ValueError, match="3 times and 1 network times"):
        compare(HeatSymbol(0.5), network_times=[0.1])


def test_nothing_excited_has_no_largest_difference():
    compared = compare(HeatSymbol(0.04))
    silent = replace(compared, weight=0 * compared.weight)
    assert math.isnan(largest(silent, "symbol difference excited"))


def test_what_is_no_heat_symbol_is_refused():
    with pytest.raises(ValueError, match="depends on time|has no time"):
        compare(NetworkSymbol(1, 1, scale=InputScale(1), hidden=4))
    with pytest.raises(ValueError, match="sum of 2 products"):
        compare(LowRankSymbol(1, 1, rank=2, scale=InputScale(1), takes_time=True, hidden=4))
    with pytest.raises(ValueError, match="one channel in and out and one axis"):
        compare(NetworkSymbol(2, 1, scale=InputScale(1), takes_time=True, hidden=4))
    with pytest.raises(ValueError, match="limit is 32 on 64 points; expected 1 to 31"):
        compare(HeatSymbol(0.05), limit=32)
    with pytest.raises(ValueError, match="excitation"):
        compare(HeatSymbol(0.05), excitation=INPUTS[:, 0])
    with pytest.raises(ValueError, match="excitation"):
        compare(HeatSymbol(0.05), excitation=INPUTS[..., ::2])


def test_roughness_is_one_for_noise_and_small_for_smooth_symbols():
    noise = torch.randn(4, 4, 64, 32, generator=torch.Generator().manual_seed(0))
    assert roughness(noise) == pytest.approx(1.0, abs=0.02)
    line = torch.arange(64.0)
    ramp = line.expand(1, 1, 32, 64)
    # differences are 1 along one axis and 0 along the other
    steps = 32 * 63 / (32 * 63 + 31 * 64)
    expected = math.sqrt(steps / (2 * float(line.var(correction=0))))
    assert roughness(ramp) == pytest.approx(expected)
    # neighbours are those in ξ, not those in the order of the FFT
    xi = torch.tensor([0.0, 1, 2, 3, -4, -3, -2, -1])
    assert roughness(xi[:, None].expand(1, 1, 8, 3)) < 0.5
    assert math.isnan(roughness(torch.ones(1, 1, 4, 4)))
    assert roughness(torch.tensor([0.0, 1.0])[None, None]) == pytest.approx(math.sqrt(2))


def test_the_error_of_a_velocity_law_is_that_of_the_velocity_of_the_data():
    """Of p K_b with p = 1.1 and data in units of σ = 1.1 nothing is wrong, of p = 1.21 a tenth."""
    grid = Grid((16, 16))
    head = Transport(2, 1, TransportHead(velocity="biot-savart"))
    frames = torch.randn(3, 1, 16, 16, generator=torch.Generator().manual_seed(0)).double()
    with torch.no_grad():
        head.pace.fill_(1.1)
    law = compare_velocity_law(head, grid, excitation=frames, deviation=1.1)
    assert law.error() < 1e-6  # p is float32
    with torch.no_grad():
        head.pace.fill_(1.21)
    law = compare_velocity_law(head, grid, excitation=frames, deviation=1.1)
    assert law.error() == pytest.approx(0.1, rel=1e-5)
    u = PseudoDifferentialOperator(BiotSavart())(frames)
    energy = (law.weight * law.exact).norm()
    assert float(energy) == pytest.approx(float(u.square().sum(1).mean().sqrt()), rel=1e-9)


def test_a_head_without_a_velocity_law_is_refused():
    head, frames = Transport(2, 1, TransportHead()), torch.zeros(1, 1, 8, 8)
    with pytest.raises(ValueError, match="no velocity law"):
        compare_velocity_law(head, Grid((8, 8)), excitation=frames)
