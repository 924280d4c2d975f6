"""Frozen operators: a trained operator on one grid, with tables for symbols and transforms.

    K[f]_j = Σ_r b_rj(x) F⁻¹[ Σ_i c_rji(ξ) f̂_i(ξ) ],      F and F⁻¹ axis by axis as real matrices

What does not depend on the input is evaluated once, so products and sums of real numbers remain
(and the Erf of GELU), which every runtime has. x-factors b_ji(x) of channel pairs become
sums of as few terms as `RANK_ERROR` allows: R·O inverse transforms instead of I·O.
"""

import copy
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from pdno.networks.heads import REACH, REFINE, Transport, diffuse, read_between
from pdno.networks.neural_operator import NeuralOperator, cut, pad
from pdno.operators.cache import truncate_rank
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.spectral.calculus import resample
from pdno.spectral.grid import Grid, axis_modes, hermitian_weights, kept_per_axis
from pdno.symbols.base import Time
from pdno.training.normalizer import NormalizedNetwork, Normalizer, move
from pdno.training.operator_record import Sampling
from pdno.training.task import OneShot, SpaceTime
from pdno.training.trained_operator import TrainedOperator

RANK_ERROR = 1e-6  # relative, of the x-factors of an output channel
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
            # reduced modulo n as integers, so that no digit is lost
            angle = (torch.outer(torch.arange(n), m) % n).double() * (2 * math.pi / n)
            waves = torch.polar(torch.ones_like(angle), angle)
            there, back = real_form(waves.conj() / n), real_form(waves.T.contiguous())
            if half:  # from real functions and to them, by the Hermitian rule
                weights = hermitian_weights(m, n).repeat(2)[:, None]
                there, back = there[:n], back[:, :n] * weights
            self.register_buffer(f"there_{axis}", there.clone())
            self.register_buffer(f"back_{axis}", back.clone())

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
    h = torch.unflatten(h, -1, (2, -1))
    *rest, following, parts, last = range(h.dim())
    return h.permute(*rest[:position], last, *rest[position:], parts, following).flatten(-2)


def real_form(matrix: Tensor) -> Tensor:
    """A complex (..., K, M) for rows of numbers: real (..., 2K, 2M), for rows [Re, Im]."""
    upper = torch.cat([matrix.real, matrix.imag], dim=-1)
    return torch.cat([upper, torch.cat([-matrix.imag, matrix.real], dim=-1)], dim=-2)


class FrozenOperator(nn.Module):
    """K[f] on one grid and at one time, (B, I, *N) -> (B, O, *N)."""

    space: Tensor | None

    def __init__(
        self, operator: PseudoDifferentialOperator, grid: Grid, t: Time, shared: SharedTables
    ) -> None:
        super().__init__()
        kept = kept_per_axis(grid.shape, operator.modes)
        if (key := (grid.shape, kept)) not in shared:
            shared[key] = Tables(*key)
        self.tables, values = shared[key], operator.values(grid, t)
        c, b = values.frequency, values.space
        # the modes in the order of the tables
        c = c.permute(0, 1, 2, *reversed(range(3, c.dim())))
        self.pairs = b is not None and b.shape[2] > 1
        if b is not None and self.pairs:
            self._keep_pairs(c, b)
            return
        self.rank = 1 if b is None else len(c)
        c = c.sum(dim=0) if b is None else c.flatten(0, 1)
        # a matrix for each mode
        self.register_buffer("mix", real_form(c.flatten(2).permute(2, 1, 0)))
        self.register_buffer("space", None if b is None else b[:, :, 0].clone())

    def _keep_pairs(self, c: Tensor, b: Tensor) -> None:
        """(R, O, I, *K) and (R, O or 1, I, *N); r counts like further inputs."""
        b = b.expand(*c.shape[:3], *b.shape[3:]).movedim(0, 1).flatten(1, 2)
        self.repeats, modes = len(c), c.movedim(0, 1).flatten(1, 2).unsqueeze(-2)
        self.register_buffer("real", modes.real.clone())
        self.register_buffer("imaginary", modes.imag.clone())
        weights, space, _ = truncate_rank(b, RANK_ERROR)
        self.rank = space.shape[1]
        self.register_buffer("lower", weights.transpose(1, 2).clone())  # (O, R, I)
        self.register_buffer("space", space)

    def forward(self, f: Tensor) -> Tensor:
        f_hat = self.tables.analyse(f)
        return self._sum_pairs(f_hat) if self.pairs else self._mix(f_hat)

    def _sum_pairs(self, f_hat: Tensor) -> Tensor:
        """Σ_r b_jr F⁻¹[Σ_i l_jri c_ji f̂_i] by b_ji = Σ_r l_jri b_jr."""
        turned = torch.cat([-f_hat[..., 1:, :], f_hat[..., :1, :]], dim=-2)
        both = [torch.cat([part] * self.repeats, dim=1)[:, None] for part in (f_hat, turned)]
        product = both[0] * self.get_buffer("real") + both[1] * self.get_buffer("imaginary")
        space, lowered = self.get_buffer("space"), self.get_buffer("lower") @ product.flatten(3)
        lowered = torch.unflatten(lowered, 3, product.shape[3:])
        parts = self.tables.synthesise(lowered.flatten(1, 2))
        return (torch.unflatten(parts, 1, space.shape[:2]) * space).sum(dim=2)

    def _mix(self, f_hat: Tensor) -> Tensor:
        """Σ_r b_rj F⁻¹[Σ_i c_rji f̂_i]."""
        sizes, axes = (*f_hat.shape[2:-2], f_hat.shape[-1]), tuple(range(2, f_hat.dim()))
        moved = f_hat.permute(*axes[:-2], axes[-1], 0, axes[-2], 1)  # (*K', K_1, B, 2, I)
        mixed = moved.flatten(0, -4).flatten(-2) @ self.get_buffer("mix")
        mixed = torch.unflatten(torch.unflatten(mixed, -1, (2, -1)), 0, sizes)
        count = mixed.dim()
        order = (count - 3, count - 1, *range(count - 4), count - 2, count - 4)
        parts = self.tables.synthesise(mixed.permute(*order))
        if self.space is None:
            return parts
        return (torch.unflatten(parts, 1, (self.rank, -1)) * self.get_buffer("space")).sum(dim=1)


class FrozenNetwork(nn.Module):
    """A `NeuralOperator` on one grid and at one time; coordinates are part of the first bias."""

    def __init__(self, network: NeuralOperator, grid: Grid, t: Time, shared: SharedTables) -> None:
        super().__init__()
        self.grid, self.inner = grid, network.inner_grid(grid)
        zeros = network.lift.weight.new_zeros(1, network.in_channels, *grid.shape)
        self.register_buffer("lift", network.lift.weight[:, : network.in_channels].clone())
        self.register_buffer("bias", cut(network.enter(zeros, grid), grid).flatten(2))
        self.operators = nn.ModuleList(
            freeze_network(operator, self.inner, t, shared) for operator in network.operators
        )
        self.locals, self.expand, self.contract = network.locals, network.expand, network.contract
        self.last = nn.ModuleList([network.project_hidden, network.project])
        self.head = None if network.head is None else freeze_head(network.head, grid)

    def forward(self, f: Tensor) -> Tensor:
        lifted = self.get_buffer("lift") @ f.flatten(2) + self.get_buffer("bias")
        v = pad(torch.unflatten(lifted, -1, f.shape[2:]), self.inner)
        for layer, (operator, local) in enumerate(zip(self.operators, self.locals, strict=True)):
            if len(self.expand):
                mapped = functional.gelu(self.expand[layer](local(v) + operator(v)))
                v = v + self.contract[layer](mapped)
            else:
                v = functional.gelu(v) if layer else v
                v = local(v) + operator(v)
        hidden, project = self.last
        u: Tensor = project(functional.gelu(hidden(cut(v, self.grid))))
        return u if self.head is None else self.head(u, f)


def freeze_head(head: nn.Module, grid: Grid) -> nn.Module:
    """The head of a network on one grid."""
    if isinstance(head, Transport):
        return FrozenTransport(head, grid)
    raise ValueError(
        f"a {type(head).__name__} head cannot be exported: add it to exports/frozen.py"
    )


class FrozenTransport(nn.Module):
    """e^{cΔ} v(x + δ(x)) + r(x) (see `networks.heads`) on a grid.

    v is refined by one matrix for each axis, and diffuses by one for each axis and channel.
    """

    def __init__(self, head: Transport, grid: Grid) -> None:
        super().__init__()
        self.dim, self.diffuses = grid.dim, head.log_c is not None
        for axis, n in enumerate(grid.shape):
            points = torch.eye(n, dtype=torch.float64)
            self.register_buffer(f"finer_{axis}", resample(points, (REFINE * n,)))
            if self.diffuses:  # (C, N, N)
                spread = diffuse(points[:, None].expand(-1, len(head.c), -1), head.c)
                self.register_buffer(f"diffused_{axis}", spread.movedim(0, 1))

    def forward(self, outputs: Tensor, f: Tensor) -> Tensor:
        """The next frame, from outputs (B, d + C, *N) and the input f (B, k·C, *N)."""
        displacement, rest = outputs[:, : self.dim], outputs[:, self.dim :]
        fine = f[:, -rest.shape[1] :]
        for axis in range(self.dim):
            fine = _multiply(fine, axis, self.get_buffer(f"finer_{axis}"))
        carried = read_between(fine, REACH * displacement)
        for axis in range(self.dim if self.diffuses else 0):
            carried = _multiply(carried, axis, self.get_buffer(f"diffused_{axis}"))
        return carried + rest


def _multiply(f: Tensor, axis: int, matrix: Tensor) -> Tensor:
    """f (B, C, *N) times a matrix, (N, M) or (C, N, M), along an axis."""
    along = f.movedim(2 + axis, -1)
    lines = along.flatten(2, -2) if along.dim() > 3 else along.unsqueeze(2)
    return torch.unflatten(lines @ matrix, 2, along.shape[2:-1]).movedim(-1, 2 + axis)


class FrozenNormalizer(Normalizer):
    """A normaliser of fields with some number of channels, on one grid."""

    def __init__(self, normalizer: Normalizer, channels: int, grid: Grid) -> None:
        zeros = normalizer.mean.new_zeros(1, channels, *[1] * grid.dim)
        mean = normalizer.decode(zeros, grid)
        super().__init__(mean, normalizer.decode(zeros + 1, grid) - mean, grid)

    def encode(self, u: Tensor, grid: Grid) -> Tensor:
        return (u - self.mean) / self.std

    def decode(self, u: Tensor, grid: Grid) -> Tensor:
        return u * self.std + self.mean


class FrozenPredictor(nn.Module):
    """decode ∘ network ∘ encode on one grid, as the task of the operator predicts; float32.

    Shapes: (B, C, *N) -> (B, O, *N) for static maps and for one step of a rollout; (B, T, O, *N)
    at `times`. Made by `freeze`.
    """

    constant: Tensor | None

    def __init__(
        self, operator: TrainedOperator, grid: Grid, times: Sequence[float] | None
    ) -> None:
        super().__init__()
        assert operator.sampling is not None
        self.task, self.grid = operator.task, grid
        self.times = None if times is None else tuple(map(float, times))
        frames, net = getattr(self.task, "frames", None), operator.on(grid)
        self.output_channels = operator.sampling.output_channels
        self.input_channels = operator.sampling.input_channels
        if frames is not None:
            self.input_channels = frames * self.output_channels
        self.inputs = net.inputs and FrozenNormalizer(net.inputs, self.input_channels, grid)
        self.outputs = net.outputs and FrozenNormalizer(net.outputs, self.output_channels, grid)
        # PDE parameters are fixed: the symbols see them after the time, or they are channels
        seen, arguments = net.in_symbols, list[Time]([net.in_symbols])
        self.register_buffer("constant", net.pde_parameters if seen is None else None)
        if isinstance(self.task, OneShot):
            arguments = list(map(self.task.scaled_time, self.times or ()))
            if seen is not None:
                arguments = [torch.cat([seen.new_tensor([[t]]), seen], dim=1) for t in arguments]
        elif isinstance(self.task, SpaceTime):
            grid = Grid((*grid.shape, len(self.times or ())))
        shared: SharedTables = {}
        frozen = [freeze_network(net.network, grid, t, shared) for t in arguments]
        self.networks = nn.ModuleList(frozen)
        move(self, "cpu", torch.float32)
        for buffer in self.buffers():  # files hold them row by row
            buffer.data = buffer.data.contiguous()

    def forward(self, inputs: Tensor) -> Tensor:
        """The prediction in the units of the data."""
        channels, constant = self.output_channels, self.constant
        nets = [
            NormalizedNetwork(network, self.grid, self.inputs, self.outputs, channels, constant)
            for network in self.networks
        ]
        if isinstance(self.task, OneShot):
            return torch.stack([net(inputs) for net in nets], dim=1)
        if self.times is None and self.task.times_wanted == "in turn":
            return self.task.predict(nets[0], inputs, [0.0])[:, 0]
        return self.task.predict(nets[0], inputs, self.times)


def freeze_network(network: nn.Module, grid: Grid, t: Time, shared: SharedTables) -> nn.Module:
    """A network, or a layer of one, on a grid and at a time; transforms are shared."""
    if isinstance(network, NeuralOperator):
        return FrozenNetwork(network, grid, t, shared)
    if isinstance(network, PseudoDifferentialOperator):
        return FrozenOperator(network, grid, t, shared)
    kind = type(network).__name__
    raise ValueError(f"a {kind} cannot be frozen: expected a PDNO, FNO or PDIO")


def grid_with_points(sampling: Sampling, points: int) -> Grid:
    """The grid of the training data with other points on its longest axis."""
    shape = sampling.grid.shape
    if points < 4 or any(n * points % max(shape) for n in shape):
        expected = "expected at least 4, in the same proportions"
        raise ValueError(f"resolution {points} for an operator of {shape} points: {expected}")
    return sampling.grid_of(torch.empty(1, 1, *(n * points // max(shape) for n in shape)))


@torch.no_grad()
def freeze(
    operator: TrainedOperator, resolution: int | None = None, times: Sequence[float] | None = None
) -> FrozenPredictor:
    """A trained operator on a grid, for one step of a rollout unless times are given.

    The `resolution` are points of the longest axis. Without it, and without times where frames are
    not predicted in turn, they are those of the training.
    """
    sampling, task = operator.sampling, operator.task
    if sampling is None:
        raise ValueError("this operator does not know its grid: train it by pdno.fit, or load it")
    points = max(sampling.grid.shape) if resolution is None else resolution
    grid = grid_with_points(sampling, points)
    if task.times_wanted == "none":
        if times is not None:
            raise ValueError("this operator predicts one field, not frames: leave frames out")
    elif times is None and isinstance(task, (OneShot, SpaceTime)):
        times = sampling.times
    precise = copy.deepcopy(operator)
    move(precise, "cpu", torch.float64)
    return FrozenPredictor(precise.eval(), grid, times).eval()
