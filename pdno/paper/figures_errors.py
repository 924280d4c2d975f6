"""Errors as curves: by time, frequency, resolution and epoch, against cost, and the ablations.

The paper prints neither the values of its ablations nor its lists of k_max and of channels; the
lists are ours. Docstrings of entries are captions.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pdno.figures.style import Figure, logarithmic, shared_legend
from pdno.files.metric_table import Summary
from pdno.paper.exhibits import figure, line_of, marker_of
from pdno.paper.published import BASELINES, PDNO, PLAIN, TABLE_5
from pdno.report import runs
from pdno.report.runs import ERROR, Group, Results, by_setting, of_network, require

STUDIES = tuple(TABLE_5)
SEVERAL = ("darcy", "navier-stokes", "burgers")
FLOW = ("navier-stokes",)
SPLITS = ("test", "train")
PREDICTION = 1  # the panel of the seconds of a prediction


@figure("cost", 0, SEVERAL, "Cost against accuracy")
def plot_cost(results: Results) -> Figure:
    """Lower left is better. Times compare only where the runs shared a machine. Grey: our own
    solver on coarser and coarser grids, from the same input; a network pays where it is below.
    The seconds of a training are those of the processor where the run has noted them."""
    known = {study: [g for g in results.shown(study) if g.summary()] for study in STUDIES}
    # one network alone, without a solver, compares with nothing
    known = require({k: groups for k, groups in known.items() if groups[1:] or _solver(groups)})
    heads = ("training, seconds", "one prediction, seconds", "parameters (real numbers)")
    drawn = Figure(figsize=(7.4, 2.6 * len(known) + 0.7))
    panels = drawn.subplots(len(known), len(heads), squeeze=False, sharey="row")
    for row, (study, groups) in zip(panels, known.items(), strict=True):
        for place, (axes, head) in enumerate(zip(row, heads, strict=True)):
            for group in groups:
                cost, error = _costs(group)[place], group.summary()
                if cost is not None and error is not None:
                    style = {"linestyle": "", **marker_of(group.metadata)}
                    axes.plot([cost], [error.mean], label=group.model, **style)
            least = min(error.mean for group in groups if (error := group.summary())) / 3
            rival = [one for one in _solver(groups) if place == PREDICTION and one[1] > least]
            if rival:
                grey = {"color": "0.5", "marker": ".", "linewidth": 1, "zorder": 1}
                axes.plot(*zip(*rival, strict=True), label="solver, coarser grids", **grey)
            logarithmic(axes, "x")
            logarithmic(axes, "y")
            axes.tick_params(axis="x", labelrotation=45, labelsize=7)
            axes.set_xlabel(head)
        level = groups[0].budget.level
        row[0].set_ylabel(f"{study}, s = {groups[0].resolution}\n({level} budget)\ntest error")
    shared_legend(drawn, panels.ravel())
    return drawn


def _solver(groups: Sequence[Group]) -> list[tuple[float, float]]:
    """Seconds and errors of the solver on coarser grids, from the finest on.

    Each run has timed it: the least seconds are those that other work disturbed least.
    """
    rows = [row for group in groups for row in group.rows if row.split == "solver"]
    found: dict[int, dict[str, float]] = {}
    for row in rows:
        known = found.setdefault(row.resolution, {})
        known[row.metric] = min(row.value, known.get(row.metric, row.value))
    points = [found[n] for n in sorted(found, reverse=True)]
    return [(one["seconds per solve"], one[ERROR]) for one in points]


def _costs(group: Group) -> tuple[float | None, ...]:
    """Seconds of training and of a prediction, the least of the seeds here as well; parameters."""
    parameters = (row.parameters for row in group.rows if row.parameters is not None)
    timed = [row.value for row in group.rows if row.metric == "seconds per prediction"]
    seconds = min(timed, default=None)
    processor = group.summary("training", "cpu seconds")
    trained = processor.mean if processor else group.budget.seconds
    return trained, seconds, next(parameters, None)


@figure("samples", 0, ["darcy-samples"], "Error against training samples")
def plot_samples(results: Results) -> Figure:
    """Learning curves: equal steps, and the same test samples, for all numbers of training
    samples. Solid: test, dashed: training."""

    def draw(axes: Any, groups: Sequence[Group]) -> None:
        networks = runs.grouped(groups, lambda group: group.metadata.network)
        for ours, split in itertools.product(networks.values(), SPLITS):
            curve = sorted(ours, key=lambda group: group.budget.samples)
            found = {g.budget.samples: error for g in curve if (error := g.summary(split))}
            _draw(axes, found, f"{curve[0].model}, {split}", line_of(curve[0].metadata, split))
        axes.set_xscale("log")
        counts = sorted({group.budget.samples for group in groups})
        axes.set_xticks(counts, [str(count) for count in counts])
        axes.minorticks_off()

    return _panels([results.shown("darcy-samples")], draw, "training samples")


@figure("resolutions", 0, SEVERAL, "Other resolutions without training")
def plot_resolutions(results: Results) -> Figure:
    """Dotted: the prediction on the grid of the training, interpolated. A network that only
    matches it has learned nothing finer."""

    def draw(axes: Any, groups: Sequence[Group]) -> None:
        for group in groups:
            style = line_of(group.metadata)
            _draw(axes, _finer(group, "zero-shot"), group.model, style)
            dotted = {**style, "linestyle": ":", "markersize": 3}
            _draw(axes, _finer(group, "interpolated"), None, dotted)
        axes.set_xscale("log", base=2)
        points = sorted({s for group in groups for s in _finer(group, "zero-shot")})
        axes.set_xticks(points, [str(s) for s in points])
        axes.minorticks_off()

    known = [[g for g in results.shown(study) if _finer(g, "zero-shot")] for study in STUDIES]
    return _panels(known, draw, "points per axis", "relative L2 test error")


def _finer(group: Group, split: str) -> dict[int, Summary]:
    """Errors by resolution, that of the training first; empty without others."""
    points = sorted({row.resolution for row in group.rows if row.split == split})
    known = {s: found for s in points if (found := group.summary(split, resolution=s))}
    own = group.summary()
    return {group.resolution: own, **known} if known and own is not None else {}


@figure("bands", 0, STUDIES, "Error by frequency")
def plot_bands(results: Results) -> Figure:
    """Bands of modes by max |ξ_j|; the squares of a network's values add up to about its squared
    error."""

    def draw(axes: Any, groups: Sequence[Group]) -> None:
        for group in groups:
            found = group.series("test", f"{ERROR} band ")
            _draw(axes, found, group.model, line_of(group.metadata))
        axes.tick_params(axis="x", labelrotation=45)

    known = [results.shown(study) for study in STUDIES]
    return _panels(known, draw, "band of max |ξ_j|", "share of relative L2 error")


@figure("training", 0, STUDIES, "Training curves")
def plot_training(results: Results) -> Figure:
    """Solid: test error after the epoch, dashed: training error during it. First seed."""

    def draw(axes: Any, groups: Sequence[Group]) -> None:
        for group, split in itertools.product(groups, SPLITS):
            points = np.array([(row["epoch"], row[split]) for row in group.history])
            measured = points[np.isfinite(points[:, 1])]
            style = line_of(group.metadata, split)
            if len(measured) > 1:
                style |= {"marker": "", "linewidth": 1}
            axes.plot(*measured.T, label=group.model if split == "test" else None, **style)

    known = [[group for group in results.shown(study) if group.history] for study in STUDIES]
    return _panels(known, draw, "epoch")


@figure("error-by-time", 1, FLOW, "Error by time, training and test")
def plot_error_by_time(results: Results) -> Figure:
    """Navier-Stokes, ν = 1e-5. Solid: test, dashed: training. t is the physical time; the paper
    counts frames from 0, so its index is t − 1."""

    def draw(axes: Any, groups: Sequence[Group]) -> None:
        for group, split in itertools.product(groups, SPLITS):
            label = f"{group.model}, {split}"
            _draw(axes, group.over_time(split), label, line_of(group.metadata, split))
        axes.locator_params(axis="x", integer=True)

    groups = [group for group in results.shown("navier-stokes") if group.over_time()]
    return _panels([groups], draw, "t")


@figure("modes", 9, ["darcy-modes"], "Kept modes k_max on Darcy flow")
def plot_modes(results: Results) -> Figure:
    """Lines across are other networks at the same resolution, where `pdno reproduce darcy` ran at
    it. The list of k_max is ours."""

    def draw(axes: Any, groups: Sequence[Group]) -> None:
        swept = by_setting(groups, "modes")
        named = {"all" if value == math.inf else f"{value:g}": g for value, g in swept.items()}
        _draw_swept(axes, named, PDNO)
        others = results.by_resolution("darcy").get(groups[0].resolution, [])
        for group in [g for name in BASELINES if (g := of_network(others, name))]:
            if (summary := group.summary()) is not None:
                style = {"color": marker_of(group.metadata)["color"], "linestyle": "-."}
                axes.axhline(summary.mean, label=f"{group.model}, test", **style)

    shown = [group for group in results.shown("darcy-modes") if "modes" in group.metadata.sweep]
    return _panels([shown], draw, "k_max")


@figure("width", 10, ["navier-stokes-width"], "Channels on Navier-Stokes")
def plot_width(results: Results) -> Figure:
    """PDNO a(ξ) and FNO without truncation. The list of channels is ours."""

    def draw(axes: Any, groups: Sequence[Group]) -> None:
        for network in (PLAIN, "FNO"):
            if swept := by_setting(groups, "width", network):
                _draw_swept(axes, swept, network)
        axes.set_xticks(list(by_setting(groups, "width")))

    shown = [g for g in results.shown("navier-stokes-width") if "width" in g.metadata.sweep]
    return _panels([shown], draw, "channels", log=False)


@figure(
    "activation", 11, ["darcy-activation"], "GELU and ReLU in the symbol networks on Darcy flow"
)
def plot_activation(results: Results) -> Figure:
    """Full colour: test, pale: training."""

    def draw(axes: Any, groups: Sequence[Group]) -> None:
        places = {s: k for k, s in enumerate(sorted({group.resolution for group in groups}))}
        networks = {group.metadata.network: group for group in groups}
        bars = list(itertools.product(sorted(networks), ("train", "test")))
        for place, (network, split) in enumerate(bars):
            ours = [group for group in groups if group.metadata.network == network]
            found = [(places[g.resolution], e) for g in ours if (e := g.summary(split))]
            axes.bar(
                [k + (place - (len(bars) - 1) / 2) / (len(bars) + 1) for k, _ in found],
                [error.mean for _, error in found],
                1 / (len(bars) + 1),
                yerr=[error.deviation if error.count > 1 else 0.0 for _, error in found],
                color=marker_of(networks[network].metadata)["color"],
                alpha=0.5 if split == "train" else 1.0,
                label=f"{networks[network].model}, {split}",
            )
        axes.set_xticks(range(len(places)), [str(points) for points in places])

    groups = sorted(results.study("darcy-activation"), key=lambda group: group.resolution)
    return _panels([groups], draw, "points per axis", log=False)


def _draw_swept(axes: Any, groups: Mapping[Any, Group], name: str) -> None:
    """Test and training errors of a network by the values of a setting."""
    for split in SPLITS:
        errors = {value: error for value, g in groups.items() if (error := g.summary(split))}
        first = next(iter(groups.values()))
        _draw(axes, errors, f"{name}, {split}", line_of(first.metadata, split))


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


def _panels(
    blocks: Sequence[Sequence[Group]],
    draw: Callable[[Any, Sequence[Group]], None],
    x: str,
    y: str = "relative L2 error",
    *,
    log: bool = True,
) -> Figure:
    """A panel for each block, with the data, the grid and the budget on top, and one legend."""
    known = require([groups for groups in blocks if groups])
    columns = min(len(known), 2)
    rows = -(-len(known) // columns)
    drawn = Figure(figsize=(6.2 if columns == 1 else 7.4, 3.0 * rows + 0.9))
    panels = drawn.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axes in panels[len(known) :]:
        axes.set_visible(False)
    for axes, groups in zip(panels, known, strict=False):
        metadata, budget = groups[0].metadata, groups[0].budget
        data = f", {metadata.dataset}" if metadata.study in runs.FLOW_STUDIES else ""
        what = f"{metadata.study}{data}, s = {groups[0].resolution}"
        least, most = (end(group.budget.epochs for group in groups) for end in (min, max))
        span = "" if least == most else f"{least} to "
        had = f"({budget.level} budget, {span}{runs.count_of(most, 'epoch')})"
        axes.set(title=f"{what}\n{had}", xlabel=x, ylabel=y)
        draw(axes, groups)
        if log:
            logarithmic(axes, "y")
    shared_legend(drawn, panels, 2 * columns)
    return drawn
