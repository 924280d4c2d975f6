"""How much a neural operator can amplify: Lipschitz constants in L2, layer by layer.

    u = Q ∘ (W_L + K_L) ∘ σ(W_{L-1} + K_{L-1}) ∘ ... ∘ σ(W_1 + K_1) ∘ P [f, x]

From above, Lip(u) <= ‖P‖ · Π_l Lip(σ) ‖W_l + K_l‖ · ‖Q₂‖ Lip(σ) ‖Q₁‖, where each ‖W_l + K_l‖ has
the proven bound of `pdno.theory.norm_bound`. Norms of products are smaller than products of norms,
and σ' lies around 1/2: with A_0 = (W_1 + K_1) P, A_l = W_{l+1} + K_{l+1}, the last with Q₁, then
A_L = Q₂, and slopes σ'(z_l) = d_l + e_l, |e_l| <= ε_l, the norm of the derivative is at most T_L,

    T_j = N_0j + Σ_{i=1..j} N_ij ε_i T_{i-1},    N_ij = ‖A_j d_j A_{j-1} ... d_{i+1} A_i‖,

by the last slope of which e_i is taken. Everywhere d = 1/2 and ε = Lip(σ) - 1/2 = 0.629. On a ball
‖δf‖ <= ρ around f (`local_bound`), d_l = σ'(z_l(f)) and ε_l = sup |σ''| T_{l-1} ρ, in the norm
that is a sum over points and so bounds every value. All N_ij are the upper bounds
of the iteration, which hold together but for a probability of failure that is
chosen (`NormEstimate.upper`). Coordinates are constant, so only the columns of P
that f meets count; padding with zeros and cutting off have norm one. From below, Lip(u) is no
less than the norm of the derivative at any state, which is exact: its parts are the layers without
their biases, with the numbers z that the state makes before each σ,

    J δf = Q₂ σ'(z_Q) Q₁ (W_L + K_L) σ'(z_{L-1}) (W_{L-1} + K_{L-1}) ... σ'(z_1) (W_1 + K_1) P δf

A residual block v + F[(W + K) v] has the bound 1 + ‖W₂‖ Lip(σ) ‖W₁‖ ‖W + K‖.
"""

__all__ = [
    "GELU_LIPSCHITZ",
    "LayerConstants",
    "LipschitzReport",
    "linearise",
    "lipschitz_report",
    "local_bound",
]

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from pdno.networks.neural_operator import NeuralOperator, PointwiseLinear, cut, perceptron
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.spectral.grid import Grid
from pdno.theory.norm_bound import norm_bound
from pdno.theory.sobolev import LinearMap, evaluated, operator_norm

GELU_LIPSCHITZ = (1 + math.erf(1)) / 2 + 1 / (math.e * math.sqrt(math.pi))
"""GELU'' = φ(z) (2 - z²) vanishes at z = ±√2: it is GELU'(√2) = Φ(√2) + √2 φ(√2)."""


GELU_CURVATURE = 2 / math.sqrt(2 * math.pi)
"""sup |GELU''| = 2 φ(0)."""

STEPS = 60  # of the iteration for probable bounds: three percent above, for 2^16 numbers


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
    sampled: float | None  #: the largest norm of the derivative at the states given
    probable: float  #: a bound by norms of products, wrong with a probability of at most `failure`
    failure: float

    @property
    def bound(self) -> float:
        """The product of the bounds of the layers."""
        return math.prod(layer.bound for layer in self.layers)

    def __str__(self) -> str:
        names = ("‖W‖", "‖K‖ >=", "‖K‖ <=", "Lip ~", "Lip <=")
        lines = [f"{'layer':<12}" + "".join(f"{name:>10}" for name in names)]
        for layer in self.layers:
            name, bound, estimate, *parts = astuple(layer)
            cells = ["" if n is None else f"{n:.4g}" for n in (*parts, estimate, bound)]
            lines.append(f"{name:<12}" + "".join(f"{cell:>10}" for cell in cells))
        below = "" if self.sampled is None else f"{self.sampled:.4g} <= "
        probable = f"Lip(u) <= {self.probable:.4g} but for a probability of {self.failure:g}"
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
) -> LipschitzReport:
    """Lipschitz constants of a network with the activation GELU on a grid, in L2 and float64.

    The derivative is looked at for states (B, C, *N); iterations and tolerance are those of
    `pdno.theory.sobolev.operator_norm`. `failure` is the probability that `probable` is no bound.
    """
    if network.activation is not functional.gelu:
        raise ValueError("the network has another activation than GELU; expected that")
    if network.extension is not None:
        raise ValueError("the network reflects its input; expected padding by zeros, or none")
    network = _in_double_precision(network)
    inner, last = network.inner_grid(grid), len(network.operators)
    norm = partial(operator_norm, iterations=iterations, tolerance=tolerance)
    lift = _norm(network.lift.weight[:, : network.in_channels])
    project = _norm(network.project.weight) * GELU_LIPSCHITZ * _norm(network.project_hidden.weight)
    layers = [LayerConstants("lift", lift, lift, local=lift)]
    for number, (operator, local) in enumerate(_blocks(network), start=1):
        weight, alone = local.weight.detach(), evaluated(operator, inner, t)
        slope = GELU_LIPSCHITZ if number < last else 1.0
        shift = 0.0
        if network.expand:  # v + F[(W + K) v]
            ahead, back = _feed_forward(network, number - 1)
            slope, shift = _norm(back.weight) * GELU_LIPSCHITZ * _norm(ahead.weight), 1.0
        alone_bound = norm_bound(operator, inner, t=t).value
        together = norm_bound(operator, inner, t=t, local=weight).value
        bound = shift + slope * min(together, _norm(weight) + alone_bound)
        found = norm(_block(alone, weight), inner, channels=network.width).value
        estimate = shift + slope * found
        parts = _norm(weight), norm(alone, inner, channels=network.width).value, alone_bound
        layers.append(LayerConstants(f"block {number}", bound, estimate, *parts))
    layers.append(LayerConstants("project", project, project))
    at = [linearise(network, f[None], grid=grid, t=t) for f in ([] if states is None else states)]
    sampled = [norm(slopes, grid, channels=network.in_channels).value for slopes in at]
    if network.expand:
        probable = _by_residual_blocks(network, grid, t, iterations, failure)
    else:
        probable = _by_products(_maps(network, grid, t), None, 0.0, failure)
    return LipschitzReport(tuple(layers), max(sampled, default=None), probable, failure)


def local_bound(
    network: NeuralOperator,
    state: Tensor,
    radius: float,
    *,
    grid: Grid | None = None,
    t: float | None = None,
    failure: float = 1e-9,
) -> float:
    """A bound of ‖u(g) - u(h)‖ / ‖g - h‖ for all g, h at most `radius` from a state f (1, C, *N).

    Norms are means over the points; the bound is wrong with a probability of at most `failure`.
    With the radius it falls to the norm of the derivative at f. Blocks are those of the paper.
    """
    if network.expand or network.activation is not functional.gelu:
        raise ValueError("the network has residual blocks or another activation than GELU")
    network = _in_double_precision(network)
    where = grid or Grid(tuple(state.shape[2:]))
    maps, slopes = _maps(network, where, t), _slopes_at(network, state.double(), where, t)
    return _by_products(maps, slopes, radius * math.sqrt(where.size), failure)


class _Map(NamedTuple):
    """One A_l, the channels and the grid of its input, and its norm where that is known."""

    apply: LinearMap
    channels: int
    grid: Grid
    norm: float | None = None


def _maps(network: NeuralOperator, grid: Grid, t: float | None) -> list[_Map]:
    """A_0, ..., A_L."""
    inner, last = network.inner_grid(grid), len(network.operators) - 1
    lift = network.lift.weight[:, : network.in_channels].detach()
    hidden, project = network.project_hidden.weight.detach(), network.project.weight.detach()
    maps = list[_Map]()
    for number, (operator, local) in enumerate(_blocks(network)):
        block = _block(evaluated(operator, inner, t), local.weight.detach())

        def product(v: Tensor, block: LinearMap = block, number: int = number) -> Tensor:
            v = block(network.surround(_mix(lift, v), grid) if number == 0 else v)
            return _mix(hidden, cut(v, grid)) if number == last else v

        enters = (network.width, inner) if number else (network.in_channels, grid)
        maps.append(_Map(product, *enters))
    return [*maps, _Map(lambda v: _mix(project, v), len(hidden), grid, _norm(project))]


def _slopes_at(
    network: NeuralOperator, state: Tensor, grid: Grid, t: float | None
) -> list[Tensor]:
    """σ'(z_l) at a state, l = 1, ..., L."""
    slopes, inner, last = list[Tensor](), network.inner_grid(grid), len(network.operators) - 1
    with torch.no_grad():
        v = network.enter(state, grid)
        for number, (operator, local) in enumerate(_blocks(network)):
            z = local.add_to(evaluated(operator, inner, t)(v), v)
            z = network.project_hidden(cut(z, grid)) if number == last else z
            slopes.append(_slope(functional.gelu, z))
            v = functional.gelu(z)
    return slopes


def _by_products(
    maps: list[_Map], slopes: list[Tensor] | None, radius: float, failure: float
) -> float:
    """T_L, everywhere or, with the slopes at a state, on a ball around it."""
    count = len(maps)
    chance = 2 * failure / (count * (count + 1))
    bounds, half = list[float](), GELU_LIPSCHITZ - 0.5
    reach = list[float]()  # ε_1, ..., ε_L
    for j in range(count):
        if j:
            near = GELU_CURVATURE * bounds[-1] * radius
            reach.append(half if slopes is None else min(near, 0.5 + GELU_LIPSCHITZ))
        norms = [_chain_norm(maps, slopes, i, j, chance) for i in range(j + 1)]
        rest = (n * e * b for n, e, b in zip(norms[1:], reach, bounds, strict=True))
        bounds.append(norms[0] + sum(rest))
    return bounds[-1]


def _chain_norm(
    maps: list[_Map], slopes: list[Tensor] | None, first: int, last: int, failure: float
) -> float:
    """N_ij: an upper bound of the iteration."""

    def chain(v: Tensor) -> Tensor:
        for place in range(first, last + 1):
            if place > first:
                v = 0.5 * v if slopes is None else slopes[place - 1] * v
            v = maps[place].apply(v)
        return v

    start = maps[first]
    if first == last and start.norm is not None:
        return start.norm
    return _probable_norm(chain, start.grid, start.channels, STEPS, failure)


def _by_residual_blocks(
    network: NeuralOperator, grid: Grid, t: float | None, iterations: int, failure: float
) -> float:
    """‖P‖ · Π (1 + ‖W₂‖ Lip(σ) ‖W₁ (W + K)‖) · ‖Q₂‖ Lip(σ) ‖Q₁‖: blocks cannot be merged."""
    inner, count = network.inner_grid(grid), len(network.operators)
    bound = _norm(network.lift.weight[:, : network.in_channels]) * GELU_LIPSCHITZ
    bound *= _norm(network.project.weight) * _norm(network.project_hidden.weight)
    for number, (operator, local) in enumerate(_blocks(network)):
        block = _block(evaluated(operator, inner, t), local.weight.detach())
        ahead, back = _feed_forward(network, number)
        first = ahead.weight.detach()

        def inside(v: Tensor, block: LinearMap = block, first: Tensor = first) -> Tensor:
            return _mix(first, block(v))

        norm = _probable_norm(inside, inner, network.width, iterations, failure / count)
        bound *= 1 + _norm(back.weight) * GELU_LIPSCHITZ * norm
    return bound


def _probable_norm(
    operator: LinearMap, grid: Grid, channels: int, iterations: int, failure: float
) -> float:
    # no tolerance: the bound gets better with every step
    steps = min(iterations, STEPS)
    found = operator_norm(operator, grid, channels=channels, iterations=steps, tolerance=0.0)
    return found.upper(failure)


def _feed_forward(net: NeuralOperator, layer: int) -> tuple[PointwiseLinear, PointwiseLinear]:
    """W₁ and W₂ of a residual block."""
    ahead, back = net.expand[layer], net.contract[layer]
    assert isinstance(ahead, PointwiseLinear) and isinstance(back, PointwiseLinear)
    return ahead, back


def linearise(
    network: NeuralOperator, state: Tensor, *, grid: Grid | None = None, t: float | None = None
) -> LinearMap:
    """J at a state f (1, C, *N), a linear map (B, C, *N) -> (B, O, *N), float64.

    The grid is periodic if not given.
    """
    network = _in_double_precision(network)
    where = grid or Grid(tuple(state.shape[2:]))
    inner, last = network.inner_grid(where), len(network.operators) - 1
    steps: list[LinearMap] = []
    with torch.no_grad():
        v = network.enter(state.double(), where)
        for layer, (operator, local) in enumerate(_blocks(network)):
            block = _block(evaluated(operator, inner, t), local.weight.detach())
            z = block(v) + local.bias.reshape(-1, *[1] * where.dim)
            if network.expand:
                ahead, back = _feed_forward(network, layer)
                steps.append(_residual(block, ahead, back, _slope(functional.gelu, ahead(z))))
                v = v + perceptron(ahead, back, z)
                continue
            slope = _slope(network.activation, z) if layer < last else None
            steps.append(block if slope is None else _scaled(slope, block))
            v = network.activation(z) if layer < last else z
        outside = _slope(network.activation, network.project_hidden(cut(v, where)))
    lift = network.lift.weight[:, : network.in_channels].detach()
    hidden, project = network.project_hidden.weight.detach(), network.project.weight.detach()

    def derivative(f: Tensor) -> Tensor:
        w = network.surround(_mix(lift, f), where)
        for step in steps:
            w = step(w)
        return _mix(project, outside * _mix(hidden, cut(w, where)))

    return derivative


def _blocks(net: NeuralOperator) -> Iterator[tuple[PseudoDifferentialOperator, PointwiseLinear]]:
    for operator, local in zip(net.operators, net.locals, strict=True):
        assert isinstance(operator, PseudoDifferentialOperator)
        assert isinstance(local, PointwiseLinear)
        yield operator, local


def _block(operator: LinearMap, weight: Tensor) -> LinearMap:
    """W + K without its bias."""
    return lambda v: _mix(weight, v) + operator(v)


def _scaled(slope: Tensor, block: LinearMap) -> LinearMap:
    return lambda v: slope * block(v)


def _residual(
    block: LinearMap, ahead: PointwiseLinear, back: PointwiseLinear, slope: Tensor
) -> LinearMap:
    """1 + W₂ σ'(z) W₁ (W + K)."""
    first, second = ahead.weight.detach(), back.weight.detach()
    return lambda v: v + _mix(second, slope * _mix(first, block(v)))


def _norm(weight: Tensor) -> float:
    return float(torch.linalg.matrix_norm(weight.detach(), 2))


def _mix(weight: Tensor, v: Tensor) -> Tensor:
    """A matrix at every point, (O, I) and (B, I, *N) -> (B, O, *N)."""
    return torch.einsum("oi,bi...->bo...", weight, v)


def _in_double_precision(network: NeuralOperator) -> NeuralOperator:
    """A copy in float64, evaluated anew."""
    double = copy.deepcopy(network).double()
    double.unfreeze()
    return double


def _slope(activation: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    """σ'(z)."""
    with torch.enable_grad():
        at = z.detach().requires_grad_()
        return torch.autograd.grad(activation(at).sum(), at)[0]
