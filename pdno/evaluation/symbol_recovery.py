"""Symbol recovery: learned symbols against those of the heat equation and of a velocity law.

A trained a(x, ξ, t) = a1(x, t) a2(ξ, t), averaged over x as in the paper's figure 3, is compared
with e^{-4π²cξ²t} at integer ξ >= 0; on real functions the operator has ā(-ξ) = conj ā(ξ). An error
δ of the symbol at ±ξ changes the relative L2 error at time t by |δ| w at rms over the inputs,

    w(ξ, t)² = m(ξ) ⟨|û₀(ξ)|²⟩ / ⟨‖u(t)‖²⟩,        m = 2 for a pair ±ξ, 1 at ξ = 0.

Data excite a mode where w is at least a threshold. Elsewhere the learned values are whatever the
smoothness of the networks makes of their neighbours.

The velocity K_b[ω] that a transport head learned is compared with Biot-Savart's, mode by mode with
the weight w(ξ)² = m(ξ)⟨|ω̂(ξ)|²⟩, so that the error over all modes is that of the velocity at rms.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pdno.interface.errors import check_shape
from pdno.networks.heads import Transport
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.spectral.fourier import transform
from pdno.spectral.grid import Grid, hermitian_weights
from pdno.symbols.analytic import BiotSavart
from pdno.symbols.base import Symbol

EXCITED = 0.1  # w from which on the data excite a mode


@dataclass(frozen=True)
class SymbolComparison:
    """Learned and exact symbol on T times and M modes, float64 or complex128 on the CPU."""

    xi: Tensor  #: (M,), the M = 2·limit + 1 modes -limit, ..., limit
    times: tuple[float, ...]
    learned: Tensor  #: ā, (T, M)
    exact: Tensor  #: (T, M)
    weight: Tensor  #: w, (T, M)
    space: Tensor  #: a1(x, t) over its mean in x, (T, N)

    def metrics(self) -> dict[str, float]:
        """The largest differences (NaN where no mode is excited) and relative variation of a1."""
        difference = (self.learned - self.exact).abs()
        excited = difference[self.weight >= EXCITED]
        return {
            "symbol difference": float(difference.max()),
            "symbol difference excited": float(excited.max()) if len(excited) else math.nan,
            "symbol variation over x": float(self.space.std(dim=1, correction=0).max()),
        }


def compare_heat_symbol(
    symbol: Symbol,
    exact: Symbol,
    grid: Grid,
    times: Sequence[float],
    *,
    excitation: Tensor,
    network_times: Sequence[float] | Tensor | None = None,
    limit: int = 12,
) -> SymbolComparison:
    """Compare a learned a1(x, t) a2(ξ, t) of one channel to an exact symbol, for |ξ| <= limit.

    `excitation` are the inputs u₀ of the training on its grid, of one axis, (B, 1, N), and
    `network_times` what the learned symbol sees instead of `times`: scaled ones, (T,), or (T, P)
    with PDE parameters.
    """
    stated = times if network_times is None else network_times
    if not times or len(stated) != len(times):
        raise ValueError(f"{len(times)} times and {len(stated)} network times; expected as many")
    if grid.dim != 1 or any((s.in_channels, s.out_channels) != (1, 1) for s in (symbol, exact)):
        raise ValueError("heat has one channel in and out and one axis: give such symbols")
    if not 1 <= limit <= (most := (grid.size - 1) // 2):
        raise ValueError(f"limit is {limit} on {grid.size} points; expected 1 to {most}")
    check_shape("excitation", excitation, "B", 1, grid.size)
    t, t_network = (torch.as_tensor(x, dtype=torch.float64) for x in (times, stated))
    with torch.no_grad():
        values = symbol.evaluate(grid, None, t_network)
        truth = exact.evaluate(grid, None, t).frequency.flatten(1).to(torch.complex128).cpu()
    if values.frequency.shape[1] != 1:
        terms = f"a sum of {values.frequency.shape[1]} products"
        raise ValueError(f"the symbol is {terms}; expected one, a1(x, t) a2(ξ, t)")
    a2 = values.frequency.flatten(1).to(torch.complex128).cpu()
    space = torch.ones(len(a2), grid.size) if values.space is None else values.space
    a1 = space.flatten(1).to(torch.float64).cpu()
    mean, energy = a1.mean(dim=1, keepdim=True), _energy(excitation, grid)
    norms = (energy * truth.abs().square()).sum(dim=1, keepdim=True)
    parts = (mean * a2, truth, (energy / norms).sqrt())
    learned, exact_values, weight = (_both_signs(part[:, : limit + 1]) for part in parts)
    xi, at = torch.arange(-limit, limit + 1), tuple(map(float, times))
    return SymbolComparison(xi, at, learned, exact_values, weight, a1 / mean)


def _energy(excitation: Tensor, grid: Grid) -> Tensor:
    """m(ξ) ⟨|û(ξ)|²⟩ of real fields (B, 1, *N), on the half spectrum."""
    spectrum = transform(excitation.double().cpu(), grid.dim).abs().square().mean(dim=(0, 1))
    return spectrum * hermitian_weights(grid.modes()[..., -1], grid.shape[-1])


def _both_signs(half: Tensor) -> Tensor:
    """Values at ξ >= 0, (T, limit + 1), continued by conjugation to (T, 2·limit + 1)."""
    if half.is_complex():
        half = torch.cat([half[:, :1].real.to(half.dtype), half[:, 1:]], dim=1)
    return torch.cat([half[:, 1:].flip(1).conj(), half], dim=1)


@dataclass(frozen=True)
class VelocityLaw:
    """The symbols b(ξ) of a learned velocity and of Biot-Savart, on the M modes of the data."""

    xi: Tensor  #: (M, 2), half of the modes, as real fields have them
    learned: Tensor  #: b, (2, M), complex128
    exact: Tensor  #: (2, M)
    weight: Tensor  #: w, (M,)

    def error(self) -> float:
        """‖w (b - b*)‖ / ‖w b*‖, the relative error of the velocity of the data."""
        difference = (self.weight * (self.learned - self.exact)).norm()
        return float(difference / (self.weight * self.exact).norm())


def compare_velocity_law(
    head: Transport, grid: Grid, *, excitation: Tensor, deviation: float = 1.0
) -> VelocityLaw:
    """The law u = p K_b[ω]/σ that a head learned from a vorticity, against Biot-Savart's.

    `excitation` are frames of the vorticity ω, (B, 1, *N), and σ is the `deviation` by which the
    normaliser divides them.
    """
    if not isinstance(head.velocity, PseudoDifferentialOperator):
        raise ValueError("the head has no velocity law: take TransportHead(velocity='learned')")
    if grid.dim != 2 or head.channels != 1:
        raise ValueError(f"{head.channels} fields in {grid.dim}D: it takes a vorticity in 2D")
    check_shape("excitation", excitation, "B", 1, *grid.shape)
    with torch.no_grad():
        learned = head.pace.double() / deviation * head.velocity.values(grid).frequency[0, :, 0]
    exact = BiotSavart().evaluate(grid).frequency[0, :, 0]
    xi, weight = grid.modes().flatten(0, 1), _energy(excitation, grid).sqrt().flatten()
    return VelocityLaw(xi, learned.cpu().flatten(1), exact.flatten(1), weight)


def roughness(symbol: Tensor) -> float:
    """The roughness of a real symbol (O, I, *N^) in ξ: the mean over its pairs of channels.

    rms of the differences of neighbours / (√2 · standard deviation) is 1 for independent values
    and near 0 for a smooth function; NaN where all pairs are constant.
    """
    values = symbol.detach().double()
    for axis in range(2, symbol.dim() - 1):  # from the order of the FFT to -k, ..., k - 1
        values = values.roll(symbol.shape[axis] // 2, axis)
    ratios = []
    for pair in values.flatten(0, 1):
        steps = torch.cat([pair.diff(dim=axis).flatten() for axis in range(pair.dim())])
        if (deviation := pair.std(correction=0)) > 0:
            ratios.append(float(steps.square().mean().sqrt() / (2**0.5 * deviation)))
    return sum(ratios) / len(ratios) if ratios else math.nan
