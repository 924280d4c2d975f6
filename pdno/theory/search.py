"""Where to look: points x and rays of ξ at which the differences of a symbol are worst.

A ray is a sequence of lattice points, one in each shell 4^j <= |ξ| < 4^{j+1}, j = 1, 2, ..., in
units of the frequency scale.
"""

import itertools
import math

import torch
from torch import Tensor
from torch.nn.functional import normalize

from pdno.theory.probe import RATIO, Probe, Stencil

SAMPLED, RING = {1: 32, 2: 48, 3: 64}, 1024  # directions by dimension, points of the first shell
FOLLOWED = {1: 4, 2: 4, 3: 3}  # rays per order of difference, by dimension
BENDS, CIRCLES = 4, {2: 1, 3: 4}  # bends per order of difference, circles by dimension
COARSE, FINE = 256, 32  # points of a circle, and of a window around a bend
CHANNEL_PAIRS = 32  # that a search around bends examines
CONES, FAR = {2: 512, 3: 2048}, 6  # directions of a sphere that are compared in the shell 4^FAR
FEW, MANY = 3, 24  # points x that are spread out, and as many that are worst
CANDIDATES = {1: 1024, 2: 2048, 3: 4096}  # points x that are compared, by dimension
RADII = (1.0, 30.0, 1e3, 1e6, 1e9)  # of the frequencies at which they are


def spread_directions(probe: Probe, drawn: int) -> Tensor:
    """Both ends of the axes, the diagonal and random directions, (n, d)."""
    axes, diagonal = torch.eye(probe.dim).double(), torch.ones(1, probe.dim).double()
    return normalize(torch.cat([axes, -axes, diagonal, probe.normal(drawn, probe.dim)]), dim=-1)


def find_points(probe: Probe) -> tuple[Tensor, Tensor]:
    """Many points x, (P, d), and a few of them: half evenly spread, half where a is worst.

    That is where |a|, or a first or second difference of it in ξ, is largest among many points
    for a frequency of any size.
    """
    dim, low = probe.dim, float(probe.stencil.offsets.abs().max())  # stencils reach so far

    def spread(count: int) -> Tensor:
        engine = torch.quasirandom.SobolEngine(dim)  # type: ignore[no-untyped-call]
        sequence = engine.draw(count, dtype=torch.float64)
        return low + (1 - 2 * low) * ((sequence + probe.uniform(dim)) % 1)

    def worst(x: Tensor, xi: Tensor) -> Tensor:
        """For each of the frequencies (M, d) and three differences, the x where it is largest."""
        a, b, c = (probe.table(x, xi + k).nan_to_num() for k in range(3))
        sizes = [size.abs().amax(dim=(0, 1)) for size in (a, b - a, c - 2 * b + a)]
        return x[torch.cat([size.argmax(dim=0) for size in sizes])]

    even, x, best = spread(MANY), spread(CANDIDATES[dim]), list[Tensor]()
    directions = spread_directions(probe, 3)
    for radius in reversed(RADII):
        xi = (radius * directions * probe.scale).round()
        chosen, reach = worst(x, xi), 1 / CANDIDATES[dim] ** (1 / dim)
        for _ in range(2):  # nearer and nearer to the peaks
            near = chosen[:, None] + reach * (2 * probe.uniform(8, dim) - 1)
            chosen = worst(torch.cat([chosen, near.flatten(0, 1).clamp(low, 1 - low)]), xi)
            reach /= 4
        best.append(chosen)
    # those that are worst for many frequencies first
    unique, count = torch.unique(torch.cat(best).round(decimals=4), dim=0, return_counts=True)
    peaks = unique[count.argsort(descending=True)][:MANY]
    return torch.cat([even, peaks]), torch.cat([even[:FEW], peaks[:FEW]])


class RaySearch:
    """The rays along which the differences of a stencil are worst.

    That can be a set as thin as one ray: a unit σ(w·ξ + b) of a network has the same second
    difference along w all along w·ξ = -b, and none a few steps beside it. So there are, besides
    sampled directions, the largest differences in a ring 4 <= |ξ| < 16, where even a thin set
    fills a part, followed outwards; the points of great circles where the symbol bends most, as a
    unit is a jump or a kink there; and narrow cones.
    """

    def __init__(self, probe: Probe, stencil: Stencil) -> None:
        self.probe, self.stencil, self.dim, self.scale = probe, stencil, probe.dim, probe.scale
        # steps of about a quarter of what the symbol can resolve
        self.step = max(1, int(probe.scale.min() / 4))
        self.totals, self.orders = torch.tensor(stencil.totals), max(stencil.totals) + 1
        self.powers = RATIO ** torch.arange(1, probe.shells + 1, dtype=torch.float64)[:, None]

    def find_rays(self) -> Tensor:
        """Lattice points (rays, shells, d): sampled directions, then the followed ones."""
        rays = [self.sampled()]
        if self.probe.support is None:  # else nothing is out there
            rays.append(self._followed())
            rays += [self._bends(), self._cones()] if self.dim > 1 else []
        return torch.cat(rays)

    def sampled(self) -> Tensor:
        """Axes, diagonals and random directions, with radii anywhere in the first shell."""
        signs = [p for p in itertools.product((-1.0, 0.0, 1.0), repeat=self.dim) if any(p)]
        special, count = torch.tensor(signs, dtype=torch.float64), SAMPLED[self.dim]
        random = self.probe.normal(count, self.dim)
        directions = normalize(torch.cat([special, random]), dim=-1)
        radii = torch.cat([torch.ones(len(special), 1), RATIO ** self.probe.uniform(count, 1)])
        return (self.powers * (radii * directions)[:, None] * self.scale).round()

    def _by_order(self, sizes: Tensor) -> Tensor:
        """The largest of all α with |α| = q, (indices α, ...) -> (orders q, ...)."""
        largest = [sizes[self.totals == q].amax(dim=0) for q in range(self.orders)]
        return torch.stack(largest).nan_to_num(nan=torch.inf)  # what overflows is large

    def _strengths(self, xi: Tensor, pairs: Tensor | slice = slice(None)) -> Tensor:
        """max over |α| = q of |Δ^α a| |ξ|^q at ξ (M, d), (orders q, pairs, M)."""
        radius = (xi / self.scale).norm(dim=-1)
        sizes = self.probe.strengths(xi, self.stencil, self.step, pairs)
        return self._by_order(sizes * radius ** self.totals[:, None, None])

    def _followed(self) -> Tensor:
        """The points of the first shell with the largest differences, followed outwards."""
        edge = (RATIO**2 * self.scale).ceil().long().tolist()
        if math.prod(2 * n + 1 for n in edge) <= 2 * RING:
            axes = [torch.arange(-n, n + 1, dtype=torch.float64) for n in edge]
            lattice = torch.cartesian_prod(*axes).reshape(-1, self.dim)
        else:
            directions = normalize(self.probe.normal(RING, self.dim), dim=-1)
            radii = RATIO ** (1 + self.probe.uniform(RING, 1))
            lattice = (radii * directions * self.scale).round()
        radius = (lattice / self.scale).norm(dim=-1)
        ring = lattice[(radius >= RATIO) & (radius < RATIO**2)]
        index, order = self._largest(self._strengths(ring).amax(dim=1), ring)
        points = [ring[index] / RATIO, ring[index]]
        # each ray has a channel pair that is worst there: these few are enough to follow
        worst = self._strengths(points[-1])[order, :, torch.arange(len(order))].argmax(dim=-1)
        pairs = torch.tensor(sorted(set(worst.tolist())))
        while len(points) <= self.probe.shells:
            predicted = (points[-1] + RATIO * (points[-1] - points[-2])).round()
            # a line need not pass through the origin, as the first prediction supposes
            points.append(self._near(predicted, 16 if len(points) == 2 else 6, order, pairs))
        return torch.stack(points[1:], dim=1)

    def _near(self, xi: Tensor, reach: int, order: Tensor, pairs: Tensor) -> Tensor:
        """The strongest point along the axes, one of which meets every hyperplane, and around.

        It is hardly nearer to the origin than ξ (K, d); `order` (K,) is that of the differences.
        """
        steps = sorted(range(-reach, reach + 1), key=abs)
        axes, rays = torch.eye(self.dim, dtype=torch.float64), torch.arange(len(xi))
        cross = torch.stack([step * axis for step in steps for axis in axes][self.dim - 1 :])
        neighbours = itertools.product((-1.0, 0.0, 1.0), repeat=self.dim)
        cube = torch.tensor(sorted(neighbours, key=lambda row: sum(map(abs, row)))).double()
        for offsets in (cross, cube):  # both begin with zero
            candidates = xi[:, None] + self.step * offsets
            strengths = self._strengths(candidates.flatten(0, 1), pairs).amax(dim=1)
            strengths = strengths.reshape(self.orders, *candidates.shape[:2])[order, rays]
            radius = (candidates / self.scale).norm(dim=-1)
            strengths[radius < 0.9 * radius[:, :1]] = -1.0
            xi = candidates[rays, strengths.argmax(dim=1)]
        return xi

    def _largest(self, sizes: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
        """Per order the indices of the strongest that lie in different directions."""
        unit, count, chosen = normalize(directions, dim=-1), FOLLOWED[self.dim], []
        for q, size in enumerate(sizes):
            taken: list[int] = []
            for index in size.argsort(descending=True)[: 32 * count].tolist():
                if len(taken) < count and all(float(unit[index] @ unit[t]) < 0.99 for t in taken):
                    taken.append(index)
            chosen += [(index, q) for index in taken]
        indices, orders = torch.tensor(chosen).T
        return indices, orders

    def _cones(self) -> Tensor:
        """Straight rays where values and differences with wide steps are largest, far out."""
        directions = normalize(self.probe.normal(CONES[self.dim], self.dim), dim=-1)
        radius = RATIO ** min(FAR, self.probe.shells)
        xi, wide = (
            (radius * directions * self.scale).round(),
            radius * float(self.scale.min()) / 16,
        )
        sizes = self.probe.strengths(xi, self.stencil, max(1, int(wide))).amax(dim=1)
        chosen, _ = self._largest(self._by_order(sizes), directions)
        return (self.powers * directions[chosen][:, None] * self.scale).round()

    def _bends(self) -> Tensor:
        """The points of each shell where the symbol bends most, for each order of difference."""
        orders, points = torch.arange(1, self.orders).repeat_interleave(BENDS), []
        # planes through the origin, (circles, d, 2)
        frames = torch.linalg.qr(self.probe.normal(CIRCLES[self.dim], self.dim, 2)).Q
        count = self.probe.values(torch.zeros(1, self.dim, dtype=torch.float64)).shape[1]
        pairs = torch.arange(0, count, max(1, count // CHANNEL_PAIRS))
        for shell in range(1, self.probe.shells + 1):
            bends = self._find_bends(frames, 1.5 * RATIO**shell).round()
            points.append(self._near(bends.repeat(self.orders - 1, 1), 3, orders, pairs))
        return torch.stack(points, dim=1)

    def _find_bends(self, frames: Tensor, radius: float) -> Tensor:
        """Points (bends, d) of a sphere near the largest bends of its circles, not rounded."""

        def on_circles(frames: Tensor, angles: Tensor) -> Tensor:
            """Points (circles, M, d) for frames (circles, d, 2) and angles (circles, M)."""
            turned = torch.stack([torch.cos(angles), torch.sin(angles)], dim=-1)
            return radius * torch.einsum("cmk,cdk->cmd", turned, frames) * self.scale

        def bend(frames: Tensor, angles: Tensor) -> Tensor:
            """Second differences along circles, the largest of all parts, (circles, M - 2)."""
            flat = on_circles(frames, angles).flatten(0, 1)
            flat = flat.round() if self.probe.only_integers else flat
            lines = self.probe.values(flat).reshape(-1, *angles.shape)
            seconds = lines[..., 2:] - 2 * lines[..., 1:-1] + lines[..., :-2]
            return seconds.abs().amax(dim=0).nan_to_num(nan=torch.inf)

        unit = torch.linspace(0, 2 * math.pi, COARSE + 1, dtype=torch.float64)
        left, bends = bend(frames, unit.expand(len(frames), -1)), []
        for _ in range(BENDS):  # no two of them neighbours
            circle, index = divmod(int(left.argmax()), left.shape[1])
            bends.append((circle, index))
            left[circle, max(0, index - 3) : index + 4] = -1.0
        circles, indices = torch.tensor(sorted(bends)).T
        middle, spacing, frames = unit[indices + 1], 2 * math.pi / COARSE, frames[circles]
        while spacing * radius > 0.5:
            window = torch.linspace(-2 * spacing, 2 * spacing, FINE + 1, dtype=torch.float64)
            angles = middle[:, None] + window
            largest = bend(frames, angles).argmax(dim=1, keepdim=True)
            middle = angles.gather(1, largest + 1)[:, 0]
            spacing = 4 * spacing / FINE
        return on_circles(frames, middle[:, None])[:, 0]
