"""Finished runs as the source of tables, figures and assessed claims.

Runs that differ in their seeds alone are one network, and a number is the mean over its seeds.
"""

import contextlib
import csv
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar

import yaml

from pdno.figures.fields import Array
from pdno.figures.style import Figure, figure_style
from pdno.files import run_folder
from pdno.files.limits import read_text
from pdno.files.metric_table import Metadata, Metric, NetworkMetrics, by_network, read_metrics
from pdno.interface.records import Options
from pdno.paper.published import CLASSICAL, ONE_SHOT, PDNO, PLAIN, RELU, Budget
from pdno.report.page import REPORT
from pdno.report.tables import Table
from pdno.runs.run import Run
from pdno.training.checkpoint import read_tensors

FLOW = "navier-stokes"  # with which the names of studies of flows begin
Curve = Sequence[tuple[float, float | None]]
T = TypeVar("T")


class MissingRunsError(LookupError):
    """Runs lack metrics that a table, figure or claim needs."""


def require(value: T | None) -> T:
    """The value; nothing, or an empty list, means that runs are missing."""
    if not value:
        raise MissingRunsError
    return value


def run_name(metric: Metric) -> str:
    points = metric.metadata.training_resolution or metric.resolution
    # one run measures all networks of the resource table
    model = "" if metric.metadata.study == "resources" else f" {metric.model}"
    return f"{metric.experiment}{model} s={points} seed={metric.seed}"


class Epoch(NamedTuple):
    """The errors of an epoch."""

    epoch: float
    train: float
    test: float


@dataclass(frozen=True, eq=False)
class StoredRun:
    """A run without its folder: metrics, errors by epoch, and a few arrays."""

    metrics: list[Metric] = field(default_factory=list)
    history: list[Epoch] = field(default_factory=list)
    arrays: dict[str, Array] = field(default_factory=dict)

    @classmethod
    def read_study(cls, folder: Path) -> "list[StoredRun]":
        """The runs in metrics.csv, history.csv and samples.safetensors of a study."""
        runs: dict[str, StoredRun] = {}
        for metric in read_metrics(folder / run_folder.METRICS):
            runs.setdefault(run_name(metric), cls()).metrics.append(metric)
        if (path := folder / run_folder.HISTORY).is_file():
            for line in csv.DictReader(read_text(path).splitlines()):
                row = Epoch(*(float(line[name]) for name in Epoch._fields))
                runs[line["run"]].history.append(row)
        if (path := folder / run_folder.SAMPLES).is_file():
            for key, tensor in read_tensors(path)[0].items():
                name, _, array = key.rpartition("/")
                runs[name].arrays[array] = tensor.double().numpy()
        return list(runs.values())


def metrics_of(run: Run | StoredRun) -> Sequence[Metric]:
    """The metrics of a run, with the result of `pdno symbol`."""
    if not isinstance(run, Run) or not (layers := run.symbol_report.get("layers")):
        return run.metrics
    accepted = {"layers": len(layers), "accepted layers": sum(x["accepted"] for x in layers)}
    values = {**accepted, "order": float(run.symbol_report["order"])}
    first = replace(run.metrics[0], split="symbol class", resolution=run.resolution)
    return (*run.metrics, *(replace(first, metric=k, value=v) for k, v in values.items()))


@dataclass(frozen=True, eq=False)
class Results:
    """The finished runs, as networks."""

    every_network: tuple[NetworkMetrics, ...]
    resources: tuple[Metric, ...]  #: one resource table: the one on the finest grid
    runs: Mapping[NetworkMetrics, Run | StoredRun]  #: the first seed of each

    @classmethod
    def of(cls, runs: Sequence[Run], folders: Sequence[Path] = ()) -> "Results":
        """Runs, and those that studies in the folders keep without a folder."""
        stored = [run for path in _stored_studies(folders) for run in StoredRun.read_study(path)]
        sources: dict[tuple[str, Metadata], tuple[Run | StoredRun, Sequence[Metric]]] = {}
        every: list[Run | StoredRun] = [*runs, *stored]
        for run in every:  # the same run may be in two folders; the first counts
            metrics = metrics_of(run)
            key = (run_name(metrics[0]), replace(metrics[0].metadata, commit=""))
            sources.setdefault(key, (run, metrics))
        ordered = sorted(sources.values(), key=lambda source: source[1][0].seed or 0)
        tables = [m for _, m in ordered if m[0].metadata.study == "resources"]
        origin = {id(m): run for run, metrics in ordered for m in metrics if metrics not in tables}
        networks = by_network(m for _, metrics in ordered for m in metrics if id(m) in origin)
        finest = max(tables, key=lambda metrics: metrics[0].resolution, default=())
        return cls(tuple(networks), tuple(finest), {n: origin[id(n.metrics[0])] for n in networks})

    @cached_property
    def networks(self) -> list[NetworkMetrics]:
        """What is shown: of each experiment, network and resolution the largest training."""
        budgets = {network: Budget.of(network) for network in self.every_network}
        better = {n.metadata.study for n, budget in budgets.items() if budget.level != "smoke"}
        chosen: dict[tuple[str, str, int], NetworkMetrics] = {}
        for network in sorted(self.every_network, key=lambda n: -budgets[n].work):
            if budgets[network].level != "smoke" or network.metadata.study not in better:
                key = (network.experiment, network.model, network.resolution)
                chosen.setdefault(key, network)

        def order(network: NetworkMetrics) -> tuple[object, ...]:
            about, sweep = network.metadata, sorted(network.metadata.sweep.items())
            settings = (about.network, about.mode, sweep, about.dataset, network.resolution)
            return (*settings, network.model)  # the name counts last

        return sorted(chosen.values(), key=order)

    @property
    def left_out(self) -> list[NetworkMetrics]:
        return [network for network in self.every_network if network not in self.networks]

    def study(self, name: str) -> list[NetworkMetrics]:
        return [network for network in self.networks if network.metadata.study == name]

    def by_resolution(self, study: str) -> dict[int, list[NetworkMetrics]]:
        """The networks of a study, coarse grids first."""
        return grouped(self.study(study), lambda network: network.resolution)

    def shown(self, study: str) -> list[NetworkMetrics]:
        """The networks of a study that a figure can compare: one dataset at one resolution.

        Of the Navier-Stokes datasets it is ν = 1e-5, as in the paper's figures, with the most
        samples; otherwise the resolution at which most networks were run, the finest of these.
        """
        networks = self.study(study)
        if study.startswith(FLOW):
            networks = of_viscosity(networks, 1e-5)
        counts = Counter(network.resolution for network in networks)
        best = max(counts, key=lambda points: (counts[points], points), default=0)
        return [network for network in networks if network.resolution == best]

    def run(self, network: NetworkMetrics) -> Run | None:
        """The run folder of the first seed; None where only its metrics were kept."""
        run = self.runs[network]
        return run if isinstance(run, Run) else None

    def best_run(self, study: str, array: str) -> Run:
        """The run with the largest training that has this sample array."""
        runs = {n: run for n in self.shown(study) if (run := self.run(n))}
        networks = [n for n, run in runs.items() if array in run.array_names]
        return runs[max(require(networks), key=lambda network: Budget.of(network).work)]

    def array(self, network: NetworkMetrics, name: str) -> Array | None:
        run = self.runs[network]
        if isinstance(run, StoredRun):
            return run.arrays.get(name)
        return run.array(name) if name in run.array_names else None

    def curve(self, network: NetworkMetrics, split: str) -> Curve:
        """Epochs and errors of the first seed; empty where they were not kept."""
        return [(row.epoch, getattr(row, split)) for row in self.runs[network].history]


def _stored_studies(folders: Iterable[Path]) -> list[Path]:
    """Folders with the metrics of runs that have no folders: neither runs nor reports."""
    files = [path for folder in folders for path in folder.resolve().rglob(run_folder.METRICS)]
    runs = {path.parent for path in files if run_folder.is_finished(path.parent)}
    others = (run_folder.SPECIFICATION, run_folder.OPERATOR, REPORT)
    return sorted(
        folder
        for folder in {path.parent for path in files} - runs
        if not any(folder in run.parents for run in runs)
        and not any((folder / name).exists() for name in others)
    )


def grouped(
    networks: Sequence[NetworkMetrics], key: Callable[[NetworkMetrics], T]
) -> dict[T, list[NetworkMetrics]]:
    """Networks by a key, in its order."""
    keys = sorted({key(network) for network in networks})  # type: ignore[type-var]
    return {k: [network for network in networks if key(network) == k] for k in keys}


def of_network(networks: Sequence[NetworkMetrics], name: str) -> NetworkMetrics | None:
    """A network of the paper, trained its way; None where there is none."""
    return next((n for n in networks if n.metadata.of_paper and n.metadata.network == name), None)


def of_viscosity(
    networks: Sequence[NetworkMetrics], viscosity: float, most: float = math.inf
) -> list[NetworkMetrics]:
    """The networks with this viscosity and the largest number of samples, up to `most`."""
    samples = {n: n.metadata.samples or 0 for n in networks if n.metadata.viscosity == viscosity}
    largest = max((count for count in samples.values() if count <= most), default=0)
    return [network for network, count in samples.items() if count == largest]


def by_setting(
    networks: Sequence[NetworkMetrics], name: str, network: str = ""
) -> dict[float, NetworkMetrics]:
    """Networks by the value of a swept setting, in order; infinity, which is "all", comes last."""
    ours = [n for n in networks if network in ("", n.metadata.network)]
    values = {sweep[name]: n for n in ours if name in (sweep := n.metadata.sweep)}
    return dict(sorted(values.items()))


# What the report shows of them

MARKERS = {
    **{PDNO: ("#0072B2", "o"), PLAIN: ("#56B4E9", "v"), ONE_SHOT: ("#000000", "P")},
    **{RELU: ("#7F7F7F", "X"), CLASSICAL: ("#332288", "p"), "PDNO trunk": ("#117733", "h")},
    **{"PDNO a(ξ,t,μ)": ("#882255", "d"), "PDNO semigroup": ("#44AA99", ">")},
    **{"FNO": ("#D55E00", "s"), "FNO-3D": ("#E69F00", "D")},
    **{"MWT Leg": ("#009E73", "^"), "MWT Chb": ("#CC79A7", "<")},
}
OTHER_MARKER = ("#6B4E00", "*")
MarkerStyle = Options
"""Keyword arguments of `Axes.plot`."""


def line_of(metadata: Metadata, split: str = "test") -> MarkerStyle:
    """The style of a network; a training that is not the paper's has an empty marker, training
    errors have a dashed line."""
    colour, marker = MARKERS.get(metadata.network, OTHER_MARKER)
    face = colour if metadata.of_paper or not metadata.family else "white"
    style = {"color": colour, "marker": marker, "markersize": 5, "markerfacecolor": face}
    return {**style, "linestyle": "--" if split == "train" else "-"}


Maker = Callable[[Results], Table | Figure]


@dataclass(frozen=True)
class Exhibit:
    """A table or figure of the report, as exhibits.yaml describes it, and what makes it."""

    key: str
    make: Maker
    title: str
    studies: Sequence[str]
    caption: str = ""

    @property
    def number(self) -> str:
        """In the paper, for example "Figure 3"; empty for ours."""
        kind, digits, *_ = (*self.key.split("-"), "")
        return f"{kind.title()} {int(digits)}" if digits.isdecimal() else ""

    @property
    def heading(self) -> str:
        return f"{self.number}. {self.title}".removeprefix(". ")

    def __call__(self, results: Results) -> Table | Figure | None:
        """The table or figure; None where runs are missing."""
        with figure_style(), contextlib.suppress(MissingRunsError):
            return self.make(results)
        return None


EXHIBITS = yaml.safe_load(Path(__file__).with_name("exhibits.yaml").read_text(encoding="utf-8"))


def exhibit(key: str) -> Callable[[Maker], Exhibit]:
    """The decorator of a function that makes a table or figure."""
    return lambda make: Exhibit(key, make, **EXHIBITS[key])
