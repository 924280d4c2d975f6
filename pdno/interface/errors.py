"""Errors that end a command with one message, and argument checks that raise them.

Wrong input is a ValueError, a file that cannot be read or written an OSError, and these two.
"""

import difflib
from collections.abc import Iterable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Protocol

ELSEWHERE = {"hidden_channels": "width"}  # words of other packages that resemble none of ours
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
    """Training ended before its last epoch; `resumable` if the same command continues it."""

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
    low = ELSEWHERE.get(word.lower(), word.lower())
    parts = [name for name in names if low in name.split("_")]
    near = [*difflib.get_close_matches(low, names, n=1), *parts, initials.get(low, "")]
    return f"did you mean {names[near[0]]!r}? " if near[0] else ""


def _expected(value: object, names: list[str]) -> str:
    near = suggest(str(value)[:LONGEST_NAME], names)
    return f"{value!r:.{LONGEST_NAME}}; {near}expected one of {', '.join(names)}"


def unknown_name(what: str, name: object, existing: Iterable[str]) -> str:
    """The message about a name that no registry has; other packages may register it."""
    return f"{what} {_expected(name, list(existing))}; {PLUGIN}"


def check_choice(name: str, value: object, options: Iterable[object]) -> None:
    """ValueError with the nearest option unless the value is one of them."""
    names = [str(option) for option in options]
    if str(value) not in names:
        raise ValueError(f"{name} is {_expected(value, names)}")


def check_at_least(name: str, value: float, least: float = 1) -> None:
    """ValueError unless the value is a number >= least; NaN is none."""
    if not value >= least:
        raise ValueError(f"{name} is {value}; expected at least {least}")


class _Array(Protocol):
    @property
    def shape(self) -> Sequence[int]: ...


def check_shape(name: str, array: _Array, *axes: int | str, cure: str = "") -> None:
    """ValueError unless an array has these axes; words are of any size, *words one or more axes.

    A field (B, 1, *N) is `check_shape("f", f, "B", 1, "*N")`.
    """
    shape, sizes = tuple(array.shape), list(axes)
    for position in [i for i, axis in enumerate(axes) if str(axis).startswith("*")]:
        sizes[position : position + 1] = ["any"] * max(1, len(shape) - len(axes) + 1)
    fits = all(isinstance(size, str) or size == n for size, n in zip(sizes, shape, strict=False))
    if len(shape) != len(sizes) or not fits:
        expected = f"expected ({', '.join(map(str, axes))})"
        raise ValueError(f"{name} has shape {shape}; {expected}{cure and ': ' + cure}")


def require(module: str, extra: str) -> ModuleType:
    """A module of an extra of this package; ValueError with the command that installs it."""
    try:
        return import_module(module)
    except ImportError as problem:
        cure = f"pip install 'pdno[{extra}]'"
        raise ValueError(f"the package {module} is not installed: {cure}") from problem
