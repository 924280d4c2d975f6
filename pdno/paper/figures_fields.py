"""Fields: test samples as the networks see them, and the symbol of the heat equation.

A sample is chosen by the mean of its error over all networks: the median one (figure 4), the one
with the lowest (figure 12) and the one with the highest mean error (figure 13). The exact symbol
of the heat equation is e^{-4π²cξ²t}, the learned one (mean over x of a1(x, t)) Re a2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import matplotlib
import numpy as np
from matplotlib.image import AxesImage

from pdno.figures.fields import Array, Style, field_style, signed
from pdno.figures.style import Axes, Figure, spread
from pdno.paper.results import Results, exhibit, require
from pdno.runs.run import Run

Choice = Literal["lowest", "median", "highest"]
FLOW = ("navier-stokes",)
MOST_POINTS = 128  # of a drawn surface, per axis
EXCITED = 0.1  # weight from which on a mode counts as excited, see pdno.evaluation


@dataclass(frozen=True)
class Sample:
    """One test sample with its mean error over the networks, and the predictions of it.

    Shapes: target and predictions (T, *N), one frame for a static problem, whose times are None.
    """

    index: int
    error: float
    target: Array
    predictions: dict[Run, Array]
    times: Sequence[float] | None

    def frame_error(self, run: Run, frame: int) -> float:
        """Relative L2 error of one frame."""
        truth = self.target[frame]
        error = np.linalg.norm(self.predictions[run][frame] - truth)
        return float(error / np.linalg.norm(truth))


def choose_sample(results: Results, study: str, choice: Choice) -> Sample:
    """The sample with the lowest, median or highest mean error over the networks.

    Only samples whose fields were kept can be shown. Networks with other test samples than the
    first one are left out.
    """
    runs = [run for network in results.shown(study) if (run := results.run(network))]
    runs = require([run for run in runs if "prediction" in run.array_names])
    target, times = runs[0].array("target"), runs[0].times
    runs = [run for run in runs if np.array_equal(run.array("target"), target)]
    errors = np.mean([run.array("error")[: len(target)] for run in runs], axis=0)
    order = np.argsort(errors, kind="stable")
    index = int(order[{"lowest": 0, "median": len(order) // 2, "highest": -1}[choice]])

    def frames(field: Array) -> Array:
        """The first channel, frame by frame: (T, C, *N) or (C, *N) -> (T, *N)."""
        return field[None, 0] if times is None else field[:, 0]

    predictions = {run: frames(run.array("prediction")[index]) for run in runs}
    return Sample(index, float(errors[index]), frames(target[index]), predictions, times)


@exhibit("figure-04-samples")
def plot_comparison(results: Results) -> Figure:
    """One test sample at the last time."""
    sample = choose_sample(results, "navier-stokes", "median")
    require(sample.target.ndim == 3)
    truth = sample.target[-1]
    values = field_style(truth)
    differences = signed(*(frames[-1] - truth for frames in sample.predictions.values()))
    count = 1 + len(sample.predictions)
    figure = Figure(figsize=(max(1.75 * count, 4.0), 3.9))
    panels = figure.subplots(2, count, squeeze=False)
    when = "" if sample.times is None else f", t = {sample.times[-1]:g}"
    _draw(panels[0, 0], truth, values, f"truth{when}")
    panels[1, 0].set_visible(False)
    for column, (run, frames) in enumerate(sample.predictions.items(), start=1):
        title = f"{run.model}\n{sample.frame_error(run, -1):.3g}"
        top = _draw(panels[0, column], frames[-1], values, title)
        below = _draw(panels[1, column], frames[-1] - truth, differences)
    panels[1, 1].set_ylabel("predicted − truth")
    figure.colorbar(top, ax=panels[0, :].tolist(), shrink=0.8)
    figure.colorbar(below, ax=panels[1, :].tolist(), shrink=0.8)
    return figure


@exhibit("figure-12-lowest")
def plot_lowest(results: Results) -> Figure:
    """The test sample with the lowest mean error over the networks."""
    return plot_frames(results, "lowest")


@exhibit("figure-13-highest")
def plot_highest(results: Results) -> Figure:
    """The test sample with the highest mean error over the networks."""
    return plot_frames(results, "highest")


def plot_frames(results: Results, choice: Choice) -> Figure:
    """One test sample at a few times, and the predictions of it."""
    sample = choose_sample(results, "navier-stokes", choice)
    times = require(sample.times)
    require(sample.target.ndim == 3)
    chosen = spread(len(times), 4)
    rows = 1 + len(sample.predictions)
    figure = Figure(figsize=(1.75 * len(chosen) + 0.4, 1.75 * rows + 0.3))
    panels = figure.subplots(rows, len(chosen), squeeze=False)
    for (top, *below), frame in zip(panels.T, chosen, strict=True):
        values = field_style(sample.target[frame])
        _draw(top, sample.target[frame], values, f"t = {times[frame]:g}")
        for axes, (run, frames) in zip(below, sample.predictions.items(), strict=True):
            _draw(axes, frames[frame], values, f"{sample.frame_error(run, frame):.3g}")
    names = ["truth", *(run.model for run in sample.predictions)]
    for axes, name in zip(panels[:, 0], names, strict=True):
        axes.set_ylabel(name)
    return figure


@exhibit("figure-08-heat-surfaces")
def plot_heat_surfaces(results: Results) -> Figure:
    """Exact and predicted solution of the heat equation."""
    run = results.best_run("heat", "prediction")
    frames = require(run.times)
    times = np.asarray(require(frames if len(frames) > 1 else None))  # one frame is no surface
    target, prediction = run.array("target")[0, :, 0], run.array("prediction")[0, :, 0]
    error = float(np.linalg.norm(prediction - target) / np.linalg.norm(target))
    step = max(1, target.shape[-1] // MOST_POINTS)
    truth, predicted = target[:, ::step], prediction[:, ::step]
    x, t = np.meshgrid(np.arange(truth.shape[1]) / truth.shape[1], times)
    figure = Figure(figsize=(8.4, 3.0))
    bounds = {"vmin": float(truth.min()), "vmax": float(truth.max())}
    lines = {"colors": "black", "linestyles": "dashed", "linewidths": 0.6}
    panels = (("exact", truth), (f"predicted, error {error:.3g}", predicted))
    for column, (title, values) in enumerate(panels, start=1):
        axes = figure.add_subplot(1, 3, column, projection="3d")
        axes.plot_surface(x, t, values, cmap="viridis", rcount=40, ccount=64, **bounds)
        axes.contour(x, t, values, levels=8, **lines)
        axes.set(zlim=tuple(bounds.values()), title=title, xlabel="x", ylabel="t")
        axes.tick_params(labelsize=6, pad=0)
    axes = figure.add_subplot(1, 3, 3)
    difference = predicted - truth
    image = axes.pcolormesh(x, t, difference, shading="nearest", **signed(difference))
    figure.colorbar(image, ax=axes)
    axes.set(title="predicted − exact", xlabel="x", ylabel="t")
    return figure


@exhibit("figure-03-heat-symbol")
def plot_heat_symbol(results: Results) -> Figure:
    """Learned and exact symbol of the heat equation."""
    run = results.best_run("heat", "heat.learned")
    names = ("learned", "exact", "weight", "xi", "times")
    learned, exact, weight, xi, times = (run.array(f"heat.{name}") for name in names)
    figure = Figure(figsize=(6.2, 6.6))
    rows = figure.subplots(3, 1, sharex=True)
    limits: Style = {
        "cmap": "viridis",
        "vmin": min(0.0, float(learned.min())),
        "vmax": max(1.0, float(learned.max())),
    }
    inside = "learned − exact; inside the line the data excite the mode"
    panels = (
        ("learned Re a1 a2, a1 averaged over x", learned, limits),
        ("exact e^(−4π²cξ²t)", exact, limits),
        (inside, learned - exact, signed(learned - exact)),
    )
    for axes, (title, values, style) in zip(rows, panels, strict=True):
        image = axes.pcolormesh(xi, times, values, shading="nearest", **style)
        figure.colorbar(image, ax=axes)
        axes.set(title=title, ylabel="t")
    if weight.min() < EXCITED <= weight.max():
        rows[-1].contour(xi, times, weight, levels=[EXCITED], colors="black", linewidths=1)
    rows[-1].set_xlabel("ξ")
    return figure


@exhibit("figure-07-heat-space")
def plot_heat_space(results: Results) -> Figure:
    """Dependence of the learned heat symbol on x."""
    run = results.best_run("heat", "heat.space")
    space, times = run.array("heat.space"), run.array("heat.times")
    figure = Figure(figsize=(7.2, 3.0))
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.9, len(times)))
    for t in spread(len(times), 5):
        x = np.arange(space.shape[1]) / space.shape[1]
        left.plot(x, space[t], color=colours[t], label=f"t = {times[t]:g}")
    left.axhline(1.0, color="0.7", linewidth=0.8, zorder=0)
    left.set(xlabel="x", ylabel="a1(x, t) / its mean over x")
    left.legend()
    right.plot(times, space.std(axis=1), marker="o", markersize=3)
    right.set(xlabel="t", ylabel="standard deviation over x")
    return figure


def _draw(axes: Axes, field: Array, style: Style, title: str = "") -> AxesImage:
    """A field with x₁ to the right and x₂ upwards."""
    axes.set(xticks=[], yticks=[], title=title)
    axes.spines[:].set_visible(False)
    return axes.imshow(field.T, extent=(0, 1, 0, 1), **style)
