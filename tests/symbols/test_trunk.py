"""Trunk symbols: formula, class, widths, time, and the operator they make."""

import pytest
import torch

from pdno import PDNO, Grid, certify
from pdno.symbols import InputScale, TrunkSymbol
from pdno.symbols.network import SCALES

GRIDS = [Grid((8,)), Grid((7, 6)), Grid((4, 5, 6))]


def make(dim, **options):
    torch.manual_seed(0)
    return TrunkSymbol(2, 3, scale=InputScale(dim, 1.0, 1.0), hidden=8, **options).double()


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@torch.no_grad()
def test_values_are_those_of_the_formula(grid):
    symbol = make(grid.dim, space_hidden=5)
    values = symbol.evaluate(grid, 2)
    xi = grid.modes(2).double()
    features = []
    for s in SCALES:
        point = torch.cat([xi, torch.full_like(xi[..., :1], s)], dim=-1)
        features.append(point / point.norm(dim=-1, keepdim=True))
    a2 = symbol.trunk(torch.cat(features, dim=-1))
    a1 = symbol.space(grid.points())
    for j in range(3):
        for i in range(2):
            real, imaginary = a2[..., 2 * j + i], a2[..., 6 + 2 * j + i]
            expected = torch.complex(real, imaginary)
            torch.testing.assert_close(values.frequency[0, j, i], expected, rtol=0, atol=1e-12)
            torch.testing.assert_close(values.space[0, j, i], a1[..., 2 * j + i])


@pytest.mark.parametrize("dim", [1, 2, 3])
@torch.no_grad()
def test_it_has_limits_along_every_ray(dim):
    """Order 0: far out a2 depends on the direction alone, and a step changes it like 1/|ξ|."""
    symbol = make(dim, depends_on_x=False)
    direction = torch.nn.functional.normalize(torch.randn(5, dim).double(), dim=1)
    nowhere = torch.zeros(1, dim, dtype=torch.float64)

    def a2(radius):
        return symbol.evaluate_at(nowhere, radius * direction).frequency

    near, far = (a2(2 * r) - a2(r) for r in (1e3, 1e4))
    assert 8 < near.norm() / far.norm() < 12.5
    assert a2(1e6).abs().max() < 10


@pytest.mark.parametrize("dim", [1, 2])
def test_its_class_is_accepted(dim):
    """a2 as it stands; what acts on real functions has no parity, see the docs."""
    symbol = make(dim, depends_on_x=False)
    assert certify(symbol, order=0, acting=False).accepted


@torch.no_grad()
def test_one_time_per_sample_is_each_time_by_itself():
    grid, symbol = GRIDS[1], make(2, takes_time=True)
    times = torch.tensor([0.3, 0.7], dtype=torch.float64)
    together = symbol.evaluate(grid, None, times)
    for row, t in enumerate(times):
        alone = symbol.evaluate(grid, None, t)
        torch.testing.assert_close(together.frequency[row], alone.frequency, rtol=0, atol=1e-14)
        torch.testing.assert_close(together.space[row], alone.space, rtol=0, atol=1e-14)


def test_a_network_has_its_own_width_for_a1():
    wide, narrow = (
        PDNO(2, 1, 1, width=4, modes=4, symbol="trunk", symbol_hidden=16, space_hidden=hidden)
        for hidden in (None, 3)
    )
    assert wide.operators[0].symbol.space.linear_in.out_features == 16
    assert narrow.operators[0].symbol.space.linear_in.out_features == 3
    narrow(torch.randn(2, 1, 16, 16)).square().mean().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in narrow.parameters())
