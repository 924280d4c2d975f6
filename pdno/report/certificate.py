"""The picture of a certificate: weighted differences of a symbol against |ξ|."""

__all__ = ["plot_certificate", "plot_certificates"]

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdno.report.groups import Results
from pdno.report.style import figure_style
from pdno.run_folder import SYMBOL, SYMBOL_FOLDER

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Figure


def plot_certificate(
    title: str,
    radii: Sequence[float],
    curves: Mapping[int, Sequence[float]],
    *,
    witness: Sequence[tuple[float, float]] = (),
) -> "Figure":
    """The largest |Δ^α a| ⟨ξ⟩^{|α|-m} in each shell; in the class all curves stay bounded.

    Arguments:
        title: Of the figure.
        radii: |ξ| of the shells.
        curves: Values by |α|, nan where rounding hides them.
        witness: Pairs of |ξ| and the value on the ray that breaks the bound.
    """
    from matplotlib.figure import Figure

    with figure_style():
        figure = Figure(figsize=(5.6, 3.4))
        axes = figure.subplots()
        _draw_curves(axes, radii, curves)
        shown_witness = [pair for pair in witness if 0 < pair[1] < np.inf]
        if shown_witness:
            axes.loglog(*zip(*shown_witness, strict=True), "k--", label="witness")
        axes.set_xlabel("|ξ|")
        axes.set_ylabel("largest |Δ^α a| ⟨ξ⟩^(|α| - m)")
        axes.set_title(title)
        axes.legend()
        return figure


def plot_certificates(results: Results) -> "Figure | None":
    """The certificate of the first block of every run that `pdno symbol` has looked into."""
    from matplotlib.figure import Figure

    found = [
        (f"{record.study}: {record.model}", layers[0], order)
        for record in results.records
        for layers, order in [_read(record.folder / SYMBOL_FOLDER / SYMBOL)]
        if layers
    ]
    if not found:
        return None
    columns = min(3, len(found))
    rows = -(-len(found) // columns)
    with figure_style():
        figure = Figure(figsize=(3.0 * columns, 2.6 * rows), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, (name, layer, order) in zip(panels, found, strict=False):
            _draw_curves(axes, layer["radii"], layer["curves"])
            verdict = "in" if layer["accepted"] else "not in"
            axes.set_title(f"{name}\n{verdict} S^{order:g}", fontsize=8)
            axes.set_xlabel("|ξ|")
            axes.legend(fontsize=6)
        for axes in panels[len(found) :]:
            axes.set_visible(False)
        return figure


def _draw_curves(
    axes: Any, radii: Sequence[float], curves: Mapping[Any, Sequence[float | str]]
) -> None:
    """One line per |α|; what is not a positive finite number, also as text, is a gap."""
    for total, values in sorted(curves.items()):
        shown = np.array([float(value) for value in values])
        shown[~(shown > 0) | ~np.isfinite(shown)] = np.nan
        if np.isfinite(shown).any():
            axes.loglog(radii, shown, marker="o", markersize=3, label=f"|α| = {total}")


def _read(path: Path) -> tuple[list[dict[str, Any]], float]:
    """The layers and the order of a symbol.json; none where there is no such file."""
    if not path.is_file():
        return [], 0.0
    values = json.loads(path.read_text(encoding="utf-8"))
    return values["layers"], float(values["order"])
