"""Speed: seconds of a prediction against seconds of the solver that made the data.

    ratio = seconds of one solve / seconds of one prediction in a batch

All are the best of several turns in one process, on the same number of threads. The comparison is
as fair as the two tasks are the same: the solver starts from the input at t = 0 on its own grid
and to its own accuracy, which is far beyond that of a network; a network that sees the first
frames predicts only the rest of them. Drawing the random input is part of a solve and takes little
of it.
"""

__all__ = ["Speed", "compare_speed"]

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pdno.data.dataset import OperatorDataset
from pdno.data.problems import Problem
from pdno.evaluation.cost import time_alternately
from pdno.evaluation.predictor import Predictor, as_predictor, predicting, target_times


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
    model, times = as_predictor(predictor), target_times(data)
    size = min(batch_size, len(data))
    inputs = data.batch(range(size))[0]

    def predict(chosen: Tensor) -> Tensor:
        with predicting(model):
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
