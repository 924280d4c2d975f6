"""Randomness without hidden state: sample i of seed s has a generator of its own.

The stream depends on the pair (seed, index) only, so a sample is the same whatever the batch, the
worker or the machine that draws it, and any sample can be drawn again alone.
"""

__all__ = ["sample_generator"]

import numpy as np


def sample_generator(seed: int, index: int) -> np.random.Generator:
    """The generator of sample `index` of `seed`."""
    if seed < 0 or index < 0:
        raise ValueError(f"seed {seed} and index {index} must not be negative")
    return np.random.default_rng(np.random.SeedSequence([seed, index]))
