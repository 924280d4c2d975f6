"""Normalisers: u -> (u - mean) / (std + ε) with the statistics of the training samples.

Pointwise statistics are fields, as in the published Darcy runs, and splines of themselves on other
grids; channel statistics are a pair of numbers per channel. PDE parameters are scaled to [-1, 1].
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from pdno.interface.errors import check_choice
from pdno.networks.neural_operator import NeuralOperator
from pdno.spectral.calculus import interpolate
from pdno.spectral.grid import Grid

Normalization = Literal["none", "pointwise", "channel"]
EPSILON = 1e-5  # of the published normaliser
DECADE = 10.0


class Normalizer(nn.Module):
    """encode(u) = (u - mean) / (std + ε) and its inverse decode (paper section 5.2).

    Shapes: mean and unbiased std on `grid`, (..., C, *N), or (..., C, 1, ..., 1) of channels; they
    are repeated over the frames of a window (B, k·C, *N).
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
            least = float(std.min()) / 2  # a spline through a spike swings below zero
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
    check_choice("normalization", kind, get_args(Normalization))
    if kind == "none":
        return None
    samples = samples.flatten(0, 1) if frames else samples  # frames are samples of their own
    if kind == "pointwise" and len(samples) < 2:
        raise ValueError(f"{len(samples)} sample: pointwise statistics need at least 2")
    over = [0, *range(-grid.dim, 0)] if kind == "channel" else [0]
    std, mean = (s[0] for s in torch.std_mean(samples.double(), dim=over, keepdim=True))
    return Normalizer(mean.to(samples.dtype), std.to(samples.dtype), grid)


class ParameterScale(nn.Module):
    """μ -> 2 (g(μ) - g(low)) / (g(high) - g(low)) - 1, g = log for μ over a decade or more.

    Shapes: low and high (P,), those of the training samples.
    """

    low: Tensor
    high: Tensor

    def __init__(self, low: Tensor, high: Tensor) -> None:
        super().__init__()
        self.register_buffer("low", low)
        self.register_buffer("high", high)

    def forward(self, pde_parameters: Tensor) -> Tensor:
        """PDE parameters (B, P) as networks see them, in [-1, 1] for those of the training."""
        low, high = self.low.double(), self.high.double()
        log = (low > 0) & (high >= DECADE * low)
        values = pde_parameters.to(low.device).double()
        bad = (log & (values <= 0)).nonzero()
        if len(bad):
            number = f"a PDE parameter is {float(values[tuple(bad[0])]):g}"
            raise ValueError(f"{number}; expected a positive one, as in the training")
        low, high, values = (torch.where(log, x.abs().log(), x) for x in (low, high, values))
        span = torch.where(high > low, high - low, 1.0)
        return (2 * (values - low) / span - 1).to(pde_parameters.dtype)


@dataclass(frozen=True)
class NormalizedNetwork:
    """decode ∘ network ∘ encode on a grid, at the PDE parameters of a batch.

    `pde_parameters` are scaled, (B, P). Symbols see them where they take such; else each is a
    constant channel before the others. One output has `channels` channels. The network sees times
    as (t - start) / span.
    """

    network: nn.Module
    grid: Grid
    inputs: Normalizer | None = None
    outputs: Normalizer | None = None
    channels: int = 1
    pde_parameters: Tensor | None = None
    time_scale: tuple[float, float] = (0.0, 1.0)  #: start, span

    def encode(self, f: Tensor) -> Tensor:
        """Inputs as the network sees them."""
        return f if self.inputs is None else self.inputs.encode(f, self.grid)

    def decode(self, u: Tensor) -> Tensor:
        """Outputs of the network in the units of the data."""
        return u if self.outputs is None else self.outputs.decode(u, self.grid)

    @property
    def in_symbols(self) -> Tensor | None:
        """The PDE parameters that the symbols see, (B, P); None where they see none."""
        return self.pde_parameters if count_seen(self.network) else None

    def with_channels(self, f: Tensor) -> Tensor:
        """f after a constant channel for each parameter that no symbol sees, (B, P + C, *N)."""
        if self.pde_parameters is None or self.in_symbols is not None:
            return f
        constant = self.pde_parameters.to(f)
        constant = constant.reshape(*constant.shape, *[1] * (f.dim() - 2))
        return torch.cat([constant.expand(f.shape[0], -1, *f.shape[2:]), f], dim=1)

    @cached_property
    def step(self) -> Callable[[Tensor], Tensor]:
        """`apply` with the symbols evaluated once for all calls, where the network has such."""
        if not isinstance(self.network, NeuralOperator):
            return self.apply
        step = self.network.shared_step(self.grid, self.in_symbols)
        return lambda f: step(self.with_channels(f))

    def apply(self, f: Tensor, t: Tensor | None = None) -> Tensor:
        """The network alone, on encoded fields; one that knows no grid gets the field alone."""
        f, numbers = self.with_channels(f), self.in_symbols
        if t is not None:
            start, span = self.time_scale
            t = (t - start) / span
            if numbers is not None:  # one time for all, or one for each sample, comes first
                numbers = numbers.expand(len(f), -1)
                t = torch.cat([t.reshape(-1, 1).expand(len(f), 1).to(numbers), numbers], dim=1)
            numbers = t
        options: dict[str, object] = {} if numbers is None else {"t": numbers}
        options |= {"grid": self.grid} if _takes_grid(type(self.network).forward) else {}
        output: Tensor = self.network(f, **options)
        return output

    def __call__(self, f: Tensor, t: Tensor | None = None) -> Tensor:
        """decode(network(encode(f))), at times in the units of the data."""
        return self.decode(self.apply(self.encode(f), t))


@cache
def _takes_grid(forward: Callable[..., object]) -> bool:
    return "grid" in inspect.signature(forward).parameters


def count_seen(network: nn.Module) -> int:
    """How many PDE parameters the symbols of a network see."""
    return int(getattr(network, "pde_parameters", 0))


def move(module: nn.Module, device: torch.device | str, dtype: torch.dtype) -> None:
    """As `module.to`, which makes complex weights real; here they stay complex."""

    def moved(tensor: Tensor) -> Tensor:
        if tensor.is_complex():
            return tensor.to(device, dtype.to_complex())
        return tensor.to(device, dtype if tensor.is_floating_point() else None)

    apply: Callable[..., nn.Module] = module._apply
    apply(moved)
