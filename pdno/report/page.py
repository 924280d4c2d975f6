"""The report of some run folders: tables, figures and one page, from the folders alone.

    OUT/report.html            everything in one file
    OUT/tables/KEY.md, .tex    each table, and the verdicts
    OUT/figures/KEY.png, .pdf  each figure
    OUT/rows.csv               all rows that it rests on

The same runs give the same bytes. The page needs no network and no script, and is readable on a
phone and on paper. `TABLES` and `FIGURES` are the entries of the modules; where the runs are
missing the page shows a gap with the command that fills it.
"""

__all__ = ["FIGURES", "TABLES", "write_report"]

import base64
import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from pdno.atomic import write_text
from pdno.evaluation.rows import write_rows
from pdno.report import figures_errors, figures_fields, figures_symbols, tables
from pdno.report.claims import claims_table
from pdno.report.published import SOURCE
from pdno.report.runs import Results, describe_budgets, find_runs, find_unfinished
from pdno.report.style import Entry, Figure, save_figure
from pdno.report.tables import MISSING, Table, command_of, html_note, number


def _entries(*modules: ModuleType) -> list[Entry]:
    """Those of the paper by their number, then ours as they stand in the modules."""
    found = [one for module in modules for one in vars(module).values() if isinstance(one, Entry)]
    return sorted(found, key=lambda entry: (not entry.number, entry.key if entry.number else ""))


TABLES = _entries(tables)
FIGURES = _entries(figures_fields, figures_errors, figures_symbols)


def write_report(runs: Sequence[Path], out: Path) -> Path:
    """Write tables, figures and the page, and return the page; it replaces an older one in `out`.

    `runs` are run folders, studies, or parents of studies.
    """
    places = [Path(place) for place in runs]
    results = Results(tuple(find_runs(places)))
    for folder in ("tables", "figures"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    write_rows(out / "rows.csv", (row for record in results.records for row in record.rows))
    verdicts = _write_table(claims_table(results), out, "verdicts")
    chapters = {
        "Verdicts": [Section("verdicts", "The claims of the paper", verdicts)],
        "Tables of the paper": [_section(entry, results, out) for entry in TABLES],
        "Figures of the paper": [_section(e, results, out) for e in FIGURES if e.number],
        "More figures": [_section(e, results, out) for e in FIGURES if not e.number],
        "Runs": [Section("runs", "The runs behind this report", _runs_table(results).html())],
    }
    target = out / "report.html"
    write_text(target, _page(_introduction(results, places), chapters))
    return target


class Section(NamedTuple):
    """Anchor, heading and HTML of a part of the page, and what the contents say of it."""

    key: str
    title: str
    body: str
    mark: str = ""


def _section(entry: Entry, results: Results, out: Path) -> Section:
    """A table or figure, written, with the commands behind it and the budget of its runs."""
    made = entry(results)
    title = f"{entry.number}. {entry.title}" if entry.number else entry.title
    if made is None:
        # what an older report with more runs made is not of this one
        for path in (*out.glob(f"figures/{entry.key}.*"), *out.glob(f"tables/{entry.key}.*")):
            path.unlink()
        fill = " or ".join(map(_code, entry.studies))
        gap = f"Gap: the data are not among the runs. Fill it with {fill}."
        return Section(entry.key, title, f'<p class="gap">{gap}</p>', " (gap)")
    if isinstance(made, Table):
        body = _write_table(made, out, entry.key)
    else:
        body = _write_figure(made, out, entry)
    known = {study: results.study(study) for study in entry.studies}
    several = sum(map(bool, known.values())) > 1
    groups = [(study, group) for study in known for group in known[study]]
    budgets = [(study if several else group.model, group.budget) for study, group in groups]
    named = [_code(study) for study in known if known[study] or study == "resources"]
    origin = f"Data: {', '.join(named)}." if named else ""
    budget = f" Budget: {html.escape(describe_budgets(budgets))}." if budgets else ""
    return Section(entry.key, title, f'{body}<p class="origin">{origin}{budget}</p>')


def _code(study: str) -> str:
    return f"<code>{html.escape(command_of(study))}</code>"


def _write_table(made: Table, out: Path, key: str) -> str:
    write_text(out / "tables" / f"{key}.md", made.markdown())
    write_text(out / "tables" / f"{key}.tex", made.latex())
    return made.html()


def _write_figure(made: Figure, out: Path, entry: Entry) -> str:
    """Both files, and the picture inside the page with the text that a screen reader says."""
    path = save_figure(made, out / "figures" / f"{entry.key}.png")
    # the places are found; finding them again takes half of the time
    made.set_layout_engine("none")
    save_figure(made, path.with_suffix(".pdf"))
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    return (
        f'<figure><img src="data:image/png;base64,{data}" alt="{html.escape(entry.title)}">\n'
        f"<figcaption>{html_note(entry.caption)}</figcaption></figure>\n"
    )


def _introduction(results: Results, places: Sequence[Path]) -> list[str]:
    count = len(results.records)
    sentences = [
        f"Made from {count} finished run{'s' if count > 1 else ''}; every number is of a run "
        "folder or, where it says so, of the paper. Errors are relative L2, means over the test "
        "samples, and ± is the standard deviation over seeds. A budget says how much training "
        "the runs had: smoke tests nothing, small is less than the paper's, paper is as much."
    ]
    if left_out := ", ".join(sorted(group.folder.name for group in results.left_out)):
        sentences.append(f"Left out, as larger trainings of the same are there: {left_out}.")
    if unfinished := find_unfinished(places):
        sentences.append(f"Not finished yet, and left out: {', '.join(unfinished)}.")
    return sentences


def _runs_table(results: Results) -> Table:
    """All runs with their budget and machine."""
    head = ("run", "seed", "parameters", "epochs", "training samples", "seconds", "where")
    lines = []
    for run in results.records:
        settings, row, machine = run.specification, run.rows[0], run.environment
        counted = f"{row.parameters:,}" if settings and row.parameters is not None else MISSING
        epochs = f"{run.history[-1]['epoch']:.0f}" if run.history else MISSING
        known = {"torch", "device", "threads"} <= set(machine)
        words = "torch {torch}, {device}, {threads} threads"
        had = (counted, epochs, str(settings.get("train", MISSING)), number(row.seconds))
        where = words.format(**machine) if known else MISSING
        seed = str(run.seed) if settings else MISSING
        lines.append((run.folder.name, seed, *had, where))
    return Table(head, tuple(lines))


LINK = "https://arxiv.org/abs/2201.11967"
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
.gap { border: 2px dashed #b35900; background: #fff7ee; padding: 0.75rem; margin: 0; } @media print
{ body { max-width: none; padding: 0; font-size: 10pt; } nav { display: none; } .wide { overflow:
visible; } table { font-size: 7pt; min-width: 0; } h3 { break-after: avoid; } }
"""


def _page(introduction: Sequence[str], chapters: Mapping[str, Sequence[Section]]) -> str:
    """The whole file: sentences at the top, the contents, then the sections by chapter."""
    words = "".join(f"<p>{html.escape(sentence)}</p>\n" for sentence in introduction)
    contents = body = ""
    for chapter, sections in chapters.items():
        body += f"<h2>{chapter}</h2>\n"
        for key, title, text, mark in sections:
            name = html.escape(title)
            contents += f'<li><a href="#{key}">{name}</a>{mark}</li>\n'
            body += f'<section id="{key}">\n<h3>{name}</h3>\n{text}\n</section>\n'
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,">\n<title>{TITLE}</title>\n<style>{STYLE}</style>\n'
        f"</head>\n<body>\n<h1>{TITLE}</h1>\n"
        f'<p>The paper: <a href="{LINK}">{SOURCE}</a>.</p>\n{words}'
        f"<nav><h2>Contents</h2><ul>\n{contents}</ul></nav>\n<main>\n{body}</main>\n"
        "</body>\n</html>\n"
    )
