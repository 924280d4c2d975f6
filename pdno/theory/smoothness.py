"""Kinks and jumps of a symbol in x and in ξ, and whether it fits together at x = 0 and x = 1.

Where f is smooth, the difference quotient |Σ_k (-1)^k C(q, k) f(p + kh)| / h^q tends to |f^(q)(p)|
as h -> 0. Where f is like |p - p_0|^r with r < q it grows like h^{r-q}. So its largest value is
followed to smaller and smaller h, for q = 2 (jumps and kinks) and q = 4 (those of derivatives).
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pdno.theory.probe import Factor, Probe, SeparatedProbe
from pdno.theory.search import find_points, spread_directions

COARSE, FINE, ZOOMS = 128, 32, 4
FACTOR = FINE / 4  # a window reaches two spacings to both sides
STENCILS = {2: (1.0, -2.0, 1.0), 4: (1.0, -4.0, 6.0, -4.0, 1.0)}
RATE = 0.7  # powers of 1/h by which a quotient grows at least where f is rough
VISIBLE = 1e3 * torch.finfo(torch.float64).eps
SEAM_SPACING, SEAM_TOLERANCE = 1 / 2048, 1e-2
RADII = (1.0, 7.0, 60.0, 1e3, 1e5)  # of the frequencies at which a is a function of x
# value and derivatives from one side, third order, at 0, h, .., 4h
_ONE_SIDED = (
    (1.0, 0.0, 0.0, 0.0, 0.0),
    (-11 / 6, 3.0, -3 / 2, 1 / 3, 0.0),
    (35 / 12, -26 / 3, 19 / 2, -14 / 3, 11 / 12),
)


class Roughness(NamedTuple):
    """A point where something is not smooth."""

    point: tuple[float, ...]
    reason: str
    values: tuple[float, ...]  # difference quotients as the step shrinks, or the jump at a seam
    beta: tuple[int, ...]


def functions_of_x(probe: Probe) -> Factor:
    """x (P, d) ↦ a(x, ξ) for ξ of all sizes and many directions, (functions, P).

    They are divided by the largest |a| at that |ξ| on one fixed set of points. Those of a
    separated symbol are its b_r.
    """
    if isinstance(probe, SeparatedProbe):
        space = probe.space
        assert space is not None
        return lambda x: space(x).flatten(0, 1)
    fixed, directions = find_points(probe)[0], spread_directions(probe, 6)
    shells = [(radius * directions * probe.scale).round() for radius in RADII]
    sizes = [float(probe.table(fixed, xi).abs().nan_to_num(nan=0.0).max()) for xi in shells]
    usable = [(xi, size) for xi, size in zip(shells, sizes, strict=True) if 0 < size < math.inf]

    def along(x: Tensor) -> Tensor:
        tables = [probe.table(x, xi).movedim(-1, 0).flatten(0, 2) / size for xi, size in usable]
        return torch.cat(tables) if tables else torch.zeros(1, len(x), dtype=torch.complex128)

    return along


def find_kink(letter: str, function: Factor, lines: Tensor) -> Roughness | None:
    """The worst kink or jump of (M, d) -> (functions, M) on lines (2, L, d), or None."""
    kinks = (_find_rough(letter, function, lines, order) for order in STENCILS)
    return next((rough for rough in kinks if rough is not None), None)


def _find_rough(letter: str, function: Factor, lines: Tensor, order: int) -> Roughness | None:
    """One that difference quotients of an order show."""
    starts, across = lines[0], lines[1] - lines[0]
    low, high = torch.zeros(len(starts), 1).double(), torch.ones(len(starts), 1).double()
    spacings, quotients, visible = [], [], []
    for count in (COARSE, *[FINE] * ZOOMS):
        unit = torch.linspace(0, 1, count + 1, dtype=torch.float64)
        along = low + (high - low) * unit
        points = starts[:, None] + along[..., None] * across[:, None]
        values = function(points.flatten(0, 1))
        values = values.reshape(len(values), *along.shape)
        weights = torch.tensor(STENCILS[order], dtype=values.dtype)
        changes = (values.unfold(-1, order + 1, 1) @ weights).abs().amax(dim=0)
        largest, index = changes.max(dim=-1)
        h = (high - low)[:, 0] / count
        spacings.append(h * across.norm(dim=-1))
        quotients.append(largest / spacings[-1] ** order)
        visible.append(largest > VISIBLE * values.abs().amax(dim=(0, 2)))
        centre = torch.gather(along, 1, index[:, None] + order // 2)
        low, high = centre - 2 * h[:, None], centre + 2 * h[:, None]
    history = torch.stack(quotients)
    # levels below rounding, which come last, do not count; two rates need three others
    levels = torch.stack(visible).int().cumprod(dim=0).sum(dim=0)
    if order == 2:
        levels = torch.where(levels > ZOOMS, levels, 0)
    rates = (history[1:] / history[:-1].clamp_min(1e-300)).log() / math.log(FACTOR)
    last = (levels - 2).clamp_min(1)[None]
    slowest = torch.minimum(rates.gather(0, last), rates.gather(0, last - 1))[0]
    rough = (levels >= 3) & (slowest > RATE)
    if not bool(rough.any()):
        return None
    worst = int(torch.where(rough, slowest, -math.inf).argmax())
    point = tuple((starts[worst] + 0.5 * (low + high)[worst] * across[worst]).tolist())
    growth, end = tuple(history[: levels[worst], worst].tolist()), int(levels[worst]) - 1
    power = order - math.log(growth[-1] / growth[-3]) / (2 * math.log(FACTOR))
    name = "jump" if power < 0.5 else "kink" if power < 1.5 else "kink of a derivative"
    reason = (
        f"a has a {name} in {letter} at {show_point(point)}: the difference quotient of order "
        f"{order} is {growth[-2]:.2g} with the step {float(spacings[end - 1][worst]):.1g} and "
        f"{growth[-1]:.2g} with {float(spacings[end][worst]):.1g}"
    )
    return Roughness(point, reason, growth, (0,) * len(point))


def find_seam(along: Factor, dim: int, generator: torch.Generator) -> Roughness | None:
    """The first jump between x_j = 0 and x_j = 1 of a or of two derivatives, or None.

    On the torus x = 1 is x = 0: values and one-sided derivatives of both sides are compared.
    """
    inside = 0.9 * torch.rand(16, dim, generator=generator, dtype=torch.float64)
    for axis, normal in enumerate(torch.eye(dim, dtype=torch.float64)):
        left = inside * (1 - normal)
        here = _one_sided(along, left, normal)
        there = _one_sided(along, left + normal, -normal)
        around = _one_sided(along, inside, normal)
        values = around[0].abs().amax()
        around[0] -= around[0].mean(dim=-1, keepdim=True)  # what varies, not what is large
        for order, name in enumerate(("a", "∂a", "∂²a")):
            jump, index = (here - there)[order].abs().amax(dim=0).max(dim=0)
            size = float(around[order].abs().amax())
            rounding = VISIBLE * float(values) / SEAM_SPACING**order
            if float(jump) > SEAM_TOLERANCE * size + rounding:
                along_axis = f"/∂x_{axis + 1}" if order else ""
                reason = (
                    f"a is not smooth on the torus: {name}{along_axis} jumps by {float(jump):.2g} "
                    f"of its size between x_{axis + 1} = 0 and 1; inside it varies by {size:.2g}"
                )
                beta = tuple((order * normal).int().tolist())
                return Roughness(tuple(left[int(index)].tolist()), reason, (float(jump),), beta)
    return None


def _one_sided(function: Callable[[Tensor], Tensor], x: Tensor, direction: Tensor) -> Tensor:
    """Value and two derivatives along +-e_j at x (P, d), from that side: (3, functions, P)."""
    rows = torch.tensor(_ONE_SIDED, dtype=torch.float64)
    steps = SEAM_SPACING * torch.arange(rows.shape[1], dtype=torch.float64)
    points = x[:, None] + steps[:, None] * direction
    values = function(points.flatten(0, 1))
    values = values.reshape(len(values), *points.shape[:2])
    h = float(direction.sum()) * SEAM_SPACING
    return torch.stack([values @ (row / h**k).to(values.dtype) for k, row in enumerate(rows)])


def show_point(numbers: Sequence[float]) -> str:
    """Coordinates as text."""
    return "(" + ", ".join(f"{number:.12g}" for number in numbers) + ")"
