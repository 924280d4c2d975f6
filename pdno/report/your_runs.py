"""The runs themselves, whatever their recipe: errors, training, one prediction, one symbol."""

__all__ = ["plot_runs", "run_entries", "runs_table"]

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from pdno.figures.curves import draw_training
from pdno.figures.fields import draw_panels, field_style, lowest_modes, panels_of, signed
from pdno.figures.style import Figure
from pdno.paper.exhibits import Exhibit
from pdno.paper.figures_symbols import symbol_values
from pdno.paper.tables import MISSING, Table, number
from pdno.report.runs import ERROR, Group, Results, RunRecord, require

MOST_ROWS = 8  # of a figure
SPLITS = ("train", "test")


def runs_table(results: Results) -> Table:
    """Every run with its errors and what its training had."""
    head = ("data", "s", "network", "seed", "train", "test", "parameters", "epochs", "samples")
    lines, machines = [], dict[str, list[str]]()
    for run in sorted(results.records, key=lambda run: (run.rows[0].experiment, run.resolution)):
        settings, row, machine = run.specification, run.rows[0], run.environment
        epochs = f"{run.history[-1]['epoch']:.0f}" if run.history else MISSING
        errors = [number(_error(run, split)) for split in SPLITS]
        if errors[0] == MISSING and run.history:  # `pdno.fit` measures no other one
            errors[0] = f"{number(run.history[-1].get('train'))}*"
        counted = f"{row.parameters:,}" if settings and row.parameters is not None else MISSING
        had = (counted, epochs, str(settings.get("train", MISSING)), number(row.seconds))
        seed, name = str(run.seed) if settings else MISSING, run.folder.name
        model = run.model if settings else MISSING
        lines.append((row.experiment, str(run.resolution), model, seed, *errors, *had, name))
        if {"torch", "device", "threads"} <= set(machine):
            words = "torch {torch}, {device}, {threads} threads".format(**machine)
            machines.setdefault(words, []).append(name)
    several = len(machines) > 1
    notes = [f"{m}: {', '.join(names)}" if several else m for m, names in machines.items()]
    if any(line[4].endswith("*") for line in lines):
        notes.append("*: mean over the last epoch, each batch before its update")
    return Table((*head, "seconds", "folder"), tuple(lines), tuple(f"{n}." for n in notes))


def _error(run: RunRecord, split: str) -> float | None:
    known = (run.resolution, split, ERROR)
    rows = (row for row in run.rows if (row.resolution, row.split, row.metric) == known)
    return next((row.value for row in rows), None)


def run_entries(results: Results) -> list[Exhibit]:
    """Figures of all groups, those of the same data and grid together."""
    blocks: dict[tuple[str, int], list[Group]] = {}
    for group in sorted(results.every_group, key=lambda group: group.model):
        blocks.setdefault((group.rows[0].experiment, group.resolution), []).append(group)
    parts = [
        (f"{name}, s = {points}", groups[start : start + MOST_ROWS])
        for (name, points), groups in sorted(blocks.items())
        for start in range(0, len(groups), MOST_ROWS)
    ]
    return [
        Exhibit(f"runs-{k}", "", (), title, partial(plot_runs, groups=groups))
        for k, (title, groups) in enumerate(parts, start=1)
    ]


def plot_runs(results: Results, groups: Sequence[Group]) -> Figure:
    """Error by epoch (dashed: training, solid: test); the first test sample, its prediction and
    the relative error of it, at the last time where there are several; the symbol Re a2 of the
    first channel pair in the first block."""
    rows = [[*_sample(group), *_symbol(group)] for group in groups]
    require(any(rows) or any(group.history for group in groups))
    columns = 1 + max(map(len, rows))
    drawn = Figure(figsize=(max(1.95 * columns, 5.0), 1.85 * len(groups) + 0.2))
    places = drawn.subplots(len(groups), columns, squeeze=False)
    for group, (first, *others), panels in zip(groups, places, rows, strict=True):
        pairs = {s: [(row["epoch"], row.get(s)) for row in group.history] for s in SPLITS}
        draw_training(first, pairs)
        first.set_title(f"test error {number(_error(group, 'test'))}", fontsize=8)
        first.set_ylabel(group.model, fontsize=8)
        draw_panels([others], [panels])
    return drawn


def _sample(group: Group) -> list[Any]:
    """Panels of the first sample: first channel, last time; none where nothing was kept."""
    if "prediction" not in group.picture_names:
        return []
    given, *both = (group.picture(name)[0] for name in ("input", "target", "prediction"))
    # the frames of a window are channels: the last is the newest
    first = given[0 if group.times is None else -1]
    target, prediction = (f[0] if group.times is None else f[-1, 0] for f in both)
    name = "target" if group.times is None else f"target, t = {group.times[-1]:g}"
    *panels, (_, error, colours, *_) = panels_of(name, target, prediction)
    size = float(np.linalg.norm(error) / np.linalg.norm(target))
    return [("input", first, field_style(first)), *panels, (f"error, {size:.3g}", error, colours)]


def _symbol(group: Group) -> list[Any]:
    blocks = symbol_values(group)[:1]
    return [("Re a2_11", a[0, 0], signed(a[0, 0]), lowest_modes(a)) for a in blocks]
