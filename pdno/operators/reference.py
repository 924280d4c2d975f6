"""The operator in plain torch: every device and precision, differentiable any number of times.

    K[f]_j(x) = Σ_r Σ_i b_rij(x) F⁻¹[ c_rij(ξ) F[f_i](ξ) ](x)

`apply_straight` is the formula as written, the oracle of tests and benchmarks; `pairwise` has
bounded memory: it takes some outputs at a time, and once more backward.
"""

import math
from functools import reduce
from itertools import product as all_choices

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

    item = max(1, b.element_size() * len(f_hat) * b.shape[1] * math.prod(shape))
    step = max(1, BUDGET // item)
    if step >= len(c) or is_traced():
        return some(c, b, f_hat)
    blocks = zip(torch.split(c, step), torch.split(b, step), strict=True)
    parts = [checkpoint(some, *block, f_hat, use_reentrant=False) for block in blocks]
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


def read_spline(coefficients: Tensor, displacement: Tensor, degree: int) -> Tensor:
    """Σ_k c_k Π_a β at the points x + δ(x), (B, C, *M) and (B, d, *N) -> (B, C, *N)."""
    shape, nodes = displacement.shape[2:], tuple(coefficients.shape[2:])
    channels, flat = coefficients.shape[1], coefficients.flatten(2)
    taps = [_taps(displacement[:, axis], axis, nodes, degree) for axis in range(len(shape))]

    def term(pairs: tuple[tuple[Tensor, Tensor], ...]) -> Tensor:
        position = reduce(torch.add, [position for position, _ in pairs])
        weight = reduce(torch.mul, [weight for _, weight in pairs])
        index = position.flatten(1)[:, None].expand(-1, channels, -1)
        return weight[:, None] * torch.unflatten(flat.gather(2, index), 2, shape)

    return reduce(torch.add, map(term, all_choices(*taps)))


def _taps(
    displacement: Tensor, axis: int, nodes: tuple[int, ...], degree: int
) -> list[tuple[Tensor, Tensor]]:
    """Positions in the flat field and weights of the nodes around x_a + δ_a, along an axis."""
    n, m, taps = displacement.shape[1 + axis], nodes[axis], 6 if degree == 5 else 4
    moved, before = displacement * m, taps // 2 - 1
    whole = moved.detach().floor()
    steps = torch.arange(0, m, m // n, device=displacement.device)
    first = whole.long() + steps.reshape(-1, *[1] * (len(nodes) - 1 - axis)) - before
    distance, stride = moved - whole + before, math.prod(nodes[axis + 1 :])
    return [
        ((first + k).remainder(m) * stride, basis_function(distance - k, degree))
        for k in range(taps)
    ]


def basis_function(x: Tensor, degree: int) -> Tensor:
    """The B-spline Σ_k (-1)^k binom(p + 1, k) max((p + 1)/2 - k - |x|, 0)^p / p! of degree p.

    Degree 0 stands for Keys' cubic convolution, |x| <= 2.
    """
    x = x.abs()
    if degree == 0:
        near, far = (1.5 * x - 2.5) * x * x + 1, ((2.5 - 0.5 * x) * x - 4) * x + 2
        return torch.where(x <= 1, near, far)
    ends = [(degree + 1) / 2 - k for k in range((degree + 1) // 2)]
    powers = [
        (-1) ** k * math.comb(degree + 1, k) * (end - x).clamp_min(0) ** degree
        for k, end in enumerate(ends)
    ]
    return torch.stack(powers).sum(dim=0) / math.factorial(degree)
