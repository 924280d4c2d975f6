"""Results as a tidy table: one number per line, the same columns for every experiment.

    experiment, model, resolution, seed, split, metric, value, seconds, parameters

and the metadata by which reports tell runs apart:

    study, dataset, viscosity, family, variant, mode, of_paper, sweep, samples, epochs,
    training_resolution, commit

Numbers are written with all of their digits, so a table that is read and written again has the
same bytes.
"""

import csv
import io
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pdno.files import run_folder
from pdno.files.atomic import write_text
from pdno.files.checksums import verified_path
from pdno.files.limits import read_text

ERROR = "relative_l2"


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
        values: dict[str, Any] = dict(cells)
        for name in ("samples", "epochs", "training_resolution"):
            values[name] = int(cells[name]) if cells[name] else None
        values["viscosity"] = float(cells["viscosity"]) if cells["viscosity"] else None
        values["of_paper"] = {"yes": True, "no": False}[cells["of_paper"]]
        values["sweep"] = {name: float(value) for name, value in pairs}
        return cls(**values)


_TEXT = ("study", "dataset", "family", "variant", "mode", "commit")


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
                check_cell(name, str(plain))
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
    problems = {
        "unknown": [name for name in header if name not in COLUMNS],
        "missing": [name for name in COLUMNS if name not in header],
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
    named = dict(zip(header, cells, strict=True))
    about = {name: named[name] for name in METADATA}
    values: dict[str, Any] = {}
    for name, (kind, optional) in _KINDS.items():
        try:
            values[name] = None if named[name] == "" and optional else kind(named[name])
        except ValueError as error:
            expected = kind.__name__
            raise ValueError(f"{line}: {name} is {named[name]!r}; expected {expected}") from error
    try:
        metadata = Metadata.from_cells(about)
    except (KeyError, ValueError) as error:
        raise ValueError(f"{line}: metadata {about} are not readable: {error}") from error
    return Metric(**values, metadata=metadata)


def metrics_of_run(folder: Path) -> list[Metric]:
    """The metrics of a run folder."""
    return read_metrics(verified_path(folder / run_folder.METRICS))


@dataclass(frozen=True, eq=False)
class NetworkMetrics:
    """All metrics of one network that was trained on the same data with one or several seeds.

    Example:
        >>> common = {"experiment": "heat", "model": "PDNO", "split": "test", "resolution": 64}
        >>> errors = [Metric(metric="relative_l2", seed=s, value=s, **common) for s in range(3)]
        >>> print(NetworkMetrics(tuple(errors)).summary("test"))
        1 ± 1
    """

    metrics: tuple[Metric, ...]

    @property
    def experiment(self) -> str:
        return self.metrics[0].experiment

    @property
    def model(self) -> str:
        """The name of the network in tables."""
        return self.metrics[0].model

    @property
    def metadata(self) -> Metadata:
        return self.metrics[0].metadata

    @property
    def parameters(self) -> int | None:
        return self.metrics[0].parameters

    @property
    def resolution(self) -> int:
        """Points per axis in training."""
        return self.metadata.training_resolution or self.metrics[0].resolution

    @cached_property
    def seeds(self) -> list[int | None]:
        return list(dict.fromkeys(metric.seed for metric in self.metrics))

    @cached_property
    def seconds(self) -> float | None:
        """Mean seconds of a training."""
        by_seed = {m.seed: m.seconds for m in self.metrics if m.seconds is not None}
        return math.fsum(by_seed.values()) / len(by_seed) if by_seed else None

    def values(self, split: str, metric: str, resolution: int | None = None) -> list[float]:
        """One metric of every seed, at the resolution of the training by default."""
        points = resolution or self.resolution
        values: dict[int | None, float] = {}
        for m in self.metrics:
            if (m.split, m.metric, m.resolution) == (split, metric, points):
                if m.seed in values:
                    raise ValueError(
                        f"{self.model} has two values of {split} {metric} for seed {m.seed}: give "
                        "runs with other settings another name"
                    )
                values[m.seed] = m.value
        return list(values.values())

    def summary(
        self, split: str = "test", metric: str = ERROR, *, resolution: int | None = None
    ) -> Summary | None:
        """Mean and deviation of a metric over the seeds; None where it was not measured."""
        values = self.values(split, metric, resolution)
        return Summary.of(values) if values else None

    def names(self, split: str, prefix: str) -> list[str]:
        """What follows a prefix in the names of the metrics of a split, such as times."""
        names = dict.fromkeys(m.metric for m in self.metrics if m.split == split)
        return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

    def series(self, split: str, prefix: str) -> dict[str, Summary]:
        """The metrics whose names begin with a prefix, by what follows it."""
        summaries = {n: self.summary(split, prefix + n) for n in self.names(split, prefix)}
        return {name: summary for name, summary in summaries.items() if summary is not None}

    def over_time(self, split: str = "test") -> dict[float, Summary]:
        """Errors by time."""
        return {float(t): error for t, error in self.series(split, f"{ERROR} t=").items()}

    def resolutions(self, split: str) -> list[int]:
        """Points per axis at which a split was evaluated, coarse grids first."""
        return sorted({m.resolution for m in self.metrics if m.split == split})


def by_network(metrics: Iterable[Metric]) -> list[NetworkMetrics]:
    """Metrics that differ in nothing but their seed, and the commit, together."""
    networks: dict[tuple[str, str, Metadata], list[Metric]] = {}
    for metric in metrics:
        key = (metric.experiment, metric.model, replace(metric.metadata, commit=""))
        networks.setdefault(key, []).append(metric)
    return [NetworkMetrics(tuple(network)) for network in networks.values()]
