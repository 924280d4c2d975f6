"""Symbol recovery: has the network found the symbol of the heat equation?

The solution operator u₀ -> u(t) has the symbol e^{-4π²cξ²t}. A trained a(x, ξ, t) = a1(x, t)
a2(ξ, t) is compared with it at integer ξ, with a1 averaged over x as in the paper's figure 3:

    ā(ξ, t) = (1/N Σ_x a1(x, t)) a2(ξ, t)        against        e^{-4π²cξ²t}

Only ξ >= 0 acts on real functions. What the networks say at -ξ is never used and never trained, so
the operator has the values ā(-ξ) = conj ā(ξ), and at ξ = 0 the real part.

Which modes can be known. An error δ of the symbol at ±ξ changes the relative L2 error at time t by
|δ|·w, at rms over the inputs,

    w(ξ, t)² = m(ξ) ⟨|û₀(ξ)|²⟩ / ⟨‖u(t)‖²⟩,        m = 2 for a pair ±ξ, 1 at ξ = 0.

Data excite a mode where w is at least a threshold. The solution's own share w·e^{-4π²cξ²t} is no
measure of this: a mode that has died out still tells that the symbol must be small there. With
w = 0.1 a relative error of 0.01 bounds |δ| by 0.1. Elsewhere the learned values are whatever the
smoothness of the networks makes of their neighbours.
"""

__all__ = ["SymbolComparison", "compare_heat_symbol"]

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pdno.fourier import transform
from pdno.grid import Grid, hermitian_weights
from pdno.symbols.base import Symbol, SymbolValues

THRESHOLD = 0.1
"""w from which on a mode counts as excited."""


@dataclass(frozen=True)
class SymbolComparison:
    """Learned and exact symbol on times and modes, all float64 or complex128 on the CPU.

    Shapes: M = 2·limit + 1 modes ξ = -limit, ..., limit; T times; N points.

    Arguments:
        xi: The modes, (M,).
        times: The times.
        learned: ā, (T, M).
        exact: The exact symbol, (T, M).
        weight: w, (T, M).
        space: a1(x, t) over its mean in x, (T, N).
        threshold: w from which on a mode counts as excited.
    """

    xi: Tensor
    times: tuple[float, ...]
    learned: Tensor
    exact: Tensor
    weight: Tensor
    space: Tensor
    threshold: float

    @property
    def difference(self) -> Tensor:
        """|learned - exact|, (T, M)."""
        return (self.learned - self.exact).abs()

    @property
    def excited(self) -> Tensor:
        """Where the data excite a mode, (T, M)."""
        return self.weight >= self.threshold

    @property
    def largest(self) -> float:
        """The largest difference of all."""
        return float(self.difference.max())

    @property
    def largest_excited(self) -> float:
        """The largest difference where the data excite the mode; NaN where they excite none."""
        found = self.difference[self.excited]
        return float(found.max()) if len(found) else float("nan")

    @property
    def variation(self) -> Tensor:
        """Standard deviation of a1 over x relative to its mean, (T,); 0 for a symbol a(ξ, t)."""
        return self.space.std(dim=1, correction=0)

    def metrics(self) -> dict[str, float]:
        """The numbers by name, for rows."""
        return {
            "symbol difference": self.largest,
            "symbol difference excited": self.largest_excited,
            "symbol variation over x": float(self.variation.max()),
        }


def compare_heat_symbol(
    symbol: Symbol,
    exact: Symbol,
    grid: Grid,
    times: Sequence[float],
    *,
    excitation: Tensor,
    seen_times: Sequence[float] | None = None,
    limit: int = 12,
    threshold: float = THRESHOLD,
) -> SymbolComparison:
    """Compare a learned symbol of one channel with the exact one.

    Arguments:
        symbol: a1(x, t) a2(ξ, t), or a2(ξ, t) alone.
        exact: The exact symbol, for example `pdno.symbols.Heat(0.05)`.
        grid: The grid of the training, of one axis.
        times: Times to compare at.
        excitation: The inputs u₀ of the training on that grid, (B, 1, N).
        seen_times: What the learned symbol sees of `times` where it was trained on scaled ones;
            None for the times themselves.
        limit: Largest |ξ|.
        threshold: w from which on a mode counts as excited.
    """
    seen = times if seen_times is None else seen_times
    if not times or len(seen) != len(times):
        raise ValueError(f"{len(times)} times and {len(seen)} seen ones; expected one for each")
    _check(symbol, exact, grid, excitation, limit)
    t = torch.tensor(times, dtype=torch.float64)
    with torch.no_grad():
        values = symbol.evaluate(grid, None, torch.tensor(seen, dtype=torch.float64))
        truth = exact.evaluate(grid, None, t).frequency.flatten(1).to(torch.complex128).cpu()
    a1, a2 = _factors(values, grid)
    mean = a1.mean(dim=1, keepdim=True)
    return SymbolComparison(
        xi=torch.arange(-limit, limit + 1),
        times=tuple(float(time) for time in times),
        learned=_both_signs((mean * a2)[:, : limit + 1]),
        exact=_both_signs(truth[:, : limit + 1]),
        weight=_both_signs(_weights(excitation, truth, grid)[:, : limit + 1]),
        space=a1 / mean,
        threshold=threshold,
    )


def _factors(values: SymbolValues, grid: Grid) -> tuple[Tensor, Tensor]:
    """a1 (T, N) and a2 (T, N^), in double precision on the CPU."""
    if values.frequency.shape[1] != 1:
        raise ValueError(
            f"the symbol is a sum of {values.frequency.shape[1]} products; expected one, "
            "a1(x, t) a2(ξ, t)"
        )
    a2 = values.frequency.flatten(1).to(torch.complex128).cpu()
    if values.space is None:
        return torch.ones(len(a2), grid.size, dtype=torch.float64), a2
    return values.space.flatten(1).to(torch.float64).cpu(), a2


def _both_signs(half: Tensor) -> Tensor:
    """Values at ξ >= 0, (T, limit + 1), continued by conjugation to (T, 2·limit + 1)."""
    if half.is_complex():
        half = half.clone()
        half[:, 0] = half[:, 0].real.to(half.dtype)
    return torch.cat([half[:, 1:].flip(1).conj(), half], dim=1)


def _weights(inputs: Tensor, exact: Tensor, grid: Grid) -> Tensor:
    """w at ξ >= 0, (T, N^)."""
    energy = transform(inputs.to(torch.float64).cpu(), 1).abs().square().mean(dim=(0, 1))
    xi = grid.modes()[:, 0]
    energy = energy * hermitian_weights(xi, grid.size)
    norms = (energy * exact.abs().square()).sum(dim=1, keepdim=True)
    return (energy / norms).sqrt()


def _check(symbol: Symbol, exact: Symbol, grid: Grid, excitation: Tensor, limit: int) -> None:
    channels = [(s.in_channels, s.out_channels) for s in (symbol, exact)]
    if grid.dim != 1 or channels != [(1, 1)] * 2:
        raise ValueError(
            f"symbols of {channels} channels on a grid of {grid.dim} axes; expected one channel "
            "in and out on one axis"
        )
    if not 1 <= limit <= (grid.size - 1) // 2:
        raise ValueError(
            f"limit is {limit} on {grid.size} points; expected 1 to {(grid.size - 1) // 2}"
        )
    if excitation.dim() != 3 or excitation.shape[1] != 1 or not len(excitation):
        raise ValueError(f"excitation has shape {tuple(excitation.shape)}; expected (B, 1, N)")
    grid.check(excitation, "excitation")
