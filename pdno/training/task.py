"""Tasks: how a network meets a dataset, in training and afterwards, and learners that have one.

A task says which examples a dataset gives, what the network makes of an example, and how it
predicts all targets of a sample. It is a frozen record, so that specifications can hold it.

    StaticMap       f -> u                                             (Darcy, Burgers)
    Rollout         the network is fed with its own predictions, also in training (paper, 5.2)
    TeacherForcing  one step from true frames
    Markov          one step from one true frame with noise, as an increment
    OneShot         (f, t) -> u(t)                                     (heat, and a(x, ξ, t))
    SpaceTime       all frames at once, time as one more axis          (FNO-3D, MWT)
"""

__all__ = [
    "TASKS",
    "AnyTask",
    "Markov",
    "OneShot",
    "Rollout",
    "SpaceTime",
    "StaticMap",
    "Task",
    "TeacherForcing",
    "TrainedOperator",
    "evaluation_mode",
    "make_trained_operator",
    "task_of",
]

import contextlib
import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, overload

import numpy as np
import torch
from pydantic import BeforeValidator, ConfigDict, Field, SerializeAsAny
from torch import Tensor, nn

from pdno.data.dataset import OperatorDataset
from pdno.interface.display import html_table, one_line
from pdno.interface.records import Record, by_kind
from pdno.networks.neural_operator import count_parameters
from pdno.networks.rollout import shared_step, unroll
from pdno.spectral.grid import Grid
from pdno.spectral.metrics import relative_error, relative_l2
from pdno.training.error_bars import ErrorBars, Kind
from pdno.training.losses import Loss, RelativeError
from pdno.training.normalizer import (
    Normalization,
    NormalizedNetwork,
    Normalizers,
    ParameterScale,
    fit_normalizer,
)
from pdno.training.samples import Batch, Examples, Samples, example_noise, whole_samples
from pdno.training.sampling import Sampling

Time = TypeVar("Time", float, Tensor)
Times = Sequence[float] | None  # of the frames of a prediction; None for a static problem
Frames = Annotated[int, Field(ge=1)]
Noise = Annotated[float, Field(ge=0)]
Array = np.ndarray[Any, Any]
PDEParameters = Mapping[str, Any] | Tensor | None  # of the equation, by name or as (B, P) numbers
AT_ONCE = 20  # samples of a prediction


class Task(Record, ABC):
    """What every task has."""

    model_config = ConfigDict(allow_inf_nan=False)
    if TYPE_CHECKING:  # each has its own as a field, which specifications name it by
        kind: str
    times_wanted: ClassVar[Literal["none", "any", "in turn"]] = "in turn"
    """Which times of frames may be asked for: none, any, or one frame after another."""

    @abstractmethod
    def examples(self, samples: Samples) -> Examples:
        """The examples of a dataset; ValueError where it does not fit the task."""

    def normalizers(self, samples: Samples, kind: Normalization) -> Normalizers:
        """The normalisers of inputs and outputs, fitted to the training samples."""
        (inputs, targets), grid = samples.batch(), samples.data.grid
        outputs = fit_normalizer(targets, grid, kind, frames=samples.data.times is not None)
        return fit_normalizer(inputs, grid, kind), outputs

    @abstractmethod
    def forward(self, net: NormalizedNetwork, batch: Batch, grid: Grid) -> Tensor:
        """The output for a batch of examples, of the shape of its targets."""

    @abstractmethod
    def predict(self, net: NormalizedNetwork, inputs: Tensor, grid: Grid, times: Times) -> Tensor:
        """The prediction of all targets of some samples."""

    def loss_terms(self, prediction: Tensor, targets: Tensor, *, dim: int, order: float) -> Tensor:
        """The terms of the loss, (B, K): the relative error of each example in H^order."""
        return relative_error(prediction, targets, dim=dim, s=order)[:, None]

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
            given = (
                f"a static map has one target; this dataset has {len(samples.data.times)} frames"
            )
            raise ValueError(f"{given}: take another task, for example Rollout or OneShot")
        return whole_samples(samples)

    def forward(self, net: NormalizedNetwork, batch: Batch, grid: Grid) -> Tensor:
        output: Tensor = net(batch.inputs, grid)
        return output[:, None] if batch.targets.dim() > output.dim() else output

    def predict(self, net: NormalizedNetwork, inputs: Tensor, grid: Grid, times: Times) -> Tensor:
        if times is not None and len(times) != 1:
            given = f"a static map gives one frame, the dataset wants {len(times)}"
            raise ValueError(f"{given}: take a task that rolls out or feeds the network times")
        output: Tensor = net(inputs, grid)
        return output if times is None else output[:, None]


class _Recurrent(Task):
    """A window of frames (B, k·C, *N) -> the next frame; the normaliser is one of frames."""

    residual: bool = False
    """Whether the network gives the increment from the last frame instead of the next frame."""

    def normalizers(self, samples: Samples, kind: Normalization) -> Normalizers:
        return (fit_normalizer(samples.trajectories(), samples.data.grid, kind, frames=True),) * 2

    def step(self, net: NormalizedNetwork, grid: Grid) -> Callable[[Tensor], Tensor]:
        """The function from a window to the next frame, with symbols evaluated once."""
        shared, told = shared_step(net.network, grid, net.in_symbols), net.with_channels
        alone = shared is net.network

        def advance(window: Tensor) -> Tensor:
            seen = net.encode(window, grid)
            frame = net.apply_network(seen, grid) if alone else shared(told(seen))
            last = seen[:, -frame.shape[1] :]
            return net.decode(frame + last if self.residual else frame, grid)

        return advance

    def predict(self, net: NormalizedNetwork, inputs: Tensor, grid: Grid, times: Times) -> Tensor:
        return unroll(self.step(net, grid), inputs, len(self._need(times)))


class Rollout(_Recurrent):
    """The network sees the latest frames and is fed with its own predictions (paper, 5.2).

    The gradient goes through all steps, and the loss is the sum of their relative errors.
    """

    kind: Literal["rollout"] = "rollout"
    steps: Frames | None = None
    """Steps of the rollout in training; None takes all frames of the target."""
    recompute: bool = False
    """Whether to keep one step in memory instead of all, for about a third more time."""

    def examples(self, samples: Samples) -> Examples:
        _check_window(samples)
        given = len(self._need(samples.data.target_times))
        if self.steps is not None and self.steps > given:
            raise ValueError(f"steps={self.steps} of a rollout, but only {given} target frames")
        return whole_samples(samples, self.steps)

    def forward(self, net: NormalizedNetwork, batch: Batch, grid: Grid) -> Tensor:
        steps = batch.targets.shape[1]
        return unroll(self.step(net, grid), batch.inputs, steps, recompute=self.recompute)

    def loss_terms(self, prediction: Tensor, targets: Tensor, *, dim: int, order: float) -> Tensor:
        return relative_error(prediction, targets, dim=dim, s=order, keep=2)


class _OneStep(_Recurrent):
    """One step from true frames: every window of a trajectory is an example."""

    frames: Frames | None = None
    """Frames that the network sees; None takes the window of the dataset."""
    noise: Noise = 0.0
    """Noise on the input in training, as a share of the input's own deviation."""

    def examples(self, samples: Samples) -> Examples:
        window = _check_window(samples)
        seen = window if self.frames is None else self.frames
        if seen > window:
            given = f"frames={seen} of a window with {window} frames: prediction needs them all"
            raise ValueError(f"{given}, take data.window(inputs={seen})")
        # a dataset has a target behind its window, so at least one window fits
        per_sample = len(samples.data.times or ()) - seen

        def batch(indices: Sequence[int], *, seed: int, epoch: int) -> Batch:
            rows, starts = zip(*(divmod(index, per_sample) for index in indices), strict=True)
            frames = samples.frames(rows, starts, seen + 1)
            inputs = frames[:, :-1].flatten(1, 2).contiguous()
            if self.noise:
                deviation = inputs.flatten(1).std(dim=1).reshape(-1, *[1] * (inputs.dim() - 1))
                noise = example_noise(inputs, indices, seed=seed, epoch=epoch)
                inputs = inputs + self.noise * deviation * noise
            return Batch(
                inputs, frames[:, -1].contiguous(), pde_parameters=samples.pde_parameters(rows)
            )

        return Examples(len(samples) * per_sample, batch)

    def forward(self, net: NormalizedNetwork, batch: Batch, grid: Grid) -> Tensor:
        return self.step(net, grid)(batch.inputs)

    def predict(self, net: NormalizedNetwork, inputs: Tensor, grid: Grid, times: Times) -> Tensor:
        seen = inputs if self.frames is None else inputs[:, -self.frames * net.channels :]
        return super().predict(net, seen, grid, times)


class TeacherForcing(_OneStep):
    """One step from a window of true frames; prediction is a rollout."""

    kind: Literal["teacher-forcing"] = "teacher-forcing"


class Markov(_OneStep):
    """One step from one true frame with noise, as an increment; prediction is a rollout.

    The noise teaches the network to forgive small errors of its own, which a rollout feeds back.
    """

    kind: Literal["markov"] = "markov"
    frames: Frames | None = 1
    noise: Noise = 0.01
    residual: bool = True


def _check_window(samples: Samples) -> int:
    if samples.data.input_frames is None:
        raise ValueError("this task needs frames as its input: take data.window(inputs=10) or so")
    return samples.data.input_frames


class OneShot(Task):
    """(f, t) -> u(t) by symbols that depend on time (eq. 19); an example is a sample at a time.

    The network sees (t - start)/span, and may predict at times that it was not trained on.
    """

    kind: Literal["one-shot"] = "one-shot"
    times_wanted = "any"
    start: float = 0.0
    """Time that the network sees as 0."""
    span: Annotated[float, Field(gt=0)] = 1.0
    """Length of time that the network sees as 1."""
    train_every: Annotated[int, Field(ge=1)] = 1
    """Train on every n-th target time only, starting with the first."""

    def scaled_time(self, t: Time) -> Time:
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

    def forward(self, net: NormalizedNetwork, batch: Batch, grid: Grid) -> Tensor:
        assert batch.t is not None
        return net.forward(batch.inputs, grid, self.scaled_time(batch.t))

    def predict(self, net: NormalizedNetwork, inputs: Tensor, grid: Grid, times: Times) -> Tensor:
        # one time for the whole batch: the symbols are evaluated once for it
        seen = self.scaled_time(inputs.new_tensor(list(self._need(times))))
        return torch.stack([net(inputs, grid, t) for t in seen], dim=1)


class SpaceTime(Task):
    """All frames at once: the input repeated along a time axis, the network in one dimension more.

    This is the protocol of FNO-3D and of the multiwavelet networks on Navier-Stokes. Normalisers
    are pointwise in space and time, the loss is the relative error of the whole block.
    """

    kind: Literal["space-time"] = "space-time"

    def examples(self, samples: Samples) -> Examples:
        self._need(samples.data.target_times)
        return whole_samples(samples)

    def normalizers(self, samples: Samples, kind: Normalization) -> Normalizers:
        (inputs, targets), grid = samples.batch(), samples.data.grid
        return fit_normalizer(inputs, grid, kind), fit_normalizer(targets, grid, kind)

    def forward(self, net: NormalizedNetwork, batch: Batch, grid: Grid) -> Tensor:
        return self.predict(net, batch.inputs, grid, range(batch.targets.shape[1]))

    def predict(self, net: NormalizedNetwork, inputs: Tensor, grid: Grid, times: Times) -> Tensor:
        steps = len(self._need(times))
        seen = net.encode(inputs, grid)[..., None].expand(*inputs.shape, steps)
        return net.decode(net.network(net.with_channels(seen)).movedim(-1, 1), grid)


_ALL: tuple[type[Task], ...] = (
    StaticMap,
    Rollout,
    TeacherForcing,
    Markov,
    OneShot,
    SpaceTime,
)
TASKS: dict[str, type[Task]] = {str(task.model_fields["kind"].default): task for task in _ALL}
"""By kind; `pdno.register` adds those of other packages."""
AnyTask = Annotated[SerializeAsAny[Task], BeforeValidator(by_kind("task", TASKS))]


def task_of(given: Task | str | dict[str, Any]) -> Task:
    """A task, that of a kind with its defaults, or that of a record {"kind": ..., ...}."""
    task: object = by_kind("task", TASKS)(given)
    if not isinstance(task, Task):
        kinds = ", ".join(map(repr, TASKS))
        raise ValueError(f"task is {given!r}; expected one of {kinds}, or for example Rollout()")
    return task


class TrainedOperator(nn.Module):
    """decode ∘ network ∘ encode, used as a task says; it predicts in the units of the data.

    A trained one knows its `sampling`, and one that was loaded the `metrics` of its folder. One
    that was calibrated has error `bars`.
    """

    def __init__(
        self, network: NormalizedNetwork, task: Task, sampling: Sampling | None = None
    ) -> None:
        super().__init__()
        self.normalized, self.task, self.sampling = network, task, sampling
        self.bars: ErrorBars | None = None
        self.metrics: dict[str, Any] = {}

    @property
    def network(self) -> nn.Module:
        """The network alone."""
        return self.normalized.network

    def _facts(self) -> dict[str, str]:
        """What predicts, and on what it was trained; `network` shows its layers."""
        inside = self.normalized.inputs is not None or self.normalized.outputs is not None
        facts = {
            "network": type(self.network).__name__,
            "parameters": f"{count_parameters(self.network):,}",
            "task": self.task.kind,
            "normalisers": "yes" if inside else "none",
        }
        if (known := self.sampling) is not None:
            kind = "periodic" if known.grid.periodic else "box"
            facts["channels"] = f"{known.input_channels} -> {known.output_channels}"
            facts["trained on"] = f"{' x '.join(map(str, known.grid.shape))} {kind}"
        for split, found in self.metrics.items():
            if isinstance(found, dict) and "relative_l2" in found:
                facts[f"error of {split}"] = f"{found['relative_l2']:.4g}"
        return facts

    def __repr__(self) -> str:
        return one_line("TrainedOperator", self._facts())

    def _repr_html_(self) -> str:
        """For notebooks."""
        return html_table("TrainedOperator", self._facts())

    def forward(self, batch: Batch, grid: Grid, loss: Loss | None = None) -> tuple[Tensor, Tensor]:
        """Terms of the loss (B, K), relative L2 by default, and relative L2 errors (B,)."""
        output = self.task.forward(self.normalized.at(batch.pde_parameters), batch, grid)
        output = output.to(batch.targets.dtype)  # autocast may have left it in half precision
        terms = (loss or RelativeError()).terms(self, batch, grid, output)
        with torch.no_grad():
            return terms, relative_l2(output, batch.targets)

    @overload
    def predict(
        self,
        inputs: Tensor,
        *,
        grid: Grid | None = None,
        times: Times = None,
        pde_parameters: PDEParameters = None,
    ) -> Tensor: ...

    @overload
    def predict(
        self,
        inputs: Array,
        *,
        grid: Grid | None = None,
        times: Times = None,
        pde_parameters: PDEParameters = None,
    ) -> Array: ...

    def predict(
        self,
        inputs: Tensor | Array,
        *,
        grid: Grid | None = None,
        times: Times = None,
        pde_parameters: PDEParameters = None,
    ) -> Tensor | Array:
        """The prediction for inputs (B, C, *N) of any resolution: (B, C, *N), or (B, T, C, *N).

        Inputs are a tensor or a numpy array in the units of the data, and so is the prediction, in
        the same precision. Without a grid they are taken as the training samples were (see
        `Sampling`), and frames come at the times of the training unless others are given. An
        operator of a family of equations is told which one: `pde_parameters` by name, for example
        {"viscosity": 1e-4}, one for all inputs or one for each, or as (B, P) numbers.
        """
        if not isinstance(inputs, Tensor):
            array = np.ascontiguousarray(inputs)
            given = torch.from_numpy(array)
            return self.predict(
                given, grid=grid, times=times, pde_parameters=pde_parameters
            ).numpy()
        if inputs.is_complex():
            raise ValueError(f"inputs are of type {inputs.dtype}; expected real numbers")
        given = inputs if inputs.is_floating_point() else inputs.to(torch.get_default_dtype())
        if grid is None:
            grid, times = self._as_trained(given, times)
        numbers = self._numbers(pde_parameters, len(given))
        with evaluation_mode(self):
            like = next((p for p in self.parameters() if p.is_floating_point()), given)
            parts = []
            for first in range(0, max(len(given), 1), AT_ONCE):
                some = slice(first, first + AT_ONCE)
                net = self.normalized.at(None if numbers is None else numbers[some].to(like))
                parts.append(self.task.predict(net, given[some].to(like), grid, times).to(given))
            return torch.cat(parts) if len(parts) > 1 else parts[0]

    def calibrate(self, data: OperatorDataset, coverage: float = 0.9) -> ErrorBars:
        """Error bars for a share `coverage` of samples to come, from samples it has never seen.

        They are kept as `bars`, drawn by `plot` and saved with the operator.
        """
        predictions, targets = [], []
        for first in range(0, len(data), AT_ONCE):
            rows = range(first, min(first + AT_ONCE, len(data)))
            inputs, target = data.batch(rows)
            targets.append(target)
            predictions.append(self.predict(inputs, **data.keyword_arguments(rows)))
        both = torch.cat(predictions), torch.cat(targets)
        self.bars = ErrorBars.fit(*both, data.grid, coverage)
        return self.bars

    def interval(
        self, inputs: Tensor, *, kind: Kind = "field", grid: Grid | None = None, **given: Any
    ) -> tuple[Tensor, Tensor]:
        """The lower and upper end of the error bars around the prediction of some inputs.

        The bars hold for whole fields or at each point by itself; `given` are the other arguments
        of `predict`.
        """
        if self.bars is None:
            raise ValueError("no error bars yet: call calibrate(data) with samples never seen")
        where = grid or self._as_trained(inputs, given.get("times"))[0]
        middle = self.predict(inputs, grid=grid, **given)
        width = self.bars.band(where, kind).to(middle)
        return middle - width, middle + width

    def plot(self, data: OperatorDataset, index: int = 0) -> Any:
        """A figure of input, target, prediction and error of a sample, with error bars if any."""
        return self.draw("plot", data, index)

    def draw(self, kind: str, data: OperatorDataset, index: int) -> Any:
        """`OperatorDataset.plot` or `animate` of a sample and its prediction."""
        inputs, target = data[index]
        prediction = self.predict(inputs[None], **data.keyword_arguments([index]))[0]
        error = float(relative_l2(prediction[None], target[None]))
        title = f"sample {index}, relative L2 error {error:.3g}"
        band = None if self.bars is None or kind != "plot" else self.bars.band(data.grid).cpu()
        options = {} if band is None else {"band": band.expand(target.shape)}
        return getattr(data, kind)(index, prediction, title=title, **options)

    def fixed(self, pde_parameters: PDEParameters) -> "TrainedOperator":
        """This operator for one member of the family; itself where it is of none."""
        numbers = self._numbers(pde_parameters, 1)
        if numbers is None:
            return self
        one = copy.deepcopy(self)
        one.normalized = one.normalized.at(numbers.to(next(self.parameters())))
        return one

    def _numbers(self, pde_parameters: PDEParameters, count: int) -> Tensor | None:
        """PDE parameters as (B, P) numbers, in the order of the training."""
        names = () if self.sampling is None else self.sampling.pde_parameters
        if pde_parameters is None:
            if names:
                asked = f'pde_parameters={{"{names[0]}": ...}}'
                raise ValueError(f"this operator is one of a family: give {asked}, by name")
            return None
        if isinstance(pde_parameters, Mapping):
            if set(pde_parameters) != set(names):
                told = ", ".join(map(str, pde_parameters)) or "none"
                raise ValueError(f"pde_parameters {told}; expected {', '.join(names) or 'none'}")
            values = [torch.as_tensor(pde_parameters[name], dtype=torch.float64) for name in names]
            pde_parameters = torch.stack([one.expand(count) for one in values], dim=1)
        given = torch.as_tensor(pde_parameters, dtype=torch.float64)
        if given.shape != (count, len(names)):
            told = f"pde_parameters have shape {tuple(given.shape)}"
            raise ValueError(f"{told}; expected ({count}, {len(names)}) for {', '.join(names)}")
        return given

    def _as_trained(self, inputs: Tensor, times: Times) -> tuple[Grid, Times]:
        """Grid and times of inputs that come without."""
        if self.sampling is None:
            raise ValueError(
                "this network was not trained by pdno.fit: give the grid of the inputs"
            )
        grid, wanted = self.sampling.grid_of(inputs), self.task.times_wanted
        if wanted == "any" and times is not None or wanted == "none":
            return grid, times
        return grid, self.sampling.frames_at(times)


@contextlib.contextmanager
def evaluation_mode(predictor: object) -> Iterator[None]:
    """No gradients, and evaluation mode where the predictor is a module; its modes come back."""
    modules = predictor.modules() if isinstance(predictor, nn.Module) else ()
    training = [module for module in modules if module.training]
    try:
        for module in training:
            module.training = False
        # not inference mode: values that a network keeps must serve a later training step, too
        with torch.no_grad():
            yield
    finally:
        for module in training:
            module.training = True


def make_trained_operator(
    network: nn.Module, task: Task, samples: Samples, normalization: Normalization = "none"
) -> TrainedOperator:
    """A learner with normalisers fitted to the training samples, which have to fit the task."""
    task.examples(samples)
    # statistics need all samples in memory
    both = (None, None) if normalization == "none" else task.normalizers(samples, normalization)
    numbers = samples.pde_parameters(range(len(samples)))
    scale = None if numbers is None else ParameterScale(numbers.amin(dim=0), numbers.amax(dim=0))
    normalized = NormalizedNetwork(network, *both, channels=samples.channels, pde_parameters=scale)
    return TrainedOperator(normalized, task, Sampling.of(samples.data))
