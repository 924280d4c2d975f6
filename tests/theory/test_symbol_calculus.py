"""The calculus of symbols against the extracted symbols of operators that are really composed."""

import math

import pytest
import torch
from dense import operator_matrix

from pdno import Grid
from pdno.symbols.base import apply_directly
from pdno.theory.calculus import (
    adjoint,
    as_full_symbol,
    commutator,
    compose,
    measured_order,
    parametrix,
    poisson_bracket,
)
from pdno.theory.extraction import extract_symbol

TWO_PI = 2 * math.pi


def bracket(xi):
    return (1 + xi.square().sum(dim=-1)).sqrt()


def first(x, xi):
    """Of order 3/2, real and even."""
    return (2 + torch.cos(TWO_PI * x[..., 0])) * bracket(xi) ** 1.5


def second(x, xi):
    """Of order 1/2; its odd part is imaginary, so the operator is real."""
    odd = 1j * xi[..., 0] * torch.cos(TWO_PI * x.sum(dim=-1)) * bracket(xi) ** -0.5
    return (1.5 + torch.sin(TWO_PI * x[..., 0])) * bracket(xi) ** 0.5 + odd


def elliptic(x, xi):
    """Of order 3/2 without a zero."""
    return (2 + torch.cos(TWO_PI * x[..., 0])) * (1 + bracket(xi) ** 1.5)


def operator(symbol, grid):
    values = as_full_symbol(symbol).values(grid)
    return lambda f: apply_directly(values, f, grid)


LINE = (Grid((384,)), 96)
PLANE = (Grid((24, 24)), 8)


def remainder(apply, symbol, grid, modes):
    """The symbol of an operator less a symbol, on modes that are far from those of the grid."""
    extracted = extract_symbol(apply, grid, channels=1, modes=modes, batch=256)
    return extracted.values - as_full_symbol(symbol).values(grid, modes), extracted.xi


@pytest.mark.parametrize("differences", [False, True])
@pytest.mark.parametrize("terms", [1, 2, 3])
def test_each_term_of_a_product_lowers_the_order_by_one(terms, differences):
    grid, modes = LINE
    a, b = operator(first, grid), operator(second, grid)
    symbol = compose(first, second, dim=1, terms=terms, differences=differences)
    rest, xi = remainder(lambda f: a(b(f)), symbol, grid, modes)
    assert measured_order(rest, xi) == pytest.approx(2 - terms, abs=0.15)


def test_in_two_dimensions_the_remainder_falls_with_each_term():
    """The orders 1, 0, -1 seen on |ξ| <= 8, where they are not yet sharp."""
    grid, modes = PLANE
    a, b = operator(first, grid), operator(second, grid)
    extracted = extract_symbol(lambda f: a(b(f)), grid, channels=1, modes=modes, batch=256)
    far = extracted.xi.square().sum(dim=-1) >= 36
    orders, sizes = [], []
    for terms in (1, 2, 3):
        expansion = as_full_symbol(compose(first, second, dim=2, terms=terms))
        rest = extracted.values - expansion.values(grid, modes)
        orders.append(measured_order(rest, extracted.xi))
        sizes.append(float(rest[..., far].abs().max()))
    assert orders[0] == pytest.approx(1, abs=0.3)
    assert orders[0] - orders[1] > 0.7 and orders[1] - orders[2] > 0.7
    assert sizes[1] < 0.2 * sizes[0] and sizes[2] < 0.2 * sizes[1]


@pytest.mark.parametrize("differences", [False, True])
@pytest.mark.parametrize("dim", [1, 2])
def test_products_with_differential_operators_end(dim, differences):
    """∂₁ b = b ∂₁ + ∂b/∂x₁: two terms are all, so nothing is left."""
    grid, modes = (Grid((16,)), 4) if dim == 1 else (Grid((12, 12)), 3)

    def slope(x, xi):
        return TWO_PI * 1j * (xi[..., 0] + 0 * x[..., 0])

    a, b = operator(slope, grid), operator(second, grid)
    symbol = compose(slope, second, dim=dim, terms=2, differences=differences)
    rest, _ = remainder(lambda f: a(b(f)), symbol, grid, modes)
    assert float(rest.abs().max()) < 1e-11
    cut_short = compose(slope, second, dim=dim, terms=1, differences=differences)
    assert float(remainder(lambda f: a(b(f)), cut_short, grid, modes)[0].abs().max()) > 1


@pytest.mark.parametrize("differences", [False, True])
@pytest.mark.parametrize("terms", [1, 2, 3])
def test_each_term_of_an_adjoint_lowers_the_order_by_one(terms, differences):
    """The adjoint of a real operator is its transposed matrix."""
    grid, modes = LINE
    transposed = operator_matrix(operator(first, grid), grid, channels=1)
    symbol = adjoint(first, dim=1, terms=terms, differences=differences)
    rest, xi = remainder(lambda f: f @ transposed, symbol, grid, modes)
    assert measured_order(rest, xi) == pytest.approx(1.5 - terms, abs=0.15)


def test_the_adjoint_of_an_advection():
    """(b ∂)* f = -∂(b f): the conjugate symbol and the derivative of b, in two dimensions."""
    x, xi = torch.rand(5, 1, 2).double(), torch.arange(6.0).reshape(1, 3, 2).double()

    def advection(x, xi):
        return torch.sin(TWO_PI * x[..., 0]) * TWO_PI * 1j * xi[..., 0]

    expected = -advection(x, xi) - TWO_PI * torch.cos(TWO_PI * x[..., 0])
    assert torch.allclose(adjoint(advection, dim=2, terms=2)(x, xi), expected, atol=1e-12)


@pytest.mark.parametrize("differences", [False, True])
@pytest.mark.parametrize("terms", [1, 2, 3])
def test_a_parametrix_inverts_up_to_its_order(terms, differences):
    grid, modes = LINE
    a = operator(elliptic, grid)
    p = operator(parametrix(elliptic, dim=1, terms=terms, differences=differences), grid)
    extracted = extract_symbol(lambda f: a(p(f)) - f, grid, channels=1, modes=modes, batch=256)
    assert measured_order(extracted.values, extracted.xi) == pytest.approx(-terms, abs=0.15)


def test_a_parametrix_in_two_dimensions():
    """The orders -1 and -2 seen on |ξ| <= 12, where they are not yet sharp."""
    grid, modes = Grid((32, 32)), 12
    a = operator(elliptic, grid)
    orders, sizes = [], []
    for terms in (1, 2):
        p = operator(parametrix(elliptic, dim=2, terms=terms), grid)
        rest = extract_symbol(lambda f, p=p: a(p(f)) - f, grid, channels=1, modes=modes, batch=256)
        far = rest.xi.square().sum(dim=-1) >= 81
        orders.append(measured_order(rest.values, rest.xi))
        sizes.append(float(rest.values[..., far].abs().max()))
    assert orders[0] == pytest.approx(-1, abs=0.2)
    assert orders[1] < -1.5 and sizes[1] < 0.25 * sizes[0]


def test_a_commutator_is_the_poisson_bracket_in_the_first_place():
    grid, modes = LINE
    a, b = operator(first, grid), operator(second, grid)

    def apply(f):
        return a(b(f)) - b(a(f))

    def leading(x, xi):
        return poisson_bracket(first, second, dim=1)(x, xi) / (TWO_PI * 1j)

    extracted = extract_symbol(apply, grid, channels=1, modes=modes, batch=256)
    assert measured_order(extracted.values, extracted.xi) == pytest.approx(1, abs=0.1)
    for terms, symbol in ((1, leading), (2, commutator(first, second, dim=1, terms=2))):
        rest = extracted.values - as_full_symbol(symbol).values(grid, modes)
        assert measured_order(rest, extracted.xi) == pytest.approx(1 - terms, abs=0.15)


def test_the_canonical_bracket_and_its_laws():
    """{ξ_j, x_k} = δ_jk, antisymmetry and the rule of Leibniz."""
    x, xi = torch.rand(4, 1, 2).double(), torch.rand(1, 3, 2).double()
    for j in range(2):
        for k in range(2):
            both = poisson_bracket(
                lambda x, xi, j=j: xi[..., j] + 0 * x[..., 0],
                lambda x, xi, k=k: x[..., k] + 0 * xi[..., 0],
                dim=2,
            )
            assert torch.allclose(
                both(x, xi), torch.full((4, 3), float(j == k)).to(torch.complex128)
            )
    there = poisson_bracket(first, second, dim=2)(x, xi)
    assert torch.allclose(there, -poisson_bracket(second, first, dim=2)(x, xi))
    product = poisson_bracket(first, lambda x, xi: second(x, xi) * elliptic(x, xi), dim=2)
    parts = there * elliptic(x, xi)
    parts = parts + second(x, xi) * poisson_bracket(first, elliptic, dim=2)(x, xi)
    assert torch.allclose(product(x, xi), parts)


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("order", [-2.0, 0.0, 1.5])
def test_the_measured_order_of_a_power(dim, order):
    grid = Grid((64,) * dim)
    xi = grid.modes(24)
    values = bracket(xi.to(torch.float64)) ** order
    assert measured_order(values, xi) == pytest.approx(order, abs=0.05)
    assert measured_order(torch.stack([values, -3 * values]), xi) == pytest.approx(order, abs=0.05)
