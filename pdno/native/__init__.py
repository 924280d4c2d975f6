"""Compiled kernels, shipped in the wheel or compiled at first use, and the memory allocator.

    build      finds the library of this machine: shipped, cached, or compiled now
    compiler   the C compiler and one compilation; needs the standard library alone

Without the kernels, or with PDNO_NATIVE=0, the same numbers come from torch alone, more slowly.
"""

__all__ = ["allocator_state", "tune_allocator"]

import ctypes
import os
from typing import Literal

# M_MMAP_MAX, M_TRIM_THRESHOLD and M_TOP_PAD of malloc.h: no maps, keep all, grow by 256 MB
SETTINGS = {-4: 0, -1: 2**31 - 1, -2: 256 * 2**20}
_state: Literal["tuned", "default"] = "default"


def tune_allocator() -> bool:
    """Let the C library keep released memory; returns whether it does.

    Without the page faults of newly mapped blocks training is 1.1 to 3 times faster on Linux (see
    `pdno speed`). Commands call this unless PDNO_ALLOCATOR=default; scripts may at their start.
    """
    global _state
    if os.environ.get("PDNO_ALLOCATOR") == "default":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not glibc
        return False
    accepted = all([mallopt(parameter, value) == 1 for parameter, value in SETTINGS.items()])
    _state = "tuned" if accepted else _state
    return accepted


def allocator_state() -> Literal["tuned", "default"]:
    """The state of the memory allocator of this process."""
    return _state
