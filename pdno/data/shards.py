"""Shards: HDF5 files in The Well's layout (docs/data_format.md), a checksum on every chunk.

A shard is built in memory and written in one go, so a full disk never leaves half an HDF5 file.
"""

__all__ = ["build_shard", "read_samples", "read_scalars"]

from collections.abc import Mapping
from pathlib import Path

import h5py
import numpy as np

from pdno.data.manifest import FieldKey, Manifest

AXES = ("x", "y", "z")
Scalars = Mapping[str, float | np.ndarray]


def build_shard(
    manifest: Manifest, first: int, inputs: np.ndarray, outputs: np.ndarray, scalars: Scalars
) -> bytes:
    """The bytes of a shard with samples first, first + 1, ...

    Shapes: inputs (B, C, *N); outputs (B, T, C, *N), or (B, C, *N) for a static problem. On disk
    every channel is a field of its own. Scalars are one number for all samples, or (B,) numbers.
    """
    # libver and track_order are fixed so that equal data give equal bytes
    with h5py.File(
        "shard.h5", "w", driver="core", backing_store=False, libver="v110", track_order=False
    ) as file:
        _write_root(file, manifest, first, len(inputs), scalars)
        _write_axes(file, manifest)
        fields = file.create_group("t0_fields")
        fields.attrs["field_names"] = [*manifest.names("input"), *manifest.names("output")]
        _write_field(fields, manifest, "input", inputs)
        _write_field(fields, manifest, "output", outputs)
        for rank in ("t1_fields", "t2_fields"):
            file.create_group(rank).attrs["field_names"] = np.array([], dtype="S1")
        file.flush()
        return bytes(file.id.get_file_image())


def read_samples(
    path: Path, name: str, rows: Mapping[int, int], values: np.ndarray, *, count: int
) -> None:
    """Read samples of one field of a shard, chunk by chunk with their checksums.

    `rows` has the sample of the shard for each place of `values`, (B, *N) or (B, T, *N), that is
    to be filled; `count` is the number of samples in the shard, as the manifest says.
    """
    expected = (count, *values.shape[1:])
    try:
        with h5py.File(path, "r") as file:
            field = file["t0_fields"][name]
            if field.shape != expected or field.dtype != values.dtype:
                found = f"{name} is {field.shape} {field.dtype}"
                raise ValueError(f"{found}, the manifest says {expected} {values.dtype}")
            for place, row in rows.items():
                field.read_direct(values, np.s_[row], np.s_[place])
    # Damaged bytes make h5py stumble in many ways; all mean the same.
    except Exception as error:
        raise _damaged(path, error) from error


def read_scalars(path: Path, name: str, count: int) -> np.ndarray:
    """A number of each sample of a shard, (B,) float64."""
    try:
        with h5py.File(path, "r") as file:
            values = np.asarray(file["scalars"][name][()], dtype="f8")
        if values.shape != (count,):
            raise ValueError(f"scalar {name} is {values.shape}, the manifest says ({count},)")
    except Exception as error:
        raise _damaged(path, error) from error
    return values


def _damaged(path: Path, error: Exception) -> ValueError:
    cure = "run the dataset's `pdno generate` command again to repair it"
    return ValueError(f"{path} is damaged or cannot be read ({error}): {cure}")


def _write_root(
    file: h5py.File, manifest: Manifest, first: int, count: int, scalars: Scalars
) -> None:
    file.attrs["dataset_name"] = f"pdno {manifest.problem}"
    file.attrs["grid_type"] = "cartesian"
    file.attrs["n_spatial_dims"] = len(manifest.grid.shape)
    file.attrs["n_trajectories"] = count
    nothing = np.array([], dtype="S1")
    constant = [name for name, value in scalars.items() if np.ndim(value) == 0]
    file.attrs["simulation_parameters"] = constant or nothing
    file.attrs["pdno_first_sample"] = first
    file.attrs["pdno_seed"] = manifest.seed
    group = file.create_group("scalars")
    group.attrs["field_names"] = list(scalars) or nothing
    for name, value in scalars.items():
        if name in constant:
            file.attrs[name] = value
        item = group.create_dataset(name, data=np.asarray(value, dtype="f8"))
        _mark_constant(item)
        if name not in constant:
            item.attrs["sample_varying"] = True


def _write_axes(file: h5py.File, manifest: Manifest) -> None:
    grid = manifest.grid.open()
    group = file.create_group("dimensions")
    group.attrs["spatial_dims"] = list(AXES[: grid.dim])
    times = group.create_dataset("time", data=np.array(manifest.times or (0.0,), dtype="f8"))
    # the time depends on the time: so The Well's own check of its layout wants it
    times.attrs["sample_varying"], times.attrs["time_varying"] = False, True
    for name, x in zip(AXES, grid.axes(), strict=False):
        _mark_constant(group.create_dataset(name, data=x.numpy()))
    kind = "periodic" if grid.periodic else "wall"
    group = file.create_group("boundary_conditions")
    for name, n in zip(AXES, grid.shape, strict=False):
        boundary = group.create_group(f"{name}_{kind}")
        boundary.attrs["associated_dims"] = [name]
        boundary.attrs["associated_fields"] = np.array([], dtype="S1")
        boundary.attrs["bc_type"] = kind
        _mark_constant(boundary)
        boundary.create_dataset("mask", data=np.isin(np.arange(n), (0, n - 1)))


def _mark_constant(item: h5py.Dataset | h5py.Group) -> None:
    item.attrs["sample_varying"] = item.attrs["time_varying"] = False


def _write_field(group: h5py.Group, manifest: Manifest, key: FieldKey, values: np.ndarray) -> None:
    shape, names = manifest.stored_shape(key), manifest.names(key)
    in_time = key == "output" and manifest.times is not None
    axis = 1 + in_time
    data = np.asarray(values).reshape(len(values), *shape[:in_time], len(names), *shape[in_time:])
    for name, channel in zip(names, np.moveaxis(data, axis, 0), strict=True):
        stored = np.ascontiguousarray(channel, dtype=manifest.dtype)
        field = group.create_dataset(name, data=stored, chunks=(1, *shape), fletcher32=True)
        field.attrs["dim_varying"] = [True] * len(manifest.grid.shape)
        field.attrs["sample_varying"] = True
        field.attrs["time_varying"] = in_time
