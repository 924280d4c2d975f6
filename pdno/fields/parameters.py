"""PDE parameters that each sample draws from a range of its own."""

__all__ = ["Ranges", "draw_scalars"]

from collections.abc import Mapping

import numpy as np

Ranges = Mapping[str, tuple[float, float]]
"""Lowest and highest value by name."""


def draw_scalars(ranges: Ranges, *, seed: int, index: int) -> dict[str, float]:
    """The numbers of sample `index`: they depend on (seed, index, name) and the range only.

    log μ is uniform where the range is positive, for μ then is a scale such as a viscosity; else
    μ is uniform.

    Example:
        >>> drawn = draw_scalars({"viscosity": (1e-5, 1e-3)}, seed=0, index=7)
        >>> 1e-5 <= drawn["viscosity"] <= 1e-3
        True
    """
    drawn = {}
    for name, (low, high) in ranges.items():
        # the letters of the name keep the streams of two parameters apart, and from that of the field
        part = float(np.random.default_rng([seed, index, *name.encode()]).random())
        drawn[name] = low * (high / low) ** part if low > 0 else low + (high - low) * part
    return drawn
