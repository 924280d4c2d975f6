"""Reproduce an experiment of the paper: run what is missing, gather the metrics.

    OUT/data/             datasets, shared by all runs
    OUT/<run>/            one folder per run, see `pdno.files.run_folder`
    OUT/metrics.csv       the metrics of all finished runs

Finished runs are skipped and interrupted ones continued, so the same command may be repeated. The
resource table measures one training step of each network in a process of its own; the paper
measured a GPU, so the ratios of PDNO and FNO are what can be compared.
"""

from inspect import signature
from pathlib import Path
from typing import Literal

import torch

from pdno.data.workers import start_ray
from pdno.evaluation.speed import in_own_process, peak_growth, time_alternately
from pdno.files.atomic import only_writer
from pdno.files.metric_table import Metadata, Metric, make_metrics, metrics_of_run, write_metrics
from pdno.files.run_folder import (
    CHECKSUMS,
    DATA,
    METRICS,
    WITH_CHECKSUMS,
    is_finished,
    write_checksums,
)
from pdno.interface.display import track
from pdno.interface.errors import unknown_name
from pdno.native import tune_allocator
from pdno.networks.neural_operator import count_parameters
from pdno.paper import recipes  # noqa: F401  # which registers its recipes
from pdno.paper.discovery import measure_discovery
from pdno.runs.execute import run_experiment
from pdno.runs.plugins import RECIPES, Study
from pdno.runs.specification import Experiment, ensure_dataset
from pdno.spectral.grid import Grid
from pdno.training.samples import Batch
from pdno.training.trained_operator import TrainedOperator

Engine = Literal["serial", "ray"]
STEPS_PER_EPOCH = 50  # of the paper's resource table


def reproduce(
    experiment: str,
    out: Path | str,
    *,
    engine: Engine = "serial",
    device: str | None = None,
    preset: str = "small",
    **options: object,
) -> list[Metric]:
    """Run an experiment of the paper and return its metrics.

    Arguments:
        experiment: Its name, see `pdno list`.
        out: Folder for everything.
        preset: One of those of the experiment.
        engine: serial, or ray to spread the runs over a Ray cluster (extra cluster).
        device: Where to train, for example cuda or cpu; CUDA by default where there is one.
        options: Those of its recipe (see `pdno.recipes`), by name: seeds, models, ...
    """
    return run_study(study_of(experiment, preset, **options), out, engine=engine, device=device)


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
    """Run a study, or one experiment, in its folder and return its metrics."""
    if isinstance(what, Study):
        return run_study(what, folder, device=device)
    return run_experiment(what, folder, device=device)


def run_study(
    study: Study, out: Path | str, *, engine: Engine = "serial", device: str | None = None
) -> list[Metric]:
    """Run all experiments of a study and return the metrics of all runs in `out`."""
    out = Path(out)
    if study.measure != "training" and (engine != "serial" or device is not None):
        raise ValueError(f"{study.name}: measured here on the CPU, leave engine and device out")
    out.mkdir(parents=True, exist_ok=True)
    if study.measure == "discovery":
        measure_discovery(study.preset, out)
    elif study.measure == "resources":
        measure_resources(study, out / f"resources{'-smoke' * (study.preset == 'smoke')}")
    elif engine == "ray":
        _run_with_ray(study, out, device)
    else:
        for experiment in study.experiments:
            _run_in(out, experiment, device)
            gather_metrics(out)
    return gather_metrics(out)


def run_folder(experiment: Experiment, out: Path) -> Path:
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
    # runs are resumable, so they may be tried again
    task, path = ray.remote(max_retries=3)(_run_text), str(out.resolve())
    ray.get([task.remote(e.model_dump_json(), path, device) for e in study.experiments])


def _run_text(specification: str, out: str, device: str | None) -> None:
    _run_in(Path(out), Experiment.model_validate_json(specification), device)


def _run_in(out: Path, experiment: Experiment, device: str | None) -> None:
    folder = run_folder(experiment, out)
    run_experiment(experiment, folder, data=out / DATA, device=device, wait=True)


def measure_resources(study: Study, folder: Path) -> None:
    """Measure a training step of each network into a folder; a finished table is not redone."""
    if is_finished(folder):
        metrics_of_run(folder)  # whose checksums are compared
        return
    folder.mkdir(parents=True, exist_ok=True)
    metrics: list[Metric] = []
    with track("resources", total=len(study.experiments)) as advance:
        for run in study.experiments:
            values, parameters = in_own_process(_measure, run)
            kept = {name: getattr(run.metadata, name) for name in ("family", "variant", "sweep")}
            metrics += make_metrics(
                values,
                **{"experiment": study.name, "model": run.model, "resolution": run.resolution},
                **{"seed": run.seed, "split": "train", "parameters": parameters},
                metadata=Metadata(study.name, **kept),
            )
            advance(1)
    write_metrics(folder / METRICS, metrics)
    write_checksums(folder, WITH_CHECKSUMS)


def _measure(experiment: Experiment) -> tuple[dict[str, float], int]:
    """Peak memory and best time of one training step, and the parameters of the network."""
    tune_allocator()
    frames, batch = experiment.window or 1, experiment.training.batch_size
    network = experiment.network.build(2, frames, 1, seed=experiment.seed)
    operator = TrainedOperator(network, experiment.task)
    grid, generator = Grid((experiment.resolution,) * 2), torch.Generator().manual_seed(0)
    inputs = torch.randn(batch, frames, *grid.shape, generator=generator)
    targets = torch.randn(batch, experiment.targets or 1, 1, *grid.shape, generator=generator)

    def step() -> None:
        operator.zero_grad(set_to_none=True)
        operator(Batch(inputs, targets, frame_by_frame=True), grid)[0].sum().backward()

    memory = peak_growth(step) / 2**20
    best = time_alternately({"step": step}, repeats=2, warm_up=False)["step"]
    values = {
        "peak memory MB": memory,
        "seconds per step": best,
        "seconds per epoch": best * STEPS_PER_EPOCH,
        "parameters, complex once": float(count_parameters(network)),
    }
    return values, count_parameters(network, complex_once=False)
