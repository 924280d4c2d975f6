"""The verb `solve`: shapes, batches, errors that name the sample, the time and the cure."""

import pytest
import torch

from pdno import Burgers, Darcy, Grid, Heat, NavierStokes, solve
from pdno.equations.base import (
    ACCURATE,
    FAST,
    EvolutionEquation,
    FlowRates,
    Scheme,
    Semilinear,
)
from pdno.fields.distributions import burgers_initial, navier_stokes_initial
from pdno.interface.errors import SolverError
from pdno.spectral.calculus import band_mask, laplacian_symbol


def test_time_zero_is_the_initial_state():
    u0 = burgers_initial().sample(Grid((64,)), seed=0, indices=[0])
    assert torch.equal(solve(Burgers(), u0, [0.0, 0.1])[:, 0], u0)


def test_times_in_between_change_nothing_but_rounding():
    w0 = navier_stokes_initial().sample(Grid((32, 32)), seed=0, indices=[0])
    alone = solve(NavierStokes(1e-3), w0, [2.0], refine=4)
    among = solve(NavierStokes(1e-3), w0, [0.5, 1.3, 2.0], refine=4)
    assert torch.allclose(alone[:, -1], among[:, -1], rtol=1e-6, atol=1e-7)


def test_a_batch_is_its_samples():
    w0 = navier_stokes_initial().sample(Grid((32, 32)), seed=0, indices=[0, 1])
    both = solve(NavierStokes(1e-3), w0, [1.0], step=0.02)
    alone = solve(NavierStokes(1e-3), w0[1:], [1.0], step=0.02)
    assert torch.allclose(both[1:], alone, rtol=1e-10, atol=1e-12)


def test_float32_goes_in_and_float64_comes_out():
    assert solve(Heat(), torch.ones(1, 1, 8), [1.0]).dtype == torch.float64


def test_a_step_that_is_too_large_is_an_error_that_names_sample_and_time():
    grid = Grid((64, 64))
    w0 = navier_stokes_initial().sample(grid, seed=0, indices=range(3))
    w0[1] *= 300
    with pytest.raises(SolverError, match=r"sample 1 turned non-finite between t=.* and t="):
        solve(NavierStokes(1e-5), w0, [5.0], step=0.05)


def test_a_flow_that_speeds_up_between_looks_is_stepped_again():
    """Violent initial data: the step that follows the flow stays stable and accurate."""
    w0 = 100 * navier_stokes_initial().sample(Grid((48, 48)), seed=0, indices=[0])
    w = solve(NavierStokes(1e-3), w0, [0.05])
    finer = solve(NavierStokes(1e-3), w0, [0.05], refine=4)
    assert float((w - finer).norm() / finer.norm()) < 1e-3


def test_the_fast_scheme_needs_fewer_points_and_steps():
    """At ν = 1e-5 a smooth filter on 64² is closer to 128² than the 2/3 rule on 64²."""
    finer = navier_stokes_initial().sample(Grid((128, 128)), seed=0, indices=[0])
    truth = solve(NavierStokes(1e-5), finer, [6.0])[..., ::2, ::2]

    def error(scheme):
        w = solve(NavierStokes(1e-5, scheme=scheme), finer[..., ::2, ::2], [6.0])
        assert w.dtype == scheme.dtype
        return float((w - truth).norm() / truth.norm())

    fast, accurate = error(FAST), error(ACCURATE)
    assert fast < 0.6 * accurate
    # neither single precision nor long steps add anything
    assert abs(fast - error(Scheme("smooth"))) < 0.02 * fast


def test_initial_states_enter_the_band_of_the_scheme():
    w0 = navier_stokes_initial().sample(Grid((32, 32)), seed=0, indices=[0])
    for scheme in (ACCURATE, FAST):
        w = solve(NavierStokes(1e-5, scheme=scheme), w0, [1e-9]).double()
        w_hat = torch.fft.rfft2(w[0, 0, 0], norm="forward").abs()
        outside = band_mask(Grid((32, 32)), dealiasing=scheme.dealiasing) < 1e-6
        assert float(w_hat[outside].max()) < 1e-6 * float(w_hat.max())


@pytest.mark.parametrize(
    ("options", "message"),
    [(("third",), "dealiasing"), (("smooth", 3.0), "2.8"), (("smooth", 1.0, "half"), "precision")],
)
def test_a_scheme_that_does_not_exist_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Scheme(*options)


class Dispersion(EvolutionEquation):
    """u_t = -i·D(ξ) û, a complex L with a nonlinear part that is zero."""

    dim = 1

    def discretise(self, grid, device=None):
        linear = 1j * laplacian_symbol(grid, device)
        zero = torch.zeros(1, dtype=torch.float64)
        return Semilinear(
            linear,
            (None,),
            lambda u: torch.zeros_like(u),
            lambda u: FlowRates(zero, zero, zero + 1),
        )


def test_complex_linear_parts_are_stepped_exactly():
    grid = Grid((16,))
    u0 = torch.randn(1, 1, 16, dtype=torch.float64)
    system = Dispersion().discretise(grid)
    from pdno.spectral.fourier import inverse, transform

    exact = inverse(transform(u0, 1) * torch.exp(0.3 * system.linear), (16,))
    assert torch.allclose(solve(Dispersion(), u0, [0.3], step=0.1)[:, 0], exact, atol=1e-10)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: solve(Heat(), torch.ones(4, 8), [1.0]), r"expected \(B, 1"),
        (lambda: solve(NavierStokes(), torch.ones(1, 1, 8), [1.0]), "N1, N2"),
        (lambda: solve(Burgers(), torch.ones(1, 2, 8), [1.0]), "channel"),
        (lambda: solve(Heat(), torch.ones(1, 1, 8)), "times"),
        (lambda: solve(Heat(), torch.ones(1, 1, 8), [1.0, 0.5]), "increasing"),
        (lambda: solve(Heat(), torch.ones(1, 1, 8), [-1.0]), "increasing"),
        (lambda: solve(Heat(), torch.full((2, 1, 8), torch.nan), [1.0]), "sample 0"),
        (lambda: solve(Heat(), torch.ones(1, 1, 8, dtype=torch.int64), [1.0]), "real floats"),
        (lambda: solve(Burgers(), torch.ones(1, 1, 8), [1.0], step=-1.0), "positive"),
        (lambda: solve(Darcy(), torch.ones(1, 1, 8, 8), [1.0]), "no time"),
        (lambda: Burgers(viscosity=0.0), "positive"),
        (lambda: Heat(diffusivity=-1.0), "diffusivity is -1.0"),
        (lambda: NavierStokes(viscosity=float("nan")), "viscosity"),
    ],
)
def test_wrong_input_is_refused_with_the_cure(action, message):
    with pytest.raises(ValueError, match=message):
        action()


def test_a_flow_that_starts_from_rest_under_violent_forcing_is_followed():
    """The first look sees no flow at all, and a step of a whole interval would blow up."""
    w0 = torch.zeros(1, 1, 32, 32, dtype=torch.float64)
    equation = NavierStokes(1e-2, forcing=1e3)
    w = solve(equation, w0, [0.05])
    finer = solve(equation, w0, [0.05], refine=4)
    assert float((w - finer).norm() / finer.norm()) < 1e-3
