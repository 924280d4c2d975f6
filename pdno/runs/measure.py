"""Metrics of a trained operator, and the sample arrays that figures show.

For heat the arrays are, beside those of `pdno.training.operator_record`, heat.learned and
heat.exact, Re ā(ξ, t) and e^{-4π²cξ²t}, and heat.weight, how strongly the data excite a mode, all
(T, M), heat.xi (M,), heat.times (T,) and heat.space, a1(x, t) over its mean, (T, N).
For flows with a learned velocity they are velocity.learned and velocity.exact, Im b(ξ), (2, M),
velocity.weight (M,) and velocity.xi (M, 2).

Operators of a family of equations have more splits: "by scalar", errors in four parts of the
range; "outside", errors beyond it by up to a factor 2, and at times up to twice the last;
"symbol", for heat the learned symbol against the exact one at five c of the range.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise

import torch
from torch import nn

from pdno.data.dataset import OperatorDataset
from pdno.data.problems import HeatProblem, NavierStokesProblem, Problem
from pdno.evaluation import symbol_recovery
from pdno.evaluation.evaluate import Evaluation, evaluate, evaluate_resolutions
from pdno.evaluation.speed import coarse_solves, compare_speed
from pdno.networks.heads import Transport
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.runs.specification import Experiment, ExperimentData, unseen_samples
from pdno.spectral.grid import Grid
from pdno.symbols.analytic import HeatSymbol
from pdno.theory.extraction import Estimate, recover_diffusivity
from pdno.training.operator_record import SampleArrays, symbol_arrays
from pdno.training.task import OneShot
from pdno.training.trained_operator import TrainedOperator

Values = dict[str, float]
MOST_XI = 12  # of figure 3
MOST_VALUES = 2**23  # of predictions that are kept: 32 MiB
PARTS_OF_RANGE = 4
EXCITING = 40  # samples whose input frames excite the modes of a velocity law
DIFFUSIVITIES = 5  # at which the learned symbol of a family is compared
BEYOND = 2.0  # the factor by which samples outside leave the range at most


def measure(
    experiment: Experiment, operator: TrainedOperator, samples: ExperimentData
) -> tuple[list[tuple[int, str, Values]], SampleArrays]:
    """Metrics of a run as (resolution, split, values), and its sample arrays."""
    points, problem, data = experiment.resolution, experiment.problem, samples.train
    splits = {"train": data, "test": samples.test, "validation": samples.validation}
    errors = {k: evaluate(operator, d, keep=k == "test") for k, d in splits.items() if d}
    parts = [(points, *part) for part in _errors(operator, errors)]
    test = errors["test"]
    for at in evaluate_resolutions(
        operator, samples.finest_test, points, resolutions=experiment.zero_shot, evaluation=test
    ):
        parts.append((at.resolution, "zero-shot", at.zero_shot.metrics()))
        parts.append((at.resolution, "interpolated", at.interpolated.metrics()))
    if problem is not None:
        parts.append((points, "speed", compare_speed(operator, samples.test, problem)))
        coarse = coarse_solves(samples.test, problem)
        parts += [(n, "solver", values) for n, values in coarse.items()]
        if problem.vary:
            parts.append((points, "by scalar", _by_parameter(problem, test, samples.test)))
            parts.append((points, "outside", dict(_outside(experiment, operator, problem))))
    symbols = symbol_arrays(operator.network, operator.task, data.grid, data.target_times)
    real = [symbol for name, symbol in symbols.items() if name.endswith(".real")]
    rough = {f"block {k}": symbol_recovery.roughness(a) for k, a in enumerate(real, start=1)}
    values, arrays = _symbol(experiment, operator, data)
    parts += [(points, "roughness", rough), (points, "symbol", values)]
    return parts, {**_fields(test, samples.test), **symbols, **arrays}


def _errors(
    operator: TrainedOperator, errors: Mapping[str, Evaluation]
) -> Iterator[tuple[str, Values]]:
    """Errors by split, and apart at the times of the training and between them."""
    task, last, record = operator.task, operator.history[-1], operator.training_record
    more = {"gap relative_l2": errors["test"].mean() - errors["train"].mean()}
    more |= {} if last.best is None else {"best epoch relative_l2": last.best}
    for split, error in errors.items():
        yield split, error.metrics() | (more if split == "test" else {})
        times = error.times
        if isinstance(task, OneShot) and task.train_every > 1 and times and split != "validation":
            trained, other = error.split_times(times[:: task.train_every])
            yield split, {"relative_l2 trained times": trained}
            yield split, {"relative_l2 other times": other}
    assert record is not None
    effort = {"cpu seconds": record.cpu_seconds, "steps": last.step, "epochs": last.epoch}
    yield "training", effort


def _between(low: float, high: float, parts: int) -> list[float]:
    """Points from low to high in equal steps of log μ, of μ where it is not positive."""
    steps = [k / parts for k in range(parts + 1)]
    return [low * (high / low) ** s if low > 0 else low + (high - low) * s for s in steps]


def _by_parameter(problem: Problem, test: Evaluation, data: OperatorDataset) -> Values:
    errors, parameters = test.values(), data.pde_parameters()
    assert parameters is not None
    values = {}
    for column, (name, ends) in zip(parameters.unbind(dim=1), problem.vary.items(), strict=True):
        for low, high in pairwise(_between(*ends, PARTS_OF_RANGE)):
            if len(inside := errors[(column >= low) & (column <= high)]):
                values[f"relative_l2 {name} {low:.3g} to {high:.3g}"] = float(inside.mean())
    return values


def _outside(
    experiment: Experiment, operator: TrainedOperator, problem: Problem
) -> Iterator[tuple[str, float]]:
    count, seed = min(8 if problem.dim > 1 else 20, experiment.test), problem.seed + 1

    def errors(**changes: object) -> Evaluation:
        other = problem.model_copy(update=changes)
        return evaluate(operator, unseen_samples(experiment, count, other, seed=seed))

    for name, (low, high) in problem.vary.items():
        for a, b in [(low / BEYOND, low), (high, BEYOND * high)] if low > 0 else []:
            outside = errors(vary={**problem.vary, name: (a, b)})
            yield f"relative_l2 {name} {a:.3g} to {b:.3g}", outside.mean()
    if operator.task.times_wanted == "any" and problem.times is not None:
        last = problem.times[-1]
        later = errors(final_time=BEYOND * last, frames=8)
        _, beyond = later.split_times([t for t in later.times or () if t <= last])
        yield f"relative_l2 t {last:g} to {BEYOND * last:g}", beyond


def _symbol(
    experiment: Experiment, operator: TrainedOperator, data: OperatorDataset
) -> tuple[Values, SampleArrays]:
    """What a transport head learned, or the learned symbol of heat against the exact one."""
    problem, network = experiment.problem, operator.network
    head = getattr(network, "head", None)
    if isinstance(head, Transport):
        return _transport(head, operator, data, isinstance(problem, NavierStokesProblem))
    if (c := learned_diffusivity(experiment, network, data.grid)) is not None:
        heat = _compare_heat(experiment, operator, data)
        arrays = {"learned": heat.learned.real, "exact": heat.exact.real, "weight": heat.weight}
        arrays |= {"space": heat.space, "xi": heat.xi, "times": torch.tensor(heat.times)}
        values = {"diffusivity": c.value, "diffusivity standard error": c.error}
        named = {f"heat.{name}": array for name, array in arrays.items()}
        return {**heat.metrics(), **values}, named
    largest: Values = {}
    heats = isinstance(problem, HeatProblem) and isinstance(network, PseudoDifferentialOperator)
    ends = problem.vary.get("diffusivity") if problem and heats else None
    for at in _between(*ends, DIFFUSIVITIES - 1) if ends else []:
        values = _compare_heat(experiment, operator, data, at).metrics()
        for name in ("symbol difference", "symbol difference excited"):
            largest[name] = max(largest.get(name, 0.0), values[name])
        largest[f"symbol difference excited c={at:.3g}"] = values["symbol difference excited"]
    return largest, {}


def _transport(
    head: Transport, operator: TrainedOperator, data: OperatorDataset, vorticity: bool
) -> tuple[Values, SampleArrays]:
    """The diffusivity of a transport head, and its velocity law, of a vorticity, where learned."""
    values, arrays = Values(), SampleArrays()
    if head.log_c is not None:
        first, second = (data.times or ())[:2]
        values["diffusivity"] = float(head.c.detach().mean()) / (second - first)
    if vorticity and head.options.velocity == "learned":
        std = 1.0 if operator.inputs is None else float(operator.inputs.std)
        frames = data.batch(range(min(len(data), EXCITING)))[0].flatten(0, 1)[:, None]
        compare = symbol_recovery.compare_velocity_law
        law = compare(head, data.grid, excitation=frames, deviation=std)
        values["velocity law difference"] = law.error()
        arrays = {"velocity.xi": law.xi, "velocity.weight": law.weight}
        arrays |= {"velocity.learned": law.learned.imag, "velocity.exact": law.exact.imag}
    return values, arrays


def learned_diffusivity(experiment: Experiment, network: nn.Module, grid: Grid) -> Estimate | None:
    """c of e^{-4π²cξ²t} from mean_x a1(x, t) a2(ξ, t), where one operator learns heat."""
    problem, task = experiment.problem, experiment.task
    if not isinstance(problem, HeatProblem) or problem.vary or not isinstance(task, OneShot):
        return None
    if not isinstance(network, PseudoDifferentialOperator):
        return None
    trained = torch.tensor(problem.times[:: task.train_every], dtype=torch.float64)
    with torch.no_grad():
        values = network.symbol.evaluate(grid, network.modes_on(grid), task.scaled_time(trained))
    symbol = values.frequency.flatten(1).to(torch.complex128)
    if values.space is not None:
        symbol = symbol * values.space.flatten(1).double().mean(dim=1, keepdim=True)
    return recover_diffusivity(symbol.real.cpu(), grid.modes(network.modes), trained[:, None])


def _compare_heat(
    experiment: Experiment,
    operator: TrainedOperator,
    data: OperatorDataset,
    c: float | None = None,
) -> symbol_recovery.SymbolComparison:
    """The learned symbol of heat against the exact one, of a family that at the diffusivity c."""
    problem, task, network = experiment.problem, experiment.task, operator.network
    assert isinstance(problem, HeatProblem) and isinstance(task, OneShot)
    assert isinstance(network, PseudoDifferentialOperator)
    seen = task.scaled_time(torch.tensor(problem.times, dtype=torch.float64))
    if c is not None and operator.pde_scale is not None:
        parameter = operator.pde_scale(torch.tensor([[c]], dtype=torch.float64)).cpu()
        seen = torch.cat([seen[:, None], parameter.expand(len(seen), 1)], dim=1)
    return symbol_recovery.compare_heat_symbol(
        network.symbol,
        HeatSymbol(diffusivity=problem.diffusivity if c is None else c),
        data.grid,
        problem.times,
        excitation=data.batch()[0],
        network_times=seen,
        limit=min(MOST_XI, (data.grid.size - 1) // 2),
    )


def _fields(test: Evaluation, data: OperatorDataset) -> SampleArrays:
    """Errors of all test samples; the first ones with their predictions, up to a limit."""
    assert test.predictions is not None
    arrays = {"error": test.values()} | ({"frame_error": test.frames()} if test.times else {})
    inputs, targets = data[0]
    kept = min(max(1, MOST_VALUES // (inputs.numel() + 2 * targets.numel())), len(data))
    inputs, targets = data.batch(range(kept))
    return {"input": inputs, "target": targets, "prediction": test.predictions[:kept], **arrays}
