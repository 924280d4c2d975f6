"""Published data: the files behind the papers, read as they were published.

A file is recognised by its bytes and by the names and shapes of its arrays, never by its name.
With N samples, s points per axis and T frames the published layouts are

    heat            input (N, s), output (N, T, s)
    burgers         a, u (N, s)
    darcy           coeff, sol (N, s, s), or cell arrays a_train, p_train of N matrices (s, s)
    navier-stokes   u (N, s, s, T), with or without a (N, s, s) and t (T), or one bare tensor

in MAT v5, MAT v7.3 or torch files. MAT v7.3 is HDF5 with *all* axes reversed; undoing only the
first and last would swap x1 and x2, which is no symmetry of the forced vorticity equation.
All become float32 with channels first: fields (N, 1, *s), trajectories (N, T, 1, *s).

MAT v5 is parsed here, because one damaged byte can crash SciPy's reader and the process with it.
Nothing is allocated before its declared size has been compared with that of the file.
"""

__all__ = ["PublishedData", "PublishedFileError", "describe", "read_published"]

import math
import os
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias

import h5py
import numpy as np
import torch
from torch import Tensor

from pdno.tensor_file import Contents, TensorFileError, read_tensor_file

Kind: TypeAlias = Literal["heat", "burgers", "darcy", "navier-stokes"]
Numbers: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Cut: TypeAlias = tuple[slice, ...]
Shape: TypeAlias = tuple[int, ...]

_EXPECTED = (
    "heat: input (N, s), output (N, T, s); burgers: a, u (N, s); darcy: coeff, sol (N, s, s) or "
    "cells a_train, p_train; navier-stokes: u (N, s, s, T), or one tensor of that shape"
)
_AGAIN = "the file is damaged or incomplete: download or copy it again"
_BARE = "(tensor)"
_MOST_LISTED = 12
_MOST_TIMES = 100_000
# Deflate, the only compression of these formats, shrinks nothing by more than 1032 to 1.
_EXPANSION = 1100


class PublishedFileError(ValueError):
    """The file cannot be read as published data; the message says why and what to do."""


@dataclass(frozen=True, eq=False)
class PublishedData:
    """The samples of a published file.

    Shapes: inputs (N, 1, *s); outputs (N, 1, *s), or (N, T, 1, *s) for trajectories.

    Arguments:
        kind: The equation.
        inputs: Initial state or permeability, float32; None where the file has none.
        outputs: Solutions, float32.
        times: The time of each output; None where time means nothing or is not known.
        notes: What a user of the file should know.
    """

    kind: Kind
    inputs: Tensor | None
    outputs: Tensor
    times: tuple[float, ...] | None
    notes: tuple[str, ...]


def read_published(
    path: str | Path, *, samples: slice | None = None, frames: int | None = None
) -> PublishedData:
    """Read a published file.

    Arguments:
        path: The file.
        samples: Which samples to read, all by default.
        frames: How many frames of a trajectory to read, from the first; all by default.

    Raises:
        ValueError: The file is damaged, not of a published layout, or holds values that are not
            finite; or it has no such samples or frames.
    """
    with _open(path) as (file_format, arrays):
        layout = _recognise(file_format, arrays)
        times, notes = _times_and_notes(Path(path), layout, arrays)
        rows = _rows(samples, arrays[layout.outputs].shape[0])
        if frames is not None and not 1 <= frames <= layout.frames:
            raise PublishedFileError(f"frames={frames}; its outputs have {layout.frames} frames")
        outputs = _load(layout.outputs, arrays, rows, layout.time_axis, frames)
        inputs = None if layout.inputs is None else _load(layout.inputs, arrays, rows)
    return PublishedData(layout.kind, inputs, outputs, times and times[:frames], notes)


def describe(path: str | Path) -> str:
    """What a file holds and what it is read as, in a few lines.

    Of MAT and HDF5 files only the headers are read; torch files are read and checked whole.
    """
    with _open(path) as (file_format, arrays):
        lines = [f"{Path(path).name}: {file_format}, {os.path.getsize(path):,} bytes"]
        listed = [f"  {name} {array.shape} {array.dtype}" for name, array in arrays.items()]
        lines += listed[:_MOST_LISTED]
        if len(listed) > _MOST_LISTED:
            lines.append(f"  ... and {len(listed) - _MOST_LISTED} more")
        try:
            layout = _recognise(file_format, arrays)
            times, notes = _times_and_notes(Path(path), layout, arrays)
        except PublishedFileError as problem:
            return "\n".join([*lines, f"not published data: {problem}"])
        samples, *grid = arrays[layout.outputs].shape
        if layout.time_axis is not None:
            grid.pop(layout.time_axis - 1)
        points = " x ".join(str(n) for n in grid)
        lines.append(f"{layout.kind}: {samples} samples on {points} points")
        lines.append(f"  inputs {layout.inputs or 'not in the file'}, outputs {layout.outputs}")
        if layout.frames:
            span = f", t = {times[0]:g} to {times[-1]:g}" if times else ""
            lines.append(f"  {layout.frames} frames{span}")
    return "\n".join([*lines, *(f"  note: {note}" for note in notes)])


# What the arrays mean.


@dataclass(frozen=True)
class _Array:
    """An array of a file in its published axis order; `read` is None if it holds no reals."""

    shape: Shape
    dtype: str
    read: Callable[[Cut], Numbers] | None = None


@dataclass(frozen=True)
class _Layout:
    """Which arrays are inputs and outputs, and which axis of the outputs is time."""

    kind: Kind
    inputs: str | None
    outputs: str
    time_axis: int | None = None
    frames: int = 0


def _recognise(file_format: str, arrays: dict[str, _Array]) -> _Layout:
    """The one published layout that the names and shapes fit."""
    if file_format == "HDF5":
        raise PublishedFileError(
            "it is HDF5 without the header of MATLAB 7.3, so the order of its axes is not known; "
            "give the published .mat file"
        )
    shapes = {n: a.shape for n, a in arrays.items() if a.read and math.prod(a.shape)}
    if any(name.endswith(".weight") for name in shapes):
        count = sum(math.prod(shape) for shape in shapes.values())
        raise PublishedFileError(
            f"it holds network weights, {len(shapes)} tensors with {count:,} numbers"
        )
    fits = [layout for rule in (_heat, _fields, _trajectory) for layout in rule(shapes)]
    if len(fits) != 1:
        found = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        problem = "fits more than one" if fits else "fits none"
        raise PublishedFileError(
            f"it holds {found[:500] or 'no arrays'}, which {problem} of the published layouts "
            f"({_EXPECTED}); give a file as published"
        )
    return fits[0]


def _heat(shapes: dict[str, Shape]) -> Iterator[_Layout]:
    initial, states = shapes.get("input", ()), shapes.get("output", ())
    if len(states) == 3 and initial == (states[0], states[2]):
        yield _Layout("heat", "input", "output", 1, states[1])


def _fields(shapes: dict[str, Shape]) -> Iterator[_Layout]:
    pairs: tuple[tuple[Kind, str, str, int], ...] = (
        ("burgers", "a", "u", 2),
        ("darcy", "coeff", "sol", 3),
        ("darcy", "a_train", "p_train", 3),
    )
    for kind, inputs, outputs, axes in pairs:
        shape = shapes.get(outputs, ())
        if len(shape) == axes and shapes.get(inputs) == shape:
            yield _Layout(kind, inputs, outputs)


def _trajectory(shapes: dict[str, Shape]) -> Iterator[_Layout]:
    for name, initial in (("u", "a"), (_BARE, "")):
        shape = shapes.get(name, ())
        if len(shape) == 4 and shape[1] == shape[2] > 1:
            if initial not in shapes:
                yield _Layout("navier-stokes", None, name, 3, shape[3])
            elif shapes[initial] == shape[:3]:
                yield _Layout("navier-stokes", initial, name, 3, shape[3])


def _times_and_notes(
    path: Path, layout: _Layout, arrays: dict[str, _Array]
) -> tuple[tuple[float, ...] | None, tuple[str, ...]]:
    times: tuple[float, ...] | None = None
    notes = []
    if layout.kind == "burgers":
        times = (1.0,)
    elif layout.kind == "heat":
        # The recipe of the published file records 0:0.05:1.
        known = layout.frames == 21
        times = tuple(k / 20 for k in range(21)) if known else None
        notes.append("the file stores no times" + ": 0, 0.05, ..., 1 by its recipe" * known)
    elif layout.kind == "navier-stokes":
        times, notes = _vorticity_times(layout, arrays)
        named = re.search(r"_T(\d+)", path.stem)
        inside = sum(time <= int(named[1]) for time in times) if named else layout.frames
        if named and 0 < inside < layout.frames:
            notes.append(
                f"frames go on to t = {times[-1]:g}, but the name says T{named[1]}: "
                f"frames={inside} reads those of the name"
            )
    read = {layout.inputs, layout.outputs, "t" if layout.kind == "navier-stokes" else None}
    unread = [name for name in arrays if name not in read]
    if unread:
        notes.append(f"arrays that are not read: {', '.join(unread)}")
    return times, tuple(notes)


def _vorticity_times(
    layout: _Layout, arrays: dict[str, _Array]
) -> tuple[tuple[float, ...], list[str]]:
    """The times of the frames: those of t, or index + 1, the convention of the data sets."""
    whole = tuple(float(k + 1) for k in range(layout.frames))
    stored = arrays.get("t")
    if stored is None or stored.read is None:
        # The only file with another spacing has 200 frames of 256 x 256 up to t = 50.
        if arrays[layout.outputs].shape[1:] == (256, 256, 200):
            return tuple(time / 4 for time in whole), [_whole_times(4)]
        return whole, ["the file stores no times: the time of a frame is its index + 1"]
    if math.prod(stored.shape) > _MOST_TIMES:
        raise PublishedFileError(f"t has shape {stored.shape}, no list of times; {_AGAIN}")
    # Times were summed up step by step in single precision.
    listed = stored.read((slice(None),) * len(stored.shape)).ravel().astype(float).round(6)
    times = tuple(listed.tolist())
    if len(times) != layout.frames and times[: layout.frames] == whole[: len(times)]:
        return whole, [f"t lists {len(times)} times for {layout.frames} frames: index + 1 is used"]
    increasing = np.isfinite(listed).all() and (np.diff(listed) > 0).all()
    if len(times) != layout.frames or not increasing:
        raise PublishedFileError(
            f"t has {len(times)} times that fit no {layout.frames} frames or do not increase; "
            f"{_AGAIN}"
        )
    per_unit = round(1 / times[0]) if 0 < times[0] < 1 else 1
    quarters = per_unit > 1 and np.allclose(listed * per_unit, whole)
    return times, [_whole_times(per_unit)] if quarters else []


def _whole_times(per_unit: int) -> str:
    first = ", ".join(str(k * per_unit - 1) for k in (1, 2, 3))
    return f"{per_unit} frames per unit of time: whole times are at the indices {first}, ..."


# Reading blocks of arrays.


def _rows(samples: slice | None, count: int) -> range:
    if not (samples is None or isinstance(samples, slice)):
        raise PublishedFileError(f"samples={samples!r}; give a slice, e.g. slice(0, 100)")
    rows = range(count)[samples or slice(None)]
    if len(rows) == 0 or rows.step < 0:
        raise PublishedFileError(
            f"samples={samples} selects nothing or goes backwards; it has samples 0 to {count - 1}"
        )
    return rows


def _load(
    name: str,
    arrays: dict[str, _Array],
    rows: range,
    time_axis: int | None = None,
    frames: int | None = None,
) -> Tensor:
    """The rows of an array as float32 (rows, 1, *s) or (rows, frames, 1, *s), all finite."""
    array = arrays[name]
    cut = [slice(None)] * len(array.shape)
    cut[0] = slice(rows.start, rows.stop, rows.step)
    if time_axis is not None:
        cut[time_axis] = slice(frames)
    kept = [len(range(n)[part]) for n, part in zip(array.shape, cut, strict=True)]
    _check_memory(name, 4 * math.prod(kept))
    assert array.read is not None  # a layout names only arrays of reals
    block = array.read(tuple(cut))
    if time_axis is not None:
        block = np.moveaxis(block, time_axis, 1)
    with np.errstate(over="ignore", invalid="ignore"):
        block = np.array(block, dtype=np.float32, order="C")
    values = torch.from_numpy(block).unsqueeze(1 if time_axis is None else 2)
    finite = values.isfinite().flatten(1).all(dim=1)
    if not finite.all():
        sample = rows[int(finite.int().argmin())]
        raise PublishedFileError(
            f"array {name} has values that are not finite in float32, first in sample {sample}; "
            "download the file again or leave the sample out with samples=slice(...)"
        )
    return values


def _check_memory(name: str, size: int) -> None:
    if hasattr(os, "sysconf"):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if size > memory:
            raise PublishedFileError(
                f"array {name} needs {size:,} bytes, this machine has {memory:,}; "
                "read fewer samples with samples=slice(...)"
            )


def _check_size(name: str, size: int, file_size: int) -> None:
    if size > _EXPANSION * file_size:
        raise PublishedFileError(
            f"array {name} declares {size:,} bytes, more than {file_size:,} can hold; {_AGAIN}"
        )


# The formats.


@contextmanager
def _open(path: str | Path) -> Iterator[tuple[str, dict[str, _Array]]]:
    """The format and the arrays of a file; they can be read until the block ends."""
    with open(path, "rb") as file, ExitStack() as stack:
        try:
            file_format, arrays = _arrays(path, file, stack)
            # A name that could drive a terminal never gets into a message.
            yield file_format, {_printable(name): array for name, array in arrays.items()}
        except TensorFileError:
            raise
        except PublishedFileError as problem:
            raise PublishedFileError(f"cannot read {path}: {problem}") from problem
        # Damaged bytes make h5py and zlib stumble in many ways; all mean the same.
        except Exception as problem:
            raise PublishedFileError(f"cannot read {path}: {problem}; {_AGAIN}") from problem


def _printable(name: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def _arrays(path: str | Path, file: BinaryIO, stack: ExitStack) -> tuple[str, dict[str, _Array]]:
    size = os.fstat(file.fileno()).st_size
    head = file.read(520)
    if head[:2] == b"PK" or head[:1] == b"\x80":
        return "torch archive", dict(_torch_arrays(read_tensor_file(path), ""))
    if b"\x89HDF\r\n\x1a\n" in (head[:8], head[512:]):
        matlab = head.startswith(b"MATLAB 7.3")
        source = stack.enter_context(h5py.File(path, "r"))
        return "MAT v7.3" if matlab else "HDF5", _hdf5_arrays(source, size, matlab)
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


def _torch_arrays(contents: Contents, name: str) -> Iterator[tuple[str, _Array]]:
    if isinstance(contents, dict):
        for key, value in contents.items():
            yield from _torch_arrays(value, f"{name}.{key}" if name else str(key))
    elif isinstance(contents, Tensor):
        read = None if contents.is_complex() else partial(_read_tensor, contents)
        dtype = str(contents.dtype).removeprefix("torch.")
        yield name or _BARE, _Array(tuple(contents.shape), dtype, read)
    else:
        shape = (len(contents),) if isinstance(contents, (list, tuple)) else ()
        yield name or _BARE, _Array(shape, type(contents).__name__)


def _read_tensor(tensor: Tensor, cut: Cut) -> Numbers:
    numbers: Numbers = tensor[cut].float().numpy()
    return numbers


def _hdf5_arrays(source: h5py.File, size: int, matlab: bool) -> dict[str, _Array]:
    # Visiting follows hard links only, so no other file is ever opened.
    items: dict[str, Any] = {}
    source.visititems(items.__setitem__)
    arrays = {}
    for name, item in items.items():
        if isinstance(item, h5py.Dataset) and not name.startswith("#"):
            cells = matlab and h5py.check_ref_dtype(item.dtype) is h5py.Reference
            make = partial(_cell_array, source) if cells else partial(_dataset_array, matlab)
            arrays[name] = make(name, item, size)
    return arrays


def _dataset_array(matlab: bool, name: str, dataset: Any, size: int) -> _Array:
    shape = tuple(dataset.shape or ())
    # A chunk is read whole, whatever part of it is asked for.
    count = max(math.prod(shape), math.prod(dataset.chunks or ()))
    _check_size(name, count * dataset.dtype.itemsize, size)
    if dataset.is_virtual or dataset.external:
        raise PublishedFileError(f"array {name} is stored in another file; give a whole file")
    real = dataset.dtype.kind in "fiu" and len(shape) > 0
    read = partial(_read_dataset, dataset) if real and matlab else None
    return _Array(shape[::-1] if matlab else shape, str(dataset.dtype), read)


def _read_dataset(dataset: Any, cut: Cut) -> Numbers:
    block: Numbers = dataset[cut[::-1]]
    return block.transpose()


def _cell_array(source: h5py.File, name: str, dataset: Any, size: int) -> _Array:
    """A cell array of matrices of one shape, as one array with the cells along its first axis."""
    shape = tuple(dataset.shape or (0,))[::-1]
    _check_size(name, math.prod(shape) * dataset.dtype.itemsize, size)
    cells = [source[reference] for reference in np.ravel(dataset[()]) if reference]
    if len(cells) != math.prod(shape) or any(not isinstance(c, h5py.Dataset) for c in cells):
        return _Array(shape, "cell")
    parts = [_dataset_array(True, name, cell, size) for cell in cells]
    if len({(part.shape, part.dtype) for part in parts}) != 1 or parts[0].read is None:
        return _Array(shape, "cell")
    _check_size(name, math.prod(parts[0].shape) * len(parts) * cells[0].dtype.itemsize, size)
    dtype = f"cell of {parts[0].dtype}"
    return _Array((len(parts), *parts[0].shape), dtype, partial(_read_cells, cells))


def _read_cells(cells: list[Any], cut: Cut) -> Numbers:
    return np.stack([_read_dataset(cell, cut[1:]) for cell in cells[cut[0]]])


# MAT v5: a header of 128 bytes, then one element per variable. An element is a tag (type, bytes)
# and its data. A variable is an element of four: flags with the class, axes, name, numbers; or a
# compressed element that holds one. Numbers may be stored in a smaller type than their class.

_MATRIX, _COMPRESSED = 14, 15
_FIRST_BYTES = 1024
# NumPy's letter for each type of numbers, at the place of its code.
_NUMBER_TYPES = " bBhHiIf d  qQ"
_CLASSES = {1: "cell", 2: "struct", 3: "object", 4: "char", 5: "sparse", 6: "double", 7: "single"}
_NUMBER_CLASSES, _INTEGER_CLASSES = range(6, 16), range(8, 16)
_NAMELESS_CLASSES = (16, 17)
_COMPLEX = 1 << 11


def _mat5_arrays(file: BinaryIO, size: int) -> Iterator[tuple[str, _Array]]:
    file.seek(126)
    order = "<" if file.read(2) == b"IM" else ">"
    position = 128
    while position < size:
        file.seek(position)
        head = file.read(_FIRST_BYTES)
        kind, count = struct.unpack_from(f"{order}II", head)
        end = position + 8 + count
        if kind not in (_MATRIX, _COMPRESSED) or end > size:
            raise PublishedFileError(f"the variable at byte {position:,} is cut off; {_AGAIN}")
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

    def parse(self, head: bytes, size: int) -> tuple[str, _Array]:
        """The name and the array of a variable that begins with the bytes `head`."""
        if self.element(head, 0)[0] != _MATRIX:
            raise PublishedFileError(f"a compressed variable holds no array; {_AGAIN}")
        _, _, at, after = self.element(head, 8)
        (flags,) = struct.unpack_from(f"{self.order}I", head, at)
        code = flags & 0xFF
        if code in _NAMELESS_CLASSES:
            return "", _Array((), "function")
        _, count, at, after = self.element(head, after)
        shape: Shape = struct.unpack_from(f"{self.order}{min(count // 4, 64)}i", head, at)
        _, count, at, after = self.element(head, after)
        name = head[at : at + count].decode("ascii")
        label = _class_name(code)
        if code not in _NUMBER_CLASSES or not math.prod(shape):
            return name, _Array(shape, label)
        if flags & _COMPLEX:
            return name, _Array(shape, f"complex {label}")
        kind, count, at, _ = self.element(head, after)
        dtype = np.dtype(self.order + _NUMBER_TYPES[kind])
        inside = self.packed or self.start + at + count <= self.end
        if min(shape) < 0 or math.prod(shape) * dtype.itemsize != count or not inside:
            raise PublishedFileError(f"array {name} {shape} does not fit {count} bytes; {_AGAIN}")
        _check_size(name, count, size)
        return name, _Array(shape, label, partial(self.read, name, at, dtype, shape))

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
        _check_memory(name, count)
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
            raise PublishedFileError(f"a compressed variable is cut off; {_AGAIN}")
        return data
