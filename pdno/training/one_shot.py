"""Tasks that predict without feeding back: one time at a time, or all times at once."""

__all__ = ["OneShot", "SpaceTime"]

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from pdno.grid import Grid
from pdno.training.examples import Batch, Examples, Samples
from pdno.training.normalized import Normalized
from pdno.training.normalizer import Normalization, Normalizer, fit_normalizer
from pdno.training.task import Task, Whole


class OneShot(Task):
    """(f, t) -> u(t) by symbols that depend on time (eq. 19); an example is a sample at a time.

    The network sees (t - start)/span, and may be asked for times that it was not trained on.
    """

    kind: Literal["one-shot"] = "one-shot"
    start: float = 0.0
    """Time that the network sees as 0."""
    span: Annotated[float, Field(gt=0)] = 1.0
    """Length of time that the network sees as 1."""
    train_every: Annotated[int, Field(ge=1)] = 1
    """Train on every n-th target time only, starting with the first."""

    def examples(self, samples: Samples) -> Examples:
        if samples.data.times is None:
            raise ValueError("a one-shot task needs times; this dataset is static: take StaticMap")
        return _AtTimes(samples, self.train_every)

    def normalizers(
        self, samples: Samples, kind: Normalization
    ) -> tuple[Normalizer | None, Normalizer | None]:
        inputs, targets = samples.batch(range(len(samples)))
        grid = samples.data.grid
        outputs = fit_normalizer(targets[:, :: self.train_every], grid, kind, frames=True)
        return fit_normalizer(inputs, grid, kind), outputs

    def answer(self, network: Normalized, batch: Batch, grid: Grid) -> Tensor:
        assert batch.t is not None
        return network(batch.inputs, grid, (batch.t - self.start) / self.span)  # type: ignore[no-any-return]

    def predict(
        self, network: Normalized, inputs: Tensor, grid: Grid, times: Sequence[float] | None
    ) -> Tensor:
        if times is None:
            raise ValueError("a one-shot task needs the times to predict")
        # one time for the whole batch: the symbols are evaluated once for it
        seen = (inputs.new_tensor(list(times)) - self.start) / self.span
        return torch.stack([network(inputs, grid, t) for t in seen], dim=1)


class _AtTimes(Examples):
    """Every sample at every training time."""

    def __init__(self, samples: Samples, every: int) -> None:
        data = samples.data
        first = data.input_frames or 0
        self.samples, self.every = samples, every
        self.times = (data.times or ())[first::every]

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
        return Whole(samples)

    def normalizers(
        self, samples: Samples, kind: Normalization
    ) -> tuple[Normalizer | None, Normalizer | None]:
        inputs, targets = samples.batch(range(len(samples)))
        grid = samples.data.grid
        return fit_normalizer(inputs, grid, kind), fit_normalizer(targets, grid, kind)

    def answer(self, network: Normalized, batch: Batch, grid: Grid) -> Tensor:
        return self._block(network, batch.inputs, grid, batch.targets.shape[1])

    def predict(
        self, network: Normalized, inputs: Tensor, grid: Grid, times: Sequence[float] | None
    ) -> Tensor:
        if times is None:
            raise ValueError("a space-time task needs the times to predict")
        return self._block(network, inputs, grid, len(times))

    def _block(self, network: Normalized, inputs: Tensor, grid: Grid, steps: int) -> Tensor:
        """(B, C, *N) -> (B, T, C, *N)."""
        seen = network.encode(inputs, grid)[..., None].expand(*inputs.shape, steps)
        said = network.network(seen)
        return network.decode(said.movedim(-1, 1), grid)
