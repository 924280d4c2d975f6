"""Reproduce an experiment of the paper: run all that is missing, gather the rows.

    OUT/data/             datasets, shared by all runs
    OUT/<run>/            one folder per run, see `pdno.experiments.run`
    OUT/rows.csv          the numbers of all finished runs

Finished runs are skipped and interrupted ones continued, so the same command may be repeated. With
the extra `cluster` the runs spread over a Ray cluster that shares the folder; without, they run
one after another.
"""

__all__ = ["gather_rows", "reproduce", "run", "run_folder", "run_study", "study_of"]

from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Any, Literal

from pdno.data.workers import start_ray
from pdno.evaluation.rows import Row, read_rows, write_rows
from pdno.experiments import recipes
from pdno.experiments.catalog import EXPERIMENTS, ExperimentName, Preset
from pdno.experiments.datasets import ensure_dataset
from pdno.experiments.recipes import Study
from pdno.experiments.resources import resources
from pdno.experiments.run import run_experiment
from pdno.experiments.specification import Experiment
from pdno.run_folder import DATA, METRICS, ROWS

Engine = Literal["serial", "ray"]


def reproduce(
    experiment: ExperimentName,
    out: Path | str,
    *,
    preset: Preset = "small",
    seeds: int = 1,
    resolution: int | None = None,
    models: Sequence[str] | None = None,
    engine: Engine = "serial",
    device: str | None = None,
) -> list[Row]:
    """Run an experiment of the paper and return its rows.

    Arguments:
        experiment: Its name, see `pdno list`.
        out: Folder for everything.
        preset: "smoke", "small" or "paper".
        seeds: Number of seeds.
        resolution: Points per axis, where the experiment has several.
        models: Only these networks, where the experiment has several.
        engine: "serial", or "ray" for a cluster.
        device: Where to train; None takes CUDA where there is one.
    """
    if experiment == "resources":
        given = {"resolution": resolution, "models": models, "device": device}
        for name in [name for name, value in given.items() if value is not None]:
            raise ValueError(f"resources has no option {name}: leave it out")
        if seeds != 1 or engine != "serial":
            raise ValueError(
                "resources are measured once, one after another: leave seeds and engine out"
            )
        resources(Path(out), preset=preset)
        return gather_rows(Path(out))
    study = study_of(experiment, preset, seeds=seeds, resolution=resolution, models=models)
    return run_study(study, out, engine=engine, device=device)


def study_of(
    experiment: ExperimentName,
    preset: Preset = "small",
    *,
    seeds: int = 1,
    resolution: int | None = None,
    models: Sequence[str] | None = None,
) -> Study:
    """The study behind a name; options that it does not have are refused."""
    if experiment not in EXPERIMENTS or experiment == "resources":
        raise ValueError(f"no study {experiment!r}: see `pdno list`")
    recipe = getattr(recipes, experiment.replace("-", "_"))
    options: dict[str, Any] = {"resolution": resolution, "models": models}
    given = {name: value for name, value in options.items() if value is not None}
    for name in given.keys() - signature(recipe).parameters.keys():
        raise ValueError(f"{experiment} has no option {name}: leave it out")
    study = recipe(preset, seeds=seeds, **given)
    assert isinstance(study, Study)
    return study


def run(what: Study | Experiment, folder: Path | str, *, device: str | None = None) -> list[Row]:
    """Run a study, or one experiment, and return its rows.

    Arguments:
        what: A study, as the recipes return it, or one experiment.
        folder: Folder of the study, or of the run.
        device: Where to train; None takes CUDA where there is one.
    """
    if isinstance(what, Study):
        return run_study(what, folder, device=device)
    return run_experiment(what, folder, device=device)


def run_study(
    study: Study, out: Path | str, *, engine: Engine = "serial", device: str | None = None
) -> list[Row]:
    """Run all experiments of a study and return the rows of all runs in `out`."""
    place = Path(out)
    place.mkdir(parents=True, exist_ok=True)
    if engine == "ray":
        _run_with_ray(study, place, device)
        return gather_rows(place)
    for experiment in study.experiments:
        run_experiment(experiment, run_folder(experiment, place), data=place / DATA, device=device)
        gather_rows(place)
    return gather_rows(place)


def run_folder(experiment: Experiment, out: Path) -> Path:
    """The folder of one run."""
    name = "".join(c if c.isalnum() or c in "=.-" else "-" for c in experiment.name)
    return out / f"{name}-{experiment.slug}"


def gather_rows(out: Path) -> list[Row]:
    """The rows of all finished runs of a folder, also written to its rows.csv."""
    finished = sorted(path.parent for path in out.glob(f"*/{METRICS}"))
    rows = [row for folder in finished for row in read_rows(folder / ROWS)]
    write_rows(out / ROWS, rows)
    return rows


def _run_with_ray(study: Study, out: Path, device: str | None) -> None:
    """Datasets first, one after another, then one task per run; nothing but names travels."""
    ray = start_ray()
    for experiment in study.experiments:
        if experiment.problem is not None:
            ensure_dataset(experiment.problem, out / DATA, engine="ray")
    task = ray.remote(max_retries=3)(_run_one)
    place = str(out.resolve())
    waiting = [task.remote(e.model_dump_json(), place, device) for e in study.experiments]
    ray.get(waiting)


def _run_one(specification: str, out: str, device: str | None) -> str:
    """One run, by its specification; runs are resumable, so it may be tried again."""
    experiment = Experiment.model_validate_json(specification)
    folder = run_folder(experiment, Path(out))
    run_experiment(experiment, folder, data=Path(out) / DATA, device=device)
    return str(folder)
