"""Tasks: examples, losses and predictions of a network on a dataset."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeVar

import torch
from pydantic import BeforeValidator, ConfigDict, Field, SerializeAsAny
from torch import Tensor, nn

from pdno.interface.records import Record, by_kind
from pdno.networks.neural_operator import NeuralOperator, rollout
from pdno.spectral.calculus import every_point, resample_by_axis
from pdno.spectral.grid import Grid
from pdno.training.samples import Batch, Samples, example_noise
from pdno.training.statistics import Normalization, Normalizer, fit_normalizer

AT_ONCE = 2**19  # numbers of inputs up to which all times are predicted together
TimeValue = TypeVar("TimeValue", float, Tensor)
Times = Sequence[float] | None  # of the frames of a prediction; None for a static problem
Frames = Annotated[int, Field(ge=1)]
Normalizers = tuple[Normalizer | None, Normalizer | None]  # of inputs and of outputs


@dataclass(frozen=True)
class NormalizedNetwork:
    """decode ∘ network ∘ encode on a grid, at the PDE parameters of a batch.

    `pde_parameters` are scaled, (B, P). Symbols see them where they take such; else each is a
    constant channel before the others. One output has `channels` channels. The network sees times
    as (t - start) / span; a `residual` one gives the increment from the last frame of its input.
    """

    network: nn.Module
    grid: Grid
    inputs: Normalizer | None = None
    outputs: Normalizer | None = None
    channels: int = 1
    pde_parameters: Tensor | None = None
    time_scale: tuple[float, float] = (0.0, 1.0)  #: start, span
    residual: bool = False
    shared: Callable[[Tensor], Tensor] | None = None  #: the network, its symbols evaluated already
    output_grid: Grid | None = None  #: of the outputs, where it is another one

    def __call__(self, f: Tensor, t: Tensor | None = None) -> Tensor:
        """The output for fields and at times in the units of the data."""
        encoded = self.encode(f)
        output = self.apply(encoded, t)
        last = encoded[:, -output.shape[1] :] if self.residual else None
        return self.decode(output if last is None else output + last)

    @cached_property
    def step(self) -> "NormalizedNetwork":
        """The same with the symbols evaluated once for all calls, where the network has such."""
        if not isinstance(self.network, NeuralOperator) or self.output_grid is not None:
            return self
        return replace(self, shared=self.network.shared_step(self.grid, self.in_symbols))

    def encode(self, f: Tensor) -> Tensor:
        return self.grid.cover(f if self.inputs is None else self.inputs.encode(f, self.grid))

    def decode(self, u: Tensor) -> Tensor:
        grid = self.target_grid
        return grid.cover(u if self.outputs is None else self.outputs.decode(u, grid))

    @property
    def target_grid(self) -> Grid:
        return self.output_grid or self.grid

    @property
    def in_symbols(self) -> Tensor | None:
        """The PDE parameters that the symbols see, (B, P); None where they see none."""
        return self.pde_parameters if count_seen(self.network) else None

    def with_channels(self, f: Tensor) -> Tensor:
        """f after a constant channel for each parameter that no symbol sees, (B, P + C, *N)."""
        if self.pde_parameters is None or self.in_symbols is not None:
            return f
        constant = self.pde_parameters.to(f)
        constant = constant.reshape(*constant.shape, *[1] * (f.dim() - 2))
        return torch.cat([constant.expand(f.shape[0], -1, *f.shape[2:]), f], dim=1)

    def apply(self, f: Tensor, t: Tensor | None = None) -> Tensor:
        """The network alone, on encoded fields; it gets those of the grids that it takes."""
        f, numbers = self.with_channels(f), self.in_symbols
        if self.shared is not None:
            return self.shared(f)
        if t is not None:
            start, span = self.time_scale
            t = (t - start) / span
            if numbers is not None:  # one time for all, or one for each sample, comes first
                numbers = numbers.expand(len(f), -1)
                t = torch.cat([t.reshape(-1, 1).expand(len(f), 1).to(numbers), numbers], dim=1)
            numbers = t
        options: dict[str, object] = {} if numbers is None else {"t": numbers}
        names = _grids_taken(type(self.network).forward)
        options |= {name: getattr(self, name) for name in names}
        if self.output_grid is not None and "output_grid" not in names:
            kind = type(self.network).__name__
            raise ValueError(f"{kind} gives outputs at the points of its inputs: take a PDNO")
        output: Tensor = self.network(f, **options)
        return output


@cache
def _grids_taken(forward: Callable[..., object]) -> list[str]:
    return [n for n in ("grid", "output_grid") if n in inspect.signature(forward).parameters]


def count_seen(network: nn.Module) -> int:
    """How many PDE parameters the symbols of a network see."""
    return int(getattr(network, "pde_parameters", 0))


class Task(Record, ABC):
    """Base class of tasks; by default each sample is an example."""

    model_config = ConfigDict(allow_inf_nan=False)
    if TYPE_CHECKING:  # each has its own as a field, which specifications name it by
        kind: str
    times_wanted: ClassVar[Literal["none", "any", "in turn"]] = "in turn"
    """Which times of frames may be asked for: none, any, or one frame after another."""

    @property
    def time_scale(self) -> tuple[float, float]:
        """Start and span, by which the network sees a time as (t - start) / span."""
        return 0.0, 1.0

    def check_head(self, head: object) -> None:
        """Refuse the head of a network, if any, that this task contradicts."""

    def examples(self, samples: Samples) -> int:
        """How many examples the samples have; ValueError where they do not fit the task."""
        self._need(samples.data.target_times)
        return len(samples)

    def batch(self, samples: Samples, indices: Sequence[int], *, seed: int, epoch: int) -> Batch:
        """Some examples, with the noise of an epoch, if any."""
        return samples.examples(indices)

    def normalizers(self, samples: Samples, kind: Normalization) -> Normalizers:
        """The normalisers of inputs and outputs, fitted to the training samples."""
        (inputs, targets), data = samples.batch(), samples.data
        frames = data.times is not None
        outputs = fit_normalizer(targets, data.target_grid, kind, frames=frames)
        return fit_normalizer(inputs, data.grid, kind), outputs

    @abstractmethod
    def forward(self, net: NormalizedNetwork, batch: Batch) -> Tensor:
        """The output for a batch of examples, of the shape of its targets."""

    @abstractmethod
    def predict(self, net: NormalizedNetwork, inputs: Tensor, times: Times) -> Tensor:
        """The prediction of all targets of some samples."""

    def _need(self, times: Times) -> Sequence[float]:
        if times is None:
            wrong = f"{type(self).__name__} needs times; a static dataset has none"
            raise ValueError(f"{wrong}: take StaticMap")
        return times


class StaticMap(Task):
    """f -> u in one application (Darcy and Burgers)."""

    kind: Literal["static"] = "static"
    times_wanted = "none"

    def examples(self, samples: Samples) -> int:
        self._check(samples.data.target_times)
        return len(samples)

    def forward(self, net: NormalizedNetwork, batch: Batch) -> Tensor:
        output = net(batch.inputs)
        return output[:, None] if batch.targets.dim() > output.dim() else output

    def predict(self, net: NormalizedNetwork, inputs: Tensor, times: Times) -> Tensor:
        self._check(times)
        output = net.step(inputs)
        return output if times is None else output[:, None]

    def _check(self, times: Times) -> None:
        if times is not None and len(times) != 1:
            raise ValueError(f"a static map gives one frame, not {len(times)}: take Rollout")


class _Recurrent(Task):
    """A window of frames (B, k·C, *N) -> the next frame; the normaliser is one of frames."""

    residual: bool = False
    """Whether the network gives the increment from the last frame instead of the next frame."""

    def normalizers(self, samples: Samples, kind: Normalization) -> Normalizers:
        return (fit_normalizer(samples.trajectories(), samples.data.grid, kind, frames=True),) * 2

    def check_head(self, head: object) -> None:
        if head is not None and self.residual:
            wrong = "the head adds to the last frame, a residual task would add it a second time"
            raise ValueError(f"{wrong}: take residual=False")

    def predict(self, net: NormalizedNetwork, inputs: Tensor, times: Times) -> Tensor:
        return self._frames(net, inputs, len(self._need(times)))

    def _frames(
        self, net: NormalizedNetwork, inputs: Tensor, steps: int, *, recompute: bool = False
    ) -> Tensor:
        """A rollout, (B, steps, C, *N), on the grid that the head of the network wants."""
        finer = int(getattr(net.network, "coarsen", 1))
        if finer == 1:
            return rollout(net.step, inputs, steps, recompute=recompute)
        net = replace(net, grid=Grid(tuple(finer * n for n in net.grid.shape)))
        inputs = resample_by_axis(inputs, net.grid.shape)
        frames = rollout(net.step, inputs, steps, recompute=recompute)
        return every_point(frames, finer, net.grid.dim)


class Rollout(_Recurrent):
    """The network is fed with its own predictions; the loss sums over all steps (paper, 5.2)."""

    kind: Literal["rollout"] = "rollout"
    steps: Frames | None = None
    """Steps of the rollout in training; None takes all frames of the target."""
    recompute: bool = False
    """Whether to keep one step in memory instead of all, for about a third more time."""

    def examples(self, samples: Samples) -> int:
        _check_window(samples)
        frames = len(self._need(samples.data.target_times))
        if self.steps is not None and self.steps > frames:
            raise ValueError(f"steps={self.steps} of a rollout, but only {frames} target frames")
        return len(samples)

    def batch(self, samples: Samples, indices: Sequence[int], *, seed: int, epoch: int) -> Batch:
        whole = super().batch(samples, indices, seed=seed, epoch=epoch)
        return replace(whole, targets=whole.targets[:, : self.steps], frame_by_frame=True)

    def forward(self, net: NormalizedNetwork, batch: Batch) -> Tensor:
        steps = batch.targets.shape[1]
        return self._frames(net, batch.inputs, steps, recompute=self.recompute)


class _OneStep(_Recurrent):
    """A few steps from true frames: every window of a trajectory is an example."""

    frames: Frames | None = None
    """Frames that the network sees; None takes the window of the dataset."""
    noise: Annotated[float, Field(ge=0)] = 0.0
    """Noise on the input in training, as a share of the input's own deviation."""
    unroll: Frames = 1
    """Frames predicted in training, each from those before: 1 first, then 2 to 4 to fine-tune."""

    def examples(self, samples: Samples) -> int:
        window = _check_window(samples)
        count = window if self.frames is None else self.frames
        if count > window:
            wrong = f"frames={count} of a window with {window} frames"
            raise ValueError(f"{wrong}: take data.window(inputs={count})")
        frames = len(samples.data.times or ())
        if count + self.unroll > frames:
            wrong = f"unroll={self.unroll} after {count} frames of {frames}"
            raise ValueError(f"{wrong}: unroll at most {frames - count}")
        return len(samples) * (frames - count - self.unroll + 1)

    def batch(self, samples: Samples, indices: Sequence[int], *, seed: int, epoch: int) -> Batch:
        count = self.frames or _check_window(samples)
        per_sample = len(samples.data.times or ()) - count - self.unroll + 1
        rows, starts = zip(*(divmod(index, per_sample) for index in indices), strict=True)
        frames = samples.frames(rows, starts, count + self.unroll)
        inputs, many = frames[:, :count].flatten(1, 2).contiguous(), self.unroll > 1
        targets = frames[:, count:] if many else frames[:, count]
        if self.noise:  # in double, where squares of no unit overflow
            deviation = inputs.double().flatten(1).std(dim=1).to(inputs)
            noise = example_noise(inputs, indices, seed=seed, epoch=epoch)
            inputs = inputs + self.noise * deviation.reshape(-1, *[1] * (inputs.dim() - 1)) * noise
        parameters, grids = samples.pde_parameters(rows), samples.data.grids(rows)
        return Batch(inputs, targets.contiguous(), None, parameters, many, grids)

    def forward(self, net: NormalizedNetwork, batch: Batch) -> Tensor:
        frames = self._frames(net, batch.inputs, self.unroll)
        return frames if self.unroll > 1 else frames[:, 0]

    def predict(self, net: NormalizedNetwork, inputs: Tensor, times: Times) -> Tensor:
        latest = inputs if self.frames is None else inputs[:, -self.frames * net.channels :]
        return super().predict(net, latest, times)


class TeacherForcing(_OneStep):
    """One step from a window of true frames; prediction is a rollout."""

    kind: Literal["teacher-forcing"] = "teacher-forcing"


class Markov(_OneStep):
    """One step from one true frame with noise, as an increment; prediction is a rollout."""

    kind: Literal["markov"] = "markov"
    frames: Frames | None = 1
    noise: Annotated[float, Field(ge=0)] = 0.01
    residual: bool = True


def _check_window(samples: Samples) -> int:
    if samples.data.input_frames is None:
        raise ValueError("this task needs frames as its input: take data.window(inputs=10) or so")
    return samples.data.input_frames


class OneShot(Task):
    """(f, t) -> u(t) by symbols that depend on time (eq. 19); an example is a sample at a time."""

    kind: Literal["one-shot"] = "one-shot"
    times_wanted = "any"
    start: float = 0.0
    """Time that the network sees as 0."""
    span: Annotated[float, Field(gt=0)] = 1.0
    """Length of time that the network sees as 1."""
    train_every: Annotated[int, Field(ge=1)] = 1
    """Train on every n-th target time only, starting with the first."""

    @property
    def time_scale(self) -> tuple[float, float]:
        return self.start, self.span

    def scaled_time(self, t: TimeValue) -> TimeValue:
        """What the network sees of a time."""
        return (t - self.start) / self.span

    def examples(self, samples: Samples) -> int:
        return len(samples) * len(self._trained(samples))

    def batch(self, samples: Samples, indices: Sequence[int], *, seed: int, epoch: int) -> Batch:
        times = self._trained(samples)
        rows, frames = zip(*(divmod(index, len(times)) for index in indices), strict=True)
        whole = samples.examples(rows)
        t = whole.inputs.new_tensor([times[frame] for frame in frames])
        each = torch.arange(len(rows), device=t.device)
        chosen = torch.tensor(frames, device=t.device) * self.train_every
        return replace(whole, targets=whole.targets[each, chosen], t=t)

    def _trained(self, samples: Samples) -> Sequence[float]:
        return self._need(samples.data.target_times)[:: self.train_every]

    def normalizers(self, samples: Samples, kind: Normalization) -> Normalizers:
        (inputs, targets), data = samples.batch(), samples.data
        trained = targets[:, :: self.train_every]
        outputs = fit_normalizer(trained, data.target_grid, kind, frames=True)
        return fit_normalizer(inputs, data.grid, kind), outputs

    def forward(self, net: NormalizedNetwork, batch: Batch) -> Tensor:
        return net(batch.inputs, batch.t)

    def predict(self, net: NormalizedNetwork, inputs: Tensor, times: Times) -> Tensor:
        moments = inputs.new_tensor(list(self._need(times)))
        few = inputs.numel() * len(moments) <= AT_ONCE and net.grid.sets is None
        if few and net.pde_parameters is None:
            u = net(inputs.repeat_interleave(len(moments), 0), moments.repeat(len(inputs)))
            return torch.unflatten(u, 0, (len(inputs), len(moments)))
        # one time for the whole batch: the symbols are evaluated once for it
        return torch.stack([net(inputs, t) for t in moments], dim=1)


class SpaceTime(Task):
    """All frames at once, by a network with time as one axis more; pointwise normalisers."""

    kind: Literal["space-time"] = "space-time"

    def normalizers(self, samples: Samples, kind: Normalization) -> Normalizers:
        (inputs, targets), grid = samples.batch(), samples.data.grid
        return fit_normalizer(inputs, grid, kind), fit_normalizer(targets, grid, kind)

    def forward(self, net: NormalizedNetwork, batch: Batch) -> Tensor:
        return self.predict(net, batch.inputs, range(batch.targets.shape[1]))

    def predict(self, net: NormalizedNetwork, inputs: Tensor, times: Times) -> Tensor:
        steps = len(self._need(times))
        block = net.encode(inputs)[..., None].expand(*inputs.shape, steps)
        output: Tensor = net.network(net.with_channels(block))
        return net.decode(output.movedim(-1, 1))


_ALL: tuple[type[Task], ...] = (StaticMap, Rollout, TeacherForcing, Markov, OneShot, SpaceTime)
TASKS: dict[str, type[Task]] = {str(task.model_fields["kind"].default): task for task in _ALL}
"""By kind; `pdno.register` adds those of other packages."""
AnyTask = Annotated[SerializeAsAny[Task], BeforeValidator(by_kind("task", TASKS))]


def make_task(task: Task | str | Mapping[str, object]) -> Task:
    """A task, that of a kind with its defaults, or that of a record {"kind": ..., ...}."""
    made: object = by_kind("task", TASKS)(task)
    if not isinstance(made, Task):
        raise ValueError(f"task is {task!r}; expected one of {', '.join(TASKS)}, or Rollout()")
    return made
