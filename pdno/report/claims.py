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


class Finding(NamedTuple):
    """Whether a claim holds, the numbers and the runs, or else the budget, that this rests on."""

    holds: bool
    numbers: str
    groups: Iterable[Group] = ()
    budget: str = ""


Judge = Callable[[Results], Finding | None]


class Value(NamedTuple):
    """A number with its name, the way it is printed, and the runs it is of."""

    name: str
    value: float
    text: str = ""
    group: Group | None = None


class Case(NamedTuple):
    """Ranks of numbers that a claim orders, under a label; the note says what is missing."""

    label: str
    ranks: Sequence[Sequence[Value]]
    note: str = ""


class Ratios(NamedTuple):
    """Ratios by their label, under a title and with a note, and the runs they are of."""

    title: str
    values: Mapping[str, float]
    note: str = ""
    groups: Sequence[Group] = ()


Curves = tuple[Mapping[str, Mapping[float, float]], Sequence[Group]]
"""Values by name and place, and the runs."""


# Predicates


def below(metric: str, splits: Sequence[str], limit: float) -> Judge:
    """A number of the heat experiment is below a limit on all splits."""

    def judge(results: Results) -> Finding | None:
        groups = results.shown("heat")[:1]
        found = {split: group.summary(split, metric) for group in groups for split in splits}
        known = {split: summary for split, summary in found.items() if summary is not None}
        if len(known) < len(splits):
            return None
        text = ", ".join(f"{split} {summary_text(summary)}" for split, summary in known.items())
        holds = all(summary.mean < limit for summary in known.values())
        return Finding(holds, f"{metric}: {text}; limit {limit:g}", groups)

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
            numbers = [[value.value for value in rank] for rank in present]
            answers.setdefault(label, []).append(
                all(max(a) < min(b) for a, b in pairwise(numbers))
            )
            values = [value for rank in present for value in rank]
            used |= {value.group: None for value in values if value.group is not None}
            texts.append(label + ", ".join(f"{v.name} {v.text}" for v in values) + note)
        if count:
            texts = [
                f"{label}{sum(found)} of {len(found)} times" for label, found in answers.items()
            ]
        held = all(all(found) for found in answers.values())
        return Finding(held, "; ".join(texts), used, budget) if texts else None

    return judge


def gap(select: Callable[[Results], Iterable[Group]], others: Sequence[str] = BASELINES) -> Judge:
    """Test / train is at most 1.1, but for the `others`, where it is more."""

    def judge(results: Results) -> Finding | None:
        ratios = {
            group: test.mean / train.mean
            for group in select(results)
            if (train := group.summary("train")) and (test := group.summary())
        }
        ours = [ratio for group, ratio in ratios.items() if group.facts.network not in others]
        theirs = [ratio for group, ratio in ratios.items() if group.facts.network in others]
        if not ours or not theirs:
            return None
        text = ", ".join(f"{g.model} (s = {g.resolution}) {r:.2f}" for g, r in ratios.items())
        holds = max(ours) <= NO_GAP < min(theirs)
        return Finding(holds, f"test / train: {text}; limit {NO_GAP}", ratios)

    return judge


def monotone(select: Callable[[Results], Curves], *, rising: bool) -> Judge:
    """Every curve rises, which prints its ends, or falls, which prints all of it."""

    def judge(results: Results) -> Finding | None:
        curves, groups = select(results)
        if not curves or any(len(curve) < 2 for curve in curves.values()):
            return None
        steps = [step for curve in curves.values() for step in pairwise(curve.values())]
        points = {
            name: [f"{number(value)} at {'t = ' * rising}{at:g}" for at, value in curve.items()]
            for name, curve in curves.items()
        }
        if rising:
            text = ", ".join(f"{name} {at[0]} to {at[-1]}" for name, at in points.items())
            return Finding(all(a < b for a, b in steps), text, groups)
        text = "; ".join(f"{name}: {', '.join(at)}" for name, at in points.items())
        return Finding(all(a > b for a, b in steps), text, groups)

    return judge


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
        return Finding(holds, "; ".join(texts), [g for p in found for g in p.groups], budget)

    return judge


# Selections


def _value(group: Group, error: Summary) -> Value:
    return Value(group.model, error.mean, summary_text(error), group)


def _values(groups: Sequence[Group], networks: Iterable[str]) -> list[Value]:
    found = [group for network in networks if (group := of_network(groups, network))]
    return [_value(group, error) for group in found if (error := group.summary())]


def _case(label: str, groups: Sequence[Group], *ranks: Sequence[str]) -> Case:
    absent = [name for rank in ranks for name in rank if of_network(groups, name) is None]
    note = f" (not run: {', '.join(absent)})" if absent else ""
    return Case(label, [_values(groups, rank) for rank in ranks], note)


def by_resolution(study: str, *ranks: Sequence[str]) -> Callable[[Results], list[Case]]:
    """Networks at every resolution that was run."""
    return lambda results: [
        _case(f"s = {points}: ", groups, *ranks)
        for points, groups in results.by_resolution(study).items()
    ]


def by_viscosity(viscosity: float) -> Callable[[Results], list[Case]]:
    """PDNO and the others on the data of one viscosity, up to the 1000 samples of the paper."""
    return lambda results: [
        _case("", of_flow(results.study("navier-stokes"), viscosity, 1000), (PDNO,), BASELINES)
    ]


def one_shot(results: Results) -> list[Case]:
    """The recurrent and the one-shot PDNO on every dataset that has both."""
    blocks = by_dataset(results.study("navier-stokes"))
    cases = [_case(f"{name}: ", groups, (PDNO,), (ONE_SHOT,)) for name, groups in blocks.items()]
    return [case for case in cases if not case.note]


def figure_1(results: Results) -> list[Group]:
    """PDNO a(x,ξ) and the other networks of figure 1, where both are there."""
    groups = [group for group in results.shown("navier-stokes") if group.over_time()]
    found = [group for name in (PDNO, *BASELINES) if (group := of_network(groups, name))]
    return found if len(found) > 1 and found[0].facts.network == PDNO else []


def over_time(results: Results) -> list[Case]:
    """PDNO and the others at each time."""
    groups = figure_1(results)
    curves = {group: group.over_time() for group in groups}
    names = ", ".join(group.model for group in groups[1:])
    cases = []
    for t in curves[groups[0]] if groups else ():
        first, *rest = [_value(group, curve[t]) for group, curve in curves.items() if t in curve]
        cases.append(Case(f"{first.name} against {names}: lowest at ", [[first], rest]))
    return cases


def samples(results: Results) -> list[Case]:
    """PDNO and the others at each time of the best and of the worst sample."""
    groups = [group for group in results.shown("navier-stokes") if group.facts.of_paper]
    found = {
        "lowest": choose_sample(groups, "lowest"),
        "highest": choose_sample(groups, "highest"),
    }
    cases = []
    for choice, sample in found.items():
        for frame in range(len(sample.target)) if sample else ():
            assert sample is not None
            label = f"{choice}: sample {sample.index}, best at "
            errors = {g: sample.frame_error(g, frame) for g in sample.predictions}
            values = [Value(g.model, error, group=g) for g, error in errors.items()]
            ranks = [
                [value for value in values if value.group and value.group.facts.network in rank]
                for rank in ((PDNO,), BASELINES)
            ]
            cases.append(Case(label, ranks))
    return cases


def growth(results: Results) -> Curves:
    """Test error by time of the networks of the paper."""
    groups = [group for group in results.shown("navier-stokes") if group.facts.of_paper]
    groups = [group for group in groups if len(group.over_time()) > 1]
    return {g.model: {t: s.mean for t, s in g.over_time().items()} for g in groups}, groups


def by_width(results: Results) -> Curves:
    """Test error by channels of PDNO a(ξ) and FNO."""
    shown = results.shown("navier-stokes-width")
    swept = {network: by_setting(shown, "width", network) for network in (PLAIN, "FNO")}
    curves = {
        network: {width: error.mean for width, g in groups.items() if (error := g.summary())}
        for network, groups in swept.items()
    }
    return curves, shown


def same_width(results: Results) -> list[Case]:
    """PDNO a(ξ) and FNO of the same channels."""
    shown = results.shown("navier-stokes-width")
    cases = []
    for width in by_setting(shown, "width"):
        groups = [group for group in shown if group.facts.sweep.get("width") == width]
        cases.append(_case(f"{width:g} channels: ", groups, (PLAIN,), ("FNO",)))
    return cases


def fewest_modes(results: Results) -> list[Case]:
    """The smallest k_max, and other networks at the same resolution."""
    for group in list(by_setting(results.shown("darcy-modes"), "modes").values())[:1]:
        others = results.by_resolution("darcy").get(group.resolution, [])
        if error := group.summary():
            ranks = [[_value(group, error)], _values(others, BASELINES)]
            return [Case(f"s = {group.resolution}: ", ranks)]
    return []


def many_modes(results: Results) -> list[Ratios]:
    """Errors with k_max of 20 and more over that of all modes."""
    swept = by_setting(results.shown("darcy-modes"), "modes")
    errors = {k: e.mean for k, g in swept.items() if k >= ENOUGH_MODES and (e := g.summary())}
    every = errors.pop(math.inf, math.nan)
    ratios = {f"k_max = {k:g}": error / every for k, error in errors.items()}
    groups = [swept[math.inf], *(swept[k] for k in errors)] if every > 0 else []
    return [Ratios("error / that of all modes: ", ratios, groups=groups)] if groups else []


def symbol_roughness(results: Results) -> list[Ratios]:
    """The roughest symbol of PDNO over the smoothest one of FNO."""
    shown = results.shown("navier-stokes")
    groups = [group for name in (PDNO, "FNO") if (group := of_network(shown, name))]
    found = {g: [roughness(values) for values in symbol_values(g.first)] for g in groups}
    if len(found) < 2 or not all(found.values()):
        return []
    ours, theirs = found.values()
    words = [f"{g.model} {', '.join(f'{r:.2f}' for r in rough)}" for g, rough in found.items()]
    title = f"roughness by block (1 is noise): {'; '.join(words)}; "
    return [Ratios(title, {"largest / least": max(ours) / min(theirs)}, groups=groups)]


def parameters_by_modes(results: Results) -> list[Ratios]:
    """Most over fewest parameters of PDNO with the same channels and several k_max."""
    counts: dict[int, dict[int, int]] = {}
    for (family, modes, width), one in resource_numbers(results).items():
        if family == "PDNO":
            counts.setdefault(width, {})[modes] = int(one.parameters)
    ratios = {}
    for width, by_modes in counts.items():
        found, kept = sorted(set(by_modes.values())), ", ".join(map(str, sorted(by_modes)))
        if len(by_modes) > 1:
            words = f"{', '.join(map(str, found))} parameters"
            ratios[f"{width} channels, k_max {kept}: {words}"] = found[-1] / found[0]
    return [Ratios("most / fewest, ", ratios)]


def _pairs(results: Results) -> dict[str, tuple[Resources, Resources]]:
    """PDNO and FNO by configuration; only those of the paper's table."""
    ours = resource_numbers(results)
    return {
        f"k_max {modes}, {width} channels": (ours["PDNO", modes, width], ours["FNO", modes, width])
        for family, modes, width in TABLE_6
        if family == "PDNO" and {("PDNO", modes, width), ("FNO", modes, width)} <= ours.keys()
    }


def parameters(results: Results) -> list[Case]:
    """Parameters of PDNO and of FNO."""
    counts = {label: [one.parameters for one in pair] for label, pair in _pairs(results).items()}
    return [
        Case(f"{label}: ", [[Value("PDNO", a, number(a))], [Value("FNO", b, number(b))]])
        for label, (a, b) in counts.items()
    ]


def costs(results: Results) -> list[Ratios]:
    """Time and memory of PDNO over those of FNO."""
    parts = []
    paper = (TABLE_6["PDNO", 12, 20], TABLE_6["FNO", 12, 20])
    for name, place in (("time", 2), ("memory", 0)):
        ratios = {label: a[place] / b[place] for label, (a, b) in _pairs(results).items()}
        note = f" (paper {paper[0][place] / paper[1][place]:.1f} at k_max 12, 20 channels)"
        parts.append(Ratios(f"{name} PDNO / FNO ", ratios, note))
    return parts


# The table


class Claim(NamedTuple):
    """What the paper says.

    Arguments:
        key: Its name here.
        place: Where the paper says it.
        studies: The experiments that test it, as `pdno reproduce` calls them.
        judge: The predicate, with what it selects; None where run folders cannot tell.
        preset: The smallest preset that tests it.
        text: What it says, with our criterion.
    """

    key: str
    place: str
    studies: tuple[str, ...]
    judge: Judge | None
    preset: str = "small"
    text: str = ""


HEAT, DARCY, FLOW, BURGERS = ("heat",), ("darcy",), ("navier-stokes",), ("burgers",)
MODES, WIDTH, RESOURCES = ("darcy-modes",), ("navier-stokes-width",), ("resources",)
BOTH = ("train", "test")
LIMIT = "(test / train up to 1.1 is none)"
TABLE = {
    "Heat: relative L2 error below 0.01 on training and test.": Claim(
        "heat-error", "5.1", HEAT, below(ERROR, BOTH, HEAT_ERROR)
    ),
    "Heat: the operator works at times absent from training (error there below 0.01).": Claim(
        "heat-times", "4.2, fig. 8", HEAT, below(f"{ERROR} other times", BOTH, HEAT_ERROR)
    ),
    "Heat: the learned symbol is the exact one (difference below 0.1 where the data excite the "
    "mode).": Claim(
        "heat-symbol",
        "5.1, fig. 3",
        HEAT,
        below("symbol difference excited", ("symbol",), SAME_SYMBOL),
    ),
    "Heat: a1(x, t) is almost constant in x (standard deviation below 0.1 of the mean).": Claim(
        "heat-constant", "fig. 7", HEAT, below("symbol variation over x", ("symbol",), CONSTANT)
    ),
    "Darcy test error: PDNO a(x,ξ) < PDNO a(ξ) < MWT and FNO.": Claim(
        "darcy-order",
        "table 1",
        DARCY,
        ordered(by_resolution("darcy", (PDNO,), (PLAIN,), ("MWT Leg", "FNO"))),
    ),
    f"Darcy: PDNO has no gap between training and test, MWT and FNO have one {LIMIT}.": Claim(
        "darcy-gap",
        "table 1",
        DARCY,
        gap(lambda results: [g for g in results.study("darcy") if g.facts.of_paper]),
    ),
    "Navier-Stokes, ν = 1e-5: PDNO a(x,ξ) has the lowest test error.": Claim(
        "navier-stokes-best", "table 2", FLOW, ordered(by_viscosity(1e-5))
    ),
    "Navier-Stokes, ν = 1e-4 with 1000 samples: PDNO a(x,ξ) has the lowest test error.": Claim(
        "navier-stokes-best-1e-4", "table 2", FLOW, ordered(by_viscosity(1e-4)), "paper"
    ),
    "Navier-Stokes: the recurrent PDNO a(x,ξ) is better than the one-shot PDNO a(x,ξ,t).": Claim(
        "navier-stokes-one-shot", "table 2", FLOW, ordered(one_shot), "paper"
    ),
    "Navier-Stokes, ν = 1e-5: the test errors of all networks grow with t.": Claim(
        "navier-stokes-growth", "fig. 1", FLOW, monotone(growth, rising=True)
    ),
    "Navier-Stokes, ν = 1e-5: PDNO has the lowest test error at all t.": Claim(
        "navier-stokes-lowest", "fig. 1", FLOW, ordered(over_time, count=True)
    ),
    "Navier-Stokes, ν = 1e-5: PDNO has no gap between training and test, the others have one "
    f"{LIMIT}.": Claim("navier-stokes-gap", "fig. 1", FLOW, gap(figure_1)),
    "Learned symbols of PDNO are smooth in ξ, those of FNO are not (every block at most half as "
    "rough).": Claim(
        "smooth-symbols", "fig. 5", FLOW, ratio(symbol_roughness, 0, math.nextafter(SMOOTHER, 0))
    ),
    "PDNO is the best at all times of the samples with the lowest and the highest mean "
    "error.": Claim("samples-best", "figs. 12, 13", FLOW, ordered(samples, count=True)),
    "Burgers: FNO has the lowest test error at every resolution.": Claim(
        "burgers-order",
        "table 3",
        BURGERS,
        ordered(by_resolution("burgers", ("FNO",), (PDNO, PLAIN, "MWT Leg", "MWT Chb"))),
    ),
    "Burgers: PDNO a(ξ) is worse than PDNO a(x,ξ).": Claim(
        "burgers-space", "table 3", BURGERS, ordered(by_resolution("burgers", (PDNO,), (PLAIN,)))
    ),
    "Darcy: a small k_max already beats MWT and FNO.": Claim(
        "modes-beat-baselines", "fig. 9", (*MODES, *DARCY), ordered(fewest_modes)
    ),
    "Darcy: k_max of 20 and more is comparable to all modes (within a factor of 1.25).": Claim(
        "modes-saturate", "fig. 9", MODES, ratio(many_modes, 1 / COMPARABLE, COMPARABLE), "paper"
    ),
    f"Darcy: ReLU symbols have a gap between training and test, GELU ones do not {LIMIT}.": Claim(
        "activation-gap",
        "fig. 11",
        ("darcy-activation",),
        gap(lambda results: results.study("darcy-activation"), others=(RELU,)),
    ),
    "Navier-Stokes: the test error falls with the channels, for PDNO a(ξ) and FNO.": Claim(
        "width-falls", "fig. 10", WIDTH, monotone(by_width, rising=False)
    ),
    "Navier-Stokes: PDNO a(ξ) has a lower test error than FNO of the same channels.": Claim(
        "width-lower", "fig. 10", WIDTH, ordered(same_width)
    ),
    "Navier-Stokes: PDNO a(ξ) has almost no gap between training and test, FNO has one "
    f"{LIMIT}.": Claim("width-gap", "fig. 10", WIDTH, gap(lambda results: results.shown(*WIDTH))),
    "The number of parameters of PDNO does not depend on k_max.": Claim(
        "parameters-without-modes", "table 6", RESOURCES, ratio(parameters_by_modes, 1, 1, COUNTED)
    ),
    "PDNO has fewer parameters than FNO of the same channels and k_max (complex ones count "
    "once).": Claim("fewer-parameters", "table 6", RESOURCES, ordered(parameters, budget=COUNTED)),
    "PDNO takes more time and more memory than FNO.": Claim(
        "cost", "table 6", RESOURCES, ratio(costs, math.nextafter(1, 2), math.inf, MEASURED)
    ),
    "The symbol networks lie in the stated classes, so that the operators are bounded.": Claim(
        "symbol-class", "3.3, appendix E", (), None
    ),
}
CLAIMS = tuple(claim._replace(text=text) for text, claim in TABLE.items())


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
