"""Symbols a(x, ξ) of no special form, evaluated pair by pair: small grids only.

    K[f]_j(x) = Σ_i Σ_ξ a_ij(x, ξ) f̂_i(ξ) e^{2πi ξ·x}                                 (eq. 11)

O(|N|²) work and memory. This is the definition itself, and so the judge of every faster way.
"""

__all__ = ["FullSymbol", "apply_directly", "full_values"]

import math
from collections.abc import Callable

import torch
from torch import Tensor

from pdno.spectral.fourier import Modes, transform
from pdno.spectral.grid import Grid, hermitian_weights
from pdno.symbols.base import SymbolValues

POINT_MODE_PAIRS = 2**24


class FullSymbol:
    """a_ij(x, ξ) given by a function from x (P, 1, d) and ξ (1, M, d) to values (O, I, P, M)."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.function = function

    def values(self, grid: Grid, modes: Modes = None) -> Tensor:
        """a on all pairs of a point and a mode, (O, I, *N, *N^)."""
        x, xi = grid.points().reshape(-1, 1, grid.dim), grid.modes(modes).to(torch.float64)
        _check_size(grid, xi)
        flat = self.function(x, xi.reshape(1, -1, grid.dim))
        return flat.reshape(*flat.shape[:2], *grid.shape, *xi.shape[:-1]).to(torch.complex128)


def full_values(values: SymbolValues, grid: Grid) -> Tensor:
    """A separated symbol written out, Σ_r b_rij(x) c_rij(ξ), shape (O, I, *N, *N^)."""
    c, b, ones = values.frequency, values.space, [1] * grid.dim
    if c.dim() != 3 + grid.dim:
        raise ValueError("a symbol with one time per sample: write it out for one time")
    b = c.real.new_ones(1, 1, 1, *grid.shape) if b is None else b
    return (b.reshape(*b.shape, *ones) * c.reshape(*c.shape[:3], *ones, *c.shape[3:])).sum(dim=0)


def apply_directly(a: Tensor, f: Tensor, grid: Grid, modes: Modes = None) -> Tensor:
    """K[f] by the double sum, with values a (O, I, *N, *N^): (B, I, *N) -> (B, O, *N)."""
    xi = grid.modes(modes).to(torch.float64).reshape(-1, grid.dim)
    _check_size(grid, xi)
    # the waves are those of the transform, which starts at the first point wherever that lies
    x = Grid(grid.shape).points().reshape(-1, grid.dim)
    waves = torch.exp(2j * math.pi * (x @ xi.T)) * hermitian_weights(xi[:, -1], grid.shape[-1])
    f_hat = transform(f.to(torch.float64), grid.dim, modes).flatten(2)
    kernel = a.reshape(*a.shape[:2], grid.size, -1) * waves
    out = torch.einsum("oixm,bim->box", kernel, f_hat).real
    return out.reshape(len(f), -1, *grid.shape)


def _check_size(grid: Grid, xi: Tensor) -> None:
    pairs = grid.size * (xi.numel() // grid.dim)
    if pairs > POINT_MODE_PAIRS:
        problem = f"{pairs} pairs of a point and a mode: the direct sum is for small grids"
        raise ValueError(f"{problem}; use a separated symbol, a coarser grid or fewer modes")
