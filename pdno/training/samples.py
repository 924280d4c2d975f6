"""Samples on a device, their symmetric images, and the loop that predicts batch by batch.

The order of examples is a function of (seed, epoch), their noise one of (seed, epoch, example):
there is no state to save.
"""

import contextlib
import hashlib
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from pdno.data.dataset import OperatorDataset, Pairs
from pdno.interface.errors import check_at_least, check_shape
from pdno.interface.records import Options
from pdno.spectral.grid import Grid, MaskedGrid

Grids = tuple[Grid, Grid | None]
BATCH_SIZE = 20
LOCK = threading.Lock()
# a child of a fork has the lock free
os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)
_PREDICTING = Counter[nn.Module]()  # modules that were in training, by the threads that predict
MOST_DIGESTED = 1000  # samples
MOST_IN_MEMORY = 4 * 2**30  # bytes up to which the samples of a dataset are read once and kept


@dataclass(frozen=True)
class Batch:
    """Inputs (B, C, *N), targets (B, C, *N) or (B, T, C, *N), times (B,), PDE parameters (B, P).

    Its grids are those of these samples. A rollout's loss measures targets `frame_by_frame`.
    """

    inputs: Tensor
    targets: Tensor
    t: Tensor | None = None
    pde_parameters: Tensor | None = None
    frame_by_frame: bool = False
    grids: Grids | None = None


class Samples:
    """The samples of a dataset on a device, kept in memory where they fit."""

    def __init__(
        self, pairs: Pairs, device: torch.device, dtype: torch.dtype = torch.float32
    ) -> None:
        self.data = data = OperatorDataset.from_pairs(pairs).to(dtype)
        self.device, parameters = device, data.pde_parameters()
        self._pde_parameters = None if parameters is None else parameters.to(device, dtype)
        self._kept: tuple[Tensor, Tensor] | None = None
        self._trajectories: Tensor | None = None
        if sum(part.nbytes for part in data.batch([0])) * len(data) > MOST_IN_MEMORY:
            return
        if (window := data.input_frames) is None:
            self._kept = self.batch()
        else:  # views of the trajectories, so that nothing is kept twice
            self._trajectories = whole = self.trajectories()
            self._kept = whole[:, :window].flatten(1, 2), whole[:, window:]

    def digest(self) -> str:
        """A SHA-256 of at most a thousand samples, evenly spread, which identifies data."""
        digest, rows = hashlib.sha256(), np.linspace(0, len(self.data) - 1, MOST_DIGESTED)
        for row in sorted({*rows.round().astype(int).tolist()}):
            for part in self.data[row]:
                digest.update(part.contiguous().numpy().tobytes())
        return digest.hexdigest()

    def __len__(self) -> int:
        return len(self.data)

    def batch(self, indices: Sequence[int] | None = None) -> tuple[Tensor, Tensor]:
        """Inputs and targets of some samples, or of all."""
        inputs, targets = self._kept or self.data.batch(indices)
        if self._kept is not None and indices is not None:
            rows = torch.as_tensor(indices, device=self.device)
            return inputs[rows], targets[rows]
        return inputs.to(self.device), targets.to(self.device)

    def examples(self, indices: Sequence[int]) -> Batch:
        """Some samples as a batch of examples."""
        grids = self.data.grids(indices)
        return Batch(*self.batch(indices), None, self.pde_parameters(indices), grids=grids)

    def pde_parameters(self, indices: Sequence[int]) -> Tensor | None:
        """The PDE parameters of some samples, (B, P); None where they have none."""
        return None if self._pde_parameters is None else self._pde_parameters[list(indices)]

    def trajectories(self, indices: Sequence[int] | None = None) -> Tensor:
        """All frames of all or some samples, those of the window first, (B, T, C, *N)."""
        if self._trajectories is not None and indices is None:
            return self._trajectories
        return self.data.trajectories(indices).to(self.device)

    def frames(self, indices: Sequence[int], starts: Sequence[int], count: int) -> Tensor:
        """`count` frames of some trajectories, each from its own start on, (B, k, C, *N)."""
        whole = self._trajectories
        if whole is None:  # every trajectory is read once, however many of its windows are wanted
            rows = {index: row for row, index in enumerate(dict.fromkeys(indices))}
            whole, indices = self.trajectories(list(rows)), [rows[index] for index in indices]
        chosen, first = (torch.tensor(x, device=self.device)[:, None] for x in (indices, starts))
        return whole[chosen, first + torch.arange(count, device=self.device)]


def augmented(make: Callable[..., Batch], samples: Samples) -> Callable[..., Batch]:
    """A task's `batch` with each example moved by a symmetry drawn for it and the epoch."""
    data = samples.data
    if isinstance(data.grid, MaskedGrid) or data.output_grid is not None:
        raise ValueError("augment=True with a mask or output points: symmetries do not move those")
    symmetries = data.symmetries()
    # flips of a subsampled box are exact on its finer grid alone: the data are turned there
    turned = [Samples(view, samples.device, data.dtype) for view in data.turns()] or [samples]
    if len(symmetries) * len(turned) == 1:
        raise ValueError("augment=True, but no symmetries: name some by data.with_symmetries(...)")

    def move(index: int, *, seed: int, epoch: int) -> Batch:
        draw = np.random.default_rng([seed, epoch, index, 2])
        part = make(turned[draw.integers(len(turned))], [index], seed=seed, epoch=epoch)
        symmetry = symmetries[int(draw.integers(len(symmetries)))]
        inputs, targets = (symmetry.apply(f, data.grid) for f in (part.inputs, part.targets))
        return replace(part, inputs=inputs, targets=targets)

    def batch(samples: Samples, indices: Sequence[int], *, seed: int, epoch: int) -> Batch:
        parts = [move(index, seed=seed, epoch=epoch) for index in indices]
        names = [name for name, value in vars(parts[0]).items() if isinstance(value, Tensor)]
        joined: Options = {n: torch.cat([getattr(part, n) for part in parts]) for n in names}
        return replace(parts[0], **joined)

    return batch


def epoch_order(count: int, *, seed: int, epoch: int) -> list[int]:
    return [int(index) for index in np.random.default_rng([seed, epoch]).permutation(count)]


def example_noise(like: Tensor, indices: Sequence[int], *, seed: int, epoch: int) -> Tensor:
    """Standard normal numbers of the shape of `like`, row by row those of one example."""
    generators = (np.random.default_rng([seed, epoch, index, 1]) for index in indices)
    rows = [draw.standard_normal(like.shape[1:], dtype=np.float32) for draw in generators]
    return torch.from_numpy(np.stack(rows)).to(like)


@runtime_checkable
class Predictor(Protocol):
    """Something that predicts the targets of a dataset; it is given `pde_parameters` if any."""

    def predict(self, inputs: Tensor, *, grid: Grid, times: Sequence[float] | None) -> Tensor:
        """The prediction of inputs (B, C, *N): (B, C, *N), or (B, T, C, *N) at `times`."""


def predict_batches(
    predictor: Predictor,
    data: OperatorDataset | Samples,
    *,
    batch_size: int = BATCH_SIZE,
    device: torch.device | str | None = None,
    rows: Sequence[int] | None = None,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Predictions and targets of some rows, on the CPU; `device` is where to predict."""
    check_at_least("batch_size", batch_size)
    rows = range(len(data)) if rows is None else rows
    view = data.data if isinstance(data, Samples) else data
    for first in range(0, len(rows), batch_size):
        some = rows[first : first + batch_size]
        inputs, targets = data.batch(some)
        with evaluation_mode(predictor):
            prediction = predictor.predict(inputs.to(device), **view.keyword_arguments(some))
        check_shape("the prediction", prediction, *targets.shape)
        yield prediction.detach().cpu(), targets.cpu()


@contextlib.contextmanager
def evaluation_mode(predictor: object) -> Iterator[None]:
    """No gradients, and evaluation mode where the predictor is a module; its modes come back."""
    modules = predictor.modules() if isinstance(predictor, nn.Module) else ()
    with LOCK:  # a module is in training again when the last thread has predicted
        training = [module for module in modules if module.training or module in _PREDICTING]
        for module in training:
            module.training = False
        _PREDICTING.update(training)
    try:
        # not inference mode: values that a network keeps must serve a later training step, too
        with torch.no_grad():
            yield
    finally:
        with LOCK:
            _PREDICTING.subtract(training)
            for module in training:
                module.training = not _PREDICTING[module]
                if module.training:
                    del _PREDICTING[module]
