"""Pictures of samples: what goes into a problem and what comes out."""

__all__ = ["plot_sample"]

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pdno.report.style import figure_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_sample(
    title: str,
    given: np.ndarray,
    solution: np.ndarray,
    *,
    names: tuple[str, str],
    times: Sequence[float] | None = None,
) -> "Figure":
    """The input of one sample beside its solution.

    Arguments:
        title: Of the figure.
        given: Input, (*N).
        solution: (T, *N), or (*N) for a static problem.
        names: Of the input and of the solution.
        times: Of the frames.
    """
    with figure_style():
        draw = _plot_curves if given.ndim == 1 else _plot_maps
        frames = solution[None] if times is None else solution
        figure = draw(given, frames, names, times)
        figure.suptitle(title)
        return figure


def _chosen(count: int, most: int) -> list[int]:
    return sorted(set(np.linspace(0, count - 1, min(count, most)).round().astype(int).tolist()))


def _plot_curves(
    given: np.ndarray, frames: np.ndarray, names: tuple[str, str], times: Sequence[float] | None
) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.2))
    axes = figure.subplots()
    x = np.arange(given.size) / given.size
    axes.plot(x, given, color="0.6", label=f"{names[0]}, t = 0")
    for frame in _chosen(len(frames), 4):
        label = names[1] if times is None else f"{names[1]}, t = {times[frame]:g}"
        axes.plot(x, frames[frame], label=label)
    axes.set_xlabel("x")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _plot_maps(
    given: np.ndarray, frames: np.ndarray, names: tuple[str, str], times: Sequence[float] | None
) -> "Figure":
    from matplotlib.figure import Figure

    chosen = _chosen(len(frames), 3)
    figure = Figure(figsize=(2.6 * (1 + len(chosen)), 2.7))
    panels = figure.subplots(1, 1 + len(chosen))
    pictures = [(names[0], given)] + [
        (names[1] if times is None else f"{names[1]}, t = {times[frame]:g}", frames[frame])
        for frame in chosen
    ]
    for axes, (name, values) in zip(panels, pictures, strict=True):
        # the first array axis is x₁ and runs to the right
        image = axes.imshow(values.T, extent=(0, 1, 0, 1))
        axes.set_title(name)
        axes.set_xticks([0, 1])
        axes.set_yticks([0, 1])
        figure.colorbar(image, ax=axes, shrink=0.8)
    return figure
