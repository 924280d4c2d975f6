"""A study: the runs of one experiment of the paper, with the data they share."""

__all__ = [
    "Study",
    "check_size",
    "choose_models",
    "finer_grids",
    "study_by_resolution",
    "with_seeds",
]

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from pdno.experiments.catalog import PRESETS, Preset
from pdno.experiments.specification import Experiment


class Study(BaseModel):
    """Several experiments that belong to one table or figure."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """Of the experiment, for example darcy."""
    preset: Preset
    """How large it is."""
    experiments: Annotated[tuple[Experiment, ...], Field(min_length=1)]
    """Its runs."""


def check_size(preset: Preset, resolution: int | None = None) -> None:
    """ValueError unless there is such a preset, and a resolution makes a grid."""
    if preset not in PRESETS:
        raise ValueError(f"preset {preset!r}; expected one of {', '.join(PRESETS)}")
    if resolution is not None and resolution < 2:
        raise ValueError(f"resolution is {resolution}; expected at least 2")


def choose_models(
    known: Mapping[str, Experiment], models: Sequence[str] | None
) -> list[Experiment]:
    """The experiments of the named models; None takes all."""
    if models is None:
        return list(known.values())
    unknown = [name for name in models if name not in known]
    if unknown:
        raise ValueError(f"no model {unknown[0]!r}: expected some of {', '.join(known)}")
    return [known[name] for name in models]


def with_seeds(experiments: Iterable[Experiment], seeds: int) -> tuple[Experiment, ...]:
    """Each experiment with the seeds 0, 1, ..., seed by seed."""
    if seeds < 1:
        raise ValueError(f"seeds is {seeds}; expected at least 1")
    chosen = list(experiments)
    return tuple(
        experiment.with_changes(training=experiment.training.model_copy(update={"seed": seed}))
        for seed in range(seeds)
        for experiment in chosen
    )


def study_by_resolution(
    name: str,
    preset: Preset,
    runs_at: Callable[[int], Mapping[str, Experiment]],
    usual: Mapping[Preset, Sequence[int]],
    *,
    resolution: int | None,
    models: Sequence[str] | None,
    seeds: int,
) -> Study:
    """The study of some models at the given resolution, or else at the usual ones.

    `runs_at` gives the runs at one resolution, by model.
    """
    check_size(preset, resolution)
    points = usual[preset] if resolution is None else (resolution,)
    experiments = [run for s in points for run in choose_models(runs_at(s), models)]
    return Study(name=name, preset=preset, experiments=with_seeds(experiments, seeds))


def finer_grids(preset: Preset, resolution: int, stored: int) -> tuple[int, ...]:
    """Where a network is evaluated without training, as far as the data are stored.

    Below `paper` at two and four times the resolution of the training.
    """
    finer = () if preset == "paper" else (2 * resolution, 4 * resolution)
    return tuple(points for points in finer if stored % points == 0)
