"""Symbols of known class that defeat sampling, and expressions drawn at random.

    python tests/theory/own_symbols.py      # answers by truth, and every answer that is wrong

The functions are black boxes: they can be tested, never proved.
"""

import collections
import math
import sys
import time

import torch
from known_symbols import CATEGORIES, Known, across, bracket, first

from pdno import certify
from pdno.theory.expression import Bracket, Frequency, Harmonic, apply

PI = math.pi


def gauss(x, centre, width):
    """A periodic Gaussian."""
    return sum(torch.exp(-(((x - centre + k) / width) ** 2) / 2) for k in (-1, 0, 1))


def spikes():
    """One at lattice points of an integer sequence on an axis, 0 elsewhere."""
    sequences = {
        "3^k": [3.0**k for k in range(1, 33)],
        "2^k": [2.0**k for k in range(1, 52)],
        "5^k + 1": [5.0**k + 1 for k in range(1, 22)],
        "k!": [float(math.factorial(k)) for k in range(1, 18)],
    }
    for dim in (1, 2, 3):
        for name, points in sequences.items():
            values = torch.tensor(points, dtype=torch.float64)

            def spike(x, xi, v=values):
                on_axis = xi[..., 1:].eq(0).all(dim=-1)
                return (torch.isin(xi[..., 0], v) & on_axis).double()

            yield Known(f"spikes at {name}", spike, dim, 0.0, "out")
            yield Known(
                f"1 + spikes at {name}", lambda x, xi, s=spike: 1 + s(x, xi), dim, 0.0, "out"
            )


def seams():
    """Functions of x whose derivatives do not agree at x = 0 and 1, and some that do."""
    rough = {
        "x(1-x)": lambda x: x * (1 - x),
        "(x(1-x))²": lambda x: (x * (1 - x)) ** 2,
        "100 sin + B₃": lambda x: 100 * torch.sin(2 * PI * x) + x**3 - 1.5 * x**2 + 0.5 * x,
        "2 + sin + 0.005x": lambda x: 2 + torch.sin(2 * PI * x) + 0.005 * x,
    }
    smooth = {
        f"Gaussian {w} at {c}": lambda x, w=w, c=c: gauss(x, c, w)
        for w in (0.02, 0.005, 0.002)
        for c in (0.0, 0.98, 0.3)
    }
    smooth["e^{sin 2πx}"] = lambda x: torch.exp(torch.sin(2 * PI * x))
    smooth["tanh(50 sin 2πx)"] = lambda x: torch.tanh(50 * torch.sin(2 * PI * x))
    for dim in (1, 2, 3):
        for truth, functions in (("out", rough), ("in", smooth)):
            for name, f in functions.items():
                yield Known(name, lambda x, xi, f=f: f(first(x)) + 0 * xi[..., 0], dim, 0.0, truth)
                yield Known(
                    f"{name} times ⟨ξ⟩",
                    lambda x, xi, f=f: f(first(x)) * bracket(xi), dim, 1.0, truth,
                )  # fmt: skip


def cones_and_ridges():
    """Points in x where a is a cone; ridges at an offset; steep functions of ξ/⟨ξ⟩."""
    for dim in (2, 3):
        centre = torch.tensor([0.37, 0.61, 0.21], dtype=torch.float64)[:dim]
        yield Known(
            "cone in x",
            lambda x, xi, c=centre: torch.sin(PI * (x - c)).square().sum(-1).sqrt()
            + 0 * xi[..., 0],
            dim, 0.0, "out",
        )  # fmt: skip
        for offset in (0.0, 3.0, 37.0, 100.0):
            for slope in (math.sqrt(2), 0.5, math.pi):
                yield Known(
                    f"ridge at {offset:g}, slope {slope:.2f}",
                    lambda x, xi, o=offset, s=slope: torch.exp(
                        -((xi[..., 0] - s * xi[..., 1] - o) ** 2)
                    ),
                    dim, 0.0, "out",
                )  # fmt: skip
        for k in (10.0, 50.0, 200.0, 500.0, 1e4):
            yield Known(
                f"tanh({k:g}ξ₁/⟨ξ⟩)",
                lambda x, xi, k=k: torch.tanh(k * xi[..., 0] / bracket(xi)), dim, 0.0, "in",
            )  # fmt: skip
            yield Known(
                f"tanh({k:g}(ξ₁ - √2 ξ₂)/⟨ξ⟩)",
                lambda x, xi, k=k: torch.tanh(
                    k * across(xi[..., :2], 1, -math.sqrt(2)) / bracket(xi)
                ),
                dim, 0.0, "in",
            )  # fmt: skip


def expressions(count=60, seed=0):
    """Random expressions with their order, built from pieces of S^0 and ⟨ξ⟩^m."""
    draw = torch.Generator().manual_seed(seed)

    def number():
        return float(torch.randn((), generator=draw, dtype=torch.float64))

    for index in range(count):
        dim = 1 + index % 3
        wave = tuple(int(n) for n in torch.randint(-2, 3, (dim,), generator=draw))
        m = round(number(), 2)
        angle = Frequency(index % dim) / Bracket(1 + abs(number()))
        name = ("tanh", "gelu", "exp", "sigmoid", "sin")[index % 5]
        factor = apply(name, 2 * number() * angle + number() * Harmonic("cos", wave))
        if index % 4 == 0:
            factor = factor / (2 + angle * Harmonic("sin", wave))
        yield Known(
            f"expression {index}",
            factor * Bracket() ** m + number() * Bracket() ** (m - 1),
            dim,
            m,
            "in",
        )


OWN = {
    "spikes": spikes,
    "seams": seams,
    "cones and ridges": cones_and_ridges,
    "expressions": expressions,
}
WRONG = {("in", "counterexample"), ("out", "proved")}


def main(dims=(1, 2, 3), categories=None):
    """Answers by truth, and the wrong ones."""
    start, table = time.process_time(), collections.Counter()
    checked = collections.Counter()
    for category, family in (categories or {**CATEGORIES, **OWN}).items():
        for case in family():
            if case.dim not in dims:
                continue
            certificate = certify(case.function, case.order, dim=case.dim)
            table[category, case.truth, certificate.assessment] += 1
            if (case.truth, certificate.assessment) in WRONG:
                print(f"WRONG {category}: {case.name}, n = {case.dim}\n{certificate}")
            if certificate.witness is not None:
                checked[certificate.check_witness().confirmed] += 1
    answers = ("proved", "consistent", "undecided", "counterexample")
    print("| symbols | truth | " + " | ".join(answers) + " |\n|---|---|" + "---:|" * len(answers))
    for category, truth in dict.fromkeys(key[:2] for key in table):
        counts = [str(table[category, truth, answer]) for answer in answers]
        print(f"| {category} | {truth} | " + " | ".join(counts) + " |")
    for truth in ("in", "out", "limit"):
        counts = [
            sum(n for (_, t, a), n in table.items() if (t, a) == (truth, answer))
            for answer in answers
        ]
        print(f"| all | {truth} | " + " | ".join(map(str, counts)) + " |")
    wrong = sum(n for (_, t, a), n in table.items() if (t, a) in WRONG)
    print(
        f"{sum(table.values())} symbols, {wrong} wrong, {checked[True]} of "
        f"{sum(checked.values())} witnesses confirmed, {time.process_time() - start:.0f} s"
    )
    return table


if __name__ == "__main__":
    main([int(n) for n in sys.argv[1:]] or (1, 2, 3))
