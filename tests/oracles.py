"""What several tests compare with, by other means than the package."""

import math

import torch

from pdno.spectral.fourier import inverse, transform
from pdno.spectral.grid import Grid


def derivative(f, order):
    """∂^α f by multiplying with (2πi ξ)^α, α = `order` with one number per axis, (..., *N).

    On an even grid the mode N/2 of an odd derivative has no real value at the points: zero.
    """
    dim = len(order)
    if f.dim() < dim or min(order, default=0) < 0:
        raise ValueError(f"order {tuple(order)} does not fit a field of shape {tuple(f.shape)}")
    grid = Grid(tuple(f.shape[-dim:]))
    xi = grid.modes(device=f.device)
    factor = torch.ones(grid.half_shape, dtype=torch.complex128, device=f.device)
    for axis, power in enumerate(order):
        component = xi[..., axis].to(torch.float64)
        if power % 2 == 1 and grid.shape[axis] % 2 == 0:
            component = component * (component.abs() != grid.shape[axis] / 2)
        factor = factor * (2j * math.pi * component) ** power
    return inverse(transform(f, dim) * factor.to(f.dtype.to_complex()), grid.shape)
