"""The pseudo-differential integral operator, the K of a PDNO.

    K_a[f]_j(x) = Σ_i a1_ij(x) F⁻¹[ a2_ij(ξ) F[f_i](ξ) ](x)                             (eq. 16)

and the same for every other separated symbol (see `symbols.base`), such as the table of FNO.
"""

import contextlib
import ctypes
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Generic, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn

from pdno.interface.arguments import RecordsArguments
from pdno.operators.kernel import (
    Plan,
    apply_on_points,
    apply_planned,
    apply_values,
    prepare_values,
)
from pdno.operators.native import most_nodes
from pdno.spectral.fourier import Method, Modes
from pdno.spectral.grid import Grid, most_modes
from pdno.spectral.points import Points
from pdno.spectral.tracing import is_traced, is_transformed
from pdno.symbols.base import FullSymbol, Symbol, SymbolValues, Time, apply_directly
from pdno.symbols.network import LowRankSymbol, SeparatedSymbol, TableSymbol

# shared values by the identity of their `ValueCache`; each thread has its own
_SHARED = ContextVar[dict[int, tuple[Grid, SymbolValues]]]("shared")
MOST_KEPT = 64 * 2**20  # bytes of values that a symbol keeps


@dataclass(frozen=True)
class CachedLayer:
    """What caching did: from `full_rank` to `rank` inverse transforms per output channel.

    The `error` of x-factors is the largest of an output, relative, in L2 over inputs and points.
    """

    rank: int
    full_rank: int
    error: float


class Weights:
    """All that a module holds, and copies of its numbers, to see whether anything has changed.

    Numbers are compared byte by byte: torch does not count what is written by `p.data` or NumPy.
    """

    def __init__(self, module: nn.Module) -> None:
        parts = [(m._modules, m._parameters, m._buffers) for m in module.modules()]
        self._slots = [(at, n, x) for three in parts for at in three for n, x in at.items()]
        tensors = [x for _, _, x in self._slots if isinstance(x, Tensor)]
        self._copies = [(x, x.detach().clone()) for x in tensors]
        self._versions = self._count()

    def _count(self) -> list[int]:
        return [0 if x.is_inference() else x._version for x, _ in self._copies]

    def unchanged(self, *, counted: bool = False) -> bool:
        """Whether all is as it was; `counted`, also that nothing was written and written back."""
        return (
            all(at.get(name) is x for at, name, x in self._slots)
            and all(_same_bytes(x, copy) for x, copy in self._copies)
            and (not counted or self._count() == self._versions)
        )


def _same_bytes(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device:
        return False
    if _MEMCMP is None or a.device.type != "cpu" or not a.is_contiguous():
        return torch.equal(a, b)
    return not _MEMCMP(a.data_ptr(), b.data_ptr(), b.nbytes)


def _find_memcmp() -> Callable[[int, int, int], int] | None:
    try:
        compare = ctypes.PyDLL(None).memcmp
    except (AttributeError, OSError, TypeError):  # no C library of that kind
        return None
    compare.argtypes = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t
    return compare


_MEMCMP = _find_memcmp()
Key = tuple[object, ...]


class HasSize(Protocol):
    """What says how many bytes it has."""

    @property
    def nbytes(self) -> int: ...


Result = TypeVar("Result", bound=HasSize)


class _State(NamedTuple, Generic[Result]):
    weights: Weights
    results: dict[Key, Result]


class Kept(Generic[Result]):
    """Results of functions of a module by a key, until one of its weights changes.

    The oldest ones go where all have more than `most` bytes. Copies and files have none.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._state: _State[Result] | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_state": None}

    def get(self, module: nn.Module, key: Key, make: Callable[[], Result]) -> Result:
        """The result for a key, made if need be."""
        state = self._state  # read once: another thread may replace it meanwhile
        if state is None or not state.weights.unchanged():
            state = _State(Weights(module), {})
        result = state.results.get(key)
        if result is None:
            # it may serve a training step later
            with torch.inference_mode(False), torch.no_grad():
                result = make()
            # what another thread wrote to meanwhile may be of neither its old nor its new weights
            if state.weights.unchanged(counted=True):
                state.results[key] = result
                self._state = state
                for oldest in list(state.results):
                    if sum(kept.nbytes for kept in list(state.results.values())) > self.most:
                        state.results.pop(oldest, None)
        return result

    def results(self) -> dict[Key, Result]:
        """All results, whatever has become of the weights."""
        return {} if self._state is None else dict(self._state.results)

    def clear(self) -> None:
        """Forget all results."""
        self._state = None


class Evaluated(NamedTuple):
    """Values of a symbol on a grid, and what freezing did to them."""

    values: SymbolValues
    layer: CachedLayer

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return self.values.nbytes


class PseudoDifferentialOperator(RecordsArguments, nn.Module):
    """K_a for a symbol a (eq. 16): transform, multiply, invert, mix; (B, I, *N) -> (B, O, *N).

    On a grid that is too coarse for its modes it acts on those that fit, and warns once.

    Arguments:
        modes: Kept modes k_max, one or one per axis; None keeps all modes of the grid.
        method: How to transform: "fft", "matrix", or "auto" for the cheaper one.
    """

    def __init__(
        self, symbol: Symbol, modes: Sequence[int] | int | None = None, *, method: Method = "auto"
    ) -> None:
        super().__init__()
        self.method, self.symbol = method, symbol
        self.cache, self._tolerances = Kept[Evaluated](MOST_KEPT), dict[Key, float]()
        self.modes: Modes = modes if modes is None or isinstance(modes, int) else tuple(modes)

    @property
    def pde_parameters(self) -> int:
        """Number of PDE parameters that the symbol takes."""
        return self.symbol.pde_parameters

    def forward(
        self,
        f: Tensor,
        grid: Grid | None = None,
        t: Time = None,
        *,
        output_grid: Grid | None = None,
    ) -> Tensor:
        """K_a[f] on the grid of f, periodic unless given, or on another; both may be `Points`."""
        where = grid or Grid(tuple(f.shape[2:]))
        if isinstance(where, Points) or output_grid is not None:
            return self._between_points(f, where, t, output_grid)
        with _full_precision(f.device):
            full = _widened(f)
            t, which = _distinct(t, len(f))
            work = f.numel() * self.symbol.out_channels if self.symbol.depends_on_x else 0
            plan = self.plan(full, where, work)
            return apply_planned(self._planned_values(plan, t), full, plan, which)

    def _between_points(self, f: Tensor, grid: Grid, t: Time, output_grid: Grid | None) -> Tensor:
        """K_a[f] from points to points, those of grids among them."""
        points, output = Points.of(grid), output_grid or grid
        where = points if output is grid else Points.of(output)
        flat = f.flatten(2) if grid.space_axes > 1 else f
        with _full_precision(f.device):
            u = apply_on_points(self.symbol, _widened(flat), points, self.modes, t, where)
        return u.reshape(*u.shape[:2], *output.shape)

    def plan(self, f: Tensor, grid: Grid, work: int = 0) -> Plan:
        """How K_a acts on fields like f on a grid."""
        return Plan.of(f, grid, self.modes_on(grid), self.method, work)

    def _plan_values(self, grid: Grid) -> Plan:
        """The plan for fields in the precision and on the device of the weights."""
        return self.plan(next(self.symbol.parameters(), torch.empty(0)), grid)

    def modes_on(self, grid: Grid) -> Modes:
        """The kept modes that a grid can hold; where these are not all of them, a warning."""
        if self.modes is None or isinstance(grid, Points):
            return self.modes
        kept = (self.modes,) * grid.dim if isinstance(self.modes, int) else tuple(self.modes)
        limits = zip(kept, most_modes(grid.shape), strict=False)
        fitting = tuple(k if k is None else min(k, limit) for k, limit in limits)
        if len(kept) != grid.dim or fitting == kept:
            return self.modes
        if not is_traced():
            _warn_of_modes(kept, fitting, grid.shape)
        return fitting

    def values(self, grid: Grid, t: Time = None) -> SymbolValues:
        """The values of the symbol on all modes and points of a grid, at time t if it has one."""
        plan = self._plan_values(grid)._replace(backend="reference")
        return self._planned_values(plan, t).on_grid()

    def values_at_nodes(self, grid: Grid, t: Time = None) -> SymbolValues:
        """The values as the operator takes them: for compiled kernels factors at few nodes."""
        return self._planned_values(self._plan_values(grid), t)

    def _planned_values(self, plan: Plan, t: Time) -> SymbolValues:
        """The values by a plan, shared or cached ones where they hold."""
        symbol, grid = self.symbol, plan.grid
        if torch.compiler.is_compiling():  # weights are constants of the graph, or its inputs
            key = values_key(grid, None)
            frozen = self.cache.results().get((plan.backend, key))
            if frozen is None or key not in self._tolerances or t is not None:
                return self._evaluate(plan, t).values
            return frozen.values
        shared = _SHARED.get({}).get(id(self.cache))
        if t is None and shared is not None and shared[0] == grid:
            return shared[1]
        wanted = torch.is_grad_enabled() and any(p.requires_grad for p in symbol.parameters())
        # a table is its own value: keeping it would only cost time
        own = isinstance(symbol, TableSymbol) or isinstance(grid, Points)
        if wanted or own or is_transformed():
            return self._evaluate(plan, t).values
        return self._cached(plan, t).values

    def _cached(self, plan: Plan, t: Time = None) -> Evaluated:
        key = plan.backend, values_key(plan.grid, t)
        return self.cache.get(self.symbol, key, partial(self._evaluate, plan, t))

    def _evaluate(self, plan: Plan, t: Time) -> Evaluated:
        symbol, grid = self.symbol, plan.grid
        tolerance = self._tolerances.get(values_key(grid, None), 0.0) if t is None else 0.0
        evaluate: Callable[..., SymbolValues] = symbol.evaluate
        native = plan.backend == "native" and not is_traced()
        if native and isinstance(symbol, SeparatedSymbol):
            of_pairs = symbol.depends_on_x and not isinstance(symbol, LowRankSymbol)
            most = most_nodes(grid.shape, plan.kept, symbol.in_channels) if of_pairs else 0
            evaluate = partial(evaluate, most_nodes=most, smooth=True)
        with _full_precision(next(symbol.parameters(), torch.empty(0)).device):
            values = evaluate(grid, plan.modes, t)
            plan.check(values, (symbol.out_channels, symbol.in_channels))
        if torch.is_grad_enabled():
            return Evaluated(values, CachedLayer(0, 0, 0.0))
        values = values.on_grid() if tolerance else values.on_rows()
        return Evaluated(*lower_rank(values, tolerance))

    def cache_values(self, grid: Grid, tolerance: float = 0.0) -> CachedLayer:
        """Evaluate the symbol once, for inference on one grid (see `NeuralOperator.freeze`)."""
        if isinstance(self.symbol, TableSymbol):
            return CachedLayer(1, 1, 0.0)
        self.cache.clear()
        self._tolerances = {**self._tolerances, values_key(grid, None): tolerance}
        return self._cached(self._plan_values(grid)).layer

    def forget_values(self) -> None:
        """Forget all values and tolerances."""
        self.cache.clear()
        self._tolerances = {}

    def prepare(self, values: SymbolValues, grid: Grid) -> Callable[[Tensor], Tensor] | None:
        """K_a with these values by the compiled kernels, for dense fields on a grid."""
        plan = self.plan(torch.empty(0, dtype=torch.float32), grid)
        return prepare_values(values, plan) if plan.backend == "native" else None


def values_key(grid: Grid, t: Time) -> Key:
    """What values of a symbol depend on beside its weights."""
    plain = t.shape if isinstance(t, Tensor) else ()
    numbers = None if t is None else torch.as_tensor(t).flatten().tolist()
    return grid.shape, grid.periodic, grid.offset, plain, numbers and tuple(numbers)


@lru_cache(maxsize=256)
def _warn_of_modes(kept: Modes, fitting: Modes, shape: tuple[int, ...]) -> None:
    grid = f"a grid of {' x '.join(map(str, shape))} points"
    cure = "higher ones are ignored; use a finer grid or fewer modes"
    warnings.warn(f"modes={kept} exceed the {fitting} of {grid}: {cure}", stacklevel=3)


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
    where.check(f, "f")
    if isinstance(symbol, FullSymbol):
        if t is not None:
            raise ValueError("a symbol evaluated pair by pair has no time: leave t out")
        return apply_directly(symbol.values(where, modes), f, where, modes)
    scalar = symbol.in_channels == symbol.out_channels == 1
    times = None if t is None else torch.as_tensor(t, dtype=torch.float64)
    if times is not None and (times.dim() == 1 or (times.dim() == 2 and len(times) > 1)):
        if len(times) != len(f):
            given = f"{len(times)} times for {len(f)} samples"
            raise ValueError(f"{given}: give one, or one per sample")
        times = times.repeat_interleave(f.shape[1], dim=0) if scalar else times
    fields = f.reshape(-1, 1, *where.shape) if scalar else f
    u = apply_values(symbol.evaluate(where, modes, times), fields, where, modes)
    return u.reshape(f.shape) if scalar else u


def _distinct(t: Time, samples: int) -> tuple[Time, Tensor | None]:
    """The different ones among the times of the samples, and which of them each sample has."""
    own = isinstance(t, Tensor) and t.dim() > 0 and len(t) == samples > 1
    # how many there are must be known
    if not isinstance(t, Tensor) or not own or is_traced() or t.requires_grad:
        return t, None
    distinct, which = torch.unique(t, dim=0, return_inverse=True)
    return distinct, which


def _widened(f: Tensor) -> Tensor:
    """f in a precision with enough digits for a Fourier transform."""
    return f if f.dtype in (torch.float32, torch.float64) else f.float()


def _full_precision(device: torch.device) -> contextlib.AbstractContextManager[None]:
    """No autocast inside."""
    if not torch.amp.is_autocast_available(device.type):
        return contextlib.nullcontext()
    return torch.autocast(device.type, enabled=False)


@contextlib.contextmanager
def share_values(
    values: Iterable[tuple[PseudoDifferentialOperator, Grid, SymbolValues]],
) -> Iterator[None]:
    """Use these values of operators on grids in all calls of this block, by this thread."""
    shared = {id(operator.cache): (grid, value) for operator, grid, value in values}
    token = _SHARED.set({**_SHARED.get({}), **shared})
    try:
        yield
    finally:
        _SHARED.reset(token)


def lower_rank(values: SymbolValues, tolerance: float) -> tuple[SymbolValues, CachedLayer]:
    """The values with x-factors of the least rank within `tolerance`, where that is cheaper.

    For each output j the matrix b_ji(x) of inputs by points becomes its truncated singular value
    decomposition Σ_r u_ir σ_r v_r(x), so that R·O inverse transforms do instead of I·O. A
    `tolerance` of 0 keeps the x-factors.
    """
    c, b = values.frequency, values.space
    of_pairs = b is not None and b.shape[2] > 1
    rank = c.shape[0] * (c.shape[2] if of_pairs else 1)
    if tolerance > 0 and b is not None and of_pairs and len(c) == 1:
        weights, space, error = truncate_rank(b[0].expand(c.shape[1], *b.shape[2:]), tolerance)
        weights = weights.permute(2, 0, 1)  # (R, O, I)
        if 0 < len(weights) < rank:
            frequency = weights.reshape(*weights.shape, *[1] * (c.dim() - 3)) * c[0]
            lowered = SymbolValues(frequency, space.transpose(0, 1).unsqueeze(2))
            return lowered, CachedLayer(len(weights), rank, error)
    return values, CachedLayer(rank, rank, 0.0)


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
