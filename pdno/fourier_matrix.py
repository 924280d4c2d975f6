"""Truncated Fourier series as matrix products: F⁻¹ on few modes, and its transpose.

With few kept modes a product with a small table beats the FFT, which always makes all of them.
F⁻¹ goes axis by axis. On a full axis, with ξ = 0 .. k-1, -k .. -1, pairs of ±ξ are joined first,

    h(x) = Σ_{m=0}^{k} cos(2πmx) P_m + sin(2πmx) M_m,   P_m = c_m + c_{-m},  M_m = i(c_m - c_{-m}),

so that the table is real and half as long. On the half axis the result is real,

    f(x) = Σ_{m<k} w_m [ cos(2πmx) Re c_m - sin(2πmx) Im c_m ],

with the weights w of the Hermitian rule (see `pdno.fourier`). The transpose belongs to the real
inner products Σ f q on the grid and Re Σ c conj(d) on the modes. Tables are made in float64.

Layout *rows first*: the full axes come first, then whatever is transformed together, then the
half axis, (N_1, .., N_{d-1}, ..., N_d). Each axis is then one large product without a copy.
"""

__all__ = [
    "half_weights",
    "rows_first",
    "rows_last",
    "synthesise_rows",
    "synthesise_rows_transposed",
]

import math
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from pdno.grid import axis_modes
from pdno.scratch import Scratch


def rows_first(field: Tensor, dim: int) -> Tensor:
    """(..., N_1, .., N_d) -> (N_1, .., N_{d-1}, ..., N_d)."""
    return field.movedim(tuple(range(-dim, -1)), tuple(range(dim - 1)))


def rows_last(field: Tensor, dim: int) -> Tensor:
    """(N_1, .., N_{d-1}, ..., N_d) -> (..., N_1, .., N_d)."""
    return field.movedim(tuple(range(dim - 1)), tuple(range(-dim, -1)))


def synthesise_rows(
    c: Tensor, shape: Sequence[int], kept: Sequence[int | None], scratch: Scratch | None = None
) -> Tensor:
    """F⁻¹ of the kept modes, rows first, (*K, ..., K_d) complex -> (*N, ..., N_d) real.

    The result lies in `scratch` if one is given.
    """
    memory = scratch or Scratch(c.device)
    between = c.shape[len(shape) - 1 : -1]
    for axis in range(len(shape) - 1):
        c = _full_axis(c, axis, shape[axis], kept[axis], memory)
    table = _half_table(shape[-1], kept[-1], c.real.dtype, c.device)
    pairs = torch.view_as_real(c).reshape(-1, len(table))
    f = memory.take("field", (len(pairs), shape[-1]), table.dtype)
    return torch.mm(pairs, table, out=f).view(*shape[:-1], *between, shape[-1])


def synthesise_rows_transposed(
    q: Tensor, shape: Sequence[int], kept: Sequence[int | None], scratch: Scratch | None = None
) -> Tensor:
    """The transpose of `synthesise_rows`, (*N, ..., N_d) real -> (*K, ..., K_d) complex.

    The result lies in `scratch` if one is given.
    """
    memory = scratch or Scratch(q.device)
    table = _half_table(shape[-1], kept[-1], q.dtype, q.device)
    lines = q.reshape(-1, shape[-1])
    pairs = memory.take("pairs", (len(lines), len(table)), q.dtype)
    torch.mm(lines, table.T, out=pairs)
    d = torch.view_as_complex(pairs.view(*q.shape[:-1], -1, 2))
    for axis in range(len(shape) - 2, -1, -1):
        d = _full_axis_transposed(d, axis, shape[axis], kept[axis], memory)
    return d


def _full_axis(c: Tensor, axis: int, n: int, kept: int | None, memory: Scratch) -> Tensor:
    """h(x) of the module along axis `axis`, (.., K, ..) -> (.., N, ..)."""
    up, down = _signs(n, kept)
    most = max(up - 1, down)
    columns = math.prod(c.shape[axis + 1 :])
    values = c.reshape(-1, up + down, columns)
    low, high = values[:, 1:up], values[:, up:].flip(1)  # c_1, c_2, ... and c_{-1}, c_{-2}, ...
    joined = memory.take("joined", (len(values), 2 * most + 1, columns), c.dtype).zero_()
    even, odd = joined[:, 1 : most + 1], joined[:, most + 1 :]
    joined[:, 0] = values[:, 0]
    even[:, : up - 1] = low
    odd[:, : up - 1] = low
    even[:, :down].add_(high)
    odd[:, :down].sub_(high)
    odd.mul_(1j)
    table = _full_table(n, most, c.real.dtype, c.device)
    h = memory.take(f"rows {axis}", (len(values), n, 2 * columns), table.dtype)
    torch.matmul(table, torch.view_as_real(joined).flatten(2), out=h)
    return torch.view_as_complex(h.view(*c.shape[:axis], n, *c.shape[axis + 1 :], 2))


def _full_axis_transposed(
    h: Tensor, axis: int, n: int, kept: int | None, memory: Scratch
) -> Tensor:
    """The transpose of `_full_axis`, (.., N, ..) -> (.., K, ..)."""
    up, down = _signs(n, kept)
    most = max(up - 1, down)
    columns = math.prod(h.shape[axis + 1 :])
    table = _full_table(n, most, h.real.dtype, h.device)
    lines = torch.view_as_real(h).reshape(-1, n, 2 * columns)
    joined = memory.take("joined", (len(lines), 2 * most + 1, columns), h.dtype)
    torch.matmul(table.T, lines, out=torch.view_as_real(joined).flatten(2))
    even, odd = joined[:, 1 : most + 1], joined[:, most + 1 :].mul_(-1j)
    d = memory.take(f"modes {axis}", (len(lines), up + down, columns), h.dtype)
    d[:, 0] = joined[:, 0]
    torch.add(even[:, : up - 1], odd[:, : up - 1], out=d[:, 1:up])
    d[:, up:] = even[:, :down].sub_(odd[:, :down]).flip(1)
    return d.view(*h.shape[:axis], up + down, *h.shape[axis + 1 :])


def _signs(n: int, kept: int | None) -> tuple[int, int]:
    """How many ξ >= 0 and how many ξ < 0 a full axis keeps."""
    return ((n + 1) // 2, n // 2) if kept is None else (kept, kept)


@lru_cache(maxsize=64)
def _full_table(n: int, most: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """[cos 2πmx, m = 0..most | sin 2πmx, m = 1..most], shape (n, 2·most + 1)."""
    angle = _angles(n, torch.arange(most + 1))
    return torch.cat([torch.cos(angle), torch.sin(angle[:, 1:])], dim=1).to(device, dtype)


@lru_cache(maxsize=64)
def _half_table(n: int, kept: int | None, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Rows w cos 2πmx and -w sin 2πmx in turn, shape (2k, n)."""
    angle = _angles(n, axis_modes(n, kept, half=True))
    waves = torch.stack([torch.cos(angle), -torch.sin(angle)], dim=-1)
    weights = half_weights(n, kept, torch.float64, torch.device("cpu"))
    return (waves * weights[:, None]).flatten(1).T.contiguous().to(device, dtype)


@lru_cache(maxsize=64)
def half_weights(n: int, kept: int | None, dtype: torch.dtype, device: torch.device) -> Tensor:
    """w of the Hermitian rule: 1 at ξ_d = 0 and n/2, else 2; shape (k,)."""
    m = axis_modes(n, kept, half=True)
    return torch.where((m == 0) | (2 * m == n), 1.0, 2.0).to(device, dtype)


def _angles(n: int, m: Tensor) -> Tensor:
    """2πmx at x = 0, 1/n, ...; the product is reduced modulo n, so that no digit is lost."""
    turns = torch.outer(torch.arange(n), m) % n
    return turns.to(torch.float64) * (2 * math.pi / n)
