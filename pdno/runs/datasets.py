"""The data of an experiment: generated where they are missing, then opened and split."""

__all__ = ["dataset_folder", "ensure_dataset", "open_experiment_data", "unseen_samples"]

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from pdno.data.dataset import OperatorDataset, open_dataset
from pdno.data.generate import Engine, collect, generate_dataset
from pdno.data.manifest import MANIFEST, read_manifest
from pdno.data.own import open_file
from pdno.data.problems import Problem
from pdno.files.atomic import clear_lock
from pdno.runs.specification import Experiment

UNSEEN = 10_000
"""A seed of data that no run has."""


@dataclass(frozen=True)
class ExperimentData:
    """Samples at the training resolution, and the test samples on the finest grid as well."""

    train: OperatorDataset
    test: OperatorDataset
    finest_test: OperatorDataset
    validation: OperatorDataset | None = None

    @property
    def watched(self) -> OperatorDataset:
        """What is measured after the epochs: never the test where there is a validation."""
        return self.test if self.validation is None else self.validation


def dataset_folder(problem: Problem, folder: Path) -> Path:
    """Where the dataset of a problem lives: its name and a digest of all of its numbers."""
    numbers = json.dumps(problem.model_dump(), sort_keys=True)
    digest = hashlib.sha256(numbers.encode()).hexdigest()[:10]
    return folder / f"{problem.name}-{problem.samples}x{problem.resolution}-{digest}"


def ensure_dataset(problem: Problem, folder: Path, *, engine: Engine = "processes") -> Path:
    """The dataset of a problem under `folder`, generated or finished where it is not there."""
    place = dataset_folder(problem, folder)
    place.parent.mkdir(parents=True, exist_ok=True)
    # a complete one is only read, which several runs may do at once
    if not ((place / MANIFEST).is_file() and read_manifest(place).complete):
        generate_dataset(problem, place, engine=engine, wait=True)
    clear_lock(place)
    return place


def open_experiment_data(experiment: Experiment, folder: Path) -> ExperimentData:
    """The samples of an experiment; those of a problem are looked for under `folder`."""
    if experiment.file is not None:
        finest = open_file(experiment.file)
    else:
        assert experiment.problem is not None
        finest = open_dataset(dataset_folder(experiment.problem, folder), verify=False)
    if experiment.window is not None:
        finest = finest.window(experiment.window, experiment.targets)
    train, test = finest.split(experiment.train, test=experiment.test)
    points = max(finest.grid.shape)
    if points % experiment.resolution:
        raise ValueError(
            f"resolution {experiment.resolution} is not among the points of data on a "
            f"{finest.grid.shape} grid: take a divisor of {points}"
        )
    every, validation = points // experiment.resolution, None
    if experiment.validation:
        rows = range(experiment.pooled, experiment.pooled + experiment.validation)
        if rows.stop > len(finest) - experiment.test:
            raise ValueError(
                f"train={experiment.pooled}, validation={experiment.validation} and "
                f"test={experiment.test} overlap in {len(finest)} samples"
            )
        validation = finest.subset(rows).subsample(every)
    return ExperimentData(train.subsample(every), test.subsample(every), test, validation)


def unseen_samples(experiment: Experiment, count: int) -> OperatorDataset:
    """New samples of the problem of an experiment, solved now, as its network meets them."""
    if experiment.problem is None:
        raise ValueError(
            f"{experiment.name} does not tell its problem: take a run on our own data"
        )
    problem = experiment.problem.model_copy(update={"seed": UNSEEN, "samples": count})
    samples = map(problem.sample, range(count))
    data = collect(samples, problem.grid(), problem.times, problem.fields)
    if experiment.window is not None:
        data = data.window(experiment.window, experiment.targets)
    return data.subsample(problem.resolution // experiment.resolution)
