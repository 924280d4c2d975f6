"""The Well: its HDF5 files as a dataset, and datasets of ours in its folders.

A file has groups of scalar (t0), vector (t1) and matrix (t2) fields, of shape (B, T, *N, d, ...)
where the axes of samples, time or space are left out if a field does not vary along them. Folders
have files of the same fields, and a whole dataset has them in data/train, data/valid and
data/test. The layout: https://polymathic-ai.org/the_well/data_format/.

As an operator: inputs are the fields that do not vary in time and the first frame of those that
do, outputs all frames of these. Components of vectors are channels, velocity_x and velocity_y.
"""

__all__ = ["WellSource", "is_well", "open_well", "save_well"]

import itertools
import math
import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
import yaml
from torch import Tensor

from pdno.data.array_files import Numbers, PublishedFileError, hdf5_array
from pdno.data.dataset import OperatorDataset, open_dataset
from pdno.data.foreign_hdf5 import look_through, open_hdf5
from pdno.data.layout import Layout
from pdno.data.manifest import MANIFEST
from pdno.data.sources import Channels
from pdno.files.atomic import write_text
from pdno.files.limits import MemoryLimitError, check_memory
from pdno.files.tensor_file import AGAIN
from pdno.spectral.grid import Grid

SPLITS = ("train", "valid", "test")
SAME = 1e-3  # relative to the spacing: coordinates are in single precision


def open_well(path: Path | str, split: str | None = None, **layout: Any) -> OperatorDataset:
    """A dataset of The Well: a file, a folder of files, or a whole dataset, of which one split.

    Arguments:
        split: train (the default of a whole dataset), valid or test.
        **layout: `inputs` and `outputs` name other fields, or scalars as inputs; `times`,
            `periodic` and `offset` replace what the files say.
    """
    place = Path(path)
    if (place / "data").is_dir():
        place = place / "data" / (split or SPLITS[0])
    elif split is not None:
        raise ValueError(f"{path} has no folder data with splits: leave out split={split!r}")
    if (place / MANIFEST).is_file() and not layout:  # which says more than its files
        return open_dataset(place)
    files = _files(place)
    if not files:
        raise ValueError(
            f"{place} has no HDF5 files; The Well has them in data/{'|'.join(SPLITS)}"
        )
    return OperatorDataset(WellSource(files, Layout(**layout)))


def is_well(path: Path) -> bool:
    """Whether a file, or the files of a folder, are in The Well's layout; headers decide."""
    if (path / "data").is_dir():
        return any(is_well(path / "data" / split) for split in SPLITS)
    files = _files(path)
    if not files or not h5py.is_hdf5(files[0]):
        return False
    try:
        with open_hdf5(files[0]) as file:
            return "n_spatial_dims" in file.attrs and "dimensions" in file and "t0_fields" in file
    except Exception:  # damaged bytes make h5py stumble in many ways; readers say how
        return False


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        inside = [*path.glob("*.h5"), *path.glob("*.hdf5")]
        return sorted(one for one in inside if one.is_file())
    return [path] if path.is_file() else []


@contextmanager
def _opened(path: Path) -> Iterator[h5py.File]:
    try:
        with open_hdf5(path) as file:
            yield file
    except (MemoryLimitError, PublishedFileError) as problem:
        raise ValueError(f"cannot read {path} in The Well's layout: {problem}") from problem
    except Exception as problem:
        told = str(problem).strip("'\"")
        raise ValueError(f"cannot read {path} in The Well's layout: {told}; {AGAIN}") from problem


@dataclass(frozen=True)
class _Field:
    """A field or scalar of a file: where it is, and along which axes it varies."""

    place: str
    order: int
    by_sample: bool
    by_time: bool
    by_axis: tuple[bool, ...]

    def components(self, name: str, axes: Sequence[str]) -> list[str]:
        """Names of its channels."""
        indices = ("".join(index) for index in itertools.product(axes, repeat=self.order))
        return [f"{name}_{index}" if index else name for index in indices]

    def read(
        self, file: h5py.File, row: int, frames: slice | int, shape: Sequence[int]
    ) -> Numbers:
        """One sample as channels first, ([T,] C, *N)."""
        cut: tuple[Any, ...] = (row,) * self.by_sample + (frames,) * self.by_time
        block = np.asarray(file[self.place][cut])
        ahead = block.shape[: self.by_time and isinstance(frames, slice)]
        sizes = [n if varies else 1 for n, varies in zip(shape, self.by_axis, strict=True)]
        components = len(shape) ** self.order
        block = block.reshape(*ahead, *sizes, components)
        block = np.broadcast_to(block, (*ahead, *shape, components))
        return np.moveaxis(block, -1, len(ahead))


@dataclass(frozen=True)
class _Header:
    """What a file says of its samples."""

    path: Path
    count: int
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    grid: Grid
    times: tuple[float, ...]
    fields: dict[str, _Field]
    double: bool


def _read_header(path: Path) -> _Header:
    size = os.path.getsize(path)
    with _opened(path) as file:
        count, dimensions = int(file.attrs["n_trajectories"]), file["dimensions"]
        axes = tuple(map(_text, dimensions.attrs["spatial_dims"]))
        for name in (*axes, "time"):
            hdf5_array(name, dimensions[name], size, matlab=False)  # refuses what is too large
            check_memory(f"dimension {name}", 8 * dimensions[name].size)
        points = [np.asarray(dimensions[axis], dtype=float) for axis in axes]
        # coordinates or times that vary from sample to sample have an axis for them
        points = [x.reshape(-1, x.shape[-1])[0] for x in points]
        shape = tuple(map(len, points))
        times = np.asarray(dimensions["time"], dtype=float)
        times = times.reshape(-1, times.shape[-1])[0]
        fields, kinds = dict(_read_fields(file, len(axes), size)), set()
        expected = {"n": count, "t": len(times)}
        for name, field in fields.items():
            kinds.add(file[field.place].dtype)
            _check_shape(name, field, file[field.place].shape, expected, shape)
            whole = len(shape) ** field.order * (len(times) if field.by_time else 1)
            check_memory(f"one sample of field {name}", 8 * whole * math.prod(shape))
        boundaries = file["boundary_conditions"].values()
        periodic = all(_text(one.attrs["bc_type"]).lower() == "periodic" for one in boundaries)
    grid = _grid(path, dict(zip(axes, points, strict=True)), periodic=periodic)
    double = np.dtype("f8") in {kind.newbyteorder("=") for kind in kinds}
    return _Header(path, count, axes, shape, grid, tuple(times.tolist()), fields, double)


def _read_fields(file: h5py.File, dim: int, size: int) -> Iterator[tuple[str, _Field]]:
    for group, order in (("t0_fields", 0), ("t1_fields", 1), ("t2_fields", 2), ("scalars", 0)):
        for name in map(_text, file[group].attrs["field_names"] if group in file else ()):
            item = file[group][name]
            if hdf5_array(name, item, size, matlab=False).read is None:
                raise ValueError(f"{group}/{name} holds no real numbers")
            flags = item.attrs
            varies = (
                (False,) * dim if group == "scalars" else tuple(map(bool, flags["dim_varying"]))
            )
            by = bool(flags["sample_varying"]), bool(flags["time_varying"])
            yield name, _Field(f"{group}/{name}", order, *by, varies)


def _check_shape(
    name: str, field: _Field, given: Sequence[int], sizes: dict[str, int], shape: Sequence[int]
) -> None:
    wanted = [sizes["n"]] * field.by_sample + [sizes["t"]] * field.by_time
    wanted += [n for n, varies in zip(shape, field.by_axis, strict=True) if varies]
    wanted += [len(shape)] * field.order
    # a scalar that does not vary may be one number or an array of one
    if tuple(given) != tuple(wanted) and not (wanted == [] and tuple(given) == (1,)):
        raise ValueError(f"{name} has shape {tuple(given)}, its attributes say {tuple(wanted)}")


def _grid(path: Path, axes: dict[str, Numbers], *, periodic: bool) -> Grid:
    """The grid of evenly spaced coordinates, whatever their unit."""
    offsets = []
    for name, x in axes.items():
        steps = np.diff(x)
        if len(steps) == 0 or steps.min() <= 0 or np.ptp(steps) > SAME * steps.mean():
            raise ValueError(
                f"the coordinates {name} of {path} are not evenly spaced, as grids are here: name "
                "arrays and their axes, for example inputs='t0_fields/NAME', input_axes='nxy'"
            )
        offsets.append(float(x[0] / steps.mean()))
    # only half a cell from the origin says that points are centres of cells
    shape = tuple(map(len, axes.values()))
    centres = all(abs(offset - 0.5) < SAME * max(shape) for offset in offsets)
    return Grid(shape, periodic, 0.5 if centres else 0.0)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


class WellSource:
    """Samples of files in The Well's layout; only what is asked for is read."""

    pde_parameters: Mapping[str, Tensor] = {}

    def __init__(self, files: Sequence[Path], layout: Layout) -> None:
        look_through(files)
        self.headers = [_read_header(path) for path in files]
        self.starts = [0, *itertools.accumulate(header.count for header in self.headers)]
        first = self.headers[0]
        for header in self.headers[1:]:
            alike = ("axes", "grid", "fields") + ("times",) * (layout.times is None)
            for what in alike:
                if getattr(header, what) != getattr(first, what):
                    told = f"{header.path} and {first.path} have different {what}"
                    raise ValueError(f"{told}: read those that are alike, file by file")
        self.inputs, self.outputs = _choose(first, layout)
        self.in_time = first.fields[self.outputs[0]].by_time
        self.times = (layout.times or first.times) if self.in_time else None
        if self.times is not None and len(self.times) != len(first.times):
            raise ValueError(f"{len(self.times)} times for {len(first.times)} frames")
        periodic = first.grid.periodic if layout.periodic is None else layout.periodic
        offset = first.grid.offset if layout.offset is None else layout.offset
        self.grid = Grid(first.shape, periodic, offset)
        names = [
            tuple(c for name in part for c in first.fields[name].components(name, first.axes))
            for part in (self.inputs, self.outputs)
        ]
        self.channels = Channels(
            layout.input_channels or names[0], layout.output_channels or names[1]
        )
        if [len(part) for part in self.channels] != [len(part) for part in names]:
            raise ValueError(f"names of channels are {self.channels}; expected as many as {names}")
        self.dtype = torch.float64 if any(one.double for one in self.headers) else torch.float32

    def __len__(self) -> int:
        return self.starts[-1]

    def read(self, rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Inputs and outputs of some samples, one visit to each file."""
        found: dict[int, tuple[Tensor, Tensor]] = {}
        for number, header in enumerate(self.headers):
            inside = [row for row in rows if bisect_right(self.starts, row) - 1 == number]
            if not inside:
                continue
            with _opened(header.path) as file:
                for row in inside:
                    found[row] = self._sample(header, file, row - self.starts[number])
        for row, parts in found.items():
            if not all(bool(part.isfinite().all()) for part in parts):
                told = "has NaN or infinity: leave it out with subset"
                raise ValueError(f"sample {row} of {self.headers[0].path.parent} {told}")
        inputs, outputs = zip(*(found[row] for row in rows), strict=True)
        return torch.stack(inputs), torch.stack(outputs)

    def _sample(self, header: _Header, file: h5py.File, row: int) -> tuple[Tensor, Tensor]:
        parts = []
        for names, frames in ((self.inputs, 0), (self.outputs, slice(None))):
            fields = [header.fields[name].read(file, row, frames, header.shape) for name in names]
            block = np.concatenate(fields, axis=-1 - len(header.shape))
            values = torch.from_numpy(np.array(block, dtype=str(self.dtype)[6:]))
            parts.append(values)
        return parts[0], parts[1]


def _choose(header: _Header, layout: Layout) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The fields that are inputs and outputs."""
    spatial = {n: field for n, field in header.fields.items() if not field.place.startswith("sc")}
    varying = tuple(name for name, field in spatial.items() if field.by_time)
    constant = tuple(name for name, field in spatial.items() if not field.by_time)
    inputs, outputs = layout.inputs or constant + varying, layout.outputs or varying
    for name in (*inputs, *outputs):
        if name not in header.fields:
            known = ", ".join(header.fields)
            raise ValueError(f"{header.path} has no field {name!r}: it has {known}")
    if not outputs:
        raise ValueError(
            f"no field of {header.path} varies in time: name inputs and outputs among "
            f"{', '.join(constant)}"
        )
    kinds = {header.fields[name].by_time for name in outputs}
    if len(kinds) > 1 or any(name not in spatial for name in outputs):
        raise ValueError(
            f"outputs {', '.join(outputs)} of {header.path} are not alike: name fields that all "
            f"vary in time ({', '.join(varying)}) or all do not ({', '.join(constant)})"
        )
    return inputs, outputs


def save_well(folder: Path | str, **splits: OperatorDataset) -> Path:
    """Write train=, valid= and test= as a dataset of The Well: data/SPLIT and stats.yaml.

    The statistics, with which its loader normalises, are those of the training samples.
    """
    place, unknown = Path(folder), set(splits) - set(SPLITS)
    if unknown or "train" not in splits:
        raise ValueError(f"splits {', '.join(splits)}; expected train and any of {SPLITS[1:]}")
    for split, data in splits.items():
        data.save(place / "data" / split)
    saved = open_dataset(place / "data" / "train")
    write_text(place / "stats.yaml", yaml.safe_dump(_statistics(saved)))
    return place


def _statistics(data: OperatorDataset) -> dict[str, dict[str, float]]:
    """Mean, standard deviation and root mean square of every field, and of its steps in time."""
    found: dict[str, dict[str, float]] = {}
    for names, field in zip(data.channels, data.to(torch.float64).batch(), strict=True):
        for name, values in zip(names, field.unbind(-1 - data.grid.dim), strict=True):
            in_time = data.times is not None and names is data.channels.outputs
            for end, part in (("", values), ("_delta", values.diff(dim=1) if in_time else None)):
                if part is None or not part.numel():
                    continue
                spread = float(part.std(correction=0))
                for key, number in (("mean", float(part.mean())), ("std", spread)):
                    found.setdefault(key + end, {})[name] = number
                found.setdefault("rms" + end, {})[name] = float(part.square().mean().sqrt())
    return found
