"""The problem sizes of `pdno bench`, and the ratios that are asked of them.

A ratio is the time of a training step over that of the neuraloperator FNO with the same width and
modes, on one thread and with the tuned allocator.
"""

__all__ = ["ASKED", "MAIN", "ROLLOUT_ASKED", "SETTINGS", "Asked", "Setting"]

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pdno.grid import Grid

MAIN = "2d-64-k12"
"""The paper's Navier-Stokes setting."""


@dataclass(frozen=True)
class Setting:
    """A problem size.

    Arguments:
        shape: Grid points along each axis.
        modes: k_max, or None for all modes.
        width: Channels inside.
        batch: Samples.
        in_channels: Channels of the input.
        symbol_layers: Hidden-to-hidden maps of the symbol networks.
        symbol_hidden: Their width.
    """

    shape: tuple[int, ...]
    modes: int | None
    width: int = 20
    batch: int = 20
    in_channels: int = 1
    symbol_layers: int = 2
    symbol_hidden: int = 32

    @property
    def grid(self) -> Grid:
        """The periodic grid of the fields."""
        return Grid(self.shape)

    @property
    def title(self) -> str:
        """What a table calls it."""
        points = "x".join(map(str, self.shape))
        modes = "all modes" if self.modes is None else f"k {self.modes}"
        return f"{len(self.shape)}D {points}, {modes}, width {self.width}, batch {self.batch}"

    def inputs(self) -> Tensor:
        """Random input fields."""
        return torch.randn(self.batch, self.in_channels, *self.shape)

    def tiny(self) -> "Setting":
        """The same with one sample, few points and few modes; it takes the same code."""
        modes = None if self.modes is None else 4
        return replace(self, shape=(16,) * len(self.shape), modes=modes, batch=1)


@dataclass(frozen=True)
class Asked:
    """The largest ratios to the neuraloperator FNO that are asked for.

    Arguments:
        space_and_frequency: Of PDNO a(x,ξ).
        frequency: Of PDNO a(ξ).
    """

    space_and_frequency: float
    frequency: float


SETTINGS = {
    MAIN: Setting((64, 64), 12, in_channels=10),
    "2d-64-all": Setting((64, 64), None, in_channels=10),
    "2d-85-k12": Setting((85, 85), 12),
    "2d-241-k12": Setting((241, 241), 12, batch=4),
    "2d-256-k12": Setting((256, 256), 12, batch=4),
    "2d-64-k12-batch1": Setting((64, 64), 12, batch=1, in_channels=10),
    "1d-1024-k16": Setting((1024,), 16, width=64, symbol_hidden=64),
    "1d-1024-all": Setting((1024,), None, width=64, symbol_hidden=64),
    "1d-8192-k16": Setting((8192,), 16, width=64, symbol_hidden=64),
    "3d-32-k8": Setting((32, 32, 32), 8, width=12, batch=2),
}

ASKED = {
    MAIN: Asked(0.75, 0.50),
    "2d-64-all": Asked(1.0, 0.6),
    "2d-85-k12": Asked(0.9, 0.4),
    "2d-241-k12": Asked(1.1, 0.6),
    "2d-256-k12": Asked(1.1, 0.6),
    "2d-64-k12-batch1": Asked(1.5, 0.9),
    "1d-1024-k16": Asked(1.5, 0.5),
    "1d-1024-all": Asked(1.5, 0.8),
    "1d-8192-k16": Asked(1.5, 0.5),
    "3d-32-k8": Asked(1.5, 0.8),
}

ROLLOUT_ASKED: dict[int, float | None] = {1: 1.5, 20: None}
"""The ratio asked of a frozen rollout, by the number of samples."""
