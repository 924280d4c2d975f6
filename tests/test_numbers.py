"""Numbers at their ends: both precisions, nothing, almost nothing, and grids of every size.

Of each operator: float32 is float64 to rounding; a field of zeros, a constant and one below the
smallest normal number have finite outputs; how a field lies in memory does not matter; and what
cannot be computed with is refused by name.
"""

from functools import partial

import numpy as np
import pytest
import torch

from pdno import FNO, MWT, PDNO, Grid, OperatorDataset, apply_symbol, fit
from pdno.networks.pdno import SemigroupStep
from pdno.spectral.metrics import band_errors, relative_error, relative_l2
from pdno.symbols import HeatSymbol

TINY = {"width": 4, "modes": 2}
PLAIN = {**TINY, "layers": 2, "symbol_hidden": 6}
SYMBOLS = ("network", "trunk", "low-rank", "table", "classical")
OPERATORS = {
    **{f"PDNO {kind}": partial(PDNO, symbol=kind, **PLAIN) for kind in SYMBOLS},
    "PDNO of ξ": partial(PDNO, depends_on_x=False, **PLAIN),
    "PDNO, all modes": partial(PDNO, width=4, layers=2, symbol_hidden=6),
    "FNO": partial(FNO, layers=2, **TINY),
    "MWT": partial(MWT, width=2, wavelets=2, modes=2, blocks=1),
    "semigroup": partial(SemigroupStep, symbol_hidden=6, **TINY),
    "transport": partial(FNO, layers=2, head="transport", **TINY),
}
every_operator = pytest.mark.parametrize("name", OPERATORS)
SHAPES = {1: (32,), 2: (8, 16), 3: (4, 8, 4)}


def make(name, dim=1):
    torch.manual_seed(0)
    return OPERATORS[name](dim, 1, 1)


@every_operator
@pytest.mark.parametrize("dim", [1, 2, 3])
@torch.no_grad()
def test_single_precision_is_double_to_rounding(name, dim):
    if name == "MWT" and dim == 3:
        pytest.skip("MWT has one or two dimensions")
    shape = (8, 8) if (name, dim) == ("MWT", 2) else SHAPES[dim]
    network, f = make(name, dim), torch.randn(3, 1, *shape)
    single = network(f)
    double = network.double()(f.double())
    assert single.dtype == torch.float32
    assert (single - double).norm() < 1e-5 * double.norm()


@every_operator
@pytest.mark.parametrize("size", [0.0, 3.0, 1e-42], ids=["zero", "constant", "denormal"])
def test_fields_without_structure_have_finite_outputs_and_gradients(name, size):
    network = make(name)
    f = torch.full((2, 1, 16), size, requires_grad=True)
    out = network(f)
    out.square().sum().backward()
    assert out.isfinite().all() and f.grad.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in network.parameters())
    if size < 1:  # almost nothing is nothing
        assert torch.allclose(out, network(torch.zeros(2, 1, 16)), rtol=0, atol=1e-30)


@every_operator
@torch.no_grad()
def test_how_a_field_lies_in_memory_does_not_matter(name):
    network, whole = make(name), torch.randn(32, 1, 4)
    across, one = whole.permute(2, 1, 0), whole[0, :, :1]
    for f in (across, across[..., ::2], one.expand(2, 1, 16)):
        assert not f.is_contiguous()
        assert torch.equal(network(f), network(f.contiguous()))


@every_operator
@pytest.mark.parametrize("dtype", [torch.int64, torch.float16, torch.bfloat16, torch.complex64])
def test_other_kinds_of_numbers_are_refused_by_name(name, dtype):
    kind = str(dtype).removeprefix("torch.")
    with pytest.raises(ValueError, match=f"{kind}.*float32"):
        make(name)(torch.ones(2, 1, 16, dtype=dtype))


@pytest.mark.parametrize("dtype", [np.int64, np.float16, np.float64, np.uint8])
def test_predictions_take_every_kind_of_real_numbers(dtype):
    f = torch.randint(0, 9, (4, 1, 16)).float()
    data = OperatorDataset.from_arrays(f, 2 * f + 1, Grid((16,)))
    trained = fit(FNO(1, 1, 1, width=4, modes=3), data, epochs=1, batch_size=2)
    given = trained.predict(f.numpy().astype(dtype))
    expected = trained.predict(f.numpy())
    digits = 1e-3 if dtype == np.float16 else 0  # the prediction has the precision of its input
    assert np.allclose(given.astype(np.float32), expected, rtol=digits, atol=digits)


@every_operator
@pytest.mark.parametrize("points", [1, 2, 3, 7, 9, 127])
@torch.no_grad()
def test_grids_of_every_size_work_or_are_refused_by_name(name, points):
    f = torch.randn(2, 1, points)
    try:
        out = make(name)(f)
    except ValueError as problem:
        assert points == 1 or (name == "MWT" and points & (points - 1))
        assert str(points) in str(problem)
    else:
        assert out.shape == f.shape and out.isfinite().all()


@pytest.mark.parametrize("points", [1_000_000, 999_983], ids=["smooth", "prime"])
@torch.no_grad()
def test_a_million_points_on_a_line(points):
    """A wave is damped by the heat equation as its formula says; an FNO sees all points."""
    x = torch.arange(points, dtype=torch.float64) / points
    f = torch.sin(2 * torch.pi * 3 * x)[None, None]
    factor = torch.exp(torch.tensor(-4 * torch.pi**2 * 9 * 0.01 * 0.5, dtype=torch.float64))
    found = apply_symbol(HeatSymbol(diffusivity=0.01), f, t=0.5)
    assert (found - factor * f).abs().max() < 1e-9
    single = apply_symbol(HeatSymbol(diffusivity=0.01), f.float(), t=0.5)
    assert (single - found).norm() < 1e-5 * found.norm()
    out = make("FNO")(f.float())
    assert out.shape == f.shape and out.isfinite().all()


@pytest.mark.parametrize("size", [1e-42, 1e-25, 1.0, 1e25, 1e37])
@pytest.mark.parametrize("metric", ["l2", "h1", "bands"])
def test_relative_errors_do_not_depend_on_the_unit(size, metric):
    u = torch.full((2, 1, 8), 3.0) * size
    v = torch.full((2, 1, 8), 4.0) * size
    found = {
        "l2": lambda: relative_l2(v, u),
        "h1": lambda: relative_error(v, u, dim=1, s=1.0),
        "bands": lambda: band_errors(v, u, dim=1, edges=[0, 2])[:, 0],
    }[metric]()
    assert found.dtype == torch.float32
    # below the normal numbers a float has few digits of its own
    assert torch.allclose(found, torch.tensor(1 / 3), rtol=1e-3 if size < 1e-38 else 1e-6)


def test_a_target_of_zero_is_refused_even_where_the_prediction_is_zero_too():
    with pytest.raises(ValueError, match="zero everywhere"):
        relative_l2(torch.zeros(1, 1, 8), torch.zeros(1, 1, 8))
