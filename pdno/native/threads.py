"""Work that is shared out over as many threads as torch uses; compiled code holds no lock."""

__all__ = ["share_out"]

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import torch


def share_out(part: Callable[[int, int], None], count: int) -> None:
    """Call `part(first, last)` for consecutive ranges of 0 .. count, each in a thread of its own.

    Arguments:
        part: What to do for a range.
        count: Number of things to do.
    """
    threads = min(torch.get_num_threads(), count)
    bounds = [count * thread // threads for thread in range(threads + 1)]
    if threads == 1:
        part(0, count)
    else:
        list(_pool(threads).map(part, bounds[:-1], bounds[1:]))


@lru_cache(maxsize=1)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="pdno")
