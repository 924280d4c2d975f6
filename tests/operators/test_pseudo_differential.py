"""Laws of the pseudo-differential operator: what every symbol must do, and known operators."""

import math

import pytest
import torch
from oracles import derivative

import pdno
from pdno import PDIO, Grid, PseudoDifferentialOperator, apply_symbol
from pdno.operators import pseudo_differential
from pdno.operators.pseudo_differential import FourierIntegralOperator
from pdno.spectral.fourier import inverse, transform
from pdno.symbols import (
    Advection,
    Derivative,
    FractionalLaplacian,
    HeatSymbol,
    InputScale,
    LowRankSymbol,
    Multiplication,
    NetworkSymbol,
    Resolvent,
    Symbol,
    SymbolValues,
    TableSymbol,
    Wave,
)
from pdno.symbols.base import apply_directly, full_values

SHAPES = [(12,), (9,), (8, 6), (6, 7), (7, 8), (4, 5, 6)]
SMALL = {"layers": 1, "hidden": 5}
KINDS = ["network", "xi", "low-rank", "shared", "table"]


class Given(Symbol):
    """A symbol that is nothing but its values."""

    def __init__(self, frequency, space=None):
        super().__init__(frequency.shape[-1 - (frequency.dim() - 3)], frequency.shape[1])
        self.values = SymbolValues(frequency, space)

    def evaluate(self, grid, modes=None, t=None):
        return self.values


def make(kind, dim, modes=None, *, inputs=2, outputs=3, **options):
    """An operator in float64 whose scales do not depend on the grid."""
    options = {"scale": InputScale(dim, 1.2, 2.5), **SMALL, **options}
    if kind == "table":
        modes = modes or (2,) * dim
        symbol = TableSymbol(inputs, outputs, modes=modes)
    elif kind in ("network", "xi"):
        symbol = NetworkSymbol(inputs, outputs, depends_on_x=kind == "network", **options)
    else:
        symbol = LowRankSymbol(inputs, outputs, rank=3, shared=kind == "shared", **options)
    return PseudoDifferentialOperator(symbol, modes).double()


def noise(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def assert_close(given, expected, tolerance=1e-12):
    assert given.shape == expected.shape and given.dtype == expected.dtype
    assert (given - expected).norm() <= tolerance * expected.norm()


def smooth(shape):
    """An analytic periodic function."""
    x = 2 * math.pi * Grid(shape).points()
    return torch.exp(torch.sin(x).sum(dim=-1) + 0.3 * torch.cos(x[..., 0]))[None, None]


# Every symbol -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@torch.no_grad()
def test_linear_in_f(kind, shape):
    operator = make(kind, len(shape))
    f, g = noise(2, 2, 2, *shape).unbind()
    assert_close(operator(2 * f - 3 * g), 2 * operator(f) - 3 * operator(g))
    assert operator(torch.zeros_like(f)).abs().max() == 0


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("modes", [None, 2])
@torch.no_grad()
def test_symbols_without_x_commute_with_translations_and_others_do_not(shape, modes):
    axes, shifts = tuple(range(2, 2 + len(shape))), (3, 1, 2)[: len(shape)]
    f = noise(2, 2, *shape)
    moved = f.roll(shifts, axes)
    for kind in ("xi", "table"):
        if kind == "table" and modes is None:
            continue
        operator = make(kind, len(shape), None if modes is None else (modes,) * len(shape))
        assert_close(operator(moved), operator(f).roll(shifts, axes))
    for kind in ("network", "low-rank", "shared"):
        operator = make(kind, len(shape), modes)
        difference = operator(moved) - operator(f).roll(shifts, axes)
        assert difference.norm() > 1e-3 * operator(f).norm()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("modes", [None, 2])
@torch.no_grad()
def test_every_way_is_the_double_sum(kind, shape, modes):
    """The definition Σ_ξ a(x, ξ) f̂(ξ) e^{2πi ξ·x}, evaluated pair by pair."""
    if kind == "table" and modes is None:
        modes = 2
    kept = None if modes is None else (modes,) * len(shape)
    operator, grid = make(kind, len(shape), kept), Grid(shape)
    f = noise(3, 2, *shape)
    a = full_values(operator.symbol.evaluate(grid, kept), grid)
    assert_close(operator(f), apply_directly(a, f, grid, kept))


@pytest.mark.parametrize("kind", ["network", "xi", "low-rank", "shared"])
@pytest.mark.parametrize("shape", [(12,), (6, 7), (4, 5, 6)], ids=str)
@torch.no_grad()
def test_one_time_per_sample_is_each_sample_by_itself(kind, shape):
    operator = make(kind, len(shape), takes_time=True)
    f, times = noise(3, 2, *shape), torch.tensor([0.2, 0.5, 3.0], dtype=torch.float64)
    together = operator(f, t=times)
    for row, t in enumerate(times.tolist()):
        assert_close(together[row : row + 1], operator(f[row : row + 1], t=t))
    assert (operator(f, t=0.2) - operator(f, t=0.5)).norm() > 1e-3 * together.norm()


@pytest.mark.parametrize("inputs", [1, 2])
@pytest.mark.parametrize("kind", ["network", "xi", "low-rank", "shared"])
@pytest.mark.parametrize("shape", [(12,), (6, 7)], ids=str)
def test_samples_of_the_same_time_share_a_symbol(kind, shape, inputs, monkeypatch):
    """Asked once for each different time, with the outputs and gradients of all by themselves."""
    operator = make(kind, len(shape), takes_time=True, inputs=inputs)
    f, times = noise(5, inputs, *shape), torch.tensor([0.5, 0.2, 0.5, 3.0, 0.2]).double()
    asked, factor = [], operator.symbol.frequency_factor

    def counted(xi, t):
        asked.append(t)
        return factor(xi, t)

    monkeypatch.setattr(operator.symbol, "frequency_factor", counted)
    parameters, weights = list(operator.parameters()), noise(5, 3, *shape)
    together = operator(f, t=times)
    assert [len(t) for t in asked] == [3]
    alone = torch.cat([operator(f[i : i + 1], t=t) for i, t in enumerate(times.tolist())])
    assert_close(together, alone)
    both = [torch.autograd.grad((u * weights).sum(), parameters) for u in (together, alone)]
    for given, expected in zip(*both, strict=True):
        assert_close(given, expected)


def test_an_operator_can_be_differentiated_by_the_times_of_samples():
    operator, f = make("network", 1, takes_time=True), noise(3, 2, 12)
    times = torch.tensor([0.5, 0.2, 0.5], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: operator(f, t=t), times)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@torch.no_grad()
def test_a_network_symbol_is_a_low_rank_symbol_of_rank_inputs(shape):
    """Σ_r b_jr(x) c_ijr(ξ) with b_jr = a1_rj and c_ijr = δ_ir a2_ij."""
    operator, grid, f = make("network", len(shape)), Grid(shape), noise(2, 2, *shape)
    values = operator.symbol.evaluate(grid)
    a1, a2 = values.space[0], values.frequency[0]
    c = torch.zeros(2, *a2.shape, dtype=a2.dtype)
    for r in range(2):
        c[r, :, r] = a2[:, r]
    b = a1.transpose(0, 1).unsqueeze(2)
    assert_close(PseudoDifferentialOperator(Given(c, b))(f), operator(f))


@pytest.mark.parametrize("shape", [(12,), (6, 7)], ids=str)
@torch.no_grad()
def test_every_layout_of_the_x_factors_agrees(shape):
    """b_r, b_rj and b_rij that hold the same numbers, in one sum over several ranks."""
    f, half = noise(2, 2, *shape), Grid(shape).half_shape
    c = torch.randn(3, 4, 2, *half, dtype=torch.complex128)
    b = noise(3, 1, 1, *shape)
    expected = PseudoDifferentialOperator(Given(c, b))(f)
    for sizes in ((4, 1), (1, 2), (4, 2)):
        wide = b.expand(3, *sizes, *shape)
        assert_close(PseudoDifferentialOperator(Given(c, wide.contiguous()))(f), expected)
    one = PseudoDifferentialOperator(Given(c, torch.ones_like(b)))(f)
    assert_close(PseudoDifferentialOperator(Given(c))(f), one)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@torch.no_grad()
def test_a_tabulated_symbol_is_an_fno_layer(shape):
    modes = (2,) * len(shape)
    operator = make("xi", len(shape), modes)
    table = operator.symbol.evaluate(Grid(shape), modes).frequency[0]
    fourier = FourierIntegralOperator(2, 3, modes=modes).double()
    fourier.symbol.table.copy_(torch.view_as_real(table))
    f = noise(2, 2, *shape)
    assert torch.equal(fourier(f), operator(f))


@pytest.mark.parametrize("kind", ["network", "xi", "low-rank"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@torch.no_grad()
def test_keeping_modes_is_zeroing_the_others(kind, shape):
    grid, modes, f = Grid(shape), tuple(n // 4 for n in shape), noise(2, 2, *shape)
    modes = tuple(max(1, k) for k in modes)
    operator = make(kind, len(shape))
    values, k = operator.symbol.evaluate(grid), torch.tensor(modes)
    kept = ((grid.modes() >= -k) & (grid.modes() < k)).all(dim=-1)
    zeroed = Given(values.frequency * kept, values.space)
    truncated = PseudoDifferentialOperator(operator.symbol, modes)
    assert_close(truncated(f), PseudoDifferentialOperator(zeroed)(f))
    assert (truncated(f) - operator(f)).norm() > 1e-3 * operator(f).norm()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("modes", [6, None])
@torch.no_grad()
def test_the_same_function_at_another_resolution(kind, dim, modes):
    """A model is one operator on all grids: common points keep their values."""
    kept = None if modes is None and kind != "table" else (6,) * dim
    operator = make(kind, dim, kept, inputs=1)
    n = 64 if dim == 1 else 32
    coarse, fine = operator(smooth((n,) * dim)), operator(smooth((2 * n,) * dim))
    assert_close(fine[(..., *(slice(None, None, 2),) * dim)], coarse, 1e-9)


@torch.no_grad()
def test_grids_that_are_not_periodic_only_change_x():
    """The transform knows no coordinates: an a(ξ) does not see them, an a1(x) does."""
    f = noise(2, 2, 8, 8)
    for kind, same in (("xi", True), ("table", True), ("network", False)):
        operator = make(kind, 2)
        assert torch.equal(operator(f, Grid.cells((8, 8))), operator(f)) == same


# Known operators --------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_heat_symbol_solves_the_heat_equation(shape):
    f = noise(3, 1, *shape)
    times = [0.0, 0.01, 0.3]
    solution = pdno.solve(pdno.Heat(diffusivity=0.02), f, times)
    for index, t in enumerate(times):
        assert_close(apply_symbol(HeatSymbol(0.02), f, t=t), solution[:, index])


@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((16,), (1,)),
        ((16,), (2,)),
        ((15,), (3,)),
        ((8, 10), (1, 0)),
        ((8, 10), (0, 1)),
        ((8, 10), (1, 1)),
        ((8, 10), (2, 1)),
        ((8, 10), (2, 2)),
        ((7, 9), (1, 1)),
        ((8, 9), (3, 1)),
        ((9, 8), (1, 3)),
        ((4, 6, 8), (1, 1, 1)),
        ((4, 6, 8), (1, 0, 1)),
        ((5, 6, 7), (0, 2, 1)),
    ],
)
def test_derivative_symbol_is_the_spectral_derivative(shape, order):
    f = noise(2, 3, *shape)
    assert_close(apply_symbol(Derivative(order), f), derivative(f, order))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_resolvent_inverts(shape):
    f, dim = noise(2, 2, *shape), len(shape)
    laplacian = sum(
        derivative(f, tuple(2 if axis == other else 0 for other in range(dim)))
        for axis in range(dim)
    )
    assert_close(apply_symbol(Resolvent(0.7), 0.7 * f - laplacian), f)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_fractional_laplacians_are_a_group_on_functions_without_mean(shape):
    f, dim = noise(2, 1, *shape), len(shape)
    f = f - f.mean(dim=tuple(range(2, 2 + dim)), keepdim=True)
    half = apply_symbol(FractionalLaplacian(0.5), apply_symbol(FractionalLaplacian(0.5), f))
    laplacian = sum(
        derivative(f, tuple(2 if axis == other else 0 for other in range(dim)))
        for axis in range(dim)
    )
    assert_close(half, -laplacian)
    assert_close(apply_symbol(FractionalLaplacian(-1.0), -laplacian), f)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_advection_translates(shape):
    """By whole points exactly, N/2 included; by parts of a point where the function is known."""
    dim = len(shape)
    steps, axes = (3, -1, 2)[:dim], tuple(range(2, 2 + dim))
    velocity = [step / n / 0.4 for step, n in zip(steps, shape, strict=True)]
    f = noise(2, 2, *shape)
    assert_close(apply_symbol(Advection(velocity), f, t=0.4), f.roll(steps, axes))


def test_advection_between_points():
    x = Grid((32, 32)).points()
    shifted = 2 * math.pi * (x - 0.25 * torch.tensor([0.3, -0.17], dtype=torch.float64))
    moved = torch.exp(torch.sin(shifted).sum(dim=-1) + 0.3 * torch.cos(shifted[..., 0]))
    given = apply_symbol(Advection((0.3, -0.17)), smooth((32, 32)), t=0.25)
    assert_close(given[0, 0], moved, 1e-10)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_wave_starts_as_the_identity(shape):
    f = noise(2, 2, *shape)
    assert_close(apply_symbol(Wave(1.7), f, t=0.0), f)


@pytest.mark.parametrize("n", [15, 16])
def test_wave_is_two_halves_running_apart(n):
    """d'Alembert: u(t) = (f(x - ct) + f(x + ct)) / 2."""
    f = noise(2, 1, n)
    expected = 0.5 * (f.roll(3, -1) + f.roll(-3, -1))
    assert_close(apply_symbol(Wave(2.0), f, t=1.5 / n), expected)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_multiplication_multiplies(shape):
    f = noise(2, 3, *shape)
    symbol = Multiplication(lambda x: torch.exp(x.sum(dim=-1)))
    assert_close(apply_symbol(symbol, f), f * torch.exp(Grid(shape).points().sum(dim=-1)))


def test_one_channel_acts_on_each_and_precision_is_that_of_f():
    f = torch.randn(2, 3, 16)
    given = apply_symbol(HeatSymbol(0.1), f, t=0.1)
    assert given.dtype == torch.float32
    alone = torch.cat(
        [apply_symbol(HeatSymbol(0.1), f[:, i : i + 1], t=0.1) for i in range(3)], dim=1
    )
    assert torch.allclose(given, alone, atol=1e-7)
    double = apply_symbol(HeatSymbol(0.1), f.double(), t=0.1)
    assert (given - double).norm() < 1e-6 * double.norm()


@torch.no_grad()
def test_operators_of_several_channels_as_a_function():
    operator = make("network", 1)
    f = noise(2, 2, 12)
    assert_close(apply_symbol(operator.symbol, f), operator(f))


@pytest.mark.parametrize("symbol", [HeatSymbol(0.02), Wave(0.3), Advection((0.4,))])
def test_known_operators_with_one_time_per_sample(symbol):
    f, times = noise(5, 1, 8), torch.linspace(0, 1, 5, dtype=torch.float64)  # 5 kept modes
    together = apply_symbol(symbol, f, t=times)
    for row, t in enumerate(times.tolist()):
        assert_close(together[row : row + 1], apply_symbol(symbol, f[row : row + 1], t=t))


# Errors -----------------------------------------------------------------------------------------


def test_wrong_inputs_are_named():
    operator = make("network", 1)
    with pytest.raises(ValueError, match=r"\(2, 3, 8\); expected \(B, 2, 8\): channels first"):
        operator(noise(2, 3, 8))
    with pytest.raises(ValueError, match=r"\(2, 8\); expected \(B, 2, 8\): channels"):
        operator(noise(2, 8), Grid((8,)))
    with pytest.raises(ValueError, match=r"expected \(B, 2, 9\)"):
        operator(noise(2, 2, 8), Grid((9,)))
    with pytest.raises(ValueError, match="Grid has 0 axes; expected 1, 2 or 3"):
        operator(noise(2, 2))


def test_modes_of_another_number_of_axes_are_named():
    with pytest.raises(ValueError, match="name 2 axes; the grid has 1"):
        make("network", 2, (4, 5))(noise(1, 2, 16))


def test_missing_and_unwanted_times_are_named():
    f = noise(2, 2, 8)
    with pytest.raises(ValueError, match="depends on time: give t"):
        make("network", 1, takes_time=True)(f)
    with pytest.raises(ValueError, match="no time: leave t out"):
        make("network", 1)(f, t=0.1)
    with pytest.raises(ValueError, match="has no time: leave t out"):
        make("table", 1)(f, t=0.1)
    with pytest.raises(ValueError, match="HeatSymbol depends on time: give t"):
        apply_symbol(HeatSymbol(), f)


# Coarser grids --------------------------------------------------------------------------------


@pytest.fixture
def warn_again():
    """Warnings of modes that come once per process come again."""
    pseudo_differential._warn_of_modes.cache_clear()


@pytest.mark.parametrize("shape", [(8,), (9,), (8, 10), (7, 8), (8, 6, 7)])
@pytest.mark.parametrize("kind", [*KINDS, "classical", "elliptic"])
def test_on_a_coarser_grid_low_modes_act_as_on_a_finer_one(kind, shape, warn_again):
    torch.manual_seed(0)
    operator = make(kind, len(shape), (6,) * len(shape)) if kind in KINDS else None
    if operator is None:
        structure = {"elliptic": kind == "elliptic", "symbol": "classical"}
        operator = PDIO(len(shape), 2, 2, modes=6, **structure).double()
    grid, fine = Grid(shape), Grid(tuple(2 * n for n in shape))
    spectrum = transform(noise(2, 2, *shape), grid.dim, 2)
    f, f_fine = (inverse(spectrum, where.shape, 2) for where in (grid, fine))
    with pytest.warns(UserWarning, match="higher ones are ignored") as caught:
        out = operator(f)
        operator(f)
    assert len(caught) == 1
    exact = operator(f_fine)[fine.every(2)]
    torch.testing.assert_close(out, exact, rtol=1e-9, atol=1e-9)


def test_values_on_a_coarser_grid_are_those_of_the_operator(warn_again):
    operator, grid = make("table", 2, (6, 6)), Grid((8, 8))
    with pytest.warns(UserWarning, match=r"\(6, 6\) exceed the \(4, 5\) of a grid of 8 x 8"):
        values = operator.values(grid)
    assert values.frequency.shape[-2:] == (8, 5)
    assert operator.modes_on(grid) == (4, 5)


@pytest.mark.parametrize("points", [8, 12, 16, 20])
def test_nodes_are_fewer_than_the_points_of_a_row(points):
    symbol, grid = make("network", 2, 4).symbol, Grid((points, points))
    values = symbol.evaluate(grid, 4, most_nodes=points)
    exact = symbol.evaluate(grid, 4).space
    torch.testing.assert_close(values.on_grid().space, exact, rtol=1e-5, atol=1e-6)
