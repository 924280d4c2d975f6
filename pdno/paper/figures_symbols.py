"""Symbols as learned (figure 5), their certificates, and diagrams of the operator (2 and 6)."""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from pdno.figures.curves import draw_growth
from pdno.figures.fields import Panel, lowest_modes, plot_phase_space, signed
from pdno.figures.style import COLOURS, Figure, grid_of_panels
from pdno.interface.records import Options
from pdno.paper.figures_fields import draw_rows
from pdno.paper.published import PDNO
from pdno.paper.results import Results, exhibit, of_network, require
from pdno.report.page import symbol_values
from pdno.runs.run import Run

LARGEST_DRAWN = 16  # |ξ_j| of a velocity law
EXCITED = 0.01  # share of the mode that moves the flow most, above which data excite a mode
DRAWN_CHANNELS = ((0, 0), (0, 1))
"""Output and input channel of the drawn pairs."""


@exhibit("figure-05-symbols")
def plot_symbols(results: Results) -> Figure:
    networks = [of_network(results.shown("navier-stokes"), name) for name in (PDNO, "FNO")]
    rows, names = [], []
    for run in [run for network in networks if network and (run := results.run(network))]:
        blocks = symbol_values(run)
        for j, i in DRAWN_CHANNELS if blocks and blocks[0].ndim == 4 else ():
            if j < blocks[0].shape[0] and i < blocks[0].shape[1]:
                low, values = lowest_modes(blocks[0]), [block[j, i] for block in blocks]
                panels = [Panel(f"block {k}", v, signed(v), low) for k, v in enumerate(values, 1)]
                rows.append(panels)
                # the paper counts from 1 and names the input first
                names.append(f"{run.model}\na_{i + 1}{j + 1}\nξ₂")
    return draw_rows(require(rows), names)


def _inspected(results: Results, part: str) -> list[Run]:
    runs = (results.run(network) for network in results.every_network)
    return require([run for run in runs if run and run.symbol_report.get(part)])


@exhibit("phase-space")
def plot_phase_spaces(results: Results) -> Figure:
    runs = _inspected(results, "phase_space")
    symbols = {f"{run.metadata.study}: {run.model}": run.symbol_report for run in runs}
    return plot_phase_space({name: report["phase_space"] for name, report in symbols.items()})


@exhibit("certificates")
def plot_certificates(results: Results) -> Figure:
    runs = _inspected(results, "layers")
    figure, panels = grid_of_panels(len(runs), 3, 3.0, 2.6)
    for axes, run in zip(panels, runs, strict=True):
        layer, order = run.symbol_report["layers"][0], float(run.symbol_report["order"])
        draw_growth(axes, layer["radii"], layer["curves"])
        answer = "proved" if layer["accepted"] else layer.get("assessment", "not proved")
        answer = f"S^{order:g}: {answer}"
        axes.set_title(f"{run.metadata.study}: {run.model}\n{answer}", fontsize=8)
        axes.set_xlabel("|ξ|")
        axes.legend(fontsize=6)
    return figure


@exhibit("velocity-law")
def plot_velocity_law(results: Results) -> Figure:
    run = results.best_run("navier-stokes-substeps", "velocity.learned")
    names = ("xi", "learned", "exact", "weight")
    xi, learned, exact, weight = (run.array(f"velocity.{name}") for name in names)
    size = np.linalg.norm(xi, axis=-1)
    # 2π|ξ| b₁(ξ) is i ξ₂/|ξ| for Biot-Savart: as large at every frequency
    kept = (np.abs(xi) <= LARGEST_DRAWN).all(axis=-1) & (size > 0)
    order = np.lexsort((xi[kept, 0], xi[kept, 1]))
    law, truth = (2 * np.pi * size * b[0] for b in (learned, exact))
    panels = {
        "learned 2π|ξ| Im b₁(ξ)": (law, 1.2),
        "Biot-Savart, ξ₂/|ξ|": (truth, 1.2),
        "learned − exact": (law - truth, 0.2),
    }
    figure = Figure(figsize=(9.6, 2.6), layout="constrained")
    share = np.linalg.norm(weight * exact, axis=0)[kept][order]
    x, y = xi[kept][order].T
    row = figure.subplots(1, 3, sharey=True)
    for axes, (title, (values, limit)) in zip(row, panels.items(), strict=True):
        colours: Options = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
        picture = np.full((int(np.ptp(y)) + 1, int(np.ptp(x)) + 1), np.nan)
        picture[(y - y.min()).astype(int), (x - x.min()).astype(int)] = values[kept][order]
        edges = (x.min() - 0.5, x.max() + 0.5, y.min() - 0.5, y.max() + 0.5)
        image = axes.imshow(picture, origin="lower", extent=edges, aspect="auto", **colours)
        axes.tricontour(x, y, share / share.max(), levels=[EXCITED], colors="black")
        axes.set(title=title, xlabel="ξ₁")
        figure.colorbar(image, ax=axes)
    row[0].set_ylabel("ξ₂")
    return figure


# Diagrams, drawn from the specification of a run

BLACK, (BLUE, ORANGE, GREEN) = "black", COLOURS[:3]
DRAWN_INPUTS, DRAWN_OUTPUTS = 3, 2  # as in the paper
AXES = {"navier-stokes": 2, "darcy": 2, "burgers": 1, "heat": 1}
"""Dimension by study; a run of the first one that there is is drawn."""
Node = tuple[float, float, str, str]
"""Place, text and colour of a box."""


def _specified(results: Results, *kinds: str) -> tuple[Run, Options]:
    runs = [run for study in AXES for n in results.shown(study) if (run := results.run(n))]
    networks = [(run, run.experiment.network.model_dump()) for run in runs if run.experiment]
    pairs = [pair for pair in networks if pair[1]["kind"] in kinds and pair[1]["depends_on_x"]]
    # the paper's way of training first; the networks are the same
    return min(require(pairs), key=lambda pair: not pair[0].metadata.of_paper)


@exhibit("figure-02-operator")
def plot_operator(results: Results) -> Figure:
    run, network = _specified(results, "pdno", "pdio")
    hidden = [network["symbol_hidden"]] * (int(network["symbol_layers"]) + 1)
    dim = AXES[run.metadata.study] + bool(network.get("takes_time"))
    chain = " → ".join(map(str, [dim, *hidden, int(network.get("width", 1)) ** 2]))
    signs = ("f(x)", "F", "×", "F⁻¹", "×", "K f(x)")
    nodes: list[Node] = [
        (2.1 * k + 0.8, 1.0, sign, ORANGE if sign.startswith("F") else BLACK)
        for k, sign in enumerate(signs)
    ]
    text = f"{chain}\n{network['activation']}"
    nodes += [(5.0, 3.0, f"a2(ξ)\n{text}, Re and Im", BLUE), (9.2, 3.0, f"a1(x)\n{text}", BLUE)]
    edges = [*itertools.pairwise(range(len(signs))), (6, 2), (7, 4)]
    kept = "all modes" if network.get("modes") is None else f"k_max = {network['modes']}"
    return _diagram(f"{run.metadata.study}: {run.model}", nodes, edges, note=kept)


@exhibit("figure-06-block")
def plot_block(results: Results) -> Figure:
    run, network = _specified(results, "pdno")
    width = int(network["width"])
    inputs, outputs = min(width, DRAWN_INPUTS), min(width, DRAWN_OUTPUTS)
    nodes: list[Node] = []
    for i in range(inputs):
        nodes += [(0.9, -2.0 * i, f"v_{i + 1}", BLACK), (2.8, -2.0 * i, "F", ORANGE)]
    for j in range(outputs):
        y = -2.0 * inputs / outputs * (j + 0.25)
        nodes += [(9.5, y, "Σ, σ", GREEN), (11.3, y, f"v_{j + 1}", BLACK)]
    sums = [2 * (inputs + j) for j in range(outputs)]
    pairs = list(itertools.product(range(inputs), range(outputs)))
    edges = [(k, k + 1) for k in (*range(0, 2 * inputs, 2), *sums)]
    edges += [(2 * i + 1, sums[j]) for i, j in pairs]
    for i, j in pairs:  # on the way from F to the sum
        (x, y, *_), (end, down, *_) = nodes[2 * i + 1], nodes[sums[j]]
        share = 0.24 + 0.42 * j
        text = f"a2_{i + 1}{j + 1}, F⁻¹, a1_{i + 1}{j + 1}"
        nodes.append((x + share * (end - x), y + share * (down - y), text, BLUE))
    title = f"{run.metadata.study}: {run.model}: {network['layers']} blocks of {width} channels"
    note = f"{inputs} of {width} inputs and {outputs} of {width} outputs drawn; dashed: W"
    return _diagram(title, nodes, edges, [(2 * i, sums[j]) for i, j in pairs], note)


def _diagram(
    title: str,
    nodes: Sequence[Node],
    edges: Iterable[tuple[int, int]],
    dashed: Iterable[tuple[int, int]] = (),
    note: str = "",
) -> Figure:
    """Boxes, and arrows between them by their numbers."""
    heights = [y for _, y, _, _ in nodes]
    low, high = min(heights) - 1.5, max(heights) + 1
    figure = Figure(figsize=(7.2, max(2.8, 0.7 * (high - low))))
    axes = figure.subplots()
    axes.set(xlim=(0, 12.2), ylim=(low, high), title=title)
    axes.set_axis_off()
    for x, y, text, colour in nodes:
        box = {"boxstyle": "round", "facecolor": "white", "edgecolor": colour}
        axes.text(x, y, text, fontsize=8, bbox=box, ha="center", va="center", zorder=3)
    for line, pairs in (("-", edges), ("--", dashed)):
        arrow = {"arrowstyle": "->", "linestyle": line, "shrinkA": 14, "shrinkB": 14}
        for start, end in pairs:
            axes.annotate("", nodes[end][:2], nodes[start][:2], arrowprops=arrow, zorder=1)
    axes.text(6.0, low + 0.3, note, ha="center", va="center", fontsize=8)
    return figure
