"""MWT, the multiwavelet neural operator, a baseline of the paper.

    u = Q ∘ K_n ∘ σ ∘ K_{n-1} ∘ ... ∘ σ ∘ K_1 ∘ P [f]

P gives every point the k^d coefficients of `width` functions, σ is ReLU, Q has one hidden layer of
128. The space-time network normalises over the batch after each `MultiwaveletOperator` K.
"""

from functools import partial
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from pdno.interface.arguments import RecordsArguments
from pdno.interface.errors import check_at_least
from pdno.networks.heads import AnyHead, make_head
from pdno.networks.neural_operator import Size, check_numbers
from pdno.operators.multiwavelet import CONVOLUTION, MultiwaveletOperator
from pdno.spectral.grid import Grid

Base = Literal["legendre", "chebyshev"]
HIDDEN = 128  # channels of the projection, in all published multiwavelet networks


class MWT(RecordsArguments, nn.Module):
    """The multiwavelet neural operator; the defaults are those of Darcy flow.

    Shapes: (B, in_channels, *N) -> (B, out_channels, *N), in space-time with a last axis T.
    Every axis of *N is a power of two; T is free.

    Arguments:
        dim: Number of axes of space, 1 or 2; with `space_time` a time axis follows them.
        width: Number of functions c inside; with k `wavelets` per axis of a cell, of the `base`
            "legendre" or "chebyshev", there are c k^d channels.
        modes: Number of Fourier modes α of the kernels; 2^`coarsest` points are the last level.
        append_coordinates: Whether x (and t) are appended. The published networks expect them in
            the data: after it for Darcy flow, before it for Navier-Stokes, none in 1D.
        head: What becomes of the outputs, as in a `PDNO`.

    Example:
        >>> network = MWT(1, 1, width=2, wavelets=3, modes=5, blocks=2)
        >>> network(torch.zeros(7, 1, 32)).shape
        torch.Size([7, 1, 32])
    """

    def __init__(
        self,
        dim: int,
        in_channels: int,
        out_channels: int = 1,
        *,
        width: Size = 4,
        wavelets: Size = 4,
        modes: Size = 12,
        blocks: Size = 4,
        coarsest: Annotated[int, Field(ge=0, le=16)] = 0,
        base: Base = "legendre",
        space_time: bool = False,
        append_coordinates: bool = True,
        head: AnyHead = None,
    ) -> None:
        super().__init__()
        options = make_head(head)
        if space_time and head is not None:
            raise ValueError("a head predicts one frame, a space-time network all: leave one out")
        check_at_least("blocks", blocks)
        self.dim, self.in_channels, self.space_time = dim, in_channels, space_time
        self.append_coordinates, self.axes = append_coordinates, dim + space_time
        operator = partial(MultiwaveletOperator, dim, width, wavelets=wavelets, modes=modes)
        operator = partial(operator, coarsest=coarsest, base=base, space_time=space_time)
        self.operators = nn.ModuleList(operator() for _ in range(blocks))
        pointwise, channels = CONVOLUTION[self.axes], width * wavelets**dim
        lifted = in_channels + self.axes * append_coordinates + options.inputs(dim)
        self.lift = pointwise(lifted, channels, 1)
        self.norms = nn.ModuleList(nn.BatchNorm3d(channels) for _ in range(blocks * space_time))
        hidden = pointwise(channels, HIDDEN, 1)
        output = pointwise(HIDDEN, options.outputs(dim, out_channels), 1)
        nn.init.xavier_normal_(hidden.weight)
        nn.init.xavier_normal_(output.weight)
        self.project = nn.Sequential(hidden, nn.ReLU(), output)
        self.head = options.attach(dim, out_channels, output)

    def forward(self, f: Tensor) -> Tensor:
        """Map f (B, in_channels, *N) to u (B, out_channels, *N)."""
        check_numbers(f, self.lift.weight)
        if f.dim() != 2 + self.axes or f.shape[1] != self.in_channels:
            layout = "(B, C, N_1, N_2, T)" if self.space_time else "(B, C, *N)"
            expected = f"{layout} with C={self.in_channels} and dim={self.dim}, channels first"
            raise ValueError(f"input has shape {tuple(f.shape)}; expected {expected}")
        return self._outputs(f) if self.head is None else self.head(f, self._outputs)

    def _outputs(self, f: Tensor) -> Tensor:
        v = self.lift(self._add_coordinates(f) if self.append_coordinates else f)
        for layer, operator in enumerate(self.operators):
            v = operator(v if layer == 0 else torch.relu(v))
            v = self.norms[layer](v) if self.space_time else v
        outputs: Tensor = self.project(v)
        return outputs

    def _add_coordinates(self, f: Tensor) -> Tensor:
        """Append x with both ends and t = 1/T .. 1, as the published data have them."""
        space, time = f.shape[2 : 2 + self.dim], f.shape[2 + self.dim :]
        axes = [x.to(f) for x in Grid(tuple(space), periodic=False).axes(device=f.device)]
        axes += [Grid((n,)).axes(device=f.device)[0].to(f) + 1 / n for n in time]
        coordinates = torch.stack(torch.meshgrid(*axes, indexing="ij"))
        return torch.cat([f, coordinates.expand(f.shape[0], *coordinates.shape)], dim=1)
