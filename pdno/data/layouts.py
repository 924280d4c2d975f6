"""Published layouts: what the arrays of a file mean, told by their names and shapes.

With N samples, s points per axis and T frames the published layouts are

    heat            input (N, s), output (N, T, s)
    burgers         a, u (N, s)
    darcy           coeff, sol (N, s, s), or cell arrays a_train, p_train of N matrices (s, s)
    navier-stokes   u (N, s, s, T), with or without a (N, s, s) and t (T), or one bare tensor

A file must fit exactly one of them. Where a trajectory comes without the times of its frames, they
are taken from the recipe of the data set if that is known, and a note says so.
"""

__all__ = ["Kind", "Layout", "recognise", "times_and_notes"]

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from pdno.data.arrays import AGAIN, Array, PublishedFileError, Shape
from pdno.data.formats import BARE

Kind: TypeAlias = Literal["heat", "burgers", "darcy", "navier-stokes"]

_EXPECTED = (
    "heat: input (N, s), output (N, T, s); burgers: a, u (N, s); darcy: coeff, sol (N, s, s) or "
    "cells a_train, p_train; navier-stokes: u (N, s, s, T), or one tensor of that shape"
)
_MOST_TIMES = 100_000


@dataclass(frozen=True)
class Layout:
    """Which arrays are inputs and outputs, and which axis of the outputs is time."""

    kind: Kind
    inputs: str | None
    outputs: str
    time_axis: int | None = None
    frames: int = 0


def recognise(file_format: str, arrays: dict[str, Array]) -> Layout:
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


def _heat(shapes: dict[str, Shape]) -> Iterator[Layout]:
    initial, states = shapes.get("input", ()), shapes.get("output", ())
    if len(states) == 3 and initial == (states[0], states[2]):
        yield Layout("heat", "input", "output", 1, states[1])


def _fields(shapes: dict[str, Shape]) -> Iterator[Layout]:
    pairs: tuple[tuple[Kind, str, str, int], ...] = (
        ("burgers", "a", "u", 2),
        ("darcy", "coeff", "sol", 3),
        ("darcy", "a_train", "p_train", 3),
    )
    for kind, inputs, outputs, axes in pairs:
        shape = shapes.get(outputs, ())
        if len(shape) == axes and shapes.get(inputs) == shape:
            yield Layout(kind, inputs, outputs)


def _trajectory(shapes: dict[str, Shape]) -> Iterator[Layout]:
    for name, initial in (("u", "a"), (BARE, "")):
        shape = shapes.get(name, ())
        if len(shape) == 4 and shape[1] == shape[2] > 1:
            if initial not in shapes:
                yield Layout("navier-stokes", None, name, 3, shape[3])
            elif shapes[initial] == shape[:3]:
                yield Layout("navier-stokes", initial, name, 3, shape[3])


def times_and_notes(
    path: Path, layout: Layout, arrays: dict[str, Array]
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


def _vorticity_times(
    layout: Layout, arrays: dict[str, Array]
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
        raise PublishedFileError(f"t has shape {stored.shape}, no list of times; {AGAIN}")
    # Times were summed up step by step in single precision.
    listed = stored.read((slice(None),) * len(stored.shape)).ravel().astype(float).round(6)
    times = tuple(listed.tolist())
    if len(times) != layout.frames and times[: layout.frames] == whole[: len(times)]:
        return whole, [f"t lists {len(times)} times for {layout.frames} frames: index + 1 is used"]
    increasing = np.isfinite(listed).all() and (np.diff(listed) > 0).all()
    if len(times) != layout.frames or not increasing:
        raise PublishedFileError(
            f"t has {len(times)} times that fit no {layout.frames} frames or do not increase; "
            f"{AGAIN}"
        )
    per_unit = round(1 / times[0]) if 0 < times[0] < 1 else 1
    quarters = per_unit > 1 and np.allclose(listed * per_unit, whole)
    return times, [_whole_times(per_unit)] if quarters else []


def _whole_times(per_unit: int) -> str:
    first = ", ".join(str(k * per_unit - 1) for k in (1, 2, 3))
    return f"{per_unit} frames per unit of time: whole times are at the indices {first}, ..."
