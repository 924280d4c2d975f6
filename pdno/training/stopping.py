"""How a run ends before its time: by a signal, after which it can go on, or by its numbers."""

__all__ = ["StopSignals", "TrainingStopped", "not_finite"]

import signal
import threading
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from pdno.errors import TrainingStopped


def not_finite(what: str, step: int, folder: Path | None) -> TrainingStopped:
    """The end of a run whose numbers ran away at `step`, counted from 1."""
    kept = folder is not None and any((folder / "checkpoints").glob("step-*.safetensors"))
    where = f" The last good checkpoint is in {folder}." if kept else ""
    return TrainingStopped(
        f"the {what} is not finite at step {step}.{where} Try a smaller learning_rate, clip=1.0, "
        "schedule='one-cycle', or precision='float64'; look for NaN in the data",
        resumable=False,
    )


class StopSignals:
    """Within this block SIGTERM and SIGINT only set `asked`; the run ends after its step.

    Arguments:
        listen: Whether to listen; signals reach the main thread only.
    """

    def __init__(self, *, listen: bool) -> None:
        main = threading.current_thread() is threading.main_thread()
        self.asked, self.listen = False, listen and main
        self.before: dict[int, Any] = {}

    def __enter__(self) -> "StopSignals":
        for number in (signal.SIGTERM, signal.SIGINT) if self.listen else ():
            self.before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
