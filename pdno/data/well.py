"""The Well: read its HDF5 files as datasets, and write datasets in its layout.

A file has groups of scalar (t0), vector (t1) and matrix (t2) fields, of shape (B, T, *N, d, ...)
without the axes of samples, time or space along which a field does not vary. Folders have files of
the same fields, and a whole dataset has them in data/train, data/valid and data/test. The layout:
https://polymathic-ai.org/the_well/data_format/.

As an operator: inputs are the fields that do not vary in time and the first frame of those that
do, outputs all frames of these. Components of vectors are channels, velocity_x and velocity_y.
"""

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import torch
import yaml
from torch import Tensor

from pdno.data.array_files import explained_reading, hdf5_array
from pdno.data.dataset import OperatorDataset, open_dataset
from pdno.data.foreign_hdf5 import look_through, open_hdf5
from pdno.data.problems import Layout
from pdno.data.shards import MANIFEST
from pdno.data.sources import Channels, Field, FileSource, not_finite
from pdno.files.atomic import write_text
from pdno.files.limits import check_memory
from pdno.interface.errors import check_choice
from pdno.spectral.grid import Grid

SPLITS = ("train", "valid", "test")
GROUPS = {"t0_fields": 0, "t1_fields": 1, "t2_fields": 2, "scalars": 0}
"""Groups of a file, and the number of indices of the components of their fields."""
SAME = 1e-3  # relative to the spacing: coordinates are in single precision


def open_well(path: Path | str, split: str | None = None, **layout: Any) -> OperatorDataset:
    """A dataset of The Well: a file, a folder of files, or a whole dataset, of which one split.

    Arguments:
        split: train (the default of a whole dataset), valid or test.
        **layout: `inputs` and `outputs` name other fields, or scalars as inputs; `times`,
            `periodic` and `offset` replace what the files say.
    """
    folder = Path(path)
    if (folder / "data").is_dir():
        folder = folder / "data" / (split or SPLITS[0])
    elif split is not None:
        raise ValueError(f"{path} has no folder data with splits: leave out split={split!r}")
    if (folder / MANIFEST).is_file() and not layout:  # which says more than its files
        return open_dataset(folder)
    files = _files(folder)
    if not files:
        raise ValueError(f"{folder} has no HDF5 files; The Well has them in data/train")
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
    except Exception:  # damaged bytes make h5py fail in many ways; readers explain them
        return False


def _files(path: Path) -> list[Path]:
    files = [*path.glob("*.h5"), *path.glob("*.hdf5")] if path.is_dir() else [path]
    return sorted(file for file in files if file.is_file())


@contextmanager
def _opened(path: Path) -> Iterator[h5py.File]:
    with explained_reading(path), open_hdf5(path) as file:
        yield file


class _Header(NamedTuple):
    path: Path
    samples: int
    axes: tuple[str, ...]
    grid: Grid
    times: tuple[float, ...]
    fields: dict[str, Field]
    double: bool


def _read_header(path: Path) -> _Header:
    size, coordinates = os.path.getsize(path), dict[str, np.ndarray]()
    with _opened(path) as file:
        count, dimensions = int(file.attrs["n_trajectories"]), file["dimensions"]
        axes = tuple(map(_text, dimensions.attrs["spatial_dims"]))
        for name in (*axes, "time"):
            values = hdf5_array(name, dimensions[name], size).read().astype(float)
            # coordinates or times that vary from sample to sample have an axis for them
            coordinates[name] = values.reshape(-1, values.shape[-1])[0]
        times = tuple(coordinates.pop("time").tolist())
        shape = tuple(map(len, coordinates.values()))
        fields = dict(_read_fields(file, len(axes), size))
        for name, field in fields.items():
            stored, expected = file[field.path].shape, field.stored_shape(count, len(times), shape)
            # a scalar that does not vary may be one number or an array of one
            if stored != expected and not (expected == () and stored == (1,)):
                raise ValueError(f"{name} has shape {stored}, its attributes say {expected}")
            whole = len(shape) ** field.order * (len(times) if field.by_time else 1)
            check_memory(f"one sample of field {name}", 8 * whole * math.prod(shape))
        types = {file[field.path].dtype.newbyteorder("=") for field in fields.values()}
        boundaries = file["boundary_conditions"].values()
        ends = {_text(boundary.attrs["bc_type"]).lower() for boundary in boundaries}
    grid = _grid(path, coordinates, periodic=ends <= {"periodic"})
    return _Header(path, count, axes, grid, times, fields, np.dtype("f8") in types)


def _read_fields(file: h5py.File, dim: int, size: int) -> Iterator[tuple[str, Field]]:
    for group, order in GROUPS.items():
        for name in map(_text, file[group].attrs["field_names"] if group in file else ()):
            item = file[group][name]
            if hdf5_array(name, item, size).block is None:
                raise ValueError(f"{group}/{name} holds no real numbers")
            flags = item.attrs
            by_axis = (False,) * dim if group == "scalars" else map(bool, flags["dim_varying"])
            by = bool(flags["sample_varying"]), bool(flags["time_varying"])
            yield name, Field(f"{group}/{name}", order, *by, tuple(by_axis))


def evenly_spaced(x: np.ndarray) -> bool:
    """Whether coordinates are those of points with one distance."""
    steps = np.diff(x)
    return len(steps) > 0 and steps.min() > 0 and bool(np.ptp(steps) <= SAME * steps.mean())


def _grid(path: Path, axes: dict[str, np.ndarray], *, periodic: bool) -> Grid:
    """The grid of evenly spaced coordinates, whatever their unit."""
    offsets = []
    for name, x in axes.items():
        if not evenly_spaced(x):
            cure = "name arrays and axes, for example inputs='t0_fields/NAME', input_axes='nxy'"
            raise ValueError(f"the coordinates {name} of {path} are not evenly spaced: {cure}")
        offsets.append(float(x[0] / np.diff(x).mean()))
    # points are centres of cells only where they begin half a cell from the origin
    shape = tuple(map(len, axes.values()))
    centres = all(abs(offset - 0.5) < SAME * max(shape) for offset in offsets)
    return Grid(shape, periodic, 0.5 if centres else 0.0)


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


class WellSource(FileSource):
    """Samples of files in The Well's layout."""

    def __init__(self, files: Sequence[Path], layout: Layout) -> None:
        look_through(files)
        headers = [_read_header(path) for path in files]
        self.files, self.counts = files, [header.samples for header in headers]
        first, *others = headers
        for header in others:
            for name in ("axes", "grid", "fields") + ("times",) * (layout.times is None):
                if getattr(header, name) != getattr(first, name):
                    raise ValueError(f"{header.path} and {first.path} have different {name}")
        chosen = _choose(first, layout)
        self.fields = [[first.fields[name] for name in names] for names in chosen]
        if isinstance(layout.times, str):
            cure = "leave out times, or list them"
            raise ValueError(f"{first.path} has times of its own, not {layout.times!r}: {cure}")
        self.times = (layout.times or first.times) if self.fields[1][0].by_time else None
        if self.times is not None and len(self.times) != len(first.times):
            raise ValueError(f"{len(self.times)} times for {len(first.times)} frames")
        asked = layout.model_dump(include={"periodic", "offset"}, exclude_none=True)
        self.grid = replace(first.grid, **asked)
        usual = [[n for f in fields for n in f.channels(first.axes)] for fields in self.fields]
        named = layout.input_channels or usual[0], layout.output_channels or usual[1]
        if list(map(len, named)) != list(map(len, usual)):
            raise ValueError(f"names of channels are {named}; expected as many as {usual}")
        self.channels = Channels(*map(tuple, named))
        self.pde_parameters = {}
        self.dtype = torch.float64 if any(header.double for header in headers) else torch.float32

    def opened(self, number: int) -> AbstractContextManager[h5py.File]:
        return _opened(self.files[number])

    def read(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        parts = super().read(indices)
        for part in parts:
            if (bad := not_finite(part)) is not None:
                where = f"sample {indices[bad]} of {self.files[0].parent}"
                raise ValueError(f"{where} has NaN or infinity: leave it out with subset")
        return parts


def _choose(header: _Header, layout: Layout) -> tuple[tuple[str, ...], tuple[str, ...]]:
    spatial = [name for name, f in header.fields.items() if not f.path.startswith("scalars")]
    varying = tuple(name for name in spatial if header.fields[name].by_time)
    constant = tuple(name for name in spatial if not header.fields[name].by_time)
    inputs, outputs = layout.inputs or constant + varying, layout.outputs or varying
    for name in (*inputs, *outputs):
        check_choice(f"field of {header.path}", name, header.fields)
    fields = f"{', '.join(varying) or 'none'} vary in time, {', '.join(constant) or 'none'} do not"
    if not outputs:
        raise ValueError(f"{header.path}: name inputs and outputs; {fields}")
    alike = len({header.fields[name].by_time for name in outputs}) == 1
    if not alike or any(name not in spatial for name in outputs):
        wrong = f"outputs {', '.join(outputs)} of {header.path} are not alike"
        raise ValueError(f"{wrong}: name fields that all vary in time or all do not; {fields}")
    return inputs, outputs


def save_well(folder: Path | str, **splits: OperatorDataset) -> Path:
    """Write train=, valid= and test= as a dataset of The Well: data/SPLIT and stats.yaml.

    The statistics, with which its loader normalises, are mean, standard deviation and root mean
    square of every field of the training samples, and of its steps in time.
    """
    target, statistics = Path(folder), dict[str, dict[str, float]]()
    if splits.keys() - set(SPLITS) or "train" not in splits:
        raise ValueError(f"splits {', '.join(splits)}; expected train and any of {SPLITS[1:]}")
    for split, data in splits.items():
        data.save(target / "data" / split)
    saved = open_dataset(target / "data" / "train")
    for names, field in zip(saved.channels, saved.to(torch.float64).batch(), strict=True):
        in_time = saved.times is not None and names is saved.channels.outputs
        for name, values in zip(names, field.unbind(-1 - saved.grid.dim), strict=True):
            parts = {"": values} | ({"_delta": values.diff(dim=1)} if in_time else {})
            for end, part in parts.items():
                if part.numel():
                    moments = part.mean(), part.std(correction=0), part.square().mean().sqrt()
                    for key, number in zip(("mean", "std", "rms"), moments, strict=True):
                        statistics.setdefault(key + end, {})[name] = float(number)
    write_text(target / "stats.yaml", yaml.safe_dump(statistics))
    return target
