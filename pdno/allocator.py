"""A well-behaved memory allocator for the command line.

The C library of Linux maps large blocks anew at every allocation and gives them back at every
release. For tensors of a few megabytes the page faults then cost more than the arithmetic. Told to
keep what it has, it makes training 1.1 to 3 times faster (`pdno bench` measures it).

`pdno` commands do this by themselves. PDNO_ALLOCATOR=default switches it off; other C libraries
than glibc are left alone. A library must not change its user's process, so `import pdno` does not
do it: call `tune_allocator()` at the start of a script to have it there too.
"""

__all__ = ["allocator_state", "tune_allocator"]

import ctypes
import os
from typing import Literal

# parameters of mallopt, from malloc.h
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
KEEP = 2**31 - 1
TOP_PAD = 256 * 2**20

_taken: list[bool] = []
"""What the C library answered so far."""


def tune_allocator() -> bool:
    """Let the C library keep released memory; whether it took the advice."""
    if os.environ.get("PDNO_ALLOCATOR", "tuned") == "default":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not glibc
        return False
    settings = ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, KEEP), (M_TOP_PAD, TOP_PAD))
    _taken.append(all([mallopt(parameter, value) == 1 for parameter, value in settings]))
    return _taken[-1]


def allocator_state() -> Literal["tuned", "default"]:
    """What the memory allocator of this process is."""
    return "tuned" if any(_taken) else "default"
