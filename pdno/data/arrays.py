"""Arrays of a file: known by shape and type, read in blocks when they are asked for.

Whatever its format, a data file is a table of names and arrays. An array states its shape and
the type of its numbers, which its header tells, and can read any block of itself:

    array.read((slice(0, 100), slice(None)))    the first 100 rows of a matrix

The axes are those of the program that wrote the file, whatever their order on disk. What a
header declares is not to be believed: a damaged one may ask for more memory than there is. So
nothing is allocated before its declared size has been compared with that of the file, and no
block is read that does not fit into the memory of the machine.
"""

__all__ = [
    "AGAIN",
    "Array",
    "Cut",
    "Numbers",
    "PublishedFileError",
    "Shape",
    "check_memory",
    "check_size",
]

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Numbers: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Cut: TypeAlias = tuple[slice, ...]
Shape: TypeAlias = tuple[int, ...]

AGAIN = "the file is damaged or incomplete: download or copy it again"
# Deflate, the only compression of these formats, shrinks nothing by more than 1032 to 1.
_EXPANSION = 1100


class PublishedFileError(ValueError):
    """The file cannot be read as published data; the message says why and what to do."""


@dataclass(frozen=True)
class Array:
    """An array of a file in its published axis order; `read` is None if it holds no reals."""

    shape: Shape
    dtype: str
    read: Callable[[Cut], Numbers] | None = None


def check_memory(name: str, size: int) -> None:
    """Refuse to read `size` bytes if the machine has less memory."""
    if hasattr(os, "sysconf"):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if size > memory:
            raise PublishedFileError(
                f"array {name} needs {size:,} bytes, this machine has {memory:,}; "
                "read fewer samples with samples=slice(...)"
            )


def check_size(name: str, size: int, file_size: int) -> None:
    """Refuse an array of `size` bytes that a file of `file_size` bytes cannot hold."""
    if size > _EXPANSION * file_size:
        raise PublishedFileError(
            f"array {name} declares {size:,} bytes, more than {file_size:,} can hold; {AGAIN}"
        )
