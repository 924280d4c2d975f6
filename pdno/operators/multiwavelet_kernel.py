"""The kernels A, B and C of the multiwavelet operator, shared by all of its levels.

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

__all__ = ["SpectralKernel", "make_kernel"]

import math
from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pdno.fourier import inverse, transform

CONVOLUTION = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


class SpectralKernel(nn.Module):
    """The multiplication of Fourier modes that fits every level.

        R[f](x) = F⁻¹[ Σ_i R_io(ξ) F[f_i](ξ) ](x)

    Shapes: (B, C, *N) -> (B, C, *N); table (C, C, 2α, ..., α, 2), real and imaginary part last.

    Arguments:
        channels: Number of channels C in and out.
        modes: Number of modes α of a block, per axis.
        axes: Number of transformed axes, 1 to 3.
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
    """One of A, B and C as it is published for a number of axes.

    Arguments:
        channels: Number of channels C in and out.
        modes: Number of Fourier modes α of a spectral kernel.
        axes: 1 for 1D, 2 for 2D, 3 for space-time.
        spectral: Whether the kernel multiplies Fourier modes; otherwise it looks at the next
            neighbours.
    """
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
