"""The settings of a training run: frozen, complete, and written beside its results.

The learning rate is a function of the step, so there is nothing to save and nothing to restore:

constant    lr
step        lr · factor^⌊epoch / step_size⌋                          (the paper's StepLR)
cosine      lr · (1 + cos πp) / 2,  p = step / steps
one-cycle   from lr/25 up to lr, then down to lr/25e4, by half cosines (torch's OneCycleLR)

torch is not imported here, so that the command line can show the settings at once.
"""

import math
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from pdno.interface.records import Record

Count = Annotated[int, Field(ge=1, le=10**9)]
Rate = Annotated[float, Field(gt=0, le=1e3)]
START, END = 1 / 25, 1 / 25e4  # of the one-cycle schedule, the usual ones
SCHEDULE_OF = {"step_size": "step", "step_factor": "step", "warm_up": "one-cycle"}


class TrainingSettings(Record):
    """Settings of a training; the defaults are the recommended recipe (docs/training.md).

    The loss of a batch is the sum (paper) or the mean over its samples of the relative error
    ‖prediction - target‖ / ‖target‖ in H^s.
    """

    model_config = ConfigDict(allow_inf_nan=False)

    epochs: Count = 100
    batch_size: Count = 20
    """Samples per step, over all processes together."""
    optimiser: Literal["adam", "adamw", "muon"] = "muon"
    """adam adds weight_decay to the gradient, adamw shrinks the weights; muon is for matrices."""
    learning_rate: Rate = 2e-3
    matrix_learning_rate: Rate = 0.02
    """Largest learning rate of muon, which follows the same schedule."""
    averaging: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Decay of a running mean of the weights, which is tested and kept at the end; 0 has none."""
    augment: bool = False
    """Whether each example is moved by a random symmetry of the dataset's equation."""
    weight_decay: Annotated[float, Field(ge=0, le=1)] = 0.0
    schedule: Literal["constant", "step", "cosine", "one-cycle"] = "one-cycle"
    """How the learning rate changes: step halves it (see step_size), one-cycle warms up first."""
    step_size: Count = 200
    """Epochs between two steps of the step schedule."""
    step_factor: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Factor of the learning rate at each of them."""
    warm_up: Annotated[float, Field(ge=0, lt=1)] = 0.3
    """Share of the one-cycle run in which the learning rate rises."""
    frozen: tuple[str, ...] = ()
    """Parts of the network that are not trained, by the first words of their parameters' names,
    for example lift or operators.0."""
    clip: Rate | None = None
    """Largest norm of the gradient; None does not clip."""
    loss_order: Annotated[float, Field(ge=-8, le=8)] = 0.0
    """s of the H^s norm in the loss; 0 is L2."""
    reduction: Literal["sum", "mean"] = "sum"
    """Whether the loss is the sum (as published) or the mean over a batch."""
    precision: Literal["float32", "float64", "bfloat16"] = "float32"
    """Number type of the weights; bfloat16 is float32 with autocast."""
    patience: Count | None = None
    """Epochs without a better test error after which training stops; None never does."""
    keep: Literal["last", "best"] = "last"
    """Whether the weights at the end are those of the last epoch, or of that with the best test
    error: give validation samples as the test then, and measure on others."""
    evaluate_every: Count = 1
    """Epochs between two measurements of the test error; the last epoch is always measured."""
    checkpoint_seconds: Annotated[float, Field(ge=0)] = 60.0
    """Seconds between two checkpoints; 0 writes one after every step."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    """Seed of the order of the samples and of all noise."""

    @model_validator(mode="after")
    def _check_together(self) -> "TrainingSettings":
        for name, schedule in SCHEDULE_OF.items():
            value = getattr(self, name)
            if value != type(self).model_fields[name].default and self.schedule != schedule:
                raise ValueError(f"{name}={value} belongs to schedule {schedule!r}: leave it out")
        if self.patience is not None and self.patience < self.evaluate_every:
            less = f"patience={self.patience} is less than evaluate_every={self.evaluate_every}"
            raise ValueError(f"{less}: the run would stop before it is measured twice")
        return self


def learning_rate(settings: TrainingSettings, step: int, steps_per_epoch: int) -> float:
    peak = settings.learning_rate
    total = settings.epochs * steps_per_epoch
    if settings.schedule == "constant":
        return peak
    if settings.schedule == "step":
        steps = step // steps_per_epoch // settings.step_size
        return peak * float(settings.step_factor**steps)
    if settings.schedule == "cosine":
        return peak * _fall(step / total)
    # the last step of the warm-up has the whole learning rate, the last of all has the least
    top = max(settings.warm_up * total - 1, 0.0)
    if step < top:
        return peak * (1 + (START - 1) * _fall(step / top))
    return peak * (END + (1 - END) * _fall((step - top) / max(total - 1 - top, 1.0)))


def _fall(p: float) -> float:
    """Half a cosine from 1 at p = 0 to 0 at p = 1."""
    return (1 + math.cos(math.pi * p)) / 2
