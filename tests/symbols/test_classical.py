"""Classical symbols: the form ⟨ξ⟩^m b(x, ω), and each property that they have by construction."""

import math

import pytest
import torch

from pdno import PDNO, Grid, apply_symbol
from pdno.networks.specification import specify
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.symbols import InputScale
from pdno.symbols.base import apply_directly, full_values
from pdno.symbols.classical import ClassicalSymbol
from pdno.symbols.mlp import ACTIVATIONS

SCALE = 3.0
SMALL = {"layers": 1, "hidden": 8}


def make(dim, channels=2, **options):
    scale = InputScale(dim, 1.0, SCALE)
    return ClassicalSymbol(channels, channels, scale=scale, **SMALL, **options).double()


def frequencies(dim, count=50, spread=20.0):
    return (spread * torch.randn(count, dim, dtype=torch.float64)).round()


def bracket(xi, scale=SCALE):
    return (1 + (xi / scale).square().sum(dim=-1)).sqrt()


@torch.no_grad()
def matrices(symbol, xi, t=None):
    """The channel matrices (M, C, C) of a symbol without x."""
    nowhere = torch.zeros(1, xi.shape[-1], dtype=torch.float64)
    return symbol.evaluate_at(nowhere, xi, t).frequency[0].movedim(-1, 0)


# The form


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("order", [-2.0, 0.0, 1.5])
def test_along_rays_the_symbol_is_a_power_times_a_limit(dim, order):
    symbol = make(dim, order=order, depends_on_x=False)
    direction = torch.randn(8, dim, dtype=torch.float64)
    near, far = (
        matrices(symbol, r * direction) / bracket(r * direction)[:, None, None] ** order
        for r in (1e4, 1e8)
    )
    assert (near - far).abs().max() < 1e-2 * far.abs().max()
    close = matrices(symbol, direction) / bracket(direction)[:, None, None] ** order
    assert (close - far).abs().max() > 0.05 * far.abs().max()  # b is no constant


@pytest.mark.parametrize("order", [-1.0, 2.0])
@torch.no_grad()
def test_the_order_is_a_factor(order):
    torch.manual_seed(3)
    plain = make(2, depends_on_x=False)
    torch.manual_seed(3)
    other = make(2, order=order, depends_on_x=False)
    xi = frequencies(2)
    expected = matrices(plain, xi) * bracket(xi)[:, None, None] ** order
    assert torch.allclose(matrices(other, xi), expected, rtol=1e-12)


@pytest.mark.parametrize("elliptic", [False, True])
def test_x_enters_with_period_one_whatever_the_scale(elliptic):
    """Values and derivatives agree at x and x + 1: this is no function of a box."""
    scale = InputScale(2, 1.3, SCALE)
    symbol = ClassicalSymbol(2, 2, scale=scale, elliptic=elliptic, **SMALL).double()
    x = torch.rand(6, 2, dtype=torch.float64)
    shifted = x + torch.tensor([1.0, -2.0])
    pairs = []
    for points in (x, shifted):
        points.requires_grad_()
        b = symbol.evaluate_at(points, torch.zeros(1, 2)).space
        (slope,) = torch.autograd.grad(b.square().sum(), points)
        pairs.append((b.detach(), slope))
    for here, there in zip(*pairs, strict=True):
        assert torch.allclose(here, there, atol=1e-12)
    b, slope = pairs[0]
    assert b.std(dim=-1).min() > 1e-4 and slope.abs().min() > 1e-6  # it does depend on x
    assert bool((b > 0).all()) or not elliptic


def test_values_on_a_grid_are_those_at_its_points():
    grid, symbol = Grid((6, 7)), make(2, order=1.0)
    values = symbol.evaluate(grid)
    at = symbol.evaluate_at(grid.points().reshape(-1, 2), grid.modes().reshape(-1, 2))
    assert torch.allclose(values.frequency.flatten(3), at.frequency, atol=1e-12)
    assert torch.allclose(values.space.flatten(3), at.space, atol=1e-12)
    with pytest.raises(ValueError, match="not chosen its frequency_scale yet: build it with one"):
        ClassicalSymbol(1, 1, scale=InputScale(1)).evaluate_at(torch.zeros(1, 1), torch.ones(1, 1))


# Real functions


def on_the_whole_lattice(symbol, f, grid):
    """Σ over all ξ, negative ones too, of a(x, ξ) f̂(ξ) e^{2πi ξ·x}, for one sample."""
    x, xi = grid.points().reshape(-1, grid.dim), grid.modes(half=False).reshape(-1, grid.dim)
    waves = torch.exp(2j * math.pi * (x @ xi.double().T))
    f_hat = f.flatten(1).to(waves) @ waves.conj() / grid.size
    values = symbol.evaluate_at(x, xi)
    b = torch.ones(1, 1, 1, len(x)) if values.space is None else values.space
    return torch.einsum("roip,roim,pm,im->op", b.to(waves), values.frequency, waves, f_hat)


@pytest.mark.parametrize("shape", [(9,), (5, 7)])
@pytest.mark.parametrize("options", [{}, {"depends_on_x": False}, {"elliptic": True}], ids=str)
@torch.no_grad()
def test_hermitian_symbols_are_what_acts(shape, options):
    """The sum over the whole lattice is real, and it is the operator of the half spectrum."""
    grid, f = Grid(shape), torch.randn(2, *shape, dtype=torch.float64)
    symbol = make(len(shape), order=1.0, **options)
    if options == {"depends_on_x": False}:  # also bit by bit
        xi = frequencies(len(shape))
        assert (matrices(symbol, -xi) - matrices(symbol, xi).conj()).abs().max() < 1e-14
    full = on_the_whole_lattice(symbol, f, grid)
    half = apply_symbol(symbol, f[None], grid)[0].flatten(1)
    assert full.imag.abs().max() < 1e-13 * full.real.abs().max()
    assert torch.allclose(full.real, half, atol=1e-12)


@torch.no_grad()
def test_without_the_symmetry_something_else_acts():
    grid, f = Grid((5, 7)), torch.randn(2, 5, 7, dtype=torch.float64)
    symbol = make(2, hermitian=False, depends_on_x=False)
    full = on_the_whole_lattice(symbol, f, grid)
    assert full.imag.abs().max() > 0.05 * full.real.abs().max()


# Structure


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("self_adjoint", [False, True])
@pytest.mark.parametrize("order", [-1.0, 2.0])
def test_elliptic_symbols_are_bounded_from_below(channels, self_adjoint, order):
    symbol = make(2, channels, order=order, depends_on_x=False, elliptic=True,
                  self_adjoint=self_adjoint)  # fmt: skip
    xi = frequencies(2)
    a = matrices(symbol, xi)
    bound = symbol.log_ellipticity.exp().item() * bracket(xi) ** order
    assert bool((torch.linalg.svdvals(a)[:, -1] >= bound * (1 - 1e-10)).all())
    if self_adjoint:
        assert torch.allclose(a, a.mH, atol=1e-12)
    elif channels > 1:
        assert (a - a.mH).abs().max() > 1e-3


@torch.no_grad()
def test_elliptic_symbols_keep_their_bound_with_x():
    symbol = make(1, 3, elliptic=True)
    x, xi = torch.rand(40, 1, dtype=torch.float64), frequencies(1)
    values = symbol.evaluate_at(x, xi)
    assert values.space.shape == (1, 1, 1, 40)  # one factor for all pairs, cheap to apply
    smallest = torch.linalg.svdvals(values.frequency[0].movedim(-1, 0))[:, -1]
    bound = symbol.log_ellipticity.exp() * values.space.min()
    assert bool((smallest[:, None] * values.space[0, 0, 0] >= bound * (1 - 1e-10)).all())


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("elliptic", [False, True])
def test_dissipative_symbols_have_no_positive_real_part(channels, elliptic):
    symbol = make(2, channels, order=2.0, depends_on_x=False, dissipative=True, elliptic=elliptic)
    xi = torch.cat([torch.zeros(1, 2), frequencies(2)])
    real = torch.linalg.eigvalsh(0.5 * (matrices(symbol, xi) + matrices(symbol, xi).mH))[:, -1]
    squared = (xi / SCALE).square().sum(dim=-1)
    bound = -symbol.log_ellipticity.exp().item() * squared if elliptic else 0 * squared
    assert bool((real <= bound + 1e-10 * (1 + squared)).all())


@torch.no_grad()
def test_self_adjoint_symbols_give_self_adjoint_operators():
    symbol = make(2, 3, order=1.0, depends_on_x=False, self_adjoint=True)
    f, g = torch.randn(2, 1, 3, 7, 9, dtype=torch.float64)
    left = (apply_symbol(symbol, f) * g).sum()
    assert left.item() == pytest.approx((f * apply_symbol(symbol, g)).sum().item(), rel=1e-10)
    other = make(2, 3, order=1.0, depends_on_x=False)
    left, right = (apply_symbol(other, f) * g).sum(), (f * apply_symbol(other, g)).sum()
    assert (left - right).abs() > 1e-3 * left.abs()


# Time


@pytest.mark.parametrize("channels", [1, 4])
@pytest.mark.parametrize("order", [0.0, 2.0])
@pytest.mark.parametrize("self_adjoint", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
@torch.no_grad()
def test_semigroup(channels, order, self_adjoint, dtype, tolerance):
    """a(0) = 1, a(s + t) = a(s) a(t), and nothing grows."""
    torch.manual_seed(1)
    symbol = make(2, channels, order=order, depends_on_x=False, takes_time=True,
                  self_adjoint=self_adjoint).to(dtype)  # fmt: skip
    xi = torch.cat([torch.zeros(1, 2, dtype=torch.float64), frequencies(2)])
    unit = torch.eye(channels, dtype=dtype.to_complex())
    assert (matrices(symbol, xi, 0.0) - unit).abs().max() < tolerance
    product = matrices(symbol, xi, 0.3) @ matrices(symbol, xi, 0.45)
    assert (matrices(symbol, xi, 0.75) - product).abs().max() < tolerance
    assert torch.linalg.matrix_norm(matrices(symbol, xi, 5.0), 2).max() < 1 + 10 * tolerance
    assert (matrices(symbol, xi, 5.0) - unit).abs().max() > 0.1


@torch.no_grad()
def test_semigroup_of_operators_and_one_time_per_sample():
    symbol = make(1, 3, order=2.0, depends_on_x=False, takes_time=True)
    f = torch.randn(2, 3, 15, dtype=torch.float64)
    twice = apply_symbol(symbol, apply_symbol(symbol, f, t=0.2), t=0.5)
    assert torch.allclose(apply_symbol(symbol, f, t=0.7), twice, atol=1e-12)
    both = apply_symbol(symbol, f, t=torch.tensor([0.2, 0.9]))
    for row, t in enumerate((0.2, 0.9)):
        alone = apply_symbol(symbol, f[row : row + 1], t=t)[0]
        assert torch.allclose(both[row], alone, atol=1e-6)  # times arrive in float32


@pytest.mark.parametrize("t", [-0.1, torch.tensor([0.2, -1.0])])
def test_there_is_no_way_back(t):
    symbol = make(1, depends_on_x=False, takes_time=True)
    with pytest.raises(ValueError, match=r"expected t >= 0: e\^\{tA\} of a dissipative A grows"):
        symbol.evaluate(Grid((8,)), t=t)


# Operators on every grid

GRIDS = [
    ((8,), None),
    ((6, 8), None),
    ((9, 7), None),
    ((10, 10), 3),
    ((8, 8), 4),
    ((8, 9), (2, 3)),
]


def operator_of(symbol, shape, modes, t=None):
    """The matrix of the operator on real fields, channels and points."""
    channels, size = symbol.in_channels, math.prod(shape)
    fields = torch.eye(channels * size, dtype=torch.float64).reshape(-1, channels, *shape)
    return apply_symbol(symbol, fields, modes=modes, t=t).flatten(1).T


@pytest.mark.parametrize(("shape", "modes"), GRIDS, ids=str)
@torch.no_grad()
def test_semigroups_on_every_grid(shape, modes):
    torch.manual_seed(2)
    symbol = make(len(shape), order=1.0, depends_on_x=False, takes_time=True)
    one, two, three = (operator_of(symbol, shape, modes, t) for t in (0.3, 0.5, 0.8))
    assert (two @ one - three).abs().max() < 1e-12
    assert torch.linalg.matrix_norm(three, 2) <= 1 + 1e-12


@pytest.mark.parametrize(("shape", "modes"), GRIDS, ids=str)
@torch.no_grad()
def test_structure_on_every_grid(shape, modes):
    """Singular values of elliptic operators: zero off the kept modes, else at least c."""
    torch.manual_seed(3)
    elliptic = make(len(shape), depends_on_x=False, elliptic=True)
    values = torch.linalg.svdvals(operator_of(elliptic, shape, modes))
    bound = elliptic.log_ellipticity.exp().item()
    assert bool(((values < 1e-12) | (values >= bound * (1 - 1e-10))).all())
    assert modes is not None or bool((values >= bound * (1 - 1e-10)).all())
    symmetric = operator_of(make(len(shape), depends_on_x=False, self_adjoint=True), shape, modes)
    assert (symmetric - symmetric.T).abs().max() < 1e-13
    a = operator_of(make(len(shape), depends_on_x=False, dissipative=True), shape, modes)
    assert torch.linalg.eigvalsh(a + a.T).max() < 1e-12


# In networks


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("depends_on_x", [True, False])
def test_networks_by_name(dim, depends_on_x):
    """Forward is the double sum, and every weight gets a gradient."""
    network = PDNO(
        dim, 1, 1, width=3, layers=2, symbol="classical", order=-1.0, depends_on_x=depends_on_x
    ).double()
    shape = (8, 6, 4)[:dim]
    network(torch.randn(2, 1, *shape, dtype=torch.float64)).square().mean().backward()
    assert all(bool(p.grad.abs().max() > 0) for p in network.parameters())
    operator, grid = network.operators[0], Grid(shape)
    assert isinstance(operator, PseudoDifferentialOperator) and operator.symbol.order == -1.0
    with torch.no_grad():
        f = torch.randn(2, 3, *shape, dtype=torch.float64)
        expected = apply_directly(full_values(operator.symbol.evaluate(grid), grid), f, grid)
        assert torch.allclose(operator(f), expected, atol=1e-11)


def band_limited(shape, most=3):
    """A fixed function of few waves, at the points of a grid, (1, 1, *N)."""
    x, dim = Grid(shape).points(), len(shape)
    draw = torch.Generator().manual_seed(0)
    xi = torch.randint(-most, most + 1, (6, dim), generator=draw).double()
    phase, size = torch.rand(2, 6, generator=draw, dtype=torch.float64)
    return (0.3 * size * torch.cos(2 * math.pi * (x @ xi.T + phase))).sum(dim=-1)[None, None]


@pytest.mark.parametrize(("dim", "points"), [(1, 256), (2, 64)])
@pytest.mark.parametrize("coordinates", [None, "periodic", "none"])
@torch.no_grad()
def test_a_provable_network_is_one_operator_on_all_grids(dim, points, coordinates):
    """From N to 2N points the output of a band-limited input changes by rounding alone."""
    torch.manual_seed(0)
    options = {"width": 6, "layers": 3, "symbol": "classical", "frequency_scale": 2.0}
    network = PDNO(dim, 1, 1, coordinates=coordinates, **options).double()
    coarse = network(band_limited((points,) * dim))
    fine = network(band_limited((2 * points,) * dim))
    change = (fine[(..., *[slice(None, None, 2)] * dim)] - coarse).abs().max()
    assert change < 1e-10 * coarse.abs().max()
    sawtooth = PDNO(dim, 1, 1, coordinates="appended", **options).double()
    assert sawtooth.lift.weight.shape[1] == 1 + dim
    one, two = (sawtooth(band_limited((n,) * dim)) for n in (points, 2 * points))
    assert (two[(..., *[slice(None, None, 2)] * dim)] - one).abs().max() > 1e-6


def test_coordinates_by_symbol_and_by_name():
    widths = {"appended": 4, "periodic": 6, "none": 2}
    for name, columns in widths.items():
        network = PDNO(2, 2, 1, width=3, coordinates=name)
        assert network.lift.weight.shape == (3, columns)
        assert network(torch.randn(1, 2, 8, 8)).shape == (1, 1, 8, 8)
    assert PDNO(2, 2, 1, width=3).coordinates == "appended"
    assert PDNO(2, 2, 1, width=3, symbol="classical").coordinates == "periodic"
    with pytest.raises(ValueError, match="coordinates is 'polar'; expected one of appended, per"):
        PDNO(1, 1, 1, width=2, coordinates="polar")
    assert specify("pdno", width=3, symbol="classical").build(1, 1, 1).coordinates == "periodic"


def test_compiled_or_not_single_precision_agrees():
    network = PDNO(2, 1, 1, width=4, layers=2, symbol="classical", modes=4)
    f = torch.randn(2, 1, 16, 16)
    with torch.no_grad():
        single = network(f)
        assert torch.allclose(single, network.double()(f.double()).float(), atol=1e-5)


def test_it_starts_near_a_symbol_without_x():
    values = make(2, 6).evaluate(Grid((8, 8)))
    assert (values.space - 1).abs().mean() < 0.3


def test_state_can_be_stored():
    symbol, other = (make(2, elliptic=True, order=1.0) for _ in range(2))
    other.load_state_dict(symbol.state_dict())
    xi = frequencies(2)
    assert torch.equal(matrices(symbol, xi), matrices(other, xi))


def test_learns_the_heat_equation():
    """One layer, a few hundred steps: the operator on unseen fields to a percent."""
    torch.manual_seed(0)
    grid, times = Grid((48,)), torch.tensor([0.1, 0.3, 0.7])
    symbol = ClassicalSymbol(
        1, 1, scale=InputScale(1, 1.0, 4.0), order=2.0, depends_on_x=False, takes_time=True
    )
    rate = 4 * math.pi**2 * 0.01 * torch.arange(25.0) ** 2
    exact = torch.exp(-rate * times[:, None])
    optimiser = torch.optim.Adam(symbol.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.StepLR(optimiser, 40, 0.5)
    for _ in range(160):
        learned = symbol.evaluate(grid, t=times).frequency.flatten(1)
        loss = torch.view_as_real(learned - exact).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    unseen = symbol.evaluate(grid, t=0.5).frequency.flatten()
    assert (unseen - torch.exp(-rate * 0.5)).abs().max() < 0.02


# Errors


def test_wrong_settings_are_named():
    smooth = [name for name, entry in ACTIVATIONS.items() if entry.order is not None]
    for activation in smooth:
        make(1, activation=activation)
    for name in ("activation", "first_activation"):
        with pytest.raises(ValueError, match="activation 'relu' of a classical .* is not smooth"):
            make(1, **{name: "relu"})
    with pytest.raises(ValueError, match="'sine'; expected one of gelu"):
        make(1, activation="sine")
    scale = InputScale(1, 1.0, 1.0)
    with pytest.raises(ValueError, match="elliptic from 2 to 3 channels: .* as many outputs"):
        ClassicalSymbol(2, 3, scale=scale, elliptic=True)
    for option in ("self_adjoint", "dissipative", "takes_time"):
        with pytest.raises(ValueError, match=f"{option} is a .* give depends_on_x=False"):
            make(1, **{option: True})
    with pytest.raises(ValueError, match="takes_time is a property .* depends_on_x=False"):
        PDNO(1, 1, 1, width=2, symbol="classical", takes_time=True)
