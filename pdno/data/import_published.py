"""Published data: the files behind the papers, read as they were published.

A file is recognised by its bytes (`pdno.data.array_files`) and by the names and shapes of its
arrays, never by its name. It must fit exactly one of the published layouts, `EXPECTED` with N
samples, s points per axis and T frames. All become float32 with channels first. Only the chosen
samples and frames of MAT v7.3 and uncompressed MAT v5 files are read.
"""

__all__ = ["PublishedData", "PublishedFileError", "describe_file", "read_published"]

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from pdno.data.array_files import BARE, Array, PublishedFileError, Shape, check_array, open_arrays
from pdno.data.layout import NAME_THEM
from pdno.files.tensor_file import AGAIN

Kind: TypeAlias = Literal["heat", "burgers", "darcy", "navier-stokes"]
Arrays: TypeAlias = dict[str, Array]

EXPECTED = (
    "heat: input (N, s), output (N, T, s); burgers: a, u (N, s); darcy: coeff, sol (N, s, s) or "
    "cells a_train, p_train; navier-stokes: u (N, s, s, T), or one tensor of that shape"
)
_MOST_TIMES = 100_000
_MOST_LISTED = 12


class _Layout(NamedTuple):
    """Names of inputs and outputs, and the axes of the outputs; inputs have all but time."""

    kind: Kind
    inputs: str | None
    outputs: str
    axes: str


_LAYOUTS = (
    _Layout("heat", "input", "output", "ntx"),
    _Layout("burgers", "a", "u", "nx"),
    _Layout("darcy", "coeff", "sol", "nxy"),
    _Layout("darcy", "a_train", "p_train", "nxy"),
    _Layout("navier-stokes", "a", "u", "nxyt"),
    _Layout("navier-stokes", None, "u", "nxyt"),
    _Layout("navier-stokes", None, BARE, "nxyt"),
)


@dataclass(frozen=True, eq=False)
class PublishedData:
    """The samples of a published file, float32, and what a user of the file should know (`notes`).

    Shapes: inputs (N, 1, *s), None where the file has none; outputs (N, 1, *s), or (N, T, 1, *s)
    for trajectories. `times` is None where time means nothing or is not known; where a file does
    not store them, they are those of the recipe of the data set, and a note says so.
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
        sizes = _sizes(layout, arrays)
        if not (samples is None or isinstance(samples, slice)):
            raise PublishedFileError(f"samples={samples!r}; give a slice, e.g. slice(0, 100)")
        rows = range(sizes["n"])[samples or slice(None)]
        if len(rows) == 0 or rows.step < 0:
            stored = f"it has samples 0 to {sizes['n'] - 1}"
            raise PublishedFileError(f"samples={samples} selects none or goes backwards; {stored}")
        if frames is not None and not 1 <= frames <= sizes["t"]:
            raise PublishedFileError(f"frames={frames}; its outputs have {sizes['t']} frames")
        outputs = _load(layout.outputs, arrays, layout.axes, rows, frames)
        axes = layout.axes.replace("t", "")
        inputs = None if layout.inputs is None else _load(layout.inputs, arrays, axes, rows)
    return PublishedData(layout.kind, inputs, outputs, times and times[:frames], notes)


def describe_file(path: str | Path, *, own: bool = False) -> str:
    """The arrays of a file and the published data they are; only headers of MAT and HDF5 are read.

    `own` leaves out what it would be as a published file.
    """
    with open_arrays(path) as (file_format, arrays):
        lines = [f"{Path(path).name}: {file_format}, {os.path.getsize(path):,} bytes"]
        listed = [f"  {name} {array.shape} {array.dtype}" for name, array in arrays.items()]
        lines += listed[:_MOST_LISTED]
        if len(listed) > _MOST_LISTED:
            lines.append(f"  ... and {len(listed) - _MOST_LISTED} more")
        if own:
            return "\n".join(lines)
        try:
            layout = _recognise(file_format, arrays)
            times, notes = _times_and_notes(Path(path), layout, arrays)
        except PublishedFileError as problem:
            reason = f"not published data: {problem}"
            return "\n".join([*lines, f"if it is your own, {NAME_THEM}", reason])
        sizes = _sizes(layout, arrays)
        points = " x ".join(str(sizes[axis]) for axis in "xy" if axis in sizes)
        lines.append(f"{layout.kind}: {sizes['n']} samples on {points} points")
        lines.append(f"  inputs {layout.inputs or 'not in the file'}, outputs {layout.outputs}")
        if sizes["t"]:
            span = f", t = {times[0]:g} to {times[-1]:g}" if times else ""
            lines.append(f"  {sizes['t']} frames{span}")
    return "\n".join([*lines, *(f"  note: {note}" for note in notes)])


def _load(name: str, arrays: Arrays, axes: str, rows: range, frames: int | None = None) -> Tensor:
    """The rows of an array as float32 (rows, 1, *s) or (rows, frames, 1, *s), all finite."""
    array, parts = arrays[name], {"n": slice(rows.start, rows.stop, rows.step), "t": slice(frames)}
    cut = tuple(parts.get(axis, slice(None)) for axis in axes)
    kept = [len(range(n)[part]) for n, part in zip(array.shape, cut, strict=True)]
    check_array(name, 4 * math.prod(kept))
    assert array.read is not None  # a layout names only arrays of reals
    block = array.read(cut)
    block = np.moveaxis(block, axes.index("t"), 1) if "t" in axes else block
    with np.errstate(over="ignore", invalid="ignore"):
        block = np.array(block, dtype=np.float32, order="C")
    values = torch.from_numpy(block).unsqueeze(2 if "t" in axes else 1)
    bad = (~values.isfinite()).flatten(1).any(dim=1).nonzero()
    if len(bad):
        cure = "download the file again or leave the sample out with samples=slice(...)"
        where = f"first in sample {rows[int(bad[0])]}"
        raise PublishedFileError(
            f"array {name} has values that are not finite in float32, {where}; {cure}"
        )
    return values


def _sizes(layout: _Layout, arrays: Arrays) -> dict[str, int]:
    """The number of samples n, frames t (0 without time) and points x, y of the outputs."""
    return {"t": 0} | dict(zip(layout.axes, arrays[layout.outputs].shape, strict=True))


def _recognise(file_format: str, arrays: Arrays) -> _Layout:
    """The one published layout that the names and shapes fit."""
    if file_format == "HDF5":
        raise PublishedFileError(
            "it is HDF5 without the header of MATLAB 7.3, so the order of its axes is not known; "
            "give the published .mat file"
        )
    shapes = {n: a.shape for n, a in arrays.items() if a.read and math.prod(a.shape)}
    if any(name.endswith(".weight") for name in shapes):
        sizes = f"{len(shapes)} tensors with {sum(map(math.prod, shapes.values())):,} numbers"
        raise PublishedFileError(f"it holds network weights, {sizes}")
    fits = [layout for layout in _LAYOUTS if _fits(layout, shapes)]
    if len(fits) != 1:
        listed = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        problem = "fits more than one" if fits else "fits none"
        raise PublishedFileError(
            f"it holds {listed[:500] or 'no arrays'}, which {problem} of the published layouts "
            f"({EXPECTED}); give a file as published"
        )
    return fits[0]


def _fits(layout: _Layout, shapes: dict[str, Shape]) -> bool:
    shape = shapes.get(layout.outputs, ())
    if len(shape) != len(layout.axes):
        return False
    if layout.kind == "navier-stokes" and not shape[1] == shape[2] > 1:
        return False
    if layout.inputs is None:
        return layout.outputs == BARE or "a" not in shapes
    static = tuple(n for n, axis in zip(shape, layout.axes, strict=True) if axis != "t")
    return shapes.get(layout.inputs) == static


def _times_and_notes(
    path: Path, layout: _Layout, arrays: Arrays
) -> tuple[tuple[float, ...] | None, tuple[str, ...]]:
    """The time of each frame, None where it is not known, and what a user should know."""
    times: tuple[float, ...] | None = None
    notes, frames = [], _sizes(layout, arrays)["t"]
    if layout.kind == "burgers":
        times = (1.0,)
    elif layout.kind == "heat":
        # The recipe of the published file records 0:0.05:1.
        usual = frames == 21
        times = tuple(k / 20 for k in range(21)) if usual else None
        notes.append("the file stores no times" + ": 0, 0.05, ..., 1 by its recipe" * usual)
    elif layout.kind == "navier-stokes":
        times, notes = _vorticity_times(arrays[layout.outputs].shape, arrays.get("t"))
        named = re.search(r"_T(\d+)", path.stem)
        inside = sum(time <= int(named[1]) for time in times) if named else frames
        if named and 0 < inside < frames:
            notes.append(
                f"frames go on to t = {times[-1]:g}, but the name says T{named[1]}: "
                f"frames={inside} reads those of the name"
            )
    read = {layout.inputs, layout.outputs, "t" if layout.kind == "navier-stokes" else None}
    unread = [name for name in arrays if name not in read]
    if unread:
        notes.append(f"arrays that are not read: {', '.join(unread)}")
    return times, tuple(notes)


def _vorticity_times(shape: Shape, stored: Array | None) -> tuple[tuple[float, ...], list[str]]:
    """The times of the frames: those stored, or index + 1, the convention of the data sets."""
    frames = shape[-1]
    whole = tuple(float(k + 1) for k in range(frames))
    if stored is None or stored.read is None:
        # The only file with another spacing has 200 frames of 256 x 256 up to t = 50.
        if shape[1:] == (256, 256, 200):
            return tuple(time / 4 for time in whole), [_whole_times(4)]
        return whole, ["the file stores no times: the time of a frame is its index + 1"]
    if math.prod(stored.shape) > _MOST_TIMES:
        raise PublishedFileError(f"t has shape {stored.shape}, no list of times; {AGAIN}")
    # Times were summed up step by step in single precision.
    listed = stored.read(stored.whole()).ravel().astype(float).round(6)
    times = tuple(listed.tolist())
    if len(times) != frames and times[:frames] == whole[: len(times)]:
        return whole, [f"t lists {len(times)} times for {frames} frames: index + 1 is used"]
    increasing = np.isfinite(listed).all() and (np.diff(listed) > 0).all()
    if len(times) != frames or not increasing:
        misfit = f"{len(times)} times that fit no {frames} frames or do not increase"
        raise PublishedFileError(f"t has {misfit}; {AGAIN}")
    per_unit = round(1 / times[0]) if 0 < times[0] < 1 else 1
    quarters = per_unit > 1 and np.allclose(listed * per_unit, whole)
    return times, [_whole_times(per_unit)] if quarters else []


def _whole_times(per_unit: int) -> str:
    first = ", ".join(str(k * per_unit - 1) for k in (1, 2, 3))
    return f"{per_unit} frames per unit of time: whole times are at the indices {first}, ..."
