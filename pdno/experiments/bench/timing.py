"""Times of contenders that may be a thousand times as fast as each other."""

__all__ = ["time_long_enough"]

from collections.abc import Callable, Mapping

from pdno.evaluation.speed import time_alternately


def time_long_enough(
    contenders: Mapping[str, Callable[[], object]],
    *,
    repeats: int,
    seconds: float,
    warm_up: bool = True,
) -> dict[str, float]:
    """Best seconds of each contender; they take turns, and the quick ones have more of them.

    Arguments:
        contenders: What to call, by name.
        repeats: How often each is timed at least.
        seconds: How long each is timed at least, over all of its turns.
        warm_up: Whether each is called once before.
    """
    best = dict.fromkeys(contenders, float("inf"))
    spent = dict.fromkeys(contenders, 0.0)
    unfinished, turns = dict(contenders), 0
    while unfinished:
        taken = time_alternately(unfinished, repeats=1, warm_up=warm_up and turns == 0)
        turns += 1
        for name, time in taken.items():
            best[name] = min(best[name], time)
            spent[name] += time
            if turns >= repeats and spent[name] >= seconds:
                del unfinished[name]
    return best
