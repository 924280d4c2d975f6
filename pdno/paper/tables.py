"""The tables of the paper, with our numbers beside the paper's.

Tables 1, 2 and 3 have every line of the paper; where we have no run it says so, and lines of ours
that the paper does not have follow. Table 6 was measured on a GPU and ours on the machine of the
run, so besides the numbers stand the ratios PDNO / FNO, which can be compared.
"""

__all__ = ["command_of", "resource_numbers"]

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from pdno.files.metric_table import NetworkMetrics, Summary
from pdno.paper import published
from pdno.paper.published import (
    TABLE_1,
    TABLE_2,
    TABLE_3,
    TABLE_5,
    TABLE_6,
    Budget,
    Errors,
    Resources,
)
from pdno.paper.results import Exhibit, Results, grouped, of_network, require
from pdno.report.tables import MISSING, Table, number, summary_text
from pdno.runs.specification import Experiment

TRAINING = ("navier-stokes-training", "darcy-training", "burgers-training")
SYMBOL_COMMAND = "pdno symbol RUN"
"""Looks into one run; it is no study."""


def command_of(study: str, **options: str | float) -> str:
    """The command that fills a gap; the preset is `small` by default.

    Example:
        >>> command_of("darcy", resolution=64)
        'pdno reproduce darcy --preset small --resolution 64'
    """
    if study == SYMBOL_COMMAND:
        return study
    words = (f"--{name} {value}" for name, value in {"preset": "small", **options}.items())
    return f"pdno reproduce {study} " + " ".join(words)


# Errors: tables 1, 2 and 3

BUDGET = ("seeds", "epochs", "training samples", "seconds")
Block = tuple[str, Sequence[NetworkMetrics], Errors]
"""A label, our networks, and the paper's errors."""


@partial(Exhibit, "table-1-darcy", ["darcy"])
def darcy_table(results: Results) -> Table:
    """Darcy flow."""
    head = ("s", "network", "train", "paper", "test", "paper")
    return _by_resolution(results, "darcy", TABLE_1, head)


@partial(Exhibit, "table-3-burgers", ["burgers"])
def burgers_table(results: Results) -> Table:
    """Burgers' equation."""
    return _by_resolution(results, "burgers", TABLE_3, ("s", "network", "train", "test", "paper"))


def _by_resolution(
    results: Results, study: str, paper: Mapping[int, Errors], head: tuple[str, ...]
) -> Table:
    ours = require(results.by_resolution(study))
    blocks = [(str(s), ours[s], paper.get(s, {})) for s in sorted(ours)]
    notes = []
    if missing := [points for points in paper if points not in ours]:
        command = command_of(study, resolution=missing[0])
        notes = [f"Not run: s = {', '.join(map(str, missing))}. One of them: `{command}`."]
    return _error_table(head, blocks, notes)


@partial(Exhibit, "table-2-navier-stokes", ["navier-stokes"])
def navier_stokes_table(results: Results) -> Table:
    """Navier-Stokes."""
    ours = grouped(results.study("navier-stokes"), lambda network: network.metadata.dataset)
    blocks: list[Block] = []
    missing, other_sizes = list(TABLE_2), []
    for label, networks in require(ours).items():
        samples = networks[0].metadata.samples or 0
        dataset = published.published_dataset(networks[0].metadata.viscosity, samples)
        missing = [other for other in missing if other != dataset]
        if dataset is not None and dataset.samples not in (samples, 10000):
            other_sizes.append(f"{label} beside {dataset}")
        blocks.append((label, networks, TABLE_2[dataset] if dataset else {}))
    notes = [f"Other data than the paper's: {'; '.join(other_sizes)}."] if other_sizes else []
    if missing:
        names = "; ".join(map(str, missing))
        notes.append(f"Not run: {names}. `{command_of('navier-stokes', preset='paper')}`.")
    return _error_table(("dataset", "network", "train", "test", "paper"), blocks, notes)


def _error_table(head: tuple[str, ...], blocks: Iterable[Block], notes: Iterable[str]) -> Table:
    """Errors and budgets, block by block; the smallest test error of a block stands out."""
    lines: list[tuple[str, ...]] = []
    strong = set()
    for label, networks, paper in blocks:
        ours = {name: of_network(networks, name) for name in paper}
        # then ours that the paper does not have
        ours |= {n.model: n for n in networks if n not in ours.values()}
        errors = {}
        for name, network in ours.items():
            of_train, of_test = paper.get(name, (None, None))
            train, test = (network.summary(s) if network else None for s in ("train", "test"))
            cells = [summary_text(train), number(of_train), summary_text(test), number(of_test)]
            if head.count("paper") == 1:
                del cells[1]
            cells.append(f"{test.mean / of_test:.2f}" if test and of_test else MISSING)
            if test is not None:
                errors[len(lines)] = test.mean
            lines.append((label, network.model if network else name, *cells, *_budget(network)))
        if len(errors) > 1:
            strong.add((min(errors, key=lambda line: errors[line]), head.index("test")))
    return Table((*head, "test / paper", *BUDGET), tuple(lines), tuple(notes), frozenset(strong))


def _budget(network: NetworkMetrics | None) -> tuple[str, ...]:
    if network is None:
        return (MISSING,) * len(BUDGET)
    budget = Budget.of(network)
    counts = (budget.seeds, budget.epochs, budget.samples)
    return (*map(str, counts), number(network.seconds))


# What each part of the training recipe does to the error; not in the paper


@partial(Exhibit, "training-parts", TRAINING)
def training_table(results: Results) -> Table:
    """What pays in training.

    Each part of the training recipe alone, and together. The parts were chosen by the error on
    validation samples, which are in neither the training nor the test set.
    """
    head = ("data", "network", "validation", "test", "test / plain", "steps", "CPU seconds")
    lines: list[tuple[str, ...]] = []
    strong = set()
    for study in TRAINING:
        blocks = grouped(results.study(study), lambda network: network.metadata.family)
        for family, networks in blocks.items():
            plain = next((n.summary() for n in networks if n.model == family), None)
            first, errors = len(lines), []
            for network in sorted(networks, key=lambda network: network.model):
                validation = network.summary("validation")
                lines.append(_training_line(network, validation, plain))
                errors.append(math.inf if validation is None else validation.mean)
            strong.add((first + errors.index(min(errors)), 2))
    return Table(head, tuple(require(lines)), (), frozenset(strong))


def _training_line(
    network: NetworkMetrics, validation: Summary | None, plain: Summary | None
) -> tuple[str, ...]:
    test = network.summary()
    gain = f"{test.mean / plain.mean:.2f}" if test and plain else MISSING
    effort = [network.summary("training", name) for name in ("steps", "cpu seconds")]
    cells = [summary_text(validation), summary_text(test), gain]
    cells += [MISSING if summary is None else f"{summary.mean:.0f}" for summary in effort]
    return (network.metadata.dataset, network.model, *cells)


# Settings and resources: tables 5 and 6


@partial(Exhibit, "table-5-settings", tuple(TABLE_5))
def settings_table(results: Results) -> Table:
    """Settings of PDNO."""
    names = "batch,learning rate,weight decay,epochs,schedule,channels,layers,hidden,activation"
    head = ("data", "whose", *names.split(","), "k_max")
    lines = []
    for study, (batch, rate, decay, epochs, step, *network) in TABLE_5.items():
        cells = (str(batch), number(rate), number(decay), str(epochs), f"halved every {step}")
        lines.append((study, "paper", *cells, *map(str, network), "all"))
        name = published.ONE_SHOT if study == "heat" else published.PDNO
        ours = of_network(results.shown(study), name)
        run = results.run(ours) if ours else None
        experiment = run.experiment if run else None
        cells_of_ours = _settings(experiment) if experiment else [MISSING] * len(head[2:])
        lines.append((study, "ours", *cells_of_ours))
    require(any(line[2] != MISSING for line in lines[1::2]))
    note = (
        "Layers, hidden and activation are those of the symbol networks. "
        "The paper's text trains ν = 1e-3 with batch 10."
    )
    return Table(head, tuple(lines), (note,))


def _settings(experiment: Experiment) -> list[str]:
    training, network = experiment.training, experiment.network.model_dump()
    schedule: str = training.schedule
    if schedule == "step":
        word = "halved" if training.step_factor == 0.5 else f"times {training.step_factor}"
        schedule = f"{word} every {training.step_size}"
    rates = (number(training.learning_rate), number(training.weight_decay))
    kept = "all" if network.get("modes") is None else network["modes"]
    cells = [training.batch_size, *rates, training.epochs, schedule, network.get("width", 1)]
    cells += [network[key] for key in ("symbol_layers", "symbol_hidden", "activation")]
    return [*map(str, cells), str(kept)]


def resource_numbers(results: Results) -> dict[tuple[str, int, int], Resources]:
    """What we measured, by family, k_max and channels."""
    names = ("peak memory MB", "parameters, complex once", "seconds per epoch")
    measured: dict[tuple[str, int, int], dict[str, float]] = {}
    for metric in results.resources:
        sweep = metric.metadata.sweep
        if {"modes", "width"} <= set(sweep):
            key = (metric.metadata.family, int(sweep["modes"]), int(sweep["width"]))
            measured.setdefault(key, {})[metric.metric] = metric.value
    complete = {key: line for key, line in measured.items() if set(names) <= set(line)}
    return {key: Resources(*(line[name] for name in names)) for key, line in complete.items()}


@partial(Exhibit, "table-6-resources", ["resources"])
def resource_table(results: Results) -> Table:
    """Memory, parameters and time."""
    ours = require(resource_numbers(results))
    head = ("memory MB", "paper", "parameters", "paper", "seconds per epoch", "paper")
    keys = list(dict.fromkeys([*TABLE_6, *ours]))
    lines: list[tuple[str, ...]] = []
    for key in keys:
        sources = (ours.get(key), TABLE_6.get(key))
        cells = [number(r[part] if r else None) for part in range(3) for r in sources]
        lines.append((*map(str, key), *cells))
    for sizes in [key[1:] for key in keys if key[0] == "PDNO"]:
        pairs = [(t.get(("PDNO", *sizes)), t.get(("FNO", *sizes))) for t in (ours, TABLE_6)]
        cells = [
            f"{pdno[part] / fno[part]:.2f}" if pdno and fno else MISSING
            for part in range(3)
            for pdno, fno in pairs
        ]
        lines.append(("PDNO / FNO", *map(str, sizes), *cells))
    points = results.resources[0].resolution
    note = (
        f"One training step on {points} × {points} points times the 50 steps of an epoch of the "
        "paper; the paper measured a GPU, so the ratios are what can be compared. Complex "
        "parameters count once."
    )
    return Table(("network", "k_max", "channels", *head), tuple(lines), (note,))
