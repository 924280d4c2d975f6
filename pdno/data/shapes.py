"""Random domains, and the samples on them (`ShapesProblem`), solved by finite elements."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from scipy.spatial import cKDTree

from pdno.solvers import finite_elements
from pdno.spectral.points import Points

Array = np.ndarray
Curve = Callable[[Array], Array]
"""A closed curve as a function, angles (n,) -> points (n, 2)."""
Solved = tuple[torch.Tensor, torch.Tensor, float]
"""Input and output at the points, and the residual of the solver."""
REFINEMENTS = {192: 3, 704: 4, 2688: 5}  # of the disc, by the points of a sample
MIDDLE = np.array([0.5, 0.5])
MODES, WAVES = 5, 4  # of an outline, and of a random smooth function per axis
DENSE = np.arange(1440) * (2 * np.pi / 1440)  # angles at which distances are measured


def outline(
    centre: Array,
    radius: float,
    amplitudes: Sequence[float] | Array = (),
    phases: Sequence[float] | Array = (),
) -> Curve:
    """The curve r(θ) = r₀ (1 + Σ_k a_k cos(kθ - φ_k)) around a centre."""

    def points(angles: Array) -> Array:
        waves = np.multiply.outer(angles, np.arange(1, len(amplitudes) + 1)) - phases
        r = radius * (1 + np.cos(waves) @ np.array(amplitudes))
        rays = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
        return np.asarray(centre + r[:, None] * rays)

    return points


def random_outline(
    generator: np.random.Generator, centre: Array, radius: float, roughness: float
) -> Curve:
    """An outline whose radius stays within a share `roughness` of its mean."""
    amplitudes = generator.uniform(0, 1, MODES) / np.arange(1, MODES + 1)
    amplitudes *= roughness / max(float(amplitudes.sum()), roughness)
    return outline(centre, radius, amplitudes, generator.uniform(0, 2 * np.pi, MODES))


def random_waves(generator: np.random.Generator) -> Callable[[Array, Array], Array]:
    """f(x) = 1 + Σ_ξ a_ξ cos(2π ξ·x - φ_ξ) with random a_ξ of the size 2 / (1 + 4 |ξ|²)."""
    axis = np.arange(-WAVES, WAVES + 1) / 2  # half waves, so that the box is no period
    xi = np.stack(np.meshgrid(axis, axis[axis >= 0], indexing="ij"), -1).reshape(-1, 2)
    xi = xi[np.square(xi).sum(-1) > 0]
    amplitudes = generator.standard_normal(len(xi)) * 2 / (1 + 4 * np.square(xi).sum(-1))
    phases = generator.uniform(0, 2 * np.pi, len(xi))
    return lambda x, y: 1 + np.cos(2 * np.pi * np.stack([x, y], -1) @ xi.T - phases) @ amplitudes


def poisson(seed: int, index: int, points: int) -> Solved:
    """Sample `index` of poisson-shapes: a smooth domain, in half of the samples with a hole."""
    generator, level = np.random.default_rng([seed, index]), REFINEMENTS[points]
    outer = random_outline(generator, MIDDLE, generator.uniform(0.3, 0.36), 0.3)
    centre = MIDDLE + generator.uniform(-0.05, 0.05, 2)
    hole = random_outline(generator, centre, generator.uniform(0.06, 0.12), 0.2)
    forcing, edges = random_waves(generator), [outer]
    if generator.random() < 0.5:
        mesh = finite_elements.disc_mesh(outer, MIDDLE, level)
    else:
        count, rings = _layers(level)
        angles, edges = np.arange(count) * (2 * np.pi / count), [outer, hole]
        mesh = finite_elements.ring_mesh(hole(angles), outer(angles), rings)
    solution = finite_elements.solve_poisson(mesh, forcing)
    f = forcing(*mesh.vertices.T)
    return _sample(mesh, [f, _distance(mesh, edges)], solution.values, solution.residual, points)


def plate(seed: int, index: int, points: int) -> Solved:
    """Sample `index` of elasticity: the unit square with a smooth hole."""
    generator, (count, rings) = np.random.default_rng([seed, index]), _layers(REFINEMENTS[points])
    centre = MIDDLE + generator.uniform(-0.1, 0.1, 2)
    hole = random_outline(generator, centre, generator.uniform(0.1, 0.25), 0.25)
    side = np.arange(count // 4) / (count // 4)
    zero, one = np.zeros_like(side), np.ones_like(side)
    corners = [(side, zero), (one, side), (1 - side, one), (zero, 1 - side)]
    square = np.concatenate([np.stack(pair, axis=-1) for pair in corners])
    rays = square - centre
    mesh = finite_elements.ring_mesh(hole(np.arctan2(rays[:, 1], rays[:, 0])), square, rings)

    def pull(x: Array, normal: Array) -> Array:
        """Traction 1 upwards at the upper side."""
        return np.stack([0 * x[0], np.where(x[1] > 1 - 1e-9, 1.0, 0.0)])

    solution = finite_elements.solve_elasticity(mesh, lambda x: x[1] < 1e-9, pull)
    stress = solution.values[-1:]
    return _sample(mesh, [_distance(mesh, [hole])], stress, solution.residual, points)


def _layers(level: int) -> tuple[int, int]:
    """Angles and layers of a ring with about as many vertices as the disc of a level."""
    return 2 ** (level + 2), 5 * 2 ** (level - 3)


def _distance(mesh: finite_elements.Mesh, edges: list[Curve]) -> Array:
    boundary = np.concatenate([edge(DENSE) for edge in edges])
    distance: Array = cKDTree(boundary).query(mesh.vertices)[0]
    return distance


def _sample(
    mesh: finite_elements.Mesh, inputs: list[Array], outputs: Array, residual: float, points: int
) -> Solved:
    """Coordinates, weights and inputs, and outputs, padded by points of weight zero."""
    weights = Points.of_mesh(mesh.vertices, mesh.triangles).weights.numpy()
    rows = np.stack([*mesh.vertices.T, weights, *inputs])
    missing = points - rows.shape[1]
    padded = np.pad(rows, ((0, 0), (0, missing)))
    padded[:2, rows.shape[1] :] = rows[:2, :1]  # where the first point is
    target = np.pad(outputs, ((0, 0), (0, missing)))
    return torch.from_numpy(padded), torch.from_numpy(target), residual
