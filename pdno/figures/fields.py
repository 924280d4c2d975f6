"""Fields, trajectories and symbols as maps, from plain arrays.

A static sample is a row of input, target, prediction and error; a trajectory has a column for each
of a few times, or is an animation. Each channel has rows of its own. Of fields of one axis target
and prediction are curves in one panel, of volumes the three slices through the middle are shown.
Fields with a sign have a diverging map that is white at zero; all times share their colours.
"""

import itertools
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.cm import ScalarMappable
from matplotlib.tri import Triangulation
from PIL import Image

from pdno.figures.style import COLOURS, Axes, Figure, figure_style, spread
from pdno.files.atomic import atomic_path, write_text

FRAMES, CHANNELS = 4, 3  # that are drawn at most
NEARLY_WHITE = 248  # of 255; the middle of the diverging colour map is 247
PER_SECOND = 8
LONG_EDGE = 3.0  # of triangles between scattered points, in medians of the longest edges
ONE_SIGN = 0.1  # up to this share of the largest value a field may go beyond zero
ANIMATION_SETTINGS = {"savefig.dpi": 100, "animation.embed_limit": 100.0}
ICONS = {"minus": "−", "plus": "+", "play": "▶", "play fa-flip-horizontal": "◀", "pause": "⏸"}
ICONS |= {"fast-backward": "⏮", "fast-forward": "⏭", "step-backward": "«", "step-forward": "»"}
Array = np.ndarray[Any, np.dtype[np.float64]]
Names = tuple[Sequence[str], Sequence[str]]


class Style(TypedDict):
    """Colour map and range, keyword arguments of matplotlib."""

    cmap: str
    vmin: float
    vmax: float


class Panel(NamedTuple):
    """A field (*N) of the unit box, or a function of ξ from its lowest modes on.

    A field of one axis may have its `target` and error bars of half width `band` beside it. For an
    animation these are frames (T, *N).
    """

    title: str
    values: Array
    style: Style
    low: Sequence[float] | None = None
    band: Array | None = None
    target: Array | None = None
    points: Array | None = None  #: coordinates (P, d) of scattered points, of a field (P)

    def at(self, frame: int) -> "Panel":
        """One of its frames."""
        band, target = (f if f is None else f[frame] for f in (self.band, self.target))
        return self._replace(values=self.values[frame], band=band, target=target)


Show = Callable[[Panel], None]


def signed(*fields: Array) -> Style:
    """A diverging map with the same range on both sides of zero, for some arrays together."""
    largest = max((max(map(abs, _ends(field))) for field in fields), default=0.0)
    limit = largest if 0 < largest < np.inf else 1.0
    return {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}


def field_style(truth: Array) -> Style:
    """Diverging for a field with both signs, sequential for others, also nearly so."""
    low, high = _ends(truth)
    if min(-low, high) > ONE_SIGN * max(-low, high):
        return signed(truth)
    return {"cmap": "viridis", "vmin": low, "vmax": high}


def _ends(field: Array) -> tuple[float, float]:
    """Least and largest value; values outside of a domain are NaN."""
    numbers = field[~np.isnan(field)]
    return (float(numbers.min()), float(numbers.max())) if numbers.size else (np.nan, np.nan)


def draw_field(axes: Axes, panel: Panel) -> Show:
    """A curve in 1D, else a map with its colour bar, of a volume three slices.

    The first array axis runs to the right. Returns a function that shows another panel instead.
    """
    shape, low, x = panel.values.shape, panel.low, "x" if panel.low is None else "ξ"
    axes.set_title(panel.title, fontsize=8)
    axes.tick_params(labelsize=7)
    if panel.points is not None and panel.points.shape[1] > 1:
        return _draw_points(axes, panel)
    if len(shape) == 1:
        _label(axes, x)
        return _draw_lines(axes, panel)
    extent = None
    if len(shape) == 3:
        middles = np.cumsum((shape[0], shape[0], shape[1])) - np.array(shape)[[0, 0, 1]] / 2
        names = [f"{x}₁, {x}₂", f"{x}₁, {x}₃", f"{x}₂, {x}₃"]
        axes.set(yticks=[], xticks=middles + (0, 1, 2) - 0.5, xticklabels=names)
        _label(axes, "slices through the middle")
    else:
        _label(axes, f"{x}₁", f"{x}₂")
        if low is None:
            extent = (0.0, 1.0, 0.0, 1.0)
            axes.set(xticks=[0, 1], yticks=[0, 1])
        else:
            (a, b), (m, n) = low, shape
            extent = (a - 0.5, a + m - 0.5, b - 0.5, b + n - 0.5)
    image = axes.imshow(_as_image(panel), extent=extent, **panel.style)
    axes.figure.colorbar(image, ax=axes, shrink=0.75).ax.tick_params(labelsize=7)
    return lambda panel: image.set_data(_as_image(panel))


def _label(axes: Axes, x: str, y: str = "") -> None:
    axes.set_xlabel(x, labelpad=1, fontsize=8)
    axes.set_ylabel(y, labelpad=1, fontsize=8)


def _draw_points(axes: Axes, panel: Panel) -> Show:
    """Triangles between scattered points of the plane; in space the points, seen along x₃."""
    assert panel.points is not None
    x, y = panel.points[:, 0], panel.points[:, 1]
    axes.set(xlim=(0, 1), ylim=(0, 1), xticks=[0, 1], yticks=[0, 1], aspect="equal")
    _label(axes, "x₁", "x₂")
    drawn: ScalarMappable
    if panel.points.shape[1] == 2 and len(x) > 3:
        triangles = Triangulation(x, y)
        corners = panel.points[triangles.triangles]
        edges = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max(axis=1)
        # the long ones lie across holes and notches, where there are no points
        triangles.set_mask(edges > LONG_EDGE * np.median(edges))
        drawn = axes.tripcolor(triangles, panel.values, shading="gouraud", **panel.style)
    else:
        drawn = axes.scatter(x, y, 6, panel.values, **panel.style)
    axes.figure.colorbar(drawn, ax=axes, shrink=0.75).ax.tick_params(labelsize=7)
    return lambda panel: drawn.set_array(panel.values)


def _draw_lines(axes: Axes, panel: Panel) -> Show:
    values, band, target = panel.values, panel.band, panel.target
    least, most = panel.style["vmin"], panel.style["vmax"]
    if -np.inf < least < most < np.inf:
        axes.set_ylim(least - 0.05 * (most - least), most + 0.05 * (most - least))
    x = np.arange(values.size) / (values.size if panel.low is None else 1)
    if panel.points is not None:
        order = panel.points[:, 0].argsort()
        x, values = panel.points[order, 0], values[order]
        band, target = (part if part is None else part[order] for part in (band, target))
    lines = []
    if target is not None:
        lines = axes.plot(x, target, color="0.45", linewidth=2.5, label="target")
    lines += axes.plot(x, values, label="prediction", color=COLOURS[1 if lines else 0])
    if band is not None:
        colour = lines[-1].get_color()
        axes.fill_between(x, values - band, values + band, alpha=0.3, linewidth=0, color=colour)
    if target is not None:
        axes.legend(fontsize=6)

    def show(panel: Panel) -> None:
        shown = [panel.values] if panel.target is None else [panel.target, panel.values]
        for line, values in zip(lines, shown, strict=True):
            line.set_ydata(values)

    return show


def _as_image(panel: Panel) -> Array:
    """A plane, or the three slices of a volume through its middle, side by side."""
    values, shape = panel.values, panel.values.shape
    if len(shape) == 2:
        return values.T
    middle = [n // 2 for n in shape] if panel.low is None else [-int(k) for k in panel.low]
    planes = [values.take(k, axis) for axis, k in zip((2, 1, 0), reversed(middle), strict=True)]
    height = max(plane.shape[1] for plane in planes)
    padding = [((0, 1), (0, height - plane.shape[1])) for plane in planes]
    padded = [np.pad(p, w, constant_values=np.nan) for p, w in zip(planes, padding, strict=True)]
    return np.concatenate(padded)[:-1].T


def panels_of(
    name: str,
    target: Array,
    prediction: Array | None = None,
    band: Array | None = None,
    *,
    points: Array | None = None,
) -> list[Panel]:
    """Target, and prediction and error, as frames (T, *N); the first two share their colours.

    Of one axis they share a panel, with error bars around the prediction; of more axes those have
    a map.
    """
    panel, style = partial(Panel, points=points), field_style(target)
    if prediction is None:
        return [panel(name, target, style)]
    error = prediction - target
    last = panel("error", error, signed(error))
    if target.ndim == 2 and (points is None or points.shape[1] == 1):
        ends = prediction if band is None else np.stack([prediction - band, prediction + band])
        style["vmin"] = min(style["vmin"], float(ends.min()))
        style["vmax"] = max(style["vmax"], float(ends.max()))
        return [panel(name, prediction, style, band=band, target=target), last]
    panels = [panel(name, target, style), panel("prediction", prediction, style), last]
    return panels if band is None else [*panels, panel("error bars ±", band, field_style(band))]


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
    points: Sequence[Array] | None = None,
) -> Figure:
    """One sample: inputs (C, *N), then the target, or the target and the prediction.

    Shapes: outputs and band, the half width of error bars, (C, *N), or (T, C, *N) at some times.
    `names` are those of the channels of inputs and outputs, or one for all. Scattered `points`,
    (P, d) each, are those of the inputs and of the outputs.
    """
    before_points, after_points = points or (None, None)
    fields = outputs if band is None else (*outputs, band)
    frames = [field if times else field[None] for field in fields]
    counts = len(inputs), frames[0].shape[1]
    rows: list[Sequence[Panel | None]] = []
    for c in range(min(max(counts), CHANNELS)):
        before, after = (_channel_name(part, c, n) for part, n in zip(names, counts, strict=True))
        first = None
        if c < counts[0]:
            first = Panel(before, inputs[c], field_style(inputs[c]), points=before_points)
        panels = list[Panel]()
        if c < counts[1]:
            panels = panels_of(after, *(field[:, c] for field in frames), points=after_points)
        if not times:
            rows.append([first, *(panel.at(0) for panel in panels)])
        for row, panel in enumerate(panels if times else ()):
            shown = {k: panel.at(k) for k in spread(len(times or ()), FRAMES)}
            labels = [f", t = {t:g}" * (row == 0) for t in times or ()]
            line = [p._replace(title=panel.title + labels[k]) for k, p in shown.items()]
            rows.append([None if row else first, *line])
    return draw_rows(rows, title)


def draw_rows(
    rows: Sequence[Sequence[Panel | None]], title: str = "", names: Sequence[str] = ()
) -> Figure:
    """A figure with these rows of panels, which may have names."""
    width = max(map(len, rows))
    volume = any(panel is not None and panel.values.ndim == 3 for row in rows for panel in row)
    figure = Figure(figsize=((4.2 if volume else 2.3) * width, 2.0 * len(rows) + 0.3))
    axes = figure.subplots(len(rows), width, squeeze=False)
    draw_panels(axes, rows)
    for (first, *_), name in zip(axes, names, strict=False):
        first.set_ylabel(name)
    figure.suptitle(title, fontsize=10)
    return figure


def _channel_name(names: Sequence[str], channel: int, count: int) -> str:
    """The name of a channel; channels with one name are counted from 1."""
    if len(names) > 1:
        return names[min(channel, len(names) - 1)]
    return f"{names[0]} {channel + 1}" if count > 1 else names[0]


def on_white(frame: Image.Image) -> Image.Image:
    """A frame in 256 colours with its background still white, not mixed with pale colours."""
    image = frame.convert("RGB").quantize(256)
    palette = np.array(image.getpalette()).reshape(-1, 3)
    palette[palette.min(1) >= NEARLY_WHITE] = 255
    image.putpalette(palette.ravel().tolist())
    return image


class _WhiteWriter(PillowWriter):
    _frames: list[Image.Image]

    def finish(self) -> None:
        self._frames = [on_white(frame) for frame in self._frames]
        super().finish()


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
            write_text(target, f'<!DOCTYPE html>\n<meta charset="utf-8">\n{self._repr_html_()}')
        elif target.suffix == ".gif":
            with tempfile.TemporaryDirectory() as folder, figure_style(ANIMATION_SETTINGS):
                frames = Path(folder) / "frames.gif"
                self._movie().save(frames, writer=_WhiteWriter(fps=PER_SECOND))
                with atomic_path(target) as temporary:
                    temporary.write_bytes(frames.read_bytes())
        else:
            raise ValueError(f"{target} ends with {target.suffix!r}; expected .gif or .html")
        return target

    def _repr_html_(self) -> str:
        """Images and buttons, for notebooks; nothing is fetched from elsewhere."""
        with figure_style(ANIMATION_SETTINGS):
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
    shows = [draw_field(a, panel.at(0)) for a, panel in zip(axes, panels, strict=True)]

    def update(frame: int) -> None:
        figure.suptitle(f"{title}, t = {times[frame]:g}".removeprefix(", "), fontsize=10)
        for show, panel in zip(shows, panels, strict=True):
            show(panel.at(frame))

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
    return draw_rows(rows)


@figure_style()
def plot_phase_space(symbols: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Symbols of learned and true operators over x, to the right, and ξ: one row for each.

    Each has its modes xi (M,), and |a(x, ξ)| as learned, true, and difference, (M, N).
    """
    figure = Figure(figsize=(8.4, 2.5 * len(symbols)))
    rows = figure.subplots(len(symbols), 3, squeeze=False)
    titles = {"learned": "learned |a(x, ξ)|", "true": "solver", "difference": "|learned - solver|"}
    for row, (name, symbol) in zip(rows, symbols.items(), strict=True):
        most = float(np.max([symbol["learned"], symbol["true"]]))
        extent = (0.0, 1.0, symbol["xi"][0] - 0.5, symbol["xi"][-1] + 0.5)
        for axes, (key, title) in zip(row, titles.items(), strict=True):
            style = {"vmin": 0.0, "vmax": None if key == "difference" else most}
            values = np.transpose(symbol[key])
            image = axes.imshow(values, extent=extent, aspect="auto", **style)
            figure.colorbar(image, ax=axes)
            axes.set_title(title, fontsize=8)
            axes.set(xlabel="x₁", ylabel="ξ₁")
        row[0].set_ylabel(f"{name}\nξ₁".lstrip())
    return figure
