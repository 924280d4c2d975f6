"""Burgers, u₀ -> u(1) (paper section 5.3, table 3)."""

__all__ = ["burgers"]

from collections.abc import Sequence
from functools import partial
from typing import Any

from pdno.data.problems import BurgersProblem
from pdno.experiments.catalog import Preset
from pdno.experiments.networks import AnyNetwork, FNONetwork, MWTNetwork, PDNONetwork
from pdno.experiments.recipes.study import Study, finer_grids, study_by_resolution
from pdno.experiments.specification import Experiment
from pdno.training.settings import TrainingSettings

USUAL: dict[Preset, tuple[int, ...]] = {
    "smoke": (64,),
    "small": (256,),
    "paper": (256, 512, 1024, 2048, 4096),  # of table 3
}


def burgers(
    preset: Preset = "small",
    *,
    resolution: int | None = None,
    models: Sequence[str] | None = None,
    seeds: int = 1,
) -> Study:
    """Table 3: five networks on the same 1000 samples, tested on the same 100.

    Arguments:
        preset: "smoke", "small" or "paper".
        resolution: Points; None takes 256 for `small` and all five for `paper`.
        models: Which networks; None takes all five.
        seeds: Number of seeds.
    """
    runs_at = partial(_experiments, preset)
    return study_by_resolution(
        "burgers", preset, runs_at, USUAL, resolution=resolution, models=models, seeds=seeds
    )


def _experiments(preset: Preset, resolution: int) -> dict[str, Experiment]:
    smoke = preset == "smoke"
    stored = {"smoke": 128, "small": 1024, "paper": 8192}[preset]
    problem = BurgersProblem(
        samples=10 if smoke else 1100,
        resolution=max(stored, resolution),
        solver_resolution=128 if smoke else None,
    )
    return {
        model: Experiment(
            name="burgers",
            model=model,
            of_paper=True,
            problem=problem,
            train=8 if smoke else 1000,
            test=2 if smoke else 100,
            resolution=resolution,
            network=network,
            training=training,
            zero_shot=finer_grids(preset, resolution, problem.resolution),
        )
        for model, (network, training) in _networks(preset, resolution).items()
    }


def _networks(preset: Preset, resolution: int) -> dict[str, tuple[AnyNetwork, TrainingSettings]]:
    """The symbols are tanh networks; below `paper` 16 modes of all networks are kept."""
    smoke, width, scale = preset == "smoke", 64, resolution / (resolution - 1)
    symbols: dict[str, Any] = {"frequency_scale": float(resolution), "coordinate_scale": scale}
    ours = TrainingSettings(epochs=1000, learning_rate=5e-3, weight_decay=0.0, step_size=100)
    theirs = TrainingSettings(epochs=500, learning_rate=1e-3, weight_decay=1e-4, step_size=100)
    published = theirs.model_copy(update={"step_size": 50})
    if preset != "paper":
        width, scale, symbols = 8 if smoke else 64, 1.0, {"modes": 16}
        short: dict[str, Any] = {"epochs": 1 if smoke else 50, "schedule": "one-cycle"}
        ours = TrainingSettings(learning_rate=5e-3, weight_decay=0.0, **short)
        theirs = published = TrainingSettings(learning_rate=2e-3, weight_decay=1e-4, **short)
    pdno = PDNONetwork(width=width, symbol_hidden=width, activation="tanh", **symbols)
    # the published wavelet networks of one dimension see no coordinate
    wavelets = MWTNetwork(width=4 if smoke else 16, modes=10, blocks=2, append_coordinates=False)
    return {
        "PDNO a(x,ξ)": (pdno, ours),
        "PDNO a(ξ)": (pdno.model_copy(update={"depends_on_x": False}), ours),
        "MWT Leg": (wavelets, theirs),
        "MWT Chb": (wavelets.model_copy(update={"base": "chebyshev"}), theirs),
        "FNO": (FNONetwork(width=width, modes=16, coordinate_scale=scale), published),
    }
