"""Groups: runs that differ in their seeds alone, and which of them a report shows.

A number of a report is the mean over the seeds of one group. Where several groups claim the same
place (the same experiment, network and resolution with other settings) the one with the largest
training counts; runs of a handful of samples are left out where the study has better ones.
"""

__all__ = ["Group", "Results", "of_family"]

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pdno.evaluation.rows import Row, Summary, table
from pdno.report.budget import Budget
from pdno.report.models import family_of
from pdno.report.published import published_epochs, published_samples
from pdno.report.runs import RunRecord

ERROR = "relative_l2"


@dataclass(frozen=True, eq=False)
class Group:
    """Runs of one specification with different seeds.

    Arguments:
        records: The runs, by seed.
    """

    records: tuple[RunRecord, ...]

    @property
    def first(self) -> RunRecord:
        """The run whose pictures are shown."""
        return self.records[0]

    @property
    def family(self) -> str | None:
        """The network of the paper, see `family_of`."""
        return family_of(self.first.model)

    @property
    def model(self) -> str:
        """What the tables call the network."""
        return self.first.model

    @property
    def resolution(self) -> int:
        """Grid points per axis in training."""
        return self.first.resolution

    @property
    def network(self) -> dict[str, Any]:
        """Settings of the network."""
        return dict(self.first.specification["network"])

    @property
    def viscosity(self) -> float | None:
        """Of a Navier-Stokes dataset, by its problem or else by its name."""
        problem = self.first.specification.get("problem") or {}
        if "viscosity" in problem:
            return float(problem["viscosity"])
        named = re.search(r"\bnu=([\d.e-]+)", self.first.experiment)
        return float(named[1]) if named else None

    @property
    def rows(self) -> list[Row]:
        """The numbers of all seeds."""
        return [row for record in self.records for row in record.rows]

    @cached_property
    def budget(self) -> Budget:
        """What its training had, beside what the paper's has."""
        first = self.first
        settings = first.specification
        planned = int(settings["training"]["epochs"])
        done = [int(record.history[-1]["epoch"]) for record in self.records if record.history]
        seconds = [row.seconds for row in self.rows if row.seconds is not None]
        samples = int(settings["train"])
        return Budget(
            epochs=min(done, default=planned),
            samples=samples,
            seeds=len(self.records),
            seconds=sum(seconds) / len(seconds) if seconds else None,
            paper_epochs=published_epochs(first.study, first.model),
            paper_samples=published_samples(first.study, self.viscosity, samples),
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
            if row.split == split
            and row.metric.startswith(prefix)
            and row.resolution == self.resolution
        )
        found = {name.removeprefix(prefix): self.summary(split, name) for name in names}
        return {name: summary for name, summary in found.items() if summary is not None}

    def over_time(self, split: str = "test") -> dict[float, Summary]:
        """Error by time."""
        return {float(t): s for t, s in self.series(split, f"{ERROR} t=").items()}


@dataclass(frozen=True, eq=False)
class Results:
    """All that a report is made of.

    Arguments:
        records: The finished runs.
    """

    records: tuple[RunRecord, ...]

    @cached_property
    def every_group(self) -> list[Group]:
        """Runs by their specification without the seed."""
        found: dict[str, dict[int, RunRecord]] = {}
        for record in self.records:
            if record.specification:
                # the same run may lie in two folders; the first counts
                found.setdefault(_without_seed(record), {}).setdefault(record.seed, record)
        return [Group(tuple(seeds[seed] for seed in sorted(seeds))) for seeds in found.values()]

    @cached_property
    def groups(self) -> list[Group]:
        """What is shown: of each experiment, network and resolution the largest training."""
        better = {g.first.study for g in self.every_group if g.budget.level != "smoke"}
        chosen: dict[tuple[str, str, int], Group] = {}
        for group in self.every_group:
            if group.budget.level == "smoke" and group.first.study in better:
                continue
            place = (group.first.experiment, group.model, group.resolution)
            rival = chosen.get(place)
            if rival is None or group.budget.work > rival.budget.work:
                chosen[place] = group
        return list(chosen.values())

    @property
    def left_out(self) -> list[Group]:
        """Groups that gave way to others."""
        return [group for group in self.every_group if group not in self.groups]

    @property
    def resources(self) -> list[Row]:
        """The numbers of one resource table: the one on the finest grid."""
        known = [record for record in self.records if record.study == "resources"]
        best = max(known, key=lambda record: record.resolution, default=None)
        return [] if best is None else list(best.rows)

    def study(self, name: str) -> list[Group]:
        """The groups of a study."""
        return [group for group in self.groups if group.first.study == name]

    def shown(self, study: str) -> list[Group]:
        """The groups of a study that a figure can compare: one dataset at one resolution.

        Of the Navier-Stokes datasets it is ν = 1e-5, as in the paper's figures, with the most
        samples; otherwise the resolution at which most networks were run, the finest of these.
        """
        groups = self.study(study)
        if study.startswith("navier-stokes"):
            groups = [group for group in groups if group.viscosity == 1e-5]
            most = max((group.budget.samples for group in groups), default=0)
            groups = [group for group in groups if group.budget.samples == most]
        counts = _count(group.resolution for group in groups)
        best = max(counts, key=lambda points: (counts[points], points), default=0)
        return sorted((g for g in groups if g.resolution == best), key=lambda g: g.model)

    def by_resolution(self, study: str) -> dict[int, list[Group]]:
        """The groups of a study, coarse grids first."""
        found: dict[int, list[Group]] = {}
        for group in sorted(self.study(study), key=lambda group: group.resolution):
            found.setdefault(group.resolution, []).append(group)
        return found


def of_family(groups: Sequence[Group], family: str) -> Group | None:
    """The group of a network as the paper trains it; None where there is none."""
    return next(
        (g for g in groups if g.family == family and "Markov" not in g.model),
        None,
    )


def _count(values: Iterable[int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for value in values:
        found[value] = found.get(value, 0) + 1
    return found


def _without_seed(record: RunRecord) -> str:
    plain = dict(record.specification)
    plain["training"] = {**plain.get("training", {}), "seed": None}
    return json.dumps(plain, sort_keys=True)
