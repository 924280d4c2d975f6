"""What something costs: seconds as the best of alternating repetitions, and peak memory.

Times on a shared machine are noise; ratios of the best times of contenders that took turns in one
run are not. Memory is the growth of the process's largest resident size, so it is measured in a
process of its own.
"""

__all__ = ["peak_growth", "time_alternately"]

import time
from collections.abc import Callable, Mapping


def time_alternately(
    contenders: Mapping[str, Callable[[], object]], *, repeats: int = 5, warm_up: bool = True
) -> dict[str, float]:
    """Best seconds of each contender; they take turns, so that noise meets all of them.

    Arguments:
        contenders: What to call, by name.
        repeats: How often each is timed.
        warm_up: Whether each is called once before.
    """
    best = dict.fromkeys(contenders, float("inf"))
    for run in contenders.values() if warm_up else ():
        run()
    for _ in range(repeats):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def peak_growth(run: Callable[[], object]) -> int:
    """Bytes by which the largest resident size of this process grows while `run` runs."""
    import resource

    unit = 1024  # Linux counts in kilobytes
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit
