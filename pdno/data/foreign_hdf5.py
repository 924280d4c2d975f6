"""HDF5 files of others: opened after another process has seen all that they say of themselves.

The HDF5 library believes its files: a damaged heap can keep it busy for ever, and nothing can
interrupt it. A process can be ended, though. So before a file of others is opened here, another
one visits each group, dataset, attribute and reference of it, and the list of its chunks, with the
memory and the seconds of computing that readers may use (`pdno.files.limits`). If that is not enough, or
the library crashes, or would crash at a chunk that is shorter than its checksum, the file is
refused. What cannot be read for another reason is found again here, and said by who needs it.

This takes a fraction of a second, once for each file, or for all files of a folder together.
"""

__all__ = ["look_through", "open_hdf5"]

import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from pdno.files.limits import LIMIT, TIME_LIMIT, memory_limit, time_limit

try:
    import resource
except ImportError:  # no limits on this system
    resource = None  # type: ignore[assignment]

# its modules are found where ours are, and never in the folder of the data
START = f"import sys; sys.path[:] = sys.argv[1:]; from {__name__} import main; main()"
PROGRAM = 2**30  # bytes of addresses that the process has beside those of the file
DAMAGED = 3  # the code of a process that says why on its standard error
CHECKSUM = 4  # bytes at the end of a chunk
_State = tuple[int, int, int]
_seen: dict[str, tuple[_State, str]] = {}  # what was found out about a file, and of which state


def open_hdf5(path: str | Path) -> h5py.File:
    """Open a file of others to read; ValueError for one that another process could not stand."""
    look_through([path])
    if told := _verdict(os.path.abspath(path)):
        raise ValueError(told)
    return h5py.File(path, "r")


def look_through(paths: Sequence[str | Path]) -> None:
    """Let one process walk through all files that are going to be opened."""
    waiting = [path for path in map(os.path.abspath, paths) if _verdict(path) is None]
    while waiting:
        states = [_state(path) for path in waiting]
        command = [sys.executable, "-c", START, *map(str, sys.path)]
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        given = b"\0".join(map(os.fsencode, waiting))
        found = subprocess.run(command, input=given, capture_output=True, env=environment)
        done = len(found.stdout)
        for path, state in zip(waiting[:done], states, strict=False):
            _seen[path] = state, ""
        if done < len(waiting):
            _seen[waiting[done]] = states[done], _reason(found)
        waiting = waiting[done + 1 :]


def _state(path: str) -> _State:
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns


def _verdict(path: str) -> str | None:
    """Why a file is refused, nothing if it is not; None if it was not looked at as it is."""
    state, told = _seen.get(path, (None, None))
    return told if state == _state(path) else None


def _reason(found: "subprocess.CompletedProcess[bytes]") -> str:
    last = found.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    if found.returncode == DAMAGED:
        return last
    return (
        "what it says of its contents cannot be read with "
        f"{memory_limit():,} bytes and in {time_limit():g} s of computing (the process that tried "
        f"ended with {found.returncode}{last and f', {last}'}); raise the limits, for example "
        f"{LIMIT}=16GiB or {TIME_LIMIT}=60s, if it is not damaged"
    )


def main() -> None:
    """Walk through the files that standard input names; a byte for each that is done."""
    for path in sys.stdin.buffer.read().split(b"\0"):
        if resource is not None:
            _limit(resource.RLIMIT_CORE, 0)
            _limit(resource.RLIMIT_AS, memory_limit() + PROGRAM)
            _limit(resource.RLIMIT_CPU, math.ceil(time.process_time() + time_limit()))
        with _stumbling(), h5py.File(os.fsdecode(path), "r") as file:
            _visit(file, set())
            file.visititems(lambda *_: None)
        os.write(1, b".")


def _limit(kind: int, most: int) -> None:
    _, hard = resource.getrlimit(kind)
    with suppress(ValueError, OSError):  # not every system has every limit
        resource.setrlimit(kind, (most if hard < 0 else min(most, hard), hard))


@contextmanager
def _stumbling() -> Iterator[None]:
    """Damaged bytes make h5py stumble in many ways, which are no matter here."""
    try:
        yield
    except MemoryError:
        raise
    except Exception:
        pass


def _check_chunk(least: int, chunk: Any) -> None:
    if chunk.size < least:
        told = f"the chunk at {chunk.chunk_offset} has {chunk.size} bytes, less than its checksum"
        os.write(2, told.encode())
        os._exit(DAMAGED)


def _visit(item: Any, seen: set[int]) -> None:
    """An object, and what it holds; links that are not hard may lead to other files."""
    if hash(item.id) in seen:
        return
    seen.add(hash(item.id))
    with _stumbling():
        for name in item.attrs:
            with _stumbling():
                item.attrs[name]
    if isinstance(item, h5py.Group):
        for name in item:
            with _stumbling():
                if isinstance(item.get(name, getlink=True), h5py.HardLink):
                    _visit(item[name], seen)
        return
    if item.chunks:
        item.id.chunk_iter(partial(_check_chunk, CHECKSUM if item.fletcher32 else 0))
    if h5py.check_ref_dtype(item.dtype) is h5py.Reference:
        for reference in np.ravel(item[()]):
            with _stumbling():
                _visit(item.file[reference], seen)
