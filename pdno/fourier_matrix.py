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
    "half_table",
    "half_weights",
    "rows_first",
    "rows_last",
    "split_signs",
    "synthesise_full_axes",
    "synthesise_full_axes_transposed",
    "synthesise_joined",
    "synthesise_joined_transposed",
    "synthesise_rows",
    "synthesise_rows_transposed",
]

import math
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from pdno.grid import axis_modes, hermitian_weights
from pdno.scratch import Scratch


def rows_first(field: Tensor, dim: int) -> Tensor:
    """(..., N_1, .., N_d) -> (N_1, .., N_{d-1}, ..., N_d)."""
    return field.movedim(tuple(range(-dim, -1)), tuple(range(dim - 1)))


def rows_last(field: Tensor, dim: int) -> Tensor:
    """(N_1, .., N_{d-1}, ..., N_d) -> (..., N_1, .., N_d)."""
    return field.movedim(tuple(range(dim - 1)), tuple(range(-dim, -1)))


def split_signs(
    c: Tensor, shape: Sequence[int], kept: Sequence[int | None], *, turn: bool
) -> Tensor:
    """The terms of P and M, rows first, (*K, ..., K_d) -> (2^{d-1}, *J, ..., K_d).

    Along each full axis the rows P_0 .. P_most, M_1 .. M_most have a term of ξ >= 0 and one of
    ξ < 0. With `turn` a term has its factor 1, i or -i, without it is the bare coefficient, so

        join(c·f) = Σ_s split_signs(c, turn=True)[s] · split_signs(f, turn=False)[s].
    """
    terms = [c]
    for axis in range(len(shape) - 1):
        rows, factors = _sign_tables(shape[axis], kept[axis], c.dtype, c.device)
        tail = [1] * (c.dim() - axis - 1)
        terms = [
            term.index_select(axis, row) * factor.view(-1, *tail)
            if turn
            else term.index_select(axis, row)
            for term in terms
            for row, factor in zip(rows, factors, strict=True)
        ]
    return torch.stack(terms)


def synthesise_joined(joined: Tensor, shape: Sequence[int], memory: Scratch) -> Tensor:
    """The tables alone, rows first, (*J, ..., K_d) complex -> (*N, ..., N_d) real in `memory`."""
    h = synthesise_full_axes(joined, shape, memory)
    half = h.shape[-1]
    table = half_table(shape[-1], half, h.real.dtype, h.device)
    pairs = torch.view_as_real(h).view(-1, 2 * half)
    f = memory.take("field", (len(pairs), shape[-1]), table.dtype)
    return torch.mm(pairs, table, out=f).view(*h.shape[:-1], shape[-1])


def synthesise_full_axes(joined: Tensor, shape: Sequence[int], memory: Scratch) -> Tensor:
    """All axes but the last, rows first, (*J, ..., K_d) -> (*N, ..., K_d) complex in `memory`."""
    for axis, n in enumerate(shape[:-1]):
        table = _full_table(n, joined.shape[axis], joined.real.dtype, joined.device)
        columns = torch.view_as_real(joined).reshape(-1, joined.shape[axis], _after(joined, axis))
        h = memory.take(f"rows {axis}", (len(columns), n, columns.shape[2]), table.dtype)
        _multiply(table, columns, h)
        joined = torch.view_as_complex(
            h.view(*joined.shape[:axis], n, *joined.shape[axis + 1 :], 2)
        )
    return joined


def synthesise_joined_transposed(
    q: Tensor, shape: Sequence[int], kept: Sequence[int | None], memory: Scratch
) -> Tensor:
    """The transpose of `synthesise_joined`, (*N, ..., N_d) real -> (*J, ..., K_d) in `memory`."""
    half = len(axis_modes(shape[-1], kept[-1], half=True))
    table = half_table(shape[-1], half, q.dtype, q.device)
    lines = q.reshape(-1, shape[-1])
    pairs = memory.take("pairs", (len(lines), 2 * half), q.dtype)
    torch.mm(lines, table.T, out=pairs)
    d = torch.view_as_complex(pairs.view(*q.shape[:-1], half, 2))
    return synthesise_full_axes_transposed(d, shape, kept, memory)


def synthesise_full_axes_transposed(
    d: Tensor, shape: Sequence[int], kept: Sequence[int | None], memory: Scratch
) -> Tensor:
    """The transpose of `synthesise_full_axes`, (*N, ..., K_d) -> (*J, ..., K_d) in `memory`."""
    for axis in range(len(shape) - 2, -1, -1):
        size = len(_sign_tables(shape[axis], kept[axis], d.dtype, d.device)[0][0])
        table = _full_table(shape[axis], size, d.real.dtype, d.device)
        columns = torch.view_as_real(d).reshape(-1, shape[axis], _after(d, axis))
        joined = memory.take(f"joined {axis}", (len(columns), size, columns.shape[2]), table.dtype)
        _multiply(table.T, columns, joined)
        d = torch.view_as_complex(joined.view(*d.shape[:axis], size, *d.shape[axis + 1 :], 2))
    return d


def synthesise_rows(c: Tensor, shape: Sequence[int], kept: Sequence[int | None]) -> Tensor:
    """F⁻¹ of the kept modes, rows first, (*K, ..., K_d) complex -> (*N, ..., N_d) real."""
    joined = split_signs(c, shape, kept, turn=True).sum(dim=0)
    return synthesise_joined(joined, shape, Scratch(c.device))


def synthesise_rows_transposed(
    q: Tensor, shape: Sequence[int], kept: Sequence[int | None]
) -> Tensor:
    """The transpose of `synthesise_rows`, (*N, ..., N_d) real -> (*K, ..., K_d) complex."""
    d = synthesise_joined_transposed(q, shape, kept, Scratch(q.device))
    for axis in range(len(shape) - 1):
        rows, factors = _sign_tables(shape[axis], kept[axis], d.dtype, d.device)
        size = len(axis_modes(shape[axis], kept[axis], half=False))
        parts = d.new_zeros(*d.shape[:axis], size, *d.shape[axis + 1 :])
        for row, factor in zip(rows, factors, strict=True):
            turned = d * factor.conj().view(-1, *[1] * (d.dim() - axis - 1))
            parts.index_add_(axis, row, turned)
        d = parts
    return d


def _after(field: Tensor, axis: int) -> int:
    """Real numbers behind one index of a complex field's axis."""
    return 2 * math.prod(field.shape[axis + 1 :])


def _multiply(table: Tensor, columns: Tensor, out: Tensor) -> None:
    """table @ columns for (P, K, C) columns; a batch of one is a plain, faster product."""
    if len(columns) == 1:
        torch.mm(table, columns[0], out=out[0])
    else:
        torch.matmul(table, columns, out=out)


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # a table made during inference serves training too
def _sign_tables(
    n: int, kept: int | None, dtype: torch.dtype, device: torch.device
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Places and factors of the terms of P_0 .. P_most, M_1 .. M_most on one full axis.

    The first of each pair is for ξ >= 0, the second for ξ < 0; a term that is not there has the
    factor 0 and the place 0.
    """
    up, down = ((n + 1) // 2, n // 2) if kept is None else (kept, kept)
    m = torch.arange(max(up - 1, down) + 1)
    low = torch.where(m < up, m, 0)
    high = torch.where((m > 0) & (m <= down), up + down - m, 0)
    has_low, has_high = (m < up).to(dtype), ((m > 0) & (m <= down)).to(dtype)
    rows = tuple(torch.cat([place, place[1:]]).to(device) for place in (low, high))
    factors = (
        torch.cat([has_low, 1j * has_low[1:]]).to(device, dtype),
        torch.cat([has_high, -1j * has_high[1:]]).to(device, dtype),
    )
    return (rows[0], rows[1]), factors


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # a table made during inference serves training too
def _full_table(n: int, size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """[cos 2πmx, m = 0..most | sin 2πmx, m = 1..most], shape (n, size = 2·most + 1)."""
    angle = _angles(n, torch.arange(size // 2 + 1))
    return torch.cat([torch.cos(angle), torch.sin(angle[:, 1:])], dim=1).to(device, dtype)


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # a table made during inference serves training too
def half_table(n: int, kept: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Rows w cos 2πmx and -w sin 2πmx in turn, shape (2k, n)."""
    angle = _angles(n, axis_modes(n, kept, half=True))
    waves = torch.stack([torch.cos(angle), -torch.sin(angle)], dim=-1)
    weights = half_weights(n, kept, torch.float64, torch.device("cpu"))
    return (waves * weights[:, None]).flatten(1).T.contiguous().to(device, dtype)


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # a table made during inference serves training too
def half_weights(n: int, kept: int | None, dtype: torch.dtype, device: torch.device) -> Tensor:
    """w of the Hermitian rule: 1 at ξ_d = 0 and n/2, else 2; shape (k,)."""
    return hermitian_weights(axis_modes(n, kept, half=True), n).to(device, dtype)


def _angles(n: int, m: Tensor) -> Tensor:
    """2πmx at x = 0, 1/n, ...; the product is reduced modulo n, so that no digit is lost."""
    turns = torch.outer(torch.arange(n), m) % n
    return turns.to(torch.float64) * (2 * math.pi / n)
