"""What data, runs, histories and certificates draw of themselves (see `pdno.interface.display`).

A static sample is a row of input, target, prediction and error; a trajectory has a column for each
of a few times, or is an animation. Each channel has rows of its own.
"""

__all__ = ["Animation", "animate_sample", "draw_training", "plot_history", "plot_sample"]

import itertools
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter

from pdno.figures.style import (
    Figure,
    draw_field,
    figure_style,
    logarithmic,
    map_of,
    signed,
    some,
)
from pdno.files.atomic import atomic_path, write_text
from pdno.paper.figures_symbols import (
    plot_certificate as plot_certificate,  # of `Certificate.plot`
)
from pdno.report.runs import Array

FRAMES, CHANNELS = 4, 3  # that are drawn at most
PER_SECOND = 8
SETTINGS: Any = {"savefig.dpi": 100, "animation.embed_limit": 100.0}
ICONS = {"minus": "−", "plus": "+", "play": "▶", "play fa-flip-horizontal": "◀", "pause": "⏸"}
ICONS |= {"fast-backward": "⏮", "fast-forward": "⏭", "step-backward": "«", "step-forward": "»"}
Names = tuple[Sequence[str], Sequence[str]]
Panel = tuple[str, Array, dict[str, Any]]  # title, field (*N) or frames of it, colours


def panels_of(
    name: str, target: Array, prediction: Array | None = None, band: Array | None = None
) -> list[Panel]:
    """Target, and prediction and error; the first two share their colours.

    With error bars the prediction of one axis has them around it, that of two a map of them.
    """
    colours = map_of(target)
    if prediction is None:
        return [(name, target, colours)]
    drawn = colours if band is None or band.ndim > 1 else {**colours, "band": band}
    pair = [(name, target, colours), ("prediction", prediction, drawn)]
    error = ("error", prediction - target, signed(prediction - target))
    bars = [("error bars ±", band, map_of(band))] if band is not None and band.ndim > 1 else []
    return [*pair, error, *bars]


def draw_panels(places: Any, rows: Sequence[Sequence[Any]]) -> None:
    """Arguments of `draw_field` for the axes (rows, columns); None leaves a place empty."""
    for line, row in zip(places, rows, strict=True):
        for axes, panel in itertools.zip_longest(line, row):
            axes.set_visible(panel is not None)
            if panel is not None:
                draw_field(axes, *panel)


@figure_style()
def plot_sample(
    given: Array,
    *outcome: Array,
    times: Sequence[float] | None = None,
    names: Names = (["input"], ["target"]),
    title: str = "",
    band: Array | None = None,
) -> Figure:
    """One sample: given (C, *N), and target, or target and prediction, as the outcome.

    Shapes: outcome and band, the half width of error bars, (C, *N), or (T, C, *N) at some times.
    `names` are those of the channels of both, or one for all.
    """
    outcome = outcome if band is None else (*outcome, band)
    frames = [field if times else field[None] for field in outcome]
    labels = {k: f", t = {times[k]:g}" if times else "" for k in some(len(frames[0]), FRAMES)}
    counts = len(given), frames[0].shape[1]
    channels = min(max(counts), CHANNELS)
    rows: list[list[Panel | None]] = []
    for c in range(channels):
        before, after = (name_of(part, c, n) for part, n in zip(names, counts, strict=True))
        first = (before, given[c], map_of(given[c])) if c < len(given) else None
        columns = [
            panels_of(after + label, *(field[k, c] for field in frames))
            for k, label in labels.items()
            if c < counts[1]
        ]
        below = list(zip(*columns, strict=True)) if times else [sum(columns, [])]
        rows += [[None if k else first, *line] for k, line in enumerate(below or [()])]
    width = max(map(len, rows))
    drawn = Figure(figsize=(2.3 * width, 2.0 * len(rows) + 0.3))
    draw_panels(drawn.subplots(len(rows), width, squeeze=False), rows)
    drawn.suptitle(title, fontsize=10)
    return drawn


def name_of(names: Sequence[str], channel: int, count: int) -> str:
    """The name of a channel; channels with one name are counted from 1."""
    if len(names) > 1:
        return names[min(channel, len(names) - 1)]
    return f"{names[0]} {channel + 1}" if count > 1 else names[0]


def draw_training(axes: Any, errors: Mapping[str, Sequence[tuple[float, float | None]]]) -> None:
    """Training error dashed and test error solid, by epoch; what was not measured is left out."""
    for split, pairs in errors.items():
        known = [(epoch, e) for epoch, e in pairs if e is not None and np.isfinite(e)]
        if known:
            style = {"linestyle": "--" if split == "train" else "-"}
            marker = {"marker": "o", "markersize": 3} if len(known) < 8 else {}
            axes.plot(*zip(*known, strict=True), label=split, **style, **marker)
    axes.set_xlabel("epoch", labelpad=1, fontsize=8)
    axes.locator_params(axis="x", integer=True)
    axes.tick_params(labelsize=7)
    axes.legend(fontsize=7)
    logarithmic(axes, "y")


@figure_style()
def plot_history(errors: Mapping[str, Sequence[tuple[float, float | None]]]) -> Figure:
    """Errors of both splits by epoch."""
    drawn = Figure(figsize=(5.2, 3.2))
    axes = drawn.subplots()
    draw_training(axes, errors)
    axes.set_ylabel("relative L2 error")
    return drawn


@dataclass(frozen=True)
class Animation:
    """A figure that changes with its frames; a notebook plays it."""

    figure: Figure
    update: Callable[[int], None]  #: draws a frame
    frames: int

    def __repr__(self) -> str:
        return f"<Animation of {self.frames} frames: save(path) writes .gif or .html>"

    def save(self, path: Path | str) -> Path:
        """Write a .gif, or an .html page with buttons that needs nothing else; its path."""
        target = Path(path)
        if target.suffix == ".html":
            page = f'<!DOCTYPE html>\n<meta charset="utf-8">\n{self._repr_html_()}'
            write_text(target, page)
        elif target.suffix == ".gif":
            with tempfile.TemporaryDirectory() as folder, matplotlib.rc_context(SETTINGS):
                drawn = Path(folder) / "frames.gif"
                self._playing().save(drawn, writer=PillowWriter(fps=PER_SECOND))
                with atomic_path(target) as temporary:
                    temporary.write_bytes(drawn.read_bytes())
        else:
            raise ValueError(f"{target} ends with {target.suffix!r}; expected .gif or .html")
        return target

    def _repr_html_(self) -> str:
        """Pictures and buttons, for notebooks; nothing is fetched from elsewhere."""
        with matplotlib.rc_context(SETTINGS):
            text = str(self._playing().to_jshtml(fps=PER_SECOND))
        text = re.sub(r"<link[^>]*>", "", text)  # a font with the icons
        return re.sub(r'<i class="fa fa-([\w -]+)"></i>', lambda found: ICONS[found[1]], text)

    def _playing(self) -> FuncAnimation:
        return FuncAnimation(self.figure, self.update, frames=self.frames)


@figure_style()
def animate_sample(
    given: Array,
    *outcome: Array,
    times: Sequence[float] | None = None,
    names: Names = (["input"], ["target"]),
    title: str = "",
) -> Animation:
    """A trajectory, arguments as in `plot_sample`; colours are the same for all times."""
    if not times:
        raise ValueError("a static sample has no times to go through: use plot instead of animate")
    count = min(outcome[0].shape[1], CHANNELS)
    titles = [name_of(names[1], c, count) for c in range(count)]
    rows = [panels_of(name, *(field[:, c] for field in outcome)) for c, name in enumerate(titles)]
    drawn = Figure(figsize=(2.6 * len(rows[0]), 2.3 * len(rows) + 0.3))
    places = drawn.subplots(len(rows), len(rows[0]), squeeze=False).ravel()
    panels = list(zip(places, itertools.chain(*rows), strict=True))
    shows = [draw_field(axes, name, values[0], style) for axes, (name, values, style) in panels]

    def update(frame: int) -> None:
        drawn.suptitle(f"{title}, t = {times[frame]:g}".removeprefix(", "), fontsize=10)
        for show, (_, (_, values, _)) in zip(shows, panels, strict=True):
            show(values[frame])

    return Animation(drawn, update, len(times))
