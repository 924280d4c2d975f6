"""Errors that end a command with one message: the cause lies in what was asked, not in the code.

Wrong input is a ValueError, a file that cannot be read or written an OSError, and these two. An
unknown name is answered with the nearest one that is known.
"""

__all__ = ["SolverError", "TrainingStopped", "printable", "suggest", "unknown_name"]

import difflib
from collections.abc import Iterable

LONGEST_NAME, LONGEST_MESSAGE = 60, 300  # of what was given, and of what another library says
PLUGIN = "those of another package need `--plugin MODULE`, or an import in Python"


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


def printable(text: str) -> str:
    """The text, with ? for what could drive a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def suggest(word: str, known: Iterable[str]) -> str:
    """The question "did you mean 'learning_rate'? " for learnig_rate, or for lr; else nothing."""
    names = {name.lower(): name for name in known}
    initials = {"".join(part[:1] for part in low.split("_")): low for low in names if "_" in low}
    given = word.lower()
    near = difflib.get_close_matches(given, names, n=1) or [initials.get(given, "")]
    return f"did you mean {names[near[0]]!r}? " if near[0] else ""


def unknown_name(what: str, given: object, known: Iterable[str]) -> str:
    """What to say of a name that no registry has; other packages may have it."""
    names = list(known)
    near = suggest(str(given)[:LONGEST_NAME], names)
    return f"{what} {given!r:.{LONGEST_NAME}}; {near}expected one of {', '.join(names)}; {PLUGIN}"
