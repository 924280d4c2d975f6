"""Rows: results as a plain table, one number per row, the same columns for every experiment.

    experiment, model, resolution, seed, split, metric, value, seconds, parameters

and the facts by which reports tell runs apart:

    study, dataset, viscosity, family, variant, mode, of_paper, sweep

Reports, figures and other programs read these files and nothing else. Numbers are written with
all of their digits, so a table that is read and written again has the same bytes.
"""

__all__ = ["COLUMNS", "Facts", "Row", "Summary", "make_rows", "read_rows", "table", "write_rows"]

import csv
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from pdno.atomic import write_text

Column = Literal["experiment", "resolution", "split", "metric"]


@dataclass(frozen=True)
class Facts:
    """What a run is. Tables, colours and verdicts go by these and never by a name.

    Arguments:
        study: What `pdno reproduce` calls it, for example "darcy-modes".
        dataset: The data in words, for example "ν = 1e-5, T = 20, N = 200".
        viscosity: ν of the data; None for problems without one.
        family: PDNO, FNO, FNO-3D or MWT; empty for other networks.
        variant: Which of its family, for example "a(ξ)" or "Leg".
        mode: How it is trained: static, rollout, markov, teacher-forcing, one-shot, space-time.
        of_paper: Whether the paper trains such a network this way.
        sweep: The settings that the study varies, with their values; infinity is "all".
    """

    study: str
    dataset: str = ""
    viscosity: float | None = None
    family: str = ""
    variant: str = ""
    mode: str = ""
    of_paper: bool = False
    sweep: Mapping[str, float] = field(default_factory=dict, hash=False)

    @property
    def network(self) -> str:
        """What the paper's tables call the network, for example "PDNO a(x,ξ)"."""
        return f"{self.family} {self.variant}".strip()

    def cells(self) -> list[str]:
        """One cell per column."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        plain["viscosity"] = "" if self.viscosity is None else repr(self.viscosity)
        plain["of_paper"] = "yes" if self.of_paper else "no"
        plain["sweep"] = " ".join(f"{name}={value!r}" for name, value in self.sweep.items())
        return list(plain.values())

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
    """One number.

    Arguments:
        experiment: What was run, for example "darcy".
        model: What the tables call the model, for example "PDNO a(x,ξ)".
        resolution: Grid points per axis.
        seed: Of the run; None where there is none.
        split: "train" or "test".
        metric: Name of the number, see `Evaluation.metrics`.
        value: The number; NaN and infinity are allowed.
        seconds: Training seconds of the run; None where they are not known.
        parameters: Of the model; None where there are none.
        facts: What was run, in facts; None in rows of older versions.
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

NUMBERS = tuple(_KINDS)
FACTS = tuple(one.name for one in fields(Facts))
COLUMNS = (*NUMBERS, *FACTS)


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
        numbers = [getattr(row, name) for name in NUMBERS]
        cells = ["" if cell is None else cell for cell in numbers]
        plain = [repr(cell) if isinstance(cell, float) else cell for cell in cells]
        writer.writerow([*plain, *(row.facts.cells() if row.facts else [""] * len(FACTS))])
    write_text(Path(path), text.getvalue())


def read_rows(path: Path | str) -> list[Row]:
    """Read a CSV file of `write_rows`; the columns may stand in any order.

    Files of older versions have no columns of facts.
    """
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


def _read_row(header: list[str], cells: list[str], place: str) -> Row:
    if len(cells) != len(header):
        raise ValueError(f"{place} has {len(cells)} cells; expected {len(header)}")
    line = dict(zip(header, cells, strict=True))
    values: dict[str, Any] = {}
    for name, kind in _KINDS.items():
        cell = line.pop(name)
        if cell == "" and name in _MAY_BE_EMPTY:
            values[name] = None
            continue
        try:
            values[name] = kind(cell)
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
    return {
        model: {head: _summarise(list(line[head].values())) for head in sorted(line)}
        for model, line in cells.items()
    }


def _summarise(values: list[float]) -> Summary:
    count = len(values)
    mean = math.fsum(values) / count
    squares = math.fsum((value - mean) ** 2 for value in values)
    return Summary(mean, math.sqrt(squares / (count - 1)) if count > 1 else math.nan, count)
