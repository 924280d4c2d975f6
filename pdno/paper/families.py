"""One operator for a family of equations: samples have pde_parameters of their own, networks see them.

Not in the paper. The symbols of a PDNO see the pde_parameters, a(ξ; μ), and with time a(ξ; t, μ); an FNO
gets each as a constant channel. Beside the errors on the test samples a run has those

    by scalar   of the test samples in four parts of the range, equal in log μ (or μ)
    outside     of samples whose scalar lies beyond the range by up to a factor 2, and of times up
                to twice the last one where any time may be asked for
    symbol      for heat: the learned e^{-4π²|ξ|²ct} against the exact one at five c of the range
"""

__all__ = ["heat_family", "measure_family", "navier_stokes_family"]

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch

from pdno.data.dataset import OperatorDataset
from pdno.data.generate import collect
from pdno.data.problems import HeatProblem, NavierStokesProblem, Problem
from pdno.evaluation.evaluate import Predictions, evaluate
from pdno.evaluation.symbol_recovery import compare_heat_symbol
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.paper import Preset, presets_of
from pdno.paper.recipes import (
    MOST_GRADIENT,
    Study,
    best_way,
    check_size,
    make_study,
    one_cycle,
    runs_by_model,
)
from pdno.runs.networks import FNONetwork, PDIONetwork, PDNONetwork
from pdno.runs.specification import Experiment
from pdno.symbols.analytic import HeatSymbol
from pdno.training.fit import Run
from pdno.training.task import Markov, OneShot, TrainedOperator

Parts = list[tuple[int, str, dict[str, float]]]
PARTS_OF_RANGE = 4
DIFFUSIVITIES = 5  # at which the learned symbol is compared
BEYOND = 2.0  # the factor by which samples outside leave the range at most
MOST_XI = 12


def heat_family(preset: Preset = "small", *, seeds: int = 1) -> Study:
    """Heat with a diffusivity c from 0.01 to 0.1, drawn for each sample: e^{-4π²|ξ|²ct}.

    Trained at 10 times, tested at 20 on other c. One operator has the symbol e^{tA(ξ; c)}, the
    other a free network of (ξ, t, c).
    """
    name, smoke = "heat-family", preset == "smoke"
    check_size(preset, known=presets_of(name))
    train, test, points, epochs = (4, 2, 64, 2) if smoke else (200, 40, 256, 15)
    problem = HeatProblem(
        samples=train + test, resolution=points, vary={"diffusivity": (0.01, 0.1)}
    )
    sizes: Any = {"modes": 32, "depends_on_x": False, "pde_parameters": 1}
    semigroup = PDIONetwork(symbol="classical", order=2.0, **sizes)
    way = {"training": one_cycle("small", epochs, 1e-2, optimiser="adam", evaluate_every=5)}
    runs: dict[str, dict[str, Any]] = {
        "PDIO e^{tA(ξ;c)}": {"network": semigroup, "task": OneShot(train_every=2), **way},
        # as in the heat recipe its networks see 4t, to follow the steep decay
        "PDIO a(ξ,t,c)": {
            "network": PDIONetwork(**sizes),
            "task": OneShot(train_every=2, span=0.25),
            **way,
        },
    }
    given: Any = {"problem": problem, "train": train, "test": test, "resolution": points}
    return make_study(name, preset, _experiments(name, runs, given), seeds)


def navier_stokes_family(preset: Preset = "small", *, seeds: int = 1) -> Study:
    """Navier-Stokes with a viscosity from 1e-5 to 1e-3, drawn for each trajectory.

    One-step training on frames t = 1..20, tested by rollouts from t = 10 to 20. A step of PDNO
    takes about three times as long as one of FNO, which has twice the epochs. The data are solved
    on 64 x 64 points, which at ν = 1e-5 is an approximation that both networks learn.
    """
    name, smoke = "navier-stokes-family", preset == "smoke"
    check_size(preset, known=presets_of(name))
    train, test, points, frames = (3, 2, 32, 13) if smoke else (80, 24, 64, 20)
    problem = NavierStokesProblem(
        samples=train + test,
        resolution=points,
        solver_resolution=points,
        final_time=frames,
        vary={"viscosity": (1e-5, 1e-3)},
    )
    width, modes = (4, 6) if smoke else (16, 12)
    symbols: Any = {"symbol": "trunk", "depends_on_x": False, "pde_parameters": 1}
    networks = {
        "PDNO a(ξ,ν)": PDNONetwork(width=width, modes=modes, transport=True, **symbols),
        "FNO, channel ν": FNONetwork(width=width, modes=modes, transport=True),
    }
    epochs = {"PDNO a(ξ,ν)": 4, "FNO, channel ν": 8}
    way: Any = {"batch_size": 8, "clip": MOST_GRADIENT, "warm_up": 0.2, "evaluate_every": 100}
    runs = {
        model: {"network": network, "training": best_way(preset, epochs[model], **way)}
        for model, network in networks.items()
    }
    given: Any = {"problem": problem, "train": train, "test": test, "resolution": points // 2}
    given |= {"window": 10, "task": Markov(residual=False), "normalization": "channel"}
    return make_study(name, preset, _experiments(name, runs, given), seeds)


def _experiments(
    name: str, runs: dict[str, dict[str, Any]], given: dict[str, Any]
) -> Sequence[Experiment]:
    return list(runs_by_model(runs, name=name, of_paper=False, **given).values())


def measure_family(experiment: Experiment, run: Run, test: Predictions) -> Parts:
    """The errors by scalar and outside of the ranges, and those of the symbol of heat."""
    problem, points = experiment.problem, experiment.resolution
    assert problem is not None
    parts: Parts = [(points, "by scalar", _by_scalar(problem, test))]
    parts.append((points, "outside", _outside(experiment, run.model, problem)))
    operator, task = run.network, experiment.task
    if isinstance(problem, HeatProblem) and isinstance(operator, PseudoDifferentialOperator):
        assert isinstance(task, OneShot)
        parts.append((points, "symbol", _heat_symbols(problem, run, task, operator)))
    return parts


def _between(low: float, high: float, parts: int) -> list[float]:
    """Points from low to high in equal steps of log μ, of μ where it is not positive."""
    steps = [k / parts for k in range(parts + 1)]
    if low > 0:
        return [low * (high / low) ** s for s in steps]
    return [low + (high - low) * s for s in steps]


def _by_scalar(problem: Problem, test: Predictions) -> dict[str, float]:
    errors, numbers = test.evaluate(orders=()).values(), test.data.pde_parameters()
    assert numbers is not None
    found = {}
    for column, (name, ends) in enumerate(problem.vary.items()):
        for low, high in pairwise(_between(*ends, PARTS_OF_RANGE)):
            inside = (numbers[:, column] >= low) & (numbers[:, column] <= high)
            if bool(inside.any()):
                key = f"relative_l2 {name} {low:.3g} to {high:.3g}"
                found[key] = float(errors[inside].mean())
    return found


def _outside(experiment: Experiment, model: TrainedOperator, problem: Problem) -> dict[str, float]:
    few = min(8 if problem.dim > 1 else 20, experiment.test)
    found = {}
    for name, (low, high) in problem.vary.items():
        ends = [(low / BEYOND, low), (high, BEYOND * high)] if low > 0 else []
        for a, b in ends:
            changed = problem.model_copy(update={"vary": {**problem.vary, name: (a, b)}})
            error = evaluate(model, _samples(experiment, changed, few), orders=()).mean()
            found[f"relative_l2 {name} {a:.3g} to {b:.3g}"] = error
    if model.task.times_wanted == "any" and problem.times is not None:
        last = problem.times[-1]
        later = problem.model_copy(update={"final_time": BEYOND * last, "frames": 8})
        error = evaluate(model, _samples(experiment, later, few, after=last), orders=()).mean()
        found[f"relative_l2 t {last:g} to {BEYOND * last:g}"] = error
    return found


def _samples(
    experiment: Experiment, problem: Problem, count: int, *, after: float | None = None
) -> OperatorDataset:
    """Samples of a problem in memory, as the network of an experiment sees them."""
    fresh = problem.model_copy(update={"seed": problem.seed + 1})  # none of the training
    times = list(fresh.times or ())
    kept = [k for k, t in enumerate(times) if after is None or t > after]
    samples = (fresh.sample(index) for index in range(count))
    later = (sample._replace(output=sample.output[kept]) for sample in samples)
    data = collect(later, fresh.grid(), [times[k] for k in kept])
    if experiment.window is not None:
        data = data.window(experiment.window, experiment.targets)
    return data.subsample(max(data.grid.shape) // experiment.resolution)


def _heat_symbols(
    problem: HeatProblem, run: Run, task: OneShot, operator: PseudoDifferentialOperator
) -> dict[str, float]:
    """The largest differences of the symbol at several c, where data excite it and anywhere."""
    scale, data, times = run.model.normalized.pde_parameters, run.data, problem.times
    assert scale is not None
    found: dict[str, float] = {}
    for c in _between(*problem.vary["diffusivity"], DIFFUSIVITIES - 1):
        seen = scale(torch.tensor([[c]], dtype=torch.float64)).expand(len(times), 1)
        t = task.scaled_time(torch.tensor(times, dtype=torch.float64))[:, None]
        compared = compare_heat_symbol(
            operator.symbol,
            HeatSymbol(diffusivity=c),
            data.grid,
            times,
            excitation=data.batch()[0],
            seen_times=torch.cat([t, seen.cpu()], dim=1),
            limit=min(MOST_XI, (data.grid.size - 1) // 2),
        )
        for name in ("symbol difference", "symbol difference excited"):
            found[name] = max(found.get(name, 0.0), compared.metrics()[name])
        found[f"symbol difference excited c={c:.3g}"] = compared.metrics()[name]
    return found
