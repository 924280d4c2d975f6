"""Speed: seconds of predictions and solves that were really made, and memory really touched."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from pdno.data.dataset import OperatorDataset
from pdno.data.problems import BurgersProblem, DarcyProblem, HeatProblem
from pdno.evaluation import speed as speed_module
from pdno.evaluation.speed import coarse_solves, compare_speed, time_alternately

PROBLEM = HeatProblem(resolution=32, solver_resolution=32, frames=2, samples=3)


CLOCK = [0.0]


@pytest.fixture(autouse=True)
def our_clock(monkeypatch):
    """Time passes only where a test lets it."""
    monkeypatch.setattr(speed_module.time, "perf_counter", lambda: CLOCK[0])


class Slow:
    """Takes some time for the batch and some for each sample."""

    def __init__(self):
        self.batches = []

    def predict(self, inputs, *, grid, times):
        self.batches.append(len(inputs))
        CLOCK[0] += 0.02 + 0.01 * len(inputs)
        return inputs[:, None].expand(-1, len(times), -1, -1)


@pytest.fixture
def data():
    inputs, outputs, *_ = zip(*(PROBLEM.sample(index) for index in range(3)), strict=True)
    return OperatorDataset.from_arrays(
        torch.stack(inputs), torch.stack(outputs), PROBLEM.grid(), PROBLEM.times
    )


def test_seconds_are_per_sample_and_the_ratios_theirs(data):
    predictor = Slow()
    speed = compare_speed(predictor, data, PROBLEM, batch_size=2, repeats=2)
    assert predictor.batches == [2, 1] * 3
    assert speed["seconds per prediction"] == pytest.approx(0.02)
    assert speed["seconds per single prediction"] == pytest.approx(0.03)


def test_a_batch_is_no_larger_than_the_dataset(data):
    predictor = Slow()
    speed = compare_speed(predictor, data, PROBLEM, repeats=1)
    assert speed["seconds per prediction"] == pytest.approx(0.05 / 3)
    assert max(predictor.batches) == 3


def test_the_solver_of_the_problem_is_timed(data, monkeypatch):
    solved = []

    def sample(self, index):
        solved.append(index)
        CLOCK[0] += 0.05

    monkeypatch.setattr(HeatProblem, "sample", sample)
    speed = compare_speed(Slow(), data, PROBLEM, repeats=2)
    assert solved == [0, 0, 0]
    assert speed["seconds per solve"] == pytest.approx(0.05)
    assert speed["solve / prediction"] == pytest.approx(0.05 * 3 / 0.05)
    assert speed["solve / single prediction"] == pytest.approx(0.05 / 0.03)


def test_what_cannot_be_compared_is_refused(data):
    with pytest.raises(ValueError, match="not of the darcy problem"):
        compare_speed(nn.Identity(), data, DarcyProblem(resolution=8, solver_resolution=8))
    with pytest.raises(ValueError, match="repeats is 0"):
        compare_speed(nn.Identity(), data, PROBLEM, repeats=0)


def test_contenders_take_turns_and_the_best_counts(monkeypatch):
    calls, clock = [], [0.0]
    seconds = {"slow": iter([9.0, 5.0, 3.0]), "fast": iter([9.0, 1.0, 2.0])}
    monkeypatch.setattr(speed_module.time, "perf_counter", lambda: clock[0])

    def make(name):
        def run():
            calls.append(name)
            clock[0] += next(seconds[name])

        return run

    best = time_alternately({name: make(name) for name in ("slow", "fast")}, repeats=2)
    assert calls == ["slow", "fast"] * 3
    assert best == {"slow": 3.0, "fast": 1.0}


def test_quick_contenders_have_more_turns(monkeypatch):
    now, turns = [0.0], {"quick": 0, "slow": 0}
    monkeypatch.setattr(speed_module.time, "perf_counter", lambda: now[0])

    def turn(name, seconds):
        def run():
            turns[name] += 1
            now[0] += seconds + 1.0 / turns[name]  # the first turns are the slowest

        return run

    contenders = {"quick": turn("quick", 0.25), "slow": turn("slow", 8.0)}
    best = time_alternately(contenders, repeats=3, seconds=6.0)
    assert turns == {"quick": 16, "slow": 4}  # the first call of each is not timed
    assert best == pytest.approx({"quick": 0.25 + 1 / 16, "slow": 8.25})


MEASURE = """
import sys, torch
from pdno.evaluation.speed import peak_growth
torch.ones(400 * 2**18).sum()  # an earlier, higher peak must not hide the next one
print(peak_growth(lambda: torch.ones(int(sys.argv[1]) * 2**18).sum()))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_peak_memory_is_what_was_touched_even_if_it_is_free_again():
    megabytes = 192
    # in a process of its own: here memory that earlier tests released could be used again
    ended = subprocess.run(
        [sys.executable, "-c", MEASURE, str(megabytes)], capture_output=True, text=True, check=True
    )
    assert int(ended.stdout) == pytest.approx(megabytes * 2**20, rel=0.1)


def as_data(problem, window=None):
    inputs, outputs, *_ = zip(*map(problem.sample, range(problem.samples)), strict=True)
    made = (torch.stack(inputs), torch.stack(outputs), problem.grid(), problem.times)
    data = OperatorDataset.from_arrays(*made)
    return data if window is None else data.window(window)


def test_the_coarse_solver_of_a_resolved_flow_is_exact_from_the_last_frame_it_sees():
    """From any other frame, or at other times, the error would be of order one."""
    problem = BurgersProblem(samples=2, resolution=64, solver_resolution=64, frames=4)
    found = coarse_solves(as_data(problem, window=2), problem)
    assert list(found) == [48, 32, 24, 16, 12, 8]
    errors = [metrics["relative_l2"] for metrics in found.values()]
    assert max(errors[:2]) < 1e-6 < 1e-4 < errors[-1]


def test_the_coarse_solver_of_darcy_solves_the_same_samples():
    problem = DarcyProblem(samples=3, resolution=32, solver_resolution=128)
    found = coarse_solves(as_data(problem), problem, samples=2)
    errors = [found[points]["relative_l2"] for points in (96, 64, 32, 16)]
    assert errors == sorted(errors) and errors[0] < 0.01 < errors[-1] < 0.1
