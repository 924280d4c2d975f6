"""Freezing saves work; it must not cost more than it saves."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import pdno


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
