"""Evolution equations ∂u/∂t = L u + N(u) on the torus, as two pieces: a symbol and a function.

L is linear with constant coefficients, in Fourier space a multiplication by its symbol L(ξ); N is
everything else. Solvers depend on this contract alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from pdno.equations.symmetries import Symmetries, box_symmetries
from pdno.interface.errors import check_choice, check_shape
from pdno.spectral.calculus import Dealiasing
from pdno.spectral.fourier import inverse, transform
from pdno.spectral.grid import Grid


@dataclass(frozen=True)
class Scheme:
    """Dealiasing, time step and precision of the solver of a nonlinear equation.

    "two-thirds" keeps the modes |ξ_j| < N_j/3, free of aliasing; "smooth" damps the last tenth of
    them only, so that a turbulent flow needs fewer points. `angle` is the largest angle by which a
    step may turn a mode, up to 2.8, where steps get unstable. Single precision is twice as fast.
    """

    dealiasing: Dealiasing = "two-thirds"
    angle: float = 1.25
    precision: Literal["single", "double"] = "double"

    def __post_init__(self) -> None:
        check_choice("dealiasing", self.dealiasing, ("two-thirds", "smooth"))
        check_choice("precision", self.precision, ("single", "double"))
        if not 0 < self.angle <= 2.8:
            raise ValueError(f"angle is {self.angle}; expected a number above 0, at most 2.8")

    @property
    def dtype(self) -> torch.dtype:
        """That of real fields."""
        return torch.float32 if self.precision == "single" else torch.float64


ACCURATE, FAST = Scheme(), Scheme("smooth", 2.7, "single")


@dataclass(frozen=True)
class FlowRates:
    """Rates of a flow, one number per sample, in 1/time, from which a solver chooses its step."""

    carry: Tensor
    """max_x Σ_j 2π K_j |v_j(x)|, K_j the largest kept mode: how fast the flow turns a mode."""
    damped: Tensor
    """max_x |v|²/ν: above this frequency diffusion wins over the flow at every mode."""
    deform: Tensor
    """How fast the solution changes: largest velocity gradient, decay of the largest scale."""


@dataclass(frozen=True)
class Semilinear:
    """An equation on a grid: û_t = L(ξ) û + N(û), û (B, C, *N^) complex128 on the kept modes.

    A linear equation has neither N (`nonlinear`) nor rates of a flow.
    """

    linear: Tensor
    """L(ξ), float64 or complex128: (*N^) for all fields alike, (C, *N^) for each field, or a
    matrix (C, C, *N^) that couples them."""
    modes: tuple[int | None, ...]
    """Kept modes per axis (None: all of that axis), as in `pdno.spectral.fourier`."""
    nonlinear: Callable[[Tensor], Tensor] | None = None
    rates: Callable[[Tensor], FlowRates] | None = None
    deformation: float = 0.1
    """How much of `FlowRates.deform` one step may cover; less is more exact."""
    band: Tensor | None = None
    """What multiplies the modes of initial states and of N(û), (*N^); None stands for 1."""

    def coefficients(self, u: Tensor) -> Tensor:
        """û of fields (B, C, *N): what they have in other modes is left out."""
        u_hat = transform(u.double(), len(self.modes), self.modes)
        return u_hat if self.band is None else u_hat * self.band


def apply_linear(table: Tensor, u_hat: Tensor) -> Tensor:
    """A function of L times û, (*N^), (C, *N^) or (C, C, *N^) on (B, C, *N^)."""
    if table.dim() < u_hat.dim():
        return table * u_hat
    return torch.einsum("ij...,bj...->bi...", table.to(u_hat.dtype), u_hat)


class EvolutionEquation(ABC):
    """An equation whose state is `fields` real fields (B, C, *N) on a periodic grid."""

    dim: int | None = None
    """Number of space dimensions, or None for any."""
    fields: int = 1
    """Number of fields, C."""
    scheme: Scheme = ACCURATE
    """How solvers step the equation; `discretise` has to follow a scheme that may be chosen."""

    @abstractmethod
    def discretise(self, grid: Grid, device: torch.device | None = None) -> Semilinear:
        """The equation on the modes of `grid`, as its scheme says."""

    def rate(self, u: Tensor) -> Tensor:
        """L u + N(u) of real fields (B, C, *N) on the torus, on the modes that a solver keeps.

        It may be differentiated. What u has in other modes is left out.
        """
        grid = Grid(tuple(u.shape[2:]))
        parts = self.discretise(grid, u.device)
        u_hat = parts.coefficients(u)
        total = apply_linear(parts.linear, u_hat)
        if parts.nonlinear is not None:
            change = parts.nonlinear(u_hat)
            total = total + (change if parts.band is None else change * parts.band)
        return inverse(total, grid.shape, parts.modes).to(u.dtype)

    def symmetries(self, grid: Grid) -> Symmetries:
        """The maps of states on `grid` that turn solutions into solutions; at least x -> x."""
        return Symmetries(box_symmetries(grid)[:1])

    def check(self, state: Tensor) -> Grid:
        """The grid of a state (B, C, *N), or ValueError."""
        name = f"a state of {type(self).__name__}"
        axes = [f"N{axis + 1}" for axis in range(self.dim)] if self.dim else ["*N"]
        cure = "add batch and channel axes with state[None, None] or move channels first"
        check_shape(name, state, "B", self.fields, *axes, cure=cure)
        if not state.dtype.is_floating_point:
            raise ValueError(f"{name} has type {state.dtype}; expected real floats")
        for sample in (~state.isfinite()).flatten(1).any(dim=1).nonzero():
            raise ValueError(f"{name} has NaN or infinity in sample {int(sample)}")
        return Grid(tuple(state.shape[2:]))
