"""Display of objects and of long work: short descriptions, bars, and plain lines elsewhere."""

import contextlib
import html
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress

PLAIN_EVERY, NOTEBOOK_EVERY = 10.0, 0.25  # seconds


def one_line(title: str, values: Mapping[str, str]) -> str:
    """Names and values in one line, for `__repr__`."""
    return f"<{title} {', '.join(f'{name} {value}' for name, value in values.items())}>"


def html_table(title: str, values: Mapping[str, object]) -> str:
    """A heading above a table with one line per name, for `_repr_html_`."""
    pairs = [(html.escape(str(name)), html.escape(str(value))) for name, value in values.items()]
    lines = "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in pairs)
    return f"<b>{html.escape(title)}</b>{lines and f'<table>{lines}</table>'}"


def render(template: Path, **values: object) -> str:
    """The text of a template of Jinja with these values; one of HTML escapes what is none."""
    from jinja2 import Template

    made = Template(
        template.read_text(encoding="utf-8"),
        autoescape=template.name.endswith(".html.jinja"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    text: str = made.render(**values)
    return text


class Advance(Protocol):
    """Reports that `amount` more is done, and perhaps a note to show beside it."""

    def __call__(self, amount: int, note: str | None = None) -> None: ...


@contextlib.contextmanager
def track(title: str, *, total: int, done: int = 0) -> Iterator[Advance]:
    """Show progress up to `total` as the block calls what this yields; rates leave out `done`."""
    cell = _notebook_cell(title)
    every = PLAIN_EVERY if cell is None else NOTEBOOK_EVERY
    show = cell or (lambda bar, text: print(text, file=sys.stderr))
    on_terminal = cell is None and sys.stderr.isatty()
    with _bar() if on_terminal else contextlib.nullcontext() as bar:
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
                last, left = now, (total - count) / rate if rate > 0 else float("inf")
                text = f"{title}: {count}/{total}, {rate:.2f}/s, {left:.0f} s left"
                bar_of_cell = f'<progress value="{count}" max="{total}"></progress> '
                show(bar_of_cell, f"{text}, {shown}" if shown else text)

        yield advance


def _notebook_cell(title: str) -> Callable[[str, str], None] | None:
    """Shows HTML and plain text below the cell of a notebook, in place; None where none runs."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import display

    def bundle(bar: str, text: str) -> dict[str, str]:
        return {"text/plain": text, "text/html": bar + html.escape(text)}

    shown = display(bundle("", title), raw=True, display_id=True)
    return lambda bar, text: shown.update(bundle(bar, text), raw=True)


def _bar() -> "Progress":
    from rich import progress
    from rich.console import Console

    counts = ("{task.description}", progress.BarColumn(), progress.MofNCompleteColumn())
    times = (progress.TimeElapsedColumn(), "left", progress.TimeRemainingColumn())
    fields = ("{task.fields[rate]}", *times, "{task.fields[note]}")
    return progress.Progress(*counts, *fields, console=Console(stderr=True))
