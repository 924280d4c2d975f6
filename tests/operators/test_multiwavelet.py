"""The multiwavelet operator: transforms, linearity, covariance, gradients and errors.

Its spectral kernel against its published definition, block after block, on every level.
"""

import copy
import itertools

import numpy as np
import pytest
import torch
from torch import nn

from pdno.operators.multiwavelet import (
    BASES,
    MultiwaveletOperator,
    SpectralKernel,
    make_filters,
    make_kernel,
)

SIZES = {"wavelets": 2, "modes": 3}


@pytest.fixture
def double():
    """Build in float64: the filters then have all of their digits."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("base", BASES)
def test_one_level_down_and_up_is_the_identity_in_1d(base):
    operator = MultiwaveletOperator(1, 3, wavelets=4, modes=2, base=base)
    f = torch.randn(2, 12, 16)
    assert torch.allclose(operator.reconstruct(*operator.decompose(f)), f, atol=1e-12)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("space_time", [False, True])
def test_one_level_up_and_down_is_the_identity_in_2d(base, space_time):
    operator = MultiwaveletOperator(2, 2, wavelets=3, modes=2, base=base, space_time=space_time)
    shape = (2, 18, 4, 8, 3) if space_time else (2, 18, 4, 8)
    average, detail = torch.randn(2, *shape).unbind()
    again = operator.decompose(operator.reconstruct(average, detail))
    assert torch.allclose(again[0], average, atol=1e-12)
    assert torch.allclose(again[1], detail, atol=1e-12)


@pytest.mark.usefixtures("double")
def test_legendre_levels_keep_the_energy():
    operator = MultiwaveletOperator(1, 3, wavelets=4, modes=2)
    f = torch.randn(2, 12, 16)
    average, detail = operator.decompose(f)
    assert average.square().sum() + detail.square().sum() == pytest.approx(f.square().sum().item())


@pytest.mark.usefixtures("double")
def test_decomposition_pairs_even_and_odd_points_in_the_published_order():
    operator = MultiwaveletOperator(2, 2, wavelets=2, modes=2)
    f = torch.randn(1, 8, 4, 4)
    filters = make_filters("legendre", 2)
    average, detail = operator.decompose(f)
    cells = f.reshape(1, 2, 2, 2, 4, 4)  # functions, coefficients along x and along y
    for matrix, result in ((filters.h, average), (filters.g, detail)):
        m = torch.as_tensor(matrix)
        expected = sum(
            torch.einsum("pi,qj,bcijxy->bcpqxy", m[a], m[b], cells[..., a::2, b::2])
            for a in (0, 1)
            for b in (0, 1)
        )
        assert torch.allclose(result, expected.reshape(result.shape), atol=1e-12)


@pytest.mark.usefixtures("double")
def test_1d_operator_is_affine_and_its_constant_comes_from_the_coarsest_map():
    operator = MultiwaveletOperator(1, 2, wavelets=3, modes=4)
    f, g = torch.randn(2, 2, 6, 16).unbind()
    constant = operator(torch.zeros(2, 6, 16))
    assert torch.allclose(
        operator(2 * f - 3 * g) - constant,
        2 * (operator(f) - constant) - 3 * (operator(g) - constant),
        atol=1e-12,
    )
    torch.nn.init.zeros_(operator.average_to_average.bias)
    assert operator(torch.zeros(2, 6, 16)).abs().max() == 0


@pytest.mark.usefixtures("double")
def test_1d_operator_commutes_with_translations_by_a_coarsest_cell():
    operator = MultiwaveletOperator(1, 2, wavelets=3, modes=4, coarsest=2)
    f = torch.randn(2, 6, 32)
    assert torch.allclose(operator(f.roll(8, -1)), operator(f).roll(8, -1), atol=1e-12)
    assert not torch.allclose(operator(f.roll(1, -1)), operator(f).roll(1, -1), atol=1e-4)


@pytest.mark.parametrize(
    ("dim", "space_time", "shape"), [(1, False, (8,)), (2, False, (4, 4)), (2, True, (4, 4, 3))]
)
@pytest.mark.usefixtures("double")
def test_gradients(dim, space_time, shape):
    torch.manual_seed(1)
    operator = MultiwaveletOperator(dim, 1, wavelets=2, modes=2, space_time=space_time)
    f = torch.randn(1, 2**dim, *shape, requires_grad=True)
    assert torch.autograd.gradcheck(operator, (f,))
    operator(f).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in operator.parameters())


@pytest.mark.parametrize("coarsest", [0, 2, 3])
def test_coarsest_level_is_where_the_published_one_is(coarsest):
    operator = MultiwaveletOperator(1, 1, coarsest=coarsest, **SIZES)
    sizes = []
    operator.average_to_average.register_forward_pre_hook(
        lambda _, arguments: sizes.append(arguments[0].shape[-1])
    )
    operator(torch.randn(1, 2, 8))
    assert sizes == [2**coarsest]


def test_rectangles_stop_at_the_shorter_side():
    operator = MultiwaveletOperator(2, 1, **SIZES)
    assert operator.count_levels((2, 4, 4, 16)) == 2
    assert operator(torch.randn(2, 4, 4, 16)).shape == (2, 4, 4, 16)


def test_filters_are_not_in_the_state_but_follow_the_module():
    operator = MultiwaveletOperator(2, 1, **SIZES)
    assert not any("analysis" in name or "synthesis" in name for name in operator.state_dict())
    assert operator.double().analysis.dtype == torch.float64
    twin = copy.deepcopy(operator)
    f = torch.randn(1, 4, 8, 8, dtype=torch.float64)
    assert torch.equal(twin(f), operator(f))


def test_wrong_input_is_named():
    operator = MultiwaveletOperator(2, 1, coarsest=2, **SIZES)
    with pytest.raises(ValueError, match=r"grid is \(12, 8\).*power of two"):
        operator(torch.zeros(1, 4, 12, 8))
    with pytest.raises(ValueError, match=r"grid is \(2, 8\).*at least 4.*coarsest"):
        operator(torch.zeros(1, 4, 2, 8))
    with pytest.raises(ValueError, match=r"\(1, 5, 8, 8\).*4 channels"):
        operator(torch.zeros(1, 5, 8, 8))
    with pytest.raises(ValueError, match=r"\(1, 4, 8\).*expected 4 axes"):
        operator(torch.zeros(1, 4, 8))


def test_wrong_sizes_are_named():
    with pytest.raises(ValueError, match="dim is 3; expected one of 1, 2"):
        MultiwaveletOperator(3, 1, **SIZES)
    with pytest.raises(ValueError, match="dim is 1; expected one of 2"):
        MultiwaveletOperator(1, 1, space_time=True, **SIZES)
    with pytest.raises(ValueError, match="width is 0"):
        MultiwaveletOperator(1, 0, **SIZES)
    with pytest.raises(ValueError, match="'haar'"):
        MultiwaveletOperator(1, 1, base="haar", **SIZES)


# The kernels


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


def test_wrong_sizes_of_a_kernel_are_named():
    with pytest.raises(ValueError, match="modes is 0"):
        SpectralKernel(2, 0, axes=1)
