"""Run folders, read without a model, and which of them a report shows.

    specification.json    the experiment, as a plain dictionary; the resource table has none
    environment.json      versions, device and threads
    history.csv           one row per epoch
    rows.csv              the numbers, and the facts by which runs are told apart
    pictures.safetensors  fields and symbols
    metrics.json          written last, so a folder with it is a finished run

Runs that differ in their seeds alone are a group, and a number of a report is the mean over its
seeds. Of groups with the same experiment, network and resolution the one with the largest training
counts; runs of a handful of samples are left out where the study has better ones.
"""

__all__ = ["Budget", "Group", "Results", "RunRecord", "find_runs", "find_unfinished", "of_network"]

import csv
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors import safe_open

from pdno.evaluation.rows import Facts, Row, Summary, read_rows, table
from pdno.report.published import Dataset, published_epochs, published_samples
from pdno.run_folder import (
    ENVIRONMENT,
    HISTORY,
    METRICS,
    PICTURES,
    ROWS,
    SPECIFICATION,
    is_finished,
)

ERROR = "relative_l2"
WRITTEN_FACTS = ("study", "of_paper", "sweep")
FLOW_STUDIES = ("navier-stokes", "navier-stokes-width")
HANDFUL = 10
"""Training samples below which nothing can be learned."""
Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class RunRecord:
    """A finished run; its specification and environment are empty where they are not known."""

    folder: Path
    specification: Mapping[str, Any]
    environment: Mapping[str, Any]
    rows: tuple[Row, ...]
    history: tuple[Mapping[str, float], ...]

    @property
    def facts(self) -> Facts:
        """What it is; of the resource table that of its first network."""
        facts = self.rows[0].facts
        assert facts is not None
        return facts

    @property
    def model(self) -> str:
        return self.rows[0].model

    @property
    def seed(self) -> int:
        return int(self.specification.get("training", {}).get("seed", 0))

    @property
    def resolution(self) -> int:
        return int(self.specification.get("resolution") or self.rows[0].resolution)

    @cached_property
    def picture_names(self) -> tuple[str, ...]:
        if not (self.folder / PICTURES).is_file():
            return ()
        with safe_open(self.folder / PICTURES, framework="numpy") as file:
            return tuple(sorted(file.keys()))

    def picture(self, name: str) -> Array:
        """One array of its pictures, float64."""
        if name not in self.picture_names:
            raise ValueError(f"{self.folder} has no picture {name}: run it again")
        with safe_open(self.folder / PICTURES, framework="numpy") as file:
            return np.asarray(file.get_tensor(name), dtype=np.float64)

    @property
    def times(self) -> tuple[float, ...] | None:
        """Times of the frames of its pictures; None for a static problem."""
        if not self.picture_names:
            return None
        with safe_open(self.folder / PICTURES, framework="numpy") as file:
            found = json.loads((file.metadata() or {}).get("times", "null"))
        return None if found is None else tuple(float(t) for t in found)


def find_runs(places: Sequence[Path]) -> list[RunRecord]:
    """All finished runs in or below some folders, by folder; none at all is an error.

    Arguments:
        places: Run folders, studies that hold several, or parents of studies.
    """
    folders = sorted({path.parent for path in _files(places, METRICS)})
    if not folders:
        named = ", ".join(str(place) for place in places) or "nothing"
        raise ValueError(
            f"no finished run in {named}: give folders of `pdno reproduce` or `pdno train` (a "
            f"finished run has {METRICS})"
        )
    return [_read_run(folder) for folder in folders]


def find_unfinished(places: Sequence[Path]) -> list[str]:
    """Names of the folders whose run began and did not finish yet."""
    begun = {path.parent for path in _files(places, SPECIFICATION)}
    return sorted(folder.name for folder in begun if not is_finished(folder))


def _files(places: Sequence[Path], name: str) -> Iterator[Path]:
    for place in places:
        if not place.is_dir():
            raise ValueError(f"{place} is not a folder: give folders of finished runs")
        yield from place.resolve().rglob(name)


def _read_run(folder: Path) -> RunRecord:
    rows = read_rows(folder / ROWS)
    if not rows:
        raise ValueError(f"{folder / ROWS} has no row: remove the folder and run it again")
    settings, machine = (_read_json(folder / n) for n in (SPECIFICATION, ENVIRONMENT))
    known = [row if row.facts else replace(row, facts=old_facts(row, settings)) for row in rows]
    return RunRecord(
        folder, settings, machine, tuple(known), tuple(_read_history(folder / HISTORY))
    )


def _read_json(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as problem:
        raise ValueError(f"{path} is not readable as JSON: {problem}") from problem
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds {type(found).__name__}; expected keys and values")
    return found


def _read_history(path: Path) -> Iterator[Mapping[str, float]]:
    if not path.is_file():
        return
    with open(path, encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            yield {name: float(cell) if cell else math.nan for name, cell in line.items()}


OLD_NAMES = {
    "PDNO a(x,ξ,t)": ("PDNO", "a(x,ξ,t)"),
    "PDIO a(x,ξ,t)": ("PDNO", "a(x,ξ,t)"),
    "PDNO a(ξ)": ("PDNO", "a(ξ)"),
    "PDNO ReLU": ("PDNO", "a(x,ξ) relu"),
    "PDNO provable": ("PDNO", "provable"),
    "PDNO": ("PDNO", "a(x,ξ)"),
    "MWT Chb": ("MWT", "Chb"),
    "MWT": ("MWT", "Leg"),
    "FNO-3D": ("FNO-3D", ""),
    "FNO": ("FNO", ""),
}
"""Family and variant by how the name of a model began; the first that fits counts."""


def old_facts(row: Row, specification: Mapping[str, Any]) -> Facts:
    """The facts of a run of an older version, whose files have none.

    The only place where names are read: there the first word of an experiment was its study, words
    such as nu=1e-05 told the dataset and k_max=12 a swept setting, and the name of a model its
    family and whether it was trained by Markov steps, which the paper does not do.
    """
    words = [word.split("=", 1) for word in f"{row.experiment} {row.model}".split() if "=" in word]
    named, problem = dict(words), specification.get("problem") or {}
    study, markov = row.experiment.split()[0], "Markov" in row.model
    viscosity = problem.get("viscosity", named.get("nu"))
    final_time = problem.get("final_time", named.get("T"))
    dataset = str(problem.get("name", row.experiment))
    if study in FLOW_STUDIES and viscosity is not None and final_time is not None:
        samples = named.get("N", specification.get("train", 0))
        dataset = str(Dataset(float(viscosity), int(final_time), int(samples)))
    start = next((start for start in OLD_NAMES if row.model.startswith(start)), None)
    family, variant = OLD_NAMES[start] if start else ("", "")
    swept = {"modes": named.get("k_max"), "width": named.get("width")}
    return Facts(
        study=study,
        dataset=dataset,
        viscosity=None if viscosity is None else float(viscosity),
        family=family,
        variant=variant,
        mode=str(specification.get("task", {}).get("kind", "markov" if markov else "")),
        of_paper=bool(family) and variant != "provable" and not markov,
        sweep={k: math.inf if v == "all" else float(v) for k, v in swept.items() if v},
    )


Level = Literal["smoke", "small", "paper"]
LEVELS: tuple[Level, ...] = ("smoke", "small", "paper")


@dataclass(frozen=True)
class Budget:
    """What the trainings of one group had, beside the paper's; a number without it says little.

    The level is smoke for a handful of samples, which shows only that everything runs, small for
    fewer epochs or samples than the paper's, and paper for as many or more.
    """

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
    def level(self) -> Level:
        if self.samples < HANDFUL:
            return "smoke"
        wanted = (self.paper_epochs or 0, self.paper_samples or 0)
        return "paper" if self.epochs >= wanted[0] and self.samples >= wanted[1] else "small"

    def __str__(self) -> str:
        epochs = count_of(self.epochs, "epoch", self.paper_epochs)
        samples = count_of(self.samples, "training sample", self.paper_samples)
        return f"{self.level} budget: {epochs}, {samples}, {count_of(self.seeds, 'seed')}"


def count_of(count: int, word: str, paper: int | None = None) -> str:
    """A number, the paper's number, and their word, which has an s unless that is 1."""
    ending = "" if (paper or count) == 1 else "s"
    return f"{count} of {paper} {word}{ending}" if paper else f"{count} {word}{ending}"


def lowest_level(budgets: Iterable[Budget]) -> Level | None:
    """The least of some levels; None for no budget at all."""
    return min((budget.level for budget in budgets), key=LEVELS.index, default=None)


def describe_budgets(named: Iterable[tuple[str, Budget]]) -> str:
    """One sentence for some models; those with the same budget share it."""
    by_text: dict[str, dict[str, None]] = {}
    for model, budget in named:
        by_text.setdefault(str(budget), {})[model] = None
    if len(by_text) == 1:
        return next(iter(by_text))
    return "; ".join(f"{text} ({', '.join(models)})" for text, models in by_text.items())


@dataclass(frozen=True, eq=False)
class Group:
    """Runs of one specification with different seeds, by seed; pictures are of the first one."""

    records: tuple[RunRecord, ...]

    @property
    def first(self) -> RunRecord:
        return self.records[0]

    @property
    def facts(self) -> Facts:
        return self.first.facts

    @property
    def model(self) -> str:
        """What the tables call the network: a label, which tells nothing."""
        return self.first.model

    @property
    def resolution(self) -> int:
        return self.first.resolution

    @property
    def network(self) -> dict[str, Any]:
        return dict(self.first.specification["network"])

    @property
    def order(self) -> tuple[Any, ...]:
        """Where it stands among others; its name counts last."""
        facts = self.facts
        values = sorted(facts.sweep.items())
        return (facts.network, facts.mode, values, facts.dataset, self.resolution, self.model)

    @property
    def rows(self) -> list[Row]:
        return [row for record in self.records for row in record.rows]

    @cached_property
    def budget(self) -> Budget:
        """What its training had, beside what the paper's has."""
        settings, facts = self.first.specification, self.facts
        planned = int(settings["training"]["epochs"])
        done = [int(record.history[-1]["epoch"]) for record in self.records if record.history]
        seconds = [row.seconds for row in self.rows if row.seconds is not None]
        samples = int(settings["train"])
        return Budget(
            epochs=min(done, default=planned),
            samples=samples,
            seeds=len(self.records),
            seconds=sum(seconds) / len(seconds) if seconds else None,
            paper_epochs=published_epochs(facts.study, facts.network),
            paper_samples=published_samples(facts.study, facts.viscosity, samples),
        )

    def summary(
        self, split: str = "test", metric: str = ERROR, *, resolution: int | None = None
    ) -> Summary | None:
        """Mean and deviation of a number over the seeds; None where it was not measured."""
        points = self.resolution if resolution is None else resolution
        found = table(self.rows, split=split, metric=metric)
        return found.get(self.model, {}).get(points)

    def series(self, split: str, prefix: str) -> dict[str, Summary]:
        """The numbers whose name starts with a prefix, by the rest of it: times or bands."""
        names = dict.fromkeys(
            row.metric
            for row in self.first.rows
            if (row.split, row.resolution) == (split, self.resolution)
            and row.metric.startswith(prefix)
        )
        found = {name.removeprefix(prefix): self.summary(split, name) for name in names}
        return {name: summary for name, summary in found.items() if summary is not None}

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
                # older versions did not write the facts, which decide no number
                plain = {k: v for k, v in record.specification.items() if k not in WRITTEN_FACTS}
                plain["training"] = {**plain.get("training", {}), "seed": None}
                # the same run may lie in two folders; the first counts
                same = found.setdefault(json.dumps(plain, sort_keys=True), {})
                same.setdefault(record.seed, record)
        return [Group(tuple(seeds[seed] for seed in sorted(seeds))) for seeds in found.values()]

    @cached_property
    def groups(self) -> list[Group]:
        """What is shown: of each experiment, network and resolution the largest training."""
        better = {g.facts.study for g in self.every_group if g.budget.level != "smoke"}
        chosen: dict[tuple[str, str, int], Group] = {}
        for group in self.every_group:
            if group.budget.level == "smoke" and group.facts.study in better:
                continue
            place = (group.first.rows[0].experiment, group.model, group.resolution)
            rival = chosen.get(place)
            if rival is None or group.budget.work > rival.budget.work:
                chosen[place] = group
        return sorted(chosen.values(), key=lambda group: group.order)

    @property
    def left_out(self) -> list[Group]:
        return [group for group in self.every_group if group not in self.groups]

    @property
    def resources(self) -> list[Row]:
        """The numbers of one resource table: the one on the finest grid."""
        known = [record for record in self.records if record.facts.study == "resources"]
        best = max(known, key=lambda record: record.resolution, default=None)
        return [] if best is None else list(best.rows)

    def study(self, name: str) -> list[Group]:
        return [group for group in self.groups if group.facts.study == name]

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

    def by_resolution(self, study: str) -> dict[int, list[Group]]:
        """The groups of a study, coarse grids first."""
        groups = self.study(study)
        points = sorted({group.resolution for group in groups})
        return {s: [group for group in groups if group.resolution == s] for s in points}


def of_network(groups: Sequence[Group], network: str) -> Group | None:
    """The group of a network of the paper, trained its way; None where there is none."""
    return next((g for g in groups if g.facts.of_paper and g.facts.network == network), None)


def of_flow(groups: Sequence[Group], viscosity: float, most: float = math.inf) -> list[Group]:
    """The groups with this viscosity and the largest number of samples, up to `most`."""
    known = [g for g in groups if g.facts.viscosity == viscosity and g.budget.samples <= most]
    largest = max((group.budget.samples for group in known), default=0)
    return [group for group in known if group.budget.samples == largest]


def by_setting(groups: Sequence[Group], name: str, network: str = "") -> dict[float, Group]:
    """Groups by the value of a swept setting, in order; infinity, which is "all", comes last."""
    known = [g for g in groups if name in g.facts.sweep and network in ("", g.facts.network)]
    return {g.facts.sweep[name]: g for g in sorted(known, key=lambda g: g.facts.sweep[name])}


def by_dataset(groups: Sequence[Group]) -> dict[str, list[Group]]:
    """Groups by the words for their data, in order."""
    names = sorted({group.facts.dataset for group in groups})
    return {name: [group for group in groups if group.facts.dataset == name] for name in names}
