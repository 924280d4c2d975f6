"""PDNO, the pseudo-differential neural operator of the paper."""

__all__ = ["PDNO"]

from collections.abc import Sequence
from typing import Literal

from pdno.networks.neural_operator import NeuralOperator
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.symbols.base import Symbol
from pdno.symbols.classical import ClassicalSymbol
from pdno.symbols.low_rank import LowRankSymbol
from pdno.symbols.network import NetworkSymbol
from pdno.symbols.scale import InputScale, Scale
from pdno.symbols.table import TableSymbol

SymbolName = Literal["network", "table", "low-rank", "classical"]


class PDNO(NeuralOperator):
    """Q ∘ σ(W + K_a) ∘ ... ∘ P with symbol networks a (eq. 9, 16, 19).

    The defaults are the paper's for Navier-Stokes; with 10 input frames the network has the
    paper's 189,653 parameters.

    Shapes: (B, in_channels, *N) -> (B, out_channels, *N). Coordinates are appended inside.

    Arguments:
        dim: Number of axes d.
        in_channels: Channels of f, without coordinates.
        out_channels: Channels of u.
        width: Channels inside.
        layers: Number of blocks.
        symbol_layers: Hidden-to-hidden maps of each symbol network, the paper's "#layers".
        symbol_hidden: Their width.
        activation: Of the symbol networks: gelu, softplus, silu, tanh, sigmoid or relu.
        modes: Kept modes k_max, one or one per axis; None keeps all modes of the grid.
        depends_on_x: Whether the symbol is a1(x) a2(ξ), or a2(ξ) alone.
        symbol: "network" (a1 a2), "low-rank" (Σ_r b_jr c_ijr), "table" (R, as in FNO), or
            "classical" (⟨ξ⟩^m b, in the symbol class S^m_{1,0} by construction).
        rank: R of a low-rank symbol.
        shared: Whether the output channels of a low-rank symbol share its x-factors.
        order: m of a classical symbol.
        takes_time: Whether the symbols depend on time, a(x, ξ, t).
        first_activation: First activation of the symbol networks; the published 2D code always
            has GELU there. None means `activation`.
        frequency_scale: The networks see ξ/frequency_scale; None lets the kept modes span [-4, 4].
        coordinate_scale: The networks see x·coordinate_scale.
        padding: Fraction of the domain (float) or points (int) of zeros after each axis.

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
        width: int = 20,
        layers: int = 4,
        symbol_layers: int = 2,
        symbol_hidden: int = 32,
        activation: str = "gelu",
        modes: Sequence[int] | int | None = None,
        depends_on_x: bool = True,
        symbol: SymbolName = "network",
        *,
        rank: int = 2,
        shared: bool = False,
        order: float = 0.0,
        takes_time: bool = False,
        first_activation: str | None = None,
        frequency_scale: Scale = None,
        coordinate_scale: float | Sequence[float] = 1.0,
        padding: float = 0.0,
    ) -> None:
        check_sizes(dim, in_channels, out_channels, width, layers)
        kept = per_axis(modes, dim)
        network = {
            "layers": symbol_layers,
            "hidden": symbol_hidden,
            "activation": activation,
            "first_activation": first_activation,
        }

        def make() -> Symbol:
            if symbol == "table":
                if kept is None or takes_time:
                    raise ValueError(
                        "a table symbol needs modes, for example modes=12, and no time"
                    )
                return TableSymbol(width, width, modes=kept)
            scale = InputScale(dim, coordinate_scale, frequency_scale)
            common = {"scale": scale, "takes_time": takes_time, **network}
            if symbol == "low-rank":
                if not depends_on_x:
                    raise ValueError(
                        "a low-rank symbol is one that depends on x: for a(ξ) take "
                        "symbol='network' with depends_on_x=False"
                    )
                return LowRankSymbol(width, width, rank=rank, shared=shared, **common)  # type: ignore[arg-type]
            if symbol == "classical":
                return ClassicalSymbol(
                    width,
                    width,
                    order=order,
                    depends_on_x=depends_on_x,
                    **common,  # type: ignore[arg-type]
                )
            if symbol == "network":
                return NetworkSymbol(width, width, depends_on_x=depends_on_x, **common)  # type: ignore[arg-type]
            raise ValueError(
                f"symbol {symbol!r}; expected 'network', 'table' or 'low-rank', or 'classical'"
            )

        operators = [PseudoDifferentialOperator(make(), kept) for _ in range(layers)]
        super().__init__(
            dim,
            in_channels,
            out_channels,
            width=width,
            operators=operators,
            coordinate_scale=coordinate_scale,
            padding=padding,
        )


def check_sizes(dim: int, in_channels: int, out_channels: int, width: int, layers: int) -> None:
    """ValueError unless the sizes make a network."""
    if dim not in (1, 2, 3):
        raise ValueError(f"dim is {dim}; expected 1, 2 or 3")
    sizes = {
        "in_channels": in_channels,
        "out_channels": out_channels,
        "width": width,
        "layers": layers,
    }
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"{name} is {value}; expected at least 1")


def per_axis(modes: Sequence[int] | int | None, dim: int) -> tuple[int, ...] | None:
    """Kept modes, one per axis."""
    if modes is None:
        return None
    kept = (modes,) * dim if isinstance(modes, int) else tuple(modes)
    if len(kept) != dim or min(kept) < 1:
        raise ValueError(
            f"modes {modes}; expected a positive number, or one for each of {dim} axes"
        )
    return kept
