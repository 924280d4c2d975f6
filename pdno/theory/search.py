"""The rays along which a symbol is worst, found and not guessed.

Differences of a symbol can fail to decay on a set as thin as one ray: a unit σ(w·ξ + b) of a
network is constant where w·ξ is, so its second difference along w has the same size all along the
line w·ξ = -b, and is zero a few steps beside it. Random rays never meet it. So

1. all lattice points of a ring 4 <= |ξ| < 16 are visited, where even a thin set fills a part, and
   the largest differences, of each order, are followed outwards: from two points of a line the
   next one, at four times the radius, is predicted, and found by a search around it;
2. where a symbol is a network, the lines w·ξ + b = 0 of its first layer are followed as well;
3. in every shell great circles are searched for places where the symbol bends most: on a circle
   of radius r a unit tanh(w·ξ + b) is a jump and a unit GELU(w·ξ + b) a kink, of a width that does
   not grow with r. The largest second differences on a coarse set of points are looked for again
   with an eighth of the spacing, until it is below that of the lattice. A hyperplane near the
   origin meets every great circle, and a circle of large radius meets the others, too.

A ray here is a sequence of lattice points, one in each shell 4^j <= |ξ| < 4^{j+1}, j = 1, 2, ...
Radii are in units of the frequency scale of the symbol.
"""

__all__ = ["RATIO", "find_rays"]

import itertools
import math

import torch
from torch import Tensor

from pdno.theory.differences import Stencil
from pdno.theory.probe import Probe

RATIO = 4.0
SAMPLED = {1: 32, 2: 48, 3: 64}
RING = 1024
FOLLOWED = {1: 4, 2: 4, 3: 3}
"""Rays per order of difference."""
BENDS, CIRCLES = 4, {2: 1, 3: 4}
"""Bends per order of difference, and circles by dimension."""
COARSE, FINE = 256, 32
"""Points of a circle, and of a window around a bend."""
PAIRS = 32
"""Channel pairs that a search around bends looks at, where none is known to be worst."""
START = 2
"""Lines of a first layer are compared in the shell 4^(START + 1)."""


def find_rays(
    probe: Probe, stencil: Stencil, *, shells: int, step: int, generator: torch.Generator
) -> Tensor:
    """Lattice points (rays, shells, d): sampled directions, then the followed ones.

    The largest differences of the stencil are followed; `step` is that of the search, in lattice
    points: about a quarter of what the symbol can resolve.
    """
    rays = [_sampled(probe, shells, generator)]
    if probe.support is not None:  # nothing is out there
        return rays[0]
    search = _Search(probe, stencil, step)
    first, order = _largest_of_ring(search, generator)
    rays.append(_follow(search, [first / RATIO, first], order, shells, wide=True)[:, 1:])
    if probe.planes is not None and probe.dim > 1 and shells > START:
        points, order = _largest_lines(search, generator)
        rays.append(_follow(search, list(points.unbind(dim=1)), order, shells))
    if probe.dim > 1:
        rays.append(_bends(search, shells, generator))
    return torch.cat(rays)


def _sampled(probe: Probe, shells: int, generator: torch.Generator) -> Tensor:
    """Axes, diagonals and random directions, with radii anywhere in the first shell."""
    signs = [p for p in itertools.product((-1.0, 0.0, 1.0), repeat=probe.dim) if any(p)]
    special = torch.tensor(signs, dtype=torch.float64)
    count = SAMPLED[probe.dim]
    drawn = torch.randn(count, probe.dim, generator=generator, dtype=torch.float64)
    directions = torch.nn.functional.normalize(torch.cat([special, drawn]), dim=-1)
    drift = torch.rand(count, 1, generator=generator, dtype=torch.float64)
    radii = torch.cat([torch.ones(len(special), 1), RATIO**drift])
    powers = RATIO ** torch.arange(1, shells + 1, dtype=torch.float64)
    return (powers[:, None] * (radii * directions)[:, None] * probe.scale).round()


class _Search:
    """Largest differences of a symbol, by order."""

    def __init__(self, probe: Probe, stencil: Stencil, step: int) -> None:
        self.probe, self.stencil, self.step = probe, stencil, step
        self.orders = int(stencil.totals.max()) + 1

    def strengths(self, xi: Tensor, pairs: Tensor | None = None) -> Tensor:
        """max over |α| = q of |Δ^α a| |ξ|^q at ξ (M, d), (orders q, pairs, M)."""
        found = self.probe.strengths(xi, self.stencil, pairs)
        radius = (xi / self.probe.scale).norm(dim=-1)
        totals = self.stencil.totals
        largest = [found[totals == q].amax(dim=0) * radius**q for q in range(self.orders)]
        return torch.stack(largest).nan_to_num(nan=torch.inf)  # what overflows is large

    def best(self, xi: Tensor, offsets: Tensor, order: Tensor, pairs: Tensor) -> Tensor:
        """The strongest of the points ξ + step · offset for ξ (K, d), hardly nearer to the origin.

        Offsets (candidates, d) begin with zero; `order` (K,) is that of the differences.
        """
        rays = torch.arange(len(xi))
        candidates = xi[:, None] + self.step * offsets
        found = self.strengths(candidates.flatten(0, 1), pairs).amax(dim=1)
        strengths = found.reshape(self.orders, *candidates.shape[:2])[order, rays]
        radius = (candidates / self.probe.scale).norm(dim=-1)
        strengths[radius < 0.9 * radius[:, :1]] = -1.0
        return candidates[rays, strengths.argmax(dim=1)]


def _follow(
    search: _Search, start: list[Tensor], order: Tensor, shells: int, *, wide: bool = False
) -> Tensor:
    """Extend points (K, d) of the first shells to all of them, (K, shells, d)."""
    dim, points = search.probe.dim, start
    # each ray has a channel pair that is worst there: these few are enough to follow
    worst = search.strengths(start[-1])[order, :, torch.arange(len(order))].argmax(dim=-1)
    pairs = torch.tensor(sorted(set(worst.tolist())))
    while len(points) < shells + wide:
        predicted = (points[-1] + RATIO * (points[-1] - points[-2])).round()
        # a line need not pass through the origin, as the first prediction supposes
        reach = 16 if wide and len(points) == 2 else 6
        centred = search.best(predicted, _cross(dim, reach), order, pairs)
        points.append(search.best(centred, _cube(dim), order, pairs))
    return torch.stack(points, dim=1)


def _bends(search: _Search, shells: int, generator: torch.Generator) -> Tensor:
    """The places of each shell where the symbol bends most, for each order of difference."""
    orders = torch.arange(1, search.orders).repeat_interleave(BENDS)
    dim, points = search.probe.dim, []
    drawn = torch.randn(CIRCLES[dim], dim, 2, generator=generator, dtype=torch.float64)
    frames = torch.linalg.qr(drawn).Q  # planes through the origin, (circles, d, 2)
    count = search.probe.values(torch.zeros(1, dim, dtype=torch.float64)).shape[1]
    pairs = torch.arange(0, count, max(1, count // PAIRS))
    for shell in range(1, shells + 1):
        found = _find_bends(search.probe, frames, 1.5 * RATIO**shell, BENDS).round()
        start = found.repeat(search.orders - 1, 1)
        near = search.best(start, _cross(dim, 3), orders, pairs)
        points.append(search.best(near, _cube(dim), orders, pairs))
    return torch.stack(points, dim=1)


def _cross(dim: int, reach: int) -> Tensor:
    """Steps along the axes, the shortest first: one of them meets every hyperplane near by."""
    steps = sorted(range(-reach, reach + 1), key=abs)
    axes = torch.eye(dim, dtype=torch.float64)
    rows = [step * axis for step in steps for axis in axes]
    return torch.stack(rows[dim - 1 :])


def _cube(dim: int) -> Tensor:
    """The neighbours, the point itself first."""
    rows = sorted(
        itertools.product((-1.0, 0.0, 1.0), repeat=dim), key=lambda row: sum(map(abs, row))
    )
    return torch.tensor(rows, dtype=torch.float64)


def _largest_of_ring(search: _Search, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Points of the first shell with the largest differences, and their orders."""
    probe = search.probe
    edge = (RATIO**2 * probe.scale).ceil().long().tolist()
    if math.prod(2 * n + 1 for n in edge) <= 2 * RING:
        axes = [torch.arange(-n, n + 1, dtype=torch.float64) for n in edge]
        lattice = torch.cartesian_prod(*axes).reshape(-1, probe.dim)
    else:
        drawn = torch.randn(RING, probe.dim, generator=generator, dtype=torch.float64)
        drift = torch.rand(RING, 1, generator=generator, dtype=torch.float64)
        radius = RATIO ** (1 + drift)
        lattice = (radius * torch.nn.functional.normalize(drawn, dim=-1) * probe.scale).round()
    radius = (lattice / probe.scale).norm(dim=-1)
    ring = lattice[(radius >= RATIO) & (radius < RATIO**2)]
    return _largest(search.strengths(ring).amax(dim=1), ring, ring, FOLLOWED[probe.dim])


def _largest_lines(search: _Search, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The first points of lines w·ξ + b = 0, those with the largest differences farther out."""
    probe = search.probe
    assert probe.planes is not None
    w, b = probe.planes[:, :-1], probe.planes[:, -1:]
    squared = w.square().sum(dim=-1, keepdim=True).clamp_min(1e-30)
    drawn = torch.randn(2, *w.shape, generator=generator, dtype=torch.float64)
    across = drawn - (drawn * w).sum(dim=-1, keepdim=True) / squared * w
    directions = torch.nn.functional.normalize(torch.cat([across, -across]), dim=-1).flatten(0, 1)
    base = (-b / squared * w).repeat(4, 1)
    radii = RATIO ** torch.arange(1, START + 2, dtype=torch.float64)
    lines = ((base[:, None] + radii[:, None] * directions[:, None]) * probe.scale).round()
    strengths = search.strengths(lines[:, -1]).amax(dim=1)
    strengths[0] = 0.0  # the values themselves are large anywhere
    return _largest(strengths, lines, directions, FOLLOWED[probe.dim])


def _largest(
    strengths: Tensor, points: Tensor, directions: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """Per order the strongest points that lie in different directions."""
    unit = torch.nn.functional.normalize(directions, dim=-1)
    chosen, orders = list[int](), list[int]()
    for q, strength in enumerate(strengths):
        taken: list[int] = []
        for place in strength.argsort(descending=True)[: 32 * count].tolist():
            if all(float(unit[place] @ unit[other]) < 0.99 for other in taken):
                taken.append(place)
            if len(taken) == count:
                break
        chosen += taken
        orders += [q] * len(taken)
    return points[chosen], torch.tensor(orders)


def _find_bends(probe: Probe, frames: Tensor, radius: float, count: int) -> Tensor:
    """Points (count, d) of a sphere near the largest bends of its circles, not rounded."""
    unit = torch.linspace(0, 2 * math.pi, COARSE + 1, dtype=torch.float64)
    angles = unit.expand(len(frames), -1)
    bend = _bend(probe, _on_circle(frames, angles, radius) * probe.scale)
    circle, place = _largest_bends(bend, count)
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


def _largest_bends(bend: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Circles and places of the `count` largest bends, no two of them neighbours."""
    left = bend.clone()
    found = []
    for _ in range(count):
        circle, place = divmod(int(left.argmax()), left.shape[1])
        found.append((circle, place))
        left[circle, max(0, place - 3) : place + 4] = -1.0
    circles, places = zip(*sorted(found), strict=True)
    return torch.tensor(circles), torch.tensor(places)
