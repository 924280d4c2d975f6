"""Evolution equations ∂u/∂t = L u + N(u) on the torus, as two pieces: a symbol and a function.

L is linear with constant coefficients, so in Fourier space it is a multiplication by its symbol
L(ξ); N is everything else. Solvers know only this contract (`Semilinear`), equations never know
the solver. What a solver needs to choose its step is in the contract too: how fast the flow
carries and deforms (`FlowRates`).
"""

__all__ = ["EvolutionEquation", "FlowRates", "Semilinear"]

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from pdno.equations.symmetries import Symmetries, box_symmetries
from pdno.grid import Grid


@dataclass(frozen=True)
class FlowRates:
    """Rates of a flow, one number per sample, in 1/time.

    Arguments:
        carry: max_x Σ_j 2π K_j |v_j(x)| with v the velocity and K_j the largest kept mode: the
            highest frequency with which the flow turns a mode.
        damped: max_x |v|²/ν: above this frequency diffusion wins over the flow at every mode.
        deform: How fast the solution itself changes: the largest velocity gradient, and the decay
            of the largest scale where diffusion is strong.
    """

    carry: Tensor
    damped: Tensor
    deform: Tensor


@dataclass(frozen=True)
class Semilinear:
    """An equation on a grid: û_t = L(ξ) û + N(û) on the kept modes.

    Shapes: û (B, C, *N^) complex128 on the kept modes of the grid.

    Arguments:
        linear: L(ξ), shape (*N^), float64 or complex128.
        modes: Kept modes per axis (None: all of that axis), as in `pdno.fourier`.
        nonlinear: N, or None for a linear equation.
        rates: The rates of the flow at a state, or None for a linear equation.
        deformation: How much of `FlowRates.deform` one step may cover; less is more exact.
    """

    linear: Tensor
    modes: tuple[int | None, ...]
    nonlinear: Callable[[Tensor], Tensor] | None = None
    rates: Callable[[Tensor], FlowRates] | None = None
    deformation: float = 0.1


class EvolutionEquation(ABC):
    """An equation whose state is a real field (B, C, *N) on a periodic grid."""

    dim: int | None = None
    """Number of space dimensions, or None for any."""

    @abstractmethod
    def discretise(self, grid: Grid, device: torch.device | None = None) -> Semilinear:
        """The equation on the modes of `grid`."""

    def symmetries(self, grid: Grid) -> Symmetries:
        """The maps of states on `grid` that turn solutions into solutions; at least x -> x."""
        return Symmetries(box_symmetries(grid)[:1])

    def check(self, state: Tensor) -> Grid:
        """The grid of a state (B, 1, *N), or ValueError."""
        dim = self.dim if self.dim is not None else state.dim() - 2
        name = type(self).__name__
        if state.dim() != dim + 2 or dim < 1 or state.shape[1] != 1:
            axes = ", ".join(f"N{axis + 1}" for axis in range(max(dim, 1)))
            raise ValueError(
                f"{name} got a state of shape {tuple(state.shape)}; expected (B, 1, {axes}): "
                "add batch and channel axes with state[None, None] or move channels first"
            )
        if not state.dtype.is_floating_point:
            raise ValueError(f"{name} got a state of type {state.dtype}; expected real floats")
        finite = torch.isfinite(state).flatten(1).all(dim=1)
        if not bool(finite.all()):
            index = int((~finite).nonzero()[0])
            raise ValueError(f"{name}: the initial state of sample {index} has NaN or infinity")
        return Grid(tuple(state.shape[2:]))
