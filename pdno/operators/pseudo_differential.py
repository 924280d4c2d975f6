"""The pseudo-differential integral operator, the K of a PDNO.

    K_a[f]_j(x) = Σ_i a1_ij(x) F⁻¹[ a2_ij(ξ) F[f_i](ξ) ](x)                             (eq. 16)

and the same for every other symbol of the separated form (see `symbols.base`); with a table for a
symbol it is the Fourier integral operator of FNO.
"""

__all__ = ["FourierIntegralOperator", "PseudoDifferentialOperator", "apply_symbol"]

import contextlib
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pdno.interface.arguments import RecordsArguments
from pdno.operators.axes import most_nodes
from pdno.operators.cache import CachedLayer, ValueCache
from pdno.operators.kernel import apply_values, choose_backend
from pdno.spectral.fourier import Method, Modes
from pdno.spectral.grid import Grid, kept_per_axis
from pdno.spectral.tracing import is_traced
from pdno.symbols.base import FullSymbol, Symbol, SymbolValues, Time, apply_directly
from pdno.symbols.network import LowRankSymbol, SeparatedSymbol, TableSymbol


class PseudoDifferentialOperator(RecordsArguments, nn.Module):
    """K_a for a symbol a (eq. 16): transform, multiply, invert, mix; (B, I, *N) -> (B, O, *N).

    Arguments:
        modes: Kept modes k_max, one or one per axis; None keeps all modes of the grid.
        method: How to transform: "fft", "matrix", or "auto" for the cheaper one.
    """

    def __init__(
        self, symbol: Symbol, modes: Sequence[int] | int | None = None, *, method: Method = "auto"
    ) -> None:
        super().__init__()
        self.method, self.symbol, self.cache = method, symbol, ValueCache()
        self.modes: Modes = modes if modes is None or isinstance(modes, int) else tuple(modes)

    @property
    def pde_parameters(self) -> int:
        """How many numbers of the equation the symbol sees."""
        return self.symbol.pde_parameters

    def forward(self, f: Tensor, grid: Grid | None = None, t: Time = None) -> Tensor:
        """K_a[f] on the grid of f, which is periodic unless given."""
        where = grid or Grid(tuple(f.shape[2:]))
        _check_channels(f, where, self.symbol)
        # half precision has too few digits for a Fourier transform
        with _full_precision(f.device):
            full = f if f.dtype in (torch.float32, torch.float64) else f.float()
            t, which = _distinct(t, len(f))
            values = _like(self.values_at_nodes(where, t, like=full), full)
            return apply_values(values, full, where, self.modes, method=self.method, which=which)

    def values(self, grid: Grid, t: Time = None) -> SymbolValues:
        """The values of the symbol on all modes and points of a grid, at time t if it has one."""
        return self.values_at_nodes(grid, t, like=torch.empty(0, dtype=torch.float64)).on_grid()

    def values_at_nodes(
        self, grid: Grid, t: Time = None, *, like: Tensor | None = None
    ) -> SymbolValues:
        """The values as the operator takes them, shared or cached ones where they hold.

        Whether factors may be interpolated from nodes depends on the precision and device of the
        fields that the operator is for, or else of its parameters.
        """
        example = next(self.symbol.parameters(), torch.empty(0)) if like is None else like

        def evaluate() -> SymbolValues:
            with _full_precision(example.device):
                symbol, modes = self.symbol, self.modes
                if isinstance(symbol, SeparatedSymbol) and self._interpolates(example, grid):
                    most = self._most_nodes(symbol, grid)
                    return symbol.evaluate(grid, modes, t, most_nodes=most, smooth=True)
                return symbol.evaluate(grid, modes, t)

        cached = self.cache.get(self.symbol, grid, evaluate) if t is None else None
        return evaluate() if cached is None else cached

    def cache_values(self, grid: Grid, tolerance: float = 0.0) -> CachedLayer:
        """Evaluate the symbol once, for inference on one grid (see `NeuralOperator.freeze`)."""
        self.cache.clear()
        return self.cache.fill(self.symbol, grid, lambda: self.values_at_nodes(grid), tolerance)

    def _interpolates(self, like: Tensor, grid: Grid) -> bool:
        options = (like.dtype, like.device, grid, self.modes)
        return not is_traced() and choose_backend(*options, method=self.method) == "native"

    def _most_nodes(self, symbol: SeparatedSymbol, grid: Grid) -> int:
        """Up to how many nodes of each row pay, for symbols with x-factors of pairs."""
        if not symbol.depends_on_x or isinstance(symbol, LowRankSymbol):
            return 0
        return most_nodes(grid.shape, kept_per_axis(grid.shape, self.modes), symbol.in_channels)


class FourierIntegralOperator(PseudoDifferentialOperator):
    """K_R[f] = F⁻¹[R(ξ) F[f](ξ)] with a free table R on the kept modes of each axis (eq. 3)."""

    def __init__(self, in_channels: int, out_channels: int, *, modes: Sequence[int]) -> None:
        super().__init__(TableSymbol(in_channels, out_channels, modes=modes), modes)


def apply_symbol(
    symbol: Symbol | FullSymbol,
    f: Tensor,
    grid: Grid | None = None,
    *,
    t: Time = None,
    modes: Modes = None,
) -> Tensor:
    """K_a[f] for any symbol, (B, I, *N) -> (B, O, *N); one of one channel acts on each of f.

    The grid is periodic if not given; t is the time, for symbols that depend on it.

    Example:
        >>> from pdno.symbols import Derivative
        >>> x = Grid((32,)).points().T[None]
        >>> u = torch.sin(2 * torch.pi * x)
        >>> du = apply_symbol(Derivative((1,)), u)
        >>> torch.allclose(du, 2 * torch.pi * torch.cos(2 * torch.pi * x))
        True
    """
    where = grid or Grid(tuple(f.shape[2:]))
    if isinstance(symbol, FullSymbol):
        where.check(f, "f")
        if t is not None:
            raise ValueError("a symbol evaluated pair by pair has no time: leave t out")
        return apply_directly(symbol.values(where, modes), f, where, modes)
    times = torch.as_tensor(t, dtype=torch.float64) if t is not None else None
    own = times is not None and (times.dim() == 1 or (times.dim() == 2 and len(times) > 1))
    if times is not None and own and len(times) != len(f):
        raise ValueError(f"{len(times)} times for {len(f)} samples: give one, or one per sample")
    if symbol.in_channels != 1 or symbol.out_channels != 1:
        _check_channels(f, where, symbol)
        return apply_values(_like(symbol.evaluate(where, modes, times), f), f, where, modes)
    where.check(f, "f")
    if times is not None and own:
        times = times.repeat_interleave(f.shape[1], dim=0)
    values = _like(symbol.evaluate(where, modes, times), f)
    return apply_values(values, f.reshape(-1, 1, *where.shape), where, modes).reshape(f.shape)


def _check_channels(f: Tensor, grid: Grid, symbol: Symbol) -> None:
    grid.check(f, "f")
    if f.dim() != grid.dim + 2 or f.shape[1] != symbol.in_channels:
        raise ValueError(
            f"f has shape {tuple(f.shape)}; this operator takes (B, {symbol.in_channels}, *N): "
            f"{symbol.in_channels} channels first"
        )


def _distinct(t: Time, samples: int) -> tuple[Time, Tensor | None]:
    """The different ones among the times of the samples, and which of them each sample has."""
    if not isinstance(t, Tensor) or t.dim() == 0 or not len(t) == samples > 1:
        return t, None
    if is_traced() or t.requires_grad:  # how many there are must be known
        return t, None
    distinct, which = torch.unique(t, dim=0, return_inverse=True)
    return distinct, which


def _full_precision(device: torch.device) -> contextlib.AbstractContextManager[None]:
    """No autocast inside."""
    if not torch.amp.is_autocast_available(device.type):
        return contextlib.nullcontext()
    return torch.autocast(device.type, enabled=False)


def _like(values: SymbolValues, f: Tensor) -> SymbolValues:
    """The values on the device and in the precision of f."""
    precision = torch.complex128 if f.dtype == torch.float64 else torch.complex64
    frequency = values.frequency.to(f.device, precision)
    space = None if values.space is None else values.space.to(f)
    basis = None if values.basis is None else values.basis.to(f)
    return SymbolValues(frequency, space, basis, tuple(table.to(f) for table in values.rows))
