"""The claims of the paper as a table, five predicates that judge them, and the verdicts.

    below     numbers are below a limit
    ordered   errors of each rank are below those of the next, in every case
    gap       test / train is at most 1.1 for some networks and more for others
    monotone  curves rise, or fall, from each point to the next
    ratio     ratios lie within bounds

All raise where the runs do not tell. Means over seeds are compared as they are; no claim of the
paper comes with an uncertainty. Where the paper says "almost" or "negligible" the criterion is
ours, and is part of the text. Runs of a handful of samples test nothing.
"""

__all__ = ["CLAIMS", "Claim", "Verdict", "judge", "verdicts_table"]

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from pdno.files.metric_table import Summary
from pdno.paper.figures_symbols import roughness, symbol_values
from pdno.paper.published import BASELINES, ONE_SHOT, PDNO, PLAIN, RELU, TABLE_6, Resources
from pdno.paper.tables import (
    MISSING,
    SYMBOL_COMMAND,
    Table,
    command_of,
    number,
    resource_numbers,
    summary_text,
)
from pdno.report import runs
from pdno.report.runs import Group, Results, by_setting, grouped, of_network, require

NO_GAP = 1.1  # test error over training error up to which we see no gap
COMPARABLE = 1.25  # ratio of errors up to which we call them comparable
ENOUGH_MODES = 20  # k_max of figure 9
SMOOTHER = 0.5  # ratio of the roughness of PDNO's symbols to FNO's below which they are smoother
COUNTED, MEASURED = "counted, no training", "one training step on our machine, no GPU"
HEAT, DARCY, FLOW, BURGERS = ("heat",), ("darcy",), ("navier-stokes",), ("burgers",)
MODES, WIDTH, ACTIVATION = ("darcy-modes",), ("navier-stokes-width",), ("darcy-activation",)
RESOURCES, BOTH, SYMBOL = ("resources",), ("train", "test"), ("symbol",)
NOT_FNO = (PDNO, PLAIN, "MWT Leg", "MWT Chb")
LIMIT = "(test / train up to 1.1 is none)"


class Finding(NamedTuple):
    """Whether a claim holds, the numbers and the runs, or else the budget, that this rests on."""

    holds: bool
    numbers: str
    groups: Iterable[Group] = ()
    budget: str = ""


Errors = Mapping[Group, Summary]
Case = tuple[str, Sequence[Errors], str]
"""Ranks of errors that a claim orders, under a label; a note says what is missing."""


def below(metric: str, splits: Sequence[str], limit: float) -> Callable[[Results], Finding]:
    def judge(results: Results) -> Finding:
        groups = require(results.shown("heat")[:1])
        errors = {split: require(groups[0].summary(split, metric)) for split in splits}
        text = ", ".join(f"{split} {summary_text(error)}" for split, error in errors.items())
        holds = all(error.mean < limit for error in errors.values())
        return Finding(holds, f"{metric}: {text}; limit {limit:g}", groups)

    return judge


def ordered(cases: Iterable[Case], *, count: bool = False) -> Finding:
    """All errors of a rank are below those of the next; `count` tells only in how many cases."""
    texts: list[str] = []
    answers: dict[str, list[bool]] = {}
    used: dict[Group, None] = {}
    for label, ranks, note in cases:
        present = [rank for rank in ranks if rank]
        if ranks[0] and len(present) > 1:
            means = [[error.mean for error in rank.values()] for rank in present]
            answers.setdefault(label, []).append(all(max(a) < min(b) for a, b in pairwise(means)))
            errors = [(group, error) for rank in present for group, error in rank.items()]
            used |= dict.fromkeys(group for group, _ in errors)
            words = [f"{group.model} {summary_text(error)}" for group, error in errors]
            texts.append(label + ", ".join(words) + note)
    if count:
        texts = [f"{label}{sum(found)} of {len(found)} times" for label, found in answers.items()]
    return Finding(all(map(all, answers.values())), "; ".join(require(texts)), used)


def gap(groups: Iterable[Group], others: Sequence[str] = BASELINES) -> Finding:
    """Test / train is at most 1.1, but for the `others`, where it is more."""
    errors = {group: (group.summary("train"), group.summary()) for group in groups}
    ratios = {g: test.mean / train.mean for g, (train, test) in errors.items() if train and test}
    ours = [ratio for group, ratio in ratios.items() if group.metadata.network not in others]
    theirs = [ratio for group, ratio in ratios.items() if group.metadata.network in others]
    require(ours and theirs)
    text = ", ".join(f"{g.model} (s = {g.resolution}) {r:.2f}" for g, r in ratios.items())
    holds = max(ours) <= NO_GAP < min(theirs)
    return Finding(holds, f"test / train: {text}; limit {NO_GAP}", ratios)


def monotone(
    curves: Mapping[str, Mapping[float, float]], groups: Iterable[Group], *, rising: bool
) -> Finding:
    """Every curve rises, which prints its ends, or falls, which prints all of it."""
    require(curves and all(len(curve) > 1 for curve in curves.values()))
    texts, holds = [], True
    for name, curve in curves.items():
        holds &= all(a < b if rising else a > b for a, b in pairwise(curve.values()))
        at = [f"{number(value)} at {'t = ' * rising}{place:g}" for place, value in curve.items()]
        texts.append(f"{name} {at[0]} to {at[-1]}" if rising else f"{name}: {', '.join(at)}")
    return Finding(holds, (", " if rising else "; ").join(texts), groups)


def ratio(
    title: str, ratios: Mapping[str, float], low: float, high: float, groups: Iterable[Group] = ()
) -> Finding:
    """All ratios lie within bounds, which count as inside."""
    text = title + ", ".join(f"{label}: {value:.2f}" for label, value in require(ratios).items())
    holds = all(low <= value <= high for value in ratios.values())
    return Finding(holds, text, groups)


def _errors(groups: Sequence[Group], networks: Iterable[str]) -> Errors:
    found = [group for network in networks if (group := of_network(groups, network))]
    return {group: error for group in found if (error := group.summary())}


def _case(label: str, groups: Sequence[Group], *ranks: Sequence[str]) -> Case:
    absent = [name for rank in ranks for name in rank if of_network(groups, name) is None]
    note = f" (not run: {', '.join(absent)})" if absent else ""
    return label, [_errors(groups, rank) for rank in ranks], note


def ranked(study: str, *ranks: Sequence[str]) -> Callable[[Results], Finding]:
    """Networks at every resolution that was run."""
    return lambda results: ordered(
        _case(f"s = {points}: ", groups, *ranks)
        for points, groups in results.by_resolution(study).items()
    )


def by_viscosity(viscosity: float, results: Results) -> Finding:
    """PDNO and the others on the data of one viscosity, up to the 1000 samples of the paper."""
    groups = runs.of_flow(results.study("navier-stokes"), viscosity, 1000)
    return ordered([_case("", groups, (PDNO,), BASELINES)])


def one_shot(results: Results) -> Finding:
    """On every dataset that has both."""
    blocks = grouped(results.study("navier-stokes"), lambda group: group.metadata.dataset)
    cases = [_case(f"{name}: ", groups, (PDNO,), (ONE_SHOT,)) for name, groups in blocks.items()]
    return ordered(case for case in cases if not case[2])


def figure_1(results: Results) -> list[Group]:
    """PDNO a(x,ξ) and the other networks of figure 1, where both are there."""
    groups = [group for group in results.shown("navier-stokes") if group.over_time()]
    found = [group for name in (PDNO, *BASELINES) if (group := of_network(groups, name))]
    require(len(found) > 1 and found[0].metadata.network == PDNO)
    return found


def over_time(results: Results) -> Finding:
    (first, curve), *others = [(group, group.over_time()) for group in figure_1(results)]
    label = f"{first.model} against {', '.join(group.model for group, _ in others)}: lowest at "
    ranks = [
        [{first: curve[t]}, {g: other[t] for g, other in others if t in other}] for t in curve
    ]
    return ordered([(label, both, "") for both in ranks], count=True)


def samples(results: Results) -> Finding:
    """PDNO and the others at each time of the best and of the worst sample."""
    groups = [group for group in results.shown("navier-stokes") if group.metadata.of_paper]
    found = {g: g.picture("frame_error") for g in groups if "frame_error" in g.picture_names}
    mean = np.mean(require([group.picture("error") for group in found]), axis=0)
    cases: list[Case] = []
    for choice, index in (("lowest", int(mean.argmin())), ("highest", int(mean.argmax()))):
        for frame in range(next(iter(found.values())).shape[1]):
            errors = {g: Summary(float(e[index, frame]), 0, 1) for g, e in found.items()}
            ours = {g: error for g, error in errors.items() if g.metadata.network == PDNO}
            theirs = {g: error for g, error in errors.items() if g.metadata.network in BASELINES}
            cases.append((f"{choice}: sample {index}, best at ", [ours, theirs], ""))
    return ordered(cases, count=True)


def growth(results: Results) -> Finding:
    groups = [group for group in results.shown("navier-stokes") if group.metadata.of_paper]
    groups = [group for group in groups if len(group.over_time()) > 1]
    curves = {g.model: {t: s.mean for t, s in g.over_time().items()} for g in groups}
    return monotone(curves, groups, rising=True)


def by_width(results: Results) -> Finding:
    curves, shown = {}, results.shown(*WIDTH)
    for network in (PLAIN, "FNO"):
        swept = by_setting(shown, "width", network)
        curves[network] = {width: e.mean for width, g in swept.items() if (e := g.summary())}
    return monotone(curves, shown, rising=False)


def same_width(results: Results) -> Finding:
    known = [group for group in results.shown(*WIDTH) if "width" in group.metadata.sweep]
    blocks = grouped(known, lambda group: group.metadata.sweep["width"])
    return ordered(_case(f"{w:g} channels: ", blocks[w], (PLAIN,), ("FNO",)) for w in blocks)


def fewest_modes(results: Results) -> Finding:
    """The smallest k_max, and other networks at the same resolution."""
    group = require([*by_setting(results.shown(*MODES), "modes").values()])[0]
    others = results.by_resolution("darcy").get(group.resolution, [])
    ranks = [{group: require(group.summary())}, _errors(others, BASELINES)]
    return ordered([(f"s = {group.resolution}: ", ranks, "")])


def many_modes(results: Results) -> Finding:
    """Errors with k_max of 20 and more over that of all modes."""
    swept = by_setting(results.shown("darcy-modes"), "modes")
    errors = {k: e.mean for k, g in swept.items() if k >= ENOUGH_MODES and (e := g.summary())}
    every = errors.pop(math.inf, 0.0)
    require(every > 0)
    ratios = {f"k_max = {k:g}": error / every for k, error in errors.items()}
    groups = [swept[math.inf], *(swept[k] for k in errors)]
    return ratio("error / that of all modes: ", ratios, 1 / COMPARABLE, COMPARABLE, groups)


def symbol_roughness(results: Results) -> Finding:
    """The roughest symbol of PDNO over the smoothest one of FNO."""
    shown = results.shown("navier-stokes")
    groups = [group for name in (PDNO, "FNO") if (group := of_network(shown, name))]
    found = {g: [roughness(values) for values in symbol_values(g)] for g in groups}
    require(len(found) == 2 and all(found.values()))
    ours, theirs = found.values()
    words = [f"{g.model} {', '.join(f'{r:.2f}' for r in rough)}" for g, rough in found.items()]
    title = f"roughness by block (1 is noise): {'; '.join(words)}; "
    ratios = {"largest / least": max(ours) / min(theirs)}
    return ratio(title, ratios, 0, math.nextafter(SMOOTHER, 0), groups)


def symbol_classes(results: Results) -> Finding:
    """Certificates of all layers that `pdno symbol` has looked into, of the paper's networks."""
    known = {g: g.inside for g in results.groups if g.metadata.of_paper and g.inside.get("layers")}
    counts = {g: [layer["accepted"] for layer in found["layers"]] for g, found in known.items()}
    words = [
        f"{g.metadata.study}, {g.model}: {sum(accepted)} of {len(accepted)} layers in "
        f"S^{float(known[g]['order']):g}"
        for g, accepted in require(counts).items()
    ]
    return Finding(all(map(all, counts.values())), "; ".join(words), counts)


def parameters_by_modes(results: Results) -> Finding:
    """Most over fewest parameters of PDNO with the same channels and several k_max."""
    ours = {k[1:]: r.parameters for k, r in resource_numbers(results).items() if k[0] == "PDNO"}
    ratios = {}
    for width in dict.fromkeys(width for _, width in ours):
        counts = {modes: int(count) for (modes, w), count in sorted(ours.items()) if w == width}
        found = sorted(set(counts.values()))
        if len(counts) > 1:
            kept, words = (", ".join(map(str, some)) for some in (counts, found))
            ratios[f"{width} channels, k_max {kept}: {words} parameters"] = found[-1] / found[0]
    return ratio("most / fewest, ", ratios, 1, 1)._replace(budget=COUNTED)


def _pairs(results: Results) -> dict[str, tuple[Resources, Resources]]:
    """PDNO and FNO by configuration; only those of the paper's table."""
    ours, sizes = resource_numbers(results), [key[1:] for key in TABLE_6 if key[0] == "PDNO"]
    pairs = {size: (ours.get(("PDNO", *size)), ours.get(("FNO", *size))) for size in sizes}
    return {f"k_max {m}, {w} channels": (a, b) for (m, w), (a, b) in pairs.items() if a and b}


def parameters(results: Results) -> Finding:
    counts = {k: (a.parameters, b.parameters) for k, (a, b) in _pairs(results).items()}
    texts = [f"{k}: PDNO {number(a)}, FNO {number(b)}" for k, (a, b) in counts.items()]
    holds = all(a < b for a, b in counts.values())
    return Finding(holds, "; ".join(require(texts)), budget=COUNTED)


def costs(results: Results) -> Finding:
    """Time and memory of PDNO over those of FNO."""
    paper = (TABLE_6["PDNO", 12, 20], TABLE_6["FNO", 12, 20])
    texts, holds = [], True
    for name, place in (("time", 2), ("memory", 0)):
        ratios = {label: a[place] / b[place] for label, (a, b) in _pairs(results).items()}
        found = ratio(f"{name} PDNO / FNO ", ratios, math.nextafter(1, 2), math.inf)
        holds &= found.holds
        there = f"{paper[0][place] / paper[1][place]:.1f} at k_max 12, 20 channels"
        texts.append(f"{found.numbers} (paper {there})")
    return Finding(holds, "; ".join(texts), budget=MEASURED)


class Claim(NamedTuple):
    """What the paper says, with our criterion: its name here and its place there.

    The studies test it, as `pdno reproduce` calls them, with these options.
    """

    key: str
    place: str
    studies: tuple[str, ...]
    judge: Callable[[Results], Finding]
    options: Mapping[str, float] = MappingProxyType({})
    text: str = ""


TABLE = {
    "Heat: relative L2 error below 0.01 on training and test.": Claim(
        "heat-error", "5.1", HEAT, below(runs.ERROR, BOTH, 0.01)
    ),
    "Heat: the operator works at times absent from training (error there below 0.01).": Claim(
        "heat-times", "4.2, fig. 8", HEAT, below(f"{runs.ERROR} other times", BOTH, 0.01)
    ),
    # 0.1 is what a relative error of 0.01 allows, see pdno.evaluation
    "Heat: the learned symbol is the exact one (difference below 0.1 where the data excite the "
    "mode).": Claim(
        "heat-symbol", "5.1, fig. 3", HEAT, below("symbol difference excited", SYMBOL, 0.1)
    ),
    "Heat: a1(x, t) is almost constant in x (standard deviation below 0.1 of the mean).": Claim(
        "heat-constant", "fig. 7", HEAT, below("symbol variation over x", SYMBOL, 0.1)
    ),
    "Darcy test error: PDNO a(x,ξ) < PDNO a(ξ) < MWT and FNO.": Claim(
        "darcy-order", "table 1", DARCY, ranked("darcy", (PDNO,), (PLAIN,), ("MWT Leg", "FNO"))
    ),
    f"Darcy: PDNO has no gap between training and test, MWT and FNO have one {LIMIT}.": Claim(
        "darcy-gap",
        "table 1",
        DARCY,
        lambda r: gap(g for g in r.study("darcy") if g.metadata.of_paper),
    ),
    "Navier-Stokes, ν = 1e-5: PDNO a(x,ξ) has the lowest test error.": Claim(
        "navier-stokes-best", "table 2", FLOW, partial(by_viscosity, 1e-5)
    ),
    "Navier-Stokes, ν = 1e-4 with 1000 samples: PDNO a(x,ξ) has the lowest test error.": Claim(
        "navier-stokes-best-1e-4",
        "table 2",
        FLOW,
        partial(by_viscosity, 1e-4),
        {"viscosity": 1e-4},
    ),
    "Navier-Stokes: the recurrent PDNO a(x,ξ) is better than the one-shot PDNO a(x,ξ,t).": Claim(
        "navier-stokes-one-shot", "table 2", FLOW, one_shot
    ),
    "Navier-Stokes, ν = 1e-5: the test errors of all networks grow with t.": Claim(
        "navier-stokes-growth", "fig. 1", FLOW, growth
    ),
    "Navier-Stokes, ν = 1e-5: PDNO has the lowest test error at all t.": Claim(
        "navier-stokes-lowest", "fig. 1", FLOW, over_time
    ),
    "Navier-Stokes, ν = 1e-5: PDNO has no gap between training and test, the others have one "
    f"{LIMIT}.": Claim("navier-stokes-gap", "fig. 1", FLOW, lambda r: gap(figure_1(r))),
    "Learned symbols of PDNO are smooth in ξ, those of FNO are not (every block at most half as "
    "rough).": Claim("smooth-symbols", "fig. 5", FLOW, symbol_roughness),
    "PDNO is the best at all times of the samples with the lowest and the highest mean "
    "error.": Claim("samples-best", "figs. 12, 13", FLOW, samples),
    "Burgers: FNO has the lowest test error at every resolution.": Claim(
        "burgers-order", "table 3", BURGERS, ranked("burgers", ("FNO",), NOT_FNO)
    ),
    "Burgers: PDNO a(ξ) is worse than PDNO a(x,ξ).": Claim(
        "burgers-space", "table 3", BURGERS, ranked("burgers", (PDNO,), (PLAIN,))
    ),
    "Darcy: a small k_max already beats MWT and FNO.": Claim(
        "modes-beat-baselines", "fig. 9", (*MODES, *DARCY), fewest_modes
    ),
    "Darcy: k_max of 20 and more is comparable to all modes (within a factor of 1.25).": Claim(
        "modes-saturate", "fig. 9", MODES, many_modes, {"resolution": 64}
    ),
    f"Darcy: ReLU symbols have a gap between training and test, GELU ones do not {LIMIT}.": Claim(
        "activation-gap", "fig. 11", ACTIVATION, lambda r: gap(r.study(*ACTIVATION), (RELU,))
    ),
    "Navier-Stokes: the test error falls with the channels, for PDNO a(ξ) and FNO.": Claim(
        "width-falls", "fig. 10", WIDTH, by_width
    ),
    "Navier-Stokes: PDNO a(ξ) has a lower test error than FNO of the same channels.": Claim(
        "width-lower", "fig. 10", WIDTH, same_width
    ),
    "Navier-Stokes: PDNO a(ξ) has almost no gap between training and test, FNO has one "
    f"{LIMIT}.": Claim("width-gap", "fig. 10", WIDTH, lambda r: gap(r.shown(*WIDTH))),
    "The number of parameters of PDNO does not depend on k_max.": Claim(
        "parameters-without-modes", "table 6", RESOURCES, parameters_by_modes
    ),
    "PDNO has fewer parameters than FNO of the same channels and k_max (complex ones count "
    "once).": Claim("fewer-parameters", "table 6", RESOURCES, parameters),
    "PDNO takes more time and more memory than FNO.": Claim("cost", "table 6", RESOURCES, costs),
    "The symbol networks lie in the stated classes, so that the operators are bounded.": Claim(
        "symbol-class", "3.3, appendix E", (SYMBOL_COMMAND,), symbol_classes
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
    try:
        finding = claim.judge(results)
    except runs.MissingRunsError:
        commands = " and ".join(command_of(study, **claim.options) for study in claim.studies)
        return Verdict(claim, "not tested here", f"needs {commands}", MISSING)
    budgets = [(group.model, group.budget) for group in finding.groups]
    budget = finding.budget or runs.describe_budgets(budgets)
    if any(one.level == "smoke" for _, one in budgets):
        return Verdict(claim, "not tested here", finding.numbers, f"{budget}: tests nothing")
    return Verdict(claim, "holds" if finding.holds else "does not hold", finding.numbers, budget)


def verdicts_table(verdicts: Sequence[Verdict]) -> Table:
    head = ("claim", "in the paper", "verdict", "numbers", "budget")
    lines = [(v.claim.text, v.claim.place, v.answer, v.numbers, v.budget) for v in verdicts]
    note = (
        "Verdicts are of our runs at their budget, not of the paper: a claim that does not hold "
        "with less training may hold with more, and the other way round."
    )
    strong = frozenset((k, 2) for k, verdict in enumerate(verdicts) if verdict.answer == "holds")
    return Table(head, tuple(lines), (note,), strong)
