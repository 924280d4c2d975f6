"""Published data: the files behind the papers, read as they were published.

A file is recognised by its bytes (`pdno.data.array_files`) and by the names and shapes of its
arrays, never by its name. It must fit exactly one of the published layouts, `EXPECTED` with N
samples, s points per axis and T frames. All become float32 with channels first: fields (N, 1, *s)
and trajectories (N, T, 1, *s). Where a trajectory comes without the times of its frames, they are
taken from the recipe of the data set if that is known, and a note says so. Samples and frames can
be chosen; of MAT v7.3 and uncompressed MAT v5 files only those are read.
"""

__all__ = ["PublishedData", "PublishedFileError", "describe_file", "read_published"]

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from pdno.data.array_files import BARE, Array, PublishedFileError, Shape, check_memory, open_arrays
from pdno.tensor_file import AGAIN

Kind: TypeAlias = Literal["heat", "burgers", "darcy", "navier-stokes"]
Arrays: TypeAlias = dict[str, Array]

EXPECTED = (
    "heat: input (N, s), output (N, T, s); burgers: a, u (N, s); darcy: coeff, sol (N, s, s) or "
    "cells a_train, p_train; navier-stokes: u (N, s, s, T), or one tensor of that shape"
)
_PAIRS: tuple[tuple[Kind, str, str, int], ...] = (
    ("burgers", "a", "u", 2),
    ("darcy", "coeff", "sol", 3),
    ("darcy", "a_train", "p_train", 3),
)
_MOST_TIMES = 100_000
_MOST_LISTED = 12


@dataclass(frozen=True, eq=False)
class PublishedData:
    """The samples of a published file, float32, and what a user of the file should know (`notes`).

    Shapes: inputs (N, 1, *s), None where the file has none; outputs (N, 1, *s), or (N, T, 1, *s)
    for trajectories. `times` is None where time means nothing or is not known.
    """

    kind: Kind
    inputs: Tensor | None
    outputs: Tensor
    times: tuple[float, ...] | None
    notes: tuple[str, ...]


def read_published(
    path: str | Path, *, samples: slice | None = None, frames: int | None = None
) -> PublishedData:
    """Read some samples (a slice) and the first `frames` of a published file; all by default.

    A file that is damaged, not of a published layout, or holds values that are not finite, and
    samples or frames that it does not have, are a ValueError.
    """
    with open_arrays(path) as (file_format, arrays):
        layout = _recognise(file_format, arrays)
        times, notes = _times_and_notes(Path(path), layout, arrays)
        rows = _rows(samples, arrays[layout.outputs].shape[0])
        if frames is not None and not 1 <= frames <= layout.frames:
            raise PublishedFileError(f"frames={frames}; its outputs have {layout.frames} frames")
        outputs = _load(layout.outputs, arrays, rows, layout.time_axis, frames)
        inputs = None if layout.inputs is None else _load(layout.inputs, arrays, rows)
    return PublishedData(layout.kind, inputs, outputs, times and times[:frames], notes)


def describe_file(path: str | Path) -> str:
    """What a file holds and what it is read as; of MAT and HDF5 files only headers are read."""
    with open_arrays(path) as (file_format, arrays):
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
        lines.append(f"{layout.kind}: {samples} samples on {' x '.join(map(str, grid))} points")
        lines.append(f"  inputs {layout.inputs or 'not in the file'}, outputs {layout.outputs}")
        if layout.frames:
            span = f", t = {times[0]:g} to {times[-1]:g}" if times else ""
            lines.append(f"  {layout.frames} frames{span}")
    return "\n".join([*lines, *(f"  note: {note}" for note in notes)])


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
    name: str, arrays: Arrays, rows: range, time: int | None = None, frames: int | None = None
) -> Tensor:
    """The rows of an array as float32 (rows, 1, *s) or (rows, frames, 1, *s), all finite."""
    array = arrays[name]
    cut = [slice(None)] * len(array.shape)
    cut[0] = slice(rows.start, rows.stop, rows.step)
    if time is not None:
        cut[time] = slice(frames)
    kept = [len(range(n)[part]) for n, part in zip(array.shape, cut, strict=True)]
    check_memory(name, 4 * math.prod(kept))
    assert array.read is not None  # a layout names only arrays of reals
    block = array.read(tuple(cut))
    block = block if time is None else np.moveaxis(block, time, 1)
    with np.errstate(over="ignore", invalid="ignore"):
        block = np.array(block, dtype=np.float32, order="C")
    values = torch.from_numpy(block).unsqueeze(1 if time is None else 2)
    bad = (~values.isfinite()).flatten(1).any(dim=1).nonzero()
    if len(bad):
        raise PublishedFileError(
            f"array {name} has values that are not finite in float32, first in sample "
            f"{rows[int(bad[0])]}; download the file again or leave the sample out with "
            "samples=slice(...)"
        )
    return values


@dataclass(frozen=True)
class _Layout:
    """Which arrays are inputs and outputs, and which axis of the outputs is time."""

    kind: Kind
    inputs: str | None
    outputs: str
    time_axis: int | None = None
    frames: int = 0


def _recognise(file_format: str, arrays: Arrays) -> _Layout:
    """The one published layout that the names and shapes fit."""
    if file_format == "HDF5":
        raise PublishedFileError(
            "it is HDF5 without the header of MATLAB 7.3, so the order of its axes is not known; "
            "give the published .mat file"
        )
    shapes = {n: a.shape for n, a in arrays.items() if a.read and math.prod(a.shape)}
    if any(name.endswith(".weight") for name in shapes):
        found = f"{len(shapes)} tensors with {sum(map(math.prod, shapes.values())):,} numbers"
        raise PublishedFileError(f"it holds network weights, {found}")
    fits = list(_layouts(shapes))
    if len(fits) != 1:
        found = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        problem = "fits more than one" if fits else "fits none"
        raise PublishedFileError(
            f"it holds {found[:500] or 'no arrays'}, which {problem} of the published layouts "
            f"({EXPECTED}); give a file as published"
        )
    return fits[0]


def _layouts(shapes: dict[str, Shape]) -> Iterator[_Layout]:
    """All published layouts that the shapes fit."""
    initial, states = shapes.get("input", ()), shapes.get("output", ())
    if len(states) == 3 and initial == (states[0], states[2]):
        yield _Layout("heat", "input", "output", 1, states[1])
    for kind, inputs, outputs, axes in _PAIRS:
        shape = shapes.get(outputs, ())
        if len(shape) == axes and shapes.get(inputs) == shape:
            yield _Layout(kind, inputs, outputs)
    for name, first in (("u", "a"), (BARE, "")):
        shape = shapes.get(name, ())
        square = len(shape) == 4 and shape[1] == shape[2] > 1
        if square and shapes.get(first, shape[:3]) == shape[:3]:
            stored = first if first in shapes else None
            yield _Layout("navier-stokes", stored, name, 3, shape[3])


def _times_and_notes(
    path: Path, layout: _Layout, arrays: Arrays
) -> tuple[tuple[float, ...] | None, tuple[str, ...]]:
    """The time of each frame, None where it is not known, and what a user should know."""
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


def _vorticity_times(layout: _Layout, arrays: Arrays) -> tuple[tuple[float, ...], list[str]]:
    """The times of the frames: those of t, or index + 1, the convention of the data sets."""
    whole = tuple(float(k + 1) for k in range(layout.frames))
    stored = arrays.get("t")
    if stored is None or stored.read is None:
        # The only file with another spacing has 200 frames of 256 x 256 up to t = 50.
        if arrays[layout.outputs].shape[1:] == (256, 256, 200):
            return tuple(time / 4 for time in whole), [_whole_times(4)]
        return whole, ["the file stores no times: the time of a frame is its index + 1"]
    if math.prod(stored.shape) > _MOST_TIMES:
        raise PublishedFileError(f"t has shape {stored.shape}, no list of times; {AGAIN}")
    # Times were summed up step by step in single precision.
    listed = stored.read((slice(None),) * len(stored.shape)).ravel().astype(float).round(6)
    times = tuple(listed.tolist())
    if len(times) != layout.frames and times[: layout.frames] == whole[: len(times)]:
        return whole, [f"t lists {len(times)} times for {layout.frames} frames: index + 1 is used"]
    increasing = np.isfinite(listed).all() and (np.diff(listed) > 0).all()
    if len(times) != layout.frames or not increasing:
        misfit = f"{len(times)} times that fit no {layout.frames} frames or do not increase"
        raise PublishedFileError(f"t has {misfit}; {AGAIN}")
    per_unit = round(1 / times[0]) if 0 < times[0] < 1 else 1
    quarters = per_unit > 1 and np.allclose(listed * per_unit, whole)
    return times, [_whole_times(per_unit)] if quarters else []


def _whole_times(per_unit: int) -> str:
    first = ", ".join(str(k * per_unit - 1) for k in (1, 2, 3))
    return f"{per_unit} frames per unit of time: whole times are at the indices {first}, ..."
