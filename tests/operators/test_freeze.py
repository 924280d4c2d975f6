"""Values of symbols are evaluated once, and again as soon as a weight has changed."""

import copy
import os

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import pdno
from pdno.networks import neural_operator
from pdno.operators import pseudo_differential
from pdno.symbols import NetworkSymbol


def tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


class Work(TorchDispatchMode):
    """The numbers that all operations of torch in a block write; views write none."""

    numbers = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        outputs = function(*arguments, **(options or {}))
        seen = {tensor.untyped_storage().data_ptr() for tensor in tensors(arguments)}
        written = (t for t in tensors(outputs) if t.untyped_storage().data_ptr() not in seen)
        self.numbers += sum(tensor.numel() for tensor in written)
        return outputs


def work(network, f):
    with torch.no_grad(), Work() as done:
        network(f)
    return done.numbers


def test_a_frozen_network_works_less_even_where_its_symbols_cost_little():
    """A trunk of many channels has many weights and is evaluated at few modes."""
    torch.manual_seed(0)
    network = pdno.PDNO(1, 1, 1, width=32, layers=2, modes=16, symbol="trunk")
    f = torch.randn(1, 1, 256)
    before = work(network, f)
    network.freeze(pdno.Grid((256,)))
    assert work(network, f) < before


@pytest.fixture
def evaluations(monkeypatch):
    """A list that grows with every evaluation of a symbol."""
    made, evaluate = [], NetworkSymbol.evaluate

    def count(symbol, *arguments, **options):
        made.append(symbol)
        return evaluate(symbol, *arguments, **options)

    monkeypatch.setattr(NetworkSymbol, "evaluate", count)
    return made


def small_network():
    torch.manual_seed(0)
    return pdno.PDNO(1, 1, 1, width=4, layers=2, modes=4, symbol_hidden=4)


def anew(network, f):
    """The output of a copy, which has no values yet."""
    with torch.no_grad():
        return copy.deepcopy(network)(f)


def by_numpy(network, weight):
    weight.detach().numpy()[...] += 0.5


def by_optimiser(network, weight):
    weight.grad = torch.ones_like(weight)
    torch.optim.SGD([weight], lr=0.5).step()


def by_assignment(network, weight):
    state = {name: value + 0.5 for name, value in network.state_dict().items()}
    network.load_state_dict(state, assign=True)


CHANGES = {
    "in place": lambda network, weight: weight.detach().add_(0.5),
    "data": lambda network, weight: weight.data.add_(0.5),
    "last digit": lambda network, weight: weight.data.view(-1)[-1:].mul_(1 + 2**-22),
    "other data": lambda network, weight: setattr(weight, "data", weight.data + 0.5),
    "numpy": by_numpy,
    "optimiser": by_optimiser,
    "load": lambda network, weight: network.load_state_dict(small_other().state_dict()),
    "assign": by_assignment,
    "parameter": lambda network, weight: setattr(
        network.operators[0].symbol.real.linear_out, "weight", torch.nn.Parameter(weight + 0.5)
    ),
    "module": lambda network, weight: setattr(
        network.operators[0].symbol, "real", small_other().operators[0].symbol.real
    ),
}


def small_other():
    torch.manual_seed(1)
    return pdno.PDNO(1, 1, 1, width=4, layers=2, modes=4, symbol_hidden=4)


@pytest.mark.parametrize("change", CHANGES)
def test_values_are_kept_until_a_weight_changes(change, evaluations):
    network, f = small_network(), torch.randn(1, 1, 32)
    with torch.no_grad():
        before = network(f)
        assert torch.equal(network(f), before)
        assert len(evaluations) == 2
        CHANGES[change](network, network.operators[0].symbol.real.linear_out.weight)
        after = network(f)
        assert len(evaluations) > 2
    assert not torch.equal(after, before) or change == "last digit"
    assert torch.equal(after, anew(network, f))


def test_each_grid_time_and_precision_has_its_own(evaluations):
    torch.manual_seed(0)
    network = pdno.PDNO(1, 1, 1, width=4, layers=1, modes=4, takes_time=True)
    with torch.no_grad():
        for _ in range(3):
            for n in (16, 24):
                for t in (0.5, torch.tensor(0.25), torch.tensor([0.25, 0.5])):
                    f = torch.randn(2, 1, n)
                    assert torch.equal(network(f, t), copy.deepcopy(network)(f, t))
        assert len(evaluations) == 6 + 18  # those of the copies
        network.double()
        f = f.double()
        assert torch.equal(network(f, 0.5), copy.deepcopy(network)(f, 0.5))


def test_gradients_need_values_of_their_own(evaluations):
    network, f = small_network(), torch.randn(1, 1, 32)
    with torch.no_grad():
        network(f)
    network(f).sum().backward()
    assert all(weight.grad is not None for weight in network.parameters())
    assert len(evaluations) == 4
    network.requires_grad_(False)
    field = f.clone().requires_grad_()
    network(field).sum().backward()  # of the field alone, which needs none
    assert field.grad is not None
    assert len(evaluations) == 4


def test_values_in_inference_mode_serve_later_gradients():
    network, f = small_network().requires_grad_(False), torch.randn(1, 1, 32)
    with torch.inference_mode():
        network(f)
    field = f.clone().requires_grad_()
    network(field).sum().backward()
    assert field.grad is not None


def test_no_more_than_a_budget_is_kept(evaluations, monkeypatch):
    for module in (pseudo_differential, neural_operator):
        monkeypatch.setattr(module, "MOST_KEPT", 2000)
    network = small_network()  # its x-factors on 512 points take 32 kB
    with torch.no_grad():
        for _ in range(2):
            for n in (8, 512):
                network(torch.randn(1, 1, n))
    for operator in network.operators:
        kept = operator.cache.results().values()
        assert sum(result.nbytes for result in kept) <= 2000
    assert len(evaluations) > 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_notices_a_change_too():
    network, f = small_network(), torch.randn(1, 1, 32)
    with torch.no_grad():
        before = network(f)
        child = os.fork()
        if not child:
            network.operators[0].symbol.real.linear_out.bias.data.add_(0.5)
            right = torch.equal(network(f), anew(network, f))
            os._exit(0 if right and not torch.equal(network(f), before) else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert torch.equal(network(f), before)


def test_a_change_of_any_weight_is_noticed():
    torch.manual_seed(0)
    network = pdno.PDNO(1, 1, 1, width=4, layers=1, modes=4)
    f = torch.randn(1, 1, 32)
    network.freeze(pdno.Grid((32,)))
    for weight in network.operators[0].symbol.parameters():
        with torch.no_grad():
            before = network(f)
            weight.data.view(-1)[-1] += 0.5  # which no version counter of torch counts
            assert not torch.equal(network(f), before)


def test_values_are_kept_until_they_are_forgotten():
    torch.manual_seed(0)
    layer = pdno.PDIO(1, 1, 1, modes=4, symbol_hidden=4)
    layer.cache_values(pdno.Grid((16,)))
    assert layer.cache.results()
    layer.forget_values()
    assert not layer.cache.results()
