"""Errors as curves: by time, frequency, resolution and epoch, against cost, and the ablations.

by frequency   ‖P_b(v - u)‖ / ‖u‖ of each band b of modes; their squares add up to the whole
by resolution  the network on grids it was not trained on, beside its own prediction
               interpolated to them: a network that is no better than that saw nothing new
by epoch       training errors are means over an epoch, each batch before its update; test errors
               are measured after it; drawn is the first seed

The paper prints neither the values of its ablations nor its lists of k_max and of channels; the
lists are ours.
"""

__all__ = [
    "plot_activation",
    "plot_bands",
    "plot_cost",
    "plot_error_by_time",
    "plot_modes",
    "plot_resolutions",
    "plot_training",
    "plot_width",
]

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from pdno.evaluation.rows import Summary
from pdno.report.published import BASELINES, PDNO, PLAIN
from pdno.report.runs import (
    ERROR,
    FLOW_STUDIES,
    Group,
    Results,
    by_setting,
    count_of,
    of_network,
)
from pdno.report.style import figure_style, line_of, logarithmic, marker_of, shared_legend

STUDIES = ("heat", "darcy", "navier-stokes", "burgers")
SPLITS = ("test", "train")


@figure_style()
def plot_error_by_time(results: Results) -> Figure | None:
    """Figure 1."""
    groups = [group for group in results.shown("navier-stokes") if group.over_time()]
    if not groups:
        return None
    figure, (axes,) = _panels([groups], "t")
    for group in groups:
        _draw_splits(axes, group.over_time, group)
    axes.locator_params(axis="x", integer=True)
    return _finish(figure, [axes], 2)


@figure_style()
def plot_bands(results: Results) -> Figure | None:
    """Test error by band of modes."""

    def draw(axes: Any, groups: Sequence[Group]) -> None:
        for group in groups:
            found = group.series("test", f"{ERROR} band ")
            _draw(axes, found, group.model, line_of(group.facts))
        axes.tick_params(axis="x", labelrotation=45)

    labels = ("band of max |ξ_j|", "share of relative L2 error")
    return _by_study(results, lambda group: True, draw, *labels)


@figure_style()
def plot_resolutions(results: Results) -> Figure | None:
    """Error on finer grids than that of the training, beside the interpolated prediction."""

    def draw(axes: Any, groups: Sequence[Group]) -> None:
        for group in groups:
            style = line_of(group.facts)
            _draw(axes, _finer(group, "zero-shot"), group.model, style)
            dotted = {**style, "linestyle": ":", "markersize": 3}
            _draw(axes, _finer(group, "interpolated"), None, dotted)
        axes.set_xscale("log", base=2)
        points = sorted({s for group in groups for s in _finer(group, "zero-shot")})
        axes.set_xticks(points, [str(s) for s in points])
        axes.minorticks_off()

    labels = ("points per axis", "relative L2 test error")
    return _by_study(results, lambda group: bool(_finer(group, "zero-shot")), draw, *labels)


def _finer(group: Group, split: str) -> dict[int, Summary]:
    """Errors by resolution, that of the training first; empty without others."""
    points = sorted({row.resolution for row in group.rows if row.split == split})
    found = {s: group.summary(split, resolution=s) for s in points}
    known = {s: summary for s, summary in found.items() if summary is not None}
    own = group.summary("test")
    return {group.resolution: own, **known} if known and own is not None else {}


@figure_style()
def plot_training(results: Results) -> Figure | None:
    """Training and test error by epoch."""

    def draw(axes: Any, groups: Sequence[Group]) -> None:
        for group, split in itertools.product(groups, SPLITS):
            points = np.array([(row["epoch"], row[split]) for row in group.first.history])
            measured = points[np.isfinite(points[:, 1])]
            style = line_of(group.facts, split)
            if len(measured) > 1:
                style |= {"marker": "", "linewidth": 1}
            axes.plot(*measured.T, label=group.model if split == "test" else None, **style)

    return _by_study(results, lambda group: bool(group.first.history), draw, "epoch")


@figure_style()
def plot_cost(results: Results) -> Figure | None:
    """Seconds of training, seconds of a prediction and parameters against the test error."""
    known = {study: [g for g in results.shown(study) if g.summary()] for study in STUDIES}
    # one network alone compares with nothing
    known = {study: groups for study, groups in known.items() if len(groups) > 1}
    if not known:
        return None
    heads = ("training, seconds", "one prediction, seconds", "parameters (real numbers)")
    figure = Figure(figsize=(7.4, 2.6 * len(known) + 0.7))
    panels = figure.subplots(len(known), len(heads), squeeze=False, sharey="row")
    for row, (study, groups) in zip(panels, known.items(), strict=True):
        for place, (axes, head) in enumerate(zip(row, heads, strict=True)):
            for group in groups:
                cost, error = _costs(group)[place], group.summary()
                if cost is not None and error is not None:
                    style = {"linestyle": "", **marker_of(group.facts)}
                    axes.plot([cost], [error.mean], label=group.model, **style)
            logarithmic(axes, "x")
            logarithmic(axes, "y")
            axes.tick_params(axis="x", labelrotation=45, labelsize=7)
            axes.set_xlabel(head)
        level = groups[0].budget.level
        row[0].set_ylabel(f"{study}, s = {groups[0].resolution}\n({level} budget)\ntest error")
    shared_legend(figure, panels.ravel())
    return figure


def _costs(group: Group) -> tuple[float | None, float | None, int | None]:
    predicting = group.summary("speed", "seconds per prediction")
    parameters = (row.parameters for row in group.rows if row.parameters is not None)
    seconds = None if predicting is None else predicting.mean
    return group.budget.seconds, seconds, next(parameters, None)


@figure_style()
def plot_modes(results: Results) -> Figure | None:
    """Figure 9: other networks at the same resolution are lines across."""
    shown = results.shown("darcy-modes")
    groups = by_setting(shown, "modes")
    if not groups:
        return None
    figure, (axes,) = _panels([shown], "k_max")
    named = {"all" if value == math.inf else f"{value:g}": g for value, g in groups.items()}
    _draw_splits(axes, partial(_errors, named), shown[0], PDNO)
    others = results.by_resolution("darcy").get(shown[0].resolution, [])
    for group in [g for name in BASELINES if (g := of_network(others, name)) is not None]:
        if (summary := group.summary()) is not None:
            style = {"color": marker_of(group.facts)["color"], "linestyle": "-."}
            axes.axhline(summary.mean, label=f"{group.model}, test", **style)
    return _finish(figure, [axes], 2)


@figure_style()
def plot_width(results: Results) -> Figure | None:
    """Figure 10: all modes kept."""
    shown = results.shown("navier-stokes-width")
    if not by_setting(shown, "width"):
        return None
    figure, (axes,) = _panels([shown], "channels")
    for network in (PLAIN, "FNO"):
        groups = by_setting(shown, "width", network)
        if groups:
            _draw_splits(axes, partial(_errors, groups), next(iter(groups.values())), network)
    axes.set_xticks(list(by_setting(shown, "width")))
    shared_legend(figure, [axes], columns=2)
    return figure


@figure_style()
def plot_activation(results: Results) -> Figure | None:
    """Figure 11: full colour is the test, pale the training."""
    blocks = results.by_resolution("darcy-activation")
    if not blocks:
        return None
    groups = [group for block in blocks.values() for group in block]
    networks = {group.facts.network: group for group in groups}
    bars = [(network, split) for network in sorted(networks) for split in ("train", "test")]
    figure, (axes,) = _panels([groups], "points per axis")
    for place, (network, split) in enumerate(bars):
        found = {
            k: summary
            for k, block in enumerate(blocks.values())
            for group in block
            if group.facts.network == network and (summary := group.summary(split)) is not None
        }
        axes.bar(
            [k + (place - (len(bars) - 1) / 2) / (len(bars) + 1) for k in found],
            [summary.mean for summary in found.values()],
            1 / (len(bars) + 1),
            yerr=[s.deviation if s.count > 1 else 0.0 for s in found.values()],
            color=marker_of(networks[network].facts)["color"],
            alpha=0.5 if split == "train" else 1.0,
            label=f"{networks[network].model}, {split}",
        )
    axes.set_xticks(range(len(blocks)), [str(points) for points in blocks])
    shared_legend(figure, [axes])
    return figure


def _errors(groups: Mapping[Any, Group], split: str) -> dict[Any, Summary]:
    found = {value: group.summary(split) for value, group in groups.items()}
    return {value: summary for value, summary in found.items() if summary is not None}


def _draw_splits(
    axes: Any, errors: Callable[[str], Mapping[Any, Summary]], group: Group, name: str = ""
) -> None:
    """Test and training errors of a network, under its own or another name."""
    for split in SPLITS:
        label = f"{name or group.model}, {split}"
        _draw(axes, errors(split), label, line_of(group.facts, split))


def _draw(
    axes: Any, found: Mapping[Any, Summary], label: str | None, style: Mapping[str, Any]
) -> None:
    """Means as a line; deviations as bars where there are several seeds."""
    if not found:
        return
    heads, means = list(found), [summary.mean for summary in found.values()]
    if all(summary.count > 1 for summary in found.values()):
        bars = [summary.deviation for summary in found.values()]
        axes.errorbar(heads, means, yerr=bars, label=label, capsize=2, **style)
    else:
        axes.plot(heads, means, label=label, **style)


def _by_study(
    results: Results,
    fits: Callable[[Group], bool],
    draw: Callable[[Any, Sequence[Group]], None],
    x: str,
    y: str = "relative L2 error",
) -> Figure | None:
    """A panel for each study with groups that fit; None without any."""
    known = [[g for g in results.shown(study) if fits(g)] for study in STUDIES]
    known = [groups for groups in known if groups]
    if not known:
        return None
    figure, panels = _panels(known, x, y)
    for axes, groups in zip(panels, known, strict=True):
        draw(axes, groups)
    return _finish(figure, panels)


def _finish(figure: Figure, panels: Sequence[Any], columns: int = 4) -> Figure:
    for axes in panels:
        logarithmic(axes, "y")
    shared_legend(figure, panels, columns)
    return figure


def _panels(
    blocks: Sequence[Sequence[Group]], x: str, y: str = "relative L2 error"
) -> tuple[Figure, list[Any]]:
    """One panel, two, or two rows of them, with the data, the grid and the budget on top."""
    columns = min(len(blocks), 2)
    rows = -(-len(blocks) // columns)
    figure = Figure(figsize=(6.2 if columns == 1 else 7.4, 3.0 * rows + 0.9))
    panels = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axes in panels[len(blocks) :]:
        axes.set_visible(False)
    for axes, groups in zip(panels, blocks, strict=False):
        facts, budget = groups[0].facts, groups[0].budget
        data = f", {facts.dataset}" if facts.study in FLOW_STUDIES else ""
        what = f"{facts.study}{data}, s = {groups[0].resolution}"
        axes.set_title(f"{what}\n({budget.level} budget, {count_of(budget.epochs, 'epoch')})")
        axes.set_xlabel(x)
        axes.set_ylabel(y)
    return figure, panels[: len(blocks)]
