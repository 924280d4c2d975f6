"""The sizes of all Δ_ξ^α ∂_x^β a along rays and around the origin, and how they grow.

A ray is a sequence of lattice points, one in each shell 4^j <= |ξ| < 4^{j+1}, j = 1, 2, ..., in
units of the frequency scale s. Where s is large, unit steps see tiny differences only, so that
differences with a step of about s/4 are taken as well. The exponent μ of |Δ^α ∂_x^β a| = O(|ξ|^μ)
is the slope of its largest values in the shells, in logarithmic scales, over the last shells where
it is seen at all. A difference of order q of numbers of size A has a rounding error of about
2^q ε A; what is below that is small, which speaks for a symbol.
"""

__all__ = ["RATIO", "TOLERANCE", "Growth", "Measurement", "measure"]

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from pdno.theory.probe import MultiIndex, Probe, Stencil, difference_stencil

RATIO = 4.0  # of the radii of shells
TOLERANCE = 0.1  # of exponents: a logarithm, of slope 1/log |ξ|, is within it
EVERY_POWER = 16.0  # beyond it growth is faster than every power; its squares are still numbers
MARGIN = 256.0  # rounding errors that count as unseen: a network sums up many terms
FEWEST, FITTED = 3, 4  # shells of a fit
CORE = {1: 64, 2: 6, 3: 3}  # edges of the box around the origin, by dimension
SAMPLED, RING = {1: 32, 2: 48, 3: 64}, 1024  # directions by dimension, points of the first shell
FOLLOWED = {1: 4, 2: 4, 3: 3}  # rays per order of difference, by dimension
BENDS, CIRCLES = 4, {2: 1, 3: 4}  # bends per order of difference, circles by dimension
COARSE, FINE = 256, 32  # points of a circle, and of a window around a bend
PAIRS = 32  # channel pairs that a search around bends looks at, where none is known to be worst
START = 2  # lines of a first layer are compared in the shell 4^(START + 1)


class Growth(NamedTuple):
    """The growth of one quantity."""

    exponent: float  # -inf where it vanishes or is unseen, inf where it is faster than any power
    last: int  # the last shell where it is seen, -1 for none
    to_the_end: bool  # whether that is the outermost shell


@dataclass(frozen=True)
class Measurement:
    """What was seen of a symbol with one step h: largest |Δ^α ∂_x^β a| over x and pairs."""

    alphas: tuple[MultiIndex, ...]
    betas: tuple[MultiIndex, ...]
    step: int
    points: Tensor  # lattice points of the rays, (K, J, d)
    sizes: Tensor  # there, (indices α, indices β, K, J)
    core_points: Tensor  # lattice points around the origin, (M, d)
    core: Tensor  # there, (indices α, indices β, M)
    growth: dict[tuple[int, int], Growth]  # of the largest sizes in each shell

    def weighted(self, alpha: int, beta: int, order: float) -> tuple[Tensor, float]:
        """|Δ^α ∂_x^β a| ⟨ξ⟩^{|α|-m} on the rays, (K, J), and its largest value near the origin."""
        power = sum(self.alphas[alpha]) - order
        core, rays = (
            sizes[alpha, beta] * (1.0 + xi.square().sum(dim=-1)).sqrt() ** power
            for sizes, xi in ((self.core, self.core_points), (self.sizes, self.points))
        )
        return torch.where(self.sizes[alpha, beta] == 0, 0.0, rays), float(core.max())

    def seminorm(self, alpha: int, beta: int, order: float) -> float:
        """The largest |Δ^α ∂_x^β a| ⟨ξ⟩^{|α|-m} that was met; unseen ones do not count."""
        rays, core = self.weighted(alpha, beta, order)
        last = self.growth[alpha, beta].last
        return max(core, float(rays[:, : last + 1].max())) if last >= 0 else core


def measure(probe: Probe, highest: int) -> list[Measurement]:
    """What is seen with the step 1 and, where the scale is large, with one that fits it."""
    if probe.shells < 4:
        raise ValueError(f"shells is {probe.shells}; expected at least 4 to see growth")
    # the search takes steps of about a quarter of what the symbol can resolve
    step = max(1, int(probe.scale.min() / 4))
    wide = difference_stencil(probe.dim, highest, step)
    rays = _Search(probe, wide, step).find_rays()
    stencils = {1: difference_stencil(probe.dim, highest), step: wide}
    return [_measure_on(probe, stencil, h, rays) for h, stencil in stencils.items()]


def _measure_on(probe: Probe, stencil: Stencil, step: int, rays: Tensor) -> Measurement:
    derivatives = step == 1
    sizes = probe.differences(rays.flatten(0, 1), stencil, derivatives=derivatives)
    sizes = sizes.reshape(*sizes.shape[:2], *rays.shape[:2]).nan_to_num(nan=math.inf)
    edge = CORE[probe.dim] if probe.support is None else probe.support + max(stencil.totals)
    axis = torch.arange(-edge, edge + 1, dtype=torch.float64)
    core_points = torch.cartesian_prod(*[axis] * probe.dim).reshape(-1, probe.dim)
    radii = RATIO ** torch.arange(1, rays.shape[1] + 1, dtype=torch.float64)
    largest = sizes.amax(dim=2)
    noise = probe.noise(largest[0])
    # a phase that turns faster than once between neighbours is none on the lattice, but a jump is
    fastest = 2 * math.pi * rays.norm(dim=-1).amax(dim=0) * noise
    noise = noise + torch.minimum(_conditioning(probe, rays, derivatives), fastest)
    growth = {}
    for alpha, beta in itertools.product(range(len(sizes)), range(sizes.shape[1])):
        # what rounding can make of Δ^α/h^|α| of numbers of the size of the noise
        floor = MARGIN * torch.finfo(torch.float64).eps * (2.0 / step) ** stencil.totals[alpha]
        floors = (floor * noise[beta]).nan_to_num(nan=0.0, posinf=0.0)
        growth[alpha, beta] = _fit_growth(largest[alpha, beta], floors, radii)
    betas = probe.stencil.indices[: sizes.shape[1]]
    core = probe.differences(core_points, stencil, derivatives=derivatives)
    return Measurement(stencil.indices, betas, step, rays, sizes, core_points, core, growth)


def _conditioning(probe: Probe, rays: Tensor, derivatives: bool) -> Tensor:
    """|ξ| |∇a|, large for phases e^{2πi v·ξ}, enlarges rounding: the change by a digit of ξ."""
    if probe.only_integers:
        return torch.zeros(1, rays.shape[1], dtype=torch.float64)
    digit = 4 * torch.finfo(torch.float64).eps
    xi = rays.flatten(0, 1)
    change = probe.changes(xi, xi * (1 + digit), derivatives=derivatives) / digit
    return change.reshape(len(change), *rays.shape[:2]).nan_to_num(nan=0.0, posinf=0.0).amax(dim=1)


def _fit_growth(sizes: Tensor, floor: Tensor, radii: Tensor) -> Growth:
    """The growth of sizes (J,) in shells of radii (J,), unseen below a floor (J,)."""
    if not bool(torch.isfinite(sizes).all()):
        return Growth(math.inf, int((~torch.isfinite(sizes)).nonzero()[0]), True)
    seen = ((sizes > floor) & (sizes > 0)).nonzero().flatten()
    last = int(seen[-1]) if len(seen) else -1
    to_the_end = last == len(sizes) - 1
    outer = seen[seen > 0][-FITTED:]  # the first shell is not far out
    if len(outer) < FEWEST:
        return Growth(-math.inf, last, to_the_end)
    x, y = radii[outer].log(), sizes[outer].log()
    # a limit that is approached from below looks like growth, but less and less so
    at_the_end = float((y[-1] - y[-2]) / (x[-1] - x[-2]))
    x = x - x.mean()
    slope = min(float((x * y).sum() / x.square().sum()), at_the_end)
    exponent = math.copysign(math.inf, slope) if abs(slope) > EVERY_POWER else slope
    return Growth(exponent, last, to_the_end)


class _Search:
    """The rays along which the differences of a stencil are worst, found and not guessed.

    That can be a set as thin as one ray: a unit σ(w·ξ + b) of a network has the same second
    difference along w all along w·ξ = -b, and none a few steps beside it. So three things are
    looked at besides sampled directions: the largest differences in a ring 4 <= |ξ| < 16, where
    even a thin set fills a part, followed outwards; the lines w·ξ + b = 0 of a first layer; and
    the places of great circles where the symbol bends most, as a unit is a jump or a kink there.
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
        rays = [self._sampled()]
        if self.probe.support is not None:  # nothing is out there
            return rays[0]
        first, order = self._largest_of_ring()
        rays.append(self._follow([first / RATIO, first], order, wide=True)[:, 1:])
        if self.probe.planes is not None and self.dim > 1 and self.shells > START:
            points, order = self._largest_lines(self.probe.planes)
            rays.append(self._follow(list(points.unbind(dim=1)), order))
        if self.dim > 1:
            rays.append(self._bends())
        return torch.cat(rays)

    def _normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.probe.generator, dtype=torch.float64)

    def _uniform(self, *shape: int) -> Tensor:
        return torch.rand(*shape, generator=self.probe.generator, dtype=torch.float64)

    def _radius(self, xi: Tensor) -> Tensor:
        radius: Tensor = (xi / self.scale).norm(dim=-1)
        return radius

    def _sampled(self) -> Tensor:
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
        found, radius = self.probe.strengths(xi, self.stencil, pairs), self._radius(xi)
        largest = [found[self.totals == q].amax(dim=0) * radius**q for q in range(self.orders)]
        return torch.stack(largest).nan_to_num(nan=torch.inf)  # what overflows is large

    def _best(self, xi: Tensor, offsets: Tensor, order: Tensor, pairs: Tensor) -> Tensor:
        """The strongest of the points ξ + step · offset for ξ (K, d), hardly nearer to the origin.

        Offsets (candidates, d) begin with zero; `order` (K,) is that of the differences.
        """
        rays = torch.arange(len(xi))
        candidates = xi[:, None] + self.step * offsets
        found = self._strengths(candidates.flatten(0, 1), pairs).amax(dim=1)
        strengths = found.reshape(self.orders, *candidates.shape[:2])[order, rays]
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
            for place in size.argsort(descending=True)[: 32 * count].tolist():
                if all(float(unit[place] @ unit[other]) < 0.99 for other in taken):
                    taken.append(place)
                if len(taken) == count:
                    break
            chosen += taken
            orders += [q] * len(taken)
        return points[chosen], torch.tensor(orders)

    def _bends(self) -> Tensor:
        """The places of each shell where the symbol bends most, for each order of difference."""
        orders, points = torch.arange(1, self.orders).repeat_interleave(BENDS), []
        # planes through the origin, (circles, d, 2)
        frames = torch.linalg.qr(self._normal(CIRCLES[self.dim], self.dim, 2)).Q
        count = self.probe.values(torch.zeros(1, self.dim, dtype=torch.float64)).shape[1]
        pairs = torch.arange(0, count, max(1, count // PAIRS))
        for shell in range(1, self.shells + 1):
            found = self._find_bends(frames, 1.5 * RATIO**shell).round()
            points.append(self._near(found.repeat(self.orders - 1, 1), 3, orders, pairs))
        return torch.stack(points, dim=1)

    def _find_bends(self, frames: Tensor, radius: float) -> Tensor:
        """Points (bends, d) of a sphere near the largest bends of its circles, not rounded."""
        unit = torch.linspace(0, 2 * math.pi, COARSE + 1, dtype=torch.float64)
        left = self._bend(self._on_circle(frames, unit.expand(len(frames), -1), radius))
        found = []
        for _ in range(BENDS):  # no two of them neighbours
            circle, place = divmod(int(left.argmax()), left.shape[1])
            found.append((circle, place))
            left[circle, max(0, place - 3) : place + 4] = -1.0
        circles, places = torch.tensor(sorted(found)).T
        middle, spacing, frames = unit[places + 1], 2 * math.pi / COARSE, frames[circles]
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
        lines = self.probe.values(flat, derivatives=False).reshape(-1, *points.shape[:2])
        seconds = lines[..., 2:] - 2 * lines[..., 1:-1] + lines[..., :-2]
        return seconds.abs().amax(dim=0).nan_to_num(nan=torch.inf)
