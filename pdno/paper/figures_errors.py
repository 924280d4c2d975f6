"""Errors as curves: by time, frequency, resolution and epoch, against cost, and the ablations."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from pdno.figures.style import Axes, Figure, grid_of_panels, logarithmic, shared_legend
from pdno.files.metric_table import ERROR, NetworkMetrics, Summary
from pdno.paper.published import BASELINES, PDNO, PLAIN, TABLE_5, Budget, count_of
from pdno.paper.results import (
    FLOW,
    MarkerStyle,
    Results,
    by_setting,
    exhibit,
    grouped,
    line_of,
    of_network,
    require,
)

STUDIES = tuple(TABLE_5)
SPLITS = ("test", "train")
MOST_MARKERS = 20  # of one curve
Networks = Sequence[NetworkMetrics]
Position: TypeAlias = Any  # on the x axis, a number or a word
Errors = Mapping[Position, Summary]
Curve = tuple[str, Errors, MarkerStyle]  # with its label


@exhibit("cost")
def plot_cost(results: Results) -> Figure:
    tested = [[n for n in results.shown(study) if n.summary()] for study in STUDIES]
    # one network alone, without a solver, compares with nothing
    shown = require([ours for ours in tested if ours[1:] or _solver(ours)])
    heads = ("training, seconds", "one prediction, seconds", "parameters (real numbers)")
    figure = Figure(figsize=(7.4, 2.6 * len(shown) + 0.7))
    panels = figure.subplots(len(shown), len(heads), squeeze=False, sharey="row")
    for row, networks in zip(panels, shown, strict=True):
        errors = {network: require(network.summary()).mean for network in networks}
        for network, error in errors.items():
            style: MarkerStyle = {**line_of(network.metadata), "linestyle": ""}
            for axes, cost in zip(row, _costs(network), strict=True):
                if cost is not None:
                    axes.plot([cost], [error], label=network.model, **style)
        least = min(errors.values()) / 3
        if solver := [pair for pair in _solver(networks) if pair[1] > least]:
            grey: MarkerStyle = {"color": "0.5", "marker": ".", "linewidth": 1, "zorder": 1}
            row[1].plot(*zip(*solver, strict=True), label="solver, coarser grids", **grey)
        for axes, head in zip(row, heads, strict=True):
            logarithmic(axes, "x")
            logarithmic(axes, "y")
            axes.tick_params(axis="x", labelrotation=45, labelsize=7)
            axes.set_xlabel(head)
        study, level = networks[0].metadata.study, Budget.of(networks[0]).level
        row[0].set_ylabel(f"{study}, s = {networks[0].resolution}\n({level} budget)\ntest error")
    shared_legend(figure, panels.ravel())
    return figure


def _solver(networks: Networks) -> list[tuple[float, float]]:
    """Seconds and errors of the solver, from the finest grid on; of all runs the least seconds."""
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


@exhibit("samples")
def plot_samples(results: Results) -> Figure:
    curves = _by_network(lambda network: network.metadata.samples or 0)
    blocks = [results.shown("darcy-samples")]
    return _panels(blocks, curves, "training samples", ticks=_logarithmic_ticks)


@exhibit("resolutions")
def plot_resolutions(results: Results) -> Figure:
    def finer(network: NetworkMetrics, split: str) -> dict[int, Summary]:
        """Errors by resolution, that of the training first; empty without others."""
        points, test = network.resolutions(split), network.summary()
        errors = {s: e for s in points if (e := network.summary(split, resolution=s))}
        return {network.resolution: test, **errors} if test and errors else {}

    def curves(networks: Networks) -> Iterator[Curve]:
        for network in networks:
            style = line_of(network.metadata)
            yield network.model, finer(network, "zero-shot"), style
            yield "", finer(network, "interpolated"), {**style, "linestyle": ":", "markersize": 3}

    shown = [[n for n in results.shown(study) if finer(n, "zero-shot")] for study in STUDIES]
    y = "relative L2 test error"
    return _panels(shown, curves, "points per axis", y, ticks=_logarithmic_ticks)


def _logarithmic_ticks(axes: Axes, values: list[float]) -> None:
    axes.set_xscale("log")
    axes.set_xticks(values, [str(value) for value in values])
    axes.minorticks_off()


@exhibit("bands")
def plot_bands(results: Results) -> Figure:
    curves = _each(lambda network, _: network.series("test", f"{ERROR} band "), ["test"])
    shown, y = [results.shown(study) for study in STUDIES], "share of relative L2 error"
    turned = partial(Axes.tick_params, axis="x", labelrotation=45)
    return _panels(shown, curves, "band of max |ξ_j|", y, ticks=lambda axes, _: turned(axes))


@exhibit("training")
def plot_training(results: Results) -> Figure:
    def curve(network: NetworkMetrics, split: str) -> dict[float, Summary]:
        finite = ((x, e) for x, e in results.curve(network, split) if e and math.isfinite(e))
        return {epoch: Summary(error, math.nan, 1) for epoch, error in finite}

    shown = [[n for n in results.shown(study) if results.curve(n, "test")] for study in STUDIES]
    return _panels(shown, _each(curve), "epoch")


@exhibit("figure-01-error-by-time")
def plot_error_by_time(results: Results) -> Figure:
    networks = [network for network in results.shown("navier-stokes") if network.over_time()]
    whole = partial(Axes.locator_params, axis="x", integer=True)
    curves = _each(NetworkMetrics.over_time)
    return _panels([networks], curves, "t", ticks=lambda axes, _: whole(axes))


def _each(
    curve: Callable[[NetworkMetrics, str], Errors], splits: Sequence[str] = SPLITS
) -> Callable[[Networks], Iterator[Curve]]:
    def curves(networks: Networks) -> Iterator[Curve]:
        for network, split in itertools.product(networks, splits):
            label = f"{network.model}, {split}" if len(splits) > 1 else network.model
            yield label, curve(network, split), line_of(network.metadata, split)

    return curves


@exhibit("figure-09-modes")
def plot_modes(results: Results) -> Figure:
    def curves(networks: Networks) -> Iterator[Curve]:
        swept = by_setting(networks, "modes").items()
        by_label = {"all" if k == math.inf else f"{k:g}": n for k, n in swept}
        yield from _swept(by_label, PDNO)
        others = results.by_resolution("darcy").get(networks[0].resolution, [])
        for network in [n for name in BASELINES if (n := of_network(others, name))]:
            if error := network.summary():
                style = {"color": line_of(network.metadata)["color"], "linestyle": "-."}
                across = dict.fromkeys(by_label, Summary(error.mean, math.nan, 1))
                yield f"{network.model}, test", across, style

    shown = [n for n in results.shown("darcy-modes") if "modes" in n.metadata.sweep]
    return _panels([shown], curves, "k_max")


@exhibit("figure-10-width")
def plot_width(results: Results) -> Figure:
    def curves(networks: Networks) -> Iterator[Curve]:
        for name in (PLAIN, "FNO"):
            yield from _swept(by_setting(networks, "width", name), name)

    shown = [n for n in results.shown("navier-stokes-width") if "width" in n.metadata.sweep]
    return _panels([shown], curves, "channels", log=False, ticks=Axes.set_xticks)


@exhibit("figure-11-activation")
def plot_activation(results: Results) -> Figure:
    curves = _by_network(lambda network: network.resolution)
    networks = results.study("darcy-activation")
    return _panels([networks], curves, "points per axis", log=False, ticks=Axes.set_xticks)


def _by_network(
    setting: Callable[[NetworkMetrics], float],
) -> Callable[[Networks], Iterator[Curve]]:
    def curves(networks: Networks) -> Iterator[Curve]:
        for ours in grouped(networks, lambda network: network.metadata.network).values():
            yield from _swept({setting(n): n for n in sorted(ours, key=setting)}, ours[0].model)

    return curves


def _swept(networks: Mapping[Position, NetworkMetrics], name: str) -> Iterator[Curve]:
    for split in SPLITS if networks else ():
        errors = {value: error for value, n in networks.items() if (error := n.summary(split))}
        style = line_of(next(iter(networks.values())).metadata, split)
        yield f"{name}, {split}", errors, style


def _panels(
    blocks: Sequence[Networks],
    curves: Callable[[Networks], Iterable[Curve]],
    x: str,
    y: str = "relative L2 error",
    *,
    log: bool = True,
    ticks: Callable[[Axes, list[float]], object] = lambda axes, values: None,
) -> Figure:
    """A panel for each block, with data, grid and budget on top, bars of seeds, and one legend.

    `ticks` finishes the axis of the x that are shown.
    """
    shown = require([networks for networks in blocks if networks])
    width, height = 6.2 if len(shown) == 1 else 3.7, 3.9 if len(shown) < 3 else 3.45
    figure, panels = grid_of_panels(len(shown), 2, width, height)
    for axes, networks in zip(panels, shown, strict=True):
        axes.set(title=_panel_title(networks), xlabel=x, ylabel=y)
        values = set[float]()
        for label, errors, style in curves(networks):
            if len(errors) > MOST_MARKERS:
                style |= {"marker": "", "linewidth": 1}
            means = [error.mean for error in errors.values()]
            if errors:
                axes.plot(list(errors), means, label=label or None, **style)
            if errors and all(error.count > 1 for error in errors.values()):
                bars, colour = [error.deviation for error in errors.values()], style["color"]
                axes.errorbar(list(errors), means, bars, fmt="none", color=colour, capsize=2)
            values |= {*errors}
        ticks(axes, sorted(values))
        if log:
            logarithmic(axes, "y")
    shared_legend(figure, panels, 2 * min(len(shown), 2))
    return figure


def _panel_title(networks: Networks) -> str:
    metadata, budgets = networks[0].metadata, [Budget.of(network) for network in networks]
    data = f", {metadata.dataset}" if metadata.study.startswith(FLOW) else ""
    least, most = (end(budget.epochs for budget in budgets) for end in (min, max))
    epochs = ("" if least == most else f"{least} to ") + count_of(most, "epoch")
    first_line = f"{metadata.study}{data}, s = {networks[0].resolution}"
    return f"{first_line}\n({budgets[0].level} budget, {epochs})"
