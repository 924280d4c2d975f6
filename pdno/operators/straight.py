"""The formula of the operator, written straight down: the reference of tests and benchmarks.

    K[f]_j(x) = Σ_r Σ_i b_rij(x) F⁻¹[ c_rij(ξ) F[f_i](ξ) ](x)

It makes tensors (B, R, O, I, *N); `operators.kernel` gives the same numbers without them.
"""

__all__ = ["apply_straight"]

from torch import Tensor

from pdno.fourier import Modes, inverse, transform
from pdno.grid import Grid
from pdno.symbols.base import SymbolValues


def apply_straight(values: SymbolValues, f: Tensor, grid: Grid, modes: Modes = None) -> Tensor:
    """K[f], (B, I, *N) -> (B, O, *N)."""
    one_time = values.frequency.dim() == 3 + grid.dim
    c = values.frequency.unsqueeze(0) if one_time else values.frequency
    channel = 3  # of the axes (B, R, O, I, *N)
    f_hat = transform(f, grid.dim, modes)
    product = c * f_hat[:, None, None]
    if values.space is None:
        return inverse(product.sum(dim=(1, channel)), grid.shape, modes)
    b = values.space.unsqueeze(0) if one_time else values.space
    if b.shape[channel] == 1:
        return (b[:, :, :, 0] * inverse(product.sum(dim=channel), grid.shape, modes)).sum(dim=1)
    return (b * inverse(product, grid.shape, modes)).sum(dim=(1, channel))
