"""What figures are made of: fields and symbols of a run, kept so that no model is needed later.

`pictures.safetensors` holds, all float32:

    input, target, prediction        test samples, all of them up to a budget, else the first
    error                            relative L2 error of every test sample, (samples,)
    symbol.K.real, symbol.K.imaginary    a2 of block K for the first channel pairs, (O, I, *N^)
    symbol.K.space                   a1 of block K for these pairs, (O, I, *N), where it has one
    heat.learned, heat.exact         Re ā(ξ, t) and e^{-4π²cξ²t}, (T, M)
    heat.xi, heat.times              the modes (M,) and times (T,) of these
    heat.weight                      how strongly the data excite a mode, (T, M)
    heat.space                       a1(x, t) over its mean, (T, N)
"""

__all__ = ["PICTURES", "keep_pictures"]

import json
from pathlib import Path

import torch
from torch import Tensor, nn

from pdno.evaluation.predictor import target_times
from pdno.evaluation.symbol_recovery import SymbolComparison
from pdno.experiments.datasets import ExperimentData
from pdno.metrics import relative_l2
from pdno.networks.neural_operator import NeuralOperator
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.symbols.base import SymbolValues
from pdno.training.checkpoint import write_tensors
from pdno.training.fit import Run
from pdno.training.one_shot import OneShot, SpaceTime

PICTURES = "pictures.safetensors"
MOST_NUMBERS = 2**23
"""Numbers of predictions that are kept: 32 MiB."""
PAIRS = 3
"""Channels, in and out, whose symbols are kept."""
BATCH = 20


def keep_pictures(
    folder: Path, run: Run, samples: ExperimentData, heat: SymbolComparison | None
) -> None:
    """Write the fields and symbols of a run to its folder."""
    tensors = _fields(run, samples)
    for layer, values in enumerate(_symbols(run, samples)):
        tensors |= _symbol(values, f"symbol.{layer}")
    if heat is not None:
        tensors |= {
            "heat.learned": heat.learned.real,
            "heat.exact": heat.exact.real,
            "heat.weight": heat.weight,
            "heat.space": heat.space,
            "heat.xi": heat.xi,
            "heat.times": torch.tensor(heat.times),
        }
    times = target_times(samples.test)
    grid = samples.test.grid
    header = {
        "grid": json.dumps([grid.shape, grid.periodic, grid.offset]),
        "times": json.dumps(times),
    }
    write_tensors(folder / PICTURES, {k: v.float() for k, v in tensors.items()}, header)


def _fields(run: Run, samples: ExperimentData) -> dict[str, Tensor]:
    data = samples.test
    times = target_times(data)
    parts: dict[str, list[Tensor]] = {"input": [], "target": [], "prediction": []}
    errors = []
    for start in range(0, len(data), BATCH):
        inputs, targets = data.batch(range(start, min(start + BATCH, len(data))))
        said = run.model.predict(inputs.to(_device(run.network)), grid=data.grid, times=times)
        errors.append(relative_l2(said.cpu(), targets))
        for name, part in (("input", inputs), ("target", targets), ("prediction", said.cpu())):
            parts[name].append(part)
    whole = {name: torch.cat(part) for name, part in parts.items()}
    per_sample = sum(part[0].numel() for part in whole.values())
    kept = max(1, MOST_NUMBERS // per_sample)
    return {name: part[:kept] for name, part in whole.items()} | {"error": torch.cat(errors)}


def _symbols(run: Run, samples: ExperimentData) -> list[SymbolValues]:
    """The symbols of all blocks, at the last time of the training where they depend on time."""
    task, grid, times = run.model.task, samples.train.grid, target_times(samples.train)
    if isinstance(task, SpaceTime):  # these have one axis more than the pictures
        return []
    last = None
    if isinstance(task, OneShot) and times is not None:
        last = (float(times[-1]) - task.start) / task.span
    with torch.no_grad():
        if isinstance(run.network, NeuralOperator) and last is None:
            return run.network.evaluate_symbols(grid)
        return [operator.values(grid, last) for operator in _operators(run.network)]


def _symbol(values: SymbolValues, name: str) -> dict[str, Tensor]:
    """The first rank term of a symbol, for a few pairs."""
    a2 = values.frequency[0, :PAIRS, :PAIRS].cpu()
    found = {f"{name}.real": a2.real, f"{name}.imaginary": a2.imag}
    if values.space is not None:
        found[f"{name}.space"] = values.space[0, :PAIRS, :PAIRS].cpu()
    return found


def _operators(network: nn.Module) -> list[PseudoDifferentialOperator]:
    return [m for m in network.modules() if isinstance(m, PseudoDifferentialOperator)]


def _device(network: nn.Module) -> torch.device:
    return next(network.parameters()).device
