"""Pseudo-differential neural operators: learn solution operators of differential equations.

Shapes: fields (B, C, *N), trajectories (B, T, C, *N), coordinates (*N, d). B batch, T time,
C channels, *N grid, d dimension. Frequencies ξ are integers, x lies in the unit box.

The public names are the imports below. They are made when a name is first used, so that the
command line starts without torch; type checkers see them as they stand.
"""

import ast
import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pdno.interface import display as _display

if TYPE_CHECKING:
    from pdno.data.dataset import OperatorDataset as OperatorDataset
    from pdno.data.dataset import open_dataset as open_dataset
    from pdno.data.generate import generate as generate
    from pdno.data.generate import generate_dataset as generate_dataset
    from pdno.data.import_published import read_published as read_published
    from pdno.data.own import read_own as read_own
    from pdno.data.well import open_well as open_well
    from pdno.data.well import save_well as save_well
    from pdno.equations.burgers import Burgers as Burgers
    from pdno.equations.darcy import Darcy as Darcy
    from pdno.equations.heat import Heat as Heat
    from pdno.equations.navier_stokes import NavierStokes as NavierStokes
    from pdno.evaluation.evaluate import evaluate as evaluate
    from pdno.evaluation.evaluate import evaluate_resolutions as evaluate_resolutions
    from pdno.exports.export import export as export
    from pdno.fields.distributions import TwoPhaseField as TwoPhaseField
    from pdno.fields.gaussian import GaussianField as GaussianField
    from pdno.networks.fno import FNO as FNO
    from pdno.networks.mwt import MWT as MWT
    from pdno.networks.neural_operator import count_parameters as count_parameters
    from pdno.networks.pdno import PDIO as PDIO
    from pdno.networks.pdno import PDNO as PDNO
    from pdno.networks.published_weights import load_published as load_published
    from pdno.networks.rollout import rollout as rollout
    from pdno.operators.pseudo_differential import (
        PseudoDifferentialOperator as PseudoDifferentialOperator,
    )
    from pdno.operators.pseudo_differential import apply_symbol as apply_symbol
    from pdno.paper.reproduce import reproduce as reproduce
    from pdno.paper.reproduce import run as run
    from pdno.runs.plugins import register as register
    from pdno.runs.run import load as load
    from pdno.runs.run import load_run as load_run
    from pdno.runs.specification import Experiment as Experiment
    from pdno.solvers.solve import solve as solve
    from pdno.spectral.grid import Grid as Grid
    from pdno.theory.certificate import certify as certify
    from pdno.theory.extraction import extract_symbol as extract_symbol
    from pdno.theory.lipschitz import lipschitz_report as lipschitz_report
    from pdno.theory.norm_bound import norm_bound as norm_bound
    from pdno.theory.recovery import recover_diffusivity as recover_diffusivity
    from pdno.theory.sobolev import operator_norm as operator_norm
    from pdno.training.ensemble import Ensemble as Ensemble
    from pdno.training.ensemble import fit_ensemble as fit_ensemble
    from pdno.training.error_bars import ErrorBars as ErrorBars
    from pdno.training.fit import fit as fit
    from pdno.training.settings import TrainingSettings as TrainingSettings
    from pdno.training.task import Markov as Markov
    from pdno.training.task import OneShot as OneShot
    from pdno.training.task import Rollout as Rollout
    from pdno.training.task import SpaceTime as SpaceTime
    from pdno.training.task import StaticMap as StaticMap
    from pdno.training.task import TeacherForcing as TeacherForcing

_HOMES = {
    name.name: statement.module or ""
    for statement in ast.walk(ast.parse(pkgutil.get_data(__name__, "__init__.py") or b""))
    if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("pdno.")
    for name in statement.names
}
_PACKAGES = {"data", "equations", "evaluation", "fields", "networks", "operators", "solvers"}
_PACKAGES |= {"symbols", "theory", "training"}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("pdno")
    if name in _PACKAGES:
        return import_module(f"pdno.{name}")
    if name == "recipes":
        return import_module("pdno.paper.recipes")
    if name not in _HOMES:
        raise AttributeError(f"module 'pdno' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def _figures(name: str) -> Any:
    return getattr(import_module("pdno.figures.views"), name)


_display.figures = _figures


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
