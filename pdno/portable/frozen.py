"""A trained operator on one grid, frozen: symbols are tables, transforms are matrix products.

    K[f]_j = Σ_r b_rj(x) F⁻¹[ Σ_i c_rji(ξ) f̂_i(ξ) ],      F and F⁻¹ axis by axis as real matrices

Nothing is complex, and what does not depend on the input is evaluated once, so products and sums
of real numbers remain (and the Erf of GELU), which every runtime has. x-factors of channel pairs
b_ji(x) become sums of as few terms as `RANK_ERROR` allows, by a singular value decomposition (see
`operators.cache`): R·O inverse transforms instead of I·O.
"""

__all__ = ["FrozenPredictor", "freeze"]

import copy
import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from pdno.grid import Grid, axis_modes, hermitian_weights, kept_per_axis
from pdno.networks.neural_operator import NeuralOperator, cut, pad
from pdno.networks.rollout import unroll
from pdno.networks.transport import REACH, REFINE, Transport, read_between
from pdno.operators.cache import lower_rank
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.spectral import resample
from pdno.training.normalizer import Normalizer, move
from pdno.training.task import Learner, Markov, OneShot, Rollout, SpaceTime, TeacherForcing

RANK_ERROR = 1e-6  # relative, of the x-factors of an output channel
Shared = dict[tuple[tuple[int, ...], tuple[int | None, ...]], "Tables"]


class Tables(nn.Module):
    """F and F⁻¹ on the kept modes of a grid (`pdno.fourier`), as one real product for each axis.

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
        return h.unflatten(-1, (2, -1))

    def synthesise(self, h: Tensor) -> Tensor:
        """F⁻¹."""
        h = h.flatten(-2)
        for axis in range(self.dim - 1):
            h = self._next(h @ self.get_buffer(f"back_{axis}"), 2 + axis)
        return h @ self.get_buffer(f"back_{self.dim - 1}")

    def _next(self, h: Tensor, done: int) -> Tensor:
        """Put the last axis, which is done, to its place and the next one last: (..., 2·N)."""
        h = h.unflatten(-1, (2, -1))
        *rest, following, parts, last = range(h.dim())
        return h.permute(*rest[:done], last, *rest[done:], parts, following).flatten(-2)


def real_form(matrix: Tensor) -> Tensor:
    """A complex (..., K, M) for rows of numbers: real (..., 2K, 2M), for rows [Re, Im]."""
    upper = torch.cat([matrix.real, matrix.imag], dim=-1)
    return torch.cat([upper, torch.cat([-matrix.imag, matrix.real], dim=-1)], dim=-2)


class FrozenOperator(nn.Module):
    """K[f] on one grid and at one time, (B, I, *N) -> (B, O, *N)."""

    def __init__(
        self, operator: PseudoDifferentialOperator, grid: Grid, t: float | None, known: Shared
    ) -> None:
        super().__init__()
        kept = kept_per_axis(grid.shape, operator.modes)
        if (key := (grid.shape, kept)) not in known:
            known[key] = Tables(*key)
        self.tables = known[key]
        lowered, _ = lower_rank(operator.values(grid, t), RANK_ERROR)
        c, b = lowered.frequency.detach(), lowered.space
        c = c if b is not None else c.sum(dim=0, keepdim=True)
        self.sizes, self.pairs = tuple(c.shape[:3]), b is not None and b.shape[2] > 1
        modes = c.permute(0, 1, 2, *reversed(range(3, c.dim())))
        if self.pairs:  # (R·O, I, *K', 1, K_1), to multiply both parts
            modes = modes.flatten(0, 1).unsqueeze(-2)
            self.register_buffer("real", modes.real.clone())
            self.register_buffer("imaginary", modes.imag.clone())
        else:  # a matrix for each mode
            self.register_buffer("mix", real_form(modes.flatten(0, 1).flatten(2).permute(2, 1, 0)))
        factors = None if b is None else (b if self.pairs else b[:, :, 0]).detach().clone()
        self.register_buffer("space", factors)

    def forward(self, f: Tensor) -> Tensor:
        rank, outputs, inputs = self.sizes
        f_hat = self.tables.analyse(f)
        if self.pairs:
            turned = torch.cat([-f_hat[..., 1:, :], f_hat[..., :1, :]], dim=-2)
            real, imaginary = self.get_buffer("real"), self.get_buffer("imaginary")
            product = f_hat[:, None] * real + turned[:, None] * imaginary
            parts = self.tables.synthesise(product.flatten(1, 2))
            parts = parts.unflatten(1, (rank, outputs, inputs)) * self.get_buffer("space")
            return parts.sum(dim=(1, 3))
        *middle, last = f_hat.shape[2:-2] + f_hat.shape[-1:]
        axes = tuple(range(2, f_hat.dim()))
        moved = f_hat.permute(*axes[:-2], axes[-1], 0, axes[-2], 1)  # (*K', K_1, B, 2, I)
        mixed = moved.flatten(0, -4).flatten(-2) @ self.get_buffer("mix")
        mixed = mixed.unflatten(-1, (2, -1)).unflatten(0, (*middle, last))
        count = mixed.dim()
        order = (count - 3, count - 1, *range(count - 4), count - 2, count - 4)
        parts = self.tables.synthesise(mixed.permute(*order))
        if self.space is None:
            return parts
        return (parts.unflatten(1, (rank, outputs)) * self.get_buffer("space")).sum(dim=1)


class Pointwise(nn.Module):
    """W v + b at every point, (B, I, *N) -> (B, O, *N)."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight.detach().clone())
        self.register_buffer("bias", bias.detach().clone())

    def forward(self, v: Tensor) -> Tensor:
        mapped = self.get_buffer("weight") @ v.flatten(2) + self.get_buffer("bias")
        return mapped.unflatten(-1, v.shape[2:])


class FrozenNetwork(nn.Module):
    """A `NeuralOperator` on one grid and at one time; coordinates are part of the first bias."""

    def __init__(
        self, network: NeuralOperator, grid: Grid, t: float | None, known: Shared
    ) -> None:
        super().__init__()
        self.grid, self.inner = grid, network.inner_grid(grid)
        weight = network.lift.weight
        nothing = weight.new_zeros(1, network.in_channels, *grid.shape)
        bias = cut(network.enter(nothing, grid), grid)[0].flatten(1)
        self.lift = Pointwise(weight[:, : network.in_channels], bias)
        freeze_one = partial(freeze_network, grid=self.inner, t=t, known=known)
        self.operators = nn.ModuleList(map(freeze_one, network.operators))
        self.locals, self.expand, self.contract, (self.hidden, self.project) = (
            nn.ModuleList(Pointwise(one.weight, one.bias[:, None]) for one in maps)
            for maps in (
                *(network.locals, network.expand, network.contract),
                (network.project_hidden, network.project),
            )
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
        u: Tensor = self.project(functional.gelu(self.hidden(cut(v, self.grid))))
        return u


class FrozenTransport(nn.Module):
    """v(x + δ(x)) + r(x) (see `networks.transport`); v is refined by one matrix for each axis."""

    def __init__(self, network: nn.Module, grid: Grid) -> None:
        super().__init__()
        self.network, self.dim = network, grid.dim
        for axis, n in enumerate(grid.shape):
            finer = resample(torch.eye(n, dtype=torch.float64), (REFINE * n,))
            self.register_buffer(f"finer_{axis}", finer)

    def forward(self, f: Tensor) -> Tensor:
        moved = self.network(f)
        displacement, rest = moved[:, : self.dim], moved[:, self.dim :]
        fine = f[:, -rest.shape[1] :]
        for axis in range(self.dim):
            finer = self.get_buffer(f"finer_{axis}")
            fine = (fine.movedim(2 + axis, -1) @ finer).movedim(-1, 2 + axis)
        frame: Tensor = read_between(fine, REACH * displacement) + rest
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

    def __init__(self, learner: Learner, grid: Grid, times: Sequence[float] | None) -> None:
        super().__init__()
        assert learner.sampling is not None
        task, net, sampling = learner.task, learner.normalized, learner.sampling
        self.task, self.grid, self.times = task, grid, None if times is None else tuple(times)
        seen = getattr(task, "frames", None)
        channels = sampling.input_channels
        self.input_channels = channels if seen is None else seen * sampling.output_channels
        self.output_channels = sampling.output_channels
        count = self.input_channels
        self.inputs = FrozenNormalizer(net.inputs, count, grid) if net.inputs else None
        count = self.output_channels
        self.outputs = FrozenNormalizer(net.outputs, count, grid) if net.outputs else None
        at: list[float | None] = [None]
        where = grid
        if isinstance(task, OneShot):
            at = [task.scaled_time(float(t)) for t in self.times or ()]
        elif isinstance(task, SpaceTime):
            where = Grid((*grid.shape, len(self.times or ())))
        known: Shared = {}
        self.networks = nn.ModuleList(freeze_network(net.network, where, t, known) for t in at)
        move(self, "cpu", torch.float32)
        for buffer in self.buffers():  # files hold them row by row
            buffer.data = buffer.data.contiguous()

    def forward(self, inputs: Tensor) -> Tensor:
        """The prediction in the units of the data."""
        if isinstance(self.task, OneShot):
            seen = self._encode(inputs)
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
        frame = self.networks[0](seen)
        if getattr(self.task, "residual", False):
            frame = frame + seen[:, -self.output_channels :]
        return self._decode(frame)

    def _encode(self, f: Tensor) -> Tensor:
        return f if self.inputs is None else self.inputs.encode(f)

    def _decode(self, u: Tensor) -> Tensor:
        return u if self.outputs is None else self.outputs.decode(u)


def freeze_network(network: nn.Module, grid: Grid, t: float | None, known: Shared) -> nn.Module:
    """A network, or a part of one, on a grid and at a time; transforms are shared."""
    if isinstance(network, Transport):
        return FrozenTransport(freeze_network(network.network, grid, t, known), grid)
    if isinstance(network, NeuralOperator):
        return FrozenNetwork(network, grid, t, known)
    if isinstance(network, PseudoDifferentialOperator):
        return FrozenOperator(network, grid, t, known)
    raise ValueError(
        f"a {type(network).__name__} cannot be frozen: expected a PDNO, FNO, PDIO or Transport; "
        "other networks run where pdno runs"
    )


@torch.no_grad()
def freeze(
    learner: Learner, resolution: int | None = None, times: Sequence[float] | None = None
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
