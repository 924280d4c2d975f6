"""Values of a symbol that are evaluated once and used many times.

*Shared*: within one rollout, with their graph, so that the symbol networks run once per optimiser
step. *Cached*: for inference, without a graph, until the weights of the symbol change; an operator
that is differentiated with respect to its symbol evaluates it as usual.

Caching can lower the rank of the x-factors: for each output j the matrix b_ji(x) of inputs by
points is replaced by its truncated singular value decomposition Σ_r u_ir σ_r v_r(x), so that the
sum over i moves into frequency space, and R·O inverse transforms do instead of I·O.
"""

__all__ = ["CachedLayer", "ValueCache", "lower_rank", "share_values", "truncate_rank"]

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor

from pdno.spectral.grid import Grid
from pdno.symbols.base import Symbol, SymbolValues
from pdno.symbols.network import TableSymbol

Evaluate = Callable[[], SymbolValues]


@dataclass(frozen=True)
class CachedLayer:
    """What caching did to one operator.

    It had `full_rank` and has `rank` inverse transforms per output channel; the `error` of the
    x-factors is the largest one of an output channel, relative, in L2 over inputs and points.
    """

    rank: int
    full_rank: int
    error: float


@dataclass(frozen=True)
class _Cached:
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
    pairs = {id(cache): (grid, value) for cache, value in zip(caches, values, strict=True)}
    token = _SHARED.set({**_SHARED.get({}), **pairs})
    try:
        yield
    finally:
        _SHARED.reset(token)


class ValueCache:
    """The shared or cached values of one symbol, if there are any."""

    def __init__(self) -> None:
        self._cached: _Cached | None = None

    def get(self, symbol: Symbol, grid: Grid, evaluate: Evaluate) -> SymbolValues | None:
        """Values that hold for this grid and these weights now, or None."""
        cached = self._cached  # read once: another thread may replace it meanwhile
        if cached is not None and cached.grid != grid:
            cached = None
        if torch.compiler.is_compiling():  # weights are constants of the graph, or its inputs
            return None if cached is None else cached.values
        shared = _SHARED.get({}).get(id(self))
        if shared is not None and shared[0] == grid:
            return shared[1]
        if cached is None:
            return None
        if torch.is_grad_enabled() and any(p.requires_grad for p in symbol.parameters()):
            return None
        if cached.weights != _fingerprint(symbol):
            cached, _ = _evaluate(symbol, grid, evaluate, cached.tolerance)
            self._cached = cached
        return cached.values

    def fill(
        self, symbol: Symbol, grid: Grid, evaluate: Evaluate, tolerance: float = 0.0
    ) -> CachedLayer:
        """Evaluate the symbol and keep its values, x-factors truncated to `tolerance`."""
        if isinstance(symbol, TableSymbol):  # its own value: keeping it would only cost time
            return CachedLayer(1, 1, 0.0)
        self._cached, report = _evaluate(symbol, grid, evaluate, tolerance)
        return report

    def clear(self) -> None:
        """Forget the cached values."""
        self._cached = None


@torch.no_grad()
def _evaluate(
    symbol: Symbol, grid: Grid, evaluate: Evaluate, tolerance: float
) -> tuple[_Cached, CachedLayer]:
    weights, values = _fingerprint(symbol), evaluate()
    values = values.on_grid() if tolerance > 0 else values.on_rows()
    lowered, report = lower_rank(values, tolerance)
    return _Cached(lowered, grid, tolerance, weights), report


def lower_rank(values: SymbolValues, tolerance: float) -> tuple[SymbolValues, CachedLayer]:
    """The values with x-factors of the least rank within `tolerance`, where that is cheaper.

    It is the relative error allowed in the x-factors of each output channel; 0 keeps them.
    """
    c, b = values.frequency, values.space
    rank = c.shape[0] * (c.shape[2] if b is not None and b.shape[2] > 1 else 1)
    if tolerance <= 0 or b is None or b.shape[2] == 1 or c.shape[0] > 1:
        return values, CachedLayer(rank, rank, 0.0)
    weights, space, error = truncate_rank(b[0].expand(c.shape[1], *b.shape[2:]), tolerance)
    lowest = weights.shape[-1]
    if not 0 < lowest < rank:
        return values, CachedLayer(rank, rank, 0.0)
    weights = weights.permute(2, 0, 1)  # (R, O, I)
    frequency = weights.reshape(*weights.shape, *[1] * (c.dim() - 3)) * c[0]
    return (
        SymbolValues(frequency, space.transpose(0, 1).unsqueeze(2)),
        CachedLayer(lowest, rank, error),
    )


def truncate_rank(b: Tensor, tolerance: float) -> tuple[Tensor, Tensor, float]:
    """The least R with b_ji(x) = Σ_{r<=R} w_jir v_jr(x) to a relative error of `tolerance`.

    Returns w (O, I, R) and v (O, R, *N) for b (O, I, *N), and the largest error of an output.
    """
    u, s, v = torch.linalg.svd(b.flatten(2).double(), full_matrices=False)
    squares = s.square().flip(-1).cumsum(-1).flip(-1)
    tails = torch.cat([squares, squares.new_zeros(len(squares), 1)], dim=1) / squares[:, :1]
    rank = int((tails.sqrt() > tolerance).sum(dim=1).max())
    space = v[:, :rank].to(b.dtype).reshape(len(b), rank, *b.shape[2:])
    return (u * s[:, None])[..., :rank].to(b.dtype), space, float(tails[:, rank].sqrt().max())


def _fingerprint(symbol: Symbol) -> tuple[float, ...]:
    """Two sums over all weights: they change however a weight is written, `.data` included."""
    weights = [*symbol.parameters(), *symbol.buffers()]
    if not weights:
        return ()
    flat = torch.cat([weight.detach().flatten().double() for weight in weights])
    positions = torch.arange(len(flat), dtype=flat.dtype, device=flat.device)
    return float(flat.norm()), float(flat @ torch.cos(positions))
