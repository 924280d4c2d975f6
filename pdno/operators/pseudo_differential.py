"""The pseudo-differential integral operator, the K of a PDNO.

    K_a[f]_j(x) = Σ_i a1_ij(x) F⁻¹[ a2_ij(ξ) F[f_i](ξ) ](x)                             (eq. 16)

and the same for every other symbol of the separated form (see `symbols.base`); with a table for a
symbol it is the Fourier integral operator of FNO.
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
from pdno.operators.axes import most_nodes
from pdno.operators.kernel import Backend, apply_values, choose_backend, prepare_values
from pdno.operators.scattered import apply_on_points
from pdno.spectral.fourier import Method, Modes, spectrum_shape
from pdno.spectral.grid import Grid, kept_per_axis, most_modes
from pdno.spectral.points import Points
from pdno.spectral.tracing import is_traced, is_transformed
from pdno.symbols.base import FullSymbol, Symbol, SymbolValues, Time, apply_directly
from pdno.symbols.network import LowRankSymbol, SeparatedSymbol, TableSymbol

# shared values by the identity of their `ValueCache`; each thread has its own
_SHARED = ContextVar[dict[int, tuple[Grid, SymbolValues]]]("shared")
MOST_KEPT = 64 * 2**20  # bytes of values that a symbol keeps


@dataclass(frozen=True)
class CachedLayer:
    """What caching did to one operator.

    It had `full_rank` and has `rank` inverse transforms per output channel; the `error` of the
    x-factors is the largest one of an output channel, relative, in L2 over inputs and points.
    """

    rank: int
    full_rank: int
    error: float


class Weights:
    """All that a module holds, and copies of its numbers, to see whether anything has changed.

    Objects are compared by identity and numbers byte by byte, for a version counter of torch does
    not count what is written through `p.data` or NumPy.
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
    def nbytes(self) -> int:
        """Bytes."""


Result = TypeVar("Result", bound=HasSize)


class _State(NamedTuple, Generic[Result]):
    weights: Weights
    results: dict[Key, Result]


class Kept(Generic[Result]):
    """What functions of the weights of a module gave, by a key, until one of its weights changes.

    The oldest results go where all have more than `most` bytes. Copies and files have none.
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
    """Values of a symbol on a grid, what freezing did to them, and K by the compiled kernels."""

    values: SymbolValues
    layer: CachedLayer
    apply: Callable[[Tensor], Tensor] | None = None  #: for dense fields, without gradients

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
        """K_a[f] on the grid of f, which is periodic unless given; or at the `output_grid`.

        Each may be scattered `Points`; values are wanted on another grid through them.
        """
        where = grid or Grid(tuple(f.shape[2:]))
        if isinstance(where, Points) or output_grid is not None:
            return self._between_points(f, where, t, output_grid)
        if t is None and (prepared := self._prepared(f, where)) is not None:
            return prepared(f.contiguous())
        modes = self.modes_on(where)
        # half precision has too few digits for a Fourier transform
        with _full_precision(f.device):
            full = f if f.dtype in (torch.float32, torch.float64) else f.float()
            t, which = _distinct(t, len(f))
            work = f.numel() * self.symbol.out_channels if self.symbol.depends_on_x else 0
            backend = choose_backend(full, where, modes, method=self.method, work=work)
            values = self.values_at_nodes(where, t, backend)
            return apply_values(
                values, full, where, modes, method=self.method, backend=backend, which=which
            )

    def _between_points(self, f: Tensor, grid: Grid, t: Time, output_grid: Grid | None) -> Tensor:
        """K_a[f] from points to points, those of grids among them."""
        points, output = Points.of(grid), output_grid or grid
        where = points if output is grid else Points.of(output)
        flat = f.flatten(2) if grid.space_axes > 1 else f
        with _full_precision(f.device):
            full = flat if f.dtype in (torch.float32, torch.float64) else flat.float()
            u = apply_on_points(self.symbol, full, points, self.modes, t, output_points=where)
        return u.reshape(*u.shape[:2], *output.shape)

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
        return self.values_at_nodes(grid, t, "reference").on_grid()

    def values_at_nodes(
        self, grid: Grid, t: Time = None, backend: Backend | None = None
    ) -> SymbolValues:
        """The values as the operator takes them, shared or cached ones where they hold.

        The compiled kernels, unless another backend is given, take factors at few nodes.
        """
        symbol, modes = self.symbol, self.modes_on(grid)
        if backend is None:
            like = next(symbol.parameters(), torch.empty(0))
            backend = choose_backend(like, grid, modes, method=self.method)
        evaluate = partial(self._evaluate, grid, modes, t, backend)
        if torch.compiler.is_compiling():  # weights are constants of the graph, or its inputs
            key = values_key(grid, None)
            frozen = self.cache.results().get((backend, key)) if key in self._tolerances else None
            return evaluate().values if frozen is None or t is not None else frozen.values
        shared = _SHARED.get({}).get(id(self.cache))
        if t is None and shared is not None and shared[0] == grid:
            return shared[1]
        wanted = torch.is_grad_enabled() and any(p.requires_grad for p in symbol.parameters())
        if wanted or is_transformed() or isinstance(grid, Points):
            return evaluate().values
        if isinstance(symbol, TableSymbol):  # its own value: keeping it would only cost time
            return evaluate().values
        return self.cache.get(symbol, (backend, values_key(grid, t)), evaluate).values

    def _evaluate(self, grid: Grid, modes: Modes, t: Time, backend: Backend) -> Evaluated:
        symbol = self.symbol
        tolerance = self._tolerances.get(values_key(grid, None), 0.0) if t is None else 0.0
        with _full_precision(next(symbol.parameters(), torch.empty(0)).device):
            if backend != "native" or is_traced() or not isinstance(symbol, SeparatedSymbol):
                values = symbol.evaluate(grid, modes, t)
                spectrum = spectrum_shape(grid.shape, kept_per_axis(grid.shape, modes))
                values.check((symbol.out_channels, symbol.in_channels), spectrum, grid.shape)
            else:
                most = 0
                if symbol.depends_on_x and not isinstance(symbol, LowRankSymbol):
                    kept = kept_per_axis(grid.shape, modes)
                    most = most_nodes(grid.shape, kept, symbol.in_channels)
                values = symbol.evaluate(grid, modes, t, most_nodes=most, smooth=True)
        if torch.is_grad_enabled():
            return Evaluated(values, CachedLayer(0, 0, 0.0))
        values, layer = lower_rank(values.on_grid() if tolerance else values.on_rows(), tolerance)
        native = backend == "native" and not is_traced()
        return Evaluated(values, layer, self.prepare(values, grid) if native else None)

    def cache_values(self, grid: Grid, tolerance: float = 0.0) -> CachedLayer:
        """Evaluate the symbol once, for inference on one grid (see `NeuralOperator.freeze`)."""
        if isinstance(self.symbol, TableSymbol):
            return CachedLayer(1, 1, 0.0)
        like, modes = next(self.symbol.parameters(), torch.empty(0)), self.modes_on(grid)
        backend = choose_backend(like, grid, modes, method=self.method)
        key = values_key(grid, None)
        self.cache.clear()
        self._tolerances = {**self._tolerances, key: tolerance}
        evaluate = partial(self._evaluate, grid, modes, None, backend)
        return self.cache.get(self.symbol, (backend, key), evaluate).layer

    def forget_values(self) -> None:
        """Forget all values and tolerances."""
        self.cache.clear()
        self._tolerances = {}

    def prepare(self, values: SymbolValues, grid: Grid) -> Callable[[Tensor], Tensor] | None:
        """K_a with these values by the compiled kernels, for dense fields on a grid."""
        like, modes = torch.empty(1, self.symbol.in_channels, *grid.shape), self.modes_on(grid)
        native = choose_backend(like, grid, modes, method=self.method) == "native"
        return prepare_values(values, like, grid, modes) if native else None

    def _prepared(self, f: Tensor, grid: Grid) -> Callable[[Tensor], Tensor] | None:
        """The same with the values of now, where nothing is differentiated; None for other f."""
        if (
            not len(f)
            or torch.is_grad_enabled()
            or is_traced()
            or id(self.cache) in _SHARED.get({})
            or isinstance(self.symbol, TableSymbol)
            or f.shape[1:] != (self.symbol.in_channels, *grid.shape)
            or choose_backend(f, grid, modes := self.modes_on(grid), method=self.method)
            != "native"
        ):
            return None
        evaluate = partial(self._evaluate, grid, modes, None, "native")
        return self.cache.get(self.symbol, ("native", values_key(grid, None)), evaluate).apply


def values_key(grid: Grid, t: Time) -> Key:
    """What values of a symbol depend on beside its weights."""
    plain = t.shape if isinstance(t, Tensor) else ()
    numbers = None if t is None else torch.as_tensor(t).flatten().tolist()
    return grid.shape, grid.periodic, grid.offset, plain, numbers and tuple(numbers)


@lru_cache(maxsize=256)
def _warn_of_modes(kept: Modes, fitting: Modes, shape: tuple[int, ...]) -> None:
    points = " x ".join(map(str, shape))
    message = (
        f"modes={kept} on a grid of {points} points: it holds {fitting}, and the operator leaves "
        "the higher ones out; take a finer grid to have them all"
    )
    warnings.warn(message, stacklevel=3)


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
    times = torch.as_tensor(t, dtype=torch.float64) if t is not None else None
    own = times is not None and (times.dim() == 1 or (times.dim() == 2 and len(times) > 1))
    if times is not None and own and len(times) != len(f):
        raise ValueError(f"{len(times)} times for {len(f)} samples: give one, or one per sample")
    if symbol.in_channels != 1 or symbol.out_channels != 1:
        return apply_values(symbol.evaluate(where, modes, times), f, where, modes)
    if times is not None and own:
        times = times.repeat_interleave(f.shape[1], dim=0)
    values = symbol.evaluate(where, modes, times)
    return apply_values(values, f.reshape(-1, 1, *where.shape), where, modes).reshape(f.shape)


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

    For each output j the matrix b_ji(x) of inputs by points is replaced by its truncated singular
    value decomposition Σ_r u_ir σ_r v_r(x), so that the sum over i moves into frequency space, and
    R·O inverse transforms do instead of I·O. `tolerance` is the relative error allowed in the
    x-factors of each output channel; 0 keeps them.
    """
    c, b = values.frequency, values.space
    rank = c.shape[0] * (c.shape[2] if b is not None and b.shape[2] > 1 else 1)
    if tolerance > 0 and b is not None and b.shape[2] > 1 and len(c) == 1:
        weights, space, error = truncate_rank(b[0].expand(c.shape[1], *b.shape[2:]), tolerance)
        lowest = weights.shape[-1]
        if 0 < lowest < rank:
            weights = weights.permute(2, 0, 1)  # (R, O, I)
            frequency = weights.reshape(*weights.shape, *[1] * (c.dim() - 3)) * c[0]
            lowered = SymbolValues(frequency, space.transpose(0, 1).unsqueeze(2))
            return lowered, CachedLayer(lowest, rank, error)
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
