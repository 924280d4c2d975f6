"""Kinks and jumps of a symbol in x and in ξ, and whether it fits together at x = 0 and x = 1.

Where f is smooth, the difference quotient |Σ_k (-1)^k C(q, k) f(p + kh)| / h^q tends to |f^(q)(p)|
as h -> 0. Where f is like |p - p_0|^r with r < q it grows like h^{r-q}. So its largest value is
followed to smaller and smaller h, for q = 2 (jumps and kinks) and q = 4 (those of derivatives).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from pdno.theory.probe import Factor, Probe, SeparatedProbe
from pdno.theory.search import find_points, spread_directions
from pdno.theory.stencil import MultiIndex

Kind = Literal["growth", "differences", "not finite", "kink in ξ", "kink in x", "seam"]

LINES = 16
EDGE = 8.0  # kinks in ξ are looked for where |ξ_j| is below that many scales
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


@dataclass(frozen=True)
class Witness:
    """What breaks a bound.

    growth        |a|, or an x-derivative of it, grows faster than |ξ|^m
    differences   Δ^α a does not decay as it should along some ray
    not finite    a has no value at some point
    kink in ξ, x  a is not smooth as a function on R^n, or not smooth in x
    seam          a does not fit together at x = 0 and x = 1, so it is not smooth on the torus
    """

    kind: Kind  #: which condition of the class fails
    reason: str  #: in words
    alpha: MultiIndex  #: of the difference
    beta: MultiIndex  #: of the x-derivative
    points: tuple[tuple[float, ...], ...]  #: frequencies of a ray; the point of a kink or seam
    #: |Δ_h^α ∂_x^β a| / h^|α| ⟨ξ⟩^{|α|-m} at these points; for kinks the difference quotients as
    #: the step shrinks, for seams the jump
    values: tuple[float, ...]
    steps: tuple[int, ...] = ()  #: h at these points


def find_kinks(probe: Probe, *, real: bool) -> tuple[list[Witness], Witness | None]:
    """Kinks in ξ, if a is assessed on R^n, and in x; the seam."""
    kinks, seam = list[Witness | None](), None
    shape = 2, LINES, probe.dim
    if real:
        unit = 2 * torch.rand(*shape, generator=probe.generator, dtype=torch.float64) - 1
        lines = EDGE * unit * probe.scale
        kinks.append(_find_kink("kink in ξ", lambda xi: probe.values(xi).flatten(0, 1), lines))
    if probe.depends_on_x:
        along = _functions_of_x(probe)
        lines = torch.rand(*shape, generator=probe.generator, dtype=torch.float64)
        kinks.append(_find_kink("kink in x", along, lines))
        seam = _find_seam(along, probe.dim, probe.generator)
    return [kink for kink in kinks if kink is not None], seam


def _functions_of_x(probe: Probe) -> Factor:
    """x (P, d) ↦ a(x, ξ) for ξ of all sizes and many directions, (functions, P).

    They are divided by the largest |a| at that |ξ| on one fixed set of points. Those of a
    separated symbol are its b_r.
    """
    if isinstance(probe, SeparatedProbe):
        space = probe.space
        return lambda x: space(x).flatten(0, 1)
    fixed, directions = find_points(probe)[0], spread_directions(probe, 6)
    shells = [(radius * directions * probe.scale).round() for radius in RADII]
    sizes = [float(probe.table(fixed, xi).abs().nan_to_num(nan=0.0).max()) for xi in shells]
    usable = [(xi, size) for xi, size in zip(shells, sizes, strict=True) if 0 < size < math.inf]

    def along(x: Tensor) -> Tensor:
        tables = [probe.table(x, xi).movedim(-1, 0).flatten(0, 2) / size for xi, size in usable]
        return torch.cat(tables) if tables else torch.zeros(1, len(x), dtype=torch.complex128)

    return along


def _find_kink(kind: Kind, function: Factor, lines: Tensor) -> Witness | None:
    """The worst kink or jump of (M, d) -> (functions, M) on lines (2, L, d), or None."""
    starts, across = lines[0], lines[1] - lines[0]
    for order, stencil in STENCILS.items():
        low, high = torch.zeros(len(starts), 1).double(), torch.ones(len(starts), 1).double()
        weights = torch.tensor(stencil, dtype=torch.float64)
        spacings, quotients, visible = [], [], []
        for count in (COARSE, *[FINE] * ZOOMS):
            at = low + (high - low) * torch.linspace(0, 1, count + 1, dtype=torch.float64)
            values = function((starts[:, None] + at[..., None] * across[:, None]).flatten(0, 1))
            values = values.reshape(len(values), *at.shape)
            differences = values.unfold(-1, order + 1, 1) @ weights.to(values.dtype)
            largest, index = differences.abs().amax(dim=0).max(dim=-1)
            h = (high - low) / count
            spacings.append(h[:, 0] * across.norm(dim=-1))
            quotients.append(largest / spacings[-1] ** order)
            visible.append(largest > VISIBLE * values.abs().amax(dim=(0, 2)))
            centre = torch.gather(at, 1, index[:, None] + order // 2)
            low, high = centre - 2 * h, centre + 2 * h
        history = torch.stack(quotients)
        # levels below rounding, which come last, do not count; two rates need three others
        levels = torch.stack(visible).int().cumprod(dim=0).sum(dim=0)
        if order == 2:
            levels = torch.where(levels > ZOOMS, levels, 0)
        rates = (history[1:] / history[:-1].clamp_min(1e-300)).log() / math.log(FACTOR)
        last = (levels - 2).clamp_min(1)[None]
        slowest = torch.minimum(rates.gather(0, last), rates.gather(0, last - 1))[0]
        rough = (levels >= 3) & (slowest > RATE)
        if bool(rough.any()):
            worst = int(torch.where(rough, slowest, -math.inf).argmax())
            point = tuple((starts + 0.5 * (low + high) * across)[worst].tolist())
            steps = [float(spacing[worst]) for spacing in spacings]
            return _kink(kind, order, point, history[: levels[worst], worst].tolist(), steps)
    return None


def _kink(
    kind: Kind, order: int, point: tuple[float, ...], growth: list[float], steps: list[float]
) -> Witness:
    power = order - math.log(growth[-1] / growth[-3]) / (2 * math.log(FACTOR))
    name = "jump" if power < 0.5 else "kink" if power < 1.5 else "kink of a derivative"
    end, none = len(growth) - 1, (0,) * len(point)
    reason = (
        f"a has a {name} in {kind[-1]} at {show_point(point)}: the difference quotient of order "
        f"{order} is {growth[-2]:.2g} with the step {steps[end - 1]:.1g} and "
        f"{growth[-1]:.2g} with {steps[end]:.1g}"
    )
    return Witness(kind, reason, none, none, (point,), tuple(growth))


def _find_seam(along: Factor, dim: int, generator: torch.Generator) -> Witness | None:
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
                point, beta = tuple(left[int(index)].tolist()), (order * normal).int().tolist()
                jumps = (float(jump),)
                return Witness("seam", reason, (0,) * dim, tuple(beta), (point,), jumps)
    return None


def _one_sided(function: Factor, x: Tensor, direction: Tensor) -> Tensor:
    """Value and two derivatives along +-e_j at x (P, d), from that side: (3, functions, P)."""
    rows = torch.tensor(_ONE_SIDED, dtype=torch.float64)
    points = x[:, None] + SEAM_SPACING * torch.arange(rows.shape[1])[:, None] * direction
    values = function(points.flatten(0, 1))
    values = values.reshape(len(values), *points.shape[:2])
    h = float(direction.sum()) * SEAM_SPACING
    return torch.stack([values @ (row / h**k).to(values.dtype) for k, row in enumerate(rows)])


def show_point(numbers: Sequence[float]) -> str:
    """Coordinates as text."""
    return "(" + ", ".join(f"{number:.12g}" for number in numbers) + ")"
