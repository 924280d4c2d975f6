"""Symbols as learned (figure 5), their certificates, and diagrams of the operator (2 and 6).

figure 2   K_a[f](x) = a1(x) F⁻¹[ a2(ξ) F[f](ξ) ](x): one operator, one channel
figure 6   a block v ↦ σ(W v + K_a v), K_a(v)_j = Σ_i a1_ij F⁻¹[ a2_ij F[v_i] ]
"""

import itertools
from typing import Any

from pdno.figures.curves import draw_growth
from pdno.figures.fields import Panel, draw_panels, lowest_modes, plot_phase_space, signed
from pdno.figures.style import COLOURS, Axes, Figure, grid_of_panels
from pdno.paper.published import PDNO
from pdno.paper.results import Results, exhibit, of_network, require
from pdno.report.page import symbol_values
from pdno.runs.run import Run

DRAWN_CHANNELS = ((0, 0), (0, 1))
"""Output and input channel of the drawn pairs."""


@exhibit("figure-05-symbols")
def plot_symbols(results: Results) -> Figure:
    """Learned symbols Re a_ij(ξ) of PDNO and FNO."""
    networks = [of_network(results.shown("navier-stokes"), name) for name in (PDNO, "FNO")]
    runs = [run for network in networks if network and (run := results.run(network))]
    lines = [
        # the paper counts from 1 and names the input first
        (f"{run.model}\na_{i + 1}{j + 1}\nξ₂", [values[j, i] for values in blocks])
        for run in runs
        for j, i in DRAWN_CHANNELS
        if (blocks := symbol_values(run))
        and blocks[0].ndim == 4
        and j < blocks[0].shape[0]
        and i < blocks[0].shape[1]
    ]
    columns = max(len(blocks) for _, blocks in require(lines))
    figure = Figure(figsize=(max(2.1 * columns + 0.4, 4.0), 2.0 * len(lines)))
    rows = figure.subplots(len(lines), columns, squeeze=False)
    panels = [
        [
            Panel(f"block {k}", values, signed(values), lowest_modes(values[None, None]))
            for k, values in enumerate(blocks, start=1)
        ]
        for _, blocks in lines
    ]
    draw_panels(rows, panels)
    for row, (label, _) in zip(rows, lines, strict=True):
        row[0].set_ylabel(label)
    return figure


def _inspected(results: Results, part: str) -> list[Run]:
    """Runs that `pdno symbol` has looked into, with this part of the report."""
    runs = (results.run(network) for network in results.every_network)
    return require([run for run in runs if run and run.symbol_report.get(part)])


@exhibit("phase-space")
def plot_phase_spaces(results: Results) -> Figure:
    """Learned and true operator in phase space."""
    runs = _inspected(results, "phase_space")
    titles = (f"{run.metadata.study}: {run.model}" for run in runs)
    symbols = (run.symbol_report["phase_space"] for run in runs)
    return plot_phase_space(dict(zip(titles, symbols, strict=True)))


@exhibit("certificates")
def plot_certificates(results: Results) -> Figure:
    """Certificates of the symbol class."""
    runs = _inspected(results, "layers")
    figure, panels = grid_of_panels(len(runs), 3, 3.0, 2.6)
    for axes, run in zip(panels, runs, strict=True):
        layer, order = run.symbol_report["layers"][0], float(run.symbol_report["order"])
        draw_growth(axes, layer["radii"], layer["curves"])
        answer = f"{'in' if layer['accepted'] else 'not in'} S^{order:g}"
        axes.set_title(f"{run.metadata.study}: {run.model}\n{answer}", fontsize=8)
        axes.set_xlabel("|ξ|")
        axes.legend(fontsize=6)
    return figure


# Diagrams, drawn from the specification of a run

BLUE, ORANGE, GREEN = COLOURS[:3]
DRAWN_INPUTS, DRAWN_OUTPUTS = 3, 2  # as in the paper
AXES = {"navier-stokes": 2, "darcy": 2, "burgers": 1, "heat": 1}
"""Dimension by study; a run of the first one that there is is drawn."""


def _specified(results: Results, *kinds: str) -> tuple[Run, dict[str, Any]]:
    """The first run of a PDNO (or lone operator), of the problems in order, and its network."""
    runs = [run for study in AXES for n in results.shown(study) if (run := results.run(n))]
    networks = [(run, run.experiment.network.model_dump()) for run in runs if run.experiment]
    pairs = [pair for pair in networks if pair[1]["kind"] in kinds and pair[1]["depends_on_x"]]
    # the paper's way of training first; the networks are the same
    return min(require(pairs), key=lambda pair: not pair[0].metadata.of_paper)


@exhibit("figure-02-operator")
def plot_operator(results: Results) -> Figure:
    """The operator."""
    run, network = _specified(results, "pdno", "pdio")
    hidden = [network["symbol_hidden"]] * (int(network["symbol_layers"]) + 1)
    dim = AXES[run.metadata.study] + bool(network.get("takes_time"))
    chain = " → ".join(map(str, [dim, *hidden, int(network.get("width", 1)) ** 2]))
    figure, axes = _canvas((7.2, 2.9), 4.4, f"{run.metadata.study}: {run.model}")
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
    return figure


@exhibit("figure-06-block")
def plot_block(results: Results) -> Figure:
    """A block with several channels."""
    run, network = _specified(results, "pdno")
    width = int(network["width"])
    inputs, outputs = min(width, DRAWN_INPUTS), min(width, DRAWN_OUTPUTS)
    top = 2.0 * max(inputs, outputs) - 0.6
    what = f"{network['layers']} blocks of {width} channels"
    figure, axes = _canvas((7.2, 4.4), top + 1.4, f"{run.metadata.study}: {run.model}: {what}")
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
    return figure


def _canvas(size: tuple[float, float], height: float, title: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=size)
    axes = figure.subplots()
    axes.set(xlim=(0, 12.2), ylim=(-1.1, height), title=title)
    axes.set_axis_off()
    return figure, axes


def _box(axes: Axes, x: float, y: float, text: str, colour: str, *, small: bool = False) -> None:
    pad, width, fontsize, zorder = (0.2, 0.7, 7, 2) if small else (0.4, 1.0, 9, 3)
    style = {"boxstyle": f"round,pad={pad}", "facecolor": "white", "edgecolor": colour}
    box = {**style, "linewidth": width}
    axes.text(x, y, text, fontsize=fontsize, bbox=box, ha="center", va="center", zorder=zorder)


def _arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], *, dashed: bool = False
) -> None:
    colour, line = ("0.6", "--") if dashed else ("black", "-")
    style = {"arrowstyle": "->", "color": colour, "linestyle": line, "linewidth": 0.8}
    axes.annotate("", xy=end, xytext=start, arrowprops=style, zorder=1)
