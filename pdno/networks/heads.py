"""Heads: from the outputs of the last layer to the fields that a network returns.

The transport head says where the next frame comes from and what is added to it. One frame is K
substeps with the same weights, each of them (δ, c and r are those of a whole frame)

    u' = e^{cΔ/K}[u(x + d(x))] + r/K,    d(x) = δ(x + δ(x)/2K)/K,
    δ = -p Δt K_b[w] + network,    (δ, r) from [f, K_b[w]],    w = u(x - p Δt K_b[u](x)/2K)

u starts as the latest frame v, the last channels of the input f, and takes its place there. A step
of advection is a warp and no short Fourier series; what is left, δ and r, is smooth and small.
w is the state half a substep later, and d looks up δ half-way: the midpoint rule in time and in
space, of second order. Without a velocity there is neither: d = δ/K, all from the network.

With `coarsen` the network and the velocity see only the modes of u that a coarser grid holds, and
δ and r are interpolated back. The warp moves the fine scales of u all the same.
"""

from collections.abc import Callable
from typing import Annotated, Literal

import torch
from pydantic import BeforeValidator, Field, SerializeAsAny
from torch import Tensor, nn

from pdno.interface.records import Record, by_kind
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.operators.warp import Interpolation, warp
from pdno.spectral.calculus import laplacian_symbol, resample_by_axis
from pdno.spectral.fourier import inverse, transform
from pdno.spectral.grid import Grid
from pdno.symbols.analytic import BiotSavart
from pdno.symbols.classical import ClassicalSymbol
from pdno.symbols.scale import InputScale

REACH = 0.25  # the displacement that an output of 1 stands for, in units of the domain
START = 0.1  # the last weights of a new network over their usual size: at first u is nearly v
FIRST_C = 1e-6  # at first almost nothing diffuses
PACE = 10.0  # c = FIRST_C e^{PACE q}: a step of 1e-3 of an optimiser changes c by a hundredth
# interpolation and refinement of what is smooth, or is made smooth by a velocity
MIDWAY: tuple[Interpolation, int] = "cubic", 1

Velocity = Literal["field", "biot-savart", "learned"]
Network = Callable[[Tensor], Tensor]


class Head(Record):
    """The options of a head; those of this class are for networks without one."""

    def inputs(self, dim: int) -> int:
        """Inputs of the network beyond f."""
        return 0

    def outputs(self, dim: int, out_channels: int) -> int:
        """Outputs of the network below the head."""
        return out_channels

    def attach(self, dim: int, out_channels: int, last: nn.Module) -> "HeadModule | None":
        """The module of the head, after the last layer of a network."""
        return None


class HeadModule(nn.Module):
    """A head, called with the input f (B, C, *N) and the network below it as a function."""

    options: Head

    def network_grid(self, grid: Grid) -> Grid:
        """The grid of the network below, for fields on a grid."""
        return grid


class TransportHead(Head):
    """The options of the transport head, `PDNO(..., head=TransportHead(diffusion=True))`.

    With `diffusion` what is carried also diffuses, which damps modes that r, made of the kept
    ones, does not reach. `substeps` is K. The `velocity` K_b[u] is the field itself ("field"),
    that of a vorticity in the plane ("biot-savart"), or "learned": b is a classical symbol of the
    `velocity_order`. `time_step` is Δt, the time between frames. Fields are read between points by
    the `interpolation` on a grid that is `refine` times as fine (see `operators.warp`).

    The network runs on a grid that is `coarsen` times as coarse as that of u. Recurrent tasks
    interpolate their first frame to a grid finer by as much, so that the network has the grid of
    the data.
    """

    kind: Literal["transport"] = "transport"
    diffusion: bool = False
    substeps: Annotated[int, Field(ge=1, le=64)] = 1
    velocity: Velocity | None = None
    velocity_order: Annotated[float, Field(ge=-8, le=8)] = -1.0
    time_step: Annotated[float, Field(gt=0)] = 1.0
    interpolation: Interpolation = "quintic"
    refine: Annotated[int, Field(ge=1, le=8)] = 2
    coarsen: Annotated[int, Field(ge=1, le=8)] = 1

    def inputs(self, dim: int) -> int:
        return 0 if self.velocity is None else dim

    def outputs(self, dim: int, out_channels: int) -> int:
        return dim + out_channels  # δ and r

    def attach(self, dim: int, out_channels: int, last: nn.Module) -> "Transport":
        """The head after a last layer, whose weights shrink so that at first u is nearly v."""
        weight, bias = last.parameters()
        with torch.no_grad():
            weight.mul_(START)
            bias.zero_()
        return Transport(dim, out_channels, self)


HEADS: dict[str, type[Head]] = {"transport": TransportHead}
"""The options of heads by kind, as in `head: transport` of a specification."""
AnyHead = Annotated[SerializeAsAny[Head] | str | None, BeforeValidator(by_kind("head", HEADS))]


def make_head(head: AnyHead) -> Head:
    """The options of a head, of its kind, or of a record {"kind": ..., ...}; None is no head."""
    options = Head() if head is None else by_kind("head", HEADS)(head)
    if not isinstance(options, Head):
        raise ValueError(f"head is {head!r}; expected None, 'transport' or a TransportHead")
    return options


class Transport(HeadModule):
    """The next frame on a periodic domain, by K substeps of transport, diffusion and a source.

    The network below maps (B, k·C + d, *N), or k·C channels without a velocity, to (4δ, r),
    (B, d + C, *N). Normalisers have to be the same at every point ("none" or "channel"), for
    values of u move from point to point. c is one learned number for each channel, the viscosity
    times the time step where there is such a thing; p is a learned number that starts at 1.
    """

    options: TransportHead

    def __init__(self, dim: int, channels: int, options: TransportHead) -> None:
        super().__init__()
        self.dim, self.channels, self.options = dim, channels, options
        self.log_c = nn.Parameter(torch.zeros(channels)) if options.diffusion else None
        if options.velocity is not None:
            self.pace = nn.Parameter(torch.ones(()))
        self.velocity: nn.Module | None = make_velocity(options, dim, channels)

    def network_grid(self, grid: Grid) -> Grid:
        coarsen = self.options.coarsen
        if any(n % coarsen for n in grid.shape):
            raise ValueError(
                f"{grid} for coarsen={coarsen}: expected multiples of {coarsen} points"
            )
        return grid if coarsen == 1 else Grid(tuple(n // coarsen for n in grid.shape))

    def forward(self, f: Tensor, network: Network) -> Tensor:
        """The next frame, from the input f (B, k·C, *N)."""
        whole = Grid(tuple(f.shape[2:])).shape
        coarse = self.network_grid(Grid(whole)).shape
        u, substeps = f[:, -self.channels :], self.options.substeps
        earlier = f[:, : -self.channels]
        past = [self.resample(earlier, coarse)] if earlier.shape[1] else []
        for _ in range(substeps):
            smooth = self.resample(u, coarse)
            flow = [] if self.options.velocity is None else [self.flow_midway(smooth)]
            outputs = network(torch.cat([*past, smooth, *flow], dim=1))
            displacement = outputs[:, : self.dim] * (REACH / substeps)
            if flow:
                displacement = displacement + self.pace * (REACH / substeps) * flow[0]
                displacement = warp(displacement, displacement / 2, *MIDWAY)
            step = torch.cat([displacement, outputs[:, self.dim :] / substeps], dim=1)
            step = self.resample(step, whole)
            u = self.carry(u, step[:, : self.dim]) + step[:, self.dim :]
        return u

    def resample(self, f: Tensor, shape: tuple[int, ...]) -> Tensor:
        """f on the grid of the network, or back on that of u."""
        return f if tuple(f.shape[2:]) == shape else resample_by_axis(f, shape)

    def flow(self, u: Tensor) -> Tensor:
        """-Δt K_b[u] of a frame in units of the `REACH`, (B, C, *N) -> (B, d, *N)."""
        velocity = u if self.velocity is None else self.velocity(u)
        return -self.options.time_step / REACH * velocity

    def flow_midway(self, u: Tensor) -> Tensor:
        """The same half a substep later, after u has been carried by its own velocity."""
        half = self.pace * (REACH / (2 * self.options.substeps)) * self.flow(u)
        return self.flow(warp(u, half, *MIDWAY))

    def carry(self, u: Tensor, displacement: Tensor) -> Tensor:
        """e^{cΔ/K}[u(· + δ)], with the displacement (B, d, *N) of a substep."""
        options = self.options
        carried = warp(u, displacement, options.interpolation, options.refine)
        return carried if self.log_c is None else diffuse(carried, self.c / options.substeps)

    @property
    def c(self) -> Tensor:
        """How much each channel diffuses in a frame, (C,), in units of the domain."""
        if self.log_c is None:
            return torch.zeros(1)
        return FIRST_C * torch.exp(PACE * self.log_c)


def make_velocity(
    options: TransportHead, dim: int, channels: int
) -> PseudoDifferentialOperator | None:
    """K_b of a velocity that is not the field itself."""
    if options.velocity == "field" and channels != dim:
        raise ValueError(f"velocity 'field' of {channels} channels: it takes {dim}, one per axis")
    if options.velocity == "biot-savart":
        if (dim, channels) != (2, 1):
            raise ValueError("velocity 'biot-savart' of other fields: it takes a vorticity in 2D")
        return PseudoDifferentialOperator(BiotSavart())
    if options.velocity == "learned":
        scale, order = InputScale(dim, 1.0, 1.0), options.velocity_order
        return PseudoDifferentialOperator(
            ClassicalSymbol(channels, dim, scale=scale, order=order, depends_on_x=False)
        )
    return None


def diffuse(v: Tensor, c: Tensor) -> Tensor:
    """e^{cΔ} v for periodic fields, (B, C, *N) and (C,) -> (B, C, *N)."""
    shape = tuple(v.shape[2:])
    laplacian = laplacian_symbol(Grid(shape), v.device).to(c.dtype)
    damping = torch.exp(c.reshape(-1, *[1] * len(shape)) * laplacian)
    return inverse(transform(v, len(shape)) * damping, shape)
