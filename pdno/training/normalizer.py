"""Normalisers: u -> (u - mean) / (std + ε) with the statistics of the training samples.

*Pointwise* statistics are fields, as in the published Darcy runs. They carry their grid; on other
grids they are splines of themselves, so a normaliser serves every resolution. *Channel* statistics
are one pair of numbers per channel.

PDE parameters, which the symbols of a network see or which it gets as constant channels,
are brought to [-1, 1], their logarithms where they range over a decade or more.
"""

__all__ = [
    "Normalization",
    "NormalizedNetwork",
    "Normalizer",
    "Normalizers",
    "ParameterScale",
    "fit_normalizer",
    "move",
]

import copy
import inspect
import math
from collections.abc import Callable
from typing import Any, Literal
from weakref import WeakSet

import torch
from torch import Tensor, nn

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

    def forward(self, pde_parameters: Tensor) -> Tensor:
        """PDE parameters (B, P) as networks see them; outside of the training they leave [-1, 1]."""
        low, high = self.low.double(), self.high.double()
        log = (low > 0) & (high >= DECADE * low)
        values = pde_parameters.to(low.device).double()
        bad = (log & (values <= 0)).nonzero()
        if len(bad):
            number = float(values[tuple(bad[0])])
            raise ValueError(
                f"a scalar is {number:g}; expected a positive one, as in the training"
            )
        low, high, values = (torch.where(log, one.abs().log(), one) for one in (low, high, values))
        span = torch.where(high > low, high - low, 1.0)
        return (2 * (values - low) / span - 1).to(pde_parameters.dtype)


INSIDE: WeakSet[nn.Module] = WeakSet()
"""Networks inside normalisers: alone, they do not predict in the units of the data."""
Maybe = Normalizer | None
Normalizers = tuple[Maybe, Maybe]  # of inputs and of outputs


class NormalizedNetwork(nn.Module):
    """decode ∘ network ∘ encode, where one output has `channels` channels.

    Where samples have pde_parameters of the equation, `at` gives the same network for those of a batch:
    its symbols see them, or it gets them as constant channels before the others.
    """

    def __init__(
        self,
        network: nn.Module,
        inputs: Maybe = None,
        outputs: Maybe = None,
        *,
        channels: int = 1,
        pde_parameters: ParameterScale | None = None,
    ) -> None:
        super().__init__()
        self.network, self.inputs, self.outputs = network, inputs, outputs
        self.channels, self.pde_parameters = channels, pde_parameters
        self.seen: Tensor | None = None
        count = 0 if pde_parameters is None else len(pde_parameters.low)
        self._in_symbols = int(getattr(getattr(network, "network", network), "pde_parameters", 0))
        if self._in_symbols not in (0, count):
            raise ValueError(
                f"the symbols of this {type(network).__name__} see {self._in_symbols} pde_parameters, "
                f"the samples have {count}: build it with pde_parameters={count}, or give data with as "
                "many, from_arrays(..., pde_parameters={name: numbers}) or generate(..., vary=...)"
            )
        if inputs is not None or outputs is not None:
            INSIDE.add(network)
        self._takes_grid = "grid" in inspect.signature(network.forward).parameters

    def encode(self, f: Tensor, grid: Grid) -> Tensor:
        """Inputs as the network sees them."""
        return f if self.inputs is None else self.inputs.encode(f, grid)

    def decode(self, u: Tensor, grid: Grid) -> Tensor:
        """Outputs of the network in the units of the data."""
        return u if self.outputs is None else self.outputs.decode(u, grid)

    def at(self, pde_parameters: Tensor | None) -> "NormalizedNetwork":
        """The same network for samples with these pde_parameters, (B, P) in the units of the data."""
        if (pde_parameters is None) != (self.pde_parameters is None):
            given = (
                "none" if pde_parameters is None else f"{pde_parameters.shape[-1]} pde_parameters"
            )
            wanted = 0 if self.pde_parameters is None else len(self.pde_parameters.low)
            raise ValueError(
                f"this operator was trained with {wanted} pde_parameters, and given {given}"
            )
        if pde_parameters is None or self.pde_parameters is None:
            return self
        bound = copy.copy(self)
        bound.seen = self.pde_parameters(pde_parameters)
        return bound

    @property
    def in_symbols(self) -> Tensor | None:
        """What the symbols see of the pde_parameters, (B, P); None where they see none."""
        return self.seen if self._in_symbols else None

    def with_channels(self, f: Tensor) -> Tensor:
        """f after a constant channel for each scalar that no symbol sees, (B, P + C, *N)."""
        if self.seen is None or self._in_symbols:
            return f
        constant = self.seen.to(f).reshape(*self.seen.shape, *[1] * (f.dim() - 2))
        return torch.cat([constant.expand(len(f), -1, *f.shape[2:]), f], dim=1)

    def apply_network(self, f: Tensor, grid: Grid, t: Tensor | None = None) -> Tensor:
        """The network alone; one that knows no grid gets the field alone."""
        pde_parameters = self.in_symbols
        if pde_parameters is not None and t is not None:
            # one time for all, or one for each sample, and then the pde_parameters
            t = torch.cat(
                [
                    t.reshape(-1, 1).expand(len(pde_parameters), 1).to(pde_parameters),
                    pde_parameters,
                ],
                dim=1,
            )
        numbers = pde_parameters if t is None else t
        options: dict[str, Any] = {} if numbers is None else {"t": numbers}
        options |= {"grid": grid} if self._takes_grid else {}
        output: Tensor = self.network(self.with_channels(f), **options)
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
