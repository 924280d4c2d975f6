"""Symbols of known class with random parameters: another set for every seed.

    python tests/theory/drawn_symbols.py 4 1 2 3      # seed 4 in 1, 2 and 3 dimensions

Families of the class have parameters over orders of magnitude, and are multiplied, added and
composed; families outside of it stand alone or beside something larger.
"""

import itertools
import math
import random
import sys

import torch
from known_symbols import Known, bracket, bump, norm
from own_symbols import main

PI = math.pi


class Draw(random.Random):
    """Random parameters of one dimension."""

    def __init__(self, seed, dim):
        super().__init__(1000 * seed + dim)
        self.dim = dim

    def log(self, low, high):
        return math.exp(self.uniform(math.log(low), math.log(high)))

    def direction(self):
        w = torch.tensor([self.gauss(0, 1) for _ in range(self.dim)], dtype=torch.float64)
        return w / w.norm()

    def axis(self):
        return self.randrange(self.dim)


def smooth_of_x(d):
    """A smooth function on the torus with values around 1."""
    j, c, k = d.axis(), d.random(), d.randint(1, 4)
    r, w, s = 1 - d.log(2e-3, 0.5), d.log(2e-3, 0.2), d.log(1, 300)

    def turn(x):
        return 2 * PI * (x[..., j] - c)

    return d.choice(
        [
            (f"cos {k}", lambda x: 2 + torch.cos(k * turn(x))),
            (f"e^sin {k}", lambda x: torch.exp(torch.sin(k * turn(x)))),
            (f"Poisson {r:.4f}", lambda x: (1 - r * r) / (1 - 2 * r * torch.cos(turn(x)) + r * r)),
            (f"peak {w:.4f}", lambda x: 1 + bump(x[..., j], c, w)),
            (f"tanh {s:.0f} sin", lambda x: 2 + torch.tanh(s * torch.sin(turn(x)))),
            (
                "lacunary",
                lambda x: 2 + sum(2.0**-n * torch.cos(2.0**n * turn(x)) for n in range(7)),
            ),
        ]
    )


def bounded(d):
    """A symbol of S^0 with values between -1 and 1."""
    w, k, c, s = d.direction(), d.log(0.3, 1e6), d.uniform(0.5, 12), d.log(1, 1e5)
    f = d.choice([torch.tanh, torch.erf, lambda z: 2 / PI * torch.atan(z), torch.sin])
    k = min(k, 30) if f is torch.sin else k
    q = d.log(1, 300)
    return d.choice(
        [
            (f"steep {k:.1g}", lambda xi: f(k * (xi @ w) / bracket(xi))),
            (f"log {c:.1f}", lambda xi: torch.sin(c * torch.log(bracket(xi)))),
            (f"scaled {s:.1g}", lambda xi: 1 / bracket(xi, s) ** 2),
            (f"cone {q:.0f}", lambda xi: torch.exp(-q * (1 - (xi @ w) / bracket(xi)))),
            ("loglog", lambda xi: torch.cos(torch.log(3 + torch.log(bracket(xi))))),
            ("form", lambda xi: (1 + (xi @ w) ** 2) / (1 + 2 * norm(xi) ** 2)),
        ]
    )


def inside(d):
    """A symbol of known order, from pieces of the class."""
    m = round(d.uniform(-2.5, 2.5), 2)
    (n1, b), (n2, f), (n3, g) = smooth_of_x(d), bounded(d), bounded(d)
    a = d.uniform(0.3, 3)
    make = {
        f"⟨ξ⟩^m ({n2})": lambda x, xi: bracket(xi) ** m * (1.5 + f(xi)),
        f"({n1}) ⟨ξ⟩^m": lambda x, xi: b(x) * bracket(xi) ** m,
        f"({n1}) ({n2}) ⟨ξ⟩^m": lambda x, xi: b(x) * (1.5 + f(xi)) * bracket(xi) ** m,
        f"e^({n2}) / (2 + {n3})": lambda x, xi: (
            bracket(xi) ** m * torch.exp(a * f(xi)) / (2 + g(xi))
        ),
        f"tanh({n1} · {n2})": lambda x, xi: bracket(xi) ** m * torch.tanh(b(x) * f(xi)),
        f"({n2}) + i ({n3})": lambda x, xi: bracket(xi) ** m * (2 + f(xi) + 1j * a * g(xi)),
        f"⟨ξ⟩^(m + i{a:.2f})": lambda x, xi: (
            bracket(xi) ** m * torch.exp(1j * a * torch.log(bracket(xi)))
        ),
        f"peak in ξ beside ({n2})": lambda x, xi: (
            bracket(xi) ** m * (1.5 + f(xi))
            + 50 * torch.exp(-((xi - 300 * a).square().sum(-1)) / 40)
        ),
        f"({n1}) up to |ξ| = {10 ** (2 * a):.0f}": lambda x, xi: (
            b(x) * (norm(xi) < 10 ** (2 * a)) + bracket(xi) ** m
        ),
    }
    if d.dim == 1:
        slope, shift, soft = d.gauss(0, 1), d.gauss(0, 2), torch.nn.functional
        make = {
            "gelu": (lambda x, xi: soft.gelu(slope * xi[..., 0] + shift), 1.0),
            "softplus(3 - tanh)": (
                lambda x, xi: soft.softplus(3 - a * torch.tanh(slope * xi[..., 0])), 0.0,
            ),
            "silu of silu": (
                lambda x, xi: soft.silu(a * soft.silu(slope * xi[..., 0] + shift) - 1), 1.0,
            ),
        } | {name: (function, m) for name, function in make.items()}  # fmt: skip
    else:
        make = {name: (function, m) for name, function in make.items()}
    name = d.choice(list(make))
    function, order = make[name]
    order = max(order, 0.0) if "up to" in name else order
    return Known(name, function, d.dim, order, "in")


def spikes(d):
    """At integers of a sequence along an axis or the diagonal."""
    base, c = d.randint(2, 19), d.choice([0, 0, 1, -1, 2])
    fibonacci = [1, 2]
    while fibonacci[-1] < 1e14:
        fibonacci.append(sum(fibonacci[-2:]))
    name, numbers = d.choice(
        [
            (f"{base}^k + {c}", [base**k + c for k in range(2, 60) if base**k < 1e14]),
            ("k!", [math.factorial(k) for k in range(2, 17)]),
            ("Fibonacci", fibonacci),
            (f"{base} 2^k", [base * 2**k for k in range(45)]),
            ("k^k", [k**k for k in range(2, 12)]),
        ]
    )
    points = torch.tensor(numbers, dtype=torch.float64)
    diagonal, height = d.random() < 0.3, d.log(1e-2, 10)

    def spike(x, xi):
        others = xi[..., 1:] - (xi[..., :1] if diagonal else 0)
        return height * torch.isin(xi[..., 0], points) * others.eq(0).all(dim=-1)

    (n, f), beside = bounded(d), d.random() < 0.4
    function = (lambda x, xi: 1.5 + f(xi) + spike(x, xi)) if beside else spike
    return Known(f"spikes at {name}" + f" beside {n}" * beside, function, d.dim, 0.0, "out")


def rough_in_x(d):
    """Seams, kinks and cones of finite smoothness."""
    j, c, p = d.axis(), d.random(), d.choice([0.4, 0.8, 1.0, 1.5, 2.3, 3.0])
    centre = torch.tensor([d.random() for _ in range(d.dim)], dtype=torch.float64)
    height = d.log(0.03, 30)
    bernoulli = {
        1: lambda x: x - 0.5,
        2: lambda x: x**2 - x + 1 / 6,
        3: lambda x: x**3 - 1.5 * x**2 + 0.5 * x,
        4: lambda x: x**4 - 2 * x**3 + x**2 - 1 / 30,
    }
    r, q = d.randint(1, 4), d.randint(1, 2)
    name, b = d.choice(
        [
            (f"B_{r}", lambda x: bernoulli[r](x[..., j])),
            (f"(x(1-x))^{q}", lambda x: (x[..., j] * (1 - x[..., j])) ** q),
            (f"|sin|^{p}", lambda x: torch.sin(PI * (x[..., j] - c)).abs() ** p),
            (f"cone^{p}", lambda x: torch.sin(PI * (x - centre)).square().sum(-1) ** (p / 2)),
            ("jump", lambda x: torch.sign(torch.cos(2 * PI * (x[..., j] - c)))),
            ("cos₊²", lambda x: torch.cos(2 * PI * (x[..., j] - c)).clamp_min(0) ** 2),
        ]
    )
    (n, f), m = bounded(d), round(d.uniform(-1, 1), 2)
    (_, smooth), beside = smooth_of_x(d), d.random() < 0.4

    def function(x, xi):
        return bracket(xi) ** m * (height * b(x) * (1.2 + f(xi)) + (smooth(x) if beside else 0))

    return Known(f"{name} times {n}" + " beside" * beside, function, d.dim, m, "out")


def ridges(d):
    """Functions of w·ξ - offset; along parabolas, and at an axis."""
    w = d.direction() * d.log(0.2, 3)
    if d.random() < 0.4:
        w = torch.tensor([d.randint(-4, 4) for _ in range(d.dim)], dtype=torch.float64)
        w = w if bool(w.any()) else w + 1
    offset, root = d.choice([0.0, d.uniform(-1e2, 1e2), d.uniform(-1e4, 1e4)]), d.uniform(0.2, 2)
    name, f = d.choice(
        [
            ("e^-z²", lambda z: torch.exp(-(z**2))),
            ("sech", lambda z: 1 / torch.cosh(z.clamp(-300, 300))),
            ("1/(1 + z²)", lambda z: 1 / (1 + z**2)),
            ("tanh(z/10)", lambda z: torch.tanh(z / 10)),
            ("sign", lambda z: torch.sign(z - 0.3)),
            ("gelu/⟨ξ⟩", None),
            ("cos", torch.cos),
            ("parabola", None),
            ("|w·ξ|/⟨ξ⟩", None),
        ]
    )
    special = {
        "gelu/⟨ξ⟩": lambda x, xi: torch.nn.functional.gelu(xi @ w - offset) / bracket(xi),
        "parabola": lambda x, xi: torch.exp(-((xi[..., 0] - root * xi[..., -1] ** 2) ** 2)),
        "|w·ξ|/⟨ξ⟩": lambda x, xi: (xi @ w).abs() / bracket(xi),
    }
    function = special.get(name) or (lambda x, xi: f(xi @ w - offset))
    (n, g), beside = bounded(d), d.random() < 0.3
    whole = (lambda x, xi: function(x, xi) + 1.5 + g(xi)) if beside else function
    label = f"{name} of ({', '.join(f'{v:.2f}' for v in w.tolist())}) - {offset:.0f}"
    return Known(label + f" beside {n}" * beside, whole, d.dim, 0.0, "out")


def oscillating(d):
    """Phases that grow like a power, waves in x, parities, and orders that are too small."""
    p, v, m = d.uniform(0.3, 1.0), d.direction() * d.uniform(0.1, 0.4), round(d.uniform(-1, 1), 2)
    less, k, j = d.uniform(0.15, 1.0), d.randint(2, 7), d.axis()
    (n, f), (n1, b) = bounded(d), smooth_of_x(d)
    name, function, order = d.choice(
        [
            (f"cos⟨ξ⟩^{p:.2f}", lambda x, xi: torch.cos(bracket(xi) ** p), 0.0),
            ("e^{iv·ξ}", lambda x, xi: torch.exp(1j * (xi @ v)), 0.0),
            (f"{n1} e^iv·ξ", lambda x, xi: b(x) * torch.exp(1j * (xi @ v)) * bracket(xi) ** m, m),
            (f"waves {p:.2f}",
             lambda x, xi: 2 + torch.cos(2 * PI * x[..., j] * torch.floor(bracket(xi) ** p)), 0.0),
            (f"ξ mod {k}", lambda x, xi: torch.remainder(xi[..., j], k), 0.0),
            (f"order -{less:.2f} {n}", lambda x, xi: (1.5 + f(xi)) * bracket(xi) ** m, m - less),
            (f"order -{less:.2f} {n1}", lambda x, xi: b(x) * bracket(xi) ** m, m - less),
            ("floor(ξ/k)", lambda x, xi: torch.floor(xi[..., j] / k), 1.0),
            ("⟨ξ⟩ e^{i log²}",
             lambda x, xi: bracket(xi) * torch.exp(1j * bracket(xi) ** (0.5 * p)), 1.0),
        ]
    )  # fmt: skip
    return Known(name, function, d.dim, order, "out")


FAMILIES = (inside, inside, inside, spikes, rough_in_x, ridges, oscillating)


def drawn(seed, dims=(1, 2, 3), count=8):
    """All families for one seed, as categories of `own_symbols.main`."""
    categories = {}
    for dim in dims:
        d = Draw(seed, dim)
        for number, family in itertools.product(range(count), FAMILIES):
            if family is ridges and dim == 1:
                continue
            case = family(d)
            categories.setdefault(f"{family.__name__}", []).append(
                case._replace(name=f"{case.name} #{number}")
            )
    return {name: (lambda cases=cases: cases) for name, cases in categories.items()}


if __name__ == "__main__":
    seed, *dims = (int(n) for n in sys.argv[1:])
    main(tuple(dims or (1, 2, 3)), drawn(seed, tuple(dims or (1, 2, 3))))
