"""How a run ends before its time: by a signal, after which it can go on, or by its numbers."""

__all__ = ["StopSignals", "TrainingStopped"]

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class TrainingStopped(RuntimeError):
    """Training ended before its last epoch; the message says why and what to try."""

    def __init__(self, message: str, *, resumable: bool) -> None:
        super().__init__(message)
        self.resumable = resumable


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
