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

from pdno.theory.probe import Factor, MultiIndex, Probe, SeparatedProbe
from pdno.theory.search import find_points, spread_directions

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
        lines = EDGE * (2 * probe.uniform(*shape) - 1) * probe.scale
        kinks.append(_find_kink("kink in ξ", lambda xi: probe.values(xi).flatten(0, 1), lines))
    if probe.depends_on_x:
        along = _functions_of_x(probe)
        kinks.append(_find_kink("kink in x", along, probe.uniform(*shape)))
        seam = _find_seam(along, 0.9 * probe.uniform(16, probe.dim))
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
        weights, levels = torch.tensor(stencil, dtype=torch.float64), []
        for count in (COARSE, *[FINE] * ZOOMS):
            at = low + (high - low) * torch.linspace(0, 1, count + 1, dtype=torch.float64)
            values = function((starts[:, None] + at[..., None] * across[:, None]).flatten(0, 1))
            values = values.reshape(len(values), *at.shape)
            differences = values.unfold(-1, order + 1, 1) @ weights.to(values.dtype)
            largest, index = differences.abs().amax(dim=0).max(dim=-1)
            h = (high - low) / count
            step = h[:, 0] * across.norm(dim=-1)
            visible = largest > VISIBLE * values.abs().amax(dim=(0, 2))
            levels.append(torch.stack([step, largest / step**order, visible]))
            centre = torch.gather(at, 1, index[:, None] + order // 2)
            low, high = centre - 2 * h, centre + 2 * h
        steps, quotients, seen = torch.stack(levels, dim=1)
        # levels below rounding, which come last, do not count; two rates need three others
        depth = seen.int().cumprod(dim=0).sum(dim=0)
        if order == 2:
            depth = torch.where(depth > ZOOMS, depth, 0)
        rates = (quotients[1:] / quotients[:-1].clamp_min(1e-300)).log() / math.log(FACTOR)
        last = (depth - 2).clamp_min(1)[None]
        slowest = torch.minimum(rates.gather(0, last), rates.gather(0, last - 1))[0]
        rough = (depth >= 3) & (slowest > RATE)
        if bool(rough.any()):
            worst = int(torch.where(rough, slowest, -math.inf).argmax())
            point = tuple((starts + 0.5 * (low + high) * across)[worst].tolist())
            growth, end = quotients[: depth[worst], worst].tolist(), int(depth[worst]) - 1
            power = order - math.log(growth[-1] / growth[-3]) / (2 * math.log(FACTOR))
            name = "jump" if power < 0.5 else "kink" if power < 1.5 else "kink of a derivative"
            reason = (
                f"a has a {name} in {kind[-1]} at {show_point(point)}: the difference quotient of "
                f"order {order} is {growth[-2]:.2g} with the step {steps[end - 1, worst]:.1g} and "
                f"{growth[-1]:.2g} with {steps[end, worst]:.1g}"
            )
            none = (0,) * len(point)
            return Witness(kind, reason, none, none, (point,), tuple(growth))
    return None


def _find_seam(along: Factor, inside: Tensor) -> Witness | None:
    """The first jump between x_j = 0 and x_j = 1 of a or of two derivatives, or None.

    On the torus x = 1 is x = 0: values and one-sided derivatives of both sides are compared, at
    points x (P, d) with another x_j.
    """
    rows = torch.tensor(_ONE_SIDED, dtype=torch.float64)

    def one_sided(x: Tensor, direction: Tensor) -> Tensor:
        """Value and two derivatives along +-e_j, from that side: (3, functions, P)."""
        points = x[:, None] + SEAM_SPACING * torch.arange(rows.shape[1])[:, None] * direction
        values, h = along(points.flatten(0, 1)), float(direction.sum()) * SEAM_SPACING
        values = values.reshape(len(values), *points.shape[:2])
        return torch.stack([values @ (row / h**k).to(values.dtype) for k, row in enumerate(rows)])

    dim = inside.shape[1]
    for axis, normal in enumerate(torch.eye(dim, dtype=torch.float64)):
        left = inside * (1 - normal)
        jumps = (one_sided(left, normal) - one_sided(left + normal, -normal)).abs().amax(dim=1)
        around = one_sided(inside, normal)
        values = float(around[0].abs().amax())
        around[0] -= around[0].mean(dim=-1, keepdim=True)  # what varies, not what is large
        for order, name in enumerate(("a", "∂a", "∂²a")):
            jump, index = jumps[order].max(dim=0)
            size = float(around[order].abs().amax())
            rounding = VISIBLE * values / SEAM_SPACING**order
            if float(jump) > SEAM_TOLERANCE * size + rounding:
                along_axis = f"/∂x_{axis + 1}" if order else ""
                reason = (
                    f"a is not smooth on the torus: {name}{along_axis} jumps by {float(jump):.2g} "
                    f"of its size between x_{axis + 1} = 0 and 1; inside it varies by {size:.2g}"
                )
                point, beta = tuple(left[int(index)].tolist()), (order * normal).int().tolist()
                return Witness("seam", reason, (0,) * dim, tuple(beta), (point,), (float(jump),))
    return None


def show_point(numbers: Sequence[float]) -> str:
    """Coordinates as text."""
    return "(" + ", ".join(f"{number:.12g}" for number in numbers) + ")"
