"""Tasks that predict frame by frame: through their own predictions, or one step at a time."""

__all__ = ["Markov", "Rollout", "TeacherForcing"]

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor

from pdno.grid import Grid
from pdno.metrics import relative_error
from pdno.networks.rollout import shared_step, unroll
from pdno.training.normalizer import Normalization, NormalizedNetwork, Normalizers, fit_normalizer
from pdno.training.samples import Batch, Examples, Samples, WholeSamples, example_noise
from pdno.training.task import Task


class _Recurrent(Task):
    """A window of frames (B, k·C, *N) -> the next frame; the normaliser is one of frames."""

    residual: bool = False
    """Whether the network gives the increment from the last frame instead of the next frame."""

    def frames_seen(self, window: Tensor, channels: int) -> Tensor:
        """The frames that the network sees of a window (B, k·C, *N)."""
        return window

    def normalizers(self, samples: Samples, kind: Normalization) -> Normalizers:
        frames = samples.trajectories()
        normalizer = fit_normalizer(frames, samples.data.grid, kind, frames=True)
        return normalizer, normalizer

    def step(self, network: NormalizedNetwork, grid: Grid) -> Callable[[Tensor], Tensor]:
        """The function from a window to the next frame, with symbols evaluated once."""
        shared = shared_step(network.network, grid)
        plain = shared is network.network
        inner = partial(network.apply_network, grid=grid) if plain else shared

        def advance(window: Tensor) -> Tensor:
            seen = network.encode(window, grid)
            frame = inner(seen)
            last = seen[:, -frame.shape[1] :]
            return network.decode(frame + last if self.residual else frame, grid)

        return advance

    def predict(
        self, network: NormalizedNetwork, inputs: Tensor, grid: Grid, times: Sequence[float] | None
    ) -> Tensor:
        if times is None:
            raise ValueError("this task predicts frames; a static dataset has none")
        window = self.frames_seen(inputs, network.channels)
        return unroll(self.step(network, grid), window, len(times))


class Rollout(_Recurrent):
    """The network sees the latest frames and is fed with its own predictions (paper, 5.2).

    The gradient goes through all steps. The loss of a sample is the sum over the steps of the
    relative errors.
    """

    kind: Literal["rollout"] = "rollout"
    steps: Annotated[int, Field(ge=1)] | None = None
    """Steps of the rollout in training; None takes all frames of the target."""
    recompute: bool = False
    """Whether to keep one step in memory instead of all, for about a third more time."""

    def examples(self, samples: Samples) -> Examples:
        _check_window(samples)
        given = len(samples.data.target_times or ())
        if self.steps is not None and self.steps > given:
            raise ValueError(f"steps={self.steps} of a rollout, but only {given} target frames")
        return WholeSamples(samples, self.steps)

    def forward(self, network: NormalizedNetwork, batch: Batch, grid: Grid) -> Tensor:
        steps = batch.targets.shape[1]
        return unroll(self.step(network, grid), batch.inputs, steps, recompute=self.recompute)

    def loss_terms(self, prediction: Tensor, targets: Tensor, *, dim: int, order: float) -> Tensor:
        return relative_error(prediction, targets, dim=dim, s=order, keep=2)


class _OneStep(_Recurrent):
    """One step from true frames: every window of a trajectory is an example."""

    frames: Annotated[int, Field(ge=1)] | None = None
    """Frames that the network sees; None takes the window of the dataset."""
    noise: Annotated[float, Field(ge=0)] = 0.0
    """Noise on the input in training, as a share of the input's own deviation."""

    def frames_seen(self, window: Tensor, channels: int) -> Tensor:
        return window if self.frames is None else window[:, -self.frames * channels :]

    def examples(self, samples: Samples) -> Examples:
        window = _check_window(samples)
        if self.frames is not None and self.frames > window:
            raise ValueError(
                f"frames={self.frames} of a window with {window} frames: prediction needs them "
                f"all, take data.window(inputs={self.frames})"
            )
        return _Windows(samples, self.frames or window, self.noise)

    def forward(self, network: NormalizedNetwork, batch: Batch, grid: Grid) -> Tensor:
        return self.step(network, grid)(batch.inputs)


class TeacherForcing(_OneStep):
    """One step from a window of true frames; prediction is a rollout."""

    kind: Literal["teacher-forcing"] = "teacher-forcing"


class Markov(_OneStep):
    """One step from one true frame with noise, as an increment; prediction is a rollout.

    The noise teaches the network to forgive small errors of its own, which a rollout feeds back.
    """

    kind: Literal["markov"] = "markov"
    frames: Annotated[int, Field(ge=1)] | None = 1
    noise: Annotated[float, Field(ge=0)] = 0.01
    residual: bool = True


class _Windows(Examples):
    """All windows of k frames and the frame after each, of all trajectories."""

    def __init__(self, samples: Samples, frames: int, noise: float) -> None:
        self.samples, self.frames, self.noise = samples, frames, noise
        # a dataset has a target behind its window, so at least one window fits
        self.per_sample = len(samples.data.times or ()) - frames

    def __len__(self) -> int:
        return len(self.samples) * self.per_sample

    def batch(self, indices: Sequence[int], *, seed: int, epoch: int) -> Batch:
        rows = [index // self.per_sample for index in indices]
        starts = [index % self.per_sample for index in indices]
        inputs = self.samples.frames(rows, starts, self.frames).flatten(1, 2)
        after = self.samples.frames(rows, [start + self.frames for start in starts], 1)
        if self.noise:
            deviation = inputs.flatten(1).std(dim=1).reshape(-1, *[1] * (inputs.dim() - 1))
            noise = example_noise(inputs, indices, seed=seed, epoch=epoch)
            inputs = inputs + self.noise * deviation * noise
        return Batch(inputs, after[:, 0])


def _check_window(samples: Samples) -> int:
    """The number of frames in the window of the dataset, which needs to have one."""
    if samples.data.input_frames is None:
        raise ValueError(
            "this task needs frames as its input: take data.window(inputs=10), or another number"
        )
    return samples.data.input_frames
