"""Curves of plain numbers: training, the growth of a symbol, errors of rollouts."""

from collections.abc import Mapping, Sequence

import numpy as np

from pdno.figures.fields import Array
from pdno.figures.style import COLOURS, Axes, Figure, figure_style, logarithmic

Errors = Mapping[str, Sequence[tuple[float, float | None]]]
"""Pairs of epoch and error by split, "train" or "test"; None where it was not measured."""


def draw_training(axes: Axes, errors: Errors) -> None:
    """Training error dashed and test error solid, by epoch."""
    for split, pairs in errors.items():
        measured = [(epoch, e) for epoch, e in pairs if e is not None and np.isfinite(e)]
        if measured:
            epochs, values = zip(*measured, strict=True)
            line, marker = "--" if split == "train" else "-", "o" if len(measured) < 8 else ""
            axes.plot(epochs, values, line, label=split, marker=marker, markersize=3)
    axes.set_xlabel("epoch", labelpad=1, fontsize=8)
    axes.locator_params(axis="x", integer=True)
    axes.tick_params(labelsize=7)
    axes.legend(fontsize=7)
    logarithmic(axes, "y")


@figure_style()
def plot_history(errors: Errors) -> Figure:
    """Errors of both splits by epoch."""
    figure = Figure(figsize=(5.2, 3.2))
    axes = figure.subplots()
    draw_training(axes, errors)
    axes.set_ylabel("relative L2 error")
    return figure


@figure_style()
def plot_certificate(
    title: str,
    radii: Sequence[float],
    curves: Mapping[int, Sequence[float]],
    *,
    witness: Sequence[tuple[float, float]] = (),
) -> Figure:
    """The largest |Δ^α a| ⟨ξ⟩^{|α|-m} in each shell; in the class all curves stay bounded.

    Curves are by |α|, nan where rounding hides a value; the witness has pairs of |ξ| and the value
    on the ray that breaks the bound.
    """
    figure = Figure(figsize=(5.6, 3.4))
    axes = figure.subplots()
    draw_growth(axes, radii, curves)
    if shown := [pair for pair in witness if 0 < pair[1] < np.inf]:
        axes.loglog(*zip(*shown, strict=True), "k--", label="witness")
    axes.set(xlabel="|ξ|", ylabel="largest |Δ^α a| ⟨ξ⟩^(|α| - m)", title=title)
    axes.legend()
    return figure


def draw_growth(
    axes: Axes,
    radii: Sequence[float],
    curves: Mapping[int, Sequence[float]] | Mapping[str, Sequence[float | str]],
) -> None:
    """One line per |α|; what is not a positive finite number, also as text, is a gap."""
    for total, values in sorted(curves.items()):
        shown = np.array([float(value) for value in values])
        shown[~(shown > 0) | ~np.isfinite(shown)] = np.nan
        if np.isfinite(shown).any():
            axes.loglog(radii, shown, marker="o", markersize=3, label=f"|α| = {total}")


@figure_style()
def plot_guarantee(times: Sequence[float], bound: Array, error: Array, tolerance: float) -> Figure:
    """Relative errors of rollouts (B, T): the proven bound over the true error of each sample."""
    figure = Figure(figsize=(5.6, 3.4))
    axes = figure.subplots()
    for values, colour, label in ((bound, COLOURS[1], "proven"), (error, COLOURS[0], "made")):
        lines = axes.semilogy(times, values.T, color=colour, alpha=0.5)
        lines[0].set_label(label)
    axes.axhline(tolerance, color="k", linestyle="--", label=f"{tolerance:.0%}")
    axes.set(xlabel="t", ylabel="relative L2 error", title="Rollouts, guaranteed and true")
    axes.legend()
    return figure


@figure_style()
def plot_learned_symbol(
    xi: Array, learned: Array, bars: Array, reach: int, exact: Array | None = None
) -> Figure:
    """Real and imaginary parts of a symbol at ξ >= 0, with the bars of each, beyond `reach` grey.

    All arrays are complex, (M,); bars have those of the real part as theirs.
    """
    figure = Figure(figsize=(7.2, 2.8))
    for axes, part in zip(figure.subplots(1, 2), (np.real, np.imag), strict=True):
        if exact is not None:
            axes.plot(xi, part(exact), "k--", label="exact")
        axes.plot(xi, part(learned), color=COLOURS[0], marker="o", markersize=3, label="learned")
        low, high = part(learned) - part(bars), part(learned) + part(bars)
        axes.fill_between(xi, low, high, color=COLOURS[0], alpha=0.3, label="95 %")
        axes.axvspan(reach, max(float(xi[-1]), reach), color="0.9", label="not measured")
        axes.set(xlabel="ξ", title="Re A(ξ)" if part is np.real else "Im A(ξ)")
        axes.legend()
    return figure
