"""The claims of the paper as a table, five predicates that judge them, and the verdicts.

    below     numbers are below a limit
    ordered   errors of each rank are below those of the next, in every case
    gap       test / train is at most 1.1 for some networks and more for others
    monotone  curves rise, or fall, from each point to the next
    ratio     ratios lie within bounds

A predicate gets what a selection finds in the results, and gives None where the runs do not tell.
Means over seeds are compared as they are; no claim of the paper comes with an uncertainty. Where
the paper says "almost" or "negligible" the criterion is ours, and is part of the text. Runs of a
handful of samples test nothing.
"""

__all__ = ["CLAIMS", "Claim", "Verdict", "claims_table", "judge"]

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from pdno.evaluation.rows import Summary
from pdno.report.figures_fields import choose_sample
from pdno.report.figures_symbols import roughness, symbol_values
from pdno.report.published import BASELINES, ONE_SHOT, PDNO, PLAIN, RELU, TABLE_6, Resources
from pdno.report.runs import (
    ERROR,
    Group,
    Results,
    by_dataset,
    by_setting,
    describe_budgets,
    lowest_level,
    of_flow,
    of_network,
)
from pdno.report.table import MISSING, Table, command_of, number, summary_text
from pdno.report.tables import resource_numbers

NO_GAP = 1.1
"""Test error over training error up to which we see no gap."""
HEAT_ERROR = 0.01  # of the paper, section 5.1
SAME_SYMBOL = 0.1
"""Difference of symbols that a relative error of 0.01 allows, see pdno.evaluation."""
CONSTANT = 0.1
"""Standard deviation over x, relative to the mean, up to which we call a1 constant."""
ENOUGH_MODES, COMPARABLE = 20, 1.25
"""k_max of figure 9, and the ratio of errors up to which we call them comparable."""
SMOOTHER = 0.5
"""Ratio of the roughness of PDNO's symbols to FNO's from which on they are no smoother."""
COUNTED, MEASURED = "counted, no training", "one training step on our machine, no GPU"


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


Judge = Callable[[Results], Finding | None]


class Value(NamedTuple):
    """A number with its name, the way it is printed, and the runs it is of."""

    name: str
    value: float
    text: str
    group: Group | None = None


class Case(NamedTuple):
    """Ranks of numbers that a claim orders, under a label; `note` says what is missing."""

    label: str
    ranks: list[list[Value]]
    note: str = ""


# Predicates


def below(study: str, metric: str, splits: Sequence[str], limit: float) -> Judge:
    """A number of a study is below a limit on all splits."""

    def judge(results: Results) -> Finding | None:
        group = next(iter(results.shown(study)), None)
        found = {} if group is None else {s: group.summary(s, metric) for s in splits}
        known = {split: summary for split, summary in found.items() if summary is not None}
        if group is None or len(known) < len(splits):
            return None
        text = ", ".join(f"{split} {summary_text(summary)}" for split, summary in known.items())
        holds = all(summary.mean < limit for summary in known.values())
        return Finding(holds, f"{metric}: {text}; limit {limit:g}", (group,))

    return judge


def ordered(
    cases: Callable[[Results], Iterable[Case]], *, count: bool = False, budget: str = ""
) -> Judge:
    """All numbers of a rank are below those of the next; `count` tells only in how many cases."""

    def judge(results: Results) -> Finding | None:
        texts: list[str] = []
        answers: dict[str, list[bool]] = {}
        used: dict[Group, None] = {}
        for label, ranks, note in cases(results):
            present = [rank for rank in ranks if rank]
            if not ranks[0] or len(present) < 2:
                continue
            holds = [
                max(v.value for v in a) < min(v.value for v in b) for a, b in pairwise(present)
            ]
            answers.setdefault(label, []).append(all(holds))
            values = [value for rank in present for value in rank]
            used |= {value.group: None for value in values if value.group is not None}
            texts.append(label + ", ".join(f"{v.name} {v.text}" for v in values) + note)
        if count:
            texts = [f"{label}{sum(all_)} of {len(all_)} times" for label, all_ in answers.items()]
        held = all(all(found) for found in answers.values())
        return Finding(held, "; ".join(texts), tuple(used), budget) if texts else None

    return judge


def gap(select: Callable[[Results], Iterable[Group]], others: Sequence[str] = BASELINES) -> Judge:
    """Test / train is at most 1.1, but for the `others`, where it is more."""

    def judge(results: Results) -> Finding | None:
        errors = {group: (group.summary("train"), group.summary()) for group in select(results)}
        ratios = {
            g: test.mean / train.mean for g, (train, test) in errors.items() if train and test
        }
        ours = [ratio for group, ratio in ratios.items() if group.facts.network not in others]
        theirs = [ratio for group, ratio in ratios.items() if group.facts.network in others]
        if not ours or not theirs:
            return None
        text = ", ".join(f"{g.model} (s = {g.resolution}) {r:.2f}" for g, r in ratios.items())
        holds = max(ours) <= NO_GAP < min(theirs)
        return Finding(holds, f"test / train: {text}; limit {NO_GAP}", tuple(ratios))

    return judge


Curves = tuple[Mapping[str, Mapping[float, float]], Sequence[Group]]


def monotone(select: Callable[[Results], Curves], *, rising: bool, ends: bool) -> Judge:
    """Every curve rises, or falls; `ends` prints the first and the last point alone."""

    def judge(results: Results) -> Finding | None:
        curves, groups = select(results)
        if not curves or any(len(curve) < 2 for curve in curves.values()):
            return None
        steps = [(a, b) for curve in curves.values() for a, b in pairwise(curve.values())]
        holds = all(a < b if rising else a > b for a, b in steps)
        texts = []
        for name, curve in curves.items():
            points = [(number(value), f"{at:g}") for at, value in curve.items()]
            (first, start), (last, end) = points[0], points[-1]
            every = ", ".join(f"{value} at {at}" for value, at in points)
            whole = f"{first} at t = {start} to {last} at t = {end}"
            texts.append(f"{name} {whole}" if ends else f"{name}: {every}")
        return Finding(holds, (", " if ends else "; ").join(texts), tuple(groups))

    return judge


class Ratios(NamedTuple):
    """Ratios by their label, under a title and with a note, and the runs they are of."""

    title: str
    values: Mapping[str, float]
    note: str = ""
    groups: Sequence[Group] = ()


def ratio(
    select: Callable[[Results], Iterable[Ratios]], low: float, high: float, budget: str = ""
) -> Judge:
    """All ratios lie within bounds, which count as inside."""

    def judge(results: Results) -> Finding | None:
        found = list(select(results))
        if not found or not all(part.values for part in found):
            return None
        holds = all(low <= value <= high for part in found for value in part.values.values())
        texts = [
            part.title + ", ".join(f"{k}: {v:.2f}" for k, v in part.values.items()) + part.note
            for part in found
        ]
        groups = tuple(group for part in found for group in part.groups)
        return Finding(holds, "; ".join(texts), groups, budget)

    return judge


# Selections


def _values(groups: Sequence[Group], networks: Iterable[str]) -> list[Value]:
    found = [of_network(groups, network) for network in networks]
    pairs = [(group, group.summary()) for group in found if group is not None]
    return [_value(group, error) for group, error in pairs if error is not None]


def _value(group: Group, error: Summary) -> Value:
    return Value(group.model, error.mean, summary_text(error), group)


def _case(label: str, groups: Sequence[Group], ranks: Sequence[Sequence[str]]) -> Case:
    absent = [name for rank in ranks for name in rank if of_network(groups, name) is None]
    note = f" (not run: {', '.join(absent)})" if absent else ""
    return Case(label, [_values(groups, rank) for rank in ranks], note)


def by_resolution(study: str, *ranks: Sequence[str]) -> Callable[[Results], list[Case]]:
    """Networks at every resolution that was run."""
    return lambda results: [
        _case(f"s = {points}: ", groups, ranks)
        for points, groups in results.by_resolution(study).items()
    ]


def flow(viscosity: float) -> Callable[[Results], list[Case]]:
    """PDNO and the others on the data of one viscosity, up to the 1000 samples of the paper."""
    return lambda results: [
        _case("", of_flow(results.study(FLOW), viscosity, most=1000), ((PDNO,), BASELINES))
    ]


def one_shot(results: Results) -> list[Case]:
    """The recurrent and the one-shot PDNO on every dataset that has both."""
    groups = results.study(FLOW)
    blocks = by_dataset(groups)
    cases = [_case(f"{d}: ", block, ((PDNO,), (ONE_SHOT,))) for d, block in blocks.items()]
    return [case for case in cases if not case.note]


def _compared(results: Results) -> list[Group]:
    """PDNO a(x,ξ) and the other networks of figure 1, where both are there."""
    groups = [group for group in results.shown(FLOW) if group.over_time()]
    found = [of_network(groups, network) for network in (PDNO, *BASELINES)]
    known = [group for group in found if group is not None]
    return known if found[0] is not None and len(known) > 1 else []


def over_time(results: Results) -> list[Case]:
    """PDNO and the others at each time."""
    groups = _compared(results)
    if not groups:
        return []
    label = f"{groups[0].model} against {', '.join(g.model for g in groups[1:])}: lowest at "
    curves = [(group, group.over_time()) for group in groups]
    at = [[_value(g, curve[t]) for g, curve in curves if t in curve] for t in curves[0][1]]
    return [Case(label, [values[:1], values[1:]]) for values in at]


def samples(results: Results) -> list[Case]:
    """PDNO and the others at each time of the best and of the worst sample."""
    groups = [group for group in results.shown(FLOW) if group.facts.of_paper]
    cases = []
    for choice in ("lowest", "highest"):
        sample = choose_sample(groups, choice)
        if sample is None:
            return []
        label = f"{choice}: sample {sample.index}, best at "
        known = {name: of_network(list(sample.predictions), name) for name in (PDNO, *BASELINES)}
        for frame in range(len(sample.target)):
            errors = {
                name: Value(group.model, sample.frame_error(group, frame), "", group)
                for name, group in known.items()
                if group is not None
            }
            ours = [value for name, value in errors.items() if name == PDNO]
            theirs = [value for name, value in errors.items() if name != PDNO]
            cases.append(Case(label, [ours, theirs]))
    return cases


def growth(results: Results) -> Curves:
    """Test error by time of the networks of the paper."""
    groups = [group for group in results.shown(FLOW) if group.facts.of_paper]
    groups = [group for group in groups if len(group.over_time()) > 1]
    curves = {g.model: {t: s.mean for t, s in g.over_time().items()} for g in groups}
    return curves, groups


def widths(results: Results) -> Curves:
    """Test error by channels of PDNO a(ξ) and FNO."""
    shown = results.shown("navier-stokes-width")
    curves = {
        network: {
            width: error.mean
            for width, group in by_setting(shown, "width", network).items()
            if (error := group.summary()) is not None
        }
        for network in (PLAIN, "FNO")
    }
    return curves, shown


def by_width(results: Results) -> list[Case]:
    """PDNO a(ξ) and FNO of the same channels."""
    shown = results.shown("navier-stokes-width")
    swept = by_setting(shown, "width")
    blocks = {w: [g for g in shown if g.facts.sweep.get("width") == w] for w in swept}
    cases = [
        _case(f"{w:g} channels: ", block, ((PLAIN,), ("FNO",))) for w, block in blocks.items()
    ]
    return [case for case in cases if not case.note]


def smallest_modes(results: Results) -> list[Case]:
    """The smallest k_max, and other networks at the same resolution."""
    swept = by_setting(results.shown("darcy-modes"), "modes")
    smallest = next(iter(swept.values()), None)
    error = smallest.summary() if smallest else None
    if smallest is None or error is None:
        return []
    others = results.by_resolution("darcy").get(smallest.resolution, [])
    ranks = [[_value(smallest, error)], _values(others, BASELINES)]
    return [Case(f"s = {smallest.resolution}: ", ranks)]


def many_modes(results: Results) -> list[Ratios]:
    """Errors with k_max of 20 and more over that of all modes."""
    swept = by_setting(results.shown("darcy-modes"), "modes")
    errors = {k: error.mean for k, g in swept.items() if (error := g.summary()) is not None}
    every = errors.get(math.inf)
    some = {k: error for k, error in errors.items() if ENOUGH_MODES <= k < math.inf}
    if every is None:
        return []
    ratios = {f"k_max = {k:g}": error / every for k, error in some.items()}
    groups = [swept[math.inf], *(swept[k] for k in some)]
    return [Ratios("error / that of all modes: ", ratios, groups=groups)]


def symbol_roughness(results: Results) -> list[Ratios]:
    """The roughest symbol of PDNO over the smoothest one of FNO."""
    groups = [of_network(results.shown(FLOW), network) for network in (PDNO, "FNO")]
    known = [group for group in groups if group is not None]
    found = [[roughness(values) for values in symbol_values(group.first)] for group in known]
    if len(found) < 2 or not all(found):
        return []
    words = [
        f"{group.model} {', '.join(f'{value:.2f}' for value in values)}"
        for group, values in zip(known, found, strict=True)
    ]
    title = f"roughness by block (1 is noise): {'; '.join(words)}; "
    return [Ratios(title, {"largest / least": max(found[0]) / min(found[1])}, groups=known)]


def modes_of_resources(results: Results) -> list[Ratios]:
    """Most over fewest parameters of PDNO with the same channels and several k_max."""
    counts: dict[int, dict[int, int]] = {}
    for (kind, modes, width), one in resource_numbers(results).items():
        if kind == "PDNO":
            counts.setdefault(width, {})[modes] = int(one.parameters)
    ratios = {
        f"{width} channels, k_max {', '.join(map(str, sorted(by_modes)))} "
        f"({', '.join(map(str, sorted(set(by_modes.values()))))} parameters)": max(
            by_modes.values()
        )
        / min(by_modes.values())
        for width, by_modes in counts.items()
        if len(by_modes) > 1
    }
    return [Ratios("most / fewest: ", ratios)]


def _resource_pairs(results: Results) -> dict[str, tuple[Resources, Resources]]:
    """PDNO and FNO by configuration; only those of the paper's table."""
    ours = resource_numbers(results)
    return {
        f"k_max {modes}, {width} channels": (ours["PDNO", modes, width], ours["FNO", modes, width])
        for kind, modes, width in TABLE_6
        if kind == "PDNO" and ("PDNO", modes, width) in ours and ("FNO", modes, width) in ours
    }


def parameters(results: Results) -> list[Case]:
    """Parameters of PDNO and of FNO."""
    return [
        Case(
            f"{label}: ",
            [
                [Value(name, one.parameters, number(one.parameters))]
                for name, one in zip(("PDNO", "FNO"), pair, strict=True)
            ],
        )
        for label, pair in _resource_pairs(results).items()
    ]


def costs(results: Results) -> list[Ratios]:
    """Time and memory of PDNO over those of FNO."""
    parts = []
    for name, part in (("time", "seconds"), ("memory", "memory")):
        paper = getattr(TABLE_6["PDNO", 12, 20], part) / getattr(TABLE_6["FNO", 12, 20], part)
        ratios = {
            label: getattr(ours, part) / getattr(theirs, part)
            for label, (ours, theirs) in _resource_pairs(results).items()
        }
        note = f" (paper {paper:.1f} at k_max 12, 20 channels)"
        parts.append(Ratios(f"{name} PDNO / FNO ", ratios, note))
    return parts


# The table


@dataclass(frozen=True)
class Claim:
    """What the paper says.

    Arguments:
        key: Its name here.
        place: Where the paper says it.
        text: What it says, with our criterion.
        studies: The experiments that test it, as `pdno reproduce` calls them.
        judge: The predicate, with what it selects; None where run folders cannot tell.
        preset: The smallest preset that tests it.
    """

    key: str
    place: str
    text: str
    studies: tuple[str, ...]
    judge: Judge | None
    preset: str = "small"


FLOW = "navier-stokes"
LIMIT = "(test / train up to 1.1 is none)"
BOTH = ("train", "test")
CLAIMS = (
    Claim(
        "heat-error",
        "5.1",
        "Heat: relative L2 error below 0.01 on training and test.",
        ("heat",),
        below("heat", ERROR, BOTH, HEAT_ERROR),
    ),
    Claim(
        "heat-times",
        "4.2, fig. 8",
        "Heat: the operator works at times absent from training (error there below 0.01).",
        ("heat",),
        below("heat", f"{ERROR} other times", BOTH, HEAT_ERROR),
    ),
    Claim(
        "heat-symbol",
        "5.1, fig. 3",
        "Heat: the learned symbol is the exact one (difference below 0.1 where the data excite "
        "the mode).",
        ("heat",),
        below("heat", "symbol difference excited", ("symbol",), SAME_SYMBOL),
    ),
    Claim(
        "heat-constant",
        "fig. 7",
        "Heat: a1(x, t) is almost constant in x (standard deviation below 0.1 of the mean).",
        ("heat",),
        below("heat", "symbol variation over x", ("symbol",), CONSTANT),
    ),
    Claim(
        "darcy-order",
        "table 1",
        "Darcy test error: PDNO a(x,ξ) < PDNO a(ξ) < MWT and FNO.",
        ("darcy",),
        ordered(by_resolution("darcy", (PDNO,), (PLAIN,), ("MWT Leg", "FNO"))),
    ),
    Claim(
        "darcy-gap",
        "table 1",
        f"Darcy: PDNO has no gap between training and test, MWT and FNO have one {LIMIT}.",
        ("darcy",),
        gap(lambda results: [g for g in results.study("darcy") if g.facts.of_paper]),
    ),
    Claim(
        "navier-stokes-best",
        "table 2",
        "Navier-Stokes, ν = 1e-5: PDNO a(x,ξ) has the lowest test error.",
        (FLOW,),
        ordered(flow(1e-5)),
    ),
    Claim(
        "navier-stokes-best-1e-4",
        "table 2",
        "Navier-Stokes, ν = 1e-4 with 1000 samples: PDNO a(x,ξ) has the lowest test error.",
        (FLOW,),
        ordered(flow(1e-4)),
        preset="paper",
    ),
    Claim(
        "navier-stokes-one-shot",
        "table 2",
        "Navier-Stokes: the recurrent PDNO a(x,ξ) is better than the one-shot PDNO a(x,ξ,t).",
        (FLOW,),
        ordered(one_shot),
        preset="paper",
    ),
    Claim(
        "navier-stokes-growth",
        "fig. 1",
        "Navier-Stokes, ν = 1e-5: the test errors of all networks grow with t.",
        (FLOW,),
        monotone(growth, rising=True, ends=True),
    ),
    Claim(
        "navier-stokes-lowest",
        "fig. 1",
        "Navier-Stokes, ν = 1e-5: PDNO has the lowest test error at all t.",
        (FLOW,),
        ordered(over_time, count=True),
    ),
    Claim(
        "navier-stokes-gap",
        "fig. 1",
        "Navier-Stokes, ν = 1e-5: PDNO has no gap between training and test, the others have one "
        f"{LIMIT}.",
        (FLOW,),
        gap(_compared),
    ),
    Claim(
        "smooth-symbols",
        "fig. 5",
        "Learned symbols of PDNO are smooth in ξ, those of FNO are not (every block at most half "
        "as rough).",
        (FLOW,),
        ratio(symbol_roughness, 0, math.nextafter(SMOOTHER, 0)),
    ),
    Claim(
        "samples-best",
        "figs. 12, 13",
        "PDNO is the best at all times of the samples with the lowest and the highest mean error.",
        (FLOW,),
        ordered(samples, count=True),
    ),
    Claim(
        "burgers-order",
        "table 3",
        "Burgers: FNO has the lowest test error at every resolution.",
        ("burgers",),
        ordered(by_resolution("burgers", ("FNO",), (PDNO, PLAIN, "MWT Leg", "MWT Chb"))),
    ),
    Claim(
        "burgers-space",
        "table 3",
        "Burgers: PDNO a(ξ) is worse than PDNO a(x,ξ).",
        ("burgers",),
        ordered(by_resolution("burgers", (PDNO,), (PLAIN,))),
    ),
    Claim(
        "modes-beat-baselines",
        "fig. 9",
        "Darcy: a small k_max already beats MWT and FNO.",
        ("darcy-modes", "darcy"),
        ordered(smallest_modes),
    ),
    Claim(
        "modes-saturate",
        "fig. 9",
        "Darcy: k_max of 20 and more is comparable to all modes (within a factor of 1.25).",
        ("darcy-modes",),
        ratio(many_modes, 1 / COMPARABLE, COMPARABLE),
        preset="paper",
    ),
    Claim(
        "activation-gap",
        "fig. 11",
        f"Darcy: ReLU symbols have a gap between training and test, GELU ones do not {LIMIT}.",
        ("darcy-activation",),
        gap(lambda results: results.study("darcy-activation"), others=(RELU,)),
    ),
    Claim(
        "width-falls",
        "fig. 10",
        "Navier-Stokes: the test error falls with the channels, for PDNO a(ξ) and FNO.",
        ("navier-stokes-width",),
        monotone(widths, rising=False, ends=False),
    ),
    Claim(
        "width-lower",
        "fig. 10",
        "Navier-Stokes: PDNO a(ξ) has a lower test error than FNO of the same channels.",
        ("navier-stokes-width",),
        ordered(by_width),
    ),
    Claim(
        "width-gap",
        "fig. 10",
        "Navier-Stokes: PDNO a(ξ) has almost no gap between training and test, FNO has one "
        f"{LIMIT}.",
        ("navier-stokes-width",),
        gap(lambda results: results.shown("navier-stokes-width")),
    ),
    Claim(
        "parameters-without-modes",
        "table 6",
        "The number of parameters of PDNO does not depend on k_max.",
        ("resources",),
        ratio(modes_of_resources, 1, 1, COUNTED),
    ),
    Claim(
        "fewer-parameters",
        "table 6",
        "PDNO has fewer parameters than FNO of the same channels and k_max (complex ones count "
        "once).",
        ("resources",),
        ordered(parameters, budget=COUNTED),
    ),
    Claim(
        "cost",
        "table 6",
        "PDNO takes more time and more memory than FNO.",
        ("resources",),
        ratio(costs, math.nextafter(1, 2), math.inf, MEASURED),
    ),
    Claim(
        "symbol-class",
        "3.3, appendix E",
        "The symbol networks lie in the stated classes, so that the operators are bounded.",
        (),
        None,
    ),
)


class Verdict(NamedTuple):
    """What our runs say of a claim, the numbers it rests on or what is missing, the budget."""

    claim: Claim
    answer: Literal["holds", "does not hold", "not tested here"]
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
