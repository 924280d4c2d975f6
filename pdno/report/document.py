"""The report of some run folders: tables, figures and one page, from the folders alone.

    OUT/report.html            everything in one file
    OUT/tables/KEY.md, .tex    each table, and the verdicts
    OUT/figures/KEY.png, .pdf  each figure
    OUT/rows.csv               all rows that it rests on

The same runs give the same bytes.
"""

__all__ = ["write_report"]

from collections.abc import Iterable, Sequence
from pathlib import Path

from pdno.atomic import write_text
from pdno.evaluation.rows import write_rows
from pdno.report.budget import describe_budgets
from pdno.report.commands import command_of
from pdno.report.contents import FIGURES, TABLES, FigureEntry, TableEntry
from pdno.report.groups import Results
from pdno.report.html import Section, page, picture_tag
from pdno.report.runs import RunRecord, find_runs, find_unfinished
from pdno.report.style import save_figure
from pdno.report.table import MISSING, Table, number
from pdno.report.verdicts import claims_table


def write_report(runs: Sequence[Path], out: Path) -> Path:
    """Write tables, figures and the page, and return the page.

    Arguments:
        runs: Run folders, studies, or parents of studies.
        out: Folder of the report; what an older report left there is replaced.
    """
    places = [Path(place) for place in runs]
    results = Results(tuple(find_runs(places)))
    for folder in ("tables", "figures"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    write_rows(out / "rows.csv", (row for record in results.records for row in record.rows))
    verdicts = claims_table(results)
    _write_table(out, "verdicts", verdicts)
    figures = [_figure_section(entry, results, out) for entry in FIGURES]
    of_paper = [section for section, entry in zip(figures, FIGURES, strict=True) if entry.number]
    ours = [section for section in figures if section not in of_paper]
    chapters = [
        ("Verdicts", [Section("verdicts", "The claims of the paper", verdicts.html(), ())]),
        ("Tables of the paper", [_table_section(entry, results, out) for entry in TABLES]),
        ("Figures of the paper", of_paper),
        ("More figures", ours),
        ("Runs", [Section("runs", "The runs behind this report", runs_table(results).html(), ())]),
    ]
    target = out / "report.html"
    write_text(target, page(_introduction(results, places), chapters))
    return target


def _table_section(entry: TableEntry, results: Results, out: Path) -> Section:
    made = entry.make(results)
    _write_table(out, entry.key, made)
    body = None if made is None else made.html()
    return _section(entry, results, body)


def _figure_section(entry: FigureEntry, results: Results, out: Path) -> Section:
    made = entry.make(results)
    paths = [out / "figures" / f"{entry.key}.{ending}" for ending in ("png", "pdf")]
    body = None
    if made is None:
        _remove(paths)
    else:
        save_figure(made, paths[0])
        # the places are found; finding them again takes half of the time
        made.set_layout_engine("none")
        save_figure(made, paths[1])
        body = picture_tag(paths[0], entry.title, entry.caption)
    return _section(entry, results, body)


def _section(entry: TableEntry | FigureEntry, results: Results, body: str | None) -> Section:
    """A table or figure with the commands behind it and the budget of its runs."""
    known = {study: results.study(study) for study in entry.studies}
    several = sum(bool(groups) for groups in known.values()) > 1
    budgets = [
        (study if several else group.model, group.budget)
        for study, groups in known.items()
        for group in groups
    ]
    # what is there names the runs that it has, a gap all that could fill it
    named = [study for study in known if known[study] or study == "resources"]
    return Section(
        entry.key,
        f"{entry.number}. {entry.title}" if entry.number else entry.title,
        body,
        tuple(command_of(study) for study in (entry.studies if body is None else named)),
        describe_budgets(budgets) if budgets else "",
    )


def _write_table(out: Path, key: str, made: Table | None) -> None:
    paths = [out / "tables" / f"{key}.{ending}" for ending in ("md", "tex")]
    if made is None:
        _remove(paths)
        return
    for path, text in zip(paths, (made.markdown(), made.latex()), strict=True):
        write_text(path, text)


def _remove(paths: Iterable[Path]) -> None:
    """What an older report with more runs made is not of this one."""
    for path in paths:
        path.unlink(missing_ok=True)


def _introduction(results: Results, places: Sequence[Path]) -> list[str]:
    count = len(results.records)
    sentences = [
        f"Made from {count} finished run{'s' if count > 1 else ''}; every number is of a run "
        "folder or, where it says so, of the paper. Errors are relative L2, means over the test "
        "samples, and ± is the standard deviation over seeds. A budget says how much training "
        "the runs had: smoke tests nothing, small is less than the paper's, paper is as much."
    ]
    if left_out := results.left_out:
        names = ", ".join(sorted(group.first.folder.name for group in left_out))
        sentences.append(f"Left out, as larger trainings of the same are there: {names}.")
    if unfinished := find_unfinished(places):
        sentences.append(f"Not finished yet, and left out: {', '.join(unfinished)}.")
    return sentences


def runs_table(results: Results) -> Table:
    """All runs with their budget and machine."""
    head = ("run", "seed", "parameters", "epochs", "training samples", "seconds", "where")
    return Table(head, tuple(_run_line(record) for record in results.records))


def _run_line(record: RunRecord) -> tuple[str, ...]:
    settings, row = record.specification, record.rows[0]
    machine = record.environment
    words = (
        f"torch {machine['torch']}, {machine['device']}, {machine['threads']} threads"
        if {"torch", "device", "threads"} <= set(machine)
        else MISSING
    )
    return (
        record.folder.name,
        str(record.seed) if settings else MISSING,
        f"{row.parameters:,}" if settings and row.parameters is not None else MISSING,
        f"{record.history[-1]['epoch']:.0f}" if record.history else MISSING,
        str(settings.get("train", MISSING)),
        number(row.seconds),
        words,
    )
