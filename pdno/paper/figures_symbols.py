"""Symbols: as learned (figures 3, 5 and 7), of one layer, their certificates, diagrams (2 and 6).

figure 2   K_a[f](x) = a1(x) F⁻¹[ a2(ξ) F[f](ξ) ](x): one operator, one channel
figure 6   a block v ↦ σ(W v + K_a v), K_a(v)_j = Σ_i a1_ij F⁻¹[ a2_ij F[v_i] ]
heat       the exact symbol is e^{-4π²cξ²t}, the learned one (mean over x of a1(x, t)) Re a2
"""

__all__ = ["roughness", "symbol_values"]

import itertools
from typing import Any

import matplotlib
import numpy as np

from pdno.figures.curves import draw_growth
from pdno.figures.fields import centred, draw_field, lowest_modes, plot_phase_space, signed
from pdno.figures.style import COLOURS, Figure, spread
from pdno.paper.exhibits import figure
from pdno.paper.published import PDNO
from pdno.paper.tables import SYMBOL_COMMAND
from pdno.report.runs import Array, Group, Results, RunRecord, of_network, require

EXCITED = 0.1  # weight from which on a mode counts as excited, see pdno.evaluation
DRAWN_CHANNELS = ((0, 0), (0, 1))
"""Output and input channel of the drawn pairs."""


def symbol_values(run: RunRecord) -> list[Array]:
    """Re a2 of each block for a few channel pairs, (O, I, *modes), centred in ξ."""
    names = [name for name in run.picture_names if name.endswith(".real")]
    return [centred(run.picture(n)) for n in sorted(names, key=lambda n: int(n.split(".")[1]))]


def roughness(values: Array) -> float:
    """The roughness of (O, I, *modes), averaged over the pairs; NaN where all are constant.

    rms of the differences of neighbours / (√2 · standard deviation) is 1 for independent values
    and near 0 for a smooth function: a network symbol is smooth in ξ and a table need not be.
    """
    found = []
    for pair in values.reshape(-1, *values.shape[2:]):
        steps = [np.diff(pair, axis=axis).ravel() for axis in range(pair.ndim)]
        if pair.std() > 0:
            rms = np.sqrt(np.mean(np.concatenate(steps) ** 2))
            found.append(rms / (np.sqrt(2) * pair.std()))
    return float(np.mean(found)) if found else float("nan")


@figure("heat-symbol", 3, ["heat"], "Learned and exact symbol of the heat equation")
def plot_heat_symbol(results: Results) -> Figure:
    """The first two share their colours. Of a mode that the data do not excite nothing is
    learned."""
    run = results.best("heat", "heat.learned")
    names = ("learned", "exact", "weight", "xi", "times")
    learned, exact, weight, xi, times = (run.picture(f"heat.{name}") for name in names)
    drawn = Figure(figsize=(6.2, 6.6))
    rows = drawn.subplots(3, 1, sharex=True)
    limits = {"vmin": min(0.0, float(learned.min())), "vmax": max(1.0, float(learned.max()))}
    inside = "learned − exact; inside the line the data excite the mode"
    pictures = (
        ("learned Re a1 a2, a1 averaged over x", learned, limits),
        ("exact e^(−4π²cξ²t)", exact, limits),
        (inside, learned - exact, signed(learned - exact)),
    )
    for axes, (title, values, style) in zip(rows, pictures, strict=True):
        image = axes.pcolormesh(xi, times, values, shading="nearest", **style)
        drawn.colorbar(image, ax=axes)
        axes.set(title=title, ylabel="t")
    if weight.min() < EXCITED <= weight.max():
        rows[-1].contour(xi, times, weight, levels=[EXCITED], colors="black", linewidths=1)
    rows[-1].set_xlabel("ξ")
    return drawn


@figure("heat-space", 7, ["heat"], "Dependence of the learned heat symbol on x")
def plot_heat_space(results: Results) -> Figure:
    """The exact symbol does not depend on x: every curve should be 1."""
    run = results.best("heat", "heat.space")
    space, times = run.picture("heat.space"), run.picture("heat.times")
    drawn = Figure(figsize=(7.2, 3.0))
    left, right = drawn.subplots(1, 2, width_ratios=(3, 2))
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.9, len(times)))
    for t in spread(len(times), 5):
        x = np.arange(space.shape[1]) / space.shape[1]
        left.plot(x, space[t], color=colours[t], label=f"t = {times[t]:g}")
    left.axhline(1.0, color="0.7", linewidth=0.8, zorder=0)
    left.set(xlabel="x", ylabel="a1(x, t) / its mean over x")
    left.legend()
    right.plot(times, space.std(axis=1), marker="o", markersize=3)
    right.set(xlabel="t", ylabel="standard deviation over x")
    return drawn


@figure("symbols", 5, ["navier-stokes"], "Learned symbols Re a_ij(ξ) of PDNO and FNO")
def plot_symbols(results: Results) -> Figure:
    """Each panel has its own symmetric range. Only kept modes are shown."""
    shown = results.shown("navier-stokes")
    found = [(g, symbol_values(g)) for name in (PDNO, "FNO") if (g := of_network(shown, name))]
    lines = [
        (f"{group.model}\na_{i + 1}{j + 1}\nξ₂", [values[j, i] for values in blocks])
        for group, blocks in found
        for j, i in DRAWN_CHANNELS
        # the paper counts from 1 and names the input first
        if blocks and blocks[0].ndim == 4 and j < blocks[0].shape[0] and i < blocks[0].shape[1]
    ]
    columns = max(len(blocks) for _, blocks in require(lines))
    drawn = Figure(figsize=(max(2.1 * columns + 0.4, 4.0), 2.0 * len(lines)))
    panels = drawn.subplots(len(lines), columns, squeeze=False)
    for row, (label, blocks) in zip(panels, lines, strict=True):
        for block, (axes, values) in enumerate(itertools.zip_longest(row, blocks), start=1):
            axes.set_visible(values is not None)
            if values is not None:
                low = lowest_modes(values[None, None])
                draw_field(axes, f"block {block}", values, signed(values), low)
        row[0].set_ylabel(label)
    return drawn


@figure("phase-space", 0, [SYMBOL_COMMAND], "Learned and true operator in phase space")
def plot_phase_spaces(results: Results) -> Figure:
    """What the derivative of an operator at a test input makes of waves of frequency ξ near x, for
    the runs that `pdno symbol RUN` has looked into. Along the first axis, through the middle."""
    found = {
        f"{run.metadata.study}: {run.model}": inside["phase_space"]
        for run in results.records
        if (inside := run.inside).get("phase_space")
    }
    return plot_phase_space(require(found))


@figure("certificates", 0, [SYMBOL_COMMAND], "Certificates of the symbol class")
def plot_certificates(results: Results) -> Figure:
    """Largest |Δ^α a| ⟨ξ⟩^(|α| − m) of the first block against |ξ|: bounded curves are those of
    S^m. For the runs that `pdno symbol RUN` has looked into."""
    known = [(run, run.inside) for run in results.records]
    found = require([(run, inside) for run, inside in known if inside.get("layers")])
    columns = min(3, len(found))
    rows = -(-len(found) // columns)
    drawn = Figure(figsize=(3.0 * columns, 2.6 * rows))
    panels = drawn.subplots(rows, columns, squeeze=False).ravel()
    for axes, (record, values) in zip(panels, found, strict=False):
        layer = values["layers"][0]
        draw_growth(axes, layer["radii"], layer["curves"])
        verdict = f"{'in' if layer['accepted'] else 'not in'} S^{float(values['order']):g}"
        axes.set_title(f"{record.metadata.study}: {record.model}\n{verdict}", fontsize=8)
        axes.set_xlabel("|ξ|")
        axes.legend(fontsize=6)
    for axes in panels[len(found) :]:
        axes.set_visible(False)
    return drawn


# Diagrams, drawn from the specification of a run

BLUE, ORANGE, GREEN = COLOURS[:3]
DRAWN_INPUTS, DRAWN_OUTPUTS = 3, 2  # as in the paper
AXES = {"navier-stokes": 2, "darcy": 2, "burgers": 1, "heat": 1}
"""Dimension by study; a run of the first one that there is is drawn."""


def _specified(results: Results, *kinds: str) -> Group:
    """The first run of a PDNO (or lone operator), of the problems in order."""
    groups = [group for study in AXES for group in results.shown(study)]
    known = [g for g in groups if g.network.get("kind") in kinds and g.network["depends_on_x"]]
    # the paper's way of training first; the networks are the same
    return min(require(known), key=lambda group: not group.metadata.of_paper)


@figure("operator", 2, [*AXES], "The operator")
def plot_operator(results: Results) -> Figure:
    """Drawn from the specification of a run, with the sizes of its symbol networks."""
    group = _specified(results, "pdno", "pdio")
    network = group.network
    hidden = [network["symbol_hidden"]] * (int(network["symbol_layers"]) + 1)
    dim = AXES[group.metadata.study] + bool(network.get("takes_time"))
    chain = " → ".join(map(str, [dim, *hidden, int(network.get("width", 1)) ** 2]))
    drawn, axes = _canvas((7.2, 2.9), 4.4, f"{group.metadata.study}: {group.model}")
    signs = ("f(x)", "F", "×", "F⁻¹", "×", "K f(x)")
    stations = dict(zip((0.8, 3.0, 5.4, 7.6, 9.6, 11.5), signs, strict=True))
    for x, text in stations.items():
        _box(axes, x, 1.0, text, ORANGE if text in ("F", "F⁻¹") else "black")
    for x, following in itertools.pairwise(stations):
        _arrow(axes, (x + 0.42, 1.0), (following - 0.42, 1.0))
    for x, title, parts in ((5.4, "a2(ξ)", ", Re and Im"), (9.6, "a1(x)", "")):
        _box(axes, x, 3.0, f"{title}\n{chain}\n{network['activation']}{parts}", BLUE)
        _arrow(axes, (x, 2.25), (x, 1.4))
    kept = "all modes" if network.get("modes") is None else f"k_max = {network['modes']}"
    axes.text(3.0, 0.1, kept, ha="center", va="center", fontsize=8)
    return drawn


@figure("block", 6, ["navier-stokes", "darcy", "burgers"], "A block with several channels")
def plot_block(results: Results) -> Figure:
    """Drawn from the specification of a run."""
    group = _specified(results, "pdno")
    width = int(group.network["width"])
    inputs, outputs = min(width, DRAWN_INPUTS), min(width, DRAWN_OUTPUTS)
    top = 2.0 * max(inputs, outputs) - 0.6
    what = f"{group.network['layers']} blocks of {width} channels"
    drawn, axes = _canvas((7.2, 4.4), top + 1.4, f"{group.metadata.study}: {group.model}: {what}")
    ends = [top - (top / outputs) * (j + 0.25) for j in range(outputs)]
    for i in range(inputs):
        y = top - 2.0 * i
        _box(axes, 0.9, y, f"v_{i + 1}", "black")
        _box(axes, 2.8, y, "F", ORANGE)
        _arrow(axes, (1.5, y), (2.3, y))
        for j, end in enumerate(ends):
            _arrow(axes, (3.3, y), (9.0, end))
            share = 0.2 + 0.42 * j
            at = (3.3 + share * (9.0 - 3.3), y + share * (end - y))
            _box(axes, *at, f"a2_{i + 1}{j + 1}, F⁻¹, a1_{i + 1}{j + 1}", BLUE, small=True)
            _arrow(axes, (1.2, y - 0.35), (8.9, end - 0.3), dashed=True)
    for j, y in enumerate(ends):
        _box(axes, 9.5, y, "Σ, σ", GREEN)
        _box(axes, 11.3, y, f"v_{j + 1}", "black")
        _arrow(axes, (10.1, y), (10.7, y))
    words = f"{inputs} of {width} inputs and {outputs} of {width} outputs drawn; dashed: W"
    axes.text(6.0, -0.75, words, ha="center", va="center", fontsize=8)
    return drawn


def _canvas(size: tuple[float, float], height: float, title: str) -> tuple[Figure, Any]:
    drawn = Figure(figsize=size)
    axes = drawn.subplots()
    axes.set(xlim=(0, 12.2), ylim=(-1.1, height), title=title)
    axes.set_axis_off()
    return drawn, axes


def _box(axes: Any, x: float, y: float, text: str, colour: str, *, small: bool = False) -> None:
    pad, width, fontsize, zorder = (0.2, 0.7, 7, 2) if small else (0.4, 1.0, 9, 3)
    style = {"boxstyle": f"round,pad={pad}", "facecolor": "white", "edgecolor": colour}
    where = {"ha": "center", "va": "center", "zorder": zorder}
    axes.text(x, y, text, fontsize=fontsize, bbox={**style, "linewidth": width}, **where)


def _arrow(
    axes: Any, start: tuple[float, float], end: tuple[float, float], *, dashed: bool = False
) -> None:
    colour, line = ("0.6", "--") if dashed else ("black", "-")
    style = {"arrowstyle": "->", "color": colour, "linestyle": line, "linewidth": 0.8}
    axes.annotate("", xy=end, xytext=start, arrowprops=style, zorder=1)
