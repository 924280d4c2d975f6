"""The multiwavelet operator: a kernel in the non-standard form of its wavelet decomposition.

A smooth kernel, even one singular at the diagonal (Calderón-Zygmund, "CZ" in the published
code), is sparse in wavelets. Going down, each level splits the averages s of the level above
into averages and details of cells twice as large. Three kernels couple them at every level and
one map acts on the coarsest averages (named detail_to_detail, average_to_detail,
detail_to_average and average_to_average in the code):

    s, d <- W s,     U_d = A d + B s,     U_s = C d          down, level by level
    s <- T s                                                 at the coarsest level
    s <- W⁻¹ (s + U_s, U_d)                                  up again

W are the filters of `pdno.operators.multiwavelet_filters`; A, B, C (`multiwavelet_kernel`) and T
are the same on all levels. The k^d coefficients of a cell are channels: channel c k^d + i is
coefficient i of function c. In space-time the wavelets act on x and y only and t is an axis of
the kernels.
"""

__all__ = ["MultiwaveletOperator"]

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from pdno.operators.multiwavelet_filters import make_filters
from pdno.operators.multiwavelet_kernel import CONVOLUTION, make_kernel


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
