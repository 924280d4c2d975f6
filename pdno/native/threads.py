"""Tasks that are shared out over as many threads as torch uses; compiled code holds no lock.

A task writes to places of its own, so it does not matter which thread does it, and when.
"""

__all__ = ["run_tasks"]

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import torch


def run_tasks(task: Callable[[int, int], None], arguments: Sequence[tuple[int, int]]) -> None:
    """Call `task` for each pair of arguments, in threads where torch uses several.

    Arguments:
        task: What to do.
        arguments: For what.
    """
    threads = min(torch.get_num_threads(), len(arguments))
    if threads <= 1:
        for first, second in arguments:
            task(first, second)
        return
    for _ in _pool(torch.get_num_threads()).map(lambda pair: task(*pair), arguments):
        pass


@lru_cache(maxsize=1)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="pdno")


# a forked child has none of its parent's threads: its pool is made anew
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
