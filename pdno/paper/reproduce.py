"""Reproduce an experiment of the paper: run what is missing, gather the metrics.

    OUT/data/             datasets, shared by all runs
    OUT/<run>/            one folder per run, see `pdno.files.run_folder`
    OUT/metrics.csv       the metrics of all finished runs

Finished runs are skipped and interrupted ones continued, so the same command may be repeated. With
the extra `cluster` the runs spread over a Ray cluster that shares the folder; without, they run
one after another.
"""

from inspect import signature
from pathlib import Path
from typing import Any, Literal

from pdno.data.workers import start_ray
from pdno.files.atomic import only_writer
from pdno.files.metric_table import Metric, metrics_of_run, write_metrics
from pdno.files.run_folder import CHECKSUMS, DATA, METRICS
from pdno.interface.errors import unknown_name
from pdno.paper import recipes  # noqa: F401  # which registers its recipes
from pdno.paper.resources import measure_resources
from pdno.runs.execute import run_experiment
from pdno.runs.plugins import RECIPES, Study
from pdno.runs.specification import Experiment, ensure_dataset

Engine = Literal["serial", "ray"]


def reproduce(
    experiment: str,
    out: Path | str,
    *,
    engine: Engine = "serial",
    device: str | None = None,
    **options: Any,
) -> list[Metric]:
    """Run an experiment of the paper and return its metrics.

    Arguments:
        experiment: Its name, see `pdno list`.
        out: Folder for everything.
        engine: serial, or ray to spread the runs over a Ray cluster (extra cluster).
        device: Where to train, for example cuda or cpu; CUDA by default where there is one.
        options: Those of its recipe (see `pdno.recipes`), by name: preset, seeds, models, ...
    """
    return run_study(study_of(experiment, **options), out, engine=engine, device=device)


def study_of(experiment: str, preset: str = "small", **options: object) -> Study:
    """The study behind a name; options that its recipe does not have are refused."""
    if experiment not in RECIPES:
        raise ValueError(unknown_name("experiment", experiment, RECIPES))
    recipe = RECIPES[experiment]
    for name in options.keys() - signature(recipe).parameters.keys():
        raise ValueError(f"{experiment} has no option {name}: leave it out")
    return recipe(preset=preset, **options)


def run(
    what: Study | Experiment, folder: Path | str, *, device: str | None = None
) -> list[Metric]:
    """Run a study, or one experiment, in its folder and return its metrics.

    A device of None takes CUDA where there is one.
    """
    if isinstance(what, Study):
        return run_study(what, folder, device=device)
    return run_experiment(what, folder, device=device)


def run_study(
    study: Study, out: Path | str, *, engine: Engine = "serial", device: str | None = None
) -> list[Metric]:
    """Run all experiments of a study and return the metrics of all runs in `out`."""
    out = Path(out)
    if study.measure == "resources":
        if engine != "serial" or device is not None:
            raise ValueError("resources are measured here on the CPU: leave engine and device out")
        measure_resources(study, out / f"resources{'-smoke' * (study.preset == 'smoke')}")
        return gather_metrics(out)
    out.mkdir(parents=True, exist_ok=True)
    if engine == "ray":
        _run_with_ray(study, out, device)
        return gather_metrics(out)
    for experiment in study.experiments:
        folder = run_folder(experiment, out)
        run_experiment(experiment, folder, data=out / DATA, device=device, wait=True)
        metrics = gather_metrics(out)
    return metrics


def run_folder(experiment: Experiment, out: Path) -> Path:
    """The folder of one run."""
    name = "".join(c if c.isalnum() or c in "=.-" else "-" for c in experiment.name)
    return out / f"{name}-{experiment.slug}"


def gather_metrics(out: Path) -> list[Metric]:
    """The metrics of all finished runs of a folder, also written to its metrics.csv."""
    with only_writer(out, wait=True):  # several sweeps may gather at once
        finished = sorted(path.parent for path in out.glob(f"*/{CHECKSUMS}"))
        metrics = [metric for folder in finished for metric in metrics_of_run(folder)]
        write_metrics(out / METRICS, metrics)
    return metrics


def _run_with_ray(study: Study, out: Path, device: str | None) -> None:
    """Datasets first, one after another, then one task per run, given as text."""
    ray = start_ray()
    for experiment in study.experiments:
        if experiment.problem is not None:
            ensure_dataset(experiment.problem, out / DATA, engine="ray")
    task, path = ray.remote(max_retries=3)(_run_one), str(out.resolve())
    ray.get([task.remote(e.model_dump_json(), path, device) for e in study.experiments])


def _run_one(specification: str, out: str, device: str | None) -> str:
    """One run, by its specification; runs are resumable, so it may be tried again."""
    experiment = Experiment.model_validate_json(specification)
    folder = run_folder(experiment, Path(out))
    run_experiment(experiment, folder, data=Path(out) / DATA, device=device, wait=True)
    return str(folder)
