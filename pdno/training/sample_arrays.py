"""What figures of a trained operator are made of, so that no model is needed later.

All are float32:

    input, target, prediction        samples
    error                            relative L2 error of every test sample, (samples,)
    frame_error                      that of every frame of them, (samples, times)
    symbol.K.real, symbol.K.imaginary    a2 of block K for the first channel pairs, (O, I, *N^)
    symbol.K.space                   a1 of block K for these pairs, (O, I, *N), where it has one
"""

__all__ = ["Pictures", "first_sample", "symbol_pictures", "write_pictures"]

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from pdno.data.dataset import OperatorDataset
from pdno.files import run_folder
from pdno.networks.neural_operator import NeuralOperator
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.spectral.metrics import relative_l2
from pdno.symbols.base import SymbolValues, Time
from pdno.training.checkpoint import write_tensors
from pdno.training.task import OneShot, SpaceTime, TrainedOperator

Pictures = dict[str, Tensor]
PAIRS = 3  # channels, in and out, whose symbols are kept


def first_sample(learner: TrainedOperator, data: OperatorDataset) -> Pictures:
    """The first sample of a dataset and its prediction."""
    inputs, target = data.batch([0])
    prediction = learner.predict(inputs, **data.keyword_arguments([0]))
    error = relative_l2(prediction, target)
    return {"input": inputs, "target": target, "prediction": prediction, "error": error}


def symbol_pictures(learner: TrainedOperator, data: OperatorDataset) -> Pictures:
    """The first rank term of the symbols of all blocks, for a few pairs.

    They are taken at the last time of the data where they depend on time, and in the middle of the
    ranges where they see pde_parameters.
    """
    found: Pictures = {}
    for layer, values in enumerate(_blocks(learner, data)):
        a2 = values.frequency[0, :PAIRS, :PAIRS].cpu()
        found |= {f"symbol.{layer}.real": a2.real, f"symbol.{layer}.imaginary": a2.imag}
        if values.space is not None:
            found[f"symbol.{layer}.space"] = values.space[0, :PAIRS, :PAIRS].cpu()
    return found


@torch.no_grad()
def _blocks(learner: TrainedOperator, data: OperatorDataset) -> list[SymbolValues]:
    task, grid, times = learner.task, data.grid, data.target_times
    if isinstance(task, SpaceTime):  # these have one axis more than the pictures
        return []
    last = [task.scaled_time(float(times[-1]))] if isinstance(task, OneShot) and times else []
    layers = learner.network.modules()
    operators = [one for one in layers if isinstance(one, PseudoDifferentialOperator)]
    # what networks see of pde_parameters is 0 in the middle of their ranges
    numbers = last + [0.0] * max((operator.pde_parameters for operator in operators), default=0)
    if isinstance(learner.network, NeuralOperator) and not numbers:
        return [values.on_grid() for values in learner.network.evaluate_symbols(grid)]
    t: Time = torch.tensor([numbers]) if len(numbers) > 1 else next(iter(numbers), None)
    found = []
    for operator in operators:
        step = t is None and getattr(operator.symbol, "takes_time", False)
        with contextlib.suppress(ValueError):  # a layer on other axes than those of the data
            found.append(operator.values(grid, 1.0 if step else t))  # a step of a semigroup is e^A
    return found


def write_pictures(folder: Path, pictures: Mapping[str, Tensor], data: OperatorDataset) -> None:
    """Write them with the grid and the times of their samples."""
    grid = data.grid
    shown = json.dumps([grid.shape, grid.periodic, grid.offset])
    header = {"grid": shown, "times": json.dumps(data.target_times)}
    kept = {name: picture.float() for name, picture in pictures.items()}
    write_tensors(folder / run_folder.SAMPLES, kept, header)
