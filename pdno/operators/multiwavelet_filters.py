"""Multiwavelet filters: how k polynomials per cell become k averages and k details per two cells.

On a cell a function is a sum of k scaling functions φ_i, orthonormal polynomials of degree i < k
on [0, 1]. On the two halves of a cell it is a sum of their copies √2 φ_j(2x), √2 φ_j(2x - 1),
twice as many; the k wavelets ψ_i, a polynomial on each half, fill the gap. The two-scale relation

    φ_i(x) = √2 Σ_j [ H0_ij φ_j(2x) + H1_ij φ_j(2x - 1) ],    ψ_i the same with G0, G1

defines the filters. So W = [[H0, H1], [G0, G1]] turns the inner products of a function with the
copies into those with φ and ψ, one step down. With Φ = diag(Φ0, Φ1), the Gram matrix of the
copies, W Φ Wᵀ = I because φ and ψ are orthonormal; hence W⁻¹ = Φ Wᵀ is the step up.

Legendre: the inner product is ∫ f g dx, Φ = I and W is orthogonal. Chebyshev: the inner product
is the sum over the 2k nodes of T_2k with equal weights π/(4k), as published; the copies are not
orthonormal in it, hence Φ, and W is not orthogonal. No node is 1/2, for odd k as well.
"""

__all__ = ["BASES", "MultiwaveletFilters", "make_filters", "scaling_functions", "wavelets"]

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev, legendre
from numpy.typing import NDArray

Array = NDArray[np.floating]

BASES = ("legendre", "chebyshev")

# The Gram-Schmidt process loses a digit or more with every wavelet (condition 1e5 for eight of
# the Legendre and 3e6 for the Chebyshev base); with more the filters stop being trustworthy.
LARGEST_WAVELETS = 8


@dataclass(frozen=True)
class MultiwaveletFilters:
    """The filters of one base, indexed by the half of the cell: h[0] is H0, h[1] is H1.

    Shapes: each (2, k, k), float64.

    Arguments:
        h: From the halves to the scaling functions, H0 and H1.
        g: From the halves to the wavelets, G0 and G1.
        phi: Gram matrices Φ0 and Φ1 of the scaling functions of the halves.
    """

    h: Array
    g: Array
    phi: Array

    @property
    def h_back(self) -> Array:
        """Reconstruction filters H0 Φ0 and H1 Φ1."""
        return _drop_noise(self.h @ self.phi)

    @property
    def g_back(self) -> Array:
        """Reconstruction filters G0 Φ0 and G1 Φ1."""
        return _drop_noise(self.g @ self.phi)

    def analysis(self, dim: int) -> Array:
        """One matrix for a step down, 2^d parts of a cell -> (averages, details), (2K, 2^d K).

        In d dimensions the filters are the Kronecker products H⊗H and G⊗G with K = k^d rows; the
        parts are ordered 00, 01, 10, 11. For d > 1 the mixed bands H⊗G and G⊗H are dropped, as
        published, so that a step down and up is then a projection instead of the identity.
        """
        return np.concatenate([_over_parts(self.h, dim), _over_parts(self.g, dim)])

    def synthesis(self, dim: int) -> Array:
        """One matrix for a step up, (averages, details) -> 2^d parts of a cell, (2^d K, 2K)."""
        both = [_over_parts(self.h_back, dim), _over_parts(self.g_back, dim)]
        return np.ascontiguousarray(np.concatenate(both).T)


def make_filters(base: str, k: int) -> MultiwaveletFilters:
    """Filters of k scaling functions and k wavelets, entries below 1e-8 set to zero.

    The wavelets are the Gram-Schmidt process of √2 φ_i(2x) on the left half against all φ_j and
    the earlier wavelets. The inner product is a sum over nodes, so this is a QR decomposition of
    the values there. A piece is a polynomial of degree < k known at k nodes: a linear system
    gives its coefficients in the scaling functions of its half, which are the filters.

    Arguments:
        base: "legendre" or "chebyshev".
        k: Number of scaling functions, 1 to 8.

    Example:
        >>> make_filters("legendre", 1).g.ravel().round(3).tolist()
        [0.707, -0.707]
    """
    _check(base, k)
    x, weights = _quadrature(base, k)
    root = np.sqrt(weights)[:, None]
    halves = _half_functions(base, k, x)
    columns = np.concatenate([scaling_functions(base, k, x), halves[:, :k]], axis=1)
    orthonormal, triangle = np.linalg.qr(root * columns)
    # QR leaves the signs open; Gram-Schmidt has a positive diagonal
    values = orthonormal * np.sign(np.diag(triangle)) / root
    two_scale = _drop_noise(np.linalg.solve(halves, values).T)
    gram = _drop_noise(halves.T @ (weights[:, None] * halves))
    return MultiwaveletFilters(
        h=np.stack([two_scale[:k, :k], two_scale[:k, k:]]),
        g=np.stack([two_scale[k:, :k], two_scale[k:, k:]]),
        phi=np.stack([gram[:k, :k], gram[k:, k:]]),
    )


def scaling_functions(base: str, k: int, x: Array) -> Array:
    """φ_i(x) for i < k at points of [0, 1], (M,) -> (M, k).

    Legendre: φ_i = √(2i + 1) P_i(2x - 1). Chebyshev: φ_0 = √(2/π), φ_i = (2/√π) T_i(2x - 1).
    """
    _check(base, k)
    values: Array
    if base == "legendre":
        values = legendre.legvander(2 * x - 1, k - 1) * np.sqrt(2 * np.arange(k) + 1)
    else:
        values = chebyshev.chebvander(2 * x - 1, k - 1) * (2 / math.sqrt(math.pi))
        values[:, 0] /= math.sqrt(2)
    return values


def wavelets(base: str, k: int, x: Array) -> Array:
    """ψ_i(x) for i < k at points of [0, 1], (M,) -> (M, k); 1/2 belongs to the left half."""
    pieces = make_filters(base, k).g.transpose(0, 2, 1).reshape(2 * k, k)
    values: Array = _half_functions(base, k, x) @ pieces
    return values


def _half_functions(base: str, k: int, x: Array) -> Array:
    """√2 φ_j(2x) on the left half, then √2 φ_j(2x - 1) on the right one, shape (M, 2k)."""
    left = (x <= 0.5)[:, None]
    pieces = [
        left * scaling_functions(base, k, 2 * x),
        ~left * scaling_functions(base, k, 2 * x - 1),
    ]
    return math.sqrt(2) * np.concatenate(pieces, axis=1)


def _quadrature(base: str, k: int) -> tuple[Array, Array]:
    """The 2k nodes and weights of the inner product, k of them in each half."""
    if base == "legendre":
        nodes, weights = legendre.leggauss(k)
        x = (nodes + 1) / 2
        return np.concatenate([x / 2, (x + 1) / 2]), np.tile(weights / 4, 2)
    return (chebyshev.chebpts1(2 * k) + 1) / 2, np.full(2 * k, math.pi / (4 * k))


def _over_parts(filters: Array, dim: int) -> Array:
    """Kronecker products over the parts of a d-dimensional cell, side by side, (K, 2^d K)."""
    products = []
    for halves in itertools.product(filters, repeat=dim):
        product = np.ones((1, 1))
        for half in halves:
            product = np.kron(product, half)
        products.append(product)
    return np.concatenate(products, axis=1)


def _drop_noise(matrix: Array) -> Array:
    # the threshold of the published code
    return np.where(np.abs(matrix) < 1e-8, 0.0, matrix)


def _check(base: str, k: int) -> None:
    if base not in BASES:
        raise ValueError(f"multiwavelet base is {base!r}; expected one of {BASES}")
    if not 1 <= k <= LARGEST_WAVELETS:
        raise ValueError(
            f"number of wavelets is {k}; expected 1 to {LARGEST_WAVELETS}, "
            "beyond which the filters are not accurate in double precision"
        )
