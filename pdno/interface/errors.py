"""Errors that end a command with one message: the cause is the input, not the code.

Wrong input is a ValueError, a file that cannot be read or written an OSError, and these two. The
message about an unknown name suggests the nearest existing one.
"""

__all__ = [
    "SolverError",
    "TrainingStopped",
    "printable",
    "require",
    "suggest",
    "unknown_name",
]

import difflib
from collections.abc import Iterable
from importlib import import_module
from types import ModuleType

LONGEST_NAME, LONGEST_MESSAGE = 60, 300  # of input, and of messages of another library
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


def suggest(word: str, existing: Iterable[str]) -> str:
    """The question "did you mean 'learning_rate'? " for learnig_rate, rate or lr; else nothing."""
    names = {name.lower(): name for name in existing}
    initials = {"".join(part[:1] for part in low.split("_")): low for low in names if "_" in low}
    low = word.lower()
    parts = [name for name in names if low in name.split("_")]
    near = [*difflib.get_close_matches(low, names, n=1), *parts, initials.get(low, "")]
    return f"did you mean {names[near[0]]!r}? " if near[0] else ""


def unknown_name(what: str, name: object, existing: Iterable[str]) -> str:
    """The message about a name that no registry has; other packages may register it."""
    names = list(existing)
    near = suggest(str(name)[:LONGEST_NAME], names)
    return f"{what} {name!r:.{LONGEST_NAME}}; {near}expected one of {', '.join(names)}; {PLUGIN}"


def require(module: str, extra: str) -> ModuleType:
    """A module of an extra of this package; ValueError with the command that installs it."""
    try:
        return import_module(module)
    except ImportError as problem:
        cure = f"pip install 'pdno[{extra}]'"
        raise ValueError(f"the package {module} is not installed: {cure}") from problem
