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
    from pdno.data.own import read_own as read_own
    from pdno.data.public import read_published as read_published
    from pdno.equations.burgers import Burgers as Burgers
    from pdno.equations.darcy import Darcy as Darcy
    from pdno.equations.heat import Heat as Heat
    from pdno.equations.navier_stokes import NavierStokes as NavierStokes
    from pdno.evaluation.evaluate import evaluate as evaluate
    from pdno.evaluation.resolution import evaluate_resolutions as evaluate_resolutions
    from pdno.experiments import recipes as recipes
    from pdno.experiments.reproduce import reproduce as reproduce
    from pdno.experiments.reproduce import run as run
    from pdno.experiments.run import load_run as load_run
    from pdno.experiments.specification import Experiment as Experiment
    from pdno.fields.gaussian import GaussianField as GaussianField
    from pdno.fields.two_phase import TwoPhaseField as TwoPhaseField
    from pdno.grid import Grid as Grid
    from pdno.networks.fno import FNO as FNO
    from pdno.networks.mwt import MWT as MWT
    from pdno.networks.neural_operator import count_parameters as count_parameters
    from pdno.networks.pdno import PDNO as PDNO
    from pdno.networks.published_weights import load_published as load_published
    from pdno.networks.rollout import rollout as rollout
    from pdno.operators.pseudo_differential import (
        PseudoDifferentialOperator as PseudoDifferentialOperator,
    )
    from pdno.operators.pseudo_differential import apply_symbol as apply_symbol
    from pdno.solvers.solve import solve as solve
    from pdno.theory.certificate import certify as certify
    from pdno.theory.extraction import extract_symbol as extract_symbol
    from pdno.theory.lipschitz import lipschitz_report as lipschitz_report
    from pdno.theory.norm_bound import norm_bound as norm_bound
    from pdno.theory.recovery import recover_diffusivity as recover_diffusivity
    from pdno.theory.sobolev import operator_norm as operator_norm
    from pdno.training.fit import fit as fit
    from pdno.training.one_shot import OneShot as OneShot
    from pdno.training.one_shot import SpaceTime as SpaceTime
    from pdno.training.recurrent import Markov as Markov
    from pdno.training.recurrent import Rollout as Rollout
    from pdno.training.recurrent import TeacherForcing as TeacherForcing
    from pdno.training.settings import TrainingSettings as TrainingSettings
    from pdno.training.task import StaticMap as StaticMap

# Names are imported when they are first used, so that the command line starts without torch.
_HOMES = {
    "Burgers": "pdno.equations.burgers",
    "Darcy": "pdno.equations.darcy",
    "Experiment": "pdno.experiments.specification",
    "FNO": "pdno.networks.fno",
    "GaussianField": "pdno.fields.gaussian",
    "Grid": "pdno.grid",
    "Heat": "pdno.equations.heat",
    "MWT": "pdno.networks.mwt",
    "Markov": "pdno.training.recurrent",
    "NavierStokes": "pdno.equations.navier_stokes",
    "OneShot": "pdno.training.one_shot",
    "OperatorDataset": "pdno.data.dataset",
    "PDNO": "pdno.networks.pdno",
    "PseudoDifferentialOperator": "pdno.operators.pseudo_differential",
    "Rollout": "pdno.training.recurrent",
    "SpaceTime": "pdno.training.one_shot",
    "StaticMap": "pdno.training.task",
    "TeacherForcing": "pdno.training.recurrent",
    "TrainingSettings": "pdno.training.settings",
    "TwoPhaseField": "pdno.fields.two_phase",
    "apply_symbol": "pdno.operators.pseudo_differential",
    "certify": "pdno.theory.certificate",
    "count_parameters": "pdno.networks.neural_operator",
    "evaluate": "pdno.evaluation.evaluate",
    "evaluate_resolutions": "pdno.evaluation.resolution",
    "extract_symbol": "pdno.theory.extraction",
    "fit": "pdno.training.fit",
    "generate": "pdno.data.memory",
    "generate_dataset": "pdno.data.generate",
    "lipschitz_report": "pdno.theory.lipschitz",
    "load_published": "pdno.networks.published_weights",
    "load_run": "pdno.experiments.run",
    "norm_bound": "pdno.theory.norm_bound",
    "open_dataset": "pdno.data.dataset",
    "operator_norm": "pdno.theory.sobolev",
    "read_own": "pdno.data.own",
    "read_published": "pdno.data.public",
    "recover_diffusivity": "pdno.theory.recovery",
    "reproduce": "pdno.experiments.reproduce",
    "rollout": "pdno.networks.rollout",
    "run": "pdno.experiments.reproduce",
    "solve": "pdno.solvers.solve",
}

_PACKAGES = {
    name: f"pdno.{name}"
    for name in (
        "data",
        "equations",
        "evaluation",
        "fields",
        "networks",
        "operators",
        "solvers",
        "symbols",
        "theory",
        "training",
    )
} | {"recipes": "pdno.experiments.recipes"}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in ("certify", "theory"):
        import_module("pdno.theory.certificate").Certificate.draw = _draw_certificate
    if name in _PACKAGES:
        return import_module(_PACKAGES[name])
    if name not in _HOMES:
        raise AttributeError(f"module 'pdno' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def _draw_certificate(*given: Any, **options: Any) -> Any:
    """Theory does not import the report: the figures of its certificates are handed in here."""
    return import_module("pdno.report.certificate").plot_certificate(*given, **options)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
