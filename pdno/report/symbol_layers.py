"""The picture of one layer's symbol: Re a2(ξ), and a1(x), of a few channel pairs."""

__all__ = ["plot_symbol_layer"]

from typing import TYPE_CHECKING, Any

from torch import Tensor

from pdno.report.style import figure_style, signed
from pdno.report.symbols import Array, centred

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_symbol_layer(frequency: Tensor, space: Tensor | None) -> "Figure":
    """One panel per channel pair.

    Shapes: frequency (O, I, *N^) real, in the order of the FFT; space (O, I, *N) or None.
    """
    from matplotlib.figure import Figure

    parts = [("Re a2", centred(frequency.detach().cpu().numpy()))]
    if space is not None:
        parts.append(("a1", space.detach().cpu().numpy()))
    outputs, inputs = frequency.shape[:2]
    columns = inputs * len(parts)
    with figure_style():
        figure = Figure(figsize=(1.7 * columns, 1.8 * outputs), layout="constrained")
        panels = figure.subplots(outputs, columns, squeeze=False)
        for part, (name, values) in enumerate(parts):
            for j in range(outputs):
                for i in range(inputs):
                    _draw(panels[j][part * inputs + i], values[j, i], f"{name}, i={i} j={j}")
    return figure


def _draw(axes: Any, values: Array, title: str) -> None:
    """A curve, or a map of the first two axes."""
    if values.ndim == 1:
        axes.plot(values)
    else:
        flat = values if values.ndim == 2 else values[..., 0]
        axes.imshow(flat.T, origin="lower", **signed(flat))
        axes.set_xticks([])
        axes.set_yticks([])
    axes.set_title(title, fontsize=7)
