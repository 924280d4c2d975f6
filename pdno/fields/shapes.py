"""Random domains: smooth outlines r(θ) = r₀ (1 + Σ_k a_k cos(kθ - φ_k)) around a centre.

Everything is a function of (seed, index) alone.
"""

from dataclasses import dataclass

import numpy as np

Array = np.ndarray
MODES = 5  # of an outline
WAVES = 4  # of a random smooth function, per axis


@dataclass(frozen=True)
class Outline:
    """A closed curve around a centre, which sees all of it."""

    centre: Array
    radius: float
    amplitudes: Array
    phases: Array

    def points(self, angles: Array) -> Array:
        """The points at some angles, (n, 2)."""
        k = np.arange(1, len(self.amplitudes) + 1)[:, None]
        waves = self.amplitudes[:, None] * np.cos(k * angles - self.phases[:, None])
        rays = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
        points: Array = self.centre + (self.radius * (1 + waves.sum(axis=0)))[:, None] * rays
        return points


def random_outline(
    generator: np.random.Generator, centre: Array, radius: float, roughness: float
) -> Outline:
    """An outline whose radius stays within a share `roughness` of its mean."""
    decay = 1 / np.arange(1, MODES + 1)
    amplitudes = generator.uniform(0, 1, MODES) * decay
    amplitudes *= roughness / max(float(amplitudes.sum()), roughness)
    return Outline(centre, radius, amplitudes, generator.uniform(0, 2 * np.pi, MODES))


@dataclass(frozen=True)
class Waves:
    """f(x) = f₀ + Σ_ξ a_ξ cos(2π ξ·x - φ_ξ) with random a_ξ of the size 1 / (1 + |ξ|²)."""

    mean: float
    frequencies: Array
    amplitudes: Array
    phases: Array

    def __call__(self, x: Array, y: Array) -> Array:
        """The values at points of any shape."""
        angles = 2 * np.pi * (np.multiply.outer(x, self.frequencies[:, 0]))
        angles += 2 * np.pi * np.multiply.outer(y, self.frequencies[:, 1])
        values: Array = self.mean + np.cos(angles - self.phases) @ self.amplitudes
        return values


def random_waves(generator: np.random.Generator) -> Waves:
    """A random smooth function of the plane, about 1 in the mean."""
    axis = np.arange(-WAVES, WAVES + 1) / 2  # half waves, so that the box is no period
    xi = np.stack(np.meshgrid(axis, axis[axis >= 0], indexing="ij"), -1).reshape(-1, 2)
    xi = xi[np.square(xi).sum(-1) > 0]
    size = 2 / (1 + 4 * np.square(xi).sum(-1))
    amplitudes = generator.standard_normal(len(xi)) * size
    return Waves(1.0, xi, amplitudes, generator.uniform(0, 2 * np.pi, len(xi)))
