"""Balls and jets contain the exact numbers, which fractions and 40 digits know."""

from fractions import Fraction

import mpmath
import pytest
import torch

from pdno.theory.interval import FUNCTIONS, MARGIN, Ball, Jet, indices_of, join

EXACT = {
    "gelu": lambda z: z * mpmath.ncdf(z),
    "tanh": mpmath.tanh,
    "sigmoid": lambda z: 1 / (1 + mpmath.exp(-z)),
    "softplus": lambda z: mpmath.log(1 + mpmath.exp(z)),
    "silu": lambda z: z / (1 + mpmath.exp(-z)),
    "cos": mpmath.cos,
    "sin": mpmath.sin,
}


def draw(seed, *shape, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_err_by_less_than_the_margin_and_stay_below_their_bounds(name):
    z = torch.cat([torch.linspace(-9, 9, 37, dtype=torch.float64), draw(1, 12, scale=30.0)])
    derivatives = FUNCTIONS[name].derivatives(z)
    with mpmath.workdps(40):
        for index, point in enumerate(z.tolist()):
            taylor = mpmath.taylor(EXACT[name], mpmath.mpf(point), 5)
            for k in range(5):
                exact, value = taylor[k] * mpmath.factorial(k), float(derivatives[k][index])
                assert abs(exact - value) <= MARGIN / 4 * (1 + abs(point) + abs(value))
            for k, bound in enumerate(FUNCTIONS[name].bounds):
                assert abs(taylor[k]) * mpmath.factorial(k) <= bound


def contains(ball, exact):
    """Whether a fraction lies in each ball."""
    pairs = zip(ball.mid.flatten().tolist(), ball.rad.flatten().tolist(), exact, strict=True)
    return all(abs(Fraction(m) - e) <= Fraction(r) for m, r, e in pairs)


@pytest.mark.parametrize("seed", range(5))
def test_sums_and_products_contain_the_exact_ones(seed):
    a, b = draw(seed, 50), draw(seed + 50, 50, scale=1e-9)
    fa, fb = [Fraction(v) for v in a.tolist()], [Fraction(v) for v in b.tolist()]
    one, two = Ball.point(a), Ball.point(b)
    assert contains(one + two, [x + y for x, y in zip(fa, fb, strict=True)])
    assert contains(one - two * 3.1, [x - y * Fraction(3.1) for x, y in zip(fa, fb, strict=True)])
    assert contains(one * two, [x * y for x, y in zip(fa, fb, strict=True)])
    weight = draw(seed + 99, 7, 50)
    rows = [[Fraction(w) for w in row] for row in weight.tolist()]
    product = [sum(w * x for w, x in zip(row, fa, strict=True)) for row in rows]
    assert contains(one.linear(weight), product)
    assert float(one.linear(weight).rad.max()) < 1e-12


def jet_over(name, size):
    """Of σ(2.3 p q) (p² + q²)^{-0.35} e^{p - q} over a box of that size, its middle first."""
    lo = torch.tensor([[0.6, 0.2]], dtype=torch.float64)
    box = Ball.between(lo, lo + size)
    p, q = (Jet.of_variable(join([Ball.point(box.mid), box])[:, v], v, 2) for v in (0, 1))
    made = ((p * q) * 2.3).apply(name) * (p.square() + q.square()).power(-0.35)
    return (made * (p - q).exponential())[..., None].centred(box.rad)[..., 0]


@pytest.mark.parametrize("name", ["gelu", "tanh", "silu"])
def test_jets_contain_all_derivatives_over_the_box(name):
    jet = jet_over(name, 0.06)

    def exact(x, y):
        weight = (x * x + y * y) ** mpmath.mpf(-0.35) * mpmath.exp(x - y)
        return EXACT[name](mpmath.mpf(2.3) * x * y) * weight

    with mpmath.workdps(30):
        for a, b in [(0.6, 0.2), (0.66, 0.26), (0.66, 0.2), (0.63, 0.25)]:
            for index in indices_of(2):
                orders = index.count(0), index.count(1)
                value = mpmath.diff(exact, (a, b), orders) if index else exact(a, b)
                assert abs(value - float(jet(*index).mid[1])) <= float(jet(*index).rad[1]) + 1e-9


def test_radii_tend_to_the_variation_over_the_box():
    radii = {size: jet_over("gelu", size) for size in (1e-3, 5e-4, 1e-6)}
    for index in ((), (0,), (1,), (0, 1), (1, 1)):
        large, small = (float(radii[size](*index).rad[1]) for size in (1e-3, 5e-4))
        assert 1.9 < large / small < 2.3
        slopes = sum(abs(float(radii[1e-6](*index, v).mid[0])) for v in (0, 1))
        assert small < 1.2 * slopes * 2.5e-4


@pytest.mark.parametrize("dropped", ["rounded", "linear", "square", "between"])
def test_arithmetic_without_directed_rounding_is_caught(dropped, monkeypatch):
    """The properties that hold of balls fail if one of their roundings is left out."""
    properties = [check_sums, check_linear, check_squares, check_between]
    for holds in properties:
        holds()
    mutants = {
        "rounded": classmethod(lambda cls, mid, rad: cls(mid, rad)),
        "linear": lambda self, weight: type(self)(self.mid @ weight.T, self.rad @ weight.abs().T),
        "square": lambda self: type(self)(self.mid.square(), 2 * self.mid.abs() * self.rad),
        "between": classmethod(lambda cls, lo, hi: cls(0.5 * (lo + hi), 0.5 * (hi - lo))),
    }
    monkeypatch.setattr(Ball, dropped, mutants[dropped])
    caught = 0
    for holds in properties:
        try:
            holds()
        except AssertionError:
            caught += 1
    assert caught


def fractions(ball):
    return [Fraction(v) for v in ball.mid.flatten().tolist()]


def check_sums():
    a, b = Ball.point(draw(3, 200)), Ball.point(draw(4, 200, scale=1e-7))
    assert contains(a + b, [x + y for x, y in zip(fractions(a), fractions(b), strict=True)])
    assert contains(a * b, [x * y for x, y in zip(fractions(a), fractions(b), strict=True)])


def check_linear():
    a, weight = Ball.point(draw(5, 60)), draw(6, 40, 60)
    rows = [[Fraction(w) for w in row] for row in weight.tolist()]
    exact = [sum(w * x for w, x in zip(row, fractions(a), strict=True)) for row in rows]
    assert contains(a.linear(weight), exact)


def check_squares():
    a = Ball.point(draw(7, 200))
    assert contains(a.square(), [x * x for x in fractions(a)])


def check_between():
    lo = draw(8, 200)
    hi = lo + draw(9, 200).abs() * 1e-9
    ball = Ball.between(lo, hi)
    for ends in (lo, hi):
        assert contains(ball, [Fraction(v) for v in ends.tolist()])
