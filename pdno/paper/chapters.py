"""The chapters of a report on the paper: its claims, tables and figures, filled by runs."""

import html
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from pdno.data.problems import PROBLEMS
from pdno.paper import figures_errors, figures_fields, tables
from pdno.paper.claims import CLAIMS, Assessment, assess, claims_table
from pdno.paper.published import SOURCE, Budget, describe_budgets
from pdno.paper.results import Exhibit, Results
from pdno.paper.tables import SYMBOL_COMMAND, command_of
from pdno.report.page import Chapter, Page, Section
from pdno.report.tables import MISSING, Table, html_note
from pdno.runs.run import Run

LINK = "https://arxiv.org/abs/2201.11967"


def _exhibits(*modules: ModuleType) -> list[Exhibit]:
    """Those of the paper by their number, then ours as they stand in the modules."""
    exhibits = [x for module in modules for x in vars(module).values() if isinstance(x, Exhibit)]
    return sorted(exhibits, key=lambda x: (not x.number, x.key if x.number else ""))


TABLES = _exhibits(tables)
FIGURES = _exhibits(figures_errors, figures_fields)


def add_paper_chapters(page: Page, folders: Sequence[Path], runs: Sequence[Run]) -> None:
    """Add what runs of the paper's experiments fill, and the commands that fill the rest."""
    every = (*TABLES, *FIGURES)
    for exhibit in every:
        page.discard(exhibit.key)
    results = Results.of(runs, folders)
    ours = [n.metadata for x in every for study in x.studies for n in results.study(study)]
    if not results.resources and not any(m.of_paper or m.study not in PROBLEMS for m in ours):
        return
    assessments = [assess(claim, results) for claim in CLAIMS]
    tested = [a for a in assessments if a.answer != "not tested here"]
    claims = page.table("claims", "Claims", claims_table(assessments))
    claims = claims._replace(body=claims_table(tested).html())
    page.chapters.append(Chapter("Claims of the paper", [claims] * bool(tested)))
    sections = {exhibit.key: _section(page, exhibit, results) for exhibit in every}
    for title, exhibits in (
        ("Tables of the paper", TABLES),
        ("Figures of the paper", [x for x in FIGURES if x.number]),
        ("More figures", [x for x in FIGURES if not x.number]),
    ):
        made = [section for x in exhibits if (section := sections[x.key])]
        page.chapters.append(Chapter(title, made))
    missing = [x for x in every if sections[x.key] is None]
    if rest := _not_run(missing, [a for a in assessments if a not in tested]):
        page.chapters.append(Chapter("Not run", [rest]))
    page.title = "Pseudo-differential neural operators: report"
    page.introduction.append(
        f'The paper: <a href="{LINK}">{SOURCE}</a>. A budget is the amount of training: '
        "paper is as much as in the paper, small is less, smoke shows only that all runs."
    )
    left_out = [run.folder.name for n in results.left_out if (run := results.run(n))]
    if left_out:
        why = "Not in the tables of the paper, as there are larger trainings of the same"
        page.introduction.append(f"{why}: {html.escape(', '.join(sorted(left_out)))}.")


def _section(page: Page, exhibit: Exhibit, results: Results) -> Section | None:
    """A table or figure with the commands that make such runs and the budget of its runs."""
    made = exhibit(results)
    if made is None:
        return None
    networks = {study: ours for study in exhibit.studies if (ours := results.study(study))}
    codes, budgets = list[str](), list[tuple[str, Budget]]()
    for study, ours in networks.items():
        some = [(study if len(networks) > 1 else n.model, Budget.of(n)) for n in ours]
        codes.append(_code(study, *sorted({budget.level for _, budget in some})))
        budgets += some
    if not codes:
        codes = [_code(s) for s in exhibit.studies if s in ("resources", SYMBOL_COMMAND)]
    note = f"Such runs: {', '.join(codes)}." if codes else ""
    if budgets:
        note += f" Budget: {html.escape(describe_budgets(budgets))}."
    note = f'<p class="origin">{note}</p>'
    if isinstance(made, Table):
        return page.table(exhibit.key, exhibit.heading, made, note)
    return page.figure(exhibit.key, exhibit.heading, made, exhibit.caption, note)


def _not_run(missing: Sequence[Exhibit], untested: Sequence[Assessment]) -> Section | None:
    """One folded list of the tables, figures and claims that other runs would fill."""
    lines = [f"{html.escape(x.heading)}: {' or '.join(map(_code, x.studies))}" for x in missing]
    for claim, _, numbers, budget in untested:
        why = f"It {numbers}." if budget == MISSING else f"{numbers} ({budget})"
        lines.append(f"Claim, {claim.reference}: {html.escape(claim.text)} {html_note(why)}")
    if not lines:
        return None
    head = f"{len(missing)} tables and figures and {len(untested)} claims of the paper"
    items = "".join(f"<li>{line}</li>\n" for line in lines)
    body = f"<details><summary>{head}, with their commands</summary><ul>\n{items}</ul></details>"
    return Section("not-run", "What other runs would fill", body)


def _code(study: str, *presets: str) -> str:
    commands = [command_of(study, preset=preset) for preset in presets or ("small",)]
    return " and ".join(f"<code>{html.escape(command)}</code>" for command in commands)
