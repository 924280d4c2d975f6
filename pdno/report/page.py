"""The report of some run folders: tables, figures and one page, from the folders alone.

    OUT/report.html            everything in one file
    OUT/tables/KEY.md, .tex    each table, and the verdicts
    OUT/figures/KEY.png, .pdf  each figure
    OUT/metrics.csv               all rows that it rests on

The same runs give the same bytes. The page needs no network and no script, and is readable on a
phone and on paper. It begins with the runs themselves; of the paper's tables, figures and claims
(`TABLES` and `FIGURES` are the entries of the modules) it shows what these runs fill, and one
folded list at the end says with which commands the rest is filled.
"""

__all__ = ["FIGURES", "TABLES", "write_report"]

import base64
import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from pdno.figures.style import Figure, save_figure
from pdno.files.atomic import write_text
from pdno.files.metric_table import write_metrics
from pdno.paper import figures_errors, figures_fields, figures_symbols, tables
from pdno.paper.claims import CLAIMS, Verdict, judge, verdicts_table
from pdno.paper.exhibits import Exhibit
from pdno.paper.published import SOURCE
from pdno.paper.tables import MISSING, SYMBOL_COMMAND, Table, command_of, html_note
from pdno.report.runs import Results, describe_budgets, find_runs, find_unfinished
from pdno.report.your_runs import run_entries, runs_table


def _entries(*modules: ModuleType) -> list[Exhibit]:
    """Those of the paper by their number, then ours as they stand in the modules."""
    found = [
        one for module in modules for one in vars(module).values() if isinstance(one, Exhibit)
    ]
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
    write_metrics(out / "metrics.csv", (row for record in results.records for row in record.rows))
    for old in out.glob("figures/runs-*"):
        old.unlink()
    verdicts = [judge(claim, results) for claim in CLAIMS]
    _write_table(verdicts_table(verdicts), out, "verdicts")
    tested = [verdict for verdict in verdicts if verdict.answer != "not tested here"]
    made = {entry.key: _section(entry, results, out) for entry in (*TABLES, *FIGURES)}
    numbered = [entry for entry in FIGURES if entry.number]
    chapters = {
        "Your runs": [
            Section("runs", "Errors", _write_table(runs_table(results), out, "runs")),
            *(_section(entry, results, out) for entry in run_entries(results)),
        ],
        "Claims of the paper": [
            Section("verdicts", "Verdicts", verdicts_table(tested).html()) if tested else None
        ],
        "Tables of the paper": [made[entry.key] for entry in TABLES],
        "Figures of the paper": [made[entry.key] for entry in numbered],
        "More figures": [made[entry.key] for entry in FIGURES if entry not in numbered],
        "Not run": [_not_run([v for v in verdicts if v not in tested], made)],
    }
    known = {name: [part for part in parts if part] for name, parts in chapters.items()}
    target = out / "report.html"
    write_text(target, _page(_introduction(results, places), known))
    return target


class Section(NamedTuple):
    """Anchor, heading and HTML of a part of the page."""

    key: str
    title: str
    body: str


def _section(entry: Exhibit, results: Results, out: Path) -> Section | None:
    """A table or figure, written, with the commands behind it and the budget of its runs."""
    made = entry(results)
    if made is None:
        # what an older report with more runs made is not of this one
        for path in (*out.glob(f"figures/{entry.key}.*"), *out.glob(f"tables/{entry.key}.*")):
            path.unlink()
        return None
    if isinstance(made, Table):
        body = _write_table(made, out, entry.key)
    else:
        body = _write_figure(made, out, entry)
    known = {study: results.study(study) for study in entry.studies}
    several = sum(map(bool, known.values())) > 1
    groups = [(study, group) for study in known for group in known[study]]
    budgets = [(study if several else group.model, group.budget) for study, group in groups]
    named = [_code(study, *sorted({g.budget.level for g in known[study]})) for study in known]
    shown = [code for study, code in zip(known, named, strict=True) if known[study]]
    shown = shown or [_code(study) for study in known if study in ("resources", SYMBOL_COMMAND)]
    origin = f"Such runs: {', '.join(shown)}." if shown else ""
    budget = f" Budget: {html.escape(describe_budgets(budgets))}." if budgets else ""
    return Section(entry.key, entry.heading, f'{body}<p class="origin">{origin}{budget}</p>')


def _not_run(untested: Sequence[Verdict], made: Mapping[str, Section | None]) -> Section | None:
    """One folded list of the tables, figures and claims that other runs would fill."""
    missing = [entry for entry in (*TABLES, *FIGURES) if made[entry.key] is None]
    lines = [
        f"{html.escape(entry.heading)}: {' or '.join(map(_code, entry.studies))}"
        for entry in missing
    ]
    for claim, _, numbers, budget in untested:
        why = f"It {numbers}." if budget == MISSING else f"{numbers} ({budget})"
        lines.append(f"Claim, {claim.place}: {html.escape(claim.text)} {html_note(why)}")
    if not lines:
        return None
    head = f"{len(missing)} tables and figures and {len(untested)} claims of the paper"
    items = "".join(f"<li>{line}</li>\n" for line in lines)
    body = f"<details><summary>{head}, with their commands</summary><ul>\n{items}</ul></details>"
    return Section("not-run", "What other runs would fill", body)


def _code(study: str, *presets: str) -> str:
    commands = [command_of(study, preset=preset) for preset in presets or ("small",)]
    return " and ".join(f"<code>{html.escape(command)}</code>" for command in commands)


def _write_table(made: Table, out: Path, key: str) -> str:
    write_text(out / "tables" / f"{key}.md", made.markdown())
    write_text(out / "tables" / f"{key}.tex", made.latex())
    return made.html()


def _write_figure(made: Figure, out: Path, entry: Exhibit) -> str:
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
        "samples, and ± is the standard deviation over seeds."
    ]
    studies = {study for entry in (*TABLES, *FIGURES) for study in entry.studies}
    if any(map(results.study, studies)):
        sentences.append(
            "A budget says how much training the runs had: smoke tests nothing, small is less "
            "than the paper's, paper is as much."
        )
    if left_out := ", ".join(sorted(group.folder.name for group in results.left_out)):
        sentences.append(
            f"Not in the tables of the paper, as larger trainings of the same "
            f"are there: {left_out}."
        )
    if unfinished := find_unfinished(places):
        sentences.append(f"Not finished yet, and left out: {', '.join(unfinished)}.")
    return sentences


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
details { font-size: 0.85rem; } summary { cursor: pointer; font-size: 1rem; } @media print { body {
max-width: none; padding: 0; font-size: 10pt; } nav { display: none; } .wide { overflow: visible; }
table { font-size: 7pt; min-width: 0; } h3 { break-after: avoid; } }
"""


def _page(introduction: Sequence[str], chapters: Mapping[str, Sequence[Section]]) -> str:
    """The whole file: sentences at the top, the contents, then the sections by chapter."""
    words = "".join(f"<p>{html.escape(sentence)}</p>\n" for sentence in introduction)
    contents = body = ""
    for chapter, sections in chapters.items():
        body += f"<h2>{chapter}</h2>\n" if sections else ""
        for key, title, text in sections:
            name = html.escape(title)
            contents += f'<li><a href="#{key}">{name}</a></li>\n'
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
