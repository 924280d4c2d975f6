"""Values of a symbol that are evaluated once and used many times.

*Shared*: within one rollout, with their graph, so that the symbol networks run once per optimiser
step. *Frozen*: for inference, without a graph, until the weights of the symbol change; a frozen
operator that is asked for gradients of its symbol evaluates it as usual.

Freezing can lower the rank of the x-factors: for each output j the matrix b_ji(x) of inputs by
points is replaced by its truncated singular value decomposition Σ_r u_ir σ_r v_r(x), so that the
sum over i moves into frequency space, and R·O inverse transforms do instead of I·O.
"""

__all__ = ["FrozenLayer", "ValueCache", "lower_rank", "share_values"]

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass

import torch

from pdno.spectral.grid import Grid
from pdno.symbols.base import Symbol, SymbolValues
from pdno.symbols.network import TableSymbol

Evaluate = Callable[[], SymbolValues]


@dataclass(frozen=True)
class FrozenLayer:
    """What freezing did to one operator.

    It had `full_rank` and has `rank` inverse transforms per output channel; the `error` of the
    x-factors is the largest one of an output channel, relative, in L2 over inputs and points.
    """

    rank: int
    full_rank: int
    error: float


@dataclass(frozen=True)
class _Frozen:
    values: SymbolValues
    grid: Grid
    tolerance: float
    weights: tuple[float, ...]


# shared values by the identity of their `ValueCache`; each thread has its own
_SHARED = ContextVar[dict[int, tuple[Grid, SymbolValues]]]("shared")


@contextlib.contextmanager
def share_values(
    grid: Grid, caches: "Iterable[ValueCache]", values: Iterable[SymbolValues]
) -> Iterator[None]:
    """Use these values in all calls of this block, by this thread."""
    pairs = {id(cache): (grid, found) for cache, found in zip(caches, values, strict=True)}
    token = _SHARED.set({**_SHARED.get({}), **pairs})
    try:
        yield
    finally:
        _SHARED.reset(token)


class ValueCache:
    """The shared or frozen values of one symbol, if there are any."""

    def __init__(self) -> None:
        self.frozen: _Frozen | None = None

    def get(self, symbol: Symbol, grid: Grid, evaluate: Evaluate) -> SymbolValues | None:
        """Values that hold for this grid and these weights now, or None."""
        frozen = self.frozen if self.frozen is not None and self.frozen.grid == grid else None
        if torch.compiler.is_compiling():  # weights are constants of the graph, or its inputs
            return None if frozen is None else frozen.values
        shared = _SHARED.get({}).get(id(self))
        if shared is not None and shared[0] == grid:
            return shared[1]
        if frozen is None:
            return None
        if torch.is_grad_enabled() and any(p.requires_grad for p in symbol.parameters()):
            return None
        if frozen.weights != _fingerprint(symbol):
            self.freeze(symbol, grid, evaluate, frozen.tolerance)
        return None if self.frozen is None else self.frozen.values

    def freeze(
        self, symbol: Symbol, grid: Grid, evaluate: Evaluate, tolerance: float = 0.0
    ) -> FrozenLayer:
        """Evaluate the symbol and keep its values, x-factors truncated to `tolerance`."""
        if isinstance(symbol, TableSymbol):  # its own value: keeping it would only cost time
            return FrozenLayer(1, 1, 0.0)
        with torch.no_grad():
            values = evaluate()
            values = values.on_grid() if tolerance > 0 else values.on_rows()
            lowered, report = lower_rank(values, tolerance)
        self.frozen = _Frozen(lowered, grid, tolerance, _fingerprint(symbol))
        return report


def lower_rank(values: SymbolValues, tolerance: float) -> tuple[SymbolValues, FrozenLayer]:
    """The values with x-factors of the least rank within `tolerance`, where that is cheaper.

    It is the relative error allowed in the x-factors of each output channel; 0 keeps them.
    """
    c, b = values.frequency, values.space
    rank = c.shape[0] * (c.shape[2] if b is not None and b.shape[2] > 1 else 1)
    if tolerance <= 0 or b is None or b.shape[2] == 1 or c.shape[0] > 1:
        return values, FrozenLayer(rank, rank, 0.0)
    factors = b[0].expand(c.shape[1], *b.shape[2:]).flatten(2)
    u, s, v = torch.linalg.svd(factors.double(), full_matrices=False)
    squares = s.square().flip(-1).cumsum(-1).flip(-1)
    tails = torch.cat([squares, squares.new_zeros(len(squares), 1)], dim=1) / squares[:, :1]
    lowest = int((tails.sqrt() > tolerance).sum(dim=1).max())
    if not 0 < lowest < rank:
        return values, FrozenLayer(rank, rank, 0.0)
    weights = (u * s[:, None])[..., :lowest].permute(2, 0, 1).to(b.dtype)  # (R, O, I)
    frequency = weights.reshape(*weights.shape, *[1] * (c.dim() - 3)) * c[0]
    space = v[:, :lowest].transpose(0, 1).to(b.dtype).reshape(lowest, -1, 1, *b.shape[3:])
    error = float(tails[:, lowest].sqrt().max())
    return SymbolValues(frequency, space), FrozenLayer(lowest, rank, error)


def _fingerprint(symbol: Symbol) -> tuple[float, ...]:
    """Two sums over all weights: they change however a weight is written, `.data` included."""
    weights = [*symbol.parameters(), *symbol.buffers()]
    if not weights:
        return ()
    flat = torch.cat([weight.detach().flatten().double() for weight in weights])
    places = torch.arange(len(flat), dtype=flat.dtype, device=flat.device)
    return float(flat.norm()), float(flat @ torch.cos(places))
