"""Fields, trajectories and symbols as maps, from plain arrays.

A static sample is a row of input, target, prediction and error; a trajectory has a column for each
of a few times, or is an animation. Each channel has rows of its own. Fields with a sign have a
diverging map that is white at zero.
"""

import itertools
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import matplotlib
import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter

from pdno.figures.style import Axes, Figure, figure_style, spread
from pdno.files.atomic import atomic_path, write_text

FRAMES, CHANNELS = 4, 3  # that are drawn at most
PER_SECOND = 8
ANIMATION_SETTINGS: Any = {"savefig.dpi": 100, "animation.embed_limit": 100.0}
ICONS = {"minus": "−", "plus": "+", "play": "▶", "play fa-flip-horizontal": "◀", "pause": "⏸"}
ICONS |= {"fast-backward": "⏮", "fast-forward": "⏭", "step-backward": "«", "step-forward": "»"}
Array = np.ndarray[Any, np.dtype[np.float64]]
Names = tuple[Sequence[str], Sequence[str]]
Show = Callable[[Array], None]


class Style(TypedDict):
    """Colour map and range, keyword arguments of matplotlib."""

    cmap: str
    vmin: float
    vmax: float


class Panel(NamedTuple):
    """A field (*N) of the unit box, or a function of ξ from its lowest modes on.

    With error bars of half width `band`, for fields of one axis; for an animation frames (T, *N).
    """

    title: str
    values: Array
    style: Style
    low: Sequence[float] | None = None
    band: Array | None = None


def signed(*fields: Array) -> Style:
    """A diverging map with the same range on both sides of zero, for some arrays together."""
    largest = max((float(np.abs(field).max()) for field in fields), default=0.0)
    limit = largest if 0 < largest < np.inf else 1.0
    return {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}


def field_style(truth: Array) -> Style:
    """Diverging for a field with both signs, sequential for others."""
    if truth.min() < 0 < truth.max():
        return signed(truth)
    return {"cmap": "viridis", "vmin": float(truth.min()), "vmax": float(truth.max())}


def draw_field(axes: Axes, panel: Panel) -> Show:
    """A curve in 1D, else a map with its colour bar, of a volume the first slice.

    The first array axis runs to the right. Returns a function that shows other values instead.
    """
    values, low = panel.values, panel.low
    x = "x" if low is None else "ξ"
    axes.set_title(panel.title, fontsize=8)
    axes.tick_params(labelsize=7)
    labels = {1: x, 2: f"{x}₁", 3: f"{x}₁, at the first {x}₃"}
    axes.set_xlabel(labels[values.ndim], labelpad=1, fontsize=8)
    if values.ndim == 1:
        return _draw_line(axes, panel)
    axes.set_ylabel(f"{x}₂", labelpad=1, fontsize=8)
    extent = (0.0, 1.0, 0.0, 1.0)
    if low is None:
        axes.set(xticks=[0, 1], yticks=[0, 1])
    else:
        (left, bottom), (width, height) = low[:2], values.shape[:2]
        extent = (left - 0.5, left + width - 0.5, bottom - 0.5, bottom + height - 0.5)
    image = axes.imshow(_first_slice(values), extent=extent, **panel.style)
    axes.get_figure().colorbar(image, ax=axes, shrink=0.75).ax.tick_params(labelsize=7)  # type: ignore[union-attr]
    return lambda values: image.set_data(_first_slice(values))


def _draw_line(axes: Axes, panel: Panel) -> Show:
    values, band = panel.values, np.zeros(()) if panel.band is None else panel.band
    least = min(panel.style["vmin"], float((values - band).min()))
    most = max(panel.style["vmax"], float((values + band).max()))
    if -np.inf < least < most < np.inf:
        axes.set_ylim(least - 0.05 * (most - least), most + 0.05 * (most - least))
    x = np.arange(values.size) / (values.size if panel.low is None else 1)
    (line,) = axes.plot(x, values)
    if panel.band is not None:
        axes.fill_between(x, values - band, values + band, alpha=0.3, linewidth=0)
    return line.set_ydata


def _first_slice(values: Array) -> Array:
    return values.T if values.ndim == 2 else values[..., 0].T


def panels_of(
    name: str, target: Array, prediction: Array | None = None, band: Array | None = None
) -> list[Panel]:
    """Target, and prediction and error; the first two share their colours.

    With error bars the prediction of one axis has them around it, that of two a map of them.
    """
    panels = [Panel(name, target, field_style(target))]
    if prediction is not None:
        error, around = prediction - target, band if target.ndim == 1 else None
        panels.append(Panel("prediction", prediction, panels[0].style, band=around))
        panels.append(Panel("error", error, signed(error)))
    if band is not None and band.ndim > 1:
        panels.append(Panel("error bars ±", band, field_style(band)))
    return panels


def draw_panels(rows: Iterable[Iterable[Axes]], panels: Sequence[Sequence[Panel | None]]) -> None:
    """Draw each panel in the axes of its row and column; None leaves the axes empty."""
    for line, row in zip(rows, panels, strict=True):
        for axes, panel in itertools.zip_longest(line, row):
            axes.set_visible(panel is not None)
            if panel is not None:
                draw_field(axes, panel)


@figure_style()
def plot_sample(
    inputs: Array,
    *outputs: Array,
    times: Sequence[float] | None = None,
    names: Names = (["input"], ["target"]),
    title: str = "",
    band: Array | None = None,
) -> Figure:
    """One sample: inputs (C, *N), then the target, or the target and the prediction.

    Shapes: outputs and band, the half width of error bars, (C, *N), or (T, C, *N) at some times.
    `names` are those of the channels of inputs and outputs, or one for all.
    """
    fields = outputs if band is None else (*outputs, band)
    frames = [field if times else field[None] for field in fields]
    labels = {k: f", t = {times[k]:g}" if times else "" for k in spread(len(frames[0]), FRAMES)}
    counts = len(inputs), frames[0].shape[1]
    rows: list[Sequence[Panel | None]] = []
    for c in range(min(max(counts), CHANNELS)):
        before, after = (_channel_name(part, c, n) for part, n in zip(names, counts, strict=True))
        first = Panel(before, inputs[c], field_style(inputs[c])) if c < counts[0] else None
        columns = [
            panels_of(after + label, *(field[k, c] for field in frames))
            for k, label in labels.items()
            if c < counts[1]
        ]
        below = list(zip(*columns, strict=True)) if times else [sum(columns, [])]
        rows += [[None if k else first, *line] for k, line in enumerate(below or [[]])]
    width = max(map(len, rows))
    figure = Figure(figsize=(2.3 * width, 2.0 * len(rows) + 0.3))
    draw_panels(figure.subplots(len(rows), width, squeeze=False), rows)
    figure.suptitle(title, fontsize=10)
    return figure


def _channel_name(names: Sequence[str], channel: int, count: int) -> str:
    """The name of a channel; channels with one name are counted from 1."""
    if len(names) > 1:
        return names[min(channel, len(names) - 1)]
    return f"{names[0]} {channel + 1}" if count > 1 else names[0]


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
            with (
                tempfile.TemporaryDirectory() as folder,
                matplotlib.rc_context(ANIMATION_SETTINGS),
            ):
                frames = Path(folder) / "frames.gif"
                self._movie().save(frames, writer=PillowWriter(fps=PER_SECOND))
                with atomic_path(target) as temporary:
                    temporary.write_bytes(frames.read_bytes())
        else:
            raise ValueError(f"{target} ends with {target.suffix!r}; expected .gif or .html")
        return target

    def _repr_html_(self) -> str:
        """Images and buttons, for notebooks; nothing is fetched from elsewhere."""
        with matplotlib.rc_context(ANIMATION_SETTINGS):
            text = str(self._movie().to_jshtml(fps=PER_SECOND))
        text = re.sub(r"<link[^>]*>", "", text)  # a font with the icons
        return re.sub(r'<i class="fa fa-([\w -]+)"></i>', lambda match: ICONS[match[1]], text)

    def _movie(self) -> FuncAnimation:
        return FuncAnimation(self.figure, self.update, frames=self.frames)


@figure_style()
def animate_sample(
    inputs: Array,
    *outputs: Array,
    times: Sequence[float] | None = None,
    names: Names = (["input"], ["target"]),
    title: str = "",
) -> Animation:
    """A trajectory, arguments as in `plot_sample`; colours are the same for all times."""
    if not times:
        raise ValueError("a static sample has no times to go through: use plot instead of animate")
    count = min(outputs[0].shape[1], CHANNELS)
    titles = [_channel_name(names[1], c, count) for c in range(count)]
    rows = [panels_of(name, *(field[:, c] for field in outputs)) for c, name in enumerate(titles)]
    figure = Figure(figsize=(2.6 * len(rows[0]), 2.3 * len(rows) + 0.3))
    axes = figure.subplots(len(rows), len(rows[0]), squeeze=False).ravel()
    panels = list(itertools.chain(*rows))
    firsts = [panel._replace(values=panel.values[0]) for panel in panels]
    shows = list(map(draw_field, axes, firsts))

    def update(frame: int) -> None:
        figure.suptitle(f"{title}, t = {times[frame]:g}".removeprefix(", "), fontsize=10)
        for show, panel in zip(shows, panels, strict=True):
            show(panel.values[frame])

    return Animation(figure, update, len(times))


def centred(values: Array) -> Array:
    """From the order 0, 1, ..., -2, -1 of all frequency axes but the last to -k, ..., k - 1."""
    axes = tuple(range(2, values.ndim - 1))
    return np.roll(values, [values.shape[axis] // 2 for axis in axes], axes)


def lowest_modes(values: Array) -> list[float]:
    """The first ξ of each axis of a symbol (O, I, *N^) that is centred in ξ."""
    return [-(n // 2) for n in values.shape[2:-1]] + [0]


@figure_style()
def plot_symbol_layer(frequency: Array, space: Array | None) -> Figure:
    """Re a2(ξ), and a1(x), of one layer, one panel per channel pair.

    Shapes: frequency (O, I, *N^) real, in the order of the FFT; space (O, I, *N) or None.
    """
    a2 = centred(frequency)
    parts = [("Re a2", a2, lowest_modes(a2))] + ([] if space is None else [("a1", space, None)])
    outputs, inputs = a2.shape[:2]
    # channels count from 1, and the input is named first, as in the paper
    rows = [
        [
            Panel(f"{name}_{i + 1}{j + 1}", values[j, i], signed(values[j, i]), low)
            for name, values, low in parts
            for i in range(inputs)
        ]
        for j in range(outputs)
    ]
    figure = Figure(figsize=(2.3 * len(rows[0]), 2.0 * outputs))
    draw_panels(figure.subplots(outputs, len(rows[0]), squeeze=False), rows)
    return figure


@figure_style()
def plot_phase_space(symbols: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Symbols of learned and true operators over x, to the right, and ξ: one row for each.

    Each has its modes xi (M,), and |a(x, ξ)| as learned, true, and difference, (M, N).
    """
    figure = Figure(figsize=(8.4, 2.5 * len(symbols)))
    rows = figure.subplots(len(symbols), 3, squeeze=False)
    for row, (name, symbol) in zip(rows, symbols.items(), strict=True):
        most = float(np.max([symbol["learned"], symbol["true"]]))
        maps = {
            "learned |a(x, ξ)|": (symbol["learned"], most),
            "solver": (symbol["true"], most),
            "|learned - solver|": (symbol["difference"], None),
        }
        extent = (0.0, 1.0, symbol["xi"][0] - 0.5, symbol["xi"][-1] + 0.5)
        for axes, (title, (values, limit)) in zip(row, maps.items(), strict=True):
            transposed = np.asarray(values).T
            image = axes.imshow(transposed, extent=extent, aspect="auto", vmin=0.0, vmax=limit)
            figure.colorbar(image, ax=axes)
            axes.set_title(title, fontsize=8)
            axes.set(xlabel="x₁", ylabel="ξ₁")
        row[0].set_ylabel(f"{name}\nξ₁" if name else "ξ₁")
    return figure
