"""Where a symbol bends most on a sphere |ξ| = r: thin sets have a footprint, seen from afar.

On a circle of radius r a unit tanh(w·ξ + b) is a jump and a unit GELU(w·ξ + b) a kink, of a width
that does not grow with r. So along great circles the largest second differences are looked for
on a coarse set of points, and around each of them again with an eighth of the spacing, until the
spacing is below that of the lattice. Every hyperplane that passes near the origin meets every
great circle, and a circle of large radius also meets those that do not.
"""

__all__ = ["draw_circles", "find_bends"]

import math

import torch
from torch import Tensor

from pdno.theory.probe import Probe

COARSE = 256
FINE = 32
CIRCLES = {2: 1, 3: 4}


def draw_circles(dim: int, generator: torch.Generator) -> Tensor:
    """Planes through the origin of two or three dimensions, as frames (circles, d, 2)."""
    drawn = torch.randn(CIRCLES[dim], dim, 2, generator=generator, dtype=torch.float64)
    frames: Tensor = torch.linalg.qr(drawn).Q
    return frames


def find_bends(probe: Probe, frames: Tensor, radius: float, count: int) -> Tensor:
    """Points (count, d) of a sphere near the largest bends, not rounded.

    Arguments:
        probe: The symbol.
        frames: The planes of the circles.
        radius: In units of the frequency scale.
        count: How many, on different circles or apart from each other.
    """
    unit = torch.linspace(0, 2 * math.pi, COARSE + 1, dtype=torch.float64)
    angles = unit.expand(len(frames), -1)
    bend = _bend(probe, _on_circle(frames, angles, radius) * probe.scale)
    circle, place = _largest(bend, count)
    middle, spacing, frames = unit[place + 1], 2 * math.pi / COARSE, frames[circle]
    while spacing * radius > 0.5:
        window = torch.linspace(-2 * spacing, 2 * spacing, FINE + 1, dtype=torch.float64)
        angles = middle[:, None] + window
        bend = _bend(probe, _on_circle(frames, angles, radius) * probe.scale)
        middle = angles.gather(1, bend.argmax(dim=1, keepdim=True) + 1)[:, 0]
        spacing = 4 * spacing / FINE
    return _on_circle(frames, middle[:, None], radius)[:, 0] * probe.scale


def _on_circle(frames: Tensor, angles: Tensor, radius: float) -> Tensor:
    """Points (circles, M, d) for frames (circles, d, 2) and angles (circles, M)."""
    turned = torch.stack([torch.cos(angles), torch.sin(angles)], dim=-1)
    return radius * torch.einsum("cmk,cdk->cmd", turned, frames)


def _bend(probe: Probe, points: Tensor) -> Tensor:
    """Second differences along lines of points (L, M, d), the largest of all parts, (L, M - 2)."""
    flat = points.flatten(0, 1)
    values = probe.values(flat.round() if probe.only_integers else flat, derivatives=False)
    lines = values.reshape(-1, *points.shape[:2])
    seconds = lines[..., 2:] - 2 * lines[..., 1:-1] + lines[..., :-2]
    return seconds.abs().amax(dim=0).nan_to_num(nan=torch.inf)


def _largest(bend: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Circles and places of the `count` largest bends, no two of them neighbours."""
    left = bend.clone()
    found = []
    for _ in range(count):
        best = int(left.argmax())
        circle, place = divmod(best, left.shape[1])
        found.append((circle, place))
        left[circle, max(0, place - 3) : place + 4] = -1.0
    circles, places = zip(*sorted(found), strict=True)
    return torch.tensor(circles), torch.tensor(places)
