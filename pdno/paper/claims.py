"""The claims of the paper (`claims.yaml`), the predicates that assess them, and their table.

Every predicate raises `MissingRunsError` where the runs do not suffice. Where the paper says
"almost" or "negligible" the criterion is ours, and is part of the text.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
import yaml

from pdno.files.metric_table import ERROR, NetworkMetrics, Summary
from pdno.paper.published import BASELINES, PDNO, PLAIN, TABLE_6, Budget, describe_budgets
from pdno.paper.results import (
    MissingRunsError,
    Results,
    by_setting,
    grouped,
    of_network,
    of_viscosity,
    require,
)
from pdno.paper.tables import command_of, resource_numbers, resource_ratios
from pdno.report.tables import MISSING, Table, number, summary_text

NO_GAP = 1.1  # test error over training error up to which we see no gap
Networks = Iterable[NetworkMetrics]


class Finding(NamedTuple):
    """Whether a claim holds, the numbers, and the networks, or else the budget, behind them."""

    holds: bool
    numbers: str
    networks: Networks = ()
    budget: str = ""


# Kinds of comparison


def monotone(
    curves: Mapping[str, Mapping[float, Summary]], networks: Networks, *, rising: bool
) -> Finding:
    """Every curve rises, which prints its ends, or falls, which prints all of it."""
    texts, holds = [], True
    for name, curve in require(curves).items():
        require(len(curve) > 1)
        pairs = pairwise(error.mean for error in curve.values())
        holds &= all(a < b if rising else a > b for a, b in pairs)
        at = [f"{number(error.mean)} at {'t = ' * rising}{x:g}" for x, error in curve.items()]
        texts.append(f"{name} {at[0]} to {at[-1]}" if rising else f"{name}: {', '.join(at)}")
    return Finding(holds, (", " if rising else "; ").join(texts), networks)


def within(
    title: str, ratios: Mapping[str, float], low: float, high: float, networks: Networks = ()
) -> Finding:
    """All ratios lie within bounds, which count as inside."""
    text = title + ", ".join(f"{label}: {value:.2f}" for label, value in require(ratios).items())
    return Finding(all(low <= value <= high for value in ratios.values()), text, networks)


# The predicates of claims.yaml


def below(results: Results, metric: str, splits: Sequence[str], limit: float) -> Finding:
    """A metric of the heat operator is below a limit."""
    network = require(results.shown("heat"))[0]
    errors = {split: require(network.summary(split, metric)) for split in splits}
    text = ", ".join(f"{split} {summary_text(error)}" for split, error in errors.items())
    holds = all(error.mean < limit for error in errors.values())
    return Finding(holds, f"{metric}: {text}; limit {limit:g}", [network])


def heat_error(results: Results, limit: float) -> Finding:
    """Errors of the heat operator as the paper counts them, and those of whole trajectories.

    The paper trains on pairs of a state and a trained time and tests on pairs with all times.
    """
    network = require(results.shown("heat"))[0]
    train, test = (require(network.summary(split)) for split in ("train", "test"))
    trained = network.summary("train", f"{ERROR} trained times") or train
    pairs = network.per_pair() or test
    text = (
        f"train at the trained times {summary_text(trained)}, test per pair of state and time "
        f"{summary_text(pairs)}; trajectories of all times: train {summary_text(train)}, "
        f"test {summary_text(test)}; limit {limit:g}"
    )
    return Finding(max(trained.mean, pairs.mean) < limit, text, [network])


_LABELS = {"resolution": "s = {:g}: ", "dataset": "{}: ", "width": "{:g} channels: ", "": ""}


def ranked(
    results: Results,
    ranks: Sequence[Sequence[str]],
    study: str,
    by: str = "",
    *,
    viscosity: float | None = None,
    complete: bool = False,
) -> Finding:
    """Errors of all networks of a rank are below those of the next, apart by something of them.

    Of one viscosity they are those up to 1000 samples; `complete` leaves out where one is missing.
    """
    networks = results.shown(study) if by == "width" else results.study(study)
    if viscosity is not None:
        networks = of_viscosity(networks, viscosity, 1000)

    def key(network: NetworkMetrics) -> str | float:
        about = network.metadata
        value: str | float = about.dataset if by == "dataset" else about.sweep.get(by, 0)
        return network.resolution if by == "resolution" else value

    texts, holds, used = [], True, list[NetworkMetrics]()
    for value, block in grouped(networks, key).items():
        named = {name: of_network(block, name) for rank in ranks for name in rank}
        absent = [name for name, network in named.items() if network is None]
        errors = [
            {n: e for name in rank if (n := named[name]) and (e := n.summary())} for rank in ranks
        ]
        present = [rank for rank in errors if rank]
        if errors[0] and len(present) > 1 and not (complete and absent):
            means = [[error.mean for error in rank.values()] for rank in present]
            holds &= all(max(a) < min(b) for a, b in pairwise(means))
            note = f" (not run: {', '.join(absent)})" if absent else ""
            texts.append(_LABELS[by].format(value) + _words(*present) + note)
            used += [network for rank in present for network in rank]
    return Finding(holds, "; ".join(require(texts)), used)


def _words(*errors: Mapping[NetworkMetrics, Summary]) -> str:
    return ", ".join(f"{n.model} {summary_text(e)}" for rank in errors for n, e in rank.items())


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
    holds = max(require(ours)) <= NO_GAP < min(require(theirs))
    text = ", ".join(f"{n.model} (s = {n.resolution}) {r:.2f}" for n, r in ratios.items())
    return Finding(holds, f"test / train: {text}; limit {NO_GAP}", ratios)


def _figure_1(results: Results) -> list[NetworkMetrics]:
    networks = [network for network in results.shown("navier-stokes") if network.over_time()]
    first = require(of_network(networks, PDNO))
    others = [network for name in BASELINES if (network := of_network(networks, name))]
    return [first, *require(others)]


def lowest_over_time(results: Results) -> Finding:
    """PDNO and the others at every time."""
    first, *others = networks = _figure_1(results)
    curves = [network.over_time() for network in others]
    wins = [
        all(error.mean < curve[t].mean for curve in curves if t in curve)
        for t, error in first.over_time().items()
    ]
    label = f"{first.model} against {', '.join(n.model for n in others)}: lowest at "
    return Finding(all(wins), f"{label}{sum(wins)} of {len(wins)} times", networks)


def best_on_samples(results: Results) -> Finding:
    """PDNO and the others at each time of the best and of the worst sample."""
    networks = [n for n in results.shown("navier-stokes") if n.metadata.of_paper]
    frames = {n: a for n in networks if (a := results.array(n, "frame_error")) is not None}
    each = [results.array(network, "error") for network in require(frames)]
    mean = np.mean([array for array in each if array is not None], axis=0)
    groups = [[n for n in frames if n.metadata.network in g] for g in ((PDNO,), BASELINES)]
    ours, theirs = ([frames[network] for network in require(group)] for group in groups)
    texts, holds = [], True
    for choice, index in (("lowest", int(mean.argmin())), ("highest", int(mean.argmax()))):
        wins = np.max(ours, axis=0)[index] < np.min(theirs, axis=0)[index]
        texts.append(f"{choice}: sample {index}, best at {wins.sum()} of {wins.size} times")
        holds &= bool(wins.all())
    return Finding(holds, "; ".join(texts), sum(groups, []))


def growth(results: Results) -> Finding:
    networks = [n for n in results.shown("navier-stokes") if n.metadata.of_paper]
    networks = [network for network in networks if len(network.over_time()) > 1]
    return monotone({n.model: n.over_time() for n in networks}, networks, rising=True)


def symbol_roughness(results: Results, limit: float) -> Finding:
    """The roughest symbol of PDNO over the smoothest one of FNO."""
    shown = results.shown("navier-stokes")
    networks = [require(of_network(shown, name)) for name in (PDNO, "FNO")]
    rough = [[s.mean for s in n.series("roughness", "block ").values()] for n in networks]
    pairs = zip(networks, map(require, rough), strict=True)
    words = [f"{n.model} {', '.join(f'{r:.2f}' for r in blocks)}" for n, blocks in pairs]
    title = f"roughness by block (1 is noise): {'; '.join(words)}; "
    ratios = {"largest / least": max(rough[0]) / min(rough[1])}
    return within(title, ratios, 0, math.nextafter(limit, 0), networks)


def fewest_modes(results: Results) -> Finding:
    """The smallest k_max, and other networks at the same resolution."""
    network = require([*by_setting(results.shown("darcy-modes"), "modes").values()])[0]
    others = results.by_resolution("darcy").get(network.resolution, [])
    ours = {network: require(network.summary())}
    named = (of_network(others, name) for name in BASELINES)
    theirs = require({n: error for n in named if n and (error := n.summary())})
    holds = all(ours[network].mean < error.mean for error in theirs.values())
    return Finding(holds, f"s = {network.resolution}: {_words(ours, theirs)}", [*ours, *theirs])


def many_modes(results: Results, least: int, factor: float) -> Finding:
    """Errors with at least so many modes over that of all modes."""
    swept = by_setting(results.shown("darcy-modes"), "modes")
    errors = {k: e.mean for k, n in swept.items() if k >= least and (e := n.summary())}
    every = require(errors.pop(math.inf, 0.0))
    ratios = {f"k_max = {k:g}": error / every for k, error in errors.items()}
    networks = [swept[math.inf], *(swept[k] for k in errors)]
    return within("error / that of all modes: ", ratios, 1 / factor, factor, networks)


def falls_with_width(results: Results) -> Finding:
    """Errors of PDNO a(ξ) and FNO by their channels."""
    shown = results.shown("navier-stokes-width")
    swept = {name: by_setting(shown, "width", name) for name in (PLAIN, "FNO")}
    curves = {
        name: {width: error for width, n in networks.items() if (error := n.summary())}
        for name, networks in swept.items()
    }
    return monotone(curves, shown, rising=False)


def symbol_classes(results: Results) -> Finding:
    """Certificates of all layers that `pdno symbol` has looked into, of the paper's networks."""
    texts, holds = [], True
    for network in (n for n in results.networks if n.metadata.of_paper):
        names = ("accepted layers", "layers", "order")
        values = (network.values("symbol class", name)[:1] for name in names)
        for accepted, layers, order in zip(*values, strict=True):
            inside = f"{accepted:g} of {layers:g} layers in S^{order:g}"
            texts.append(f"{network.metadata.study}, {network.model}: {inside}")
            holds &= accepted == layers
    return Finding(holds, "; ".join(require(texts)), budget="whatever the training")


def parameters_by_modes(results: Results) -> Finding:
    """Most over fewest parameters of PDNO with the same channels and several k_max."""
    measured, ratios = sorted(resource_numbers(results).items()), {}
    for width in sorted({width for (_, _, width), _ in measured}):
        ours = {k: r.parameters for (name, k, w), r in measured if (name, w) == ("PDNO", width)}
        if len(ours) > 1:
            label = f"{width} channels, k_max {', '.join(map(str, ours))}"
            ratios[label] = max(ours.values()) / min(ours.values())
    title = "most / fewest parameters, "
    return within(title, ratios, 1, 1)._replace(budget="counted, no training")


def resources(
    results: Results, parts: Sequence[str], budget: str, *, more: bool = False
) -> Finding:
    """PDNO needs less of some parts of the resource table than FNO, or more."""
    ours, paper = resource_ratios(resource_numbers(results)), resource_ratios(TABLE_6)
    low, high = (math.nextafter(1, 2), math.inf) if more else (0, math.nextafter(1, 0))
    findings = []
    for part in parts:
        ratios = {
            f"k_max {k}, {w} channels (paper {getattr(of_paper, part):.2f})": getattr(ratio, part)
            for (k, w), of_paper in paper.items()
            if (ratio := ours.get((k, w)))
        }
        findings.append(within(f"{part}, PDNO / FNO, ", ratios, low, high))
    holds = all(finding.holds for finding in findings)
    return Finding(holds, "; ".join(finding.numbers for finding in findings), budget=budget)


class Claim(NamedTuple):
    """One claim of claims.yaml."""

    key: str
    text: str
    reference: str
    studies: Sequence[str]
    assess: str
    arguments: Mapping[str, object] = MappingProxyType({})
    options: Mapping[str, float] = MappingProxyType({})


_TEXT = Path(__file__).with_name("claims.yaml").read_text(encoding="utf-8")
CLAIMS = tuple(Claim(**entry) for entry in yaml.safe_load(_TEXT))


Answer = Literal[
    "holds",
    "does not hold",
    "holds at a smaller budget",
    "not tested at the paper's budget",
    "not tested here",
]


class Assessment(NamedTuple):
    """The answer to a claim, the numbers behind it or what is missing, and the budget."""

    claim: Claim
    answer: Answer
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
    budget, levels = finding.budget or describe_budgets(budgets), {b.level for _, b in budgets}
    answer: Answer = "holds" if finding.holds else "does not hold"
    numbers = finding.numbers
    if "smoke" in levels:
        answer, budget = "not tested here", f"{budget}: tests nothing"
    elif "small" in levels and not finding.budget and finding.holds:
        answer = "holds at a smaller budget"
    elif "small" in levels and not finding.budget:
        answer = "not tested at the paper's budget"
        numbers = f"does not hold with less: {numbers}"
    return Assessment(claim, answer, numbers, budget)


def claims_table(assessments: Sequence[Assessment]) -> Table:
    """A line for each claim; those that hold stand out."""
    head = ("claim", "in the paper", "assessment", "numbers", "budget")
    lines = [(a.claim.text, a.claim.reference, a.answer, a.numbers, a.budget) for a in assessments]
    note = (
        "Assessments are of our runs, not of the paper: what holds, or does not, with less "
        "training than the paper's may be otherwise with as much."
    )
    strong = frozenset((k, 2) for k, a in enumerate(assessments) if a.answer == "holds")
    return Table(head, tuple(lines), (note,), strong)
