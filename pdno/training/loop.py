"""The training loop: plain PyTorch, exact to the bit after any interruption.

Everything random is a function of (seed, epoch, example) and the learning rate one of the step, so
a run is determined by its weights, its optimiser and its step number. These are in a checkpoint;
a run that is killed at any moment and started again ends with the weights of a run that was not.
"""

__all__ = ["Loop", "Position"]

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pdno.metrics import relative_l2
from pdno.progress import Advance, track
from pdno.training.checkpoint import load_checkpoint, save_checkpoint, sweep_checkpoints
from pdno.training.distributed import Crew
from pdno.training.examples import Batch, Samples, epoch_order
from pdno.training.history import (
    EpochRow,
    check_tensorboard,
    write_history,
    write_tensorboard,
)
from pdno.training.identity import check_identity, run_identity
from pdno.training.learner import Learner
from pdno.training.optimise import make_optimiser
from pdno.training.schedule import learning_rate
from pdno.training.settings import TrainingSettings
from pdno.training.stopping import StopSignals, TrainingStopped, not_finite

EVALUATION_BATCH = 20


@dataclass
class Position:
    """Where a run stands, besides its weights."""

    step: int = 0
    seconds: float = 0.0
    sums: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    """Of this epoch: loss, error, examples."""
    best: float | None = None
    best_epoch: int = 0
    finished: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)


class Loop:
    """All steps of a run.

    Arguments:
        learner: What is trained.
        samples: Training samples.
        tests: Test samples, or None.
        settings: How to train.
        crew: The processes that train together.
    """

    def __init__(
        self,
        learner: Learner,
        samples: Samples,
        tests: Samples | None,
        settings: TrainingSettings,
        crew: Crew,
    ) -> None:
        self.learner, self.samples, self.tests = learner, samples, tests
        self.settings, self.crew = settings, crew
        if settings.patience is not None and tests is None:
            raise ValueError(f"patience={settings.patience} needs test samples to measure")
        self.examples = learner.task.examples(samples)
        self.steps_per_epoch = math.ceil(len(self.examples) / settings.batch_size)
        self.grid = samples.data.grid
        self.identity = run_identity(settings, learner.task, len(self.examples), self.grid)
        self.optimiser = make_optimiser(learner, settings)
        self.position = Position()
        self.wrapped: nn.Module = learner
        if crew.size > 1:
            self.wrapped = DistributedDataParallel(learner)
        self.folder: Path | None = None
        self.tensorboard = False
        self.saved_at = time.monotonic()
        self.signals = StopSignals(listen=False)

    def run(
        self, folder: Path | None = None, *, title: str = "training", tensorboard: bool = False
    ) -> Position:
        """Take all steps that are left; what `folder` holds is continued."""
        if tensorboard:
            check_tensorboard(folder)
        self.folder, self.tensorboard = folder, tensorboard
        self._resume()
        total = self.settings.epochs * self.steps_per_epoch
        cuda = [self.crew.device] if self.crew.device.type == "cuda" else []
        self.signals = StopSignals(listen=folder is not None)
        with self.signals, torch.random.fork_rng(devices=cuda):
            self.learner.train()
            if self.crew.leads:
                with track(title, total=total, done=self.position.step) as advance:
                    self._epochs(advance)
            else:
                self._epochs(lambda amount, note=None: None)
        self.learner.eval()
        return self.position

    def _epochs(self, advance: Advance) -> None:
        where = self.position
        going = not where.finished
        while going:
            # a checkpoint may lie between the last step of an epoch and its end
            epoch = len(where.history)
            first = where.step - epoch * self.steps_per_epoch
            order = epoch_order(len(self.examples), seed=self.settings.seed, epoch=epoch)
            for index in range(first, self.steps_per_epoch):
                size = self.settings.batch_size
                self._step(epoch, order[index * size : (index + 1) * size])
                if index < self.steps_per_epoch - 1:
                    advance(1)
            going = not self._end_epoch(epoch + 1)
            last = where.history[-1]
            shown = last["train"] if last["test"] is None else last["test"]
            last_step = 1 if first < self.steps_per_epoch else 0
            advance(last_step, f"{'train' if last['test'] is None else 'test'} error {shown:.4g}")
        self._save()
        if self._agree([float(self.signals.asked)])[0]:
            raise self._stopped()

    def _step(self, epoch: int, indices: Sequence[int]) -> None:
        start = time.monotonic()
        settings, where = self.settings, self.position
        # networks with dropout and the like: their noise is a function of the step, too
        torch.manual_seed((settings.seed * 1_000_003 + where.step) * 64 + self.crew.rank)
        share = self.crew.share(indices)
        # a process without a share of a small last batch still has to take part
        mine = share or list(indices[:1])
        batch = self.examples.batch(mine, seed=settings.seed, epoch=epoch)
        terms, errors = self._forward(batch)
        weight = 1.0 if share else 0.0
        loss = terms.sum() * weight
        # gradients are averaged over the processes; the sum is wanted
        scale = float(self.crew.size)
        if settings.reduction == "mean":
            scale /= len(indices) * terms.shape[1]
        rate = learning_rate(settings, where.step, self.steps_per_epoch)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad(set_to_none=True)
        (loss * scale).backward()  # type: ignore[no-untyped-call]
        if settings.clip is not None:
            nn.utils.clip_grad_norm_(self.learner.parameters(), settings.clip)
        sums = [float(loss.detach()), float(errors.sum()) * weight, float(len(share))]
        flags = self._agree([*sums, float(self.signals.asked), float(self._save_is_due())])
        if not math.isfinite(flags[0]):
            raise not_finite("loss", where.step + 1, self.folder)
        self.optimiser.step()
        where.step += 1
        where.sums = [a + b for a, b in zip(where.sums, flags[:3], strict=True)]
        where.seconds += time.monotonic() - start
        if flags[3] or flags[4]:
            self._save()
        if flags[3]:
            raise self._stopped()

    def _forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        half = self.settings.precision == "bfloat16"
        with torch.autocast(self.crew.device.type, dtype=torch.bfloat16, enabled=half):
            terms, errors = self.wrapped(batch, self.grid, self.settings.loss_order)
        return terms, errors

    def _agree(self, numbers: list[float]) -> list[float]:
        """The same sums in all processes."""
        added = self.crew.add_up(torch.tensor(numbers, dtype=torch.float64))
        values: list[float] = added.tolist()
        return values

    def _end_epoch(self, epoch: int) -> bool:
        """Measure and note; whether the run is finished."""
        where, settings = self.position, self.settings
        start = time.monotonic()
        if not all(bool(weight.isfinite().all()) for weight in self.learner.parameters()):
            raise not_finite("network", where.step, self.folder)
        due = epoch == settings.epochs or epoch % settings.evaluate_every == 0
        test = self._test_error() if due and self.tests is not None else None
        # a rollout may overflow at first; what is no number is not better than anything
        if test is not None and test < (math.inf if where.best is None else where.best):
            where.best, where.best_epoch = test, epoch
        where.finished = self._is_over(epoch)
        where.seconds += time.monotonic() - start
        loss, error, count = where.sums
        rate = learning_rate(settings, where.step - 1, self.steps_per_epoch)
        row = EpochRow(
            epoch=epoch,
            step=where.step,
            learning_rate=rate,
            loss=loss / count,
            train=error / count,
            test=test,
            best=where.best,
            seconds=where.seconds,
        )
        where.history.append(asdict(row))
        where.sums = [0.0, 0.0, 0.0]
        if self.folder is not None and self.crew.leads:
            self._write_history()
        return where.finished

    def _is_over(self, epoch: int) -> bool:
        patience = self.settings.patience
        impatient = patience is not None and epoch - self.position.best_epoch >= patience
        return epoch == self.settings.epochs or impatient

    def _test_error(self) -> float:
        """Mean relative L2 error of the test samples; every process measures its share."""
        assert self.tests is not None
        data = self.tests.data
        times = None if data.times is None else data.times[data.input_frames or 0 :]
        errors = torch.zeros(len(data), dtype=torch.float64)
        mine = self.crew.share(range(len(data)))
        for start in range(0, len(mine), EVALUATION_BATCH):
            rows = mine[start : start + EVALUATION_BATCH]
            inputs, targets = self.tests.batch(rows)
            said = self.learner.predict(inputs, grid=data.grid, times=times)
            errors[rows] = relative_l2(said, targets).double().cpu()
        return float(self.crew.add_up(errors).mean())

    def _save_is_due(self) -> bool:
        if self.folder is None or not self.crew.leads:
            return False
        return time.monotonic() - self.saved_at >= self.settings.checkpoint_seconds

    def _save(self) -> None:
        if self.folder is not None and self.crew.leads:
            state = {"identity": self.identity, **asdict(self.position)}
            try:
                save_checkpoint(
                    self.folder / "checkpoints",
                    self.position.step,
                    self.learner,
                    self.optimiser,
                    state,
                )
            except FloatingPointError as problem:
                raise not_finite("network", self.position.step, self.folder) from problem
            self.saved_at = time.monotonic()

    def _write_history(self) -> None:
        assert self.folder is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        rows = [EpochRow(**row) for row in self.position.history]
        write_history(self.folder / "history.csv", rows)
        if self.tensorboard:
            write_tensorboard(self.folder, rows)

    def _resume(self) -> None:
        if self.folder is None:
            return
        if self.crew.leads:
            sweep_checkpoints(self.folder)
        self.crew.wait()
        found = load_checkpoint(self.folder / "checkpoints", self.crew.device)
        if found is None:
            return
        state = dict(found.state)
        check_identity(state.pop("identity"), self.identity, self.folder)
        found.restore(self.learner, self.optimiser)
        self.position = Position(**state)
        if self.position.history:
            self.position.finished = self._is_over(len(self.position.history))
            if self.crew.leads:
                self._write_history()

    def _stopped(self) -> TrainingStopped:
        done = f"stopped after step {self.position.step}; the same command goes on from there"
        return TrainingStopped(done, resumable=True)
