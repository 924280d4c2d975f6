"""How many times faster than our solver an operator of a flow is, at equal error.

    python tools/equal_error.py results/operators/navier-stokes [--format aoti]

New flows are solved, and predicted by the operator from the frames that it is given. Its rival is
the solver that made them, on coarser grids, from the last of these frames; between two grids its
seconds are interpolated, as powers, to the error of the operator. All take turns in one process
on one thread, and the best of several turns counts, for a batch and for one flow alone. The solver
takes as many flows of a batch at once as suit it. With a format an exported file takes part, too.
"""

import argparse
import math
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from pdno.data.dataset import OperatorDataset
from pdno.data.problems import Problem
from pdno.evaluation.speed import time_alternately
from pdno.exports.export import FORMATS, Format
from pdno.native import tune_allocator
from pdno.runs.run import Run, load_run
from pdno.runs.specification import unseen_samples
from pdno.spectral.calculus import resample
from pdno.spectral.metrics import relative_l2
from pdno.training.samples import evaluation_mode

GRIDS = (48, 64, 80, 96)
AT_ONCE = (5, 1)
Curve = dict[float, float]
"""Seconds per flow of the solver by its error."""
Predict = Callable[[Tensor], Tensor]


def compare(
    predictors: Mapping[str, Predict], data: OperatorDataset, problem: Problem, turns: int
) -> tuple[float, dict[str, dict[str, float]], dict[str, Curve]]:
    """The error of the first predictor, seconds per flow of all, by batch and alone; the solver's.

    All predictors are the same operator.
    """
    inputs, targets = data.batch()
    times = data.target_times or ()
    start = max(t for t in data.times or () if t < times[0])
    groups = {"batch": inputs, "alone": inputs[:1]}
    runs: dict[tuple[str, str, float, int], Callable[[], object]] = {
        (group, name, 0.0, 1): partial(predict, frames)
        for name, predict in predictors.items()
        for group, frames in groups.items()
    }
    for points in GRIDS:
        first = resample(inputs[:, -1:].double(), (points,) * problem.dim)
        solve = partial(_solve, problem, times=[t - start for t in times])
        error = _error(resample(solve(first, at_once=5), inputs.shape[2:]), targets)
        for size in AT_ONCE:
            runs["batch", "solver", error, size] = partial(solve, first, at_once=size)
        runs["alone", "solver", error, 1] = partial(solve, first[:1], at_once=1)
    taken = time_alternately({str(key): run for key, run in runs.items()}, repeats=turns)
    ours: dict[str, dict[str, float]] = {name: {} for name in predictors}
    curves: dict[str, Curve] = {group: {} for group in groups}
    for group, name, error, size in runs:
        seconds = taken[str((group, name, error, size))] / len(groups[group])
        if name == "solver":
            curves[group][error] = min(seconds, curves[group].get(error, math.inf))
        else:
            ours[name][group] = seconds
    predict = next(iter(predictors.values()))
    return _error(predict(inputs), targets), ours, curves


def at_error(seconds: Mapping[float, float], error: float) -> float:
    """Seconds of the solver for an error: straight lines between grids in logarithms."""
    known = sorted(seconds.items())
    if not known[0][0] <= error <= known[-1][0]:
        raise ValueError(f"the error {error:.4f} is not between those of the grids {GRIDS}")
    (low, most), (high, least) = next(pair for pair in pairwise(known) if error <= pair[1][0])
    share = math.log(error / low) / math.log(high / low)
    return math.exp((1 - share) * math.log(most) + share * math.log(least))


def _solve(problem: Problem, first: Tensor, *, times: list[float], at_once: int) -> Tensor:
    return torch.cat([problem.solve(part, times)[0] for part in torch.split(first, at_once)])


def _error(found: Tensor, wanted: Tensor) -> float:
    return float(relative_l2(found.reshape(wanted.shape).double(), wanted.double()).mean())


def _by_torch(run: Run, data: OperatorDataset, frames: Tensor) -> Tensor:
    with evaluation_mode(run.operator):
        return run.operator.predict(frames, **data.keyword_arguments(range(len(frames))))


def _by_file(run: Run, place: Path, format: Format, frames: int) -> Predict:
    made = run.export(place / f"operator{FORMATS[format]}", format=format, frames=frames)
    channels = made.inputs.shape[1]
    return lambda frames: made.run(frames[:, -channels:].contiguous())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("operator", type=Path, help="a run folder, or one of results/operators")
    parser.add_argument("--format", choices=("onnx", "torch-export", "aoti"))
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    tune_allocator()
    run = load_run(given.operator)
    if run.experiment is None or run.experiment.problem is None or run.experiment.window is None:
        raise SystemExit(f"{given.operator} is no operator of our flows that is given frames")
    data = unseen_samples(run.experiment, given.batch)
    with tempfile.TemporaryDirectory() as place:
        predictors: dict[str, Predict] = {"torch": partial(_by_torch, run, data)}
        if given.format is not None:
            frames = len(data.target_times or ())
            file = _by_file(run, Path(place), given.format, frames)
            predictors[given.format] = file
        error, ours, curves = compare(predictors, data, run.experiment.problem, given.turns)
    print(f"{given.batch} new flows, seconds per flow on one thread, best of {given.turns} turns")
    print(f"{'':20}{'relative L2':>12}{'batch':>10}{'alone':>10}")
    for name, seconds in ours.items():
        told = f"operator, {name}"
        print(f"{told:20}{error:12.4f}{seconds['batch']:10.4f}{seconds['alone']:10.4f}")
    for points, (wrong, batch) in zip(GRIDS, curves["batch"].items(), strict=True):
        told = f"solver, {points} x {points}"
        print(f"{told:20}{wrong:12.4f}{batch:10.4f}{curves['alone'][wrong]:10.4f}")
    for group, curve in curves.items():
        rival = at_error(curve, error)
        times = ", ".join(f"{name} {rival / own[group]:.1f}" for name, own in ours.items())
        print(f"at equal error, {group}: {rival:.4f} s by the solver, times that of {times}")


if __name__ == "__main__":
    main()
