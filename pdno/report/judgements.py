"""Judgements: for each claim of the paper, what our rows say.

A judgement is None where the runs do not tell, and otherwise a finding: whether the claim holds,
the numbers and the runs that this rests on. Means over seeds are compared as they are; no claim of
the paper comes with an uncertainty.
"""

__all__ = [
    "Finding",
    "burgers_order",
    "burgers_space",
    "darcy_gap",
    "darcy_order",
    "heat_constant",
    "heat_error",
    "heat_symbol",
    "heat_times",
    "navier_stokes_best",
    "navier_stokes_gap",
    "navier_stokes_growth",
    "navier_stokes_lowest",
    "navier_stokes_one_shot",
]

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pdno.evaluation.rows import Summary
from pdno.report.groups import ERROR, Group, Results, of_family
from pdno.report.models import BASELINES, is_of_the_paper
from pdno.report.table import number, summary_text

NO_GAP = 1.1
"""Test error over training error up to which we see no gap."""
HEAT_ERROR = 0.01  # of the paper, section 5.1
SAME_SYMBOL = 0.1
"""Difference of symbols that a relative error of 0.01 allows, see pdno.evaluation."""
CONSTANT = 0.1
"""Standard deviation over x, relative to the mean, up to which we call a1 constant."""


@dataclass(frozen=True)
class Finding:
    """What our numbers say of a claim.

    Arguments:
        holds: Whether it holds.
        numbers: What that rests on.
        groups: The runs, for their budget.
        budget: The budget, where the numbers are of no training.
    """

    holds: bool
    numbers: str
    groups: tuple[Group, ...] = ()
    budget: str = ""


def _heat_below(metric: str, split_names: Sequence[str], limit: float) -> "Judge":
    def judge(results: Results) -> Finding | None:
        group = next(iter(results.shown("heat")), None)
        if group is None:
            return None
        found = {split: group.summary(split, metric) for split in split_names}
        known = {split: summary for split, summary in found.items() if summary is not None}
        if len(known) < len(found):
            return None
        text = ", ".join(f"{split} {summary_text(summary)}" for split, summary in known.items())
        holds = all(summary.mean < limit for summary in known.values())
        return Finding(holds, f"{metric}: {text}; limit {limit:g}", (group,))

    return judge


Judge = Callable[[Results], Finding | None]
heat_error = _heat_below(ERROR, ("train", "test"), HEAT_ERROR)
heat_times = _heat_below(f"{ERROR} other times", ("train", "test"), HEAT_ERROR)
heat_symbol = _heat_below("symbol difference excited", ("symbol",), SAME_SYMBOL)
heat_constant = _heat_below("symbol variation over x", ("symbol",), CONSTANT)


def darcy_order(results: Results) -> Finding | None:
    """PDNO a(x,ξ) < PDNO a(ξ) < MWT and FNO in test error, at every resolution that was run."""
    ranks = [("PDNO a(x,ξ)",), ("PDNO a(ξ)",), ("MWT Leg", "FNO")]
    return _ordered(results.by_resolution("darcy"), ranks)


def burgers_order(results: Results) -> Finding | None:
    """FNO has the lowest test error, at every resolution that was run."""
    others = ("PDNO a(x,ξ)", "PDNO a(ξ)", "MWT Leg", "MWT Chb")
    return _ordered(results.by_resolution("burgers"), [("FNO",), others])


def burgers_space(results: Results) -> Finding | None:
    """PDNO a(x,ξ) has a lower test error than PDNO a(ξ), at every resolution that was run."""
    return _ordered(results.by_resolution("burgers"), [("PDNO a(x,ξ)",), ("PDNO a(ξ)",)])


def _ordered(blocks: dict[int, list[Group]], ranks: Sequence[Sequence[str]]) -> Finding | None:
    """Whether the test errors of each rank are below those of the next, block by block."""
    texts, used, holds = [], [], True
    for points, groups in blocks.items():
        found = [_errors(groups, families) for families in ranks]
        present = [rank for rank in found if rank]
        if not found[0] or len(present) < 2:
            continue
        used += [group for rank in present for group, _ in rank]
        holds &= all(
            max(error.mean for _, error in rank) < min(error.mean for _, error in following)
            for rank, following in zip(present, present[1:], strict=False)
        )
        errors = ", ".join(f"{g.model} {summary_text(e)}" for rank in present for g, e in rank)
        families = [family for rank in ranks for family in rank]
        texts.append(f"s = {points}: {errors}{_not_run(groups, families)}")
    return Finding(holds, "; ".join(texts), tuple(used)) if texts else None


def _not_run(groups: Sequence[Group], families: Sequence[str]) -> str:
    absent = [family for family in families if of_family(groups, family) is None]
    return f" (not run: {', '.join(absent)})" if absent else ""


def _errors(groups: Sequence[Group], families: Sequence[str]) -> list[tuple[Group, Summary]]:
    chosen = [of_family(groups, family) for family in families]
    pairs = [(group, group.summary()) for group in chosen if group is not None]
    return [(group, error) for group, error in pairs if error is not None]


def darcy_gap(results: Results) -> Finding | None:
    """No gap between training and test for PDNO, one for MWT and FNO, at every resolution."""
    groups = [g for g in results.study("darcy") if is_of_the_paper(g.model)]
    return judge_gap(groups)


def judge_gap(groups: Sequence[Group]) -> Finding | None:
    """PDNO has test / train of at most 1.1 and the other networks more."""
    ratios = {group: ratio for group in groups if (ratio := gap_of(group)) is not None}
    ours = [ratio for group, ratio in ratios.items() if group.family not in BASELINES]
    theirs = [ratio for group, ratio in ratios.items() if group.family in BASELINES]
    if not ours or not theirs:
        return None
    holds = max(ours) <= NO_GAP < min(theirs)
    text = ", ".join(f"{g.model} (s = {g.resolution}) {r:.2f}" for g, r in ratios.items())
    return Finding(holds, f"test / train: {text}; limit {NO_GAP}", tuple(ratios))


def gap_of(group: Group) -> float | None:
    """Test error over training error."""
    train, test = group.summary("train"), group.summary("test")
    return None if train is None or test is None else test.mean / train.mean


def navier_stokes_best(viscosity: float, most_samples: int) -> Judge:
    """PDNO a(x,ξ) has the lowest test error on the data of one viscosity."""

    def judge(results: Results) -> Finding | None:
        groups = [
            group
            for group in results.study("navier-stokes")
            if group.viscosity == viscosity and group.budget.samples <= most_samples
        ]
        most = max((group.budget.samples for group in groups), default=0)
        chosen = [group for group in groups if group.budget.samples == most]
        pdno, others = _errors(chosen, ["PDNO a(x,ξ)"]), _errors(chosen, BASELINES)
        if not pdno or not others:
            return None
        holds = pdno[0][1].mean < min(error.mean for _, error in others)
        text = ", ".join(f"{group.model} {summary_text(error)}" for group, error in pdno + others)
        used = tuple(group for group, _ in pdno + others)
        return Finding(holds, text + _not_run(chosen, BASELINES), used)

    return judge


def _compared(results: Results) -> tuple[Group, list[Group]] | None:
    """PDNO a(x,ξ) and the other networks of figure 1."""
    groups = [g for g in results.shown("navier-stokes") if g.over_time()]
    pdno = of_family(groups, "PDNO a(x,ξ)")
    others = [group for family in BASELINES if (group := of_family(groups, family)) is not None]
    return None if pdno is None or not others else (pdno, others)


def navier_stokes_growth(results: Results) -> Finding | None:
    """The test error of every network grows from each frame to the next."""
    groups = [g for g in results.shown("navier-stokes") if is_of_the_paper(g.model)]
    curves = {group: list(group.over_time().items()) for group in groups}
    curves = {group: curve for group, curve in curves.items() if len(curve) > 1}
    if not curves:
        return None
    holds = all(
        before.mean < after.mean
        for curve in curves.values()
        for (_, before), (_, after) in zip(curve, curve[1:], strict=False)
    )
    text = ", ".join(
        f"{group.model} {number(curve[0][1].mean)} at t = {curve[0][0]:g} to "
        f"{number(curve[-1][1].mean)} at t = {curve[-1][0]:g}"
        for group, curve in curves.items()
    )
    return Finding(holds, text, tuple(curves))


def navier_stokes_lowest(results: Results) -> Finding | None:
    """PDNO has the lowest test error at every time."""
    found = _compared(results)
    if found is None:
        return None
    pdno, others = found
    mine = pdno.over_time()
    worse = [
        t
        for t in mine
        for other in others
        if t in other.over_time() and other.over_time()[t].mean <= mine[t].mean
    ]
    names = ", ".join(group.model for group in others)
    text = f"{pdno.model} against {names}: lowest at {len(mine) - len(set(worse))} of {len(mine)}"
    return Finding(not worse, f"{text} times", (pdno, *others))


def navier_stokes_gap(results: Results) -> Finding | None:
    """No gap between training and test for PDNO, one for the other networks."""
    found = _compared(results)
    return None if found is None else judge_gap([found[0], *found[1]])


def navier_stokes_one_shot(results: Results) -> Finding | None:
    """The recurrent PDNO a(x,ξ) has a lower test error than the one-shot PDNO a(x,ξ,t)."""
    texts, used, holds = [], [], True
    for experiment in dict.fromkeys(g.first.experiment for g in results.study("navier-stokes")):
        groups = [g for g in results.study("navier-stokes") if g.first.experiment == experiment]
        pairs = _errors(groups, ["PDNO a(x,ξ)", "PDNO a(x,ξ,t)"])
        if len(pairs) == 2:
            (first, recurrent), (second, one_shot) = pairs
            holds &= recurrent.mean < one_shot.mean
            used += [first, second]
            texts.append(f"{experiment}: {summary_text(recurrent)} and {summary_text(one_shot)}")
    return Finding(holds, "; ".join(texts), tuple(used)) if texts else None
