"""Operator norms between Sobolev spaces: iteration, dense matrices and proven bounds."""

import itertools
import math
import sys

import pytest
import torch
from dense import operator_matrix

from pdno import Grid, PseudoDifferentialOperator
from pdno.operators.kernel import apply_values
from pdno.spectral.fourier import whole_spectrum
from pdno.spectral.metrics import sobolev_norm
from pdno.symbols import (
    Derivative,
    FractionalLaplacian,
    InputScale,
    LowRankSymbol,
    Multiplication,
    NetworkSymbol,
    SymbolValues,
    TableSymbol,
)
from pdno.theory.norms import bessel_potential, norm_bound, operator_norm, weigh

SPACES = [(0.0, 0.0), (1.0, 1.0), (0.0, 1.0), (2.0, 0.5), (-0.5, 0.0), (-1.0, -1.0), (1.5, 2.0)]


def dense_norm(operator, grid, channels, s, order):
    matrix = operator_matrix(weigh(operator, grid, s=s, order=order), grid, channels=channels)
    return float(torch.linalg.matrix_norm(matrix, 2))


def random_symbol(kind, dim, generator):
    """A symbol with random weights, and its kept modes."""
    outputs, inputs = torch.randint(1, 4, (2,), generator=generator).tolist()
    modes = (2,) * dim if torch.rand((), generator=generator) < 0.5 else None
    options = {"scale": InputScale(dim, 1.0, 2.0), "hidden": 6}
    if kind == "table":
        modes = (2,) * dim
        symbol = TableSymbol(inputs, outputs, modes=modes)
    elif kind == "low-rank":
        symbol = LowRankSymbol(inputs, outputs, rank=3, shared=outputs == 1, **options)
    else:
        symbol = NetworkSymbol(inputs, outputs, depends_on_x=kind == "a(x, xi)", **options)
    size = float(torch.rand((), generator=generator)) + 0.2
    for weights in symbol.double().parameters():
        weights.data = size * torch.randn(weights.shape, generator=generator, dtype=torch.float64)
    return symbol, modes


KINDS = ["table", "low-rank", "a(xi)", "a(x, xi)", "a(x, xi)"]
SHAPES = [(8,), (9,), (13,), (4, 6), (5, 4), (6, 5)]


@pytest.mark.parametrize("part", range(4))
def test_iteration_is_the_dense_norm_and_no_bound_is_below_it(part):
    """On 200 random symbols in one and two dimensions, every bound and not only the best one."""
    generator = torch.Generator().manual_seed(part)
    settings = itertools.cycle(itertools.product(KINDS, SHAPES, SPACES))
    for kind, shape, (s, order) in itertools.islice(settings, part * 53, part * 53 + 50):
        grid = Grid(shape)
        symbol, modes = random_symbol(kind, grid.dim, generator)
        operator = PseudoDifferentialOperator(symbol, modes)
        exact = dense_norm(operator, grid, symbol.in_channels, s, order)
        estimate = operator_norm(operator, grid, s=s, order=order)
        assert estimate.value == pytest.approx(exact, rel=1e-6)
        assert estimate.value <= exact * (1 + 1e-12)
        bounds = norm_bound(operator, grid, s=s, order=order)
        assert bounds.value == bounds.all[bounds.reason] == min(bounds.all.values())
        assert bounds.value >= exact * (1 - 1e-12)
        if kind in ("table", "a(xi)"):
            assert bounds.value == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("pairs", [None, 0, 100])
def test_bounds_of_whole_blocks_and_of_large_grids(pairs, monkeypatch):
    """K + W, and what is left of the bounds where pairs of modes are too many."""
    if pairs is not None:
        monkeypatch.setattr(sys.modules["pdno.theory.norms"], "MODE_PAIRS", pairs)
    generator = torch.Generator().manual_seed(1)
    for shape, (s, order) in itertools.product([(9,), (4, 6)], SPACES):
        grid = Grid(shape)
        symbol, modes = random_symbol("a(x, xi)", grid.dim, generator)
        operator = PseudoDifferentialOperator(symbol, modes)
        local = torch.randn(
            symbol.out_channels, symbol.in_channels, generator=generator, dtype=torch.float64
        )

        def block(f, operator=operator, local=local):
            return operator(f) + torch.einsum("oi,bi...->bo...", local, f)

        exact = dense_norm(block, grid, symbol.in_channels, s, order)
        bounds = norm_bound(operator, grid, s=s, order=order, local=local)
        assert min(bounds.all.values()) >= exact * (1 - 1e-12)
        assert pairs != 0 or s == order or "Peetre" in bounds.reason


def test_few_waves_in_x_have_the_same_bound_on_large_grids(monkeypatch):
    """Three waves are all that b has: no pair of others is needed."""
    grid = Grid((64,))
    values = smooth_values(grid, 1.0)
    every = norm_bound(values, grid, s=2.0, order=1.0)
    monkeypatch.setattr(sys.modules["pdno.theory.norms"], "MODE_PAIRS", 8 * 64)
    assert norm_bound(values, grid, s=2.0, order=1.0).value == pytest.approx(every.value, rel=1e-9)
    monkeypatch.setattr(sys.modules["pdno.theory.norms"], "MODE_PAIRS", 0)
    assert norm_bound(values, grid, s=2.0, order=1.0).value > 1.05 * every.value


def one_mode(grid, mode, b):
    """f -> b(x) f̂(ξ) e^{2πi ξ·x} for one ξ and its mirror image."""
    c = torch.zeros(1, 1, 1, *grid.half_shape, dtype=torch.complex128)
    c[..., mode] = 1
    return SymbolValues(c, b(grid.points()[..., 0])[None, None, None])


def test_both_sums_of_schur_are_needed():
    """The mean times b has the norm ‖b‖, its row sums are only max |b̂|."""
    grid = Grid((16,))
    values = one_mode(grid, 0, lambda x: torch.cos(2 * math.pi * x) + torch.cos(4 * math.pi * x))
    bounds = norm_bound(values, grid)
    assert operator_norm(lambda f: apply_values(values, f, grid), grid, channels=1).value == (
        pytest.approx(1.0)
    )
    assert min(bounds.all.values()) >= 1 - 1e-12
    # row sums 1/2 and the column sum 2, by hand
    assert bounds.all["Schur"] == pytest.approx(1.0)


def test_the_constant_of_peetre_is_needed(monkeypatch):
    """From ξ = 1 to 2: ⟨2⟩² = 5 > ⟨1⟩² ⟨1⟩² = 4, so without the factor 2 there is no bound."""
    monkeypatch.setattr(sys.modules["pdno.theory.norms"], "MODE_PAIRS", 0)
    grid = Grid((16,))
    values = one_mode(grid, 1, lambda x: torch.cos(2 * math.pi * x))
    bounds = norm_bound(values, grid, s=10.0)

    def apply(f):
        return apply_values(values, f, grid)

    exact = dense_norm(apply, grid, 1, 10.0, 0.0)
    assert exact > 2**5 and bounds.value >= exact
    # Σ over η = ±1 of |b̂| (√2 ⟨1⟩)^10
    assert bounds.value == pytest.approx(4.0**5)


def test_a_bound_is_close_for_the_networks_of_the_paper():
    """Within a factor of two for a random layer; far below the product of the largest values."""
    torch.manual_seed(0)
    symbol = NetworkSymbol(8, 8, scale=InputScale(2, 1.0, 4.0))
    operator, grid = PseudoDifferentialOperator(symbol), Grid((16, 16))
    for s, order in [(0.0, 0.0), (1.0, 1.0)]:
        exact = operator_norm(operator, grid, s=s, order=order).value
        assert exact <= norm_bound(operator, grid, s=s, order=order).value < 2 * exact


def smooth_values(grid, order):
    """Two smooth terms of a given order, periodic in x, that are no multiplier."""
    x, xi = grid.points(), grid.modes().to(torch.float64)
    b = [2 + torch.cos(2 * math.pi * x[..., 0]), torch.sin(4 * math.pi * x.sum(dim=-1))]
    bracket = (1 + xi.square().sum(dim=-1)).sqrt()
    c = [bracket**order + 0j, 1j * xi[..., -1] * bracket ** (order - 1)]
    return SymbolValues(torch.stack(c)[:, None, None], torch.stack(b)[:, None, None])


@pytest.mark.parametrize(("s", "order"), [(0.0, 1.0), (1.0, 1.0), (2.5, 1.0), (-1.0, 0.5)])
def test_norms_from_the_right_space_do_not_depend_on_the_resolution(s, order):
    """H^s -> H^{s-m} converges for an operator of order m; H^s -> H^s grows like N^m."""
    right, wrong, bounds = [], [], []
    for points in (32, 64, 128, 256):
        grid = Grid((points,))
        values = smooth_values(grid, order)

        def apply(f, values=values, grid=grid):
            return apply_values(values, f, grid)

        right.append(operator_norm(apply, grid, channels=1, s=s, order=order).value)
        wrong.append(operator_norm(apply, grid, channels=1, s=s).value)
        bounds.append(norm_bound(values, grid, s=s, order=order).value)
    assert abs(right[3] - right[2]) <= 0.6 * abs(right[2] - right[1]) + 1e-6
    assert max(right) < 1.05 * min(right) and max(bounds) < 1.05 * min(bounds)
    assert wrong[3] / wrong[2] == pytest.approx(2**order, rel=0.05)


def test_known_norms():
    grid = Grid((32,))
    slope = PseudoDifferentialOperator(Derivative((1,)))
    # 2πk/⟨k⟩ at the largest k; the mode N/2 has no derivative
    expected = 2 * math.pi * 15 / math.sqrt(1 + 15**2)
    assert operator_norm(slope, grid, s=1.0, order=1.0).value == pytest.approx(expected, rel=1e-9)
    assert norm_bound(slope, grid, s=1.0, order=1.0).value == pytest.approx(expected, rel=1e-12)
    wave = PseudoDifferentialOperator(
        Multiplication(lambda x: 2 + torch.sin(2 * math.pi * x[..., 0]))
    )
    assert operator_norm(wave, grid).value == pytest.approx(3.0, rel=1e-6)
    assert norm_bound(wave, grid).value == pytest.approx(3.0, rel=1e-12)
    power = PseudoDifferentialOperator(FractionalLaplacian(0.5))
    at_most = 2 * math.pi * math.sqrt(2) * 3 / math.sqrt(19)
    assert norm_bound(power, Grid((6, 6)), s=-3.0, order=1.0).value == pytest.approx(at_most)


def test_the_norm_is_attained_in_the_norms_of_metrics():
    grid = Grid((12,))
    symbol, _ = random_symbol("a(x, xi)", 1, torch.Generator().manual_seed(3))
    operator = PseudoDifferentialOperator(symbol)
    matrix = operator_matrix(
        weigh(operator, grid, s=1.5, order=0.5), grid, channels=symbol.in_channels
    )
    best = torch.linalg.svd(matrix)[2][0].reshape(1, symbol.in_channels, 12)
    f = bessel_potential(best, grid, -1.5)
    with torch.no_grad():
        ratio = sobolev_norm(operator(f), 1.0, dim=1) / sobolev_norm(f, 1.5, dim=1)
    norm = operator_norm(operator, grid, s=1.5, order=0.5).value
    assert float(ratio) == pytest.approx(norm, rel=1e-9)


@pytest.mark.parametrize("shape", [(6,), (7,), (4, 6), (5, 4), (3, 4, 4)])
@pytest.mark.parametrize("modes", [None, 1])
def test_the_whole_spectrum_is_the_operator_on_complex_fields(shape, modes):
    """By plane waves written out, at the lines where only the Hermitian part acts, too."""
    grid = Grid(shape)
    kept = grid.modes(modes).shape[:-1]
    c = torch.randn(*kept, dtype=torch.complex128)
    m = whole_spectrum(c, grid, modes).flatten()
    x = grid.points().reshape(-1, grid.dim)
    xi = grid.modes(half=False).to(torch.float64).reshape(-1, grid.dim)
    waves = torch.exp(2j * math.pi * (x @ xi.T))
    expected = (waves * m) @ waves.conj().T / grid.size
    values = SymbolValues(c[None, None, None])
    matrix = operator_matrix(lambda f: apply_values(values, f, grid, modes), grid, channels=1)
    assert torch.allclose(expected.imag, torch.zeros(()).double(), atol=1e-12)
    assert torch.allclose(expected.real, matrix, atol=1e-12)


def test_few_iterations_are_a_lower_bound_and_say_so():
    grid = Grid((64,))
    operator = PseudoDifferentialOperator(FractionalLaplacian(0.05))
    few = operator_norm(operator, grid, iterations=3)
    many = operator_norm(operator, grid)
    assert not few.converged and few.iterations == 3 and few.value < many.value
    assert many.converged and many.residual <= 1e-7


def test_zero_has_the_norm_zero():
    estimate = operator_norm(lambda f: 0 * f, Grid((8,)), channels=2)
    assert estimate.value == 0 and estimate.converged
    zero = SymbolValues(torch.zeros(1, 2, 2, 5, dtype=torch.complex128))
    assert norm_bound(zero, Grid((8,)), s=1.0).value == 0


def test_wrong_input_is_refused():
    grid = Grid((8,))
    with pytest.raises(ValueError, match="expected a linear map"):
        operator_norm(lambda f: f + 1, grid, channels=1)
    with pytest.raises(ValueError, match="number of input channels"):
        operator_norm(lambda f: f, grid)
    times = SymbolValues(torch.zeros(2, 1, 1, 1, 5, dtype=torch.complex128))
    with pytest.raises(ValueError, match="bound it at one time"):
        norm_bound(times, grid)
