"""The Fourier transform F and its inverse F⁻¹ on the torus; the only user of torch.fft.

    f̂(ξ) = F[f](ξ) = 1/|N| Σ_x f(x) e^{-2πi ξ·x},      f(x) = F⁻¹[f̂](x) = Σ_ξ f̂(ξ) e^{2πi ξ·x}

Real functions keep the half spectrum ξ_d >= 0 and follow the Hermitian rule of `inverse`.
`modes=k` keeps -k <= ξ_j < k on the full axes and 0 <= ξ_d < k on the half axis, as the published
operators. With few of them, products with small tables are cheaper than the FFT.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from pdno.spectral.grid import Grid, axis_modes, hermitian_weights, kept_per_axis
from pdno.spectral.grid import Modes as Modes
from pdno.spectral.tracing import is_traced

Method = Literal["auto", "fft", "matrix"]
_Kept = tuple[int | None, ...]

# flops of the products per |N| log2 |N| up to which they beat the FFT (see `pdno speed`)
MATRIX_UP_TO = 16.0


def choose_method(shape: Sequence[int], modes: Modes, method: Method = "auto") -> Method:
    """The cheaper way for one F⁻¹: "matrix" or "fft"."""
    if method != "auto" or is_traced():
        return "fft" if is_traced() else method
    *sizes, half = spectrum_shape(shape, kept_per_axis(shape, modes))
    work, grown = 0.0, 1.0
    for axis in range(len(sizes)):
        grown *= shape[axis]
        work += 4 * grown * math.prod(sizes[axis:]) * half
    work += grown * 2 * half * shape[-1]
    points = math.prod(shape)
    return "matrix" if 2 * work <= MATRIX_UP_TO * points * math.log2(points) else "fft"


def transform(f: Tensor, dim: int, modes: Modes = None, *, method: Method = "fft") -> Tensor:
    """F[f] on the half spectrum, (..., *N) real -> (..., *N^) complex; N has `dim` axes.

    `modes` are the kept modes k_max, per axis or for all; None keeps every mode (of that axis).
    """
    shape, axes = tuple(f.shape[-dim:]), tuple(range(-dim, 0))
    kept = kept_per_axis(shape, modes)
    if choose_method(shape, modes, method) == "matrix":
        return _analysis(f, shape, kept)
    if kept.count(None) == dim:
        f_hat: Tensor = torch.fft.rfftn(f, dim=axes, norm="forward")
        return f_hat
    # modes are dropped as soon as their axis is transformed: the later axes have less to do
    f_hat = _truncate_axis(torch.fft.rfft(f, norm="forward"), -1, kept[-1])
    for position in axes[-2::-1]:
        f_hat = torch.fft.fft(f_hat, dim=position, norm="forward")
        f_hat = _truncate_axis(f_hat, position, kept[position])
    return f_hat


def inverse(
    f_hat: Tensor, shape: Sequence[int], modes: Modes = None, *, method: Method = "fft"
) -> Tensor:
    """F⁻¹[f̂] on a grid of `shape`, (..., *N^) complex -> (..., *N) real: the Hermitian rule

        f(x) = Σ_{ξ_d >= 0} w(ξ_d) Re[ f̂(ξ) e^{2πi ξ·x} ],    w = 1 at ξ_d = 0 and N_d/2, else 2.

    On the lines ξ_d = 0 and N_d/2 only the Hermitian part acts; the CPU backend follows the rule
    by itself. Coefficients are those of the kept modes in the order of `Grid.modes(modes)`.
    """
    axes, kept = tuple(range(-len(shape), 0)), kept_per_axis(shape, modes)
    _check_coefficients(f_hat, shape, kept)
    if choose_method(shape, modes, method) == "matrix":
        return _synthesis(f_hat, shape, kept)
    by_rule = f_hat.device.type == "cpu"
    if by_rule and kept.count(None) == len(shape):
        f: Tensor = torch.fft.irfftn(f_hat, s=tuple(shape), dim=axes, norm="forward")
        return f
    for position in axes[:-1]:
        f_hat = _pad_axis(f_hat, position, shape[position], kept[position])
        f_hat = torch.fft.ifft(f_hat, dim=position, norm="forward")
    f_hat = f_hat if by_rule else _real_lines(f_hat, shape[-1])
    f = torch.fft.irfft(f_hat, n=shape[-1], norm="forward")  # which pads the half axis itself
    return f


def truncate_modes(f_hat: Tensor, shape: Sequence[int], modes: Modes) -> Tensor:
    """Keep the modes `modes` of a whole half spectrum of a grid of `shape`."""
    for position, kept in enumerate(kept_per_axis(shape, modes), start=-len(shape)):
        f_hat = _truncate_axis(f_hat, position, kept)
    return f_hat


def pad_modes(f_hat: Tensor, shape: Sequence[int], modes: Modes) -> Tensor:
    """Put kept modes into a whole half spectrum of a grid of `shape`, zeros elsewhere."""
    kept = kept_per_axis(shape, modes)
    _check_coefficients(f_hat, shape, kept)
    for position in range(-len(shape), -1):
        f_hat = _pad_axis(f_hat, position, shape[position], kept[position])
    return functional.pad(f_hat, (0, shape[-1] // 2 + 1 - f_hat.shape[-1]))


def whole_spectrum(c: Tensor, grid: Grid, modes: Modes = None) -> Tensor:
    """What of a half spectrum acts: m(ξ) on all modes of the FFT, (..., *K^) -> (..., *N) complex.

    By the Hermitian rule values c on ξ_d >= 0 stand for c(ξ) where only ξ is stored, conj c(-ξ)
    where only -ξ is, modulo N, and (c(ξ) + conj c(-ξ)) / 2 on the lines ξ_d = 0 and N_d/2.
    """
    half, points = pad_modes(c, grid.shape, modes), grid.shape[-1]
    stored, axes = functional.pad(half, (0, points - half.shape[-1])), tuple(range(-grid.dim, 0))
    mirrored = stored.flip(axes).roll((1,) * grid.dim, axes).conj()
    last = torch.arange(points, device=c.device)
    return (stored + mirrored) * (0.5 * hermitian_weights(last, points)).to(c.real.dtype)


def _truncate_axis(f_hat: Tensor, position: int, kept: int | None) -> Tensor:
    n = f_hat.shape[position]
    if kept is None or kept == n or (position != -1 and 2 * kept == n):
        return f_hat
    low, high = f_hat.narrow(position, 0, kept), f_hat.narrow(position, n - kept, kept)
    return low if position == -1 else torch.cat([low, high], dim=position)


def _pad_axis(f_hat: Tensor, position: int, n: int, kept: int | None) -> Tensor:
    if kept is None or 2 * kept == n:
        return f_hat
    low, high = f_hat.narrow(position, 0, kept), f_hat.narrow(position, kept, kept)
    size = (*low.shape[:position], n - 2 * kept, *low.shape[position + 1 :])
    return torch.cat([low, f_hat.new_zeros(size), high], dim=position)


def spectrum_shape(shape: Sequence[int], kept: _Kept) -> tuple[int, ...]:
    """The sizes of the kept half spectrum of a grid of `shape`."""
    full = [n if k is None else 2 * k for n, k in zip(shape[:-1], kept[:-1], strict=True)]
    return (*full, shape[-1] // 2 + 1 if kept[-1] is None else kept[-1])


def _check_coefficients(f_hat: Tensor, shape: Sequence[int], kept: _Kept) -> None:
    expected, given = spectrum_shape(shape, kept), tuple(f_hat.shape)
    if given[-len(shape) :] != expected:
        grid = f"a {tuple(shape)} grid with modes {kept}"
        raise ValueError(f"coefficients have shape {given}; {grid} needs last axes {expected}")


def _real_lines(f_hat: Tensor, n: int) -> Tensor:
    """Drop the imaginary part at ξ_d = 0 and n/2."""
    weights = half_weights(n, f_hat.shape[-1], f_hat.real.dtype, f_hat.device)
    return torch.complex(f_hat.real, f_hat.imag * (weights == 2))


def _synthesis(f_hat: Tensor, shape: Sequence[int], kept: _Kept) -> Tensor:
    """F⁻¹ by products with tables, axis by axis."""
    for axis in range(-len(shape), -1):
        table = _full_table(shape[axis], kept[axis], f_hat.dtype, f_hat.device)
        f_hat = torch.tensordot(f_hat, table, dims=([axis], [1])).movedim(-1, axis)
    table = half_table(shape[-1], f_hat.shape[-1], f_hat.real.dtype, f_hat.device)
    return torch.view_as_real(f_hat).flatten(-2) @ table


def _analysis(f: Tensor, shape: Sequence[int], kept: _Kept) -> Tensor:
    """F by products with the same tables."""
    half = spectrum_shape(shape, kept)[-1]
    pairs = f @ half_table(shape[-1], half, f.dtype, f.device).T
    f_hat = torch.view_as_complex(pairs.view(*f.shape[:-1], half, 2))
    for axis in range(-len(shape), -1):
        table = _full_table(shape[axis], kept[axis], f_hat.dtype, f.device).conj()
        f_hat = torch.tensordot(f_hat, table, dims=([axis], [0])).movedim(-1, axis)
    return f_hat / (half_weights(shape[-1], half, f.dtype, f.device) * math.prod(shape))


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # tables are made in float64; those of inference serve training too
def _full_table(n: int, kept: int | None, dtype: torch.dtype, device: torch.device) -> Tensor:
    """e^{2πiξx}, shape (n, n^)."""
    return axis_waves(n, axis_modes(n, kept, half=False)).to(device, dtype)


@lru_cache(maxsize=64)
@torch.inference_mode(False)
def half_table(n: int, kept: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Rows w cos 2πmx and -w sin 2πmx in turn, shape (2k, n)."""
    waves = torch.view_as_real(axis_waves(n, axis_modes(n, kept, half=True)).conj_physical())
    weights = half_weights(n, kept, torch.float64, torch.device("cpu"))
    return (waves * weights[:, None]).flatten(1).T.contiguous().to(device, dtype)


@lru_cache(maxsize=64)
@torch.inference_mode(False)
def half_weights(n: int, kept: int | None, dtype: torch.dtype, device: torch.device) -> Tensor:
    """w of the Hermitian rule: 1 at ξ_d = 0 and n/2, else 2; shape (k,)."""
    return hermitian_weights(axis_modes(n, kept, half=True), n).to(device, dtype)


def axis_waves(n: int, m: Tensor) -> Tensor:
    """e^{2πimx} at x = 0, 1/n, ..., (n, M) complex128; mx is taken modulo 1 without rounding."""
    angle = (torch.outer(torch.arange(n), m) % n).to(torch.float64) * (2 * math.pi / n)
    return torch.complex(torch.cos(angle), torch.sin(angle))
