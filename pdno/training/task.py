"""Tasks: how a network meets a dataset, in training and afterwards.

StaticMap       f -> u                                             (Darcy, Burgers)
Rollout         the network is fed with its own predictions, also in training (paper, 5.2)
TeacherForcing  one step from true frames
Markov          one step from one true frame with noise, as an increment
OneShot         (f, t) -> u(t)                                     (heat, and a(x, ξ, t))
SpaceTime       all frames at once, time as one more axis          (FNO-3D, MWT)
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeVar

import torch
from pydantic import BeforeValidator, ConfigDict, Field, SerializeAsAny
from torch import Tensor

from pdno.interface.records import Record, by_kind
from pdno.networks.neural_operator import rollout
from pdno.training.normalizer import Normalization, NormalizedNetwork, Normalizer, fit_normalizer
from pdno.training.samples import Batch, Examples, Samples, example_noise, whole_samples

TimeValue = TypeVar("TimeValue", float, Tensor)
Times = Sequence[float] | None  # of the frames of a prediction; None for a static problem
Frames = Annotated[int, Field(ge=1)]
Noise = Annotated[float, Field(ge=0)]
Normalizers = tuple[Normalizer | None, Normalizer | None]  # of inputs and of outputs


class Task(Record, ABC):
    """What every task has."""

    model_config = ConfigDict(allow_inf_nan=False)
    if TYPE_CHECKING:  # each has its own as a field, which specifications name it by
        kind: str
    times_wanted: ClassVar[Literal["none", "any", "in turn"]] = "in turn"
    """Which times of frames may be asked for: none, any, or one frame after another."""

    @property
    def time_scale(self) -> tuple[float, float]:
        """(start, span): the network sees a time as (t - start) / span."""
        return 0.0, 1.0

    def check_head(self, head: object) -> None:
        """Refuse the head of a network, if any, that this task contradicts."""

    @abstractmethod
    def examples(self, samples: Samples) -> Examples:
        """The examples of a dataset; ValueError where it does not fit the task."""

    def normalizers(self, samples: Samples, kind: Normalization) -> Normalizers:
        """The normalisers of inputs and outputs, fitted to the training samples."""
        (inputs, targets), grid = samples.batch(), samples.data.grid
        outputs = fit_normalizer(targets, grid, kind, frames=samples.data.times is not None)
        return fit_normalizer(inputs, grid, kind), outputs

    @abstractmethod
    def forward(self, net: NormalizedNetwork, batch: Batch) -> Tensor:
        """The output for a batch of examples, of the shape of its targets."""

    @abstractmethod
    def predict(self, net: NormalizedNetwork, inputs: Tensor, times: Times) -> Tensor:
        """The prediction of all targets of some samples."""

    def _need(self, times: Times) -> Sequence[float]:
        if times is None:
            name = type(self).__name__
            raise ValueError(f"{name} needs times; a static dataset has none: take StaticMap")
        return times


class StaticMap(Task):
    """f -> u in one application (Darcy and Burgers)."""

    kind: Literal["static"] = "static"
    times_wanted = "none"

    def examples(self, samples: Samples) -> Examples:
        if samples.data.times is not None and len(samples.data.times) != 1:
            frames = f"this dataset has {len(samples.data.times)} frames"
            raise ValueError(f"a static map has one target, {frames}: take Rollout or OneShot")
        return whole_samples(samples)

    def forward(self, net: NormalizedNetwork, batch: Batch) -> Tensor:
        output = net(batch.inputs)
        return output[:, None] if batch.targets.dim() > output.dim() else output

    def predict(self, net: NormalizedNetwork, inputs: Tensor, times: Times) -> Tensor:
        if times is not None and len(times) != 1:
            wanted = f"the dataset wants {len(times)}"
            raise ValueError(f"a static map gives one frame, {wanted}: take Rollout or OneShot")
        output = net.decode(net.step(net.encode(inputs)))
        return output if times is None else output[:, None]


class _Recurrent(Task):
    """A window of frames (B, k·C, *N) -> the next frame; the normaliser is one of frames."""

    residual: bool = False
    """Whether the network gives the increment from the last frame instead of the next frame."""

    def normalizers(self, samples: Samples, kind: Normalization) -> Normalizers:
        return (fit_normalizer(samples.trajectories(), samples.data.grid, kind, frames=True),) * 2

    def check_head(self, head: object) -> None:
        if head is not None and self.residual:
            raise ValueError(
                "the transport head adds to the last frame itself, a residual task would add it a "
                "second time: take residual=False"
            )

    def step(self, net: NormalizedNetwork) -> Callable[[Tensor], Tensor]:
        """The function from a window to the next frame, with symbols evaluated once."""
        step = net.step

        def advance(window: Tensor) -> Tensor:
            encoded = net.encode(window)
            frame = step(encoded)
            last = encoded[:, -frame.shape[1] :]
            return net.decode(frame + last if self.residual else frame)

        return advance

    def predict(self, net: NormalizedNetwork, inputs: Tensor, times: Times) -> Tensor:
        return rollout(self.step(net), inputs, len(self._need(times)))


class Rollout(_Recurrent):
    """The network is fed with its own predictions; the loss sums over all steps (paper, 5.2)."""

    kind: Literal["rollout"] = "rollout"
    steps: Frames | None = None
    """Steps of the rollout in training; None takes all frames of the target."""
    recompute: bool = False
    """Whether to keep one step in memory instead of all, for about a third more time."""

    def examples(self, samples: Samples) -> Examples:
        _check_window(samples)
        frames = len(self._need(samples.data.target_times))
        if self.steps is not None and self.steps > frames:
            raise ValueError(f"steps={self.steps} of a rollout, but only {frames} target frames")
        return whole_samples(samples, self.steps, frame_by_frame=True)

    def forward(self, net: NormalizedNetwork, batch: Batch) -> Tensor:
        steps = batch.targets.shape[1]
        return rollout(self.step(net), batch.inputs, steps, recompute=self.recompute)


class _OneStep(_Recurrent):
    """One step from true frames: every window of a trajectory is an example."""

    frames: Frames | None = None
    """Frames that the network sees; None takes the window of the dataset."""
    noise: Noise = 0.0
    """Noise on the input in training, as a share of the input's own deviation."""

    def examples(self, samples: Samples) -> Examples:
        window = _check_window(samples)
        count = window if self.frames is None else self.frames
        if count > window:
            cure = f"take data.window(inputs={count})"
            raise ValueError(f"frames={count} of a window with {window} frames: {cure}")
        # a dataset has a target behind its window, so at least one window fits
        per_sample = len(samples.data.times or ()) - count

        def batch(indices: Sequence[int], *, seed: int, epoch: int) -> Batch:
            rows, starts = zip(*(divmod(index, per_sample) for index in indices), strict=True)
            frames = samples.frames(rows, starts, count + 1)
            inputs = frames[:, :-1].flatten(1, 2).contiguous()
            if self.noise:
                deviation = inputs.flatten(1).std(dim=1).reshape(-1, *[1] * (inputs.dim() - 1))
                noise = example_noise(inputs, indices, seed=seed, epoch=epoch)
                inputs = inputs + self.noise * deviation * noise
            return Batch(inputs, frames[:, -1].contiguous(), None, samples.pde_parameters(rows))

        return Examples(len(samples) * per_sample, batch)

    def forward(self, net: NormalizedNetwork, batch: Batch) -> Tensor:
        return self.step(net)(batch.inputs)

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
    noise: Noise = 0.01
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

    def examples(self, samples: Samples) -> Examples:
        times = self._need(samples.data.target_times)[:: self.train_every]

        def batch(indices: Sequence[int], *, seed: int, epoch: int) -> Batch:
            rows, frames = zip(*(divmod(index, len(times)) for index in indices), strict=True)
            inputs, targets = samples.batch(rows)
            chosen = torch.tensor(frames, device=inputs.device) * self.train_every
            t = inputs.new_tensor([times[frame] for frame in frames])
            each = torch.arange(len(rows), device=inputs.device)
            return Batch(inputs, targets[each, chosen], t, samples.pde_parameters(rows))

        return Examples(len(samples) * len(times), batch)

    def normalizers(self, samples: Samples, kind: Normalization) -> Normalizers:
        (inputs, targets), grid = samples.batch(), samples.data.grid
        outputs = fit_normalizer(targets[:, :: self.train_every], grid, kind, frames=True)
        return fit_normalizer(inputs, grid, kind), outputs

    def forward(self, net: NormalizedNetwork, batch: Batch) -> Tensor:
        return net(batch.inputs, batch.t)

    def predict(self, net: NormalizedNetwork, inputs: Tensor, times: Times) -> Tensor:
        # one time for the whole batch: the symbols are evaluated once for it
        moments = inputs.new_tensor(list(self._need(times)))
        return torch.stack([net(inputs, t) for t in moments], dim=1)


class SpaceTime(Task):
    """All frames at once: the input repeated along a time axis, the network in one dimension more.

    Normalisers are pointwise in space and time, the loss is the error of the whole block.
    """

    kind: Literal["space-time"] = "space-time"

    def examples(self, samples: Samples) -> Examples:
        self._need(samples.data.target_times)
        return whole_samples(samples)

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
