"""Datasets on disk: a manifest with all metadata, and HDF5 shards (docs/data_format.md).

Nothing in them depends on the machine, the clock or the order of work. Shards are HDF5 files in
The Well's layout with a checksum on every chunk, built in memory and written in one go, so a full
disk never leaves half an HDF5 file.
"""

import hashlib
import math
import os
import platform
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import h5py
import numpy as np
import torch
from pydantic import Field, field_validator, model_serializer, model_validator
from torch import Tensor

from pdno.data import sources
from pdno.data.problems import PROBLEMS, Geometry, Problem
from pdno.equations.symmetries import Symmetries
from pdno.files.atomic import atomic_path, sha256, write_text
from pdno.files.limits import check_memory, read_text, walk
from pdno.files.run_folder import with_digest, without_digest
from pdno.interface.errors import LONGEST_MESSAGE, printable
from pdno.interface.records import Options, Record, error_message
from pdno.spectral.grid import Grid, MaskedGrid
from pdno.spectral.points import OPTIONS, Points

MANIFEST = "manifest.json"
OWN = "own data"  # the problem of data that no problem of ours made
REPAIR = "run the dataset's `pdno generate` command again to repair it"
SHARD_BYTES, SHARDS_AT_LEAST = 32 * 2**20, 32
OVERHEAD = 32 * 2**10  # at most what a shard takes besides its numbers and its list of chunks
CHUNK, HEADER = 64, 1024  # at most what a chunk, and a field, take besides their numbers
AXES, NOTHING = ("x", "y", "z"), np.array([], dtype="S1")
CONSTANT = {"sample_varying": False, "time_varying": False}
FieldKey: TypeAlias = Literal["input", "output"]
Parameters: TypeAlias = Mapping[str, float | np.ndarray]
ShardPlan: TypeAlias = tuple[str, int, int]
"""File, first sample and number of samples of a shard."""


def _versions() -> dict[str, str]:
    libraries = ("pdno", "torch", "numpy", "scipy", "h5py")
    return {"python": platform.python_version(), **{name: version(name) for name in libraries}}


class ShardRecord(Record):
    """One shard file."""

    file: Annotated[str, Field(pattern=r"^shard-\d{5,}\.h5$")]
    first: Annotated[int, Field(ge=0)]
    count: Annotated[int, Field(ge=1)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    residual: float


class Manifest(Record):
    """The metadata of a dataset (docs/data_format.md)."""

    format: Literal["pdno-dataset"] = "pdno-dataset"
    version: Literal[1] = 1
    problem: str
    parameters: Options = {}
    equation: str = ""
    scheme: str = ""
    grid: Grid
    solver_grid: Grid
    times: tuple[float, ...] | None
    fields: dict[FieldKey, str | tuple[str, ...]]
    dtype: Literal["float32", "float64"]
    samples: Annotated[int, Field(ge=1)]
    seed: Annotated[int, Field(ge=0)] = 0
    versions: dict[str, str] = Field(default_factory=_versions)
    pde_parameters: tuple[str, ...] = ()
    """Names of the PDE parameters that each sample has for itself."""
    geometry: Geometry | None = None
    """Of data off a whole grid."""
    complete: bool = False
    shards: tuple[ShardRecord, ...] = ()

    @field_validator("problem", "equation", "scheme", "fields", "pde_parameters", "parameters")
    @classmethod
    def _printable(cls, value: object) -> object:
        for part in walk(value):
            for text in part if isinstance(part, dict) else [part]:
                if isinstance(text, str) and not text.isprintable():
                    raise ValueError(f"{text!r} could drive a terminal; expected printable text")
        return value

    @model_serializer(mode="wrap")
    def _without_geometry(self, handler: Callable[[object], Options]) -> Options:
        left_out = () if self.geometry else ("geometry",)
        return {name: value for name, value in handler(self).items() if name not in left_out}

    @model_validator(mode="after")
    def _check(self) -> "Manifest":
        sources.check_times(self.times)
        if len(self.fields) != 2:
            raise ValueError(f"its fields are {self.fields}; expected an input and an output")
        end = 0
        for shard in self.shards:
            if shard.first < end:
                raise ValueError(f"{shard.file} overlaps the shard before it")
            end = shard.first + shard.count
        if end > self.samples:
            raise ValueError(f"its shards go on to sample {end - 1} of {self.samples}")
        if self.complete and self.made != self.samples:
            raise ValueError("it says complete, but its shards do not add up to its samples")
        return self

    @classmethod
    def of(cls, problem: Problem) -> "Manifest":
        """The manifest of a problem before anything is generated."""
        return cls(
            problem=problem.name,
            parameters=problem.model_dump(mode="json"),
            equation=problem.equation_text,
            scheme=problem.schemes[getattr(problem, "scheme", "")],
            grid=problem.grid(),
            solver_grid=problem.solver_grid(),
            times=problem.times,
            fields={"input": problem.fields[0], "output": problem.fields[1]},
            dtype=problem.dtype,
            samples=problem.samples,
            seed=problem.seed,
            pde_parameters=tuple(problem.vary),
            geometry=problem.geometry,
        )

    @property
    def channels(self) -> sources.Channels:
        """The fields on disk that are the channels of the inputs and outputs."""
        names = (self.fields["input"], self.fields["output"])
        return sources.Channels(*((part,) if isinstance(part, str) else part for part in names))

    @property
    def made(self) -> int:
        """Number of samples in the shards."""
        return sum(shard.count for shard in self.shards)

    def listing(self, shards: Iterable[ShardRecord]) -> "Manifest":
        """The same dataset with these shards."""
        ordered = tuple(sorted(shards, key=lambda shard: shard.first))
        complete = sum(shard.count for shard in ordered) == self.samples
        return self.model_copy(update={"shards": ordered, "complete": complete})

    @property
    def stored_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes of one channel of a sample on disk: inputs (*N), outputs (*N) or (T, *N)."""
        frames = () if self.times is None else (len(self.times),)
        return self.grid.shape, (*frames, *self.grid.shape)

    def sample_bytes(self) -> int:
        """Bytes of one sample on disk."""
        pairs = zip(self.channels, self.stored_shapes, strict=True)
        numbers = sum(len(names) * math.prod(shape) for names, shape in pairs)
        return numbers * (4 if self.dtype == "float32" else 8)

    def shard_bytes(self, count: int) -> int:
        """The most that a shard takes, with its record in the manifest."""
        axes = 9 * sum(self.grid.shape) + 8 * len(self.times or ())
        fields = sum(map(len, self.channels)) * (CHUNK * count + HEADER)
        numbers = (self.sample_bytes() + 8 * len(self.pde_parameters)) * count
        return numbers + fields + axes + OVERHEAD

    def has_intact(self, folder: Path, shard: ShardRecord) -> bool:
        """Whether the file of a shard agrees with its SHA-256; one that is too large does not."""
        path = folder / shard.file
        small = path.is_file() and path.stat().st_size <= self.shard_bytes(shard.count)
        return small and sha256(path) == shard.sha256

    def plan(self) -> list[ShardPlan]:
        """All shards, whoever makes them."""
        # many workers make the samples of a problem, one process writes own data
        parts = 1 if self.problem == OWN else SHARDS_AT_LEAST
        per_shard = max(1, min(SHARD_BYTES // self.sample_bytes(), -(-self.samples // parts)))
        return [
            (f"shard-{number:05d}.h5", first, min(per_shard, self.samples - first))
            for number, first in enumerate(range(0, self.samples, per_shard))
        ]

    def differences(self, other: "Manifest") -> list[str]:
        """Where two manifests describe different data: the causes, not what follows from them."""
        if self.problem != other.problem:
            return [f"problem: {other.problem} there, {self.problem} asked for"]
        progress = {"complete", "shards"}
        mine, theirs = (m.model_dump(mode="json", exclude=progress) for m in (self, other))
        for part in ("parameters", "versions", None):
            asked, stored = (values[part] if part else values for values in (mine, theirs))
            keys = [key for key in {**asked, **stored} if asked.get(key) != stored.get(key)]
            if keys:
                return [f"{k}: {stored.get(k)} there, {asked.get(k)} asked for" for k in keys]
        return []


def pack_geometry(grid: Grid, count: int) -> tuple[Geometry | None, Tensor]:
    """The record of points or masks, and as fields (B, fields, *N) coordinates and weights, zero
    where no point is, or masks; None and no fields on a whole grid."""
    shared = grid.sets is None
    if isinstance(grid, Points):
        geometry = Geometry(kind="points", dim=grid.dim, shared=shared, **grid.options)
        arrays = torch.cat([grid.coordinates, grid.weights[..., None]], dim=-1).mT
    elif isinstance(grid, MaskedGrid):
        geometry = Geometry(kind="mask", shared=shared)
        arrays = grid.mask.double().unsqueeze(-1 - grid.dim)
    else:
        return None, torch.empty(count, 0, *grid.shape)
    return geometry, arrays.expand(count, *arrays.shape) if shared else arrays


def unpack_geometry(geometry: Geometry, arrays: Tensor, grid: Grid) -> Grid:
    """The grid of `pack_geometry`, from its record and its arrays."""
    arrays = arrays[0] if geometry.shared else arrays
    if geometry.kind == "mask":
        return MaskedGrid(grid, arrays.squeeze(-grid.dim - 1) > 0.5)
    coordinates, weights = arrays.mT[..., :-1], arrays.mT[..., -1]
    options = geometry.model_dump(include=set(OPTIONS))
    return Points(coordinates.clamp(0, 1), weights, mask=weights > 0, **options)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a dataset folder."""
    path = folder / MANIFEST
    if not path.is_file():
        raise ValueError(f"{folder} is not a dataset: it has no {MANIFEST}; see `pdno generate`")
    text, right = without_digest(read_text(path))
    try:
        if not right:
            raise ValueError("it was changed: it does not end with its own SHA-256")
        manifest = Manifest.model_validate_json(text)
    except (ValueError, RecursionError) as error:
        reason = printable(error_message(error)[:LONGEST_MESSAGE])
        cure = "restore it from a copy, or delete the folder and generate it again"
        raise ValueError(f"{path} is damaged or not a manifest ({reason}): {cure}") from error
    check_memory(f"one sample of {folder}", manifest.sample_bytes())
    return manifest


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest with its SHA-256, whole or not at all."""
    write_text(folder / MANIFEST, with_digest(manifest.model_dump_json(indent=1)))


def describe_dataset(folder: Path) -> str:
    """What a dataset folder holds, in a few lines."""
    manifest = read_manifest(folder)
    count, times, own = len(manifest.shards), manifest.times, manifest.problem == OWN
    absent = sum(not (folder / shard.file).is_file() for shard in manifest.shards)
    state = "complete" if manifest.complete else f"PARTIAL, {manifest.made} samples so far"
    if absent:
        state = f"DAMAGED, {absent} of {count} shards are missing"
    frames = f"{len(times)} frames, t = {times[0]:g} .. {times[-1]:g}" if times else "static"
    inputs, outputs = map(", ".join, manifest.channels)
    seed = "" if own else f" (seed {manifest.seed})"
    solved = "" if own else f", solved on {manifest.solver_grid.shape}"
    residual = max((shard.residual for shard in manifest.shards), default=0.0)
    lines = {
        "equation": manifest.equation,
        "scheme": manifest.scheme,
        "samples": f"{manifest.samples}{seed}, {count} shards",
        "grid": f"{manifest.grid.shape}{solved}",
        "fields": f"{inputs} -> {outputs}, {frames}, {manifest.dtype}",
        "parameters": ", ".join(f"{key}={value}" for key, value in manifest.parameters.items()),
        "residual": "" if own else f"{residual:.1e} at most",
    }
    head = f"{folder}: pdno dataset, {manifest.problem}, {state}"
    return "\n".join([head, *(f"  {name:10} {text}" for name, text in lines.items() if text)])


def write_shard(
    folder: Path,
    manifest: Manifest,
    plan: ShardPlan,
    fields: tuple[Tensor, Tensor],
    pde_parameters: Parameters,
    residual: float = 0.0,
) -> ShardRecord:
    """Write inputs and outputs as the planned shard; its record."""
    file, first, count = plan
    inputs, outputs = (field.numpy() for field in fields)
    content = build_shard(manifest, first, inputs, outputs, pde_parameters)
    with atomic_path(folder / file) as temporary:
        temporary.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    return ShardRecord(file=file, first=first, count=count, sha256=digest, residual=residual)


def write_dataset(
    folder: Path,
    manifest: Manifest,
    fields: Callable[[range], tuple[Tensor, Tensor]],
    pde_parameters: Mapping[str, Tensor],
) -> None:
    """Write a dataset, whole or not at all; inputs and outputs are a function of their rows."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as parent:
        new, records = Path(parent) / folder.name, list[ShardRecord]()
        new.mkdir()
        for plan in manifest.plan():
            rows = range(plan[1], plan[1] + plan[2])
            named = {k: v[rows.start : rows.stop].numpy() for k, v in pde_parameters.items()}
            records.append(write_shard(new, manifest, plan, fields(rows), named))
        write_manifest(new, manifest.listing(records))
        os.replace(new, folder)


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
        _write_axes(file, manifest.grid, manifest.times)
        fields = file.create_group("t0_fields")
        fields.attrs["field_names"] = list(chain(*manifest.channels))
        # the order in which datasets are closed, at the end of a call, is part of the bytes
        _write_fields(fields, manifest, 0, inputs)
        _write_fields(fields, manifest, 1, outputs)
        for rank in ("t1_fields", "t2_fields"):
            file.create_group(rank).attrs["field_names"] = NOTHING
        file.flush()
        return bytes(file.id.get_file_image())


def _write_root(
    file: h5py.File, manifest: Manifest, first: int, count: int, pde_parameters: Parameters
) -> None:
    constant = [name for name, value in pde_parameters.items() if np.ndim(value) == 0]
    file.attrs.update(dataset_name=f"pdno {manifest.problem}", grid_type="cartesian")
    file.attrs.update(n_spatial_dims=len(manifest.grid.shape), n_trajectories=count)
    file.attrs["simulation_parameters"] = constant or NOTHING
    file.attrs.update(pdno_first_sample=first, pdno_seed=manifest.seed)
    group = file.create_group("scalars")
    group.attrs["field_names"] = list(pde_parameters) or NOTHING
    for name, value in pde_parameters.items():
        if name in constant:
            file.attrs[name] = value
        item = group.create_dataset(name, data=np.asarray(value, dtype="f8"))
        item.attrs.update(CONSTANT)
        if name not in constant:  # marked afterwards, as the order is part of the bytes
            item.attrs["sample_varying"] = True


def _write_axes(file: h5py.File, grid: Grid, times: tuple[float, ...] | None) -> None:
    group = file.create_group("dimensions")
    group.attrs["spatial_dims"] = list(AXES[: grid.dim])
    time = group.create_dataset("time", data=np.array(times or (0.0,), dtype="f8"))
    time.attrs.update(CONSTANT | {"time_varying": True})  # which The Well's check requires
    for name, x in zip(AXES, grid.axes(), strict=False):
        group.create_dataset(name, data=x.numpy()).attrs.update(CONSTANT)
    kind = "periodic" if grid.periodic else "wall"
    group = file.create_group("boundary_conditions")
    for name, n in zip(AXES, grid.shape, strict=False):
        boundary = group.create_group(f"{name}_{kind}")
        boundary.attrs.update(associated_dims=[name], associated_fields=NOTHING, bc_type=kind)
        boundary.attrs.update(CONSTANT)
        boundary.create_dataset("mask", data=np.isin(np.arange(n), (0, n - 1)))


def _write_fields(group: h5py.Group, manifest: Manifest, part: int, values: np.ndarray) -> None:
    names, shape, dim = manifest.channels[part], manifest.stored_shapes[part], manifest.grid.dim
    data = np.asarray(values).reshape(len(values), *shape[:-dim], len(names), *shape[-dim:])
    for name, channel in zip(names, np.moveaxis(data, -1 - dim, 0), strict=True):
        stored = np.ascontiguousarray(channel, dtype=manifest.dtype)
        field = group.create_dataset(name, data=stored, chunks=(1, *shape), fletcher32=True)
        varying = {"sample_varying": True, "time_varying": len(shape) > dim}
        field.attrs.update({"dim_varying": [True] * dim} | varying)


class ShardSource(sources.FileSource):
    """Samples of a dataset folder (see `pdno.open_dataset`)."""

    def __init__(self, folder: Path, *, verify: bool = True, partial: bool = False) -> None:
        self.manifest = manifest = read_manifest(folder)
        if not manifest.complete and not partial:
            made = f"{folder} is partial: {manifest.made} of {manifest.samples} samples"
            cure = "run its `pdno generate` command again, or open it with partial=True"
            raise ValueError(f"{made}; {cure}")
        self.times, self.grid, self.channels = manifest.times, manifest.grid, manifest.channels
        self.dtype, dim = getattr(torch, manifest.dtype), self.grid.dim
        self.fields = [
            [
                sources.Field(f"t0_fields/{name}", 0, True, len(shape) > dim, (True,) * dim)
                for name in names
            ]
            for names, shape in zip(manifest.channels, manifest.stored_shapes, strict=True)
        ]
        self.files, self.counts = list[Path](), list[int]()
        for shard in manifest.shards:
            if shard.first != len(self):  # a gap: the samples after it have other indices
                break
            path = folder / shard.file
            if not path.is_file():
                raise ValueError(f"{path} is missing: {REPAIR}")
            if verify and not manifest.has_intact(folder, shard):
                raise ValueError(f"{path} is damaged (its SHA-256 is not listed): {REPAIR}")
            self.files.append(path)
            self.counts.append(shard.count)
        self.pde_parameters = {name: self._scalars(name) for name in manifest.pde_parameters}
        if geometry := manifest.geometry:
            count = len(geometry.names)
            rows = [0] if geometry.shared else range(len(self))
            arrays = self.read(rows)[0][:, :count].double()
            self.grid = unpack_geometry(geometry, arrays, self.grid)
            self.fields[0] = self.fields[0][count:]
            self.channels = self.channels._replace(inputs=self.channels.inputs[count:])

    def _scalars(self, name: str) -> Tensor:
        columns = [np.empty(0)]
        for number in range(len(self.files)):
            with self.opened(number) as file:
                columns.append(file["scalars"][name][()].astype("f8"))
        return torch.from_numpy(np.concatenate(columns))

    def symmetries(self, grid: Grid) -> Symmetries:
        """Those of the equation that the samples are solutions of."""
        problem = PROBLEMS.get(self.manifest.problem)
        if problem is None or problem.geometry:
            return super().symmetries(grid)
        return problem(**self.manifest.parameters).physics()[1].symmetries(grid)

    @contextmanager
    def opened(self, number: int) -> Iterator[h5py.File]:
        """A shard whose fields are those of the manifest; their chunks have checksums."""
        manifest, count, frames = self.manifest, self.counts[number], len(self.times or ())
        expected: dict[str, tuple[tuple[int, ...], str]]
        expected = {f"scalars/{name}": ((count,), "f8") for name in manifest.pde_parameters}
        for field in chain(*self.fields):
            shape = field.stored_shape(count, frames, self.grid.shape)
            expected[field.path] = shape, manifest.dtype
        try:
            with h5py.File(self.files[number], "r") as file:
                for name, (shape, dtype) in expected.items():
                    if file[name].shape != shape or file[name].dtype != dtype:
                        stored = f"{name} is {file[name].shape} {file[name].dtype}"
                        raise ValueError(f"{stored}, the manifest says {shape} {dtype}")
                yield file
        except Exception as error:  # damaged bytes make h5py fail in many ways; all mean the same
            damaged = f"{self.files[number]} is damaged or cannot be read"
            raise ValueError(f"{damaged} ({error}): {REPAIR}") from error
