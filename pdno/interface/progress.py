"""Progress of long work: a bar on a terminal or in a notebook, plain lines elsewhere."""

__all__ = ["Advance", "track"]

import contextlib
import html
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

PLAIN_EVERY, NOTEBOOK_EVERY = 10.0, 0.25  # seconds
Advance = Callable[..., None]  # of how much more is done, and perhaps a note to show beside it


@contextlib.contextmanager
def track(title: str, *, total: int, done: int = 0) -> Iterator[Advance]:
    """Yield a function that is told how much more is done of `total`; rates leave out `done`."""
    cell = _notebook_cell(title)
    on_screen = cell is None and sys.stderr.isatty()
    every = PLAIN_EVERY if cell is None else NOTEBOOK_EVERY
    with _bar() if on_screen else contextlib.nullcontext() as bar:
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
            elif count >= total or now - last >= every:
                last = now
                left = (total - count) / rate if rate > 0 else float("inf")
                text = f"{title}: {count}/{total}, {rate:.2f}/s, {left:.0f} s left"
                text = f"{text}, {shown}" if shown else text
                if cell is None:
                    print(text, file=sys.stderr)
                else:
                    cell(f'<progress value="{count}" max="{total}"></progress> ', text)

        yield advance


def _notebook_cell(title: str) -> Callable[[str, str], None] | None:
    """Shows HTML and plain text below the cell of a notebook, in place of what it showed before.

    None where no notebook runs: its kernel has imported IPython already.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import display

    def bundle(bar: str, text: str) -> dict[str, str]:
        return {"text/plain": text, "text/html": bar + html.escape(text)}

    shown = display(bundle("", title), raw=True, display_id=True)
    return lambda bar, text: shown.update(bundle(bar, text), raw=True)


def _bar() -> Any:
    from rich import progress as parts
    from rich.console import Console

    text = parts.TextColumn
    columns = (text("{task.description}"), parts.BarColumn(), parts.MofNCompleteColumn())
    times = (parts.TimeElapsedColumn(), text("left"), parts.TimeRemainingColumn())
    fields = (text("{task.fields[rate]}"), *times, text("{task.fields[note]}"))
    return parts.Progress(*columns, *fields, console=Console(stderr=True))
