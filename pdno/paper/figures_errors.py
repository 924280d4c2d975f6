"""Errors as curves: by time, frequency, resolution and epoch, against cost, and the ablations.

The paper prints neither the values of its ablations nor its lists of k_max and of channels; the
lists are ours. Docstrings of exhibits are captions.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import numpy as np

from pdno.figures.style import Axes, Figure, grid_of_panels, logarithmic, shared_legend
from pdno.files.metric_table import ERROR, NetworkMetrics, Summary
from pdno.paper.published import BASELINES, PDNO, PLAIN, TABLE_5, Budget, count_of
from pdno.paper.results import (
    FLOW_STUDIES,
    Exhibit,
    MarkerStyle,
    Results,
    by_setting,
    grouped,
    line_of,
    marker_of,
    of_network,
    require,
)

STUDIES = tuple(TABLE_5)
SEVERAL = ("darcy", "navier-stokes", "burgers")
FLOW = ("navier-stokes",)
SPLITS = ("test", "train")
PREDICTION = 1  # the panel of the seconds of a prediction
Networks = Sequence[NetworkMetrics]
X = TypeVar("X", str, float, int)


@partial(Exhibit, "cost", SEVERAL)
def plot_cost(results: Results) -> Figure:
    """Cost against accuracy.

    Lower left is better. Times compare only where the runs shared a machine. Grey: our own
    solver on coarser and coarser grids, from the same input; a network pays where it is below.
    The seconds of a training are those of the processor where the run has noted them.
    """
    shown = {study: [n for n in results.shown(study) if n.summary()] for study in STUDIES}
    # one network alone, without a solver, compares with nothing
    shown = require({k: ours for k, ours in shown.items() if ours[1:] or _solver(ours)})
    heads = ("training, seconds", "one prediction, seconds", "parameters (real numbers)")
    figure = Figure(figsize=(7.4, 2.6 * len(shown) + 0.7))
    panels = figure.subplots(len(shown), len(heads), squeeze=False, sharey="row")
    for row, (study, networks) in zip(panels, shown.items(), strict=True):
        for column, (axes, head) in enumerate(zip(row, heads, strict=True)):
            _draw_costs(axes, networks, column)
            axes.set_xlabel(head)
        level = Budget.of(networks[0]).level
        row[0].set_ylabel(f"{study}, s = {networks[0].resolution}\n({level} budget)\ntest error")
    shared_legend(figure, panels.ravel())
    return figure


def _draw_costs(axes: Axes, networks: Networks, column: int) -> None:
    """Error against one of the costs, with the solver beside the seconds of a prediction."""
    errors = {network: require(network.summary()).mean for network in networks}
    for network, error in errors.items():
        if (cost := _costs(network)[column]) is not None:
            style: MarkerStyle = {**marker_of(network.metadata), "linestyle": ""}
            axes.plot([cost], [error], label=network.model, **style)
    least = min(errors.values()) / 3
    solver = [pair for pair in _solver(networks) if column == PREDICTION and pair[1] > least]
    if solver:
        grey: MarkerStyle = {"color": "0.5", "marker": ".", "linewidth": 1}
        axes.plot(*zip(*solver, strict=True), label="solver, coarser grids", zorder=1, **grey)
    logarithmic(axes, "x")
    logarithmic(axes, "y")
    axes.tick_params(axis="x", labelrotation=45, labelsize=7)


def _solver(networks: Networks) -> list[tuple[float, float]]:
    """Seconds and errors of the solver on coarser grids, from the finest on.

    Each run has timed it: the least seconds are those that other work disturbed least.
    """
    values: dict[int, dict[str, float]] = {}
    for metric in (m for network in networks for m in network.metrics if m.split == "solver"):
        least = values.setdefault(metric.resolution, {})
        least[metric.metric] = min(metric.value, least.get(metric.metric, metric.value))
    points = [values[n] for n in sorted(values, reverse=True)]
    return [(one["seconds per solve"], one[ERROR]) for one in points]


def _costs(network: NetworkMetrics) -> tuple[float | None, ...]:
    """Seconds of training and of a prediction, the least of the seeds here as well; parameters."""
    timed = [m.value for m in network.metrics if m.metric == "seconds per prediction"]
    processor = network.summary("training", "cpu seconds")
    training = processor.mean if processor else network.seconds
    return training, min(timed, default=None), network.parameters


@partial(Exhibit, "samples", ["darcy-samples"])
def plot_samples(results: Results) -> Figure:
    """Error against training samples.

    Learning curves: equal steps, and the same test samples, for all numbers of training
    samples. Solid: test, dashed: training.
    """

    def draw(axes: Axes, networks: Networks) -> None:
        families = grouped(networks, lambda network: network.metadata.network)
        for ours, split in itertools.product(families.values(), SPLITS):
            curve = sorted(ours, key=lambda network: network.metadata.samples or 0)
            errors = {n.metadata.samples or 0: e for n in curve if (e := n.summary(split))}
            style = line_of(curve[0].metadata, split)
            _draw(axes, errors, f"{curve[0].model}, {split}", style)
        axes.set_xscale("log")
        counts = sorted({network.metadata.samples or 0 for network in networks})
        axes.set_xticks(counts, [str(count) for count in counts])
        axes.minorticks_off()

    return _panels([results.shown("darcy-samples")], draw, "training samples")


@partial(Exhibit, "resolutions", SEVERAL)
def plot_resolutions(results: Results) -> Figure:
    """Other resolutions without training.

    Dotted: the prediction on the grid of the training, interpolated. A network that only
    matches it has learned nothing finer.
    """

    def draw(axes: Axes, networks: Networks) -> None:
        for network in networks:
            style = line_of(network.metadata)
            _draw(axes, _finer(network, "zero-shot"), network.model, style)
            dotted: MarkerStyle = {**style, "linestyle": ":", "markersize": 3}
            _draw(axes, _finer(network, "interpolated"), None, dotted)
        axes.set_xscale("log", base=2)
        points = sorted({s for network in networks for s in _finer(network, "zero-shot")})
        axes.set_xticks(points, [str(s) for s in points])
        axes.minorticks_off()

    shown = [[n for n in results.shown(study) if _finer(n, "zero-shot")] for study in STUDIES]
    return _panels(shown, draw, "points per axis", "relative L2 test error")


def _finer(network: NetworkMetrics, split: str) -> dict[int, Summary]:
    """Errors by resolution, that of the training first; empty without others."""
    points = network.resolutions(split)
    finer = {s: error for s in points if (error := network.summary(split, resolution=s))}
    own = network.summary()
    return {network.resolution: own, **finer} if finer and own is not None else {}


@partial(Exhibit, "bands", STUDIES)
def plot_bands(results: Results) -> Figure:
    """Error by frequency.

    Bands of modes by max |ξ_j|; the squares of a network's values add up to about its squared
    error.
    """

    def draw(axes: Axes, networks: Networks) -> None:
        for network in networks:
            errors = network.series("test", f"{ERROR} band ")
            _draw(axes, errors, network.model, line_of(network.metadata))
        axes.tick_params(axis="x", labelrotation=45)

    shown = [results.shown(study) for study in STUDIES]
    return _panels(shown, draw, "band of max |ξ_j|", "share of relative L2 error")


@partial(Exhibit, "training", STUDIES)
def plot_training(results: Results) -> Figure:
    """Training curves.

    Solid: test error after the epoch, dashed: training error during it. First seed.
    """

    def draw(axes: Axes, networks: Networks) -> None:
        for network, split in itertools.product(networks, SPLITS):
            points = np.array(results.curve(network, split), dtype=float)
            measured = points[np.isfinite(points[:, 1])]
            style = line_of(network.metadata, split)
            if len(measured) > 1:
                style |= {"marker": "", "linewidth": 1}
            axes.plot(*measured.T, label=network.model if split == "test" else None, **style)

    shown = [[n for n in results.shown(study) if results.curve(n, "test")] for study in STUDIES]
    return _panels(shown, draw, "epoch")


@partial(Exhibit, "figure-01-error-by-time", FLOW)
def plot_error_by_time(results: Results) -> Figure:
    """Error by time, training and test.

    Navier-Stokes, ν = 1e-5. Solid: test, dashed: training. t is the physical time; the paper
    counts frames from 0, so its index is t − 1.
    """

    def draw(axes: Axes, networks: Networks) -> None:
        for network, split in itertools.product(networks, SPLITS):
            label = f"{network.model}, {split}"
            _draw(axes, network.over_time(split), label, line_of(network.metadata, split))
        axes.locator_params(axis="x", integer=True)

    networks = [network for network in results.shown("navier-stokes") if network.over_time()]
    return _panels([networks], draw, "t")


@partial(Exhibit, "figure-09-modes", ["darcy-modes"])
def plot_modes(results: Results) -> Figure:
    """Kept modes k_max on Darcy flow.

    Lines across are other networks at the same resolution, where `pdno reproduce darcy` ran at
    it. The list of k_max is ours.
    """

    def draw(axes: Axes, networks: Networks) -> None:
        swept = by_setting(networks, "modes").items()
        _draw_swept(axes, {"all" if k == math.inf else f"{k:g}": n for k, n in swept}, PDNO)
        others = results.by_resolution("darcy").get(networks[0].resolution, [])
        for network in [n for name in BASELINES if (n := of_network(others, name))]:
            if (error := network.summary()) is not None:
                colour = marker_of(network.metadata)["color"]
                label = f"{network.model}, test"
                axes.axhline(error.mean, label=label, color=colour, linestyle="-.")

    shown = [n for n in results.shown("darcy-modes") if "modes" in n.metadata.sweep]
    return _panels([shown], draw, "k_max")


@partial(Exhibit, "figure-10-width", ["navier-stokes-width"])
def plot_width(results: Results) -> Figure:
    """Channels on Navier-Stokes.

    PDNO a(ξ) and FNO without truncation. The list of channels is ours.
    """

    def draw(axes: Axes, networks: Networks) -> None:
        for name in (PLAIN, "FNO"):
            if swept := by_setting(networks, "width", name):
                _draw_swept(axes, swept, name)
        axes.set_xticks(list(by_setting(networks, "width")))

    shown = [n for n in results.shown("navier-stokes-width") if "width" in n.metadata.sweep]
    return _panels([shown], draw, "channels", log=False)


@partial(Exhibit, "figure-11-activation", ["darcy-activation"])
def plot_activation(results: Results) -> Figure:
    """GELU and ReLU in the symbol networks on Darcy flow.

    Full colour: test, pale: training.
    """

    def draw(axes: Axes, networks: Networks) -> None:
        points = sorted({network.resolution for network in networks})
        by_name = {network.metadata.network: network for network in networks}
        bars = list(itertools.product(sorted(by_name), ("train", "test")))
        width = 1 / (len(bars) + 1)
        for bar, (name, split) in enumerate(bars):
            ours = [n for n in networks if n.metadata.network == name]
            errors = [(points.index(n.resolution), e) for n in ours if (e := n.summary(split))]
            axes.bar(
                [k + (bar - (len(bars) - 1) / 2) * width for k, _ in errors],
                [error.mean for _, error in errors],
                width,
                yerr=[error.deviation if error.count > 1 else 0.0 for _, error in errors],
                color=marker_of(by_name[name].metadata)["color"],
                alpha=0.5 if split == "train" else 1.0,
                label=f"{by_name[name].model}, {split}",
            )
        axes.set_xticks(range(len(points)), [str(s) for s in points])

    networks = sorted(results.study("darcy-activation"), key=lambda network: network.resolution)
    return _panels([networks], draw, "points per axis", log=False)


def _draw_swept(axes: Axes, networks: Mapping[X, NetworkMetrics], name: str) -> None:
    """Test and training errors of a network by the values of a setting."""
    for split in SPLITS:
        errors = {value: error for value, n in networks.items() if (error := n.summary(split))}
        first = next(iter(networks.values()))
        _draw(axes, errors, f"{name}, {split}", line_of(first.metadata, split))


def _draw(
    axes: Axes,
    errors: Mapping[X, Summary],
    label: str | None,
    style: MarkerStyle,
) -> None:
    """Means as a line; deviations as bars where there are several seeds."""
    if not errors:
        return
    x, means = list(errors), [error.mean for error in errors.values()]
    if all(error.count > 1 for error in errors.values()):
        bars = [error.deviation for error in errors.values()]
        axes.errorbar(x, means, yerr=bars, label=label, capsize=2, **style)
    else:
        axes.plot(x, means, label=label, **style)


def _panels(
    blocks: Sequence[Networks],
    draw: Callable[[Axes, Networks], None],
    x: str,
    y: str = "relative L2 error",
    *,
    log: bool = True,
) -> Figure:
    """A panel for each block, with the data, the grid and the budget on top, and one legend."""
    shown = require([networks for networks in blocks if networks])
    width, height = 6.2 if len(shown) == 1 else 3.7, 3.9 if len(shown) < 3 else 3.45
    figure, panels = grid_of_panels(len(shown), 2, width, height)
    for axes, networks in zip(panels, shown, strict=True):
        axes.set(title=_panel_title(networks), xlabel=x, ylabel=y)
        draw(axes, networks)
        if log:
            logarithmic(axes, "y")
    shared_legend(figure, panels, 2 * min(len(shown), 2))
    return figure


def _panel_title(networks: Networks) -> str:
    metadata, budgets = networks[0].metadata, [Budget.of(network) for network in networks]
    data = f", {metadata.dataset}" if metadata.study in FLOW_STUDIES else ""
    least, most = (end(budget.epochs for budget in budgets) for end in (min, max))
    epochs = ("" if least == most else f"{least} to ") + count_of(most, "epoch")
    first_line = f"{metadata.study}{data}, s = {networks[0].resolution}"
    return f"{first_line}\n({budgets[0].level} budget, {epochs})"
