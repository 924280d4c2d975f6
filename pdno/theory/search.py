"""Where to look: points x and rays of ξ at which the differences of a symbol are worst.

A ray is a sequence of lattice points, one in each shell 4^j <= |ξ| < 4^{j+1}, j = 1, 2, ..., in
units of the frequency scale.
"""

import itertools
import math

import torch
from torch import Tensor
from torch.nn.functional import normalize

from pdno.theory.probe import Probe
from pdno.theory.stencil import Stencil

RATIO = 4.0  # of the radii of shells
SAMPLED, RING = {1: 32, 2: 48, 3: 64}, 1024  # directions by dimension, points of the first shell
FOLLOWED = {1: 4, 2: 4, 3: 3}  # rays per order of difference, by dimension
BENDS, CIRCLES = 4, {2: 1, 3: 4}  # bends per order of difference, circles by dimension
COARSE, FINE = 256, 32  # points of a circle, and of a window around a bend
CHANNEL_PAIRS = 32  # that a search around bends examines
START = 2  # lines of a first layer are compared in the shell 4^(START + 1)
CONES, FAR = {2: 512, 3: 2048}, 6  # directions of a sphere that are compared in the shell 4^FAR
FEW, MANY = 3, 24  # points x that are spread out, and as many that are worst
CANDIDATES = {1: 1024, 2: 2048, 3: 4096}  # points x that are compared, by dimension
RADII = (1.0, 30.0, 1e3, 1e6, 1e9)  # of the frequencies at which they are


def spread_directions(probe: Probe, drawn: int) -> Tensor:
    """Both ends of the axes, the diagonal and random directions, (n, d)."""
    axes = torch.eye(probe.dim, dtype=torch.float64)
    random = torch.randn(drawn, probe.dim, generator=probe.generator, dtype=torch.float64)
    diagonal = torch.ones(1, probe.dim, dtype=torch.float64)
    return normalize(torch.cat([axes, -axes, diagonal, random]), dim=-1)


def find_points(probe: Probe) -> tuple[Tensor, Tensor]:
    """Many points x, (P, d), and a few of them: half evenly spread, half where a is worst.

    That is where |a|, or a first or second difference of it in ξ, is largest among many points
    for a frequency of any size.
    """
    spread, dim = _spread(probe, MANY), probe.dim
    x, best = _spread(probe, CANDIDATES[dim]), list[Tensor]()
    directions = spread_directions(probe, 3)
    for radius in reversed(RADII):
        xi = (radius * directions * probe.scale).round()
        chosen, reach = _worst(probe, x, xi), 1 / CANDIDATES[dim] ** (1 / dim)
        for _ in range(2):  # nearer and nearer to the peaks
            nudge = torch.rand(8, dim, generator=probe.generator, dtype=torch.float64)
            near = (chosen[:, None] + reach * (2 * nudge - 1)).flatten(0, 1)
            low = float(probe.stencil.offsets.abs().max())
            chosen = _worst(probe, torch.cat([chosen, near.clamp(low, 1 - low)]), xi)
            reach /= 4
        best.append(chosen)
    rows = torch.cat(best).round(decimals=4)
    # those that are worst for many frequencies first
    unique, count = torch.unique(rows, dim=0, return_counts=True)
    worst = unique[count.argsort(descending=True)][:MANY]
    return torch.cat([spread, worst]), torch.cat([spread[:FEW], worst[:FEW]])


def _spread(probe: Probe, count: int) -> Tensor:
    """Points that fill the box evenly, not nearer to its faces than stencils reach, (P, d)."""
    engine = torch.quasirandom.SobolEngine(probe.dim)  # type: ignore[no-untyped-call]
    sequence = engine.draw(count, dtype=torch.float64)
    shift = torch.rand(probe.dim, generator=probe.generator, dtype=torch.float64)
    margin = float(probe.stencil.offsets.abs().max())
    return margin + (1 - 2 * margin) * ((sequence + shift) % 1)


def _worst(probe: Probe, x: Tensor, xi: Tensor) -> Tensor:
    """For each of the frequencies (M, d) and three differences, the x where it is largest."""
    step = torch.ones(probe.dim, dtype=torch.float64)
    a, b, c = (probe.table(x, xi + k * step).nan_to_num() for k in range(3))
    sizes = [size.abs().amax(dim=(0, 1)) for size in (a, b - a, c - 2 * b + a)]
    return x[torch.cat([size.argmax(dim=0) for size in sizes])]


def find_rays(probe: Probe, stencil: Stencil, *, search: bool) -> Tensor:
    """Lattice points (rays, shells, d) of many sampled rays, and of the worst ones."""
    # steps of about a quarter of what the symbol can resolve
    rays = _Search(probe, stencil, max(1, int(probe.scale.min() / 4)))
    return rays.find_rays() if search else rays.sampled()


class _Search:
    """The rays along which the differences of a stencil are worst.

    That can be a set as thin as one ray: a unit σ(w·ξ + b) of a network has the same second
    difference along w all along w·ξ = -b, and none a few steps beside it. So there are, besides
    sampled directions, the largest differences in a ring 4 <= |ξ| < 16, where even a thin set
    fills a part, followed outwards; the lines w·ξ + b = 0 of a first layer; and the points of
    great circles where the symbol bends most, as a unit is a jump or a kink there.
    """

    def __init__(self, probe: Probe, stencil: Stencil, step: int) -> None:
        self.probe, self.stencil, self.step = probe, stencil, step
        self.dim, self.scale, self.shells = probe.dim, probe.scale, probe.shells
        self.totals, self.orders = torch.tensor(stencil.totals), max(stencil.totals) + 1
        neighbours = itertools.product((-1.0, 0.0, 1.0), repeat=probe.dim)
        rows = sorted(neighbours, key=lambda row: sum(map(abs, row)))  # the point itself first
        self.cube = torch.tensor(rows, dtype=torch.float64)

    def find_rays(self) -> Tensor:
        """Lattice points (rays, shells, d): sampled directions, then the followed ones."""
        rays = [self.sampled()]
        if self.probe.support is not None:  # nothing is out there
            return rays[0]
        first, order = self._largest_of_ring()
        rays.append(self._follow([first / RATIO, first], order, wide=True)[:, 1:])
        if self.probe.planes is not None and self.dim > 1 and self.shells > START:
            points, order = self._largest_lines(self.probe.planes)
            rays.append(self._follow(list(points.unbind(dim=1)), order))
        if self.dim > 1:
            rays += [self._bends(), self._cones()]
        return torch.cat(rays)

    def _normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.probe.generator, dtype=torch.float64)

    def _uniform(self, *shape: int) -> Tensor:
        return torch.rand(*shape, generator=self.probe.generator, dtype=torch.float64)

    def _radius(self, xi: Tensor) -> Tensor:
        radius: Tensor = (xi / self.scale).norm(dim=-1)
        return radius

    def sampled(self) -> Tensor:
        """Axes, diagonals and random directions, with radii anywhere in the first shell."""
        signs = [p for p in itertools.product((-1.0, 0.0, 1.0), repeat=self.dim) if any(p)]
        special = torch.tensor(signs, dtype=torch.float64)
        drawn = self._normal(SAMPLED[self.dim], self.dim)
        directions = normalize(torch.cat([special, drawn]), dim=-1)
        radii = torch.cat([torch.ones(len(special), 1), RATIO ** self._uniform(len(drawn), 1)])
        powers = RATIO ** torch.arange(1, self.shells + 1, dtype=torch.float64)
        return (powers[:, None] * (radii * directions)[:, None] * self.scale).round()

    def _strengths(self, xi: Tensor, pairs: Tensor | None = None) -> Tensor:
        """max over |α| = q of |Δ^α a| |ξ|^q at ξ (M, d), (orders q, pairs, M)."""
        radius = self._radius(xi)
        sizes = self.probe.strengths(xi, self.stencil, self.step, pairs)
        largest = [sizes[self.totals == q].amax(dim=0) * radius**q for q in range(self.orders)]
        return torch.stack(largest).nan_to_num(nan=torch.inf)  # what overflows is large

    def _best(self, xi: Tensor, offsets: Tensor, order: Tensor, pairs: Tensor) -> Tensor:
        """The strongest of the points ξ + step · offset for ξ (K, d), hardly nearer to the origin.

        Offsets (candidates, d) begin with zero; `order` (K,) is that of the differences.
        """
        rays = torch.arange(len(xi))
        candidates = xi[:, None] + self.step * offsets
        strengths = self._strengths(candidates.flatten(0, 1), pairs).amax(dim=1)
        strengths = strengths.reshape(self.orders, *candidates.shape[:2])[order, rays]
        radius = self._radius(candidates)
        strengths[radius < 0.9 * radius[:, :1]] = -1.0
        return candidates[rays, strengths.argmax(dim=1)]

    def _near(self, xi: Tensor, reach: int, order: Tensor, pairs: Tensor) -> Tensor:
        """The strongest point along the axes, one of which meets every hyperplane, and around."""
        steps = sorted(range(-reach, reach + 1), key=abs)
        axes = torch.eye(self.dim, dtype=torch.float64)
        cross = torch.stack([step * axis for step in steps for axis in axes][self.dim - 1 :])
        return self._best(self._best(xi, cross, order, pairs), self.cube, order, pairs)

    def _follow(self, points: list[Tensor], order: Tensor, *, wide: bool = False) -> Tensor:
        """Extend points (K, d) of the first shells to all of them, (K, shells, d)."""
        # each ray has a channel pair that is worst there: these few are enough to follow
        worst = self._strengths(points[-1])[order, :, torch.arange(len(order))].argmax(dim=-1)
        pairs = torch.tensor(sorted(set(worst.tolist())))
        while len(points) < self.shells + wide:
            predicted = (points[-1] + RATIO * (points[-1] - points[-2])).round()
            # a line need not pass through the origin, as the first prediction supposes
            reach = 16 if wide and len(points) == 2 else 6
            points.append(self._near(predicted, reach, order, pairs))
        return torch.stack(points, dim=1)

    def _largest_of_ring(self) -> tuple[Tensor, Tensor]:
        """Points of the first shell with the largest differences, and their orders."""
        edge = (RATIO**2 * self.scale).ceil().long().tolist()
        if math.prod(2 * n + 1 for n in edge) <= 2 * RING:
            axes = [torch.arange(-n, n + 1, dtype=torch.float64) for n in edge]
            lattice = torch.cartesian_prod(*axes).reshape(-1, self.dim)
        else:
            directions = normalize(self._normal(RING, self.dim), dim=-1)
            lattice = (RATIO ** (1 + self._uniform(RING, 1)) * directions * self.scale).round()
        radius = self._radius(lattice)
        ring = lattice[(radius >= RATIO) & (radius < RATIO**2)]
        return self._largest(self._strengths(ring).amax(dim=1), ring, ring)

    def _largest_lines(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        """The first points of lines w·ξ + b = 0, where differences are largest farther out."""
        w, b = planes[:, :-1], planes[:, -1:]
        squared = w.square().sum(dim=-1, keepdim=True).clamp_min(1e-30)
        drawn = self._normal(2, *w.shape)
        across = drawn - (drawn * w).sum(dim=-1, keepdim=True) / squared * w
        directions = normalize(torch.cat([across, -across]), dim=-1).flatten(0, 1)
        base = (-b / squared * w).repeat(4, 1)
        radii = RATIO ** torch.arange(1, START + 2, dtype=torch.float64)
        lines = ((base[:, None] + radii[:, None] * directions[:, None]) * self.scale).round()
        strengths = self._strengths(lines[:, -1]).amax(dim=1)
        strengths[0] = 0.0  # the values themselves are large anywhere
        return self._largest(strengths, lines, directions)

    def _largest(self, sizes: Tensor, points: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
        """Per order the strongest points that lie in different directions."""
        unit, count = normalize(directions, dim=-1), FOLLOWED[self.dim]
        chosen, orders = list[int](), list[int]()
        for q, size in enumerate(sizes):
            taken: list[int] = []
            for index in size.argsort(descending=True)[: 32 * count].tolist():
                if all(float(unit[index] @ unit[other]) < 0.99 for other in taken):
                    taken.append(index)
                if len(taken) == count:
                    break
            chosen += taken
            orders += [q] * len(taken)
        return points[chosen], torch.tensor(orders)

    def _cones(self) -> Tensor:
        """Straight rays where values and differences with wide steps are largest, far out."""
        directions = normalize(self._normal(CONES[self.dim], self.dim), dim=-1)
        radius = RATIO ** min(FAR, self.shells)
        xi = (radius * directions * self.scale).round()
        wide = max(1, int(radius * float(self.scale.min()) / 16))
        sizes = self.probe.strengths(xi, self.stencil, wide).amax(dim=1)
        largest = torch.stack([sizes[self.totals == q].amax(dim=0) for q in range(self.orders)])
        chosen, _ = self._largest(largest.nan_to_num(nan=torch.inf), directions, directions)
        powers = RATIO ** torch.arange(1, self.shells + 1, dtype=torch.float64)
        return (powers[:, None] * chosen[:, None] * self.scale).round()

    def _bends(self) -> Tensor:
        """The points of each shell where the symbol bends most, for each order of difference."""
        orders, points = torch.arange(1, self.orders).repeat_interleave(BENDS), []
        # planes through the origin, (circles, d, 2)
        frames = torch.linalg.qr(self._normal(CIRCLES[self.dim], self.dim, 2)).Q
        count = self.probe.values(torch.zeros(1, self.dim, dtype=torch.float64)).shape[1]
        pairs = torch.arange(0, count, max(1, count // CHANNEL_PAIRS))
        for shell in range(1, self.shells + 1):
            bends = self._find_bends(frames, 1.5 * RATIO**shell).round()
            points.append(self._near(bends.repeat(self.orders - 1, 1), 3, orders, pairs))
        return torch.stack(points, dim=1)

    def _find_bends(self, frames: Tensor, radius: float) -> Tensor:
        """Points (bends, d) of a sphere near the largest bends of its circles, not rounded."""
        unit = torch.linspace(0, 2 * math.pi, COARSE + 1, dtype=torch.float64)
        left = self._bend(self._on_circle(frames, unit.expand(len(frames), -1), radius))
        bends = []
        for _ in range(BENDS):  # no two of them neighbours
            circle, index = divmod(int(left.argmax()), left.shape[1])
            bends.append((circle, index))
            left[circle, max(0, index - 3) : index + 4] = -1.0
        circles, indices = torch.tensor(sorted(bends)).T
        middle, spacing, frames = unit[indices + 1], 2 * math.pi / COARSE, frames[circles]
        while spacing * radius > 0.5:
            window = torch.linspace(-2 * spacing, 2 * spacing, FINE + 1, dtype=torch.float64)
            angles = middle[:, None] + window
            bend = self._bend(self._on_circle(frames, angles, radius))
            middle = angles.gather(1, bend.argmax(dim=1, keepdim=True) + 1)[:, 0]
            spacing = 4 * spacing / FINE
        return self._on_circle(frames, middle[:, None], radius)[:, 0]

    def _on_circle(self, frames: Tensor, angles: Tensor, radius: float) -> Tensor:
        """Points (circles, M, d) for frames (circles, d, 2) and angles (circles, M)."""
        turned = torch.stack([torch.cos(angles), torch.sin(angles)], dim=-1)
        return radius * torch.einsum("cmk,cdk->cmd", turned, frames) * self.scale

    def _bend(self, points: Tensor) -> Tensor:
        """Second differences along lines (L, M, d), the largest of all parts, (L, M - 2)."""
        flat = points.flatten(0, 1)
        flat = flat.round() if self.probe.only_integers else flat
        lines = self.probe.values(flat).reshape(-1, *points.shape[:2])
        seconds = lines[..., 2:] - 2 * lines[..., 1:-1] + lines[..., :-2]
        return seconds.abs().amax(dim=0).nan_to_num(nan=torch.inf)
