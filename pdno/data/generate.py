"""Generation: from a problem to a dataset, on all cores, interruptible at any moment.

Shards are made by worker processes, one thread each, one sample at a time, so that no bit of a
sample depends on its neighbours. Each finished shard is written atomically and then listed in the
manifest. What is listed and whose SHA-256 agrees is kept when generation starts again; anything
else is made again. An interrupted generation therefore ends with the bytes of one that was not.
"""

__all__ = ["generate_dataset", "make_shard"]

import contextlib
import hashlib
import os
import shutil
from collections.abc import Generator, Iterator
from concurrent.futures import as_completed
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from pdno.atomic import atomic_path, sha256, sweep
from pdno.data.cluster import make_on_cluster
from pdno.data.manifest import MANIFEST, Manifest, ShardRecord, read_manifest, write_manifest
from pdno.data.problems import Problem
from pdno.data.shards import build_shard
from pdno.data.workers import worker_pool
from pdno.progress import track
from pdno.solvers.errors import SolverError

Engine = Literal["processes", "ray"]

SHARD_OVERHEAD = 32 * 2**10
"""At most what a shard takes besides its samples and axes, with its record in the manifest."""


def generate_dataset(
    problem: Problem,
    folder: Path | str,
    *,
    workers: int | None = None,
    engine: Engine = "processes",
) -> Manifest:
    """Generate a dataset in `folder`, or finish one that was interrupted.

    Arguments:
        problem: What to generate.
        folder: Where; created if missing.
        workers: Number of processes; None uses every core.
        engine: "processes" of this machine, or "ray" for a cluster that shares the folder.
    """
    folder = Path(folder)
    count = workers if workers is not None else (os.cpu_count() or 1)
    if count < 1:
        raise ValueError(f"workers is {count}; expected at least 1")
    _check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with _only_writer(folder), _swept(folder):
        manifest = _start_or_resume(problem, folder)
        if not manifest.complete:
            manifest = _finish(problem, folder, manifest, None if engine == "ray" else count)
    return manifest


def make_shard(problem: Problem, folder: Path, file: str, first: int, count: int) -> ShardRecord:
    """Make one shard and return its record; the same bytes wherever and whenever it runs."""
    torch.set_num_threads(1)
    inputs, outputs, residual = [], [], 0.0
    for index in range(first, first + count):
        sample_input, sample_output, sample_residual = _make_sample(problem, index)
        inputs.append(sample_input)
        outputs.append(sample_output)
        residual = max(residual, sample_residual)
    manifest = Manifest.of(problem)
    content = build_shard(manifest, first, np.stack(inputs), np.stack(outputs), problem.parameters)
    digest = hashlib.sha256(content).hexdigest()
    with _explained(folder), atomic_path(folder / file) as temporary:
        temporary.write_bytes(content)
    return ShardRecord(file=file, first=first, count=count, sha256=digest, residual=residual)


def _make_sample(problem: Problem, index: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Input (*N), output (T, *N) or (*N), both in the number type on disk, and residual."""
    try:
        sample_input, sample_output, residual = problem.sample(index)
    except SolverError as error:
        # solvers count within their batch, which is this sample alone
        raise SolverError(str(error).replace("sample 0", f"sample {index}", 1)) from error
    dtype = getattr(torch, problem.dtype)
    # contiguous: a view of every r-th point would keep all points of the solver in memory
    stored = [field.to(dtype).contiguous() for field in (sample_input, sample_output)]
    if not all(bool(torch.isfinite(field).all()) for field in stored):
        raise SolverError(
            f"sample {index} of {problem.name} is not finite in {problem.dtype}; nothing was "
            "written: take milder parameters"
        )
    return stored[0].squeeze(0).numpy(), stored[1].squeeze(-1 - problem.dim).numpy(), residual


def _check_folder(folder: Path) -> None:
    """Refuse a folder with the files of others, before anything in it is touched."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; expected a folder: choose another name")
    if folder.is_dir() and not (folder / MANIFEST).exists():
        foreign = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
        if foreign:
            raise ValueError(
                f"{folder} holds other files ({', '.join(sorted(foreign)[:3])}): "
                "choose an empty or a new folder"
            )


def _start_or_resume(problem: Problem, folder: Path) -> Manifest:
    """The manifest to go on from, with the shards that can be trusted."""
    wanted = Manifest.of(problem)
    if not (folder / MANIFEST).exists():
        with _explained(folder):
            write_manifest(folder, wanted)
        return wanted
    there = read_manifest(folder)
    if differences := wanted.differences(there):
        raise ValueError(
            f"{folder} holds another dataset ({'; '.join(differences)}): choose another folder, "
            "delete this one, or ask for the same data"
        )
    planned = set(wanted.plan())
    trusted = tuple(
        shard
        for shard in there.shards
        if (shard.file, shard.first, shard.count) in planned
        and (folder / shard.file).is_file()
        and sha256(folder / shard.file) == shard.sha256
    )
    manifest = _with_shards(wanted, trusted, complete=len(trusted) == len(planned))
    if manifest != there:
        with _explained(folder):
            write_manifest(folder, manifest)
    return manifest


def _finish(problem: Problem, folder: Path, manifest: Manifest, workers: int | None) -> Manifest:
    """Make the shards that are missing and list each as soon as it is there."""
    done = {shard.file: shard for shard in manifest.shards}
    plan = manifest.plan()
    missing = [entry for entry in plan if entry[0] not in done]
    _check_space(folder, manifest, missing)
    with (
        track(f"generate {problem.name}", total=problem.samples, done=manifest.made) as advance,
        contextlib.closing(_make_all(problem, folder, missing, workers)) as records,
    ):
        for record in records:
            done[record.file] = record
            shards = tuple(done[file] for file, _, _ in plan if file in done)
            manifest = _with_shards(manifest, shards, complete=len(shards) == len(plan))
            with _explained(folder):
                write_manifest(folder, manifest)
            advance(record.count)
    return manifest


def _make_all(
    problem: Problem, folder: Path, missing: list[tuple[str, int, int]], workers: int | None
) -> Generator[ShardRecord, None, None]:
    """Records of the missing shards in the order in which they are finished.

    Without a number of workers a cluster makes them.
    """
    if workers is None:
        yield from make_on_cluster(make_shard, problem, folder, missing)
        return
    with worker_pool(min(workers, len(missing))) as pool:
        futures = [pool.submit(make_shard, problem, folder, *entry) for entry in missing]
        for future in as_completed(futures):
            yield future.result()


def _with_shards(
    manifest: Manifest, shards: tuple[ShardRecord, ...], *, complete: bool
) -> Manifest:
    return manifest.model_copy(update={"shards": shards, "complete": complete})


@contextlib.contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; the operating system frees it when a process dies."""
    try:
        import fcntl
    except ImportError:  # no such lock on this system
        yield
        return
    with open(folder / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ValueError(f"another process is generating into {folder}: let it end") from error
        yield


@contextlib.contextmanager
def _swept(folder: Path) -> Iterator[None]:
    """Without temporary files, before and after; workers that were ended may leave some."""
    sweep(folder)
    try:
        yield
    finally:
        sweep(folder)


@contextlib.contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Say what could not be written and what to do about it."""
    try:
        yield
    except OSError as error:
        raise OSError(
            f"cannot write to {folder} ({error.strerror or error}): free some space or choose "
            "another folder; the shards listed in its manifest are kept when you run the same "
            "command again"
        ) from error


def _check_space(folder: Path, manifest: Manifest, missing: list[tuple[str, int, int]]) -> None:
    samples = sum(count for _, _, count in missing)
    axes = 9 * sum(manifest.grid.shape) + 8 * len(manifest.times or ())
    needed = manifest.sample_bytes() * samples + (SHARD_OVERHEAD + axes) * len(missing)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ValueError(
            f"the dataset needs {needed / 2**20:.0f} MiB more but {folder} has {free / 2**20:.0f} "
            "MiB free: free some space, or lower samples or resolution"
        )
