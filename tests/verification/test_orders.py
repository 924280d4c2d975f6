"""Convergence orders of the time steppers, and spectral accuracy in space."""

import math

import numpy as np
import pytest
import torch

from pdno import Burgers, Grid, Heat, NavierStokes, solve
from pdno.fields.distributions import navier_stokes_initial
from pdno.spectral.calculus import resample


def relative(u, v):
    return float((u - v).norm() / v.norm())


def slope(steps, errors):
    return float(np.polyfit(np.log(steps), np.log(errors), 1)[0])


# Closed-form solutions, the judges of the solvers: each at one time at the points x of a grid.


def heat_mode(x, t, *, mode=1, diffusivity=0.05):
    """cos(2πkx) e^{-4π²k²ct} solves u_t = c u_xx."""
    decay = math.exp(-4 * math.pi**2 * mode**2 * diffusivity * t)
    return torch.cos(2 * math.pi * mode * x) * decay


def cole_hopf(x, t, *, viscosity, period=1.0, depth=0.5):
    """u = -2ν φ_x/φ solves Burgers' equation when φ solves the heat equation (Cole, Hopf).

    Here φ = 1 + depth·cos(kx) e^{-νk²t}, k = 2π/period, so u has every mode although φ has one.
    The coordinate x ∈ [0, 1) of the grid stands for the place period·x.
    """
    k = 2 * math.pi / period
    decay = depth * math.exp(-viscosity * k**2 * t)
    place = period * x
    return 2 * viscosity * k * decay * torch.sin(k * place) / (1 + decay * torch.cos(k * place))


def taylor_green(x, t, *, viscosity, mode=1):
    """ω = 2k cos(kx₁) cos(kx₂) e^{-2νk²t}, k = 2π·mode: transport vanishes, the vortices decay."""
    k = 2 * math.pi * mode
    decay = math.exp(-2 * viscosity * k**2 * t)
    return 2 * k * torch.cos(k * x[..., 0]) * torch.cos(k * x[..., 1]) * decay


class Wave:
    """Smooth initial data: rough data and strong diffusion lower the order near t = 0."""

    def sample(self, grid, *, seed, indices):
        phase = 2 * math.pi * grid.points().squeeze(-1)
        return (torch.sin(phase) + 0.5 * torch.cos(2 * phase))[None, None]


class TestOrderInTime:
    """The error falls with the fourth power of the step."""

    expected = 4.0
    at_least = 3.8

    @pytest.mark.parametrize(
        ("equation", "law", "grid", "final", "steps"),
        [
            (Burgers(0.02), Wave(), Grid((256,)), 0.4, (8e-3, 4e-3, 2e-3)),
            (Burgers(0.1), Wave(), Grid((128,)), 0.4, (8e-3, 4e-3, 2e-3)),
            (NavierStokes(1e-3), navier_stokes_initial(), Grid((48, 48)), 2.0, (0.1, 0.05, 0.025)),
            (NavierStokes(1e-5), navier_stokes_initial(), Grid((48, 48)), 2.0, (0.1, 0.05, 0.025)),
        ],
    )
    def test_slope(self, equation, law, grid, final, steps):
        u0 = law.sample(grid, seed=0, indices=[0])
        reference = solve(equation, u0, [final], step=steps[-1] / 8)
        errors = [relative(solve(equation, u0, [final], step=h), reference) for h in steps]
        assert self.at_least <= slope(steps, errors) <= self.expected + 0.6


def test_heat_is_exact():
    x = Grid((64,)).points().squeeze(-1)
    times = [0.0, 0.05, 0.3, 1.0]
    u = solve(Heat(0.05), heat_mode(x, 0.0, mode=3)[None, None], times)[0, :, 0]
    exact = torch.stack([heat_mode(x, t, mode=3) for t in times])
    assert float((u - exact).abs().max()) < 1e-12


def test_heat_in_three_dimensions():
    grid = Grid((8, 10, 6))
    x = grid.points()
    u0 = torch.cos(2 * math.pi * (x[..., 0] - 2 * x[..., 1] + x[..., 2]))[None, None]
    u = solve(Heat(0.01), u0, [0.2])[:, 0]
    assert torch.allclose(u, u0 * math.exp(-4 * math.pi**2 * 6 * 0.01 * 0.2), atol=1e-13)


@pytest.mark.parametrize(
    ("viscosity", "period", "depth", "points"),
    [(0.1, 1.0, 0.5, 128), (0.01, 1.0, 0.9, 512), (0.05, 2 * math.pi, 0.9, 256)],
)
def test_burgers_reaches_cole_hopf_by_itself(viscosity, period, depth, points):
    x = Grid((points,)).points().squeeze(-1)
    wave = {"viscosity": viscosity, "period": period, "depth": depth}
    times = [0.25, 1.0]
    u = solve(Burgers(viscosity, period), cole_hopf(x, 0.0, **wave)[None, None], times)[0, :, 0]
    exact = torch.stack([cole_hopf(x, t, **wave) for t in times])
    assert relative(u, exact) < 1e-8


@pytest.mark.parametrize("viscosity", [1e-2, 1e-3])
def test_taylor_green_decays_exactly(viscosity):
    x = Grid((32, 32)).points()
    times = [0.5, 3.0]
    w = solve(
        NavierStokes(viscosity, forcing=0.0),
        taylor_green(x, 0.0, viscosity=viscosity)[None, None],
        times,
    )[0, :, 0]
    exact = torch.stack([taylor_green(x, t, viscosity=viscosity) for t in times])
    assert relative(w, exact) < 1e-10


@pytest.mark.parametrize(
    ("equation", "coarse", "fine"),
    [(Burgers(0.05), (16, 32, 64), 256), (NavierStokes(1e-2), (12, 24, 48), 96)],
)
def test_space_is_spectral(equation, coarse, fine):
    """Doubling the grid gains ever more digits: faster than any fixed order."""
    dim = equation.dim
    x = Grid((fine,) * dim).points()
    phase = 2 * math.pi * x.sum(-1)
    u0 = (torch.sin(phase) + 0.5 * torch.cos(2 * math.pi * x[..., 0]))[None, None]
    reference = solve(equation, u0, [0.5], step=5e-3)[:, 0]
    errors = []
    for n in coarse:
        u = solve(equation, resample(u0, (n,) * dim), [0.5], step=5e-3)[:, 0]
        errors.append(relative(u, resample(reference, (n,) * dim)))
    gains = [math.log2(a / b) for a, b in zip(errors, errors[1:], strict=False)]
    assert gains[1] > gains[0] > 2
    assert errors[-1] < 1e-6


def test_navier_stokes_step_is_fine_enough():
    """Steps that follow the flow agree with steps four times smaller."""
    w0 = navier_stokes_initial().sample(Grid((128, 128)), seed=0, indices=[0, 1])
    times = [1, 5, 10]
    w = solve(NavierStokes(viscosity=1e-5), w0, times=times)
    assert w.shape == (2, 3, 1, 128, 128)
    finer = solve(NavierStokes(viscosity=1e-5), w0, times=times, refine=4)
    for frame in range(3):
        assert relative(w[:, frame], finer[:, frame]) < 1e-4
