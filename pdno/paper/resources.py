"""The resource table: memory, parameters and time of PDNO and FNO on Navier-Stokes (table 6).

One training step is measured in a process of its own for each network; an epoch of the paper has
50 such steps. The paper measured a GPU, so the ratios are what can be compared.
"""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch

from pdno.evaluation.speed import peak_growth, time_alternately
from pdno.files.metric_table import Metadata, make_metrics, metrics_of_run, write_metrics
from pdno.files.run_folder import METRICS, WITH_CHECKSUMS, is_finished, write_checksums
from pdno.interface.display import track
from pdno.native import tune_allocator
from pdno.networks.neural_operator import count_parameters
from pdno.runs.plugins import Study
from pdno.runs.specification import Experiment
from pdno.spectral.grid import Grid
from pdno.training.samples import Batch
from pdno.training.trained_operator import TrainedOperator

STEPS_PER_EPOCH = 50


def measure_resources(study: Study, folder: Path) -> None:
    """Measure a training step of each network into a folder; a finished table is not redone."""
    if is_finished(folder):
        metrics_of_run(folder)  # whose checksums are compared
        return
    folder.mkdir(parents=True, exist_ok=True)
    metrics = []
    with track("resources", total=len(study.experiments)) as advance:
        for experiment in study.experiments:
            values, parameters = _in_own_process(experiment)
            about = experiment.metadata
            metrics += make_metrics(
                values,
                experiment=study.name,
                model=experiment.model,
                resolution=experiment.resolution,
                seed=experiment.seed,
                split="train",
                parameters=parameters,
                metadata=Metadata(
                    study.name, family=about.family, variant=about.variant, sweep=about.sweep
                ),
            )
            advance(1)
    write_metrics(folder / METRICS, metrics)
    write_checksums(folder, WITH_CHECKSUMS)


def _in_own_process(experiment: Experiment) -> tuple[dict[str, float], int]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measure, experiment).result()


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

    memory = peak_growth(step)
    best = time_alternately({"step": step}, repeats=2, warm_up=False)["step"]
    values = {
        "peak memory MB": memory / 2**20,
        "seconds per step": best,
        "seconds per epoch": best * STEPS_PER_EPOCH,
        "parameters, complex once": float(count_parameters(network)),
    }
    return values, count_parameters(network, complex_once=False)
