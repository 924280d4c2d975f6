"""One visual style for every figure, colour-blind safe: training dashed, test solid."""

import contextlib
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import matplotlib.figure
import numpy as np
from cycler import cycler
from matplotlib.artist import Artist
from matplotlib.axes import Axes as Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from pdno.files.atomic import atomic_path

# Okabe and Ito's palette
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
SETTINGS = {
    "axes.prop_cycle": cycler(color=COLOURS),
    **{"axes.spines.top": False, "axes.spines.right": False},
    **{"axes.titlesize": 10, "axes.labelsize": 9, "xtick.labelsize": 8, "ytick.labelsize": 8},
    **{"legend.fontsize": 8, "legend.frameon": False, "figure.constrained_layout.use": True},
    **{"image.origin": "lower", "image.cmap": "viridis"},
    **{"savefig.dpi": 150, "svg.hashsalt": "pdno"},
}
# so that the same figure gives the same bytes
WITHOUT_CLOCK = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


class Figure(matplotlib.figure.Figure):
    """A figure that notebooks display without pyplot."""

    def _repr_png_(self) -> bytes:
        target = io.BytesIO()
        with figure_style():
            self.savefig(target, format="png", dpi=100)
        return target.getvalue()


@contextlib.contextmanager
def figure_style(settings: Mapping[str, object] = SETTINGS) -> Iterator[None]:
    """Draw in this style, without a screen; a block, or a decorator."""
    with matplotlib.rc_context(settings):  # type: ignore[arg-type]
        yield


def save_figure(figure: matplotlib.figure.Figure, path: Path) -> Path:
    """Write a figure whole or not at all, in the format of its ending."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # the style holds when a figure is written, too: its resolution and its identifiers
    with figure_style(), atomic_path(path) as temporary:
        ending = path.suffix.lstrip(".")
        figure.savefig(temporary, format=ending, metadata=WITHOUT_CLOCK.get(ending))
    return path


def grid_of_panels(
    count: int, columns: int, width: float, height: float
) -> tuple[Figure, list[Axes]]:
    """A figure with this many panels, row by row; those that are left over are invisible."""
    columns = min(columns, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(width * columns, height * rows))
    panels: list[Axes] = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axes in panels[count:]:
        axes.set_visible(False)
    return figure, panels[:count]


def spread(count: int, most: int) -> list[int]:
    """At most `most` indices below `count`, evenly spread, with the first and the last."""
    return sorted(set(np.linspace(0, count - 1, min(count, most)).round().astype(int).tolist()))


def logarithmic(axes: Axes, name: str) -> None:
    """Make the axis "x" or "y" logarithmic, with plain numbers that do not touch each other."""
    axes.set(**{f"{name}scale": "log"})
    axis = {"x": axes.xaxis, "y": axes.yaxis}[name]
    low, high = axis.get_view_interval()
    # over several decades 1, 2 and 5 of each would be too many, and matplotlib would show none
    subs = (1, 2, 5) if high < 200 * low else (1,)
    axis.set_major_locator(LogLocator(subs=subs, numticks=5))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}".replace("e-0", "e-")))


def shared_legend(figure: Figure, panels: Iterable[Axes], columns: int = 4) -> None:
    """One legend below all panels, each name once."""
    handles: dict[str, Artist] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if names := sorted(handles):
        ordered, columns = [handles[name] for name in names], min(columns, len(names))
        figure.legend(ordered, names, loc="outside lower center", ncols=columns)
