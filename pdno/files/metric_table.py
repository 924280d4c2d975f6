"""Results as a tidy table: one number (`Metric`) per line, with the `Metadata` of its run.

Numbers have all of their digits: a table that is read and written again has the same bytes.
"""

import csv
import io
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ValidationError, ValidationInfo
from pydantic.dataclasses import dataclass as checked

from pdno.files import run_folder
from pdno.files.atomic import write_text
from pdno.files.limits import read_text
from pdno.files.run_folder import verified_path
from pdno.interface.records import Options

ERROR = "relative_l2"


def check_cell(name: str, text: str) -> None:
    """Refuse text that is no line of a table, or that a spreadsheet would compute."""
    if any(mark in text for mark in "\r\n\0"):
        raise ValueError(f"{name} is {text!r}; expected one line of text")
    if text.startswith(("=", "+", "-", "@", "\t")):
        cure = "begin it with a letter"
        raise ValueError(f"{name} is {text!r}, which a spreadsheet may take for a formula: {cure}")


def _cell(text: str, info: ValidationInfo) -> str:
    check_cell(str(info.field_name), text)
    return text


def _plain(value: object) -> object:
    """A number of Python, not of numpy or torch; None for an empty cell."""
    return value.item() if hasattr(value, "item") else None if value == "" else value


def _settings(value: object) -> object:
    return dict(word.split("=") for word in value.split()) if isinstance(value, str) else value


Text = Annotated[str, AfterValidator(_cell)]
Whole = Annotated[int | None, BeforeValidator(_plain)]
Number = Annotated[float | None, BeforeValidator(_plain)]
Settings = Annotated[Mapping[str, float], BeforeValidator(_settings)]


@checked(frozen=True)
class Metadata:
    """Metadata of a run, by which tables, colours and assessments identify networks.

    The study is what `pdno reproduce` calls it. Family and variant, such as "PDNO" and "a(ξ)", are
    empty for other networks; the mode is the kind of the task. `of_paper` says whether the paper
    trains such a network this way; `sweep` has the settings that the study varies, infinity for
    "all". Samples, epochs and resolution are those of the training.
    """

    study: Text = ""
    dataset: Text = ""
    viscosity: Number = None
    family: Text = ""
    variant: Text = ""
    mode: Text = ""
    of_paper: bool = False
    sweep: Settings = field(default_factory=dict, hash=False)
    samples: Whole = None
    epochs: Whole = None
    training_resolution: Whole = None
    commit: Text = ""

    @property
    def network(self) -> str:
        """What the paper's tables call the network, for example "PDNO a(x,ξ)"."""
        return f"{self.family} {self.variant}".strip()


@checked(frozen=True)
class Metric:
    """One number; the resolution is in points per axis, `seconds` are those of the training."""

    experiment: Text
    model: Text
    resolution: Annotated[int, BeforeValidator(_plain)]
    seed: Whole
    split: Text
    metric: Text
    value: Annotated[float, BeforeValidator(_plain)]
    seconds: Number = None
    parameters: Whole = None
    metadata: Metadata = Metadata()


NUMBERS = tuple(item.name for item in fields(Metric) if item.name != "metadata")
COLUMNS = (*NUMBERS, *(item.name for item in fields(Metadata)))


@dataclass(frozen=True)
class Summary:
    """Mean and sample standard deviation of a cell over its seeds; NaN for one value."""

    mean: float
    deviation: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Summary | None":
        """Of one value for each seed; None without values."""
        if not values:
            return None
        count, mean = len(values), math.fsum(values) / len(values)
        squares = math.fsum((value - mean) ** 2 for value in values)
        return cls(mean, math.sqrt(squares / (count - 1)) if count > 1 else math.nan, count)


def make_metrics(values: Mapping[str, float], **common: Any) -> list[Metric]:
    """One metric per value; `common` are the other columns."""
    return [Metric(metric=metric, value=value, **common) for metric, value in values.items()]


def write_metrics(path: Path | str, metrics: Iterable[Metric]) -> None:
    """Write a CSV file, whole or not at all; None is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for metric in metrics:
        values = vars(metric) | vars(metric.metadata)
        values["of_paper"] = "yes" if values["of_paper"] else "no"
        values["sweep"] = " ".join(f"{name}={value!r}" for name, value in values["sweep"].items())
        writer.writerow([values[name] for name in COLUMNS])
    write_text(Path(path), text.getvalue())


def read_metrics(path: Path | str) -> list[Metric]:
    """Read a CSV file of `write_metrics`; the columns may stand in any order."""
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        header, *lines = list(reader) or [[]]
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}") from error
    extra, missing = Counter(header) - Counter(COLUMNS), Counter(COLUMNS) - Counter(header)
    if extra or missing:
        wrong = f"unknown or double columns: {', '.join(extra)}; missing: {', '.join(missing)}"
        raise ValueError(f"{path} has {wrong}; expected {', '.join(COLUMNS)}, once each")
    # every metric is one line, as `Metric` refuses line breaks
    return [_read_line(header, cells, f"{path}, line {n}") for n, cells in enumerate(lines, 2)]


def _read_line(header: list[str], cells: list[str], line: str) -> Metric:
    if len(cells) != len(header):
        raise ValueError(f"{line} has {len(cells)} cells; expected {len(header)}")
    values: Options = dict(zip(header, cells, strict=True))
    numbers = {name: values.pop(name) for name in NUMBERS}
    try:
        return Metric(**numbers, metadata=Metadata(**values))
    except ValidationError as error:
        wrong = error.errors()[0]
        cell = wrong["input"] if wrong["input"] is not None else ""
        raise ValueError(f"{line}: {wrong['loc'][0]} is {cell!r}: {wrong['msg']}") from error


def metrics_of_run(folder: Path) -> list[Metric]:
    return read_metrics(verified_path(folder / run_folder.METRICS))


class NetworkMetrics:
    """All metrics of one network on the same data, with one or several seeds."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self.metrics = tuple(metrics)
        first = self.metrics[0]
        self.experiment, self.model, self.metadata = first.experiment, first.model, first.metadata
        self.parameters = first.parameters
        self.resolution = first.metadata.training_resolution or first.resolution
        self.seeds = list(dict.fromkeys(metric.seed for metric in self.metrics))
        by_seed = {m.seed: m.seconds for m in self.metrics if m.seconds is not None}
        # the mean of the trainings
        self.seconds = math.fsum(by_seed.values()) / len(by_seed) if by_seed else None

    def values(self, split: str, metric: str, resolution: int | None = None) -> list[float]:
        """One metric of every seed, at the resolution of the training by default."""
        points = resolution or self.resolution
        values: dict[int | None, float] = {}
        for m in self.metrics:
            if (m.split, m.metric, m.resolution) == (split, metric, points):
                if m.seed in values:
                    double = f"{self.model} has two values of {split} {metric} for seed {m.seed}"
                    raise ValueError(f"{double}: name runs with other settings differently")
                values[m.seed] = m.value
        return list(values.values())

    def summary(
        self, split: str = "test", metric: str = ERROR, *, resolution: int | None = None
    ) -> Summary | None:
        """Mean and deviation of a metric over the seeds; None where it was not measured."""
        return Summary.of(self.values(split, metric, resolution))

    def names(self, split: str, prefix: str) -> list[str]:
        """What follows a prefix in the names of the metrics of a split, such as times."""
        names = dict.fromkeys(m.metric for m in self.metrics if m.split == split)
        return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

    def series(self, split: str, prefix: str) -> dict[str, Summary]:
        """The metrics whose names begin with a prefix, by what follows it."""
        names = self.names(split, prefix)
        return {name: s for name in names if (s := self.summary(split, prefix + name))}

    def over_time(self, split: str = "test") -> dict[float, Summary]:
        return {float(t): error for t, error in self.series(split, f"{ERROR} t=").items()}

    def per_pair(self, split: str = "test") -> Summary | None:
        """Mean error of all pairs of a sample and a time; None without errors by time."""
        times = self.names(split, f"{ERROR} t=")
        by_seed = zip(*(self.values(split, f"{ERROR} t={t}") for t in times), strict=True)
        return Summary.of([math.fsum(errors) / len(errors) for errors in by_seed])

    def resolutions(self, split: str) -> list[int]:
        """Points per axis at which a split was evaluated, coarse grids first."""
        return sorted({m.resolution for m in self.metrics if m.split == split})


def by_network(metrics: Iterable[Metric]) -> list[NetworkMetrics]:
    networks: dict[tuple[str, str, Metadata], list[Metric]] = {}
    for m in metrics:
        networks.setdefault((m.experiment, m.model, replace(m.metadata, commit="")), []).append(m)
    return [NetworkMetrics(network) for network in networks.values()]
