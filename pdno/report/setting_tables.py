"""Tables 5 and 6 of the paper: the settings of PDNO, and what networks cost.

Table 6 was measured on a GPU and ours on the machine of the run, so besides the numbers stand the
ratios PDNO / FNO, which can be compared.
"""

__all__ = ["resource_numbers", "resource_table", "settings_table"]

from pdno.report.groups import Group, Results, of_family
from pdno.report.models import setting_of
from pdno.report.published import TABLE_5, TABLE_6, Resources, Settings
from pdno.report.table import MISSING, Table, number

METRICS = ("peak memory MB", "parameters, complex once", "seconds per epoch")


def settings_table(results: Results) -> Table | None:
    """Table 5: the paper's settings and those of our runs."""
    head = (
        "data",
        "whose",
        "batch",
        "learning rate",
        "weight decay",
        "epochs",
        "schedule",
        "channels",
        "layers",
        "hidden",
        "activation",
        "k_max",
    )
    lines: list[tuple[str, ...]] = []
    found = False
    for study, paper in TABLE_5.items():
        lines.append((study, "paper", *_paper_cells(paper)))
        family = "PDNO a(x,ξ,t)" if study == "heat" else "PDNO a(x,ξ)"
        group = of_family(results.shown(study), family)
        if group is None:
            lines.append((study, "ours", *(MISSING,) * (len(head) - 2)))
        else:
            found = True
            lines.append((study, "ours", *_our_cells(group)))
    notes = (
        "Layers, hidden and activation are those of the symbol networks. "
        "The paper's text trains ν = 1e-3 with batch 10.",
    )
    return Table(head, tuple(lines), notes) if found else None


def _paper_cells(paper: Settings) -> tuple[str, ...]:
    return (
        str(paper.batch),
        number(paper.learning_rate),
        number(paper.weight_decay),
        str(paper.epochs),
        f"halved every {paper.step}",
        str(paper.channels),
        str(paper.layers),
        str(paper.hidden),
        paper.activation,
        "all",
    )


def _our_cells(group: Group) -> tuple[str, ...]:
    training, network = group.first.specification["training"], group.network
    schedule = str(training["schedule"])
    if schedule == "step":
        halved = training["step_factor"] == 0.5
        word = "halved" if halved else f"times {training['step_factor']}"
        schedule = f"{word} every {training['step_size']}"
    modes = network.get("modes")
    return (
        str(training["batch_size"]),
        number(training["learning_rate"]),
        number(training["weight_decay"]),
        str(training["epochs"]),
        schedule,
        str(network.get("width", 1)),
        str(network["symbol_layers"]),
        str(network["symbol_hidden"]),
        str(network["activation"]),
        "all" if modes is None else str(modes),
    )


def resource_numbers(results: Results) -> dict[tuple[str, int, int], Resources]:
    """What we measured, by kind, k_max and channels."""
    found: dict[tuple[str, int, int], dict[str, float]] = {}
    for row in results.resources:
        modes, width = setting_of(row.model, "k_max"), setting_of(row.model, "width")
        if modes is not None and width is not None:
            key = (row.model.split()[0], int(modes), int(width))
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
    head = (
        "network",
        "k_max",
        "channels",
        "memory MB",
        "paper",
        "parameters",
        "paper",
        "seconds per epoch",
        "paper",
    )
    keys = list(dict.fromkeys([*TABLE_6, *ours]))
    lines = [(key[0], str(key[1]), str(key[2]), *_cells(ours, key)) for key in keys]
    for _, modes, width in [key for key in keys if key[0] == "PDNO"]:
        cells = []
        for part in range(3):
            cells += [_ratio(table, part, modes, width) for table in (ours, TABLE_6)]
        lines.append(("PDNO / FNO", str(modes), str(width), *cells))
    points = results.resources[0].resolution
    notes = (
        f"One training step on {points} × {points} points times the 50 steps of an epoch of the "
        "paper; the paper measured a GPU, so the ratios are what can be compared. Complex "
        "parameters count once.",
    )
    return Table(head, tuple(lines), notes)


def _cells(ours: dict[tuple[str, int, int], Resources], key: tuple[str, int, int]) -> list[str]:
    mine, paper = ours.get(key), TABLE_6.get(key)
    return [
        number(None if source is None else source[part])
        for part in range(3)
        for source in (mine, paper)
    ]


def _ratio(table: dict[tuple[str, int, int], Resources], part: int, modes: int, width: int) -> str:
    ours, theirs = table.get(("PDNO", modes, width)), table.get(("FNO", modes, width))
    return MISSING if ours is None or theirs is None else f"{ours[part] / theirs[part]:.2f}"
