"""What is measured of a trained network: errors, other resolutions and times, speed, symbol."""

__all__ = ["heat_comparison", "measure"]

from typing import Any

from pdno.data.problems import HeatProblem
from pdno.evaluation.evaluate import evaluate, gap
from pdno.evaluation.predictor import target_times
from pdno.evaluation.resolution import evaluate_resolutions, evaluate_times
from pdno.evaluation.speed import compare_speed
from pdno.evaluation.symbol_recovery import SymbolComparison, compare_heat_symbol
from pdno.experiments.datasets import ExperimentData
from pdno.experiments.diffusivity import learned_diffusivity
from pdno.experiments.specification import Experiment
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.symbols.analytic import Heat
from pdno.training.fit import Run
from pdno.training.one_shot import OneShot

Part = dict[str, Any]
"""Resolution, split and metrics of some rows."""
MOST_XI = 12  # of figure 3


def measure(experiment: Experiment, run: Run, samples: ExperimentData) -> list[Part]:
    """All numbers of a run, by resolution and split."""
    at = experiment.resolution
    train, test = evaluate(run.model, samples.train), evaluate(run.model, samples.test)
    last = run.history[-1]
    more = {"best epoch relative_l2": last.best} if last.best is not None else {}
    parts: list[Part] = [
        {"resolution": at, "split": "train", "metrics": train.metrics()},
        {
            "resolution": at,
            "split": "test",
            "metrics": {**test.metrics(), "gap relative_l2": gap(train, test), **more},
        },
        *_other_times(experiment, run, samples),
        *_other_resolutions(experiment, run, samples),
    ]
    if experiment.problem is not None:
        speed = compare_speed(run.model, samples.test, experiment.problem)
        parts.append({"resolution": at, "split": "speed", "metrics": speed.metrics()})
    heat = heat_comparison(experiment, run, samples)
    if heat is not None:
        metrics = heat.metrics()
        diffusivity = learned_diffusivity(experiment, run.network, samples.train.grid)
        if diffusivity is not None:
            metrics |= {
                "diffusivity": diffusivity.value,
                "diffusivity standard error": diffusivity.error,
            }
        parts.append({"resolution": at, "split": "symbol", "metrics": metrics})
    return parts


def _other_times(experiment: Experiment, run: Run, samples: ExperimentData) -> list[Part]:
    """Errors at the times of the training and between them."""
    task = experiment.task
    if not isinstance(task, OneShot) or task.train_every == 1:
        return []
    times = target_times(samples.train)
    assert times is not None
    trained_at = times[:: task.train_every]
    parts = []
    for split, data in (("train", samples.train), ("test", samples.test)):
        both = evaluate_times(run.model, data, trained_at)
        metrics = {
            "relative_l2 trained times": both.seen.mean("relative_l2"),
            "relative_l2 other times": both.unseen.mean("relative_l2"),
        }
        parts.append({"resolution": experiment.resolution, "split": split, "metrics": metrics})
    return parts


def _other_resolutions(experiment: Experiment, run: Run, samples: ExperimentData) -> list[Part]:
    """Zero-shot errors beside those of the interpolated prediction."""
    if not experiment.zero_shot:
        return []
    found = evaluate_resolutions(
        run.model,
        samples.finest_test,
        experiment.resolution,
        resolutions=experiment.zero_shot,
    )
    return [
        {"resolution": one.resolution, "split": split, "metrics": evaluation.metrics()}
        for one in found
        for split, evaluation in (
            ("zero-shot", one.zero_shot),
            ("interpolated", one.interpolated),
        )
    ]


def heat_comparison(
    experiment: Experiment, run: Run, samples: ExperimentData
) -> SymbolComparison | None:
    """The learned symbol against the exact one, where one operator alone learned heat."""
    problem, task, operator = experiment.problem, experiment.task, run.network
    if not isinstance(problem, HeatProblem) or not isinstance(task, OneShot):
        return None
    if not isinstance(operator, PseudoDifferentialOperator):
        return None
    points = samples.train.grid.size
    return compare_heat_symbol(
        operator.symbol,
        Heat(diffusivity=problem.diffusivity),
        samples.train.grid,
        problem.times,
        excitation=samples.train.batch()[0],
        seen_times=[(t - task.start) / task.span for t in problem.times],
        limit=min(MOST_XI, (points - 1) // 2),
    )
