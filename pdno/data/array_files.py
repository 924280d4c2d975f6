"""Array files: a MAT, HDF5, torch or NumPy file, or a folder of .npy files, as a table of arrays.

Axes are those of the program that wrote the file: all axes of MAT v7.3, which is HDF5 behind 512
bytes, are reversed. MAT v5 is parsed here, as a damaged byte can crash SciPy's reader and the
process with it. Headers are not trusted: nothing is allocated before its declared size has been
compared with that of the file and with the memory that readers may use (`pdno.files.limits`).
"""

import io
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, BinaryIO, Literal, TypeAlias

import h5py
import numpy as np
from torch import Tensor

from pdno.data.foreign_hdf5 import open_hdf5
from pdno.files.limits import MemoryLimitError, check_memory, open_regular
from pdno.files.tensor_file import AGAIN, Contents, TensorFileError, read_tensor_file
from pdno.interface.errors import LONGEST_MESSAGE, printable

Cut: TypeAlias = tuple[slice, ...]
Shape: TypeAlias = tuple[int, ...]

BARE = "(tensor)"  # the name of a tensor that is in no dict
# Deflate, the only compression of these formats, shrinks nothing by more than 1032 to 1.
_EXPANSION = 1100
_LONGEST_HEADER = 10_000


class PublishedFileError(ValueError):
    """The file cannot be read as published data; the message says why and what to do."""


@dataclass(frozen=True)
class Array:
    """An array of a file in its published axis order; `block` is None if it holds no reals."""

    name: str
    shape: Shape
    dtype: str
    block: Callable[[Cut], np.ndarray] | None = None

    def read(self, cut: Cut = ()) -> np.ndarray:
        """A block of the numbers, by default all of them, within the limit of memory."""
        assert self.block is not None
        cut += (slice(None),) * (len(self.shape) - len(cut))
        try:
            itemsize = np.dtype(self.dtype.split()[-1]).itemsize
        except TypeError:  # types unknown to NumPy are read as floats
            itemsize = 4
        shape = (len(range(*part.indices(n))) for part, n in zip(cut, self.shape, strict=True))
        check_array(self.name, itemsize * math.prod(shape))
        return self.block(cut)


def check_array(name: str, size: int) -> None:
    """Refuse to read `size` bytes if they are more than the limit of all readers."""
    check_memory(f"array {name}", size, "read fewer samples with samples=slice(...)")


def _check_size(name: str, size: int, most: int) -> None:
    if size > most:
        raise PublishedFileError(f"array {name} declares {size:,} bytes, too many; {AGAIN}")


@contextmanager
def open_arrays(path: str | Path) -> Iterator[tuple[str, dict[str, Array]]]:
    """The format and the arrays of a file or folder; they can be read until the block ends.

    The arrays of a folder are its .npy files, and are called after them.
    """
    with ExitStack() as stack:
        file = None if Path(path).is_dir() else stack.enter_context(open_regular(path))
        stack.enter_context(explained_reading(path))
        file_format, arrays = _arrays(Path(path), file, stack)
        # A name that could drive a terminal never gets into a message.
        yield file_format, {printable(array.name): array for array in arrays}


@contextmanager
def explained_reading(path: str | Path) -> Iterator[None]:
    """One kind of error for the many ways in which h5py and zlib fail at damaged bytes."""
    try:
        yield
    except TensorFileError:
        raise
    except Exception as problem:
        reason = str(problem).strip("'\"")
        if not isinstance(problem, (PublishedFileError, MemoryLimitError)):
            reason = f"{reason[:LONGEST_MESSAGE]}; {AGAIN}"
        raise PublishedFileError(f"cannot read {path}: {printable(reason)}") from problem


def _arrays(path: Path, file: BinaryIO | None, stack: ExitStack) -> tuple[str, Iterable[Array]]:
    if file is None:
        if files := sorted(path.glob("*.npy")):
            return f"{len(files)} .npy files", map(_numpy_file, files)
        raise PublishedFileError("it has no .npy files, no manifest.json and no HDF5 files")
    size = os.fstat(file.fileno()).st_size
    head = file.read(520)
    if head[:6] == b"\x93NUMPY":
        return "NumPy", [_numpy_file(path)]
    if head[:2] == b"PK" and zipfile.is_zipfile(file):
        archive = zipfile.ZipFile(file)
        if members := [info for info in archive.infolist() if info.filename.endswith(".npy")]:
            return "NumPy", (_zipped_array(archive, info) for info in members)
    if head[:2] == b"PK" or head[:1] == b"\x80":
        return "torch archive", _torch_arrays(read_tensor_file(path), "")
    if b"\x89HDF\r\n\x1a\n" in (head[:8], head[512:]):
        matlab = head.startswith(b"MATLAB 7.3")
        source = stack.enter_context(open_hdf5(path))
        return "MAT v7.3" if matlab else "HDF5", _hdf5_arrays(source, size, matlab=matlab)
    if head[124:128] in (b"\x00\x01IM", b"\x01\x00MI"):
        return "MAT v5", _mat5_arrays(file, size)
    if 0 in head[:4]:
        raise PublishedFileError("it may be a MAT v4 file: save it with -v7 in MATLAB")
    expected = "expected a NumPy, MAT, HDF5 or torch file"
    if b"<html" in head.lower() or b"<!doctype" in head.lower():
        expected += ", not a web page: download it again"
    elif b"vtk" in head.lower() or b"$MeshFormat" in head:
        expected += "; pdno.read_meshes reads meshes"
    raise PublishedFileError(f"it starts with {head[:12]!r}; {expected}")


def _numpy_file(path: Path) -> Array:
    return _numpy_array(path.stem, partial(open_regular, path), path.stat().st_size)


def _zipped_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    name, packed = info.filename.removesuffix(".npy"), info.compress_type == zipfile.ZIP_DEFLATED
    if info.flag_bits & 1:
        raise PublishedFileError(f"array {name} is encrypted; save it without a password")
    if not packed and info.compress_type != zipfile.ZIP_STORED:
        raise PublishedFileError(f"array {name} is packed as numpy.savez packs none; {AGAIN}")
    most = info.compress_size * (_EXPANSION if packed else 1)
    return _numpy_array(name, partial(archive.open, info), most)


def _numpy_array(name: str, opened: Callable[[], IO[bytes]], most: int) -> Array:
    with opened() as stream:
        head = io.BytesIO(stream.read(_LONGEST_HEADER))
    first = np.lib.format.read_magic(head) == (1, 0)
    parse = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = parse(head)
    if dtype.hasobject:  # which are never read, as that could run code
        return Array(name, tuple(shape), "object")
    size = math.prod(shape) * dtype.itemsize
    _check_size(name, size if min(shape, default=0) >= 0 else most + 1, most)

    def block(cut: Cut) -> np.ndarray:
        wanted = shape
        if shape and not fortran:  # the rows up to the last requested one lie first
            rows = range(*cut[0].indices(shape[0]))
            wanted = (1 + max(rows[0], rows[-1]) if rows else 0, *shape[1:])
        count = math.prod(wanted) * dtype.itemsize
        check_array(name, count)
        with opened() as stream:
            stream.read(head.tell())
            if len(numbers := stream.read(count)) < count:
                raise PublishedFileError(f"array {name} is cut off; {AGAIN}")
            if wanted == shape:
                stream.read(1)  # the end, where zipfile compares the checksum
        order: Literal["F", "C"] = "F" if fortran else "C"
        return np.frombuffer(numbers, dtype).reshape(wanted, order=order)[cut]

    return Array(name, tuple(shape), str(dtype), block if dtype.kind in "fiub" else None)


def _torch_arrays(contents: Contents, name: str) -> Iterator[Array]:
    if isinstance(contents, dict):
        for key, value in contents.items():
            yield from _torch_arrays(value, f"{name}.{key}" if name else str(key))
    elif isinstance(contents, Tensor):
        block = None if contents.is_complex() else lambda cut: contents[cut].float().numpy()
        dtype = str(contents.dtype).removeprefix("torch.")
        yield Array(name or BARE, tuple(contents.shape), dtype, block)
    else:
        shape = (len(contents),) if isinstance(contents, (list, tuple)) else ()
        yield Array(name or BARE, shape, type(contents).__name__)


def _hdf5_arrays(source: h5py.File, size: int, *, matlab: bool) -> list[Array]:
    arrays = []

    def add(name: str, item: h5py.Group | h5py.Dataset) -> None:
        if isinstance(item, h5py.Dataset) and not name.startswith("#"):
            cells = matlab and h5py.check_ref_dtype(item.dtype) is h5py.Reference
            array = _cell_array if cells else partial(hdf5_array, matlab=matlab)
            arrays.append(array(name, item, size))

    source.visititems(add)  # which follows hard links only, so no other file is ever opened
    return arrays


def hdf5_array(name: str, dataset: h5py.Dataset, size: int, *, matlab: bool = False) -> Array:
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
        return Array(name, shape, str(dataset.dtype), dataset.__getitem__ if real else None)
    block = (lambda cut: dataset[cut[::-1]].transpose()) if real else None
    return Array(name, shape[::-1], str(dataset.dtype), block)


def _cell_array(name: str, dataset: h5py.Dataset, size: int) -> Array:
    """A cell array of matrices of one shape, as one array with the cells along its first axis."""
    shape = tuple(dataset.shape or (0,))[::-1]
    _check_size(name, math.prod(shape) * dataset.dtype.itemsize, _EXPANSION * size)
    cells = [dataset.file[reference] for reference in np.ravel(dataset[()]) if reference]
    matrices = [cell for cell in cells if isinstance(cell, h5py.Dataset)]
    parts = [hdf5_array(name, matrix, size, matlab=True) for matrix in matrices]
    kinds = {(part.shape, part.dtype, part.block is None) for part in parts}
    if len(parts) != math.prod(shape) or len(kinds) != 1 or parts[0].block is None:
        return Array(name, shape, "cell")
    whole = (len(parts), *parts[0].shape)
    kind = f"cell of {parts[0].dtype}"
    return Array(name, whole, kind, lambda cut: np.stack([p.read(cut[1:]) for p in parts[cut[0]]]))


# A MAT v5 file is a header of 128 bytes, then one element per variable: a tag (type, bytes) and
# its data, which are four elements, flags with the class, axes, name and numbers, or those
# compressed. Numbers may be stored in a smaller type than their class.
_MATRIX, _COMPRESSED, _COMPLEX, _FIRST_BYTES = 14, 15, 1 << 11, 1024
_NUMBER_TYPES = " bBhHiIf d  qQ"  # NumPy's letter for each type, by its code
_OTHERS = ["", "cell", "struct", "object", "char", "sparse"]
_INTEGERS = [f"{sign}int{8 << k}" for k in range(4) for sign in ("", "u")]
_CLASSES = [*_OTHERS, "double", "single", *_INTEGERS, "function", "opaque"]


def _mat5_arrays(file: BinaryIO, size: int) -> Iterator[Array]:
    file.seek(126)
    order = "<" if file.read(2) == b"IM" else ">"
    end = 128
    while end < size:
        file.seek(start := end)
        head = file.read(_FIRST_BYTES)
        kind, count = struct.unpack_from(f"{order}II", head)
        end = start + 8 + count
        if kind not in (_MATRIX, _COMPRESSED) or end > size:
            raise PublishedFileError(f"the variable at byte {start:,} is cut off; {AGAIN}")
        packed = kind == _COMPRESSED
        if packed:
            head = zlib.decompressobj().decompress(head[8 : 8 + count], _FIRST_BYTES)
        if struct.unpack_from(f"{order}I", head)[0] != _MATRIX:
            raise PublishedFileError(f"a compressed variable holds no array; {AGAIN}")
        if (array := _mat5_array(file, order, head, (start, end), packed=packed)).name:
            yield array


def _mat5_array(
    file: BinaryIO, order: str, head: bytes, span: tuple[int, int], *, packed: bool
) -> Array:
    """The variable between two bytes of a file; its first bytes, unpacked, are `head`."""
    _, _, at, after = _mat5_element(order, head, 8)
    (flags,) = struct.unpack_from(f"{order}I", head, at)
    label = _CLASSES[flags & 0xFF]
    if label in ("function", "opaque"):
        return Array("", (), label)
    _, count, at, after = _mat5_element(order, head, after)
    shape: Shape = struct.unpack_from(f"{order}{min(count // 4, 64)}i", head, at)
    _, count, at, after = _mat5_element(order, head, after)
    name = head[at : at + count].decode("ascii")
    if label in _OTHERS or not math.prod(shape) or flags & _COMPLEX:
        return Array(name, shape, "complex " * bool(flags & _COMPLEX) + label)
    kind, count, at, _ = _mat5_element(order, head, after)
    dtype, numbers = np.dtype(order + _NUMBER_TYPES[kind]), math.prod(shape)
    inside = packed or span[0] + at + count <= span[1]
    if min(shape) < 0 or numbers * dtype.itemsize != count or not inside:
        raise PublishedFileError(f"array {name} {shape} does not fit {count} bytes; {AGAIN}")

    def block(cut: Cut) -> np.ndarray:
        if not packed:
            return np.memmap(file, dtype, "r", span[0] + at, shape, "F")[cut]
        check_array(name, count)
        file.seek(span[0] + 8)
        stream = zlib.decompressobj()  # of a variable with at most 7 bytes of padding
        data = stream.decompress(file.read(span[1] - span[0] - 8), at + count + 8)
        if not stream.eof or len(data) < at + count:
            raise PublishedFileError(f"a compressed variable is cut off; {AGAIN}")
        return np.frombuffer(data, dtype, numbers, at).reshape(shape, order="F")[cut]

    return Array(name, shape, label, block)


def _mat5_element(order: str, head: bytes, start: int) -> tuple[int, int, int, int]:
    """Type, bytes of data, first byte of data and end of the element at `start`."""
    kind, count = struct.unpack_from(f"{order}II", head, start)
    if kind >> 16:  # up to four bytes of data are part of the tag
        return kind & 0xFFFF, kind >> 16, start + 4, start + 8
    return kind, count, start + 8, start + 8 + -(-count // 8) * 8


def read_arrays(path: Path | str, names: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """Arrays of a file or folder by name; None reads all that hold real numbers."""
    values, total = dict[str, np.ndarray](), 0
    with open_arrays(path) as (_, arrays):
        for name, array in arrays.items():
            if array.block is not None and (names is None or name in names):
                values[name] = array.read()
                total += values[name].nbytes
                check_array(f"{name}, with those before it,", total)
    for name in names or ():
        if name not in arrays:
            raise ValueError(f"{path} has no array {name!r}: it has {', '.join(arrays)}")
        if name not in values:
            raise ValueError(f"array {name!r} of {path} holds no real numbers")
    return values
