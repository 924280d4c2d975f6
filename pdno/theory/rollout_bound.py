"""How long a rollout is guaranteed: from the factor of a step and its residuals.

With frames u_k, a step S of which S(u) and S(v) are at most L ‖u - v‖ apart, and the rollout
û_{k+1} = S(û_k), û_0 = u_0, the errors E_k = ‖u_k - û_k‖ obey

    E_{k+1} <= ‖u_{k+1} - S(u_k)‖ + L E_k,      so    E_T <= Σ_{k<T} L^{T-1-k} ‖u_{k+1} - S(u_k)‖.

For S(u) = e^{A(D)} u + B(D) σ(W u + b) and fields with |u| <= U, each slope σ'(z_h) lies in an
interval d_h ± e_h, since |z_h - b_h| <= U Σ_i |W_hi|, and

    L = max_ξ ‖e^{A(ξ)} + B(ξ) diag(d) W‖₂ + max_ξ ‖B(ξ) diag(e)^{1/2}‖₂ ‖diag(e)^{1/2} W‖₂,

because S(u) - S(v) = (e^A + B diag(σ') W)(u - v) with slopes between those of u and v. The maxima
are over the modes of the grid, by what acts there; norms are those of L2 on it.
"""

__all__ = ["RolloutGuarantee", "guarantee", "step_factor"]

import copy
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pdno.fourier import whole_spectrum
from pdno.grid import Grid
from pdno.networks.semigroup import SemigroupStep
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.theory.interval import FUNCTIONS

SLACK = 1 + 1e-10  # of rounding in float64


@dataclass(frozen=True)
class RolloutGuarantee:
    """What is proven of a rollout, and what happens, relative to ‖u_k‖, (B, T)."""

    factor: float  #: L
    largest: float  #: U
    bound: Tensor  #: of the relative error after each step
    error: Tensor  #: that was made

    def steps(self, tolerance: float, *, made: bool = False) -> list[int]:
        """For each sample the steps up to which the bound, or the error, is within a tolerance."""
        within = (self.error if made else self.bound) <= tolerance
        return [int(row.long().cumprod(dim=0).sum()) for row in within]


@torch.no_grad()
def step_factor(step: SemigroupStep, grid: Grid, largest: float = math.inf) -> float:
    """L on fields whose values are at most `largest`, in float64."""
    step = copy.deepcopy(step).double()
    weight, bias = step.local.weight, step.local.bias
    slopes, reach = _slopes(bias, largest * weight.abs().sum(dim=1))
    semigroup, forcing = (_multiplier(one, grid) for one in (step.semigroup, step.forcing))
    root = reach.sqrt()
    centre = semigroup + forcing @ (slopes[:, None] * weight).to(forcing)
    rest = _largest(forcing * root) * torch.linalg.matrix_norm(root[:, None] * weight, 2)
    return float(_largest(centre) + rest) * SLACK


@torch.no_grad()
def guarantee(step: SemigroupStep, frames: Tensor, grid: Grid) -> RolloutGuarantee:
    """Bound and error of rollouts from the first of some frames (B, T + 1, C, *N)."""
    step, frames = copy.deepcopy(step).double(), frames.double()
    true, at = frames[:, 1:], frames[:, 0]
    residuals, errors, largest = list[Tensor](), list[Tensor](), float(frames.abs().max())
    for k in range(true.shape[1]):
        at = step(at, grid=grid)
        residuals.append(_norm(true[:, k] - step(frames[:, k], grid=grid)))
        errors.append(_norm(true[:, k] - at))
        largest = max(largest, float(at.abs().max()))
    factor, bound, bounds = step_factor(step, grid, largest), torch.zeros(()), list[Tensor]()
    for residual in residuals:
        bound = residual + factor * bound
        bounds.append(bound)
    size = _norm(true.flatten(0, 1)).reshape(true.shape[:2])
    over = torch.stack(bounds, dim=1) / size
    return RolloutGuarantee(factor, largest, over, torch.stack(errors, dim=1) / size)


def _slopes(bias: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
    """d and e with GELU'(z) in d ± e for |z - b| <= radius; it turns at ±√2."""
    ends = [bias - radius, bias + radius]
    turns = [torch.full_like(bias, turn).clamp(*ends) for turn in (-math.sqrt(2), math.sqrt(2))]
    found = torch.stack([_slope(z.clamp(-40.0, 40.0)) for z in (*ends, *turns)])
    low, high = found.amin(dim=0), found.amax(dim=0)
    return 0.5 * (low + high), 0.5 * (high - low) * SLACK


def _slope(z: Tensor) -> Tensor:
    return FUNCTIONS["gelu"].derivatives(z)[1]


def _multiplier(operator: PseudoDifferentialOperator, grid: Grid) -> Tensor:
    """What acts on each mode of the grid, (|N|, O, I)."""
    t = 1.0 if getattr(operator.symbol, "takes_time", False) else None
    values = operator.values(grid, t).frequency[0]
    return whole_spectrum(values, grid, operator.modes).flatten(2).permute(2, 0, 1)


def _largest(matrices: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.matrix_norm(matrices, 2)
    return norms.max()


def _norm(u: Tensor) -> Tensor:
    """L2 norms of (B, C, *N)."""
    return u.flatten(1).square().sum(dim=1).sqrt()
