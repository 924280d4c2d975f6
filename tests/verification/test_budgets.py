"""What the equations conserve or dissipate, the solutions conserve or dissipate."""

import math

import pytest
import torch
from oracles import derivative

from pdno import Burgers, Grid, NavierStokes, solve
from pdno.fields.distributions import burgers_initial, navier_stokes_initial
from pdno.spectral.calculus import laplacian_symbol
from pdno.spectral.fourier import inverse, transform


def energy_and_enstrophy(w):
    """½⟨|v|²⟩ = ½⟨ψω⟩ and ½⟨ω²⟩."""
    grid = Grid(tuple(w.shape[-2:]))
    laplacian = -laplacian_symbol(grid)
    laplacian[0, 0] = torch.inf
    psi = inverse(transform(w, 2) / laplacian, grid.shape)
    return 0.5 * (psi * w).mean(dim=(-2, -1)), 0.5 * w.square().mean(dim=(-2, -1))


def derivative_in_time(values, spacing):
    """Fourth-order central difference at the middle of five values."""
    a, b, _, d, e = values
    return (a - 8 * b + 8 * d - e) / (12 * spacing)


def test_inviscid_flow_conserves_energy_and_enstrophy():
    grid = Grid((48, 48))
    w0 = navier_stokes_initial().sample(grid, seed=0, indices=range(2))
    # the band that the solver keeps, so that nothing is cut at the start
    w0 = solve(NavierStokes(0.0, forcing=0.0), w0, [1e-9])[:, 0]
    w = solve(NavierStokes(0.0, forcing=0.0), w0, [1.0, 3.0], refine=4)[:, :, 0]
    for quantity in (0, 1):
        start = energy_and_enstrophy(w0[:, 0])[quantity]
        end = energy_and_enstrophy(w)[quantity]
        assert torch.allclose(end, start[:, None], rtol=1e-6)


def test_energy_and_enstrophy_budgets_of_the_forced_flow():
    """d/dt ½⟨|v|²⟩ = -2ν·½⟨ω²⟩ + ⟨ψf⟩ and d/dt ½⟨ω²⟩ = -ν⟨|∇ω|²⟩ + ⟨ωf⟩."""
    viscosity, h, t = 1e-2, 0.01, 1.0
    equation, grid = NavierStokes(viscosity), Grid((64, 64))
    w0 = navier_stokes_initial().sample(grid, seed=1, indices=[0])
    w = solve(equation, w0, [t + k * h for k in (-2, -1, 0, 1, 2)], step=h / 4)[0, :, 0]
    energy, enstrophy = energy_and_enstrophy(w)
    phase = 2 * math.pi * grid.points().sum(-1)
    force = 0.1 * (torch.sin(phase) + torch.cos(phase))
    now = w[2]
    laplacian = -laplacian_symbol(grid)
    laplacian[0, 0] = torch.inf
    psi = inverse(transform(now, 2) / laplacian, grid.shape)
    gradient = sum(derivative(now, order).square() for order in ((1, 0), (0, 1)))
    energy_rate = -2 * viscosity * enstrophy[2] + (psi * force).mean()
    enstrophy_rate = -viscosity * gradient.mean() + (now * force).mean()
    assert float(derivative_in_time(energy, h)) == pytest.approx(float(energy_rate), rel=1e-5)
    assert float(derivative_in_time(enstrophy, h)) == pytest.approx(
        float(enstrophy_rate), rel=1e-5
    )


def test_burgers_conserves_the_mean_and_loses_energy():
    u0 = burgers_initial().sample(Grid((256,)), seed=0, indices=range(3)) + 0.3
    u = solve(Burgers(0.02), u0, [0.1, 0.2, 0.4])
    assert torch.allclose(u.mean(-1), u0.mean(-1)[:, None].expand(-1, 3, -1), atol=1e-12)
    energy = torch.cat([u0[:, None], u], dim=1).square().mean(-1)
    assert bool((energy.diff(dim=1) < 0).all())


def test_navier_stokes_commutes_with_translations_along_the_forcing():
    """f depends on x₁ + x₂ only, so a shift along (1, -1) carries solutions to solutions."""
    w0 = navier_stokes_initial().sample(Grid((32, 32)), seed=0, indices=[0])

    def shift(w):
        return torch.roll(w, (5, -5), dims=(-2, -1))

    moved, stayed = (solve(NavierStokes(1e-3), w, [2.0]) for w in (shift(w0), w0))
    assert torch.allclose(moved, shift(stayed), atol=1e-9)
