"""The steps of a training, exact to the bit after any interruption.

Everything random is a function of (seed, epoch, example) and the learning rate one of the step, so
weights, optimiser and step number determine a training. These are in a checkpoint.
"""

import contextlib
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pdno.files import run_folder
from pdno.interface.display import Advance, track
from pdno.interface.errors import TrainingStopped
from pdno.spectral.metrics import relative_l2
from pdno.training.checkpoint import EpochRow, RunRecorder, TrainingState
from pdno.training.distributed import ProcessGroup
from pdno.training.losses import Loss, RelativeError
from pdno.training.optimiser import Optimiser
from pdno.training.samples import Samples, augmented, epoch_order, predict_batches
from pdno.training.settings import TrainingSettings, learning_rate
from pdno.training.trained_operator import TrainedOperator

Callback = Callable[[EpochRow, TrainedOperator], object]
# settings that do not decide the weights: a training may be resumed with others
MAY_CHANGE = {"checkpoint_seconds", "evaluate_every", "patience"}


@dataclass
class TrainingLoop:
    """All steps of a run."""

    operator: TrainedOperator
    samples: Samples
    tests: Samples | None
    settings: TrainingSettings
    group: ProcessGroup
    loss: Loss | None = None
    callbacks: Sequence[Callback] = ()

    def __post_init__(self) -> None:
        settings, operator = self.settings, self.operator
        for name, value in (("patience", settings.patience), ("keep", settings.keep)):
            if value not in (None, "last") and self.tests is None:
                raise ValueError(f"{name}={value} needs test samples to measure")
        if self.loss is not None and settings.loss_order:
            order = f"loss_order={settings.loss_order:g}"
            raise ValueError(f"{order} and a loss: give loss=RelativeError(order) alone")
        make, self.grid = operator.task.examples, self.samples.data.grid
        self.examples = augmented(make, self.samples) if settings.augment else make(self.samples)
        self.steps_per_epoch = math.ceil(len(self.examples) / settings.batch_size)
        self.optimiser = Optimiser(operator, settings)
        many = self.group.size > 1
        self.wrapped: nn.Module = DistributedDataParallel(operator) if many else operator

    def run(self, folder: Path | None, *, title: str, tensorboard: bool) -> TrainingState:
        """Take all steps that are left; what `folder` holds is continued."""
        every, group = self.settings.checkpoint_seconds, self.group
        task = self.operator.task.model_dump(mode="json")
        identity = {
            **self.settings.model_dump(mode="json", exclude=MAY_CHANGE),
            **{f"task.{name}": value for name, value in task.items()},
            "examples": len(self.examples),
            "grid": str(self.grid),
            **({} if self.loss is None else {"loss": self.loss.describe()}),
        }
        self.recorder = RunRecorder(folder, identity, group, every, tensorboard)
        self.state = self.recorder.resume(self.operator, self.optimiser)
        if self.state.history:  # its patience may be another one now
            self.state.finished = self._is_over()
        if self.recorder.target is not None and not self.state.finished:
            run_folder.reopen(self.recorder.target)
        self.recorder.write_history(self.state)
        total = self.settings.epochs * self.steps_per_epoch
        cuda = [group.device] if group.device.type == "cuda" else []
        with contextlib.ExitStack() as stack:
            self.signals = stack.enter_context(_stop_signals(listen=folder is not None))
            stack.enter_context(torch.random.fork_rng(devices=cuda))
            advance: Advance = lambda amount, note=None: None  # noqa: E731
            if group.is_rank_0:
                advance = stack.enter_context(track(title, total=total, done=self.state.step))
            self.operator.train()
            while not self.state.finished:
                self._epoch(advance)
            self._save()
            self._stop_if(self._sum([len(self.signals)])[0])
        self.optimiser.finish()
        self.optimiser.restore_best()
        self.operator.eval()
        return self.state

    def _epoch(self, advance: Advance) -> None:
        # a checkpoint may lie between the last step of an epoch and its end
        epoch, size = len(self.state.history), self.settings.batch_size
        first = self.state.step - epoch * self.steps_per_epoch
        order = epoch_order(len(self.examples), seed=self.settings.seed, epoch=epoch)
        for index in range(first, self.steps_per_epoch):
            self._step(epoch, order[index * size : (index + 1) * size])
            if index < self.steps_per_epoch - 1:
                advance(1)
        self._end_epoch()
        last = self.state.history[-1]
        name, error = ("train", last.train) if last.test is None else ("test", last.test)
        advance(1 if first < self.steps_per_epoch else 0, f"{name} error {error:.4g}")

    def _step(self, epoch: int, indices: Sequence[int]) -> None:
        start = time.monotonic(), time.process_time()
        rate = learning_rate(self.settings, self.state.step, self.steps_per_epoch)
        sums = self._backward(epoch, indices)
        *sums, received, due = self._sum([*sums, len(self.signals), self.recorder.is_due()])
        if not math.isfinite(sums[0]):
            raise FloatingPointError(f"the loss is not finite at step {self.state.step + 1}")
        self.optimiser.step(rate, self.state.step)
        self.state.step += 1
        self.state.sums = [a + b for a, b in zip(self.state.sums, sums, strict=True)]
        self._spend(*start)
        if received or due:
            self._save()
        self._stop_if(received)

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
            loss = self.loss or RelativeError(settings.loss_order)
            terms, errors = self.wrapped(batch, self.grid, loss)
        weight = 1.0 if share else 0.0
        total: Tensor = terms.sum() * weight
        # gradients are averaged over the processes; the sum is wanted
        count = len(indices) * terms.shape[1] if settings.reduction == "mean" else 1
        self.optimiser.zero_grad()
        torch.autograd.backward(total * (group.size / count))
        if settings.clip is not None:
            nn.utils.clip_grad_norm_(self.operator.parameters(), settings.clip)
        return [float(total.detach()), float(errors.sum()) * weight, float(len(share))]

    def _end_epoch(self) -> None:
        """Measure and note; an error that is no number is not better than anything."""
        state, settings = self.state, self.settings
        start = time.monotonic(), time.process_time()
        if not all(bool(weight.isfinite().all()) for weight in self.operator.parameters()):
            raise FloatingPointError(f"the network is not finite at step {state.step}")
        epoch, test = len(state.history) + 1, None
        due = epoch == settings.epochs or epoch % settings.evaluate_every == 0
        if due and self.tests is not None:
            with self.optimiser.mean_weights():
                test = self._test_error(self.tests)
                if test < (math.inf if state.best is None else state.best):
                    state.best, state.best_epoch = test, epoch
                    if settings.keep == "best":
                        self.optimiser.remember()
        rate = learning_rate(settings, state.step - 1, self.steps_per_epoch)
        means = (state.sums[0] / state.sums[2], state.sums[1] / state.sums[2])
        self._spend(*start)
        row = EpochRow(epoch, state.step, rate, *means, test, state.best, state.seconds)
        state.history.append(row)
        state.sums = [0.0, 0.0, 0.0]
        state.finished = self._is_over()
        self.recorder.write_history(state)
        for callback in self.callbacks if self.group.is_rank_0 else ():
            callback(row, self.operator)

    def _spend(self, clock: float, processor: float) -> None:
        """Count what has passed since these times."""
        self.state.seconds += time.monotonic() - clock
        self.state.cpu_seconds += time.process_time() - processor

    def _is_over(self) -> bool:
        epoch, patience = len(self.state.history), self.settings.patience
        impatient = patience is not None and epoch - self.state.best_epoch >= patience
        return epoch == self.settings.epochs or impatient

    def _test_error(self, tests: Samples) -> float:
        """Mean relative L2 error of the test samples; every process measures its share."""
        errors = torch.zeros(len(tests), dtype=torch.float64)
        share = self.group.share(range(len(tests)))
        parts = [relative_l2(*pair) for pair in predict_batches(self.operator, tests, rows=share)]
        if parts:
            errors[share] = torch.cat(parts).double()
        return float(self.group.all_reduce(errors).mean())

    def _sum(self, numbers: list[float]) -> list[float]:
        sums = self.group.all_reduce(torch.tensor(numbers, dtype=torch.float64))
        return [float(number) for number in sums]

    def _save(self) -> None:
        self.recorder.save(self.state, self.operator, self.optimiser)

    def _stop_if(self, received: float) -> None:
        if received:
            done = f"stopped after step {self.state.step}; the same command goes on from there"
            raise TrainingStopped(done, resumable=True)


@contextlib.contextmanager
def _stop_signals(*, listen: bool) -> Iterator[list[int]]:
    """Within this block SIGTERM and SIGINT only fill the list; the run ends after its step."""
    received: list[int] = []
    # signals reach the main thread only
    listen = listen and threading.current_thread() is threading.main_thread()
    before = {
        number: signal.signal(number, lambda number, frame: received.append(number))
        for number in ((signal.SIGTERM, signal.SIGINT) if listen else ())
    }
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
