"""Workers that generate shards: local processes, or a Ray cluster with a shared folder.

Worker processes end with their parent, however it ends: each watches one end of a pipe whose other
end only the parent holds. torch is not imported here, so that a worker watches before the slow
part of its start.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdno.interface.errors import require

if TYPE_CHECKING:
    from pdno.data.problems import Problem
    from pdno.data.shards import ShardRecord

Plans = Sequence[tuple[str, int, int]]


@contextlib.contextmanager
def worker_pool(count: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of processes; when the block fails, they are ended and not waited for."""
    context = multiprocessing.get_context("spawn")
    watched, held = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(count, context, _follow_parent, (watched,))
    try:
        yield pool
    except BrokenProcessPool as error:
        cure = "with fewer workers if memory was short; scripts need `if __name__ == '__main__':`"
        raise ValueError(f"a worker process died: run the same command again, {cure}") from error
    except BaseException:
        held.close()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        held.close()
        watched.close()


def _follow_parent(watched: Connection) -> None:
    """End this worker when the other end of the pipe is closed; leave Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        with contextlib.suppress(OSError):
            watched.poll(None)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def start_ray() -> Any:
    """The Ray module, connected to an existing cluster, or to one of this machine."""
    ray = require("ray", "cluster")
    ray.init(ignore_reinit_error=True, include_dashboard=False, log_to_driver=False)
    return ray


def make_on_cluster(
    make: "Callable[..., ShardRecord]", problem: "Problem", folder: Path, missing: Plans
) -> "Generator[ShardRecord, None, None]":
    """Records of the missing shards as they are finished; all machines must see the folder.

    Only names and numbers travel. A lost task may be tried again, as a shard is written whole.
    """
    from pdno.data.problems import PROBLEMS
    from pdno.data.shards import ShardRecord

    def task(name: str, record: str, path: str, plan: tuple[str, int, int]) -> str:
        same = PROBLEMS[name].model_validate_json(record)
        return make(same, Path(path), *plan).model_dump_json()

    ray = start_ray()
    remote = ray.remote(max_retries=3)(task)
    arguments = (problem.name, problem.model_dump_json(), str(folder.resolve()))
    waiting = [remote.remote(*arguments, entry) for entry in missing]
    while waiting:
        done, waiting = ray.wait(waiting, num_returns=1)
        yield ShardRecord.model_validate_json(ray.get(done[0]))
