"""Rows: results as a plain table, one number per row, the same columns for every experiment.

    experiment, model, resolution, seed, split, metric, value, seconds, parameters

Reports, figures and other programs read these files and nothing else. Numbers are written with
all of their digits, so a table that is read and written again has the same bytes.
"""

__all__ = ["COLUMNS", "Row", "Summary", "make_rows", "read_rows", "table", "write_rows"]

import csv
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from pdno.atomic import write_text

Column = Literal["experiment", "resolution", "split", "metric"]


@dataclass(frozen=True)
class Row:
    """One number.

    Arguments:
        experiment: What was run, for example "darcy".
        model: Which model, for example "PDNO a(x,ξ)".
        resolution: Grid points per axis.
        seed: Of the run; None where there is none.
        split: "train" or "test".
        metric: Name of the number, see `Evaluation.metrics`.
        value: The number; NaN and infinity are allowed.
        seconds: Training seconds of the run; None where they are not known.
        parameters: Of the model; None where there are none.
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

    def __post_init__(self) -> None:
        # numbers of numpy and torch have their own spelling; a row holds plain ones
        for name, kind in _KINDS.items():
            given = getattr(self, name)
            if given is None and name in _MAY_BE_EMPTY:
                continue
            if kind is not str and (given is None or isinstance(given, str)):
                raise ValueError(f"{name} is {given!r}; expected a number")
            value = kind(given)
            if kind is int and value != given:
                raise ValueError(f"{name} is {given!r}; expected a whole number")
            if isinstance(value, str) and any(mark in value for mark in "\r\n\0"):
                raise ValueError(f"{name} is {given!r}; expected one line of text")
            object.__setattr__(self, name, value)


_KINDS: dict[str, type[str] | type[int] | type[float]] = {
    "experiment": str,
    "model": str,
    "resolution": int,
    "seed": int,
    "split": str,
    "metric": str,
    "value": float,
    "seconds": float,
    "parameters": int,
}
_MAY_BE_EMPTY = ("seed", "seconds", "parameters")

COLUMNS = tuple(field.name for field in fields(Row))


@dataclass(frozen=True)
class Summary:
    """Mean and deviation of one cell over its seeds.

    Arguments:
        mean: Mean.
        deviation: Sample standard deviation (division by count - 1); NaN for one value.
        count: Number of values.
    """

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
    for row in rows:
        cells = ["" if cell is None else cell for cell in astuple(row)]
        writer.writerow(repr(cell) if isinstance(cell, float) else cell for cell in cells)
    write_text(Path(path), text.getvalue())


def read_rows(path: Path | str) -> list[Row]:
    """Read a CSV file of `write_rows`; the columns may stand in any order."""
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.reader(file, strict=True)
        try:
            header, *lines = list(reader) or [[]]
        except csv.Error as error:
            raise ValueError(f"{path}, line {reader.line_num}: {error}") from error
    _check_header(header, path)
    # every row is one line, as `Row` refuses line breaks
    return [_read_row(header, cells, f"{path}, line {n}") for n, cells in enumerate(lines, 2)]


def _check_header(header: list[str], path: Path | str) -> None:
    problems = {
        "unknown": [name for name in header if name not in COLUMNS],
        "missing": [name for name in COLUMNS if name not in header],
        "double": sorted({name for name in header if header.count(name) > 1}),
    }
    told = [f"{kind} columns {', '.join(names)}" for kind, names in problems.items() if names]
    if told:
        raise ValueError(
            f"{path} has {'; '.join(told)}: expected the columns {', '.join(COLUMNS)}, once each"
        )


def _read_row(header: list[str], cells: list[str], place: str) -> Row:
    if len(cells) != len(header):
        raise ValueError(f"{place} has {len(cells)} cells; expected {len(header)}")
    values: dict[str, Any] = {}
    for name, cell in zip(header, cells, strict=True):
        if cell == "" and name in _MAY_BE_EMPTY:
            values[name] = None
            continue
        try:
            values[name] = _KINDS[name](cell)
        except ValueError as error:
            raise ValueError(
                f"{place}: {name} is {cell!r}; expected {_KINDS[name].__name__}"
            ) from error
    return Row(**values)


def table(
    rows: Iterable[Row], *, columns: Column = "resolution", **where: Any
) -> dict[str, dict[Any, Summary]]:
    """Models by one column, with mean and deviation over seeds: {model: {column: summary}}.

    Arguments:
        rows: The results.
        columns: What stands at the top of the table.
        where: Values of other columns; only the rows that have them count.

    Example:
        >>> common = {"experiment": "heat", "model": "PDNO", "split": "test", "resolution": 64}
        >>> rows = [Row(metric="relative_l2", seed=s, value=s + 1, **common) for s in range(3)]
        >>> print(table(rows, metric="relative_l2", split="test")["PDNO"][64])
        2 ± 1
    """
    for names, known in (((columns,), get_args(Column)), (tuple(where), COLUMNS)):
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
    return {
        model: {head: _summarise(list(line[head].values())) for head in sorted(line)}
        for model, line in cells.items()
    }


def _summarise(values: list[float]) -> Summary:
    count = len(values)
    mean = math.fsum(values) / count
    squares = math.fsum((value - mean) ** 2 for value in values)
    return Summary(mean, math.sqrt(squares / (count - 1)) if count > 1 else math.nan, count)
