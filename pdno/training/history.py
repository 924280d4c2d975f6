"""Where a run stands, and its history: one row per epoch, as CSV and for TensorBoard.

The rows live in the checkpoint too, so after an interruption the file says the same as without.
"""

__all__ = [
    "EpochRow",
    "TrainingState",
    "check_tensorboard",
    "write_history",
    "write_tensorboard",
]

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from pdno.atomic import write_text


@dataclass(frozen=True)
class EpochRow:
    """One epoch.

    Arguments:
        epoch: From 1.
        step: Optimiser steps so far.
        learning_rate: Of the last step.
        loss: Mean loss of an example, each before its update.
        train: Mean relative L2 error of the training examples, each before its update.
        test: Mean relative L2 error of the test samples after the epoch; None if not measured.
        best: The best test error so far; None if none was measured.
        seconds: Training time so far.
    """

    epoch: int
    step: int
    learning_rate: float
    loss: float
    train: float
    test: float | None
    best: float | None
    seconds: float


@dataclass
class TrainingState:
    """Where a run stands, besides its weights; a checkpoint holds it as JSON.

    Arguments:
        step: Optimiser steps so far.
        seconds: Training time so far.
        sums: Loss, error and number of the examples of this epoch.
        best: The best test error so far; None if none was measured.
        best_epoch: When that was, from 1.
        finished: Whether there is nothing left to do.
        history: The rows of all finished epochs, as dictionaries.
    """

    step: int = 0
    seconds: float = 0.0
    sums: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    best: float | None = None
    best_epoch: int = 0
    finished: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def rows(self) -> list[EpochRow]:
        """The history as rows."""
        return [EpochRow(**row) for row in self.history]

    def add_step(self, sums: Sequence[float], seconds: float) -> None:
        """Count one step with these sums of loss, error and examples."""
        self.step += 1
        self.sums = [a + b for a, b in zip(self.sums, sums, strict=True)]
        self.seconds += seconds

    def end_epoch(self, test: float | None, learning_rate: float, seconds: float) -> None:
        """Close an epoch whose test error is `test` (None if not measured)."""
        epoch = len(self.history) + 1
        # a rollout may overflow at first; what is no number is not better than anything
        if test is not None and test < (math.inf if self.best is None else self.best):
            self.best, self.best_epoch = test, epoch
        self.seconds += seconds
        loss, error, count = self.sums
        means = (loss / count, error / count)
        row = EpochRow(epoch, self.step, learning_rate, *means, test, self.best, self.seconds)
        self.history.append(asdict(row))
        self.sums = [0.0, 0.0, 0.0]


def write_history(path: Path, rows: Sequence[EpochRow]) -> None:
    """Write the rows as CSV; an error that was not measured is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(EpochRow)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    write_text(path, text.getvalue())


def check_tensorboard(folder: Path | None) -> None:
    """ValueError where event files cannot be written; they need the extra `track`."""
    if folder is None:
        raise ValueError("tensorboard needs a folder for its event files: give one")
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError as missing:
        raise ValueError(
            "TensorBoard is not installed: pip install 'pdno[track]', or leave tensorboard out"
        ) from missing


def write_tensorboard(folder: Path, rows: Sequence[EpochRow]) -> None:
    """Write the rows as event files."""
    from torch.utils.tensorboard import SummaryWriter

    for old in folder.glob("events.out.tfevents.*"):
        old.unlink()
    with SummaryWriter(str(folder)) as writer:
        for row in rows:
            for name, value in asdict(row).items():
                if name not in ("epoch", "step") and value is not None:
                    writer.add_scalar(name, value, row.epoch)
