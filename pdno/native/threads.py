"""Tasks that are shared out over as many threads as torch uses; compiled code holds no lock.

A task writes to places of its own, so it does not matter which thread does it, and when.
"""

__all__ = ["run_tasks"]

import contextlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache

import torch


def run_tasks(task: Callable[[int, int], None], arguments: Sequence[tuple[int, int]]) -> None:
    """Call `task` for each pair of arguments, in threads where torch uses several.

    Arguments:
        task: What to do.
        arguments: For what.
    """
    tasks, futures = list(arguments), list[Future[None]]()
    threads = torch.get_num_threads()
    if threads > 1 and len(tasks) > 1:
        # where the interpreter is about to end no more tasks are taken: the rest is done here
        with contextlib.suppress(RuntimeError):
            while tasks:
                futures.append(_pool(threads).submit(task, *tasks[0]))
                del tasks[0]
    for first, second in tasks:
        task(first, second)
    for future in futures:
        future.result()


@lru_cache(maxsize=1)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="pdno")


# a forked child has none of its parent's threads: its pool is made anew
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
