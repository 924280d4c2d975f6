"""The networks that an experiment can name, as frozen records.

A closed list: a specification file says `kind: pdno` and the numbers of the network, never a piece
of code to import.
"""

__all__ = [
    "AnyNetwork",
    "FNONetwork",
    "MWTNetwork",
    "PDIONetwork",
    "PDNONetwork",
    "build_network",
]

from abc import ABC, abstractmethod
from typing import Annotated, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import nn

from pdno.networks.fno import FNO
from pdno.networks.mwt import MWT
from pdno.networks.pdno import PDNO
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.symbols.network import NetworkSymbol
from pdno.symbols.scale import InputScale

Size = Annotated[int, Field(ge=1, le=4096)]
Padding = Annotated[int, Field(ge=0)] | Annotated[float, Field(ge=0)]
"""Points (int) or a fraction of the domain (float)."""
Modes = tuple[Size, ...] | Size | None


class NetworkRecord(BaseModel, ABC):
    """What every network has."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    @abstractmethod
    def family(self) -> tuple[str, str]:
        """The family of the paper's tables, and which of it; empty where there is one only."""

    @abstractmethod
    def build(self, dim: int, in_channels: int, out_channels: int) -> nn.Module:
        """The network for this many axes and channels."""


def symbol_text(depends_on_x: bool, takes_time: bool) -> str:
    """The arguments of a symbol, for example a(x,ξ,t)."""
    return f"a({'x,' if depends_on_x else ''}ξ{',t' if takes_time else ''})"


class PDNONetwork(NetworkRecord):
    """`pdno.PDNO`; the options have the names and defaults of the class."""

    kind: Literal["pdno"] = "pdno"
    width: Size = 20
    layers: Size = 4
    symbol_layers: Annotated[int, Field(ge=0, le=64)] = 2
    symbol_hidden: Size = 32
    activation: str = "gelu"
    modes: Modes = None
    depends_on_x: bool = True
    symbol: Literal["network", "low-rank", "table", "classical"] = "network"
    rank: Size = 2
    shared: bool = False
    order: Annotated[float, Field(ge=-8, le=8)] = 0.0
    takes_time: bool = False
    first_activation: str | None = None
    frequency_scale: float | None = None
    coordinate_scale: float = 1.0
    padding: Padding = 0.0

    @property
    def family(self) -> tuple[str, str]:
        if self.symbol != "network":
            return "PDNO", "provable" if self.symbol == "classical" else self.symbol
        relu = " relu" if self.activation == "relu" else ""
        return "PDNO", symbol_text(self.depends_on_x, self.takes_time) + relu

    def build(self, dim: int, in_channels: int, out_channels: int) -> nn.Module:
        return PDNO(dim, in_channels, out_channels, **self.model_dump(exclude={"kind"}))


class FNONetwork(NetworkRecord):
    """`pdno.FNO`."""

    kind: Literal["fno"] = "fno"
    width: Size = 20
    layers: Size = 4
    modes: tuple[Size, ...] | Size = 12
    coordinate_scale: float | tuple[float, ...] = 1.0
    padding: Padding | tuple[Padding, ...] = 0.0
    space_time: bool = False
    """Whether time is one more axis of the network."""

    @property
    def family(self) -> tuple[str, str]:
        return ("FNO-3D" if self.space_time else "FNO"), ""

    def build(self, dim: int, in_channels: int, out_channels: int) -> nn.Module:
        axes = dim + 1 if self.space_time else dim
        options = self.model_dump(exclude={"kind", "space_time"})
        return FNO(axes, in_channels, out_channels, **options)


class MWTNetwork(NetworkRecord):
    """`pdno.MWT`."""

    kind: Literal["mwt"] = "mwt"
    width: Size = 4
    wavelets: Size = 4
    modes: Size = 12
    blocks: Size = 4
    coarsest: Annotated[int, Field(ge=0, le=16)] = 0
    base: Literal["legendre", "chebyshev"] = "legendre"
    space_time: bool = False
    append_coordinates: bool = True

    @property
    def family(self) -> tuple[str, str]:
        return "MWT", {"legendre": "Leg", "chebyshev": "Chb"}[self.base]

    def build(self, dim: int, in_channels: int, out_channels: int) -> nn.Module:
        return MWT(dim, in_channels, out_channels, **self.model_dump(exclude={"kind"}))


class PDIONetwork(NetworkRecord):
    """One pseudo-differential operator alone, without lift, W or σ (the paper's heat experiment).

    K_a[f](x, t) = a1(x, t) F⁻¹[a2(ξ, t) F[f]](x) (eq. 19).
    """

    kind: Literal["pdio"] = "pdio"
    symbol_layers: Annotated[int, Field(ge=0, le=64)] = 2
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
            depends_on_x=self.depends_on_x,
            takes_time=self.takes_time,
            layers=self.symbol_layers,
            hidden=self.symbol_hidden,
            activation=self.activation,
        )
        return PseudoDifferentialOperator(symbol, self.modes)


AnyNetwork = Annotated[
    PDNONetwork | FNONetwork | MWTNetwork | PDIONetwork, Field(discriminator="kind")
]


def build_network(
    record: NetworkRecord, dim: int, in_channels: int, out_channels: int, *, seed: int
) -> nn.Module:
    """The network with the initial weights of a seed; the global generator is left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return record.build(dim, in_channels, out_channels)
