"""Errors that end a command with one message: the cause lies in what was asked, not in the code.

Wrong input is a ValueError, a file that cannot be read or written an OSError, and these two.
"""

__all__ = ["SolverError", "TrainingStopped"]


class SolverError(RuntimeError):
    """A solver failed: "sample 3 REASON", counted in the batch or dataset of whoever raises."""

    def __init__(self, sample: int, reason: str) -> None:
        super().__init__(sample, reason)
        self.sample, self.reason = sample, reason

    def __str__(self) -> str:
        return f"sample {self.sample} {self.reason}"


class TrainingStopped(RuntimeError):
    """Training ended before its last epoch; `resumable` if the same command goes on from here."""

    def __init__(self, message: str, *, resumable: bool) -> None:
        super().__init__(message)
        self.resumable = resumable
