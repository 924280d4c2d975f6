"""A well-behaved memory allocator for the command line.

The C library of Linux maps large blocks anew at every allocation, and the page faults cost more
than the arithmetic. Told to keep what it has, it makes training 1.1 to 3 times faster (see `pdno
bench`). Commands do this by themselves, unless PDNO_ALLOCATOR=default; a library must not change
its user's process: call `tune_allocator()` at the start of a script to have it there too.
"""

__all__ = ["allocator_state", "tune_allocator"]

import ctypes
import os
from typing import Literal

# M_MMAP_MAX, M_TRIM_THRESHOLD and M_TOP_PAD of malloc.h: no maps, keep all, grow by 256 MB
SETTINGS = {-4: 0, -1: 2**31 - 1, -2: 256 * 2**20}
_taken: list[bool] = []  # what the C library answered so far


def tune_allocator() -> bool:
    """Let the C library keep released memory; whether it took the advice."""
    if os.environ.get("PDNO_ALLOCATOR", "tuned") == "default":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not glibc
        return False
    _taken.append(all([mallopt(parameter, value) == 1 for parameter, value in SETTINGS.items()]))
    return _taken[-1]


def allocator_state() -> Literal["tuned", "default"]:
    """What the memory allocator of this process is."""
    return "tuned" if any(_taken) else "default"
