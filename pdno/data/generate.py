"""Generation: from a problem to a dataset, on all cores, interruptible at any moment.

Shards are made by worker processes, one thread each, one sample at a time, so that no bit of a
sample depends on its neighbours. Each finished shard is written atomically and then listed in the
manifest. What is listed and whose SHA-256 agrees is kept when generation starts again; anything
else is made again. An interrupted generation therefore ends with the bytes of an uninterrupted one.
"""

__all__ = ["generate_dataset", "make_shard"]

import contextlib
import multiprocessing
import os
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import torch

from pdno.atomic import atomic_path, sha256, sweep
from pdno.data.manifest import MANIFEST, Manifest, ShardRecord, read_manifest, write_manifest
from pdno.data.problems import Problem
from pdno.data.shards import build_shard
from pdno.progress import track


def generate_dataset(problem: Problem, folder: Path, *, workers: int | None = None) -> Manifest:
    """Generate a dataset in `folder`, or finish one that was interrupted.

    Arguments:
        problem: What to generate.
        folder: Where; created if missing.
        workers: Number of processes; None uses every core.
    """
    count = workers if workers is not None else (os.cpu_count() or 1)
    if count < 1:
        raise ValueError(f"workers is {count}; expected at least 1")
    folder.mkdir(parents=True, exist_ok=True)
    with _only_writer(folder):
        sweep(folder)
        manifest = _start_or_resume(problem, folder)
        if manifest.complete:
            return manifest
        done = {shard.file: shard for shard in manifest.shards}
        missing = [entry for entry in manifest.plan() if entry[0] not in done]
        _check_space(folder, manifest.sample_bytes() * sum(n for _, _, n in missing))
        finished = sum(shard.count for shard in manifest.shards)
        with track(f"generate {problem.name}", total=problem.samples, done=finished) as advance:
            for record in _make_all(problem, folder, missing, count):
                done[record.file] = record
                shards = tuple(done[file] for file, _, _ in manifest.plan() if file in done)
                complete = len(shards) == len(manifest.plan())
                manifest = manifest.model_copy(update={"shards": shards, "complete": complete})
                write_manifest(folder, manifest)
                advance(record.count)
    return manifest


def make_shard(problem: Problem, folder: Path, file: str, first: int, count: int) -> ShardRecord:
    """Make one shard and return its record; the same bytes wherever and whenever it runs."""
    torch.set_num_threads(1)
    inputs, outputs, residual = [], [], 0.0
    for index in range(first, first + count):
        sample_input, sample_output, sample_residual = problem.sample(index)
        if not bool(torch.isfinite(sample_output).all()):
            raise ValueError(
                f"sample {index} of {problem.name} is not finite; nothing was written"
            )
        inputs.append(sample_input.squeeze(0).numpy())
        outputs.append(sample_output.squeeze(-1 - problem.dim).numpy())
        residual = max(residual, sample_residual)
    manifest = Manifest.of(problem)
    content = build_shard(manifest, first, np.stack(inputs), np.stack(outputs), problem.parameters)
    with atomic_path(folder / file) as temporary:
        temporary.write_bytes(content)
    digest = sha256(folder / file)
    return ShardRecord(file=file, first=first, count=count, sha256=digest, residual=residual)


def _start_or_resume(problem: Problem, folder: Path) -> Manifest:
    """The manifest to go on from, with the shards that can be trusted."""
    wanted = Manifest.of(problem)
    if not (folder / MANIFEST).exists():
        foreign = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
        if foreign:
            raise ValueError(
                f"{folder} holds other files ({', '.join(sorted(foreign)[:3])}): "
                "choose an empty or a new folder"
            )
        write_manifest(folder, wanted)
        return wanted
    there = read_manifest(folder)
    if differences := wanted.differences(there):
        raise ValueError(
            f"{folder} holds another dataset ({'; '.join(differences)}): choose another folder, "
            "delete this one, or ask for the same data"
        )
    trusted = tuple(
        shard
        for shard in there.shards
        if (folder / shard.file).is_file() and sha256(folder / shard.file) == shard.sha256
    )
    complete = there.complete and len(trusted) == len(there.shards)
    manifest = wanted.model_copy(update={"shards": trusted, "complete": complete})
    write_manifest(folder, manifest)
    return manifest


def _make_all(
    problem: Problem, folder: Path, missing: list[tuple[str, int, int]], workers: int
) -> Iterator[ShardRecord]:
    """Records of the missing shards in the order in which they are finished."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        min(workers, len(missing)), mp_context=context, initializer=_follow_parent
    ) as pool:
        futures: list[Future[ShardRecord]] = [
            pool.submit(make_shard, problem, folder, *entry) for entry in missing
        ]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool as error:
            raise ValueError(
                "a worker process died (out of memory?): run the same command again to go on, "
                "with fewer workers if it happens again"
            ) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _follow_parent() -> None:
    """End this worker when its parent is gone, so that a killed run leaves nothing behind."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


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
        except OSError as error:
            raise ValueError(f"another process is generating into {folder}: let it end") from error
        yield


def _check_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ValueError(
            f"the dataset needs {needed / 2**20:.0f} MiB more but {folder} has {free / 2**20:.0f} "
            "MiB free: free some space, or lower samples or resolution"
        )
