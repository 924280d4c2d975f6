"""What is measured and kept of a trained network: errors, other resolutions and times, speed and
symbol as numbers, and what figures are made of, so that no model is needed later.

The pictures are, all float32:

    input, target, prediction        test samples, all of them up to a budget, else the first
    error                            relative L2 error of every test sample, (samples,)
    symbol.K.real, symbol.K.imaginary    a2 of block K for the first channel pairs, (O, I, *N^)
    symbol.K.space                   a1 of block K for these pairs, (O, I, *N), where it has one
    heat.learned, heat.exact         Re ā(ξ, t) and e^{-4π²cξ²t}, (T, M)
    heat.xi, heat.times              the modes (M,) and times (T,) of these
    heat.weight                      how strongly the data excite a mode, (T, M)
    heat.space                       a1(x, t) over its mean, (T, N)
"""

__all__ = ["Part", "learned_diffusivity", "measure"]

from typing import Any

import torch
from torch import Tensor, nn

from pdno.data.problems import HeatProblem
from pdno.evaluation.evaluate import Predictions, evaluate_resolutions, evaluate_times, predict
from pdno.evaluation.speed import compare_speed
from pdno.evaluation.symbol_recovery import SymbolComparison, compare_heat_symbol
from pdno.experiments.datasets import ExperimentData
from pdno.experiments.specification import Experiment
from pdno.grid import Grid
from pdno.metrics import relative_l2
from pdno.networks.neural_operator import NeuralOperator
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.symbols.analytic import Heat
from pdno.symbols.base import SymbolValues
from pdno.theory.recovery import Estimate, recover_diffusivity
from pdno.training.fit import Run
from pdno.training.task import OneShot, SpaceTime

Part = dict[str, Any]
"""Resolution, split and metrics of some rows."""
MOST_XI = 12  # of figure 3
MOST_NUMBERS = 2**23
"""Numbers of predictions that are kept: 32 MiB."""
PAIRS = 3
"""Channels, in and out, whose symbols are kept."""


def measure(
    experiment: Experiment, run: Run, samples: ExperimentData
) -> tuple[list[Part], dict[str, Tensor]]:
    """All numbers of a run, by resolution and split, and its pictures."""
    train, test = predict(run.model, samples.train), predict(run.model, samples.test)
    parts = [
        *_errors(experiment, run, train, test),
        *_other_times(experiment, train, test),
        *_other_resolutions(experiment, run, samples, test),
    ]
    if experiment.problem is not None:
        speed = compare_speed(run.model, samples.test, experiment.problem)
        parts.append(_part(experiment, "speed", speed.metrics()))
    pictures = {**_fields(test), **_symbols(run, samples)}
    heat = _heat_comparison(experiment, run, samples)
    c = learned_diffusivity(experiment, run.network, samples.train.grid)
    if heat is not None and c is not None:
        constant = {"diffusivity": c.value, "diffusivity standard error": c.error}
        parts.append(_part(experiment, "symbol", heat.metrics() | constant))
        pictures |= _heat_pictures(heat)
    return parts, {name: picture.float() for name, picture in pictures.items()}


def _part(experiment: Experiment, split: str, metrics: dict[str, float]) -> Part:
    return {"resolution": experiment.resolution, "split": split, "metrics": metrics}


def _errors(experiment: Experiment, run: Run, train: Predictions, test: Predictions) -> list[Part]:
    on_train, on_test = train.evaluate(), test.evaluate()
    metrics = {**on_test.metrics(), "gap relative_l2": on_test.mean() - on_train.mean()}
    best = run.history[-1].best
    if best is not None:
        metrics["best epoch relative_l2"] = best
    return [_part(experiment, "train", on_train.metrics()), _part(experiment, "test", metrics)]


def _other_times(experiment: Experiment, train: Predictions, test: Predictions) -> list[Part]:
    """Errors at the times of the training and between them."""
    task, times = experiment.task, train.data.target_times
    if not isinstance(task, OneShot) or task.train_every == 1 or times is None:
        return []
    parts = []
    for split, predictions in (("train", train), ("test", test)):
        seen, unseen = evaluate_times(predictions, times[:: task.train_every])
        metrics = {
            "relative_l2 trained times": seen.mean(),
            "relative_l2 other times": unseen.mean(),
        }
        parts.append(_part(experiment, split, metrics))
    return parts


def _other_resolutions(
    experiment: Experiment, run: Run, samples: ExperimentData, test: Predictions
) -> list[Part]:
    """Zero-shot errors beside those of the interpolated prediction."""
    if not experiment.zero_shot:
        return []
    found = evaluate_resolutions(
        run.model,
        samples.finest_test,
        experiment.resolution,
        resolutions=experiment.zero_shot,
        predicted=test,
    )
    return [
        {"resolution": one.resolution, "split": split, "metrics": evaluation.metrics()}
        for one in found
        for split, evaluation in zip(("zero-shot", "interpolated"), one[1:], strict=True)
    ]


def _heat_operator(
    experiment: Experiment, network: nn.Module
) -> tuple[HeatProblem, OneShot, PseudoDifferentialOperator] | None:
    """Problem, task and operator, where one operator alone learns heat."""
    problem, task = experiment.problem, experiment.task
    if not isinstance(problem, HeatProblem) or not isinstance(task, OneShot):
        return None
    return (problem, task, network) if isinstance(network, PseudoDifferentialOperator) else None


def _heat_comparison(
    experiment: Experiment, run: Run, samples: ExperimentData
) -> SymbolComparison | None:
    """The learned symbol against the exact one, where one operator alone learned heat."""
    found = _heat_operator(experiment, run.network)
    if found is None:
        return None
    problem, task, operator = found
    return compare_heat_symbol(
        operator.symbol,
        Heat(diffusivity=problem.diffusivity),
        samples.train.grid,
        problem.times,
        excitation=samples.train.batch()[0],
        seen_times=[task.scaled_time(t) for t in problem.times],
        limit=min(MOST_XI, (samples.train.grid.size - 1) // 2),
    )


def learned_diffusivity(experiment: Experiment, network: nn.Module, grid: Grid) -> Estimate | None:
    """c of e^{-4π²cξ²t} from ā(ξ, t) = mean_x a1(x, t) a2(ξ, t) at the trained times.

    None where the experiment is not that of one operator that learns heat.
    """
    found = _heat_operator(experiment, network)
    if found is None:
        return None
    problem, task, operator = found
    trained = torch.tensor(problem.times[:: task.train_every], dtype=torch.float64)
    with torch.no_grad():
        values = operator.symbol.evaluate(grid, operator.modes, task.scaled_time(trained))
    symbol = values.frequency.flatten(1).to(torch.complex128)
    if values.space is not None:
        symbol = symbol * values.space.flatten(1).double().mean(dim=1, keepdim=True)
    xi = grid.modes(operator.modes)
    return recover_diffusivity(symbol.real.cpu(), xi, trained[:, None])


def _heat_pictures(heat: SymbolComparison) -> dict[str, Tensor]:
    return {
        "heat.learned": heat.learned.real,
        "heat.exact": heat.exact.real,
        "heat.weight": heat.weight,
        "heat.space": heat.space,
        "heat.xi": heat.xi,
        "heat.times": torch.tensor(heat.times),
    }


def _fields(test: Predictions) -> dict[str, Tensor]:
    errors = torch.cat([relative_l2(prediction, target) for prediction, target in test.pairs()])
    first = test.data[0]
    per_sample = first[0].numel() + 2 * first[1].numel()
    kept = min(max(1, MOST_NUMBERS // per_sample), len(test.data))
    inputs, targets = test.data.batch(range(kept))
    prediction = torch.cat(test.batches)[:kept]
    return {"input": inputs, "target": targets, "prediction": prediction, "error": errors}


def _symbols(run: Run, samples: ExperimentData) -> dict[str, Tensor]:
    """The first rank term of the symbols of all blocks, for a few pairs."""
    found: dict[str, Tensor] = {}
    for layer, values in enumerate(_symbol_values(run, samples)):
        a2 = values.frequency[0, :PAIRS, :PAIRS].cpu()
        found |= {f"symbol.{layer}.real": a2.real, f"symbol.{layer}.imaginary": a2.imag}
        if values.space is not None:
            found[f"symbol.{layer}.space"] = values.space[0, :PAIRS, :PAIRS].cpu()
    return found


def _symbol_values(run: Run, samples: ExperimentData) -> list[SymbolValues]:
    """The symbols of all blocks, at the last time of the training where they depend on time."""
    task, grid, times = run.model.task, samples.train.grid, samples.train.target_times
    if isinstance(task, SpaceTime):  # these have one axis more than the pictures
        return []
    last = None
    if isinstance(task, OneShot) and times is not None:
        last = task.scaled_time(float(times[-1]))
    with torch.no_grad():
        if isinstance(run.network, NeuralOperator) and last is None:
            return [values.on_grid() for values in run.network.evaluate_symbols(grid)]
        operators = [m for m in run.network.modules() if isinstance(m, PseudoDifferentialOperator)]
        return [operator.values(grid, last) for operator in operators]
