"""What of a half spectrum acts: the multiplier m(ξ) on all modes of the grid.

A symbol is stored on the half spectrum ξ_d >= 0. By the Hermitian rule of `pdno.fourier` it stands
for an operator on real fields, and that operator is, on complex fields and all modes,

    K f(x) = Σ_ξ a(x, ξ) f̂(ξ) e^{2πi ξ·x},    a(x, -ξ) = conj a(x, ξ),    with -ξ taken modulo N:

    m(ξ) = c(ξ)                       where only ξ is stored,
    m(ξ) = conj c(-ξ)                 where only -ξ is stored,
    m(ξ) = (c(ξ) + conj c(-ξ)) / 2    on the lines ξ_d = 0 and N_d/2, where both have a place.

Modes that are not kept have c = 0. Proof: f̂(-ξ) = conj f̂(ξ). On a line w = 1, and the sum of
Re[c(ξ) f̂(ξ) e^{2πi ξ·x}] over ξ and -ξ is that of m(ξ) f̂(ξ) e^{2πi ξ·x}; elsewhere w = 2, and
2 Re[c(ξ) f̂(ξ) e^{2πi ξ·x}] is the sum of the two terms ξ and -ξ.
"""

__all__ = ["whole_spectrum"]

import torch
from torch import Tensor
from torch.nn import functional

from pdno.fourier import Modes, pad_modes
from pdno.grid import Grid


def whole_spectrum(c: Tensor, grid: Grid, modes: Modes = None) -> Tensor:
    """m(ξ) on all modes in the order of the FFT, (..., *K^) -> (..., *N) complex.

    Arguments:
        c: Coefficients or symbol values on the kept modes of the half spectrum.
        grid: Where they act.
        modes: Kept modes.

    Example:
        >>> whole_spectrum(torch.tensor([1j, 2j]), Grid((3,))).tolist()
        [0j, 2j, -2j]
    """
    half = pad_modes(c, grid.shape, modes)
    points = grid.shape[-1]
    stored = functional.pad(half, (0, points - half.shape[-1]))
    axes = tuple(range(-grid.dim, 0))
    mirrored = stored.flip(axes).roll((1,) * grid.dim, axes).conj()
    last = torch.arange(points, device=c.device)
    share = torch.where((last == 0) | (2 * last == points), 0.5, 1.0).to(c.real.dtype)
    return (stored + mirrored) * share
