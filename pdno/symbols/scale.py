"""Input scaling of symbol networks: x · coordinate_scale and ξ / frequency_scale.

The scales belong to the model, so that it is the same operator on every grid. Published at a
training resolution s are s/(s-1) and s.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from pdno.interface.arguments import RecordsArguments
from pdno.spectral.fourier import Modes
from pdno.spectral.grid import Grid, kept_per_axis

SPAN = 4.0
Scale = float | Sequence[float]


class ExactScales(RecordsArguments, nn.Module):
    """A module whose own buffers are scales, which `model.half()` and the like do not round."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "ExactScales":
        before = dict(self._buffers)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, scale in before.items():
            moved: Tensor = getattr(self, name)
            # a scale that comes from the meta device has no digits yet
            digits = moved if scale is None or scale.is_meta else scale
            setattr(self, name, digits.to(moved.device, torch.float64))
        return self


class InputScale(ExactScales):
    """The scales of one model, one or one per axis, as buffers that are saved with its weights.

    Without a frequency scale the kept modes span [-4, 4], or all modes of the first grid that the
    model is used on; until then the scale is saved as 0.
    """

    coordinate: Tensor
    frequency: Tensor

    def __init__(
        self,
        dim: int,
        coordinate_scale: Scale = 1.0,
        frequency_scale: Scale | None = None,
        modes: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        if frequency_scale is None and modes is not None:
            frequency_scale = [k / SPAN for k in modes]
        self.dim, self.initial, self.chosen = dim, frequency_scale, False
        self.register_buffer("coordinate", scale_per_axis(coordinate_scale, dim))
        self.register_buffer("frequency", torch.zeros(dim, dtype=torch.float64))
        if frequency_scale is not None:
            self.settle(frequency_scale)

    def settle(self, frequency_scale: Scale) -> None:
        """Fix the divisor of ξ."""
        self.frequency.copy_(scale_per_axis(frequency_scale, self.dim))
        self.chosen = True

    def points(self, x: Tensor, like: Tensor) -> Tensor:
        """x · coordinate_scale of points (..., d)."""
        return (x.to(like.device) * self.coordinate.to(like.device)).to(like.dtype)

    def frequencies(self, xi: Tensor, like: Tensor) -> Tensor:
        """ξ / frequency_scale of frequencies (..., d)."""
        if not self.chosen:
            cure = "build it with one, or use it on a grid first"
            raise ValueError(f"this symbol has not chosen its frequency_scale yet: {cure}")
        return (xi.to(like.device) / self.frequency.to(like.device)).to(like.dtype)

    def x(self, grid: Grid, like: Tensor) -> Tensor:
        """x · coordinate_scale on a grid, shape (*N, d)."""
        return self.points(grid.points(device=like.device), like)

    def xi(self, grid: Grid, modes: Modes, like: Tensor) -> Tensor:
        """ξ / frequency_scale of the kept modes of a grid, shape (*N^, d)."""
        if not self.chosen:
            kept = zip(grid.shape, kept_per_axis(grid.shape, modes), strict=True)
            self.settle([(n / 2 if k is None else k) / SPAN for n, k in kept])
        return self.frequencies(grid.modes(modes, device=like.device), like)

    def _load_from_state_dict(
        self, state_dict: dict[str, Tensor], prefix: str, *rest: object
    ) -> None:
        super()._load_from_state_dict(state_dict, prefix, *rest)
        self.chosen = bool((self.frequency > 0).all())
        if not self.chosen and self.initial is not None:
            self.settle(self.initial)


def scale_per_axis(scale: Scale, dim: int) -> Tensor:
    """One positive number per axis, shape (d,), float64."""
    values = [scale] * dim if isinstance(scale, (int, float)) else list(scale)
    if len(values) != dim or not all(0 < value < math.inf for value in values):
        expected = f"a positive finite number, or one for each of {dim} axes"
        raise ValueError(f"scale {scale}; expected {expected}")
    return torch.tensor(values, dtype=torch.float64)
