"""Learned symbols of two frequencies: Re a_ij(ξ) of PDNO and of FNO (figure 5).

A network symbol is smooth in ξ and a table need not be. The roughness of values on a grid of modes
is

    r = rms of the differences of neighbours / (√2 · standard deviation),

1 for independent values and near 0 for a smooth function.
"""

__all__ = ["centred", "plot_symbols", "roughness", "symbol_values"]

from typing import TYPE_CHECKING, Any

import numpy as np

from pdno.report.groups import Results, of_family
from pdno.report.runs import RunRecord
from pdno.report.style import figure_style, signed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray[Any, np.dtype[np.float64]]
PAIRS = ((0, 0), (0, 1))
"""Output and input channel of the drawn pairs."""


def symbol_values(run: RunRecord) -> list[Array]:
    """Re a2 of each block for a few channel pairs, (O, I, *modes), centred in ξ."""
    names = [name for name in run.picture_names if name.endswith(".real")]
    ordered = sorted(names, key=lambda name: int(name.split(".")[1]))
    found = [run.picture(name) for name in ordered]
    return [centred(values) for values in found if values is not None]


def centred(values: Array) -> Array:
    """From the order 0, 1, ..., -2, -1 of all frequency axes but the last to -k, ..., k - 1."""
    axes = tuple(range(2, values.ndim - 1))
    return np.roll(values, [values.shape[axis] // 2 for axis in axes], axes)


def roughness(values: Array) -> float:
    """The roughness of (O, I, *modes), averaged over the pairs; NaN where all are constant."""
    found = []
    for pair in values.reshape(-1, *values.shape[2:]):
        deviation = pair.std()
        if deviation > 0:
            steps = [np.diff(pair, axis=axis).ravel() for axis in range(pair.ndim)]
            rms = np.sqrt(np.mean(np.concatenate(steps) ** 2))
            found.append(float(rms / (np.sqrt(2) * deviation)))
    return float(np.mean(found)) if found else float("nan")


def plot_symbols(results: Results) -> "Figure | None":
    """Figure 5: Re a_ij(ξ) of some pairs in each block, PDNO above FNO."""
    from matplotlib.figure import Figure

    shown = results.shown("navier-stokes")
    groups = [of_family(shown, family) for family in ("PDNO a(x,ξ)", "FNO")]
    known = [(g, symbol_values(g.first)) for g in groups if g is not None]
    known = [(g, blocks) for g, blocks in known if blocks and blocks[0].ndim == 4]
    if not known:
        return None
    lines = [
        (group, blocks, pair)
        for group, blocks in known
        for pair in PAIRS
        if pair[0] < blocks[0].shape[0] and pair[1] < blocks[0].shape[1]
    ]
    columns = max(len(blocks) for _, blocks in known)
    with figure_style():
        figure = Figure(figsize=(max(1.6 * columns + 0.6, 4.0), 2.2 * len(lines)))
        panels = figure.subplots(len(lines), columns, squeeze=False)
        for row, (group, blocks, (j, i)) in zip(panels, lines, strict=True):
            for block, axes in enumerate(row):
                axes.set_visible(block < len(blocks))
                if block < len(blocks):
                    _draw(axes, blocks[block][j, i])
                    axes.set_title(f"block {block + 1}, {axes.get_title()}", fontsize=8)
            # the paper counts from 1 and names the input first
            row[0].set_ylabel(f"{group.model}\na_{i + 1}{j + 1}\nξ₁")
        for axes in panels[-1]:
            axes.set_xlabel("ξ₂")
        return figure


def _draw(axes: Any, values: Array) -> None:
    """ξ₁ upwards, ξ₂ to the right; each panel has its own range, printed above it."""
    style = signed(values)
    low = -(values.shape[0] // 2)
    extent = (-0.5, values.shape[1] - 0.5, low - 0.5, low + values.shape[0] - 0.5)
    axes.imshow(values, extent=extent, aspect="equal", **style)
    axes.set_title(f"±{style['vmax']:.2g}")
    axes.tick_params(labelsize=6)
