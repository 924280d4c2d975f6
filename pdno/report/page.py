"""The page of a report: tables and figures as files, and all of them in one HTML file.

    OUT/report.html            everything in one file
    OUT/tables/KEY.md, .tex    each table
    OUT/figures/KEY.png, .pdf  each figure
    OUT/metrics.csv            all metrics that it rests on

The same runs give the same bytes. The page needs no network and no script, and is readable on a
phone and on paper.
"""

import base64
import html
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pdno.figures import fields
from pdno.figures.curves import draw_training
from pdno.figures.style import Figure, figure_style, save_figure
from pdno.files.atomic import write_text
from pdno.files.metric_table import ERROR, by_network, write_metrics
from pdno.report.tables import MISSING, Table, html_note, number
from pdno.runs.run import Run, find_runs, find_unfinished

MOST_ROWS, SPLITS = 8, ("train", "test")  # of a figure
REPORT = "report.html"
TITLE = "Pseudo-differential neural operators: report"
CAPTION = (
    "Error by epoch (dashed: training, solid: test); the first test sample, its prediction and "
    "the relative error of it, at the last time where there are several; the symbol Re a2 of the "
    "first channel pair in the first block."
)
STYLE = """
:root { color-scheme: light; } * { box-sizing: border-box; } body { font: 1rem/1.5 system-ui,
sans-serif; color: #1a1a1a; background: #fff; margin: 0 auto; padding: 1rem; max-width: 62rem;
overflow-wrap: break-word; } h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.3rem;
margin-top: 2.5rem; border-bottom: 1px solid #ccc; } h3 { font-size: 1.05rem; margin: 2rem 0
0.5rem; } a { color: #00558c; } nav ul { columns: 20rem; padding-left: 1.2rem; font-size: 0.9rem; }
nav li { break-inside: avoid; } code { background: #f2f2f2; padding: 0.1rem 0.3rem; border-radius:
3px; font-size: 0.9em; } .wide { overflow-x: auto; } table { border-collapse: collapse; min-width:
40rem; font-size: 0.82rem; font-variant-numeric: tabular-nums; } th, td { text-align: left;
vertical-align: top; padding: 0.25rem 0.6rem 0.25rem 0; } thead th { border-bottom: 2px solid #444;
} tbody td { border-bottom: 1px solid #ddd; } figure { margin: 0; break-inside: avoid; } img {
max-width: 100%; height: auto; } figcaption, .note, .origin { font-size: 0.85rem; color: #444; }
details { font-size: 0.85rem; } summary { cursor: pointer; font-size: 1rem; } @media print { body {
max-width: none; padding: 0; font-size: 10pt; } nav { display: none; } .wide { overflow: visible; }
table { font-size: 7pt; min-width: 0; } h3 { break-after: avoid; } }
"""


class Section(NamedTuple):
    """Anchor, heading and HTML of a part of the page."""

    key: str
    title: str
    body: str


class Chapter(NamedTuple):
    """Sections under a heading."""

    title: str
    sections: Sequence[Section]


@dataclass
class Page:
    """A report in the folder `out`; sections write their files when they are made."""

    out: Path
    introduction: list[str] = field(default_factory=list)  #: sentences, in HTML
    chapters: list[Chapter] = field(default_factory=list)

    def table(self, key: str, title: str, table: Table, note: str = "") -> Section:
        """A section with a table and a note in HTML; the table is written in two notations."""
        write_text(self._file(f"tables/{key}.md"), table.markdown())
        write_text(self._file(f"tables/{key}.tex"), table.latex())
        return Section(key, title, table.html() + note)

    def figure(
        self, key: str, title: str, figure: Figure, caption: str, note: str = ""
    ) -> Section:
        """A section with a figure, written as PNG and PDF, its caption and a note in HTML."""
        path = save_figure(figure, self._file(f"figures/{key}.png"))
        # the layout is computed; computing it again takes half of the time
        figure.set_layout_engine("none")
        save_figure(figure, path.with_suffix(".pdf"))
        data = base64.b64encode(path.read_bytes()).decode("ascii")
        image = f'<img src="data:image/png;base64,{data}" alt="{html.escape(title)}">'
        text = f"<figcaption>{html_note(caption)}</figcaption>"
        return Section(key, title, f"<figure>{image}\n{text}</figure>\n{note}")

    def discard(self, key: str) -> None:
        """Remove the files of a section of an older report in the same folder."""
        for path in (*self.out.glob(f"figures/{key}.*"), *self.out.glob(f"tables/{key}.*")):
            path.unlink()

    def _file(self, name: str) -> Path:
        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write(self) -> Path:
        """Write report.html: the introduction, the contents, then the sections by chapter."""
        words = "".join(f"<p>{sentence}</p>\n" for sentence in self.introduction)
        contents = body = ""
        for chapter, sections in self.chapters:
            body += f"<h2>{chapter}</h2>\n" if sections else ""
            for key, title, text in sections:
                name = html.escape(title)
                contents += f'<li><a href="#{key}">{name}</a></li>\n'
                body += f'<section id="{key}">\n<h3>{name}</h3>\n{text}\n</section>\n'
        target = self.out / REPORT
        write_text(
            target,
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<link rel="icon" href="data:,">\n<title>{TITLE}</title>\n<style>{STYLE}</style>\n'
            f"</head>\n<body>\n<h1>{TITLE}</h1>\n{words}"
            f"<nav><h2>Contents</h2><ul>\n{contents}</ul></nav>\n<main>\n{body}</main>\n"
            "</body>\n</html>\n",
        )
        return target


def write_report(
    folders: Sequence[Path],
    out: Path,
    add_chapters: Callable[[Page, Sequence[Path], Sequence[Run]], None] | None = None,
) -> Path:
    """Write tables, figures and the page of finished runs, and return the page.

    Arguments:
        folders: Run folders, studies, or parents of studies.
        out: Folder of the report; an older report in it is replaced.
        add_chapters: Adds chapters to the page, for example those of the paper.
    """
    folders = [Path(folder) for folder in folders]
    runs = find_runs(folders)
    out.mkdir(parents=True, exist_ok=True)
    write_metrics(out / "metrics.csv", (metric for run in runs for metric in run.metrics))
    page, count = Page(out), f"{len(runs)} finished run" + "s" * (len(runs) > 1)
    page.discard("runs-*")
    page.introduction.append(
        f"Made from {count}; every number is of a run folder or, where it says so, of the paper. "
        "Errors are relative L2, means over the test samples, and ± is the standard deviation "
        "over seeds."
    )
    figures = [
        page.figure(f"runs-{k}", title, plot_runs(block), CAPTION)
        for k, (title, block) in enumerate(runs_by_data(runs), start=1)
    ]
    page.chapters.append(
        Chapter("Your runs", [page.table("runs", "Errors", runs_table(runs)), *figures])
    )
    if add_chapters is not None:
        add_chapters(page, folders, runs)
    if unfinished := find_unfinished(folders):
        names = html.escape(", ".join(unfinished))
        page.introduction.append(f"Not finished yet, and left out: {names}.")
    return page.write()


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
        about = [run.model, str(run.seed)] if single else [MISSING, MISSING]
        parameters = f"{first.parameters:,}" if single and first.parameters else MISSING
        counts = (last[0].epoch if last else None, first.metadata.samples)
        epochs, samples = (MISSING if count is None else str(count) for count in counts)
        effort = [parameters, epochs, samples, number(first.seconds), run.folder.name]
        lines.append((first.experiment, str(run.resolution), *about, *errors, *effort))
        if {"torch", "device", "threads"} <= set(machine):
            words = "torch {torch}, {device}, {threads} threads".format(**machine)
            machines.setdefault(words, []).append(run.folder.name)
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
    """A row for each run, as `CAPTION` describes it."""
    rows = [[*_sample(run), *_symbol(run)] for run in runs]
    columns = 1 + max(map(len, rows))
    figure = Figure(figsize=(max(1.95 * columns, 5.0), 1.85 * len(runs) + 0.2))
    axes = figure.subplots(len(runs), columns, squeeze=False)
    for run, (first, *others), panels in zip(runs, axes, rows, strict=True):
        errors = {k: [(row.epoch, getattr(row, k)) for row in run.history] for k in SPLITS}
        draw_training(first, errors)
        first.set_title(f"test error {number(_error(run, 'test'))}", fontsize=8)
        first.set_ylabel(run.model, fontsize=8)
        fields.draw_panels([others], [panels])
    return figure


def _sample(run: Run) -> list[fields.Panel]:
    """Panels of the first sample: first channel, last time; none where nothing was kept."""
    if "prediction" not in run.array_names:
        return []
    inputs, *both = (run.array(name)[0] for name in ("input", "target", "prediction"))
    # the frames of a window are channels: the last is the newest
    first = inputs[0 if run.times is None else -1]
    target, prediction = (f[0] if run.times is None else f[-1, 0] for f in both)
    name = "target" if run.times is None else f"target, t = {run.times[-1]:g}"
    *panels, error = fields.panels_of(name, target, prediction)
    size = float(np.linalg.norm(error.values) / np.linalg.norm(target))
    inputs_panel = fields.Panel("input", first, fields.field_style(first))
    return [inputs_panel, *panels, error._replace(title=f"error, {size:.3g}")]


def _symbol(run: Run) -> list[fields.Panel]:
    return [
        fields.Panel("Re a2_11", a[0, 0], fields.signed(a[0, 0]), fields.lowest_modes(a))
        for a in symbol_values(run)[:1]
    ]


def symbol_values(run: Run) -> list[fields.Array]:
    """Re a2 of each block for a few channel pairs, (O, I, *modes), centred in ξ."""
    blocks = {int(n.split(".")[1]): n for n in run.array_names if n.endswith(".real")}
    return [fields.centred(run.array(name)) for _, name in sorted(blocks.items())]
