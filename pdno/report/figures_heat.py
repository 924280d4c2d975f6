"""Heat: the learned symbol, its dependence on x, and a predicted surface (figures 3, 7 and 8).

The exact symbol is e^{-4π²cξ²t}. The learned one is Re ā(ξ, t) = (mean over x of a1(x, t)) Re a2;
the data tell of it only where they excite the mode, which a line encloses.
"""

__all__ = ["plot_heat_space", "plot_heat_surfaces", "plot_heat_symbol"]

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from pdno.report.runs import Results, RunRecord
from pdno.report.style import figure_style, signed

EXCITED = 0.1  # weight from which on a mode counts as excited, see pdno.evaluation
MOST_POINTS = 128  # of a drawn surface, per axis


def _heat(results: Results, needed: str) -> RunRecord | None:
    groups = [g for g in results.shown("heat") if needed in g.first.picture_names]
    best = max(groups, key=lambda group: group.budget.work, default=None)
    return None if best is None else best.first


@figure_style()
def plot_heat_symbol(results: Results) -> Figure | None:
    """Figure 3: the learned symbol above the exact one, and their difference."""
    run = _heat(results, "heat.learned")
    if run is None:
        return None
    names = ("learned", "exact", "weight", "xi", "times")
    learned, exact, weight, xi, times = (run.picture(f"heat.{name}") for name in names)
    figure = Figure(figsize=(6.2, 6.6))
    rows = figure.subplots(3, 1, sharex=True)
    limits = {"vmin": min(0.0, float(learned.min())), "vmax": max(1.0, float(learned.max()))}
    inside = "learned − exact; inside the line the data excite the mode"
    pictures = (
        ("learned Re a1 a2, a1 averaged over x", learned, limits),
        ("exact e^(−4π²cξ²t)", exact, limits),
        (inside, learned - exact, signed(learned - exact)),
    )
    for axes, (title, values, style) in zip(rows, pictures, strict=True):
        image = axes.pcolormesh(xi, times, values, shading="nearest", **style)
        figure.colorbar(image, ax=axes)
        axes.set_title(title)
        axes.set_ylabel("t")
    if weight.min() < EXCITED <= weight.max():
        rows[-1].contour(xi, times, weight, levels=[EXCITED], colors="black", linewidths=1)
    rows[-1].set_xlabel("ξ")
    return figure


@figure_style()
def plot_heat_space(results: Results) -> Figure | None:
    """Figure 7: a1(x, t) over its mean in x."""
    run = _heat(results, "heat.space")
    if run is None:
        return None
    space, times = run.picture("heat.space"), run.picture("heat.times")
    x = np.arange(space.shape[1]) / space.shape[1]
    figure = Figure(figsize=(7.2, 3.0))
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.9, len(times)))
    for t in sorted(set(np.linspace(0, len(times) - 1, 5).round().astype(int).tolist())):
        left.plot(x, space[t], color=colours[t], label=f"t = {times[t]:g}")
    left.axhline(1.0, color="0.7", linewidth=0.8, zorder=0)
    left.set_xlabel("x")
    left.set_ylabel("a1(x, t) / its mean over x")
    left.legend()
    right.plot(times, space.std(axis=1), marker="o", markersize=3)
    right.set_xlabel("t")
    right.set_ylabel("standard deviation over x")
    return figure


@figure_style()
def plot_heat_surfaces(results: Results) -> Figure | None:
    """Figure 8: exact and predicted surface of one test sample, and their difference."""
    run = _heat(results, "prediction")
    if run is None or run.times is None:
        return None
    target, prediction = run.picture("target")[0, :, 0], run.picture("prediction")[0, :, 0]
    error = float(np.linalg.norm(prediction - target) / np.linalg.norm(target))
    step = max(1, target.shape[-1] // MOST_POINTS)
    truth, predicted = target[:, ::step], prediction[:, ::step]
    x, t = np.meshgrid(np.arange(truth.shape[1]) / truth.shape[1], np.asarray(run.times))
    figure = Figure(figsize=(8.4, 3.0))
    bounds = {"vmin": float(truth.min()), "vmax": float(truth.max())}
    lines = {"colors": "black", "linestyles": "dashed", "linewidths": 0.6}
    panels = (("exact", truth), (f"predicted, error {error:.3g}", predicted))
    for place, (title, values) in enumerate(panels, start=1):
        axes = figure.add_subplot(1, 3, place, projection="3d")
        axes.plot_surface(x, t, values, cmap="viridis", rcount=40, ccount=64, **bounds)
        axes.contour(x, t, values, levels=8, **lines)
        axes.set_zlim(bounds["vmin"], bounds["vmax"])
        axes.set_title(title)
        axes.set_xlabel("x")
        axes.set_ylabel("t")
        axes.tick_params(labelsize=6, pad=0)
    axes = figure.add_subplot(1, 3, 3)
    difference = predicted - truth
    image = axes.pcolormesh(x, t, difference, shading="nearest", **signed(difference))
    figure.colorbar(image, ax=axes)
    axes.set_title("predicted − exact")
    axes.set_xlabel("x")
    axes.set_ylabel("t")
    return figure
