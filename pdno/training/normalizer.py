"""Normalisers: u -> (u - mean) / (std + ε) with the statistics of the training samples.

*Pointwise* statistics are fields, as in the published Darcy runs. They carry their grid; on other
grids they are splines of themselves, so a normaliser serves every resolution. *Channel* statistics
are one pair of numbers per channel.

PDE parameters, which the symbols of a network see or which it gets as constant channels,
are brought to [-1, 1], their logarithms where they range over a decade or more.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal

import torch
from torch import Tensor, nn

from pdno.networks.neural_operator import NeuralOperator
from pdno.spectral.calculus import interpolate
from pdno.spectral.grid import Grid

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

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], name: str, grid: Grid) -> "Normalizer | None":
        """The one whose statistics are among the tensors of a trained operator, if any."""
        if f"{name}.mean" not in tensors:
            return None
        return cls(tensors[f"{name}.mean"], tensors[f"{name}.std"], grid)

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


DECADE = 10.0


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

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> "ParameterScale | None":
        """The one whose ends are among the tensors of a trained operator, if any."""
        ends = [tensors[name] for name in ("pde_scale.low", "pde_scale.high") if name in tensors]
        return cls(*ends) if ends else None

    def forward(self, pde_parameters: Tensor) -> Tensor:
        """PDE parameters (B, P) as networks see them, in [-1, 1] for those of the training."""
        low, high = self.low.double(), self.high.double()
        log = (low > 0) & (high >= DECADE * low)
        values = pde_parameters.to(low.device).double()
        bad = (log & (values <= 0)).nonzero()
        if len(bad):
            number = float(values[tuple(bad[0])])
            raise ValueError(
                f"a PDE parameter is {number:g}; expected a positive one, as in the training"
            )
        low, high, values = (torch.where(log, x.abs().log(), x) for x in (low, high, values))
        span = torch.where(high > low, high - low, 1.0)
        return (2 * (values - low) / span - 1).to(pde_parameters.dtype)


@dataclass(frozen=True)
class TimeScale:
    """(t - start) / span, as networks see times."""

    start: float = 0.0
    span: float = 1.0

    def __call__(self, t: Tensor) -> Tensor:
        """Times as the network sees them."""
        return (t - self.start) / self.span


@dataclass(frozen=True)
class NormalizedNetwork:
    """decode ∘ network ∘ encode on a grid, at the PDE parameters of a batch.

    `pde_parameters` are scaled, (B, P). Symbols see them where they take such; else each is a
    constant channel before the others. One output has `channels` channels.
    """

    network: nn.Module
    grid: Grid
    inputs: Normalizer | None = None
    outputs: Normalizer | None = None
    channels: int = 1
    pde_parameters: Tensor | None = None
    time_scale: TimeScale | None = None

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
            t = t if self.time_scale is None else self.time_scale(t)
            if numbers is not None:  # one time for all, or one for each sample, comes first
                numbers = numbers.expand(len(f), -1)
                t = torch.cat([t.reshape(-1, 1).expand(len(f), 1).to(numbers), numbers], dim=1)
            numbers = t
        options: dict[str, object] = {} if numbers is None else {"t": numbers}
        if _takes_grid(type(self.network).forward):
            options["grid"] = self.grid
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
