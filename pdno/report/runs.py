"""Run folders (see `pdno.files.run_folder`), read without a model, and which of them a report shows.

Runs that differ in their seeds alone are a group, and a number of a report is the mean over its
seeds. Of groups with the same experiment, network and resolution the one with the largest training
counts; runs of a handful of samples are left out where the study has better ones.
"""

__all__ = ["Budget", "Group", "Results", "RunRecord", "find_runs", "find_unfinished", "of_network"]

import csv
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from safetensors import SafetensorError, safe_open

from pdno.files import run_folder
from pdno.files.checksums import verified_path
from pdno.files.limits import read_json, read_text
from pdno.files.metric_table import Metadata, Metric, Summary, metrics_of_run, table
from pdno.paper import published
from pdno.paper.published import ONE_SHOT, PDNO, PLAIN, PROVABLE, RELU

ERROR = "relative_l2"
WRITTEN_FACTS = ("study", "of_paper", "sweep")
FLOW_STUDIES = ("navier-stokes", "navier-stokes-width", "navier-stokes-training")
HANDFUL = 10  # training samples below which nothing can be learned
Array = np.ndarray[Any, np.dtype[np.float64]]
T = TypeVar("T")


class MissingRunsError(LookupError):
    """The runs do not have what a table, a figure or a claim needs."""


def require(found: T | None) -> T:
    """What was found; nothing, or an empty list, is missing runs."""
    if not found:
        raise MissingRunsError
    return found


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except SafetensorError as problem:
        cure = "remove the folder and run it again"
        raise ValueError(f"cannot read {path}, which is damaged ({problem}): {cure}") from problem


@dataclass(frozen=True, eq=False)
class RunRecord:
    """A finished run; specification and environment are empty where they are not known."""

    folder: Path
    specification: Mapping[str, Any]
    environment: Mapping[str, Any]
    rows: tuple[Metric, ...]
    history: tuple[Mapping[str, float], ...]

    @property
    def metadata(self) -> Metadata:
        """What it is; of the resource table that of its first network."""
        return require(self.rows[0].metadata)

    @property
    def model(self) -> str:
        """What the tables call the network: a label, which tells nothing."""
        return self.rows[0].model

    @property
    def seed(self) -> int:
        return int(self.specification.get("training", {}).get("seed", 0))

    @property
    def resolution(self) -> int:
        return int(self.specification.get("resolution") or self.rows[0].resolution)

    @cached_property
    def _pictures(self) -> Any:
        path = verified_path(self.folder / run_folder.SAMPLES)
        with _explained(path):
            return safe_open(path, framework="numpy") if path.is_file() else None

    @property
    def picture_names(self) -> tuple[str, ...]:
        return tuple(sorted(self._pictures.keys())) if self._pictures else ()

    def picture(self, name: str) -> Array:
        """One array of its pictures, float64."""
        if name not in self.picture_names:
            raise ValueError(f"{self.folder} has no picture {name}: run it again")
        with _explained(self.folder / run_folder.SAMPLES):
            return np.asarray(self._pictures.get_tensor(name), dtype=np.float64)

    @cached_property
    def inside(self) -> Mapping[str, Any]:
        """What `pdno symbol` found in it; empty where it did not look."""
        return _read_json(self.folder / run_folder.SYMBOL_FOLDER / run_folder.SYMBOL)

    @property
    def times(self) -> tuple[float, ...] | None:
        """Times of the frames of its pictures; None for a static problem."""
        header = (self._pictures.metadata() if self._pictures else None) or {}
        found = json.loads(header.get("times", "null"))
        return None if found is None else tuple(found)


def find_runs(places: Sequence[Path]) -> list[RunRecord]:
    """All finished runs in or below run folders, studies or their parents; none is an error."""
    folders = sorted(filter(run_folder.is_finished, _folders(places, run_folder.METRICS)))
    if not folders:
        named = ", ".join(map(str, places)) or "nothing"
        raise ValueError(
            f"no finished run in {named}: give folders of `pdno reproduce` or `pdno train` (a "
            f"finished run has {run_folder.CHECKSUMS})"
        )
    return [_read_run(folder) for folder in folders]


def find_unfinished(places: Sequence[Path]) -> list[str]:
    """Names of the folders whose run began and did not finish yet."""
    begun = _folders(places, run_folder.SPECIFICATION)
    return sorted(folder.name for folder in begun if not run_folder.is_finished(folder))


def _folders(places: Sequence[Path], name: str) -> set[Path]:
    for place in places:
        if not place.is_dir():
            raise ValueError(f"{place} is not a folder: give folders of finished runs")
    return {path.parent for place in places for path in place.resolve().rglob(name)}


def _read_run(folder: Path) -> RunRecord:
    rows = metrics_of_run(folder)
    if not rows:
        place = folder / run_folder.METRICS
        raise ValueError(f"{place} has no row: remove the folder and run it again")
    settings = _read_json(folder / run_folder.SPECIFICATION) or _own_specification(folder)
    machine = _read_json(folder / run_folder.ENVIRONMENT)
    known = [
        row if row.metadata.study else replace(row, metadata=old_facts(row, settings))
        for row in rows
    ]
    history = tuple(_read_history(folder / run_folder.HISTORY))
    return RunRecord(folder, settings, machine, tuple(known), history)


def _read_history(path: Path) -> Iterator[Mapping[str, float]]:
    lines = read_text(path).splitlines() if verified_path(path).is_file() else []
    for line in csv.DictReader(lines, restkey=""):
        try:
            yield {name: float(cell or "nan") for name, cell in line.items()}
        except (TypeError, ValueError) as problem:
            told = f"{path} is not readable as a history ({problem})"
            raise ValueError(f"{told}: remove the folder and run it again") from problem


def _own_specification(folder: Path) -> Mapping[str, Any]:
    """What a specification would say of an operator that `pdno.fit` wrote; empty for others."""
    record = _read_json(folder / run_folder.OPERATOR)
    if not record:
        return {}
    training, grid = record["training"], record["sampling"]["grid"]
    network = (record["network"] or {}).get("arguments", {})
    return {
        "name": folder.name,
        "model": record["network_class"],
        "train": training["samples"],
        "resolution": max(grid["shape"]),
        "network": {"kind": record["network_class"].lower(), **network},
        "task": record["task"],
        "normalization": training["normalization"],
        "training": training["settings"],
    }


def _read_json(path: Path) -> Mapping[str, Any]:
    found = read_json(path) if verified_path(path).is_file() else {}
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds {type(found).__name__}; expected keys and values")
    return found


OLD_NAMES = {
    **{name: name for name in (ONE_SHOT, PLAIN, PROVABLE, "MWT Chb", "FNO-3D", "FNO")},
    **{"PDIO a(x,ξ,t)": ONE_SHOT, "PDNO ReLU": RELU, "PDNO": PDNO, "MWT": "MWT Leg", "": ""},
}
"""The network by how the name of a model began; the first that fits counts."""


def old_facts(row: Metric, specification: Mapping[str, Any]) -> Metadata:
    """The facts of a run of an older version, whose files have none.

    The only place where names are read: there the first word of an experiment was its study, words
    such as nu=1e-05 told the dataset and k_max=12 a swept setting, and the name of a model its
    family and whether it was trained by Markov steps, which the paper does not do.
    """
    words = [word.split("=", 1) for word in f"{row.experiment} {row.model}".split() if "=" in word]
    named, problem = dict(words), specification.get("problem") or {}
    study, markov = row.experiment.split()[0], "Markov" in row.model
    told = problem.get("viscosity", named.get("nu"))
    viscosity = None if told is None else float(told)
    final_time = problem.get("final_time", named.get("T"))
    dataset = str(problem.get("name", row.experiment))
    if study in FLOW_STUDIES and viscosity is not None and final_time is not None:
        samples = int(named.get("N", specification.get("train", 0)))
        dataset = str(published.Dataset(viscosity, int(final_time), samples))
    network = next(known for start, known in OLD_NAMES.items() if row.model.startswith(start))
    family, _, variant = network.partition(" ")
    swept = {"modes": named.get("k_max"), "width": named.get("width")}
    sweep = {k: math.inf if v == "all" else float(v) for k, v in swept.items() if v}
    mode = str(specification.get("task", {}).get("kind", "markov" if markov else ""))
    of_paper = network not in ("", PROVABLE) and not markov
    return Metadata(study, dataset, viscosity, family, variant, mode, of_paper, sweep)


class Budget(NamedTuple):
    """What the trainings of one group had, beside the paper's; a number without it says little."""

    epochs: int
    samples: int
    seeds: int
    seconds: float | None
    paper_epochs: int | None
    paper_samples: int | None

    @property
    def work(self) -> int:
        return self.epochs * self.samples

    @property
    def level(self) -> Literal["smoke", "small", "paper"]:
        """A handful of samples tests nothing; small is fewer epochs or samples than the paper, or
        what the paper does not have."""
        if self.samples < HANDFUL:
            return "smoke"
        enough = self.paper_epochs is not None and self.epochs >= self.paper_epochs
        return "paper" if enough and self.samples >= (self.paper_samples or 0) else "small"

    def __str__(self) -> str:
        epochs = count_of(self.epochs, "epoch", self.paper_epochs)
        samples = count_of(self.samples, "training sample", self.paper_samples)
        return f"{self.level} budget: {epochs}, {samples}, {count_of(self.seeds, 'seed')}"


def count_of(count: int, word: str, paper: int | None = None) -> str:
    """A number, the paper's number, and their word, which has an s unless that is 1."""
    ending = "" if (paper or count) == 1 else "s"
    return f"{count} of {paper} {word}{ending}" if paper else f"{count} {word}{ending}"


def describe_budgets(named: Iterable[tuple[str, Budget]]) -> str:
    """One sentence for some models; those with the same budget share it."""
    by_text: dict[str, dict[str, None]] = {}
    for model, budget in named:
        by_text.setdefault(str(budget), {})[model] = None
    if len(by_text) == 1:
        return next(iter(by_text))
    return "; ".join(f"{text} ({', '.join(models)})" for text, models in by_text.items())


@dataclass(frozen=True, eq=False)
class Group(RunRecord):
    """Runs of one specification with different seeds: the first one, with the rows of all."""

    seeds: Sequence[RunRecord]

    @property
    def network(self) -> dict[str, Any]:
        return dict(self.specification["network"])

    @cached_property
    def budget(self) -> Budget:
        """What its training had, beside what the paper's has."""
        metadata, samples = self.metadata, int(self.specification["train"])
        planned = int(self.specification["training"]["epochs"])
        done = [int(run.history[-1]["epoch"]) for run in self.seeds if run.history]
        seconds = [row.seconds for row in self.rows if row.seconds is not None]
        had = (min(done, default=planned), samples, len(self.seeds))
        paper_epochs = published.published_epochs(metadata.study, metadata.network)
        paper_samples = published.published_samples(metadata.study, metadata.viscosity, samples)
        mean = sum(seconds) / len(seconds) if seconds else None
        return Budget(*had, mean, paper_epochs, paper_samples)

    def summary(
        self, split: str = "test", metric: str = ERROR, *, resolution: int | None = None
    ) -> Summary | None:
        """Mean and deviation of a number over the seeds; None where it was not measured."""
        found = table(self.rows, split=split, metric=metric).get(self.model, {})
        return found.get(self.resolution if resolution is None else resolution)

    def series(self, split: str, prefix: str) -> dict[str, Summary]:
        """The numbers whose name starts with a prefix, by the rest of it: times or bands."""
        found = table(self.rows, columns="metric", split=split, resolution=self.resolution)
        line = found.get(self.model, {})
        names = dict.fromkeys(row.metric for row in self.rows if row.metric in line)
        return {n.removeprefix(prefix): line[n] for n in names if n.startswith(prefix)}

    def over_time(self, split: str = "test") -> dict[float, Summary]:
        return {float(t): s for t, s in self.series(split, f"{ERROR} t=").items()}


@dataclass(frozen=True, eq=False)
class Results:
    """All that a report is made of: the finished runs."""

    records: tuple[RunRecord, ...]

    @cached_property
    def every_group(self) -> list[Group]:
        """Runs by their specification without the seed."""
        found: dict[str, dict[int, RunRecord]] = {}
        for record in self.records:
            if record.specification:
                # older versions did not write the facts, which decide no number, nor every None
                found_there = record.specification.items()
                plain = {k: v for k, v in found_there if k not in WRITTEN_FACTS and v is not None}
                plain["training"] = {**plain.get("training", {}), "seed": None}
                # the same run may lie in two folders; the first counts
                same = found.setdefault(json.dumps(plain, sort_keys=True), {})
                same.setdefault(record.seed, record)
        groups = []
        for by_seed in found.values():
            first, *_ = seeds = [by_seed[seed] for seed in sorted(by_seed)]
            rows = tuple(row for run in seeds for row in run.rows)
            about = (first.folder, first.specification, first.environment)
            groups.append(Group(*about, rows, first.history, seeds))
        return groups

    @cached_property
    def groups(self) -> list[Group]:
        """What is shown: of each experiment, network and resolution the largest training."""
        better = {g.metadata.study for g in self.every_group if g.budget.level != "smoke"}
        chosen: dict[tuple[str, str, int], Group] = {}
        for group in sorted(self.every_group, key=lambda group: -group.budget.work):
            if group.budget.level != "smoke" or group.metadata.study not in better:
                chosen.setdefault((group.rows[0].experiment, group.model, group.resolution), group)

        def order(group: Group) -> tuple[Any, ...]:
            metadata, sweep = group.metadata, sorted(group.metadata.sweep.items())
            # the name, which tells nothing, counts last
            return (
                metadata.network,
                metadata.mode,
                sweep,
                metadata.dataset,
                group.resolution,
                group.model,
            )

        return sorted(chosen.values(), key=order)

    @property
    def left_out(self) -> list[Group]:
        return [group for group in self.every_group if group not in self.groups]

    @property
    def resources(self) -> tuple[Metric, ...]:
        """The numbers of one resource table: the one on the finest grid."""
        known = [record for record in self.records if record.metadata.study == "resources"]
        return max(known, key=lambda record: record.resolution).rows if known else ()

    def study(self, name: str) -> list[Group]:
        return [group for group in self.groups if group.metadata.study == name]

    def shown(self, study: str) -> list[Group]:
        """The groups of a study that a figure can compare: one dataset at one resolution.

        Of the Navier-Stokes datasets it is ν = 1e-5, as in the paper's figures, with the most
        samples; otherwise the resolution at which most networks were run, the finest of these.
        """
        groups = self.study(study)
        if study in FLOW_STUDIES:
            groups = of_flow(groups, 1e-5)
        counts = Counter(group.resolution for group in groups)
        best = max(counts, key=lambda points: (counts[points], points), default=0)
        return [group for group in groups if group.resolution == best]

    def best(self, study: str, picture: str) -> Group:
        """The largest training that has this picture."""
        groups = [group for group in self.shown(study) if picture in group.picture_names]
        return max(require(groups), key=lambda group: group.budget.work)

    def by_resolution(self, study: str) -> dict[int, list[Group]]:
        """The groups of a study, coarse grids first."""
        return grouped(self.study(study), lambda group: group.resolution)


def grouped(groups: Sequence[Group], key: Callable[[Group], Any]) -> dict[Any, list[Group]]:
    """Groups by something of them, in order."""
    return {k: [g for g in groups if key(g) == k] for k in sorted(set(map(key, groups)))}


def of_network(groups: Sequence[Group], network: str) -> Group | None:
    """The group of a network of the paper, trained its way; None where there is none."""
    return next((g for g in groups if g.metadata.of_paper and g.metadata.network == network), None)


def of_flow(groups: Sequence[Group], viscosity: float, most: float = math.inf) -> list[Group]:
    """The groups with this viscosity and the largest number of samples, up to `most`."""
    known = [g for g in groups if g.metadata.viscosity == viscosity and g.budget.samples <= most]
    largest = max((group.budget.samples for group in known), default=0)
    return [group for group in known if group.budget.samples == largest]


def by_setting(groups: Sequence[Group], name: str, network: str = "") -> dict[float, Group]:
    """Groups by the value of a swept setting, in order; infinity, which is "all", comes last."""
    known = [g for g in groups if name in g.metadata.sweep and network in ("", g.metadata.network)]
    return {g.metadata.sweep[name]: g for g in sorted(known, key=lambda g: g.metadata.sweep[name])}
