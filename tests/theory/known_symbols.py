"""Symbols of known class: functions a(x, ξ), the order asked, and whether they are in S^m_{1,0}.

Each is in the class ("in"), is not ("out"), or lies within a limit that the documentation names
("limit": any assessment but a wrong certainty is right).
"""

import math
from typing import NamedTuple

import torch

PI = math.pi


class Known(NamedTuple):
    name: str
    function: object
    dim: int
    order: float
    truth: str  # "in", "out" or "limit"


def norm(xi):
    return xi.square().sum(dim=-1).sqrt()


def bracket(xi, scale=1.0):
    return (1 + (xi / scale).square().sum(dim=-1)).sqrt()


def first(x):
    return x[..., 0]


def bump(x, centre, width):
    """A smooth periodic peak of that width."""
    return torch.exp((torch.cos(2 * PI * (x - centre)) - 1) / (2 * PI * width) ** 2)


def angle(xi):
    """ξ/⟨ξ⟩ along a direction without rational slopes, between -1 and 1."""
    w = torch.tensor([0.8, -0.53, 0.29], dtype=torch.float64)[: xi.shape[-1]]
    return (xi @ (w / w.norm())) / bracket(xi)


def log(xi):
    return torch.log(2 + norm(xi))


def across(xi, *normal):
    return xi @ torch.tensor(normal, dtype=torch.float64)


def _orders():
    """Powers, forms, quotients: symbols of known order, and the same asked for too little."""
    for dim in (1, 2, 3):
        for m in (-3.0, -1.5, -0.7, 0.4, 1.0, 2.5):
            yield Known(f"⟨ξ⟩^{m}", lambda x, xi, m=m: bracket(xi) ** m, dim, m, "in")
        for m, asked in ((1.0, 0.7), (-1.0, -1.4), (0.3, 0.0), (2.0, 1.0)):
            yield Known(f"⟨ξ⟩^{m}", lambda x, xi, m=m: bracket(xi) ** m, dim, asked, "out")
        yield Known("2πiξ₁", lambda x, xi: 2j * PI * xi[..., 0], dim, 1.0, "in")
        yield Known("ξ₁³ + ξ₁", lambda x, xi: xi[..., 0] ** 3 + xi[..., 0], dim, 3.0, "in")
        yield Known("ξ₁³ + ξ₁", lambda x, xi: xi[..., 0] ** 3 + xi[..., 0], dim, 2.0, "out")
        yield Known("1/(5 + |ξ|²)", lambda x, xi: 1 / (5 + norm(xi) ** 2), dim, -2.0, "in")
        yield Known(
            "⟨ξ⟩ + i⟨ξ⟩²", lambda x, xi: bracket(xi) + 1j * bracket(xi) ** 2, dim, 2.0, "in"
        )
        yield Known(
            "e^{-|ξ|²/50}", lambda x, xi: torch.exp(-(norm(xi) ** 2) / 50), dim, -6.0, "in"
        )
        yield Known("e^{-|ξ|}", lambda x, xi: torch.exp(-norm(xi)), dim, -4.0, "in")
        yield Known("e^{-⟨ξ⟩^0.2}", lambda x, xi: torch.exp(-(bracket(xi) ** 0.2)), dim, 0.0, "in")
        yield Known("tanh(3 angle)", lambda x, xi: torch.tanh(3 * angle(xi)), dim, 0.0, "in")
        yield Known("tanh(30 angle)", lambda x, xi: torch.tanh(30 * angle(xi)), dim, 0.0, "in")
        yield Known("tanh(300 angle)", lambda x, xi: torch.tanh(300 * angle(xi)), dim, 0.0, "in")
        yield Known(
            "⟨ξ⟩ e^{angle}", lambda x, xi: bracket(xi) * torch.exp(angle(xi)), dim, 1.0, "in"
        )
        yield Known("|ξ|, homogeneous", lambda x, xi: norm(xi), dim, 1.0, "in")
        yield Known(
            "Riesz", lambda x, xi: 1j * xi[..., -1] / norm(xi).clamp_min(1.0), dim, 0.0, "in"
        )
    for power in (-1.0, 0.5):
        yield Known(
            "elliptic form",
            lambda x, xi, p=power: (
                (1 + 3 * xi[..., 0] ** 2 + xi[..., 0] * xi[..., 1] + xi[..., 1] ** 2) ** p
            ),
            2,
            2 * power,
            "in",
        )
    yield Known("1 + ξ₁ξ₂", lambda x, xi: 1 + xi[..., 0] * xi[..., 1], 2, 2.0, "in")
    yield Known("ξ₁² + ξ₂", lambda x, xi: xi[..., 0] ** 2 + xi[..., 1], 2, 1.0, "out")


def _products():
    """Dependence on x, in sums and products, and of the exponent."""
    for dim in (1, 2, 3):
        yield Known(
            "(2 + cos)⟨ξ⟩^1.5",
            lambda x, xi: (2 + torch.cos(2 * PI * first(x))) * bracket(xi) ** 1.5,
            dim, 1.5, "in",
        )  # fmt: skip
        yield Known(
            "cos⟨ξ⟩ + sin iξ",
            lambda x, xi: torch.cos(2 * PI * first(x)) * bracket(xi)
            + 1j * torch.sin(4 * PI * first(x)) * xi[..., -1],
            dim, 1.0, "in",
        )  # fmt: skip
        yield Known(
            "e^{sin(2πx) angle}",
            lambda x, xi: torch.exp(torch.sin(2 * PI * first(x)) * angle(xi)),
            dim, 0.0, "in",
        )  # fmt: skip
        yield Known(
            "1/(1 + (2 + sin)|ξ|²)",
            lambda x, xi: 1 / (1 + (2 + torch.sin(2 * PI * first(x))) * norm(xi) ** 2),
            dim, -2.0, "in",
        )  # fmt: skip
        yield Known(
            "sin(14πx)⟨ξ⟩^-1",
            lambda x, xi: torch.sin(14 * PI * first(x)) / bracket(xi),
            dim, -1.0, "in",
        )  # fmt: skip
        yield Known(
            "peak in x",
            lambda x, xi: 1 + bump(first(x), 0.37, 0.05) * angle(xi),
            dim, 0.0, "in",
        )  # fmt: skip
        for m, truth in ((0.3, "out"), (0.8, "out"), (1.2, "in"), (1.0, "limit")):
            yield Known(
                "⟨ξ⟩^{sin 2πx}",
                lambda x, xi: bracket(xi) ** torch.sin(2 * PI * first(x)),
                dim, m, truth,
            )  # fmt: skip
        for width in (0.02, 0.05):
            yield Known(
                f"1 + peak(x)⟨ξ⟩, width {width}",
                lambda x, xi, w=width: 1 + bump(first(x), 0.61, w) * bracket(xi),
                dim, 0.0, "out",
            )  # fmt: skip
            yield Known(
                f"1 + peak(x)⟨ξ⟩, width {width}",
                lambda x, xi, w=width: 1 + bump(first(x), 0.61, w) * bracket(xi),
                dim, 1.0, "in",
            )  # fmt: skip
        yield Known(
            "⟨ξ⟩ + peak(x) cos|ξ|",
            lambda x, xi: bracket(xi) + bump(first(x), 0.2, 0.03) * torch.cos(norm(xi)),
            dim, 1.0, "out",
        )  # fmt: skip


def _rough_in_x():
    """Jumps, kinks and seams, for all ξ, in some directions only, or at large |ξ| only."""
    for dim in (1, 2, 3):
        yield Known("x₁ iξ₁", lambda x, xi: first(x) * 1j * xi[..., 0], dim, 1.0, "out")
        yield Known(
            "sign sin 2πx",
            lambda x, xi: torch.sign(torch.sin(2 * PI * (first(x) - 0.3))) + 0 * xi[..., 0],
            dim, 0.0, "out",
        )  # fmt: skip
        yield Known(
            "|sin πx| ⟨ξ⟩",
            lambda x, xi: torch.sin(PI * (first(x) - 0.4)).abs() * bracket(xi),
            dim, 1.0, "out",
        )  # fmt: skip
        yield Known(
            "|sin|^1.4",
            lambda x, xi: torch.sin(PI * (first(x) - 0.4)).abs() ** 1.4 * bracket(xi),
            dim, 1.0, "out",
        )  # fmt: skip
        yield Known(
            "|sin|^2.5",
            lambda x, xi: torch.sin(PI * (first(x) - 0.4)).abs() ** 2.5 * angle(xi),
            dim, 0.0, "out",
        )  # fmt: skip
        yield Known(
            "a jump beyond |ξ| = 200",
            lambda x, xi: 1 + (torch.sin(2 * PI * first(x)) > 0.2) * (norm(xi) > 200),
            dim, 0.0, "out",
        )  # fmt: skip
        yield Known(
            "a seam beyond |ξ| = 40",
            lambda x, xi: 2 + first(x) * torch.tanh(norm(xi) / 40) ** 9,
            dim, 0.0, "out",
        )  # fmt: skip
        yield Known(
            "waves of length |ξ|^-1/3",
            lambda x, xi: torch.cos(2 * PI * first(x) * torch.floor(bracket(xi) ** (1 / 3))),
            dim, 0.0, "out",
        )  # fmt: skip
        yield Known(
            "waves of length 1/|ξ|",
            lambda x, xi: 2 + torch.sin(2 * PI * first(x) * torch.floor(bracket(xi))),
            dim, 0.0, "out",
        )  # fmt: skip
    for sign in (1.0, -1.0):
        yield Known(
            f"x₁ i(ξ₁ + {sign}ξ₂)",
            lambda x, xi, s=sign: first(x) * 1j * (xi[..., 0] + s * xi[..., 1]),
            2, 1.0, "out",
        )  # fmt: skip
    yield Known("x₂ (ξ₁ - 2ξ₂)", lambda x, xi: x[..., 1] * across(xi, 1.0, -2.0), 2, 1.0, "out")
    yield Known("x₁ (ξ₂ - ξ₃)", lambda x, xi: first(x) * across(xi, 0.0, 1.0, -1.0), 3, 1.0, "out")
    yield Known(
        "a jump in x₂ times a direction",
        lambda x, xi: torch.sign(torch.cos(2 * PI * x[..., 1])) * (xi[..., 0] - xi[..., 1]),
        2, 1.0, "out",
    )  # fmt: skip


def _oscillations():
    """Phases: bounded, but their differences decay too slowly or not at all; and slow ones."""
    for dim in (1, 2, 3):
        yield Known("e^{i|ξ|}", lambda x, xi: torch.exp(1j * norm(xi)), dim, 0.0, "out")
        yield Known(
            "⟨ξ⟩ cos⟨ξ⟩", lambda x, xi: bracket(xi) * torch.cos(bracket(xi)), dim, 1.0, "out"
        )
        yield Known("e^{iξ₁/3}", lambda x, xi: torch.exp(1j * xi[..., 0] / 3), dim, 0.0, "out")
        yield Known(
            "e^{i|ξ|²/7}", lambda x, xi: torch.exp(1j * norm(xi) ** 2 / 7), dim, 0.0, "out"
        )
        for power in (0.5, 0.3):
            yield Known(
                f"cos⟨ξ⟩^{power}",
                lambda x, xi, p=power: torch.cos(bracket(xi) ** p),
                dim,
                0.0,
                "out",
            )
        yield Known(
            "1 + cos|ξ|/⟨ξ⟩", lambda x, xi: 1 + torch.cos(norm(xi)) / bracket(xi), dim, 0.0, "out"
        )
        yield Known(
            "1 + cos|ξ|/⟨ξ⟩²",
            lambda x, xi: 1 + torch.cos(norm(xi)) / bracket(xi) ** 4,
            dim,
            0.0,
            "in",
        )
        yield Known("(-1)^ξ₁", lambda x, xi: torch.cos(PI * xi[..., 0]), dim, 0.0, "out")
        yield Known(
            "2 + cos log⟨ξ⟩", lambda x, xi: 2 + torch.cos(torch.log(bracket(xi))), dim, 0.0, "in"
        )
        yield Known(
            "sin(3 log⟨ξ⟩)/⟨ξ⟩",
            lambda x, xi: torch.sin(3 * torch.log(bracket(xi))) / bracket(xi), dim, -1.0, "in",
        )  # fmt: skip
        yield Known(
            "⟨ξ⟩^{1 + i}",
            lambda x, xi: bracket(xi) * torch.exp(1j * torch.log(bracket(xi))), dim, 1.0, "in",
        )  # fmt: skip
    yield Known("e^{2πiξ}", lambda x, xi: torch.exp(2j * PI * xi[..., 0]), 1, 0.0, "in")


def _thin():
    """Ridges, jumps and kinks along rays, cones, parabolas; anisotropic symbols."""
    root = math.sqrt(3)
    ridges = {
        "tanh": torch.tanh,
        "e^-z²": lambda z: torch.exp(-(z**2)),
        "sign": lambda z: torch.sign(z - 0.4),
        "1/(1 + z²)": lambda z: 1 / (1 + z**2),
        "cos": torch.cos,
    }
    for name, ridge in ridges.items():
        for normal in ((1.0, 0.0), (1.0, -root), (2.0, 3.0)):
            yield Known(
                f"{name} of {normal}",
                lambda x, xi, r=ridge, n=normal: r(across(xi, *n)),
                2,
                0.0,
                "out",
            )
        yield Known(name, lambda x, xi, r=ridge: r(across(xi, 1.0, -root, 0.5)), 3, 0.0, "out")
    yield Known("|ξ₁|", lambda x, xi: xi[..., 0].abs(), 1, 1.0, "in")
    for dim in (2, 3):
        yield Known("|ξ₁|", lambda x, xi: xi[..., 0].abs(), dim, 1.0, "out")
        yield Known("max(ξ)", lambda x, xi: xi.amax(dim=-1), dim, 1.0, "out")
        yield Known("Σ|ξ_j|", lambda x, xi: xi.abs().sum(dim=-1), dim, 1.0, "out")
        yield Known("(1 + ξ₁²)^½", lambda x, xi: (1 + xi[..., 0] ** 2).sqrt(), dim, 1.0, "out")
        yield Known(
            "|ξ₁|^½⟨ξ⟩^½", lambda x, xi: (xi[..., 0].abs() * bracket(xi)).sqrt(), dim, 1.0, "out"
        )
        yield Known(
            "heat operator",
            lambda x, xi: 1 / (1 + xi[..., 0] ** 2 + 1j * xi[..., -1]),
            dim,
            -1.0,
            "out",
        )
        yield Known(
            "e^{-ξ₁²/⟨ξ⟩}",
            lambda x, xi: torch.exp(-(xi[..., 0] ** 2) / bracket(xi)),
            dim,
            0.0,
            "out",
        )
        yield Known(
            "narrow cone of order 1",
            lambda x, xi: 1 + bracket(xi) * torch.exp(-400 * (1 - angle(xi))), dim, 0.0, "out",
        )  # fmt: skip
        yield Known(
            "narrow cone of order 1",
            lambda x, xi: 1 + bracket(xi) * torch.exp(-400 * (1 - angle(xi))), dim, 1.0, "in",
        )  # fmt: skip
        yield Known("a quadrant", lambda x, xi: (xi.amin(dim=-1) > 0).double(), dim, 0.0, "out")
        yield Known(
            "GELU of ξ",
            lambda x, xi, n=(0.6, -0.9, 0.2)[:dim]: torch.nn.functional.gelu(across(xi, *n)),
            dim, 1.0, "out",
        )  # fmt: skip
    yield Known(
        "GELU of ξ", lambda x, xi: torch.nn.functional.gelu(0.3 * xi[..., 0] + 2), 1, 1.0, "in"
    )
    yield Known("tanh ξ", lambda x, xi: torch.tanh(xi[..., 0] / 5), 1, 0.0, "in")
    yield Known("sign ξ", lambda x, xi: torch.sign(xi[..., 0]), 1, 0.0, "in")
    yield Known("floor(ξ/2)", lambda x, xi: torch.floor(xi[..., 0] / 2), 1, 1.0, "out")


def _scaled():
    """Functions of ξ/s: in the class for every s."""
    functions = {
        "1/(1 + z)": (lambda z: 1 / (1 + z), -2.0),
        "(1 + z)^½": (lambda z: (1 + z).sqrt(), 1.0),
        "e^-z": (lambda z: torch.exp(-z), -2.0),
        "2 + e^-z": (lambda z: 2 + torch.exp(-z), 0.0),
        "z/(1 + z)": (lambda z: z / (1 + z), 0.0),
        "z²/(1 + z)": (lambda z: z**2 / (1 + z), 2.0),
    }
    for name, (function, m) in functions.items():
        for number, scale in enumerate((10.0, 1e2, 1e3, 1e4, 1e5)):
            yield Known(
                f"{name}, s = {scale:g}",
                lambda x, xi, f=function, s=scale: f((xi / s).square().sum(dim=-1)),
                1 + (number + len(name)) % 2, m, "in",
            )  # fmt: skip


def _truncated():
    """Finitely many modes are of every order, and cut-offs that are smooth or not."""
    for dim in (1, 2):
        for edge in (20.0, 1e3, 1e5):
            yield Known(
                f"iξ₁ up to {edge:g}",
                lambda x, xi, e=edge: 1j * xi[..., 0] * (norm(xi) < e),
                dim,
                0.0,
                "in",
            )
            yield Known(
                f"1 up to {edge:g}", lambda x, xi, e=edge: (norm(xi) < e).double(), dim, -1.0, "in"
            )
            yield Known(
                f"⟨ξ⟩ beyond {edge:g}",
                lambda x, xi, e=edge: bracket(xi) / (1 + (e / bracket(xi)) ** 8), dim, 1.0, "in",
            )  # fmt: skip
            yield Known(
                f"⟨ξ⟩ beyond {edge:g}",
                lambda x, xi, e=edge: bracket(xi) / (1 + (e / bracket(xi)) ** 8), dim, 0.5, "out",
            )  # fmt: skip


def _slow():
    """Logarithms and small exponents: near the limit of what numbers can tell."""
    for dim in (1, 2):
        yield Known("log", lambda x, xi: log(xi), dim, 0.0, "limit")
        yield Known("log", lambda x, xi: log(xi), dim, 0.3, "in")
        yield Known("⟨ξ⟩ log", lambda x, xi: bracket(xi) * log(xi), dim, 1.0, "limit")
        yield Known("⟨ξ⟩ log", lambda x, xi: bracket(xi) * log(xi), dim, 1.3, "in")
        yield Known("log³", lambda x, xi: log(xi) ** 3, dim, 0.0, "limit")
        yield Known("1/log", lambda x, xi: 1 / log(xi), dim, 0.0, "in")
        yield Known("⟨ξ⟩^0.07", lambda x, xi: bracket(xi) ** 0.07, dim, 0.0, "limit")
        yield Known("⟨ξ⟩^0.2", lambda x, xi: bracket(xi) ** 0.2, dim, 0.0, "out")
        yield Known("cos⟨ξ⟩^0.05", lambda x, xi: torch.cos(bracket(xi) ** 0.05), dim, 0.0, "limit")


def _not_finite():
    for dim in (1, 2, 3):
        yield Known("1/|ξ|", lambda x, xi: 1 / norm(xi), dim, -1.0, "out")
        yield Known("ξ₁/|ξ|", lambda x, xi: xi[..., 0] / norm(xi), dim, 0.0, "out")
        yield Known("log|ξ|", lambda x, xi: torch.log(norm(xi)), dim, 1.0, "out")
        yield Known("e^{|ξ|/100}", lambda x, xi: torch.exp(norm(xi) / 100), dim, 4.0, "out")
        yield Known("1/(ξ₁ - 3)", lambda x, xi: 1 / (xi[..., 0] - 3), dim, 0.0, "out")


CATEGORIES = {
    "orders": _orders,
    "products": _products,
    "rough in x": _rough_in_x,
    "oscillations": _oscillations,
    "thin sets": _thin,
    "scaled": _scaled,
    "truncated": _truncated,
    "slow": _slow,
    "not finite": _not_finite,
}
