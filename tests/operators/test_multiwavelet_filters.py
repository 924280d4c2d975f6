"""Laws of the multiwavelet filters: two-scale relation, reconstruction, vanishing moments."""

import itertools
import math

import numpy as np
import pytest

from pdno.operators.multiwavelet import BASES, make_filters, scaling_functions

CASES = list(itertools.product(BASES, range(1, 9)))


def two_scale_matrix(base, k):
    return make_filters(base, k).analysis(1)


def from_halves(base, k, filters, x):
    """√2 Σ_j [ F0_ij φ_j(2x) + F1_ij φ_j(2x - 1) ]; 1/2 belongs to the left half."""
    left = (x <= 0.5)[:, None]
    first = left * (scaling_functions(base, k, 2 * x) @ filters[0].T)
    second = ~left * (scaling_functions(base, k, 2 * x - 1) @ filters[1].T)
    return math.sqrt(2) * (first + second)


def wavelets(base, k, x):
    return from_halves(base, k, make_filters(base, k).g, x)


def gauss_on_halves(k):
    nodes, weights = np.polynomial.legendre.leggauss(k)
    x = (nodes + 1) / 2
    return np.concatenate([x / 2, (x + 1) / 2]), np.tile(weights / 4, 2)


def chebyshev_nodes(k):
    angles = (2 * np.arange(2 * k) + 1) * math.pi / (4 * k)
    return (np.cos(angles) + 1) / 2, np.full(2 * k, math.pi / (4 * k))


@pytest.mark.parametrize("k", range(1, 9))
def test_legendre_matrix_is_orthogonal(k):
    matrix = two_scale_matrix("legendre", k)
    assert np.abs(matrix @ matrix.T - np.eye(2 * k)).max() < 1e-11
    phi = make_filters("legendre", k).phi
    assert np.abs(phi - np.eye(k)).max() < 1e-13


def test_chebyshev_matrix_is_orthogonal_only_with_its_gram_matrix():
    filters = make_filters("chebyshev", 4)
    matrix = filters.analysis(1)
    assert np.abs(matrix @ matrix.T - np.eye(8)).max() > 1
    gram = np.zeros((8, 8))
    gram[:4, :4], gram[4:, 4:] = filters.phi
    assert np.abs(matrix @ gram @ matrix.T - np.eye(8)).max() < 1e-12


@pytest.mark.parametrize(("base", "k"), CASES)
def test_down_and_up_is_the_identity_in_1d(base, k):
    filters = make_filters(base, k)
    # entries below 1e-8 are dropped, which eight Chebyshev wavelets of size 70 begin to feel
    tolerance = 1e-8 if (base, k) in (("chebyshev", 7), ("chebyshev", 8)) else 1e-10
    assert np.abs(filters.synthesis(1) @ filters.analysis(1) - np.eye(2 * k)).max() < tolerance


@pytest.mark.parametrize("base", BASES)
def test_down_and_up_is_a_projection_in_2d(base):
    filters = make_filters(base, 3)
    projection = filters.synthesis(2) @ filters.analysis(2)
    assert np.abs(projection @ projection - projection).max() < 1e-12
    # of 4 k² coefficients the k² of H⊗H and the k² of G⊗G survive
    assert np.trace(projection) == pytest.approx(2 * 9)
    assert np.abs(filters.analysis(2) @ filters.synthesis(2) - np.eye(18)).max() < 1e-12


@pytest.mark.parametrize(("base", "k"), CASES)
def test_filters_satisfy_the_two_scale_relation(base, k):
    x = np.linspace(0.01, 0.99, 50)
    halves = from_halves(base, k, make_filters(base, k).h, x)
    assert halves == pytest.approx(scaling_functions(base, k, x), abs=1e-10)


@pytest.mark.parametrize("k", range(1, 9))
def test_legendre_functions_are_orthonormal_and_wavelets_have_k_vanishing_moments(k):
    x, weights = gauss_on_halves(k + 2)
    both = np.concatenate([scaling_functions("legendre", k, x), wavelets("legendre", k, x)], 1)
    assert np.abs(both.T @ (weights[:, None] * both) - np.eye(2 * k)).max() < 1e-11
    moments = (x[:, None] ** np.arange(k)).T @ (weights[:, None] * wavelets("legendre", k, x))
    assert np.abs(moments).max() < 1e-12


@pytest.mark.parametrize("k", range(1, 8))
def test_chebyshev_functions_are_orthonormal_and_moments_vanish_in_the_discrete_product(k):
    x, weights = chebyshev_nodes(k)
    both = np.concatenate([scaling_functions("chebyshev", k, x), wavelets("chebyshev", k, x)], 1)
    assert np.abs(both.T @ (weights[:, None] * both) - np.eye(2 * k)).max() < 1e-9
    moments = (x[:, None] ** np.arange(k)).T @ (weights[:, None] * wavelets("chebyshev", k, x))
    assert np.abs(moments).max() < 1e-9


@pytest.mark.parametrize(("base", "k"), CASES)
def test_wavelets_are_the_gram_schmidt_process_of_the_left_half(base, k):
    # the product <ψ_i, √2 φ_j(2x)> = (G0 Φ0)_ij is a norm for i = j and zero for i > j
    inner = make_filters(base, k).synthesis(1)[:k, k:].T
    assert np.abs(np.tril(inner, -1)).max(initial=0) < 1e-8
    assert np.diag(inner).min() > 0


@pytest.mark.parametrize(("base", "k"), CASES)
def test_polynomials_have_no_details(base, k):
    matrix = two_scale_matrix(base, k)
    # inner products of the polynomials φ_i of the whole cell with the functions of its halves
    halves = make_filters(base, k).synthesis(1)[:, :k].T
    assert np.abs(halves @ matrix[k:].T).max() < 1e-8


def test_haar_is_the_case_of_one_wavelet():
    for base in BASES:
        expected = np.array([[1.0, 1.0], [1.0, -1.0]]) / math.sqrt(2)
        assert two_scale_matrix(base, 1) == pytest.approx(expected, abs=1e-15)


def test_two_legendre_wavelets_have_their_known_values():
    # by hand, with φ = 1, √3 (2x - 1)
    filters = make_filters("legendre", 2)
    third = math.sqrt(3)
    h0 = np.array([[1, 0], [-third / 2, 0.5]]) / math.sqrt(2)
    g0 = np.array([[0.5, third / 2], [0, 1]]) / math.sqrt(2)
    assert filters.h[0] == pytest.approx(h0, abs=1e-14)
    assert filters.g[0] == pytest.approx(g0, abs=1e-14)


@pytest.mark.parametrize(("base", "k"), CASES)
def test_noise_is_dropped(base, k):
    filters = make_filters(base, k)
    for part in (filters.h, filters.g, filters.phi, filters.synthesis(1)):
        assert part.dtype == np.float64
        assert not ((part != 0) & (np.abs(part) < 1e-8)).any()


def test_kronecker_order_is_00_01_10_11():
    filters = make_filters("legendre", 2)
    blocks = np.split(filters.analysis(2), 4, axis=1)
    for block, (first, second) in zip(blocks, itertools.product((0, 1), repeat=2), strict=True):
        assert np.array_equal(block[:4], np.kron(filters.h[first], filters.h[second]))
        assert np.array_equal(block[4:], np.kron(filters.g[first], filters.g[second]))


def test_wrong_base_or_number_is_named():
    with pytest.raises(ValueError, match="'haar'.*legendre"):
        make_filters("haar", 3)
    for k in (0, 9):
        with pytest.raises(ValueError, match=f"is {k}; expected 1 to 8"):
            make_filters("legendre", k)
