"""Rows: results as a plain table, one number per row, the same columns for every experiment.

    experiment, model, resolution, seed, split, metric, value, seconds, parameters

and the facts by which reports tell runs apart:

    study, dataset, viscosity, family, variant, mode, of_paper, sweep

Reports read these files and nothing else. Numbers are written with all of their digits, so a table
that is read and written again has the same bytes.
"""

__all__ = [
    "COLUMNS",
    "Facts",
    "Row",
    "Summary",
    "make_rows",
    "read_rows",
    "rows_of_run",
    "table",
    "write_rows",
]

import csv
import io
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from pdno.files import run_folder
from pdno.files.atomic import write_text
from pdno.files.checksums import checked
from pdno.files.limits import read_json, read_text

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
class Facts:
    """What a run is. Tables, colours and verdicts go by these and never by a name.

    The study is what `pdno reproduce` calls it, the dataset the data in words. Family and variant,
    such as "PDNO" and "a(ξ)", are empty for other networks; the mode is the kind of its task.
    `of_paper` says whether the paper trains such a network this way, and `sweep` has the settings
    that the study varies; infinity is "all".
    """

    study: str
    dataset: str = ""
    viscosity: float | None = None
    family: str = ""
    variant: str = ""
    mode: str = ""
    of_paper: bool = False
    sweep: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name in ("study", "dataset", "family", "variant", "mode"):
            check_cell(name, getattr(self, name))

    @property
    def network(self) -> str:
        """What the paper's tables call the network, for example "PDNO a(x,ξ)"."""
        return f"{self.family} {self.variant}".strip()

    def cells(self) -> list[str | float | None]:
        """One cell per column."""
        *plain, of_paper, sweep = (getattr(self, one.name) for one in fields(self))
        pairs = " ".join(f"{name}={value!r}" for name, value in sweep.items())
        return [*plain, "yes" if of_paper else "no", pairs]

    @classmethod
    def from_cells(cls, cells: Mapping[str, str]) -> "Facts | None":
        """The facts of one line; None where they are empty, as in files of older versions."""
        plain: dict[str, Any] = dict(cells)
        if not plain["study"]:
            return None
        plain["viscosity"] = float(plain["viscosity"]) if plain["viscosity"] else None
        plain["of_paper"] = {"yes": True, "no": False}[plain["of_paper"]]
        pairs = (word.split("=") for word in plain["sweep"].split())
        plain["sweep"] = {name: float(value) for name, value in pairs}
        return cls(**plain)


@dataclass(frozen=True)
class Row:
    """One number, NaN and infinity among them; `facts` are None in rows of older versions.

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
    facts: Facts | None = None

    def __post_init__(self) -> None:
        # numbers of numpy and torch have their own spelling; a row holds plain ones
        for name, (kind, *may_be_none) in _KINDS.items():
            given = getattr(self, name)
            if given is None and may_be_none:
                continue
            if kind is not str and (given is None or isinstance(given, str)):
                raise ValueError(f"{name} is {given!r}; expected a number")
            value = kind(given)
            if kind is int and value != given:
                raise ValueError(f"{name} is {given!r}; expected a whole number")
            if kind is str:
                check_cell(name, value)
            object.__setattr__(self, name, value)


_KINDS: dict[str, tuple[Any, ...]] = {
    name: get_args(hint) or (hint,)
    for name, hint in get_type_hints(Row).items()
    if name != "facts"
}
"""str, int or float, and NoneType where a cell may be empty."""
NUMBERS, FACTS = tuple(_KINDS), tuple(one.name for one in fields(Facts))
COLUMNS = (*NUMBERS, *FACTS)


@dataclass(frozen=True)
class Summary:
    """Mean and sample standard deviation of a cell over its seeds; NaN for one value."""

    mean: float
    deviation: float
    count: int

    def __str__(self) -> str:
        mean = f"{self.mean:.3g}"
        return mean if self.count == 1 else f"{mean} ± {self.deviation:.1g}"


def make_rows(metrics: Mapping[str, float], **common: Any) -> list[Row]:
    """One row per metric; `common` are the other columns."""
    return [Row(metric=metric, value=value, **common) for metric, value in metrics.items()]


def write_rows(path: Path | str, rows: Iterable[Row]) -> None:
    """Write a CSV file, whole or not at all; None is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:  # the writer knows None as an empty cell, and all digits of a float
        numbers = [getattr(row, name) for name in NUMBERS]
        writer.writerow([*numbers, *(row.facts.cells() if row.facts else [""] * len(FACTS))])
    write_text(Path(path), text.getvalue())


def read_rows(path: Path | str) -> list[Row]:
    """Read a CSV file of `write_rows`; the columns may stand in any order.

    Files of older versions have no columns of facts.
    """
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        header, *lines = list(reader) or [[]]
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}") from error
    expected = COLUMNS if set(header) & set(FACTS) else NUMBERS
    problems = {
        "unknown": [name for name in header if name not in expected],
        "missing": [name for name in expected if name not in header],
        "double": sorted({name for name in header if header.count(name) > 1}),
    }
    told = [f"{kind} columns {', '.join(names)}" for kind, names in problems.items() if names]
    if told:
        raise ValueError(
            f"{path} has {'; '.join(told)}: expected the columns {', '.join(expected)}, once each"
        )
    # every row is one line, as `Row` refuses line breaks
    return [_read_row(header, cells, f"{path}, line {n}") for n, cells in enumerate(lines, 2)]


def rows_of_run(folder: Path) -> list[Row]:
    """The rows of a run folder; those of one that `pdno.fit` wrote are its metrics."""
    if checked(folder / run_folder.ROWS).is_file():
        return read_rows(folder / run_folder.ROWS)
    record, metrics = (
        read_json(checked(folder / name)) for name in (run_folder.OPERATOR, run_folder.METRICS)
    )
    facts = Facts(folder.name, "own data", mode=record["task"]["kind"])
    common = {"experiment": folder.name, "model": record["network_class"], "facts": facts}
    common |= {"seconds": metrics.pop("seconds"), "parameters": metrics.pop("parameters")}
    common |= {"seed": record["training"]["settings"]["seed"]}
    rows = []
    for name, numbers in metrics.items():
        split, points = name.rsplit(" ", 1)
        rows += make_rows(numbers, split=split, resolution=int(points), **common)
    return rows


def _read_row(header: list[str], cells: list[str], place: str) -> Row:
    if len(cells) != len(header):
        raise ValueError(f"{place} has {len(cells)} cells; expected {len(header)}")
    line = dict(zip(header, cells, strict=True))
    values: dict[str, Any] = {}
    for name, (kind, *may_be_none) in _KINDS.items():
        cell = line.pop(name)
        try:
            values[name] = None if cell == "" and may_be_none else kind(cell)
        except ValueError as error:
            raise ValueError(f"{place}: {name} is {cell!r}; expected {kind.__name__}") from error
    try:
        facts = Facts.from_cells(line) if line else None
    except (KeyError, ValueError) as error:
        raise ValueError(f"{place}: facts {line} are not readable: {error}") from error
    return Row(**values, facts=facts)


def table(
    rows: Iterable[Row], *, columns: Column = "resolution", **where: Any
) -> dict[str, dict[Any, Summary]]:
    """Models by one column, with mean and deviation over seeds: {model: {column: summary}}.

    Only the rows count that have the values of other columns given by `where`.

    Example:
        >>> common = {"experiment": "heat", "model": "PDNO", "split": "test", "resolution": 64}
        >>> rows = [Row(metric="relative_l2", seed=s, value=s + 1, **common) for s in range(3)]
        >>> print(table(rows, metric="relative_l2", split="test")["PDNO"][64])
        2 ± 1
    """
    for names, known in (((columns,), get_args(Column)), (tuple(where), NUMBERS)):
        if unknown := [name for name in names if name not in known]:
            raise ValueError(f"no column {', '.join(unknown)}: expected {', '.join(known)}")
    cells: dict[str, dict[Any, dict[int | None, float]]] = {}
    for row in rows:
        if any(getattr(row, name) != value for name, value in where.items()):
            continue
        head = getattr(row, columns)
        seeds = cells.setdefault(row.model, {}).setdefault(head, {})
        if row.seed in seeds:
            raise ValueError(
                f"{row.model} has two values for {columns} {head} and seed {row.seed}: choose one "
                'with where, for example metric="relative_l2", split="test"'
            )
        seeds[row.seed] = row.value

    def summary(values: Collection[float]) -> Summary:
        count, mean = len(values), math.fsum(values) / len(values)
        squares = math.fsum((value - mean) ** 2 for value in values)
        return Summary(mean, math.sqrt(squares / (count - 1)) if count > 1 else math.nan, count)

    return {
        model: {head: summary(line[head].values()) for head in sorted(line)}
        for model, line in cells.items()
    }
