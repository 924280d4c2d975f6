"""Fields: test samples as the networks see them, and the symbol of the heat equation."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import matplotlib
import numpy as np

from pdno.figures.fields import Array, Panel, Style, draw_panels, field_style, signed
from pdno.figures.style import Axes, Figure, spread
from pdno.paper.results import Results, exhibit, require
from pdno.runs.run import Run

Choice = Literal["lowest", "median", "highest"]
EXCITED = 0.1  # weight from which on a mode counts as excited, see pdno.evaluation


@dataclass(frozen=True)
class Sample:
    """One test sample, its mean error over the networks, and their predictions, (T, *N)."""

    index: int
    error: float
    target: Array
    predictions: dict[Run, Array]
    times: Sequence[float] | None

    def frame_error(self, run: Run, frame: int) -> float:
        truth = self.target[frame]
        error = np.linalg.norm(self.predictions[run][frame] - truth)
        return float(error / np.linalg.norm(truth))


def choose_sample(results: Results, study: str, choice: Choice) -> Sample:
    """The sample with the lowest, median or highest mean error, of those that were kept."""
    runs = [run for network in results.shown(study) if (run := results.run(network))]
    runs = require([run for run in runs if "prediction" in run.array_names])
    target, times = runs[0].array("target"), runs[0].times
    runs = [run for run in runs if np.array_equal(run.array("target"), target)]
    errors = np.mean([run.array("error")[: len(target)] for run in runs], axis=0)
    order = np.argsort(errors, kind="stable")
    index = int(order[{"lowest": 0, "median": len(order) // 2, "highest": -1}[choice]])

    def first_channel(array: Array) -> Array:
        """Of the sample, frame by frame: (T, C, *N) or (C, *N) -> (T, *N)."""
        return (array[index] if times is not None else array[index : index + 1])[:, 0]

    predictions = {run: first_channel(run.array("prediction")) for run in runs}
    return Sample(index, float(errors[index]), first_channel(target), predictions, times)


@exhibit("figure-04-samples")
def plot_comparison(results: Results) -> Figure:
    sample = choose_sample(results, "navier-stokes", "median")
    require(sample.target.ndim == 3)
    truth = sample.target[-1]
    values = field_style(truth)
    differences = signed(*(frames[-1] - truth for frames in sample.predictions.values()))
    when = "" if sample.times is None else f", t = {sample.times[-1]:g}"
    above: list[Panel | None] = [Panel(f"truth{when}", truth, values)]
    below: list[Panel | None] = [None]
    for run, frames in sample.predictions.items():
        title = f"{run.model}\n{sample.frame_error(run, -1):.3g}"
        above.append(Panel(title, frames[-1], values))
        below.append(Panel("predicted − truth", frames[-1] - truth, differences))
    return draw_rows([above, below])


@exhibit("figure-12-lowest")
def plot_lowest(results: Results) -> Figure:
    return plot_frames(results, "lowest")


@exhibit("figure-13-highest")
def plot_highest(results: Results) -> Figure:
    return plot_frames(results, "highest")


def plot_frames(results: Results, choice: Choice) -> Figure:
    """One test sample at a few times, and the predictions of it."""
    sample = choose_sample(results, "navier-stokes", choice)
    times = require(sample.times)
    require(sample.target.ndim == 3)
    styles = {k: field_style(sample.target[k]) for k in spread(len(times), 4)}
    truth = [Panel(f"t = {times[k]:g}", sample.target[k], style) for k, style in styles.items()]
    predicted = [
        [
            Panel(f"{sample.frame_error(run, k):.3g}", frames[k], style)
            for k, style in styles.items()
        ]
        for run, frames in sample.predictions.items()
    ]
    names = [f"{name}\nx₂" for name in ("truth", *(run.model for run in sample.predictions))]
    return draw_rows([truth, *predicted], names)


def draw_rows(panels: Sequence[Sequence[Panel | None]], names: Sequence[str] = ()) -> Figure:
    columns = max(map(len, panels))
    figure = Figure(figsize=(max(2.1 * columns + 0.3, 4.0), 1.9 * len(panels) + 0.3))
    rows = figure.subplots(len(panels), columns, squeeze=False)
    draw_panels(rows, panels)
    for row, name in zip(rows, names, strict=False):
        row[0].set_ylabel(name)
    return figure


@exhibit("figure-08-heat-solution")
def plot_heat_solution(results: Results) -> Figure:
    run = results.best_run("heat", "prediction")
    frames = require(run.times)
    times = np.asarray(require(frames if len(frames) > 1 else None))  # one frame is no map
    truth, predicted = run.array("target")[0, :, 0], run.array("prediction")[0, :, 0]
    error = float(np.linalg.norm(predicted - truth) / np.linalg.norm(truth))
    x, values = np.arange(truth.shape[1]) / truth.shape[1], field_style(truth)
    figure = Figure(figsize=(8.4, 2.8))
    panels = (
        ("exact", truth, values),
        (f"predicted, error {error:.3g}", predicted, values),
        ("predicted − exact", predicted - truth, signed(predicted - truth)),
    )
    _draw_over_time(figure.subplots(1, 3, sharey=True), "x", x, times, panels)
    return figure


@exhibit("figure-03-heat-symbol")
def plot_heat_symbol(results: Results) -> Figure:
    run = results.best_run("heat", "heat.learned")
    names = ("learned", "exact", "weight", "xi", "times")
    learned, exact, weight, xi, times = (run.array(f"heat.{name}") for name in names)
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
    figure = Figure(figsize=(6.2, 6.6))
    rows = figure.subplots(3, 1, sharex=True)
    _draw_over_time(rows, "ξ", xi, times, panels)
    if weight.min() < EXCITED <= weight.max():
        rows[-1].contour(xi, times, weight, levels=[EXCITED], colors="black", linewidths=1)
    return figure


def _draw_over_time(
    row: Iterable[Axes], name: str, x: Array, t: Array, panels: Sequence[tuple[str, Array, Style]]
) -> None:
    for axes, (title, values, style) in zip(row, panels, strict=True):
        image = axes.pcolormesh(x, t, values, shading="nearest", **style)
        axes.figure.colorbar(image, ax=axes)
        axes.set(title=title, xlabel=name, ylabel="t")


@exhibit("figure-07-heat-space")
def plot_heat_space(results: Results) -> Figure:
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
