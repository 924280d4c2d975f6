"""Closed-form solutions, the judges of the solvers.

Each function returns the solution at one time at the points x of a grid.
"""

__all__ = ["cole_hopf", "heat_mode", "taylor_green"]

import math

import torch
from torch import Tensor


def heat_mode(x: Tensor, t: float, *, mode: int = 1, diffusivity: float = 0.05) -> Tensor:
    """cos(2πkx) e^{-4π²k²ct} solves u_t = c u_xx."""
    decay = math.exp(-4 * math.pi**2 * mode**2 * diffusivity * t)
    return torch.cos(2 * math.pi * mode * x) * decay


def cole_hopf(
    x: Tensor, t: float, *, viscosity: float, period: float = 1.0, depth: float = 0.5
) -> Tensor:
    """u = -2ν φ_x/φ solves Burgers' equation when φ solves the heat equation (Cole, Hopf).

    Here φ = 1 + depth·cos(kx) e^{-νk²t}, k = 2π/period, so u has every mode although φ has one.
    The coordinate x ∈ [0, 1) of the grid stands for the place period·x.
    """
    k = 2 * math.pi / period
    decay = depth * math.exp(-viscosity * k**2 * t)
    place = period * x
    return 2 * viscosity * k * decay * torch.sin(k * place) / (1 + decay * torch.cos(k * place))


def taylor_green(x: Tensor, t: float, *, viscosity: float, mode: int = 1) -> Tensor:
    """ω = 2k cos(kx₁) cos(kx₂) e^{-2νk²t}, k = 2π·mode: transport vanishes, the vortices decay.

    Shapes: x (*N, 2) -> (*N).
    """
    k = 2 * math.pi * mode
    decay = math.exp(-2 * viscosity * k**2 * t)
    return 2 * k * torch.cos(k * x[..., 0]) * torch.cos(k * x[..., 1]) * decay
