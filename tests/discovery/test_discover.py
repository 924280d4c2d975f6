"""Equations from few trajectories: coefficients, coverage of bars, and what cannot be known."""

import math

import pytest
import torch

import pdno
from pdno import Generator, Grid, discover
from pdno.discovery.fit import fit_generator
from pdno.discovery.trajectories import Trajectories
from pdno.equations.base import EvolutionEquation, FlowRates, Semilinear
from pdno.spectral.calculus import band_limits, laplacian_symbol
from pdno.spectral.fourier import inverse, transform

SMOOTH = pdno.GaussianField(variance=4e6, tau=7.0, alpha=4.0)
EQUATIONS = {
    "Burgers": Generator(["u_xx", "u u_x"], [0.02, -1.0]),
    "KdV": Generator(["u_xxx", "u u_x"], [-1.0, -6.0], period=20.0),
    "Kuramoto-Sivashinsky": Generator(["u_xx", "u_xxxx", "u u_x"], [-1, -1, -1], period=22.0),
    "Fisher": Generator(["u", "u_xx", "u u"], [4.0, 0.002, -4.0]),
}
TIMES = {"Burgers": 0.2, "KdV": 0.4, "Kuramoto-Sivashinsky": 2.0, "Fisher": 0.2}


def trajectories(name, count=5, frames=5, noise=0.0, seed=0, points=48):
    """Trajectories (B, T, 1, N) of an equation with their times, and white noise."""
    u0 = SMOOTH.sample(Grid((points,)), seed=seed, indices=range(count))
    u0 = 0.4 + 0.2 * torch.tanh(u0) if name == "Fisher" else u0
    times = [TIMES[name] * k for k in range(frames + 1)]
    u = pdno.solve(EQUATIONS[name], u0, times, refine=2)
    return add_noise(u, noise, seed), times


def add_noise(u, noise, seed):
    generator = torch.Generator().manual_seed(seed + 1)
    errors = torch.randn(u.shape, generator=generator, dtype=u.dtype)
    return u + noise * u.square().mean().sqrt() * errors


@pytest.mark.parametrize("name", EQUATIONS)
def test_an_equation_is_found_from_five_trajectories(name):
    exact, (u, times) = EQUATIONS[name], trajectories(name)
    discovery = discover(u, times, period=exact.period)
    assert discovery.accepted and not discovery.alike
    values = {c.term: c.value for c in discovery.equation().coefficients}
    expected = {
        t.text: c for t, c in zip(exact.listed(), exact.coefficients.tolist(), strict=True)
    }
    assert values.keys() == expected.keys()
    assert all(values[term] == pytest.approx(expected[term], rel=1e-3) for term in expected)


def test_noise_leaves_the_terms():
    u, times = trajectories("Burgers", noise=0.01)
    discovery = discover(u, times)
    assert discovery.noise[0] == pytest.approx(0.01, rel=0.1)
    assert discovery.misfit == pytest.approx(1.0, abs=0.2)
    diffusion, transport = discovery.equation().coefficients
    assert (diffusion.term, transport.term) == ("u_xx", "u u_x")
    assert abs(diffusion.value - 0.02) < 2 * diffusion.bar < 0.02 * 0.02
    assert abs(transport.value + 1.0) < 2 * transport.bar < 0.02


def test_a_flow_in_the_plane_is_found_with_its_force():
    exact = Generator(["Δu", "v·∇u", "sin(1,1)", "cos(1,1)"], [2e-3, -1.0, 0.1, 0.1], dim=2)
    w0 = pdno.fields.distributions.navier_stokes_initial().sample(
        Grid((16, 16)), seed=0, indices=range(2)
    )
    times = [0.0, 1.0, 2.0]
    w = pdno.solve(exact, w0, times)
    discovery = discover(w, times, [*(t.text for t in exact.listed()), "u", "u_x", "Δ²u"])
    assert discovery.accepted
    assert {c.term for c in discovery.equation().coefficients} == {t.text for t in exact.listed()}
    c = {c.term: c.value for c in discovery.equation().coefficients}
    assert c["Δu"] == pytest.approx(2e-3, rel=1e-3) and c["v·∇u"] == pytest.approx(-1, rel=1e-3)


def test_bars_cover_the_truth_as_often_as_they_say():
    """Of 95 % intervals of 20 noises, two coefficients each: 38 of 40, at least 33 by chance."""
    exact, inside = EQUATIONS["Burgers"], 0
    u, times = trajectories("Burgers", count=2, frames=3, points=32)
    for seed in range(20):
        data = Trajectories(add_noise(u, 0.02, seed), tuple(times))
        fit = fit_generator(exact, data)
        errors = (fit.generator.coefficients - exact.coefficients).detach().abs()
        inside += int((errors < 1.96 * fit.covariance.diagonal().sqrt()).sum())
    assert 33 <= inside <= 40


@pytest.mark.parametrize("name", ["Burgers", "KdV"])
def test_bars_hold_the_truth_where_modes_are_not_resolved(name):
    """Samples at every other point: modes above those of the grid are errors, and no noise."""
    exact = EQUATIONS[name]
    for seed in range(3):
        u, times = trajectories(name, count=3, frames=4, seed=seed, points=96)
        data = Trajectories(u[..., ::3], tuple(times))
        assert float(data.noise) == 0.0 and not data.noisy
        fit = fit_generator(exact, data)
        errors = (fit.generator.coefficients - exact.coefficients).detach().abs()
        bars = 1.96 * fit.covariance.diagonal().sqrt()
        assert bool((errors < bars).all()) and bool((bars < 0.1 * exact.coefficients.abs()).all())


class Outside(EvolutionEquation):
    """u_t = ν u_xx + N(u, x), N of no library: a cubic term, a cubic flux, a coefficient of x."""

    dim = 1
    TERMS = {
        "Allen-Cahn": lambda u, x, d: 3 * (u - u**3),
        "cubic flux": lambda u, x, d: -d(u**3 / 3),
        "varying speed": lambda u, x, d: -(1 + 0.5 * torch.sin(2 * math.pi * x)) * d(u),
    }

    def __init__(self, name):
        self.term = self.TERMS[name]

    def discretise(self, grid, device=None):
        modes, x = band_limits(grid), grid.points()[:, 0]
        wave = 2j * math.pi * torch.arange(modes[-1])

        def nonlinear(u_hat):
            def derivative(f):
                return inverse(transform(f, 1, modes) * wave, grid.shape, modes)

            return transform(self.term(inverse(u_hat, grid.shape, modes), x, derivative), 1, modes)

        def rates(u_hat):
            still = torch.zeros(len(u_hat), dtype=torch.float64)
            return FlowRates(still + 300.0, still + 300.0, still + 6.0)

        linear = laplacian_symbol(grid, device)[: modes[-1]] * 0.01
        return Semilinear(linear, modes, nonlinear, rates)


@pytest.mark.parametrize("noise", [0.0, 0.01])
@pytest.mark.parametrize("name", Outside.TERMS)
def test_an_equation_outside_of_the_class_is_noticed(name, noise):
    u0 = SMOOTH.sample(Grid((48,)), seed=0, indices=range(4))
    times = [0.1 * k for k in range(6)]
    discovery = discover(add_noise(pdno.solve(Outside(name), u0, times), noise, 0), times)
    assert not discovery.accepted and "no equation of this form fits" in str(discovery)
    with pytest.raises(ValueError, match="no equation of this form fits"):
        discovery.equation()


def test_what_was_never_excited_is_not_identified():
    """From waves of one length nobody can tell u, u_xx and u_xxxx apart."""
    x = Grid((32,)).points()[:, 0]
    waves = torch.stack([torch.cos(2 * math.pi * (3 * x + p)) for p in (0.0, 0.1, 0.3, 0.7)])
    times = [0.0, 0.2, 0.4]
    u = pdno.solve(Generator(["u_xx"], [0.005]), waves[:, None], times)
    discovery = discover(u, times, ["u", "u_xx", "u_xxxx", "u_x"])
    assert discovery.alike == (("u", "u_xx", "u_xxxx"),)
    assert "not identifiable from these data: u, u_xx, u_xxxx act alike" in str(discovery)
    assert "not identified" in str(discovery.equation())


def test_two_fields_are_found_together():
    """A predator and its prey, of Lotka and Volterra, that diffuse."""
    terms = {"u": ["u_xx", "u", "u w"], "w": ["w_xx", "w", "u w"]}
    exact = Generator(terms, [0.01, 1.0, -1.0, 0.02, -1.0, 1.0])
    draws = [SMOOTH.sample(Grid((32,)), seed=s, indices=range(4)) for s in (0, 1)]
    u0, times = 1 + 0.4 * torch.tanh(torch.cat(draws, dim=1)), [0.3 * k for k in range(5)]
    library = ["u_xx", "w_xx", "u", "w", "u u", "u w", "w w"]
    discovery = discover(pdno.solve(exact, u0, times), times, {"u": library, "w": library})
    values = {(c.field, c.term): c.value for c in discovery.equation().coefficients}
    pairs = zip(exact.listed(), exact.coefficients.tolist(), strict=True)
    assert values == pytest.approx({(t.field, t.text): c for t, c in pairs}, rel=1e-3)


@pytest.mark.parametrize(
    ("shape", "times", "message"),
    [((2, 3, 1, 16), [0, 1], "3, 1, 16.*2 times"), ((2, 2, 1, 16), [1, 0], "do not increase")],
)
def test_wrong_trajectories_are_refused(shape, times, message):
    with pytest.raises(ValueError, match=message):
        discover(torch.ones(shape), times)
