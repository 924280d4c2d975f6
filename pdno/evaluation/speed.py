"""Speed: seconds of a prediction compared with the solver that generated the data.

All are the best of several turns in one process, on the same number of threads: ratios of the best
times of contenders that took turns are reliable on a shared machine, times are not. The solver
starts from the input at t = 0 on its own grid and to its own accuracy; the fair comparison is the
same solver on a coarser grid (`coarse_solves`).
"""

import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from pdno.data.dataset import OperatorDataset
from pdno.data.problems import Problem
from pdno.interface.errors import check_at_least
from pdno.spectral.calculus import interpolate, resample, sample_at_grid
from pdno.spectral.grid import Grid
from pdno.spectral.metrics import relative_l2
from pdno.training.samples import Predictor, evaluation_mode
from pdno.training.trained_operator import as_predictor

S = TypeVar("S")
T = TypeVar("T")
FINEST = 4  # times the points of the data, of the solver that is a rival


def compare_speed(
    predictor: Predictor | nn.Module,
    data: OperatorDataset,
    problem: Problem,
    *,
    batch_size: int = 20,
    repeats: int = 3,
) -> dict[str, float]:
    """Seconds per sample of predictions, in a batch and alone, and of the solver, in turns."""
    check_at_least("batch_size", batch_size)
    check_at_least("repeats", repeats)
    if problem.dim != data.grid.dim or (problem.times is None) != (data.times is None):
        raise ValueError(f"the data are not of the {problem.name} problem: give what made them")
    model, size = as_predictor(predictor), min(batch_size, len(data))
    inputs = data.batch(range(size))[0]

    def predict(count: int) -> Tensor:
        with evaluation_mode(model):
            return model.predict(inputs[:count], **data.keyword_arguments(range(count)))

    contenders: dict[str, Callable[[], object]] = {
        "batch": lambda: predict(size),
        "single": lambda: predict(1),
        "solve": lambda: problem.sample(0),
    }
    batch, single, solve = time_alternately(contenders, repeats=repeats).values()
    return {
        "seconds per prediction": batch / size,
        "seconds per single prediction": single,
        "seconds per solve": solve,
        "solve / prediction": solve / batch * size,
        "solve / single prediction": solve / single,
    }


@torch.no_grad()
def coarse_solves(
    data: OperatorDataset, problem: Problem, *, samples: int = 5
) -> dict[int, dict[str, float]]:
    """Error and seconds per sample of the solver on coarser and coarser grids, by points per axis.

    It starts where a network starts: from the last frame of the input, or the input itself, on the
    grid of the data. Of a static problem, whose solver draws its input itself, the last samples
    are solved. Solutions are brought to the points of the data by splines or Fourier series.
    """
    count = min(samples, len(data))
    inputs, targets = data.batch(range(len(data) - count, len(data)))
    shape, times, static = data.grid.shape, data.target_times or (), problem.times is None
    start = max((t for t in data.times or () if t < times[0]), default=0.0) if times else 0.0
    members = [(slice(None), problem)]
    if (numbers := data.pde_parameters(range(len(data) - count, len(data)))) is not None:
        named = [dict(zip(data.pde_parameter_names, row, strict=True)) for row in numbers.tolist()]
        members = [(slice(row, row + 1), problem.at(at)) for row, at in enumerate(named)]
    results = {}
    finest = min(max(shape) * FINEST, problem.solver_points)
    sizes = {finest * part // 2**k for part, k in product((1, 3), range(1, 18))}
    # 3N/4, N/2, 3N/8, ...
    for points in sorted((n for n in sizes if 8 <= n < finest and n % 2 == 0), reverse=True):
        grid = Grid.cells((points,) * problem.dim)
        if static:
            indices = range(problem.samples - count, problem.samples)
            state = problem.physics()[0].sample(grid, seed=problem.seed, indices=indices)
        else:
            state = resample(inputs[:, -1:].double(), grid.shape)
        begin = time.perf_counter()
        when = None if static else [t - start for t in times]
        solved = torch.cat([each.solve(state[rows], when)[0] for rows, each in members])
        seconds = time.perf_counter() - begin
        there = interpolate(solved, grid, data.grid) if static else sample_at_grid(solved, shape)
        error = float(relative_l2(there.reshape(targets.shape), targets.double()).mean())
        results[points] = {"relative_l2": error, "seconds per solve": seconds / count}
    return results


def time_alternately(
    contenders: Mapping[str, Callable[[], object]],
    *,
    repeats: int = 5,
    seconds: float = 0.0,
    warm_up: bool = True,
    clock: Callable[[], float] | None = None,
) -> dict[str, float]:
    """Best seconds of each contender; they take turns, for so many `seconds` at least.

    The clock is `time.perf_counter`; other processes disturb `time.process_time` less.
    """
    clock = clock or time.perf_counter
    best, spent = ({name: start for name in contenders} for start in (math.inf, 0.0))
    for run in contenders.values() if warm_up else ():
        run()
    turns, left = 0, dict(contenders)
    while left:
        for name, run in left.items():
            start = clock()
            run()
            elapsed = clock() - start
            best[name], spent[name] = min(best[name], elapsed), spent[name] + elapsed
        turns += 1
        left = {n: left[n] for n in left if turns < repeats or spent[n] < seconds}
    return best


def in_own_process(function: Callable[[S], T], argument: S) -> T:
    """What a function returns in a fresh process, whose memory and settings are its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, argument).result()


def peak_growth(run: Callable[[], object]) -> int:
    """Bytes by which the resident size of this process grows at most while `run` runs (Linux)."""

    def kilobytes(name: str) -> int:
        text = Path("/proc/self/status").read_text(encoding="utf-8")
        return int(text.split(f"{name}:")[1].split()[0])

    Path("/proc/self/clear_refs").write_text("5")  # sets the peak to the present size
    before = kilobytes("VmRSS")
    run()
    return (kilobytes("VmHWM") - before) * 1024
