"""Speed: seconds of a prediction against seconds of the solver that made the data.

    ratio = seconds of one solve / seconds of one prediction in a batch

All are the best of several turns in one process, on the same number of threads. The comparison is
as fair as the two tasks are the same: the solver starts from the input at t = 0 on its own grid
and to its own accuracy, which is far beyond that of a network; a network that sees the first
frames predicts only the rest of them. Drawing the random input is part of a solve and takes little
of it.

Times on a shared machine are noise; ratios of the best times of contenders that took turns in one
run are not. Memory is the largest growth of the process's resident size, so it is measured in a
process of its own.
"""

__all__ = ["Speed", "compare_speed", "peak_growth", "time_alternately"]

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from pdno.data.dataset import OperatorDataset
from pdno.data.problems import Problem
from pdno.evaluation.evaluate import Predictor, as_predictor
from pdno.training.task import evaluation_mode

PEAK_RESET = Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Speed:
    """Seconds per sample.

    Arguments:
        prediction: Of a prediction, in a batch of `batch_size`.
        single: Of a prediction alone.
        solve: Of the solver.
        batch_size: Samples of the batch.
    """

    prediction: float
    single: float
    solve: float
    batch_size: int

    @property
    def ratio(self) -> float:
        """How many predictions in a batch take the time of one solve."""
        return self.solve / self.prediction

    @property
    def single_ratio(self) -> float:
        """How many predictions, one by one, take the time of one solve."""
        return self.solve / self.single

    def metrics(self) -> dict[str, float]:
        """The numbers by name, for rows."""
        return {
            "seconds per prediction": self.prediction,
            "seconds per single prediction": self.single,
            "seconds per solve": self.solve,
            "solve / prediction": self.ratio,
            "solve / single prediction": self.single_ratio,
        }


def compare_speed(
    predictor: Predictor | nn.Module,
    data: OperatorDataset,
    problem: Problem,
    *,
    batch_size: int = 20,
    repeats: int = 3,
    device: torch.device | str | None = None,
) -> Speed:
    """Time predictions and solves in turns.

    Arguments:
        predictor: What predicts.
        data: Where the inputs come from; at most `batch_size` of them are used.
        problem: What made the data; its sample 0 is solved.
        batch_size: Samples of a batch.
        repeats: How often each is timed; the best counts.
        device: Where to predict; the way there and back counts.
    """
    if batch_size < 1 or repeats < 1:
        raise ValueError(
            f"batch_size is {batch_size} and repeats {repeats}; expected at least 1 each"
        )
    if problem.dim != data.grid.dim or (problem.times is None) != (data.times is None):
        raise ValueError(f"the data are not of the {problem.name} problem: give what made them")
    model, times = as_predictor(predictor), data.target_times
    size = min(batch_size, len(data))
    inputs = data.batch(range(size))[0]

    def predict(chosen: Tensor) -> Tensor:
        with evaluation_mode(model):
            return model.predict(chosen.to(device), grid=data.grid, times=times).cpu()

    seconds = time_alternately(
        {
            "batch": lambda: predict(inputs),
            "single": lambda: predict(inputs[:1]),
            "solve": lambda: problem.sample(0),
        },
        repeats=repeats,
    )
    return Speed(seconds["batch"] / size, seconds["single"], seconds["solve"], size)


def time_alternately(
    contenders: Mapping[str, Callable[[], object]], *, repeats: int = 5, warm_up: bool = True
) -> dict[str, float]:
    """Best seconds of each contender; they take turns, so that noise meets all of them.

    Arguments:
        contenders: What to call, by name.
        repeats: How often each is timed.
        warm_up: Whether each is called once before.
    """
    best = dict.fromkeys(contenders, float("inf"))
    for run in contenders.values() if warm_up else ():
        run()
    for _ in range(repeats):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def peak_growth(run: Callable[[], object]) -> int:
    """Bytes by which the resident size of this process grows at most while `run` runs (Linux)."""
    PEAK_RESET.write_text("5")  # sets the peak to the present size
    before = _status("VmRSS")
    run()
    return _status("VmHWM") - before


def _status(name: str) -> int:
    """A size of /proc/self/status in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    line = next(line for line in lines if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024
