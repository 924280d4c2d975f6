"""Your own data: any file or folder as a dataset, and its description.

One reader for all: `read_own` in Python, `file:` in specifications and `--file` on the command
line name inputs and outputs with the same options (`pdno.data.layout.Layout`). Dataset folders,
files of The Well and published files need none.
"""

__all__ = ["describe_data", "open_file", "read_inputs", "read_own"]

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pdno.data.array_files import Numbers, PublishedFileError, open_arrays, read_arrays
from pdno.data.dataset import OperatorDataset, open_dataset
from pdno.data.import_published import describe_file, read_published
from pdno.data.layout import NAME_THEM, DataFile, Layout
from pdno.data.manifest import MANIFEST, describe_dataset, read_manifest
from pdno.data.problems import PROBLEMS
from pdno.data.well import is_well, open_well
from pdno.spectral.grid import Grid

SPACE = "xyz"
USUAL_AXES = {2: "nx", 3: "nxy"}
MOST_READ = 2**24  # numbers of an array that are read for its range


def read_own(path: Path | str, **layout: Any) -> OperatorDataset:
    """A dataset from a file or folder of your own.

    Arguments:
        path: A .npz, .mat (old and new), HDF5 or torch file, a folder of .npy files, a file or
            folder of The Well, a dataset folder, or a published file.
        **layout: Names of the arrays (`inputs`, `outputs`), their axes (`input_axes="nxyc"`,
            `output_axes`), names of channels (`input_channels`, `output_channels`), `times` of the
            frames, and `periodic` and `offset` of the grid: see `pdno.data.layout.Layout`.
    """
    return open_file(DataFile(path=Path(path), **layout))


def open_file(file: DataFile) -> OperatorDataset:
    """The dataset of a file."""
    options = file.keyword_arguments()
    if (file.path / MANIFEST).is_file():
        if options:
            names = ", ".join(options)
            raise ValueError(f"{file.path} says itself what it holds: leave out {names}")
        return open_dataset(file.path)
    if is_well(file.path) and file.input_axes is None:
        return open_well(file.path, **options)
    if file.inputs and file.outputs:
        return _open_arrays(file)
    if file.path.is_dir() or options:
        names = ", ".join(read_arrays(file.path))
        missing = "inputs" if not file.inputs else "outputs"
        raise ValueError(
            f"{file.path} has the arrays {names}, but not which are {missing}: {NAME_THEM}"
        )
    try:
        return _open_published(file.path)
    except PublishedFileError as problem:
        cure = f"if {file.path} is your own, {NAME_THEM}"
        raise PublishedFileError(f"{cure}. As a published file: {problem}") from problem


def read_inputs(arrays: Mapping[str, Numbers], layout: Layout) -> Tensor:
    """The inputs (B, C, *N) alone, float32."""
    axes = layout.input_axes or _usual_axes("input_axes", arrays, layout.inputs[0])
    return _fields(arrays, layout.inputs, axes)[0].float()


def _open_arrays(file: DataFile) -> OperatorDataset:
    arrays = read_arrays(file.path, [*file.inputs, *file.outputs])
    input_axes = file.input_axes or _usual_axes("input_axes", arrays, file.inputs[0])
    output_axes = file.output_axes or input_axes
    if file.output_axes is None and arrays[file.outputs[0]].ndim != len(input_axes):
        output_axes = _usual_axes("output_axes", arrays, file.outputs[0])
    inputs, input_names = _fields(arrays, file.inputs, input_axes)
    if "t" in input_axes:
        raise ValueError(
            f"axes {input_axes!r} of the inputs have a time: use `outputs` for frames"
        )
    outputs, output_names = _fields(arrays, file.outputs, output_axes)
    space = sum(letter in SPACE for letter in input_axes)
    periodic = True if file.periodic is None else file.periodic
    grid = Grid(tuple(inputs.shape[-space:]), periodic, file.offset or 0.0)
    times: Sequence[float] | None = None
    if "t" in output_axes:
        times = range(1, outputs.shape[1] + 1) if file.times is None else file.times
    elif file.times is not None:
        raise ValueError(f"times are given, but axes {output_axes!r} of the outputs have no t")
    channels = (file.input_channels or input_names, file.output_channels or output_names)
    return OperatorDataset.from_arrays(inputs, outputs, grid, times, channels=channels)


def _usual_axes(option: str, arrays: Mapping[str, Numbers], name: str) -> str:
    """The default axes of an array."""
    shape = arrays[name].shape
    if len(shape) not in USUAL_AXES:
        raise ValueError(
            f"array {name!r} has shape {shape}: say what its axes are with {option}, for example "
            "'ncxy' for channels first, 'nxyc' for channels last, 'nxyt' for frames last"
        )
    return USUAL_AXES[len(shape)]


def _fields(
    arrays: Mapping[str, Numbers], names: Sequence[str], axes: str
) -> tuple[Tensor, tuple[str, ...]]:
    """Arrays as channels of one field (n, [t,] c, x, ...), and the names of these channels."""
    parts = [_canonical(arrays[name], axes, name) for name in names]
    channel = 1 + ("t" in axes)
    shapes = {part.shape[:channel] + part.shape[channel + 1 :] for part in parts}
    if len(shapes) > 1:
        listed = ", ".join(f"{name} {arrays[name].shape}" for name in names)
        raise ValueError(f"{listed} cannot be channels of one field: their axes {axes!r} differ")
    channels = [
        name if part.shape[channel] == 1 else f"{name}_{k}"
        for name, part in zip(names, parts, strict=True)
        for k in range(part.shape[channel])
    ]
    return torch.cat(parts, dim=channel), tuple(channels)


def _canonical(array: Numbers, axes: str, name: str) -> Tensor:
    """(n, [t,] c, x, ...) from any order of axes."""
    letters = axes.replace(" ", "")
    space = [letter for letter in SPACE if letter in letters]
    valid = set(letters) <= set("ntc" + SPACE) and len(set(letters)) == len(letters)
    if not valid or "n" not in letters or not space:
        raise ValueError(
            f"axes {axes!r} of {name!r}; expected letters once each: n samples, t time, c "
            "channels, x y z space, for example 'nxy' or 'nxyt'"
        )
    if len(letters) != array.ndim:
        shape = f"array {name!r} has shape {array.shape}"
        raise ValueError(f"{shape}, but {axes!r} names {len(letters)} axes")
    order = [letters.index(letter) for letter in ("n", "t", "c", *space) if letter in letters]
    dtype = np.float64 if array.dtype == np.float64 else np.float32
    tensor = torch.from_numpy(np.ascontiguousarray(np.transpose(array, order), dtype=dtype))
    return tensor if "c" in letters else tensor.unsqueeze(-1 - len(space))


def _open_published(path: Path) -> OperatorDataset:
    """A published file with the grid of its problem."""
    published = read_published(path)
    outputs, times = published.outputs, published.times
    dim = PROBLEMS[published.kind].dim
    frames = outputs.dim() == dim + 3
    if frames and times is None:
        raise ValueError(
            f"{path} does not tell the times of its frames: {NAME_THEM}, and their times"
        )
    if times is not None and not frames:  # a file with one time has no axis for it
        outputs = outputs[:, None]
    shape = tuple(outputs.shape[-dim:])
    grid = Grid.cells(shape) if published.kind == "darcy" else Grid(shape)
    # files of trajectories may lack the initial state; a window of frames needs none
    inputs = outputs[:, 0] if published.inputs is None else published.inputs
    return OperatorDataset.from_arrays(inputs, outputs, grid, times)


def describe_data(file: DataFile) -> str:
    """The arrays of a file or folder with shapes and ranges, and the dataset they make."""
    path, options = file.path, file.keyword_arguments()
    if (path / MANIFEST).is_file():
        manifest = read_manifest(path)
        intact = all((path / shard.file).is_file() for shard in manifest.shards)
        # partial or damaged datasets are not read
        values = _ranges(open_dataset(path, verify=False)) if manifest.complete and intact else []
        return "\n".join([describe_dataset(path), *values])
    if is_well(path) and file.input_axes is None:
        return "\n".join([f"{path}: in The Well's layout", *_dataset_lines(open_file(file))])
    if path.is_dir():
        arrays = read_arrays(path).items()
        lines = [f"{path}: {len(arrays)} .npy files"]
        lines += [f"  {name} {array.shape} {array.dtype}" for name, array in arrays]
        lines += [f"  {name}: {_range(array)}" for name, array in arrays if array.size]
    else:
        lines = [describe_file(path, own=bool(options)), *_array_ranges(path)]
    return "\n".join([*lines, *(_dataset_lines(open_file(file)) if options else [])])


def _array_ranges(path: Path) -> Iterator[str]:
    """The range of every array of real numbers, or of its first rows where it is large."""
    with open_arrays(path) as (_, arrays):
        for name, array in arrays.items():
            if array.read is None or not array.shape or 0 in array.shape:
                continue
            rows = min(array.shape[0], max(1, MOST_READ // math.prod(array.shape[1:])))
            part = f" in the first {rows} of {array.shape[0]} rows" * (rows < array.shape[0])
            yield f"  {name}: {_range(array.read((slice(rows), *array.whole()[1:])))}{part}"


def _dataset_lines(data: OperatorDataset) -> list[str]:
    kind = "torus" if data.grid.periodic else "box"
    points = " x ".join(map(str, data.grid.shape))
    line = f"dataset: {len(data)} samples on {points} points of a {kind}"
    if data.times is not None:
        line += f", {len(data.times)} frames, t = {data.times[0]:g} .. {data.times[-1]:g}"
    return [line, *_ranges(data)]


def _ranges(data: OperatorDataset) -> list[str]:
    """The range of every channel, in the first samples where there are many."""
    rows = min(len(data), max(1, MOST_READ // sum(part.numel() for part in data[0])))
    part = f" in the first {rows} of {len(data)} samples" * (rows < len(data))
    return [
        f"  {kind:10} {name} {tuple(values.shape[1:])}: {_range(values.numpy())}{part}"
        for kind, names, field in zip(
            ("input", "output"), data.channels, data.batch(range(rows)), strict=True
        )
        for name, values in zip(names, field.unbind(-1 - data.grid.dim), strict=True)
    ]


def _range(values: Numbers) -> str:
    """Smallest and largest number, and how many are not finite."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return "no finite number"
    bad = f", {values.size - finite.size:,} NaN or infinite" * (finite.size < values.size)
    return f"{finite.min():.4g} .. {finite.max():.4g}{bad}"
