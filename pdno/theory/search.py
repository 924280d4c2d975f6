"""Candidates for counterexamples: points x, and sequences of ξ that tend to infinity.

A sequence has one lattice point in each shell 4^j <= |ξ| < 4^{j+1}, j = 1, ..., J, in units of the
frequency scale. There are rays in many directions, sequences of integers such as 3^k, and points
that a search has found: from wide steps to narrow ones in each shell, and ridges, which are met on
circles around the origin and followed outwards along their tangent.
"""

import itertools
import math

import torch
from torch import Tensor
from torch.nn.functional import normalize

from pdno.theory.expression import Affine, Expression, Floating
from pdno.theory.probe import MultiIndex, Probe

RATIO = 4.0
SHELLS = 20  # up to |ξ| of about 10^12
DRAWN = {1: 8, 2: 24, 3: 32}  # random directions
STARTS, CANDIDATES = 64, 16  # of the search in each shell, per dimension and per step
CIRCLES = {2: (12.0, 48.0, 192.0, 768.0), 3: (12.0, 24.0, 96.0)}
FOLLOWED, REACH = 4, 6  # ridges per order of difference, and lattice points around a prediction
UNITS = 8  # of a network's first layer
POINTS, FEW, MANY = 512, 4, 12  # x that are compared, and that are looked at


def shell_radii(probe: Probe) -> Tensor:
    """4^j in units of the scale of the widest axis, (J, 1)."""
    return RATIO ** torch.arange(1, SHELLS + 1, dtype=torch.float64)[:, None]


def find_points(probe: Probe) -> Tensor:
    """Points x (P, d): half evenly spread, half where |a| or a difference of it is largest."""
    dim = probe.dim
    if not probe.depends_on_x:
        return torch.full((1, dim), 0.5, dtype=torch.float64)
    x = probe.uniform(POINTS, dim)
    directions = normalize(probe.normal(3, dim), dim=-1)
    xi = torch.cat([r * directions * probe.scale for r in (3.0, 100.0, 1e4, 1e8)]).round()

    def worst(x: Tensor) -> Tensor:
        values = torch.stack([probe.table(x, xi + k).nan_to_num() for k in range(2)])
        sizes = torch.stack([values[0].abs(), (values[1] - values[0]).abs()]).amax(dim=1)
        return x[sizes.argmax(dim=1).flatten()]

    best, reach = worst(x), POINTS ** (-1 / dim)
    for _ in range(3):
        near = best[:, None] + reach * (2 * probe.uniform(6, dim) - 1)
        best, reach = worst(torch.cat([best, near.flatten(0, 1).clamp(0.0, 1.0)])), reach / 4
    return torch.cat([x[: MANY - FEW], best[:: max(1, len(best) // FEW)][:FEW]])


def find_sequences(
    probe: Probe, x: Tensor, indices: tuple[MultiIndex, ...], expression: Expression | None
) -> Tensor:
    """Lattice points (S, J, d): rays, integers, and what the search found."""
    few = x[-2:]
    rays = [radial(probe), _integers(probe)]
    if probe.dim > 1:
        rays += [_ridges(probe, few, indices), *_units(probe, expression)]
    return torch.cat([*rays, _zoomed(probe, few)])


def radial(probe: Probe) -> Tensor:
    """Axes, diagonals and random directions."""
    signs = [p for p in itertools.product((-1.0, 0.0, 1.0), repeat=probe.dim) if any(p)]
    drawn = probe.normal(DRAWN[probe.dim], probe.dim)
    directions = normalize(torch.cat([torch.tensor(signs).double(), drawn]), dim=-1)
    factors = torch.cat([torch.ones(len(signs), 1), 1 + 2 * probe.uniform(len(drawn), 1)])
    return _outwards(probe, factors * directions)


def _outwards(probe: Probe, directions: Tensor) -> Tensor:
    return (shell_radii(probe) * directions[:, None] * probe.scale).round()


def _integers(probe: Probe) -> Tensor:
    """Powers and their neighbours, squares, cubes, factorials and Fibonacci's, along the axes."""
    limit, fibonacci = 8 * RATIO**SHELLS, [1, 2]
    while fibonacci[-1] < limit:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    families = [
        [b**k + c for k in range(1, 64)] for b in (2, 3, 5, 6, 7, 10, 12) for c in (-1, 0, 1)
    ]
    families += [[math.factorial(k) for k in range(1, 20)], fibonacci]
    for power in (2, 3, 4):
        roots = [int((2 * RATIO**j) ** (1 / power)) for j in range(1, SHELLS + 1)]
        families.append([root**power for root in roots])
    chosen = [
        [max([n for n in family if n < 4 * RATIO**j] or [1]) for j in range(1, SHELLS + 1)]
        for family in families
    ]
    axes = torch.cat([torch.eye(probe.dim), torch.ones(1, probe.dim)])[: probe.dim + 1]
    axes = axes[: probe.dim if probe.dim == 1 else None].double()
    members = torch.tensor(chosen, dtype=torch.float64)
    points: Tensor = members[:, None, :, None] * axes[:, None]
    return points.flatten(0, 1)


def _zoomed(probe: Probe, x: Tensor) -> Tensor:
    """In each shell where differences with wide steps are largest, then with narrower ones.

    Jumps, kinks and steep slopes are between points with different values, however far apart.
    """
    dim, count = probe.dim, STARTS * probe.dim
    axes = torch.eye(dim, dtype=torch.int64).tolist()
    sequences = []
    for order in (1, 2):
        indices = [tuple(order * k for k in axis) for axis in axes]
        directions = normalize(probe.normal(count, dim), dim=-1) * (
            1 + 2 * probe.uniform(count, 1)
        )
        points, step = _outwards(probe, directions).flatten(0, 1), shell_radii(probe)[:, 0] / 8
        step = (step * probe.scale.min()).clamp_min(1.0).round()
        widest = step.max()
        best = points.reshape(count, SHELLS, dim)[:2]
        while True:
            steps = step.repeat(len(points) // SHELLS)
            sizes = probe.differences(x, points, steps, indices)[0].amax(dim=0)
            sizes = sizes.reshape(-1, SHELLS)
            top = sizes.topk(2, dim=0).indices
            best = points.reshape(-1, SHELLS, dim).gather(0, top[..., None].expand(-1, -1, dim))
            # the same direction in every shell, from one in the middle
            if float(widest) > RATIO ** (SHELLS // 2):
                sequences.append(
                    _outwards(probe, normalize(best[:, SHELLS // 2] / probe.scale, dim=-1))
                )
            if widest <= 1:
                break
            near = best[None] + step[:, None] * (2 * probe.uniform(CANDIDATES, 2, SHELLS, dim) - 1)
            points = torch.cat([best, near.flatten(0, 1)]).round().flatten(0, 1)
            step = (step / RATIO).clamp_min(1.0).round()
            widest = widest / RATIO
        sequences.append(best)
    return torch.cat(sequences)


def _ridges(probe: Probe, x: Tensor, indices: tuple[MultiIndex, ...]) -> Tensor:
    """The largest unit differences on circles around the origin, followed outwards."""
    dim, starts = probe.dim, []
    orders = torch.tensor([sum(alpha) for alpha in indices])
    for radius in CIRCLES[dim]:
        frames = torch.linalg.qr(probe.normal(1 if dim == 2 else 4, dim, 2)).Q
        angle = torch.arange(0, 2 * math.pi, 1 / radius, dtype=torch.float64)
        circle = torch.stack([angle.cos(), angle.sin()], dim=-1)
        ring = (radius * torch.einsum("mk,cdk->cmd", circle, frames) * probe.scale).round()
        ring = ring.flatten(0, 1)
        sizes, _ = probe.differences(x, ring, torch.ones(len(ring)).double(), indices)
        for order in range(1, int(orders.max()) + 1):
            size, chosen = sizes[orders == order].amax(dim=0), list[int]()
            for index in size.argsort(descending=True)[:256].tolist():
                apart = [(ring[index] - ring[k]).norm() > radius / 4 for k in chosen]
                if len(chosen) < FOLLOWED and all(apart):
                    chosen.append(index)
            starts.append(ring[chosen])
    return _followed(probe, x, torch.cat(starts), indices)


def _followed(probe: Probe, x: Tensor, start: Tensor, indices: tuple[MultiIndex, ...]) -> Tensor:
    """Points of the ridges through some starts (S, d), in each shell, (S, J, d)."""
    radii = shell_radii(probe)[:, 0] * float(probe.scale.mean())
    step, axes = 1e-3 * float(probe.scale.min()), torch.eye(probe.dim, dtype=torch.float64)
    steps = step if not probe.acting else 1.0
    values = torch.stack([probe.table(x, start + s * steps * e) for e in axes for s in (1, -1)])
    slopes = (values[0::2] - values[1::2]).nan_to_num().flatten(1, 2)  # (d, K P, S)
    strongest = slopes.abs().square().sum(dim=0).argmax(dim=0)
    normal = slopes[:, strongest, torch.arange(len(start))].T  # (S, d), up to a phase
    pivot = normal.gather(1, normal.abs().argmax(dim=1, keepdim=True))
    normal = normalize((normal * pivot.conj()).real, dim=-1)
    tangent = start - (start * normal).sum(dim=1, keepdim=True) * normal
    tangent = normalize(tangent, dim=-1)
    span = torch.arange(-REACH, REACH + 1, dtype=torch.float64)
    cross = torch.cat([(span[:, None] * axis) for axis in axes])
    first, sequence, at = start, [], start
    for radius in radii:
        along = tangent if at is first else normalize(at - first, dim=-1)
        at = (first + radius * along).round()
        for _ in range(2):
            near = at[:, None] + cross
            ones = torch.ones(near.shape[0] * near.shape[1]).double()
            sizes = probe.differences(x, near.flatten(0, 1), ones, indices)[0][1:].amax(dim=0)
            chosen = sizes.reshape(len(near), -1).argmax(dim=1)
            at = near[torch.arange(len(near)), chosen]
        sequence.append(at)
        at = at if float(radius) > 16 else first
    return torch.stack(sequence, dim=1)


def _units(probe: Probe, expression: Expression | None) -> list[Tensor]:
    """Lattice points beside the hyperplanes w·ξ + b = 0 of the units of a known network."""
    planes, stack = list[Tensor](), [expression] if expression is not None else []
    zero = torch.zeros(1, 1, probe.dim, dtype=torch.float64)
    while stack:
        node = stack.pop()
        stack += node.parts
        if isinstance(node, Affine):
            at = [zero, *torch.eye(probe.dim).double()[:, None, None], zero + 3.5]
            first, *units, other = (node.on(Floating(zero, xi)).flatten() for xi in at)
            slopes = torch.stack(units) - first  # (d, units)
            linear = torch.allclose(first + 3.5 * slopes.sum(dim=0), other)
            if linear and bool(slopes.abs().sum() > 0) and not first.is_complex():
                planes.append(torch.cat([slopes, first[None]]).T[:UNITS])
    if not planes:
        return []
    w, b = torch.cat(planes)[:, :-1], torch.cat(planes)[:, -1]
    w, b = w[w.abs().sum(dim=1) > 0], b[w.abs().sum(dim=1) > 0]
    direction = probe.normal(*w.shape)
    direction = normalize(
        direction - (direction * w).sum(1, keepdim=True) / w.square().sum(1, keepdim=True) * w,
        dim=-1,
    )
    points = (shell_radii(probe) * direction[:, None] * probe.scale.mean()).round()
    axis = w.abs().argmax(dim=1)
    rows = torch.arange(len(w))
    points[rows, :, axis] = 0.0
    rest = (points * w[:, None]).sum(dim=-1) + b[:, None]
    points[rows, :, axis] = (-rest / w[rows, axis][:, None]).round()
    return [points]
