"""The tables of the paper, ours beside the paper's.

Tables 1, 2 and 3 have every line of the paper; where we have no run it says so, and lines of ours
that the paper does not have follow. Table 6 was measured on a GPU and ours on the machine of the
run, so besides the numbers stand the ratios PDNO / FNO, which can be compared.
"""

__all__ = [
    "burgers_table",
    "darcy_table",
    "navier_stokes_table",
    "resource_table",
    "settings_table",
]

from collections.abc import Mapping, Sequence
from typing import Any

from pdno.report.published import (
    ONE_SHOT,
    PDNO,
    TABLE_1,
    TABLE_2,
    TABLE_3,
    TABLE_5,
    TABLE_6,
    Resources,
    published_dataset,
)
from pdno.report.runs import Group, Results, by_dataset, of_network
from pdno.report.table import MISSING, Table, command_of, number, summary_text

BUDGET = ("seeds", "epochs", "training samples", "seconds")
METRICS = ("peak memory MB", "parameters, complex once", "seconds per epoch")
Line = tuple[str, ...]
Block = tuple[str, Sequence[Group], Mapping[str, Sequence[float | None]]]
"""A label, our runs, and the paper's errors of training and test by network."""


def darcy_table(results: Results) -> Table | None:
    """Table 1: training and test errors on Darcy flow."""
    ours, head = (
        results.by_resolution("darcy"),
        ("s", "network", "train", "paper", "test", "paper"),
    )
    blocks = [(str(s), ours.get(s, []), TABLE_1.get(s, {})) for s in sorted({*TABLE_1, *ours})]
    return _error_table(head, blocks, _not_run("darcy", TABLE_1, ours)) if ours else None


def burgers_table(results: Results) -> Table | None:
    """Table 3: test errors on Burgers' equation."""
    ours, head = results.by_resolution("burgers"), ("s", "network", "train", "test", "paper")
    paper = {points: _test_only(line) for points, line in TABLE_3.items()}
    blocks = [(str(s), ours.get(s, []), paper.get(s, {})) for s in sorted({*TABLE_3, *ours})]
    return _error_table(head, blocks, _not_run("burgers", TABLE_3, ours)) if ours else None


def navier_stokes_table(results: Results) -> Table | None:
    """Table 2: test errors on Navier-Stokes, dataset by dataset."""
    ours = by_dataset(results.study("navier-stokes"))
    if not ours:
        return None
    blocks: list[Block] = []
    met, other_sizes = set(), []
    for label, groups in ours.items():
        samples = groups[0].budget.samples
        dataset = published_dataset(groups[0].facts.viscosity, samples)
        met.add(dataset)
        if dataset is not None and dataset.samples not in (samples, 10000):
            other_sizes.append(f"{label} beside {dataset}")
        blocks.append((label, groups, _test_only(TABLE_2[dataset]) if dataset else {}))
    missing = [dataset for dataset in TABLE_2 if dataset not in met]
    blocks += [(str(dataset), [], _test_only(TABLE_2[dataset])) for dataset in missing]
    notes = [f"Other data than the paper's: {'; '.join(other_sizes)}."] if other_sizes else []
    if missing:
        names = "; ".join(map(str, missing))
        notes.append(f"Not run: {names}. `{command_of('navier-stokes', preset='paper')}`.")
    return _error_table(("dataset", "network", "train", "test", "paper"), blocks, notes)


def _test_only(line: Mapping[str, float]) -> dict[str, tuple[float | None, float]]:
    return {network: (None, error) for network, error in line.items()}


def _not_run(study: str, paper: Mapping[int, Any], ours: Mapping[int, Any]) -> list[str]:
    missing = [points for points in paper if points not in ours]
    if not missing:
        return []
    command = command_of(study, resolution=missing[0])
    return [f"Not run: s = {', '.join(map(str, missing))}. One of them: `{command}`."]


def _error_table(head: Line, blocks: Sequence[Block], notes: Sequence[str]) -> Table:
    """Errors and budgets, block by block; the smallest test error of a block stands out."""
    both = head.count("paper") == 2
    test_column = head.index("test")
    lines: list[Line] = []
    strong = set()
    for label, groups, paper in blocks:
        errors = {}
        for model, group, published in _pair(groups, paper):
            train, test = (group.summary(s) if group else None for s in ("train", "test"))
            cells = [summary_text(train), *([number(published[0])] if both else [])]
            cells += [summary_text(test), number(published[1])]
            cells.append(f"{test.mean / published[1]:.2f}" if test and published[1] else MISSING)
            if test is not None:
                errors[len(lines)] = test.mean
            lines.append((label, model, *cells, *_budget(group)))
        if len(errors) > 1:
            strong.add((min(errors, key=lambda line: errors[line]), test_column))
    return Table((*head, "test / paper", *BUDGET), tuple(lines), tuple(notes), frozenset(strong))


def _pair(
    groups: Sequence[Group], paper: Mapping[str, Sequence[float | None]]
) -> list[tuple[str, Group | None, Sequence[Any]]]:
    """Label, our runs and the paper's errors: its networks in its order, then ours alone."""
    found = {network: of_network(groups, network) for network in paper}
    paired = [(g.model if g else network, g, paper[network]) for network, g in found.items()]
    others = [group for group in groups if group not in found.values()]
    return [*paired, *((group.model, group, (None, None)) for group in others)]


def _budget(group: Group | None) -> Line:
    if group is None:
        return (MISSING,) * len(BUDGET)
    budget = group.budget
    counts = (str(budget.seeds), str(budget.epochs), str(budget.samples))
    return (*counts, number(budget.seconds))


def settings_table(results: Results) -> Table | None:
    """Table 5: the paper's settings and those of our runs."""
    names = "batch,learning rate,weight decay,epochs,schedule,channels,layers,hidden,activation"
    head = ("data", "whose", *names.split(","), "k_max")
    lines: list[Line] = []
    found = False
    for study, (batch, rate, decay, epochs, step, *network) in TABLE_5.items():
        cells = (str(batch), number(rate), number(decay), str(epochs), f"halved every {step}")
        lines.append((study, "paper", *cells, *map(str, network), "all"))
        group = of_network(results.shown(study), ONE_SHOT if study == "heat" else PDNO)
        found |= group is not None
        ours = _settings(group) if group else (MISSING,) * (len(head) - 2)
        lines.append((study, "ours", *ours))
    notes = (
        "Layers, hidden and activation are those of the symbol networks. "
        "The paper's text trains ν = 1e-3 with batch 10.",
    )
    return Table(head, tuple(lines), notes) if found else None


def _settings(group: Group) -> Line:
    training, network = group.first.specification["training"], group.network
    schedule = str(training["schedule"])
    if schedule == "step":
        factor = training["step_factor"]
        word = "halved" if factor == 0.5 else f"times {factor}"
        schedule = f"{word} every {training['step_size']}"
    rates = (number(training["learning_rate"]), number(training["weight_decay"]))
    sizes = [str(network[key]) for key in ("symbol_layers", "symbol_hidden", "activation")]
    modes = network.get("modes")
    kept = "all" if modes is None else str(modes)
    counts = (str(training["epochs"]), schedule, str(network.get("width", 1)))
    return (str(training["batch_size"]), *rates, *counts, *sizes, kept)


def resource_numbers(results: Results) -> dict[tuple[str, int, int], Resources]:
    """What we measured, by family, k_max and channels."""
    found: dict[tuple[str, int, int], dict[str, float]] = {}
    for row in results.resources:
        facts = row.facts
        if facts is not None and {"modes", "width"} <= set(facts.sweep):
            key = (facts.family, int(facts.sweep["modes"]), int(facts.sweep["width"]))
            found.setdefault(key, {})[row.metric] = row.value
    return {
        key: Resources(*(metrics[name] for name in METRICS))
        for key, metrics in found.items()
        if set(METRICS) <= set(metrics)
    }


def resource_table(results: Results) -> Table | None:
    """Table 6: memory, parameters and time, ours beside the paper's, and PDNO / FNO."""
    ours = resource_numbers(results)
    if not ours:
        return None
    head = ("memory MB", "paper", "parameters", "paper", "seconds per epoch", "paper")
    keys = list(dict.fromkeys([*TABLE_6, *ours]))
    lines: list[Line] = []
    for key in keys:
        sources = (ours.get(key), TABLE_6.get(key))
        cells = [number(one[part] if one else None) for part in range(3) for one in sources]
        lines.append((*map(str, key), *cells))
    for _, modes, width in [key for key in keys if key[0] == "PDNO"]:
        pairs = [
            (table.get(("PDNO", modes, width)), table.get(("FNO", modes, width)))
            for table in (ours, TABLE_6)
        ]
        cells = [
            f"{pdno[part] / fno[part]:.2f}" if pdno and fno else MISSING
            for part in range(3)
            for pdno, fno in pairs
        ]
        lines.append(("PDNO / FNO", str(modes), str(width), *cells))
    points = results.resources[0].resolution
    notes = (
        f"One training step on {points} × {points} points times the 50 steps of an epoch of the "
        "paper; the paper measured a GPU, so the ratios are what can be compared. Complex "
        "parameters count once.",
    )
    return Table(("network", "k_max", "channels", *head), tuple(lines), notes)
