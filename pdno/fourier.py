"""The Fourier transform F and its inverse F⁻¹ on the torus; the only user of torch.fft.

    f̂(ξ) = F[f](ξ) = 1/|N| Σ_x f(x) e^{-2πi ξ·x},      f(x) = F⁻¹[f̂](x) = Σ_ξ f̂(ξ) e^{2πi ξ·x}

The factor 1/|N| is in F, so a coefficient is a number of the function and not of the grid that
sampled it. Real functions keep the half spectrum ξ_d >= 0 (see `pdno.grid`).

The Hermitian rule. A half spectrum stands for the real function

    f(x) = Σ_{ξ_d >= 0} w(ξ_d) Re[ f̂(ξ) e^{2πi ξ·x} ],    w = 1 at ξ_d = 0 and N_d/2, else 2,

whatever its coefficients: at ξ_d = 0 and at the Nyquist line only the Hermitian part acts.
The CPU backend follows the rule by itself; others may read the imaginary parts there, so the
rule is enforced here, once.

Kept modes. `modes=k` keeps -k <= ξ_j < k on the full axes and 0 <= ξ_d < k on the half axis,
the corner convention of the published operators; the rest is zero.
"""

__all__ = ["inverse", "pad_modes", "transform", "truncate_modes"]

from collections.abc import Sequence

import torch
from torch import Tensor

from pdno.grid import kept_per_axis

Modes = Sequence[int] | int | None


def transform(f: Tensor, dim: int, modes: Modes = None) -> Tensor:
    """F[f] on the half spectrum, (..., *N) real -> (..., *N^) complex.

    Arguments:
        f: Real samples on a periodic grid; the last `dim` axes are the grid.
        dim: Number of grid axes d.
        modes: Kept modes k_max, per axis or for all; None keeps every mode.
    """
    axes = tuple(range(-dim, 0))
    shape = f.shape[-dim:]
    kept_per_axis(shape, modes)
    return truncate_modes(torch.fft.rfftn(f, dim=axes, norm="forward"), shape, modes)


def inverse(f_hat: Tensor, shape: Sequence[int], modes: Modes = None) -> Tensor:
    """F⁻¹[f̂] on a grid of `shape`, (..., *N^) complex -> (..., *N) real.

    Arguments:
        f_hat: Coefficients of the kept modes in the order of `Grid.modes(modes)`.
        shape: Grid to evaluate on.
        modes: Kept modes k_max of `f_hat`; None means all modes of `shape`.
    """
    full = pad_modes(f_hat, shape, modes)
    dim = len(shape)
    if not full.device.type == "cpu":
        leading = tuple(range(-dim, -1))
        full = torch.fft.ifftn(full, dim=leading, norm="forward") if leading else full
        return torch.fft.irfft(_real_lines(full, shape[-1]), n=shape[-1], norm="forward")
    return torch.fft.irfftn(full, s=tuple(shape), dim=tuple(range(-dim, 0)), norm="forward")


def truncate_modes(f_hat: Tensor, shape: Sequence[int], modes: Modes) -> Tensor:
    """Keep the modes `modes` of a whole half spectrum of a grid of `shape`."""
    dim = len(shape)
    for axis, (n, k) in enumerate(zip(shape, kept_per_axis(shape, modes), strict=True)):
        position = axis - dim
        if k is None:
            continue
        if axis == dim - 1:
            f_hat = f_hat.narrow(position, 0, k)
        elif 2 * k < n:
            low = f_hat.narrow(position, 0, k)
            high = f_hat.narrow(position, n - k, k)
            f_hat = torch.cat([low, high], dim=position)
    return f_hat


def pad_modes(f_hat: Tensor, shape: Sequence[int], modes: Modes) -> Tensor:
    """Put kept modes into a whole half spectrum of a grid of `shape`, zeros elsewhere."""
    dim = len(shape)
    expected = []
    for axis, (n, k) in enumerate(zip(shape, kept_per_axis(shape, modes), strict=True)):
        half = axis == dim - 1
        expected.append((n // 2 + 1 if half else n) if k is None else (k if half else 2 * k))
    if tuple(f_hat.shape[-dim:]) != tuple(expected):
        raise ValueError(
            f"coefficients have shape {tuple(f_hat.shape)}; a {tuple(shape)} grid with "
            f"modes={modes} needs last axes {tuple(expected)}"
        )
    for axis, (n, k) in enumerate(zip(shape, kept_per_axis(shape, modes), strict=True)):
        position = axis - dim
        if k is None:
            continue
        size = n // 2 + 1 if axis == dim - 1 else n
        missing = size - f_hat.shape[position]
        if missing == 0:
            continue
        zeros_shape = list(f_hat.shape)
        zeros_shape[position] = missing
        zeros = f_hat.new_zeros(zeros_shape)
        if axis == dim - 1:
            f_hat = torch.cat([f_hat, zeros], dim=position)
        else:
            low, high = f_hat.narrow(position, 0, k), f_hat.narrow(position, k, k)
            f_hat = torch.cat([low, zeros, high], dim=position)
    return f_hat


def _real_lines(f_hat: Tensor, n: int) -> Tensor:
    """Drop the imaginary part at ξ_d = 0 and, for even n, at ξ_d = n/2."""
    mask = torch.ones(f_hat.shape[-1], dtype=f_hat.real.dtype, device=f_hat.device)
    mask[0] = 0
    if n % 2 == 0:
        mask[-1] = 0
    return torch.complex(f_hat.real, f_hat.imag * mask)
