"""One visual style for every figure, colour-blind safe, and the entries of a report.

A network has the same colour in every figure, by its metadata. Training errors are dashed and test
errors solid. Fields with a sign have a diverging map that is white at zero.
"""

__all__ = [
    "COLOURS",
    "Entry",
    "Figure",
    "draw_field",
    "figure",
    "figure_style",
    "line_of",
    "marker_of",
    "save_figure",
    "signed",
]

import contextlib
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np
from cycler import cycler
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from pdno.evaluation.metric_table import Metadata
from pdno.files.atomic import atomic_path
from pdno.paper.published import ONE_SHOT, PDNO, PLAIN, PROVABLE, RELU
from pdno.report.runs import MissingRunsError, Results

# Okabe and Ito's palette
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = {
    **{PDNO: ("#0072B2", "o"), PLAIN: ("#56B4E9", "v"), ONE_SHOT: ("#000000", "P")},
    **{RELU: ("#7F7F7F", "X"), PROVABLE: ("#332288", "p"), "PDNO trunk": ("#117733", "h")},
    **{"PDNO a(ξ,t,μ)": ("#882255", "d"), "PDNO semigroup": ("#44AA99", ">")},
    **{"FNO": ("#D55E00", "s"), "FNO-3D": ("#E69F00", "D")},
    **{"MWT Leg": ("#009E73", "^"), "MWT Chb": ("#CC79A7", "<")},
}
OTHER_MARKER = ("#6B4E00", "*")
SETTINGS: Any = {
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
    """A figure that notebooks show by itself: it needs no pyplot and changes no backend."""

    def _repr_png_(self) -> bytes:
        target = io.BytesIO()
        with figure_style():
            self.savefig(target, format="png", dpi=100)
        return target.getvalue()


@dataclass(frozen=True)
class Entry:
    """A table or figure of the report: the name of its files and its number in the paper, if any,
    the studies it is made of, its title, and what makes it, whose docstring is the caption."""

    key: str
    number: str
    studies: tuple[str, ...]
    title: str
    make: Callable[[Results], Any]

    @property
    def caption(self) -> str:
        return " ".join((getattr(self.make, "func", self.make).__doc__ or "").split())

    @property
    def heading(self) -> str:
        return f"{self.number}. {self.title}" if self.number else self.title

    def __call__(self, results: Results) -> Any:
        """The table or figure; None where runs are missing."""
        with figure_style(), contextlib.suppress(MissingRunsError):
            return self.make(results)
        return None


def figure(name: str, number: int, studies: Sequence[str], title: str) -> partial[Entry]:
    """Makes a function an entry of the report; number 0 is none of the paper."""
    key, words = (f"figure-{number:02d}-{name}", f"Figure {number}") if number else (name, "")
    return partial(Entry, key, words, tuple(studies), title)


def marker_of(metadata: Metadata) -> dict[str, Any]:
    """Colour and marker of a network; a training that is not the paper's has an empty marker."""
    colour, marker = MARKERS.get(metadata.network, OTHER_MARKER)
    face = colour if metadata.of_paper or not metadata.family else "white"
    return {"color": colour, "marker": marker, "markersize": 5, "markerfacecolor": face}


def line_of(metadata: Metadata, split: str = "test") -> dict[str, Any]:
    return {**marker_of(metadata), "linestyle": "--" if split == "train" else "-"}


def signed(*fields: Any) -> dict[str, Any]:
    """A diverging map with the same range on both sides of zero, for some arrays together."""
    largest = max((float(np.abs(field).max()) for field in fields), default=0.0)
    limit = largest if 0 < largest < np.inf else 1.0
    return {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}


def map_of(truth: Any) -> dict[str, Any]:
    """Diverging for a field with both signs, sequential for others."""
    if truth.min() < 0 < truth.max():
        return signed(truth)
    return {"cmap": "viridis", "vmin": float(truth.min()), "vmax": float(truth.max())}


def draw_field(
    axes: Any, title: str, values: Any, style: dict[str, Any], low: Sequence[float] | None = None
) -> Callable[[Any], Any]:
    """A field (*N) of the unit box, or a function of ξ from its lowest modes on.

    In 1D a curve, with error bars where the style has a `band`, else a map with its colour bar, of
    a volume the first slice; the first array axis runs to the right. Returns what shows other
    values in its place.
    """
    x, y = ("x₁", "x₂") if low is None else ("ξ₁", "ξ₂")
    axes.set_title(title, fontsize=8)
    axes.tick_params(labelsize=7)
    axes.set_xlabel(x if values.ndim > 1 else x[0], labelpad=1, fontsize=8)
    if values.ndim == 1:
        places = np.arange(values.size) / values.size if low is None else np.arange(values.size)
        band = style.get("band", 0.0)  # error bars around the curve
        least = min(style["vmin"], (values - band).min())
        most = max(style["vmax"], (values + band).max())
        if -np.inf < least < most < np.inf:
            axes.set_ylim(least - 0.05 * (most - least), most + 0.05 * (most - least))
        (line,) = axes.plot(places, values)
        if "band" in style:
            axes.fill_between(places, values - band, values + band, alpha=0.3, linewidth=0)
        return line.set_ydata  # type: ignore[no-any-return]
    if values.ndim > 2:
        axes.set_xlabel(f"{x}, at the first {x[0]}₃", labelpad=1, fontsize=8)
    axes.set_ylabel(y, labelpad=1, fontsize=8)
    extent: Sequence[float] = (0, 1, 0, 1)
    if low is None:
        axes.set(xticks=[0, 1], yticks=[0, 1])
    else:
        ends = zip(low[:2], values.shape[:2], strict=True)
        extent = [edge for start, n in ends for edge in (start - 0.5, start + n - 0.5)]
    image = axes.imshow(_flat(values), extent=extent, **style)
    axes.figure.colorbar(image, ax=axes, shrink=0.75).ax.tick_params(labelsize=7)
    return lambda values: image.set_data(_flat(values))


def _flat(values: Any) -> Any:
    return values.T if values.ndim == 2 else values[..., 0].T


def some(count: int, most: int) -> list[int]:
    """At most so many indices, evenly spread, with the first and the last."""
    return sorted(set(np.linspace(0, count - 1, min(count, most)).round().astype(int).tolist()))


def logarithmic(axes: Any, name: str) -> None:
    """Make the axis "x" or "y" logarithmic, with plain numbers that do not touch each other."""
    axes.set(**{f"{name}scale": "log"})
    axis = {"x": axes.xaxis, "y": axes.yaxis}[name]
    low, high = axis.get_view_interval()
    # over several decades 1, 2 and 5 of each would be too many, and matplotlib would show none
    subs = (1, 2, 5) if high < 200 * low else (1,)
    axis.set_major_locator(LogLocator(subs=subs, numticks=5))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}".replace("e-0", "e-")))


def shared_legend(
    figure: matplotlib.figure.Figure, panels: Iterable[Any], columns: int = 4
) -> None:
    """One legend below all panels, each name once."""
    found: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if names := sorted(found):
        handles, columns = [found[name] for name in names], min(columns, len(names))
        figure.legend(handles, names, loc="outside lower center", ncols=columns)


@contextlib.contextmanager
def figure_style() -> Iterator[None]:
    """Draw within the house style, without a screen; a block, or a decorator."""
    with matplotlib.rc_context(SETTINGS):
        yield


def save_figure(figure: matplotlib.figure.Figure, path: Path) -> Path:
    """Write a figure whole or not at all, in the format of its ending."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # the style holds when a figure is written, too: its resolution and its identifiers
    with figure_style(), atomic_path(path) as temporary:
        ending = path.suffix.lstrip(".")
        figure.savefig(temporary, format=ending, metadata=WITHOUT_CLOCK.get(ending))
    return path
