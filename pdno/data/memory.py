"""Data in memory: draw inputs from the law of an equation and solve it, without a folder."""

__all__ = ["generate", "usual_law"]

from collections.abc import Sequence

import torch

from pdno.data.dataset import OperatorDataset
from pdno.equations.base import EvolutionEquation
from pdno.equations.burgers import Burgers
from pdno.equations.darcy import Darcy
from pdno.equations.heat import Heat
from pdno.equations.navier_stokes import NavierStokes
from pdno.fields.gaussian import GaussianField
from pdno.fields.laws import (
    burgers_initial,
    darcy_permeability,
    heat_initial,
    navier_stokes_initial,
)
from pdno.fields.two_phase import TwoPhaseField
from pdno.grid import Grid
from pdno.progress import track
from pdno.solvers.solve import solve

Law = GaussianField | TwoPhaseField


def generate(
    equation: EvolutionEquation | Darcy,
    grid: Grid,
    *,
    samples: int,
    times: Sequence[float] | None = None,
    seed: int = 0,
    law: Law | None = None,
) -> OperatorDataset:
    """A dataset in memory; for large ones use `pdno generate`, which resumes and uses all cores.

    Arguments:
        equation: What to solve.
        grid: Where; periodic for evolution equations, `Grid.cells` for Darcy's.
        samples: Number of samples.
        times: Times of the frames of an evolution equation.
        seed: Sample i depends on (seed, i) only.
        law: Law of the inputs; None takes the one of the paper.
    """
    if samples < 1:
        raise ValueError(f"samples is {samples}; expected at least 1")
    chosen = law or usual_law(equation)
    inputs, outputs = [], []
    with track(f"generate {type(equation).__name__}", total=samples) as advance:
        for index in range(samples):
            data = chosen.sample(grid, seed=seed, indices=[index])
            inputs.append(data)
            outputs.append(solve(equation, data, times))
            advance(1)
    return OperatorDataset.from_arrays(torch.cat(inputs), torch.cat(outputs), grid, times)


def usual_law(equation: EvolutionEquation | Darcy) -> Law:
    """The law of inputs that the paper draws from for this equation."""
    if isinstance(equation, Heat):
        return heat_initial()
    if isinstance(equation, Burgers):
        return burgers_initial()
    if isinstance(equation, Darcy):
        return darcy_permeability()
    if isinstance(equation, NavierStokes):
        return navier_stokes_initial()
    raise ValueError(f"no usual law of inputs for {type(equation).__name__}: give `law`")
