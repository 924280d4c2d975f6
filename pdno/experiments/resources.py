"""The resource table: memory, parameters and time of PDNO and FNO on Navier-Stokes (table 6).

One training step, a rollout of ten frames with batch 20 on 64 x 64, is measured in a process of
its own for each network; an epoch of the paper has 50 such steps. The paper measured a GPU, so the
ratios are what can be compared.
"""

__all__ = ["resources"]

import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch

from pdno.allocator import tune_allocator
from pdno.atomic import write_text
from pdno.evaluation.rows import Facts, Row, make_rows, read_rows, write_rows
from pdno.evaluation.speed import peak_growth, time_alternately
from pdno.experiments.catalog import PRESETS, Preset
from pdno.experiments.networks import AnyNetwork, FNONetwork, PDNONetwork, build_network
from pdno.grid import Grid
from pdno.networks.neural_operator import count_parameters
from pdno.progress import track
from pdno.run_folder import METRICS, ROWS, is_finished
from pdno.training.normalizer import NormalizedNetwork
from pdno.training.samples import Batch
from pdno.training.task import Learner, Rollout

CONFIGURATIONS = ((12, 20), (12, 30), (32, 20))
"""k_max and channels of table 6."""
FRAMES, BATCH, RESOLUTION, STEPS_PER_EPOCH = 10, 20, 64, 50
MEGABYTE = 2**20


def resources(out: Path, *, preset: Preset = "small") -> list[Row]:
    """Measure the networks of table 6; a finished table is not redone.

    Arguments:
        out: Folder in which a folder with the rows is made.
        preset: `smoke` measures tiny networks on a tiny grid; the others are the same.
    """
    if preset not in PRESETS:
        raise ValueError(f"preset {preset!r}; expected one of {', '.join(PRESETS)}")
    smoke = preset == "smoke"
    place = out / ("resources-smoke" if smoke else "resources")
    if is_finished(place):
        return read_rows(place / ROWS)
    place.mkdir(parents=True, exist_ok=True)
    resolution, batch, frames = (16, 2, 2) if smoke else (RESOLUTION, BATCH, FRAMES)
    rows: list[Row] = []
    networks = _networks(smoke=smoke)
    with track("resources", total=len(networks)) as advance:
        for model, network in networks.items():
            metrics, parameters = _in_own_process(network, resolution, batch, frames)
            rows += make_rows(
                metrics,
                experiment="resources",
                model=model,
                resolution=resolution,
                seed=0,
                split="train",
                parameters=parameters,
                facts=_facts(network),
            )
            advance(1)
    write_rows(place / ROWS, rows)
    write_text(place / METRICS, json.dumps({"networks": list(networks)}) + "\n")
    return rows


def _networks(*, smoke: bool) -> dict[str, AnyNetwork]:
    found: dict[str, AnyNetwork] = {}
    for modes, width in CONFIGURATIONS[:1] if smoke else CONFIGURATIONS:
        kept, channels = (4, 4) if smoke else (modes, width)
        label = f"k_max={kept} width={channels}"
        found[f"PDNO {label}"] = PDNONetwork(width=channels, modes=kept)
        found[f"FNO {label}"] = FNONetwork(width=channels, modes=kept)
    return found


def _facts(network: AnyNetwork) -> Facts:
    sweep = {name: float(getattr(network, name)) for name in ("modes", "width")}
    family, variant = network.family
    return Facts("resources", family=family, variant=variant, sweep=sweep)


def _in_own_process(
    network: AnyNetwork, resolution: int, batch: int, frames: int
) -> tuple[dict[str, float], int]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measure, network, resolution, batch, frames).result()


def _measure(
    record: AnyNetwork, resolution: int, batch: int, frames: int
) -> tuple[dict[str, float], int]:
    """Peak memory and best time of one training step."""
    tune_allocator()
    network = build_network(record, 2, FRAMES, 1, seed=0)
    learner = Learner(NormalizedNetwork(network), Rollout())
    generator = torch.Generator().manual_seed(0)
    shape = (resolution, resolution)
    data = Batch(
        torch.randn(batch, FRAMES, *shape, generator=generator),
        torch.randn(batch, frames, 1, *shape, generator=generator),
    )
    grid = Grid(shape)

    def step() -> None:
        learner.zero_grad(set_to_none=True)
        terms, _ = learner(data, grid)
        terms.sum().backward()

    memory = peak_growth(step)
    best = time_alternately({"step": step}, repeats=2, warm_up=False)["step"]
    metrics = {
        "peak memory MB": memory / MEGABYTE,
        "seconds per step": best,
        "seconds per epoch": best * STEPS_PER_EPOCH,
        "parameters, complex once": float(count_parameters(network)),
    }
    return metrics, count_parameters(network, complex_once=False)
