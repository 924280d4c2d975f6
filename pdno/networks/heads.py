"""Heads: what a network makes of the outputs of its last layer.

With the transport head they say where the next frame comes from and what is added to it:

    u(x) = e^{cΔ}[v(· + δ)](x) + r(x)

v are the last channels of the input, in a rollout the latest frame. A step of advection is a warp
of it and no short Fourier series; what is left, δ and r, is smooth and small.
"""

from functools import reduce
from itertools import product
from typing import Annotated, Literal

import torch
from pydantic import BeforeValidator
from torch import Tensor, nn

from pdno.interface.records import Record, by_kind
from pdno.spectral.calculus import laplacian_symbol, resample
from pdno.spectral.fourier import inverse, transform
from pdno.spectral.grid import Grid

REFINE = 2  # points on which v is read for each of its own; a factor 2 divides the error by 8
REACH = 0.25  # the displacement that an output of 1 stands for, in units of the domain
START = 0.1  # the last weights of a new network over their usual size: at first u is nearly v
FIRST_C = 1e-6  # at first almost nothing diffuses
PACE = 10.0  # c = FIRST_C e^{PACE p}: a step of 1e-3 of an optimiser changes c by a hundredth


class TransportHead(Record):
    """The options of the transport head, `PDNO(..., head=TransportHead(diffusion=True))`.

    With `diffusion` what is carried also diffuses, which damps modes that r, made of the kept
    ones, does not reach.
    """

    kind: Literal["transport"] = "transport"
    diffusion: bool = False

    def outputs(self, dim: int, out_channels: int) -> int:
        """Outputs of the network below the head: δ and r."""
        return dim + out_channels

    def attach(self, dim: int, out_channels: int, last: nn.Module) -> "Transport":
        """The head after a last layer, whose weights shrink so that at first u is nearly v."""
        weight, bias = last.parameters()
        with torch.no_grad():
            weight.mul_(START)
            bias.zero_()
        return Transport(dim, out_channels, diffusion=self.diffusion)


HEADS = {"transport": TransportHead}
"""The options of heads by kind, as in `head: transport` of a specification."""
AnyHead = Annotated[TransportHead | str | None, BeforeValidator(by_kind("head", HEADS))]


def make_head(head: AnyHead) -> TransportHead | None:
    """The options of a head, of its kind, or of a record {"kind": ..., ...}; None has none."""
    options: object = by_kind("head", HEADS)(head)
    if options is not None and not isinstance(options, TransportHead):
        raise ValueError(f"head is {head!r}; expected None, 'transport' or a TransportHead")
    return options


class Transport(nn.Module):
    """u(x) = e^{cΔ}[v(· + δ)](x) + r(x) on a periodic domain, the head as a part of a network.

    The outputs of the network are (4δ, r), (B, d + C, *N). Normalisers have to be the same at
    every point ("none" or "channel"), for values of v move from point to point. c is one learned
    number for each channel, the viscosity times the step where there is such a thing.
    """

    def __init__(self, dim: int, channels: int, *, diffusion: bool) -> None:
        super().__init__()
        self.dim = dim
        self.log_c = nn.Parameter(torch.zeros(channels)) if diffusion else None

    def project(self, outputs: Tensor, f: Tensor) -> Tensor:
        """The next frame, from outputs (B, d + C, *N) and the input f (B, k·C, *N)."""
        displacement, rest = outputs[:, : self.dim], outputs[:, self.dim :]
        carried = warp(f[:, -rest.shape[1] :], REACH * displacement)
        if self.log_c is not None:
            carried = diffuse(carried, self.c)
        return carried + rest

    @property
    def c(self) -> Tensor:
        """How much each channel diffuses in a step, (C,), in units of the domain; 0 where none."""
        if self.log_c is None:
            return torch.zeros(1)
        return FIRST_C * torch.exp(PACE * self.log_c)


def warp(v: Tensor, displacement: Tensor) -> Tensor:
    """v(x + δ(x)) for periodic fields, (B, C, *N) and (B, d, *N) -> (B, C, *N).

    v is brought to a finer grid by its Fourier series and read there by cubic convolution (Keys),
    which is exact at grid points and has an error of order three between them.
    """
    return read_between(resample(v, [REFINE * n for n in v.shape[2:]]), displacement)


def diffuse(v: Tensor, c: Tensor) -> Tensor:
    """e^{cΔ} v for periodic fields, (B, C, *N) and (C,) -> (B, C, *N)."""
    shape = tuple(v.shape[2:])
    laplacian = laplacian_symbol(Grid(shape), v.device).to(c.dtype)
    damping = torch.exp(c.reshape(-1, *[1] * len(shape)) * laplacian)
    return inverse(transform(v, len(shape)) * damping, shape)


def read_between(values: Tensor, displacement: Tensor) -> Tensor:
    """v(x + δ(x)) for v on the finer grid, (B, C, *M) and (B, d, *N) -> (B, C, *N)."""
    shape, fine = displacement.shape[2:], list(values.shape[2:])
    channels, values = values.shape[1], values.flatten(2)
    taps = [_taps(displacement[:, axis], axis, shape, fine) for axis in range(len(shape))]

    def term(chosen: tuple[int, ...]) -> Tensor:
        pairs = [axis_taps[k] for axis_taps, k in zip(taps, chosen, strict=True)]
        position, weight = pairs[0]
        for next_position, next_weight in pairs[1:]:
            position, weight = position + next_position, weight * next_weight
        index = position.flatten(1)[:, None].expand(-1, channels, -1)
        return weight[:, None] * torch.unflatten(values.gather(2, index), 2, shape)

    return reduce(torch.add, map(term, product(range(4), repeat=len(shape))))


def _taps(
    displacement: Tensor, axis: int, shape: torch.Size, fine: list[int]
) -> list[tuple[Tensor, Tensor]]:
    """Positions in the flat field and weights of the four neighbours along an axis."""
    n, m = shape[axis], fine[axis]
    steps = torch.arange(n, device=displacement.device, dtype=displacement.dtype) * REFINE
    along = steps.reshape(-1, *[1] * (len(shape) - 1 - axis)) + displacement * m
    first = along.detach().floor()
    s = along - first
    stride = torch.Size(fine[axis + 1 :]).numel()
    weights = (
        ((2 - s) * s - 1) * s / 2,
        ((3 * s - 5) * s * s + 2) / 2,
        ((4 - 3 * s) * s + 1) * s / 2,
        (s - 1) * s * s / 2,
    )
    positions = [(first.long() + k - 1).remainder(m) * stride for k in range(4)]
    return list(zip(positions, weights, strict=True))
