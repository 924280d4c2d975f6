"""Files and folders as datasets: your own, published ones, those of The Well, meshes, our own.

`read_own` in Python, `file:` in specifications and `--file` on the command line have the same
options (`pdno.data.problems.Layout`). Published files need none: names and shapes of their arrays
fit exactly one layout of `EXPECTED`, with N samples, s points per axis and T frames.
"""

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from pdno.data.array_files import BARE, Array, PublishedFileError, open_arrays, read_arrays
from pdno.data.dataset import OperatorDataset, open_dataset
from pdno.data.problems import NAME_THEM, PROBLEMS, DataFile, Layout
from pdno.data.shards import MANIFEST, describe_dataset, read_manifest
from pdno.data.sources import not_finite, numbered
from pdno.data.well import evenly_spaced, is_well, open_well
from pdno.files.limits import check_memory
from pdno.files.tensor_file import AGAIN
from pdno.interface.errors import check_choice, require
from pdno.interface.records import Options
from pdno.spectral.grid import Grid
from pdno.spectral.points import Points, Transform

Kind: TypeAlias = Literal["heat", "burgers", "darcy", "navier-stokes"]
EXPECTED = (
    "heat: input (N, s), output (N, T, s); burgers: a, u (N, s); darcy: coeff, sol (N, s, s) or "
    "cells a_train, p_train; navier-stokes: u (N, s, s, T), or one tensor of that shape"
)
SPACE = "xyz"
COORDINATES = {*SPACE, "points", "coords", "coordinates", "grid", "mesh", "nodes", "positions"}
USUAL_AXES = {2: "nx", 3: "nxy"}
FLAT = 1e-9  # extent of an axis, as a share of the largest one, up to which a mesh is plane
MOST_READ = 2**24  # numbers of an array that are read for its range
_MOST_TIMES, _MOST_LISTED = 100_000, 12
_SPACED = "{} frames per unit of time: whole times are at the indices {}, {}, {}, ..."


class _Published(NamedTuple):
    """A layout by names of arrays and the axes of the outputs; inputs have no time."""

    kind: Kind
    inputs: str | None
    outputs: str
    axes: str


_PUBLISHED = (
    _Published("heat", "input", "output", "ntx"),
    _Published("burgers", "a", "u", "nx"),
    _Published("darcy", "coeff", "sol", "nxy"),
    _Published("darcy", "a_train", "p_train", "nxy"),
    _Published("navier-stokes", "a", "u", "nxyt"),
    _Published("navier-stokes", None, "u", "nxyt"),
    _Published("navier-stokes", None, BARE, "nxyt"),
)


@dataclass(frozen=True, eq=False)
class PublishedData:
    """The samples of a published file, float32, and `notes` for its users.

    Shapes: inputs (N, 1, *s), None where the file has none; outputs (N, 1, *s), or (N, T, 1, *s)
    for trajectories. `times` are stored or those of the recipe of the data, None if unknown.
    """

    kind: Kind
    inputs: Tensor | None
    outputs: Tensor
    times: tuple[float, ...] | None
    notes: tuple[str, ...]


def read_own(path: Path | str, **layout: Any) -> OperatorDataset:
    """A dataset from a file or folder of your own.

    Arguments:
        path: A .npz, .mat (old and new), HDF5 or torch file, a folder of .npy files, a file or
            folder of The Well, a dataset folder, or a published file.
        **layout: Names of the arrays (`inputs`, `outputs`), their axes (`input_axes="nxyc"`),
            channels, `times` and grid: see `pdno.data.problems.Layout`.
    """
    return open_file(DataFile(path=Path(path), **layout))


def open_file(file: DataFile) -> OperatorDataset:
    """The dataset of a file."""
    path, options = file.path, file.keyword_arguments()
    if (path / MANIFEST).is_file():
        if options:
            raise ValueError(f"{path} says itself what it holds: leave out {', '.join(options)}")
        return open_dataset(path)
    if is_well(path) and file.input_axes is None:
        return open_well(path, **options)
    if file.inputs and file.outputs:
        return _open_arrays(file)
    if path.is_dir() or options:
        names, part = ", ".join(read_arrays(path)), "outputs" if file.inputs else "inputs"
        raise ValueError(f"{path} has the arrays {names}, but not which are {part}: {NAME_THEM}")
    try:
        return _open_published(path)
    except PublishedFileError as problem:
        cure = f"if {path} is your own, {NAME_THEM}"
        raise PublishedFileError(f"{cure}. As a published file: {problem}") from problem


def read_trajectories(file: DataFile) -> tuple[Tensor, tuple[float, ...]]:
    """All frames of a file on a periodic grid, (B, T, C, *N) float64, and their times.

    A single array of frames needs no inputs: `outputs` is its name, `output_axes` its axes such as
    "ntx", `times` are 0, 1, ... by default. Otherwise inputs are the frame at t = 0.
    """
    if file.outputs and not file.inputs:
        arrays = read_arrays(file.path, [*file.outputs, *_times_array(file)])
        frames, _, axes = _fields(arrays, file.outputs, "output_axes", file.output_axes)
        times = _stated_times(file, arrays) or tuple(map(float, range(frames.shape[1])))
        in_time, periodic = "t" in axes, file.periodic is not False
    else:
        data = open_file(file)
        in_time, periodic = data.times is not None, data.grid.periodic
        frames = data.trajectories() if in_time else torch.empty(0)
        times = (0.0, *(data.times or ()))
        if len(times) > 1 and times[1] == 0.0:  # which are the inputs again
            frames, times = frames[:, 1:], times[1:]
    if not in_time or not periodic:
        wrong = "points in a box" if in_time else "no frames in time"
        cure = "" if in_time else ", such as --outputs u --output-axes ntx"
        expected = f"expected trajectories on a periodic grid{cure}"
        raise ValueError(f"{file.path} has {wrong}; {expected}")
    return frames.double(), times


def read_inputs(arrays: Mapping[str, np.ndarray], layout: Layout) -> Tensor:
    """The inputs (B, C, *N) alone, float32."""
    return _fields(arrays, layout.inputs, "input_axes", layout.input_axes)[0].float()


def read_points(
    arrays: Mapping[str, np.ndarray], layout: Layout, name: str, *, own: bool = False
) -> Points:
    """The scattered points of an array of coordinates; `own` ones have no weights or mask."""
    x = np.asarray(arrays[name], dtype=float)
    low, high = layout.box or (0.0, 1.0)
    if not low < high:
        raise ValueError(f"box is {layout.box}; expected the lowest coordinate, then the highest")
    names = (None, None) if own else (layout.weights, layout.mask)
    weights, mask = (None if name is None else np.asarray(arrays[name]) for name in names)
    if weights is not None:
        weights = weights / (high - low) ** x.shape[-1]
    options: Options = {"periodic": bool(layout.periodic), "transform": layout.transform}
    return Points((x - low) / (high - low), weights, mask=mask, **options)


def _open_arrays(file: DataFile) -> OperatorDataset:
    geometry = (file.coordinates, file.output_coordinates, file.weights, file.mask)
    if file.coordinates is None and (file.output_coordinates or file.weights or file.box):
        raise ValueError("points of outputs, weights or a box, but no points: name `coordinates`")
    others = [*filter(None, geometry), *_times_array(file)]
    arrays = read_arrays(file.path, [*file.inputs, *file.outputs, *others])
    inputs, names, axes = _fields(arrays, file.inputs, "input_axes", file.input_axes)
    alike = arrays[file.outputs[0]].ndim == len(axes)
    output_axes = file.output_axes or (axes if alike else None)
    outputs, output_names, output_axes = _fields(arrays, file.outputs, "output_axes", output_axes)
    if "t" in axes:
        raise ValueError(f"axes {axes!r} of the inputs have a time: use `outputs` for frames")
    times: Sequence[float] | None = _stated_times(file, arrays)
    if "t" in output_axes:
        times = times or range(1, outputs.shape[1] + 1)
    elif times is not None:
        raise ValueError(f"times are set, but axes {output_axes!r} of the outputs have no t")
    channels = (file.input_channels or names, file.output_channels or output_names)
    options: Options = {"channels": channels}
    if file.coordinates is not None:
        grid: Grid = read_points(arrays, file, file.coordinates)
        if own := file.output_coordinates:
            options["output_grid"] = read_points(arrays, file, own, own=True)
    else:
        grid = Grid(tuple(inputs.shape[2:]), file.periodic is not False, file.offset or 0.0)
        _refuse_scattered(file, inputs)
        options["mask"] = file.mask and arrays[file.mask]
    return OperatorDataset.from_arrays(inputs, outputs, grid, times, **options)


def _times_array(file: DataFile) -> list[str]:
    """The name of the array of times, if one is named."""
    return [file.times] if isinstance(file.times, str) else []


def _stated_times(file: DataFile, arrays: Mapping[str, np.ndarray]) -> tuple[float, ...] | None:
    """The times that are listed, or those of the array that is named; None by default."""
    if not isinstance(file.times, str):
        return file.times
    values = np.squeeze(arrays[file.times])  # MAT files store rows or columns
    if values.ndim != 1:
        raise ValueError(f"times {file.times!r} have shape {values.shape}; expected (frames,)")
    return tuple(map(float, values))


def _refuse_scattered(file: DataFile, inputs: Tensor) -> None:
    count, shape, even = len(inputs), inputs.shape[2:], True
    with open_arrays(file.path) as (_, arrays):
        for name, array in arrays.items():
            sizes = [n for n in array.shape if n > 1]
            if array.block is None or name in (*file.inputs, *file.outputs) or count in sizes:
                continue
            if len(sizes) == 1 and sizes[0] in shape and name.lower() in COORDINATES:
                x = array.read().ravel().astype(float)
                even = evenly_spaced(x if x[0] < x[-1] else x[::-1])
            elif len(sizes) == 2 and len(shape) == 1 and shape[0] in sizes:
                even = min(sizes) > len(SPACE)
            if not even:
                wrong = f"its array {name} {array.shape} is not evenly spaced"
                cure = f"give scattered points as coordinates={name!r} or --coordinates {name}"
                raise PublishedFileError(f"{wrong}: {cure}")


def _fields(
    arrays: Mapping[str, np.ndarray], names: Sequence[str], option: str, axes: str | None
) -> tuple[Tensor, tuple[str, ...], str]:
    """Arrays as channels of one field (n, [t,] c, x, ...), the channels' names, and the axes."""
    shapes = {name: arrays[name].shape for name in names}
    first = shapes[names[0]]
    usual = None if 1 in first[1:] else USUAL_AXES.get(len(first))  # 1 is no number of points
    if (axes := axes or usual) is None:
        examples = "'ncx' or 'ncxy' for channels first, 'nxyc' for last, 'nxyt' for frames"
        cure = f"say what its axes are with {option}, for example {examples}"
        raise ValueError(f"array {names[0]!r} has shape {first}: {cure}")
    parts, channel = [_in_order(arrays[name], axes, name) for name in names], 1 + ("t" in axes)
    if len({part.shape[:channel] + part.shape[channel + 1 :] for part in parts}) > 1:
        raise ValueError(f"{shapes} cannot be channels of one field: their axes {axes!r} differ")
    channels = map(numbered, names, (part.shape[channel] for part in parts))
    return torch.cat(parts, dim=channel), tuple(chain.from_iterable(channels)), axes


def _in_order(array: np.ndarray, axes: str, name: str) -> Tensor:
    """(n, [t,] c, x, ...) from any order of axes, float64 or float32."""
    letters = axes.replace(" ", "")
    order = [letters.index(letter) for letter in "ntc" + SPACE if letter in letters]
    space = sum(letter in SPACE for letter in letters)
    if len(order) != len(letters) or "n" not in letters or not space:
        expected = "n samples, t time, c channels, x y z space, for example 'nxy' or 'nxyt'"
        raise ValueError(f"axes {axes!r} of {name!r}; expected letters once each: {expected}")
    if len(letters) != array.ndim:
        count = f"{axes!r} names {len(letters)} axes"
        raise ValueError(f"array {name!r} has shape {array.shape}, but {count}")
    dtype = np.float64 if array.dtype == np.float64 else np.float32
    check_memory(f"array {name}", array.size * np.dtype(dtype).itemsize)
    tensor = torch.from_numpy(np.require(array.transpose(order), dtype, ["C", "W"]))
    return tensor if "c" in letters else tensor.unsqueeze(-1 - space)


def read_published(
    path: str | Path, *, samples: slice | None = None, frames: int | None = None
) -> PublishedData:
    """Read some samples (a slice) and the first `frames` of a published file; all by default.

    Of MAT v7.3 and uncompressed MAT v5 files no more is read. A file that is damaged, of another
    layout or not finite, and samples or frames that it does not have, are a ValueError.
    """
    with open_arrays(path) as (file_format, arrays):
        layout, sizes, times, notes = _recognise(Path(path), file_format, arrays)
        if not isinstance(samples, slice | None):
            raise PublishedFileError(f"samples={samples!r}; give a slice, e.g. slice(0, 100)")
        rows = range(sizes["n"])[samples or slice(None)]
        if not rows or rows.step < 0:
            raise PublishedFileError(f"samples={samples}; expected some of 0 to {sizes['n'] - 1}")
        if frames is not None and not 1 <= frames <= sizes["t"]:
            raise PublishedFileError(f"frames={frames}; its outputs have {sizes['t']} frames")
        outputs = _read_finite(arrays[layout.outputs], layout.axes, rows, frames)
        inputs = None
        if layout.inputs is not None:
            axes = layout.axes.replace("t", "")
            inputs = _read_finite(arrays[layout.inputs], axes, rows, None)
    return PublishedData(layout.kind, inputs, outputs, times and times[:frames], notes)


def count_published(path: str | Path) -> int:
    """The number of samples of a published file."""
    with open_arrays(path) as (file_format, arrays):
        return _recognise(Path(path), file_format, arrays)[1]["n"]


def _read_finite(array: Array, axes: str, rows: range, frames: int | None) -> Tensor:
    """Some samples and frames of an array as float32 (n, [t,] c, x, ...), all finite."""
    parts = {"n": slice(rows.start, rows.stop, rows.step), "t": slice(frames)}
    block = array.read(tuple(parts.get(axis, slice(None)) for axis in axes))
    values = _in_order(block, axes, array.name).float()
    if (bad := not_finite(values)) is not None:
        wrong = f"array {array.name} is not finite in float32, first in sample {rows[bad]}"
        raise PublishedFileError(f"{wrong}; leave it out with samples=slice(...)")
    return values


def _recognise(
    path: Path, file_format: str, arrays: Mapping[str, Array]
) -> tuple[_Published, dict[str, int], tuple[float, ...] | None, tuple[str, ...]]:
    """The one published layout that the names and shapes fit, sizes of its axes, times, notes."""
    if file_format == "HDF5":
        raise PublishedFileError("it is HDF5, not of MATLAB: the order of its axes is not known")
    shapes = {n: a.shape for n, a in arrays.items() if a.block and math.prod(a.shape)}
    if any(name.endswith(".weight") for name in shapes):
        total = f"{len(shapes)} tensors with {sum(map(math.prod, shapes.values())):,} numbers"
        raise PublishedFileError(f"it holds network weights, {total}")
    fits = [layout for layout in _PUBLISHED if _fits(layout, shapes)]
    if len(fits) != 1:
        listed = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise PublishedFileError(
            f"it holds {listed[:500] or 'no arrays'}, which fits {'several' if fits else 'none'} "
            f"of the published layouts ({EXPECTED}); give a file as published"
        )
    sizes = {"t": 0} | dict(zip(fits[0].axes, shapes[fits[0].outputs], strict=True))
    return fits[0], sizes, *_times_and_notes(path, fits[0], arrays, sizes["t"])


def _fits(layout: _Published, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    shape = shapes.get(layout.outputs, ())
    square = layout.kind != "navier-stokes" or len(set(shape[1:3])) == 1 < max(shape[1:3])
    if len(shape) != len(layout.axes) or not square:
        return False
    if layout.inputs is None:
        return layout.outputs == BARE or "a" not in shapes
    static = tuple(n for n, axis in zip(shape, layout.axes, strict=True) if axis != "t")
    return shapes.get(layout.inputs) == static


def _times_and_notes(
    path: Path, layout: _Published, arrays: Mapping[str, Array], frames: int
) -> tuple[tuple[float, ...] | None, tuple[str, ...]]:
    """The time of each frame, None where it is not known, and what a user should know."""
    times: tuple[float, ...] | None = (1.0,) if layout.kind == "burgers" else None
    notes, used = list[str](), {layout.inputs, layout.outputs}
    if layout.kind == "heat" and frames == 21:
        times = tuple(k / 20 for k in range(21))
        notes = ["the file stores no times: 0, 0.05, ..., 1 by its recipe"]
    elif layout.kind == "heat":
        notes = ["the file stores no times"]
    elif layout.kind == "navier-stokes":
        used.add("t")
        times, notes = _vorticity_times(arrays[layout.outputs].shape, arrays.get("t"))
        named = re.search(r"_T(\d+)", path.stem)
        inside = sum(time <= int(named[1]) for time in times) if named else frames
        if named and 0 < inside < frames:
            last = f"frames go on to t = {times[-1]:g}, but the name says T{named[1]}"
            notes.append(f"{last}: frames={inside} reads those of the name")
    if unread := [name for name in arrays if name not in used]:
        notes.append(f"arrays that are not read: {', '.join(unread)}")
    return times, tuple(notes)


def _vorticity_times(
    shape: tuple[int, ...], stored: Array | None
) -> tuple[tuple[float, ...], list[str]]:
    """The times of the frames: those stored, or index + 1, the convention of the data sets."""
    frames = shape[-1]
    whole = tuple(float(k + 1) for k in range(frames))
    if stored is None or stored.block is None:
        # The only file with another spacing has 200 frames of 256 x 256 up to t = 50.
        if shape[1:] == (256, 256, 200):
            return tuple(time / 4 for time in whole), [_SPACED.format(4, 3, 7, 11)]
        return whole, ["the file stores no times: the time of a frame is its index + 1"]
    if math.prod(stored.shape) > _MOST_TIMES:
        raise PublishedFileError(f"t has shape {stored.shape}, no list of times; {AGAIN}")
    # Times were summed up step by step in single precision.
    listed = stored.read().ravel().astype(float).round(6)
    times = tuple(listed.tolist())
    if len(times) != frames and times[:frames] == whole[: len(times)]:
        return whole, [f"t lists {len(times)} times for {frames} frames: index + 1 is used"]
    if len(times) != frames or not np.isfinite(listed).all() or not (np.diff(listed) > 0).all():
        misfit = f"{len(times)} times that fit no {frames} frames or do not increase"
        raise PublishedFileError(f"t has {misfit}; {AGAIN}")
    per_unit = round(1 / times[0]) if 0 < times[0] < 1 else 1
    spaced = per_unit > 1 and np.allclose(listed * per_unit, whole)
    return times, [_SPACED.format(per_unit, *(per_unit * k - 1 for k in (1, 2, 3)))] * spaced


def _open_published(path: Path) -> OperatorDataset:
    published = read_published(path)
    outputs, times, dim = published.outputs, published.times, PROBLEMS[published.kind].dim
    frames, shape = outputs.dim() == dim + 3, tuple(outputs.shape[-dim:])
    if frames and times is None:
        raise ValueError(f"{path} stores no times of its frames: {NAME_THEM}, and their times")
    if times is not None and not frames:  # a file with one time has no axis for it
        outputs = outputs[:, None]
    grid = Grid.cells(shape) if published.kind == "darcy" else Grid(shape)
    # files of trajectories may lack the initial state; a window of frames needs none
    inputs = outputs[:, 0] if published.inputs is None else published.inputs
    return OperatorDataset.from_arrays(inputs, outputs, grid, times)


def describe_data(file: DataFile) -> str:
    """The arrays of a file or folder with shapes and ranges, and the dataset they make."""
    path, own = file.path, bool(file.keyword_arguments())
    if (path / MANIFEST).is_file():
        manifest, lines = read_manifest(path), [describe_dataset(path)]
        # partial or damaged datasets are not read
        if manifest.complete and all((path / shard.file).is_file() for shard in manifest.shards):
            lines += _channel_lines(open_dataset(path, verify=False))
    elif is_well(path) and file.input_axes is None:
        data = open_file(file)
        lines = [f"{path}: in The Well's layout", repr(data), *_channel_lines(data)]
    else:
        lines = list(_file_lines(path, own=own or path.is_dir()))
        if own:
            data = open_file(file)
            lines += [repr(data), *_channel_lines(data)]
    return "\n".join(lines)


def _channel_lines(data: OperatorDataset) -> Iterator[str]:
    rows, part = _first_rows(len(data), sum(part.numel() for part in data[0]), "samples")
    parts = zip(("input", "output"), data.channels, data.batch(range(rows)), strict=True)
    for kind, names, field in parts:
        axes = (data.grid if kind == "input" else data.target_grid).space_axes
        for name, values in zip(names, field.unbind(-1 - axes), strict=True):
            yield f"  {kind:10} {name} {tuple(values.shape[1:])}: {_range(values.numpy())}{part}"


def _file_lines(path: Path, *, own: bool) -> Iterator[str]:
    with open_arrays(path) as (file_format, arrays):
        size = "" if path.is_dir() else f", {os.path.getsize(path):,} bytes"
        yield f"{path.name}: {file_format}{size}"
        listed = [f"  {name} {array.shape} {array.dtype}" for name, array in arrays.items()]
        yield from listed[:_MOST_LISTED]
        if len(listed) > _MOST_LISTED:
            yield f"  ... and {len(listed) - _MOST_LISTED} more"
        if not own:
            yield from _published_lines(path, file_format, arrays)
        for name, array in arrays.items():
            if array.block is not None and array.shape and 0 not in array.shape:
                rows, part = _first_rows(array.shape[0], math.prod(array.shape[1:]), "rows")
                yield f"  {name}: {_range(array.read((slice(rows),)))}{part}"


def _first_rows(count: int, size: int, what: str) -> tuple[int, str]:
    """How many rows of `size` numbers are read for ranges, and a remark if that is not all."""
    rows = min(count, max(1, MOST_READ // size))
    return rows, f" in the first {rows} of {count} {what}" * (rows < count)


def _published_lines(path: Path, file_format: str, arrays: Mapping[str, Array]) -> Iterator[str]:
    try:
        layout, sizes, times, notes = _recognise(path, file_format, arrays)
    except PublishedFileError as problem:
        yield f"if it is your own, {NAME_THEM}"
        yield f"not published data: {problem}"
        return
    points = " x ".join(str(sizes[axis]) for axis in "xy" if axis in sizes)
    yield f"{layout.kind}: {sizes['n']} samples on {points} points"
    yield f"  inputs {layout.inputs or 'not in the file'}, outputs {layout.outputs}"
    if sizes["t"]:
        span = f", t = {times[0]:g} to {times[-1]:g}" if times else ""
        yield f"  {sizes['t']} frames{span}"
    yield from (f"  note: {note}" for note in notes)


def _range(values: np.ndarray) -> str:
    """Smallest and largest number, and how many are not finite."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return "no finite number"
    bad = f", {values.size - finite.size:,} NaN or infinite" * (finite.size < values.size)
    return f"{finite.min():.4g} .. {finite.max():.4g}{bad}"


def read_meshes(
    files: Path | str | Sequence[Path | str],
    inputs: str | Sequence[str],
    outputs: str | Sequence[str],
    *,
    box: tuple[float, float] | None = None,
    transform: Transform = "sum",
) -> OperatorDataset:
    """A dataset of mesh files, one sample each, on the vertices that belong to cells.

    What meshio (extra points) reads: VTK, Gmsh, XDMF and others. Triangles or tetrahedra give the
    quadrature weights, point data are the fields.

    Arguments:
        inputs: Names of point data that become the channels of the inputs; vectors become several.
        outputs: Those of the outputs.
        box: Coordinates that become 0 and 1, the same for all axes and files; by default those
            that all meshes fit into.
    """
    files = [files] if isinstance(files, (str, Path)) else files
    if not files:
        raise ValueError("no mesh files; expected one for each sample")
    inputs, outputs = ([part] if isinstance(part, str) else part for part in (inputs, outputs))
    meshes = [_read_mesh(Path(file), [*inputs, *outputs]) for file in files]
    if len({x.shape[1] for x, _, _ in meshes}) > 1:
        raise ValueError("some of the meshes are plane and others are not; expected alike")
    if box is None:
        box = min(float(x.min()) for x, _, _ in meshes), max(float(x.max()) for x, _, _ in meshes)
    scaled = [(x - box[0]) / (box[1] - box[0]) for x, _, _ in meshes]
    sets = [Points.of_mesh(x, cells) for x, (_, cells, _) in zip(scaled, meshes, strict=True)]
    points = Points(scaled, [part.weights for part in sets], transform=transform)
    f, u = (
        [torch.from_numpy(np.concatenate([data[name] for name in names])) for _, _, data in meshes]
        for names in (inputs, outputs)
    )
    names = {name: numbered(name, len(values)) for name, values in meshes[0][2].items()}
    before, after = ([n for name in part for n in names[name]] for part in (inputs, outputs))
    return OperatorDataset.from_arrays(f, u, points, channels=(before, after))


def _read_mesh(
    file: Path, names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Vertices (P, d), cells (M, d + 1) and point data (C, P) of a file."""
    meshio = require("meshio", "points")
    try:
        mesh = meshio.read(file)
    except (SystemExit, Exception) as problem:  # meshio ends the process where it cannot read
        raise ValueError(f"{file} is no mesh that meshio can read ({problem})") from problem
    x = np.asarray(mesh.points, dtype=float)
    extent = np.ptp(x, axis=0)
    x = x[:, extent > FLAT * extent.max()]
    kind = {1: "line", 2: "triangle", 3: "tetra"}[x.shape[1]]
    if kind not in mesh.cells_dict:
        existing = ", ".join(mesh.cells_dict) or "none"
        raise ValueError(f"{file} has cells of the types {existing}; expected {kind}")
    cells = np.asarray(mesh.cells_dict[kind])
    for name in names:
        if name in mesh.cell_data and name not in mesh.point_data:
            cure = "interpolate them to the vertices"
            raise ValueError(f"{name!r} of {file} are cell data; expected point data: {cure}")
        check_choice(f"point data of {file}", name, mesh.point_data)
    used, numbers = np.unique(cells, return_inverse=True)
    data = {
        name: np.asarray(mesh.point_data[name], dtype=float).reshape(len(x), -1)[used].T
        for name in names
    }
    return x[used], numbers.reshape(cells.shape), data
