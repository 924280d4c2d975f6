"""The page of a report: tables and figures as files and in one HTML file.

    OUT/report.html            everything in one file, without scripts
    OUT/tables/KEY.md, .tex    each table
    OUT/figures/KEY.png, .pdf  each figure
    OUT/metrics.csv            all metrics that it rests on

The same runs give the same bytes.
"""

import base64
import html
from collections import defaultdict
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
from pdno.interface.display import render
from pdno.report.tables import MISSING, Table, html_note, number
from pdno.runs.run import Run, find_runs, find_unfinished

MOST_ROWS, MOST_NAMES, SPLITS = 8, 3, ("train", "test")  # of a figure, and of the title
REPORT = "report.html"
ABOUT = (
    "Errors are relative L2, means over the test samples, and ± is the standard deviation over "
    "seeds; every number is of a run folder."
)
CAPTION = (
    "A row for each network. Error by epoch (dashed: training, solid: test). Then the first test "
    "sample, at the last time where there are several: input, target and prediction, and its "
    "relative error. Target and prediction share their colours, all errors of a column theirs. "
    "Last the symbol Re a2 of the first channel pair in the first block."
)


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
    title: str = "Report"
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
        text = f'<div class="wide">{image}</div>\n<figcaption>{html_note(caption)}</figcaption>'
        return Section(key, title, f"<figure>{text}</figure>\n{note}")

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
        here, target = Path(__file__).parent, self.out / REPORT
        style = (here / "report.css").read_text(encoding="utf-8")
        write_text(target, render(here / "report.html.jinja", page=self, style=style))
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
    names = list(dict.fromkeys(run.metrics[0].experiment for run in runs))
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    page = Page(out, f"Report: {', '.join(names[:MOST_NAMES])}{more}")
    page.discard("runs-*")
    count = f"{len(runs)} finished run" + "s" * (len(runs) > 1)
    page.introduction.append(f"{count}. {_best(runs)}{ABOUT}")
    sections = [page.table("runs", "Errors", runs_table(runs))]
    for k, (title, block) in enumerate(runs_by_data(runs), start=1):
        sections.append(page.figure(f"runs-{k}", title, plot_runs(block), CAPTION))
    page.chapters.append(Chapter("Your runs", sections))
    if add_chapters is not None:
        add_chapters(page, folders, runs)
    if unfinished := find_unfinished(folders):
        listed = html.escape(", ".join(unfinished))
        page.introduction.append(f"Not finished yet, and left out: {listed}.")
    return page.write()


def runs_table(runs: Sequence[Run]) -> Table:
    """Every run with its task, its errors and its training."""
    lines, machines = [], defaultdict[str, list[str]](list)
    for run in sorted(runs, key=lambda run: (run.metrics[0].experiment, run.resolution)):
        first, last, machine = run.metrics[0], run.history[-1:], run.environment
        errors = [number(_error(run, split)) for split in SPLITS]
        if errors[0] == MISSING and last:  # `pdno.fit` measures no other one
            errors[0] = f"{number(last[0].train)}*"
        single = len({metric.model for metric in run.metrics}) == 1
        mode = first.metadata.mode or MISSING
        about = [run.model, mode, str(run.seed)] if single else [MISSING, mode, MISSING]
        parameters = f"{first.parameters:,}" if single and first.parameters else MISSING
        counts = (last[0].epoch if last else None, first.metadata.samples)
        epochs, samples = (MISSING if count is None else str(count) for count in counts)
        effort = [parameters, epochs, samples, number(first.seconds), run.folder.name]
        lines.append((first.experiment, str(run.resolution), *about, *errors, *effort))
        if {"torch", "device", "threads"} <= set(machine):
            words = "torch {torch}, {device}, {threads} threads".format(**machine)
            machines[words].append(run.folder.name)
    several = len(machines) > 1
    notes = [f"{m}: {', '.join(names)}" if several else m for m, names in machines.items()]
    if any("*" in cell for line in lines for cell in line):
        notes.append("*: mean over the last epoch, each batch before its update")
    effort = ["parameters", "epochs", "samples", "seconds", "folder"]
    head = ("data", "s", "network", "task", "seed", *SPLITS, *effort)
    return Table(head, tuple(lines), tuple(f"{note}." for note in notes))


def _best(runs: Sequence[Run]) -> str:
    errors = {run: error for run in runs if (error := _error(run, "test")) is not None}
    if not errors or len({run.metrics[0].experiment for run in runs}) > 1:
        return ""
    run = min(errors, key=lambda run: errors[run])
    which = html.escape(f"{run.model} ({run.folder.name})")
    return f"Smallest test error: {number(errors[run])}, {which}. "


def _error(run: Run, split: str) -> float | None:
    wanted = (run.resolution, split, ERROR)
    values = (m.value for m in run.metrics if (m.resolution, m.split, m.metric) == wanted)
    return next(values, None)


def runs_by_data(runs: Sequence[Run]) -> Iterator[tuple[str, list[Run]]]:
    """The first seed of every network, those of the same data and grid together, with a title."""
    run_of = {id(metric): run for run in runs for metric in run.metrics}
    networks = by_network(metric for run in runs for metric in run.metrics)
    shown = dict.fromkeys(run_of[id(network.metrics[0])] for network in networks)
    blocks = defaultdict[tuple[str, int], list[Run]](list)
    for run in sorted(shown, key=lambda run: run.model):
        if run.history or run.array_names:
            blocks[run.metrics[0].experiment, run.resolution].append(run)
    for (name, points), block in sorted(blocks.items()):
        for start in range(0, len(block), MOST_ROWS):
            yield f"{name}, s = {points}", block[start : start + MOST_ROWS]


@figure_style()
def plot_runs(runs: Sequence[Run]) -> Figure:
    """A row for each run, as `CAPTION` describes it."""
    samples = [_sample(run) for run in runs]
    worst = fields.signed(*(panels[-1].values for panels in samples if panels))
    rows = [
        [*panels[:-1], *(error._replace(style=worst) for error in panels[-1:])]
        for panels in samples
    ]
    for row, run in zip(rows, runs, strict=True):
        for a in symbol_values(run)[:1]:
            style, low = fields.signed(a[0, 0]), fields.lowest_modes(a)
            row.append(fields.Panel("Re a2_11", a[0, 0], style, low))
    columns = 1 + max(map(len, rows))
    figure = Figure(figsize=(max(1.95 * columns, 5.0), 1.85 * len(runs) + 0.2))
    axes = figure.subplots(len(runs), columns, squeeze=False)
    for run, (first, *others), panels in zip(runs, axes, rows, strict=True):
        errors = {k: [(row.epoch, getattr(row, k)) for row in run.history] for k in SPLITS}
        draw_training(first, errors)
        first.set_title(f"{run.model}\ntest error {number(_error(run, 'test'))}", fontsize=8)
        first.set_ylabel("relative L2 error", fontsize=8)
        fields.draw_panels([others], [panels])
    return figure


def _sample(run: Run) -> list[fields.Panel]:
    """Panels of the first sample: first channel, last time; none where nothing was kept."""
    if "prediction" not in run.array_names:
        return []
    inputs, *both = (run.array(name)[0] for name in ("input", "target", "prediction"))
    # the frames of a window are channels: the last is the newest
    last, at = (0, "") if run.times is None else (-1, f", t = {run.times[-1]:g}")
    before, after = ([name.replace("_", " ") for name in names] for names in run.channels)
    target, prediction = (f[:1] if run.times is None else f[-1:, 0] for f in both)
    panels = [panel.at(0) for panel in fields.panels_of(after[0] + at, target, prediction)]
    size = float(np.linalg.norm(panels[-1].values) / np.linalg.norm(target))
    panels[-1] = panels[-1]._replace(title=f"error, {size:.3g}")
    return [fields.Panel(before[last], inputs[last], fields.field_style(inputs[last])), *panels]


def symbol_values(run: Run) -> list[fields.Array]:
    """Re a2 of each block for a few channel pairs, (O, I, *modes), centred in ξ."""
    blocks = {int(n.split(".")[1]): n for n in run.array_names if n.endswith(".real")}
    return [fields.centred(run.array(name)) for _, name in sorted(blocks.items())]
