"""The data of an experiment: generated where they are missing, then opened and split."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from pdno.data.dataset import OperatorDataset, open_dataset
from pdno.data.generate import Engine, collect, generate_dataset
from pdno.data.problems import Problem
from pdno.data.read import open_file
from pdno.data.shards import MANIFEST, read_manifest
from pdno.files.atomic import clear_lock
from pdno.runs.specification import Experiment

UNSEEN = 10_000  # a seed of data that no run has


@dataclass(frozen=True)
class ExperimentData:
    """Samples at the training resolution, and the test samples on the finest grid as well."""

    train: OperatorDataset
    test: OperatorDataset
    finest_test: OperatorDataset
    validation: OperatorDataset | None = None

    @property
    def watched(self) -> OperatorDataset:
        """Measured after the epochs: the validation samples, or else the test samples."""
        return self.test if self.validation is None else self.validation


def dataset_folder(problem: Problem, folder: Path) -> Path:
    """Where the dataset of a problem lives: its name and a digest of all of its fields."""
    fields = json.dumps(problem.model_dump(), sort_keys=True)
    digest = hashlib.sha256(fields.encode()).hexdigest()[:10]
    return folder / f"{problem.name}-{problem.samples}x{problem.resolution}-{digest}"


def ensure_dataset(problem: Problem, folder: Path, *, engine: Engine = "processes") -> Path:
    """The dataset of a problem under `folder`, generated or finished where it is missing."""
    path = dataset_folder(problem, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    # a complete one is only read, which several runs may do at once
    if not ((path / MANIFEST).is_file() and read_manifest(path).complete):
        generate_dataset(problem, path, engine=engine, wait=True)
    clear_lock(path)
    return path


def open_experiment_data(experiment: Experiment, folder: Path) -> ExperimentData:
    """The samples of an experiment; the dataset of a problem is a folder of `folder`."""
    if experiment.file is not None:
        finest = open_file(experiment.file)
    else:
        assert experiment.problem is not None
        finest = open_dataset(dataset_folder(experiment.problem, folder), verify=False)
    finest = _as_frames(experiment, finest)
    train, test = finest.split(experiment.train, test=experiment.test)
    points = max(finest.grid.shape)
    if points % experiment.resolution:
        raise ValueError(
            f"resolution {experiment.resolution} is not among the points of data on a "
            f"{finest.grid.shape} grid: take a divisor of {points}"
        )
    every, validation = points // experiment.resolution, None
    if experiment.validation:
        chosen = range(experiment.pooled, experiment.pooled + experiment.validation)
        if chosen.stop > len(finest) - experiment.test:
            raise ValueError(
                f"train={experiment.pooled}, validation={experiment.validation} and "
                f"test={experiment.test} overlap in {len(finest)} samples"
            )
        validation = finest.subset(chosen).subsample(every)
    return ExperimentData(train.subsample(every), test.subsample(every), test, validation)


def _as_frames(experiment: Experiment, data: OperatorDataset) -> OperatorDataset:
    """Data with the input frames of an experiment, where it has some."""
    window = experiment.window
    return data if window is None else data.window(window, experiment.targets)


def unseen_samples(
    experiment: Experiment,
    count: int,
    problem: Problem | None = None,
    *,
    seed: int = UNSEEN,
    after: float | None = None,
) -> OperatorDataset:
    """New samples, solved now and subsampled as the network of an experiment sees them.

    Arguments:
        problem: That of the experiment by default.
        after: Leave out the times up to this one.
    """
    problem = experiment.problem if problem is None else problem
    if problem is None:
        raise ValueError(
            f"{experiment.name} has no problem to make samples of: take a run on generated data"
        )
    problem = problem.model_copy(update={"seed": seed, "samples": count})
    samples = [problem.sample(index) for index in range(count)]
    times = problem.times
    if after is not None and times is not None:
        kept = [k for k, t in enumerate(times) if t > after]
        times = tuple(times[k] for k in kept)
        samples = [sample._replace(output=sample.output[kept]) for sample in samples]
    data = collect(samples, problem.grid(), times, problem.fields)
    return _as_frames(experiment, data).subsample(problem.resolution // experiment.resolution)
