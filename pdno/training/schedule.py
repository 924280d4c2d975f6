"""The learning rate as a function of the step: nothing to save, nothing to restore.

constant    lr
step        lr · factor^⌊epoch / step_size⌋                          (the paper's StepLR)
cosine      lr · (1 + cos πp) / 2,  p = step / steps
one-cycle   from lr/25 up to lr, then down to lr/25 · 1/10⁴, both along half a cosine
            (as torch's OneCycleLR)
"""

__all__ = ["learning_rate"]

import math

from pdno.training.settings import TrainingSettings

START, END = 1 / 25, 1 / 25e4  # of the one-cycle schedule, the usual ones


def learning_rate(settings: TrainingSettings, step: int, steps_per_epoch: int) -> float:
    """The learning rate of step `step` (from 0)."""
    peak = settings.learning_rate
    total = settings.epochs * steps_per_epoch
    if settings.schedule == "constant":
        return peak
    if settings.schedule == "step":
        drops = step // steps_per_epoch // settings.step_size
        return float(peak * settings.step_factor**drops)
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
