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

Modes = Sequence[int | None] | int | None


def transform(f: Tensor, dim: int, modes: Modes = None) -> Tensor:
    """F[f] on the half spectrum, (..., *N) real -> (..., *N^) complex.

    Axis by axis from the last one, dropping modes as soon as their axis is transformed, so that
    the later axes have less to do.

    Arguments:
        f: Real samples on a periodic grid; the last `dim` axes are the grid.
        dim: Number of grid axes d.
        modes: Kept modes k_max, per axis or for all; None keeps every mode (of that axis).
    """
    shape = f.shape[-dim:]
    kept = kept_per_axis(shape, modes)
    if kept.count(None) == dim:
        whole: Tensor = torch.fft.rfftn(f, dim=tuple(range(-dim, 0)), norm="forward")
        return whole
    f_hat = _truncate_axis(torch.fft.rfft(f, norm="forward"), -1, kept[-1], half=True)
    for position in range(-2, -dim - 1, -1):
        f_hat = torch.fft.fft(f_hat, dim=position, norm="forward")
        f_hat = _truncate_axis(f_hat, position, kept[position], half=False)
    return f_hat


def inverse(f_hat: Tensor, shape: Sequence[int], modes: Modes = None) -> Tensor:
    """F⁻¹[f̂] on a grid of `shape`, (..., *N^) complex -> (..., *N) real.

    Arguments:
        f_hat: Coefficients of the kept modes in the order of `Grid.modes(modes)`.
        shape: Grid to evaluate on.
        modes: Kept modes k_max of `f_hat`; None means all modes of `shape`.
    """
    dim = len(shape)
    kept = kept_per_axis(shape, modes)
    _check_coefficients(f_hat, shape, kept)
    by_rule = f_hat.device.type == "cpu"
    f: Tensor
    if by_rule and kept.count(None) == dim:
        f = torch.fft.irfftn(f_hat, s=tuple(shape), dim=tuple(range(-dim, 0)), norm="forward")
        return f
    for position in range(-dim, -1):
        f_hat = _pad_axis(f_hat, position, shape[position], kept[position])
        f_hat = torch.fft.ifft(f_hat, dim=position, norm="forward")
    # irfft pads the half axis with zeros by itself
    f_hat = f_hat if by_rule else _real_lines(f_hat, shape[-1])
    f = torch.fft.irfft(f_hat, n=shape[-1], norm="forward")
    return f


def truncate_modes(f_hat: Tensor, shape: Sequence[int], modes: Modes) -> Tensor:
    """Keep the modes `modes` of a whole half spectrum of a grid of `shape`."""
    kept = kept_per_axis(shape, modes)
    for position in range(-len(shape), 0):
        f_hat = _truncate_axis(f_hat, position, kept[position], half=position == -1)
    return f_hat


def pad_modes(f_hat: Tensor, shape: Sequence[int], modes: Modes) -> Tensor:
    """Put kept modes into a whole half spectrum of a grid of `shape`, zeros elsewhere."""
    kept = kept_per_axis(shape, modes)
    _check_coefficients(f_hat, shape, kept)
    for position in range(-len(shape), -1):
        f_hat = _pad_axis(f_hat, position, shape[position], kept[position])
    missing = shape[-1] // 2 + 1 - f_hat.shape[-1]
    return torch.nn.functional.pad(f_hat, (0, missing))


def _truncate_axis(f_hat: Tensor, position: int, kept: int | None, *, half: bool) -> Tensor:
    n = f_hat.shape[position]
    if kept is None or kept == n or (not half and 2 * kept == n):
        return f_hat
    low = f_hat.narrow(position, 0, kept)
    if half:
        return low
    return torch.cat([low, f_hat.narrow(position, n - kept, kept)], dim=position)


def _pad_axis(f_hat: Tensor, position: int, n: int, kept: int | None) -> Tensor:
    if kept is None or 2 * kept == n:
        return f_hat
    size = list(f_hat.shape)
    size[position] = n - 2 * kept
    low, high = f_hat.narrow(position, 0, kept), f_hat.narrow(position, kept, kept)
    return torch.cat([low, f_hat.new_zeros(size), high], dim=position)


def _check_coefficients(f_hat: Tensor, shape: Sequence[int], kept: Sequence[int | None]) -> None:
    full = [n if k is None else 2 * k for n, k in zip(shape[:-1], kept[:-1], strict=True)]
    expected = (*full, shape[-1] // 2 + 1 if kept[-1] is None else kept[-1])
    if tuple(f_hat.shape[-len(shape) :]) != expected:
        raise ValueError(
            f"coefficients have shape {tuple(f_hat.shape)}; a {tuple(shape)} grid with modes "
            f"{tuple(kept)} needs last axes {expected}"
        )


def _real_lines(f_hat: Tensor, n: int) -> Tensor:
    """Drop the imaginary part at ξ_d = 0 and, for even n, at ξ_d = n/2."""
    mask = torch.ones(f_hat.shape[-1], dtype=f_hat.real.dtype, device=f_hat.device)
    mask[0] = 0
    if n % 2 == 0 and f_hat.shape[-1] == n // 2 + 1:
        mask[-1] = 0
    return torch.complex(f_hat.real, f_hat.imag * mask)
