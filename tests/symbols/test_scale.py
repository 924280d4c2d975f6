"""What symbol networks see of x and ξ is a matter of the model, and exact."""

import copy

import pytest
import torch

from pdno import FNO, PDNO, Grid
from pdno.symbols import InputScale

LIKE = torch.zeros((), dtype=torch.float64)
TINY = {"width": 2, "layers": 2, "symbol_layers": 0, "symbol_hidden": 4}


@pytest.mark.parametrize("shape", [(64,), (63,), (16, 12), (7, 8, 10)])
def test_published_inputs(shape):
    """x·s/(s-1) is linspace(0, 1, s) and ξ/s is fftfreq(s), per axis."""
    scale = InputScale(len(shape), [n / (n - 1) for n in shape], shape)
    axes = [torch.linspace(0, 1, n, dtype=torch.float64) for n in shape]
    x = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)
    eps = torch.finfo(torch.float64).eps
    assert (scale.x(Grid(shape), LIKE) - x).abs().max() <= 2 * eps
    axes = [torch.fft.fftfreq(n, dtype=torch.float64) for n in shape[:-1]]
    axes.append(torch.fft.rfftfreq(shape[-1], dtype=torch.float64))
    xi = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)
    # the Nyquist mode of the last axis: ours is +1/2 as rfftfreq's
    assert (scale.xi(Grid(shape), None, LIKE) - xi).abs().max() <= eps


def test_published_inputs_in_single_precision_are_the_rounded_ones():
    scale = InputScale(1, 64 / 63, 64)
    like = torch.zeros(())
    exact = torch.arange(64, dtype=torch.float64) / 63
    assert torch.equal(scale.x(Grid((64,)), like)[:, 0], exact.float())
    assert torch.equal(scale.xi(Grid((64,)), None, like)[:, 0], torch.arange(33) / 64)


@pytest.mark.parametrize(
    ("shape", "modes", "low", "high"),
    [
        ((64,), None, 0.0, 4.0),
        ((64, 32), None, -4.0, 4.0),
        ((64, 64), (12, 12), -4.0, 4.0),
        ((64, 32), (20, 5), -4.0, 4.0),
        ((9, 9, 9), None, -4.0, 4.0),
    ],
)
def test_without_a_scale_the_kept_modes_span_minus_four_to_four(shape, modes, low, high):
    xi = InputScale(len(shape)).xi(Grid(shape), modes, LIKE)
    kept = modes or [n // 2 for n in shape]
    step = max(4 / k for k in kept)
    assert low <= xi.min() <= low + step and high - step <= xi.max() <= high
    if modes is None and min(n % 2 for n in shape) == 0:
        assert xi.abs().max() == 4.0


def test_choice_is_made_once():
    scale = InputScale(2)
    first = scale.xi(Grid((16, 16)), (4, 4), LIKE)
    finer = scale.xi(Grid((32, 64)), None, LIKE)
    grid = Grid((32, 64)).modes()
    kept = ((grid >= -4) & (grid < 4)).all(dim=-1)
    assert torch.equal(finer[kept].reshape(first.shape), first)
    assert scale.frequency.tolist() == [1.0, 1.0]


def test_same_mode_is_the_same_input_at_every_resolution():
    scale = InputScale(1)
    coarse, fine = (scale.xi(Grid((n,)), None, LIKE) for n in (32, 96))
    assert torch.equal(fine[:17], coarse)
    x, y = (scale.x(Grid((n,)), LIKE) for n in (32, 96))
    assert torch.allclose(y[::3], x, rtol=0, atol=1e-16)


@pytest.mark.parametrize("symbol", ["network", "low-rank", "classical"])
@torch.no_grad()
def test_kept_modes_settle_the_scale_at_construction(symbol):
    model = PDNO(2, 1, 1, modes=(6, 3), symbol=symbol, **TINY)
    scales = [op.symbol.scale for op in model.operators]
    assert all(scale.frequency.tolist() == [1.5, 0.75] for scale in scales)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    model(torch.randn(1, 1, 16, 20))  # a grid has no say in it
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    later = InputScale(2)
    later.xi(Grid((16, 20)), (6, 3), LIKE)
    assert torch.equal(later.frequency, scales[0].frequency)


@torch.no_grad()
def test_choice_travels_with_the_weights():
    f = torch.randn(2, 1, 16)
    model = PDNO(1, 1, 1, **TINY)
    model(f)
    fresh = PDNO(1, 1, 1, **TINY)
    fresh.load_state_dict(model.state_dict())
    finer = torch.randn(2, 1, 64)  # would choose another scale
    assert torch.equal(fresh(finer), model(finer))
    assert [op.symbol.scale.frequency.item() for op in fresh.operators] == [2.0, 2.0]


@torch.no_grad()
def test_state_of_a_model_that_has_not_chosen_leaves_the_choice_open():
    unused, used = PDNO(1, 1, 1, **TINY), PDNO(1, 1, 1, **TINY)
    used(torch.randn(1, 1, 16))
    used.load_state_dict(unused.state_dict())
    used(torch.randn(1, 1, 32))
    assert used.operators[0].symbol.scale.frequency.item() == 4.0


@pytest.mark.parametrize("network", [PDNO, FNO])
@pytest.mark.parametrize(
    "move",
    [
        lambda model: model.half().double(),
        lambda model: model.bfloat16().float(),
        lambda model: model.float(),
        copy.deepcopy,
    ],
    ids=["half", "bfloat16", "float", "deepcopy"],
)
def test_scales_keep_all_their_digits(network, move):
    options = {**TINY, "frequency_scale": 17.3} if network is PDNO else {"width": 2, "modes": 3}
    model = move(network(1, 1, 1, coordinate_scale=64 / 63, **options))
    scales = {k: v for k, v in model.state_dict().items() if "scale" in k}
    assert len(scales) == (5 if network is PDNO else 1)
    for name, value in scales.items():
        assert value.dtype == torch.float64
        assert value.item() == (17.3 if name.endswith("frequency") else 64 / 63)


def test_models_from_the_meta_device_take_the_scales_of_their_weights():
    model = PDNO(1, 1, 1, coordinate_scale=64 / 63, **TINY)
    f = torch.randn(2, 1, 16)
    expected = model(f)
    with torch.device("meta"):
        ghost = PDNO(1, 1, 1, **TINY)
    ghost.to_empty(device="cpu").load_state_dict(model.state_dict())
    assert torch.equal(ghost(f), expected)


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf"), (1.0, 2.0), ()])
def test_bad_scales_are_named(bad):
    match = r"scale .*; expected a positive finite number, or one for each of 1 axes"
    for arguments in ({"coordinate_scale": bad}, {"frequency_scale": bad}):
        with pytest.raises(ValueError, match=match):
            InputScale(1, **arguments)
        with pytest.raises(ValueError, match=match):
            PDNO(1, 1, 1, **TINY, **arguments)
    with pytest.raises(ValueError, match=match):
        FNO(1, 1, 1, coordinate_scale=bad)
