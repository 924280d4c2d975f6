"""How many times faster than our solver an operator of a flow is, at equal error.

    python tools/equal_error.py results/operators/navier-stokes [--format aoti]

New flows are solved, and predicted by the operator from the frames that it is given. Its rival is
the solver that made them, on coarser grids, from the last of these frames; between two grids its
seconds are interpolated, as powers, to the error of the operator. All take turns in one process
on one thread, and the best of several turns counts, for a batch and for one flow alone. The solver
takes as many flows of a batch at once as suit it. With a format the operator is an exported file.
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

from pdno.allocator import tune_allocator
from pdno.data.dataset import OperatorDataset
from pdno.data.problems import Problem
from pdno.evaluation.speed import time_alternately
from pdno.experiments.datasets import unseen_samples
from pdno.experiments.run import FinishedRun, export_run, load_run
from pdno.metrics import relative_l2
from pdno.portable.export import FORMATS, Format
from pdno.spectral import resample
from pdno.training.task import evaluation_mode

GRIDS = (48, 64, 80, 96, 112)
AT_ONCE = (20, 5, 1)
Curve = dict[float, float]
"""Seconds per flow of the solver by its error."""


def compare(
    predict: Callable[[Tensor], Tensor], data: OperatorDataset, problem: Problem, turns: int
) -> tuple[float, dict[str, float], dict[str, Curve]]:
    """The error of the operator, its seconds per flow by batch and alone, those of the solver."""
    inputs, targets = data.batch()
    times, count = data.target_times or (), len(inputs)
    start = max(t for t in data.times or () if t < times[0])
    groups = {"batch": inputs, "alone": inputs[:1]}
    own: dict[str, Callable[[], object]] = {k: partial(predict, f) for k, f in groups.items()}
    rivals: dict[tuple[str, float, int], Callable[[], object]] = {}
    for points in GRIDS:
        first = resample(inputs[:, -1:].double(), (points,) * problem.dim)
        solve = partial(_solve, problem, times=[t - start for t in times])
        error = _error(resample(solve(first, at_once=5), inputs.shape[2:]), targets)
        for size in AT_ONCE:
            rivals["batch", error, size] = partial(solve, first, at_once=size)
        rivals["alone", error, 1] = partial(solve, first[:1], at_once=1)
    keys = {str(key): key for key in rivals}
    taken = time_alternately(own | {str(k): run for k, run in rivals.items()}, repeats=turns)
    curves: dict[str, Curve] = {"batch": {}, "alone": {}}
    for name, (group, error, _) in keys.items():
        seconds = taken[name] / len(groups[group])
        curves[group][error] = min(seconds, curves[group].get(error, math.inf))
    ours = {"batch": taken["batch"] / count, "alone": taken["alone"]}
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


def _by_torch(run: FinishedRun, data: OperatorDataset, frames: Tensor) -> Tensor:
    with evaluation_mode(run.model):
        return run.model.predict(frames, **data.told(range(len(frames))))


def _by_file(folder: Path, place: Path, format: Format, frames: int) -> Callable[[Tensor], Tensor]:
    made = export_run(folder, place / f"operator{FORMATS[format]}", format=format, frames=frames)
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
        predict: Callable[[Tensor], Tensor] = partial(_by_torch, run, data)
        if given.format is not None:
            frames = len(data.target_times or ())
            predict = _by_file(given.operator, Path(place), given.format, frames)
        error, ours, curves = compare(predict, data, run.experiment.problem, given.turns)
    print(f"{given.batch} new flows, seconds per flow on one thread, best of {given.turns} turns")
    print(f"{'':20}{'relative L2':>12}{'batch':>10}{'alone':>10}")
    told = f"operator, {given.format or 'torch'}"
    print(f"{told:20}{error:12.4f}{ours['batch']:10.4f}{ours['alone']:10.4f}")
    for points, (wrong, seconds) in zip(GRIDS, curves["batch"].items(), strict=True):
        told = f"solver, {points} x {points}"
        print(f"{told:20}{wrong:12.4f}{seconds:10.4f}{curves['alone'][wrong]:10.4f}")
    for group, seconds in ours.items():
        rival = at_error(curves[group], error)
        print(f"at equal error, {group}: {rival:.4f} s by the solver, {rival / seconds:.1f} times")


if __name__ == "__main__":
    main()
