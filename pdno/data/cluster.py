"""Shards made by a Ray cluster whose machines share the folder of the dataset.

A shard depends on its problem and its first index only and is written whole or not at all, so it
does not matter where it is made, or whether a lost task is tried again. Only names and numbers
travel, never arrays.
"""

__all__ = ["make_on_cluster", "start_ray"]

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from pdno.data.manifest import ShardRecord
from pdno.data.problems import PROBLEMS, Problem

Entry = tuple[str, int, int]
RETRIES = 3


def start_ray() -> Any:
    """The Ray module, connected to the cluster that there is, or to one of this machine."""
    try:
        import ray
    except ImportError as missing:
        raise ValueError("engine 'ray' needs the extra: pip install 'pdno[cluster]'") from missing
    ray.init(ignore_reinit_error=True, include_dashboard=False, log_to_driver=False)
    return ray


def make_on_cluster(
    make: Callable[[Problem, Path, str, int, int], ShardRecord],
    problem: Problem,
    folder: Path,
    missing: list[Entry],
) -> Generator[ShardRecord, None, None]:
    """Records of the missing shards in the order in which they are finished.

    Arguments:
        make: Makes one shard.
        problem: What to make.
        folder: Where; all machines must see it under this name.
        missing: File, first index and count of each shard.
    """
    ray = start_ray()

    def task(name: str, numbers: str, place: str, entry: Entry) -> str:
        same = PROBLEMS[name].model_validate_json(numbers)
        return make(same, Path(place), *entry).model_dump_json()

    remote = ray.remote(max_retries=RETRIES)(task)
    place = str(folder.resolve())
    waiting = [
        remote.remote(problem.name, problem.model_dump_json(), place, entry) for entry in missing
    ]
    while waiting:
        done, waiting = ray.wait(waiting, num_returns=1)
        yield ShardRecord.model_validate_json(ray.get(done[0]))
