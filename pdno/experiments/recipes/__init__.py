"""The experiments of the paper as functions: each returns a complete frozen study.

Presets: `smoke` takes seconds and shows only that everything runs; `small` takes minutes per run
on a laptop; `paper` is the published protocol.
"""

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

from pdno.experiments.recipes.ablations import darcy_activation, darcy_modes, navier_stokes_width
from pdno.experiments.recipes.burgers import burgers
from pdno.experiments.recipes.darcy import darcy
from pdno.experiments.recipes.heat import heat
from pdno.experiments.recipes.navier_stokes import navier_stokes
from pdno.experiments.recipes.study import Study
