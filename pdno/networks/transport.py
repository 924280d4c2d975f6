"""The transport head: a network says where the next frame comes from, and what is added.

    u(x) = v(x + δ(x)) + r(x)

v are the last channels of the input, in a rollout the latest frame. A step of advection is a warp
of it and no short Fourier series; what is left to say, δ and r, is smooth and small.
"""

__all__ = ["Transport", "read_between", "warp"]

from functools import reduce
from itertools import product

import torch
from torch import Tensor, nn

from pdno.arguments import KeepsArguments
from pdno.grid import Grid
from pdno.spectral import resample
from pdno.symbols.base import Time

REFINE = 2  # points on which v is read for each of its own; a factor 2 divides the error by 8
REACH = 0.25  # the displacement that an output of 1 stands for, in units of the domain
START = 0.1  # the last weights of a new network over their usual size: at first u is nearly v


class Transport(KeepsArguments, nn.Module):
    """u(x) = v(x + δ(x)) + r(x) with (4δ, r) the outputs of a network, on a periodic domain.

    Shapes: (B, k·C, *N) -> (B, C, *N); the network has d + C outputs. Normalisers have to be the
    same at every point ("none" or "channel"), for values of v move from point to point.
    """

    def __init__(self, network: nn.Module, dim: int) -> None:
        super().__init__()
        self.network, self.dim = network, dim
        weight, bias = list(network.project.parameters())[-2:]  # type: ignore[union-attr]
        with torch.no_grad():
            weight.mul_(START)
            bias.zero_()

    def forward(self, f: Tensor, *, grid: Grid | None = None, t: Time = None) -> Tensor:
        """The next frame; t are the numbers that the symbols of the network see."""
        options = ({} if grid is None else {"grid": grid}) | ({} if t is None else {"t": t})
        moved = self.network(f, **options)
        displacement, rest = moved[:, : self.dim], moved[:, self.dim :]
        frame: Tensor = warp(f[:, -rest.shape[1] :], REACH * displacement) + rest
        return frame


def warp(v: Tensor, displacement: Tensor) -> Tensor:
    """v(x + δ(x)) for periodic fields, (B, C, *N) and (B, d, *N) -> (B, C, *N).

    v is brought to a finer grid by its Fourier series and read there by cubic convolution (Keys),
    which is exact at grid points and has an error of order three between them.
    """
    return read_between(resample(v, [REFINE * n for n in v.shape[2:]]), displacement)


def read_between(values: Tensor, displacement: Tensor) -> Tensor:
    """v(x + δ(x)) for v on the finer grid, (B, C, *M) and (B, d, *N) -> (B, C, *N)."""
    shape, fine = displacement.shape[2:], list(values.shape[2:])
    channels, values = values.shape[1], values.flatten(2)
    taps = [_taps(displacement[:, axis], axis, shape, fine) for axis in range(len(shape))]

    def term(chosen: tuple[int, ...]) -> Tensor:
        pairs = [axis_taps[k] for axis_taps, k in zip(taps, chosen, strict=True)]
        place, weight = pairs[0]
        for next_place, next_weight in pairs[1:]:
            place, weight = place + next_place, weight * next_weight
        index = place.flatten(1)[:, None].expand(-1, channels, -1)
        return weight[:, None] * torch.unflatten(values.gather(2, index), 2, shape)

    return reduce(torch.add, map(term, product(range(4), repeat=len(shape))))


def _taps(
    displacement: Tensor, axis: int, shape: torch.Size, fine: list[int]
) -> list[tuple[Tensor, Tensor]]:
    """Places and weights of the four neighbours along an axis; places count in the flat field."""
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
    places = [(first.long() + k - 1).remainder(m) * stride for k in range(4)]
    return list(zip(places, weights, strict=True))
