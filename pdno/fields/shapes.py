"""Random domains and forcings in the plane, from the random numbers of a generator."""

from collections.abc import Callable, Sequence

import numpy as np

Array = np.ndarray
Curve = Callable[[Array], Array]
"""A closed curve as a function, angles (n,) -> points (n, 2)."""
MODES = 5  # of an outline
WAVES = 4  # of a random smooth function, per axis


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
