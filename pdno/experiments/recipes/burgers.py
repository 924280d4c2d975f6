"""Burgers, u₀ -> u(1) (paper section 5.3, table 3)."""

__all__ = ["burgers"]

from collections.abc import Sequence
from functools import partial

from pdno.data.problems import BurgersProblem
from pdno.experiments.catalog import Preset
from pdno.experiments.networks import AnyNetwork, FNONetwork, MWTNetwork, PDNONetwork
from pdno.experiments.recipes.study import (
    Study,
    check_size,
    finer_grids,
    study_by_resolution,
)
from pdno.experiments.specification import Experiment
from pdno.training.settings import TrainingSettings

RESOLUTIONS = (256, 512, 1024, 2048, 4096)  # of table 3
MASTER = 8192


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
    check_size(preset, resolution)
    usual = {"smoke": (64,), "small": (256,), "paper": RESOLUTIONS}[preset]
    return study_by_resolution(
        "burgers",
        preset,
        partial(_experiments, preset),
        usual if resolution is None else (resolution,),
        models=models,
        seeds=seeds,
    )


def _experiments(preset: Preset, resolution: int) -> dict[str, Experiment]:
    smoke, paper = preset == "smoke", preset == "paper"
    stored = {"smoke": 128, "small": 1024, "paper": MASTER}[preset]
    problem = BurgersProblem(
        samples=10 if smoke else 1100,
        resolution=max(stored, resolution),
        solver_resolution=128 if smoke else None,
    )
    networks = _networks(resolution, small=not paper, smoke=smoke)
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
        for model, (network, training) in networks.items()
    }


def _networks(
    resolution: int, *, small: bool, smoke: bool
) -> dict[str, tuple[AnyNetwork, TrainingSettings]]:
    """The symbols are tanh networks; `small` keeps 16 modes of all networks."""
    scale = resolution / (resolution - 1)
    width = 8 if smoke else 64
    if small:
        pdno = PDNONetwork(width=width, symbol_hidden=width, activation="tanh", modes=16)
    else:
        pdno = PDNONetwork(
            width=64,
            symbol_hidden=64,
            activation="tanh",
            frequency_scale=float(resolution),
            coordinate_scale=scale,
        )
    # the published wavelet networks of one dimension see no coordinate
    wavelets = MWTNetwork(width=4 if smoke else 16, modes=10, blocks=2, append_coordinates=False)
    fno = FNONetwork(width=width, modes=16, coordinate_scale=1.0 if small else scale)
    networks: dict[str, AnyNetwork] = {
        "PDNO a(x,ξ)": pdno,
        "PDNO a(ξ)": pdno.model_copy(update={"depends_on_x": False}),
        "MWT Leg": wavelets,
        "MWT Chb": wavelets.model_copy(update={"base": "chebyshev"}),
        "FNO": fno,
    }
    return {
        model: (network, _training(model, small=small, smoke=smoke))
        for model, network in networks.items()
    }


def _training(model: str, *, small: bool, smoke: bool) -> TrainingSettings:
    ours = model.startswith("PDNO")
    if small:
        return TrainingSettings(
            epochs=1 if smoke else 50,
            learning_rate=5e-3 if ours else 2e-3,
            weight_decay=0.0 if ours else 1e-4,
            schedule="one-cycle",
        )
    if ours:
        return TrainingSettings(epochs=1000, learning_rate=5e-3, weight_decay=0.0, step_size=100)
    step_size = 50 if model == "FNO" else 100
    return TrainingSettings(epochs=500, learning_rate=1e-3, weight_decay=1e-4, step_size=step_size)
