"""The networks that an experiment can name, as frozen records.

A closed list: a specification file says `kind: pdno` and the numbers of the network, never a piece
of code to import.
"""

__all__ = ["AnyNetwork", "FNONetwork", "MWTNetwork", "PDIONetwork", "PDNONetwork", "build_network"]

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import BaseModel, Field
from torch import nn

from pdno.networks.fno import FNO
from pdno.networks.mwt import MWT
from pdno.networks.pdno import PDNO, PDNOOptions
from pdno.networks.transport import Transport
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.symbols.network import NetworkSymbol
from pdno.symbols.scale import InputScale

Size = Annotated[int, Field(ge=1, le=4096)]
SymbolLayers = Annotated[int, Field(ge=0, le=64)]
Padding = Annotated[int, Field(ge=0)] | Annotated[float, Field(ge=0)]
"""Points (int) or a fraction of the domain (float)."""
Modes = tuple[Size, ...] | Size | None
OUTSIDE = {"kind", "transport"}
"""What is no option of the network itself."""


class NetworkRecord(BaseModel, ABC, frozen=True, extra="forbid"):
    """What every network has; the options have the names and defaults of the class it makes.

    With `transport` it says where the next frame comes from (see `networks.transport`).
    """

    network: ClassVar[Callable[..., nn.Module]]

    @property
    @abstractmethod
    def family(self) -> tuple[str, str]:
        """The family of the paper's tables, and which of it; empty where there is one only."""

    def build(self, dim: int, in_channels: int, out_channels: int) -> nn.Module:
        """The network for this many axes and channels."""
        return self.network(dim, in_channels, out_channels, **self.model_dump(exclude=OUTSIDE))


def symbol_text(depends_on_x: bool, takes_time: bool) -> str:
    """The arguments of a symbol, for example a(x,ξ,t)."""
    return f"a({'x,' if depends_on_x else ''}ξ{',t' if takes_time else ''})"


class PDNONetwork(NetworkRecord, frozen=True):
    """`pdno.PDNO`."""

    network = PDNO
    kind: Literal["pdno"] = "pdno"
    width: Size = PDNOOptions.width
    layers: Size = PDNOOptions.layers
    symbol_layers: SymbolLayers = PDNOOptions.symbol_layers
    symbol_hidden: Size = PDNOOptions.symbol_hidden
    activation: str = PDNOOptions.activation
    modes: Modes = None
    depends_on_x: bool = PDNOOptions.depends_on_x
    symbol: Literal["network", "trunk", "low-rank", "table", "classical"] = PDNOOptions.symbol
    rank: Size = PDNOOptions.rank
    shared: bool = PDNOOptions.shared
    order: Annotated[float, Field(ge=-8, le=8)] = PDNOOptions.order
    takes_time: bool = PDNOOptions.takes_time
    first_activation: str | None = PDNOOptions.first_activation
    frequency_scale: float | None = None
    coordinate_scale: float = 1.0
    padding: Padding = 0.0
    space_hidden: Size | None = PDNOOptions.space_hidden
    transport: bool = False

    @property
    def family(self) -> tuple[str, str]:
        if self.symbol != "network":
            return "PDNO", "provable" if self.symbol == "classical" else self.symbol
        relu = " relu" if self.activation == "relu" else ""
        return "PDNO", symbol_text(self.depends_on_x, self.takes_time) + relu


class FNONetwork(NetworkRecord, frozen=True):
    """`pdno.FNO`; in `space_time` time is one more axis of the network."""

    kind: Literal["fno"] = "fno"
    width: Size = 20
    layers: Size = 4
    modes: tuple[Size, ...] | Size = 12
    coordinate_scale: float | tuple[float, ...] = 1.0
    padding: Padding | tuple[Padding, ...] = 0.0
    space_time: bool = False
    transport: bool = False

    @property
    def family(self) -> tuple[str, str]:
        return ("FNO-3D" if self.space_time else "FNO"), ""

    def build(self, dim: int, in_channels: int, out_channels: int) -> nn.Module:
        options = self.model_dump(exclude={"space_time", *OUTSIDE})
        return FNO(dim + self.space_time, in_channels, out_channels, **options)


class MWTNetwork(NetworkRecord, frozen=True):
    """`pdno.MWT`."""

    network = MWT
    kind: Literal["mwt"] = "mwt"
    width: Size = 4
    wavelets: Size = 4
    modes: Size = 12
    blocks: Size = 4
    coarsest: Annotated[int, Field(ge=0, le=16)] = 0
    base: Literal["legendre", "chebyshev"] = "legendre"
    space_time: bool = False
    append_coordinates: bool = True
    transport: bool = False

    @property
    def family(self) -> tuple[str, str]:
        return "MWT", {"legendre": "Leg", "chebyshev": "Chb"}[self.base]


class PDIONetwork(NetworkRecord, frozen=True):
    """One pseudo-differential operator alone, without lift, W or σ (the paper's heat experiment).

    K_a[f](x, t) = a1(x, t) F⁻¹[a2(ξ, t) F[f]](x) (eq. 19).
    """

    kind: Literal["pdio"] = "pdio"
    symbol_layers: SymbolLayers = 2
    symbol_hidden: Size = 40
    activation: str = "gelu"
    modes: Modes = None
    depends_on_x: bool = True
    takes_time: bool = True
    frequency_scale: float = 1.0
    coordinate_scale: float = 1.0

    @property
    def family(self) -> tuple[str, str]:
        return "PDNO", symbol_text(self.depends_on_x, self.takes_time)

    def build(self, dim: int, in_channels: int, out_channels: int) -> nn.Module:
        symbol = NetworkSymbol(
            in_channels,
            out_channels,
            scale=InputScale(dim, self.coordinate_scale, self.frequency_scale),
            layers=self.symbol_layers,
            hidden=self.symbol_hidden,
            **self.model_dump(include={"depends_on_x", "takes_time", "activation"}),
        )
        return PseudoDifferentialOperator(symbol, self.modes)


AnyNetwork = Annotated[
    PDNONetwork | FNONetwork | MWTNetwork | PDIONetwork, Field(discriminator="kind")
]


def build_network(
    record: NetworkRecord, dim: int, in_channels: int, out_channels: int, *, seed: int
) -> nn.Module:
    """The network with the initial weights of a seed; the global generator is left alone."""
    moves = getattr(record, "transport", False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = record.build(dim, in_channels, out_channels + dim * moves)
        return Transport(network, dim) if moves else network
