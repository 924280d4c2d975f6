"""Published data: the files behind the papers, read as they were published.

A file is recognised by its bytes (`pdno.data.formats`) and by the names and shapes of its arrays
(`pdno.data.layouts`), never by its name. Whatever the order of its axes, with N samples, T frames
and s points per axis all become float32 with channels first:

    fields          (N, 1, *s)       input and output of Burgers and Darcy, initial states
    trajectories    (N, T, 1, *s)    output of heat and Navier-Stokes

Samples and frames can be chosen; of MAT v7.3 and uncompressed MAT v5 files only those are read.
"""

__all__ = ["PublishedData", "PublishedFileError", "describe", "read_published"]

import math
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pdno.data.arrays import Array, PublishedFileError, check_memory
from pdno.data.formats import open_arrays
from pdno.data.layouts import Kind, recognise, times_and_notes

_MOST_LISTED = 12


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
    with open_arrays(path) as (file_format, arrays):
        layout = recognise(file_format, arrays)
        times, notes = times_and_notes(Path(path), layout, arrays)
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
    with open_arrays(path) as (file_format, arrays):
        lines = [f"{Path(path).name}: {file_format}, {os.path.getsize(path):,} bytes"]
        listed = [f"  {name} {array.shape} {array.dtype}" for name, array in arrays.items()]
        lines += listed[:_MOST_LISTED]
        if len(listed) > _MOST_LISTED:
            lines.append(f"  ... and {len(listed) - _MOST_LISTED} more")
        try:
            layout = recognise(file_format, arrays)
            times, notes = times_and_notes(Path(path), layout, arrays)
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
    arrays: dict[str, Array],
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
    check_memory(name, 4 * math.prod(kept))
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
