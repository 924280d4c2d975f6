"""The metrics of a trained operator, and the sample arrays that figures are drawn from.

The sample arrays are those of `pdno.training.operator_record`, of test samples up to a limit, and

    heat.learned, heat.exact         Re ā(ξ, t) and e^{-4π²cξ²t}, (T, M)
    heat.xi, heat.times              their modes (M,) and times (T,)
    heat.weight                      how strongly the data excite a mode, (T, M)
    heat.space                       a1(x, t) over its mean, (T, N)

Operators of a family of equations, whose samples have PDE parameters, have further metrics:

    by scalar   errors of the test samples in four parts of the range, equal in log μ (or μ)
    outside     errors of samples whose parameter lies beyond the range by up to a factor 2, and at
                times up to twice the last one where any time may be predicted
    symbol      for heat: the learned e^{-4π²|ξ|²ct} against the exact one at five c of the range
"""

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import nn

from pdno.data.dataset import OperatorDataset
from pdno.data.problems import HeatProblem, Problem
from pdno.evaluation.evaluate import (
    Predictions,
    evaluate,
    evaluate_resolutions,
    evaluate_times,
    predict,
)
from pdno.evaluation.speed import coarse_solves, compare_speed
from pdno.evaluation.symbol_recovery import SymbolComparison, compare_heat_symbol, roughness
from pdno.networks.heads import Transport
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.runs.datasets import ExperimentData, unseen_samples
from pdno.runs.specification import Experiment
from pdno.spectral.grid import Grid
from pdno.spectral.metrics import relative_l2
from pdno.symbols.analytic import HeatSymbol
from pdno.theory.extraction import Estimate, recover_diffusivity
from pdno.training.operator_record import SampleArrays, symbol_arrays
from pdno.training.task import OneShot
from pdno.training.trained_operator import TrainedOperator

Part = tuple[int, str, dict[str, float]]
"""Resolution, split and values of some metrics."""
MOST_XI = 12  # of figure 3
MOST_VALUES = 2**23  # of predictions that are kept: 32 MiB
PARTS_OF_RANGE = 4
DIFFUSIVITIES = 5  # at which the learned symbol of a family is compared
BEYOND = 2.0  # the factor by which samples outside leave the range at most


def measure(
    experiment: Experiment, operator: TrainedOperator, samples: ExperimentData
) -> tuple[list[Part], SampleArrays]:
    """All metrics of a run, by resolution and split, and its sample arrays."""
    train, test = predict(operator, samples.train), predict(operator, samples.test)
    parts = [*_errors(experiment, operator, samples, train, test)]
    for at in evaluate_resolutions(
        operator,
        samples.finest_test,
        experiment.resolution,
        resolutions=experiment.zero_shot,
        predicted=test,
    ):
        parts.append((at.resolution, "zero-shot", at.zero_shot.metrics()))
        parts.append((at.resolution, "interpolated", at.interpolated.metrics()))
    parts += _on_solver(experiment, operator, samples, test)
    grid, times = samples.train.grid, samples.train.target_times
    symbols = symbol_arrays(operator.network, operator.task, grid, times)
    real = [symbol for name, symbol in symbols.items() if name.endswith(".real")]
    rough = {f"block {k}": roughness(symbol) for k, symbol in enumerate(real, start=1)}
    parts.append((experiment.resolution, "roughness", rough))
    arrays = _fields(test)
    c = learned_diffusivity(experiment, operator.network, samples.train.grid)
    if c is not None:
        comparison = _compare_heat(experiment, operator, samples.train)
        values = {"diffusivity": c.value, "diffusivity standard error": c.error}
        parts.append((experiment.resolution, "symbol", {**comparison.metrics(), **values}))
        arrays |= _heat_arrays(comparison)
    return parts, arrays


def _errors(
    experiment: Experiment,
    operator: TrainedOperator,
    samples: ExperimentData,
    train: Predictions,
    test: Predictions,
) -> Iterator[Part]:
    """Errors on all splits, and apart at the times of the training and between them."""
    points, task = experiment.resolution, experiment.task
    last = operator.history[-1]
    on_train, on_test = train.evaluate(), test.evaluate()
    values = {**on_test.metrics(), "gap relative_l2": on_test.mean() - on_train.mean()}
    if last.best is not None:
        values["best epoch relative_l2"] = last.best
    yield points, "train", on_train.metrics()
    yield points, "test", values
    times = train.data.target_times
    if isinstance(task, OneShot) and task.train_every > 1 and times is not None:
        for split, predictions in (("train", train), ("test", test)):
            trained, other = evaluate_times(predictions, times[:: task.train_every])
            yield (
                points,
                split,
                {
                    "relative_l2 trained times": trained.mean(),
                    "relative_l2 other times": other.mean(),
                },
            )
    if samples.validation is not None:
        on_validation = evaluate(operator, samples.validation)
        yield points, "validation", on_validation.metrics()
    record = operator.training_record
    assert record is not None
    effort = {"cpu seconds": record.cpu_seconds, "steps": last.step, "epochs": last.epoch}
    yield points, "training", effort


def _on_solver(
    experiment: Experiment, operator: TrainedOperator, samples: ExperimentData, test: Predictions
) -> Iterator[Part]:
    """What needs a solver or PDE parameters: speed, coarse solutions, families, the viscosity."""
    points, problem = experiment.resolution, experiment.problem
    if problem is not None:
        speed = compare_speed(operator, samples.test, problem)
        yield points, "speed", speed.metrics()
        for n, values in coarse_solves(samples.test, problem).items():
            yield n, "solver", values
    if problem is not None and problem.vary:
        yield points, "by scalar", _by_parameter(problem, test)
        yield points, "outside", _outside(experiment, operator, problem)
        if isinstance(problem, HeatProblem) and isinstance(
            operator.network, PseudoDifferentialOperator
        ):
            yield points, "symbol", _symbols_of_family(experiment, operator, samples.train)
    head = getattr(operator.network, "head", None)
    if isinstance(head, Transport) and head.log_c is not None:
        first, second = (samples.train.times or ())[:2]
        spread = float(head.c.detach().mean()) / (second - first)
        yield points, "symbol", {"diffusivity": spread}


def learned_diffusivity(experiment: Experiment, network: nn.Module, grid: Grid) -> Estimate | None:
    """c of e^{-4π²cξ²t} from ā(ξ, t) = mean_x a1(x, t) a2(ξ, t) at the trained times.

    None where the experiment is not that of one operator that learns heat.
    """
    problem, task, operator = experiment.problem, experiment.task, network
    if (
        not isinstance(problem, HeatProblem)
        or problem.vary
        or not isinstance(task, OneShot)
        or not isinstance(operator, PseudoDifferentialOperator)
    ):
        return None
    trained = torch.tensor(problem.times[:: task.train_every], dtype=torch.float64)
    with torch.no_grad():
        values = operator.symbol.evaluate(grid, operator.modes, task.scaled_time(trained))
    symbol = values.frequency.flatten(1).to(torch.complex128)
    if values.space is not None:
        symbol = symbol * values.space.flatten(1).double().mean(dim=1, keepdim=True)
    return recover_diffusivity(symbol.real.cpu(), grid.modes(operator.modes), trained[:, None])


def _compare_heat(
    experiment: Experiment,
    operator: TrainedOperator,
    data: OperatorDataset,
    c: float | None = None,
) -> SymbolComparison:
    """The learned symbol of heat against the exact one, of a family that at the diffusivity c."""
    problem, task, network = experiment.problem, experiment.task, operator.network
    assert isinstance(problem, HeatProblem) and isinstance(task, OneShot)
    assert isinstance(network, PseudoDifferentialOperator)
    times = task.scaled_time(torch.tensor(problem.times, dtype=torch.float64))
    scale = operator.pde_scale
    if c is not None and scale is not None:
        parameter = scale(torch.tensor([[c]], dtype=torch.float64)).cpu()
        times = torch.cat([times[:, None], parameter.expand(len(times), 1)], dim=1)
    return compare_heat_symbol(
        network.symbol,
        HeatSymbol(diffusivity=problem.diffusivity if c is None else c),
        data.grid,
        problem.times,
        excitation=data.batch()[0],
        network_times=times,
        limit=min(MOST_XI, (data.grid.size - 1) // 2),
    )


def _heat_arrays(heat: SymbolComparison) -> SampleArrays:
    arrays = {"learned": heat.learned.real, "exact": heat.exact.real, "weight": heat.weight}
    arrays |= {"space": heat.space, "xi": heat.xi, "times": torch.tensor(heat.times)}
    return {f"heat.{name}": array for name, array in arrays.items()}


def _symbols_of_family(
    experiment: Experiment, operator: TrainedOperator, data: OperatorDataset
) -> dict[str, float]:
    """The largest differences of the symbol at several c, where data excite it and anywhere."""
    assert experiment.problem is not None
    largest: dict[str, float] = {}
    ends = experiment.problem.vary["diffusivity"]
    for c in _between(*ends, DIFFUSIVITIES - 1):
        values = _compare_heat(experiment, operator, data, c).metrics()
        for name in ("symbol difference", "symbol difference excited"):
            largest[name] = max(largest.get(name, 0.0), values[name])
        largest[f"symbol difference excited c={c:.3g}"] = values["symbol difference excited"]
    return largest


def _between(low: float, high: float, parts: int) -> list[float]:
    """Points from low to high in equal steps of log μ, of μ where it is not positive."""
    steps = [k / parts for k in range(parts + 1)]
    if low > 0:
        return [low * (high / low) ** s for s in steps]
    return [low + (high - low) * s for s in steps]


def _by_parameter(problem: Problem, test: Predictions) -> dict[str, float]:
    errors, parameters = test.evaluate().values(), test.data.pde_parameters()
    assert parameters is not None
    values = {}
    for column, (name, ends) in zip(parameters.unbind(dim=1), problem.vary.items(), strict=True):
        for low, high in pairwise(_between(*ends, PARTS_OF_RANGE)):
            inside = (column >= low) & (column <= high)
            if bool(inside.any()):
                key = f"relative_l2 {name} {low:.3g} to {high:.3g}"
                values[key] = float(errors[inside].mean())
    return values


def _outside(
    experiment: Experiment, operator: TrainedOperator, problem: Problem
) -> dict[str, float]:
    count, seed = min(8 if problem.dim > 1 else 20, experiment.test), problem.seed + 1

    def error(changed: Problem, after: float | None = None) -> float:
        data = unseen_samples(experiment, count, changed, seed=seed, after=after)
        return evaluate(operator, data, orders=()).mean()

    values = {}
    for name, (low, high) in problem.vary.items():
        for a, b in [(low / BEYOND, low), (high, BEYOND * high)] if low > 0 else []:
            changed = problem.model_copy(update={"vary": {**problem.vary, name: (a, b)}})
            values[f"relative_l2 {name} {a:.3g} to {b:.3g}"] = error(changed)
    if operator.task.times_wanted == "any" and problem.times is not None:
        last = problem.times[-1]
        later = problem.model_copy(update={"final_time": BEYOND * last, "frames": 8})
        values[f"relative_l2 t {last:g} to {BEYOND * last:g}"] = error(later, after=last)
    return values


def _fields(test: Predictions) -> SampleArrays:
    """Errors of all test samples; the first ones with their predictions, up to a limit."""
    errors = torch.cat([relative_l2(prediction, target) for prediction, target in test.pairs()])
    arrays, first = {"error": errors}, test.data[0]
    if test.data.target_times is not None:
        frames = [relative_l2(*(u.flatten(0, 1) for u in pair)) for pair in test.pairs()]
        arrays["frame_error"] = torch.cat(frames).reshape(len(errors), -1)
    per_sample = first[0].numel() + 2 * first[1].numel()
    kept = min(max(1, MOST_VALUES // per_sample), len(test.data))
    inputs, targets = test.data.batch(range(kept))
    prediction = torch.cat(test.batches)[:kept]
    return {"input": inputs, "target": targets, "prediction": prediction, **arrays}
