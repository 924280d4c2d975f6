"""PDNO, the pseudo-differential neural operator, PDIO, its K as one layer, FNO, SemigroupStep."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import signature
from typing import Annotated, Any

from pydantic import AfterValidator, Field
from torch import Tensor, nn
from torch.nn import functional

from pdno.interface.arguments import RecordsArguments
from pdno.interface.errors import unknown_name
from pdno.networks.heads import AnyHead
from pdno.networks.neural_operator import (
    Coordinates,
    Modes,
    NeuralOperator,
    Padding,
    PointwiseLinear,
    Size,
    SizeOrNone,
    check_numbers,
    check_sizes,
)
from pdno.operators.pseudo_differential import FourierIntegralOperator, PseudoDifferentialOperator
from pdno.spectral.grid import Grid
from pdno.symbols.base import Symbol
from pdno.symbols.classical import ClassicalSymbol
from pdno.symbols.network import LowRankSymbol, NetworkSymbol, TableSymbol, TrunkSymbol
from pdno.symbols.scale import InputScale

Order = Annotated[float, Field(ge=-8, le=8)]
SYMBOLS: dict[str, Callable[..., Symbol]] = {
    "network": NetworkSymbol,
    "trunk": TrunkSymbol,
    "low-rank": LowRankSymbol,
    "table": TableSymbol,
    "classical": ClassicalSymbol,
}
"""Symbols by name; `pdno.register` adds others. They get the options that they name."""


def check_symbol(name: str) -> str:
    if name not in SYMBOLS:
        raise ValueError(unknown_name("symbol", name, SYMBOLS))
    return name


@dataclass(frozen=True, kw_only=True)
class SymbolSpecification:
    """The options of the symbols of a `PDNO` or `PDIO`.

    Arguments:
        symbol: "network" (a1 a2), "trunk" (the same, one network for a2), "low-rank"
            (Σ_r b_jr c_ijr with `rank` terms, b_r if `shared`), "table" (R, as in FNO), or
            "classical" (⟨ξ⟩^m b of the `order` m, in S^m_{1,0}, which may be `elliptic`,
            `self_adjoint` or `dissipative`, see `ClassicalSymbol`).
        symbol_layers: Hidden-to-hidden maps of each symbol network, the paper's "#layers", of
            width `symbol_hidden`; `space_hidden` is that of a1 in trunk symbols.
        activation: Of the symbol networks: gelu, softplus, silu, tanh, sigmoid or relu; the first
            one may differ, the published 2D code always has GELU there.
        depends_on_x: Whether the symbol is a1(x) a2(ξ), or a2(ξ) alone; with time a(x, ξ, t).
        pde_parameters: How many PDE parameters the symbols see, a(x, ξ; μ), for example the
            viscosity of each sample; with time a(x, ξ; t, μ).
        frequency_scale: The networks see ξ/frequency_scale, with None [-4, 4] for the kept modes,
            and x·coordinate_scale.
    """

    symbol: Annotated[str, AfterValidator(check_symbol)] = "network"
    symbol_layers: Annotated[int, Field(ge=0, le=64)] = 2
    symbol_hidden: Size = 32
    space_hidden: Size | None = None
    activation: str = "gelu"
    first_activation: str | None = None
    depends_on_x: bool = True
    takes_time: bool = False
    pde_parameters: Annotated[int, Field(ge=0, le=64)] = 0
    rank: Size = 2
    shared: bool = False
    order: Order = 0.0
    hermitian: bool = True
    elliptic: bool = False
    self_adjoint: bool = False
    dissipative: bool = False
    frequency_scale: float | tuple[float, ...] | None = None
    coordinate_scale: float | tuple[float, ...] = 1.0

    def make(self, dim: int, in_channels: int, out_channels: int, kept: Modes) -> Symbol:
        """The symbol from one number of channels to another, on the kept modes."""
        kind, frequency = check_symbol(self.symbol), self.frequency_scale
        modes = (kept,) * dim if isinstance(kept, int) else kept
        if kind == "table" and (modes is None or self.takes_time or self.pde_parameters):
            needed = "a table symbol needs modes, for example modes=12, and no time"
            raise ValueError(f"{needed} or PDE parameters, which it cannot see")
        if kind != "classical" and (self.elliptic or self.self_adjoint or self.dissipative):
            raise ValueError(f"{kind} symbols have no structure: take symbol='classical'")
        if frequency is None and kind == "trunk":
            frequency = 1.0  # its features have scales of their own, in units of single modes
        options = vars(self) | {
            "scale": InputScale(dim, self.coordinate_scale, frequency, modes),
            "layers": self.symbol_layers,
            "hidden": self.symbol_hidden,
            "modes": modes,
        }
        named = signature(SYMBOLS[kind]).parameters.keys() & options
        return SYMBOLS[kind](in_channels, out_channels, **{name: options[name] for name in named})


class PDNO(NeuralOperator, options=SymbolSpecification):
    """Q ∘ σ(W + K_a) ∘ ... ∘ P with symbol networks a (eq. 9, 16, 19).

    The defaults are the paper's for Navier-Stokes, with 189,653 parameters for 10 input frames.

    Shapes: (B, in_channels, *N) -> (B, out_channels, *N). Coordinates are appended inside.

    Arguments:
        width: Channels inside, in `layers` blocks.
        modes: Kept modes k_max, one or one per axis; None keeps all modes of the grid.
        padding: Fraction of the domain (float) or points (int) of zeros after each axis; "even" or
            "odd" reflects the lifted input instead.
        feed_forward: Hidden width of residual blocks v + F[(W + K) v]; 0 has those of the paper.
        coordinates: What is lifted beside the input: "appended" x, "periodic" cos 2πx and sin 2πx,
            or "none". None is periodic for classical symbols, so that the whole network is one
            operator on all grids, and appended for the others, as published.
        head: What becomes of the outputs, for example `TransportHead()` or "transport".
        symbol_options: Those of `SymbolSpecification`, by name: symbol, symbol_hidden, ...

    Example:
        >>> import torch
        >>> network = PDNO(dim=2, in_channels=10, out_channels=1, width=20)
        >>> sum(p.numel() for p in network.parameters())
        189653
        >>> network(torch.randn(2, 10, 16, 16)).shape
        torch.Size([2, 1, 16, 16])
    """

    def __init__(
        self,
        dim: int,
        in_channels: int,
        out_channels: int,
        *,
        width: Size = 20,
        layers: Size = 4,
        modes: Modes = None,
        padding: Padding = 0.0,
        feed_forward: SizeOrNone = 0,
        coordinates: Coordinates | None = None,
        head: AnyHead = None,
        **symbol_options: Any,
    ) -> None:
        options = SymbolSpecification(**symbol_options)
        sizes = {"in_channels": in_channels, "out_channels": out_channels}
        kept = check_sizes(dim, modes, width=width, layers=layers, **sizes)
        symbols = [options.make(dim, width, width, kept) for _ in range(layers)]
        if coordinates is None:
            coordinates = "periodic" if options.symbol == "classical" else "appended"
        operators = [PseudoDifferentialOperator(symbol, kept) for symbol in symbols]
        rest = padding, feed_forward, coordinates, options.coordinate_scale, head
        super().__init__(dim, in_channels, out_channels, width, operators, *rest)


class PDIO(PseudoDifferentialOperator, options=SymbolSpecification):
    """K_a[f](x) = Σ_ξ a(x, ξ) f̂(ξ) e^{2πi ξ·x}, the K of eq. 9, with a learned symbol a.

    Shapes: (B, in_channels, *N) -> (B, out_channels, *N), on any grid, inside any torch module.
    The options are the kept `modes` and those of `SymbolSpecification`, by name. W, σ and the
    coordinates are yours to add.

    Example:
        >>> import torch
        >>> layer = PDIO(dim=2, in_channels=3, out_channels=5, modes=12)
        >>> block = torch.nn.Sequential(layer, torch.nn.GELU(), torch.nn.Conv2d(5, 1, 1))
        >>> block(torch.randn(4, 3, 48, 80)).shape
        torch.Size([4, 1, 48, 80])
    """

    def __init__(
        self,
        dim: int,
        in_channels: int,
        out_channels: int,
        *,
        modes: Modes = None,
        **symbol_options: Any,
    ) -> None:
        options = SymbolSpecification(**symbol_options)
        kept = check_sizes(dim, modes, in_channels=in_channels, out_channels=out_channels)
        super().__init__(options.make(dim, in_channels, out_channels, kept), kept)


class FNO(NeuralOperator):
    """Q ∘ σ(W + K_R) ∘ ... ∘ P with a free table R(ξ) per block (paper section 2.2).

    Shapes: (B, in_channels, *N) -> (B, out_channels, *N). Coordinates are appended inside. With
    `space_time` time is one more axis after those of space (FNO-3D). The kept modes k_max are one
    or one per axis; the published coordinate_scale at resolution s is s/(s-1). The other options
    are those of `PDNO`.

    Example:
        >>> import torch
        >>> network = FNO(dim=1, in_channels=1, out_channels=1, width=8, modes=4)
        >>> network(torch.randn(2, 1, 32)).shape
        torch.Size([2, 1, 32])
    """

    def __init__(
        self,
        dim: int,
        in_channels: int,
        out_channels: int,
        width: Size = 20,
        layers: Size = 4,
        modes: tuple[Size, ...] | Size = 12,
        *,
        coordinate_scale: float | tuple[float, ...] = 1.0,
        padding: Padding = 0.0,
        feed_forward: SizeOrNone = 0,
        coordinates: Coordinates = "appended",
        space_time: bool = False,
        head: AnyHead = None,
    ) -> None:
        axes = dim + space_time
        sizes = {"in_channels": in_channels, "out_channels": out_channels}
        kept = check_sizes(axes, modes, width=width, layers=layers, **sizes) or ()
        if space_time and head is not None:
            raise ValueError("a head predicts one frame, a space-time network all: leave one out")
        operators = [FourierIntegralOperator(width, width, modes=kept) for _ in range(layers)]
        rest = padding, feed_forward, coordinates, coordinate_scale, head
        super().__init__(axes, in_channels, out_channels, width, operators, *rest)


class SemigroupStep(RecordsArguments, nn.Module):
    """A step in time, exponential Euler with learned symbols, (B, C, *N) -> (B, C, *N):

        u(t + Δt) = e^{A(D)} u + B(D) σ(W u + b)

    A of order `order` is dissipative, so ‖e^{A(D)}‖ <= 1 whatever the weights are; `self_adjoint`
    leaves its skew part, the transport, out. B is of order `local_order`, from `width` channels.
    `modes` are kept. For u_t = L(D) u + G(D) g(u) exponential Euler has A = Δt L and
    B = (e^{ΔtL} - 1) L⁻¹ G. By how much a step may enlarge an error: `pdno.theory.lipschitz`.

    Example:
        >>> import torch
        >>> step = SemigroupStep(1, 1, 1, width=4, modes=8)
        >>> step(torch.randn(2, 1, 32)).shape
        torch.Size([2, 1, 32])
    """

    def __init__(
        self,
        dim: int,
        in_channels: int,
        out_channels: int,
        *,
        width: Size = 16,
        modes: Modes = None,
        order: Order = 2.0,
        local_order: Order = -1.0,
        self_adjoint: bool = False,
        symbol_layers: Annotated[int, Field(ge=0, le=64)] = 1,
        symbol_hidden: Size = 32,
        frequency_scale: float | None = None,
    ) -> None:
        super().__init__()
        kept = check_sizes(dim, modes, width=width, in_channels=in_channels)
        if in_channels != out_channels:
            channels = f"from {in_channels} to {out_channels} channels"
            raise ValueError(f"a step {channels}; expected as many: give it one frame, window=1")
        self.dim, self.in_channels, self.out_channels = dim, in_channels, out_channels
        local = SymbolSpecification(
            symbol="classical", depends_on_x=False, order=local_order, symbol_layers=symbol_layers,
            symbol_hidden=symbol_hidden, frequency_scale=frequency_scale,
        )  # fmt: skip
        step = replace(local, order=order, takes_time=True, self_adjoint=self_adjoint)
        linear = step.make(dim, in_channels, in_channels, kept)
        self.semigroup = PseudoDifferentialOperator(linear, kept)
        forced = local.make(dim, width, in_channels, kept)
        self.forcing = PseudoDifferentialOperator(forced, kept)
        self.local = PointwiseLinear(in_channels, width)

    def forward(self, f: Tensor, *, grid: Grid | None = None) -> Tensor:
        """The next frame on the grid of f, which is periodic unless given."""
        check_numbers(f, self.local.weight)
        where = grid or Grid(tuple(f.shape[2:]))
        linear: Tensor = self.semigroup(f, where, 1.0)
        forced: Tensor = self.forcing(functional.gelu(self.local(f)), where)
        return linear + forced
