"""The demo: PDNO and FNO on heat and on a small Darcy problem, in a few minutes."""

__all__ = ["demo"]

from typing import Any

from pdno.data.problems import DarcyProblem, HeatProblem
from pdno.experiments.catalog import Preset
from pdno.experiments.networks import FNONetwork, PDNONetwork
from pdno.experiments.recipes.heat import heat
from pdno.experiments.recipes.study import Study, check_size
from pdno.experiments.specification import Experiment
from pdno.training.settings import TrainingSettings

EPOCHS = 30


def demo(preset: Preset = "small") -> Study:
    """The heat symbol, and PDNO beside FNO on heat (u₀ -> u(0.1)) and on Darcy flow.

    The samples and epochs are few, so the errors are larger than those of the experiments.

    Arguments:
        preset: `smoke` for seconds; the others are the same.
    """
    check_size(preset)
    smoke = preset == "smoke"
    symbol = heat("smoke" if smoke else "small").experiments[0]
    if not smoke:
        epochs = symbol.training.model_copy(update={"epochs": EPOCHS})
        symbol = symbol.with_changes(training=epochs)
    problems = _small_problems() if smoke else _problems()
    width, modes = (4, 6) if smoke else (16, 12)
    runs = [symbol]
    for model, network, rate in (
        ("PDNO a(x,ξ)", PDNONetwork(width=width, modes=modes), 1e-2),
        ("FNO", FNONetwork(width=width, modes=modes), 3e-3),
    ):
        settings = TrainingSettings(
            epochs=1 if smoke else EPOCHS, learning_rate=rate, schedule="one-cycle"
        )
        common: dict[str, Any] = {"model": model, "network": network, "training": settings}
        runs += [Experiment(of_paper=True, **common, **problem) for problem in problems]
    return Study(name="demo", preset=preset, experiments=tuple(runs))


def _problems() -> list[dict[str, Any]]:
    heat_map = HeatProblem(samples=220, resolution=256, final_time=0.1, frames=1)
    flow = DarcyProblem(samples=240, resolution=64, solver_resolution=128)
    darcy = {"normalization": "pointwise", "resolution": 32, "zero_shot": (64,)}
    return [
        {"name": "heat-map", "problem": heat_map, "train": 200, "test": 20, "resolution": 256},
        {"name": "darcy", "problem": flow, "train": 200, "test": 40, **darcy},
    ]


def _small_problems() -> list[dict[str, Any]]:
    heat_map = HeatProblem(samples=6, resolution=64, final_time=0.1, frames=1)
    flow = DarcyProblem(samples=6, resolution=32, solver_resolution=32)
    darcy = {"normalization": "pointwise", "resolution": 16, "zero_shot": (32,)}
    return [
        {"name": "heat-map", "problem": heat_map, "train": 4, "test": 2, "resolution": 64},
        {"name": "darcy", "problem": flow, "train": 4, "test": 2, **darcy},
    ]
