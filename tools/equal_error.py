"""How many times faster than our solver an operator of a flow is, at equal error.

    python tools/equal_error.py results/operators/navier-stokes [--truth 256] [--format aoti]

New flows are solved, and predicted by the operator from the frames that it is given. Its rival is
the solver with each of its schemes, on coarser grids, from the last of these frames; between two
grids its seconds are interpolated, as powers, to the error of the operator. All take turns in one
process on one thread, and the best of several turns counts, for a batch and for one flow alone.
The solver takes as many flows of a batch at once as suit it. With a format an exported file takes
part, too.
"""

import argparse
import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from pdno.data.dataset import OperatorDataset
from pdno.data.problems import Problem
from pdno.evaluation.speed import time_alternately
from pdno.exports.export import FORMATS, Format
from pdno.native import tune_allocator
from pdno.runs.run import Run, load_run
from pdno.runs.specification import unseen_samples
from pdno.spectral.calculus import resample, sample_at_grid
from pdno.spectral.metrics import relative_l2
from pdno.training.samples import evaluation_mode

GRIDS = (64, 80, 96, 128, 160)
AT_ONCE = (5, 1)
Curve = dict[float, float]
"""Seconds per flow of the solver by its error."""
Predict = Callable[[Tensor], Tensor]


class Row(NamedTuple):
    """What takes part, its error, and its seconds per flow in a batch and alone."""

    name: str
    error: float
    batch: float
    alone: float


def compare(
    predictors: Mapping[str, Predict],
    data: OperatorDataset,
    problems: Sequence[Problem],
    turns: int,
) -> tuple[list[Row], dict[str, list[Row]]]:
    """Rows of the predictors, all the same operator, and those of the solver by its scheme."""
    inputs, targets = data.batch()
    times = data.target_times or ()
    start = max(t for t in data.times or () if t < times[0])
    groups = {"batch": inputs, "alone": inputs[:1]}
    errors = {name: _error(predict(inputs), targets) for name, predict in predictors.items()}
    runs: dict[str, Callable[[], object]] = {
        f"{name} {group}": partial(predict, frames)
        for name, predict in predictors.items()
        for group, frames in groups.items()
    }
    schemes: dict[str, list[str]] = {}
    for rival in problems:
        for points in GRIDS:
            name = f"{getattr(rival, 'scheme', 'solver')}, {points} x {points}"
            first = resample(inputs[:, -1:].double(), (points,) * rival.dim)
            solve = partial(_solve, rival, times=[t - start for t in times])
            solved = sample_at_grid(solve(first, at_once=5).double(), inputs.shape[2:])
            errors[name] = _error(solved, targets)
            for size in AT_ONCE:
                runs[f"{name} batch {size}"] = partial(solve, first, at_once=size)
            runs[f"{name} alone"] = partial(solve, first[:1], at_once=1)
            schemes.setdefault(getattr(rival, "scheme", "solver"), []).append(name)
    taken = time_alternately(runs, repeats=turns, clock=time.process_time)

    def row(name: str) -> Row:
        batch = min(taken[run] for run in runs if run.startswith(f"{name} batch"))
        return Row(name, errors[name], batch / len(inputs), taken[f"{name} alone"])

    solved_rows = {scheme: [row(name) for name in names] for scheme, names in schemes.items()}
    return [row(name) for name in predictors], solved_rows


def fastest(rows: Mapping[str, list[Row]], error: float) -> dict[str, float]:
    """Seconds of the fastest scheme for an error, in a batch and alone."""
    curves = {
        "batch": [{row.error: row.batch for row in solved} for solved in rows.values()],
        "alone": [{row.error: row.alone for row in solved} for solved in rows.values()],
    }
    inside = partial(_reaches, error)
    if not any(map(inside, curves["batch"])):
        raise ValueError(f"the error {error:.4f} is not between those of the grids {GRIDS}")
    return {
        group: min(at_error(curve, error) for curve in filter(inside, some))
        for group, some in curves.items()
    }


def _reaches(error: float, curve: Curve) -> bool:
    return min(curve) <= error <= max(curve)


def at_error(curve: Mapping[float, float], error: float) -> float:
    """Seconds of the solver for an error: straight lines between grids in logarithms."""
    points = sorted(curve.items())
    if not points[0][0] <= error <= points[-1][0]:
        raise ValueError(f"the error {error:.4f} is not between those of the grids {GRIDS}")
    (low, most), (high, least) = next(pair for pair in pairwise(points) if error <= pair[1][0])
    share = math.log(error / low) / math.log(high / low)
    return math.exp((1 - share) * math.log(most) + share * math.log(least))


def _schemes(problem: Problem, chosen: Sequence[str]) -> list[Problem]:
    """The problem with each of its schemes, or with those that are chosen."""
    if len(problem.schemes) == 1:
        return [problem]
    return [problem.with_changes(scheme=scheme) for scheme in chosen or problem.schemes]


def _solve(problem: Problem, first: Tensor, *, times: list[float], at_once: int) -> Tensor:
    return torch.cat([problem.solve(part, times)[0] for part in torch.split(first, at_once)])


def _error(computed: Tensor, expected: Tensor) -> float:
    computed = computed.reshape(expected.shape).double()
    return float(relative_l2(computed, expected.double()).mean())


def _by_torch(run: Run, data: OperatorDataset, frames: Tensor) -> Tensor:
    with evaluation_mode(run.operator):
        return run.operator.predict(frames, **data.keyword_arguments(range(len(frames))))


def _by_file(run: Run, folder: Path, format: Format, frames: int) -> Predict:
    made = run.export(folder / f"operator{FORMATS[format]}", format=format, frames=frames)
    channels = made.inputs.shape[1]
    return lambda frames: made.run(frames[:, -channels:].contiguous())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("operator", type=Path, help="a run folder, or one of results/operators")
    parser.add_argument("--format", choices=("onnx", "torch-export", "aoti"))
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--truth", type=int, help="points per axis of the solver of new flows")
    parser.add_argument("--schemes", nargs="+", default=(), help="of the solver; all by default")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tune_allocator()
    run = load_run(arguments.operator)
    if run.experiment is None or run.experiment.problem is None or run.experiment.window is None:
        raise SystemExit(f"{arguments.operator} is no operator of our flows that takes frames")
    problem = run.experiment.problem
    if arguments.truth is not None:
        problem = problem.with_changes(solver_resolution=arguments.truth)
    data = unseen_samples(run.experiment, arguments.batch, problem)
    with tempfile.TemporaryDirectory() as folder:
        predictors: dict[str, Predict] = {"operator, torch": partial(_by_torch, run, data)}
        if arguments.format is not None:
            frames = len(data.target_times or ())
            file = _by_file(run, Path(folder), arguments.format, frames)
            predictors[f"operator, {arguments.format}"] = file
        problems = _schemes(problem, arguments.schemes)
        rows, solved = compare(predictors, data, problems, arguments.turns)
    count, turns = arguments.batch, arguments.turns
    print(f"{count} new flows, seconds per flow on one thread, best of {turns} turns")
    print(f"{'':24}{'relative L2':>12}{'batch':>10}{'alone':>10}")
    for row in (*rows, *(row for some in solved.values() for row in some)):
        print(f"{row.name:24}{row.error:12.4f}{row.batch:10.4f}{row.alone:10.4f}")
    for group, rival in fastest(solved, rows[0].error).items():
        times = ", ".join(f"{row.name} {rival / getattr(row, group):.1f}" for row in rows)
        print(f"at equal error, {group}: {rival:.4f} s by the fastest solver; times of {times}")


if __name__ == "__main__":
    main()
