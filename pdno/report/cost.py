"""Cost against accuracy: training time and parameters against the test error.

Nearer to the lower left corner is better. Times compare only where the runs shared a machine.
"""

__all__ = ["plot_cost"]

from typing import TYPE_CHECKING, Any

from pdno.report.errors import STUDIES
from pdno.report.groups import Group, Results
from pdno.report.style import figure_style, logarithmic, marker_of, shared_legend

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_cost(results: Results) -> "Figure | None":
    """Seconds of training, seconds of a prediction and parameters against the test error."""
    from matplotlib.figure import Figure

    known = {study: [g for g in results.shown(study) if g.summary()] for study in STUDIES}
    # one network alone compares with nothing
    known = {study: groups for study, groups in known.items() if len(groups) > 1}
    if not known:
        return None
    heads = ("training, seconds", "one prediction, seconds", "parameters (real numbers)")
    with figure_style():
        figure = Figure(figsize=(7.4, 2.6 * len(known) + 0.7))
        panels = figure.subplots(len(known), len(heads), squeeze=False, sharey="row")
        for row, (study, groups) in zip(panels, known.items(), strict=True):
            for axes, head, place in zip(row, heads, range(3), strict=True):
                for group in groups:
                    _draw(axes, group, place)
                logarithmic(axes, "x")
                logarithmic(axes, "y")
                axes.tick_params(axis="x", labelrotation=45, labelsize=7)
                axes.set_xlabel(head)
            level = groups[0].budget.level
            row[0].set_ylabel(f"{study}, s = {groups[0].resolution}\n({level} budget)\ntest error")
        shared_legend(figure, panels.ravel())
        return figure


def _draw(axes: Any, group: Group, place: int) -> None:
    error = group.summary()
    predicting = group.summary("speed", "seconds per prediction")
    costs = (
        group.budget.seconds,
        None if predicting is None else predicting.mean,
        next((row.parameters for row in group.rows if row.parameters is not None), None),
    )
    cost = costs[place]
    if error is not None and cost is not None:
        style = marker_of(group.model)
        axes.plot([cost], [error.mean], linestyle="", label=group.model, **style)
