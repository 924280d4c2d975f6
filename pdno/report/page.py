"""The report of some run folders: tables, figures and one page, from the folders alone.

    OUT/report.html            everything in one file
    OUT/tables/KEY.md, .tex    each table, and the verdicts
    OUT/figures/KEY.png, .pdf  each figure
    OUT/rows.csv               all rows that it rests on

The same runs give the same bytes. The page needs no network and no script, and is readable on a
phone and on paper. `TABLES` and `FIGURES` are all that it has: an entry knows how to make itself
and which experiments make its data; where the runs are missing the page shows a gap with the
command that fills it.
"""

__all__ = ["FIGURES", "TABLES", "Entry", "write_report"]

import base64
import html
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from pdno.atomic import write_text
from pdno.evaluation.rows import write_rows
from pdno.report import figures_errors as errors
from pdno.report import figures_fields as fields
from pdno.report import figures_heat as heat
from pdno.report import figures_symbols as symbols
from pdno.report import tables
from pdno.report.claims import claims_table
from pdno.report.published import SOURCE
from pdno.report.runs import Results, RunRecord, describe_budgets, find_runs, find_unfinished
from pdno.report.style import save_figure
from pdno.report.table import MISSING, SYMBOL_COMMAND, Table, command_of, html_note, number


class Entry(NamedTuple):
    """A table or a figure of the report.

    Arguments:
        key: Name of its files.
        number: In the paper; empty for ours.
        studies: The experiments that it is made of; one of them is enough.
        make: The table or figure, or None where the runs are missing.
        title: What it shows.
    """

    key: str
    number: str
    studies: tuple[str, ...]
    make: Callable[[Results], Table | Figure | None]
    title: str = ""


def _titled(entries: Mapping[str, Entry]) -> tuple[Entry, ...]:
    return tuple(entry._replace(title=title) for title, entry in entries.items())


HEAT, DARCY, FLOW, BURGERS = ("heat",), ("darcy",), ("navier-stokes",), ("burgers",)
SEVERAL = ("darcy", "navier-stokes", "burgers")
EVERY = errors.STUDIES

TABLES = _titled(
    {
        "Darcy flow": Entry("table-1-darcy", "Table 1", DARCY, tables.darcy_table),
        "Navier-Stokes": Entry(
            "table-2-navier-stokes", "Table 2", FLOW, tables.navier_stokes_table
        ),
        "Burgers' equation": Entry("table-3-burgers", "Table 3", BURGERS, tables.burgers_table),
        "Settings of PDNO": Entry("table-5-settings", "Table 5", EVERY, tables.settings_table),
        "Memory, parameters and time": Entry(
            "table-6-resources", "Table 6", ("resources",), tables.resource_table
        ),
    }
)
FIGURES = _titled(
    {
        "Error by time, training and test": Entry(
            "figure-01-error-by-time", "Figure 1", FLOW, errors.plot_error_by_time
        ),
        "The operator": Entry(
            "figure-02-operator", "Figure 2", tuple(symbols.AXES), symbols.plot_operator
        ),
        "Learned and exact symbol of the heat equation": Entry(
            "figure-03-heat-symbol", "Figure 3", HEAT, heat.plot_heat_symbol
        ),
        "One test sample at the last time": Entry(
            "figure-04-samples", "Figure 4", FLOW, partial(fields.plot_comparison, study=FLOW[0])
        ),
        "Learned symbols Re a_ij(ξ) of PDNO and FNO": Entry(
            "figure-05-symbols", "Figure 5", FLOW, symbols.plot_symbols
        ),
        "A block with several channels": Entry(
            "figure-06-block",
            "Figure 6",
            ("navier-stokes", "darcy", "burgers"),
            symbols.plot_block,
        ),
        "Dependence of the learned heat symbol on x": Entry(
            "figure-07-heat-space", "Figure 7", HEAT, heat.plot_heat_space
        ),
        "Exact and predicted solution of the heat equation": Entry(
            "figure-08-heat-surfaces", "Figure 8", HEAT, heat.plot_heat_surfaces
        ),
        "Kept modes k_max on Darcy flow": Entry(
            "figure-09-modes", "Figure 9", ("darcy-modes",), errors.plot_modes
        ),
        "Channels on Navier-Stokes": Entry(
            "figure-10-width", "Figure 10", ("navier-stokes-width",), errors.plot_width
        ),
        "GELU and ReLU in the symbol networks on Darcy flow": Entry(
            "figure-11-activation", "Figure 11", ("darcy-activation",), errors.plot_activation
        ),
        "The test sample with the lowest mean error over the networks": Entry(
            "figure-12-lowest", "Figure 12", FLOW, partial(fields.plot_frames, choice="lowest")
        ),
        "The test sample with the highest mean error over the networks": Entry(
            "figure-13-highest", "Figure 13", FLOW, partial(fields.plot_frames, choice="highest")
        ),
        "One Darcy test sample": Entry(
            "darcy-sample", "", DARCY, partial(fields.plot_comparison, study="darcy")
        ),
        "One Burgers test sample": Entry("burgers-sample", "", BURGERS, fields.plot_curves),
        "Cost against accuracy": Entry("cost", "", SEVERAL, errors.plot_cost),
        "Other resolutions without training": Entry(
            "resolutions", "", SEVERAL, errors.plot_resolutions
        ),
        "Error by frequency": Entry("bands", "", EVERY, errors.plot_bands),
        "Training curves": Entry("training", "", EVERY, errors.plot_training),
        "Certificates of the symbol class": Entry(
            "certificates", "", (SYMBOL_COMMAND,), symbols.plot_certificates
        ),
    }
)
TIME = "t is the physical time; the paper counts frames from 0, so its index is t − 1."
FRAME = f"The number is the relative L2 error of the frame. {TIME}"
MEDIAN = "The sample with the median of the mean error over the networks"
CAPTIONS = {
    "figure-01-error-by-time": "Navier-Stokes, ν = 1e-5. Solid: test, dashed: training. " + TIME,
    "figure-02-operator": "Drawn from the specification of a run, with the sizes of its symbol "
    "networks.",
    "figure-03-heat-symbol": "The first two share their colours. Of a mode that the data do not "
    "excite nothing is learned.",
    "figure-04-samples": f"{MEDIAN}; the number is the relative L2 error of this frame. {TIME}",
    "figure-05-symbols": "Each panel has its own symmetric range, printed above it. Only kept "
    "modes are shown.",
    "figure-06-block": "Drawn from the specification of a run.",
    "figure-07-heat-space": "The exact symbol does not depend on x: every curve should be 1.",
    "figure-08-heat-surfaces": "The first test sample; half of the times were not in training.",
    "figure-09-modes": "Lines across are other networks at the same resolution, where `pdno "
    "reproduce darcy` ran at it. The list of k_max is ours.",
    "figure-10-width": "PDNO a(ξ) and FNO without truncation. The list of channels is ours.",
    "figure-11-activation": "Full colour: test, pale: training.",
    "figure-12-lowest": FRAME,
    "figure-13-highest": FRAME,
    "darcy-sample": f"{MEDIAN}.",
    "burgers-sample": f"{MEDIAN}; numbers are relative L2 errors.",
    "cost": "Lower left is better. Times compare only where the runs shared a machine.",
    "resolutions": "Dotted: the prediction on the grid of the training, interpolated. A network "
    "that only matches it has learned nothing finer.",
    "bands": "Bands of modes by max |ξ_j|; the squares of a network's values add up to about its "
    "squared error.",
    "training": "Solid: test error after the epoch, dashed: training error during it. First seed.",
    "certificates": "Largest |Δ^α a| ⟨ξ⟩^(|α| − m) of the first block against |ξ|: bounded curves "
    "are those of S^m. For the runs that `pdno symbol RUN` has looked into.",
}
"""How to read the figures, by the names of their files."""


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
    _write_table(verdicts, out, "verdicts")
    of_paper = [entry for entry in FIGURES if entry.number]
    ours = [entry for entry in FIGURES if not entry.number]
    chapters = [
        ("Verdicts", [Section("verdicts", "The claims of the paper", verdicts.html())]),
        ("Tables of the paper", [_section(entry, results, out) for entry in TABLES]),
        ("Figures of the paper", [_section(entry, results, out) for entry in of_paper]),
        ("More figures", [_section(entry, results, out) for entry in ours]),
        ("Runs", [Section("runs", "The runs behind this report", _runs_table(results).html())]),
    ]
    target = out / "report.html"
    write_text(target, _page(_introduction(results, places), chapters))
    return target


class Section(NamedTuple):
    """Anchor, heading and HTML of a part of the page, and whether it is a gap."""

    key: str
    title: str
    body: str
    is_gap: bool = False

    def html(self) -> str:
        """The part with its heading."""
        head = f'<section id="{self.key}">\n<h3>{html.escape(self.title)}</h3>\n'
        return f"{head}{self.body}\n</section>\n"


def _section(entry: Entry, results: Results, out: Path) -> Section:
    """A table or figure, written, with the commands behind it and the budget of its runs."""
    made = entry.make(results)
    title = f"{entry.number}. {entry.title}" if entry.number else entry.title
    if made is None:
        # what an older report with more runs made is not of this one
        for ending in ("figures/{}.png", "figures/{}.pdf", "tables/{}.md", "tables/{}.tex"):
            (out / ending.format(entry.key)).unlink(missing_ok=True)
        fill = " or ".join(_code(study) for study in entry.studies)
        gap = f"Gap: the data are not among the runs. Fill it with {fill}."
        return Section(entry.key, title, f'<p class="gap">{gap}</p>', is_gap=True)
    if isinstance(made, Table):
        _write_table(made, out, entry.key)
        body = made.html()
    else:
        body = _write_figure(made, out, entry)
    known = {study: results.study(study) for study in entry.studies}
    several = sum(bool(groups) for groups in known.values()) > 1
    budgets = [
        (study if several else group.model, group.budget)
        for study, groups in known.items()
        for group in groups
    ]
    named = [_code(study) for study in known if known[study] or study == "resources"]
    origin = f"Data: {', '.join(named)}." if named else ""
    budget = f" Budget: {html.escape(describe_budgets(budgets))}." if budgets else ""
    return Section(entry.key, title, f'{body}<p class="origin">{origin}{budget}</p>')


def _code(study: str) -> str:
    return f"<code>{html.escape(command_of(study))}</code>"


def _write_table(made: Table, out: Path, key: str) -> None:
    write_text(out / "tables" / f"{key}.md", made.markdown())
    write_text(out / "tables" / f"{key}.tex", made.latex())


def _write_figure(made: Figure, out: Path, entry: Entry) -> str:
    """Both files, and the picture inside the page with the text that a screen reader says."""
    path = save_figure(made, out / "figures" / f"{entry.key}.png")
    # the places are found; finding them again takes half of the time
    made.set_layout_engine("none")
    save_figure(made, path.with_suffix(".pdf"))
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    return (
        f'<figure><img src="data:image/png;base64,{data}" alt="{html.escape(entry.title)}">\n'
        f"<figcaption>{html_note(CAPTIONS[entry.key])}</figcaption></figure>\n"
    )


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


def _runs_table(results: Results) -> Table:
    """All runs with their budget and machine."""
    head = ("run", "seed", "parameters", "epochs", "training samples", "seconds", "where")
    return Table(head, tuple(_run_line(record) for record in results.records))


def _run_line(record: RunRecord) -> tuple[str, ...]:
    settings, row, machine = record.specification, record.rows[0], record.environment
    known = {"torch", "device", "threads"} <= set(machine)
    words = "torch {torch}, {device}, {threads} threads".format(**machine) if known else MISSING
    return (
        record.folder.name,
        str(record.seed) if settings else MISSING,
        f"{row.parameters:,}" if settings and row.parameters is not None else MISSING,
        f"{record.history[-1]['epoch']:.0f}" if record.history else MISSING,
        str(settings.get("train", MISSING)),
        number(row.seconds),
        words,
    )


LINK = "https://arxiv.org/abs/2201.11967"
TITLE = "Pseudo-differential neural operators: report"
STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 1rem/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 0 auto;
  padding: 1rem; max-width: 62rem; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.2; }
h2 { font-size: 1.3rem; margin-top: 2.5rem; border-bottom: 1px solid #ccc; }
h3 { font-size: 1.05rem; margin: 2rem 0 0.5rem; }
a { color: #00558c; }
nav ul { columns: 20rem; padding-left: 1.2rem; font-size: 0.9rem; }
nav li { break-inside: avoid; }
code { background: #f2f2f2; padding: 0.1rem 0.3rem; border-radius: 3px; font-size: 0.9em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; min-width: 40rem; font-size: 0.82rem;
  font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: 0.25rem 0.6rem 0.25rem 0; }
thead th { border-bottom: 2px solid #444; }
tbody td { border-bottom: 1px solid #ddd; }
figure { margin: 0; break-inside: avoid; }
img { max-width: 100%; height: auto; }
figcaption, .note, .origin { font-size: 0.85rem; color: #444; }
.gap { border: 2px dashed #b35900; background: #fff7ee; padding: 0.75rem; margin: 0; }
@media print { body { max-width: none; padding: 0; font-size: 10pt; } nav { display: none; }
  .wide { overflow: visible; } table { font-size: 7pt; min-width: 0; } h3 { break-after: avoid; } }
"""


def _page(introduction: Sequence[str], chapters: Sequence[tuple[str, Sequence[Section]]]) -> str:
    """The whole file: sentences at the top, then titles and sections."""
    contents = "".join(
        f'<li><a href="#{section.key}">{html.escape(section.title)}</a>'
        + (" (gap)" if section.is_gap else "")
        + "</li>\n"
        for _, sections in chapters
        for section in sections
    )
    body = "".join(
        f"<h2>{html.escape(title)}</h2>\n" + "".join(section.html() for section in sections)
        for title, sections in chapters
    )
    words = "".join(f"<p>{html.escape(sentence)}</p>\n" for sentence in introduction)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,">\n<title>{TITLE}</title>\n<style>{STYLE}</style>\n'
        f"</head>\n<body>\n<h1>{TITLE}</h1>\n"
        f'<p>The paper: <a href="{LINK}">{SOURCE}</a>.</p>\n{words}'
        f"<nav><h2>Contents</h2><ul>\n{contents}</ul></nav>\n<main>\n{body}</main>\n"
        "</body>\n</html>\n"
    )
