"""Progress of long work: a bar with rate and time left on a terminal, plain lines elsewhere."""

__all__ = ["Advance", "track"]

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Protocol

PLAIN_EVERY = 10.0
Show = Callable[[int, float, str], None]


class Advance(Protocol):
    """Tells how much more is done, and perhaps something worth showing beside it."""

    def __call__(self, amount: int, note: str | None = None) -> None: ...


@contextlib.contextmanager
def track(title: str, *, total: int, done: int = 0) -> Iterator[Advance]:
    """Show progress towards `total`; yields a function that is told how much more is done.

    What was `done` before does not count for the rate.
    """
    with contextlib.ExitStack() as stack:
        bar = stack.enter_context(_bar(title, total, done)) if sys.stderr.isatty() else None
        start, count, last, shown = time.monotonic(), done, 0.0, ""

        def advance(amount: int, note: str | None = None) -> None:
            nonlocal count, last, shown
            count, shown = count + amount, shown if note is None else note
            now = time.monotonic()
            rate = (count - done) / max(now - start, 1e-9)
            if bar is not None:
                bar(count, rate, shown)
            elif count >= total or now - last >= PLAIN_EVERY:
                last = now
                left = (total - count) / rate if rate > 0 else float("inf")
                text = f"{title}: {count}/{total}, {rate:.2f}/s, {left:.0f} s left"
                print(f"{text}, {shown}" if shown else text, file=sys.stderr)

        yield advance


@contextlib.contextmanager
def _bar(title: str, total: int, done: int) -> Iterator[Show]:
    from rich import progress as parts
    from rich.console import Console

    text = parts.TextColumn
    columns = (text("{task.description}"), parts.BarColumn(), parts.MofNCompleteColumn())
    times = (parts.TimeElapsedColumn(), text("left"), parts.TimeRemainingColumn())
    fields = (text("{task.fields[rate]}"), *times, text("{task.fields[note]}"))
    with parts.Progress(*columns, *fields, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total, completed=done, rate="", note="")
        yield lambda count, rate, note: bar.update(
            task, completed=count, rate=f"{rate:.2f}/s", note=note
        )
