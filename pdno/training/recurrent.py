"""Tasks that predict frame by frame: through their own predictions, or one step at a time."""

__all__ = ["Markov", "Rollout", "TeacherForcing"]

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from pdno.grid import Grid
from pdno.metrics import relative_error
from pdno.networks.rollout import shared_step, unroll
from pdno.training.examples import Batch, Examples, Samples, example_noise
from pdno.training.normalized import Normalized
from pdno.training.normalizer import Normalization, Normalizer, fit_normalizer
from pdno.training.task import Task, Whole


class _Recurrent(Task):
    """A window of frames -> the next frame; the normaliser is one of frames."""

    residual: bool = False
    """Whether the network says the increment from the last frame instead of the next frame."""

    def frames_seen(self, inputs: Tensor, channels: int) -> Tensor:
        """The frames that the network sees of a window (B, k·C, *N)."""
        return inputs

    def normalizers(
        self, samples: Samples, kind: Normalization
    ) -> tuple[Normalizer | None, Normalizer | None]:
        frames = _trajectories(samples, range(len(samples)))
        normalizer = fit_normalizer(frames, samples.data.grid, kind, frames=True)
        return normalizer, normalizer

    def step(self, network: Normalized, grid: Grid, channels: int) -> Callable[[Tensor], Tensor]:
        """The function from a window to the next frame, with symbols evaluated once."""
        shared = shared_step(network.network, grid)
        inner = shared if shared is not network.network else partial(network.ask, grid=grid)

        def advance(window: Tensor) -> Tensor:
            frames = _as_frames(window, channels)
            seen = network.encode(frames, grid)
            said = inner(seen.flatten(1, 2))
            return network.decode(said + seen[:, -1] if self.residual else said, grid)

        return advance

    def predict(
        self, network: Normalized, inputs: Tensor, grid: Grid, times: Sequence[float] | None
    ) -> Tensor:
        if times is None:
            raise ValueError("this task predicts frames; a static dataset has none")
        window = self.frames_seen(inputs, network.channels)
        return unroll(self.step(network, grid, network.channels), window, len(times))


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
        window = _check_window(samples)
        given = len(samples.data.times or ()) - window
        if self.steps is not None and self.steps > given:
            raise ValueError(f"steps={self.steps} of a rollout, but only {given} target frames")
        return _FirstSteps(samples, self.steps)

    def answer(self, network: Normalized, batch: Batch, grid: Grid) -> Tensor:
        step = self.step(network, grid, batch.targets.shape[2])
        return unroll(step, batch.inputs, batch.targets.shape[1], recompute=self.recompute)

    def errors(self, said: Tensor, targets: Tensor, *, dim: int, order: float) -> Tensor:
        return relative_error(said, targets, dim=dim, s=order, keep=2)


class _FirstSteps(Whole):
    """Samples with the first frames of their targets."""

    def __init__(self, samples: Samples, steps: int | None) -> None:
        super().__init__(samples)
        self.steps = steps

    def batch(self, indices: Sequence[int], *, seed: int, epoch: int) -> Batch:
        inputs, targets = self.samples.batch(indices)
        return Batch(inputs, targets[:, : self.steps])


class _OneStep(_Recurrent):
    """One step from true frames: every window of a trajectory is an example."""

    frames: Annotated[int, Field(ge=1)] | None = None
    """Frames that the network sees; None takes the window of the dataset."""
    noise: Annotated[float, Field(ge=0)] = 0.0
    """Noise on the input in training, as a share of the input's own deviation."""

    def frames_seen(self, inputs: Tensor, channels: int) -> Tensor:
        return inputs if self.frames is None else inputs[:, -self.frames * channels :]

    def examples(self, samples: Samples) -> Examples:
        window = _check_window(samples)
        if self.frames is not None and self.frames > window:
            raise ValueError(
                f"frames={self.frames} of a window with {window} frames: prediction needs them "
                f"all, take data.window(inputs={self.frames})"
            )
        return _Windows(samples, self.frames or window, self.noise)

    def answer(self, network: Normalized, batch: Batch, grid: Grid) -> Tensor:
        return self.step(network, grid, batch.targets.shape[1])(batch.inputs)


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
        total = len(samples.data.times or ())
        if frames >= total:
            raise ValueError(f"windows of {frames} frames do not fit trajectories of {total}")
        self.samples, self.frames, self.noise = samples, frames, noise
        self.per_sample = total - frames

    def __len__(self) -> int:
        return len(self.samples) * self.per_sample

    def batch(self, indices: Sequence[int], *, seed: int, epoch: int) -> Batch:
        places = [divmod(index, self.per_sample) for index in indices]
        trajectories = _trajectories(self.samples, [sample for sample, _ in places])
        rows = torch.arange(len(places), device=trajectories.device)
        starts = torch.tensor([start for _, start in places], device=trajectories.device)
        window = starts[:, None] + torch.arange(self.frames, device=starts.device)
        inputs = trajectories[rows[:, None], window].flatten(1, 2)
        if self.noise:
            deviation = inputs.flatten(1).std(dim=1).reshape(-1, *[1] * (inputs.dim() - 1))
            noise = example_noise(inputs, indices, seed=seed, epoch=epoch)
            inputs = inputs + self.noise * deviation * noise
        return Batch(inputs, trajectories[rows, starts + self.frames])


def _trajectories(samples: Samples, indices: Sequence[int]) -> Tensor:
    """All frames of some samples, those of the window first, (B, T, C, *N)."""
    inputs, targets = samples.batch(indices)
    return torch.cat([_as_frames(inputs, targets.shape[2]), targets], dim=1)


def _as_frames(window: Tensor, channels: int) -> Tensor:
    """(B, k·C, *N) -> (B, k, C, *N)."""
    return window.reshape(len(window), -1, channels, *window.shape[2:])


def _check_window(samples: Samples) -> int:
    """The number of frames in the window of the dataset, which needs to have one."""
    if samples.data.input_frames is None:
        raise ValueError(
            "this task needs frames as its input: take data.window(inputs=10), or another number"
        )
    return samples.data.input_frames
