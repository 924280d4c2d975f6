"""Shards: HDF5 files in The Well's layout (docs/data_format.md), a checksum on every chunk.

A shard is built in memory and written in one go, so a full disk never leaves half an HDF5 file.
"""

__all__ = ["ShardSource", "build_shard", "read_samples", "write_shard"]

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import h5py
import numpy as np
import torch
from torch import Tensor

from pdno.data.manifest import FieldKey, Manifest, ShardRecord, read_manifest
from pdno.data.problems import PROBLEMS
from pdno.data.sources import Channels
from pdno.equations.symmetries import Symmetries
from pdno.files.atomic import atomic_path, sha256
from pdno.spectral.grid import Grid

AXES = ("x", "y", "z")
REPAIR = "run the dataset's `pdno generate` command again"
Parameters: TypeAlias = Mapping[str, float | np.ndarray]


def write_shard(
    folder: Path,
    manifest: Manifest,
    plan: tuple[str, int, int],
    fields: tuple[Tensor, Tensor],
    pde_parameters: Parameters,
    residual: float = 0.0,
) -> ShardRecord:
    """Write inputs and outputs as the planned shard (file, first, count); its record."""
    file, first, count = plan
    inputs, outputs = (field.numpy() for field in fields)
    content = build_shard(manifest, first, inputs, outputs, pde_parameters)
    with atomic_path(folder / file) as temporary:
        temporary.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    return ShardRecord(file=file, first=first, count=count, sha256=digest, residual=residual)


def build_shard(
    manifest: Manifest,
    first: int,
    inputs: np.ndarray,
    outputs: np.ndarray,
    pde_parameters: Parameters,
) -> bytes:
    """The bytes of a shard with samples first, first + 1, ...

    Shapes: inputs (B, C, *N); outputs (B, T, C, *N), or (B, C, *N) for a static problem. On disk
    every channel is a field of its own. PDE parameters are one number for all samples, or (B,).
    """
    # libver and track_order are fixed so that equal data give equal bytes
    with h5py.File(
        "shard.h5", "w", driver="core", backing_store=False, libver="v110", track_order=False
    ) as file:
        _write_root(file, manifest, first, len(inputs), pde_parameters)
        _write_axes(file, manifest)
        fields = file.create_group("t0_fields")
        fields.attrs["field_names"] = [*manifest.names("input"), *manifest.names("output")]
        _write_field(fields, manifest, "input", inputs)
        _write_field(fields, manifest, "output", outputs)
        for rank in ("t1_fields", "t2_fields"):
            file.create_group(rank).attrs["field_names"] = np.array([], dtype="S1")
        file.flush()
        return bytes(file.id.get_file_image())


class ShardSource:
    """Samples of a dataset folder; only what is asked for is read (see `open_dataset`)."""

    def __init__(self, folder: Path, *, verify: bool = True, partial: bool = False) -> None:
        self.folder = Path(folder)
        self.manifest = manifest = read_manifest(self.folder)
        if not manifest.complete and not partial:
            raise ValueError(
                f"{folder} is partial: {manifest.made} of {manifest.samples} samples; run its "
                "`pdno generate` command again to finish it, or open it with partial=True"
            )
        self.shards: list[ShardRecord] = []
        for shard in manifest.shards:
            if shard.first != len(self):  # a gap: the samples after it have other indices
                break
            path = self.folder / shard.file
            if not path.is_file():
                raise ValueError(f"{path} is missing: {REPAIR}")
            if verify and sha256(path) != shard.sha256:
                cause = "its SHA-256 differs from the manifest"
                raise ValueError(f"{path} is damaged ({cause}): {REPAIR} to repair it")
            self.shards.append(shard)
        self.times, self.grid = manifest.times, manifest.grid
        self.channels = Channels(manifest.names("input"), manifest.names("output"))
        self.dtype: torch.dtype = getattr(torch, manifest.dtype)
        self.pde_parameters: Mapping[str, Tensor] = {
            name: self._parameter(name) for name in manifest.pde_parameters
        }

    def __len__(self) -> int:
        return sum(shard.count for shard in self.shards)

    def symmetries(self, grid: Grid) -> Symmetries:
        """Those of the equation that the samples are solutions of."""
        problem = PROBLEMS[self.manifest.problem](**self.manifest.parameters)
        return problem.physics()[1].symmetries(grid)

    def read(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Inputs and outputs of some samples, one visit to each shard."""
        rows: dict[int, dict[int, int]] = {}  # by shard: its row for each row of the result
        for target, index in enumerate(indices):
            number = bisect_right(self.shards, index, key=lambda shard: shard.first) - 1
            rows.setdefault(number, {})[target] = index - self.shards[number].first
        return self._field("input", len(indices), rows), self._field("output", len(indices), rows)

    def _field(self, key: FieldKey, size: int, rows: dict[int, dict[int, int]]) -> Tensor:
        channels = []
        for name in self.manifest.names(key):
            values = np.empty((size, *self.manifest.stored_shape(key)), self.manifest.dtype)
            for number, chosen in rows.items():
                shard = self.shards[number]
                read_samples(self.folder / shard.file, name, chosen, values, count=shard.count)
            channels.append(torch.from_numpy(values))
        # the axis of channels, which fields have in memory and not on disk
        return torch.stack(channels, dim=-1 - self.grid.dim)

    def _parameter(self, name: str) -> Tensor:
        """A PDE parameter of all samples, (B,) float64."""
        parts = [np.empty(0)]
        for shard in self.shards:
            with _opened(self.folder / shard.file) as file:
                values = np.asarray(file["scalars"][name][()], dtype="f8")
                if values.shape != (shard.count,):
                    wrong = f"{name} is {values.shape}"
                    raise ValueError(f"{wrong}, the manifest says ({shard.count},)")
                parts.append(values)
        return torch.from_numpy(np.concatenate(parts))


def read_samples(
    path: Path, name: str, rows: Mapping[int, int], values: np.ndarray, *, count: int
) -> None:
    """Read samples of one field of a shard, chunk by chunk with their checksums.

    `rows` has the row of the shard for each row of `values`, (B, *N) or (B, T, *N), that is to be
    filled; `count` is the number of samples in the shard, as the manifest says.
    """
    expected = (count, *values.shape[1:])
    with _opened(path) as file:
        field = file["t0_fields"][name]
        if field.shape != expected or field.dtype != values.dtype:
            stored = f"{name} is {field.shape} {field.dtype}"
            raise ValueError(f"{stored}, the manifest says {expected} {values.dtype}")
        for target, row in rows.items():
            field.read_direct(values, np.s_[row], np.s_[target])


@contextmanager
def _opened(path: Path) -> Iterator[h5py.File]:
    try:
        with h5py.File(path, "r") as file:
            yield file
    except Exception as error:  # damaged bytes make h5py fail in many ways; all mean the same
        reason = f"{path} is damaged or cannot be read ({error})"
        raise ValueError(f"{reason}: {REPAIR} to repair it") from error


def _write_root(
    file: h5py.File, manifest: Manifest, first: int, count: int, pde_parameters: Parameters
) -> None:
    file.attrs["dataset_name"] = f"pdno {manifest.problem}"
    file.attrs["grid_type"] = "cartesian"
    file.attrs["n_spatial_dims"] = len(manifest.grid.shape)
    file.attrs["n_trajectories"] = count
    nothing = np.array([], dtype="S1")
    constant = [name for name, value in pde_parameters.items() if np.ndim(value) == 0]
    file.attrs["simulation_parameters"] = constant or nothing
    file.attrs["pdno_first_sample"] = first
    file.attrs["pdno_seed"] = manifest.seed
    group = file.create_group("scalars")
    group.attrs["field_names"] = list(pde_parameters) or nothing
    for name, value in pde_parameters.items():
        if name in constant:
            file.attrs[name] = value
        item = group.create_dataset(name, data=np.asarray(value, dtype="f8"))
        _mark_constant(item)
        if name not in constant:
            item.attrs["sample_varying"] = True


def _write_axes(file: h5py.File, manifest: Manifest) -> None:
    grid = manifest.grid
    group = file.create_group("dimensions")
    group.attrs["spatial_dims"] = list(AXES[: grid.dim])
    times = group.create_dataset("time", data=np.array(manifest.times or (0.0,), dtype="f8"))
    # the check of its layout in The Well requires that time varies in time
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
