"""Fields: test samples as the networks see them, with the relative error on top.

The sample is chosen by the mean of its error over all networks: the median one (figure 4), the one
with the lowest (figure 12) and the one with the highest mean error (figure 13).
"""

__all__ = ["Sample", "choose_sample", "plot_comparison", "plot_frames"]

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from pdno.figures.fields import field_style, signed
from pdno.figures.style import Figure, spread
from pdno.paper.exhibits import figure
from pdno.report.runs import Array, Group, Results, require

Choice = Literal["lowest", "median", "highest"]
FLOW = ("navier-stokes",)
MOST_POINTS = 128  # of a drawn surface, per axis


@dataclass(frozen=True)
class Sample:
    """One test sample with its mean error over the networks, and the predictions of it.

    Shapes: given (C, *N); target and predictions (T, *N), one frame for a static problem, whose
    times are None.
    """

    index: int
    error: float
    given: Array
    target: Array
    predictions: dict[Group, Array]
    times: Sequence[float] | None

    def frame_error(self, group: Group, frame: int) -> float:
        """Relative L2 error of one frame."""
        truth = self.target[frame]
        error = np.linalg.norm(self.predictions[group][frame] - truth)
        return float(error / np.linalg.norm(truth))


def choose_sample(groups: Sequence[Group], choice: Choice) -> Sample:
    """The sample with the lowest, median or highest mean error over the networks.

    Only samples whose fields were kept can be shown. Networks with other test samples than the
    first one are left out.
    """
    known = require([group for group in groups if "prediction" in group.picture_names])
    target, times = known[0].picture("target"), known[0].times
    known = [group for group in known if np.array_equal(group.picture("target"), target)]
    errors = np.mean([group.picture("error")[: len(target)] for group in known], axis=0)
    order = np.argsort(errors, kind="stable")
    index = int(order[{"lowest": 0, "median": len(order) // 2, "highest": -1}[choice]])

    def frames(field: Array) -> Array:
        """The first channel, frame by frame: (T, C, *N) or (C, *N) -> (T, *N)."""
        return field[None, 0] if times is None else field[:, 0]

    predictions = {group: frames(group.picture("prediction")[index]) for group in known}
    given, error = known[0].picture("input")[index], float(errors[index])
    return Sample(index, error, given, frames(target[index]), predictions, times)


def plot_comparison(results: Results, study: str) -> Figure:
    """The sample with the median of the mean error over the networks; the number is the relative
    L2 error of this frame. A time t is the physical one; the paper counts frames from 0, so its
    index is t − 1."""
    sample = choose_sample(results.shown(study), "median")
    require(sample.target.ndim == 3)
    truth = sample.target[-1]
    values = field_style(truth)
    differences = signed(*(frames[-1] - truth for frames in sample.predictions.values()))
    count = 1 + len(sample.predictions)
    drawn = Figure(figsize=(max(1.75 * count, 4.0), 3.9))
    panels = drawn.subplots(2, count, squeeze=False)
    when = "" if sample.times is None else f", t = {sample.times[-1]:g}"
    _draw(panels[0, 0], truth, values, f"truth{when}")
    panels[1, 0].set_visible(False)
    for column, (group, frames) in enumerate(sample.predictions.items(), start=1):
        title = f"{group.model}\n{sample.frame_error(group, -1):.3g}"
        top = _draw(panels[0, column], frames[-1], values, title)
        below = _draw(panels[1, column], frames[-1] - truth, differences)
    panels[1, 1].set_ylabel("predicted − truth")
    drawn.colorbar(top, ax=panels[0, :].tolist(), shrink=0.8)
    drawn.colorbar(below, ax=panels[1, :].tolist(), shrink=0.8)
    return drawn


FLOW_SAMPLE = figure("samples", 4, FLOW, "One test sample at the last time")(
    partial(plot_comparison, study="navier-stokes")
)


def plot_frames(results: Results, choice: Choice) -> Figure:
    """The number is the relative L2 error of the frame. t is the physical time; the paper counts
    frames from 0, so its index is t − 1."""
    sample = choose_sample(results.shown("navier-stokes"), choice)
    times = require(sample.times)
    require(sample.target.ndim == 3)
    chosen = spread(len(times), 4)
    rows = 1 + len(sample.predictions)
    drawn = Figure(figsize=(1.75 * len(chosen) + 0.4, 1.75 * rows + 0.3))
    panels = drawn.subplots(rows, len(chosen), squeeze=False)
    for (top, *below), frame in zip(panels.T, chosen, strict=True):
        values = field_style(sample.target[frame])
        _draw(top, sample.target[frame], values, f"t = {times[frame]:g}")
        for axes, (group, frames) in zip(below, sample.predictions.items(), strict=True):
            _draw(axes, frames[frame], values, f"{sample.frame_error(group, frame):.3g}")
    names = ["truth", *(group.model for group in sample.predictions)]
    for axes, name in zip(panels[:, 0], names, strict=True):
        axes.set_ylabel(name)
    return drawn


LOWEST = figure(
    "lowest", 12, FLOW, "The test sample with the lowest mean error over the networks"
)(partial(plot_frames, choice="lowest"))
HIGHEST = figure(
    "highest", 13, FLOW, "The test sample with the highest mean error over the networks"
)(partial(plot_frames, choice="highest"))


@figure("heat-surfaces", 8, ["heat"], "Exact and predicted solution of the heat equation")
def plot_heat_surfaces(results: Results) -> Figure:
    """The first test sample; half of the times were not in training."""
    run = results.best("heat", "prediction")
    frames = require(run.times)
    times = np.asarray(require(frames if len(frames) > 1 else None))  # one frame is no surface
    target, prediction = run.picture("target")[0, :, 0], run.picture("prediction")[0, :, 0]
    error = float(np.linalg.norm(prediction - target) / np.linalg.norm(target))
    step = max(1, target.shape[-1] // MOST_POINTS)
    truth, predicted = target[:, ::step], prediction[:, ::step]
    x, t = np.meshgrid(np.arange(truth.shape[1]) / truth.shape[1], times)
    drawn = Figure(figsize=(8.4, 3.0))
    bounds = {"vmin": float(truth.min()), "vmax": float(truth.max())}
    lines = {"colors": "black", "linestyles": "dashed", "linewidths": 0.6}
    panels = (("exact", truth), (f"predicted, error {error:.3g}", predicted))
    for place, (title, values) in enumerate(panels, start=1):
        axes = drawn.add_subplot(1, 3, place, projection="3d")
        axes.plot_surface(x, t, values, cmap="viridis", rcount=40, ccount=64, **bounds)
        axes.contour(x, t, values, levels=8, **lines)
        axes.set(zlim=tuple(bounds.values()), title=title, xlabel="x", ylabel="t")
        axes.tick_params(labelsize=6, pad=0)
    axes = drawn.add_subplot(1, 3, 3)
    difference = predicted - truth
    image = axes.pcolormesh(x, t, difference, shading="nearest", **signed(difference))
    drawn.colorbar(image, ax=axes)
    axes.set(title="predicted − exact", xlabel="x", ylabel="t")
    return drawn


def _draw(axes: Any, field: Array, style: dict[str, Any], title: str = "") -> Any:
    """A field with x₁ to the right and x₂ upwards."""
    axes.set(xticks=[], yticks=[], title=title)
    axes.spines[:].set_visible(False)
    return axes.imshow(field.T, extent=(0, 1, 0, 1), **style)
