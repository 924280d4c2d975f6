"""The operator in plain torch: every device and precision, differentiable any number of times.

    K[f]_j(x) = Σ_r Σ_i b_rij(x) F⁻¹[ c_rij(ξ) F[f_i](ξ) ](x)

`apply_straight` is the formula written straight down, the oracle of tests and benchmarks;
`pairwise` gives the same numbers some outputs at a time, once more backward: memory is bounded.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from pdno.spectral.fourier import Method, Modes, inverse, transform
from pdno.spectral.grid import Grid
from pdno.spectral.tracing import is_traced
from pdno.symbols.base import SymbolValues

Shape = tuple[int, ...]
BUDGET = 64 * 2**20  # bytes of transformed pairs at a time


def apply_straight(values: SymbolValues, f: Tensor, grid: Grid, modes: Modes = None) -> Tensor:
    """K[f], (B, I, *N) -> (B, O, *N)."""
    values = values.on_grid()
    one_time = values.frequency.dim() == 3 + grid.dim
    c = values.frequency.unsqueeze(0) if one_time else values.frequency
    channel = 3  # of the axes (B, R, O, I, *N)
    product = c * transform(f, grid.dim, modes)[:, None, None]
    if values.space is None:
        return inverse(product.sum(dim=(1, channel)), grid.shape, modes)
    b = values.space.unsqueeze(0) if one_time else values.space
    if b.shape[channel] == 1:
        return (b[:, :, :, 0] * inverse(product.sum(dim=channel), grid.shape, modes)).sum(dim=1)
    return (b * inverse(product, grid.shape, modes)).sum(dim=(1, channel))


def pairwise(
    c: Tensor, b: Tensor, f_hat: Tensor, shape: Shape, modes: Modes, method: Method = "auto"
) -> Tensor:
    """Σ_i b_ji F⁻¹[c_ji f̂_i], (O, I, *K), (O, I, *N), (B, I, *K) -> (B, O, *N)."""

    def some(c: Tensor, b: Tensor, f_hat: Tensor) -> Tensor:
        return (b * inverse(c * f_hat[:, None], shape, modes, method=method)).sum(dim=2)

    item = b.element_size() * len(f_hat) * b.shape[1] * math.prod(shape)
    step = max(1, BUDGET // item)
    if step >= len(c) or is_traced():
        return some(c, b, f_hat)
    parts = []
    for j in range(0, len(c), step):
        part = (c[j : j + step], b[j : j + step], f_hat)
        with_graph = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in part)
        parts.append(checkpoint(some, *part, use_reentrant=False) if with_graph else some(*part))
    return torch.cat(parts, dim=1)


def contract(c: Tensor, f_hat: Tensor) -> Tensor:
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


def project(v: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """W₂ gelu(W₁ v + b₁) + b₂, (B, C, N) -> (B, O, N)."""
    hidden = functional.gelu(torch.matmul(w1, v) + b1[:, None])
    return torch.matmul(w2, hidden) + b2[:, None]
