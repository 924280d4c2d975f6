"""What the package can do, as runs that start from nothing: the experiments by name.

torch is not imported here, so that `pdno list` and `pdno reproduce --help` answer at once.
"""

__all__ = ["EXPERIMENTS", "PRESETS", "ExperimentName", "Preset", "ReproduceOptions"]

from dataclasses import dataclass
from typing import Literal, get_args

Preset = Literal["smoke", "small", "paper"]
PRESETS: tuple[Preset, ...] = get_args(Preset)

Ablation = Literal["darcy-modes", "darcy-activation", "navier-stokes-width"]
ExperimentName = Literal["heat", "darcy", "navier-stokes", "burgers", "resources", Ablation]

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


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions:
    """The options of `pdno reproduce` and `pdno.reproduce`; no other place lists them."""

    #: smoke takes seconds, small minutes per run, paper is the published protocol.
    preset: Preset = "small"
    seeds: int = 1  #: Number of seeds.
    resolution: int | None = None  #: Points per axis, where the experiment has several.
    models: tuple[str, ...] | None = None  #: Only these networks, by the names of the table.
    #: serial, or ray to spread the runs over a Ray cluster (extra cluster).
    engine: Literal["serial", "ray"] = "serial"
    #: Where to train, for example cuda or cpu; CUDA by default where there is one.
    device: str | None = None
