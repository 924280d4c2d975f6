"""The experiments of the paper as functions: each returns a complete frozen study.

Presets: `smoke` takes seconds and shows only that everything runs; `small` takes minutes per run
on a laptop; `paper` is the published protocol.
"""

from pdno.experiments.recipes.ablations import (
    darcy_activation as darcy_activation,
)
from pdno.experiments.recipes.ablations import (
    darcy_modes as darcy_modes,
)
from pdno.experiments.recipes.ablations import (
    navier_stokes_width as navier_stokes_width,
)
from pdno.experiments.recipes.burgers import burgers as burgers
from pdno.experiments.recipes.darcy import darcy as darcy
from pdno.experiments.recipes.heat import heat as heat
from pdno.experiments.recipes.navier_stokes import navier_stokes as navier_stokes
from pdno.experiments.recipes.study import Study as Study

__all__ = [
    "Study",
    "burgers",
    "darcy",
    "darcy_activation",
    "darcy_modes",
    "heat",
    "navier_stokes",
    "navier_stokes_width",
]
