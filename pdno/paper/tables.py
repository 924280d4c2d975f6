"""Tables as plain cells in three notations, and those of the paper, ours beside the paper's.

Tables 1, 2 and 3 have every line of the paper; where we have no run it says so, and lines of ours
that the paper does not have follow. Table 6 was measured on a GPU and ours on the machine of the
run, so besides the numbers stand the ratios PDNO / FNO, which can be compared.
"""

__all__ = ["MISSING", "Table", "command_of", "html_note", "number", "summary_text"]

import html
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pdno.files.metric_table import Summary
from pdno.paper import published
from pdno.paper.exhibits import Exhibit
from pdno.paper.published import TABLE_1, TABLE_2, TABLE_3, TABLE_5, TABLE_6, Resources
from pdno.report.runs import Group, Results, grouped, of_network, require

MISSING = "–"
_MATHEMATICS = {
    **{"ξ": r"\xi", "ν": r"\nu", "σ": r"\sigma", "±": r"\pm", "×": r"\times", "−": "-"},
    **{"≤": r"\le", "≥": r"\ge", "₁": "_1", "₂": "_2", "²": "^2", "∞": r"\infty"},
    **{sign: sign for sign in "<>|"},
}
LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **{sign: f"${formula}$" for sign, formula in _MATHEMATICS.items()},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"–": "--", "…": r"\dots{}"},
}
TRAINING = ("navier-stokes-training", "darcy-training", "burgers-training")
SYMBOL_COMMAND = "pdno symbol RUN"
"""Looks into one run; it is no study."""


def number(value: float | None, digits: int = 3) -> str:
    """Three digits; small numbers with an exponent, as the paper prints them.

    Example:
        >>> number(0.00252), number(0.1093), number(1234.0), number(None)
        ('2.52e-3', '0.109', '1234', '–')
    """
    if value is None or math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0 or 1e-2 <= abs(value) < 1e3:
        return f"{value:.{digits}g}"
    if 1e3 <= abs(value) < 1e7:
        return f"{value:.0f}"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def summary_text(summary: Summary | None) -> str:
    """Mean ± deviation over the seeds; the mean alone for one seed."""
    if summary is None:
        return MISSING
    mean = number(summary.mean)
    return mean if summary.count == 1 else f"{mean} ± {number(summary.deviation, digits=2)}"


def command_of(study: str, **options: str | float) -> str:
    """The command that makes the data of a gap; the preset is `small` where none is given.

    Example:
        >>> command_of("darcy", resolution=64)
        'pdno reproduce darcy --preset small --resolution 64'
    """
    if study == SYMBOL_COMMAND:
        return study
    given = {"preset": "small", **options}
    return f"pdno reproduce {study} " + " ".join(f"--{name} {v}" for name, v in given.items())


def marked(note: str, mark: str) -> str:
    """A sentence with its commands, which stand between backticks, in a notation with {}."""
    return re.sub(r"`([^`]*)`", lambda found: mark.format(found[1]), note)


def html_note(note: str) -> str:
    return marked(html.escape(note), "<code>{}</code>")


def _latex(text: str) -> str:
    return "".join(LATEX.get(sign, sign) for sign in text)


@dataclass(frozen=True)
class Table:
    """Cells under a head, with notes below, in which commands stand between backticks.

    `strong` are line and column of the cells that stand out, such as the smallest errors.
    """

    head: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    strong: frozenset[tuple[int, int]] = frozenset()

    def __post_init__(self) -> None:
        for line in self.lines:
            if len(line) != len(self.head):
                raise ValueError(f"{len(line)} cells under a head of {len(self.head)}: {line}")

    def _styled(self, escape: Callable[[str], str], strong: str) -> list[list[str]]:
        """Head and cells in a notation; `strong` is how a cell stands out, with {} for it."""
        body = [
            [strong.format(escape(c)) if (i, j) in self.strong else escape(c) for j, c in cells]
            for i, cells in enumerate(map(enumerate, self.lines))
        ]
        return [list(map(escape, self.head)), *body]

    def markdown(self) -> str:
        """A Markdown table, with its notes."""
        lines = self._styled(lambda text: text.replace("|", "\\|"), "**{}**")
        head, *rest = [f"| {' | '.join(line)} |" for line in lines]
        notes = [f"\n{note}" for note in self.notes]
        return "\n".join([head, "|" + "---|" * len(self.head), *rest, *notes, ""])

    def latex(self) -> str:
        """A LaTeX tabular, with its notes as paragraphs; it needs no package."""
        lines = self._styled(_latex, r"\textbf{{{}}}")
        head, *rest = [" & ".join(line) + r" \\" for line in lines]
        start, rule = r"\begin{tabular}{" + "l" * len(self.head) + "}", r"\hline"
        notes = ["\n" + marked(_latex(note), r"\texttt{{{}}}") for note in self.notes]
        return "\n".join([start, rule, head, rule, *rest, rule, r"\end{tabular}", *notes, ""])

    def html(self) -> str:
        """An HTML table that scrolls by itself on a narrow screen."""
        names, *lines = self._styled(html.escape, "<strong>{}</strong>")
        head = "".join(f'<th scope="col">{cell}</th>' for cell in names)
        cells = ["".join(f"<td>{cell}</td>" for cell in line) for line in lines]
        body = "\n".join(f"<tr>{line}</tr>" for line in cells)
        notes = "".join(f'<p class="note">{html_note(note)}</p>\n' for note in self.notes)
        table = f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n"
        return f'<div class="wide"><table>\n{table}</table></div>\n{notes}'


# Errors: tables 1, 2 and 3

BUDGET = ("seeds", "epochs", "training samples", "seconds")
Block = tuple[str, Sequence[Group], Mapping[str, Any]]
"""A label, our runs, and the paper's errors by network: of the test, or of training and test."""


@partial(Exhibit, "table-1-darcy", "Table 1", ("darcy",), "Darcy flow")
def darcy_table(results: Results) -> Table:
    head = ("s", "network", "train", "paper", "test", "paper")
    return _by_resolution(results, "darcy", TABLE_1, head)


@partial(Exhibit, "table-3-burgers", "Table 3", ("burgers",), "Burgers' equation")
def burgers_table(results: Results) -> Table:
    return _by_resolution(results, "burgers", TABLE_3, ("s", "network", "train", "test", "paper"))


def _by_resolution(
    results: Results, study: str, paper: Mapping[int, Any], head: tuple[str, ...]
) -> Table:
    ours = require(results.by_resolution(study))
    blocks = [(str(s), ours[s], paper.get(s, {})) for s in sorted(ours)]
    notes = []
    if missing := [points for points in paper if points not in ours]:
        command = command_of(study, resolution=missing[0])
        notes = [f"Not run: s = {', '.join(map(str, missing))}. One of them: `{command}`."]
    return _error_table(head, blocks, notes)


@partial(Exhibit, "table-2-navier-stokes", "Table 2", ("navier-stokes",), "Navier-Stokes")
def navier_stokes_table(results: Results) -> Table:
    ours = grouped(results.study("navier-stokes"), lambda group: group.metadata.dataset)
    blocks: list[Block] = []
    missing, other_sizes = list(TABLE_2), []
    for label, groups in require(ours).items():
        samples = groups[0].budget.samples
        dataset = published.published_dataset(groups[0].metadata.viscosity, samples)
        missing = [one for one in missing if one != dataset]
        if dataset is not None and dataset.samples not in (samples, 10000):
            other_sizes.append(f"{label} beside {dataset}")
        blocks.append((label, groups, TABLE_2[dataset] if dataset else {}))
    notes = [f"Other data than the paper's: {'; '.join(other_sizes)}."] if other_sizes else []
    if missing:
        names = "; ".join(map(str, missing))
        notes.append(f"Not run: {names}. `{command_of('navier-stokes', preset='paper')}`.")
    return _error_table(("dataset", "network", "train", "test", "paper"), blocks, notes)


def _error_table(head: tuple[str, ...], blocks: Iterable[Block], notes: Iterable[str]) -> Table:
    """Errors and budgets, block by block; the smallest test error of a block stands out."""
    lines: list[tuple[str, ...]] = []
    strong = set()
    for label, groups, paper in blocks:
        paired: list[Any] = [(name, of_network(groups, name), paper[name]) for name in paper]
        met = [group for _, group, _ in paired]
        # ours that the paper does not have
        paired += [(group.model, group, None) for group in groups if group not in met]
        errors = {}
        for name, group, told in paired:
            of_train, of_test = told if isinstance(told, tuple) else (None, told)
            train, test = (group.summary(s) if group else None for s in ("train", "test"))
            cells = [summary_text(train), number(of_train), summary_text(test), number(of_test)]
            if head.count("paper") == 1:
                del cells[1]
            cells.append(f"{test.mean / of_test:.2f}" if test and of_test else MISSING)
            if test is not None:
                errors[len(lines)] = test.mean
            lines.append((label, group.model if group else name, *cells, *_budget(group)))
        if len(errors) > 1:
            strong.add((min(errors, key=lambda line: errors[line]), head.index("test")))
    return Table((*head, "test / paper", *BUDGET), tuple(lines), tuple(notes), frozenset(strong))


def _budget(group: Group | None) -> tuple[str, ...]:
    if group is None:
        return (MISSING,) * len(BUDGET)
    had = group.budget
    return (str(had.seeds), str(had.epochs), str(had.samples), number(had.seconds))


# What each part of the way to learn does to the error; not in the paper


@partial(Exhibit, "training-parts", "", TRAINING, "What pays in training")
def training_table(results: Results) -> Table:
    """Each part of the way to learn alone, and together. The parts were chosen by the error on
    validation samples, which are in neither the training nor the test set."""
    head = ("data", "network", "validation", "test", "test / plain", "steps", "CPU seconds")
    lines: list[tuple[str, ...]] = []
    strong = set()
    for study in TRAINING:
        for family, groups in grouped(results.study(study), lambda g: g.metadata.family).items():
            plain = next((g.summary() for g in groups if g.model == family), None)
            first, errors = len(lines), []
            for group in sorted(groups, key=lambda g: g.model):
                validation, test = group.summary("validation"), group.summary()
                gain = f"{test.mean / plain.mean:.2f}" if test and plain else MISSING
                effort = [group.summary("training", name) for name in ("steps", "cpu seconds")]
                cells = [summary_text(validation), summary_text(test), gain]
                cells += [MISSING if one is None else f"{one.mean:.0f}" for one in effort]
                lines.append((group.metadata.dataset, group.model, *cells))
                errors.append(math.inf if validation is None else validation.mean)
            strong.add((first + errors.index(min(errors)), 2))
    return Table(head, tuple(require(lines)), (), frozenset(strong))


# Settings and resources: tables 5 and 6


@partial(Exhibit, "table-5-settings", "Table 5", tuple(TABLE_5), "Settings of PDNO")
def settings_table(results: Results) -> Table:
    names = "batch,learning rate,weight decay,epochs,schedule,channels,layers,hidden,activation"
    head = ("data", "whose", *names.split(","), "k_max")
    lines = []
    for study, (batch, rate, decay, epochs, step, *network) in TABLE_5.items():
        cells = (str(batch), number(rate), number(decay), str(epochs), f"halved every {step}")
        lines.append((study, "paper", *cells, *map(str, network), "all"))
        name = published.ONE_SHOT if study == "heat" else published.PDNO
        group = of_network(results.shown(study), name)
        lines.append((study, "ours", *(_settings(group) if group else [MISSING] * len(head[2:]))))
    require(any(line[2] != MISSING for line in lines[1::2]))
    note = (
        "Layers, hidden and activation are those of the symbol networks. "
        "The paper's text trains ν = 1e-3 with batch 10."
    )
    return Table(head, tuple(lines), (note,))


def _settings(group: Group) -> list[str]:
    training, network = group.specification["training"], group.network
    schedule, factor = training["schedule"], training["step_factor"]
    if schedule == "step":
        word = "halved" if factor == 0.5 else f"times {factor}"
        schedule = f"{word} every {training['step_size']}"
    rates = (number(training["learning_rate"]), number(training["weight_decay"]))
    kept = "all" if network.get("modes") is None else network["modes"]
    cells = [training["batch_size"], *rates, training["epochs"], schedule, network.get("width", 1)]
    cells += [network[key] for key in ("symbol_layers", "symbol_hidden", "activation")]
    return [*map(str, cells), str(kept)]


def resource_numbers(results: Results) -> dict[tuple[str, int, int], Resources]:
    """What we measured, by family, k_max and channels."""
    names = ("peak memory MB", "parameters, complex once", "seconds per epoch")
    found: dict[tuple[str, int, int], dict[str, float]] = {}
    for row in results.resources:
        if {"modes", "width"} <= set(row.metadata.sweep):
            sweep = row.metadata.sweep
            key = (row.metadata.family, int(sweep["modes"]), int(sweep["width"]))
            found.setdefault(key, {})[row.metric] = row.value
    known = {key: line for key, line in found.items() if set(names) <= set(line)}
    return {key: Resources(*(line[name] for name in names)) for key, line in known.items()}


@partial(Exhibit, "table-6-resources", "Table 6", ("resources",), "Memory, parameters and time")
def resource_table(results: Results) -> Table:
    ours = require(resource_numbers(results))
    head = ("memory MB", "paper", "parameters", "paper", "seconds per epoch", "paper")
    keys = list(dict.fromkeys([*TABLE_6, *ours]))
    lines: list[tuple[str, ...]] = []
    for key in keys:
        sources = (ours.get(key), TABLE_6.get(key))
        cells = [number(one[part] if one else None) for part in range(3) for one in sources]
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
