"""The tables of the paper beside our numbers; where we have no run they say so."""

import math
from collections.abc import Iterable, Mapping, Sequence

from pdno.files.metric_table import NetworkMetrics, by_network
from pdno.paper import published
from pdno.paper.published import TABLE_5, TABLE_6, Budget, Errors, Resources
from pdno.paper.results import Results, exhibit, grouped, of_network, require
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


@exhibit("table-1-darcy")
def darcy_table(results: Results) -> Table:
    return _by_resolution(results, "darcy", published.TABLE_1)


@exhibit("table-3-burgers")
def burgers_table(results: Results) -> Table:
    return _by_resolution(results, "burgers", published.TABLE_3)


def _by_resolution(results: Results, study: str, paper: Mapping[int, Errors]) -> Table:
    ours = require(results.by_resolution(study))
    blocks = [(str(s), ours[s], paper.get(s, {})) for s in sorted(ours)]
    notes = []
    if missing := [points for points in paper if points not in ours]:
        command = command_of(study, resolution=missing[0])
        notes = [f"Not run: s = {', '.join(map(str, missing))}. One of them: `{command}`."]
    return _error_table("s", blocks, notes, paper_train=study == "darcy")


@exhibit("table-2-navier-stokes")
def navier_stokes_table(results: Results) -> Table:
    ours = grouped(results.study("navier-stokes"), lambda network: network.metadata.dataset)
    blocks: list[Block] = []
    missing, other_sizes = list(published.TABLE_2), []
    for label, networks in require(ours).items():
        samples = networks[0].metadata.samples or 0
        dataset = published.published_dataset(networks[0].metadata.viscosity, samples)
        missing = [other for other in missing if other != dataset]
        if dataset is not None and dataset.samples not in (samples, 10000):
            other_sizes.append(f"{label} beside {dataset}")
        blocks.append((label, networks, published.TABLE_2[dataset] if dataset else {}))
    notes = [f"Other data than the paper's: {'; '.join(other_sizes)}."] if other_sizes else []
    if missing:
        names = "; ".join(map(str, missing))
        notes.append(f"Not run: {names}. `{command_of('navier-stokes', preset='paper')}`.")
    return _error_table("dataset", blocks, notes)


def _error_table(
    what: str, blocks: Iterable[Block], notes: Iterable[str], *, paper_train: bool = False
) -> Table:
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
            cells = [summary_text(train), *[number(of_train)] * paper_train, summary_text(test)]
            ratio = f"{test.mean / of_test:.2f}" if test and of_test else MISSING
            effort = [MISSING] * len(BUDGET)
            if network:
                budget = Budget.of(network)
                counts = (budget.seeds, budget.epochs, budget.samples)
                effort = [*map(str, counts), number(network.seconds)]
            if test:
                errors[len(lines)] = test.mean
            model = network.model if network else name
            lines.append((label, model, *cells, number(of_test), ratio, *effort))
        if len(errors) > 1:
            strong.add((min(errors, key=lambda line: errors[line]), 3 + paper_train))
    head = (what, "network", "train", *["paper"] * paper_train, "test", "paper", "test / paper")
    return Table((*head, *BUDGET), tuple(lines), tuple(notes), frozenset(strong))


# What each part of the training recipe does to the error; not in the paper


@exhibit("training-parts")
def training_table(results: Results) -> Table:
    head = ("data", "network", "validation", "test", "test / plain", "steps", "CPU seconds")
    lines: list[tuple[str, ...]] = []
    strong = set()
    for study in TRAINING:
        blocks = grouped(results.study(study), lambda network: network.metadata.family)
        for family, networks in blocks.items():
            plain = next((n.summary() for n in networks if n.model == family), None)
            errors: dict[int, float] = {}
            for network in sorted(networks, key=lambda network: network.model):
                validation, test = network.summary("validation"), network.summary()
                errors[len(lines)] = validation.mean if validation else math.inf
                effort = [network.summary("training", name) for name in ("steps", "cpu seconds")]
                cells = [summary_text(validation), summary_text(test)]
                cells.append(f"{test.mean / plain.mean:.2f}" if test and plain else MISSING)
                cells += [f"{summary.mean:.0f}" if summary else MISSING for summary in effort]
                lines.append((network.metadata.dataset, network.model, *cells))
            strong.add((min(errors, key=lambda line: errors[line]), 2))
    return Table(head, tuple(require(lines)), (), frozenset(strong))


# Settings and resources: tables 5 and 6


@exhibit("table-5-settings")
def settings_table(results: Results) -> Table:
    names = list(TABLE_5["heat"])
    lines = []
    for study, paper in TABLE_5.items():
        lines.append((study, "paper", *map(_cell, paper.values())))
        name = published.ONE_SHOT if study == "heat" else published.PDNO
        ours = of_network(results.shown(study), name)
        run = results.run(ours) if ours else None
        settings = _settings(run.experiment) if run and run.experiment else dict.fromkeys(names)
        lines.append((study, "ours", *(_cell(settings[name]) for name in names)))
    require(any(line[2] != MISSING for line in lines[1::2]))
    note = (
        "Layers, hidden and activation are those of the symbol networks. "
        "The paper's text trains ν = 1e-3 with batch 10."
    )
    return Table(("data", "whose", *names), tuple(lines), (note,))


def _settings(experiment: Experiment) -> dict[str, str | float | None]:
    training, network = experiment.training, experiment.network.model_dump()
    word = "halved" if training.step_factor == 0.5 else f"times {training.step_factor}"
    step = training.schedule == "step"
    return {
        "batch": training.batch_size,
        "learning rate": training.learning_rate,
        "weight decay": training.weight_decay,
        "epochs": training.epochs,
        "schedule": f"{word} every {training.step_size}" if step else training.schedule,
        "channels": network.get("width", 1),
        **{name: network[f"symbol_{name}"] for name in ("layers", "hidden")},
        "activation": network["activation"],
        "k_max": network.get("modes") or "all",
    }


def _cell(value: str | float | None) -> str:
    return str(value) if isinstance(value, str | int) else number(value)


Measured = Mapping[tuple[str, int, int], Resources]
"""What was measured, by family, k_max and channels."""


def resource_numbers(results: Results) -> Measured:
    names = ("peak memory MB", "parameters, complex once", "seconds per epoch")
    measured: dict[tuple[str, int, int], Resources] = {}
    for network in by_network(results.resources):
        sweep, values = network.metadata.sweep, [network.values("train", name) for name in names]
        if {"modes", "width"} <= set(sweep) and all(values):
            key = (network.metadata.family, int(sweep["modes"]), int(sweep["width"]))
            measured[key] = Resources(*(value for (value,) in values))
    return measured


def resource_ratios(measured: Measured) -> dict[tuple[int, int], Resources]:
    """PDNO / FNO by k_max and channels."""
    return {
        (k, w): Resources(*(a / b for a, b in zip(ours, measured["FNO", k, w], strict=True)))
        for (family, k, w), ours in measured.items()
        if family == "PDNO" and ("FNO", k, w) in measured
    }


@exhibit("table-6-resources")
def resource_table(results: Results) -> Table:
    sources = [
        {**measured, **{("PDNO / FNO", *s): r for s, r in resource_ratios(measured).items()}}
        for measured in (require(resource_numbers(results)), TABLE_6)
    ]
    keys = sorted(dict.fromkeys([*sources[1], *sources[0]]), key=lambda key: "/" in key[0])
    lines = []
    for key in keys:
        parts = zip(*(t.get(key) or (None, None, None) for t in sources), strict=True)
        cells = [cell for part in parts for cell in part]
        texts = [f"{cell:.2f}" if cell and "/" in key[0] else number(cell) for cell in cells]
        lines.append((*map(str, key), *texts))
    points = results.resources[0].resolution
    note = (
        f"One training step on {points} × {points} points times the 50 steps of an epoch of the "
        "paper; the paper measured a GPU, so the ratios are what can be compared. Complex "
        "parameters count once."
    )
    head = ("memory MB", "paper", "parameters", "paper", "seconds per epoch", "paper")
    return Table(("network", "k_max", "channels", *head), tuple(lines), (note,))
