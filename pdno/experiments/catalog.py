"""The experiments by name: what `pdno list` shows. torch is not imported here."""

__all__ = ["EXPERIMENTS", "PRESETS", "ExperimentName", "Preset"]

from typing import Literal, get_args

Preset = Literal["smoke", "small", "paper"]
PRESETS: tuple[Preset, ...] = get_args(Preset)

ExperimentName = Literal[
    "heat",
    "darcy",
    "navier-stokes",
    "burgers",
    "resources",
    "darcy-modes",
    "darcy-activation",
    "navier-stokes-width",
]

EXPERIMENTS: dict[ExperimentName, str] = {
    "heat": "one operator learns the heat equation, its symbol against the exact one (fig. 3)",
    "darcy": "Darcy flow at five resolutions: PDNO a(x,ξ), PDNO a(ξ), MWT, FNO (table 1)",
    "navier-stokes": "four Navier-Stokes datasets, six networks (table 2, fig. 1)",
    "burgers": "Burgers at five resolutions, five networks (table 3)",
    "resources": "memory, parameters and seconds per epoch (table 6)",
    "darcy-modes": "ablation: kept modes k_max on Darcy (fig. 9)",
    "darcy-activation": "ablation: GELU against ReLU symbol networks on Darcy (fig. 11)",
    "navier-stokes-width": "ablation: channels of PDNO a(ξ) and FNO on Navier-Stokes (fig. 10)",
}
