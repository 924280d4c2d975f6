"""What the package can do, as runs that start from nothing: the experiments by name.

torch is not imported here, so that `pdno list` and `pdno reproduce --help` answer at once.
"""

__all__ = [
    "EXPERIMENTS",
    "PRESETS",
    "RECIPES",
    "ExperimentName",
    "Preset",
    "ReproduceOptions",
    "presets_of",
]

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import lazy_loader

Preset = Literal["smoke", "small", "best", "paper"]
PRESETS: tuple[Preset, ...] = get_args(Preset)

Ablation = Literal["darcy-modes", "darcy-activation", "navier-stokes-width"]
Curves = Literal["darcy-samples"]
Training = Literal["darcy-training", "burgers-training", "navier-stokes-training"]
Certified = Literal["burgers-rollout"]
Problem = Literal["heat", "darcy", "navier-stokes", "burgers"]
Family = Literal["heat-family", "navier-stokes-family"]
ExperimentName = Literal[Problem, "resources", Ablation, Curves, Training, Family, Certified]

EXPERIMENTS: dict[ExperimentName, str] = {
    "heat": "one operator learns the heat equation, its symbol against the exact one (fig. 3)",
    "darcy": "Darcy flow at five resolutions: PDNO a(x,ξ), PDNO a(ξ), MWT, FNO (table 1)",
    "navier-stokes": "four Navier-Stokes datasets, six networks (table 2, fig. 1)",
    "burgers": "Burgers at five resolutions, five networks (table 3)",
    "resources": "memory, parameters and seconds per epoch (table 6)",
    "darcy-modes": "ablation: kept modes k_max on Darcy (fig. 9)",
    "darcy-activation": "ablation: GELU against ReLU symbol networks on Darcy (fig. 11)",
    "navier-stokes-width": "ablation: channels of PDNO a(ξ) and FNO on Navier-Stokes (fig. 10)",
    "darcy-samples": "learning curves on Darcy: error against 50 to 1000 samples, equal steps",
    "darcy-training": "what pays in training on Darcy: Muon, symmetries, padding, symbols, ...",
    "burgers-training": "what pays in training on Burgers",
    "navier-stokes-training": "what pays in training on Navier-Stokes, 100 CPU seconds each",
    "heat-family": "one operator for heat with any diffusivity, its symbol e^{-4π²|ξ|²ct}",
    "navier-stokes-family": "one operator for viscosities 1e-5 to 1e-3: a(ξ,ν) against FNO",
    "burgers-rollout": "a step e^A u + B σ(W u + b), and how long its rollouts are guaranteed",
}

RECIPES: dict[str, Callable[..., Any]] = {}
"""Experiments of other packages, by name; `pdno.register` puts them here."""


def presets_of(experiment: str) -> tuple[Preset, ...]:
    """The presets of an experiment: learning curves, what pays in training, families and what is
    certified are not in the paper, and only the four problems have a flagship."""
    ours = (Curves, Training, Family, Certified)
    if experiment in [name for kind in ours for name in get_args(kind)]:
        return ("smoke", "small")
    return PRESETS if experiment in get_args(Problem) else ("smoke", "small", "paper")


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions:
    """The options of `pdno reproduce` and `pdno.reproduce`; no other place lists them."""

    #: smoke takes seconds, small minutes per run, best hours; paper is the published protocol.
    preset: Preset = "small"
    seeds: int = 1  #: Number of seeds.
    resolution: int | None = None  #: Points per axis, where the experiment has several.
    viscosity: float | None = None  #: Of Navier-Stokes: only the data with this one.
    models: tuple[str, ...] | None = None  #: Only these, by the names of the table; xi is ξ.
    #: serial, or ray to spread the runs over a Ray cluster (extra cluster).
    engine: Literal["serial", "ray"] = "serial"
    #: Where to train, for example cuda or cpu; CUDA by default where there is one.
    device: str | None = None


__getattr__, _, _ = lazy_loader.attach(__name__, submodules=["recipes"])
