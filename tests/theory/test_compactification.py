"""Interval bounds over the compactified phase space contain what dense samples show."""

import itertools

import pytest
import torch
from own_symbols import expressions

from pdno.theory.enclosure import enclose_expression, least
from pdno.theory.expression import Bracket, Frequency, Harmonic, apply
from pdno.theory.prover import prove

XI, ETA, ONE = Frequency(0), Frequency(1), Bracket()


def derivative(expression, x, xi, alpha, beta):
    """∂_ξ^α ∂_x^β a at pairs (M, d) by repeated differentiation."""
    x, xi = x.clone().requires_grad_(), xi.clone().requires_grad_()
    values = expression(x[:, None], xi[:, None])
    values = values.expand(len(x), 1) if values.shape != (len(x), 1) else values
    for variable, index in ((xi, alpha), (x, beta)):
        for axis, count in enumerate(index):
            for _ in range(count):
                if not values.requires_grad:
                    return torch.zeros(len(x)).double()
                (slope,) = torch.autograd.grad(
                    values.sum(), variable, create_graph=True, allow_unused=True
                )
                values = torch.zeros(len(x), 1).double() if slope is None else slope[:, axis, None]
    return values.detach()[:, 0]


def check_constants(expression, dim, seed):
    """Whether samples are below the upper bounds, and reach near the attained ones."""
    draw = torch.Generator().manual_seed(seed)
    in_x = prove(expression, dim).in_x
    order, bounds = enclose_expression(expression, dim, in_x=in_x, boxes=256)
    assert order == pytest.approx(prove(expression, dim).order)
    count = 400
    x = torch.rand(count, dim, generator=draw, dtype=torch.float64)
    xi = torch.randn(count, dim, generator=draw, dtype=torch.float64)
    xi = xi * 10 ** (6 * torch.rand(count, 1, generator=draw, dtype=torch.float64) - 2)
    bracket = (1 + xi.square().sum(dim=-1)).sqrt()
    for (alpha, beta), (low, high) in bounds.items():
        if sum(alpha) + sum(beta) > 2:
            continue
        sizes = derivative(expression, x, xi, alpha, beta).abs() * bracket ** (sum(alpha) - order)
        # far out differentiation in float64 loses digits
        assert float(sizes[bracket < 1e3].max()) <= high * (1 + 1e-6) + 1e-9, (alpha, beta)
        assert low <= high


@pytest.mark.parametrize("case", list(itertools.islice(expressions(), 8)), ids=lambda c: c.name)
def test_constants_contain_dense_samples(case):
    if case.dim < 3:
        check_constants(case.function, case.dim, 0)


@pytest.mark.slow
@pytest.mark.timeout(5400)  # five seconds a symbol
def test_constants_of_five_hundred_symbols_contain_dense_samples():
    cases = [case for case in expressions(count=750, seed=1) if case.dim < 3]
    assert len(cases) == 500
    for number, case in enumerate(cases):
        check_constants(case.function, case.dim, number)


def test_known_constants_are_enclosed():
    """⟨ξ⟩ has |∂a| <= 1 and |∂²a| ⟨ξ⟩ <= 1; cos 2πx has derivatives 2π, 4π²."""
    _, bounds = enclose_expression(ONE, 1, in_x=False)
    for index, exact in (((0,), 1.0), ((1,), 1.0), ((2,), 1.0)):
        low, high = bounds[index, (0,)]
        assert low <= exact <= high <= 1.6 * exact
    _, bounds = enclose_expression(Harmonic("cos", (1,)) * ONE**-1, 1, in_x=True)
    low, high = bounds[(0,), (1,)]
    assert low <= 2 * torch.pi <= high <= 10


def test_lower_bounds_are_positive_where_there_is_one():
    form = 1 + XI**2 + XI * ETA + ETA**2
    order, bound = least(form, 2, in_x=False)
    assert order == 2.0 and 0 < bound <= 0.5
    assert least(1 + XI**2, 2, in_x=False)[1] == 0.0
    assert least(apply("tanh", XI / ONE), 1, in_x=False, size=True)[1] == 0.0
    assert least(ONE + 0.9 * XI, 1, in_x=False, far=True)[1] > 0
