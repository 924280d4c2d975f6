"""Where training samples live: their grid and times, and what that says of inputs to come.

An array has no grid. One that is given to a trained operator is taken as the training samples
were: periodic or not, with the same first point, and its frames at the same times.
"""

__all__ = ["Sampling"]

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from pdno.data.dataset import OperatorDataset
from pdno.spectral.grid import Grid

CENTRE = 0.5  # the offset of cell centres
SAME_TIME = 1e-6  # relative distance up to which two times are one


@dataclass(frozen=True)
class Sampling:
    """Grid and channels of the samples, with names; times of the targets and their step.

    `input_frames` are those of a window, None where the input is no frames. `pde_parameters` are names of
    numbers of the equation that every sample has for itself, `ranges` their least and largest.
    """

    grid: Grid
    input_channels: int
    output_channels: int
    times: tuple[float, ...] | None = None
    step: float | None = None
    input_frames: int | None = None
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    pde_parameters: tuple[str, ...] = ()
    ranges: tuple[tuple[float, float], ...] = ()

    @classmethod
    def of(cls, data: OperatorDataset) -> "Sampling":
        """That of a dataset."""
        (inputs, targets), grid, times = data[0], data.grid, data.times
        channels = inputs.shape[0], targets.shape[-grid.dim - 1]
        step = None if times is None else (times[0] if len(times) == 1 else times[1] - times[0])
        numbers = data.pde_parameters()
        columns = () if numbers is None else numbers.unbind(dim=1)
        ranges = tuple((float(one.min()), float(one.max())) for one in columns)
        own: Any = {"pde_parameters": data.pde_parameter_names, "ranges": ranges}
        return cls(grid, *channels, data.target_times, step, data.input_frames, **own)

    def named(self, inputs: Sequence[str], outputs: Sequence[str]) -> "Sampling":
        """The same with names of its channels; an empty sequence names none."""
        for side, names in (("input", inputs), ("output", outputs)):
            count = getattr(self, f"{side}_channels")
            if isinstance(names, str) or len(names) not in (0, count):
                expected = f"one name for each of {count} {side} channels, for example ['u']"
                raise ValueError(f"{side}s are named {names!r}; expected {expected}")
        return replace(self, input_names=tuple(inputs), output_names=tuple(outputs))

    def grid_of(self, inputs: Tensor) -> Grid:
        """The grid of inputs (B, C, *N), which begins at the first point of the training.

        Fewer points are every n-th of those of the training, more are the finer grid that those
        were taken from. Points finer than that are cell centres where the first point is one.
        """
        trained, shape = self.grid, tuple(inputs.shape[2:])
        if inputs.dim() != trained.dim + 2 or not len(inputs):
            raise ValueError(
                f"the inputs have shape {tuple(inputs.shape)}; expected (B, C, *N) with "
                f"{trained.dim} axes of space and at least one sample"
            )
        ratios = {n / m for n, m in zip(shape, trained.shape, strict=True)}
        if trained.offset == 0 or ratios == {1.0}:
            return Grid(shape, trained.periodic, trained.offset)
        largest = trained.offset * max(ratios)
        if len(ratios) == 1 and largest < CENTRE:
            return Grid(shape, trained.periodic, largest)
        # more points than the grid behind the training had, or other proportions
        every = CENTRE / trained.offset
        if largest >= CENTRE and math.isclose(every, round(every)) and every > 0.9:
            return Grid(shape, trained.periodic, CENTRE)
        raise ValueError(
            f"inputs on {shape} points: where they begin does not follow from the training, on "
            f"{trained.shape} points with offset {trained.offset:g}: give a grid=pdno.Grid(...)"
        )

    def frames_at(self, times: Sequence[float] | None) -> Sequence[float]:
        """The times to predict at, frame after frame; those of the training where none are given.

        A time is a number of steps there: frames cannot be left out, nor others be asked for.
        """
        trained, step = self.times, self.step
        if trained is None or step is None:
            if times is None:
                raise ValueError("this run predicts frames: give the times of the wanted ones")
            return times
        if times is None:
            return trained
        frames = [*trained, *(trained[-1] + step * k for k in range(1, len(times) + 1))]
        for time, frame in zip(times, frames, strict=False):
            if abs(time - frame) > SAME_TIME * max(abs(frame), step):
                raise ValueError(
                    f"times {list(times)}; this run predicts t = {frames[0]:g}, {frames[1]:g}, "
                    "... in turn: ask for all frames up to the last one wanted"
                )
        return times
