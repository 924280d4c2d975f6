"""Systems: several fields in one equation, coupled in L or in N, beside closed-form solutions."""

import ast
import math
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

import pdno
from pdno import Grid, solve
from pdno.equations.base import EvolutionEquation, FlowRates, Semilinear
from pdno.spectral.calculus import band_limits, band_mask, laplacian_symbol
from pdno.spectral.fourier import inverse, transform
from pdno.training.task import Markov


@dataclass(frozen=True)
class Wave(EvolutionEquation):
    """u_t = v, v_t = c² Δu - s sin u, in any dimension; s = 0 is the wave equation."""

    speed: float = 1.0
    strength: float = 0.0
    fields = 2

    def discretise(self, grid, device=None):
        laplacian = laplacian_symbol(grid, device)
        zero, one = torch.zeros_like(laplacian), torch.ones_like(laplacian)
        linear = torch.stack([zero, one, self.speed**2 * laplacian, zero])
        linear, modes = linear.unflatten(0, (2, 2)), (None,) * grid.dim
        if not self.strength:
            return Semilinear(linear, modes)

        def nonlinear(u_hat):
            u = inverse(u_hat, grid.shape, modes)
            force = -self.strength * torch.sin(u[:, :1])
            return transform(torch.cat([torch.zeros_like(force), force], dim=1), grid.dim)

        def rates(u_hat):
            still = torch.zeros(len(u_hat), dtype=torch.float64)
            return FlowRates(still, still, still + self.strength)

        return Semilinear(linear, modes, nonlinear, rates)


@dataclass(frozen=True)
class GrayScott(EvolutionEquation):
    """u_t = D Δu - u w² + F (1 - u),  w_t = D/2 Δw + u w² - (F + k) w: a diagonal L."""

    diffusivity: float = 2e-5
    feed: float = 0.037
    kill: float = 0.06
    dim = 2
    fields = 2

    def discretise(self, grid, device=None):
        modes = band_limits(grid)
        columns = slice(0, modes[-1])
        laplacian = laplacian_symbol(grid, device)[:, columns] * self.diffusivity
        linear = torch.stack([laplacian - self.feed, laplacian / 2 - self.feed - self.kill])

        def nonlinear(u_hat):
            u, w = inverse(u_hat, grid.shape, modes).unbind(1)
            reaction = u * w**2
            return transform(torch.stack([self.feed - reaction, reaction], dim=1), 2, modes)

        def rates(u_hat):
            u, w = inverse(u_hat, grid.shape, modes).abs().flatten(2).amax(dim=2).unbind(1)
            still = torch.zeros_like(u)
            return FlowRates(still, still, w**2 + 2 * u * w)

        band = band_mask(grid, device)[:, columns]
        return Semilinear(linear, modes, nonlinear, rates, deformation=0.5, band=band)


def from_the_manual(name):
    """A class of docs/extending.md, which is tested as it stands there."""
    page = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
    (block,) = re.findall(rf"```python\n([^`]*class {name}\b[^`]*)```", page)
    (code,) = [part for part in ast.parse(block).body if getattr(part, "name", "") == name]
    scope = globals() | {}
    exec(compile(ast.Module([code], []), "extending.md", "exec"), scope)
    return scope[name]


ShallowWater = from_the_manual("ShallowWater")


class Pair:
    """Two independent Gaussian fields, as the position and the velocity of a membrane."""

    gaussian = pdno.GaussianField(variance=1e4, tau=5.0, alpha=3.0)

    def sample(self, grid, *, seed, indices):
        drawn = [self.gaussian.sample(grid, seed=seed + k, indices=indices) for k in (0, 1)]
        return torch.cat(drawn, dim=1)


class Lake:
    """Random waves on water at rest."""

    def sample(self, grid, *, seed, indices):
        h = Pair.gaussian.sample(grid, seed=seed, indices=indices)
        h = 0.2 * h / h.abs().amax(dim=(-2, -1), keepdim=True)
        return torch.cat([h, 0 * h, 0 * h], dim=1)


class Stirred:
    """Two substances that are nearly mixed."""

    def sample(self, grid, *, seed, indices):
        h = Lake().sample(grid, seed=seed, indices=indices)[:, :1]
        return torch.cat([0.5 + h, 0.3 - h], dim=1)


def energy(u, speed, strength=0.0):
    """∫ v²/2 + c²|∇u|²/2 - s cos u of each state (..., 2, *N)."""
    dim = u.dim() - 3
    position, velocity = u[..., 0, :] if dim == 1 else u[:, :, 0], u.select(2, 1)
    grid = Grid(tuple(u.shape[3:]))
    slope = inverse(transform(position, dim) * laplacian_symbol(grid), grid.shape)
    density = velocity**2 / 2 - speed**2 * position * slope / 2 - strength * torch.cos(position)
    return density.flatten(2).mean(-1)


@pytest.mark.parametrize("mode", [(3,), (2, -1), (1, 2, 0)])
def test_standing_waves_are_exact(mode):
    grid, speed = Grid((16, 12, 10)[: len(mode)]), 0.7
    phase = 2 * math.pi * (grid.points() @ torch.tensor(mode, dtype=torch.float64))
    omega = 2 * math.pi * speed * math.hypot(*mode)
    start = torch.stack([torch.cos(phase), torch.sin(phase)])[None]
    times = [0.0, 0.3, 2.0, 50.0]
    u = solve(Wave(speed), start, times)[0]
    assert u.shape == (4, 2, *grid.shape)
    for t, (position, velocity) in zip(times, u, strict=True):
        c, s = math.cos(omega * t), math.sin(omega * t)
        expected = c * torch.cos(phase) + s / omega * torch.sin(phase)
        assert torch.allclose(position, expected, atol=1e-10)
        expected = c * torch.sin(phase) - s * omega * torch.cos(phase)
        assert torch.allclose(velocity, expected, atol=1e-10 * omega)


def test_the_mean_of_a_wave_moves_on():
    """At ξ = 0 L is a Jordan block: u = u₀ + t v₀."""
    u = solve(Wave(), torch.ones(1, 2, 8), [3.0])[0, 0]
    assert torch.allclose(u, torch.tensor([[4.0], [1.0]], dtype=torch.float64), atol=1e-13)


@pytest.mark.parametrize("shape", [(64,), (24, 32)])
def test_the_energy_of_a_wave_stays_for_a_long_time(shape):
    start = Pair().sample(Grid(shape), seed=0, indices=[0, 1])
    times = [0.0, 1.0, 10.0, 1000.0]
    energies = energy(solve(Wave(speed=0.5), start, times), 0.5)
    for t, change in zip(times, (energies / energies[:, :1] - 1).abs().amax(0), strict=True):
        print(f"{shape} points, t = {t:g}: energy has changed by {change:.1e}")
    assert torch.allclose(energies, energies[:, :1].expand_as(energies), rtol=1e-9)


@pytest.mark.parametrize("shape", [(48,), (16, 20)])
def test_a_coupled_linear_part_beside_a_nonlinear_one_has_order_four(shape):
    equation = Wave(speed=0.3, strength=2.0)
    start = Pair().sample(Grid(shape), seed=3, indices=[0])
    reference = solve(equation, start, [2.0], step=0.0025)
    steps = (0.05, 0.025, 0.0125)
    errors = [float((solve(equation, start, [2.0], step=h) - reference).norm()) for h in steps]
    orders = [math.log2(a / b) for a, b in zip(errors, errors[1:], strict=False)]
    assert min(orders) > 3.8
    energies = energy(solve(equation, start, [0.0, 1.0, 5.0], refine=4), 0.3, 2.0)
    assert torch.allclose(energies, energies[:, :1].expand_as(energies), rtol=1e-6)


@pytest.mark.parametrize(
    ("equation", "distribution", "end", "steps"),
    [
        (ShallowWater(), Lake(), 1.0, (0.025, 0.0125, 0.00625)),
        (GrayScott(), Stirred(), 20.0, (2.0, 1.0, 0.5)),
    ],
    ids=["shallow water", "Gray-Scott"],
)
def test_systems_in_two_dimensions_have_order_four(equation, distribution, end, steps):
    start = distribution.sample(Grid((24, 32)), seed=1, indices=[0, 1])
    reference = solve(equation, start, [end], step=steps[-1] / 8)
    errors = [float((solve(equation, start, [end], step=h) - reference).norm()) for h in steps]
    orders = [math.log2(a / b) for a, b in zip(errors, errors[1:], strict=False)]
    assert min(orders) > 3.8
    own = solve(equation, start, [end])
    assert float((own - reference).norm() / reference.norm()) < 1e-4


def simple_wave(grid, mode, t, height=0.05):
    """Of water of depth 1, without viscosity: v = 2(c - 1), c² = 1 + h, c = C(x - (3c - 2) t)."""
    length = math.hypot(*mode)
    phase = grid.points() @ torch.tensor(mode, dtype=torch.float64)
    c = torch.ones_like(phase)
    for _ in range(100):
        c = 1 + height * torch.sin(2 * math.pi * (phase - (3 * c - 2) * length * t))
    speed = 2 * (c - 1) / length
    return torch.stack([c**2 - 1, mode[0] * speed, mode[1] * speed])[None]


@pytest.mark.parametrize(("shape", "mode"), [((64, 4), (1, 0)), ((96, 64), (1, -1))])
def test_shallow_water_carries_simple_waves(shape, mode):
    grid, inviscid = Grid(shape), ShallowWater(viscosity=1e-300)
    u = solve(inviscid, simple_wave(grid, mode, 0.0), [0.15], refine=2)[:, 0]
    assert (u - simple_wave(grid, mode, 0.15)).abs().max() < 1e-6
    assert u[:, 0].mean() == pytest.approx(float(simple_wave(grid, mode, 0.0)[:, 0].mean()))


def test_two_uncoupled_fields_are_two_equations():
    """A diagonal L and the same as a matrix give what each field gives alone."""
    grid = Grid((16, 16))

    @dataclass(frozen=True)
    class Two(EvolutionEquation):
        matrix: bool
        fields = 2

        def discretise(self, grid, device=None):
            one = laplacian_symbol(grid, device) * 0.05
            linear = torch.stack([one, 2 * one])
            if self.matrix:
                linear = torch.diag_embed(linear.movedim(0, -1)).movedim((-2, -1), (0, 1))
            return Semilinear(linear, (None, None))

    start = Pair().sample(grid, seed=1, indices=[0])
    alone = [solve(pdno.Heat(c), start[:, k : k + 1], [0.3]) for k, c in ((0, 0.05), (1, 0.1))]
    for matrix in (False, True):
        assert torch.allclose(solve(Two(matrix), start, [0.3]), torch.cat(alone, 2), atol=1e-12)
    rate, derivative = torch.func.jvp(Wave().rate, (start,), (start,))  # as losses need it
    assert torch.allclose(rate[:, 0], start[:, 1]) and torch.allclose(derivative, rate)


def test_spots_of_gray_and_scott_divide():
    grid = Grid((64, 64))
    near = ((grid.points() - 0.5).abs() < 0.06).all(dim=-1).double()
    start = torch.stack([1 - near / 2, near / 4])[None]
    u = solve(GrayScott(), start, [200.0, 600.0])
    finer = solve(GrayScott(), start, [200.0, 600.0], refine=3)
    assert float((u - finer).norm() / finer.norm()) < 1e-4
    spots = (u[0, :, 1] > 0.1).double().mean(dim=(-2, -1))
    assert 0 < spots[0] < spots[1]
    assert torch.allclose(u, u.mT, atol=1e-9)  # the start is symmetric


@pytest.mark.parametrize(
    ("equation", "shape", "distribution"),
    [
        (Wave(), (32,), Pair()),
        (ShallowWater(), (16, 16), Lake()),
        (GrayScott(), (16, 16), Stirred()),
    ],
    ids=["wave", "shallow water", "Gray-Scott"],
)
def test_systems_are_generated_trained_rolled_out_and_animated(equation, shape, distribution):
    grid, times, fields = Grid(shape), [0.1, 0.2, 0.3, 0.4], equation.fields
    data = pdno.generate(
        equation, grid, samples=14, times=times, distribution=distribution, seed=2
    )
    start = distribution.sample(grid, seed=2, indices=[4])
    # a batch takes the steps of its fastest sample
    assert torch.allclose(data[4][1], solve(equation, start, times)[0].float(), atol=1e-5)
    torch.manual_seed(0)
    network = pdno.FNO(len(shape), fields, fields, width=8, layers=1, modes=4)
    train, test = data.window(inputs=1).split(test=2)
    options = {"learning_rate": 1e-2, "normalization": "channel", "task": Markov()}
    operator = pdno.fit(network, train, epochs=30, batch_size=6, **options)
    assert operator.predict(test[0][0][None]).shape == (1, 3, fields, *shape)
    assert pdno.evaluate(operator, test).mean() < 0.5
    assert operator.animate(test, 0).frames == 3


def test_states_with_other_numbers_of_fields_are_refused():
    with pytest.raises(
        ValueError, match=r"a state of Wave has shape \(1, 1, 8\); expected \(B, 2"
    ):
        solve(Wave(), torch.ones(1, 1, 8), [1.0])
