"""Heat: the learned symbol, its dependence on x, and a predicted surface (figures 3, 7 and 8).

The exact symbol is e^{-4π²cξ²t}. The learned one is Re ā(ξ, t) = (mean over x of a1(x, t)) Re a2;
the data tell of it only where they excite the mode, which a line encloses.
"""

__all__ = ["plot_heat_space", "plot_heat_surfaces", "plot_heat_symbol"]

from typing import TYPE_CHECKING, Any

import numpy as np

from pdno.report.groups import Group, Results
from pdno.report.style import figure_style, signed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXCITED = 0.1  # weight from which on a mode counts as excited, see pdno.evaluation
CONTOURS = {"colors": "black", "linestyles": "dashed", "linewidths": 0.6}
MOST_POINTS = 128  # of a drawn surface, per axis


def _heat(results: Results, needed: str) -> Group | None:
    groups = [g for g in results.shown("heat") if needed in g.first.picture_names]
    return max(groups, key=lambda group: group.budget.work, default=None)


def plot_heat_symbol(results: Results) -> "Figure | None":
    """Figure 3: the learned symbol above the exact one, and their difference."""
    from matplotlib.figure import Figure

    group = _heat(results, "heat.learned")
    if group is None:
        return None
    run = group.first
    learned, exact, weight, xi, times = (
        _picture(run, name) for name in ("learned", "exact", "weight", "xi", "times")
    )
    with figure_style():
        figure = Figure(figsize=(6.2, 6.6))
        rows = figure.subplots(3, 1, sharex=True)
        limits = {"vmin": min(0.0, float(learned.min())), "vmax": max(1.0, float(learned.max()))}
        pictures = (
            ("learned Re a1 a2, a1 averaged over x", learned, limits),
            ("exact e^(−4π²cξ²t)", exact, limits),
            ("learned − exact; inside the line the data excite the mode", learned - exact, None),
        )
        for axes, (title, values, range_) in zip(rows, pictures, strict=True):
            style = signed(values) if range_ is None else range_
            image = axes.pcolormesh(xi, times, values, shading="nearest", **style)
            figure.colorbar(image, ax=axes)
            axes.set_title(title)
            axes.set_ylabel("t")
        if weight.min() < EXCITED <= weight.max():
            rows[-1].contour(xi, times, weight, levels=[EXCITED], colors="black", linewidths=1)
        rows[-1].set_xlabel("ξ")
        return figure


def plot_heat_space(results: Results) -> "Figure | None":
    """Figure 7: a1(x, t) over its mean in x."""
    import matplotlib
    from matplotlib.figure import Figure

    group = _heat(results, "heat.space")
    if group is None:
        return None
    space, times = (_picture(group.first, name) for name in ("space", "times"))
    x = np.arange(space.shape[1]) / space.shape[1]
    with figure_style():
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


def plot_heat_surfaces(results: Results) -> "Figure | None":
    """Figure 8: exact and predicted surface of one test sample, and their difference."""
    from matplotlib.figure import Figure

    group = _heat(results, "prediction")
    if group is None or group.first.times is None:
        return None
    run = group.first
    target, prediction = run.picture("target"), run.picture("prediction")
    assert target is not None and prediction is not None
    step = max(1, target.shape[-1] // MOST_POINTS)
    truth, said = target[0, :, 0, ::step], prediction[0, :, 0, ::step]
    x, t = np.meshgrid(np.arange(truth.shape[1]) / truth.shape[1], np.asarray(run.times))
    error = float(np.linalg.norm(prediction[0] - target[0]) / np.linalg.norm(target[0]))
    with figure_style():
        figure = Figure(figsize=(8.4, 3.0))
        panels = (("exact", truth), (f"predicted, error {error:.3g}", said))
        bounds = {"vmin": float(truth.min()), "vmax": float(truth.max())}
        for place, (title, values) in enumerate(panels, start=1):
            axes = figure.add_subplot(1, 3, place, projection="3d")
            axes.plot_surface(x, t, values, cmap="viridis", rcount=40, ccount=64, **bounds)
            axes.contour(
                x, t, values, levels=8, colors="black", linestyles="dashed", linewidths=0.6
            )
            axes.set_zlim(bounds["vmin"], bounds["vmax"])
            axes.set_title(title)
            axes.set_xlabel("x")
            axes.set_ylabel("t")
            axes.tick_params(labelsize=6, pad=0)
        axes = figure.add_subplot(1, 3, 3)
        difference = said - truth
        image = axes.pcolormesh(x, t, difference, shading="nearest", **signed(difference))
        figure.colorbar(image, ax=axes)
        axes.set_title("predicted − exact")
        axes.set_xlabel("x")
        axes.set_ylabel("t")
        return figure


def _picture(run: Any, name: str) -> Any:
    found = run.picture(f"heat.{name}")
    if found is None:
        raise ValueError(f"{run.folder} has no picture heat.{name}: run it again")
    return found
