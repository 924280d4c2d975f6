"""The direct double sum: the definition of the operator, against sums written out by hand."""

import cmath
import math

import pytest
import torch

from pdno import Grid, apply_symbol
from pdno.symbols import FullSymbol, SymbolValues
from pdno.symbols.base import apply_directly, full_values


def symbol_of_x_and_xi(x, xi):
    """A symbol that is no product: e^{cos 2πx · sin ξ} and a phase, for 2 inputs and 1 output."""
    first = torch.exp(torch.cos(2 * math.pi * x[..., 0]) * torch.sin(xi[..., 0]))
    second = torch.polar(torch.ones_like(first), x[..., 0] * xi[..., 0])
    return torch.stack([first.to(second.dtype), second])[None]


@pytest.mark.parametrize("n", [5, 6])
def test_definition(n):
    """Σ_ξ over positive and negative ξ, with a(x, -ξ) the conjugate: a real operator."""
    grid = Grid((n,))
    f = torch.randn(2, 2, n, dtype=torch.float64)
    out = apply_symbol(FullSymbol(symbol_of_x_and_xi), f)
    a = FullSymbol(symbol_of_x_and_xi).values(grid)[0]
    for row in range(2):
        for point in range(n):
            total = 0j
            for i in range(2):
                for k in range(-((n - 1) // 2), n // 2 + 1):
                    wave = [cmath.exp(-2j * math.pi * k * m / n) for m in range(n)]
                    f_hat = sum(f[row, i, m].item() * wave[m] for m in range(n)) / n
                    value = complex(a[i, point, abs(k)])
                    value = value if k >= 0 else value.conjugate()
                    total += value * f_hat * cmath.exp(2j * math.pi * k * point / n)
            assert out[row, 0, point].item() == pytest.approx(total.real, abs=1e-13)


@pytest.mark.parametrize("shape", [(8,), (7,), (4, 6), (5, 4), (3, 4, 5)])
@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("offset", [0.0, 0.5])
def test_one_is_the_identity_wherever_the_points_lie(shape, periodic, offset):
    grid = Grid(shape, periodic=periodic, offset=offset)
    f = torch.randn(2, 1, *shape, dtype=torch.float64)
    one = FullSymbol(lambda x, xi: torch.ones(1, 1, x.shape[0], xi.shape[1]))
    assert torch.allclose(apply_symbol(one, f, grid), f, atol=1e-13)


def test_symbol_of_x_alone_multiplies_and_of_xi_alone_differentiates():
    x = Grid((16,)).points()[:, 0]
    f = torch.sin(2 * math.pi * x)[None, None]
    times_x = FullSymbol(lambda x, xi: (x[..., 0] + 0 * xi[..., 0])[None, None])
    assert torch.allclose(apply_symbol(times_x, f), x * f, atol=1e-14)
    slope = FullSymbol(lambda x, xi: (0 * x[..., 0] + 2j * math.pi * xi[..., 0])[None, None])
    expected = 2 * math.pi * torch.cos(2 * math.pi * x)
    assert torch.allclose(apply_symbol(slope, f, modes=3)[0, 0], expected, atol=1e-12)


def test_writing_out_is_the_sum_over_ranks():
    grid = Grid((4, 6))
    c = torch.randn(3, 2, 5, *grid.half_shape, dtype=torch.complex128)
    b = torch.randn(3, 2, 1, 4, 6, dtype=torch.float64)
    a = full_values(SymbolValues(c, b), grid)
    expected = torch.einsum("rjxy,rjikl->jixykl", b[:, :, 0].to(c.dtype), c)
    assert torch.allclose(a, expected, atol=1e-13)
    flat = full_values(SymbolValues(c), grid)
    assert torch.allclose(flat, c.sum(dim=0)[:, :, None, None].expand(flat.shape), atol=1e-13)


def test_large_grids_and_times_per_sample_are_refused():
    grid = Grid((128, 128))
    with pytest.raises(ValueError, match="small grids; use a separated symbol, a coarser grid"):
        apply_directly(torch.zeros(()), torch.zeros(1, 1, 128, 128), grid)
    with pytest.raises(ValueError, match="write it out for one time"):
        full_values(SymbolValues(torch.zeros(2, 1, 1, 1, 5)), Grid((8,)))
