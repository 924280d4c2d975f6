"""Parameter counts as the paper's tables state them."""

import pytest
import torch
from torch import nn

from pdno import FNO, PDNO, count_parameters
from pdno.symbols import InputScale, NetworkSymbol

NAVIER_STOKES = {"dim": 2, "in_channels": 10, "out_channels": 1}
DARCY = {"dim": 2, "in_channels": 1, "out_channels": 1}
BURGERS = {"dim": 1, "in_channels": 1, "out_channels": 1, "width": 64}
BURGERS_SYMBOL = {"symbol_layers": 2, "symbol_hidden": 64, "activation": "tanh"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({**NAVIER_STOKES, "width": 20}, 189_653),
        ({**NAVIER_STOKES, "width": 30}, 391_103),
        ({**NAVIER_STOKES, "width": 20, "depends_on_x": False}, 128_021),
        ({**DARCY, "width": 20, "symbol_layers": 3}, 202_145),
        ({**DARCY, "width": 20, "symbol_layers": 3, "depends_on_x": False}, 136_289),
        ({**BURGERS, **BURGERS_SYMBOL}, 3_321_537),
        ({**BURGERS, **BURGERS_SYMBOL, "depends_on_x": False}, 2_222_785),
    ],
)
@pytest.mark.parametrize("modes", [None, 12])
def test_pdno_whatever_the_modes_and_the_convention(arguments, expected, modes):
    with torch.device("meta"):
        network = PDNO(**arguments, modes=modes)
    assert count_parameters(network) == expected
    assert count_parameters(network, complex_once=False) == expected
    assert not any(parameter.is_complex() for parameter in network.parameters())


def test_heat_operator():
    symbol = NetworkSymbol(1, 1, scale=InputScale(1), takes_time=True, layers=2, hidden=40)
    nets = [symbol.real, symbol.imaginary, symbol.space]
    assert [count_parameters(net) for net in nets] == [3_441] * 3
    assert count_parameters(symbol) == 10_323


@pytest.mark.parametrize(
    ("arguments", "once", "real"),
    [
        ({**NAVIER_STOKES, "modes": 12, "width": 20}, 465_557, 926_357),
        ({**NAVIER_STOKES, "modes": 12, "width": 30}, 1_045_007, 2_081_807),
        ({**NAVIER_STOKES, "modes": 32, "width": 20}, 3_281_557, 6_558_357),
        ({**DARCY, "modes": 12, "width": 32}, 1_188_353, 2_368_001),
        ({**NAVIER_STOKES, "dim": 3, "modes": 8, "width": 20}, 3_281_577, 6_558_377),
        ({**BURGERS, "modes": 16}, 287_425, 549_569),
    ],
)
def test_fno_in_both_conventions(arguments, once, real):
    with torch.device("meta"):
        networks = [FNO(**arguments), PDNO(**arguments, symbol="table")]
    for network in networks:
        assert count_parameters(network) == once
        assert count_parameters(network, complex_once=False) == real


def test_complex_parameters_of_foreign_networks_count_once_or_twice():
    network = nn.Linear(3, 4, dtype=torch.complex64)
    assert count_parameters(network) == 16
    assert count_parameters(network, complex_once=False) == 32
