"""What something costs: seconds as the best of alternating repetitions, and peak memory.

Times on a shared machine are noise; ratios of the best times of contenders that took turns in one
run are not. Memory is the largest growth of the process's resident size, so it is measured in a
process of its own.
"""

__all__ = ["peak_growth", "time_alternately"]

import time
from collections.abc import Callable, Mapping
from pathlib import Path

PEAK_RESET = Path("/proc/self/clear_refs")


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
    """Bytes by which the resident size of this process grows at most while `run` runs (Linux)."""
    PEAK_RESET.write_text("5")  # sets the peak to the present size
    before = _status("VmRSS")
    run()
    return _status("VmHWM") - before


def _status(name: str) -> int:
    """A size of /proc/self/status in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    line = next(line for line in lines if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024
