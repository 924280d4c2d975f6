"""Tasks that predict without feeding back: one time at a time, or all times at once."""

__all__ = ["OneShot", "SpaceTime"]

from collections.abc import Sequence
from typing import Annotated, Literal, TypeVar

import torch
from pydantic import Field
from torch import Tensor

from pdno.grid import Grid
from pdno.training.normalizer import Normalization, NormalizedNetwork, Normalizers, fit_normalizer
from pdno.training.samples import Batch, Examples, Samples, WholeSamples
from pdno.training.task import Task

Time = TypeVar("Time", float, Tensor)


class OneShot(Task):
    """(f, t) -> u(t) by symbols that depend on time (eq. 19); an example is a sample at a time.

    The network sees (t - start)/span, and may predict at times that it was not trained on.
    """

    kind: Literal["one-shot"] = "one-shot"
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
        if samples.data.times is None:
            raise ValueError("a one-shot task needs times; this dataset is static: take StaticMap")
        return _AtTimes(samples, self.train_every)

    def normalizers(self, samples: Samples, kind: Normalization) -> Normalizers:
        (inputs, targets), grid = samples.all(), samples.data.grid
        outputs = fit_normalizer(targets[:, :: self.train_every], grid, kind, frames=True)
        return fit_normalizer(inputs, grid, kind), outputs

    def forward(self, network: NormalizedNetwork, batch: Batch, grid: Grid) -> Tensor:
        assert batch.t is not None
        output: Tensor = network(batch.inputs, grid, self.scaled_time(batch.t))
        return output

    def predict(
        self, network: NormalizedNetwork, inputs: Tensor, grid: Grid, times: Sequence[float] | None
    ) -> Tensor:
        if times is None:
            raise ValueError("a one-shot task needs the times to predict")
        # one time for the whole batch: the symbols are evaluated once for it
        seen = self.scaled_time(inputs.new_tensor(list(times)))
        return torch.stack([network(inputs, grid, t) for t in seen], dim=1)


class _AtTimes(Examples):
    """Every sample at every training time."""

    def __init__(self, samples: Samples, every: int) -> None:
        self.samples, self.every = samples, every
        self.times = (samples.data.target_times or ())[::every]

    def __len__(self) -> int:
        return len(self.samples) * len(self.times)

    def batch(self, indices: Sequence[int], *, seed: int, epoch: int) -> Batch:
        places = [divmod(index, len(self.times)) for index in indices]
        inputs, targets = self.samples.batch([sample for sample, _ in places])
        frames = torch.tensor([frame * self.every for _, frame in places], device=inputs.device)
        rows = torch.arange(len(places), device=inputs.device)
        t = inputs.new_tensor([self.times[frame] for _, frame in places])
        return Batch(inputs, targets[rows, frames], t)


class SpaceTime(Task):
    """All frames at once: the input repeated along a time axis, the network in one dimension more.

    This is the protocol of FNO-3D and of the multiwavelet networks on Navier-Stokes. Normalisers
    are pointwise in space and time. The loss of a sample is the relative error of the whole block.
    """

    kind: Literal["space-time"] = "space-time"

    def examples(self, samples: Samples) -> Examples:
        if samples.data.times is None:
            raise ValueError(
                "a space-time task needs frames; this dataset is static: take StaticMap"
            )
        return WholeSamples(samples)

    def normalizers(self, samples: Samples, kind: Normalization) -> Normalizers:
        (inputs, targets), grid = samples.all(), samples.data.grid
        return fit_normalizer(inputs, grid, kind), fit_normalizer(targets, grid, kind)

    def forward(self, network: NormalizedNetwork, batch: Batch, grid: Grid) -> Tensor:
        return self._block(network, batch.inputs, grid, batch.targets.shape[1])

    def predict(
        self, network: NormalizedNetwork, inputs: Tensor, grid: Grid, times: Sequence[float] | None
    ) -> Tensor:
        if times is None:
            raise ValueError("a space-time task needs the times to predict")
        return self._block(network, inputs, grid, len(times))

    def _block(self, network: NormalizedNetwork, inputs: Tensor, grid: Grid, steps: int) -> Tensor:
        """(B, C, *N) -> (B, T, C, *N)."""
        seen = network.encode(inputs, grid)[..., None].expand(*inputs.shape, steps)
        return network.decode(network.network(seen).movedim(-1, 1), grid)
