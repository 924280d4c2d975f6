"""The operator of a separated symbol, fast: the numbers of `operators.straight` for less.

    K[f]_j(x) = Σ_r Σ_i b_rij(x) F⁻¹[ c_rij(ξ) F[f_i](ξ) ](x)

1. Where b does not depend on i, the sum over i is a matrix product for each mode in frequency
   space, and only the R·O results are transformed back.
2. Where it does, I·O inverse transforms are needed. They are made a few at a time in a buffer
   that fits the cache, multiplied by b and added up at once: no (B, O, I, *N) tensor exists. The
   backward pass makes them again in the same way, so that nothing of that size is kept either.
"""

__all__ = ["apply_values", "contract_modes"]

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from pdno.fourier import Method, Modes, inverse, transform
from pdno.grid import Grid
from pdno.operators.pairwise import apply_pairwise
from pdno.operators.straight import apply_straight
from pdno.symbols.base import SymbolValues

LOW_RANK_BUDGET = 64 * 2**20


def apply_values(
    values: SymbolValues, f: Tensor, grid: Grid, modes: Modes = None, *, method: Method = "auto"
) -> Tensor:
    """K[f] for the values of a symbol, (B, I, *N) -> (B, O, *N).

    Arguments:
        values: Of the symbol on this grid and these modes.
        f: Real fields.
        grid: Their grid.
        modes: Kept modes.
        method: How to transform: "fft", "matrix", or "auto" for the cheaper one.
    """
    c, b = values.frequency, values.space
    if c.dim() != 3 + grid.dim:  # one time per sample: the symbol is as large as the product
        return apply_straight(values, f, grid, modes)
    f_hat = transform(f, grid.dim, modes, method=method)
    if b is None:
        return inverse(contract_modes(c.sum(dim=0), f_hat), grid.shape, modes, method=method)
    if b.shape[2] == 1:
        return _apply_low_rank(c, b, f_hat, grid, modes, method)
    total = apply_pairwise(c[0], b[0], f_hat, grid.shape, modes, method)
    for r in range(1, len(c)):
        total = total + apply_pairwise(c[r], b[r], f_hat, grid.shape, modes, method)
    return total


def _apply_low_rank(
    c: Tensor, b: Tensor, f_hat: Tensor, grid: Grid, modes: Modes, method: Method
) -> Tensor:
    """Σ_r b_rj F⁻¹[Σ_i c_rji f̂_i]; a large rank a few terms at a time, recomputed backward."""

    def some(c: Tensor, b: Tensor, f_hat: Tensor) -> Tensor:
        mixed = contract_modes(c.flatten(0, 1), f_hat)
        parts = inverse(mixed, grid.shape, modes, method=method)
        return (parts.reshape(len(f_hat), *c.shape[:2], *grid.shape) * b[:, :, 0]).sum(dim=1)

    item_bytes = b.element_size() * len(f_hat) * c.shape[1] * grid.size
    step = max(1, LOW_RANK_BUDGET // item_bytes)
    if step >= len(c):
        return some(c, b, f_hat)
    total: Tensor | None = None
    for r in range(0, len(c), step):
        terms = slice(r, r + step)
        part = checkpoint(some, c[terms], b[terms], f_hat, use_reentrant=False)
        total = part if total is None else total + part
    assert total is not None
    return total


def contract_modes(c: Tensor, f_hat: Tensor) -> Tensor:
    """Σ_i c_ji(ξ) f̂_i(ξ) for every mode, (J, I, *K) and (B, I, *K) -> (B, J, *K).

    As one batched real product with [Re c, Im c; -Im c, Re c]: complex ones are made matrix by
    matrix on a CPU, with copies.
    """
    batch, modes, outputs = len(f_hat), f_hat.shape[2:], len(c)
    table = torch.view_as_real(c.flatten(2).permute(2, 1, 0).contiguous())  # (K, I, J, 2)
    turned = torch.stack([-table[..., 1], table[..., 0]], dim=-1)
    blocks = torch.stack([table, turned], dim=2).flatten(3).flatten(1, 2)  # (K, 2I, 2J)
    parts = torch.view_as_real(f_hat.flatten(2).permute(2, 0, 1).contiguous()).flatten(2)
    mixed = torch.bmm(parts, blocks)
    paired = torch.view_as_complex(mixed.reshape(*mixed.shape[:2], outputs, 2))
    return paired.permute(1, 2, 0).reshape(batch, outputs, *modes)
