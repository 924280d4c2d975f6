"""Inner loops in C, compiled on the user's machine at first use.

A C compiler (cc, gcc or clang) turns `pairs.c` or `lanes.c` into a library in a few seconds; it is
kept in the user's cache folder. Without a compiler, or with PDNO_NATIVE=0, the same numbers come
from torch alone, more slowly. Nothing else of the package depends on this.
"""
