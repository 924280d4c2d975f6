"""The specification of an experiment: everything that decides its numbers, in one frozen record.

It is written beside the results as JSON and may be read from JSON or YAML. Unknown keys and
contradictions are refused by name.
"""

__all__ = ["AnyTask", "Experiment", "read_experiment"]

import json
import math
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializeAsAny,
    field_serializer,
    field_validator,
    model_validator,
)

from pdno.data.problems import PROBLEMS, NavierStokesProblem, Problem
from pdno.evaluation.rows import Facts
from pdno.experiments.networks import AnyNetwork
from pdno.report.published import Dataset
from pdno.training.normalizer import Normalization
from pdno.training.settings import TrainingSettings
from pdno.training.task import Markov, OneShot, Rollout, SpaceTime, StaticMap, TeacherForcing

AnyTask = Annotated[
    StaticMap | Rollout | TeacherForcing | Markov | OneShot | SpaceTime,
    Field(discriminator="kind"),
]
Count = Annotated[int, Field(ge=1, le=10_000_000)]


class Experiment(BaseModel):
    """One training run: data, network, task and settings.

    The data are either those of a problem, which are generated where they are missing, or those of
    a file (a dataset folder, or a published .mat or .bin file).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1)]
    """Of the experiment, for example darcy."""
    model: Annotated[str, Field(min_length=1)]
    """What the tables call this network."""
    study: str = ""
    """The study that it belongs to, for example darcy-modes; by default its name."""
    of_paper: bool = False
    """Whether the paper trains such a network this way."""
    sweep: tuple[Literal["modes", "width"], ...] = ()
    """The settings of the network that the study varies."""
    problem: SerializeAsAny[Problem] | None = None
    """The problem whose solver makes the data."""
    file: Path | None = None
    """A dataset folder or published file instead."""
    train: Count
    """Number of training samples, the first ones."""
    test: Count
    """Number of test samples, the last ones."""
    resolution: Count
    """Grid points per axis in training; the data are subsampled to it."""
    window: Count | None = None
    """Frames of a trajectory that are the input; None takes the input of the dataset."""
    targets: Count | None = None
    """Frames after the window that are the target; None takes all."""
    network: AnyNetwork
    """The network."""
    task: AnyTask = StaticMap()
    """How it meets the data."""
    normalization: Normalization = "none"
    """Normalisation of inputs and outputs."""
    training: TrainingSettings = TrainingSettings()
    """How to train."""
    zero_shot: tuple[Count, ...] = ()
    """Other resolutions to evaluate at."""

    @field_validator("problem", mode="before")
    @classmethod
    def _problem_by_name(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        options = dict(value)
        name = options.pop("name", None)
        if name not in PROBLEMS:
            raise ValueError(f"problem name {name!r}; expected one of {', '.join(PROBLEMS)}")
        return PROBLEMS[name](**options)

    @field_serializer("problem")
    def _problem_with_name(self, value: Problem | None) -> dict[str, Any] | None:
        return None if value is None else {"name": value.name, **value.model_dump()}

    @model_validator(mode="after")
    def _check_together(self) -> "Experiment":
        if (self.problem is None) == (self.file is None):
            raise ValueError("give either a problem or a file, and not both")
        if self.problem is not None:
            self._check_problem(self.problem)
        recurrent = isinstance(self.task, (Rollout, TeacherForcing, Markov))
        if self.window is None and (recurrent or self.targets is not None):
            needs = f"task {self.task.kind!r}" if recurrent else f"targets={self.targets}"
            raise ValueError(f"{needs} needs frames as the input: give a window")
        takes_time = bool(getattr(self.network, "takes_time", False))
        if takes_time != isinstance(self.task, OneShot):
            raise ValueError(
                f"task {self.task.kind!r} and takes_time={takes_time} contradict: networks that "
                "take time need the task 'one-shot', and only they"
            )
        space_time = bool(getattr(self.network, "space_time", False))
        if space_time != isinstance(self.task, SpaceTime):
            raise ValueError(
                f"task {self.task.kind!r} and space_time={space_time} contradict: networks with a "
                "time axis need the task 'space-time', and only they"
            )
        return self

    def _check_problem(self, problem: Problem) -> None:
        if self.train + self.test > problem.samples:
            raise ValueError(
                f"train={self.train} and test={self.test} overlap in {problem.samples} samples"
            )
        frames = len(problem.times or ())
        if self.window is not None and self.window + (self.targets or 1) > frames:
            raise ValueError(
                f"window={self.window} and targets={self.targets or 1} or more do not fit the "
                f"{frames} frames of the problem"
            )
        for points in (self.resolution, *self.zero_shot):
            if problem.resolution % points:
                raise ValueError(
                    f"resolution {points} is not among the points of data stored at "
                    f"{problem.resolution}: take a divisor"
                )

    @property
    def facts(self) -> Facts:
        """What tables, figures and verdicts go by."""
        family, variant = self.network.family
        problem, values = self.problem, {name: getattr(self.network, name) for name in self.sweep}
        if isinstance(problem, NavierStokesProblem):
            dataset = str(Dataset(problem.viscosity, problem.final_time, self.train))
        else:
            dataset = problem.name if problem else str(self.file)
        return Facts(
            study=self.study or self.name,
            dataset=dataset,
            viscosity=problem.parameters.get("viscosity") if problem else None,
            family=family,
            variant=variant,
            mode=self.task.kind,
            of_paper=self.of_paper,
            sweep={
                name: math.inf if value is None else float(value) for name, value in values.items()
            },
        )

    def completed_by(self, other: "Experiment") -> "Experiment":
        """This specification, with what older versions did not write taken from another one.

        The study decides no number, so that a run of an older version is the same run.
        """
        missing = {"study", "of_paper", "sweep"} - self.model_fields_set
        return self.model_copy(update={name: getattr(other, name) for name in missing})

    @property
    def seed(self) -> int:
        """Seed of the weights, of the order of the samples and of the noise."""
        return self.training.seed

    @property
    def slug(self) -> str:
        """A folder name for this run."""
        plain = self.model.replace("ξ", "xi")
        words = "".join(c if c.isalnum() else "-" for c in plain.lower()).strip("-")
        while "--" in words:
            words = words.replace("--", "-")
        return f"{words}-{self.resolution}-seed{self.seed}"

    def with_changes(self, **changes: Any) -> "Experiment":
        """This experiment with other values, checked as a whole."""
        return Experiment(**{**{k: getattr(self, k) for k in type(self).model_fields}, **changes})


def read_experiment(path: Path) -> Experiment:
    """Read a specification from a JSON or YAML file."""
    text = path.read_text(encoding="utf-8")
    try:
        values = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (json.JSONDecodeError, yaml.YAMLError) as problem:
        told = " ".join(str(problem).split())  # YAML draws the place over several lines
        raise ValueError(f"{path} is not readable as {path.suffix[1:]}: {told}") from problem
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds no specification: expected keys such as name and network")
    return Experiment.model_validate(values)
