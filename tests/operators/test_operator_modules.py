"""The operator as a module: gradients, precisions, compilation, copies and state."""

import copy

import pytest
import torch
from torch.func import functional_call

from pdno import PseudoDifferentialOperator
from pdno.symbols import InputScale, LowRankSymbol, NetworkSymbol, TableSymbol

KINDS = ["network", "xi", "low-rank", "shared", "table"]


def make(kind, dim, modes=None, *, inputs=2, outputs=2, **options):
    options = {"scale": InputScale(dim, 1.2, 2.5), "layers": 1, "hidden": 3, **options}
    if kind == "table":
        modes = modes or (2,) * dim
        return PseudoDifferentialOperator(TableSymbol(inputs, outputs, modes=modes), modes)
    if kind in ("network", "xi"):
        symbol = NetworkSymbol(inputs, outputs, depends_on_x=kind == "network", **options)
    else:
        symbol = LowRankSymbol(inputs, outputs, rank=2, shared=kind == "shared", **options)
    return PseudoDifferentialOperator(symbol, modes)


def gradcheck(operator, f, t=None):
    """Gradients by f, by every parameter and by t against differences."""
    names, parameters = zip(*operator.named_parameters(), strict=True)

    def call(f, t, *values):
        return functional_call(operator, dict(zip(names, values, strict=True)), (f, None, t))

    arguments = (f.requires_grad_(), t, *(p.detach().requires_grad_() for p in parameters))
    return torch.autograd.gradcheck(call, arguments, fast_mode=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(6,), (5,), (4, 5), (5, 4), (3, 4, 4)], ids=str)
@pytest.mark.parametrize("modes", [None, 1])
def test_gradients(kind, shape, modes):
    kept = None if modes is None else (modes, 2, 2)[: len(shape)]
    if kind == "table" and kept is None:
        kept = tuple(n // 2 for n in shape)
    operator = make(kind, len(shape), kept and tuple(min(k, 2) for k in kept)).double()
    try:
        ok = gradcheck(operator, torch.randn(2, 2, *shape, dtype=torch.float64))
    except ValueError as error:
        pytest.fail(str(error))
    assert ok


@pytest.mark.parametrize("kind", ["network", "xi", "low-rank"])
@pytest.mark.parametrize("per_sample", [False, True])
def test_gradients_by_time(kind, per_sample):
    operator = make(kind, 1, takes_time=True).double()
    t = torch.tensor([0.3, 0.8] if per_sample else 0.3, dtype=torch.float64, requires_grad=True)
    assert gradcheck(operator, torch.randn(2, 2, 6, dtype=torch.float64), t)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(64,), (33, 32)], ids=str)
@pytest.mark.parametrize("modes", [None, 5])
@torch.no_grad()
def test_single_precision_is_close_to_double(kind, shape, modes):
    operator = make(kind, len(shape), None if modes is None else (modes,) * len(shape))
    f = torch.randn(2, 2, *shape)
    single = operator(f)
    assert single.dtype == torch.float32
    double = operator.double()(f.double())
    assert (single - double).norm() < 2e-6 * double.norm()


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_autocast_leaves_the_transforms_in_single_precision(kind):
    operator = make(kind, 2)
    f = torch.randn(2, 2, 16, 16)
    expected = operator(f)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(operator(f), expected)
        low = operator(f.bfloat16())
    assert low.dtype == torch.float32
    assert torch.equal(low, operator(f.bfloat16().float()))


@pytest.mark.parametrize("kind", KINDS)
def test_training_after_inference_mode(kind):
    """Whatever is remembered between calls must serve gradients too."""
    operator = make(kind, 2, (2, 3))
    f = torch.randn(2, 2, 11, 13)
    with torch.inference_mode():
        expected = operator(f).clone()
    f.requires_grad_()
    out = operator(f)
    out.square().sum().backward()
    assert torch.allclose(out, expected, atol=1e-6)
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in operator.parameters())


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_meta_device_and_back(kind):
    operator, f = make(kind, 2, (2, 3)), torch.randn(2, 2, 8, 9)
    expected, state = operator(f), operator.state_dict()
    ghost = copy.deepcopy(operator).to("meta")
    assert all(value.is_meta for value in ghost.state_dict().values())
    ghost.to_empty(device="cpu").load_state_dict(state)
    assert torch.equal(ghost(f), expected)


def step(operator):
    optimiser = torch.optim.SGD(operator.parameters(), lr=0.5)
    operator(torch.randn(2, 2, 12)).square().sum().backward()
    optimiser.step()


def write(operator):
    with torch.no_grad():
        for parameter in operator.parameters():
            parameter.mul_(1.5)


@pytest.mark.parametrize("change", [step, write], ids=["optimiser", "in place"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_operator_is_that_of_its_parameters_now(kind, change):
    """Nothing that is remembered may outlive the weights it was made of."""
    operator, f = make(kind, 1), torch.randn(2, 2, 12)
    with torch.no_grad():
        before = operator(f).clone()
    change(operator)
    fresh = make(kind, 1)
    fresh.load_state_dict(operator.state_dict())
    with torch.no_grad():
        assert torch.equal(operator(f), fresh(f))
        assert not torch.allclose(operator(f), before, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_copies_are_equal_and_independent(kind):
    operator, f = make(kind, 1), torch.randn(2, 2, 12)
    twin = copy.deepcopy(operator)
    with torch.no_grad():
        assert torch.equal(twin(f), operator(f))
        for parameter in twin.parameters():
            parameter.add_(0.5)
        assert not torch.allclose(twin(f), operator(f), atol=1e-2)


def test_state_names_are_stable():
    nets = ["real", "imaginary", "space"]
    layers = ["linear_in", "hidden.0", "linear_out"]
    scales = ["symbol.scale.coordinate", "symbol.scale.frequency"]
    expected = scales + [
        f"symbol.{net}.{layer}.{part}"
        for net in nets
        for layer in layers
        for part in ("weight", "bias")
    ]
    assert list(make("network", 1).state_dict()) == expected
    assert list(make("low-rank", 1).state_dict()) == expected
    without = [name for name in expected if ".space." not in name]
    assert list(make("xi", 1).state_dict()) == without
    assert list(make("table", 1).state_dict()) == ["symbol.table"]


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_are_real(kind):
    assert not any(parameter.is_complex() for parameter in make(kind, 2).parameters())
