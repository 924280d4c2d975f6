"""Training curves: the errors after each epoch, from the histories of the runs.

Training errors are means over an epoch, each batch before its update; test errors are measured
after the epoch. Drawn is the first seed of each network.
"""

__all__ = ["plot_training"]

from typing import TYPE_CHECKING

import numpy as np

from pdno.report.errors import panels_for, shown_by_study, title_of
from pdno.report.groups import Results
from pdno.report.style import figure_style, line_of, logarithmic, shared_legend

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_training(results: Results) -> "Figure | None":
    """Training and test error by epoch, problem by problem."""
    known = shown_by_study(results, lambda group: bool(group.first.history))
    if not known:
        return None
    with figure_style():
        figure, panels = panels_for(len(known))
        for axes, groups in zip(panels, known.values(), strict=True):
            for group in groups:
                history = group.first.history
                for split in ("test", "train"):
                    points = np.array([(row["epoch"], row[split]) for row in history])
                    measured = points[np.isfinite(points[:, 1])]
                    style = line_of(group.model, split)
                    if len(measured) > 1:
                        style |= {"marker": "", "linewidth": 1}
                    axes.plot(*measured.T, label=group.model if split == "test" else None, **style)
            logarithmic(axes, "y")
            axes.set_xlabel("epoch")
            axes.set_ylabel("relative L2 error")
            axes.set_title(title_of(groups))
        shared_legend(figure, panels)
        return figure
