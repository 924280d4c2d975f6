"""F and F⁻¹: sums, independence of the resolution, the Hermitian rule, adjoints."""

import math
from pathlib import Path

import pytest
import torch

from pdno.spectral import fourier
from pdno.spectral.fourier import inverse, pad_modes, transform, truncate_modes
from pdno.spectral.grid import Grid

SHAPES = [(8,), (9,), (6, 8), (7, 5), (6, 5), (4, 6, 5), (5, 4, 6)]
KEPT = {1: (3,), 2: (2, 3), 3: (2, 2, 2)}


def direct_sum(f_hat, shape, modes=None):
    """The Hermitian rule, written out: Σ w(ξ_d) Re[f̂ e^{2πiξx}]."""
    grid = Grid(shape)
    xi = grid.modes(modes).double().reshape(-1, grid.dim)
    x = grid.points().reshape(-1, grid.dim)
    last = xi[:, -1]
    weight = torch.where((last == 0) | (2 * last == shape[-1]), 1.0, 2.0)
    waves = torch.exp(2j * math.pi * (x @ xi.T))
    return (waves * (f_hat.reshape(-1) * weight)).sum(-1).real.reshape(shape)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("truncated", [False, True])
def test_transform_is_the_mean_against_waves(shape, truncated):
    modes = KEPT[len(shape)] if truncated else None
    f = torch.randn(shape, dtype=torch.float64)
    grid = Grid(shape)
    xi = grid.modes(modes).double()
    waves = torch.exp(-2j * math.pi * (grid.points().reshape(-1, grid.dim) @ xi.flatten(0, -2).T))
    expected = (f.reshape(-1, 1) * waves).mean(0).reshape(xi.shape[:-1])
    assert torch.allclose(transform(f, grid.dim, modes), expected, atol=1e-14)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("truncated", [False, True])
def test_inverse_follows_the_hermitian_rule_for_any_coefficients(shape, truncated):
    modes = KEPT[len(shape)] if truncated else None
    f_hat = torch.randn(Grid(shape).modes(modes).shape[:-1], dtype=torch.complex128)
    assert torch.allclose(
        inverse(f_hat, shape, modes), direct_sum(f_hat, shape, modes), atol=1e-12
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_the_rule_is_also_enforced_where_the_backend_does_not_follow_it(shape, monkeypatch):
    f_hat = torch.randn(Grid(shape).half_shape, dtype=torch.complex128)
    real = fourier._real_lines(f_hat.clone(), shape[-1])
    assert real[..., 0].imag.abs().max() == 0
    leading = tuple(range(-len(shape), -1))
    steps = torch.fft.ifftn(f_hat, dim=leading, norm="forward") if leading else f_hat
    by_hand = torch.fft.irfft(fourier._real_lines(steps, shape[-1]), n=shape[-1], norm="forward")
    assert torch.allclose(by_hand, inverse(f_hat, shape), atol=1e-13)


@pytest.mark.parametrize("shape", SHAPES)
def test_inverse_undoes_transform(shape):
    f = torch.randn(2, 3, *shape, dtype=torch.float64)
    assert torch.allclose(inverse(transform(f, len(shape)), shape), f, atol=1e-13)


def test_coefficients_do_not_depend_on_the_resolution():
    def sample(n):
        x = Grid((n, n)).points()
        return torch.cos(2 * math.pi * (2 * x[..., 0] - x[..., 1])) + 0.5

    coarse, fine = (transform(sample(n), 2, 4) for n in (16, 48))
    assert torch.allclose(coarse, fine, atol=1e-14)


@pytest.mark.parametrize("shape", SHAPES)
def test_truncating_after_padding_is_the_identity(shape):
    modes = KEPT[len(shape)]
    f_hat = torch.randn(Grid(shape).modes(modes).shape[:-1], dtype=torch.complex128)
    assert torch.equal(truncate_modes(pad_modes(f_hat, shape, modes), shape, modes), f_hat)


@pytest.mark.parametrize("modes", [None, (2, 3), (None, 3)])
def test_gradients(modes):
    f = torch.randn(2, 6, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda g: inverse(transform(g, 2, modes), (6, 8), modes), f)


def test_wrong_coefficients_are_refused():
    with pytest.raises(ValueError, match="needs last axes"):
        inverse(torch.zeros(4, 4, dtype=torch.complex64), (8, 8))


def test_no_other_module_uses_torch_fft():
    package = Path(fourier.__file__).parent
    users = [p.name for p in package.rglob("*.py") if "torch.fft" in p.read_text("utf-8")]
    assert [name for name in users if name != "fourier.py"] == []
