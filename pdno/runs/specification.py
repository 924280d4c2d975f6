"""The specification of an experiment, which decides all of its metrics, and its data.

It is written beside the results as JSON and may be read from JSON or YAML. Unknown keys and
contradictions are refused by name. Data of a problem are generated where they are missing.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import yaml
from pydantic import Field, field_serializer, field_validator, model_validator

from pdno.data.dataset import OperatorDataset, open_dataset
from pdno.data.generate import Engine, collect, generate_dataset
from pdno.data.problems import PROBLEMS, DataFile, NavierStokesProblem, Problem
from pdno.data.read import open_file
from pdno.data.shards import MANIFEST, read_manifest
from pdno.files import run_folder
from pdno.files.atomic import sha256
from pdno.files.limits import DEEPEST, check_plain, read_json, read_text
from pdno.files.metric_table import Metadata, check_cell
from pdno.interface.errors import check_at_least, unknown_name
from pdno.interface.records import Record
from pdno.networks.specification import AnyNetwork
from pdno.training.settings import TrainingSettings
from pdno.training.statistics import Normalization
from pdno.training.task import AnyTask, OneShot, SpaceTime, StaticMap

LETTERS = str.maketrans({"ξ": "xi", "ν": "nu", "μ": "mu"})  # that names of folders have
RECURRENT = ("rollout", "teacher-forcing", "markov")  # kinds of tasks with frames as the input
OF_START = ("model", "network", "task", "normalization", "window", "targets")
UNSEEN = 10_000  # a seed of data that no run has
Count = Annotated[int, Field(ge=1, le=10_000_000)]
Some = Annotated[int, Field(ge=0, le=10_000_000)]


class Experiment(Record):
    """One training run: data of a problem or a file, network, task and settings."""

    #: of the experiment, for example darcy; by default that of the problem or the file
    name: Annotated[str, Field(min_length=1)]
    #: what the tables call this network; by default its kind, for example PDNO
    model: Annotated[str, Field(min_length=1)]
    study: str = ""  #: that it belongs to, for example darcy-modes; by default its name
    of_paper: bool = False  #: whether the paper trains such a network this way
    sweep: tuple[Literal["modes", "width"], ...] = ()  #: what the study varies of the network
    problem: Problem | None = None  #: whose solver makes the data
    #: a file or folder instead: its path, or {path, inputs, outputs, ...} for your own arrays
    file: DataFile | None = None
    #: samples for testing, and for watching the run, in files of their own, which are read as
    #: `file` unless they name their arrays; `test` and `validation` are 0 for all of them
    test_file: DataFile | None = None
    validation_file: DataFile | None = None
    train: Count  #: number of training samples, the first ones
    test: Some = 0  #: number of test samples, the last ones
    #: number of samples after those for training, on which the run is watched instead of the test
    validation: Some = 0
    #: first samples that are for training, where it takes fewer; None takes all of them
    pool: Count | None = None
    resolution: Count  #: points per axis in training; the data are subsampled to it
    window: Count | None = None  #: frames that are the input; None takes that of the dataset
    targets: Count | None = None  #: frames after the window that are the target; None takes all
    network: AnyNetwork
    task: AnyTask = StaticMap()  #: how the network meets the data
    normalization: Normalization = "none"  #: of inputs and outputs
    #: folder of a run whose operator is trained further; what is left out is as there
    start: str | None = None
    training: TrainingSettings = TrainingSettings()
    zero_shot: tuple[Count, ...] = ()  #: other resolutions to evaluate at

    @model_validator(mode="before")
    @classmethod
    def _usual_names(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        file, problem, network = (values.get(key) for key in ("file", "problem", "network"))
        file = file.get("path") if isinstance(file, dict) else file
        if isinstance(file, str) and file and "resolution" not in values:
            points = f"the points per axis in training, which `pdno data info {file:.120}` says"
            raise ValueError(f"resolution is missing: give {points}, or a divisor of them")
        # where the network is wrong, that is said, and nothing of a missing model
        kind = network.get("kind") if isinstance(network, dict) else network
        usual: dict[str, object] = {"model": kind.upper() if isinstance(kind, str) else "network"}
        if isinstance(start := values.get("start"), str) and "network" not in values:
            path = Path(start) / run_folder.SPECIFICATION
            if not path.is_file():
                cure = "give the folder of a finished run of `pdno train`, or its network as well"
                raise ValueError(f"start={start!r:.60} holds no specification: {cure}")
            earlier = read_json(path)
            usual |= {k: v for k, v in earlier.items() if k in OF_START}
        if isinstance(file, str) and (name := Path(file).stem):
            usual["name"] = name
        if isinstance(problem, dict):
            usual |= {key: problem[key] for key in ("name", "resolution") if key in problem}
        return {**usual, **values}

    @field_validator("problem", mode="before")
    @classmethod
    def _problem_by_name(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        if (name := value.get("name")) is None:
            usual = "for example {name: heat, samples: 100}"
            raise ValueError(f"it has no name: give one, {usual}, or your own data as `file`")
        if not isinstance(name, str) or name not in PROBLEMS:
            raise ValueError(unknown_name("problem name", name, PROBLEMS))
        return PROBLEMS[name](**{k: v for k, v in value.items() if k != "name"})

    @field_serializer("problem")
    def _problem_with_name(self, value: Problem | None) -> dict[str, object] | None:
        return None if value is None else {"name": value.name, **value.model_dump()}

    @field_serializer("file", "test_file", "validation_file")
    def _file_as_written(self, value: DataFile | None) -> str | dict[str, object] | None:
        return None if value is None else value.spelled()

    @model_validator(mode="after")
    def _check_together(self) -> "Experiment":
        for name in ("name", "model", "study"):
            check_cell(name, getattr(self, name))
        if (self.problem is None) == (self.file is None):
            raise ValueError("give either a problem or a file, and not both")
        if self.file is None and (self.test_file or self.validation_file):
            raise ValueError("test_file and validation_file go with a file, not with a problem")
        if not self.test and self.test_file is None:
            raise ValueError("test=0: give the number of test samples, or a test_file with them")
        if self.problem is not None:
            self._check_problem(self.problem)
        recurrent = self.task.kind in RECURRENT
        if self.window is None and (recurrent or self.targets is not None):
            needs = f"task {self.task.kind!r}" if recurrent else f"targets={self.targets}"
            raise ValueError(f"{needs} needs frames as the input: give a window")
        for option, task in (("takes_time", OneShot), ("space_time", SpaceTime)):
            value = bool(self.network.option(option))
            if value != isinstance(self.task, task):
                wrong = f"task {self.task.kind!r} and {option}={value} contradict"
                raise ValueError(f"{wrong}: {option}=True goes with {task.__name__} alone")
        if self.pooled < self.train:
            raise ValueError(f"train={self.train} is more than pool={self.pool}: enlarge the pool")
        self.task.check_head(self.network.option("head"))
        _ = self.metadata  # whose cells are checked, too
        return self

    def check_samples(self, count: int) -> None:
        """ValueError where the parts of a dataset of so many samples overlap."""
        test = 0 if self.test_file else self.test
        validation = 0 if self.validation_file else self.validation
        if self.pooled + validation + test > count:
            first = f"train={self.train}" if self.pool is None else f"pool={self.pool}"
            first += f" and validation={validation}" if validation else ""
            raise ValueError(f"{first} and test={test} overlap in {count} samples")

    def _check_problem(self, problem: Problem) -> None:
        self.check_samples(problem.samples)
        count, most = self.network.option("pde_parameters") or 0, len(problem.vary)
        if count not in (0, most):
            varied = f"the problem varies {', '.join(problem.vary) or 'nothing'}"
            raise ValueError(f"pde_parameters={count}, but {varied}: give {most}, or 0")
        frames, targets = len(problem.times or ()), self.targets or 1
        if self.window is not None and self.window + targets > frames:
            window = f"window={self.window} and targets={targets} or more"
            raise ValueError(f"{window} do not fit the {frames} frames of the problem")
        for points in (self.resolution, *self.zero_shot):
            _step(problem.resolution, points)

    @property
    def pooled(self) -> int:
        """First samples that are for training, whether it takes them or not."""
        return self.train if self.pool is None else self.pool

    @property
    def metadata(self) -> Metadata:
        """What tables, figures and assessments go by."""
        problem, (family, variant) = self.problem, self.network.family
        sweep = {name: self.network.option(name) for name in self.sweep}
        return Metadata(
            study=self.study or self.name,
            dataset=self._dataset(),
            viscosity=problem.parameters.get("viscosity") if problem else None,
            family=family,
            variant=variant,
            mode=self.task.kind,
            of_paper=self.of_paper,
            sweep={name: math.inf if v is None else float(v) for name, v in sweep.items()},
            samples=self.train,
            epochs=self.training.epochs,
            training_resolution=self.resolution,
        )

    def _dataset(self) -> str:
        """The data in words."""
        problem = self.problem
        if problem is None:
            return str(self.file.path if self.file else "")
        if isinstance(problem, NavierStokesProblem) and not problem.vary:
            mantissa, exponent = f"{problem.viscosity:e}".split("e")
            viscosity = f"{float(mantissa):g}e{int(exponent)}"
            return f"ν = {viscosity}, T = {problem.final_time}, N = {self.train}"
        ranges = (f", {name} {low:g} to {high:g}" for name, (low, high) in problem.vary.items())
        return problem.name + "".join(ranges)

    @property
    def seed(self) -> int:
        """Seed of the weights, of the order of the samples and of the noise."""
        return self.training.seed

    @property
    def slug(self) -> str:
        """A folder name for this run."""
        words = re.sub(r"[\W_]+", "-", self.model.translate(LETTERS).lower()).strip("-")
        return f"{words}-{self.resolution}-seed{self.seed}"

    def frames_of(self, data: OperatorDataset) -> OperatorDataset:
        """Data with the input frames of this experiment, where it has some."""
        return data if self.window is None else data.window(self.window, self.targets)

    def open_file(self, file: DataFile) -> OperatorDataset:
        """Samples of a file, which is read as that of the training unless it names its arrays."""
        if self.file and not file.keyword_arguments() and not (file.path / MANIFEST).is_file():
            file = self.file.model_copy(update={"path": file.path})
        return self.frames_of(open_file(file))


def read_experiment(
    path: Path, training: Mapping[str, object] | None = None, **changes: object
) -> Experiment:
    """Read a specification from a JSON or YAML file, with some settings changed."""
    text, kind = read_text(path), "json" if path.suffix == ".json" else "yaml"
    try:
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader) if kind == "yaml" else ():
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:  # each level costs time
                raise ValueError(f"it is nested deeper than {DEEPEST} levels")
        values = json.loads(text) if kind == "json" else yaml.safe_load(text)
    except Exception as problem:  # damaged text makes yaml stumble in many ways
        reason = " ".join(str(problem).split())  # YAML marks the position over several lines
        raise ValueError(f"{path} is not readable as {kind}: {reason}") from problem
    check_plain(path, values)
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds no specification: expected keys such as name and network")
    settings = values.get("training") or {}
    if training and isinstance(settings, dict):
        changes["training"] = {**settings, **training}
    try:
        return Experiment.model_validate({**values, **changes})
    except ValueError as problem:
        raise ValueError(f"{path}: {problem}") from problem


class ExperimentData(NamedTuple):
    """Samples at the training resolution, and the test samples on the finest grid as well."""

    train: OperatorDataset
    test: OperatorDataset
    finest_test: OperatorDataset
    validation: OperatorDataset | None = None


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
    return path


def open_experiment_data(experiment: Experiment, folder: Path) -> ExperimentData:
    """The samples of an experiment; the dataset of a problem is a folder of `folder`."""
    if experiment.file is not None:
        finest = experiment.open_file(experiment.file)
    else:
        assert experiment.problem is not None
        path = dataset_folder(experiment.problem, folder)
        if not path.is_dir():
            raise ValueError(f"{path} is missing or was moved: give other data with --file")
        finest = experiment.frames_of(open_dataset(path, verify=False))
    experiment.check_samples(size := len(finest))
    points = experiment.resolution
    train = on_points(finest.subset(range(experiment.train)), points)

    def part(file: DataFile | None, first: int, count: int) -> OperatorDataset:
        if file is None:
            return finest.subset(range(first, first + count))
        data = experiment.open_file(file)
        if count > len(data):
            raise ValueError(f"{file.path} has {len(data)} samples; {count} are asked for")
        both = on_points(data, points), train
        own, wanted = ((d.grid, d.times, *(tuple(p.shape) for p in d[0])) for d in both)
        if own != wanted:
            wrong = f"{file.path} has the grid, times and shapes {own}"
            raise ValueError(f"{wrong}; those of the training are {wanted}")
        return data.subset(range(count or len(data)))

    test = part(experiment.test_file, size - experiment.test, experiment.test)
    watched = part(experiment.validation_file, experiment.pooled, experiment.validation)
    coarse, watched = (on_points(d, points) for d in (test, watched))
    return ExperimentData(train, coarse, test, watched if len(watched) else None)


def data_digests(experiment: Experiment) -> dict[str, str]:
    """The SHA-256 of all files with own data; a manifest has those of the shards beside it."""
    digests = dict[str, str]()
    for file in (experiment.file, experiment.test_file, experiment.validation_file):
        if file is not None and file.path.exists():
            manifest = file.path / MANIFEST
            path = manifest if manifest.is_file() else file.path
            paths = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
            digests |= {str(path): sha256(path) for path in paths}
    return digests


def on_points(data: OperatorDataset, resolution: int) -> OperatorDataset:
    """The samples at every n-th point, so many along the longest axis."""
    return data.subsample(_step(max(data.grid.shape), resolution))


def _step(points: int, resolution: int) -> int:
    check_at_least("resolution", resolution)
    if points % resolution:
        wrong = f"resolution {resolution} is not among the points of data stored at {points}"
        raise ValueError(f"{wrong}: take a divisor")
    return points // resolution


def unseen_samples(
    experiment: Experiment, count: int, problem: Problem | None = None, *, seed: int = UNSEEN
) -> OperatorDataset:
    """New samples of its problem or another, as the network of an experiment sees them."""
    if (problem := problem or experiment.problem) is None:
        raise ValueError(f"{experiment.name} has no problem: take a run on generated data")
    problem = problem.model_copy(update={"seed": seed, "samples": count})
    samples = [problem.sample(index) for index in range(count)]
    data = collect(samples, problem.grid(), problem.times, problem.fields, problem.geometry)
    return on_points(experiment.frames_of(data), experiment.resolution)
