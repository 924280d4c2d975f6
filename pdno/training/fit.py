"""`fit`: train any network on any dataset, exact to the bit after any interruption.

Everything random is a function of (seed, epoch, example) and the learning rate one of the step, so
a run is determined by its weights, its optimiser and its step number. These are in a checkpoint;
a run that is killed at any moment and started again ends with the weights of a run that was not.
"""

__all__ = ["Run", "fit"]

import math
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Adam, AdamW

from pdno.data.dataset import OperatorDataset
from pdno.errors import TrainingStopped
from pdno.metrics import relative_l2
from pdno.progress import Advance, track
from pdno.training.checkpoint import RunRecorder
from pdno.training.distributed import ProcessGroup, process_group
from pdno.training.history import EpochRow, TrainingState, check_tensorboard
from pdno.training.learner import Learner, make_learner
from pdno.training.normalizer import Normalization
from pdno.training.samples import Samples, epoch_order
from pdno.training.settings import TrainingSettings, learning_rate
from pdno.training.task import StaticMap, Task

EVALUATION_BATCH = 20
MAY_CHANGE = {"checkpoint_seconds", "evaluate_every", "patience"}
"""Settings that do not decide the weights: a run may go on with others."""


@dataclass(frozen=True)
class Run:
    """What training gives.

    Arguments:
        model: The learner: network, normalisers and task; it has `predict`.
        history: One row per epoch.
        seconds: Training time.
    """

    model: Learner
    history: list[EpochRow]
    seconds: float

    @property
    def network(self) -> nn.Module:
        """The network alone."""
        return self.model.network


def fit(
    network: nn.Module,
    train: OperatorDataset,
    test: OperatorDataset | None = None,
    *,
    task: Task | None = None,
    normalization: Normalization = "none",
    settings: TrainingSettings | None = None,
    folder: Path | str | None = None,
    device: torch.device | str | None = None,
    tensorboard: bool = False,
    title: str = "training",
    **changes: Any,
) -> Run:
    """Train a network; run under torchrun it uses all processes.

    Arguments:
        network: Any module from (B, C, *N) to (B, C, *N); trained in place.
        train: Training samples.
        test: Samples whose error is measured after the epochs.
        task: How the network meets the data; a static map by default.
        normalization: "none", "pointwise" or "channel".
        settings: How to train.
        folder: Where checkpoints and the history go; a run found there is continued. None keeps
            nothing.
        device: Where to train; None takes CUDA where there is one.
        tensorboard: Whether to write event files into `folder` as well.
        title: What the progress bar says.
        **changes: Settings by name, for example epochs=20.

    Example:
        >>> from pdno.grid import Grid
        >>> from pdno.networks.fno import FNO
        >>> f = torch.randn(8, 1, 16, generator=torch.Generator().manual_seed(0))
        >>> data = OperatorDataset.from_arrays(f, 2 * f, Grid((16,)))
        >>> run = fit(FNO(1, 1, 1, width=4, modes=4), data, epochs=2, batch_size=4)
        >>> [row.epoch for row in run.history]
        [1, 2]
    """
    base = settings or TrainingSettings()
    chosen = TrainingSettings(**{**base.model_dump(), **changes})
    dtype = torch.float64 if chosen.precision == "float64" else torch.float32
    with process_group(device) as group:
        lacks = group.device.type == "cuda" and not torch.cuda.is_bf16_supported()
        if chosen.precision == "bfloat16" and lacks:
            raise ValueError("this device has no bfloat16: take precision='float32'")
        network.to(group.device, dtype)
        samples = Samples(train, group.device, dtype)
        learner = make_learner(network, task or StaticMap(), samples, normalization)
        tests = None if test is None else Samples(test, group.device, dtype)
        place = None if folder is None else Path(folder)
        loop = _Loop(learner, samples, tests, chosen, group)
        state = loop.run(place, title=title, tensorboard=tensorboard)
        return Run(learner, state.rows, state.seconds)


class _Loop:
    """All steps of a run."""

    def __init__(
        self,
        learner: Learner,
        samples: Samples,
        tests: Samples | None,
        settings: TrainingSettings,
        group: ProcessGroup,
    ) -> None:
        if settings.patience is not None and tests is None:
            raise ValueError(f"patience={settings.patience} needs test samples to measure")
        self.learner, self.tests, self.settings, self.group = learner, tests, settings, group
        self.examples, self.grid = learner.task.examples(samples), samples.data.grid
        self.steps_per_epoch = math.ceil(len(self.examples) / settings.batch_size)
        # Adam has the weight decay in the gradient, as published
        kind: type[Adam] = {"adam": Adam, "adamw": AdamW}[settings.optimiser]
        self.optimiser = kind(
            learner.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        many = group.size > 1
        self.wrapped: nn.Module = DistributedDataParallel(learner) if many else learner

    def run(self, folder: Path | None, *, title: str, tensorboard: bool) -> TrainingState:
        """Take all steps that are left; what `folder` holds is continued."""
        if tensorboard:
            check_tensorboard(folder)
        every = self.settings.checkpoint_seconds
        self.recorder = RunRecorder(
            folder, self._identity(), self.group, every=every, tensorboard=tensorboard
        )
        self.state = self.recorder.resume(self.learner, self.optimiser)
        if self.state.history:  # its patience may be another one now
            self.state.finished = self._is_over()
        self.recorder.write_history(self.state)
        total = self.settings.epochs * self.steps_per_epoch
        cuda = [self.group.device] if self.group.device.type == "cuda" else []
        self.signals = _StopSignals(listen=folder is not None)
        with self.signals, torch.random.fork_rng(devices=cuda):
            self.learner.train()
            if self.group.is_rank_0:
                with track(title, total=total, done=self.state.step) as advance:
                    self._train(advance)
            else:
                self._train(lambda amount, note=None: None)
        self.learner.eval()
        return self.state

    def _identity(self) -> dict[str, Any]:
        """What decides the weights: settings, task, number of examples and their grid."""
        task = self.learner.task.model_dump(mode="json")
        return {
            **self.settings.model_dump(mode="json", exclude=MAY_CHANGE),
            **{f"task.{name}": value for name, value in task.items()},
            "examples": len(self.examples),
            "grid": str(self.grid),
        }

    def _train(self, advance: Advance) -> None:
        while not self.state.finished:
            self._epoch(advance)
        self._save()
        if self._sum([float(self.signals.received)])[0]:
            raise self._stopped()

    def _epoch(self, advance: Advance) -> None:
        """The steps that are left of an epoch, and its end."""
        # a checkpoint may lie between the last step of an epoch and its end
        epoch, size = len(self.state.history), self.settings.batch_size
        first = self.state.step - epoch * self.steps_per_epoch
        order = epoch_order(len(self.examples), seed=self.settings.seed, epoch=epoch)
        for index in range(first, self.steps_per_epoch):
            self._step(epoch, order[index * size : (index + 1) * size])
            if index < self.steps_per_epoch - 1:
                advance(1)
        self._end_epoch(epoch + 1)
        last = self.state.history[-1]
        name = "train" if last["test"] is None else "test"
        advance(1 if first < self.steps_per_epoch else 0, f"{name} error {last[name]:.4g}")

    def _step(self, epoch: int, indices: Sequence[int]) -> None:
        start = time.monotonic()
        rate = learning_rate(self.settings, self.state.step, self.steps_per_epoch)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        sums = self._backward(epoch, indices)
        received, due = float(self.signals.received), float(self.recorder.is_due())
        *sums, received, due = self._sum([*sums, received, due])
        if not math.isfinite(sums[0]):
            raise self._not_finite("loss", self.state.step + 1)
        self.optimiser.step()
        self.state.add_step(sums, time.monotonic() - start)
        if received or due:
            self._save()
        if received:
            raise self._stopped()

    def _backward(self, epoch: int, indices: Sequence[int]) -> list[float]:
        """The gradient of a batch; returns loss, error and examples of this process."""
        settings, group = self.settings, self.group
        # networks with dropout and the like: their noise is a function of the step, too
        torch.manual_seed((settings.seed * 1_000_003 + self.state.step) * 64 + group.rank)
        share = group.share(indices)
        # a process without a share of a small last batch still has to take part
        batch = self.examples.batch(share or indices[:1], seed=settings.seed, epoch=epoch)
        half = settings.precision == "bfloat16"
        with torch.autocast(group.device.type, dtype=torch.bfloat16, enabled=half):
            terms, errors = self.wrapped(batch, self.grid, settings.loss_order)
        weight = 1.0 if share else 0.0
        loss: Tensor = terms.sum() * weight
        # gradients are averaged over the processes; the sum is wanted
        scale = float(group.size)
        if settings.reduction == "mean":
            scale /= len(indices) * terms.shape[1]
        self.optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(loss * scale)
        if settings.clip is not None:
            nn.utils.clip_grad_norm_(self.learner.parameters(), settings.clip)
        return [float(loss.detach()), float(errors.sum()) * weight, float(len(share))]

    def _end_epoch(self, epoch: int) -> None:
        """Measure and note."""
        state, settings = self.state, self.settings
        start = time.monotonic()
        if not all(bool(weight.isfinite().all()) for weight in self.learner.parameters()):
            raise self._not_finite("network", state.step)
        due = epoch == settings.epochs or epoch % settings.evaluate_every == 0
        test = self._test_error(self.tests) if due and self.tests is not None else None
        rate = learning_rate(settings, state.step - 1, self.steps_per_epoch)
        state.end_epoch(test, rate, time.monotonic() - start)
        state.finished = self._is_over()
        self.recorder.write_history(state)

    def _is_over(self) -> bool:
        epoch, patience = len(self.state.history), self.settings.patience
        impatient = patience is not None and epoch - self.state.best_epoch >= patience
        return epoch == self.settings.epochs or impatient

    def _test_error(self, tests: Samples) -> float:
        """Mean relative L2 error of the test samples; every process measures its share."""
        data = tests.data
        errors = torch.zeros(len(data), dtype=torch.float64)
        share = self.group.share(range(len(data)))
        for start in range(0, len(share), EVALUATION_BATCH):
            rows = share[start : start + EVALUATION_BATCH]
            inputs, targets = tests.batch(rows)
            prediction = self.learner.predict(inputs, grid=data.grid, times=data.target_times)
            errors[rows] = relative_l2(prediction, targets).double().cpu()
        return float(self.group.all_reduce(errors).mean())

    def _sum(self, numbers: list[float]) -> list[float]:
        """The sums over all processes, the same in each."""
        local = torch.tensor(numbers, dtype=torch.float64)
        sums: list[float] = self.group.all_reduce(local).tolist()
        return sums

    def _save(self) -> None:
        try:
            self.recorder.save(self.state, self.learner, self.optimiser)
        except FloatingPointError as problem:
            raise self._not_finite("network", self.state.step) from problem

    def _stopped(self) -> TrainingStopped:
        done = f"stopped after step {self.state.step}; the same command goes on from there"
        return TrainingStopped(done, resumable=True)

    def _not_finite(self, what: str, step: int) -> TrainingStopped:
        """The end of a run whose numbers ran away at `step`, counted from 1."""
        recorder = self.recorder
        kept = f" The last good checkpoint is in {recorder.folder}."
        return TrainingStopped(
            f"the {what} is not finite at step {step}.{kept if recorder.has_checkpoint else ''} "
            "Try a smaller learning_rate, clip=1.0, schedule='one-cycle', or "
            "precision='float64'; look for NaN in the data",
            resumable=False,
        )


class _StopSignals:
    """Within this block SIGTERM and SIGINT only set `received`; the run ends after its step.

    Arguments:
        listen: Whether to listen; signals reach the main thread only.
    """

    def __init__(self, *, listen: bool) -> None:
        main = threading.current_thread() is threading.main_thread()
        self.received, self.listen = False, listen and main
        self.before: dict[int, Any] = {}

    def __enter__(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT) if self.listen else ():
            self.before[number] = signal.signal(number, self._receive)

    def __exit__(self, *problem: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received = True
