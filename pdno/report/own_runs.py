"""The runs themselves, whatever their recipe: errors, training, one prediction, one symbol."""

__all__ = ["plot_runs", "runs_by_data", "runs_table", "symbol_values"]

from collections.abc import Iterator, Sequence

import numpy as np

from pdno.figures.curves import draw_training
from pdno.figures.fields import (
    Array,
    Panel,
    centred,
    draw_panels,
    field_style,
    lowest_modes,
    panels_of,
    signed,
)
from pdno.figures.style import Figure, figure_style
from pdno.files.metric_table import ERROR, by_network
from pdno.report.tables import MISSING, Table, number
from pdno.runs.run import Run

MOST_ROWS = 8  # of a figure
SPLITS = ("train", "test")


def runs_table(runs: Sequence[Run]) -> Table:
    """Every run with its errors and its training."""
    head = ("data", "s", "network", "seed", "train", "test", "parameters", "epochs", "samples")
    lines, machines = [], dict[str, list[str]]()
    for run in sorted(runs, key=lambda run: (run.metrics[0].experiment, run.resolution)):
        first, last, machine = run.metrics[0], run.history[-1:], run.environment
        errors = [number(_error(run, split)) for split in SPLITS]
        if errors[0] == MISSING and last:  # `pdno.fit` measures no other one
            errors[0] = f"{number(last[0].train)}*"
        single = len({metric.model for metric in run.metrics}) == 1
        model, seed = (run.model, str(run.seed)) if single else (MISSING, MISSING)
        about = (first.experiment, str(run.resolution), model, seed, *errors)
        counted = single and first.parameters is not None
        parameters = f"{first.parameters:,}" if counted else MISSING
        epochs = str(last[0].epoch) if last else MISSING
        samples = MISSING if first.metadata.samples is None else str(first.metadata.samples)
        name = run.folder.name
        lines.append((*about, parameters, epochs, samples, number(first.seconds), name))
        if {"torch", "device", "threads"} <= set(machine):
            words = "torch {torch}, {device}, {threads} threads".format(**machine)
            machines.setdefault(words, []).append(name)
    several = len(machines) > 1
    notes = [f"{m}: {', '.join(names)}" if several else m for m, names in machines.items()]
    if any(line[4].endswith("*") for line in lines):
        notes.append("*: mean over the last epoch, each batch before its update")
    return Table((*head, "seconds", "folder"), tuple(lines), tuple(f"{n}." for n in notes))


def _error(run: Run, split: str) -> float | None:
    wanted = (run.resolution, split, ERROR)
    values = (m.value for m in run.metrics if (m.resolution, m.split, m.metric) == wanted)
    return next(values, None)


def runs_by_data(runs: Sequence[Run]) -> Iterator[tuple[str, list[Run]]]:
    """The first seed of every network, those of the same data and grid together, with a title."""
    run_of = {id(metric): run for run in runs for metric in run.metrics}
    networks = by_network(metric for run in runs for metric in run.metrics)
    shown = dict.fromkeys(run_of[id(network.metrics[0])] for network in networks)
    blocks: dict[tuple[str, int], list[Run]] = {}
    for run in sorted(shown, key=lambda run: run.model):
        if run.history or run.array_names:
            key = (run.metrics[0].experiment, run.resolution)
            blocks.setdefault(key, []).append(run)
    for (name, points), block in sorted(blocks.items()):
        for start in range(0, len(block), MOST_ROWS):
            yield f"{name}, s = {points}", block[start : start + MOST_ROWS]


@figure_style()
def plot_runs(runs: Sequence[Run]) -> Figure:
    """Error by epoch (dashed: training, solid: test); the first test sample, its prediction and
    the relative error of it, at the last time where there are several; the symbol Re a2 of the
    first channel pair in the first block."""
    rows = [[*_sample(run), *_symbol(run)] for run in runs]
    columns = 1 + max(map(len, rows))
    figure = Figure(figsize=(max(1.95 * columns, 5.0), 1.85 * len(runs) + 0.2))
    axes = figure.subplots(len(runs), columns, squeeze=False)
    for run, (first, *others), panels in zip(runs, axes, rows, strict=True):
        draw_training(
            first,
            {
                "train": [(row.epoch, row.train) for row in run.history],
                "test": [(row.epoch, row.test) for row in run.history],
            },
        )
        first.set_title(f"test error {number(_error(run, 'test'))}", fontsize=8)
        first.set_ylabel(run.model, fontsize=8)
        draw_panels([others], [panels])
    return figure


def _sample(run: Run) -> list[Panel]:
    """Panels of the first sample: first channel, last time; none where nothing was kept."""
    if "prediction" not in run.array_names:
        return []
    inputs, *both = (run.array(name)[0] for name in ("input", "target", "prediction"))
    # the frames of a window are channels: the last is the newest
    first = inputs[0 if run.times is None else -1]
    target, prediction = (f[0] if run.times is None else f[-1, 0] for f in both)
    name = "target" if run.times is None else f"target, t = {run.times[-1]:g}"
    *panels, error = panels_of(name, target, prediction)
    size = float(np.linalg.norm(error.values) / np.linalg.norm(target))
    inputs_panel = Panel("input", first, field_style(first))
    return [inputs_panel, *panels, error._replace(title=f"error, {size:.3g}")]


def _symbol(run: Run) -> list[Panel]:
    blocks = symbol_values(run)[:1]
    return [Panel("Re a2_11", a[0, 0], signed(a[0, 0]), lowest_modes(a)) for a in blocks]


def symbol_values(run: Run) -> list[Array]:
    """Re a2 of each block for a few channel pairs, (O, I, *modes), centred in ξ."""
    names = [name for name in run.array_names if name.endswith(".real")]
    return [centred(run.array(n)) for n in sorted(names, key=lambda n: int(n.split(".")[1]))]
