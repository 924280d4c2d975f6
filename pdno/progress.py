"""Progress of long work: a bar with rate and time left on a terminal, plain lines elsewhere."""

__all__ = ["Advance", "track"]

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Protocol

PLAIN_EVERY = 10.0


class Advance(Protocol):
    """Tells how much more is done, and perhaps something worth showing beside it."""

    def __call__(self, amount: int, note: str | None = None) -> None: ...


@contextlib.contextmanager
def track(title: str, *, total: int, done: int = 0) -> Iterator[Advance]:
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
def _bar(title: str, total: int, done: int) -> Iterator[Advance]:
    from rich import progress as parts
    from rich.console import Console

    columns = (
        parts.TextColumn("{task.description}"),
        parts.BarColumn(),
        parts.MofNCompleteColumn(),
        parts.TextColumn("{task.fields[rate]}"),
        parts.TimeElapsedColumn(),
        parts.TextColumn("left"),
        parts.TimeRemainingColumn(),
        parts.TextColumn("{task.fields[note]}"),
    )
    start, count = time.monotonic(), done
    with parts.Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total, completed=done, rate="", note="")

        def advance(amount: int, note: str | None = None) -> None:
            nonlocal count
            count += amount
            rate = (count - done) / max(time.monotonic() - start, 1e-9)
            bar.update(task, completed=count, rate=f"{rate:.2f}/s")
            if note is not None:
                bar.update(task, note=note)

        yield advance


def _plain(title: str, total: int, done: int) -> Advance:
    start, count, last, shown = time.monotonic(), done, 0.0, ""

    def advance(amount: int, note: str | None = None) -> None:
        nonlocal count, last, shown
        count += amount
        shown = shown if note is None else f", {note}"
        now = time.monotonic()
        if count < total and now - last < PLAIN_EVERY:
            return
        last = now
        rate = (count - done) / max(now - start, 1e-9)
        left = (total - count) / rate if rate > 0 else float("inf")
        print(f"{title}: {count}/{total}, {rate:.2f}/s, {left:.0f} s left{shown}", file=sys.stderr)

    return advance
