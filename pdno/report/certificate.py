"""The picture of a certificate: weighted differences of a symbol against |ξ|."""

__all__ = ["plot_certificate"]

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pdno.report.style import figure_style

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
        for total, values in sorted(curves.items()):
            shown = np.asarray(values, dtype=float)
            shown[~(shown > 0) | ~np.isfinite(shown)] = np.nan
            if np.isfinite(shown).any():
                axes.loglog(radii, shown, marker="o", markersize=3, label=f"|α| = {total}")
        shown_witness = [pair for pair in witness if 0 < pair[1] < np.inf]
        if shown_witness:
            axes.loglog(*zip(*shown_witness, strict=True), "k--", label="witness")
        axes.set_xlabel("|ξ|")
        axes.set_ylabel("largest |Δ^α a| ⟨ξ⟩^(|α| - m)")
        axes.set_title(title)
        axes.legend()
        return figure
