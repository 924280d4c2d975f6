"""The multiwavelet operator: a kernel in the non-standard form of its wavelet decomposition.

A smooth kernel, even one singular at the diagonal (Calderón-Zygmund, "CZ" in the published
code), is sparse in wavelets. Going down, each level splits the averages s of the level above
into averages and details of cells twice as large. Three kernels couple them at every level and
one map acts on the coarsest averages (named detail_to_detail, average_to_detail,
detail_to_average and average_to_average in the code):

    s, d <- W s,     U_d = A d + B s,     U_s = C d          down, level by level
    s <- T s                                                 at the coarsest level
    s <- W⁻¹ (s + U_s, U_d)                                  up again

W are the filters of `pdno.operators.multiwavelet_filters`; A, B, C and T are the same on all
levels. The k^d coefficients of a cell are channels: channel c k^d + i is
coefficient i of function c. In space-time the wavelets act on x and y only and t is an axis of
the kernels.

A level may have any number of points, down to one, but a kernel has one table of weights for α
modes, of which a coarse level uses what it can hold. What a kernel is made of depends on the
problem the published operator was made for:

    1D             A, B, C = R                     R a multiplication of Fourier modes, linear
    2D             A = Linear ∘ ReLU ∘ R,          B, C = Linear ∘ ReLU ∘ (3x3 convolution)
    space-time     A, B, C = Linear ∘ ReLU ∘ R     R over x, y and t

R keeps ξ = 0 .. α-1 on the last axis and two blocks of α rows on every other one, ξ >= 0 and
ξ < 0. On an axis of N < 2α points the published blocks overlap and the later one wins: with
l = min(α, N/2 + 1) the last l rows belong to the second block, counted from ITS FIRST row, and
the first block has what is left. The rows of the second block therefore mean other frequencies
on coarse levels than on fine ones; trained weights need it to stay so.
"""

__all__ = ["MultiwaveletOperator", "SpectralKernel", "make_kernel"]

import math
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from pdno.fourier import inverse, transform
from pdno.operators.multiwavelet_filters import make_filters

CONVOLUTION = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


class MultiwaveletOperator(nn.Module):
    """The map of functions to functions that a multiwavelet network is made of.

    Shapes: (B, C, *N) -> (B, C, *N) with C = width k^d; (B, C, *N, T) in space-time. Every axis
    of *N is a power of two.

    Arguments:
        dim: Number of axes d with wavelets, 1 or 2.
        width: Number of functions c.
        wavelets: Number of wavelets k per axis of a cell.
        modes: Number of Fourier modes α of the kernels.
        coarsest: L, the coarsest level has 2^L points along the shortest axis.
        base: "legendre" or "chebyshev".
        space_time: Whether a time axis follows the axes of space.
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
        _check_sizes(dim, width, coarsest=coarsest, space_time=space_time)
        self.dim = dim
        self.width = width
        self.coarsest = coarsest
        self.axes = dim + 1 if space_time else dim
        self.coefficients = wavelets**dim
        self.channels = width * self.coefficients
        filters = make_filters(base, wavelets)
        dtype = torch.get_default_dtype()
        for name in ("analysis", "synthesis"):
            matrix = torch.as_tensor(getattr(filters, name)(dim), dtype=dtype)
            self.register_buffer(name, matrix, persistent=False)
        kernel = partial(make_kernel, self.channels, modes, axes=self.axes)
        # published: in 2D the kernels B and C look at the neighbours instead of at modes
        spectral = self.axes != 2
        self.detail_to_detail = kernel()
        self.average_to_detail = kernel(spectral=spectral)
        self.detail_to_average = kernel(spectral=spectral)
        # published: in 1D one map of the k coefficients serves all functions
        features = wavelets if dim == 1 else self.channels
        self.average_to_average = CONVOLUTION[self.axes](features, features, 1)
        if dim > 1:
            nn.init.xavier_normal_(self.average_to_average.weight)

    def forward(self, f: Tensor) -> Tensor:
        """Apply the operator to (B, C, *N) or, in space-time, (B, C, *N, T)."""
        levels = self.count_levels(f.shape)
        updates = []
        average = f
        for _ in range(levels):
            average, detail = self.decompose(average)
            update = self.detail_to_detail(detail) + self.average_to_detail(average)
            updates.append((self.detail_to_average(detail), update))
        average = self._map_coarsest(average)
        for average_update, detail in reversed(updates):
            average = self.reconstruct(average + average_update, detail)
        return average

    def decompose(self, average: Tensor) -> tuple[Tensor, Tensor]:
        """One level down, s <- (s, d): (B, C, *N) -> twice (B, C, *N/2)."""
        batch, _, *grid = average.shape
        space, time = grid[: self.dim], grid[self.dim :]
        split = [size for n in space for size in (n // 2, 2)]
        parts = average.reshape(batch * self.width, self.coefficients, *split, *time)
        parts = parts.movedim(self._split_axes(), self._part_axes())
        both = self.analysis @ parts.flatten(1, 1 + self.dim).flatten(2)
        coarse = [n // 2 for n in space]
        both = both.reshape(batch, self.width, 2, self.coefficients, *coarse, *time)
        average, detail = both.unbind(2)
        return average.flatten(1, 2), detail.flatten(1, 2)

    def reconstruct(self, average: Tensor, detail: Tensor) -> Tensor:
        """One level up, (s, d) -> s: twice (B, C, *N) -> (B, C, *2N)."""
        batch, channels, *grid = average.shape
        space, time = grid[: self.dim], grid[self.dim :]
        folded = batch * self.width, self.coefficients, *grid
        both = torch.cat([average.reshape(folded), detail.reshape(folded)], dim=1)
        parts = self.synthesis @ both.flatten(2)
        parts = parts.reshape(folded[0], *(2,) * self.dim, *folded[1:])
        parts = parts.movedim(self._part_axes(), self._split_axes())
        return parts.reshape(batch, channels, *(2 * n for n in space), *time)

    def count_levels(self, shape: Sequence[int]) -> int:
        """Number of levels below a field of `shape` (B, C, *N), which is checked."""
        space = tuple(shape[2 : 2 + self.dim])
        if len(shape) != 2 + self.axes or shape[1] != self.channels:
            raise ValueError(
                f"field has shape {tuple(shape)}; expected {2 + self.axes} axes, batch, "
                f"{self.channels} channels and {self.axes} of the grid"
            )
        if any(n < 2**self.coarsest or n & (n - 1) for n in space):
            raise ValueError(
                f"grid is {space}; multiwavelets need a power of two, at least "
                f"{2**self.coarsest}, along every axis: resample the field or take coarsest lower"
            )
        return min(space).bit_length() - 1 - self.coarsest

    def _map_coarsest(self, average: Tensor) -> Tensor:
        features = self.average_to_average.in_channels
        rows = average.shape[0] * self.channels // features
        mapped: Tensor = self.average_to_average(
            average.reshape(rows, features, *average.shape[2:])
        )
        return mapped.reshape(average.shape)

    def _split_axes(self) -> tuple[int, ...]:
        """Where the halves of a cell are in (B c, K, N_1/2, 2, N_2/2, 2, ...)."""
        return tuple(range(3, 3 + 2 * self.dim, 2))

    def _part_axes(self) -> tuple[int, ...]:
        """Where they are in (B c, 2, 2, K, N_1/2, N_2/2, ...)."""
        return tuple(range(1, 1 + self.dim))


def _check_sizes(dim: int, width: int, *, coarsest: int, space_time: bool) -> None:
    if dim not in (1, 2):
        raise ValueError(f"multiwavelet dim is {dim}; expected 1 or 2")
    if space_time and dim != 2:
        raise ValueError(f"space_time with dim={dim}; expected dim=2, a plane and time")
    if width < 1 or coarsest < 0:
        raise ValueError(f"width={width}, coarsest={coarsest}; expected width >= 1, coarsest >= 0")


class SpectralKernel(nn.Module):
    """The multiplication of Fourier modes that fits every level.

        R[f](x) = F⁻¹[ Σ_i R_io(ξ) F[f_i](ξ) ](x)

    Shapes: (B, C, *N) -> (B, C, *N); table (C, C, 2α, ..., α, 2), real and imaginary part last.
    """

    def __init__(self, channels: int, modes: int, *, axes: int) -> None:
        super().__init__()
        if modes < 1:
            raise ValueError(f"modes is {modes}; expected at least 1")
        self.modes = modes
        self.axes = axes
        rows = (2 * modes,) * (axes - 1) + (modes,)
        self.table = nn.Parameter(torch.empty(channels, channels, *rows, 2))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Published start: U[0, 1) / C² on one axis, Xavier normal per block on more."""
        channels = self.table.shape[0]
        if self.axes == 1:
            nn.init.uniform_(self.table, 0.0, 1.0 / channels**2)
        else:
            # half of the Xavier variance 2 / (2 C α^axes) for each of the two parts
            nn.init.normal_(self.table, std=math.sqrt(0.5 / (channels * self.modes**self.axes)))

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
    if axes not in CONVOLUTION:
        raise ValueError(f"kernel has {axes} axes; expected 1, 2 or 3")
    convolution: nn.Module
    if spectral:
        convolution = SpectralKernel(channels, modes, axes=axes)
    else:
        convolution = CONVOLUTION[axes](channels, channels, 3, padding=1)
    parts: OrderedDict[str, nn.Module] = OrderedDict(convolution=convolution)
    if axes > 1:
        parts["activation"] = nn.ReLU()
        parts["mix"] = CONVOLUTION[axes](channels, channels, 1)
    return nn.Sequential(parts)
