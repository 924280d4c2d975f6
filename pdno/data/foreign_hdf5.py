"""Third-party HDF5 files, opened after a separate process has checked their metadata.

Damage can crash the HDF5 library, or keep it busy for ever. So another process visits each group,
dataset, attribute, reference and list of chunks first, within the limits of `pdno.files.limits`. A
file at which it ends is refused; other errors occur again on reading.
"""

import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import h5py
import numpy as np

from pdno.files.limits import LIMIT, TIME_LIMIT, memory_limit, time_limit

# the process imports our modules, and never those in the folder of the data
START = f"import sys; sys.path[:] = sys.argv[1:]; from {__name__} import main; main()"
PROGRAM = 2**30  # bytes of addresses that the process has beside those of the file
DAMAGED = 3  # the exit code of a process that names the damage on its standard error
CHECKSUM = 4  # bytes at the end of a chunk
tolerant = suppress(  # of damaged bytes; MemoryError is none of these
    ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError
)
_Key = tuple[str, int, int, int]
_checked: dict[_Key, str] = {}  # why a file in some state is refused; empty if it is not


def open_hdf5(path: str | Path) -> h5py.File:
    """Open a third-party file to read; ValueError where another process failed at it."""
    look_through([path])
    if problem := _checked.get(_key(path)):
        raise ValueError(problem)
    return h5py.File(path, "r")


def look_through(paths: Sequence[str | Path]) -> None:
    """Let one process walk through all files that are going to be opened."""
    waiting = [key for key in map(_key, paths) if key not in _checked]
    while waiting:
        command = [sys.executable, "-c", START, *map(str, sys.path)]
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        names = b"\0".join(os.fsencode(path) for path, *_ in waiting)
        ended = subprocess.run(command, input=names, capture_output=True, env=environment)
        done = len(ended.stdout)  # a byte for each file
        reasons = ["" for _ in waiting[:done]] + [_reason(ended)]
        _checked.update(zip(waiting, reasons, strict=False))
        waiting = waiting[done + 1 :]


def _key(path: str | Path) -> _Key:
    status = os.stat(path)
    return os.path.abspath(path), status.st_ino, status.st_size, status.st_mtime_ns


def _reason(ended: "subprocess.CompletedProcess[bytes]") -> str:
    last = ended.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    if ended.returncode == DAMAGED:
        return last
    return (
        f"its metadata cannot be read with {memory_limit():,} bytes and in {time_limit():g} s of "
        f"computing (the process that tried ended with {ended.returncode}{last and f', {last}'}); "
        f"raise the limits, for example {LIMIT}=16GiB or {TIME_LIMIT}=60s, if it is not damaged"
    )


def main() -> None:
    """Walk through the files that standard input names; a byte for each that is done."""
    for path in sys.stdin.buffer.read().split(b"\0"):
        _limit_process()
        with tolerant, h5py.File(os.fsdecode(path), "r") as file:
            _visit(file, set())
            file.visititems(lambda *_: None)
        os.write(1, b".")


def _limit_process() -> None:
    seconds = math.ceil(time.process_time() + time_limit())
    limits = {"CORE": 0, "AS": memory_limit() + PROGRAM, "CPU": seconds}
    for name, most in limits.items():
        with suppress(ImportError, ValueError, OSError):  # not every system has every limit
            import resource

            kind = getattr(resource, f"RLIMIT_{name}")
            _, hard = resource.getrlimit(kind)
            resource.setrlimit(kind, (most if hard < 0 else min(most, hard), hard))


def _visit(item: h5py.Group | h5py.Dataset, visited: set[int]) -> None:
    """Visit an object and its contents; links that are not hard may lead to other files."""
    if hash(item.id) in visited:
        return
    visited.add(hash(item.id))
    with tolerant:
        for name in item.attrs:
            with tolerant:
                item.attrs[name]
    if isinstance(item, h5py.Group):
        for name in item:
            with tolerant:
                if isinstance(item.get(name, getlink=True), h5py.HardLink):
                    _visit(item[name], visited)
        return
    if item.chunks:
        item.id.chunk_iter(partial(_check_chunk, least=CHECKSUM if item.fletcher32 else 0))
    if h5py.check_ref_dtype(item.dtype) is h5py.Reference:
        for reference in np.ravel(item[()]):
            with tolerant:
                _visit(item.file[reference], visited)


def _check_chunk(chunk: h5py.h5d.StoreInfo, least: int) -> None:
    if chunk.size < least:
        problem = f"the chunk at {chunk.chunk_offset} has {chunk.size} bytes"
        os.write(2, f"{problem}, less than its checksum".encode())
        os._exit(DAMAGED)
