"""How long a rollout is guaranteed: from the factor of a step and its residuals.

With frames u_k, a step S, the rollout û_{k+1} = S(û_k), û_0 = u_0, and factors L_k with
‖S(u_k) - S(û_k)‖ <= L_k ‖u_k - û_k‖, the errors E_k = ‖u_k - û_k‖ obey

    E_{k+1} <= ‖u_{k+1} - S(u_k)‖ + L_k E_k,    E_0 = 0.

For S(u) = e^{A(D)} u + B(D) σ(W u + b) and fields with values c_i ± r_i in channel i, each slope
σ'(z_h) lies in an interval d_h ± e_h, since |z_h - b_h - Σ_i W_hi c_i| <= Σ_i |W_hi| r_i, and

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

from pdno.networks.semigroup import SemigroupStep
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.spectral.fourier import whole_spectrum
from pdno.spectral.grid import Grid
from pdno.theory.interval import FUNCTIONS

SLACK = 1 + 1e-10  # of rounding in float64


@dataclass(frozen=True)
class RolloutGuarantee:
    """What is proven of a rollout, and what happens, relative to ‖u_k‖, (B, T)."""

    factors: Tensor  #: L_k
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
    ends = step.local.weight.new_full((step.in_channels,), largest)
    return _factor(step, _multipliers(step, grid), -ends, ends)


@torch.no_grad()
def guarantee(step: SemigroupStep, frames: Tensor, grid: Grid) -> RolloutGuarantee:
    """Bound and error of rollouts from the first of some frames (B, T + 1, C, *N)."""
    step, frames = copy.deepcopy(step).double(), frames.double()
    acting, at = _multipliers(step, grid), frames[:, 0]
    bound, rows = torch.zeros(len(frames), dtype=torch.float64), list[Tensor]()
    for now, then in zip(frames[:, :-1].unbind(1), frames[:, 1:].unbind(1), strict=True):
        both = torch.stack([now, at]).flatten(3)
        ends = zip(both.amin(dim=(0, 3)), both.amax(dim=(0, 3)), strict=True)
        factors = bound.new_tensor([_factor(step, acting, low, high) for low, high in ends])
        bound = (_norm(then - step(now, grid=grid)) + factors * bound) * SLACK
        at = step(at, grid=grid)
        rows.append(torch.stack([factors, bound / _norm(then), _norm(then - at) / _norm(then)]))
    return RolloutGuarantee(*torch.stack(rows, dim=-1))


def _factor(
    step: SemigroupStep, acting: tuple[Tensor, Tensor], low: Tensor, high: Tensor
) -> float:
    """L on fields with values between two numbers in each channel."""
    weight, (semigroup, forcing) = step.local.weight, acting
    middle = torch.where(low.isinf(), 0.0, 0.5 * (low + high))
    radius = weight.abs() @ torch.maximum(high - middle, middle - low)
    slopes, reach = _slopes(step.local.bias + weight @ middle, radius * SLACK)
    root = reach.sqrt()
    centre = semigroup + forcing @ (slopes[:, None] * weight).to(forcing)
    rest = _largest(forcing * root) * torch.linalg.matrix_norm(root[:, None] * weight, 2)
    return float(_largest(centre) + rest) * SLACK


def _slopes(bias: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
    """d and e with GELU'(z) in d ± e for |z - b| <= radius; it turns at ±√2."""
    ends = [bias - radius, bias + radius]
    turns = [torch.full_like(bias, turn).clamp(*ends) for turn in (-math.sqrt(2), math.sqrt(2))]
    found = torch.stack([_slope(z.clamp(-40.0, 40.0)) for z in (*ends, *turns)])
    low, high = found.amin(dim=0), found.amax(dim=0)
    return 0.5 * (low + high), 0.5 * (high - low) * SLACK


def _slope(z: Tensor) -> Tensor:
    return FUNCTIONS["gelu"].derivatives(z)[1]


def _multipliers(step: SemigroupStep, grid: Grid) -> tuple[Tensor, Tensor]:
    """e^A and B."""
    return _multiplier(step.semigroup, grid), _multiplier(step.forcing, grid)


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
