"""The operator on scattered points, from points to points.

    K[f]_j(y) = Σ_r Σ_i b_rij(y) F⁻¹[ c_rij(ξ) F[f_i](ξ) ](y)

F takes values at the points of the input, F⁻¹ is evaluated at those of the output, and so is b:
the two sets need not have a point in common.
"""

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from pdno.operators.reference import BUDGET, contract
from pdno.spectral.grid import Modes
from pdno.spectral.nonuniform import inverse_points, transform_points
from pdno.spectral.points import Points, kept_modes, torus
from pdno.symbols.base import Symbol, SymbolValues, Time


def apply_on_points(
    symbol: Symbol,
    f: Tensor,
    points: Points,
    modes: Modes,
    t: Time,
    where: Points,
) -> Tensor:
    """K[f], (B, I, P) -> (B, O, Q), from values at `points` to values at those of `where`."""
    dim = points.dim
    if where.dim != dim:
        raise ValueError(f"inputs lie in {dim} dimensions, outputs in {where.dim}; expected alike")
    kept = kept_modes(points, modes)
    f_hat = transform_points(f, points, kept)
    # a grid knows the order of the modes, also for symbols that have no values between them
    c = symbol.evaluate(torus(points, kept), kept, t).frequency
    b = _space_factor(symbol, where, t, f) if symbol.depends_on_x else None
    one_b = b[0] if b is not None and b.dim() == 5 else b
    one = SymbolValues(c[0] if c.dim() == dim + 4 else c, one_b)
    one.check((symbol.out_channels, symbol.in_channels), f_hat.shape[2:], where.shape[-1:])
    c = c.to(f_hat)
    if b is not None and b.shape[-2] > 1:
        return _sum_pairs(c, b, f_hat, where, kept)
    if c.dim() == dim + 3:
        product = contract(c.flatten(0, 1), f_hat)
    else:
        product = torch.einsum("broi...,bi...->bro...", c, f_hat).flatten(1, 2)
    ranks = c.shape[-dim - 3]
    if b is None:
        summed = torch.unflatten(product, 1, (ranks, -1)).sum(dim=1) if ranks > 1 else product
        return inverse_points(summed, where, kept)
    parts = torch.unflatten(inverse_points(product, where, kept), 1, (ranks, -1))
    total: Tensor = (parts * b.squeeze(-2)).sum(dim=1)
    return total


def _sum_pairs(
    c: Tensor, b: Tensor, f_hat: Tensor, where: Points, kept: tuple[int, ...]
) -> Tensor:
    """Σ_r Σ_i b_rji F⁻¹[c_rji f̂_i], some outputs at a time, recomputed backward."""
    c = c if c.dim() == len(kept) + 4 else c[None]
    b = b if b.dim() == 5 else b[None]

    def some(c: Tensor, b: Tensor, f_hat: Tensor) -> Tensor:
        return (b * inverse_points(c * f_hat[:, None, None], where, kept)).sum(dim=(1, 3))

    outputs = c.shape[2]
    item = b.element_size() * len(f_hat) * c.shape[1] * c.shape[3] * b.shape[-1]
    step = max(1, BUDGET // item)
    if step >= outputs:
        return some(c, b, f_hat)
    b = b.expand(-1, -1, outputs, -1, -1)
    blocks = zip(torch.split(c, step, dim=2), torch.split(b, step, dim=2), strict=True)
    parts = [checkpoint(some, *block, f_hat, use_reentrant=False) for block in blocks]
    return torch.cat(parts, dim=1)


def _space_factor(symbol: Symbol, points: Points, t: Time, like: Tensor) -> Tensor:
    """b at the points, (R, O or 1, I or 1, P), or (B, R, O or 1, I or 1, P)."""
    x = points.coordinates.to(like.device)
    zero = x.new_zeros(1, points.dim)
    if points.sets and isinstance(t, Tensor) and t.dim() > 0 and len(t) == len(x):
        # points and parameters of each sample
        rows = [symbol.evaluate_at(x[k], zero, t[k : k + 1]).space for k in range(len(x))]
        return torch.stack([row if row.dim() == 4 else row[0] for row in rows if row is not None])
    b = symbol.evaluate_at(x.flatten(0, -2), zero, t).space
    if b is None:
        raise ValueError("evaluate_at gives no space factor: return b, or set depends_on_x=False")
    b = b.to(like)
    return torch.unflatten(b, -1, x.shape[:2]).movedim(-2, 0) if points.sets else b
