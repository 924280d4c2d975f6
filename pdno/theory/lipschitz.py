"""Error amplification of networks and rollouts: proved and probable Lipschitz constants in L2.

    u = Q ∘ (W_L + K_L) ∘ σ(W_{L-1} + K_{L-1}) ∘ ... ∘ σ(W_1 + K_1) ∘ P [f, x]

Coordinates are constant, so only the columns of P that f meets count; padding with zeros and
cutting off have norm one. Derivations are in docs/theory_operators.md.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import partial
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional

from pdno.networks.neural_operator import NeuralOperator, PointwiseLinear, cut, perceptron
from pdno.networks.pdno import SemigroupStep
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.spectral.fourier import whole_spectrum
from pdno.spectral.grid import Grid
from pdno.theory.interval import FUNCTIONS
from pdno.theory.norms import (
    LinearMap,
    evaluated,
    fresh_generator,
    norm_bound,
    operator_norm,
    spectral_norms,
)

GELU_LIPSCHITZ = (1 + math.erf(1)) / 2 + 1 / (math.e * math.sqrt(math.pi))
"""GELU'' = φ(z) (2 - z²) vanishes at z = ±√2: it is GELU'(√2) = Φ(√2) + √2 φ(√2)."""

GELU_CURVATURE = 2 / math.sqrt(2 * math.pi)
"""sup |GELU''| = 2 φ(0)."""

STEPS = 60  # of the iteration for probable bounds: three percent above, for 2^16 numbers
SLACK = 1 + 1e-10  # of rounding in float64


@dataclass(frozen=True)
class LayerConstants:
    """The constants of one layer; None where a layer has no such part."""

    name: str
    bound: float  #: of its Lipschitz constant, from above
    estimate: float  #: the same with ‖W + K‖ by iteration, from below
    local: float | None = None  #: ‖W‖
    operator: float | None = None  #: ‖K‖ by iteration, from below
    operator_bound: float | None = None  #: of ‖K‖, from above


@dataclass(frozen=True)
class LipschitzReport:
    """sampled <= Lip(u) <= bound."""

    layers: tuple[LayerConstants, ...]
    sampled: float | None  #: the largest norm of the derivative at the states
    probable: float  #: a bound by norms of products, wrong with a probability of at most `failure`
    failure: float

    @property
    def bound(self) -> float:
        """‖P‖ · Π_l Lip(σ) ‖W_l + K_l‖ · ‖Q₂‖ Lip(σ) ‖Q₁‖, the product of the layers' bounds."""
        return math.prod(layer.bound for layer in self.layers)

    def __str__(self) -> str:
        names = ("‖W‖", "‖K‖ >=", "‖K‖ <=", "Lip ~", "Lip <=")
        lines = [f"{'layer':<12}" + "".join(f"{name:>10}" for name in names)]
        for layer in self.layers:
            name, bound, estimate, *parts = astuple(layer)
            cells = ["" if n is None else f"{n:.4g}" for n in (*parts, estimate, bound)]
            lines.append(f"{name:<12}" + "".join(f"{cell:>10}" for cell in cells))
        below = "" if self.sampled is None else f"{self.sampled:.4g} <= "
        probable = f"Lip(u) <= {self.probable:.4g} with probability at least 1 - {self.failure:g}"
        return "\n".join([*lines, probable, f"{below}Lip(u) <= {self.bound:.4g}"])


def lipschitz_report(
    network: NeuralOperator,
    grid: Grid,
    *,
    states: Tensor | None = None,
    t: float | None = None,
    iterations: int = 300,
    tolerance: float = 1e-5,
    failure: float = 1e-9,
    generator: torch.Generator | None = None,
) -> LipschitzReport:
    """Lipschitz constants of a network with the activation GELU on a grid, in L2 and float64.

    The derivative is sampled at states (B, C, *N); iterations, tolerance and generator are those
    of `pdno.theory.norms.operator_norm`. `failure` is the probability, over the starts that the
    generator draws, that `probable` is no bound.
    """
    if network.activation is not functional.gelu or network.extension is not None:
        raise ValueError("the network reflects its input or has another activation than GELU")
    generator = fresh_generator() if generator is None else generator
    parts = _LinearParts(network, grid, t)
    estimate = partial(
        operator_norm, iterations=iterations, tolerance=tolerance, generator=generator
    )
    lift, project = _norm(parts.lift), _norm(parts.project) * GELU_LIPSCHITZ * _norm(parts.hidden)
    layers = [LayerConstants("lift", lift, lift, local=lift)]
    for number, (block, kernel) in enumerate(zip(parts.blocks, parts.kernels, strict=True)):
        below, alone = (
            estimate(part, parts.inner, channels=network.width).value for part in (block, kernel)
        )
        operator, weight = parts.operators[number], parts.locals[number].weight
        slope, shift = (GELU_LIPSCHITZ if number < parts.last else 1.0), 0.0
        if parts.feed_forward:  # v + F[(W + K) v]
            first, second = parts.feed_forward[number]
            slope, shift = _norm(second.weight) * GELU_LIPSCHITZ * _norm(first.weight), 1.0
        most = norm_bound(operator, parts.inner, t=t).value
        together = norm_bound(operator, parts.inner, t=t, local=weight).value
        bound = shift + slope * min(together, _norm(weight) + most)
        constants = bound, shift + slope * below, _norm(weight), alone, most
        layers.append(LayerConstants(f"block {number + 1}", *constants))
    layers.append(LayerConstants("project", project, project))
    slopes = [parts.derivative(parts.slopes(f[None])) for f in ([] if states is None else states)]
    sampled = [estimate(slope, grid, channels=network.in_channels).value for slope in slopes]
    most_of = parts.bound_by_blocks if parts.feed_forward else parts.bound_by_products
    probable = min(most_of(failure, generator), math.prod(layer.bound for layer in layers))
    return LipschitzReport(tuple(layers), max(sampled, default=None), probable, failure)


def local_bound(
    network: NeuralOperator,
    state: Tensor,
    radius: float,
    *,
    grid: Grid | None = None,
    t: float | None = None,
    failure: float = 1e-9,
    generator: torch.Generator | None = None,
) -> float:
    """A bound of ‖u(g) - u(h)‖ / ‖g - h‖ for all g, h at most `radius` from a state f (1, C, *N).

    Norms are means over the points; the bound is wrong with a probability of at most `failure`
    over the starts that the generator draws, each time others without one.
    With the radius it falls to the norm of the derivative at f. Blocks are those of the paper.
    """
    if network.expand or network.activation is not functional.gelu:
        raise ValueError("the network has residual blocks or another activation than GELU")
    grid = grid or Grid(tuple(state.shape[2:]))
    parts = _LinearParts(network, grid, t)
    generator = fresh_generator() if generator is None else generator
    radius *= math.sqrt(grid.size)
    return parts.bound_by_products(failure, generator, parts.slopes(state), radius)


def linearise(
    network: NeuralOperator, state: Tensor, *, grid: Grid | None = None, t: float | None = None
) -> LinearMap:
    """J at a state f (1, C, *N), a linear map (B, C, *N) -> (B, O, *N), float64.

    It is exact: the layers without their biases, with the values z at f before each σ,

        J δf = Q₂ σ'(z_Q) Q₁ (W_L + K_L) σ'(z_{L-1}) ... σ'(z_1) (W_1 + K_1) P δf.

    Without a grid it is periodic.
    """
    parts = _LinearParts(network, grid or Grid(tuple(state.shape[2:])), t)
    return parts.derivative(parts.slopes(state))


class _LinearParts:
    """The linear maps of a network on a grid in float64, its symbols evaluated once."""

    def __init__(self, network: NeuralOperator, grid: Grid, t: float | None) -> None:
        if network.head is not None:
            raise ValueError("the network has a head, which is not linearised; expected none")
        self.network, self.grid = copy.deepcopy(network).double().requires_grad_(False), grid
        self.network.unfreeze()
        self.inner, self.last = network.inner_grid(grid), len(network.operators) - 1
        self.operators = cast("list[PseudoDifferentialOperator]", list(self.network.operators))
        self.locals = cast("list[PointwiseLinear]", list(self.network.locals))
        self.kernels = [evaluated(operator, self.inner, t) for operator in self.operators]
        pairs = zip(self.kernels, self.locals, strict=True)
        self.blocks = [partial(_block, kernel, local.weight) for kernel, local in pairs]
        modules = zip(self.network.expand, self.network.contract, strict=True)
        self.feed_forward = cast("list[tuple[PointwiseLinear, PointwiseLinear]]", list(modules))
        self.lift = self.network.lift.weight[:, : network.in_channels]
        self.hidden, self.project = self.network.project_hidden.weight, self.network.project.weight

    @torch.no_grad()
    def slopes(self, state: Tensor) -> list[Tensor]:
        """σ'(z) at a state for each σ, the last one in the projection."""
        slopes, network = list[Tensor](), self.network
        v = network.enter(state.double(), self.grid)
        for number, (block, local) in enumerate(zip(self.blocks, self.locals, strict=True)):
            z = block(v) + local.bias.reshape(-1, *[1] * self.grid.dim)
            if self.feed_forward:
                first, second = self.feed_forward[number]
                slopes.append(_slope(functional.gelu, first(z)))
                v = v + perceptron(first, second, z)
            elif number < self.last:
                slopes.append(_slope(network.activation, z))
                v = network.activation(z)
            else:
                v = z
        return [*slopes, _slope(network.activation, network.project_hidden(cut(v, self.grid)))]

    def derivative(self, slopes: list[Tensor]) -> LinearMap:
        """J, from the slopes at a state."""
        return partial(self._chain, slopes, 0, self.last + 1)

    def _chain(self, slopes: list[Tensor] | None, first: int, last: int, v: Tensor) -> Tensor:
        """A_last d_last ... d_{first+1} A_first v, with the slopes at a state or 1/2."""
        for number in range(first, last + 1):
            if number > first and (number > self.last or not self.feed_forward):
                index = -1 if number > self.last else number - 1
                v = (0.5 if slopes is None else slopes[index]) * v
            if number > self.last:
                return _mix(self.project, v)
            v = self.network.surround(_mix(self.lift, v), self.grid) if number == 0 else v
            z = self.blocks[number](v)
            if self.feed_forward and slopes is not None:
                up, down = (module.weight for module in self.feed_forward[number])
                z = v + _mix(down, slopes[number] * _mix(up, z))
            v = _mix(self.hidden, cut(z, self.grid)) if number == self.last else z
        return v

    def bound_by_blocks(self, failure: float, generator: torch.Generator) -> float:
        """‖P‖ · Π (1 + ‖W₂‖ Lip(σ) ‖W₁ (W + K)‖) · ‖Q₂‖ Lip(σ) ‖Q₁‖: blocks cannot be merged."""
        bound = _norm(self.lift) * _norm(self.project) * GELU_LIPSCHITZ * _norm(self.hidden)
        chance, width = failure / len(self.blocks), self.network.width
        for block, (first, second) in zip(self.blocks, self.feed_forward, strict=True):
            inside = partial(_mix_after, first.weight, block)
            norm = _norm_above(inside, self.inner, width, chance, generator)
            bound *= 1 + _norm(second.weight) * GELU_LIPSCHITZ * norm
        return bound

    def bound_by_products(
        self,
        failure: float,
        generator: torch.Generator,
        slopes: list[Tensor] | None = None,
        radius: float = 0.0,
    ) -> float:
        """T_L, everywhere or, with the slopes d at a state, on a ball of some radius around it.

            T_j = N_0j + Σ_{i=1..j} N_ij ε_i T_{i-1},   N_ij = ‖A_j d_j A_{j-1} ... d_{i+1} A_i‖,

        as in docs/theory_operators.md. All N_ij hold with probability at least 1 - `failure`.
        """
        count = self.last + 2
        chance = 2 * failure / (count * (count + 1))
        bounds, deviations = list[float](), list[float]()  # T and ε
        for j in range(count):
            if j and slopes is None:
                deviations.append(GELU_LIPSCHITZ - 0.5)
            elif j:
                near = GELU_CURVATURE * bounds[-1] * radius
                deviations.append(min(near, 0.5 + GELU_LIPSCHITZ))
            norms = [_norm(self.project)] * (j + 1)
            for i in range(min(j, self.last) + 1):
                channels = self.network.width if i else self.network.in_channels
                chain, grid = partial(self._chain, slopes, i, j), self.inner if i else self.grid
                norms[i] = _norm_above(chain, grid, channels, chance, generator)
            rest = (n * e * b for n, e, b in zip(norms[1:], deviations, bounds, strict=True))
            bounds.append(norms[0] + sum(rest))
        return bounds[-1]


def _block(kernel: LinearMap, weight: Tensor, v: Tensor) -> Tensor:
    """(W + K) v."""
    return _mix(weight, v) + kernel(v)


def _norm_above(
    operator: LinearMap, grid: Grid, channels: int, failure: float, generator: torch.Generator
) -> float:
    # no tolerance: the bound gets better with every step
    estimate = partial(operator_norm, iterations=STEPS, tolerance=0.0, generator=generator)
    return estimate(operator, grid, channels=channels).upper(failure)


def _mix_after(weight: Tensor, block: LinearMap, v: Tensor) -> Tensor:
    return _mix(weight, block(v))


def _norm(weight: Tensor) -> float:
    return float(spectral_norms(weight))


def _mix(weight: Tensor, v: Tensor) -> Tensor:
    """A matrix at every point, (O, I) and (B, I, *N) -> (B, O, *N)."""
    return torch.einsum("oi,bi...->bo...", weight, v)


def _slope(activation: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    """σ'(z)."""
    with torch.enable_grad():
        at = z.detach().requires_grad_()
        return torch.autograd.grad(activation(at).sum(), at)[0]


# ---- Rollouts of a semigroup step ----


@dataclass(frozen=True)
class RolloutGuarantee:
    """Proved bound and actual error of a rollout whose true frames are known, (B, T).

    Numbers are relative to ‖u_k‖. Of a rollout without its true frames nothing is proven.
    """

    factors: Tensor  #: L_k
    bound: Tensor  #: of the relative error after each step
    error: Tensor  #: that was made

    def steps(self, tolerance: float, *, made: bool = False) -> list[int]:
        """For each sample the steps up to which the bound, or the error, is within a tolerance."""
        within = (self.error if made else self.bound) <= tolerance
        return [int(row.long().cumprod(dim=0).sum()) for row in within]


@torch.no_grad()
def guarantee(step: SemigroupStep, frames: Tensor, grid: Grid) -> RolloutGuarantee:
    """Bound and error of rollouts û_{k+1} = S(û_k) from the first of frames u (B, T + 1, C, *N).

    The errors E_k = ‖u_k - û_k‖ obey E_{k+1} <= ‖u_{k+1} - S(u_k)‖ + L_k E_k with the factors L_k
    of `step_factor` on the values of u_k and û_k.
    """
    step, frames = copy.deepcopy(step).double(), frames.double()
    at, bound, rows = frames[:, 0], frames.new_zeros(len(frames)), list[Tensor]()
    multipliers = _multiplier(step.semigroup, grid), _multiplier(step.forcing, grid)
    for now, then in zip(frames[:, :-1].unbind(1), frames[:, 1:].unbind(1), strict=True):
        both = torch.stack([now, at]).flatten(3)
        ends = zip(both.amin(dim=(0, 3)), both.amax(dim=(0, 3)), strict=True)
        factors = bound.new_tensor([_factor(step, *multipliers, *lows) for lows in ends])
        bound = (_length(then - step(now, grid=grid)) + factors * bound) * SLACK
        at = step(at, grid=grid)
        size = _length(then)
        rows.append(torch.stack([factors, bound / size, _length(then - at) / size]))
    return RolloutGuarantee(*torch.stack(rows, dim=-1))


@torch.no_grad()
def step_factor(step: SemigroupStep, grid: Grid, largest: float = math.inf) -> float:
    """L of S(u) = e^{A(D)} u + B(D) σ(W u + b) on fields with values up to `largest`, in float64.

    With values c_i ± r_i in channel i each slope σ'(z_h) is in an interval d_h ± e_h, since
    |z_h - b_h - Σ_i W_hi c_i| <= Σ_i |W_hi| r_i, and

        L = max_ξ ‖e^{A(ξ)} + B(ξ) diag(d) W‖₂ + max_ξ ‖B(ξ) diag(e)^{1/2}‖₂ ‖diag(e)^{1/2} W‖₂.
    """
    step = copy.deepcopy(step).double()
    ends = step.local.weight.new_full((step.in_channels,), largest)
    multipliers = _multiplier(step.semigroup, grid), _multiplier(step.forcing, grid)
    return _factor(step, *multipliers, -ends, ends)


def _factor(
    step: SemigroupStep, semigroup: Tensor, forcing: Tensor, low: Tensor, high: Tensor
) -> float:
    """L on fields with values between two numbers in each channel."""
    weight, middle = step.local.weight, torch.where(low.isinf(), 0.0, 0.5 * (low + high))
    radius = weight.abs() @ torch.maximum(high - middle, middle - low) * SLACK
    # GELU' turns at ±√2: its range over b ± r
    bias = step.local.bias + weight @ middle
    ends = bias - radius, bias + radius
    turns = [torch.full_like(bias, turn).clamp(*ends) for turn in (-math.sqrt(2), math.sqrt(2))]
    slopes = FUNCTIONS["gelu"].derivatives(torch.stack([*ends, *turns]).clamp(-40.0, 40.0))[1]
    least, most = slopes.amin(dim=0), slopes.amax(dim=0)
    root = (0.5 * (most - least) * SLACK).sqrt()
    centre = semigroup + forcing @ (0.5 * (least + most)[:, None] * weight).to(forcing)
    rest = spectral_norms(forcing * root).max() * spectral_norms(root[:, None] * weight)
    return float(spectral_norms(centre).max() + rest) * SLACK


def _multiplier(operator: PseudoDifferentialOperator, grid: Grid) -> Tensor:
    """What acts on each mode of the grid, (|N|, O, I)."""
    values = operator.values(grid, 1.0 if operator.symbol.takes_time else None).frequency[0]
    return whole_spectrum(values, grid, operator.modes_on(grid)).flatten(2).permute(2, 0, 1)


def _length(u: Tensor) -> Tensor:
    """L2 norms of (B, C, *N)."""
    return u.flatten(1).square().sum(dim=1).sqrt()
