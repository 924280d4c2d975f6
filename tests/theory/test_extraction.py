"""Symbols of operators that are only applied: layers, solvers, networks, foreign ones."""

import math

import pytest
import torch

import pdno
from pdno import Grid, PseudoDifferentialOperator
from pdno.spectral.calculus import band_mask
from pdno.symbols import (
    FullSymbol,
    InputScale,
    LowRankSymbol,
    Multiplication,
    NetworkSymbol,
    SymbolValues,
    TableSymbol,
)
from pdno.symbols.base import full_values
from pdno.theory.extraction import extract_symbol
from pdno.theory.lipschitz import linearise


def layer(kind, dim, modes):
    torch.manual_seed(1)
    options = {"scale": InputScale(dim, 1.0, 2.0), "hidden": 6}
    if kind == "table":
        return TableSymbol(2, 3, modes=(modes,) * dim).double()
    if kind == "low-rank":
        return LowRankSymbol(3, 2, **options).double()
    return NetworkSymbol(2, 3, **options).double()


@pytest.mark.parametrize("shape", [(8,), (9,), (6, 8), (5, 6), (4, 3, 4)])
@pytest.mark.parametrize(("kind", "modes"), [("network", None), ("low-rank", 2), ("table", 1)])
def test_a_layer_gives_its_own_symbol_back(shape, kind, modes):
    """By waves and by rows of the transpose; away from the two lines the symbol as it is."""
    grid = Grid(shape)
    modes = None if modes is None else min(modes, shape[0] // 2, *[n // 2 for n in shape])
    symbol = layer(kind, grid.dim, modes)
    operator = PseudoDifferentialOperator(symbol, modes)
    waves = extract_symbol(operator, grid, modes=modes, batch=7)
    state = torch.randn(1, symbol.in_channels, *shape, dtype=torch.float64)
    rows = extract_symbol(operator, grid, state=state, modes=modes, batch=7)
    assert (waves.method, rows.method) == ("waves", "reverse")
    assert waves.distance(operator) < 1e-12 and rows.distance(operator) < 1e-12
    assert waves.distance(symbol, modes=modes) == waves.distance(operator)
    with torch.no_grad():
        own = full_values(symbol.evaluate(grid, modes), grid)
    last = waves.xi[..., -1].flatten()
    inside = (last != 0) & (2 * last != shape[-1])
    difference = (waves.values - own).flatten(-grid.dim)[..., inside]
    assert difference.numel() == 0 or float(difference.abs().max()) < 1e-12
    if modes is None:  # at ξ = 0 only the real part acts
        at_zero = (waves.values - own.real).flatten(-grid.dim)[..., 0]
        assert float(at_zero.abs().max()) < 1e-12


def test_extraction_and_application_are_inverse():
    """Every linear operator of a grid is a pseudo-differential one: a random matrix, too."""
    for shape in [(7,), (6,), (4, 5)]:
        grid = Grid(shape, offset=0.5)
        matrix = torch.randn(2, 3, grid.size, grid.size, dtype=torch.float64)

        def apply(f, matrix=matrix, grid=grid):
            return torch.einsum("oixy,biy->box", matrix, f.flatten(2)).reshape(
                len(f), 2, *grid.shape
            )

        f = torch.randn(4, 3, *shape, dtype=torch.float64)
        extracted = extract_symbol(apply, grid, channels=3)
        assert torch.allclose(extracted.apply(f), apply(f), atol=1e-11)


def heat(xi, t, diffusivity, speed=0.0):
    rate = -4 * math.pi**2 * diffusivity * xi**2 - 2j * math.pi * speed * xi
    return torch.exp(rate * t)


@pytest.mark.parametrize("shape", [(32,), (8, 9)])
def test_the_heat_solver_has_the_heat_symbol(shape):
    equation = pdno.Heat(diffusivity=0.05)

    def solver(u):
        return pdno.solve(equation, u, times=[0.3])[:, 0]

    extracted = extract_symbol(solver, Grid(shape), channels=1)
    assert extracted.distance(pdno.symbols.HeatSymbol(0.05), t=0.3) < 1e-10


@pytest.mark.parametrize("speed", [0.0, 0.7])
def test_burgers_around_a_constant_is_advection_and_diffusion(speed):
    """u = c + εw: w_t + c w_x = ν w_xx, on the modes that the solver keeps."""
    grid, t, viscosity = Grid((32,)), 0.2, 0.02
    equation = pdno.Burgers(viscosity=viscosity)

    def solver(u):
        return pdno.solve(equation, u, times=[t], step=2e-3)[:, 0]

    state = torch.full((1, 1, 32), speed, dtype=torch.float64)
    extracted = extract_symbol(solver, grid, state=state)
    xi = extracted.xi[:, 0].to(torch.float64)
    expected = heat(xi, t, viscosity, speed) * band_mask(grid)
    difference = (extracted.values[0, 0] - expected).abs().max()
    assert extracted.method == "differences" and 0 < extracted.error < 1e-5
    assert float(difference) < (1e-10 if speed == 0 else 1e-8)


def test_vorticity_around_rest_decays_as_heat_does():
    """Navier-Stokes without force at ω = 0, in two dimensions."""
    grid, viscosity = Grid((12, 12)), 1e-3
    equation = pdno.NavierStokes(viscosity=viscosity, forcing=0.0)

    def solver(u):
        return pdno.solve(equation, u, times=[1.0])[:, 0]

    state = torch.zeros(1, 1, 12, 12, dtype=torch.float64)
    extracted = extract_symbol(solver, grid, state=state, modes=3)
    assert extracted.distance(pdno.symbols.HeatSymbol(viscosity), t=1.0) < 1e-8


def test_a_derivative_at_a_state_that_moves():
    """Burgers around a sine: no multiplier, and the symbol applied is the directional slope."""
    grid = Grid((24,))
    equation = pdno.Burgers(viscosity=0.05)

    def solver(u):
        return pdno.solve(equation, u, times=[0.1], step=5e-3)[:, 0]

    x = grid.points()[:, 0]
    state = torch.sin(2 * math.pi * x)[None, None]
    extracted = extract_symbol(solver, grid, state=state)
    values = extracted.values[0, 0]
    assert float((values - values.mean(dim=0)).abs().max()) > 0.1
    direction = torch.exp(torch.cos(2 * math.pi * x))[None, None]
    slope = (solver(state + 1e-5 * direction) - solver(state - 1e-5 * direction)) / 2e-5
    assert torch.allclose(extracted.apply(direction), slope, atol=1e-8)


@pytest.mark.parametrize("dim", [1, 2])
def test_networks_by_rows_by_differences_and_by_their_own_derivative(dim):
    torch.manual_seed(2)
    network = pdno.PDNO(dim, 2, 2, width=3, layers=2, symbol_hidden=5, padding=0.25).double()
    for weights in network.parameters():
        weights.data *= 2
    grid = Grid((6,) * dim)
    state = torch.randn(1, 2, *grid.shape, dtype=torch.float64)
    rows = extract_symbol(network, grid, state=state)
    differences = extract_symbol(lambda f: network(f).detach(), grid, state=state)
    waves = extract_symbol(linearise(network, state), grid, channels=2)
    ways = [symbol.method for symbol in (rows, differences, waves)]
    assert ways == ["reverse", "differences", "waves"]
    assert waves.distance(rows.values) < 1e-12
    assert differences.distance(rows.values) < 1e-9
    size = float(rows.values.abs().max())
    assert differences.distance(rows.values) * size <= differences.error


def test_a_foreign_network():
    """The FNO of the neuraloperator package, in single precision."""
    models = pytest.importorskip("neuralop.models")
    torch.manual_seed(0)
    network = models.FNO(
        n_modes=(6,), hidden_channels=8, in_channels=1, out_channels=1, n_layers=2
    )
    state, direction = torch.randn(2, 1, 1, 16)
    extracted = extract_symbol(network, Grid((16,)), state=state)
    with torch.no_grad():
        slope = (network(state + 0.01 * direction) - network(state - 0.01 * direction)) / 0.02
    assert extracted.method == "reverse"
    assert torch.allclose(extracted.apply(direction).float(), slope, atol=3e-3 * slope.abs().max())


def test_values_at_a_point_and_the_mean():
    symbol = Multiplication(lambda x: torch.cos(2 * math.pi * x[..., 0]) + x[..., 1])
    grid = Grid((8, 4))
    extracted = extract_symbol(PseudoDifferentialOperator(symbol), grid)
    near = extracted.at((0.26, 0.99))  # x = (1/4, 0): the torus has no end
    assert torch.allclose(near, torch.zeros_like(near), atol=1e-12)
    there = extracted.at((0.0, 0.5))
    assert torch.allclose(there, torch.full_like(there, 1.5), atol=1e-12)
    mean = extracted.mean_over_x()
    assert mean.shape == (1, 1, *grid.half_shape)
    assert torch.allclose(mean, torch.full_like(mean, 0.375), atol=1e-12)


def test_distance_is_relative_and_takes_every_kind_of_symbol():
    grid = Grid((9,))
    twice = extract_symbol(lambda f: 2 * f, grid, channels=1)
    one = FullSymbol(lambda x, xi: torch.ones(1, 1, x.shape[0], xi.shape[1]))
    assert twice.distance(one) == pytest.approx(1.0)
    assert twice.distance(SymbolValues(torch.full((1, 1, 1, 5), 4.0 + 0j))) == pytest.approx(0.5)
    assert twice.distance(twice.values) == 0


def test_wrong_input_is_refused():
    grid = Grid((8,))
    for nonlinear in (torch.square, lambda f: f + 1):
        with pytest.raises(ValueError, match="not linear: give a state"):
            extract_symbol(nonlinear, grid, channels=1)
    with pytest.raises(ValueError, match="one sample"):
        extract_symbol(torch.square, grid, state=torch.zeros(2, 1, 8))
    with pytest.raises(ValueError, match="coarser grid, fewer channels or fewer modes"):
        extract_symbol(lambda f: f, Grid((128, 128)), channels=1, batch=2)
    with pytest.raises(ValueError, match="expected 1"):
        extract_symbol(lambda f: f, grid, channels=1).at((0.5, 0.5))
