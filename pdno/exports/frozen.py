"""Frozen operators: a trained operator on one grid, with tables for symbols and transforms.

    K[f]_j = Σ_r b_rj(x) F⁻¹[ Σ_i c_rji(ξ) f̂_i(ξ) ],      F and F⁻¹ axis by axis as real matrices

What does not depend on the input is evaluated once, so products and sums of real numbers remain
(and the Erf of GELU), which every runtime has. x-factors b_ji(x) of channel pairs become
sums of as few terms as `RANK_ERROR` allows: R·O inverse transforms instead of I·O.
"""

import copy
import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import register_parametrization

from pdno.networks.heads import Transport, diffuse
from pdno.networks.neural_operator import NeuralOperator
from pdno.operators.pseudo_differential import PseudoDifferentialOperator, truncate_rank
from pdno.operators.warp import interpolation_coefficients, read_between
from pdno.spectral.calculus import every_point, resampling_matrix
from pdno.spectral.fourier import axis_waves
from pdno.spectral.grid import Grid, axis_modes, hermitian_weights, kept_per_axis
from pdno.symbols.base import Time
from pdno.training.operator_record import Sampling
from pdno.training.task import NormalizedNetwork, OneShot, SpaceTime, Times
from pdno.training.trained_operator import TrainedOperator, move

RANK_ERROR = 1e-6  # relative, of the x-factors of an output channel
TABLE_ERROR = 1e-7  # relative, of a table that is stored as a product
SharedTables = dict[tuple[tuple[int, ...], tuple[int | None, ...]], "Tables"]


class Tables(nn.Module):
    """F and F⁻¹ on the kept modes of a grid, as one product with a real matrix for each axis.

    Shapes: (B, M, *N) <-> (B, M, N^_d, ..., N^_2, 2, N^_1), 2 the real and imaginary parts.
    """

    def __init__(self, shape: Sequence[int], kept: Sequence[int | None]) -> None:
        super().__init__()
        self.dim = len(shape)
        for axis, (n, k) in enumerate(zip(shape, kept, strict=True)):
            half = axis == self.dim - 1
            m = axis_modes(n, k, half=half)
            waves = axis_waves(n, m)
            there, back = _real_form(waves.conj() / n), _real_form(waves.T)
            if half:  # from real functions and to them, by the Hermitian rule
                weights = hermitian_weights(m, n).repeat(2)[:, None]
                there, back = there[:n], back[:, :n] * weights
            self.register_buffer(f"there_{axis}", there)
            self.register_buffer(f"back_{axis}", back)

    def analyse(self, f: Tensor) -> Tensor:
        """F."""
        h = f @ self.get_buffer(f"there_{self.dim - 1}")
        for axis in reversed(range(self.dim - 1)):
            h = _next_axis(h, self.dim - axis) @ self.get_buffer(f"there_{axis}")
        return torch.unflatten(h, -1, (2, -1))

    def synthesise(self, h: Tensor) -> Tensor:
        """F⁻¹."""
        h = h.flatten(-2)
        for axis in range(self.dim - 1):
            h = _next_axis(h @ self.get_buffer(f"back_{axis}"), 2 + axis)
        return h @ self.get_buffer(f"back_{self.dim - 1}")


def _next_axis(h: Tensor, position: int) -> Tensor:
    """The last axis, which is transformed, moved to its position and the next one last."""
    return torch.unflatten(h, -1, (2, -1)).movedim((-3, -1), (-1, position)).flatten(-2)


def _real_form(matrix: Tensor) -> Tensor:
    """A complex (K, M) for rows of numbers: real (2K, 2M), for rows [Re, Im]."""
    real, imaginary = matrix.real, matrix.imag
    return torch.cat([torch.cat([real, imaginary], 1), torch.cat([-imaginary, real], 1)])


class FrozenOperator(nn.Module):
    """K[f] on one grid and at one time, (B, I, *N) -> (B, O, *N)."""

    space: Tensor | None
    mix: Tensor
    real: Tensor
    imaginary: Tensor
    lower: Tensor

    def __init__(
        self, operator: PseudoDifferentialOperator, grid: Grid, t: Time, shared: SharedTables
    ) -> None:
        super().__init__()
        key = grid.shape, kept_per_axis(grid.shape, operator.modes_on(grid))
        self.tables, values = shared.setdefault(key, Tables(*key)), operator.values(grid, t)
        c, b = values.frequency, values.space
        # the modes in the order of the tables
        c = c.permute(0, 1, 2, *reversed(range(3, c.dim())))
        if b is not None and b.shape[2] > 1:  # (R, O or 1, I, *N); r counts like further inputs
            self.repeats = len(c)
            b = b.expand(*c.shape[:3], *b.shape[3:]).movedim(0, 1).flatten(1, 2)
            c = c.movedim(0, 1).flatten(1, 2)
            lower, b, _ = truncate_rank(b, RANK_ERROR)
            self.register_buffer("lower", lower.transpose(1, 2))  # (O, R, I)
            self.register_buffer("real", c.real)
            self.register_buffer("imaginary", c.imag)
        else:
            self.repeats = 0
            if b is None:
                c = c.sum(dim=0)
            else:
                b = b[:, :, 0].expand(*c.shape[:2], *grid.shape).transpose(0, 1)
                c = c.transpose(0, 1).flatten(0, 1)
            c = c.flatten(2).permute(2, 1, 0)  # a matrix for each mode
            self.register_buffer("mix", torch.cat([c.real, c.imag], dim=2))
        self.register_buffer("space", b)  # (O, R, *N)

    def forward(self, f: Tensor, grid: Grid | None = None, t: Time = None) -> Tensor:
        f_hat = self.tables.analyse(f)
        parts = self.tables.synthesise(self._pairs(f_hat) if self.repeats else self._mix(f_hat))
        if self.space is None:
            return parts
        return (torch.unflatten(parts, 1, self.space.shape[:2]) * self.space).sum(dim=2)

    def _pairs(self, f_hat: Tensor) -> Tensor:
        """Σ_i l_jri c_ji f̂_i, where b_ji = Σ_r l_jri b_jr."""
        re, im = torch.cat([f_hat] * self.repeats, dim=1)[:, None].unbind(-2)
        c, d = self.real, self.imaginary
        product = torch.stack([re * c - im * d, re * d + im * c], dim=-2)
        return torch.unflatten(self.lower @ product.flatten(3), 3, product.shape[3:]).flatten(1, 2)

    def _mix(self, f_hat: Tensor) -> Tensor:
        """Σ_i c_rji f̂_i."""
        rows = f_hat.movedim((-2, 0, 1), (-3, -2, -1))  # (*K', K_1, 2, B, I)
        mixed = rows.flatten(0, -4).flatten(1, 2) @ self.mix
        (a, b), (c, d) = (x.chunk(2, dim=-1) for x in torch.unflatten(mixed, 1, (2, -1)).unbind(1))
        # (2, *K', K_1, B, O R)
        mixed = torch.unflatten(torch.stack([a - d, b + c]), 1, rows.shape[:-3])
        return mixed.movedim((-2, -1, 0), (0, 1, -2))


class TableProduct(nn.Module):
    """A table as a product of two smaller ones, which ONNX Runtime multiplies once, on loading."""

    def __init__(self, table: Tensor, split: int) -> None:
        super().__init__()
        self.shape = table.shape
        matrix = table.flatten(split).flatten(0, split - 1).double()
        u, s, v = torch.linalg.svd(matrix, full_matrices=False)
        rank = int((s.square().flip(0).cumsum(0).flip(0).sqrt() > TABLE_ERROR * s.norm()).sum())
        self.factors = (u * s)[:, :rank].to(table), v[:rank].to(table)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return (left @ right).reshape(self.shape)

    def right_inverse(self, _: Tensor) -> tuple[Tensor, Tensor]:
        """The two factors."""
        return self.factors


def shrink(frozen: nn.Module) -> nn.Module:
    """A copy whose tables are products of smaller ones, where that saves half or more."""
    small = copy.deepcopy(frozen)
    for operator in [m for m in small.modules() if isinstance(m, FrozenOperator)]:
        for name, table in list(operator.named_buffers(recurse=False)):
            products = [TableProduct(table, split) for split in range(1, table.dim())]
            sizes = [sum(factor.numel() for factor in product.factors) for product in products]
            if min(sizes) < table.numel() / 2:
                register_parametrization(operator, name, products[sizes.index(min(sizes))])
    return small


class FrozenLift(nn.Module):
    """P [f, x] on a grid; the coordinates are part of the bias."""

    def __init__(self, network: NeuralOperator, grid: Grid) -> None:
        super().__init__()
        weight, bias = network.lift_on(grid)
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)

    def forward(self, f: Tensor) -> Tensor:
        lifted = self.get_buffer("weight") @ f.flatten(2) + self.get_buffer("bias")
        return torch.unflatten(lifted, -1, f.shape[2:])


class FrozenNetwork(nn.Module):
    """A `NeuralOperator` on one grid and at one time, its other layers shared by all times."""

    def __init__(self, network: NeuralOperator, grid: Grid, t: Time, shared: SharedTables) -> None:
        super().__init__()
        self.grid, below = grid, network.grid_below(grid)
        inner = network.inner_grid(below)
        self.network = copy.deepcopy(network, {id(p): p for p in network.parameters()})
        self.network.coordinates = "none"
        frozen = [freeze_network(operator, inner, t, shared) for operator in network.operators]
        self.network.add_module("operators", nn.ModuleList(frozen))
        self.network.add_module("lift", FrozenLift(network, below))
        if network.head is not None:
            self.network.add_module("head", freeze_head(network.head, grid, shared))

    def forward(self, f: Tensor) -> Tensor:
        u: Tensor = self.network(f, grid=self.grid)
        return u


def freeze_head(head: nn.Module, grid: Grid, shared: SharedTables) -> nn.Module:
    """The head of a network on one grid."""
    if isinstance(head, Transport):
        return FrozenTransport(head, grid, shared)
    kind = type(head).__name__
    raise ValueError(f"a {kind} head cannot be exported: add it to exports/frozen.py")


class FrozenTransport(Transport):
    """The transport head on a grid, with a matrix for each axis that interpolates or diffuses."""

    def __init__(self, head: Transport, grid: Grid, shared: SharedTables) -> None:
        super().__init__(head.dim, head.channels, head.options)
        self.load_state_dict(head.state_dict())
        below = head.network_grid(grid)
        if head.velocity is not None:
            self.velocity = freeze_network(head.velocity, below, None, shared)
        options, c = head.options, head.c.detach().double() / head.options.substeps
        self.coarse = below.shape
        for axis, (n, m) in enumerate(zip(grid.shape, below.shape, strict=True)):
            if n != m:
                self.register_buffer(f"coarsened_{axis}", resampling_matrix(n, m))
                self.register_buffer(f"interpolated_{axis}", resampling_matrix(m, n))
            points = torch.eye(n, dtype=torch.float64)[:, None]
            finer = interpolation_coefficients(points, options.interpolation, options.refine)
            self.register_buffer(f"finer_{axis}", finer[:, 0])
            if head.log_c is not None:  # (C, N, N)
                spread = diffuse(points.expand(-1, len(c), -1), c)
                self.register_buffer(f"diffused_{axis}", spread.movedim(0, 1))

    def resample(self, f: Tensor, shape: tuple[int, ...]) -> Tensor:
        if self.options.coarsen == 1:
            return f
        return along_axes(self, f, "coarsened" if shape == self.coarse else "interpolated")

    def carry(self, u: Tensor, displacement: Tensor) -> Tensor:
        nodes = along_axes(self, u, "finer")
        carried = read_between(nodes, displacement, self.options.interpolation)
        return carried if self.log_c is None else along_axes(self, carried, "diffused")


def along_axes(module: nn.Module, f: Tensor, name: str) -> Tensor:
    """f (B, C, *N) times matrices (N, M) or (C, N, M) of a module, one for each axis."""
    for axis in range(f.dim() - 2):
        along = f.movedim(2 + axis, -1)
        lines = along.flatten(2, -2) if f.dim() > 3 else along.unsqueeze(2)
        product = lines @ module.get_buffer(f"{name}_{axis}")
        f = torch.unflatten(product, 2, along.shape[2:-1]).movedim(-1, 2 + axis)
    return f


class FrozenPredictor(nn.Module):
    """decode ∘ network ∘ encode on one grid, as the task of the operator predicts; float32.

    Shapes: (B, C, *N) -> (B, O, *N) for static maps and for one step of a rollout; (B, T, O, *N)
    at `times`. Made by `freeze`.
    """

    constant: Tensor | None

    def __init__(self, operator: TrainedOperator, grid: Grid, times: Times) -> None:
        super().__init__()
        assert operator.sampling is not None
        self.task, self.grid, self.times = operator.task, grid, times
        self.frame_grid, recurrent = grid, hasattr(operator.task, "residual")
        frames, net = getattr(self.task, "frames", None), operator.on(grid)
        self.output_channels = operator.sampling.output_channels
        self.input_channels = operator.sampling.input_channels
        if frames is not None:
            self.input_channels = frames * self.output_channels
        self.inputs = net.inputs and net.inputs.moved(grid)
        self.outputs = net.outputs and net.outputs.moved(grid)
        # PDE parameters are fixed: the symbols see them after the time, or they are channels
        seen, arguments = net.in_symbols, list[Time]([net.in_symbols])
        self.register_buffer("constant", net.pde_parameters if seen is None else None)
        if isinstance(self.task, OneShot):
            arguments = list(map(self.task.scaled_time, times or ()))
            if seen is not None:
                arguments = [torch.cat([seen.new_tensor([[t]]), seen], dim=1) for t in arguments]
        elif isinstance(self.task, SpaceTime):
            grid = Grid((*grid.shape, len(times or ())))
        # recurrent tasks carry frames on the grid that a head wants
        self.finer = int(getattr(net.network, "coarsen", 1)) if recurrent else 1
        if self.finer > 1:
            for axis, n in enumerate(grid.shape):
                self.register_buffer(f"interpolated_{axis}", resampling_matrix(n, self.finer * n))
            self.frame_grid = grid = Grid(tuple(self.finer * n for n in grid.shape))
        shared: SharedTables = {}
        frozen = [freeze_network(net.network, grid, t, shared) for t in arguments]
        self.networks = nn.ModuleList(frozen)
        move(self, "cpu", torch.float32)
        for buffer in self.buffers():  # files hold them row by row
            buffer.data = buffer.data.contiguous()

    def forward(self, inputs: Tensor) -> Tensor:
        """The prediction in the units of the data."""
        self.grid.check(inputs, "inputs")
        channels, constant = self.output_channels, self.constant
        inputs = along_axes(self, inputs, "interpolated") if self.finer > 1 else inputs
        around = self.frame_grid, self.inputs, self.outputs, channels, constant
        residual = getattr(self.task, "residual", False)
        nets = [NormalizedNetwork(net, *around, residual=residual) for net in self.networks]
        if isinstance(self.task, OneShot):
            return torch.stack([net(inputs) for net in nets], dim=1)
        predicted = self.frames(partial(self.task.predict, nets[0], inputs))
        return predicted if self.finer == 1 else every_point(predicted, self.finer, self.grid.dim)

    def frames(self, predict: Callable[[Times], Tensor]) -> Tensor:
        """What a function of times predicts: at the times of this file, or one step."""
        if self.times is None and self.task.times_wanted == "in turn":
            return predict([0.0])[:, 0]
        return predict(self.times)


def freeze_network(network: nn.Module, grid: Grid, t: Time, shared: SharedTables) -> nn.Module:
    """A network, or a layer of one, on a grid and at a time; transforms are shared."""
    if isinstance(network, NeuralOperator):
        return FrozenNetwork(network, grid, t, shared)
    if isinstance(network, PseudoDifferentialOperator):
        return FrozenOperator(network, grid, t, shared)
    kind = type(network).__name__
    raise ValueError(f"a {kind} cannot be frozen: expected a PDNO, FNO or PDIO")


def grid_with_points(sampling: Sampling, points: int | None) -> Grid:
    """The grid of the training data, with other points on its longest axis if they are given."""
    shape = sampling.grid.shape
    points = max(shape) if points is None else points
    if points < 4 or any(n * points % max(shape) for n in shape):
        expected = "expected at least 4, in the same proportions"
        raise ValueError(f"resolution {points} for an operator of {shape} points: {expected}")
    return sampling.grid_of(torch.empty(1, 1, *(n * points // max(shape) for n in shape)))


@torch.no_grad()
def freeze(
    operator: TrainedOperator, resolution: int | None = None, frames: int | None = None
) -> FrozenPredictor:
    """A trained operator on a grid with `resolution` points on its longest axis.

    It predicts the first `frames` times; by default all, or one step of a rollout.
    """
    sampling, task = operator.sampling, operator.task
    if sampling is None:
        raise ValueError("this operator does not know its grid: train it by pdno.fit, or load it")
    grid = grid_with_points(sampling, resolution)
    times, step, wanted = sampling.times or (), sampling.step, task.times_wanted
    most = 0 if wanted == "none" or step is None else len(times) if wanted == "any" else math.inf
    if frames is not None and not 1 <= frames <= most:
        expected = f"1 to {most}" if most else "an operator that predicts frames"
        raise ValueError(f"frames is {frames}; expected {expected}: leave it out")
    every = None if isinstance(task, (OneShot, SpaceTime)) else 0
    later = (times[-1] + (step or 1) * k for k in range(1, 1 + (frames or 0)))
    chosen = (*times, *later)[: every if frames is None else frames]
    precise = copy.deepcopy(operator)
    move(precise, "cpu", torch.float64)
    return FrozenPredictor(precise.eval(), grid, chosen or None).eval()
