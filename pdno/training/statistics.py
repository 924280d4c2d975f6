"""Statistics of samples, kept with the weights: normalisers, ranges of PDE parameters, error bars.

A normaliser is u -> (u - mean) / std. Pointwise statistics are fields, as in the published Darcy
runs, and splines of themselves on other grids; channel statistics are a pair of numbers per
channel. PDE parameters are scaled to [-1, 1].

Conformal error bars hold for a stated share of new samples. With residuals r = u - v of the target
u and the prediction v of held-out samples:

    whole field   |r(x)| <= q σ(x) at all x,t at once for a share 1 - α of the samples. σ(x) is the
                  root mean square of r at x over the first third of them, q the quantile of the
                  scores sup_x |r(x)|/σ(x) of the others.
    pointwise     |r(x)| <= q(x) at each x, t for a share 1 - α of the samples, q(x) the quantile
                  of |r(x)| over all of them.
"""

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from pdno.interface.errors import check_choice
from pdno.spectral.calculus import interpolate
from pdno.spectral.grid import Grid
from pdno.spectral.points import Points

Normalization = Literal["none", "pointwise", "channel"]
Kind = Literal["field", "point"]
EPSILON = 1e-5  # of the published normaliser, here a share of the largest deviation
ROUNDING = 4.0  # relative deviation, in units of the last digit, up to which a channel is constant
DECADE = 10.0
FLOOR = 1e-3  # least σ(x) as a share of its root mean square, where the error is known to vanish


class Normalizer(nn.Module):
    """encode(u) = (u - mean) / std and its inverse decode (paper section 5.2).

    Shapes: mean and std on `grid`, (..., C, *N), or (..., C, 1, ..., 1) of channels; they are
    repeated over the frames of a window (B, k·C, *N).
    """

    def __init__(self, mean: Tensor, std: Tensor, grid: Grid) -> None:
        super().__init__()
        self.mean, self.std, self.grid = nn.Buffer(mean), nn.Buffer(std), grid

    def encode(self, u: Tensor, grid: Grid) -> Tensor:
        """u in units of the training samples."""
        mean, std = self._on(grid, u)
        return (u - mean) / std

    def decode(self, u: Tensor, grid: Grid) -> Tensor:
        """The inverse of `encode`."""
        mean, std = self._on(grid, u)
        return u * std + mean

    def moved(self, grid: Grid) -> "Normalizer":
        mean, std = self._on(grid, self.mean)
        return Normalizer(mean.clone(), std.clone(), grid)

    def _on(self, grid: Grid, like: Tensor) -> tuple[Tensor, Tensor]:
        mean, std, own = self.mean.to(like), self.std.to(like), self.grid.space_axes
        if math.prod(mean.shape[-own:]) == 1:  # of channels, on any grid
            ones = [1] * grid.space_axes
            mean, std = (part.reshape(*part.shape[:-own], *ones) for part in (mean, std))
        elif grid != self.grid:
            least = float(std.min()) / 2  # a spline through a spike swings below zero
            mean, std = (interpolate(part, self.grid, grid) for part in (mean, std))
            std = std.clamp_min(least)
        channel = -grid.space_axes - 1
        frames = like.shape[channel] // mean.shape[channel]
        if frames > 1:
            mean, std = (torch.cat([part] * frames, dim=channel) for part in (mean, std))
        return mean, std


def fit_normalizer(
    samples: Tensor, grid: Grid, kind: Normalization, *, frames: bool = False
) -> Normalizer | None:
    """The normaliser of samples (B, C, *N), or (B, T, C, *N) with frames; None for "none".

    Its std is the unbiased deviation and ε = 1e-5 of the largest one of the channel; that of a
    channel that never changes is the size of its values.
    """
    grid.check(samples, "samples")
    check_choice("normalization", kind, get_args(Normalization))
    if kind == "none":
        return None
    if isinstance(grid, Points) and kind == "pointwise":
        raise ValueError("pointwise statistics need a grid: take normalization='channel'")
    inside = grid.inside(samples)
    if inside is not None:  # what is outside of the domain does not count
        samples = torch.where(inside, samples, math.nan)
    samples = samples.flatten(0, 1) if frames else samples  # frames are samples of their own
    if kind == "pointwise" and len(samples) < 2:
        raise ValueError(f"{len(samples)} sample: pointwise statistics need at least 2")
    space = tuple(range(-grid.space_axes, 0))
    over = [0, *space] if kind == "channel" else [0]
    std, mean = _std_mean(samples.double(), over)
    largest, size = (s.abs().amax(space, keepdim=True) for s in (std, mean))
    constant = largest <= ROUNDING * torch.finfo(samples.dtype).eps * size
    std = torch.where(constant, torch.where(size > 0, size, 1.0), std + EPSILON * largest)
    return Normalizer(mean.to(samples.dtype), std.to(samples.dtype), grid)


def _std_mean(samples: Tensor, over: list[int]) -> tuple[Tensor, Tensor]:
    """Unbiased deviation and mean without the values that are NaN; 0 where all are."""
    if not bool(samples.isnan().any()):
        std, mean = torch.std_mean(samples, dim=over, keepdim=True)
        return std[0], mean[0]
    count = (~samples.isnan()).sum(dim=over, keepdim=True)
    mean = samples.nansum(dim=over, keepdim=True) / count.clamp_min(1)
    squares = (samples - mean).square().nansum(dim=over, keepdim=True)
    return (squares / (count - 1).clamp_min(1)).sqrt()[0], mean[0]


class ParameterScale(nn.Module):
    """μ -> 2 (g(μ) - g(low)) / (g(high) - g(low)) - 1, g = log for μ over a decade or more.

    Shapes: low and high (P,), those of the training samples.
    """

    def __init__(self, low: Tensor, high: Tensor) -> None:
        super().__init__()
        self.low, self.high = nn.Buffer(low), nn.Buffer(high)

    def forward(self, pde_parameters: Tensor) -> Tensor:
        """PDE parameters (B, P) as networks see them, in [-1, 1] for those of the training."""
        low, high = self.low.double(), self.high.double()
        log = (low > 0) & (high >= DECADE * low)
        values = pde_parameters.to(low.device).double()
        if len(bad := values[log & (values <= 0)]):
            raise ValueError(f"a PDE parameter is {float(bad[0]):g}; expected a positive one")
        low, high, values = (torch.where(log, x.abs().log(), x) for x in (low, high, values))
        span = torch.where(high > low, high - low, 1.0)
        return (2 * (values - low) / span - 1).to(pde_parameters.dtype)


class ErrorBars(nn.Module):
    """v ± band: q σ(x) for whole fields, q(x) pointwise.

    Shapes: field and point (C, *N), or (T, C, *N), on the grid of the calibration.
    """

    def __init__(self, field: Tensor, point: Tensor, coverage: Tensor, grid: Grid) -> None:
        super().__init__()
        self.field, self.point, self.grid = nn.Buffer(field), nn.Buffer(point), grid
        self.coverage = nn.Buffer(coverage)

    @classmethod
    def fit(
        cls, predictions: Tensor, targets: Tensor, grid: Grid, coverage: float = 0.9
    ) -> "ErrorBars":
        """From predictions and targets of held-out samples, (B, C, *N) or (B, T, C, *N)."""
        if not 0 < coverage < 1:
            raise ValueError(f"coverage is {coverage}; expected a share between 0 and 1, as 0.9")
        residual = (targets - predictions).abs()
        first = len(residual) // 3
        least = math.ceil(coverage / (1 - coverage) - 1e-9)
        if len(residual) - first < least or not first:
            problem = f"{len(residual)} samples are too few for bars of coverage {coverage:g}"
            raise ValueError(f"{problem}: give {math.ceil(1.5 * least) + 1} or more")
        sigma = residual[:first].double().square().mean(dim=0).sqrt()
        sigma = sigma.clamp_min(FLOOR * float(sigma.square().mean().sqrt())).to(residual)
        if not bool((sigma > 0).all()):
            raise ValueError("all predictions are exact: there is no error to draw bars of")
        scores = (residual[first:] / sigma).flatten(1).amax(dim=1)
        field = conformal_quantile(scores, coverage) * sigma
        point = conformal_quantile(residual, coverage)
        return cls(field, point, torch.tensor(coverage, dtype=field.dtype), grid)

    def band(self, grid: Grid | None = None, kind: Kind = "field") -> Tensor:
        """The half width of the bars on a grid, by default that of the calibration."""
        check_choice("kind", kind, get_args(Kind))
        width = self.field if kind == "field" else self.point
        if grid is None or grid == self.grid:
            return width
        return interpolate(width, self.grid, grid).clamp_min(0.0)

    def covered(self, predictions: Tensor, targets: Tensor, kind: Kind = "field") -> Tensor:
        """Which samples lie in their bars as a whole, (B,), or at which points, (B, C, *N)."""
        inside = (targets - predictions).abs() <= self.band(kind=kind).to(targets)
        return inside.flatten(1).all(dim=1) if kind == "field" else inside


def conformal_quantile(scores: Tensor, coverage: float) -> Tensor:
    """The ⌈(n + 1)(1 - α)⌉-th smallest of n scores along the first axis, (n, ...) -> (...)."""
    rank = math.ceil((len(scores) + 1) * coverage - 1e-9)
    if rank > len(scores):
        raise ValueError(f"{len(scores)} scores are too few for a coverage of {coverage:g}")
    return scores.kthvalue(rank, dim=0).values
