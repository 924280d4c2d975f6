"""Fields: test samples as the networks see them, with the relative error on top.

The sample is chosen by the mean of its error over all networks: the median one (figure 4), the one
with the lowest (figure 12) and the one with the highest mean error (figure 13).
"""

__all__ = [
    "Sample",
    "choose_sample",
    "plot_comparison",
    "plot_curves",
    "plot_frames",
    "plot_sample",
]

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure

from pdno.report.runs import Array, Group, Results
from pdno.report.style import figure_style, marker_of, signed

Choice = Literal["lowest", "median", "highest"]


@dataclass(frozen=True)
class Sample:
    """One test sample and the predictions of it.

    Shapes: fields (T, *N), one frame for a static problem.

    Arguments:
        index: Of the sample in the test set.
        error: Its relative error, averaged over the networks.
        given: The input, (C, *N).
        target: The truth.
        predictions: By network.
        times: Of the frames; None for a static problem.
    """

    index: int
    error: float
    given: Array
    target: Array
    predictions: dict[Group, Array]
    times: tuple[float, ...] | None

    def frame_error(self, group: Group, frame: int) -> float:
        """Relative L2 error of one frame."""
        truth = self.target[frame]
        error = np.linalg.norm(self.predictions[group][frame] - truth)
        return float(error / np.linalg.norm(truth))


def choose_sample(groups: Sequence[Group], choice: Choice) -> Sample | None:
    """The sample with the lowest, median or highest mean error over the networks.

    Only samples whose fields were kept can be shown. Networks with other test samples than the
    first one are left out.
    """
    known = [group for group in groups if "prediction" in group.first.picture_names]
    if not known:
        return None
    run = known[0].first
    target, times = run.picture("target"), run.times
    known = [group for group in known if np.array_equal(group.first.picture("target"), target)]
    errors = np.mean([g.first.picture("error")[: len(target)] for g in known], axis=0)
    order = np.argsort(errors, kind="stable")
    index = int(order[{"lowest": 0, "median": len(order) // 2, "highest": -1}[choice]])

    def frames(field: Array) -> Array:
        """The first channel, frame by frame: (T, C, *N) or (C, *N) -> (T, *N)."""
        return field[None, 0] if times is None else field[:, 0]

    return Sample(
        index,
        float(errors[index]),
        run.picture("input")[index],
        frames(target[index]),
        {group: frames(group.first.picture("prediction")[index]) for group in known},
        times,
    )


@figure_style()
def plot_comparison(results: Results, study: str) -> Figure | None:
    """Figure 4: the last frame of the median sample, truth and networks, errors below."""
    sample = choose_sample(results.shown(study), "median")
    if sample is None or sample.target.ndim != 3:
        return None
    truth = sample.target[-1]
    values = _map_of(truth)
    differences = signed(*(frames[-1] - truth for frames in sample.predictions.values()))
    count = 1 + len(sample.predictions)
    figure = Figure(figsize=(max(1.75 * count, 4.0), 3.9))
    panels = figure.subplots(2, count, squeeze=False)
    _draw(panels[0, 0], truth, values)
    panels[0, 0].set_title(
        "truth" + ("" if sample.times is None else f", t = {sample.times[-1]:g}")
    )
    panels[1, 0].set_visible(False)
    for column, (group, frames) in enumerate(sample.predictions.items(), start=1):
        top = _draw(panels[0, column], frames[-1], values)
        below = _draw(panels[1, column], frames[-1] - truth, differences)
        panels[0, column].set_title(f"{group.model}\n{sample.frame_error(group, -1):.3g}")
    panels[1, 1].set_ylabel("predicted − truth")
    figure.colorbar(top, ax=panels[0, :].tolist(), shrink=0.8)
    figure.colorbar(below, ax=panels[1, :].tolist(), shrink=0.8)
    return figure


@figure_style()
def plot_frames(results: Results, choice: Choice) -> Figure | None:
    """Figures 12 and 13: some frames of a sample, truth and networks, errors on top."""
    sample = choose_sample(results.shown("navier-stokes"), choice)
    if sample is None or sample.times is None or sample.target.ndim != 3:
        return None
    chosen = _some(len(sample.times), 4)
    rows = 1 + len(sample.predictions)
    figure = Figure(figsize=(1.75 * len(chosen) + 0.4, 1.75 * rows + 0.3))
    panels = figure.subplots(rows, len(chosen), squeeze=False)
    for column, frame in enumerate(chosen):
        truth = sample.target[frame]
        _draw(panels[0, column], truth, _map_of(truth))
        panels[0, column].set_title(f"t = {sample.times[frame]:g}")
        for row, (group, frames) in enumerate(sample.predictions.items(), start=1):
            _draw(panels[row, column], frames[frame], _map_of(truth))
            panels[row, column].set_title(f"{sample.frame_error(group, frame):.3g}")
    for row, name in enumerate(["truth", *(group.model for group in sample.predictions)]):
        panels[row, 0].set_ylabel(name)
    return figure


@figure_style()
def plot_curves(results: Results, study: str = "burgers") -> Figure | None:
    """The median sample of a problem in one dimension: truth, networks and their errors."""
    sample = choose_sample(results.shown(study), "median")
    if sample is None or sample.target.ndim != 2:
        return None
    truth = sample.target[-1]
    x = np.arange(truth.size) / truth.size
    figure = Figure(figsize=(6.4, 4.6))
    top, below = figure.subplots(2, 1, sharex=True)
    top.plot(x, sample.given[0], color="0.7", label="input")
    top.plot(x, truth, color="black", linewidth=2, label="truth")
    for group, frames in sample.predictions.items():
        style = {"color": marker_of(group.facts)["color"], "linewidth": 1}
        top.plot(x, frames[-1], "--", **style)
        label = f"{group.model}, {sample.frame_error(group, -1):.3g}"
        below.plot(x, frames[-1] - truth, label=label, **style)
    below.set_xlabel("x")
    below.set_ylabel("predicted − truth")
    for axes in (top, below):
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _map_of(truth: Array) -> dict[str, Any]:
    """Diverging for a field with both signs, sequential for others."""
    if truth.min() < 0 < truth.max():
        return signed(truth)
    return {"cmap": "viridis", "vmin": float(truth.min()), "vmax": float(truth.max())}


def _draw(axes: Any, field: Array, style: dict[str, Any]) -> Any:
    """A field with x₁ to the right and x₂ upwards."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    return axes.imshow(field.T, extent=(0, 1, 0, 1), **style)


def _some(count: int, most: int) -> list[int]:
    """At most so many indices, evenly spread, with the first and the last."""
    return sorted(set(np.linspace(0, count - 1, min(count, most)).round().astype(int).tolist()))


@figure_style()
def plot_sample(
    title: str,
    given: Array,
    solution: Array,
    *,
    names: tuple[str, str],
    times: Sequence[float] | None = None,
) -> Figure:
    """The input of one sample of a problem beside its solution.

    Arguments:
        title: Of the figure.
        given: Input, (*N).
        solution: (T, *N), or (*N) for a static problem.
        names: Of the input and of the solution.
        times: Of the frames.
    """
    frames = solution[None] if times is None else solution
    labels = {
        frame: names[1] if times is None else f"{names[1]}, t = {times[frame]:g}"
        for frame in _some(len(frames), 4 if given.ndim == 1 else 3)
    }
    if given.ndim == 1:
        figure = Figure(figsize=(6.4, 3.2))
        axes = figure.subplots()
        x = np.arange(given.size) / given.size
        axes.plot(x, given, color="0.6", label=f"{names[0]}, t = 0")
        for frame, label in labels.items():
            axes.plot(x, frames[frame], label=label)
        axes.set_xlabel("x")
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    else:
        figure = Figure(figsize=(2.6 * (1 + len(labels)), 2.7))
        pictures = [(names[0], given), *((label, frames[k]) for k, label in labels.items())]
        for axes, (name, values) in zip(figure.subplots(1, len(pictures)), pictures, strict=True):
            # the first array axis is x₁ and runs to the right
            image = axes.imshow(values.T, extent=(0, 1, 0, 1))
            axes.set_title(name)
            axes.set_xticks([0, 1])
            axes.set_yticks([0, 1])
            figure.colorbar(image, ax=axes, shrink=0.8)
    figure.suptitle(title)
    return figure
