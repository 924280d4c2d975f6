"""The spectral kernel against its published definition, block after block, on every level."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from pdno.operators.multiwavelet_kernel import SpectralKernel, make_kernel


def published_kernel(f, table, modes):
    """Write the corner blocks one after the other; a later one replaces what it meets."""
    axes = f.ndim - 2
    shape = f.shape[2:]
    grid = tuple(range(2, f.ndim))
    f_hat = np.fft.rfftn(f, axes=grid)
    out = np.zeros_like(f_hat)
    kept = [min(modes, n // 2 + 1) for n in shape]
    # the first axis varies fastest: ++, -+, +-, --
    for reverse_signs in itertools.product((False, True), repeat=axes - 1):
        grid_rows, table_rows = [], []
        for negative, size in zip(reverse_signs[::-1], kept, strict=False):
            grid_rows.append(slice(-size, None) if negative else slice(0, size))
            start = modes if negative else 0
            table_rows.append(slice(start, start + size))
        last = slice(0, kept[-1])
        where = (slice(None), slice(None), *grid_rows, last)
        weights = table[(slice(None), slice(None), *table_rows, last)]
        out[where] = np.einsum("bi...,io...->bo...", f_hat[where], weights)
    return np.fft.irfftn(out, s=shape, axes=grid)


@pytest.mark.parametrize(
    "shape",
    [(1,), (2,), (4,), (8,), (32,), (1, 1), (2, 2), (4, 4), (8, 8), (16, 16), (32, 32), (4, 16)]
    + [(1, 1, 6), (2, 2, 6), (4, 4, 1), (8, 8, 5), (16, 16, 3), (16, 8, 20)],
)
def test_kernel_is_the_published_one_on_fine_and_coarse_levels(shape):
    modes = 5
    kernel = SpectralKernel(3, modes, axes=len(shape)).double()
    nn.init.normal_(kernel.table)
    f = torch.randn(2, 3, *shape, dtype=torch.float64)
    table = torch.view_as_complex(kernel.table.detach()).numpy()
    expected = published_kernel(f.numpy(), table, modes)
    assert kernel(f).detach().numpy() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_spectral_kernel_is_linear_and_commutes_with_translations(axes):
    kernel = SpectralKernel(2, 3, axes=axes).double()
    f, g = torch.randn(2, 1, 2, *(8,) * axes, dtype=torch.float64).unbind()
    assert torch.allclose(kernel(2 * f - 3 * g), 2 * kernel(f) - 3 * kernel(g), atol=1e-12)
    assert torch.allclose(kernel(f.roll(3, -1)), kernel(f).roll(3, -1), atol=1e-12)


@torch.no_grad()
def test_initial_values_are_the_published_ones():
    torch.manual_seed(0)
    one = SpectralKernel(8, 50, axes=1).table
    assert one.min() >= 0 and one.max() < 1 / 64
    assert one.mean() == pytest.approx(0.5 / 64, rel=0.02)
    complex_block = nn.init.xavier_normal_(torch.zeros(8, 8, 10, 10, dtype=torch.complex64))
    two = SpectralKernel(8, 10, axes=2).table
    assert two.std() == pytest.approx(torch.view_as_real(complex_block).std().item(), rel=0.03)
    real_block = nn.init.xavier_normal_(torch.zeros(8, 8, 6, 6, 6, 2))
    three = SpectralKernel(8, 6, axes=3).table
    assert three.std() == pytest.approx(real_block.std().item(), rel=0.03)


def test_kernels_have_the_published_parts():
    assert [type(part) for part in make_kernel(4, 3, axes=1)] == [SpectralKernel]
    assert [type(part) for part in make_kernel(4, 3, axes=2)] == [
        SpectralKernel,
        nn.ReLU,
        nn.Conv2d,
    ]
    assert [type(part) for part in make_kernel(4, 3, axes=2, spectral=False)] == [
        nn.Conv2d,
        nn.ReLU,
        nn.Conv2d,
    ]


def test_wrong_sizes_are_named():
    with pytest.raises(ValueError, match="modes is 0"):
        SpectralKernel(2, 0, axes=1)
    with pytest.raises(ValueError, match="4 axes"):
        make_kernel(2, 3, axes=4)
