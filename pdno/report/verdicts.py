"""Verdicts: what our runs say of the claims of the paper.

A verdict is "holds", "does not hold" or "not tested here", with the numbers and the budget of the
runs that it rests on. Runs of a handful of samples test nothing.
"""

__all__ = ["Answer", "Verdict", "claims_table", "judge"]

from dataclasses import dataclass
from typing import Literal

from pdno.report.budget import describe_budgets, lowest_level
from pdno.report.claims import CLAIMS, Claim
from pdno.report.commands import command_of
from pdno.report.groups import Results
from pdno.report.table import MISSING, Table

Answer = Literal["holds", "does not hold", "not tested here"]


@dataclass(frozen=True)
class Verdict:
    """What our runs say of a claim.

    Arguments:
        claim: The claim.
        answer: The verdict.
        numbers: What it rests on, or what is missing.
        budget: Of the runs.
    """

    claim: Claim
    answer: Answer
    numbers: str
    budget: str


def judge(claim: Claim, results: Results) -> Verdict:
    """The verdict of one claim."""
    finding = None if claim.judge is None else claim.judge(results)
    if finding is None:
        commands = " and ".join(command_of(study, preset=claim.preset) for study in claim.studies)
        need = f"needs {commands}" if commands else "run folders hold no certificates"
        return Verdict(claim, "not tested here", need, MISSING)
    budgets = [(group.model, group.budget) for group in finding.groups]
    budget = finding.budget or describe_budgets(budgets)
    if lowest_level(one for _, one in budgets) == "smoke":
        return Verdict(claim, "not tested here", finding.numbers, f"{budget}: tests nothing")
    return Verdict(claim, "holds" if finding.holds else "does not hold", finding.numbers, budget)


def claims_table(results: Results) -> Table:
    """All verdicts."""
    verdicts = [judge(claim, results) for claim in CLAIMS]
    head = ("claim", "in the paper", "verdict", "numbers", "budget")
    lines = [(v.claim.text, v.claim.place, v.answer, v.numbers, v.budget) for v in verdicts]
    notes = (
        "Verdicts are of our runs at their budget, not of the paper: a claim that does not hold "
        "with less training may hold with more, and the other way round.",
    )
    strong = frozenset((k, 2) for k, verdict in enumerate(verdicts) if verdict.answer == "holds")
    return Table(head, tuple(lines), notes, strong)
