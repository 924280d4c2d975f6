"""What is measured and kept of a trained network: errors, other resolutions and times, speed and
symbol as numbers, and what figures are made of, so that no model is needed later.

The pictures are those of `pdno.training.sample_arrays`, of all test samples up to a budget, and

    heat.learned, heat.exact         Re ā(ξ, t) and e^{-4π²cξ²t}, (T, M)
    heat.xi, heat.times              the modes (M,) and times (T,) of these
    heat.weight                      how strongly the data excite a mode, (T, M)
    heat.space                       a1(x, t) over its mean, (T, N)
"""

__all__ = ["learned_diffusivity", "measure"]

from typing import Any

import torch
from torch import nn

from pdno.data.dataset import OperatorDataset
from pdno.data.problems import HeatProblem
from pdno.evaluation.evaluate import Predictions, evaluate_resolutions, evaluate_times, predict
from pdno.evaluation.speed import coarse_solves, compare_speed
from pdno.evaluation.symbol_recovery import compare_heat_symbol
from pdno.networks.transport import Transport
from pdno.operators.pseudo_differential import PseudoDifferentialOperator as Operator
from pdno.paper.families import measure_family
from pdno.runs.datasets import ExperimentData
from pdno.runs.specification import Experiment
from pdno.spectral.grid import Grid
from pdno.spectral.metrics import relative_l2
from pdno.symbols.analytic import HeatSymbol
from pdno.theory.recovery import Estimate, recover_diffusivity
from pdno.training.fit import Run
from pdno.training.sample_arrays import Pictures, symbol_pictures
from pdno.training.task import OneShot

Parts = list[tuple[int, str, dict[str, float]]]  # resolution, split and metrics of some rows
HeatRun = tuple[HeatProblem, OneShot, Operator]
MOST_XI = 12  # of figure 3
MOST_NUMBERS = 2**23  # of predictions that are kept: 32 MiB


def measure(experiment: Experiment, run: Run, samples: ExperimentData) -> tuple[Parts, Pictures]:
    """All numbers of a run, by resolution and split, and its pictures."""
    train, test = predict(run.model, samples.train), predict(run.model, samples.test)
    parts, points = _errors(experiment, run, train, test), experiment.resolution
    others: dict[str, Any] = {"resolutions": experiment.zero_shot, "predicted": test}
    for one in evaluate_resolutions(run.model, samples.finest_test, points, **others):
        parts.append((one.resolution, "zero-shot", one.zero_shot.metrics()))
        parts.append((one.resolution, "interpolated", one.interpolated.metrics()))
    if experiment.problem is not None:
        speed = compare_speed(run.model, samples.test, experiment.problem)
        parts.append((points, "speed", speed.metrics()))
        rivals = coarse_solves(samples.test, experiment.problem)
        parts += [(n, "solver", metrics) for n, metrics in rivals.items()]
    if samples.validation is not None:
        on_validation = predict(run.model, samples.validation).evaluate()
        parts.append((points, "validation", on_validation.metrics()))
    effort = {"cpu seconds": run.cpu_seconds, "steps": float(run.history[-1].step)}
    parts.append((points, "training", effort))
    pictures = {**_fields(test), **symbol_pictures(run.model, samples.train)}
    if experiment.problem is not None and experiment.problem.vary:
        parts += measure_family(experiment, run, test)
    if isinstance(run.network, Transport) and run.network.log_c is not None:
        first, second = (samples.train.times or ())[:2]
        spread = float(run.network.c.detach().mean()) / (second - first)
        parts.append((points, "symbol", {"diffusivity": spread}))
    heat = _heat_operator(experiment, run.network)
    c = learned_diffusivity(experiment, run.network, samples.train.grid)
    if heat is not None and c is not None:
        metrics, drawn = _heat(heat, samples.train)
        metrics |= {"diffusivity": c.value, "diffusivity standard error": c.error}
        parts.append((points, "symbol", metrics))
        pictures |= drawn
    return parts, pictures


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
    return recover_diffusivity(symbol.real.cpu(), grid.modes(operator.modes), trained[:, None])


def _errors(experiment: Experiment, run: Run, train: Predictions, test: Predictions) -> Parts:
    """Errors on both splits, and apart at the times of the training and between them."""
    points, task, times = experiment.resolution, experiment.task, train.data.target_times
    on_train, on_test = train.evaluate(), test.evaluate()
    metrics = {**on_test.metrics(), "gap relative_l2": on_test.mean() - on_train.mean()}
    if (best := run.history[-1].best) is not None:
        metrics["best epoch relative_l2"] = best
    parts: Parts = [(points, "train", on_train.metrics()), (points, "test", metrics)]
    if not isinstance(task, OneShot) or task.train_every == 1 or times is None:
        return parts
    for split, predictions in (("train", train), ("test", test)):
        seen, unseen = evaluate_times(predictions, times[:: task.train_every])
        metrics = {
            "relative_l2 trained times": seen.mean(),
            "relative_l2 other times": unseen.mean(),
        }
        parts.append((points, split, metrics))
    return parts


def _heat_operator(experiment: Experiment, network: nn.Module) -> HeatRun | None:
    """Problem, task and operator, where one operator alone learns heat."""
    problem, task = experiment.problem, experiment.task
    single = isinstance(problem, HeatProblem) and not problem.vary
    if not isinstance(problem, HeatProblem) or not single or not isinstance(task, OneShot):
        return None
    return (problem, task, network) if isinstance(network, Operator) else None


def _heat(found: HeatRun, data: OperatorDataset) -> tuple[dict[str, float], Pictures]:
    """Numbers and pictures of the learned symbol against the exact one."""
    problem, task, operator = found
    heat = compare_heat_symbol(
        operator.symbol,
        HeatSymbol(diffusivity=problem.diffusivity),
        data.grid,
        problem.times,
        excitation=data.batch()[0],
        seen_times=[task.scaled_time(t) for t in problem.times],
        limit=min(MOST_XI, (data.grid.size - 1) // 2),
    )
    pictures = {"learned": heat.learned.real, "exact": heat.exact.real, "weight": heat.weight}
    pictures |= {"space": heat.space, "xi": heat.xi, "times": torch.tensor(heat.times)}
    return heat.metrics(), {f"heat.{name}": picture for name, picture in pictures.items()}


def _fields(test: Predictions) -> Pictures:
    errors = torch.cat([relative_l2(prediction, target) for prediction, target in test.pairs()])
    found, first = {"error": errors}, test.data[0]
    if test.data.target_times is not None:
        frames = [relative_l2(*(u.flatten(0, 1) for u in pair)) for pair in test.pairs()]
        found["frame_error"] = torch.cat(frames).reshape(len(errors), -1)
    per_sample = first[0].numel() + 2 * first[1].numel()
    kept = min(max(1, MOST_NUMBERS // per_sample), len(test.data))
    inputs, targets = test.data.batch(range(kept))
    prediction = torch.cat(test.batches)[:kept]
    return {"input": inputs, "target": targets, "prediction": prediction, **found}
