"""Errors by time, by frequency and by resolution.

by time        relative L2 of each frame, training and test (the paper's figure 1)
by frequency   ‖P_b(v - u)‖ / ‖u‖ of each band b of modes; their squares add up to the whole
by resolution  the network on grids it was not trained on, beside its own prediction
               interpolated to them: a network that is no better than that saw nothing new
"""

__all__ = [
    "plot_bands",
    "plot_error_by_time",
    "plot_resolutions",
    "shown_by_study",
]

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pdno.evaluation.rows import Summary
from pdno.report.budget import count_of
from pdno.report.groups import ERROR, Group, Results
from pdno.report.style import figure_style, line_of, logarithmic, shared_legend

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STUDIES = ("heat", "darcy", "navier-stokes", "burgers")
BAND = f"{ERROR} band "


def plot_error_by_time(results: Results) -> "Figure | None":
    """Figure 1: training and test error at each time, Navier-Stokes with ν = 1e-5."""
    groups = [group for group in results.shown("navier-stokes") if group.over_time()]
    if not groups:
        return None
    with figure_style():
        figure, (axes,) = panels_for(1)
        for group in groups:
            for split in ("test", "train"):
                found = group.over_time(split)
                draw_summaries(axes, found, f"{group.model}, {split}", line_of(group.model, split))
        logarithmic(axes, "y")
        axes.set_xlabel("t")
        axes.locator_params(axis="x", integer=True)
        axes.set_ylabel("relative L2 error")
        axes.set_title(title_of(groups))
        shared_legend(figure, [axes], columns=2)
        return figure


def plot_bands(results: Results) -> "Figure | None":
    """Test error by band of modes."""
    known = shown_by_study(results, lambda group: True)
    if not known:
        return None
    with figure_style():
        figure, panels = panels_for(len(known))
        for axes, groups in zip(panels, known.values(), strict=True):
            for group in groups:
                found = group.series("test", BAND)
                draw_summaries(axes, found, group.model, line_of(group.model))
            logarithmic(axes, "y")
            axes.set_xlabel("band of max |ξ_j|")
            axes.tick_params(axis="x", labelrotation=45)
            axes.set_ylabel("share of relative L2 error")
            axes.set_title(title_of(groups))
        shared_legend(figure, panels)
        return figure


def plot_resolutions(results: Results) -> "Figure | None":
    """Error on finer grids than that of the training, beside the interpolated prediction."""
    known = shown_by_study(results, lambda group: bool(_finer(group, "zero-shot")))
    if not known:
        return None
    with figure_style():
        figure, panels = panels_for(len(known))
        for axes, groups in zip(panels, known.values(), strict=True):
            for group in groups:
                style = line_of(group.model)
                found = _finer(group, "zero-shot")
                draw_summaries(axes, found, group.model, style)
                dotted = {**style, "linestyle": ":", "markersize": 3}
                draw_summaries(axes, _finer(group, "interpolated"), None, dotted)
            logarithmic(axes, "y")
            axes.set_xscale("log", base=2)
            points = sorted({s for group in groups for s in _finer(group, "zero-shot")})
            axes.set_xticks(points, [str(s) for s in points])
            axes.minorticks_off()
            axes.set_xlabel("points per axis")
            axes.set_ylabel("relative L2 test error")
            axes.set_title(title_of(groups))
        shared_legend(figure, panels)
        return figure


def shown_by_study(results: Results, fits: Callable[[Group], bool]) -> dict[str, Sequence[Group]]:
    """The groups of each study that a figure has something to draw of, without empty studies."""
    known = {study: [g for g in results.shown(study) if fits(g)] for study in STUDIES}
    return {study: groups for study, groups in known.items() if groups}


def _finer(group: Group, split: str) -> dict[int, Summary]:
    """Errors by resolution, that of the training first; empty without others."""
    points = sorted({row.resolution for row in group.rows if row.split == split})
    found = {s: group.summary(split, resolution=s) for s in points}
    known = {s: summary for s, summary in found.items() if summary is not None}
    own = group.summary("test")
    return {group.resolution: own, **known} if known and own is not None else {}


def panels_for(count: int) -> "tuple[Figure, list[Any]]":
    """A figure with one, two, or two rows of panels."""
    from matplotlib.figure import Figure

    columns = min(count, 2)
    rows = -(-count // columns)
    figure = Figure(figsize=(6.2 if columns == 1 else 7.4, 3.0 * rows + 0.9))
    grid = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axes in grid[count:]:
        axes.set_visible(False)
    return figure, grid[:count]


def draw_summaries(
    axes: Any, found: Mapping[Any, Summary], label: str | None, style: Mapping[str, Any]
) -> None:
    """Means as a line; deviations as bars where there are several seeds.

    Arguments:
        axes: Where to draw.
        found: Means and deviations by what stands on the x axis.
        label: For the legend; None for a line that it does not name.
        style: Of the line, see `line_of`.
    """
    if not found:
        return
    heads = list(found)
    means = [found[head].mean for head in heads]
    if all(found[head].count > 1 for head in heads):
        bars = [found[head].deviation for head in heads]
        axes.errorbar(heads, means, yerr=bars, label=label, capsize=2, **style)
    else:
        axes.plot(heads, means, label=label, **style)


def title_of(groups: Sequence[Group]) -> str:
    """The experiment and the grid of some groups, with their budget."""
    first = groups[0]
    words = first.first.experiment.replace("nu=1e-05", "ν=1e-5").replace("=", " = ")
    epochs = count_of(first.budget.epochs, "epoch")
    return f"{words}, s = {first.resolution}\n({first.budget.level} budget, {epochs})"
