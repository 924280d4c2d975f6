"""MAT v5 files: what MATLAB and SciPy write unless told otherwise.

A file is a header of 128 bytes, then one element per variable. An element is a tag (type, bytes)
and its data. A variable is an element of four:

    flags with the class, axes, name, numbers

or a compressed element that holds one. Numbers may be stored in a smaller type than their class,
in the byte order that the header states, with the first axis fastest.

The format is parsed here, because one damaged byte can crash SciPy's reader and the process with
it. Listing the variables reads the first bytes of each; numbers that are not compressed are then
mapped, not read.
"""

__all__ = ["mat5_arrays"]

import math
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from pdno.data.arrays import (
    AGAIN,
    Array,
    Cut,
    Numbers,
    PublishedFileError,
    Shape,
    check_memory,
    check_size,
)

_MATRIX, _COMPRESSED = 14, 15
_FIRST_BYTES = 1024
# NumPy's letter for each type of numbers, at the place of its code.
_NUMBER_TYPES = " bBhHiIf d  qQ"
_CLASSES = {1: "cell", 2: "struct", 3: "object", 4: "char", 5: "sparse", 6: "double", 7: "single"}
_NUMBER_CLASSES, _INTEGER_CLASSES = range(6, 16), range(8, 16)
_NAMELESS_CLASSES = (16, 17)
_COMPLEX = 1 << 11


def mat5_arrays(file: BinaryIO, size: int) -> Iterator[tuple[str, Array]]:
    """The named arrays of a file of `size` bytes, readable as long as it is open."""
    file.seek(126)
    order = "<" if file.read(2) == b"IM" else ">"
    position = 128
    while position < size:
        file.seek(position)
        head = file.read(_FIRST_BYTES)
        kind, count = struct.unpack_from(f"{order}II", head)
        end = position + 8 + count
        if kind not in (_MATRIX, _COMPRESSED) or end > size:
            raise PublishedFileError(f"the variable at byte {position:,} is cut off; {AGAIN}")
        variable = _Variable(file, order, position, end, packed=kind == _COMPRESSED)
        if variable.packed:
            head = zlib.decompressobj().decompress(head[8 : 8 + count], _FIRST_BYTES)
        name, array = variable.parse(head, size)
        if name:
            yield name, array
        position = end


def _class_name(code: int) -> str:
    if code in _INTEGER_CLASSES:
        return ("uint" if code % 2 else "int") + str(8 << (code - 8) // 2)
    return _CLASSES[code]


@dataclass(frozen=True)
class _Variable:
    """Where a variable lies in a MAT v5 file."""

    file: BinaryIO
    order: str
    start: int
    end: int
    packed: bool

    def parse(self, head: bytes, size: int) -> tuple[str, Array]:
        """The name and the array of a variable that begins with the bytes `head`."""
        if self.element(head, 0)[0] != _MATRIX:
            raise PublishedFileError(f"a compressed variable holds no array; {AGAIN}")
        _, _, at, after = self.element(head, 8)
        (flags,) = struct.unpack_from(f"{self.order}I", head, at)
        code = flags & 0xFF
        if code in _NAMELESS_CLASSES:
            return "", Array((), "function")
        _, count, at, after = self.element(head, after)
        shape: Shape = struct.unpack_from(f"{self.order}{min(count // 4, 64)}i", head, at)
        _, count, at, after = self.element(head, after)
        name = head[at : at + count].decode("ascii")
        label = _class_name(code)
        if code not in _NUMBER_CLASSES or not math.prod(shape):
            return name, Array(shape, label)
        if flags & _COMPLEX:
            return name, Array(shape, f"complex {label}")
        kind, count, at, _ = self.element(head, after)
        dtype = np.dtype(self.order + _NUMBER_TYPES[kind])
        inside = self.packed or self.start + at + count <= self.end
        if min(shape) < 0 or math.prod(shape) * dtype.itemsize != count or not inside:
            raise PublishedFileError(f"array {name} {shape} does not fit {count} bytes; {AGAIN}")
        check_size(name, count, size)
        return name, Array(shape, label, partial(self.read, name, at, dtype, shape))

    def element(self, head: bytes, start: int) -> tuple[int, int, int, int]:
        """Type, bytes of data, first byte of data and end of the element at `start`."""
        kind, count = struct.unpack_from(f"{self.order}II", head, start)
        if kind >> 16:  # up to four bytes of data are part of the tag
            return kind & 0xFFFF, kind >> 16, start + 4, start + 8
        return kind, count, start + 8, start + 8 + -(-count // 8) * 8

    def read(self, name: str, at: int, dtype: np.dtype[Any], shape: Shape, cut: Cut) -> Numbers:
        """A block of the numbers that begin at byte `at` of the variable."""
        if not self.packed:
            offset = self.start + at
            return np.memmap(self.file, dtype, "r", offset=offset, shape=shape, order="F")[cut]
        count = math.prod(shape) * dtype.itemsize
        check_memory(name, count)
        data = self.inflate(at + count)
        numbers = np.frombuffer(data, dtype, math.prod(shape), at)
        return numbers.reshape(shape, order="F")[cut]

    def inflate(self, wanted: int) -> bytearray:
        """The whole compressed variable, of `wanted` bytes and at most 7 of padding."""
        stream, data = zlib.decompressobj(), bytearray()
        self.file.seek(self.start + 8)
        while not stream.eof and len(data) < wanted + 8 and self.file.tell() < self.end:
            packed = self.file.read(min(1 << 20, self.end - self.file.tell()))
            data += stream.decompress(packed, wanted + 8 - len(data))
        if not stream.eof or len(data) < wanted:
            raise PublishedFileError(f"a compressed variable is cut off; {AGAIN}")
        return data
