"""Generators are the equations that they spell, beside those of the package and closed forms."""

import math

import pytest
import torch

import pdno
from pdno import Generator, Grid
from pdno.discovery.equation import Coefficient, Equation
from pdno.discovery.generator import Sensitivity
from pdno.discovery.terms import Term, usual_terms
from pdno.fields.distributions import burgers_initial, navier_stokes_initial
from pdno.symbols import ClassicalSymbol, FractionalLaplacian, InputScale
from pdno.training.losses import Residual

NAVIER_STOKES = ["Δu", "v·∇u", "sin(1,1)", "cos(1,1)"]


@pytest.mark.parametrize(
    ("generator", "equation", "points", "distribution"),
    [
        (Generator(["u_xx", "u u_x"], [0.02, -1]), pdno.Burgers(0.02), (64,), burgers_initial()),
        (
            Generator(["u_xx", "u u_x"], [0.05, -1], period=3.0),
            pdno.Burgers(0.05, period=3.0),
            (63,),
            burgers_initial(),
        ),
        (
            Generator(NAVIER_STOKES, [1e-3, -1, 0.1, 0.1], dim=2),
            pdno.NavierStokes(1e-3),
            (24, 32),
            navier_stokes_initial(),
        ),
    ],
    ids=["Burgers", "period", "Navier-Stokes"],
)
def test_generators_are_the_equations_of_the_package_to_rounding(
    generator, equation, points, distribution
):
    u0 = distribution.sample(Grid(points), seed=0, indices=range(3))
    exact, rate = equation.rate(u0), generator.rate(u0).detach()
    assert (rate - exact).abs().max() < 1e-13 * exact.abs().max()
    u = [pdno.solve(e, u0, [0.1, 0.4], step=4e-3) for e in (generator, equation)]
    assert (u[0] - u[1]).abs().max() < 1e-12
    adaptive = pdno.solve(generator, u0, [0.1, 0.4])
    assert (adaptive - u[1]).norm() < 1e-5 * u[1].norm()


def test_a_soliton_of_korteweg_and_de_vries_travels():
    """u_t = -6 u u_x - u_xxx has u = c/2 sech²(√c/2 (x - ct)); L = 40 is nearly the whole line."""
    period, speed = 40.0, 2.0
    x = period * Grid((256,)).points()[:, 0]

    def soliton(t):
        moved = (x - speed * t - period / 2 + period / 2) % period - period / 2
        return speed / 2 / torch.cosh(math.sqrt(speed) / 2 * moved) ** 2

    u = pdno.solve(
        Generator(["u_xxx", "u u_x"], [-1.0, -6.0], period=period), soliton(0)[None, None], [3.0]
    )
    assert (u[0, 0, 0] - soliton(3.0)).abs().max() < 1e-5


def test_constants_grow_as_the_logistic_function():
    u = pdno.solve(
        Generator(["u_xx", "u", "u u"], [0.01, 5, -5]), torch.full((1, 1, 16), 0.1), [1]
    )
    growth = math.exp(5.0)
    assert (u - 0.1 * growth / (0.9 + 0.1 * growth)).abs().max() < 1e-6


def test_small_waves_grow_as_kuramoto_and_sivashinsky_say():
    period, k = 22.0, 2 * math.pi / 22
    generator = Generator(["u_xx", "u_xxxx", "u u_x"], [-1, -1, -1], period=period)
    wave = 1e-6 * torch.sin(2 * torch.pi * Grid((64,)).points()).T[None]
    grown = pdno.solve(generator, wave, [2.0])[:, 0]
    assert torch.allclose(grown, math.exp(2 * (k**2 - k**4)) * wave, rtol=1e-5, atol=1e-12)


def test_two_fields_that_are_coupled_are_a_wave_equation():
    """u_t = w, w_t = u_xx: standing waves, with the coupling in N."""
    generator = Generator({"u": ["w"], "w": ["u_xx"]}, [1.0, 1.0], period=2 * math.pi)
    x = 2 * math.pi * Grid((32,)).points()[:, 0]
    start = torch.stack([torch.cos(2 * x), torch.zeros_like(x)])[None]
    u = pdno.solve(generator, start, [1.3])[0, 0]
    assert torch.allclose(u[0], math.cos(2.6) * torch.cos(2 * x), atol=1e-4)
    assert torch.allclose(u[1], -2 * math.sin(2.6) * torch.cos(2 * x), atol=2e-4)


@pytest.mark.parametrize(
    ("terms", "values", "shape"),
    [
        (["u_xx", "u u_x", "1"], [0.02, -1.0, 0.3], (48,)),
        ({"u": ["u_xx", "u w"], "w": ["w_xx", "u"]}, [0.02, -1.0, 0.03, 0.5], (32,)),
        (["Δu", "v·∇u", "cos(1,0)"], [1e-2, -1.0, 0.2], (16, 16)),
    ],
    ids=["source", "two fields", "plane"],
)
def test_sensitivities_are_derivatives(terms, values, shape):
    generator = Generator(terms, values, dim=len(shape))
    count, fields = len(values), generator.fields
    gaussian = pdno.GaussianField(variance=1e4, tau=5.0, alpha=3.0)
    draws = [gaussian.sample(Grid(shape), seed=s, indices=[0, 1]) for s in range(2 * fields)]
    u0, direction = torch.cat(draws[:fields], 1), torch.cat(draws[fields:], 1)
    direction = pdno.solve(generator.with_coefficients([0.0] * count), direction, [1.0])[:, 0]
    start = torch.zeros(2, (2 + count) * fields, *shape, dtype=torch.float64)
    start[:, :fields], start[:, -fields:] = u0, direction
    times, h = [0.05, 0.3], 1e-4
    v = pdno.solve(Sensitivity(generator, count + 1, 10.0), start, times, refine=2)
    v = v.reshape(2, 2, 2 + count, fields, *shape)
    moved = [torch.eye(count, dtype=torch.float64)[k] * h for k in range(count)]
    c = generator.coefficients.detach()
    pairs = [[(generator.with_coefficients(c + s * m), u0) for s in (1, -1)] for m in moved]
    pairs.append([(generator, u0 + s * h * direction) for s in (1, -1)])
    for k, pair in enumerate(pairs):
        up, down = (pdno.solve(g, u, times, step=2e-3) for g, u in pair)
        difference = (up - down) / (2 * h)
        assert (v[:, :, 1 + k] - difference).norm() < 1e-3 * difference.norm(), k


def test_symbols_of_any_kind_are_terms():
    """A fractional Laplacian damps a wave by e^{-(2πk)^{2s} t}; a network may be a symbol, too."""
    x = Grid((32,)).points()[:, 0]
    wave = torch.cos(6 * math.pi * x)[None, None]
    u = pdno.solve(Generator([Term("(-Δ)^s u", [FractionalLaplacian(0.6)])], [-0.1]), wave, [1.0])
    assert torch.allclose(u[:, 0], math.exp(-0.1 * (6 * math.pi) ** 1.2) * wave, atol=1e-12)
    scale = InputScale(1, 1.0, 4.0)
    symbol = ClassicalSymbol(1, 1, scale=scale, order=2.0, dissipative=True, depends_on_x=False)
    generator = Generator([Term("A(D)u", [symbol]), "u u_x"], [1.0, -1.0])
    generator.rate(wave).square().sum().backward()
    assert all(p.grad is not None for p in symbol.parameters() if p.requires_grad)
    assert pdno.solve(generator, wave, [0.1]).norm() < wave.norm()


def test_generators_make_data_losses_and_certificates():
    generator = Generator(["u_xx", "u u_x"], [0.05, -1.0], period=2.0)
    data = pdno.generate(
        generator, Grid((32,)), samples=2, times=[0.1], distribution=burgers_initial()
    )
    assert data[0][1].shape == (1, 1, 32)
    residual = Residual(generator)
    assert "u_xx" in str(residual.describe())
    symbol = generator.linear_symbol()
    assert pdno.certify(symbol, order=2.0).accepted
    value = symbol.evaluate_at(torch.zeros(1, 1), torch.tensor([[3.0]])).frequency.item()
    assert value == pytest.approx(-0.05 * (math.pi * 3) ** 2)


def test_equations_are_read_as_text_and_latex():
    equation = Generator(["u_xx", "u u_x", "cos(1)", "1"], [0.1, -1.0, 0.5, -2.0]).equation()
    assert str(equation) == "u_t = 0.1 u_xx - u u_x + 0.5 cos 2π(x) - 2"
    assert equation.latex == r"u_t = 0.1 u_{xx} - u \, u_{x} + 0.5 \cos 2\pi(x) - 2"
    flow = Generator(["Δu", "v·∇u", "sin(1,-2)"], [1e-3, -1, 1], dim=2).equation()
    assert str(flow) == "u_t = 0.001 Δu - v·∇u + sin 2π(x-2y)"
    covariance = torch.diag(torch.tensor([1e-3, 0.2])).square()
    fitted = Generator(["u_xx", "u u_x"], [0.1004, -0.9], covariance=covariance).equation()
    assert str(fitted) == "u_t = (0.1004 ± 0.0020) u_xx - (0.90 ± 0.39) u u_x"
    assert str(fitted.simplified()) == "u_t = 0.1 u_xx - (0.90 ± 0.39) u u_x"


@pytest.mark.parametrize(
    ("value", "error", "simple"),
    [(0.1004, 1e-3, 0.1), (0.1004, 1e-4, None), (-1.01, 0.4, None), (0.9997, 1e-4, None)]
    + [(-1.0001, 1e-4, -1.0), (6.02, 0.02, 6.0), (0.0123, 1e-5, 0.0123), (2.0, None, None)],
)
def test_numbers_are_simplified_only_where_the_bars_allow_one(value, error, simple):
    assert Coefficient("u", 0, value, error).simple() == simple


def test_unidentified_coefficients_are_marked():
    equation = Equation(("u",), (Coefficient("u_xx", 0, 0.12, 0.5, identified=False),))
    assert "not identified" in str(equation) and equation.simplified() == equation


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        (["u_xy"], "cannot read 'u_xy'"),
        (["w"], "cannot read 'w'.*fields u"),
        (["u u u"], "3 symbols"),
        (["cos(1,2)"], "2 numbers in 1 dim"),
        (["v·∇u"], "in 1 dimensions; expected a flow"),
        ([], "0 terms"),
    ],
)
def test_wrong_terms_are_refused_by_name(terms, message):
    with pytest.raises(ValueError, match=message):
        Generator(terms)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_the_usual_terms_can_be_read(dim):
    for names in (("u",), ("u", "w")):
        library = usual_terms(dim, names)
        assert len(set(library)) == len(library)
        Generator({name: library for name in names}, dim=dim)


def test_differences_of_solutions_grow_no_faster_than_the_generator_says():
    """|w(t)| <= |w(0)| exp ∫ μ(u) ds for solutions of u_t = -u_xx - u_xxxx - u u_x."""
    chaos = Generator(["u_xx", "u_xxxx", "u u_x"], [-1.0, -1.0, -1.0], period=22.0)
    draws = pdno.GaussianField(4e6, tau=7.0, alpha=4.0).sample(Grid((32,)), seed=0, indices=[0, 1])
    u0 = torch.stack([draws[0], draws[0] + 0.3 * draws[1]])
    times = [0.05 * k for k in range(41)]
    u = pdno.solve(chaos, u0, times)
    growth = chaos.growth(u[0])
    distance = (u[1] - u[0]).flatten(1).norm(dim=1)
    most = distance[0] * torch.exp(torch.cumulative_trapezoid(growth, dx=0.05))
    assert bool((distance[1:] <= 1.001 * most).all())
    # at rest it is the largest Re A(ξ): k² - k⁴ with k = 2πξ/22 at ξ = 2
    k = 2 * math.pi * torch.tensor([2.0, 3.0]) / 22
    assert float(chaos.growth(0 * u0[:1])) == pytest.approx(float((k**2 - k**4).max()), rel=1e-6)
    assert float(Generator(["u_xx", "u u_x"], [0.1, -1.0]).growth(0 * u0[:1])) < 1e-9
