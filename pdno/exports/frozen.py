"""A trained operator on one grid, frozen: symbols are tables, transforms are matrix products.

    K[f]_j = Σ_r b_rj(x) F⁻¹[ Σ_i c_rji(ξ) f̂_i(ξ) ],      F and F⁻¹ axis by axis as real matrices

Nothing is complex, and what does not depend on the input is evaluated once, so products and sums
of real numbers remain (and the Erf of GELU), which every runtime has. x-factors of channel pairs
b_ji(x) become sums of as few terms as `RANK_ERROR` allows, by a singular value decomposition as in
`operators.cache`: R·O inverse transforms instead of I·O.
"""

__all__ = ["FrozenPredictor", "freeze"]

import copy
import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from pdno.networks.heads import REACH, REFINE, Transport, diffuse, read_between
from pdno.networks.neural_operator import NeuralOperator, PointwiseLinear, cut, pad
from pdno.networks.rollout import unroll
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.spectral.calculus import resample
from pdno.spectral.grid import Grid, axis_modes, hermitian_weights, kept_per_axis
from pdno.symbols.base import Time
from pdno.training.normalizer import Normalizer, move
from pdno.training.task import Markov, OneShot, Rollout, SpaceTime, TeacherForcing
from pdno.training.trained_operator import TrainedOperator

RANK_ERROR = 1e-6  # relative, of the x-factors of an output channel
Shared = dict[tuple[tuple[int, ...], tuple[int | None, ...]], "Tables"]


class Tables(nn.Module):
    """F and F⁻¹ on the kept modes of a grid (`pdno.spectral.fourier`), as one real product for each axis.

    Shapes: (B, M, *N) <-> (B, M, N^_d, ..., N^_2, 2, N^_1), the axes of the spectrum from the last
    to the first, 2 the real and imaginary parts.
    """

    def __init__(self, shape: Sequence[int], kept: Sequence[int | None]) -> None:
        super().__init__()
        self.dim = len(shape)
        for axis, (n, k) in enumerate(zip(shape, kept, strict=True)):
            half = axis == self.dim - 1
            m = axis_modes(n, k, half=half)
            # reduced modulo n as integers, so that no digit is lost
            angle = (torch.outer(torch.arange(n), m) % n).double() * (2 * math.pi / n)
            waves = torch.complex(torch.cos(angle), torch.sin(angle))
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
            h = self._next(h, 2 + self.dim - 2 - axis) @ self.get_buffer(f"there_{axis}")
        return torch.unflatten(h, -1, (2, -1))

    def synthesise(self, h: Tensor) -> Tensor:
        """F⁻¹."""
        h = h.flatten(-2)
        for axis in range(self.dim - 1):
            h = self._next(h @ self.get_buffer(f"back_{axis}"), 2 + axis)
        return h @ self.get_buffer(f"back_{self.dim - 1}")

    def _next(self, h: Tensor, done: int) -> Tensor:
        """Put the last axis, which is done, to its place and the next one last: (..., 2·N)."""
        h = torch.unflatten(h, -1, (2, -1))
        *rest, following, parts, last = range(h.dim())
        return h.permute(*rest[:done], last, *rest[done:], parts, following).flatten(-2)


def real_form(matrix: Tensor) -> Tensor:
    """A complex (..., K, M) for rows of numbers: real (..., 2K, 2M), for rows [Re, Im]."""
    upper = torch.cat([matrix.real, matrix.imag], dim=-1)
    return torch.cat([upper, torch.cat([-matrix.imag, matrix.real], dim=-1)], dim=-2)


class FrozenOperator(nn.Module):
    """K[f] on one grid and at one time, (B, I, *N) -> (B, O, *N)."""

    space: Tensor | None
    lower: Tensor | None

    def __init__(
        self, operator: PseudoDifferentialOperator, grid: Grid, t: Time, known: Shared
    ) -> None:
        super().__init__()
        kept = kept_per_axis(grid.shape, operator.modes)
        if (key := (grid.shape, kept)) not in known:
            known[key] = Tables(*key)
        self.tables, values = known[key], operator.values(grid, t)
        c, b = values.frequency, values.space
        # the modes in the order of the tables
        c = c.permute(0, 1, 2, *reversed(range(3, c.dim())))
        self.pairs = b is not None and b.shape[2] > 1
        if b is not None and b.shape[2] > 1:
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
        u, size, v = torch.linalg.svd(b.flatten(2).double(), full_matrices=False)
        squares = size.square().flip(-1).cumsum(-1).flip(-1)
        self.rank = int((squares > RANK_ERROR**2 * squares[:, :1]).sum(dim=1).max())
        fewer = self.rank < b.shape[1]
        lower = (u * size[:, None])[..., : self.rank].transpose(1, 2) if fewer else None
        self.register_buffer("lower", lower)
        few = v[:, : self.rank].reshape(len(b), -1, *b.shape[2:])
        self.register_buffer("space", few.clone() if fewer else b.clone())

    def forward(self, f: Tensor) -> Tensor:
        f_hat = self.tables.analyse(f)
        return self._sum_pairs(f_hat) if self.pairs else self._mix(f_hat)

    def _sum_pairs(self, f_hat: Tensor) -> Tensor:
        """Σ_i b_ji F⁻¹[c_ji f̂_i], or Σ_r b_jr F⁻¹[Σ_i l_jri c_ji f̂_i] by b_ji = Σ_r l_jri b_jr."""
        turned = torch.cat([-f_hat[..., 1:, :], f_hat[..., :1, :]], dim=-2)
        both = [torch.cat([part] * self.repeats, dim=1)[:, None] for part in (f_hat, turned)]
        product = both[0] * self.get_buffer("real") + both[1] * self.get_buffer("imaginary")
        if self.lower is not None:
            lowered = self.get_buffer("lower") @ product.flatten(3)
            product = torch.unflatten(lowered, 3, product.shape[3:])
        space = self.get_buffer("space")
        parts = self.tables.synthesise(product.flatten(1, 2))
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


class Pointwise(nn.Module):
    """W v + b at every point, (B, I, *N) -> (B, O, *N)."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight.detach().clone())
        self.register_buffer("bias", bias.detach().clone())

    def forward(self, v: Tensor) -> Tensor:
        mapped = self.get_buffer("weight") @ v.flatten(2) + self.get_buffer("bias")
        return torch.unflatten(mapped, -1, v.shape[2:])


def freeze_pointwise(one: nn.Module) -> Pointwise:
    """A `PointwiseLinear` as a table."""
    assert isinstance(one, PointwiseLinear)
    return Pointwise(one.weight, one.bias[:, None])


class FrozenNetwork(nn.Module):
    """A `NeuralOperator` on one grid and at one time; coordinates are part of the first bias."""

    def __init__(self, network: NeuralOperator, grid: Grid, t: Time, known: Shared) -> None:
        super().__init__()
        self.grid, self.inner = grid, network.inner_grid(grid)
        weight = network.lift.weight
        nothing = weight.new_zeros(1, network.in_channels, *grid.shape)
        bias = cut(network.enter(nothing, grid), grid)[0].flatten(1)
        self.lift = Pointwise(weight[:, : network.in_channels], bias)
        freeze_one = partial(freeze_network, grid=self.inner, t=t, known=known)
        self.operators = nn.ModuleList(map(freeze_one, network.operators))
        last = (network.project_hidden, network.project)
        maps = (network.locals, network.expand, network.contract, last)
        self.locals, self.expand, self.contract, self.last = (
            nn.ModuleList(map(freeze_pointwise, some)) for some in maps
        )

    def forward(self, f: Tensor) -> Tensor:
        v = pad(self.lift(f), self.inner)
        for layer, (operator, local) in enumerate(zip(self.operators, self.locals, strict=True)):
            if len(self.expand):
                mapped = functional.gelu(self.expand[layer](local(v) + operator(v)))
                v = v + self.contract[layer](mapped)
            else:
                v = functional.gelu(v) if layer else v
                v = local(v) + operator(v)
        hidden, project = self.last
        u: Tensor = project(functional.gelu(hidden(cut(v, self.grid))))
        return u


class FrozenTransport(nn.Module):
    """e^{cΔ} v(x + δ(x)) + r(x) (see `networks.transport`), on a grid.

    v is refined by one matrix for each axis, and diffuses by one for each axis and channel.
    """

    def __init__(self, network: nn.Module, grid: Grid, c: Tensor) -> None:
        super().__init__()
        self.network, self.dim, self.diffuses = network, grid.dim, bool(c.any())
        for axis, n in enumerate(grid.shape):
            points = torch.eye(n, dtype=torch.float64)
            self.register_buffer(f"finer_{axis}", resample(points, (REFINE * n,)))
            if self.diffuses:  # (C, N, N)
                spread = diffuse(points[:, None].expand(-1, len(c), -1), c).movedim(0, 1)
                self.register_buffer(f"diffused_{axis}", spread)

    def forward(self, f: Tensor) -> Tensor:
        moved = self.network(f)
        displacement, rest = moved[:, : self.dim], moved[:, self.dim :]
        fine = f[:, -rest.shape[1] :]
        for axis in range(self.dim):
            finer = self.get_buffer(f"finer_{axis}")
            fine = (fine.movedim(2 + axis, -1) @ finer).movedim(-1, 2 + axis)
        carried = read_between(fine, REACH * displacement)
        for axis in range(self.dim if self.diffuses else 0):
            along = carried.movedim(2 + axis, -1)
            lines = along.flatten(2, -2) if self.dim > 1 else along.unsqueeze(2)
            spread = (lines @ self.get_buffer(f"diffused_{axis}")).reshape(along.shape)
            carried = spread.movedim(-1, 2 + axis)
        frame: Tensor = carried + rest
        return frame


class FrozenNormalizer(nn.Module):
    """A `Normalizer` of fields with some number of channels, on one grid."""

    def __init__(self, normalizer: Normalizer, channels: int, grid: Grid) -> None:
        super().__init__()
        zeros = normalizer.mean.new_zeros(1, channels, *[1] * grid.dim)
        mean = normalizer.decode(zeros, grid)
        self.register_buffer("mean", mean)
        self.register_buffer("std", normalizer.decode(zeros + 1, grid) - mean)

    def encode(self, u: Tensor) -> Tensor:
        return (u - self.get_buffer("mean")) / self.get_buffer("std")

    def decode(self, u: Tensor) -> Tensor:
        return u * self.get_buffer("std") + self.get_buffer("mean")


class FrozenPredictor(nn.Module):
    """decode ∘ network ∘ encode on one grid, as the task of the operator says; float32.

    Shapes: (B, C, *N) -> (B, O, *N) for static maps and for one step of a rollout; (B, T, O, *N)
    where `times` are several or given to a rollout. Made by `freeze`.
    """

    def __init__(
        self, learner: TrainedOperator, grid: Grid, times: Sequence[float] | None
    ) -> None:
        super().__init__()
        assert learner.sampling is not None
        task, net, sampling = learner.task, learner.on(grid), learner.sampling
        self.task, self.grid, self.times = task, grid, None if times is None else tuple(times)
        seen = getattr(task, "frames", None)
        channels = sampling.input_channels
        self.input_channels = channels if seen is None else seen * sampling.output_channels
        self.output_channels = sampling.output_channels
        count = self.input_channels
        self.inputs = FrozenNormalizer(net.inputs, count, grid) if net.inputs else None
        count = self.output_channels
        self.outputs = FrozenNormalizer(net.outputs, count, grid) if net.outputs else None
        # numbers of the equation are fixed: symbols see them beside the time, or they are channels
        told = net.in_symbols
        at: list[Time] = [told]
        where = grid
        if isinstance(task, OneShot):
            moments = [task.scaled_time(float(t)) for t in self.times or ()]
            at = [
                t if told is None else torch.cat([told.new_tensor([[t]]), told], 1)
                for t in moments
            ]
        elif isinstance(task, SpaceTime):
            where = Grid((*grid.shape, len(self.times or ())))
        self.constants = 0
        if net.pde_parameters is not None and told is None:
            self.constants = net.pde_parameters.shape[1]
            self.register_buffer("constant", net.pde_parameters.reshape(1, -1, *[1] * grid.dim))
        known: Shared = {}
        self.networks = nn.ModuleList(freeze_network(net.network, where, t, known) for t in at)
        move(self, "cpu", torch.float32)
        for buffer in self.buffers():  # files hold them row by row
            buffer.data = buffer.data.contiguous()

    def forward(self, inputs: Tensor) -> Tensor:
        """The prediction in the units of the data."""
        if isinstance(self.task, OneShot):
            seen = self._encode(inputs)
            seen = self._with_constants(seen)
            return torch.stack([self._decode(network(seen)) for network in self.networks], dim=1)
        if isinstance(self.task, SpaceTime):
            seen = self._encode(inputs)[..., None]
            block = seen.expand(*seen.shape[:-1], len(self.times or ()))
            return self._decode(self.networks[0](block).movedim(-1, 1))
        if isinstance(self.task, (Rollout, TeacherForcing, Markov)) and self.times is not None:
            return unroll(self._step, inputs, len(self.times))
        return self._step(inputs)

    def _step(self, f: Tensor) -> Tensor:
        seen = self._encode(f)
        frame = self.networks[0](self._with_constants(seen))
        if getattr(self.task, "residual", False):
            frame = frame + seen[:, -self.output_channels :]
        return self._decode(frame)

    def _with_constants(self, f: Tensor) -> Tensor:
        if not self.constants:
            return f
        constant = self.get_buffer("constant").expand(len(f), -1, *f.shape[2:])
        return torch.cat([constant, f], dim=1)

    def _encode(self, f: Tensor) -> Tensor:
        return f if self.inputs is None else self.inputs.encode(f)

    def _decode(self, u: Tensor) -> Tensor:
        return u if self.outputs is None else self.outputs.decode(u)


def freeze_network(network: nn.Module, grid: Grid, t: Time, known: Shared) -> nn.Module:
    """A network, or a part of one, on a grid and at a time; transforms are shared."""
    if isinstance(network, NeuralOperator):
        frozen = FrozenNetwork(network, grid, t, known)
        head = network.head
        return FrozenTransport(frozen, grid, head.c) if isinstance(head, Transport) else frozen
    if isinstance(network, PseudoDifferentialOperator):
        return FrozenOperator(network, grid, t, known)
    raise ValueError(
        f"a {type(network).__name__} cannot be frozen: expected a PDNO, FNO or PDIO; "
        "other networks run where pdno runs"
    )


@torch.no_grad()
def freeze(
    learner: TrainedOperator, resolution: int | None = None, times: Sequence[float] | None = None
) -> FrozenPredictor:
    """A trained operator on a grid; at other times than one step or those of the training.

    `resolution` are the points of the longest axis, those of the training where none is given.
    """
    sampling, task = learner.sampling, learner.task
    if sampling is None:
        raise ValueError("this learner does not know its grid: train it by pdno.fit, or load it")
    longest = max(sampling.grid.shape)
    points = longest if resolution is None else resolution
    if points < 4 or any(n * points % longest for n in sampling.grid.shape):
        raise ValueError(
            f"resolution {points} for an operator of {sampling.grid.shape} points: expected at "
            "least 4, in the same proportions"
        )
    shape = [n * points // longest for n in sampling.grid.shape]
    grid = sampling.grid_of(torch.empty(1, sampling.input_channels, *shape))
    if task.times_wanted == "none":
        if times is not None:
            raise ValueError("this operator gives one field, not frames: leave frames out")
    elif times is None and not isinstance(task, (Rollout, TeacherForcing, Markov)):
        times = sampling.times
    precise = copy.deepcopy(learner)
    move(precise, "cpu", torch.float64)
    return FrozenPredictor(precise.eval(), grid, times).eval()
