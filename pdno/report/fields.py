"""Fields: test samples as the networks see them, with the relative error on top.

The sample is chosen by the mean of its error over all networks: the median one (figure 4), the one
with the lowest (figure 12) and the one with the highest mean error (figure 13).
"""

__all__ = ["Sample", "choose_sample", "plot_comparison", "plot_curves", "plot_frames"]

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pdno.report.groups import Group, Results
from pdno.report.style import colour_of, figure_style, signed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Choice = Literal["lowest", "median", "highest"]
Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Sample:
    """One test sample and what each network says of it.

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
    predictions: dict[str, Array]
    times: tuple[float, ...] | None

    def frame_error(self, model: str, frame: int) -> float:
        """Relative L2 error of one frame."""
        truth = self.target[frame]
        return float(
            np.linalg.norm(self.predictions[model][frame] - truth) / np.linalg.norm(truth)
        )


def choose_sample(groups: Sequence[Group], choice: Choice) -> Sample | None:
    """The sample with the lowest, median or highest mean error over the networks.

    Only samples whose fields were kept can be shown. Networks with other test samples than the
    first one are left out.
    """
    runs = [group.first for group in groups if "prediction" in group.first.picture_names]
    if not runs:
        return None
    target = _picture(runs[0], "target")
    runs = [run for run in runs if _same(_picture(run, "target"), target)]
    errors = np.mean([_picture(run, "error")[: len(target)] for run in runs], axis=0)
    order = np.argsort(errors, kind="stable")
    index = int(order[{"lowest": 0, "median": len(order) // 2, "highest": -1}[choice]])
    times = runs[0].times
    return Sample(
        index,
        float(errors[index]),
        _picture(runs[0], "input")[index],
        _frames(target[index], times),
        {run.model: _frames(_picture(run, "prediction")[index], times) for run in runs},
        times,
    )


def plot_comparison(results: Results, study: str) -> "Figure | None":
    """Figure 4: the last frame of the median sample, truth and networks, errors below."""
    sample = choose_sample(results.shown(study), "median")
    if sample is None or sample.target.ndim != 3:
        return None
    from matplotlib.figure import Figure

    truth = sample.target[-1]
    said = {model: frames[-1] for model, frames in sample.predictions.items()}
    values = _map_of(truth, *said.values())
    differences = signed(*(field - truth for field in said.values()))
    with figure_style():
        count = 1 + len(said)
        figure = Figure(figsize=(max(1.75 * count, 4.0), 3.9))
        panels = figure.subplots(2, count, squeeze=False)
        _draw(panels[0, 0], truth, values)
        panels[0, 0].set_title("truth" + _at(sample, -1))
        panels[1, 0].set_visible(False)
        for column, (model, field) in enumerate(said.items(), start=1):
            top = _draw(panels[0, column], field, values)
            below = _draw(panels[1, column], field - truth, differences)
            panels[0, column].set_title(f"{model}\n{sample.frame_error(model, -1):.3g}")
        panels[1, 1].set_ylabel("predicted − truth")
        figure.colorbar(top, ax=panels[0, :].tolist(), shrink=0.8)
        figure.colorbar(below, ax=panels[1, :].tolist(), shrink=0.8)
        return figure


def plot_frames(results: Results, choice: Choice) -> "Figure | None":
    """Figures 12 and 13: some frames of a sample, truth and networks, errors on top."""
    sample = choose_sample(results.shown("navier-stokes"), choice)
    if sample is None or sample.times is None or sample.target.ndim != 3:
        return None
    from matplotlib.figure import Figure

    count = len(sample.times)
    chosen = sorted(set(np.linspace(0, count - 1, min(count, 4)).round().astype(int).tolist()))
    with figure_style():
        rows = 1 + len(sample.predictions)
        figure = Figure(figsize=(1.75 * len(chosen) + 0.4, 1.75 * rows + 0.3))
        panels = figure.subplots(rows, len(chosen), squeeze=False)
        for column, frame in enumerate(chosen):
            truth = sample.target[frame]
            values = _map_of(truth)
            _draw(panels[0, column], truth, values)
            panels[0, column].set_title(f"t = {sample.times[frame]:g}")
            for row, (model, frames) in enumerate(sample.predictions.items(), start=1):
                _draw(panels[row, column], frames[frame], values)
                panels[row, column].set_title(f"{sample.frame_error(model, frame):.3g}")
        for row, name in enumerate(["truth", *sample.predictions]):
            panels[row, 0].set_ylabel(name)
        return figure


def plot_curves(results: Results, study: str = "burgers") -> "Figure | None":
    """The median sample of a problem in one dimension: truth, networks and their errors."""
    sample = choose_sample(results.shown(study), "median")
    if sample is None or sample.target.ndim != 2:
        return None
    from matplotlib.figure import Figure

    truth = sample.target[-1]
    x = np.arange(truth.size) / truth.size
    with figure_style():
        figure = Figure(figsize=(6.4, 4.6))
        top, below = figure.subplots(2, 1, sharex=True)
        top.plot(x, sample.given[0], color="0.7", label="input")
        top.plot(x, truth, color="black", linewidth=2, label="truth")
        for model, frames in sample.predictions.items():
            error = sample.frame_error(model, -1)
            top.plot(x, frames[-1], "--", color=colour_of(model), linewidth=1)
            label = f"{model}, {error:.3g}"
            below.plot(x, frames[-1] - truth, color=colour_of(model), linewidth=1, label=label)
        below.set_xlabel("x")
        below.set_ylabel("predicted − truth")
        for axes in (top, below):
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return figure


def _picture(run: Any, name: str) -> Array:
    found = run.picture(name)
    if found is None:
        raise ValueError(f"{run.folder} has no picture {name}: run it again")
    return np.asarray(found)


def _same(a: Array, b: Array) -> bool:
    return a.shape == b.shape and bool(np.array_equal(a, b))


def _frames(field: Array, times: tuple[float, ...] | None) -> Array:
    """The first channel, frame by frame: (T, C, *N) or (C, *N) -> (T, *N)."""
    return field[None, 0] if times is None else field[:, 0]


def _at(sample: Sample, frame: int) -> str:
    return "" if sample.times is None else f", t = {sample.times[frame]:g}"


def _map_of(*fields: Array) -> dict[str, Any]:
    """Diverging for fields with both signs, sequential for others; the range is the truth's."""
    truth = fields[0]
    if truth.min() < 0 < truth.max():
        return signed(truth)
    return {"cmap": "viridis", "vmin": float(truth.min()), "vmax": float(truth.max())}


def _draw(axes: Any, field: Array, style: dict[str, Any]) -> Any:
    """A field with x₁ to the right and x₂ upwards."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    return axes.imshow(field.T, extent=(0, 1, 0, 1), **style)
