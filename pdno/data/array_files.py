"""Array files: a MAT, HDF5, torch or NumPy file as a table of names and arrays.

The format is recognised by the first bytes of a file, never by its name. Headers are read first;
an array reads any block of itself when asked, `array.read((slice(0, 100), slice(None)))`. Axes are
those of the program that wrote the file: MATLAB counts the first axis fastest and HDF5 the last
one, so *all* axes of MAT v7.3, which is HDF5 behind 512 bytes, are reversed. A cell array of
matrices of one shape is one array with the cells as its first axis. Torch archives are read
without unpickling; tensors of nested dicts are named by their path, as in `layers.0.weight`, and a
tensor in no dict is called `BARE`. MAT v5 is parsed here, because a damaged byte can crash SciPy's
reader and the process with it.

Headers are not trusted: nothing is allocated before its declared size has been compared with that
of the file, and no block is read that needs more memory than readers may use
(`pdno.files.limits`).
"""

__all__ = ["Array", "PublishedFileError", "hdf5_array", "open_arrays", "read_arrays"]

import io
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, BinaryIO, Literal, TypeAlias

import h5py
import numpy as np
from torch import Tensor

from pdno.data.foreign_hdf5 import open_hdf5
from pdno.data.manifest import MANIFEST
from pdno.files.limits import MemoryLimitError, check_memory, open_regular
from pdno.files.tensor_file import AGAIN, Contents, TensorFileError, read_tensor_file
from pdno.interface.errors import LONGEST_MESSAGE, printable

Numbers: TypeAlias = np.ndarray
Cut: TypeAlias = tuple[slice, ...]
Shape: TypeAlias = tuple[int, ...]

BARE = "(tensor)"
# Deflate, the only compression of these formats, shrinks nothing by more than 1032 to 1.
_EXPANSION = 1100
_NUMPY, _LONGEST_HEADER, _PIECE = b"\x93NUMPY", 10_000, 1 << 24


class PublishedFileError(ValueError):
    """The file cannot be read as published data; the message says why and what to do."""


@dataclass(frozen=True)
class Array:
    """An array of a file in its published axis order; `read` is None if it holds no reals."""

    shape: Shape
    dtype: str
    read: Callable[[Cut], Numbers] | None = None

    def whole(self) -> Cut:
        """The block of all numbers."""
        return (slice(None),) * len(self.shape)


def check_array(name: str, size: int) -> None:
    """Refuse to read `size` bytes if they are more than the limit of all readers."""
    check_memory(f"array {name}", size, "read fewer samples with samples=slice(...)")


def _bounded(name: str, array: Array) -> Array:
    """The same array, which is not read beyond the limit."""
    inner = array.read
    if inner is None:
        return array
    try:
        itemsize = np.dtype(array.dtype.split()[-1]).itemsize
    except TypeError:  # types unknown to NumPy are read as floats
        itemsize = 4

    def read(cut: Cut) -> Numbers:
        shape = (len(range(*part.indices(n))) for part, n in zip(cut, array.shape, strict=True))
        check_array(name, itemsize * math.prod(shape))
        return inner(cut)

    return replace(array, read=read)


def _check_size(name: str, size: int, most: int) -> None:
    """Refuse an array that declares more bytes than its file can hold."""
    if size > most:
        raise PublishedFileError(
            f"array {name} declares {size:,} bytes, more than its file can hold; {AGAIN}"
        )


@contextmanager
def open_arrays(path: str | Path) -> Iterator[tuple[str, dict[str, Array]]]:
    """The format and the arrays of a file; they can be read until the block ends."""
    with open_regular(path) as file, ExitStack() as stack:
        try:
            file_format, arrays = _arrays(Path(path), file, stack)
            # A name that could drive a terminal never gets into a message.
            safe = {printable(name): array for name, array in arrays.items()}
            yield file_format, {name: _bounded(name, array) for name, array in safe.items()}
        except TensorFileError:
            raise
        except (PublishedFileError, MemoryLimitError) as problem:
            raise PublishedFileError(f"cannot read {path}: {printable(str(problem))}") from problem
        # Damaged bytes make h5py and zlib fail in many ways; all mean the same.
        except Exception as problem:
            reason = printable(str(problem)[:LONGEST_MESSAGE])
            raise PublishedFileError(f"cannot read {path}: {reason}; {AGAIN}") from problem


def _arrays(path: Path, file: BinaryIO, stack: ExitStack) -> tuple[str, dict[str, Array]]:
    size = os.fstat(file.fileno()).st_size
    head = file.read(520)
    if head[:6] == _NUMPY:
        return "NumPy", {path.stem: _numpy_array(path.stem, partial(_rewound, file), size)}
    if head[:2] == b"PK" and zipfile.is_zipfile(file):
        archive = zipfile.ZipFile(file)
        if members := [info for info in archive.infolist() if info.filename.endswith(".npy")]:
            return "NumPy", dict(_zipped_array(archive, info) for info in members)
    if head[:2] == b"PK" or head[:1] == b"\x80":
        return "torch archive", dict(_torch_arrays(read_tensor_file(path), ""))
    if b"\x89HDF\r\n\x1a\n" in (head[:8], head[512:]):
        matlab = head.startswith(b"MATLAB 7.3")
        source = stack.enter_context(open_hdf5(path))
        return "MAT v7.3" if matlab else "HDF5", _hdf5_arrays(source, size, matlab=matlab)
    if head[124:128] in (b"\x00\x01IM", b"\x01\x00MI"):
        return "MAT v5", dict(_mat5_arrays(file, size))
    if 0 in head[:4]:
        raise PublishedFileError(
            "it may be a MAT v4 file, a format of no published file; save it with -v7 in MATLAB"
        )
    raise PublishedFileError(
        f"it starts with {head[:12]!r} and is no MAT v5, MAT v7.3, HDF5 or torch file; "
        "download it again: a server may have sent a web page instead"
    )


def _rewound(file: BinaryIO) -> IO[bytes]:
    file.seek(0)
    return file


def _zipped_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> tuple[str, Array]:
    """An array of an .npz file."""
    name, packed = info.filename.removesuffix(".npy"), info.compress_type == zipfile.ZIP_DEFLATED
    if info.flag_bits & 1:
        raise PublishedFileError(f"array {name} is encrypted; save it without a password")
    if not packed and info.compress_type != zipfile.ZIP_STORED:
        raise PublishedFileError(f"array {name} is packed as numpy.savez packs none; {AGAIN}")
    most = info.compress_size * (_EXPANSION if packed else 1)
    return name, _numpy_array(name, partial(archive.open, info), most)


def _numpy_array(name: str, start: Callable[[], IO[bytes]], most: int) -> Array:
    """The array of a stream of at most `most` bytes, which `start` opens at its beginning."""
    stream = start()
    head = stream.read(8)
    wide = head[6:7] != b"\x01"
    head += stream.read(4 if wide else 2)
    (length,) = struct.unpack("<I" if wide else "<H", head[8:])
    if head[:6] != _NUMPY or length > _LONGEST_HEADER:
        raise PublishedFileError(f"array {name} has no header of NumPy; {AGAIN}")
    text = io.BytesIO(head + stream.read(length))
    text.seek(8)
    parse = np.lib.format.read_array_header_2_0 if wide else np.lib.format.read_array_header_1_0
    shape, fortran, dtype = parse(text)
    if dtype.hasobject:
        raise PublishedFileError(
            f"array {name} holds Python objects; refused because reading them could run code: "
            "save arrays of numbers"
        )
    size = math.prod(shape) * dtype.itemsize
    _check_size(name, size if min(shape, default=0) >= 0 else most + 1, most)
    skip = len(head) + length
    order: Literal["F", "C"] = "F" if fortran else "C"

    def read(cut: Cut) -> Numbers:
        wanted = shape
        if shape and not fortran:  # the rows up to the last requested one lie first
            rows = range(*cut[0].indices(shape[0]))
            wanted = (1 + max(rows[0], rows[-1]) if rows else 0, *shape[1:])
        count = math.prod(wanted) * dtype.itemsize
        check_array(name, count)
        numbers, stream = bytearray(), start()
        stream.read(skip)
        while len(numbers) < count and (piece := stream.read(min(_PIECE, count - len(numbers)))):
            numbers += piece
        if len(numbers) < count:
            raise PublishedFileError(f"array {name} is cut off; {AGAIN}")
        if wanted == shape:
            stream.read(1)  # the end, where zipfile compares the checksum
        return np.frombuffer(numbers, dtype).reshape(wanted, order=order)[cut]

    return Array(tuple(shape), str(dtype), read if dtype.kind in "fiub" else None)


def _torch_arrays(contents: Contents, name: str) -> Iterator[tuple[str, Array]]:
    if isinstance(contents, dict):
        for key, value in contents.items():
            yield from _torch_arrays(value, f"{name}.{key}" if name else str(key))
    elif isinstance(contents, Tensor):
        read = None if contents.is_complex() else lambda cut: contents[cut].float().numpy()
        dtype = str(contents.dtype).removeprefix("torch.")
        yield name or BARE, Array(tuple(contents.shape), dtype, read)
    else:
        shape = (len(contents),) if isinstance(contents, (list, tuple)) else ()
        yield name or BARE, Array(shape, type(contents).__name__)


def _hdf5_arrays(source: h5py.File, size: int, *, matlab: bool) -> dict[str, Array]:
    """The arrays of an open file of `size` bytes."""
    arrays = {}

    def add(name: str, item: h5py.Group | h5py.Dataset) -> None:
        if isinstance(item, h5py.Dataset) and not name.startswith("#"):
            cells = matlab and h5py.check_ref_dtype(item.dtype) is h5py.Reference
            array = _cell_array if cells else partial(hdf5_array, matlab=matlab)
            arrays[name] = array(name, item, size)

    source.visititems(add)  # which follows hard links only, so no other file is ever opened
    return arrays


def hdf5_array(name: str, dataset: h5py.Dataset, size: int, *, matlab: bool) -> Array:
    """A dataset of an open file of `size` bytes."""
    shape, itemsize = tuple(dataset.shape or ()), dataset.dtype.itemsize
    chunk = math.prod(dataset.chunks or ())  # which is read whole, whatever part is asked for
    _check_size(name, max(math.prod(shape), chunk) * itemsize, _EXPANSION * size)
    check_array(f"{name}, one chunk of it,", chunk * itemsize)
    if dataset.is_virtual or dataset.external:
        raise PublishedFileError(f"array {name} is stored in another file; give a whole file")
    # MATLAB has no numbers without axes; a plain dataset may be empty
    real = dataset.dtype.kind in "fiub" and (shape or (not matlab and dataset.shape == ()))
    if not matlab:
        return Array(shape, str(dataset.dtype), dataset.__getitem__ if real else None)
    read = (lambda cut: dataset[cut[::-1]].transpose()) if real else None
    return Array(shape[::-1], str(dataset.dtype), read)


def _cell_array(name: str, dataset: h5py.Dataset, size: int) -> Array:
    """A cell array of matrices of one shape, as one array with the cells along its first axis."""
    shape = tuple(dataset.shape or (0,))[::-1]
    _check_size(name, math.prod(shape) * dataset.dtype.itemsize, _EXPANSION * size)
    cells = [dataset.file[reference] for reference in np.ravel(dataset[()]) if reference]
    if not all(isinstance(cell, h5py.Dataset) for cell in cells):
        return Array(shape, "cell")
    parts = [hdf5_array(name, cell, size, matlab=True) for cell in cells]
    alike = len({(part.shape, part.dtype) for part in parts}) == 1 and parts[0].read is not None
    if not alike or len(parts) != math.prod(shape):
        return Array(shape, "cell")
    whole = (len(parts), *parts[0].shape)
    _check_size(name, math.prod(whole) * cells[0].dtype.itemsize, _EXPANSION * size)

    def read(cut: Cut) -> Numbers:
        return np.stack([part.read(cut[1:]) for part in parts[cut[0]] if part.read])

    return Array(whole, f"cell of {parts[0].dtype}", read)


# A MAT v5 file is a header of 128 bytes, then one element per variable: a tag (type, bytes) and
# its data, which are four elements, flags with the class, axes, name and numbers, or those
# compressed. Numbers may be stored in a smaller type than their class.
_MATRIX, _COMPRESSED = 14, 15
_FIRST_BYTES = 1024
# NumPy's letter for each type of numbers, and the name of each class, by their codes.
_NUMBER_TYPES = " bBhHiIf d  qQ"
_INTEGERS = [f"{sign}int{8 << k}" for k in range(4) for sign in ("", "u")]
_OTHERS = ["cell", "struct", "object", "char", "sparse", "double", "single"]
_CLASSES = dict(enumerate(_OTHERS + _INTEGERS, start=1))
_NUMBER_CLASSES, _NAMELESS_CLASSES = range(6, 16), (16, 17)
_COMPLEX = 1 << 11


def _mat5_arrays(file: BinaryIO, size: int) -> Iterator[tuple[str, Array]]:
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


@dataclass(frozen=True)
class _Variable:
    """A variable from byte `start` to byte `end` of a MAT v5 file."""

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
        name, label = head[at : at + count].decode("ascii"), _CLASSES[code]
        if code not in _NUMBER_CLASSES or not math.prod(shape):
            return name, Array(shape, label)
        if flags & _COMPLEX:
            return name, Array(shape, f"complex {label}")
        kind, count, at, _ = self.element(head, after)
        dtype = np.dtype(self.order + _NUMBER_TYPES[kind])
        inside = self.packed or self.start + at + count <= self.end
        if min(shape) < 0 or math.prod(shape) * dtype.itemsize != count or not inside:
            raise PublishedFileError(f"array {name} {shape} does not fit {count} bytes; {AGAIN}")
        _check_size(name, count, _EXPANSION * size)
        return name, Array(shape, label, partial(self.read, name, at, dtype, shape))

    def element(self, head: bytes, start: int) -> tuple[int, int, int, int]:
        """Type, bytes of data, first byte of data and end of the element at `start`."""
        kind, count = struct.unpack_from(f"{self.order}II", head, start)
        if kind >> 16:  # up to four bytes of data are part of the tag
            return kind & 0xFFFF, kind >> 16, start + 4, start + 8
        return kind, count, start + 8, start + 8 + -(-count // 8) * 8

    def read(self, name: str, at: int, dtype: np.dtype, shape: Shape, cut: Cut) -> Numbers:
        """A block of the numbers that begin at byte `at` of the variable."""
        if not self.packed:
            offset = self.start + at
            return np.memmap(self.file, dtype, "r", offset=offset, shape=shape, order="F")[cut]
        count = math.prod(shape) * dtype.itemsize
        check_array(name, count)
        # the whole variable, of so many bytes and at most 7 of padding
        stream, data, wanted = zlib.decompressobj(), bytearray(), at + count
        self.file.seek(self.start + 8)
        while not stream.eof and len(data) < wanted + 8 and self.file.tell() < self.end:
            packed = self.file.read(min(1 << 20, self.end - self.file.tell()))
            data += stream.decompress(packed, wanted + 8 - len(data))
        if not stream.eof or len(data) < wanted:
            raise PublishedFileError(f"a compressed variable is cut off; {AGAIN}")
        return np.frombuffer(data, dtype, math.prod(shape), at).reshape(shape, order="F")[cut]


def read_arrays(path: Path | str, names: Sequence[str] | None = None) -> dict[str, Numbers]:
    """Arrays of a file by name; None reads all that hold real numbers.

    A folder has the arrays of its .npy files, which are called after them.
    """
    if Path(path).is_dir():
        files = {file.stem: file for file in sorted(Path(path).glob("*.npy"))}
        if not files:
            raise ValueError(f"{path} has no .npy files, no {MANIFEST} and no HDF5 files")
        _check_names(path, names or (), files)
        wanted = [file for name, file in files.items() if names is None or name in names]
        return {name: array for file in wanted for name, array in read_arrays(file).items()}
    values, total = dict[str, Numbers](), 0
    with open_arrays(path) as (_, arrays):
        for name, array in arrays.items():
            if array.read is not None and (names is None or name in names):
                values[name] = array.read(array.whole())
                total += values[name].nbytes
                check_array(f"{name}, with those before it,", total)
    _check_names(path, names or (), arrays)
    for name in names or ():
        if name not in values:
            raise ValueError(f"array {name!r} of {path} holds no real numbers")
    return values


def _check_names(path: Path | str, names: Sequence[str], existing: Mapping[str, object]) -> None:
    for name in names:
        if name not in existing:
            raise ValueError(f"{path} has no array {name!r}: it has {', '.join(existing)}")
