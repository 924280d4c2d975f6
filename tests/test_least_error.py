"""Fields with given signs have the law that they should have."""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import least_error  # noqa: E402  (a tool of the repository, not of the package)


def test_the_covariance_is_that_of_the_fields():
    fields, generator = least_error.Fields(16, 4), np.random.default_rng(0)
    drawn = np.stack([fields.at_points(fields.draw(generator)) for _ in range(20_000)])
    expected = np.linalg.inv(fields.precision)
    assert np.abs(np.cov(drawn.T) - expected).max() < 0.03 * expected.max()


def test_gibbs_has_the_law_of_rejected_draws():
    fields, generator = least_error.Fields(8, 2), np.random.default_rng(1)
    signs = np.array([1.0, 1.0, -1.0, 1.0])
    root = np.linalg.cholesky(np.linalg.inv(fields.precision))
    free = root @ generator.standard_normal((4, 400_000))
    kept = free[:, np.all(np.sign(free) == signs[:, None], axis=0)]
    begun = signs[:, None] * np.ones((4, 4000))
    many = signs[:, None] * np.ones_like(begun)
    ended = least_error.gibbs(fields.precision, many, begun, 60, generator)
    assert np.all(np.sign(ended) == many) and kept.shape[1] > 4000
    size = kept.std(axis=1)
    assert np.all(np.abs(ended.mean(axis=1) - kept.mean(axis=1)) < 0.08 * size)
    assert np.all(np.abs(ended.std(axis=1) / size - 1) < 0.08)


def test_kriging_keeps_the_given_values_and_the_law():
    fields, generator = least_error.Fields(16, 4), np.random.default_rng(2)
    z = fields.at_points(fields.draw(generator))
    assert np.abs(fields.at_points(fields.given(z, generator)) - z).max() < 1e-8
    # given values that are drawn give fields of the law: the deviation at a cell between points
    ends = []
    for _ in range(2000):
        own = fields.at_points(fields.draw(generator))
        ends.append(fields.given(own, generator)[9, 6])
    free = np.array([fields.draw(generator)[9, 6] for _ in range(2000)])
    assert abs(np.std(ends) / free.std() - 1) < 0.1


def test_the_bound_lies_below_a_prediction_and_falls_where_more_is_given():
    given = {"cells": 32, "sweeps": 20, "chains": 3, "seed": 0}
    below, above = least_error.bounds(range(6), points=8, **given)
    assert below.shape == (6, 3) and above.shape == (6,)
    assert 0.02 < below.mean() / 2**0.5 < 1.1 * above.mean()
    more, _ = least_error.bounds(range(6), points=16, **given)
    assert np.all(more.mean(axis=1) < below.mean(axis=1))


def test_distances_along_a_random_scan_grow_to_those_of_independent_draws():
    """E ‖u_0 - u_n‖ of a chain begun in its law is no more than that of independent draws."""
    rng, sites = np.random.default_rng(3), 3
    states = np.array(np.meshgrid(*[[0, 1]] * sites)).reshape(sites, -1).T
    law = rng.random(len(states)) ** 3
    law /= law.sum()
    alike = [np.delete(states, k, 1) for k in range(sites)]
    same = [np.all(a[:, None] == a[None], axis=2) for a in alike]
    step = sum(part * law / (part @ law)[:, None] for part in same) / sites
    assert np.allclose(law @ step, law) and np.linalg.eigvals(step).real.min() > -1e-12
    u = rng.standard_normal((len(states), 5))
    for power in (1, 2):
        distance = np.linalg.norm(u[:, None] - u[None], axis=2) ** power
        along = [law @ (np.linalg.matrix_power(step, n) * distance).sum(axis=1) for n in range(30)]
        assert np.all(np.diff(along) > -1e-12)
        assert along[-1] <= law @ distance @ law + 1e-12
