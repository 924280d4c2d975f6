"""Tables 1, 2 and 3 of the paper: errors by network, ours beside the paper's.

Every line of the paper is there; where we have no run it says so. Lines of ours that the paper
does not have follow with the paper's cell left empty.
"""

__all__ = ["burgers_table", "darcy_table", "navier_stokes_table"]

from collections.abc import Iterable, Mapping, Sequence

from pdno.evaluation.rows import Summary
from pdno.report.commands import command_of
from pdno.report.groups import Group, Results
from pdno.report.models import is_of_the_paper
from pdno.report.published import TABLE_1, TABLE_2, TABLE_3, Dataset, published_dataset
from pdno.report.table import MISSING, Table, number, summary_text

BUDGET = ("seeds", "epochs", "training samples", "seconds")
Line = tuple[str, ...]


def darcy_table(results: Results) -> Table | None:
    """Table 1: training and test errors on Darcy flow."""
    ours = results.by_resolution("darcy")
    if not ours:
        return None
    head = ("s", "network", "train", "paper", "test", "paper", "test / paper", *BUDGET)
    lines: list[Line] = []
    strong: set[tuple[int, int]] = set()
    for points in sorted({*TABLE_1, *ours}):
        paper = TABLE_1.get(points, {})
        block = _pair(ours.get(points, []), paper)
        strong |= _smallest([group for _, group, _ in block], len(lines), column=4)
        for model, group, family in block:
            train, test = paper.get(family or "", (None, None))
            mine = _summary(group, "test")
            lines.append(
                (
                    str(points),
                    model,
                    summary_text(_summary(group, "train")),
                    number(train),
                    summary_text(mine),
                    number(test),
                    _ratio(mine, test),
                    *_budget(group),
                )
            )
    missing = [points for points in TABLE_1 if points not in ours]
    return Table(head, tuple(lines), _notes("darcy", missing), frozenset(strong))


def burgers_table(results: Results) -> Table | None:
    """Table 3: test errors on Burgers' equation."""
    ours = results.by_resolution("burgers")
    if not ours:
        return None
    head = ("s", "network", "train", "test", "paper", "test / paper", *BUDGET)
    lines: list[Line] = []
    strong: set[tuple[int, int]] = set()
    for points in sorted({*TABLE_3, *ours}):
        block = _pair(ours.get(points, []), TABLE_3.get(points, {}))
        strong |= _smallest([group for _, group, _ in block], len(lines), column=3)
        for model, group, family in block:
            paper = TABLE_3.get(points, {}).get(family or "")
            lines.append((str(points), model, *_test_cells(group, paper)))
    missing = [points for points in TABLE_3 if points not in ours]
    return Table(head, tuple(lines), _notes("burgers", missing), frozenset(strong))


def navier_stokes_table(results: Results) -> Table | None:
    """Table 2: test errors on Navier-Stokes, dataset by dataset."""
    groups = results.study("navier-stokes")
    if not groups:
        return None
    ours: dict[str, list[Group]] = {}
    for group in groups:
        ours.setdefault(group.first.experiment, []).append(group)
    head = ("dataset", "network", "train", "test", "paper", "test / paper", *BUDGET)
    lines: list[Line] = []
    strong: set[tuple[int, int]] = set()
    met: set[Dataset] = set()
    other_sizes = []
    for experiment, block in sorted(ours.items()):
        dataset = published_dataset(block[0].viscosity, block[0].budget.samples)
        if dataset is not None:
            met.add(dataset)
            if dataset.samples not in (block[0].budget.samples, 10000):
                other_sizes.append(f"{_dataset_label(experiment)} beside {dataset}")
        paired = _pair(block, TABLE_2[dataset] if dataset else {})
        strong |= _smallest([group for _, group, _ in paired], len(lines), column=3)
        for model, mine, family in paired:
            paper = TABLE_2[dataset].get(family or "") if dataset else None
            lines.append((_dataset_label(experiment), model, *_test_cells(mine, paper)))
    missing = [dataset for dataset in TABLE_2 if dataset not in met]
    for dataset in missing:
        for family, paper in TABLE_2[dataset].items():
            lines.append((str(dataset), family, *_test_cells(None, paper)))
    notes = [f"Other data than the paper's: {'; '.join(other_sizes)}."] if other_sizes else []
    if missing:
        names = "; ".join(map(str, missing))
        notes.append(f"Not run: {names}. `{command_of('navier-stokes', preset='paper')}`.")
    return Table(head, tuple(lines), tuple(notes), frozenset(strong))


def _pair(
    groups: Sequence[Group], paper: Mapping[str, object]
) -> list[tuple[str, Group | None, str | None]]:
    """Label, our runs and family: the paper's networks in its order, then ours alone."""
    by_family = {g.family: g for g in groups if is_of_the_paper(g.model)}
    paired: list[tuple[str, Group | None, str | None]] = []
    for family in paper:
        group = by_family.get(family)
        paired.append((group.model if group else family, group, family))
    shown = {id(group) for _, group, _ in paired}
    others = sorted((g for g in groups if id(g) not in shown), key=lambda g: g.model)
    return paired + [(group.model, group, None) for group in others]


def _summary(group: Group | None, split: str) -> Summary | None:
    return None if group is None else group.summary(split)


def _test_cells(group: Group | None, paper: float | None) -> Line:
    test = _summary(group, "test")
    return (
        summary_text(_summary(group, "train")),
        summary_text(test),
        number(paper),
        _ratio(test, paper),
        *_budget(group),
    )


def _ratio(ours: Summary | None, paper: float | None) -> str:
    return MISSING if ours is None or paper is None else f"{ours.mean / paper:.2f}"


def _budget(group: Group | None) -> Line:
    if group is None:
        return (MISSING,) * len(BUDGET)
    budget = group.budget
    counts = (str(budget.seeds), str(budget.epochs), str(budget.samples))
    return (*counts, number(budget.seconds))


def _smallest(groups: Iterable[Group | None], start: int, column: int) -> set[tuple[int, int]]:
    """Place of the smallest test error of a block."""
    errors = {
        start + k: summary.mean
        for k, group in enumerate(groups)
        if (summary := _summary(group, "test")) is not None
    }
    return {(min(errors, key=lambda k: errors[k]), column)} if len(errors) > 1 else set()


def _notes(study: str, missing: Sequence[int]) -> tuple[str, ...]:
    if not missing:
        return ()
    points = ", ".join(map(str, missing))
    command = command_of(study, resolution=missing[0])
    return (f"Not run: s = {points}. One of them: `{command}`.",)


def _dataset_label(experiment: str) -> str:
    """ "navier-stokes nu=1e-05 T=20 N=200" as the paper writes it."""
    words = dict(word.split("=", 1) for word in experiment.split()[1:] if "=" in word)
    if not {"nu", "T", "N"} <= set(words):
        return experiment
    return str(Dataset(float(words["nu"]), int(words["T"]), int(words["N"])))
