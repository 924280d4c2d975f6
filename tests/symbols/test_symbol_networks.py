"""Symbol networks, low rank and tables: values, time, starts and errors."""

import pytest
import torch
from torch import nn

from pdno import Grid
from pdno.symbols import InputScale, LowRankSymbol, NetworkSymbol, TableSymbol
from pdno.symbols.mlp import SymbolMLP
from pdno.symbols.network import append_parameters

GRIDS = [Grid((8,)), Grid((7, 6)), Grid((4, 5, 6))]
SMALL = {"layers": 1, "hidden": 5}


def make(kind, grid, **options):
    scale = InputScale(grid.dim, 1.1, 3.0)
    return kind(2, 3, scale=scale, **SMALL, **options).double()


@torch.no_grad()
def test_mlp_is_the_composition_of_its_linear_maps():
    network = SymbolMLP(2, 6, layers=2, hidden=4, activation="tanh", first_activation="gelu")
    points = torch.randn(5, 3, 2)
    z = nn.functional.gelu(network.linear_in(points))
    for layer in network.hidden:
        z = torch.tanh(layer(z))
    expected = network.linear_out(z).movedim(-1, 0)
    assert torch.allclose(network.fields(points), expected, atol=1e-6)
    assert len([m for m in network.modules() if isinstance(m, nn.Linear)]) == 2 + 2


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@torch.no_grad()
def test_rows_are_output_times_inputs_plus_input(grid):
    """Row j·I + i of a published network is the pair from input i to output j."""
    symbol = make(NetworkSymbol, grid)
    values = symbol.evaluate(grid)
    xi = symbol.scale.xi(grid, None, symbol.real.linear_in.weight)
    x = symbol.scale.x(grid, symbol.real.linear_in.weight)
    a2 = torch.complex(symbol.real.fields(xi), symbol.imaginary.fields(xi))
    for j in range(3):
        for i in range(2):
            assert torch.equal(values.frequency[0, j, i], a2[j * 2 + i])
            expected = symbol.space.fields(x)[j * 2 + i]
            assert torch.allclose(values.space[0, j, i], expected, rtol=0, atol=1e-14)
    assert make(NetworkSymbol, grid, depends_on_x=False).evaluate(grid).space is None


@pytest.mark.parametrize("kind", [NetworkSymbol, LowRankSymbol])
@pytest.mark.parametrize("grid", GRIDS, ids=str)
@torch.no_grad()
def test_one_time_per_sample_is_each_time_by_itself(kind, grid):
    symbol = make(kind, grid, takes_time=True)
    times = torch.tensor([0.3, 0.7, 2.0], dtype=torch.float64)
    together = symbol.evaluate(grid, None, times)
    for row, t in enumerate(times):
        for one in (t, t.item()):
            alone = symbol.evaluate(grid, None, one)
            assert torch.allclose(together.frequency[row], alone.frequency, atol=1e-14)
            assert torch.allclose(together.space[row], alone.space, atol=1e-14)
    assert (together.frequency[0] - together.frequency[1]).abs().max() > 1e-3


def test_time_is_the_last_input():
    points = torch.randn(4, 3, 2)
    numbers = torch.tensor([0.5]), torch.tensor([[0.5], [2.0]])
    one, many = (append_parameters(points, t) for t in numbers)
    assert torch.equal(one[..., :2], points) and bool((one[..., 2] == 0.5).all())
    assert torch.equal(many[0], one) and bool((many[1, ..., 2] == 2.0).all())
    assert append_parameters(points, None) is points


@pytest.mark.parametrize("kind", [NetworkSymbol, LowRankSymbol])
def test_missing_unwanted_and_misshapen_times_are_named(kind):
    grid = GRIDS[0]
    with pytest.raises(ValueError, match="depends on time: give t"):
        make(kind, grid, takes_time=True).evaluate(grid)
    with pytest.raises(ValueError, match="no time: leave t out, or take a symbol with takes_time"):
        make(kind, grid).evaluate(grid, t=0.5)
    with pytest.raises(ValueError, match=r"shape \(2, 2\); expected one number or \(B,\)"):
        make(kind, grid, takes_time=True).evaluate(grid, t=torch.zeros(2, 2))


@pytest.mark.parametrize("shared", [True, False])
@torch.no_grad()
def test_low_rank_starts_near_a_symbol_without_x(shared):
    torch.manual_seed(0)
    symbol = LowRankSymbol(4, 3, scale=InputScale(1), rank=3, shared=shared)
    b = symbol.evaluate(Grid((16,))).space
    assert b.shape == (3, 1 if shared else 3, 1, 16)
    assert (b[0] - 1).abs().max() < 0.5 and b[1:].abs().max() < 0.5


@torch.no_grad()
def test_low_rank_factors_lie_by_rank_output_input():
    grid = Grid((8,))
    symbol = make(LowRankSymbol, grid, rank=2)
    values = symbol.evaluate(grid)
    xi = symbol.scale.xi(grid, None, symbol.real.linear_in.weight)
    x = symbol.scale.x(grid, symbol.real.linear_in.weight)
    for r in range(2):
        for j in range(3):
            assert torch.equal(values.space[r, j, 0], symbol.space.fields(x)[r * 3 + j])
            for i in range(2):
                c = values.frequency[r, j, i]
                assert torch.equal(c.real, symbol.real.fields(xi)[(r * 3 + j) * 2 + i])
                assert torch.equal(c.imag, symbol.imaginary.fields(xi)[(r * 3 + j) * 2 + i])


@torch.no_grad()
def test_table_starts_as_published():
    """Both parts uniform on [0, 1/(I·O))."""
    torch.manual_seed(0)
    symbol = TableSymbol(4, 5, modes=(6, 7))
    assert symbol.table.shape == (5, 4, 12, 7, 2)
    scaled = symbol.table * 20
    assert scaled.min() >= 0 and scaled.max() < 1
    assert scaled.mean().item() == pytest.approx(0.5, abs=0.02)
    assert scaled.var().item() == pytest.approx(1 / 12, abs=0.005)


@torch.no_grad()
def test_table_is_its_own_values():
    symbol = TableSymbol(2, 3, modes=(2, 3))
    values = symbol.evaluate(Grid((8, 9)), (2, 3))
    assert torch.equal(torch.view_as_real(values.frequency[0]), symbol.table)
    assert values.space is None


def test_wrong_tables_and_sizes_are_named():
    symbol = TableSymbol(1, 1, modes=(3,))
    with pytest.raises(ValueError, match="has no time: leave t out"):
        symbol.evaluate(Grid((8,)), (3,), t=0.1)
    with pytest.raises(ValueError, match=r"modes None of a table with modes \(3,\): give the"):
        symbol.evaluate(Grid((8,)))
    with pytest.raises(ValueError, match="expected 1 to 3; keep fewer modes, use a finer grid"):
        TableSymbol(1, 1, modes=(4,)).evaluate(Grid((4,)), (4,))
    with pytest.raises(ValueError, match="from 0 to 3 channels; expected at least 1"):
        NetworkSymbol(0, 3, scale=InputScale(1))
    with pytest.raises(ValueError, match="rank is 0; expected at least 1"):
        LowRankSymbol(1, 1, scale=InputScale(1), rank=0)
    with pytest.raises(ValueError, match="symbol_layers -1 and symbol_hidden 4"):
        SymbolMLP(1, 1, layers=-1, hidden=4)
    with pytest.raises(ValueError, match="activation 'sine'; expected one of gelu"):
        SymbolMLP(1, 1, activation="sine")
