"""Pseudo-differential neural operators: learn solution operators of differential equations.

The layout shows the flow: fields -> equations -> solvers -> data -> symbols -> operators ->
networks -> training -> evaluation -> report -> experiments -> cli.

Shapes: fields (B, C, *N), trajectories (B, T, C, *N), coordinates (*N, d). B batch, T time,
C channels, *N grid, d dimension. Frequencies ξ are integers, x lies in the unit box.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pdno.data.dataset import OperatorDataset as OperatorDataset
    from pdno.data.dataset import open_dataset as open_dataset
    from pdno.data.generate import generate_dataset as generate_dataset
    from pdno.data.memory import generate as generate
    from pdno.data.public import read_published as read_published
    from pdno.equations.burgers import Burgers as Burgers
    from pdno.equations.darcy import Darcy as Darcy
    from pdno.equations.heat import Heat as Heat
    from pdno.equations.navier_stokes import NavierStokes as NavierStokes
    from pdno.fields.gaussian import GaussianField as GaussianField
    from pdno.fields.two_phase import TwoPhaseField as TwoPhaseField
    from pdno.grid import Grid as Grid
    from pdno.networks.count import count_parameters as count_parameters
    from pdno.networks.fno import FNO as FNO
    from pdno.networks.mwt import MWT as MWT
    from pdno.networks.pdno import PDNO as PDNO
    from pdno.networks.published import load_published as load_published
    from pdno.networks.rollout import rollout as rollout
    from pdno.operators.pseudo_differential import (
        PseudoDifferentialOperator as PseudoDifferentialOperator,
    )
    from pdno.operators.pseudo_differential import apply_symbol as apply_symbol
    from pdno.solvers.solve import solve as solve

# Names are imported when they are first used, so that the command line starts without torch.
_HOMES = {
    "FNO": "pdno.networks.fno",
    "MWT": "pdno.networks.mwt",
    "PDNO": "pdno.networks.pdno",
    "PseudoDifferentialOperator": "pdno.operators.pseudo_differential",
    "apply_symbol": "pdno.operators.pseudo_differential",
    "count_parameters": "pdno.networks.count",
    "load_published": "pdno.networks.published",
    "rollout": "pdno.networks.rollout",
    "Burgers": "pdno.equations.burgers",
    "Darcy": "pdno.equations.darcy",
    "GaussianField": "pdno.fields.gaussian",
    "Grid": "pdno.grid",
    "Heat": "pdno.equations.heat",
    "NavierStokes": "pdno.equations.navier_stokes",
    "OperatorDataset": "pdno.data.dataset",
    "TwoPhaseField": "pdno.fields.two_phase",
    "generate": "pdno.data.memory",
    "generate_dataset": "pdno.data.generate",
    "open_dataset": "pdno.data.dataset",
    "read_published": "pdno.data.public",
    "solve": "pdno.solvers.solve",
}

_PACKAGES = ("data", "equations", "fields", "networks", "operators", "solvers", "symbols")

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"pdno.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'pdno' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
