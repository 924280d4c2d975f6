"""PDNO, the pseudo-differential neural operator of the paper, and PDIO, its K as one layer."""

__all__ = ["PDIO", "PDNO", "PDNOOptions"]

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from pdno.interface.errors import unknown_name
from pdno.interface.records import refuse_unknown
from pdno.networks.neural_operator import Coordinates, NeuralOperator, Padding, check_sizes
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.symbols.base import Symbol
from pdno.symbols.classical import ClassicalSymbol
from pdno.symbols.network import LowRankSymbol, NetworkSymbol, TableSymbol, TrunkSymbol
from pdno.symbols.scale import InputScale, Scale


@dataclass(frozen=True, kw_only=True)
class PDNOOptions:
    """The options of a `PDNO`; no other place lists their names and defaults.

    Arguments:
        width: Channels inside, in `layers` blocks.
        symbol_layers: Hidden-to-hidden maps of each symbol network, the paper's "#layers", of
            width `symbol_hidden`; `space_hidden` is that of a1 in trunk symbols.
        activation: Of the symbol networks: gelu, softplus, silu, tanh, sigmoid or relu; the first
            one may differ, the published 2D code always has GELU there.
        modes: Kept modes k_max, one or one per axis; None keeps all modes of the grid.
        depends_on_x: Whether the symbol is a1(x) a2(ξ), or a2(ξ) alone; with time a(x, ξ, t).
        pde_parameters: How many numbers of the equation the symbols see, a(x, ξ; μ), for example the
            viscosity of each sample; with time a(x, ξ; t, μ).
        symbol: "network" (a1 a2), "trunk" (the same, one network for a2), "low-rank"
            (Σ_r b_jr c_ijr with `rank` terms, b_r if `shared`), "table" (R, as in FNO), or
            "classical" (⟨ξ⟩^m b of the `order` m, in S^m_{1,0}).
        frequency_scale: The networks see ξ/frequency_scale, with None [-4, 4] for the kept modes,
            and x·coordinate_scale.
        padding: Fraction of the domain (float) or points (int) of zeros after each axis; "even" or
            "odd" reflects the lifted input instead.
        feed_forward: Hidden width of residual blocks v + F[(W + K) v]; 0 has those of the paper.
        coordinates: What is lifted beside the input: "appended" x, "periodic" cos 2πx and sin 2πx,
            or "none". None is periodic for classical symbols, so that the whole network is one
            operator on all grids, and appended for the others, as published.
    """

    width: int = 20
    layers: int = 4
    symbol_layers: int = 2
    symbol_hidden: int = 32
    activation: str = "gelu"
    modes: Sequence[int] | int | None = None
    depends_on_x: bool = True
    symbol: Literal["network", "trunk", "low-rank", "table", "classical"] = "network"
    rank: int = 2
    shared: bool = False
    order: float = 0.0
    takes_time: bool = False
    pde_parameters: int = 0
    first_activation: str | None = None
    frequency_scale: Scale = None
    coordinate_scale: float | Sequence[float] = 1.0
    padding: Padding = 0.0
    space_hidden: int | None = None
    feed_forward: int = 0
    coordinates: Coordinates | None = None


class PDNO(NeuralOperator):
    """Q ∘ σ(W + K_a) ∘ ... ∘ P with symbol networks a (eq. 9, 16, 19).

    The defaults are the paper's for Navier-Stokes, with 189,653 parameters for 10 input frames.

    Shapes: (B, in_channels, *N) -> (B, out_channels, *N). Coordinates are appended inside. The
    options are those of `PDNOOptions`, by name: width, layers, modes, symbol, ...

    Example:
        >>> import torch
        >>> network = PDNO(dim=2, in_channels=10, out_channels=1, width=20)
        >>> sum(p.numel() for p in network.parameters())
        189653
        >>> network(torch.randn(2, 10, 16, 16)).shape
        torch.Size([2, 1, 16, 16])
    """

    options_record = PDNOOptions

    def __init__(self, dim: int, in_channels: int, out_channels: int, **options: Any) -> None:
        refuse_unknown("PDNO", [one.name for one in fields(PDNOOptions)], options)
        known = PDNOOptions(**options)
        channels: Any = {"in_channels": in_channels, "out_channels": out_channels}
        kept = check_sizes(dim, known.modes, width=known.width, layers=known.layers, **channels)
        square = (known.width, known.width)
        symbols = [make_symbol(known, dim, square, kept) for _ in range(known.layers)]
        operators = [PseudoDifferentialOperator(symbol, kept) for symbol in symbols]
        names = ("width", "coordinate_scale", "padding", "feed_forward")
        inner: dict[str, Any] = {name: getattr(known, name) for name in names}
        by_symbol = "periodic" if known.symbol == "classical" else "appended"
        inner["coordinates"] = by_symbol if known.coordinates is None else known.coordinates
        super().__init__(dim, **channels, operators=operators, **inner)


SYMBOLS: dict[str, tuple[Callable[..., Symbol], tuple[str, ...]]] = {
    "network": (NetworkSymbol, ("depends_on_x",)),
    "trunk": (TrunkSymbol, ("depends_on_x", "space_hidden")),
    "low-rank": (LowRankSymbol, ("rank", "shared")),
    "table": (TableSymbol, ()),
    "classical": (ClassicalSymbol, ("depends_on_x", "order")),
}


def make_symbol(
    options: PDNOOptions, dim: int, channels: tuple[int, int], modes: tuple[int, ...] | None
) -> Symbol:
    """The symbol from one number of channels to another."""
    kind = options.symbol
    if kind not in SYMBOLS:
        raise ValueError(unknown_name("symbol", kind, SYMBOLS))
    if kind == "table":
        if modes is None or options.takes_time or options.pde_parameters:
            least = "a table symbol needs modes, for example modes=12, and no time"
            raise ValueError(f"{least} or pde_parameters, which it cannot see")
        return TableSymbol(*channels, modes=modes)
    if kind == "low-rank" and not options.depends_on_x:
        raise ValueError("a low-rank symbol depends on x: for a(ξ) take symbol='network'")
    family, own = SYMBOLS[kind]
    frequency = options.frequency_scale
    if frequency is None and kind == "trunk":
        frequency = 1.0  # its features have scales of their own, in units of single modes
    names = ("takes_time", "pde_parameters", "activation", "first_activation", *own)
    given: dict[str, Any] = {name: getattr(options, name) for name in names}
    given |= {"layers": options.symbol_layers, "hidden": options.symbol_hidden}
    scale = InputScale(dim, options.coordinate_scale, frequency, modes)
    return family(*channels, scale=scale, **given)


OF_THE_NETWORK = {"width", "layers", "padding", "feed_forward", "coordinates"}
"""Options of a `PDNO` that are not those of a single K."""


class PDIO(PseudoDifferentialOperator):
    """K_a[f](x) = Σ_ξ a(x, ξ) f̂(ξ) e^{2πi ξ·x}, the K of eq. 9, with a learned symbol a.

    Shapes: (B, in_channels, *N) -> (B, out_channels, *N), on any grid, inside any torch module.
    The options are those of a `PDNO` that concern its symbols: modes, symbol, depends_on_x,
    activation, symbol_layers, symbol_hidden, ... W, σ and the coordinates are yours to add.

    Example:
        >>> import torch
        >>> layer = PDIO(dim=2, in_channels=3, out_channels=5, modes=12)
        >>> block = torch.nn.Sequential(layer, torch.nn.GELU(), torch.nn.Conv2d(5, 1, 1))
        >>> block(torch.randn(4, 3, 48, 80)).shape
        torch.Size([4, 1, 48, 80])
    """

    def __init__(self, dim: int, in_channels: int, out_channels: int, **options: Any) -> None:
        names = [one.name for one in fields(PDNOOptions) if one.name not in OF_THE_NETWORK]
        refuse_unknown("PDIO", names, options)
        known = PDNOOptions(**options)
        channels = {"in_channels": in_channels, "out_channels": out_channels}
        kept = check_sizes(dim, known.modes, **channels)
        super().__init__(make_symbol(known, dim, (in_channels, out_channels), kept), kept)
