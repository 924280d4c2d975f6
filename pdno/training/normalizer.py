"""Normalisers: u -> (u - mean) / (std + ε) with the statistics of the training samples.

*Pointwise* statistics are fields, as in the published Darcy runs. They carry their grid; on other
grids they are splines of themselves, so a normaliser serves every resolution. *Channel* statistics
are one pair of numbers per channel.
"""

__all__ = [
    "Normalization",
    "NormalizedNetwork",
    "Normalizer",
    "Normalizers",
    "fit_normalizer",
    "move",
]

import inspect
import math
from collections.abc import Callable
from typing import Literal
from weakref import WeakSet

import torch
from torch import Tensor, nn

from pdno.grid import Grid
from pdno.spectral import interpolate

Normalization = Literal["none", "pointwise", "channel"]

EPSILON = 1e-5  # of the published normaliser


class Normalizer(nn.Module):
    """encode(u) = (u - mean) / (std + ε) and its inverse decode (paper section 5.2).

    Shapes: mean and unbiased std on `grid`, (..., C, *N), or (..., C, 1, ..., 1) for channel
    statistics; broadcast over the batch and repeated over the frames of a window (B, k·C, *N).
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor, grid: Grid) -> None:
        super().__init__()
        self.grid = grid
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def encode(self, u: Tensor, grid: Grid) -> Tensor:
        """u in units of the training samples."""
        mean, std = self._on(grid, u)
        return (u - mean) / (std + EPSILON)

    def decode(self, u: Tensor, grid: Grid) -> Tensor:
        """The inverse of `encode`."""
        mean, std = self._on(grid, u)
        return u * (std + EPSILON) + mean

    def _on(self, grid: Grid, like: Tensor) -> tuple[Tensor, Tensor]:
        mean, std = self.mean.to(like), self.std.to(like)
        if grid != self.grid and math.prod(mean.shape[-grid.dim :]) > 1:
            # a spline through a spike swings below zero; the least value between the points of a
            # smooth deviation is not far below the least one on them
            least = float(std.min()) / 2
            mean = interpolate(mean, self.grid, grid)
            std = interpolate(std, self.grid, grid).clamp_min(least)
        channel = -grid.dim - 1
        frames = like.shape[channel] // mean.shape[channel]
        if frames > 1:
            mean, std = (torch.cat([part] * frames, dim=channel) for part in (mean, std))
        return mean, std


def fit_normalizer(
    samples: Tensor, grid: Grid, kind: Normalization, *, frames: bool = False
) -> Normalizer | None:
    """The normaliser of samples (B, C, *N), or (B, T, C, *N) with frames; None for "none"."""
    grid.check(samples, "samples")
    if kind == "none":
        return None
    samples = samples.flatten(0, 1) if frames else samples  # frames are samples of their own
    if kind == "channel":
        over = [0, *range(-grid.dim, 0)]
        std, mean = (s[0] for s in torch.std_mean(samples.double(), dim=over, keepdim=True))
    elif kind != "pointwise":
        raise ValueError(f"normalisation {kind!r}; expected 'none', 'pointwise' or 'channel'")
    elif len(samples) < 2:
        raise ValueError(f"{len(samples)} sample: pointwise statistics need at least 2")
    else:
        std, mean = torch.std_mean(samples.double(), dim=0)
    return Normalizer(mean.to(samples.dtype), std.to(samples.dtype), grid)


INSIDE: WeakSet[nn.Module] = WeakSet()
"""Networks inside normalisers: alone, they do not predict in the units of the data."""
Maybe = Normalizer | None
Normalizers = tuple[Maybe, Maybe]  # of inputs and of outputs


class NormalizedNetwork(nn.Module):
    """decode ∘ network ∘ encode, where one output has `channels` channels."""

    def __init__(
        self, network: nn.Module, inputs: Maybe = None, outputs: Maybe = None, *, channels: int = 1
    ) -> None:
        super().__init__()
        self.network, self.inputs, self.outputs = network, inputs, outputs
        self.channels = channels
        if inputs is not None or outputs is not None:
            INSIDE.add(network)
        self._takes_grid = "grid" in inspect.signature(network.forward).parameters

    def encode(self, f: Tensor, grid: Grid) -> Tensor:
        """Inputs as the network sees them."""
        return f if self.inputs is None else self.inputs.encode(f, grid)

    def decode(self, u: Tensor, grid: Grid) -> Tensor:
        """Outputs of the network in the units of the data."""
        return u if self.outputs is None else self.outputs.decode(u, grid)

    def apply_network(self, f: Tensor, grid: Grid, t: Tensor | None = None) -> Tensor:
        """The network alone; one that knows no grid gets the field alone."""
        options = ({} if t is None else {"t": t}) | ({"grid": grid} if self._takes_grid else {})
        output: Tensor = self.network(f, **options)
        return output

    def forward(self, f: Tensor, grid: Grid, t: Tensor | None = None) -> Tensor:
        """decode(network(encode(f)))."""
        return self.decode(self.apply_network(self.encode(f, grid), grid, t), grid)


def move(module: nn.Module, device: torch.device | str, dtype: torch.dtype) -> None:
    """As `module.to`, which makes complex weights real; here they stay complex."""

    def moved(tensor: Tensor) -> Tensor:
        if tensor.is_complex():
            return tensor.to(device, dtype.to_complex())
        return tensor.to(device, dtype if tensor.is_floating_point() else None)

    apply: Callable[..., nn.Module] = module._apply
    apply(moved)
