"""The pairwise operator on a plane with an own Fourier transform, float32 on a CPU (see lanes.c).

    out_bj = Σ_i b_ji F⁻¹[c_ji f̂_bi]

Each lane of the processor's vectors works on one pair of sample and input, so that the transform
is as fast as the arithmetic. Both axes must be powers of two.
"""

__all__ = ["LaneLoops", "apply_lanes", "find_lanes"]

import ctypes
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pdno.native.build import load_lanes
from pdno.native.threads import share_out

DENSE = torch.contiguous_format
LEAST, FIRST_RADIX, MOST_PASSES = 16, 8, 4
INPUTS = 4
"""Inputs in a tile; the samples are as many as there are lanes for."""

CACHE = 640 * 2**10
"""Bytes of the second cache that transformed columns may fill."""

OUTPUTS = 4
"""For how many outputs a tile is used in turn where not all tiles that are added up fit it."""

LEAST_FILLED = 0.5
"""Of the lanes of the tiles, else there is too little to do for them."""


class _Axis(ctypes.Structure):
    _fields_ = [
        ("twiddles", ctypes.c_void_p),
        ("order", ctypes.c_void_p),
        ("points", ctypes.c_long),
        ("passes", ctypes.c_long),
        ("radix", ctypes.c_long * MOST_PASSES),
    ]


class _Strides(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("first", "second", "row")]


class _Layer(ctypes.Structure):
    _fields_ = [
        ("column", _Axis),
        ("row", _Axis),
        *((name, ctypes.c_long) for name in ("outputs", "batch", "inputs")),
        *((name, ctypes.c_long) for name in ("batch_blocks", "input_blocks")),
        *((name, ctypes.c_long) for name in ("up", "kept", "modes")),
        *((name, ctypes.c_long) for name in ("few_columns", "few_rows", "wave_row")),
        *((name, ctypes.c_long) for name in ("together", "turn")),
        *((name, _Strides) for name in ("out", "b", "b_bar", "c", "c_bar")),
    ]


@lru_cache(maxsize=64)
def find_lanes(
    shape: tuple[int, ...], kept: tuple[int | None, ...], batch: int, inputs: int
) -> "LaneLoops | None":
    """The loops for a grid and its kept modes, or None where they do not apply or do not pay."""
    if len(shape) != 2 or min(shape) < LEAST or any(n & (n - 1) for n in shape):
        return None
    library = load_lanes()
    if library is None or max(shape) > library.lanes_most():
        return None
    samples = library.lanes_count() // INPUTS
    places = _fill(batch, samples) * samples * _fill(inputs, INPUTS) * INPUTS
    if batch * inputs < LEAST_FILLED * places:
        return None
    return LaneLoops(library, (shape[0], shape[1]), (kept[0], kept[1]))


def apply_lanes(c: Tensor, b: Tensor, f_hat: Tensor, loops: "LaneLoops") -> Tensor:
    """Σ_i b_ji F⁻¹[c_ji f̂_i], (O, I, *K), (O, I, *N), (B, I, *K) -> (B, O, *N)."""
    return _Lanes.apply(c, b, f_hat, loops)  # type: ignore[no-any-return, no-untyped-call]


class _Lanes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, c: Tensor, b: Tensor, f_hat: Tensor, loops: "LaneLoops") -> Tensor:
        c, b, tiles = _dense_lines(c), _dense_lines(b), loops.pack(f_hat)
        ctx.save_for_backward(c, b, tiles)
        ctx.loops = loops
        return loops.forward(c, b, tiles, len(f_hat))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        c, b, tiles = ctx.saved_tensors
        loops: LaneLoops = ctx.loops
        return (*loops.backward(c, b, tiles, _dense_lines(grad)), None)


class LaneLoops:
    """The operator and its gradients on one grid.

    Shapes: c (O, I, K1, K2), b (O, I, N1, N2), out (B, O, N1, N2), views whose last axis is dense;
    f̂ (B, I, K1, K2), packed into tiles of 4 inputs and some samples.

    Arguments:
        library: The compiled loops.
        shape: (N1, N2), powers of two.
        kept: Kept modes of each axis, None for all.
    """

    def __init__(
        self, library: ctypes.CDLL, shape: tuple[int, int], kept: tuple[int | None, int | None]
    ) -> None:
        self.library, self.shape = library, shape
        self.lanes = library.lanes_count()
        self.up = shape[0] // 2 if kept[0] is None else kept[0]
        self.modes = (2 * self.up, shape[1] // 2 + 1 if kept[1] is None else kept[1])
        self.wave_row = self.modes[1] | 1
        with torch.inference_mode(False):
            self.tables = [_tables(n) for n in shape]

    def pack(self, f_hat: Tensor) -> Tensor:
        """f̂ in tiles."""
        batch, inputs = f_hat.shape[:2]
        layer = self._layer(1, batch, inputs)
        size = layer.batch_blocks * layer.input_blocks * math.prod(self.modes) * 2 * self.lanes
        tiles = _room(size)
        f_hat = f_hat.resolve_conj().contiguous()
        self._call(self.library.lanes_pack, (f_hat, tiles), layer, 0)
        return tiles

    def forward(self, c: Tensor, b: Tensor, tiles: Tensor, batch: int) -> Tensor:
        """Σ_i b_i F⁻¹[c_i f̂_i]."""
        out = torch.empty(batch, len(c), *self.shape, dtype=torch.float32)
        layer = self._layer(len(c), batch, c.shape[1], out=out, b=b, c=c)
        self._plan(layer, layer.input_blocks)
        sizes = self._packed_sizes(layer)[:2]

        def part(first: int, last: int) -> None:
            rooms = [_room(size) for size in sizes]
            tensors = (tiles, c, b, out, self._waves(layer), *rooms)
            self._call(self.library.lanes_forward, tensors, layer, first, last)

        share_out(part, len(c))
        return out

    def backward(
        self, c: Tensor, b: Tensor, tiles: Tensor, grad: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of c, b and f̂."""
        batch, inputs = len(grad), c.shape[1]
        c_bar, b_bar = _room_like(c), _room_like(b)
        layer = self._layer(len(c), batch, inputs, out=grad, b=b, b_bar=b_bar, c=c, c_bar=c_bar)
        self._plan(layer, layer.batch_blocks)
        factors, symbol, gradient = self._packed_sizes(layer)
        sums: list[Tensor] = []

        def part(first: int, last: int) -> None:
            rooms = [_room(size) for size in (factors, symbol, symbol, gradient)]
            sums.append(tiles_bar := torch.zeros_like(tiles))
            tensors = (tiles, c, b, grad, tiles_bar, c_bar, b_bar, self._waves(layer), *rooms)
            self._call(self.library.lanes_backward, tensors, layer, first, last)

        share_out(part, len(c))
        for more in sums[1:]:
            sums[0].add_(more)
        f_bar = torch.empty(batch, inputs, *self.modes, dtype=c.dtype)
        self._call(self.library.lanes_pack, (f_bar, sums[0]), layer, 1)
        return c_bar, b_bar, f_bar

    def _plan(self, layer: _Layer, blocks: int) -> None:
        """How many of the `blocks` that are added up are worked on at once.

        Where all of them fit the cache, it is best to finish one output after the other.
        """
        tile = self.shape[0] * self.wave_row * 2 * self.lanes * torch.float32.itemsize
        layer.together = min(blocks, max(1, CACHE // tile))
        layer.turn = 1 if layer.together == blocks else OUTPUTS

    def _waves(self, layer: _Layer) -> Tensor:
        """Room for the transformed columns of the tiles that are added up at once."""
        return _room(layer.together * self.shape[0] * self.wave_row * 2 * self.lanes)

    def _packed_sizes(self, layer: _Layer) -> tuple[int, int, int]:
        """Numbers in b, c and the gradient when packed."""
        points, lines = math.prod(self.shape), layer.turn * layer.input_blocks * INPUTS
        samples = layer.batch_blocks * (self.lanes // INPUTS)
        symbol = lines * math.prod(self.modes) * 2
        return lines * points, symbol, layer.turn * samples * points

    def _layer(self, outputs: int, batch: int, inputs: int, **tensors: Tensor) -> _Layer:
        (n1, n2), (k1, k2) = self.shape, self.modes
        layer = _Layer(*(_axis(table) for table in self.tables), outputs, batch, inputs)
        layer.batch_blocks = _fill(batch, self.lanes // INPUTS)
        layer.input_blocks = _fill(inputs, INPUTS)
        layer.up, layer.kept, layer.modes, layer.wave_row = self.up, k1, k2, self.wave_row
        layer.few_columns, layer.few_rows = 4 * self.up <= n1, 4 * k2 <= n2
        for name, tensor in tensors.items():
            setattr(layer, name, _Strides(*tensor.stride()[:3]))
        return layer

    @staticmethod
    def _call(
        loop: Callable[..., None], tensors: tuple[Tensor, ...], layer: _Layer, *numbers: int
    ) -> None:
        pointers = (ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors)
        loop(*pointers, ctypes.byref(layer), *(ctypes.c_long(number) for number in numbers))


def _dense_lines(field: Tensor) -> Tensor:
    """The same numbers, neighbours on the last axis next to each other in memory."""
    field = field.resolve_conj().resolve_neg()
    return field if field.stride(-1) == 1 else field.contiguous()


def _room(size: int) -> Tensor:
    return torch.empty(size, dtype=torch.float32)


def _room_like(field: Tensor) -> Tensor:
    """Room for a gradient, laid out as its field, for that is how it will be read."""
    room = torch.empty_like(field)
    return room if room.stride(-1) == 1 else torch.empty_like(field, memory_format=DENSE)


def _fill(count: int, size: int) -> int:
    """Blocks of `size` that hold `count` things."""
    return -(-count // size)


def _axis(tables: tuple[Tensor, Tensor, list[int]]) -> _Axis:
    twiddles, order, radices = tables
    points = math.prod(radices)
    padded = (ctypes.c_long * MOST_PASSES)(*radices)
    return _Axis(twiddles.data_ptr(), order.data_ptr(), points, len(radices), padded)


@lru_cache(maxsize=16)
def _tables(points: int) -> tuple[Tensor, Tensor, list[int]]:
    """Twiddles of each pass but the first, reversed digits of 0 .. points/8, and the radices."""
    radices, twiddles, done = _radices(points), [], FIRST_RADIX
    order = torch.zeros(points // FIRST_RADIX, dtype=torch.int64)
    rest = torch.arange(len(order))
    for radix in radices[1:]:
        turns = torch.outer(torch.arange(done), torch.arange(1, radix)).double()
        angle = turns * (2 * math.pi / (done * radix))
        twiddles.append(torch.stack([angle.cos(), angle.sin()], dim=-1).flatten())
        done *= radix
    span = len(order)
    for radix in reversed(radices[1:]):
        span //= radix
        order += rest % radix * span
        rest = rest // radix
    return torch.cat(twiddles).to(torch.float32), order, radices


def _radices(points: int) -> list[int]:
    """8, then 8, 4 or 2, as few passes as possible and none of radix 2 where 4 times 4 does."""
    radices, rest = [FIRST_RADIX], points // FIRST_RADIX
    while rest > 1:
        radices.append({2: 2, 4: 4, 16: 4}.get(rest, 8))
        rest //= radices[-1]
    return radices
