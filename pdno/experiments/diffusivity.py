"""The diffusivity that the heat experiment has learned, read off its symbol."""

__all__ = ["learned_diffusivity"]

import torch
from torch import nn

from pdno.data.problems import HeatProblem
from pdno.experiments.specification import Experiment
from pdno.grid import Grid
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.theory.recovery import Estimate, recover_diffusivity
from pdno.training.one_shot import OneShot


def learned_diffusivity(
    experiment: Experiment, operator: nn.Module, grid: Grid
) -> Estimate | None:
    """c of e^{-4π²cξ²t} from ā(ξ, t) = mean_x a1(x, t) a2(ξ, t) at the trained times.

    None where the experiment is not that of one operator that learns heat.
    """
    problem, task = experiment.problem, experiment.task
    if not isinstance(problem, HeatProblem) or not isinstance(task, OneShot):
        return None
    if not isinstance(operator, PseudoDifferentialOperator):
        return None
    trained = torch.tensor(problem.times[:: task.train_every], dtype=torch.float64)
    with torch.no_grad():
        seen = (trained - task.start) / task.span
        values = operator.symbol.evaluate(grid, operator.modes, seen)
    symbol = values.frequency.flatten(1).to(torch.complex128)
    if values.space is not None:
        symbol = symbol * values.space.flatten(1).double().mean(dim=1, keepdim=True)
    xi = grid.modes(operator.modes)
    return recover_diffusivity(symbol.real.cpu(), xi, trained[:, None])
