"""The claims of the paper (`claims.yaml`), the predicates that assess them, and their table.

Every predicate raises `MissingRunsError` where the runs do not suffice. Means over seeds are
compared as they are; no claim of the paper comes with an uncertainty. Where the paper says
"almost" or "negligible" the criterion is ours, and is part of the text. Runs of a handful of
samples test nothing.
"""

__all__ = ["CLAIMS", "Assessment", "Claim", "Finding", "assess", "claims_table"]

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
import yaml

from pdno.files.metric_table import NetworkMetrics, Summary
from pdno.paper import published
from pdno.paper.published import BASELINES, PDNO, PLAIN, TABLE_6, Budget, Resources
from pdno.paper.results import (
    MissingRunsError,
    Results,
    by_setting,
    grouped,
    of_network,
    of_viscosity,
    require,
)
from pdno.paper.tables import command_of, resource_numbers
from pdno.report.tables import MISSING, Table, number, summary_text

NO_GAP = 1.1  # test error over training error up to which we see no gap
COUNTED, MEASURED = "counted, no training", "one training step on our machine, no GPU"


class Finding(NamedTuple):
    """Whether a claim holds, the numbers, and the networks, or else the budget, behind them."""

    holds: bool
    numbers: str
    networks: Iterable[NetworkMetrics] = ()
    budget: str = ""


Networks = Iterable[NetworkMetrics]
Errors = Mapping[NetworkMetrics, Summary]


class Case(NamedTuple):
    """Ranks of errors that a claim orders, under a label; a note says what is missing."""

    label: str
    ranks: Sequence[Errors]
    note: str = ""


# What several claims have in common


def ordered(cases: Iterable[Case], *, count: bool = False) -> Finding:
    """All errors of a rank are below those of the next; `count` says only in how many cases."""
    texts: list[str] = []
    answers: dict[str, list[bool]] = {}
    used: dict[NetworkMetrics, None] = {}
    for label, ranks, note in cases:
        present = [rank for rank in ranks if rank]
        if ranks[0] and len(present) > 1:
            means = [[error.mean for error in rank.values()] for rank in present]
            answers.setdefault(label, []).append(all(max(a) < min(b) for a, b in pairwise(means)))
            errors = [(network, error) for rank in present for network, error in rank.items()]
            used |= dict.fromkeys(network for network, _ in errors)
            words = [f"{network.model} {summary_text(error)}" for network, error in errors]
            texts.append(label + ", ".join(words) + note)
    if count:
        texts = [f"{label}{sum(held)} of {len(held)} times" for label, held in answers.items()]
    return Finding(all(map(all, answers.values())), "; ".join(require(texts)), used)


def _case(label: str, networks: Sequence[NetworkMetrics], *ranks: Sequence[str]) -> Case:
    absent = [name for rank in ranks for name in rank if of_network(networks, name) is None]
    note = f" (not run: {', '.join(absent)})" if absent else ""
    return Case(label, [_errors(networks, rank) for rank in ranks], note)


def _errors(networks: Sequence[NetworkMetrics], names: Iterable[str]) -> Errors:
    ours = [network for name in names if (network := of_network(networks, name))]
    return {network: error for network in ours if (error := network.summary())}


def monotone(
    curves: Mapping[str, Mapping[float, float]], networks: Networks, *, rising: bool
) -> Finding:
    """Every curve rises, which prints its ends, or falls, which prints all of it."""
    require(curves and all(len(curve) > 1 for curve in curves.values()))
    texts, holds = [], True
    for name, curve in curves.items():
        holds &= all(a < b if rising else a > b for a, b in pairwise(curve.values()))
        at = [f"{number(value)} at {'t = ' * rising}{x:g}" for x, value in curve.items()]
        texts.append(f"{name} {at[0]} to {at[-1]}" if rising else f"{name}: {', '.join(at)}")
    return Finding(holds, (", " if rising else "; ").join(texts), networks)


def within(
    title: str, ratios: Mapping[str, float], low: float, high: float, networks: Networks = ()
) -> Finding:
    """All ratios lie within bounds, which count as inside."""
    text = title + ", ".join(f"{label}: {value:.2f}" for label, value in require(ratios).items())
    holds = all(low <= value <= high for value in ratios.values())
    return Finding(holds, text, networks)


# The predicates of claims.yaml


def below(results: Results, metric: str, splits: Sequence[str], limit: float) -> Finding:
    """A metric of the heat operator is below a limit."""
    networks = require(results.shown("heat")[:1])
    errors = {split: require(networks[0].summary(split, metric)) for split in splits}
    text = ", ".join(f"{split} {summary_text(error)}" for split, error in errors.items())
    holds = all(error.mean < limit for error in errors.values())
    return Finding(holds, f"{metric}: {text}; limit {limit:g}", networks)


_KEYS: dict[str, tuple[Callable[[NetworkMetrics], Any], str]] = {
    "resolution": (lambda network: network.resolution, "s = {:g}: "),
    "dataset": (lambda network: network.metadata.dataset, "{}: "),
    "width": (lambda network: network.metadata.sweep["width"], "{:g} channels: "),
    "": (lambda network: 0, ""),
}


def ranked(
    results: Results,
    ranks: Sequence[Sequence[str]],
    study: str,
    by: str = "",
    *,
    viscosity: float | None = None,
    complete: bool = False,
) -> Finding:
    """Networks of a study, apart by something of them; of one viscosity up to 1000 samples."""
    networks = results.shown(study) if by == "width" else results.study(study)
    if viscosity is not None:
        networks = of_viscosity(networks, viscosity, 1000)
    key, label = _KEYS[by]
    blocks = grouped(networks, key).items()
    cases = [_case(label.format(value), block, *ranks) for value, block in blocks]
    return ordered(case for case in cases if not (complete and case.note))


def gap(results: Results, study: str, others: Sequence[str] = BASELINES, of: str = "") -> Finding:
    """Test / train is at most 1.1, but for the `others`, where it is more.

    The networks are those that are trained the paper's way, those `of` figure 1 or all `shown`.
    """
    networks = [n for n in results.study(study) if n.metadata.of_paper]
    if of:
        networks = _figure_1(results) if of == "figure 1" else results.shown(study)
    errors = {network: (network.summary("train"), network.summary()) for network in networks}
    ratios = {n: test.mean / train.mean for n, (train, test) in errors.items() if train and test}
    ours = [ratio for n, ratio in ratios.items() if n.metadata.network not in others]
    theirs = [ratio for n, ratio in ratios.items() if n.metadata.network in others]
    require(ours and theirs)
    text = ", ".join(f"{n.model} (s = {n.resolution}) {r:.2f}" for n, r in ratios.items())
    holds = max(ours) <= NO_GAP < min(theirs)
    return Finding(holds, f"test / train: {text}; limit {NO_GAP}", ratios)


def _figure_1(results: Results) -> list[NetworkMetrics]:
    """PDNO a(x,ξ) and the other networks of figure 1, where both are there."""
    networks = [network for network in results.shown("navier-stokes") if network.over_time()]
    ours = [network for name in (PDNO, *BASELINES) if (network := of_network(networks, name))]
    require(len(ours) > 1 and ours[0].metadata.network == PDNO)
    return ours


def lowest_over_time(results: Results) -> Finding:
    """PDNO and the others at every time."""
    (first, curve), *others = [(network, network.over_time()) for network in _figure_1(results)]
    label = f"{first.model} against {', '.join(n.model for n, _ in others)}: lowest at "
    ranks = [
        [{first: curve[t]}, {n: other[t] for n, other in others if t in other}] for t in curve
    ]
    return ordered([Case(label, both) for both in ranks], count=True)


def best_on_samples(results: Results) -> Finding:
    """PDNO and the others at each time of the best and of the worst sample."""
    networks = [n for n in results.shown("navier-stokes") if n.metadata.of_paper]
    errors = {n: a for n in networks if (a := results.array(n, "frame_error")) is not None}
    each = [results.array(network, "error") for network in require(errors)]
    mean = np.mean([array for array in each if array is not None], axis=0)
    cases: list[Case] = []
    for choice, index in (("lowest", int(mean.argmin())), ("highest", int(mean.argmax()))):
        for frame in range(next(iter(errors.values())).shape[1]):
            of_frame = {n: Summary(float(e[index, frame]), 0, 1) for n, e in errors.items()}
            ours = {n: e for n, e in of_frame.items() if n.metadata.network == PDNO}
            theirs = {n: e for n, e in of_frame.items() if n.metadata.network in BASELINES}
            cases.append(Case(f"{choice}: sample {index}, best at ", [ours, theirs]))
    return ordered(cases, count=True)


def growth(results: Results) -> Finding:
    """Errors rise with time."""
    networks = [n for n in results.shown("navier-stokes") if n.metadata.of_paper]
    networks = [network for network in networks if len(network.over_time()) > 1]
    curves = {n.model: {t: error.mean for t, error in n.over_time().items()} for n in networks}
    return monotone(curves, networks, rising=True)


def symbol_roughness(results: Results, limit: float) -> Finding:
    """The roughest symbol of PDNO over the smoothest one of FNO."""
    shown = results.shown("navier-stokes")
    networks = [network for name in (PDNO, "FNO") if (network := of_network(shown, name))]
    blocks = {n: [s.mean for s in n.series("roughness", "block ").values()] for n in networks}
    require(len(blocks) == 2 and all(blocks.values()))
    ours, theirs = blocks.values()
    words = [f"{n.model} {', '.join(f'{r:.2f}' for r in rough)}" for n, rough in blocks.items()]
    title = f"roughness by block (1 is noise): {'; '.join(words)}; "
    ratios = {"largest / least": max(ours) / min(theirs)}
    return within(title, ratios, 0, math.nextafter(limit, 0), networks)


def fewest_modes(results: Results) -> Finding:
    """The smallest k_max, and other networks at the same resolution."""
    network = require([*by_setting(results.shown("darcy-modes"), "modes").values()])[0]
    others = results.by_resolution("darcy").get(network.resolution, [])
    ranks = [{network: require(network.summary())}, _errors(others, BASELINES)]
    return ordered([Case(f"s = {network.resolution}: ", ranks)])


def many_modes(results: Results, least: int, factor: float) -> Finding:
    """Errors with at least so many modes over that of all modes."""
    swept = by_setting(results.shown("darcy-modes"), "modes")
    errors = {k: e.mean for k, n in swept.items() if k >= least and (e := n.summary())}
    every = errors.pop(math.inf, 0.0)
    require(every > 0)
    ratios = {f"k_max = {k:g}": error / every for k, error in errors.items()}
    networks = [swept[math.inf], *(swept[k] for k in errors)]
    return within("error / that of all modes: ", ratios, 1 / factor, factor, networks)


def falls_with_width(results: Results) -> Finding:
    """Errors of PDNO a(ξ) and FNO by their channels."""
    curves, shown = {}, results.shown("navier-stokes-width")
    for name in (PLAIN, "FNO"):
        swept = by_setting(shown, "width", name)
        curves[name] = {width: e.mean for width, n in swept.items() if (e := n.summary())}
    return monotone(curves, shown, rising=False)


def symbol_classes(results: Results) -> Finding:
    """Certificates of all layers that `pdno symbol` has looked into, of the paper's networks."""
    counts: dict[NetworkMetrics, tuple[float, float]] = {}
    texts = []
    for network in results.networks:
        layers, accepted, order = (
            network.values("symbol class", name)[:1]
            for name in ("layers", "accepted layers", "order")
        )
        if network.metadata.of_paper and layers:
            counts[network] = (accepted[0], layers[0])
            name = f"{network.metadata.study}, {network.model}"
            texts.append(f"{name}: {accepted[0]:g} of {layers[0]:g} layers in S^{order[0]:g}")
    return Finding(all(a == n for a, n in require(counts).values()), "; ".join(texts), counts)


def parameters_by_modes(results: Results) -> Finding:
    """Most over fewest parameters of PDNO with the same channels and several k_max."""
    ours = {k[1:]: r.parameters for k, r in resource_numbers(results).items() if k[0] == "PDNO"}
    ratios = {}
    for width in dict.fromkeys(width for _, width in ours):
        counts = {modes: int(count) for (modes, w), count in sorted(ours.items()) if w == width}
        different = sorted(set(counts.values()))
        if len(counts) > 1:
            modes, words = (", ".join(map(str, numbers)) for numbers in (counts, different))
            title = f"{width} channels, k_max {modes}: {words} parameters"
            ratios[title] = different[-1] / different[0]
    return within("most / fewest, ", ratios, 1, 1)._replace(budget=COUNTED)


def _pairs(results: Results) -> dict[str, tuple[Resources, Resources]]:
    """PDNO and FNO by configuration; only those of the paper's table."""
    ours, sizes = resource_numbers(results), [key[1:] for key in TABLE_6 if key[0] == "PDNO"]
    pairs = {size: (ours.get(("PDNO", *size)), ours.get(("FNO", *size))) for size in sizes}
    return {f"k_max {m}, {w} channels": (a, b) for (m, w), (a, b) in pairs.items() if a and b}


def fewer_parameters(results: Results) -> Finding:
    """Parameters of PDNO and FNO."""
    counts = {k: (a.parameters, b.parameters) for k, (a, b) in _pairs(results).items()}
    texts = [f"{k}: PDNO {number(a)}, FNO {number(b)}" for k, (a, b) in counts.items()]
    holds = all(a < b for a, b in counts.values())
    return Finding(holds, "; ".join(require(texts)), budget=COUNTED)


def costs(results: Results) -> Finding:
    """Time and memory of PDNO over those of FNO."""
    paper = (TABLE_6["PDNO", 12, 20], TABLE_6["FNO", 12, 20])
    texts, holds = [], True
    for name, part in (("time", 2), ("memory", 0)):
        ratios = {label: a[part] / b[part] for label, (a, b) in _pairs(results).items()}
        ours = within(f"{name} PDNO / FNO ", ratios, math.nextafter(1, 2), math.inf)
        holds &= ours.holds
        theirs = f"{paper[0][part] / paper[1][part]:.1f} at k_max 12, 20 channels"
        texts.append(f"{ours.numbers} (paper {theirs})")
    return Finding(holds, "; ".join(texts), budget=MEASURED)


class Claim(NamedTuple):
    """One claim of claims.yaml."""

    key: str
    text: str
    reference: str
    studies: Sequence[str]
    assess: str
    arguments: Mapping[str, Any] = MappingProxyType({})
    options: Mapping[str, float] = MappingProxyType({})


_TEXT = Path(__file__).with_name("claims.yaml").read_text(encoding="utf-8")
CLAIMS = tuple(Claim(**entry) for entry in yaml.safe_load(_TEXT))


class Assessment(NamedTuple):
    """What our runs say of a claim, the numbers it rests on or what is missing, the budget."""

    claim: Claim
    answer: Literal["holds", "does not hold", "not tested here"]
    numbers: str
    budget: str


def assess(claim: Claim, results: Results) -> Assessment:
    """The assessment of one claim."""
    try:
        predicate: Callable[..., Finding] = globals()[claim.assess]
        finding = predicate(results, **claim.arguments)
    except MissingRunsError:
        commands = " and ".join(command_of(study, **claim.options) for study in claim.studies)
        return Assessment(claim, "not tested here", f"needs {commands}", MISSING)
    budgets = [(network.model, Budget.of(network)) for network in finding.networks]
    budget = finding.budget or published.describe_budgets(budgets)
    if any(one.level == "smoke" for _, one in budgets):
        return Assessment(claim, "not tested here", finding.numbers, f"{budget}: tests nothing")
    answer: Literal["holds", "does not hold"] = "holds" if finding.holds else "does not hold"
    return Assessment(claim, answer, finding.numbers, budget)


def claims_table(assessments: Sequence[Assessment]) -> Table:
    """A line for each claim; those that hold stand out."""
    head = ("claim", "in the paper", "assessment", "numbers", "budget")
    lines = [(a.claim.text, a.claim.reference, a.answer, a.numbers, a.budget) for a in assessments]
    note = (
        "Assessments are of our runs at their budget, not of the paper: a claim that does not "
        "hold with less training may hold with more, and the other way round."
    )
    strong = frozenset((k, 2) for k, a in enumerate(assessments) if a.answer == "holds")
    return Table(head, tuple(lines), (note,), strong)
