"""Tables and figures of the report on the paper, and the colours of its networks."""

__all__ = ["Exhibit", "figure", "line_of", "marker_of"]

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pdno.figures.style import figure_style
from pdno.files.metric_table import Metadata
from pdno.paper.published import ONE_SHOT, PDNO, PLAIN, PROVABLE, RELU
from pdno.report.runs import MissingRunsError, Results

MARKERS = {
    **{PDNO: ("#0072B2", "o"), PLAIN: ("#56B4E9", "v"), ONE_SHOT: ("#000000", "P")},
    **{RELU: ("#7F7F7F", "X"), PROVABLE: ("#332288", "p"), "PDNO trunk": ("#117733", "h")},
    **{"PDNO a(ξ,t,μ)": ("#882255", "d"), "PDNO semigroup": ("#44AA99", ">")},
    **{"FNO": ("#D55E00", "s"), "FNO-3D": ("#E69F00", "D")},
    **{"MWT Leg": ("#009E73", "^"), "MWT Chb": ("#CC79A7", "<")},
}
OTHER_MARKER = ("#6B4E00", "*")


@dataclass(frozen=True)
class Exhibit:
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


def figure(name: str, number: int, studies: Sequence[str], title: str) -> partial[Exhibit]:
    """Makes a function an exhibit of the report; number 0 is none of the paper."""
    key, words = (f"figure-{number:02d}-{name}", f"Figure {number}") if number else (name, "")
    return partial(Exhibit, key, words, tuple(studies), title)


def marker_of(metadata: Metadata) -> dict[str, Any]:
    """Colour and marker of a network; a training that is not the paper's has an empty marker."""
    colour, marker = MARKERS.get(metadata.network, OTHER_MARKER)
    face = colour if metadata.of_paper or not metadata.family else "white"
    return {"color": colour, "marker": marker, "markersize": 5, "markerfacecolor": face}


def line_of(metadata: Metadata, split: str = "test") -> dict[str, Any]:
    return {**marker_of(metadata), "linestyle": "--" if split == "train" else "-"}
