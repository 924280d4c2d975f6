"""The manifest of a dataset: what it is, how it was made, which shards it has.

The format is specified in docs/data_format.md. Nothing in it depends on the machine, the clock or
the order of work.
"""

__all__ = ["Manifest", "ShardRecord", "describe_dataset", "read_manifest", "write_manifest"]

import math
import platform
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from pdno.data.problems import Problem
from pdno.files.atomic import write_text
from pdno.files.checksums import with_digest, without_digest
from pdno.files.limits import check_memory, read_text
from pdno.interface.errors import LONGEST_MESSAGE, printable
from pdno.spectral.grid import Grid

MANIFEST = "manifest.json"
OWN = "own data"  # the problem of data that no problem of ours made
FieldKey: TypeAlias = Literal["input", "output"]

SHARD_BYTES = 32 * 2**20
SHARDS_AT_LEAST = 32


def _versions() -> dict[str, str]:
    libraries = ("pdno", "torch", "numpy", "scipy", "h5py")
    return {"python": platform.python_version(), **{name: version(name) for name in libraries}}


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for part in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from _texts(part)


class ShardRecord(BaseModel):
    """One shard file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: Annotated[str, Field(pattern=r"^shard-\d{5,}\.h5$")]
    first: Annotated[int, Field(ge=0)]
    count: Annotated[int, Field(ge=1)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    residual: float


class Manifest(BaseModel):
    """See docs/data_format.md."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["pdno-dataset"] = "pdno-dataset"
    version: Literal[1] = 1
    problem: str
    parameters: dict[str, Any] = {}
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
    complete: bool = False
    shards: tuple[ShardRecord, ...] = ()

    @field_validator("problem", "equation", "scheme", "fields", "pde_parameters", "parameters")
    @classmethod
    def _printable(cls, value: object) -> object:
        wrong = next((text for text in _texts(value) if not text.isprintable()), None)
        if wrong is not None:
            raise ValueError(f"{wrong!r} could drive a terminal; expected printable text")
        return value

    @field_validator("times")
    @classmethod
    def _rising(cls, times: tuple[float, ...] | None) -> tuple[float, ...] | None:
        if times is not None:
            rising = all(a < b for a, b in pairwise(times))
            if not times or not rising or not all(map(math.isfinite, times)):
                raise ValueError("expected one or more finite, increasing times")
        return times

    @model_validator(mode="after")
    def _check_shards(self) -> "Manifest":
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
            scheme=problem.scheme_text,
            grid=problem.grid(),
            solver_grid=problem.solver_grid(),
            times=problem.times,
            fields={"input": problem.fields[0], "output": problem.fields[1]},
            dtype=problem.dtype,
            samples=problem.samples,
            seed=problem.seed,
            pde_parameters=tuple(problem.vary),
        )

    def names(self, key: FieldKey) -> tuple[str, ...]:
        """The fields on disk that are the channels of the inputs or outputs."""
        names = self.fields[key]
        return (names,) if isinstance(names, str) else names

    @property
    def made(self) -> int:
        """Number of samples in the shards."""
        return sum(shard.count for shard in self.shards)

    def listing(self, shards: Iterable[ShardRecord]) -> "Manifest":
        """The same dataset with these shards."""
        ordered = tuple(sorted(shards, key=lambda shard: shard.first))
        complete = sum(shard.count for shard in ordered) == self.samples
        return self.model_copy(update={"shards": ordered, "complete": complete})

    def stored_shape(self, key: FieldKey) -> tuple[int, ...]:
        """Shape of one channel of a sample on disk: (*N) or (T, *N)."""
        in_time = key == "output" and self.times is not None
        return (*(len(self.times or ()),) * in_time, *self.grid.shape)

    def sample_bytes(self) -> int:
        """Bytes of one sample on disk."""
        channels = {key: len(self.names(key)) for key in self.fields}
        numbers = sum(n * math.prod(self.stored_shape(key)) for key, n in channels.items())
        return numbers * (4 if self.dtype == "float32" else 8)

    def plan(self) -> list[tuple[str, int, int]]:
        """(file, first, count) of every shard, whoever makes them."""
        by_size = SHARD_BYTES // self.sample_bytes()
        # many workers make the samples of a problem, one process writes own data
        parts = 1 if self.problem == OWN else SHARDS_AT_LEAST
        per_shard = max(1, min(by_size, -(-self.samples // parts)))
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
        reason = str(error)
        if isinstance(error, ValidationError):
            reasons = (f"{'.'.join(map(str, e['loc']))} {e['msg']}" for e in error.errors())
            reason = "; ".join(map(str.strip, reasons))
        reason = printable(reason[:LONGEST_MESSAGE])
        raise ValueError(
            f"{path} is damaged or not a manifest of ours ({reason}): bring it back from a copy, "
            "or delete the folder and generate it again"
        ) from error
    check_memory(f"one sample of {folder}", manifest.sample_bytes())
    return manifest


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest with its SHA-256, whole or not at all."""
    write_text(folder / MANIFEST, with_digest(manifest.model_dump_json(indent=1)))


def describe_dataset(folder: Path) -> str:
    """What a dataset folder holds, in a few lines."""
    manifest = read_manifest(folder)
    count, times = len(manifest.shards), manifest.times
    absent = sum(not (folder / shard.file).is_file() for shard in manifest.shards)
    state = "complete" if manifest.complete else f"PARTIAL, {manifest.made} samples so far"
    if absent:
        state = f"DAMAGED, {absent} of {count} shards are missing"
    frames = "static"
    if times is not None:
        frames = f"{len(times)} frames, t = {times[0]:g} .. {times[-1]:g}"
    head = f"{folder}: pdno dataset, {manifest.problem}, {state}"
    names = f"{', '.join(manifest.names('input'))} -> {', '.join(manifest.names('output'))}"
    fields = f"  fields     {names}, {frames}, {manifest.dtype}"
    if manifest.problem == OWN:
        samples = f"  samples    {manifest.samples}, {count} shards"
        return "\n".join([head, samples, f"  grid       {manifest.grid.shape}", fields])
    parameters = ", ".join(f"{key}={value}" for key, value in manifest.parameters.items())
    return f"""{head}
  equation   {manifest.equation}
  scheme     {manifest.scheme}
  samples    {manifest.samples} (seed {manifest.seed}), {count} shards
  grid       {manifest.grid.shape}, solved on {manifest.solver_grid.shape}
{fields}
  parameters {parameters}
  residual   {max((shard.residual for shard in manifest.shards), default=0.0):.1e} at most"""
