"""Sample generation: one at a time, in memory, or in a folder on all cores.

Worker processes make shards, with one thread each and one sample at a time, so that no bit of a
sample depends on its neighbours. Generation can be interrupted at any moment: when it starts
again, shards that the manifest lists and that agree with their SHA-256 are kept.
"""

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch

from pdno.data import shards
from pdno.data.dataset import OperatorDataset
from pdno.data.problems import PROBLEMS, Fields, Geometry, Problem, Sample, make_sample
from pdno.data.shards import MANIFEST, Manifest, ShardPlan, ShardRecord
from pdno.data.workers import make_on_cluster, worker_pool
from pdno.equations.base import EvolutionEquation
from pdno.equations.darcy import Darcy
from pdno.fields.distributions import Distribution, Ranges
from pdno.files.atomic import explained, only_writer, sweep
from pdno.interface.display import track
from pdno.interface.errors import SolverError, check_at_least, check_choice
from pdno.spectral.grid import Grid

Equation: TypeAlias = EvolutionEquation | Darcy
Engine = Literal["processes", "ray"]
KEPT = "the shards listed in its manifest are kept"


def collect(
    samples: Iterable[Sample],
    grid: Grid,
    times: Sequence[float] | None,
    fields: Fields = ((), ()),
    geometry: Geometry | None = None,
) -> OperatorDataset:
    """A dataset of samples in memory; `fields` are the names of inputs and outputs."""
    inputs, outputs, _, drawn = zip(*samples, strict=True)
    parameters = {name: np.array([values[name] for values in drawn]) for name in drawn[0]}
    before, after = ((part,) if isinstance(part, str) else part for part in fields)
    f, u, first = torch.stack(inputs), torch.stack(outputs), 0
    if geometry:
        first = len(geometry.names)
        grid = shards.unpack_geometry(geometry, f[:, :first], grid)
    names = before[first:], after
    return OperatorDataset.from_arrays(
        f[:, first:], u, grid, times, channels=names, pde_parameters=parameters
    )


def generate(
    equation: Equation,
    grid: Grid,
    *,
    samples: int,
    times: Sequence[float] | None = None,
    seed: int = 0,
    distribution: Distribution | None = None,
    vary: Ranges | None = None,
) -> OperatorDataset:
    """A dataset in memory; for large ones use `pdno generate`, which resumes and uses all cores.

    The grid is periodic for evolution equations, which need `times`, and `Grid.cells` for Darcy's.
    Sample i depends on (seed, i) only. By default inputs are drawn from the distribution of the
    paper. With ranges to `vary`, for example {"viscosity": (1e-3, 1e-1)}, each sample draws these
    PDE parameters as well, and the dataset has them as pde_parameters.
    """
    check_at_least("samples", samples)
    record: Any = equation
    chosen, ranges, made = distribution or usual_distribution(equation), vary or {}, list[Sample]()
    for name in ranges:
        options = [field.name for field in dataclasses.fields(record)]
        check_choice(f"vary of {type(equation).__name__}", name, options)

    def physics(drawn: Mapping[str, float]) -> tuple[Distribution, Equation]:
        return chosen, dataclasses.replace(record, **drawn) if drawn else equation

    with track(f"generate {type(equation).__name__}", total=samples) as advance:
        for index in range(samples):
            made.append(make_sample(physics, ranges, grid, times, (seed, index)))
            advance(1)
    return collect(made, grid, times)


def usual_distribution(equation: Equation) -> Distribution:
    """The distribution that the paper draws the inputs of this equation from."""
    for problem in PROBLEMS.values():
        if problem.geometry:
            continue
        distribution, solved = problem.model_validate({}).physics()
        if isinstance(equation, type(solved)):
            return distribution
    name = type(equation).__name__
    raise ValueError(f"no usual distribution of inputs for {name}: give `distribution`")


def generate_dataset(
    problem: Problem,
    folder: Path | str,
    *,
    workers: int | None = None,
    engine: Engine = "processes",
    wait: bool = False,
) -> Manifest:
    """Generate a dataset in `folder`, or finish one that was interrupted.

    `workers` processes of this machine make it, None for one per core, or with the engine "ray" a
    cluster that shares the folder. Raise if another process writes there; with `wait=True`, block
    instead.
    """
    folder = Path(folder)
    count = workers if workers is not None else (os.cpu_count() or 1)
    check_at_least("workers", count)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; expected a folder: choose another name")
    foreign = sorted(path.name for path in folder.glob("[!.]*"))
    if foreign and MANIFEST not in foreign:
        raise ValueError(f"{folder} holds other files ({foreign[0]}): choose an empty one")
    with only_writer(folder, wait=wait):
        sweep(folder)
        try:
            manifest = _start_or_resume(problem, folder)
            if not manifest.complete:
                manifest = _finish(problem, folder, manifest, None if engine == "ray" else count)
        finally:
            sweep(folder)  # workers that were ended may leave temporary files
    return manifest


def make_shard(problem: Problem, folder: Path, file: str, first: int, count: int) -> ShardRecord:
    """Make one shard and return its record; the same bytes wherever and whenever it runs."""
    torch.set_num_threads(1)
    dtype, samples = getattr(torch, problem.dtype), list[Sample]()
    for index in range(first, first + count):
        try:
            sample = problem.sample(index)
        except SolverError as error:  # which counts in its batch of one
            raise SolverError(index, error.reason) from error
        fields = sample.input.to(dtype), sample.output.to(dtype)
        if not all(bool(field.isfinite().all()) for field in fields):
            lost = f"is not finite in {problem.dtype}; nothing was written"
            raise SolverError(index, f"of {problem.name} {lost}: take milder parameters")
        samples.append(sample._replace(input=fields[0], output=fields[1]))
    inputs, outputs, residuals, drawn = zip(*samples, strict=True)
    parameters: dict[str, float | np.ndarray] = dict(problem.parameters)
    parameters |= {n: np.array([values[n] for values in drawn]) for n in problem.vary}
    fields, plan = (torch.stack(inputs), torch.stack(outputs)), (file, first, count)
    with explained(folder, KEPT):
        manifest = Manifest.of(problem)
        return shards.write_shard(folder, manifest, plan, fields, parameters, max(residuals))


def _start_or_resume(problem: Problem, folder: Path) -> Manifest:
    """The manifest to go on from, with the shards that can be trusted."""
    wanted, existing = Manifest.of(problem), None
    if (folder / MANIFEST).exists():
        existing = shards.read_manifest(folder)
        if differences := wanted.differences(existing):
            other = f"{folder} holds another dataset ({'; '.join(differences)})"
            raise ValueError(f"{other}: choose another folder, or delete this one")
    planned = set(wanted.plan())
    manifest = wanted.listing(
        shard
        for shard in (existing.shards if existing else ())
        if (shard.file, shard.first, shard.count) in planned and wanted.has_intact(folder, shard)
    )
    if manifest != existing:
        with explained(folder, KEPT):
            shards.write_manifest(folder, manifest)
    return manifest


def _finish(problem: Problem, folder: Path, manifest: Manifest, workers: int | None) -> Manifest:
    done = {shard.file: shard for shard in manifest.shards}
    missing = [entry for entry in manifest.plan() if entry[0] not in done]
    needed = sum(manifest.shard_bytes(count) for _, _, count in missing)
    if needed > (free := shutil.disk_usage(folder).free):
        needs = f"the dataset needs {-(-needed // 2**20):,} MiB more but {folder} has"
        raise ValueError(f"{needs} {free // 2**20:,} MiB free: free some space")
    with (
        track(f"generate {problem.name}", total=problem.samples, done=manifest.made) as advance,
        contextlib.closing(_make_all(problem, folder, missing, workers)) as records,
    ):
        for record in records:
            done[record.file] = record
            manifest = manifest.listing(done.values())
            with explained(folder, KEPT):
                shards.write_manifest(folder, manifest)
            advance(record.count)
    return manifest


def _make_all(
    problem: Problem, folder: Path, missing: list[ShardPlan], workers: int | None
) -> Generator[ShardRecord, None, None]:
    if workers is None:
        yield from make_on_cluster(make_shard, problem, folder, missing)
        return
    with worker_pool(min(workers, len(missing))) as pool:
        futures = [pool.submit(make_shard, problem, folder, *entry) for entry in missing]
        for future in as_completed(futures):
            yield future.result()
