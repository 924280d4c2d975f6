"""What the networks see of x and ξ: fixed multiples, numbers of the model and never of the grid.

    x · coordinate_scale    and    ξ / frequency_scale

so a trained model is the same operator on every grid. At a training resolution s the published
behaviour is recovered by (s/(s-1), s): x·s/(s-1) = i/(s-1) includes both ends, and ξ/s lies in
[-1/2, 1/2). The scale is no detail: with ξ/s the networks see a sliver of their inputs, start
almost linear and learn slowly. Without a stated scale the kept modes span [-4, 4]; where all modes
are kept, those of the first grid that the model meets. The choice is stored with the weights.
"""

__all__ = ["InputScale"]

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pdno.fourier import Modes
from pdno.grid import Grid, kept_per_axis

SPAN = 4.0

Scale = float | Sequence[float] | None


class InputScale(nn.Module):
    """The scales of one model, as buffers that are saved with its weights.

    Arguments:
        dim: Number of axes.
        coordinate_scale: Factor of x, one or one per axis.
        frequency_scale: Divisor of ξ, one or one per axis; None chooses.
    """

    coordinate: Tensor
    frequency: Tensor

    def __init__(
        self, dim: int, coordinate_scale: Scale = 1.0, frequency_scale: Scale = None
    ) -> None:
        super().__init__()
        self.dim = dim
        self.register_buffer("coordinate", self._per_axis(coordinate_scale or 1.0))
        chosen = frequency_scale is not None
        self.register_buffer("frequency", self._per_axis(frequency_scale if chosen else torch.inf))
        self.chosen = chosen

    def _per_axis(self, scale: Scale) -> Tensor:
        values = [scale] * self.dim if isinstance(scale, (int, float)) else list(scale or ())
        if len(values) != self.dim or not all(value > 0 for value in values):
            raise ValueError(
                f"scale {scale}; expected a positive number, or one per {self.dim} axes"
            )
        return torch.tensor(values, dtype=torch.float64)

    def x(self, grid: Grid, like: Tensor) -> Tensor:
        """x · coordinate_scale, shape (*N, d)."""
        points = grid.points(device=like.device)
        return (points * self.coordinate.to(like.device)).to(like.dtype)

    def xi(self, grid: Grid, modes: Modes, like: Tensor) -> Tensor:
        """ξ / frequency_scale, shape (*N^, d)."""
        if not self.chosen:
            self._choose(grid, modes)
        xi = grid.modes(modes, device=like.device)
        return (xi / self.frequency.to(like.device)).to(like.dtype)

    def _choose(self, grid: Grid, modes: Modes) -> None:
        kept = kept_per_axis(grid.shape, modes)
        largest = [n / 2 if k is None else float(k) for n, k in zip(grid.shape, kept, strict=True)]
        self.frequency.copy_(torch.tensor(largest, dtype=torch.float64) / SPAN)
        self.chosen = True

    def _apply(self, fn: Any, recurse: bool = True) -> "InputScale":
        # `model.half()` and the like must not touch the scales: they are exact numbers
        coordinate, frequency = self.coordinate, self.frequency
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.coordinate = coordinate.to(self.coordinate.device)
        self.frequency = frequency.to(self.frequency.device)
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *rest)
        self.chosen = bool(torch.isfinite(self.frequency).all())
