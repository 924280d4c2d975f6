"""Limits for readers: regular files alone, within limits of memory and computing time.

A reader states what it needs before it reads; the limit is half of the memory of this machine, or
for example PDNO_MEMORY_LIMIT=8GiB. Computing time is limited where a file could keep a reader busy
for ever (`pdno.data.foreign_hdf5`): 5 s, or for example PDNO_TIME_LIMIT=60s.
"""

import errno
import json
import os
import re
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from pdno.interface.records import Options

LIMIT, TIME_LIMIT = "PDNO_MEMORY_LIMIT", "PDNO_TIME_LIMIT"
PARSED = 64  # bytes of lists, dicts and numbers that a byte of text may become
MOST_VALUES, DEEPEST = 1_000_000, 64
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(?:([KMGT])i?)?B?", re.IGNORECASE)


class MemoryLimitError(ValueError):
    """A file needs more memory than its reader may use."""


def memory_limit() -> int:
    if text := os.environ.get(LIMIT, ""):
        size = _SIZE.fullmatch(text.strip())
        if size is None:
            raise ValueError(f"{LIMIT} is {text!r}; expected a size such as 8GiB, or 500MB")
        return int(float(size[1]) * 2 ** (10 * " KMGT".index((size[2] or " ").upper())))
    if not hasattr(os, "sysconf"):
        return 4 * 2**30  # the memory of this system is not known
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def time_limit() -> float:
    text = os.environ.get(TIME_LIMIT, "") or "5 s"
    seconds = re.fullmatch(r"(\d{1,9}(?:\.\d+)?) ?s?", text.strip())
    if seconds is None:
        raise ValueError(f"{TIME_LIMIT} is {text!r}; expected seconds such as 60s")
    return float(seconds[1])


def check_memory(what: str, size: int, cure: str = "") -> None:
    """Refuse what needs `size` bytes if that is more than the limit."""
    limit = memory_limit()
    if size > limit:
        needs = f"{what} needs {size:,} bytes, more than the {limit:,} that a reader may use"
        larger = f"raise the limit, for example {LIMIT}={-(-size // 2**30)}GiB"
        raise MemoryLimitError(f"{needs}: {cure or 'take a smaller file'}, or {larger}")


def open_regular(path: Path | str) -> BufferedReader:
    """Open a file to read; pipes and devices, which may never end, are refused."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "expected a file, not a folder", str(path))
    if stat.S_ISREG(mode):
        # a pipe that replaces the file now must not block, either
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
        raise ValueError(f"{path} is not readable as text in UTF-8: {problem}") from problem


def read_json(path: Path | str) -> Options:
    """The values of a JSON file, by key; errors name the file."""
    text, cure = read_text(path), "restore it from a copy, or make it again"
    try:
        content: object = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"{path} is not readable as JSON: {problem}; {cure}") from problem
    if not isinstance(content, dict):
        raise ValueError(f"{path} has no keys and values, but {type(content).__name__}: {cure}")
    return content


def walk(values: object) -> Iterator[object]:
    """All values of nested lists and dicts, walked as a tree; ValueError if too deep or many."""
    waiting, count = [(values, 0)], 1
    while waiting:
        value, depth = waiting.pop()
        yield value
        if isinstance(value, (dict, list, tuple, set)):
            count += len(value)
            if count > MOST_VALUES or depth > DEEPEST:
                most = f"{MOST_VALUES:,} values in {DEEPEST} levels"
                raise MemoryLimitError(f"is nested too deep, or too large; at most {most}")
            parts = value.values() if isinstance(value, dict) else value
            waiting += ((part, depth + 1) for part in parts)


def check_plain(path: Path | str, values: object) -> None:
    """Refuse content of a file that is too deep or too large, and odd keys."""
    try:
        for value in walk(values):
            for key in value if isinstance(value, dict) else ():
                if not isinstance(key, str) or not key.isprintable():
                    raise ValueError(f"has the key {key!r:.60}; expected a printable word")
    except ValueError as problem:
        raise ValueError(f"{path} {problem}") from problem
