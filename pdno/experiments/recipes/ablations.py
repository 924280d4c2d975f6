"""The ablations of the paper's appendix: kept modes, activation and channels."""

__all__ = ["darcy_activation", "darcy_modes", "navier_stokes_width"]

from pdno.experiments.catalog import Preset
from pdno.experiments.networks import FNONetwork, PDNONetwork
from pdno.experiments.recipes.darcy import USUAL, darcy_experiments
from pdno.experiments.recipes.navier_stokes import navier_stokes
from pdno.experiments.recipes.study import Study, check_size, with_seeds
from pdno.experiments.specification import Experiment

MODES = {
    "smoke": (2, None),
    "small": (4, 8, 12, 16),
    "paper": (4, 8, 12, 16, 20, 32, 64, 128, None),
}
"""k_max of figure 9 (our choice; the paper's list is not printed). None keeps all modes."""
WIDTHS = {"smoke": (2, 4), "small": (5, 10, 20), "paper": (5, 10, 20, 30, 40)}
"""Channels of figure 10 (our choice)."""


def darcy_modes(
    preset: Preset = "small", *, resolution: int | None = None, seeds: int = 1
) -> Study:
    """Figure 9: test error of PDNO a(x,ξ) against k_max.

    Arguments:
        preset: "smoke", "small" or "paper".
        resolution: Points per axis; None takes 256 for `paper` and 32 for `small`.
        seeds: Number of seeds.
    """
    check_size(preset, resolution)
    points = resolution or {"smoke": 16, "small": 32, "paper": 256}[preset]
    base = darcy_experiments(preset, points)["PDNO a(x,ξ)"]
    assert isinstance(base.network, PDNONetwork)
    runs = [
        base.with_changes(
            name="darcy-modes",
            model=f"PDNO k_max={'all' if modes is None else modes}",
            sweep=("modes",),
            network=base.network.model_copy(update={"modes": modes}),
        )
        for modes in MODES[preset]
    ]
    return Study(name="darcy-modes", preset=preset, experiments=with_seeds(runs, seeds))


def darcy_activation(
    preset: Preset = "small", *, resolution: int | None = None, seeds: int = 1
) -> Study:
    """Figure 11: GELU against ReLU in the symbol networks, train and test error.

    Arguments:
        preset: "smoke", "small" or "paper".
        resolution: Points per axis; None takes all five for `paper` and 32 for `small`.
        seeds: Number of seeds.
    """
    check_size(preset, resolution)
    runs: list[Experiment] = []
    for points in USUAL[preset] if resolution is None else (resolution,):
        base = darcy_experiments(preset, points)["PDNO a(x,ξ)"]
        for activation, label in (("gelu", "PDNO GELU"), ("relu", "PDNO ReLU")):
            network = base.network.model_copy(update={"activation": activation})
            runs.append(base.with_changes(name="darcy-activation", model=label, network=network))
    return Study(name="darcy-activation", preset=preset, experiments=with_seeds(runs, seeds))


def navier_stokes_width(preset: Preset = "small", *, seeds: int = 1) -> Study:
    """Figure 10: train and test error against channels, PDNO a(ξ) and FNO, all modes kept.

    Arguments:
        preset: "smoke", "small" or "paper".
        seeds: Number of seeds.
    """
    if preset == "paper":
        study = navier_stokes("paper", viscosity=1e-5, models=["PDNO a(x,ξ)", "FNO-2D"])
    else:
        study = navier_stokes(preset, models=["PDNO rollout", "FNO rollout"])
    pdno, fno = study.experiments
    assert isinstance(pdno.network, PDNONetwork) and isinstance(fno.network, FNONetwork)
    name, every = "navier-stokes-width", pdno.resolution // 2
    runs = []
    for width in WIDTHS[preset]:
        ours = {"width": width, "depends_on_x": False, "modes": None}
        theirs = {"width": width, "modes": every}
        for base, model, changes in ((pdno, "PDNO a(ξ)", ours), (fno, "FNO", theirs)):
            network = base.network.model_copy(update=changes)
            named = {"name": name, "study": name, "model": f"{model} width={width}"}
            runs.append(base.with_changes(network=network, sweep=("width",), **named))
    return Study(name=name, preset=preset, experiments=with_seeds(runs, seeds))
