"""One visual style for every figure: colour-blind safe, readable at print size."""

__all__ = ["COLOURS", "figure_style", "save_figure"]

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdno.atomic import atomic_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# so that the same figure gives the same bytes
WITHOUT_CLOCK = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


@contextlib.contextmanager
def figure_style() -> Iterator[None]:
    """Draw within the house style, without a screen."""
    import matplotlib
    from cycler import cycler

    settings: Any = {
        "axes.prop_cycle": cycler(color=COLOURS),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 10,
        "axes.labelsize": 9,
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
        "legend.fontsize": 8,
        "legend.frameon": False,
        "figure.constrained_layout.use": True,
        "savefig.dpi": 150,
        "image.origin": "lower",
        "image.cmap": "viridis",
        "svg.hashsalt": "pdno",
    }
    with matplotlib.rc_context(settings):
        yield


def save_figure(figure: "Figure", path: Path) -> Path:
    """Write a figure whole or not at all, in the format of its ending."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # the style holds when a figure is written, too: its resolution and its identifiers
    with figure_style(), atomic_path(path) as temporary:
        ending = path.suffix.lstrip(".")
        figure.savefig(temporary, format=ending, metadata=WITHOUT_CLOCK.get(ending))
    return path
