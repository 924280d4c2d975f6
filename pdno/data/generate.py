"""Generation: a dataset in memory, or in a folder, on all cores and interruptible at any moment.

Shards are made by worker processes, one thread each, one sample at a time, so that no bit of a
sample depends on its neighbours. Each is written atomically and then listed in the manifest. What
is listed and whose SHA-256 agrees is kept when generation starts again; the rest is made again.
"""

__all__ = ["generate", "generate_dataset", "make_shard", "usual_law"]

import contextlib
import dataclasses
import hashlib
import os
import shutil
from collections.abc import Generator, Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from pdno.data.dataset import OperatorDataset
from pdno.data.manifest import MANIFEST, Manifest, ShardRecord, read_manifest, write_manifest
from pdno.data.problems import PROBLEMS, Problem
from pdno.data.shards import build_shard
from pdno.data.workers import Entry, make_on_cluster, worker_pool
from pdno.equations.base import EvolutionEquation
from pdno.equations.darcy import Darcy
from pdno.fields.distributions import Law
from pdno.fields.parameters import Ranges, draw_scalars
from pdno.files.atomic import atomic_path, explained, only_writer, sha256, sweep
from pdno.interface.display import track
from pdno.interface.errors import SolverError
from pdno.solvers.solve import solve
from pdno.spectral.grid import Grid

Engine = Literal["processes", "ray"]
LOCAL: Engine = "processes"
# At most what a shard takes besides its samples and axes, with its record in the manifest.
SHARD_OVERHEAD = 32 * 2**10
KEPT = "the shards listed in its manifest are kept"


def generate(
    equation: EvolutionEquation | Darcy,
    grid: Grid,
    *,
    samples: int,
    times: Sequence[float] | None = None,
    seed: int = 0,
    law: Law | None = None,
    vary: Ranges | None = None,
) -> OperatorDataset:
    """A dataset in memory; for large ones use `pdno generate`, which resumes and uses all cores.

    The grid is periodic for evolution equations and `Grid.cells` for Darcy's, `times` are those of
    the frames of an evolution equation. Sample i depends on (seed, i) only. Without a law the
    inputs are drawn from that of the paper. With ranges to `vary`, for example
    {"viscosity": (1e-3, 1e-1)}, each sample draws these numbers of its equation as well, and the
    dataset carries them as pde_parameters.
    """
    if samples < 1:
        raise ValueError(f"samples is {samples}; expected at least 1")
    chosen = law or usual_law(equation)
    inputs, outputs, ranges = [], [], dict(vary or {})
    own: Any = equation
    known = {field.name for field in dataclasses.fields(own)} if ranges else set()
    if unknown := ranges.keys() - known:
        raise ValueError(f"{type(equation).__name__} has no number {min(unknown)!r} to vary")
    drawn = [draw_scalars(ranges, seed=seed, index=index) for index in range(samples)]
    with track(f"generate {type(equation).__name__}", total=samples) as advance:
        for index in range(samples):
            inputs.append(chosen.sample(grid, seed=seed, indices=[index]))
            one = dataclasses.replace(own, **drawn[index]) if ranges else equation
            outputs.append(solve(one, inputs[-1], times))
            advance(1)
    pde_parameters = {
        name: torch.tensor([one[name] for one in drawn], dtype=torch.float64) for name in ranges
    }
    fields = torch.cat(inputs), torch.cat(outputs)
    return OperatorDataset.from_arrays(*fields, grid, times, pde_parameters=pde_parameters)


def usual_law(equation: EvolutionEquation | Darcy) -> Law:
    """The law of inputs that the paper draws from for this equation: that of its problem."""
    for problem in PROBLEMS.values():
        law, known = problem.model_validate({}).physics()
        if isinstance(equation, type(known)):
            return law
    raise ValueError(f"no usual law of inputs for {type(equation).__name__}: give `law`")


def generate_dataset(
    problem: Problem,
    folder: Path | str,
    *,
    workers: int | None = None,
    engine: Engine = LOCAL,
    wait: bool = False,
) -> Manifest:
    """Generate a dataset in `folder`, or finish one that was interrupted.

    It is made by so many processes of this machine, None for one per core, or with the engine
    "ray" by a cluster that shares the folder. Where another process writes there, `wait` says
    whether to wait for it, or else to raise.
    """
    folder = Path(folder)
    count = workers if workers is not None else (os.cpu_count() or 1)
    if count < 1:
        raise ValueError(f"workers is {count}; expected at least 1")
    _refuse_others(folder)
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
    frames = () if problem.times is None else (len(problem.times),)
    shape, dtype = problem.grid().shape, getattr(torch, problem.dtype)
    inputs = torch.empty(count, 1, *shape, dtype=dtype)
    outputs = torch.empty(count, *frames, 1, *shape, dtype=dtype)
    residual = 0.0
    for place, index in enumerate(range(first, first + count)):
        try:
            inputs[place], outputs[place], size = problem.sample(index)
        except SolverError as error:  # which counts in its batch of one
            raise SolverError(index, error.reason) from error
        if not bool(inputs[place].isfinite().all() and outputs[place].isfinite().all()):
            lost = f"is not finite in {problem.dtype}; nothing was written"
            raise SolverError(index, f"of {problem.name} {lost}: take milder parameters")
        residual = max(residual, size)
    fields, indices = (inputs.numpy(), outputs.numpy()), range(first, first + count)
    drawn = [problem.of_sample(index).parameters for index in indices]
    pde_parameters = problem.parameters | {
        n: np.array([one[n] for one in drawn]) for n in problem.vary
    }
    content = build_shard(Manifest.of(problem), first, *fields, pde_parameters)
    with explained(folder, KEPT), atomic_path(folder / file) as temporary:
        temporary.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    return ShardRecord(file=file, first=first, count=count, sha256=digest, residual=residual)


def _start_or_resume(problem: Problem, folder: Path) -> Manifest:
    """The manifest to go on from, with the shards that can be trusted."""
    wanted = Manifest.of(problem)
    there = read_manifest(folder) if (folder / MANIFEST).exists() else None
    if there and (differences := wanted.differences(there)):
        raise ValueError(
            f"{folder} holds another dataset ({'; '.join(differences)}): choose another folder, "
            "delete this one, or ask for the same data"
        )
    planned = set(wanted.plan())
    trusted = [
        shard
        for shard in (there.shards if there else ())
        if (shard.file, shard.first, shard.count) in planned
        and (folder / shard.file).is_file()
        and sha256(folder / shard.file) == shard.sha256
    ]
    manifest = wanted.listing(trusted)
    if manifest != there:
        with explained(folder, KEPT):
            write_manifest(folder, manifest)
    return manifest


def _finish(problem: Problem, folder: Path, manifest: Manifest, workers: int | None) -> Manifest:
    """Make the shards that are missing and list each as soon as it is there."""
    done = {shard.file: shard for shard in manifest.shards}
    missing = [entry for entry in manifest.plan() if entry[0] not in done]
    axes = 9 * sum(manifest.grid.shape) + 8 * len(manifest.times or ())
    needed = manifest.sample_bytes() * (manifest.samples - manifest.made)
    needed += (SHARD_OVERHEAD + axes) * len(missing)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ValueError(
            f"the dataset needs {needed / 2**20:.0f} MiB more but {folder} has {free / 2**20:.0f} "
            "MiB free: free some space, or lower samples or resolution"
        )
    with (
        track(f"generate {problem.name}", total=problem.samples, done=manifest.made) as advance,
        contextlib.closing(_make_all(problem, folder, missing, workers)) as records,
    ):
        for record in records:
            done[record.file] = record
            manifest = manifest.listing(done.values())
            with explained(folder, KEPT):
                write_manifest(folder, manifest)
            advance(record.count)
    return manifest


def _make_all(
    problem: Problem, folder: Path, missing: list[Entry], workers: int | None
) -> Generator[ShardRecord, None, None]:
    """Records of shards as they are finished; without a number of workers a cluster makes them."""
    if workers is None:
        yield from make_on_cluster(make_shard, problem, folder, missing)
        return
    with worker_pool(min(workers, len(missing))) as pool:
        futures = [pool.submit(make_shard, problem, folder, *entry) for entry in missing]
        for future in as_completed(futures):
            yield future.result()


def _refuse_others(folder: Path) -> None:
    """Refuse a folder that has files of others."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; expected a folder: choose another name")
    there = folder.iterdir() if folder.is_dir() else ()
    foreign = sorted(path.name for path in there if not path.name.startswith("."))
    if foreign and MANIFEST not in foreign:
        names = ", ".join(foreign[:3])
        raise ValueError(f"{folder} holds other files ({names}): choose an empty or a new folder")
