"""Normalisers: u -> (u - mean) / (std + ε) with the statistics of the training samples.

*Pointwise* statistics are fields of their own: one mean and one deviation for every point, as in
the published Darcy runs. They belong to a grid, and carry it; on another grid they are splines
of themselves, so a normaliser serves every resolution. *Channel* statistics are one pair of
numbers per channel.
"""

__all__ = ["Normalization", "Normalizer", "fit_normalizer"]

import math
from typing import Literal

import torch
from torch import Tensor, nn

from pdno.grid import Grid
from pdno.spectral import interpolate

Normalization = Literal["none", "pointwise", "channel"]

EPSILON = 1e-5  # of the published normaliser


class Normalizer(nn.Module):
    """encode(u) = (u - mean) / (std + ε) and its inverse decode (paper section 5.2).

    Shapes: mean and std (..., C, *N), or (..., C, 1, ..., 1) for channel statistics; they are
    broadcast over the batch.

    Arguments:
        mean: Mean over the training samples.
        std: Unbiased standard deviation over them.
        grid: The grid of the statistics.
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
        pointwise = math.prod(mean.shape[-grid.dim :]) > 1
        if grid == self.grid or not pointwise:
            return mean, std
        # a spline through a spike swings below zero; the least value between the points of a
        # smooth deviation is not far below the least one on them
        spread = interpolate(std, self.grid, grid).clamp_min(float(std.min()) / 2)
        return interpolate(mean, self.grid, grid), spread


def fit_normalizer(
    samples: Tensor, grid: Grid, kind: Normalization, *, frames: bool = False
) -> Normalizer | None:
    """The normaliser of samples (B, C, *N), or (B, T, C, *N) with frames; None for "none".

    Arguments:
        samples: The training samples.
        grid: Their grid.
        kind: "pointwise", "channel" or "none".
        frames: Whether the second axis is time; its frames count as samples of their own.
    """
    grid.check(samples, "samples")
    if kind == "none":
        return None
    samples = samples.flatten(0, 1) if frames else samples
    if kind == "channel":
        over = [0, *range(-grid.dim, 0)]
        std, mean = torch.std_mean(samples.double(), dim=over, keepdim=True)
        return Normalizer(mean[0].to(samples.dtype), std[0].to(samples.dtype), grid)
    if kind != "pointwise":
        raise ValueError(f"normalisation {kind!r}; expected 'none', 'pointwise' or 'channel'")
    if len(samples) < 2:
        raise ValueError(f"{len(samples)} sample: pointwise statistics need at least 2")
    std, mean = torch.std_mean(samples.double(), dim=0)
    return Normalizer(mean.to(samples.dtype), std.to(samples.dtype), grid)
