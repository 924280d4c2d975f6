"""The compiled plane transforms give the numbers of the straight formula, where they apply."""

import pytest
import torch

from pdno import Grid
from pdno.grid import kept_per_axis
from pdno.native.build import load_lanes
from pdno.native.lanes import find_lanes
from pdno.operators import pairwise
from pdno.operators.kernel import apply_values
from pdno.operators.backends.reference import apply_straight
from pdno.symbols import SymbolValues

needs_compiler = pytest.mark.skipif(load_lanes() is None, reason="no C compiler on this machine")


@pytest.fixture(autouse=True)
def one_thread_after():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def random_values(shape, modes, outputs, inputs, *, shared=False):
    kept = Grid(shape).modes(modes).shape[:-1]
    c = torch.randn(1, outputs, inputs, *kept, dtype=torch.complex64, requires_grad=True)
    b = torch.randn(1, 1 if shared else outputs, inputs, *shape, requires_grad=True)
    return SymbolValues(c, b)


def errors(values, f, shape, modes):
    """Relative errors of the result and of its gradients."""
    weights = torch.randn(len(f), values.frequency.shape[1], *shape)
    leaves = (values.frequency, values.space, f)
    results = []
    for way in (apply_values, apply_straight):
        out = way(values, f, Grid(shape), modes)
        results.append((out.detach(), *torch.autograd.grad((out * weights).sum(), leaves)))
    return [float((a - b).norm() / b.norm()) for a, b in zip(*results, strict=True)]


@needs_compiler
@pytest.mark.parametrize(
    ("shape", "modes"),
    [
        ((16, 16), None),
        ((64, 64), 12),
        ((64, 64), 16),
        ((64, 64), 17),
        ((64, 64), None),
        ((16, 32), (3, 9)),
        ((32, 16), (16, None)),
        ((128, 64), (None, 1)),
        ((16, 256), (4, 129)),
        ((512, 16), (200, 9)),
    ],
)
@pytest.mark.parametrize(("batch", "inputs"), [(4, 4), (5, 7), (3, 6), (8, 3)])
@pytest.mark.parametrize("threads", [1, 2])
def test_values_and_gradients_are_those_of_the_straight_formula(
    shape, modes, batch, inputs, threads
):
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    assert find_lanes(shape, kept_per_axis(shape, modes), batch, inputs) is not None
    values = random_values(shape, modes, 3, inputs)
    f = torch.randn(batch, inputs, *shape, requires_grad=True)
    assert max(errors(values, f, shape, modes)) < 2e-6


@needs_compiler
@pytest.mark.parametrize("cache", [1, 10**9])
def test_the_size_of_the_cache_changes_nothing(cache, monkeypatch):
    monkeypatch.setattr("pdno.native.lanes.CACHE", cache)
    values = random_values((32, 32), None, 7, 10)
    f = torch.randn(13, 10, 32, 32, requires_grad=True)
    assert max(errors(values, f, (32, 32), None)) < 2e-6


@needs_compiler
def test_factors_shared_by_the_outputs_and_in_any_layout():
    torch.manual_seed(0)
    values = random_values((32, 16), 4, 3, 4, shared=True)
    f = torch.randn(4, 4, 32, 16, requires_grad=True)
    assert max(errors(values, f, (32, 16), 4)) < 2e-6
    values = random_values((16, 16), None, 3, 4)
    turned = SymbolValues(
        values.frequency.conj().transpose(-1, -2).contiguous().transpose(-1, -2),
        values.space.transpose(-1, -2).contiguous().transpose(-1, -2).neg(),
    )
    f = torch.randn(16, 16, 4, 4, requires_grad=True).permute(2, 3, 0, 1)
    assert max(errors(turned, f, (16, 16), None)) < 2e-6


@needs_compiler
def test_other_grids_other_numbers_and_single_samples_go_another_way(monkeypatch):
    assert find_lanes((64, 64), (None, None), 4, 4) is not None
    most = load_lanes().lanes_most()
    for shape in ((64, 48), (63, 64), (8, 64), (64,), (16, 16, 16), (2 * most, 16)):
        assert find_lanes(shape, (None,) * len(shape), 4, 4) is None
    assert find_lanes((64, 64), (None, None), 1, 1) is None

    def refuse(*arguments):
        raise AssertionError("not for double precision, nor where a method was asked for")

    monkeypatch.setattr(pairwise, "find_lanes", refuse)
    values = random_values((16, 16), 3, 3, 4)
    f = torch.randn(4, 4, 16, 16)
    apply_values(values, f, Grid((16, 16)), 3, method="fft")
    double = SymbolValues(values.frequency.to(torch.complex128), values.space.double())
    assert apply_values(double, f.double(), Grid((16, 16)), 3).dtype == torch.float64


@needs_compiler
def test_the_default_dtype_does_not_matter():
    values = random_values((16, 16), 3, 3, 4)
    f = torch.randn(4, 4, 16, 16, requires_grad=True)
    torch.set_default_dtype(torch.float64)
    try:
        fast = apply_values(values, f, Grid((16, 16)), 3)
        fast.sum().backward()
    finally:
        torch.set_default_dtype(torch.float32)
    assert fast.dtype == f.grad.dtype == torch.float32
    assert torch.allclose(fast, apply_straight(values, f, Grid((16, 16)), 3), atol=1e-4)


@needs_compiler
def test_what_is_not_finite_stays_in_its_sample():
    values = random_values((16, 16), 3, 3, 4)
    with torch.no_grad():
        f = torch.randn(4, 4, 16, 16)
        f[2, 0, 3, 3] = torch.nan
        out = apply_values(values, f, Grid((16, 16)), 3)
    assert torch.isnan(out[2]).all()
    assert torch.isfinite(out[[0, 1, 3]]).all()


@needs_compiler
@pytest.mark.parametrize("leaf", ["frequency", "space"])
def test_gradients_of_one_factor_alone(leaf):
    values = random_values((16, 32), 5, 3, 4)
    f = torch.randn(4, 4, 16, 32)
    for name in ("frequency", "space"):
        getattr(values, name).requires_grad_(name == leaf)
    fast, straight = (
        torch.autograd.grad(
            way(values, f, Grid((16, 32)), 5).square().sum(), getattr(values, leaf)
        )
        for way in (apply_values, apply_straight)
    )
    assert float((fast[0] - straight[0]).norm() / straight[0].norm()) < 2e-6
