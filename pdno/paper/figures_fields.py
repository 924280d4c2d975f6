"""Fields and symbols: test samples, learned symbols and certificates, and the diagrams 2 and 6."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import matplotlib
import numpy as np

from pdno.data.problems import PROBLEMS
from pdno.evaluation.symbol_recovery import EXCITED
from pdno.figures.curves import draw_growth
from pdno.figures.fields import (
    Array,
    Panel,
    Style,
    draw_rows,
    field_style,
    lowest_modes,
    plot_phase_space,
    signed,
)
from pdno.figures.style import COLOURS, Axes, Figure, grid_of_panels, spread
from pdno.interface.records import Options
from pdno.paper.published import PDNO
from pdno.paper.results import Results, exhibit, of_network, require
from pdno.report.page import symbol_values
from pdno.runs.run import Run

Choice = Literal["lowest", "median", "highest"]
LARGEST_DRAWN = 16  # |ξ_j| of a velocity law
MOVING = 0.01  # share of the mode that moves the flow most, above which data excite a mode
DRAWN_CHANNELS = ((0, 0), (0, 1))
"""Output and input channel of the drawn pairs."""


@dataclass(frozen=True)
class Sample:
    """One test sample, its mean error over the networks, and their predictions, (T, *N)."""

    index: int
    error: float
    target: Array
    predictions: dict[Run, Array]
    times: Sequence[float] | None

    def frame_error(self, run: Run, frame: int) -> float:
        truth = self.target[frame]
        error = np.linalg.norm(self.predictions[run][frame] - truth)
        return float(error / np.linalg.norm(truth))


def choose_sample(results: Results, study: str, choice: Choice) -> Sample:
    """The sample with the lowest, median or highest mean error, of those that were kept."""
    runs = [run for network in results.shown(study) if (run := results.run(network))]
    runs = require([run for run in runs if "prediction" in run.array_names])
    target, times = runs[0].array("target"), runs[0].times
    runs = [run for run in runs if np.array_equal(run.array("target"), target)]
    errors = np.mean([run.array("error")[: len(target)] for run in runs], axis=0)
    order = np.argsort(errors, kind="stable")
    index = int(order[{"lowest": 0, "median": len(order) // 2, "highest": -1}[choice]])

    def first_channel(array: Array) -> Array:
        """Of the sample, frame by frame: (T, C, *N) or (C, *N) -> (T, *N)."""
        return (array[index] if times is not None else array[index : index + 1])[:, 0]

    predictions = {run: first_channel(run.array("prediction")) for run in runs}
    return Sample(index, float(errors[index]), first_channel(target), predictions, times)


@exhibit("figure-04-samples")
def plot_comparison(results: Results) -> Figure:
    sample = choose_sample(results, "navier-stokes", "median")
    require(sample.target.ndim == 3)
    truth = sample.target[-1]
    values = field_style(truth)
    differences = signed(*(frames[-1] - truth for frames in sample.predictions.values()))
    when = "" if sample.times is None else f", t = {sample.times[-1]:g}"
    above: list[Panel | None] = [Panel(f"truth{when}", truth, values)]
    below: list[Panel | None] = [None]
    for run, frames in sample.predictions.items():
        title = f"{run.model}\n{sample.frame_error(run, -1):.3g}"
        above.append(Panel(title, frames[-1], values))
        below.append(Panel("predicted − truth", frames[-1] - truth, differences))
    return draw_rows([above, below])


def plot_frames(results: Results, choice: Choice) -> Figure:
    """One test sample at a few times, and the predictions of it."""
    sample = choose_sample(results, "navier-stokes", choice)
    times = require(sample.times)
    require(sample.target.ndim == 3)
    styles = {k: field_style(sample.target[k]) for k in spread(len(times), 4)}
    truth = [Panel(f"t = {times[k]:g}", sample.target[k], style) for k, style in styles.items()]
    rows, names = [truth], ["truth\nx₂"]
    for run, frames in sample.predictions.items():
        errors = {k: f"{sample.frame_error(run, k):.3g}" for k in styles}
        rows.append([Panel(errors[k], frames[k], style) for k, style in styles.items()])
        names.append(f"{run.model}\nx₂")
    return draw_rows(rows, names=names)


plot_lowest = exhibit("figure-12-lowest")(partial(plot_frames, choice="lowest"))
plot_highest = exhibit("figure-13-highest")(partial(plot_frames, choice="highest"))


@exhibit("figure-08-heat-solution")
def plot_heat_solution(results: Results) -> Figure:
    run = results.best_run("heat", "prediction")
    frames = require(run.times)
    times = np.asarray(require(frames if len(frames) > 1 else None))  # one frame is no map
    truth, predicted = run.array("target")[0, :, 0], run.array("prediction")[0, :, 0]
    error = float(np.linalg.norm(predicted - truth) / np.linalg.norm(truth))
    x, values = np.arange(truth.shape[1]) / truth.shape[1], field_style(truth)
    figure = Figure(figsize=(8.4, 2.8))
    panels = (
        ("exact", truth, values),
        (f"predicted, error {error:.3g}", predicted, values),
        ("predicted − exact", predicted - truth, signed(predicted - truth)),
    )
    _draw_maps(figure.subplots(1, 3, sharey=True), ("x", "t"), (x, times), panels)
    return figure


@exhibit("figure-03-heat-symbol")
def plot_heat_symbol(results: Results) -> Figure:
    run = results.best_run("heat", "heat.learned")
    names = ("learned", "exact", "weight", "xi", "times")
    learned, exact, weight, xi, times = (run.array(f"heat.{name}") for name in names)
    limits: Style = {
        "cmap": "viridis",
        "vmin": min(0.0, float(learned.min())),
        "vmax": max(1.0, float(learned.max())),
    }
    inside = "learned − exact; inside the line the data excite the mode"
    panels = (
        ("learned Re a1 a2, a1 averaged over x", learned, limits),
        ("exact e^(−4π²cξ²t)", exact, limits),
        (inside, learned - exact, signed(learned - exact)),
    )
    figure = Figure(figsize=(6.2, 6.6))
    rows = figure.subplots(3, 1, sharex=True)
    _draw_maps(rows, ("ξ", "t"), (xi, times), panels)
    if weight.min() < EXCITED <= weight.max():
        rows[-1].contour(xi, times, weight, levels=[EXCITED], colors="black", linewidths=1)
    return figure


def _draw_maps(
    row: Iterable[Axes],
    names: tuple[str, str],
    positions: tuple[Array, Array],
    panels: Sequence[tuple[str, Array, Style]],
) -> None:
    """Title, values and colours of each panel, over two axes by their names and positions."""
    for axes, (title, values, style) in zip(row, panels, strict=True):
        image = axes.pcolormesh(*positions, values, shading="nearest", **style)
        axes.figure.colorbar(image, ax=axes)
        axes.set(title=title, xlabel=names[0], ylabel=names[1])


@exhibit("figure-07-heat-space")
def plot_heat_space(results: Results) -> Figure:
    run = results.best_run("heat", "heat.space")
    space, times = run.array("heat.space"), run.array("heat.times")
    figure = Figure(figsize=(7.2, 3.0))
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.9, len(times)))
    for t in spread(len(times), 5):
        x = np.arange(space.shape[1]) / space.shape[1]
        left.plot(x, space[t], color=colours[t], label=f"t = {times[t]:g}")
    left.axhline(1.0, color="0.7", linewidth=0.8, zorder=0)
    left.set(xlabel="x", ylabel="a1(x, t) / its mean over x")
    left.legend()
    right.plot(times, space.std(axis=1), marker="o", markersize=3)
    right.set(xlabel="t", ylabel="standard deviation over x")
    return figure


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
    return draw_rows(require(rows), names=names)


def _inspected(results: Results, part: str) -> list[tuple[str, Options]]:
    """Name and report of each network that `pdno symbol` has looked into, where it has a part."""
    runs = [run for network in results.every_network if (run := results.run(network))]
    reports = [(f"{run.metadata.study}: {run.model}", run.symbol_report) for run in runs]
    return require([(name, report) for name, report in reports if report.get(part)])


@exhibit("phase-space")
def plot_phase_spaces(results: Results) -> Figure:
    reports = _inspected(results, "phase_space")
    return plot_phase_space({name: report["phase_space"] for name, report in reports})


@exhibit("certificates")
def plot_certificates(results: Results) -> Figure:
    reports = _inspected(results, "layers")
    figure, panels = grid_of_panels(len(reports), 3, 3.0, 2.6)
    for axes, (name, report) in zip(panels, reports, strict=True):
        layer = report["layers"][0]
        draw_growth(axes, layer["radii"], layer["curves"])
        answer = "proved" if layer["accepted"] else layer.get("assessment", "not proved")
        axes.set_title(f"{name}\nS^{float(report['order']):g}: {answer}", fontsize=8)
        axes.set_xlabel("|ξ|")
        axes.legend(fontsize=6)
    return figure


@exhibit("velocity-law")
def plot_velocity_law(results: Results) -> Figure:
    run = results.best_run("navier-stokes-substeps", "velocity.learned")
    xi, learned, exact, weight = (
        run.array(f"velocity.{name}") for name in ("xi", "learned", "exact", "weight")
    )
    size = np.linalg.norm(xi, axis=-1)
    kept = (np.abs(xi) <= LARGEST_DRAWN).all(axis=-1) & (size > 0)
    x, y = xi[kept].T.astype(int)
    positions = np.arange(x.min(), x.max() + 1), np.arange(y.min(), y.max() + 1)

    def scaled(b: Array) -> Array:
        """2π|ξ| b₁(ξ), for Biot-Savart i ξ₂/|ξ|: as large at every frequency."""
        values = np.full((len(positions[1]), len(positions[0])), np.nan)
        values[y - y.min(), x - x.min()] = (2 * np.pi * size * b[0])[kept]
        return values

    law, truth = scaled(learned), scaled(exact)
    style: Style = {"cmap": "RdBu_r", "vmin": -1.2, "vmax": 1.2}
    panels = (
        ("learned 2π|ξ| Im b₁(ξ)", law, style),
        ("Biot-Savart, ξ₂/|ξ|", truth, style),
        ("learned − exact", law - truth, Style(cmap="RdBu_r", vmin=-0.2, vmax=0.2)),
    )
    figure = Figure(figsize=(9.6, 2.6))
    row = figure.subplots(1, 3, sharey=True)
    _draw_maps(row, ("ξ₁", "ξ₂"), positions, panels)
    share = np.linalg.norm(weight * exact, axis=0)[kept]
    for axes in row:
        axes.tricontour(x, y, share / share.max(), levels=[MOVING], colors="black")
    return figure


# Diagrams, drawn from the specification of a run

BLACK, (BLUE, ORANGE, GREEN) = "black", COLOURS[:3]
DRAWN_INPUTS, DRAWN_OUTPUTS = 3, 2  # as in the paper
STUDIES = ("navier-stokes", "darcy", "burgers", "heat")
"""A run of the first one that there is is drawn."""
Node = tuple[float, float, str, str]
"""Place, text and colour of a box."""


def _specified(results: Results, *kinds: str) -> tuple[Run, Options]:
    runs = [run for study in STUDIES for n in results.shown(study) if (run := results.run(n))]
    networks = [(run, run.experiment.network.model_dump()) for run in runs if run.experiment]
    pairs = [pair for pair in networks if pair[1]["kind"] in kinds and pair[1]["depends_on_x"]]
    # the paper's way of training first; the networks are the same
    return min(require(pairs), key=lambda pair: not pair[0].metadata.of_paper)


@exhibit("figure-02-operator")
def plot_operator(results: Results) -> Figure:
    run, network = _specified(results, "pdno", "pdio")
    hidden = [network["symbol_hidden"]] * (int(network["symbol_layers"]) + 1)
    dim = PROBLEMS[run.metadata.study].dim + bool(network.get("takes_time"))
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
