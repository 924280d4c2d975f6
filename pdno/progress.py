"""Progress of long work: a bar with rate and time left on a terminal, plain lines elsewhere."""

__all__ = ["Advance", "track"]

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

PLAIN_EVERY = 10.0
Advance = Callable[..., None]  # of how much more is done, and perhaps a note to show beside it


@contextlib.contextmanager
def track(title: str, *, total: int, done: int = 0) -> Iterator[Advance]:
    """Yield a function that is told how much more is done of `total`; rates leave out `done`."""
    with _bar() if sys.stderr.isatty() else contextlib.nullcontext() as bar:
        if bar is not None:
            bar.add_task(title, total=total, completed=done, rate="", note="")
        start, count, last, shown = time.monotonic(), done, 0.0, ""

        def advance(amount: int, note: str | None = None) -> None:
            nonlocal count, last, shown
            count, shown = count + amount, shown if note is None else note
            now = time.monotonic()
            rate = (count - done) / max(now - start, 1e-9)
            if bar is not None:
                bar.update(bar.task_ids[0], completed=count, rate=f"{rate:.2f}/s", note=shown)
            elif count >= total or now - last >= PLAIN_EVERY:
                last = now
                left = (total - count) / rate if rate > 0 else float("inf")
                text = f"{title}: {count}/{total}, {rate:.2f}/s, {left:.0f} s left"
                print(f"{text}, {shown}" if shown else text, file=sys.stderr)

        yield advance


def _bar() -> Any:
    from rich import progress as parts
    from rich.console import Console

    text = parts.TextColumn
    columns = (text("{task.description}"), parts.BarColumn(), parts.MofNCompleteColumn())
    times = (parts.TimeElapsedColumn(), text("left"), parts.TimeRemainingColumn())
    fields = (text("{task.fields[rate]}"), *times, text("{task.fields[note]}"))
    return parts.Progress(*columns, *fields, console=Console(stderr=True))
