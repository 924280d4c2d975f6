"""The multiwavelet operator: a kernel in the non-standard form of its wavelet decomposition.

Each level splits the averages s of the level above into averages and details of cells twice as
large. Three kernels couple them at every level and one map acts on the coarsest averages:

    s, d <- W s,     U_d = A d + B s,     U_s = C d          down, level by level
    s <- T s                                                 at the coarsest level
    s <- W⁻¹ (s + U_s, U_d)                                  up again

W are the filters of `make_filters`; A, B, C and T are the same on all levels. The k^d
coefficients of a cell are channels: channel c k^d + i is coefficient i of function c. In
space-time the wavelets act on x and y only. A kernel is made of what is published:

    1D             A, B, C = R                     R a multiplication of Fourier modes, linear
    2D             A = Linear ∘ ReLU ∘ R,          B, C = Linear ∘ ReLU ∘ (3x3 convolution)
    space-time     A, B, C = Linear ∘ ReLU ∘ R     R over x, y and t
"""

import itertools
import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np
import torch
from numpy.polynomial import chebyshev, legendre
from numpy.typing import NDArray
from torch import Tensor, nn

from pdno.interface.errors import check_at_least, check_choice
from pdno.spectral.fourier import inverse, transform

Array = NDArray[np.floating]
BASES = ("legendre", "chebyshev")
CONVOLUTION = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
LARGEST_WAVELETS = 8  # the Gram-Schmidt process loses a digit or more with every wavelet


class MultiwaveletOperator(nn.Module):
    """The operator of a multiwavelet network.

    Shapes: (B, C, *N) -> (B, C, *N) with C = width k^d; (B, C, *N, T) in space-time. Every axis
    of *N is a power of two; the coarsest level has 2^coarsest points along the shortest one.
    """

    analysis: Tensor
    synthesis: Tensor

    def __init__(
        self,
        dim: int,
        width: int,
        *,
        wavelets: int,
        modes: int,
        coarsest: int = 0,
        base: str = "legendre",
        space_time: bool = False,
    ) -> None:
        super().__init__()
        check_choice("multiwavelet dim", dim, (2,) if space_time else (1, 2))
        check_at_least("width", width)
        check_at_least("coarsest", coarsest, 0)
        self.dim, self.width, self.coarsest = dim, width, coarsest
        self.axes = dim + 1 if space_time else dim
        self.coefficients, self.channels = wavelets**dim, width * wavelets**dim
        # where the halves of a cell are in (B c, K, N_1/2, 2, N_2/2, 2, ...), and where they go
        self.split_axes, self.part_axes = [3, 5][:dim], [1, 2][:dim]
        filters = make_filters(base, wavelets)
        for name in ("analysis", "synthesis"):
            matrix = torch.as_tensor(getattr(filters, name)(dim), dtype=torch.get_default_dtype())
            self.register_buffer(name, matrix, persistent=False)
        kernel = partial(make_kernel, self.channels, modes, axes=self.axes)
        # published: in 2D the kernels B and C look at the neighbours instead of at modes
        spectral = self.axes != 2
        self.detail_to_detail = kernel()
        self.average_to_detail = kernel(spectral=spectral)
        self.detail_to_average = kernel(spectral=spectral)
        features = wavelets if dim == 1 else self.channels
        self.average_to_average = CONVOLUTION[self.axes](features, features, 1)
        if dim > 1:
            nn.init.xavier_normal_(self.average_to_average.weight)

    def forward(self, f: Tensor) -> Tensor:
        """Apply the operator to (B, C, *N) or, in space-time, (B, C, *N, T)."""
        updates, average = [], f
        for _ in range(self.count_levels(f.shape)):
            average, detail = self.decompose(average)
            update = self.detail_to_detail(detail) + self.average_to_detail(average)
            updates.append((self.detail_to_average(detail), update))
        # published: in 1D one map of the k coefficients serves all functions
        features = (-1, self.average_to_average.in_channels, *average.shape[2:])
        average = self.average_to_average(average.reshape(features)).reshape(average.shape)
        for average_update, detail in reversed(updates):
            average = self.reconstruct(average + average_update, detail)
        return average

    def decompose(self, average: Tensor) -> tuple[Tensor, Tensor]:
        """One level down, s <- (s, d): (B, C, *N) -> twice (B, C, *N/2)."""
        batch, _, *grid = average.shape
        space, time = grid[: self.dim], grid[self.dim :]
        split = [size for n in space for size in (n // 2, 2)]
        parts = average.reshape(batch * self.width, self.coefficients, *split, *time)
        parts = parts.movedim(self.split_axes, self.part_axes)
        both = self.analysis @ parts.flatten(1, 1 + self.dim).flatten(2)
        coarse = [*(n // 2 for n in space), *time]
        average, detail = both.reshape(batch, self.width, 2, self.coefficients, *coarse).unbind(2)
        return average.flatten(1, 2), detail.flatten(1, 2)

    def reconstruct(self, average: Tensor, detail: Tensor) -> Tensor:
        """One level up, (s, d) -> s: twice (B, C, *N) -> (B, C, *2N)."""
        batch, channels, *grid = average.shape
        space, time = grid[: self.dim], grid[self.dim :]
        folded = batch * self.width, self.coefficients, *grid
        both = torch.cat([average.reshape(folded), detail.reshape(folded)], dim=1)
        parts = self.synthesis @ both.flatten(2)
        parts = parts.reshape(folded[0], *(2,) * self.dim, *folded[1:])
        parts = parts.movedim(self.part_axes, self.split_axes)
        return parts.reshape(batch, channels, *(2 * n for n in space), *time)

    def count_levels(self, shape: Sequence[int]) -> int:
        """Number of levels below a field of `shape` (B, C, *N), which is checked."""
        space, least = tuple(shape[2 : 2 + self.dim]), 2**self.coarsest
        if len(shape) != 2 + self.axes or shape[1] != self.channels:
            axes = f"batch, {self.channels} channels, {self.axes} of the grid"
            raise ValueError(f"field is {tuple(shape)}; expected {2 + self.axes} axes: {axes}")
        if any(n < least or n & (n - 1) for n in space):
            need = f"expected a power of two, at least {least}, along every axis"
            raise ValueError(f"grid is {space}; {need}: resample the field or take coarsest lower")
        return min(space).bit_length() - 1 - self.coarsest


class SpectralKernel(nn.Module):
    """The multiplication of Fourier modes that fits every level.

        R[f](x) = F⁻¹[ Σ_i R_io(ξ) F[f_i](ξ) ](x)

    Shapes: (B, C, *N) -> (B, C, *N); table (C, C, 2α, ..., α, 2), real and imaginary part last.

    R keeps ξ = 0 .. α-1 on the last axis and two blocks of α rows on every other one, ξ >= 0 and
    ξ < 0. On an axis of N < 2α points the published blocks overlap and the later one wins: with
    l = min(α, N/2 + 1) the last l rows are the FIRST l of the second block, which then mean other
    frequencies than on fine levels, as trained weights expect; the first block has what is left.
    """

    def __init__(self, channels: int, modes: int, *, axes: int) -> None:
        super().__init__()
        check_at_least("modes", modes)
        self.modes, self.axes = modes, axes
        rows = (2 * modes,) * (axes - 1)
        self.table = nn.Parameter(torch.empty(channels, channels, *rows, modes, 2))
        # published: U[0, 1) / C² on one axis, Xavier normal per block on more, which has half of
        # the variance 2 / (2 C α^axes) for each of the two parts
        if axes == 1:
            nn.init.uniform_(self.table, 0.0, 1.0 / channels**2)
        else:
            nn.init.normal_(self.table, std=math.sqrt(0.5 / (channels * modes**axes)))

    def forward(self, f: Tensor) -> Tensor:
        """Apply R to (B, C, *N) -> (B, C, *N)."""
        shape = f.shape[-self.axes :]
        kept = [self.modes if 2 * self.modes < n else None for n in shape[:-1]]
        kept.append(min(self.modes, shape[-1] // 2 + 1))
        f_hat = transform(f, self.axes, kept)
        g_hat = torch.einsum("bi...,io...->bo...", f_hat, self.clip_table(shape))
        return inverse(g_hat, shape, kept)

    def clip_table(self, shape: Sequence[int]) -> Tensor:
        """R_io at the modes which a grid of `shape` keeps, complex (C, C, *rows)."""
        table = self.table.narrow(-2, 0, min(self.modes, shape[-1] // 2 + 1))
        for axis, n in enumerate(shape[:-1], start=2):
            second = min(self.modes, n // 2 + 1)
            first = min(second, n - second)
            if first == second == self.modes:
                continue
            sizes = [first, self.modes - first, second, self.modes - second]
            table = torch.cat(torch.split(table, sizes, dim=axis)[::2], dim=axis)
        return torch.view_as_complex(table)


def make_kernel(channels: int, modes: int, *, axes: int, spectral: bool = True) -> nn.Sequential:
    """One of A, B and C as it is published for a number of axes."""
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    if spectral:
        parts["convolution"] = SpectralKernel(channels, modes, axes=axes)
    else:
        parts["convolution"] = CONVOLUTION[axes](channels, channels, 3, padding=1)
    if axes > 1:
        parts |= {"activation": nn.ReLU(), "mix": CONVOLUTION[axes](channels, channels, 1)}
    return nn.Sequential(parts)


@dataclass(frozen=True)
class MultiwaveletFilters:
    """How k polynomials per cell become k averages and k details per two cells.

    The scaling functions φ_i are orthonormal polynomials of degree i < k on [0, 1], the wavelets
    ψ_i polynomials on each half:

        φ_i(x) = √2 Σ_j [ H0_ij φ_j(2x) + H1_ij φ_j(2x - 1) ],    ψ_i the same with G0, G1

    W = [[H0, H1], [G0, G1]] is the step down. With the Gram matrix Φ = diag(Φ0, Φ1) of the copies
    √2 φ_j(2x), √2 φ_j(2x - 1), W Φ Wᵀ = I; hence W⁻¹ = Φ Wᵀ is the step up.

    Legendre: the inner product is ∫ f g dx and Φ = I. Chebyshev: it is the sum over the 2k nodes
    of T_2k with equal weights π/(4k), as published, and W is not orthogonal.

    Shapes: h (H0 and H1), g and phi each (2, k, k), float64.
    """

    h: Array
    g: Array
    phi: Array

    def analysis(self, dim: int) -> Array:
        """One matrix for a step down, 2^d parts of a cell -> (averages, details), (2K, 2^d K).

        For d > 1 it has the Kronecker products H⊗H and G⊗G, over the parts 00, 01, 10, 11; without
        H⊗G and G⊗H, as published, a step down and up is a projection instead of the identity.
        """
        return np.concatenate([_over_parts(self.h, dim), _over_parts(self.g, dim)])

    def synthesis(self, dim: int) -> Array:
        """One matrix for a step up, (averages, details) -> 2^d parts of a cell, (2^d K, 2K)."""
        back = (_drop_noise(filters @ self.phi) for filters in (self.h, self.g))
        return np.ascontiguousarray(np.concatenate([_over_parts(f, dim) for f in back]).T)


def make_filters(base: str, k: int) -> MultiwaveletFilters:
    """Filters of k scaling functions and k wavelets, entries below 1e-8 set to zero.

    Wavelets come from the Gram-Schmidt process of √2 φ_i(2x) on the left half against all φ_j and
    earlier wavelets, a QR decomposition of values at the nodes of the inner product.

    Example:
        >>> make_filters("legendre", 1).g.ravel().round(3).tolist()
        [0.707, -0.707]
    """
    check_choice("multiwavelet base", base, BASES)
    if not 1 <= k <= LARGEST_WAVELETS:
        expected = f"expected 1 to {LARGEST_WAVELETS}, beyond which filters are not accurate"
        raise ValueError(f"number of wavelets is {k}; {expected}")
    # the nodes and weights of the inner product, k in each half
    if base == "legendre":
        nodes, weights = legendre.leggauss(k)
        x = (nodes + 1) / 2
        x, weights = np.concatenate([x / 2, (x + 1) / 2]), np.tile(weights / 4, 2)
    else:
        x, weights = (chebyshev.chebpts1(2 * k) + 1) / 2, np.full(2 * k, math.pi / (4 * k))
    root, left = np.sqrt(weights)[:, None], (x <= 0.5)[:, None]
    copies = [scaling_functions(base, k, 2 * x - side) for side in (0, 1)]
    halves = math.sqrt(2) * np.concatenate([left * copies[0], ~left * copies[1]], axis=1)
    columns = np.concatenate([scaling_functions(base, k, x), halves[:, :k]], axis=1)
    orthonormal, triangle = np.linalg.qr(root * columns)
    # QR leaves the signs open; Gram-Schmidt has a positive diagonal
    values = orthonormal * np.sign(np.diag(triangle)) / root
    two_scale = _drop_noise(np.linalg.solve(halves, values).T)
    gram = _drop_noise(halves.T @ (weights[:, None] * halves))
    h, g = np.array(two_scale.reshape(2, k, 2, k).swapaxes(1, 2), order="C")
    return MultiwaveletFilters(h, g, np.stack([gram[:k, :k], gram[k:, k:]]))


def scaling_functions(base: str, k: int, x: Array) -> Array:
    """φ_i(x) for i < k at points of [0, 1], (M,) -> (M, k).

    Legendre: φ_i = √(2i + 1) P_i(2x - 1). Chebyshev: φ_0 = √(2/π), φ_i = (2/√π) T_i(2x - 1).
    """
    values: Array
    if base == "legendre":
        values = legendre.legvander(2 * x - 1, k - 1) * np.sqrt(2 * np.arange(k) + 1)
    else:
        values = chebyshev.chebvander(2 * x - 1, k - 1) * (2 / math.sqrt(math.pi))
        values[:, 0] /= math.sqrt(2)
    return values


def _over_parts(filters: Array, dim: int) -> Array:
    """Kronecker products over the parts of a d-dimensional cell, side by side, (K, 2^d K)."""
    parts = itertools.product(filters, repeat=dim)
    return np.concatenate([reduce(np.kron, halves) for halves in parts], axis=1)


def _drop_noise(matrix: Array) -> Array:
    return np.where(np.abs(matrix) < 1e-8, 0.0, matrix)  # the threshold of the published code
