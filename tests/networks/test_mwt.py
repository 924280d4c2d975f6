"""MWT against the published networks: golden vectors, parameter counts, conversion, errors."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from pdno.networks.mwt import MWT
from pdno.networks.published_weights import load_published

GOLDEN = Path(__file__).parents[3] / "shared" / "golden"
NAMES = ["mwt1d_legendre", "mwt1d_chebyshev", "mwt2d_legendre", "mwt2d_chebyshev"]
NAMES += ["mwt_space_time"]
TINY = {"width": 2, "wavelets": 2, "modes": 3, "blocks": 2}


def load(name):
    path = GOLDEN / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"golden vectors are not here: {path}")
    file = np.load(path)
    state = {
        key.removeprefix("state/"): torch.from_numpy(file[key])
        for key in file.files
        if key.startswith("state/")
    }
    config = json.loads(str(file["config"]))
    source = torch.from_numpy(file["input"]).movedim(-1, 1)
    return state, config, source, torch.from_numpy(file["output"]).unsqueeze(1)


def count(model, *, complex_once):
    return sum(
        p.numel() // 2 if complex_once and name.endswith("table") else p.numel()
        for name, p in model.named_parameters()
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@torch.no_grad()
def test_published_outputs(name, dtype):
    state, config, source, target = load(name)
    model = load_published(state, 64, base=config["base"]).to(dtype)
    assert not model.training
    error = model(source.to(dtype)) - target
    # without their mean the outputs are several times smaller: a harder test
    assert error.norm() < 1e-5 * (target - target.mean()).norm()


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_published_names_may_have_a_prefix_real_weights_and_no_base(name):
    state, config, source, _ = load(name)
    expected = load_published(state, 64, base=config["base"])(source)
    spelled = {
        f"module.{key}": torch.view_as_real(value) if value.is_complex() else value
        for key, value in state.items()
    }
    assert torch.equal(load_published(spelled, 64)(source), expected)


@pytest.mark.parametrize("name", NAMES)
def test_published_filters_are_ours(name):
    state, config, _, _ = load(name)
    operator = load_published(state, 64).operators[0]
    down = torch.cat([state["MWT_CZ.0.ec_s"], state["MWT_CZ.0.ec_d"]], dim=1).T
    parts = ["e", "o"] if config["dim"] == 1 else ["ee", "eo", "oe", "oo"]
    up = torch.cat([state[f"MWT_CZ.0.rc_{part}"] for part in parts], dim=1).T
    assert torch.allclose(operator.analysis, down, atol=1e-6)
    assert torch.allclose(operator.synthesis, up, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "once", "real"),
    [
        ({"dim": 1, "in_channels": 1, "width": 16, "modes": 10, "blocks": 2}, 254_377, 500_137),
        ({"dim": 2, "in_channels": 3}, 5_089_281, 9_807_873),
        (
            {"dim": 2, "in_channels": 13, "wavelets": 3, "space_time": True},
            107_522_393,
            215_017_817,
        ),
    ],
)
def test_parameter_counts(arguments, once, real):
    with torch.device("meta"):
        model = MWT(**arguments, append_coordinates=False)
    assert count(model, complex_once=True) == once
    assert count(model, complex_once=False) == real


@pytest.mark.parametrize(
    ("dim", "space_time", "shape"), [(1, False, (8,)), (2, False, (4, 4)), (2, True, (4, 4, 3))]
)
def test_gradients_and_state(dim, space_time, shape):
    torch.manual_seed(0)
    model = MWT(dim, 2, out_channels=3, space_time=space_time, **TINY).double()
    f = torch.randn(2, 2, *shape, dtype=torch.float64, requires_grad=True)
    assert model(f).shape == (2, 3, *shape)
    assert torch.autograd.gradcheck(model, (f,), fast_mode=True)
    model(f).square().sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    model.eval()
    other = MWT(dim, 2, out_channels=3, space_time=space_time, **TINY).double().eval()
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(f), model(f))
    assert torch.equal(copy.deepcopy(model)(f), model(f))


@pytest.mark.parametrize("base", ["legendre", "chebyshev"])
@torch.no_grad()
def test_single_precision_is_close_to_double(base):
    torch.manual_seed(0)
    model = MWT(2, 1, base=base, width=2, wavelets=4, modes=4, blocks=2)
    f = torch.randn(2, 1, 16, 16)
    single = model(f)
    double = model.double()(f.double())
    assert (single - double).norm() < 1e-5 * double.norm()


@torch.no_grad()
def test_relu_is_between_the_operators_but_not_after_the_last():
    model = MWT(1, 1, **TINY)
    seen = []
    model.operators[1].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    model.project.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    model(torch.randn(4, 1, 16))
    assert seen[0].min() == 0 and seen[1].min() < 0


def test_batch_norm_follows_every_operator_in_space_time_only():
    assert len(MWT(2, 1, **TINY).norms) == 0
    norms = MWT(2, 1, space_time=True, **TINY).norms
    assert len(norms) == 2 and all(isinstance(norm, nn.BatchNorm3d) for norm in norms)


@torch.no_grad()
def test_coordinates_are_appended_as_in_the_published_data():
    torch.manual_seed(0)
    model = MWT(2, 1, space_time=True, **TINY).eval()
    plain = MWT(2, 4, space_time=True, append_coordinates=False, **TINY).eval()
    plain.load_state_dict(model.state_dict())
    f = torch.randn(2, 1, 8, 8, 5)
    x = torch.linspace(0, 1, 8)
    t = torch.linspace(0, 1, 6)[1:]
    mesh = torch.stack(torch.meshgrid(x, x, t, indexing="ij"))
    expected = plain(torch.cat([f, mesh.expand(2, 3, 8, 8, 5)], dim=1))
    assert torch.allclose(model(f), expected, atol=1e-6)
    assert MWT(1, 2, **TINY).lift.in_channels == 3


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match="dim is 3"):
        MWT(3, 1)
    with pytest.raises(ValueError, match="blocks is 0"):
        MWT(1, 1, blocks=0)
    with pytest.raises(ValueError, match=r"\(2, 16, 1\).*C=1.*channels first"):
        MWT(1, 1, **TINY)(torch.zeros(2, 16, 1))
    with pytest.raises(ValueError, match=r"\(2, 1, 8, 8\).*N_1, N_2, T"):
        MWT(2, 1, space_time=True, **TINY)(torch.zeros(2, 1, 8, 8))
    with pytest.raises(ValueError, match=r"grid is \(12,\).*power of two"):
        MWT(1, 1, **TINY)(torch.zeros(2, 1, 12))


def test_wrong_states_are_named():
    state, _, _, _ = load("mwt1d_chebyshev")
    with pytest.raises(ValueError, match="not those of legendre"):
        load_published(state, 64, base="legendre")
    with pytest.raises(ValueError, match="'MWT_CZ.0.ec_s'.*published PDNO, FNO or MWT"):
        load_published({"Lk.weight": torch.zeros(1)}, 64)
    partial = {key: value for key, value in state.items() if key != "MWT_CZ.1.B.weights1"}
    with pytest.raises(ValueError, match=r"MWT_CZ\.1\.B\.weights.*average_to_detail"):
        load_published(partial, 64)
    with pytest.raises(ValueError, match=r"Lc0\.weight"):
        load_published({**state, "Lc0.weight": torch.zeros(64, 8)}, 64)


def test_an_empty_batch_is_refused():
    with pytest.raises(ValueError, match="the batch is empty: give at least one sample"):
        MWT(1, 1, width=2, wavelets=2, modes=3, blocks=1)(torch.zeros(0, 1, 16))
