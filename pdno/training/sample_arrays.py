"""Sample arrays: what figures of a trained operator are made of, so that none is needed later.

All are float32:

    input, target, prediction        samples
    error                            relative L2 error of every test sample, (samples,)
    frame_error                      that of every frame of them, (samples, times)
    symbol.K.real, symbol.K.imaginary    a2 of block K for the first channel pairs, (O, I, *N^)
    symbol.K.space                   a1 of block K for these pairs, (O, I, *N), where it has one
"""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor, nn

from pdno.files import run_folder
from pdno.networks.neural_operator import NeuralOperator
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.spectral.grid import Grid
from pdno.symbols.base import SymbolValues, Time
from pdno.training.checkpoint import write_tensors
from pdno.training.task import OneShot, SpaceTime, Task, Times

SampleArrays = dict[str, Tensor]
PAIRS = 3  # channels, in and out, whose symbols are kept


def symbol_arrays(network: nn.Module, task: Task, grid: Grid, times: Times) -> SampleArrays:
    """The first rank term of the symbols of all blocks, for a few pairs of channels.

    They are taken at the last time where they depend on time, and in the middle of the ranges
    where they see PDE parameters.
    """
    arrays: SampleArrays = {}
    for layer, values in enumerate(_values(network, task, grid, times)):
        a2 = values.frequency[0, :PAIRS, :PAIRS].cpu()
        arrays |= {f"symbol.{layer}.real": a2.real, f"symbol.{layer}.imaginary": a2.imag}
        if values.space is not None:
            arrays[f"symbol.{layer}.space"] = values.space[0, :PAIRS, :PAIRS].cpu()
    return arrays


@torch.no_grad()
def _values(network: nn.Module, task: Task, grid: Grid, times: Times) -> list[SymbolValues]:
    if isinstance(task, SpaceTime):  # these have one axis more than the arrays
        return []
    last = [task.scaled_time(float(times[-1]))] if isinstance(task, OneShot) and times else []
    modules = network.modules()
    operators = [module for module in modules if isinstance(module, PseudoDifferentialOperator)]
    # what networks see of PDE parameters is 0 in the middle of their ranges
    numbers = last + [0.0] * max((operator.pde_parameters for operator in operators), default=0)
    if isinstance(network, NeuralOperator) and not numbers:
        return [values.on_grid() for values in network.evaluate_symbols(grid)]
    t: Time = torch.tensor([numbers]) if len(numbers) > 1 else next(iter(numbers), None)
    blocks = []
    for operator in operators:
        step = t is None and getattr(operator.symbol, "takes_time", False)
        with contextlib.suppress(ValueError):  # a layer on other axes than those of the data
            blocks.append(operator.values(grid, 1.0 if step else t))  # a step of a semigroup: e^A
    return blocks


def write_sample_arrays(
    folder: Path, arrays: Mapping[str, Tensor], grid: Grid, times: Times
) -> None:
    """Write them with the grid and the times of their samples."""
    header = {"grid": json.dumps(asdict(grid)), "times": json.dumps(times)}
    single = {name: array.float() for name, array in arrays.items()}
    write_tensors(folder / run_folder.SAMPLES, single, header)
