"""The page of a report: tables and figures as files, and all of them in one HTML file.

    OUT/report.html            everything in one file
    OUT/tables/KEY.md, .tex    each table
    OUT/figures/KEY.png, .pdf  each figure
    OUT/metrics.csv            all metrics that it rests on

The same runs give the same bytes. The page needs no network and no script, and is readable on a
phone and on paper.
"""

__all__ = ["Chapter", "Page", "Section", "write_report"]

import base64
import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pdno.figures.style import Figure, save_figure
from pdno.files.atomic import write_text
from pdno.files.metric_table import write_metrics
from pdno.report.own_runs import plot_runs, runs_by_data, runs_table
from pdno.report.tables import Table, html_note
from pdno.runs.run import Run, find_runs, find_unfinished

REPORT = "report.html"
TITLE = "Pseudo-differential neural operators: report"
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
    page = Page(out)
    page.discard("runs-*")
    count = f"{len(runs)} finished run" + ("s" if len(runs) > 1 else "")
    page.introduction.append(
        f"Made from {count}; every number is of a run folder or, where it says so, of the paper. "
        "Errors are relative L2, means over the test samples, and ± is the standard deviation "
        "over seeds."
    )
    figures = [
        page.figure(f"runs-{k}", title, plot_runs(block), _caption(plot_runs))
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


def _caption(function: Callable[..., Figure]) -> str:
    return " ".join((function.__doc__ or "").split())
