"""How much a neural operator can amplify: Lipschitz constants in L2, layer by layer.

    u = Q ∘ (W_L + K_L) ∘ σ(W_{L-1} + K_{L-1}) ∘ ... ∘ σ(W_1 + K_1) ∘ P [f, x]

From above, Lip(u) <= ‖P‖ · Π_l Lip(σ) ‖W_l + K_l‖ · ‖Q₂‖ Lip(σ) ‖Q₁‖, where each ‖W_l + K_l‖ has
the proven bound of `pdno.theory.norm_bound`. Coordinates are constant, so only the columns of P
that f meets count; padding with zeros and cutting off have norm one. From below, Lip(u) is no
less than the norm of the derivative at any state.

GELU'' = φ(z) (2 - z²) vanishes at z = ±√2, so Lip(GELU) = GELU'(√2) = Φ(√2) + √2 φ(√2)
= (1 + erf 1)/2 + 1/(e √π), a little more than one.

The derivative at a state is exact: its parts are the layers without their biases,

    J δf = Q₂ σ'(z_Q) Q₁ (W_L + K_L) σ'(z_{L-1}) (W_{L-1} + K_{L-1}) ... σ'(z_1) (W_1 + K_1) P δf

with the numbers z that the state makes before each σ.
"""

__all__ = [
    "GELU_LIPSCHITZ",
    "LayerConstants",
    "LipschitzReport",
    "linearise",
    "lipschitz_report",
]

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pdno.grid import Grid
from pdno.networks.neural_operator import NeuralOperator, PointwiseLinear, cut, pad
from pdno.operators.kernel import apply_values
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.theory.norm_bound import norm_bound
from pdno.theory.sobolev import LinearMap, in_double, operator_norm

GELU_LIPSCHITZ = (1 + math.erf(1)) / 2 + 1 / (math.e * math.sqrt(math.pi))


@dataclass(frozen=True)
class LayerConstants:
    """The constants of one layer; None where a layer has no such part.

    Arguments:
        name: Of the layer.
        bound: Upper bound of its Lipschitz constant.
        estimate: The same with ‖W + K‖ by iteration, from below.
        local: ‖W‖.
        operator: ‖K‖ by iteration, from below.
        operator_bound: Upper bound of ‖K‖.
    """

    name: str
    bound: float
    estimate: float
    local: float | None = None
    operator: float | None = None
    operator_bound: float | None = None


@dataclass(frozen=True)
class LipschitzReport:
    """sampled <= Lip(u) <= bound.

    Arguments:
        layers: The layers from the first to the last.
        sampled: The largest norm of the derivative at the states given; None without states.
    """

    layers: tuple[LayerConstants, ...]
    sampled: float | None

    @property
    def bound(self) -> float:
        """The product of the bounds of the layers."""
        return math.prod(layer.bound for layer in self.layers)

    def __str__(self) -> str:
        head = f"{'layer':<12}{'‖W‖':>10}{'‖K‖ >=':>10}{'‖K‖ <=':>10}{'Lip ~':>10}{'Lip <=':>10}"
        lines = [head]
        for layer in self.layers:
            parts = (layer.local, layer.operator, layer.operator_bound)
            numbers = [*parts, layer.estimate, layer.bound]
            cells = ["" if number is None else f"{number:.4g}" for number in numbers]
            lines.append(f"{layer.name:<12}" + "".join(f"{cell:>10}" for cell in cells))
        below = "" if self.sampled is None else f"{self.sampled:.4g} <= "
        return "\n".join([*lines, f"{below}Lip(u) <= {self.bound:.4g}"])


def lipschitz_report(
    network: NeuralOperator,
    grid: Grid,
    *,
    states: Tensor | None = None,
    t: float | None = None,
    iterations: int = 300,
    tolerance: float = 1e-5,
) -> LipschitzReport:
    """Lipschitz constants of a network on a grid, in L2 and float64.

    Arguments:
        network: A network with the activation GELU.
        grid: Where it acts.
        states: Inputs (B, C, *N) at which the derivative is looked at.
        t: Time, for networks that take it.
        iterations: At most so many for each norm.
        tolerance: Residual at which an iteration stops.
    """
    if network.activation is not functional.gelu:
        raise ValueError("the network has another activation than GELU; expected that")
    network = _in_double_precision(network)
    inner = network.inner_grid(grid)
    options: dict[str, Any] = {"iterations": iterations, "tolerance": tolerance}
    lift = _norm(network.lift.weight[:, : network.in_channels])
    project = _norm(network.project.weight) * GELU_LIPSCHITZ * _norm(network.project_hidden.weight)
    blocks = [_block(network, layer, inner, t, options) for layer in range(len(network.operators))]
    sampled = [
        operator_norm(
            linearise(network, state[None], grid=grid, t=t),
            grid,
            channels=network.in_channels,
            **options,
        ).value
        for state in ([] if states is None else states)
    ]
    layers = (
        LayerConstants("lift", lift, lift, local=lift),
        *blocks,
        LayerConstants("project", project, project),
    )
    return LipschitzReport(layers, max(sampled) if sampled else None)


def _block(
    network: NeuralOperator, layer: int, grid: Grid, t: float | None, options: dict[str, Any]
) -> LayerConstants:
    """One block: σ has its share in all but the last."""
    operator, local = network.operators[layer], network.locals[layer]
    assert isinstance(operator, PseudoDifferentialOperator)
    assert isinstance(local, PointwiseLinear)
    together = _block_map(network, layer, grid, t)
    weight = local.weight.detach()

    def alone(v: Tensor) -> Tensor:
        return together(v) - _mix(weight, v)

    slope = GELU_LIPSCHITZ if layer < len(network.operators) - 1 else 1.0
    operator_bound = norm_bound(operator, grid, t=t).value
    bound = min(
        norm_bound(operator, grid, t=t, local=weight).value, _norm(weight) + operator_bound
    )
    return LayerConstants(
        name=f"block {layer + 1}",
        bound=slope * bound,
        estimate=slope * operator_norm(together, grid, channels=network.width, **options).value,
        local=_norm(weight),
        operator=operator_norm(alone, grid, channels=network.width, **options).value,
        operator_bound=operator_bound,
    )


def _norm(weight: Tensor) -> float:
    return float(torch.linalg.matrix_norm(weight.detach(), 2))


def linearise(
    network: NeuralOperator, state: Tensor, *, grid: Grid | None = None, t: float | None = None
) -> LinearMap:
    """J at a state, a linear map (B, C, *N) -> (B, O, *N), float64.

    Arguments:
        network: A network of ours.
        state: f (1, C, *N).
        grid: Its grid; periodic if not given.
        t: Time, for networks that take it.
    """
    network = _in_double_precision(network)
    where = grid or Grid(tuple(state.shape[2:]))
    inner, last = network.inner_grid(where), len(network.operators) - 1
    steps: list[tuple[LinearMap, Tensor | None]] = []
    with torch.no_grad():
        v = network.enter(state.double(), where)
        for layer, local in enumerate(network.locals):
            assert isinstance(local, PointwiseLinear)
            block = _block_map(network, layer, inner, t)
            z = block(v) + local.bias.reshape(-1, *[1] * where.dim)
            steps.append((block, _slope(network, z) if layer < last else None))
            v = network.activation(z) if layer < last else z
        outside = _slope(network, network.project_hidden(cut(v, where)))
    lift = network.lift.weight[:, : network.in_channels].detach()
    hidden, project = network.project_hidden.weight.detach(), network.project.weight.detach()

    def derivative(f: Tensor) -> Tensor:
        w = pad(_mix(lift, f), inner)
        for block, slope in steps:
            w = block(w) if slope is None else slope * block(w)
        return _mix(project, outside * _mix(hidden, cut(w, where)))

    return derivative


def _block_map(network: NeuralOperator, layer: int, grid: Grid, t: float | None) -> LinearMap:
    """W + K of one block without its bias, its symbol evaluated once."""
    operator, local = network.operators[layer], network.locals[layer]
    assert isinstance(operator, PseudoDifferentialOperator)
    assert isinstance(local, PointwiseLinear)
    with torch.no_grad():
        values, weight = in_double(operator.values(grid, t)), local.weight.detach().double()
    modes, method = operator.modes, operator.method
    return lambda v: _mix(weight, v) + apply_values(values, v, grid, modes, method=method)


def _mix(weight: Tensor, v: Tensor) -> Tensor:
    """A matrix at every point, (O, I) and (B, I, *N) -> (B, O, *N)."""
    return torch.einsum("oi,bi...->bo...", weight, v)


def _in_double_precision(network: NeuralOperator) -> NeuralOperator:
    """A copy in float64, evaluated anew."""
    double = copy.deepcopy(network).double()
    double.unfreeze()
    return double


def _slope(network: NeuralOperator, z: Tensor) -> Tensor:
    """σ'(z)."""
    with torch.enable_grad():
        at = z.detach().requires_grad_()
        (slope,) = torch.autograd.grad(network.activation(at).sum(), at)
    return slope
