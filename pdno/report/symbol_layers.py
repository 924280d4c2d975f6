"""The picture of one layer's symbol: Re a2(ξ), and a1(x), of a few channel pairs."""

__all__ = ["plot_symbol_layer"]

from typing import TYPE_CHECKING

from torch import Tensor

from pdno.report.style import figure_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_symbol_layer(frequency: Tensor, space: Tensor | None) -> "Figure":
    """One panel per channel pair.

    Shapes: frequency (O, I, *N^) real, in the order of the FFT; space (O, I, *N) or None.
    """
    from matplotlib.figure import Figure

    parts = [("Re a2", _centred(frequency))]
    if space is not None:
        parts.append(("a1", space))
    rows, columns = frequency.shape[0], frequency.shape[1] * len(parts)
    with figure_style():
        figure = Figure(figsize=(1.7 * columns, 1.8 * rows), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False)
        for part, (name, values) in enumerate(parts):
            for j in range(rows):
                for i in range(frequency.shape[1]):
                    axes = panels[j][part * frequency.shape[1] + i]
                    _draw(axes, values[j, i].detach().cpu(), f"{name}, i={i} j={j}")
    return figure


def _draw(axes: object, values: Tensor, title: str) -> None:
    from matplotlib.axes import Axes

    assert isinstance(axes, Axes)
    if values.dim() == 1:
        axes.plot(values.numpy())
    else:
        largest = float(values.abs().max()) or 1.0
        flat = values if values.dim() == 2 else values[..., 0]
        axes.imshow(flat.T.numpy(), cmap="RdBu_r", vmin=-largest, vmax=largest, origin="lower")
        axes.set_xticks([])
        axes.set_yticks([])
    axes.set_title(title, fontsize=7)


def _centred(values: Tensor) -> Tensor:
    """Frequencies in order: negative ones first on all axes but the half one."""
    for axis in range(2, values.dim() - 1):
        values = values.roll(values.shape[axis] // 2, dims=axis)
    return values
