"""The derivative of a neural operator at a state, as a linear map.

    J δf = Q₂ σ'(z_Q) Q₁ (W_L + K_L) σ'(z_{L-1}) (W_{L-1} + K_{L-1}) ... σ'(z_1) (W_1 + K_1) P δf

with the numbers z that the state itself makes before each σ. Its parts are the layers of the
network without their biases, so it is exact, and its transpose comes from reverse differentiation.
"""

__all__ = ["block_map", "in_double_precision", "inner_grid", "linearise", "mix"]

import copy

import torch
from torch import Tensor
from torch.nn import functional

from pdno.grid import Grid
from pdno.networks.neural_operator import NeuralOperator
from pdno.networks.pointwise import PointwiseLinear
from pdno.operators.kernel import apply_values
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.theory.sobolev import LinearMap, in_double


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
    network = in_double_precision(network)
    where = grid or Grid(tuple(state.shape[2:]))
    v, inner = _first_block(network, state.double(), where, t)
    last, steps = len(network.operators) - 1, []
    with torch.no_grad():
        for layer, local in enumerate(network.locals):
            assert isinstance(local, PointwiseLinear)
            block = block_map(network, layer, inner, t)
            z = block(v) + local.bias.reshape(-1, *[1] * where.dim)
            steps.append((block, _slope(network, z) if layer < last else None))
            v = network.activation(z) if layer < last else z
        outside = _slope(network, network.project_hidden(_cut(v, where)))
    lift = network.lift.weight[:, : network.in_channels].detach()
    hidden, project = network.project_hidden.weight.detach(), network.project.weight.detach()

    def derivative(f: Tensor) -> Tensor:
        w = _fill(mix(lift, f), inner)
        for block, slope in steps:
            w = block(w) if slope is None else slope * block(w)
        return mix(project, outside * mix(hidden, _cut(w, where)))

    return derivative


def block_map(network: NeuralOperator, layer: int, grid: Grid, t: float | None) -> LinearMap:
    """W + K of one block without its bias, its symbol evaluated once."""
    operator, local = network.operators[layer], network.locals[layer]
    assert isinstance(operator, PseudoDifferentialOperator)
    assert isinstance(local, PointwiseLinear)
    with torch.no_grad():
        values, weight = in_double(operator.values(grid, t)), local.weight.detach().double()
    modes, method = operator.modes, operator.method
    return lambda v: mix(weight, v) + apply_values(values, v, grid, modes, method=method)


def mix(weight: Tensor, v: Tensor) -> Tensor:
    """A matrix at every point, (O, I) and (B, I, *N) -> (B, O, *N)."""
    return torch.einsum("oi,bi...->bo...", weight, v)


def in_double_precision(network: NeuralOperator) -> NeuralOperator:
    """A copy in float64, evaluated anew."""
    double = copy.deepcopy(network).double()
    double.unfreeze()
    return double


def inner_grid(network: NeuralOperator, grid: Grid, t: float | None) -> Grid:
    """The grid of the blocks, with the padding."""
    like = network.lift.weight
    zero = torch.zeros(1, network.in_channels, *grid.shape, dtype=like.dtype, device=like.device)
    return _first_block(network, zero, grid, t)[1]


def _first_block(
    network: NeuralOperator, f: Tensor, grid: Grid, t: float | None
) -> tuple[Tensor, Grid]:
    """What enters the first block: its field and grid."""
    seen: list[tuple[Tensor, Grid]] = []
    handle = network.operators[0].register_forward_pre_hook(
        lambda module, given: seen.append((given[0], given[1]))
    )
    try:
        with torch.no_grad():
            network(f, t, grid=grid)
    finally:
        handle.remove()
    return seen[0]


def _slope(network: NeuralOperator, z: Tensor) -> Tensor:
    """σ'(z)."""
    with torch.enable_grad():
        at = z.detach().requires_grad_()
        (slope,) = torch.autograd.grad(network.activation(at).sum(), at)
    return slope


def _fill(v: Tensor, grid: Grid) -> Tensor:
    """Zeros after the last point of each axis, up to a larger grid."""
    after = [m - n for n, m in zip(v.shape[2:], grid.shape, strict=True)]
    return functional.pad(v, [value for n in reversed(after) for value in (0, n)])


def _cut(v: Tensor, grid: Grid) -> Tensor:
    """The points of a smaller grid."""
    for axis, n in enumerate(grid.shape, start=2):
        v = v.narrow(axis, 0, n)
    return v
