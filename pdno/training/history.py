"""The history of a run: one row per epoch, as CSV, and for TensorBoard where that is wanted.

The rows live in the checkpoint too, so after an interruption the file says the same as without.
"""

__all__ = ["EpochRow", "check_tensorboard", "write_history", "write_tensorboard"]

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

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
