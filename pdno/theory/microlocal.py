"""Operators in phase space: what they do near a point x to waves of a direction ξ.

The *principal symbol* of a of order m is a_m(x, ω) = lim λ^{-m} a(x, λω), λ -> ∞, |ω| = 1. Where
it is zero, or not invertible, lies the *characteristic set*: elsewhere the operator keeps every
singularity and has a parametrix, an inverse up to smoother operators.

A *wave packet* is e^{2πi ξ₀·x} under a Gaussian around x₀. A pseudo-differential operator leaves
it where it is, times a(x₀, ξ₀); an operator of waves or transport moves it along its
bicharacteristics. `send_packet` asks any linear map, ours, a solver or another package's network
(at a state by `pdno.theory.lipschitz.linearise`), where a packet comes out.
"""

__all__ = [
    "PacketOut",
    "characteristic_set",
    "principal_symbol",
    "send_packet",
    "wave_packet",
]

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pdno.spectral.fourier import transform, whole_spectrum
from pdno.spectral.grid import Grid
from pdno.theory.calculus import SymbolFunction
from pdno.theory.sobolev import LinearMap

FAR = 2.0**20  # λ of the limit; errors of the next order are that much smaller


def principal_symbol(a: SymbolFunction, order: float) -> SymbolFunction:
    """a_m(x, ω) of a symbol a(x, ξ) of order m, at ω of any length but 0, homogeneous in it.

    Richardson's rule removes the term of order m - 1: 2 f(2λ) - f(λ) with f(λ) = λ^{-m} a(x, λω).

    Example:
        >>> bessel = lambda x, xi: (1 + xi.square().sum(dim=-1)).sqrt() + 3
        >>> leading = principal_symbol(bessel, 1.0)
        >>> float(leading(torch.zeros(1, 1, 2), torch.tensor([[[3.0, 4.0]]]).double()))
        5.0
    """

    def leading(x: Tensor, xi: Tensor) -> Tensor:
        size = xi.norm(dim=-1)
        unit = xi / size[..., None]
        near, far = (a(x, r * unit) * r**-order for r in (FAR, 2 * FAR))
        values: Tensor = (2 * far - near) * size**order
        return values

    return leading


def characteristic_set(
    leading: SymbolFunction, x: Tensor, directions: Tensor, *, tolerance: float = 1e-3
) -> Tensor:
    """Whether (x, ω) is characteristic: |a_m| below a share of its maximum, (P, M) bool.

    For points (P, d) and directions (M, d). Matrices (O, I, P, M) count by their smallest
    singular value.
    """
    unit = directions / directions.norm(dim=-1, keepdim=True)
    values = leading(x[:, None], unit[None])
    if values.dim() == 4:
        sizes: Tensor = torch.linalg.svdvals(values.movedim((0, 1), (-2, -1)))
        return torch.le(sizes[..., -1], tolerance * sizes[..., 0].max())
    return values.abs() <= tolerance * values.abs().max()


def wave_packet(
    grid: Grid, at: Sequence[float], frequency: Sequence[float], width: float = 0.08
) -> Tensor:
    """e^{2πi ξ₀·x} exp(-|x - x₀|²/2 width²), periodic, (1, 1, *N) complex128."""
    x, start = grid.points().double(), torch.tensor(at, dtype=torch.float64)
    away = (x - start + 0.5) % 1 - 0.5
    phase = 2j * math.pi * (away @ torch.tensor(frequency, dtype=torch.float64))
    packet = torch.exp(phase - away.square().sum(dim=-1) / (2 * width**2))
    return packet[None, None]


@dataclass(frozen=True)
class PacketOut:
    """Where a packet comes out: its mean place and frequency, and how much of it."""

    place: tuple[float, ...]
    frequency: tuple[float, ...]
    factor: float  #: ‖A p‖ / ‖p‖
    spread: float  #: root mean square distance from the place


@torch.no_grad()
def send_packet(operator: LinearMap, grid: Grid, packet: Tensor) -> PacketOut:
    """The image of a wave packet under a linear map of real fields (B, 1, *N)."""
    parts = operator(torch.cat([packet.real, packet.imag])).double()
    out = torch.complex(parts[:1], parts[1:])[0, 0]
    weight = out.abs().square() / out.abs().square().sum()
    x = grid.points().double()
    turns = torch.exp(2j * math.pi * x)
    mean = (weight[..., None] * turns).flatten(0, -2).sum(dim=0)
    place = (mean.angle() / (2 * math.pi)) % 1
    away = ((x - place + 0.5) % 1 - 0.5).square().sum(dim=-1)
    halves = [
        whole_spectrum(transform(part[0, 0], grid.dim), grid) for part in (parts[:1], parts[1:])
    ]
    power = (halves[0] + 1j * halves[1]).abs().square()
    xi = grid.modes(half=False).double()
    mean_xi = (power[..., None] * xi).flatten(0, -2).sum(dim=0) / power.sum()
    factor = float(out.norm() / packet.norm())
    spread = float((weight * away).sum().sqrt())
    return PacketOut(tuple(place.tolist()), tuple(mean_xi.tolist()), factor, spread)
