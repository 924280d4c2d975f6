"""The table of activations: each claimed symbol class, measured on random networks.

A symbol of one frequency axis is in S^m_{1,0} if |Δ^α a(ξ)| <= C_α <ξ>^{m - α} for every α.
"""

import pytest
import torch

from pdno.symbols import ACTIVATIONS
from pdno.symbols.mlp import SymbolMLP, get_activation

ORDERS = {"gelu": 1, "softplus": 1, "silu": 1, "tanh": 0, "sigmoid": 0, "relu": None}
CLASSICAL = [name for name, order in ORDERS.items() if order is not None]
CORE, TAIL = torch.arange(-1000.0, 1001.0), torch.arange(9000.0, 10_001.0)


def random_symbol(name, seed, *, dim=1, layers=2):
    torch.manual_seed(seed)
    network = SymbolMLP(dim, 1, layers=layers, hidden=16, activation=name).double()
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    return lambda xi: network.fields(xi.double().reshape(-1, dim))[0]


def seminorm(symbol, xi, order, difference):
    """max |Δ^α a(ξ)| <ξ>^{α - m} over a stretch of integers."""
    values = symbol(xi)
    for _ in range(difference):
        values = values[1:] - values[:-1]
    bracket = (1 + xi.double()[: len(values)] ** 2).sqrt()
    return (values.abs() * bracket ** (difference - order)).max()


def test_table_states_the_orders_of_the_paper():
    assert {name: entry.order for name, entry in ACTIVATIONS.items()} == ORDERS
    with pytest.raises(ValueError, match="'elu'; expected one of gelu, softplus, silu, tanh"):
        get_activation("elu")


@pytest.mark.parametrize("name", CLASSICAL)
@pytest.mark.parametrize("difference", [0, 1, 2, 3])
def test_differences_are_bounded_as_the_class_says(name, difference):
    for seed in range(4):
        symbol = random_symbol(name, seed)
        core = seminorm(symbol, CORE, ORDERS[name], difference)
        for tail in (TAIL, -TAIL.flip(0)):
            assert seminorm(symbol, tail, ORDERS[name], difference) < 1.1 * core


@pytest.mark.parametrize("name", CLASSICAL)
def test_orders_are_sharp(name):
    """A symbol of order m grows like |ξ|^m and not slower, for a generic network."""
    for seed in range(4):
        symbol = random_symbol(name, seed)
        # without its constant, which would hide a linear growth
        small, large = (symbol(torch.tensor([xi, -xi])).double() for xi in (1e3, 1e4))
        growth = (large - symbol(torch.zeros(1))).norm() / (small - symbol(torch.zeros(1))).norm()
        assert growth.log10() == pytest.approx(ORDERS[name], abs=0.05)


@pytest.mark.parametrize("name", ["softplus", "silu"])
def test_relatives_differ_from_gelu_by_a_schwartz_function(name):
    z = torch.linspace(-60, 60, 12_001, dtype=torch.float64)
    gap = (get_activation(name)(z) - get_activation("gelu")(z)).abs()
    for power in (1, 4, 8):
        weighted = gap * z.abs() ** power
        assert weighted.argmax() not in (0, len(z) - 1)
        assert weighted[z.abs() > 50].max() < 1e-4 * weighted.max()


@pytest.mark.parametrize("name", CLASSICAL)
def test_smooth_activations_have_bounded_second_derivatives(name):
    """In float64 too: no jump of any size, or Δ_h²σ/h² would grow like h⁻²."""
    z = torch.linspace(-45, 45, 90_001, dtype=torch.float64)
    sigma = get_activation(name)
    for h in (1e-2, 1e-5):
        second = (sigma(z + h) - 2 * sigma(z) + sigma(z - h)) / h**2
        assert second.abs().max() < 1.0


def test_relu_symbols_have_kinks():
    """At a kink the second difference quotient grows like 1/h, so no class is claimed."""
    torch.manual_seed(0)
    network = SymbolMLP(1, 1, layers=0, hidden=16, activation="relu").double()
    kinks = -network.linear_in.bias / network.linear_in.weight[:, 0]

    @torch.no_grad()
    def quotient(h):
        a = [network.fields((kinks + k * h)[:, None])[0] for k in (-1, 0, 1)]
        return ((a[2] - 2 * a[1] + a[0]).abs() / h**2).max()

    ratios = [quotient(h / 10) / quotient(h) for h in (1e-3, 1e-4)]
    assert all(ratio == pytest.approx(10, rel=0.05) for ratio in ratios)
    network.activation = network.first_activation = get_activation("gelu")
    assert quotient(1e-4) == pytest.approx(quotient(1e-3).item(), rel=0.01)


def test_in_two_dimensions_a_unit_does_not_decay_on_its_own_ray():
    """Why no more than the order of the values is claimed for n >= 2."""
    torch.manual_seed(0)
    network = SymbolMLP(2, 1, layers=0, hidden=8, activation="gelu").double()
    w = network.linear_in.weight[0].detach()
    ray = torch.stack([-w[1], w[0]]) / w.norm()
    generic = torch.tensor([0.6, 0.8], dtype=torch.float64)

    def second_derivative(direction, radius):
        point = (radius * direction).requires_grad_()
        (gradient,) = torch.autograd.grad(network(point[None])[0, 0], point, create_graph=True)
        (again,) = torch.autograd.grad((gradient * w).sum(), point)
        return (again * w).sum().abs().item()

    assert second_derivative(ray, 1e4) == pytest.approx(second_derivative(ray, 1e3), rel=1e-3)
    assert second_derivative(ray, 1e4) > 1e-4
    assert second_derivative(generic, 1e4) < 1e-100
