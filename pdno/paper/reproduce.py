"""Reproduce an experiment of the paper: run all that is missing, gather the rows.

    OUT/data/             datasets, shared by all runs
    OUT/<run>/            one folder per run, see `pdno.runs.run`
    OUT/metrics.csv          the numbers of all finished runs

Finished runs are skipped and interrupted ones continued, so the same command may be repeated. With
the extra `cluster` the runs spread over a Ray cluster that shares the folder; without, they run
one after another.
"""

__all__ = ["gather_rows", "reproduce", "run", "run_folder", "run_study", "study_of"]

from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Any

from pdno.data.workers import start_ray
from pdno.evaluation.metric_table import Metric, read_metrics, write_metrics
from pdno.files.atomic import only_writer
from pdno.files.checksums import verified_path
from pdno.files.run_folder import CHECKSUMS, DATA, METRICS
from pdno.interface.errors import suggest, unknown_name
from pdno.paper import (
    EXPERIMENTS,
    RECIPES,
    Preset,
    ReproduceOptions,
    ablations,
    families,
    recipes,
)
from pdno.paper.recipes import Study
from pdno.paper.resources import resources
from pdno.runs.datasets import ensure_dataset
from pdno.runs.execute import run_experiment
from pdno.runs.specification import Experiment


def reproduce(experiment: str, out: Path | str, **options: Any) -> list[Metric]:
    """Run an experiment of the paper and return its rows.

    Arguments:
        experiment: Its name, see `pdno list`.
        out: Folder for everything.
        options: Those of `pdno.paper.ReproduceOptions`, by name: preset, seeds, models, ...
    """
    chosen = ReproduceOptions(**options)
    choice = {name: getattr(chosen, name) for name in ("resolution", "viscosity", "models")}
    if experiment != "resources":
        study = study_of(experiment, chosen.preset, seeds=chosen.seeds, **choice)
        return run_study(study, out, engine=chosen.engine, device=chosen.device)
    for name, value in {**choice, "device": chosen.device}.items():
        if value is not None:
            raise ValueError(f"resources has no option {name}: leave it out")
    if chosen.seeds != 1 or chosen.engine != "serial":
        raise ValueError(
            "resources are measured once, one after another: leave seeds and engine out"
        )
    resources(Path(out), preset=chosen.preset)
    return gather_rows(Path(out))


def study_of(
    experiment: str, preset: Preset = "small", *, seeds: int = 1, **options: Any
) -> Study:
    """The study behind a name; options that its recipe does not have are refused."""
    known = [name for name in (*EXPERIMENTS, *RECIPES) if name != "resources"]
    if experiment not in known:
        raise ValueError(unknown_name("no study", experiment, known))
    ours = {**vars(recipes), **vars(ablations), **vars(families)}
    recipe = RECIPES.get(experiment) or ours[experiment.replace("-", "_")]
    given = {name: value for name, value in options.items() if value is not None}
    for name in given.keys() - signature(recipe).parameters.keys():
        raise ValueError(f"{experiment} has no option {name}: leave it out")
    if "models" in given:
        known = recipe(preset, **{name: v for name, v in given.items() if name != "models"})
        names = list(dict.fromkeys(one.model for one in known.experiments))
        given["models"] = [_model_named(wish, names) for wish in given["models"]]
    study: Study = recipe(preset, seeds=seeds, **given)
    return study


def _model_named(wish: str, names: Sequence[str]) -> str:
    """The model that is meant; capitals and spaces do not count, and xi is ξ."""

    def plain(name: str) -> str:
        return "".join(name.lower().replace("ξ", "xi").split())

    found = {plain(name): name for name in names}
    if plain(wish) not in found:
        near = suggest(wish.replace("xi", "ξ"), names)
        raise ValueError(f"no model {wish!r}: {near}expected some of {', '.join(names)}")
    return found[plain(wish)]


def run(
    what: Study | Experiment, folder: Path | str, *, device: str | None = None
) -> list[Metric]:
    """Run a study, or one experiment, in its folder and return its rows.

    A device of None takes CUDA where there is one.
    """
    if isinstance(what, Study):
        return run_study(what, folder, device=device)
    return run_experiment(what, folder, device=device)


def run_study(
    study: Study, out: Path | str, *, engine: str = "serial", device: str | None = None
) -> list[Metric]:
    """Run all experiments of a study and return the rows of all runs in `out`."""
    place = Path(out)
    place.mkdir(parents=True, exist_ok=True)
    if engine == "ray":
        _run_with_ray(study, place, device)
        return gather_rows(place)
    for experiment in study.experiments:
        folder = run_folder(experiment, place)
        run_experiment(experiment, folder, data=place / DATA, device=device, wait=True)
        rows = gather_rows(place)
    return rows


def run_folder(experiment: Experiment, out: Path) -> Path:
    """The folder of one run."""
    name = "".join(c if c.isalnum() or c in "=.-" else "-" for c in experiment.name)
    return out / f"{name}-{experiment.slug}"


def gather_rows(out: Path) -> list[Metric]:
    """The rows of all finished runs of a folder, also written to its metrics.csv."""
    with only_writer(out, wait=True):  # two sweeps must not write what each has seen alone
        finished = sorted(path.parent for path in out.glob(f"*/{CHECKSUMS}"))
        rows = [
            row for folder in finished for row in read_metrics(verified_path(folder / METRICS))
        ]
        write_metrics(out / METRICS, rows)
    return rows


def _run_with_ray(study: Study, out: Path, device: str | None) -> None:
    """Datasets first, one after another, then one task per run; nothing but names travels."""
    ray = start_ray()
    for experiment in study.experiments:
        if experiment.problem is not None:
            ensure_dataset(experiment.problem, out / DATA, engine="ray")
    task, place = ray.remote(max_retries=3)(_run_one), str(out.resolve())
    ray.get([task.remote(e.model_dump_json(), place, device) for e in study.experiments])


def _run_one(specification: str, out: str, device: str | None) -> str:
    """One run, by its specification; runs are resumable, so it may be tried again."""
    experiment = Experiment.model_validate_json(specification)
    folder = run_folder(experiment, Path(out))
    run_experiment(experiment, folder, data=Path(out) / DATA, device=device, wait=True)
    return str(folder)
