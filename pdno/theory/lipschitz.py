"""How much a neural operator can amplify: Lipschitz constants in L2, layer by layer.

    u = Q ∘ (W_L + K_L) ∘ σ(W_{L-1} + K_{L-1}) ∘ ... ∘ σ(W_1 + K_1) ∘ P [f, x]

From above, Lip(u) <= ‖P‖ · Π_l Lip(σ) ‖W_l + K_l‖ · ‖Q₂‖ Lip(σ) ‖Q₁‖, where each ‖W_l + K_l‖ has
the proven bound of `pdno.theory.norm_bound`. Coordinates are constant, so only the columns of P
that f meets count; padding with zeros and cutting off have norm one. From below, Lip(u) is no
less than the norm of the derivative at any state, which is exact: its parts are the layers without
their biases, with the numbers z that the state makes before each σ,

    J δf = Q₂ σ'(z_Q) Q₁ (W_L + K_L) σ'(z_{L-1}) (W_{L-1} + K_{L-1}) ... σ'(z_1) (W_1 + K_1) P δf
"""

__all__ = ["GELU_LIPSCHITZ", "LayerConstants", "LipschitzReport", "linearise", "lipschitz_report"]

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from pdno.grid import Grid
from pdno.networks.neural_operator import NeuralOperator, PointwiseLinear, cut, pad
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.theory.norm_bound import norm_bound
from pdno.theory.sobolev import LinearMap, evaluated, operator_norm

GELU_LIPSCHITZ = (1 + math.erf(1)) / 2 + 1 / (math.e * math.sqrt(math.pi))
"""GELU'' = φ(z) (2 - z²) vanishes at z = ±√2: it is GELU'(√2) = Φ(√2) + √2 φ(√2)."""


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
    """Lipschitz constants of a network with the activation GELU on a grid, in L2 and float64.

    The derivative is looked at for states (B, C, *N); iterations and tolerance are those of
    `pdno.theory.sobolev.operator_norm`.
    """
    if network.activation is not functional.gelu:
        raise ValueError("the network has another activation than GELU; expected that")
    network = _in_double_precision(network)
    inner, last = network.inner_grid(grid), len(network.operators)
    norm = partial(operator_norm, iterations=iterations, tolerance=tolerance)
    lift = _norm(network.lift.weight[:, : network.in_channels])
    project = _norm(network.project.weight) * GELU_LIPSCHITZ * _norm(network.project_hidden.weight)
    layers = [LayerConstants("lift", lift, lift, local=lift)]
    for number, (operator, local) in enumerate(_blocks(network), start=1):
        weight, alone = local.weight.detach(), evaluated(operator, inner, t)
        slope = GELU_LIPSCHITZ if number < last else 1.0
        alone_bound = norm_bound(operator, inner, t=t).value
        together = norm_bound(operator, inner, t=t, local=weight).value
        bound = slope * min(together, _norm(weight) + alone_bound)
        estimate = slope * norm(_block(alone, weight), inner, channels=network.width).value
        parts = _norm(weight), norm(alone, inner, channels=network.width).value, alone_bound
        layers.append(LayerConstants(f"block {number}", bound, estimate, *parts))
    layers.append(LayerConstants("project", project, project))
    at = [linearise(network, f[None], grid=grid, t=t) for f in ([] if states is None else states)]
    sampled = [norm(slopes, grid, channels=network.in_channels).value for slopes in at]
    return LipschitzReport(tuple(layers), max(sampled, default=None))


def linearise(
    network: NeuralOperator, state: Tensor, *, grid: Grid | None = None, t: float | None = None
) -> LinearMap:
    """J at a state f (1, C, *N), a linear map (B, C, *N) -> (B, O, *N), float64.

    The grid is periodic if not given.
    """
    network = _in_double_precision(network)
    where = grid or Grid(tuple(state.shape[2:]))
    inner, last = network.inner_grid(where), len(network.operators) - 1
    steps: list[tuple[LinearMap, Tensor | None]] = []
    with torch.no_grad():
        v = network.enter(state.double(), where)
        for layer, (operator, local) in enumerate(_blocks(network)):
            block = _block(evaluated(operator, inner, t), local.weight.detach())
            z = block(v) + local.bias.reshape(-1, *[1] * where.dim)
            steps.append((block, _slope(network.activation, z) if layer < last else None))
            v = network.activation(z) if layer < last else z
        outside = _slope(network.activation, network.project_hidden(cut(v, where)))
    lift = network.lift.weight[:, : network.in_channels].detach()
    hidden, project = network.project_hidden.weight.detach(), network.project.weight.detach()

    def derivative(f: Tensor) -> Tensor:
        w = pad(_mix(lift, f), inner)
        for block, slope in steps:
            w = block(w) if slope is None else slope * block(w)
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
