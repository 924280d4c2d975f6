"""Results as a tidy table: one number per line, the same columns for every experiment.

    experiment, model, resolution, seed, split, metric, value, seconds, parameters

and the metadata by which reports tell runs apart:

    study, dataset, viscosity, family, variant, mode, of_paper, sweep, samples, epochs,
    training_resolution, commit

Numbers are written with all of their digits, so a table that is read and written again has the
same bytes.
"""

__all__ = [
    "COLUMNS",
    "Metadata",
    "Metric",
    "Summary",
    "make_metrics",
    "metrics_of_fit",
    "metrics_of_run",
    "nested_metrics",
    "read_metrics",
    "table",
    "write_metrics",
]

import csv
import io
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from pdno.files import run_folder
from pdno.files.atomic import write_text
from pdno.files.checksums import verified_path
from pdno.files.limits import read_text

Column = Literal["experiment", "resolution", "split", "metric"]


def check_cell(name: str, text: str) -> None:
    """Refuse text that is no line of a table, or that a spreadsheet would compute."""
    if any(mark in text for mark in "\r\n\0"):
        raise ValueError(f"{name} is {text!r}; expected one line of text")
    if text.startswith(("=", "+", "-", "@", "\t")):
        raise ValueError(
            f"{name} is {text!r}, which a spreadsheet would take for a formula: begin it with a "
            "letter"
        )


@dataclass(frozen=True)
class Metadata:
    """What a run is. Tables, colours and assessments go by these and never by a name.

    The study is what `pdno reproduce` calls it, the dataset the data in words. Family and variant,
    such as "PDNO" and "a(ξ)", are empty for other networks; the mode is the kind of its task.
    `of_paper` says whether the paper trains such a network this way, and `sweep` has the settings
    that the study varies; infinity is "all". Samples, epochs and resolution are those of the
    training, the commit is that of the code.
    """

    study: str = ""
    dataset: str = ""
    viscosity: float | None = None
    family: str = ""
    variant: str = ""
    mode: str = ""
    of_paper: bool = False
    sweep: Mapping[str, float] = field(default_factory=dict, hash=False)
    samples: int | None = None
    epochs: int | None = None
    training_resolution: int | None = None
    commit: str = ""

    def __post_init__(self) -> None:
        for name in _TEXT:
            check_cell(name, getattr(self, name))

    @property
    def network(self) -> str:
        """What the paper's tables call the network, for example "PDNO a(x,ξ)"."""
        return f"{self.family} {self.variant}".strip()

    def cells(self) -> list[str | float | None]:
        """One cell per column."""
        cells = {item.name: getattr(self, item.name) for item in fields(self)}
        cells["of_paper"] = "yes" if self.of_paper else "no"
        cells["sweep"] = " ".join(f"{name}={value!r}" for name, value in self.sweep.items())
        return list(cells.values())

    @classmethod
    def from_cells(cls, cells: Mapping[str, str]) -> "Metadata":
        """The metadata of one line."""
        pairs = (word.split("=") for word in cells["sweep"].split())
        return cls(
            **{name: cells[name] for name in _TEXT},
            **{name: int(cells[name]) if cells[name] else None for name in _WHOLE},
            viscosity=float(cells["viscosity"]) if cells["viscosity"] else None,
            of_paper={"yes": True, "no": False, "": False}[cells["of_paper"]],
            sweep={name: float(value) for name, value in pairs},
        )


_TEXT = ("study", "dataset", "family", "variant", "mode", "commit")
_WHOLE = ("samples", "epochs", "training_resolution")


@dataclass(frozen=True)
class Metric:
    """One number, NaN and infinity among them.

    The resolution is in points per axis, the metric one of `Evaluation.metrics`, `seconds` are
    those of the training.
    """

    experiment: str
    model: str
    resolution: int
    seed: int | None
    split: str
    metric: str
    value: float
    seconds: float | None = None
    parameters: int | None = None
    metadata: Metadata = Metadata()

    def __post_init__(self) -> None:
        # numbers of numpy and torch have their own spelling; a metric holds plain ones
        for name, (kind, optional) in _KINDS.items():
            value = getattr(self, name)
            if value is None and optional:
                continue
            if kind is not str and (value is None or isinstance(value, str)):
                raise ValueError(f"{name} is {value!r}; expected a number")
            plain = kind(value)
            if kind is int and plain != value:
                raise ValueError(f"{name} is {value!r}; expected a whole number")
            if kind is str:
                check_cell(name, plain)
            object.__setattr__(self, name, plain)


def _kind(hint: Any) -> tuple[Callable[[object], str | int | float], bool]:
    kind, *empty = get_args(hint) or (hint,)
    return kind, bool(empty)


_KINDS = {name: _kind(hint) for name, hint in get_type_hints(Metric).items() if name != "metadata"}
"""str, int or float by column, and whether a cell may be empty."""
NUMBERS, METADATA = tuple(_KINDS), tuple(item.name for item in fields(Metadata))
COLUMNS = (*NUMBERS, *METADATA)


@dataclass(frozen=True)
class Summary:
    """Mean and sample standard deviation of a cell over its seeds; NaN for one value."""

    mean: float
    deviation: float
    count: int

    @classmethod
    def of(cls, values: Collection[float]) -> "Summary":
        count, mean = len(values), math.fsum(values) / len(values)
        squares = math.fsum((value - mean) ** 2 for value in values)
        return cls(mean, math.sqrt(squares / (count - 1)) if count > 1 else math.nan, count)

    def __str__(self) -> str:
        mean = f"{self.mean:.3g}"
        return mean if self.count == 1 else f"{mean} ± {self.deviation:.1g}"


def make_metrics(values: Mapping[str, float], **common: Any) -> list[Metric]:
    """One metric per value; `common` are the other columns."""
    return [Metric(metric=metric, value=value, **common) for metric, value in values.items()]


def write_metrics(path: Path | str, metrics: Iterable[Metric]) -> None:
    """Write a CSV file, whole or not at all; None is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for metric in metrics:  # the writer knows None as an empty cell, and all digits of a float
        writer.writerow([*(getattr(metric, name) for name in NUMBERS), *metric.metadata.cells()])
    write_text(Path(path), text.getvalue())


def read_metrics(path: Path | str) -> list[Metric]:
    """Read a CSV file of `write_metrics`; the columns may stand in any order."""
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        header, *lines = list(reader) or [[]]
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}") from error
    expected = [name for name in COLUMNS if name in NUMBERS or name in header]
    problems = {
        "unknown": [name for name in header if name not in expected],
        "missing": [name for name in expected if name not in header],
        "double": sorted({name for name in header if header.count(name) > 1}),
    }
    reasons = [f"{kind} columns {', '.join(names)}" for kind, names in problems.items() if names]
    if reasons:
        expectation = f"expected the columns {', '.join(COLUMNS)}, once each"
        raise ValueError(f"{path} has {'; '.join(reasons)}: {expectation}")
    # every metric is one line, as `Metric` refuses line breaks
    return [_read_line(header, cells, f"{path}, line {n}") for n, cells in enumerate(lines, 2)]


def _read_line(header: list[str], cells: list[str], line: str) -> Metric:
    if len(cells) != len(header):
        raise ValueError(f"{line} has {len(cells)} cells; expected {len(header)}")
    named = dict.fromkeys(METADATA, "") | dict(zip(header, cells, strict=True))
    values: dict[str, Any] = {}
    for name, (kind, optional) in _KINDS.items():
        try:
            values[name] = None if named[name] == "" and optional else kind(named[name])
        except ValueError as error:
            expected = kind.__name__
            raise ValueError(f"{line}: {name} is {named[name]!r}; expected {expected}") from error
    try:
        metadata = Metadata.from_cells(named)
    except (KeyError, ValueError) as error:
        cells_read = {name: named[name] for name in METADATA}
        raise ValueError(f"{line}: metadata {cells_read} are not readable: {error}") from error
    return Metric(**values, metadata=metadata)


def metrics_of_run(folder: Path) -> list[Metric]:
    """The metrics of a run folder."""
    return read_metrics(verified_path(folder / run_folder.METRICS))


def nested_metrics(folder: Path) -> dict[str, Any]:
    """The metrics of a run folder by split and resolution, with `seconds` and `parameters`."""
    nested: dict[str, Any] = {}
    for metric in metrics_of_run(folder):
        nested |= {"seconds": metric.seconds, "parameters": metric.parameters}
        nested.setdefault(f"{metric.split} {metric.resolution}", {})[metric.metric] = metric.value
    return nested


def metrics_of_fit(
    name: str, network: str, mode: str, nested: Mapping[str, Any], seed: int
) -> list[Metric]:
    """The metrics of an operator that was trained by `pdno.fit`."""
    name = name.lstrip("=+-@\t")
    common = {"experiment": name, "model": network, "seed": seed}
    common |= {"metadata": Metadata(name, "own data", mode=mode)}
    common |= {"seconds": nested["seconds"], "parameters": nested["parameters"]}
    metrics = []
    for key, numbers in nested.items():
        if isinstance(numbers, dict):
            split, points = key.rsplit(" ", 1)
            metrics += make_metrics(numbers, split=split, resolution=int(points), **common)
    return metrics


def table(
    metrics: Iterable[Metric], *, columns: Column = "resolution", **where: str | int | None
) -> dict[str, dict[Any, Summary]]:
    """Models by one column, with mean and deviation over seeds: {model: {column: summary}}.

    Only the metrics count that have the values of other columns given by `where`.

    Example:
        >>> common = {"experiment": "heat", "model": "PDNO", "split": "test", "resolution": 64}
        >>> errors = [Metric(metric="relative_l2", seed=s, value=s, **common) for s in range(3)]
        >>> print(table(errors, metric="relative_l2", split="test")["PDNO"][64])
        1 ± 1
    """
    for names, existing in (((columns,), get_args(Column)), (tuple(where), NUMBERS)):
        if unknown := [name for name in names if name not in existing]:
            raise ValueError(f"no column {', '.join(unknown)}: expected {', '.join(existing)}")
    cells: dict[str, dict[Any, dict[int | None, float]]] = {}
    for metric in metrics:
        if any(getattr(metric, name) != value for name, value in where.items()):
            continue
        head = getattr(metric, columns)
        seeds = cells.setdefault(metric.model, {}).setdefault(head, {})
        if metric.seed in seeds:
            raise ValueError(
                f"{metric.model} has two values for {columns} {head} and seed {metric.seed}: "
                'choose one with where, for example metric="relative_l2", split="test"'
            )
        seeds[metric.seed] = metric.value
    return {
        model: {head: Summary.of(line[head].values()) for head in sorted(line)}
        for model, line in cells.items()
    }
