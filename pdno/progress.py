"""Progress of long work: a bar with rate and time left on a terminal, plain lines elsewhere."""

__all__ = ["track"]

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

PLAIN_EVERY = 10.0


@contextlib.contextmanager
def track(title: str, *, total: int, done: int = 0) -> Iterator[Callable[[int], None]]:
    """Show progress towards `total`; yields a function that is told how much more is done.

    Arguments:
        title: What is being done.
        total: How much there is to do.
        done: How much of it was done before, and does not count for the rate.
    """
    if sys.stderr.isatty():
        with _bar(title, total, done) as advance:
            yield advance
    else:
        yield _plain(title, total, done)


@contextlib.contextmanager
def _bar(title: str, total: int, done: int) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    start, count = time.monotonic(), done
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(title, total=total, completed=done, rate="")

        def advance(amount: int) -> None:
            nonlocal count
            count += amount
            rate = (count - done) / max(time.monotonic() - start, 1e-9)
            progress.update(task, completed=count, rate=f"{rate:.2f}/s")

        yield advance


def _plain(title: str, total: int, done: int) -> Callable[[int], None]:
    start, count, last = time.monotonic(), done, 0.0

    def advance(amount: int) -> None:
        nonlocal count, last
        count += amount
        now = time.monotonic()
        if count < total and now - last < PLAIN_EVERY:
            return
        last = now
        rate = (count - done) / max(now - start, 1e-9)
        left = (total - count) / rate if rate > 0 else float("inf")
        print(f"{title}: {count}/{total}, {rate:.2f}/s, {left:.0f} s left", file=sys.stderr)

    return advance
