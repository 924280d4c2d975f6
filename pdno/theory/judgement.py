"""From measurements to a verdict: which bound breaks, where, and in words.

The bound of (α, β) is broken where the exponent μ of |Δ^α ∂_x^β a| is above m - |α|. Two things
keep small effects from being taken for it: the growth must be seen up to the outermost shell, or
have led to values twice as large as everything nearer to the origin. (A unit w·ξ + b of one
frequency with a tiny w is constant for long before it decays.)
"""

__all__ = ["Witness", "find_violations", "judge_smoothness"]

import itertools
import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from pdno.theory.differences import MultiIndex
from pdno.theory.growth import TOLERANCE
from pdno.theory.measurement import Measurement
from pdno.theory.probe import Probe
from pdno.theory.smoothness import Kink, Seam, find_kink, find_seam

Kind = Literal["growth", "differences", "kink in ξ", "kink in x", "seam"]

GROWN = 2.0
LINES = 16
EDGE = 8.0
"""Kinks in ξ are looked for where |ξ_j| is below that many scales."""


@dataclass(frozen=True)
class Witness:
    """What breaks a bound.

    Arguments:
        kind: Which condition of the class fails.
        reason: In words.
        alpha: Multi-index of the difference.
        beta: Multi-index of the x-derivative.
        points: Frequencies of a ray, for growth and differences; the place of a kink or seam.
        values: |Δ^α ∂_x^β a| ⟨ξ⟩^{|α|-m} at these points; for kinks the second difference
            quotients as the step shrinks, for seams the jump.
        step: h of the differences Δ_h^α / h^|α|.
    """

    kind: Kind
    reason: str
    alpha: MultiIndex
    beta: MultiIndex
    points: tuple[tuple[float, ...], ...]
    values: tuple[float, ...]
    step: int = 1


def find_violations(measurement: Measurement, order: float) -> list[Witness]:
    """A witness for each |α| whose bound is broken; for |α| = 0 no others."""
    witnesses: dict[int, Witness] = {}
    pairs = itertools.product(range(len(measurement.alphas)), range(len(measurement.betas)))
    for alpha, beta in sorted(pairs, key=lambda pair: (pair[1], pair[0])):
        total = sum(measurement.alphas[alpha])
        if total not in witnesses and _is_broken(measurement, alpha, beta, order):
            witnesses[total] = _make_witness(measurement, alpha, beta, order)
    if 0 in witnesses:
        return [witnesses[0]]
    return [witnesses[total] for total in sorted(witnesses)]


def _is_broken(measurement: Measurement, alpha: int, beta: int, order: float) -> bool:
    growth = measurement.growth[alpha, beta]
    if growth.exponent <= order - sum(measurement.alphas[alpha]) + TOLERANCE:
        return False
    rays, core = measurement.weighted(alpha, beta, order)
    before = rays[:, : growth.last].max() if growth.last else torch.zeros(())
    largest = max(core, float(before))
    return growth.to_the_end or float(rays[:, growth.last].max()) > GROWN * largest


def _make_witness(measurement: Measurement, alpha: int, beta: int, order: float) -> Witness:
    growth = measurement.growth[alpha, beta]
    rays, _ = measurement.weighted(alpha, beta, order)
    shown = slice(0, growth.last + 1)
    outer = rays[:, max(0, growth.last - 3) : growth.last + 1]
    ray = int(outer.clamp(1e-300, 1e300).log().sum(dim=1).argmax())  # large all along
    points, values = measurement.points[ray, shown], rays[ray, shown]
    a, b = measurement.alphas[alpha], measurement.betas[beta]
    return Witness(
        "differences" if sum(a) else "growth",
        _in_words(a, b, growth.exponent, order, points, values),
        a,
        b,
        tuple(tuple(point) for point in points.tolist()),
        tuple(values.tolist()),
        measurement.step,
    )


def _in_words(
    alpha: MultiIndex, beta: MultiIndex, exponent: float, order: float, xi: Tensor, values: Tensor
) -> str:
    name = f"Δ^{_show(alpha)} " if sum(alpha) else ""
    name += f"∂_x^{_show(beta)} " if sum(beta) else ""
    speed = "faster than every power" if exponent == math.inf else f"like |ξ|^{exponent:.2f}"
    allowed, change = order - sum(alpha), "grows" if exponent > 0.05 else "behaves"
    first, last = (float(xi[place].norm()) for place in (len(xi) // 2, -1))
    return (
        f"|{name}a| {change} {speed}, and the bound is |ξ|^{allowed:g}: its weighted size "
        f"is {float(values[len(xi) // 2]):.2g} at |ξ| = {first:.2g} and {float(values[-1]):.2g} "
        f"at |ξ| = {last:.2g}, ξ = {_show(xi[-1].tolist())}"
    )


def judge_smoothness(
    probe: Probe, *, real: bool, torus: bool, generator: torch.Generator
) -> tuple[list[Witness], bool, bool | None]:
    """Witnesses against smoothness; whether a is smooth; whether it is periodic (None: no x).

    Arguments:
        probe: The symbol.
        real: Whether to judge a as a function of ξ in R^n.
        torus: Whether x = 0 and x = 1 are the same.
        generator: Draws lines.
    """
    none, witnesses = (0,) * probe.dim, []
    if real:
        ends = EDGE * (2 * torch.rand(2, LINES, probe.dim, generator=generator) - 1) * probe.scale
        kink = find_kink(lambda xi: probe.values(xi).flatten(0, 1), ends[0], ends[1])
        if kink is not None:
            witnesses.append(_kink_witness("kink in ξ", kink, none))
    if not probe.depends_on_x:
        return witnesses, not witnesses, None
    ends = torch.rand(2, LINES, probe.dim, generator=generator, dtype=torch.float64)
    kink = find_kink(probe.along, ends[0], ends[1])
    if kink is not None:
        witnesses.append(_kink_witness("kink in x", kink, none))
    smooth = not witnesses
    seam = find_seam(probe.along, probe.dim, generator)
    if seam is not None and torus:
        witnesses.append(_seam_witness(seam, none))
    return witnesses, smooth, seam is None


def _kink_witness(
    kind: Literal["kink in ξ", "kink in x"], kink: Kink, none: MultiIndex
) -> Witness:
    what, variable = "kink" if kink.rate < 1.5 else "jump", kind[-1]
    reason = (
        f"a has a {what} in {variable} at {_show(kink.point)}: the second difference quotient is "
        f"{kink.quotients[-2]:.2g} with the step {kink.spacings[-2]:.1g} and "
        f"{kink.quotients[-1]:.2g} with {kink.spacings[-1]:.1g}"
    )
    return Witness(kind, reason, none, none, (kink.point,), kink.quotients)


def _seam_witness(seam: Seam, none: MultiIndex) -> Witness:
    what = ("a", "∂a", "∂²a")[seam.derivative]
    along = f"/∂x_{seam.axis + 1}" if seam.derivative else ""
    reason = (
        f"a is not smooth on the torus: {what}{along} jumps by {seam.jump:.2g} between "
        f"x_{seam.axis + 1} = 0 and 1; inside it varies by {seam.size:.2g}"
    )
    beta = tuple(seam.derivative if axis == seam.axis else 0 for axis in range(len(none)))
    return Witness("seam", reason, none, beta, (seam.point,), (seam.jump,))


def _show(numbers: tuple[float, ...] | list[float]) -> str:
    return "(" + ", ".join(f"{number:.12g}" for number in numbers) + ")"
