"""What readers may use: regular files alone, and no more memory and time than their limits.

A reader says what it needs before it reads. The limit is half of this machine's memory, or what
the environment says, for example PDNO_MEMORY_LIMIT=8GiB. Parsed text takes many times the bytes of
its file, and counts so. Time is that of computing, however busy the machine and slow its disk, and
is asked for where what is read could keep a reader busy for ever (`pdno.data.foreign_hdf5`): it is
5 s, or for example PDNO_TIME_LIMIT=60s.
"""

__all__ = [
    "LIMIT",
    "TIME_LIMIT",
    "MemoryLimitError",
    "check_memory",
    "open_regular",
    "read_json",
    "read_text",
]

import errno
import json
import os
import re
import stat
from collections.abc import Iterable
from io import BufferedReader
from pathlib import Path
from typing import Any

LIMIT, TIME_LIMIT = "PDNO_MEMORY_LIMIT", "PDNO_TIME_LIMIT"
UNKNOWN = 4 * 2**30  # where a system does not tell its memory
PARSED = 64  # bytes of lists, dicts and numbers that a byte of text may become
SECONDS = 5.0
MOST_VALUES, DEEPEST = 1_000_000, 64
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(?:([KMGT])i?)?B?", re.IGNORECASE)


class MemoryLimitError(ValueError):
    """A file needs more memory than its reader may use."""


def memory_limit() -> int:
    """Bytes that a reader may use."""
    given = os.environ.get(LIMIT, "")
    if given:
        size = _SIZE.fullmatch(given.strip())
        if size is None:
            raise ValueError(f"{LIMIT} is {given!r}; expected a size such as 8GiB, or 500MB")
        return int(float(size[1]) * 2 ** (10 * " KMGT".index((size[2] or " ").upper())))
    if not hasattr(os, "sysconf"):
        return UNKNOWN
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def time_limit() -> float:
    """Seconds of computing that a reader may use."""
    given = os.environ.get(TIME_LIMIT, "") or f"{SECONDS}"
    seconds = re.fullmatch(r"(\d{1,9}(?:\.\d+)?) ?s?", given.strip())
    if seconds is None:
        raise ValueError(f"{TIME_LIMIT} is {given!r}; expected seconds such as 60s")
    return float(seconds[1])


def check_memory(what: str, size: int, cure: str = "") -> None:
    """Refuse what needs `size` bytes if that is more than the limit."""
    limit = memory_limit()
    if size > limit:
        raise MemoryLimitError(
            f"{what} needs {size:,} bytes, more than the {limit:,} that a reader may use: "
            f"{cure or 'take a smaller file'}, or raise the limit, for example {LIMIT}="
            f"{-(-size // 2**30)}GiB"
        )


def open_regular(path: Path | str) -> BufferedReader:
    """Open a file to read; pipes and devices, which may never end, are refused."""
    found = os.stat(path)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "expected a file, not a folder", str(path))
    if stat.S_ISREG(found.st_mode):
        # what is put in its place now must not stop us, either
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return open(descriptor, "rb")
        os.close(descriptor)
    raise ValueError(f"{path} is a pipe or a device; expected a file: copy its contents into one")


def read_text(path: Path | str) -> str:
    """The text of a file, to the byte; errors name the file."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        check_memory(f"{path} as parsed text", PARSED * size)
        content = file.read(size)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise ValueError(
            f"{path} is not readable as text in UTF-8 ({problem}): it is damaged, or no text"
        ) from problem


def read_json(path: Path | str) -> Any:
    """What a JSON file holds; errors name the file."""
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as problem:
        told = f"{path} is not readable as JSON: {problem}"
        raise ValueError(f"{told}; bring it back from a copy, or make it again") from problem


def check_plain(path: Path | str, values: Any) -> None:
    """Refuse lists and dicts that, walked as a tree, are too deep or too many, and odd keys."""
    waiting, count = [(values, 0)], 1
    while waiting:
        value, depth = waiting.pop()
        parts: Iterable[Any] = value.values() if isinstance(value, dict) else ()
        for key in value if isinstance(value, dict) else ():
            if not isinstance(key, str) or not key.isprintable():
                raise ValueError(f"{path} has the key {key!r:.60}; expected a printable word")
        parts = value if isinstance(value, (list, tuple, set)) else parts
        new = [(part, depth + 1) for part in parts]
        count += len(new)
        if count > MOST_VALUES or depth > DEEPEST:
            most = f"at most {MOST_VALUES:,} values in {DEEPEST} levels"
            raise ValueError(f"{path} is nested too deep, or too large; expected {most}")
        waiting += new
