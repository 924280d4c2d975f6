"""The resource table: memory, parameters and time of PDNO and FNO on Navier-Stokes (table 6).

One training step, a rollout of ten frames with batch 20 on 64 x 64, is measured in a process of
its own for each network; an epoch of the paper has 50 such steps. The paper measured a GPU, so the
ratios are what can be compared.
"""

__all__ = ["resources"]

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import torch

from pdno.evaluation.metric_table import (
    Metadata,
    Metric,
    make_metrics,
    read_metrics,
    write_metrics,
)
from pdno.evaluation.speed import peak_growth, time_alternately
from pdno.files.checksums import write_checksums
from pdno.files.run_folder import METRICS, WITH_CHECKSUMS, is_finished
from pdno.interface.display import track
from pdno.native.allocator import tune_allocator
from pdno.networks.neural_operator import count_parameters
from pdno.paper import Preset
from pdno.paper.recipes import check_size
from pdno.runs.networks import AnyNetwork, FNONetwork, PDNONetwork, build_network
from pdno.spectral.grid import Grid
from pdno.training.normalizer import NormalizedNetwork
from pdno.training.samples import Batch
from pdno.training.task import Rollout, TrainedOperator

CONFIGURATIONS = ((12, 20), (12, 30), (32, 20))
"""k_max and channels of table 6."""
FRAMES, BATCH, RESOLUTION, STEPS_PER_EPOCH = 10, 20, 64, 50
Found = tuple[dict[str, float], int]  # the numbers of a network by name, and its parameters


def resources(out: Path, *, preset: Preset = "small") -> list[Metric]:
    """Measure the networks of table 6 into a folder of `out`; a finished table is not redone.

    `smoke` measures tiny networks on a tiny grid; the other presets are the same.
    """
    check_size(preset)
    smoke = preset == "smoke"
    place = out / ("resources-smoke" if smoke else "resources")
    if is_finished(place):
        return read_metrics(place / METRICS)
    place.mkdir(parents=True, exist_ok=True)
    resolution, batch, frames = (16, 2, 2) if smoke else (RESOLUTION, BATCH, FRAMES)
    common = {"experiment": "resources", "resolution": resolution, "split": "train", "seed": 0}
    rows: list[Metric] = []
    networks = _networks(((4, 4),) if smoke else CONFIGURATIONS)
    with track("resources", total=len(networks)) as advance:
        for model, (network, metadata) in networks.items():
            metrics, parameters = _in_own_process(network, resolution, batch, frames)
            rows += make_metrics(
                metrics, model=model, parameters=parameters, metadata=metadata, **common
            )
            advance(1)
    write_metrics(place / METRICS, rows)
    write_checksums(place, WITH_CHECKSUMS)
    return rows


def _networks(sizes: Sequence[tuple[int, int]]) -> dict[str, tuple[AnyNetwork, Metadata]]:
    """PDNO and FNO with these modes and widths, by name."""
    found: dict[str, tuple[AnyNetwork, Metadata]] = {}
    for modes, width in sizes:
        sweep = {"modes": float(modes), "width": float(width)}
        for network in PDNONetwork(width=width, modes=modes), FNONetwork(width=width, modes=modes):
            family, variant = network.family
            metadata = Metadata("resources", family=family, variant=variant, sweep=sweep)
            found[f"{family} k_max={modes} width={width}"] = network, metadata
    return found


def _in_own_process(network: AnyNetwork, resolution: int, batch: int, frames: int) -> Found:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measure, network, resolution, batch, frames).result()


def _measure(record: AnyNetwork, resolution: int, batch: int, frames: int) -> Found:
    """Peak memory and best time of one training step."""
    tune_allocator()
    network = build_network(record, 2, FRAMES, 1, seed=0)
    learner = TrainedOperator(NormalizedNetwork(network), Rollout())
    draw = partial(torch.randn, generator=torch.Generator().manual_seed(0))
    grid = Grid((resolution, resolution))
    data = Batch(draw(batch, FRAMES, *grid.shape), draw(batch, frames, 1, *grid.shape))

    def step() -> None:
        learner.zero_grad(set_to_none=True)
        learner(data, grid)[0].sum().backward()

    memory = peak_growth(step)
    best = time_alternately({"step": step}, repeats=2, warm_up=False)["step"]
    metrics = {
        "peak memory MB": memory / 2**20,
        "seconds per step": best,
        "seconds per epoch": best * STEPS_PER_EPOCH,
        "parameters, complex once": float(count_parameters(network)),
    }
    return metrics, count_parameters(network, complex_once=False)
