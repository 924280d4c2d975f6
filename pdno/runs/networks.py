"""The networks that an experiment can name, as frozen records.

A specification file says `kind: pdno` and the numbers of the network, never a piece of code to
import; `pdno.register` adds records of other packages to the list.
"""

__all__ = [
    "NETWORKS",
    "AnyNetwork",
    "FNONetwork",
    "MWTNetwork",
    "NetworkRecord",
    "PDIONetwork",
    "PDNONetwork",
    "SemigroupNetwork",
    "build_network",
]

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import torch
from pydantic import AfterValidator, BeforeValidator, Field, SerializeAsAny
from torch import nn

from pdno.interface.errors import unknown_name
from pdno.interface.records import Record, by_kind
from pdno.networks.fno import FNO
from pdno.networks.mwt import MWT
from pdno.networks.pdno import PDIO, PDNO, SYMBOLS, PDNOOptions
from pdno.networks.semigroup import SemigroupStep
from pdno.networks.transport import Transport

Size = Annotated[int, Field(ge=1, le=4096)]
SymbolLayers = Annotated[int, Field(ge=0, le=64)]
Padding = Annotated[int, Field(ge=0)] | Annotated[float, Field(ge=0)] | Literal["even", "odd"]
"""Points (int) or a fraction of the domain (float) of zeros, or a reflection."""
PDEParameters = Annotated[int, Field(ge=0, le=64)]
"""Numbers of the equation that the symbols see."""
FeedForward = Annotated[int, Field(ge=0, le=4096)]
Modes = tuple[Size, ...] | Size | None
OUTSIDE = {"kind", "transport", "diffusion"}
"""What is no option of the network itself."""


def _known_symbol(name: str) -> str:
    if name not in SYMBOLS:
        raise ValueError(unknown_name("symbol", name, SYMBOLS))
    return name


class NetworkRecord(Record, ABC):
    """What every network has; the options have the names and defaults of the class it makes.

    With `transport` it says where the next frame comes from (see `networks.transport`), which
    diffuses on its way with `diffusion`.
    """

    network: ClassVar[Callable[..., nn.Module]]
    if TYPE_CHECKING:  # each has its own as a field, which specifications name it by
        kind: str

    @property
    @abstractmethod
    def family(self) -> tuple[str, str]:
        """The family of the paper's tables, and which of it; empty where there is one only."""

    def build(self, dim: int, in_channels: int, out_channels: int) -> nn.Module:
        """The network for this many axes and channels."""
        return self.network(dim, in_channels, out_channels, **self.model_dump(exclude=OUTSIDE))


def symbol_text(depends_on_x: bool, takes_time: bool, pde_parameters: int = 0) -> str:
    """The arguments of a symbol, for example a(x,ξ,t) or a(ξ,μ)."""
    numbers = (",t" if takes_time else "") + (",μ" if pde_parameters else "")
    return f"a({'x,' if depends_on_x else ''}ξ{numbers})"


class PDNONetwork(NetworkRecord):
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
    symbol: Annotated[str, AfterValidator(_known_symbol)] = PDNOOptions.symbol
    rank: Size = PDNOOptions.rank
    shared: bool = PDNOOptions.shared
    order: Annotated[float, Field(ge=-8, le=8)] = PDNOOptions.order
    takes_time: bool = PDNOOptions.takes_time
    pde_parameters: PDEParameters = PDNOOptions.pde_parameters
    first_activation: str | None = PDNOOptions.first_activation
    frequency_scale: float | None = None
    coordinate_scale: float = 1.0
    padding: Padding = 0.0
    space_hidden: Size | None = PDNOOptions.space_hidden
    feed_forward: FeedForward = 0
    # files of before this option mean appended ones; `PDNO` itself decides by the symbol
    coordinates: Literal["appended", "periodic", "none"] = "appended"
    transport: bool = False
    diffusion: bool = False

    @property
    def family(self) -> tuple[str, str]:
        if self.symbol != "network":
            return "PDNO", "provable" if self.symbol == "classical" else self.symbol
        relu = " relu" if self.activation == "relu" else ""
        return "PDNO", symbol_text(self.depends_on_x, self.takes_time, self.pde_parameters) + relu


class FNONetwork(NetworkRecord):
    """`pdno.FNO`; in `space_time` time is one more axis of the network."""

    kind: Literal["fno"] = "fno"
    width: Size = 20
    layers: Size = 4
    modes: tuple[Size, ...] | Size = 12
    coordinate_scale: float | tuple[float, ...] = 1.0
    padding: Padding | tuple[Padding, ...] = 0.0
    feed_forward: FeedForward = 0
    coordinates: Literal["appended", "periodic", "none"] = "appended"
    space_time: bool = False
    transport: bool = False
    diffusion: bool = False

    @property
    def family(self) -> tuple[str, str]:
        return ("FNO-3D" if self.space_time else "FNO"), ""

    def build(self, dim: int, in_channels: int, out_channels: int) -> nn.Module:
        options = self.model_dump(exclude={"space_time", *OUTSIDE})
        return FNO(dim + self.space_time, in_channels, out_channels, **options)


class MWTNetwork(NetworkRecord):
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
    diffusion: bool = False

    @property
    def family(self) -> tuple[str, str]:
        return "MWT", {"legendre": "Leg", "chebyshev": "Chb"}[self.base]


class PDIONetwork(NetworkRecord):
    """One pseudo-differential operator alone, without lift, W or σ (the paper's heat experiment).

    K_a[f](x, t) = a1(x, t) F⁻¹[a2(ξ, t) F[f]](x) (eq. 19). A "classical" symbol of time is e^{tA}
    with a dissipative A of this order.
    """

    kind: Literal["pdio"] = "pdio"
    symbol_layers: SymbolLayers = 2
    symbol_hidden: Size = 40
    activation: str = "gelu"
    modes: Modes = None
    depends_on_x: bool = True
    takes_time: bool = True
    pde_parameters: PDEParameters = 0
    frequency_scale: float = 1.0
    coordinate_scale: float = 1.0
    symbol: Literal["network", "classical"] = "network"
    order: Annotated[float, Field(ge=-8, le=8)] = 0.0

    @property
    def family(self) -> tuple[str, str]:
        provable = self.symbol == "classical"
        return "PDNO", "provable" if provable else symbol_text(
            self.depends_on_x, self.takes_time, self.pde_parameters
        )

    def build(self, dim: int, in_channels: int, out_channels: int) -> nn.Module:
        return PDIO(dim, in_channels, out_channels, **self.model_dump(exclude={"kind"}))


class SemigroupNetwork(NetworkRecord):
    """`pdno.networks.semigroup.SemigroupStep`, a step with a guarantee, for rollouts."""

    network = SemigroupStep
    kind: Literal["semigroup"] = "semigroup"
    width: Size = 16
    modes: Modes = None
    order: Annotated[float, Field(ge=-8, le=8)] = 2.0
    local_order: Annotated[float, Field(ge=-8, le=8)] = -1.0
    self_adjoint: bool = False
    symbol_layers: SymbolLayers = 1
    symbol_hidden: Size = 32
    frequency_scale: float | None = None

    @property
    def family(self) -> tuple[str, str]:
        return "PDNO", "semigroup"


_ALL: tuple[type[NetworkRecord], ...] = (
    *(PDNONetwork, FNONetwork, MWTNetwork, PDIONetwork),
    SemigroupNetwork,
)
NETWORKS = {str(record.model_fields["kind"].default): record for record in _ALL}
"""By kind; `pdno.register` adds those of other packages."""
AnyNetwork = Annotated[
    SerializeAsAny[NetworkRecord], BeforeValidator(by_kind("network", NETWORKS))
]


def build_network(
    record: NetworkRecord, dim: int, in_channels: int, out_channels: int, *, seed: int
) -> nn.Module:
    """The network with the initial weights of a seed; the global generator is left alone."""
    moves, diffusion = getattr(record, "transport", False), getattr(record, "diffusion", False)
    if diffusion and not moves:
        raise ValueError("diffusion is that of what is carried: give transport: true with it")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = record.build(dim, in_channels, out_channels + dim * moves)
        return Transport(network, dim, diffusion) if moves else network
