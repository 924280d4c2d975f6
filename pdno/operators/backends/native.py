"""The operator in compiled loops, for float32 on a CPU (see native/pairwise.c).

    pairs   out_bj = Σ_i b_ji F⁻¹[c_ji f̂_bi]
    nodes   the same with b_ji = Σ_m ℓ_m A_jim along the last axis (see `pdno.symbols.nodes`)
    modes   out_bj(ξ) = Σ_i c_ji(ξ) f̂_bi(ξ)
    fields  F⁻¹ of many fields, and its transpose
    points  W₂ gelu(W₁ v + b₁) + b₂, the projection

Each lane of the processor's vectors works on one pair of sample and channel, or on one mode. What
is chosen for a size of the problem (how an axis is transformed, how lanes are filled, what fits
the cache, how work is shared out) is chosen once and depends on sizes alone: not on the number of
threads, so neither do the bits of the result.
"""

__all__ = [
    "FieldLoops",
    "NodeLoops",
    "PairLoops",
    "Sizes",
    "contract",
    "contract_backward",
    "lane_suffixes",
    "project",
    "project_backward",
]

import ctypes
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from pdno.grid import axis_modes
from pdno.native.threads import run_tasks

MOST_PASSES = 12
CACHE = 640 * 2**10
"""Bytes of the second cache that transformed tiles may fill."""

WHOLE = 512 * 2**10
"""Bytes of b for one output up to which they are packed at once."""

FEW_LANES = 0.87
"""Speed of 8 lanes over that of 16 where all are filled; measured where 16 are twice 8 inside."""

POINTS = 4
"""Vectors of points that the projection works on at once, as in native/projection.h."""

TASKS = 8
"""Into how many parts the backward pass can be shared out, at least."""

FAST_COST = {8: 7.0, 7: 9.0, 5: 7.5, 4: 5.0, 3: 5.0, 2: 3.0}
"""Of a pass per complex point, where a direct transform costs 1 per mode and point; measured."""


class _Axis(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("twiddles", "order", "place", "cosines", "sines")),
        *((name, ctypes.c_void_p) for name in ("cosines_back", "sines_back")),
        *((name, ctypes.c_long) for name in ("points", "modes", "up", "passes", "few")),
        ("radix", ctypes.c_long * MOST_PASSES),
    ]


class _Layer(ctypes.Structure):
    _fields_ = [
        *((name, _Axis) for name in ("outer", "inner", "row")),
        *((name, ctypes.c_long) for name in ("dim", "outputs", "batch", "inputs")),
        *((name, ctypes.c_long) for name in ("together", "pack_whole")),
        *((name, ctypes.c_long) for name in ("nodes", "wave_row")),
    ]


@dataclass(frozen=True)
class Sizes:
    """Everything that the plan of the loops depends on.

    Arguments:
        shape: Grid points per axis, *N.
        kept: Kept modes per axis, None for all.
        batch: B.
        inputs: I.
        outputs: O.
    """

    shape: tuple[int, ...]
    kept: tuple[int | None, ...]
    batch: int
    inputs: int
    outputs: int


class _Projection(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("channels", "hidden", "outputs", "points")]


class _Contraction(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("outputs", "inputs", "batch", "modes")]


class _Loops:
    """What both kinds of loops know of one size.

    Arguments:
        library: The compiled loops.
        sizes: Of the problem.
        columns: Channels that lanes stand for, inputs or outputs.
    """

    def __init__(self, library: ctypes.CDLL, sizes: Sizes, columns: int) -> None:
        self.library, self.sizes = library, sizes
        self.suffix, self.lanes, self.samples = _best_lanes(library, sizes.batch, columns)
        self.batch_blocks = -(-sizes.batch // self.samples)
        self.channel_blocks = -(-columns // (self.lanes // self.samples))
        missing = 3 - len(sizes.shape)
        shape, kept = (1,) * missing + sizes.shape, (None,) * missing + sizes.kept
        with torch.inference_mode(False):
            self.axes = [
                plan_axis(n, k, half=place == 2)
                for place, (n, k) in enumerate(zip(shape, kept, strict=True))
            ]
        records = [axis.record for axis in self.axes]
        self.modes = math.prod(record.modes for record in records)
        self.kept_shape = tuple(record.modes for record in records)[missing:]
        # whole fours, which products with tables write; odd: columns do not meet in a cache
        self.wave_row = -(-records[2].modes // 4) * 4 + 1

    def layer(self, *, together: int = 1, pack_whole: bool = True, nodes: int = 0) -> _Layer:
        """The sizes as the loops take them."""
        sizes = self.sizes
        return _Layer(
            *(axis.record for axis in self.axes),
            len(sizes.shape),
            sizes.outputs,
            sizes.batch,
            sizes.inputs,
            together,
            pack_whole,
            nodes,
            self.wave_row,
        )

    def new_out(self) -> Tensor:
        """Room for the result."""
        return _floats(self.sizes.batch, self.sizes.outputs, *self.sizes.shape)

    def new_f_bar(self) -> Tensor:
        """Room for the gradient of f̂."""
        shape = (self.sizes.batch, self.sizes.inputs, *self.kept_shape)
        return torch.empty(shape, dtype=torch.complex64)

    def call(self, name: str, tensors: tuple[Tensor, ...], layer: _Layer, *numbers: int) -> None:
        """A loop, for tensors and numbers."""
        pointers = (ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors)
        rest = (ctypes.c_long(number) for number in (self.samples, *numbers))
        self.loop(name)(*pointers, ctypes.byref(layer), *rest)

    def loop(self, name: str) -> Any:
        """A function of the library, for the lanes of these loops."""
        return getattr(self.library, name + self.suffix)

    def room(self, name: str, layer: _Layer, *, backward: bool) -> Tensor:
        """Memory for one task."""
        size = self.loop(name)(
            ctypes.byref(layer), ctypes.c_long(self.samples), ctypes.c_long(backward)
        )
        return torch.empty(size, dtype=torch.uint8)


class PairLoops(_Loops):
    """out_bj = Σ_i b_ji F⁻¹[c_ji f̂_bi] and its gradients, for one size.

    Shapes: c (O, I, *K) complex, b (*N, O, I), f̂ (B, I, *K) complex, out (B, O, *N), all dense.
    """

    def __init__(self, library: ctypes.CDLL, sizes: Sizes) -> None:
        super().__init__(library, sizes, sizes.inputs)
        width, (outer, inner, _) = self.lanes // self.samples, self.axes
        cell = 2 * self.lanes * torch.float32.itemsize
        tile = cell * (inner.record.points + 1) * self.wave_row
        if len(sizes.shape) == 3:
            tile += cell * outer.record.points * self.modes // outer.record.modes
        fits = max(1, CACHE // tile) if len(sizes.shape) > 1 else 1
        whole = math.prod(sizes.shape) * self.channel_blocks * width * torch.float32.itemsize
        pack_whole = len(sizes.shape) == 1 or (whole <= WHOLE and self.batch_blocks > 2)
        self.forward_layer, self.backward_layer = (
            self.layer(together=min(fits, tiles), pack_whole=pack_whole)
            for tiles in (self.channel_blocks, self.batch_blocks)
        )
        # as many ranges of outputs as make enough tasks for usual numbers of threads
        self.ranges = _even_ranges(sizes.outputs, -(-TASKS // self.channel_blocks))

    def _pack(self, f_hat: Tensor) -> Tensor:
        """f̂ in tiles."""
        tiles = _floats(self.batch_blocks * self.channel_blocks * self.modes * 2 * self.lanes)
        self.call("pairwise_pack", (f_hat, tiles), self.forward_layer, 0)
        return tiles

    def forward(self, c: Tensor, b: Tensor, f_hat: Tensor) -> Tensor:
        """The result."""
        layer, out, tiles = self.forward_layer, self.new_out(), self._pack(f_hat)

        def part(first: int, last: int) -> None:
            room = self.room("pairwise_room", layer, backward=False)
            self.call("pairwise_forward", (tiles, c, b, out, room), layer, first, last)

        run_tasks(part, [(j, j + 1) for j in range(self.sizes.outputs)])
        return out

    def backward(
        self, c: Tensor, b: Tensor, f_hat: Tensor, grad: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of c, b and f̂."""
        layer, tiles, packed = self.backward_layer, self._pack(f_hat), grad
        if self.samples > 1:
            packed = _floats(self.batch_blocks * self.samples * grad[0].numel())
            self.call("pairwise_pack_gradient", (grad, packed), layer)
        c_bar, b_bar, f_bar = torch.empty_like(c), torch.empty_like(b), self.new_f_bar()
        sums = torch.zeros(len(self.ranges), len(tiles), dtype=torch.float32)

        def part(block: int, index: int) -> None:
            room = self.room("pairwise_room", layer, backward=True)
            tensors = (tiles, c, b, packed, sums[index], c_bar, b_bar, room)
            self.call("pairwise_backward", tensors, layer, block, *self.ranges[index])

        blocks, parts = range(self.channel_blocks), range(len(self.ranges))
        run_tasks(part, [(block, index) for block in blocks for index in parts])
        self.call("pairwise_pack", (f_bar, sums.sum(dim=0)), layer, 1)
        return c_bar, b_bar, f_bar


class NodeLoops(_Loops):
    """The same with b_ji = Σ_m ℓ_m A_jim along the last axis.

    Shapes: c (O, I, *K) complex, A (*N[:-1], M, O, I), ℓ (M, N_d), f̂ (B, I, *K) complex,
    out (B, O, *N), all dense.
    """

    def __init__(self, library: ctypes.CDLL, sizes: Sizes, nodes: int) -> None:
        super().__init__(library, sizes, sizes.outputs)
        self.only_layer = self.layer(nodes=nodes)

    def _pack(self, f_hat: Tensor, basis: Tensor) -> tuple[Tensor, Tensor]:
        """f̂ and ℓ as the loops take them."""
        packed = _floats(self.batch_blocks * self.samples * f_hat[0].numel() * 2)
        self.call("nodes_pack", (f_hat, packed), self.only_layer)
        pairs = basis.reshape(-1, 2, basis.shape[1]).transpose(1, 2).contiguous()
        return packed, pairs

    def forward(self, c: Tensor, a: Tensor, basis: Tensor, f_hat: Tensor) -> Tensor:
        """The result."""
        layer, out = self.only_layer, self.new_out()
        packed, pairs = self._pack(f_hat, basis)

        def part(block: int, _: int) -> None:
            room = self.room("nodes_room", layer, backward=False)
            self.call("nodes_forward", (packed, c, a, pairs, out, room), layer, block)

        run_tasks(part, [(block, 0) for block in range(self.channel_blocks)])
        return out

    def backward(
        self, c: Tensor, a: Tensor, basis: Tensor, f_hat: Tensor, grad: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of c, A and f̂."""
        layer, (packed, pairs) = self.only_layer, self._pack(f_hat, basis)
        c_bar, a_bar, f_bar = torch.empty_like(c), torch.empty_like(a), self.new_f_bar()
        # f' is the sum over blocks in their order: the first ones are added up at once, each of
        # the others has a term of its own, so that the bits do not depend on the threads
        blocks = self.channel_blocks
        first = -(-blocks // torch.get_num_threads())
        size = self.loop("nodes_term")(ctypes.byref(layer), ctypes.c_long(self.samples))
        terms = torch.zeros(1 + blocks - first, size, dtype=torch.float32)

        def part(start: int, end: int) -> None:
            room = self.room("nodes_room", layer, backward=True)
            term = terms[0 if start == 0 else 1 + start - first]
            tensors = (packed, c, a, pairs, grad, term, c_bar, a_bar, room)
            for block in range(start, end):
                self.call("nodes_backward", tensors, layer, block)

        run_tasks(part, [(0, first), *((block, block + 1) for block in range(first, blocks))])
        self.call("nodes_unpack", (f_bar, terms), layer, len(terms))
        return c_bar, a_bar, f_bar


class FieldLoops(_Loops):
    """F⁻¹ of `batch` fields and its transpose, for one size.

    Shapes: coefficients (F, *K) complex, fields (F, *N), both dense.
    """

    def __init__(self, library: ctypes.CDLL, sizes: Sizes) -> None:
        super().__init__(library, sizes, 1)
        self.only_layer = self.layer()

    def synthesise(self, coefficients: Tensor, *, scaled: bool) -> Tensor:
        """F⁻¹ of the kept modes, or with `scaled` the transpose of F."""
        fields = _floats(self.sizes.batch, *self.sizes.shape)
        self._run("fields_synthesise", coefficients, fields, scaled=scaled)
        return fields

    def transpose(self, fields: Tensor, *, scaled: bool) -> Tensor:
        """The transpose of F⁻¹ in the real inner products, or with `scaled` F itself."""
        shape = (self.sizes.batch, *self.kept_shape)
        coefficients = torch.empty(shape, dtype=torch.complex64)
        self._run("fields_transpose", fields, coefficients, scaled=scaled)
        return coefficients

    def _run(self, name: str, source: Tensor, target: Tensor, *, scaled: bool) -> None:
        layer, tiles = self.only_layer, -(-self.sizes.batch // self.lanes)

        def part(first: int, last: int) -> None:
            size = self.loop("fields_room")(ctypes.byref(layer))
            room = torch.empty(size, dtype=torch.uint8)
            pointers = (ctypes.c_void_p(tensor.data_ptr()) for tensor in (source, target, room))
            rest = (ctypes.c_long(scaled), ctypes.c_long(first), ctypes.c_long(last))
            self.loop(name)(*pointers, ctypes.byref(layer), *rest)

        run_tasks(part, _even_ranges(tiles, TASKS))


def project(
    library: ctypes.CDLL, v: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor
) -> Tensor:
    """W₂ gelu(W₁ v + b₁) + b₂, (B, C, N) -> (B, O, N), all dense."""
    sizes = _Projection(v.shape[1], len(w1), len(w2), v.shape[2])
    out = v.new_empty(len(v), len(w2), v.shape[2])

    def part(sample: int, _: int) -> None:
        room = _floats((v.shape[1] + len(w2)) * POINTS * library.lanes())
        tensors = (v[sample], w1, b1, w2, b2, out[sample], room)
        library.project_forward(*_pointers(tensors), ctypes.byref(sizes))

    run_tasks(part, [(sample, 0) for sample in range(len(v))])
    return out


def project_backward(
    library: ctypes.CDLL, v: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, grad: Tensor
) -> tuple[Tensor, ...]:
    """The gradients of v, W₁, b₁, W₂ and b₂."""
    channels, outputs, lanes = v.shape[1], len(w2), library.lanes()
    sizes = _Projection(channels, len(w1), outputs, v.shape[2])
    v_bar, ranges = torch.empty_like(v), _even_ranges(len(v), TASKS)
    sums = v.new_zeros(len(ranges), len(w1) + 1, channels + 1 + outputs, lanes)

    def part(index: int, _: int) -> None:
        room = _floats((2 * channels + outputs) * POINTS * lanes)
        for sample in range(*ranges[index]):
            tensors = (v[sample], w1, b1, w2, grad[sample], v_bar[sample], sums[index], room)
            library.project_backward(*_pointers(tensors), ctypes.byref(sizes))

    run_tasks(part, [(index, 0) for index in range(len(ranges))])
    total = sums.sum(dim=(0, 3))  # (hidden + 1, channels + 1 + outputs)
    hidden = total[:-1]
    parts = (hidden[:, :channels], hidden[:, channels], hidden[:, channels + 1 :].T)
    return v_bar, *(part.contiguous() for part in parts), total[-1, :outputs].clone()


def _pointers(tensors: tuple[Tensor, ...]) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors]


def _even_ranges(count: int, most: int) -> list[tuple[int, int]]:
    """0 .. count in at most `most` ranges, the same whatever the number of threads."""
    parts = min(count, most)
    bounds = [count * part // parts for part in range(parts + 1)]
    return list(zip(bounds[:-1], bounds[1:], strict=True))


def contract(library: ctypes.CDLL, c: Tensor, f_hat: Tensor) -> Tensor:
    """Σ_i c_ji f̂_bi for every mode, (O, I, *K) and (B, I, *K) -> (B, O, *K), all dense."""
    out = f_hat.new_empty(len(f_hat), len(c), *c.shape[2:])
    _contract(library, "contract_forward", (c, f_hat, out), c, len(f_hat), len(c))
    return out


def contract_backward(
    library: ctypes.CDLL, c: Tensor, f_hat: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of c and f̂."""
    c_bar, f_bar = torch.empty_like(c), torch.empty_like(f_hat)
    _contract(library, "contract_symbol", (f_hat, grad, c_bar), c, len(f_hat), len(c))
    _contract(library, "contract_field", (c, grad, f_bar), c, len(f_hat), len(f_hat))
    return c_bar, f_bar


def _contract(
    library: ctypes.CDLL, name: str, tensors: tuple[Tensor, ...], c: Tensor, batch: int, rows: int
) -> None:
    """One of the sums, its rows shared out."""
    sizes = _Contraction(len(c), c.shape[1], batch, math.prod(c.shape[2:]))

    def part(first: int, last: int) -> None:
        room = torch.empty(library.contract_room(ctypes.byref(sizes)), dtype=torch.uint8)
        pointers = (ctypes.c_void_p(tensor.data_ptr()) for tensor in (*tensors, room))
        rest = (ctypes.c_long(first), ctypes.c_long(last))
        getattr(library, name)(*pointers, ctypes.byref(sizes), *rest)

    # each range copies the matrices of all modes once more
    run_tasks(part, _even_ranges(rows, torch.get_num_threads()))


def _floats(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.float32)


def lane_suffixes(library: ctypes.CDLL) -> tuple[str, ...]:
    """Of the names of its loops: all that the processor has, and 8 lanes where it has 16."""
    return ("", "_8") if hasattr(library, "lanes_8") else ("",)


def _best_lanes(library: ctypes.CDLL, batch: int, columns: int) -> tuple[str, int, int]:
    """The loops, their lanes and the samples in a tile that leave the fewest lanes empty.

    Where it is about the same, the many lanes and the many samples are taken.
    """
    best, most = ("", 0, 0), 0.0
    for suffix in lane_suffixes(library):
        lanes = int(getattr(library, "lanes" + suffix)())
        for samples in (lanes // 4, 1):
            width = lanes // samples
            places = -(-batch // samples) * samples * -(-columns // width) * width
            filled = batch * columns / places * (FEW_LANES if suffix else 1.0)
            if filled > most:
                best, most = (suffix, lanes, samples), filled
    return best


@dataclass(frozen=True)
class _AxisPlan:
    """An axis as the loops take it, and the tables that it points to."""

    record: _Axis
    tables: tuple[Tensor, ...]


@lru_cache(maxsize=64)
def plan_axis(points: int, kept: int | None, *, half: bool) -> _AxisPlan:
    """How an axis is transformed: fast where N has small factors, directly else or if cheaper."""
    xi = axis_modes(points, kept, half=half)
    modes, up = len(xi), int((xi >= 0).sum())
    record = _Axis(points=points, modes=modes, up=up)
    radices = _radices(points)
    if radices is not None and _fast_cost(radices, half=half) <= modes:
        tables = _fast_tables(points, tuple(radices))
        record.twiddles, record.order, record.place = (table.data_ptr() for table in tables)
        record.passes = len(radices)
        record.radix = (ctypes.c_long * MOST_PASSES)(*radices)
        most = max(up, modes - up if not half else up)
        if radices[0] == 8:
            record.few = 1 if 8 * most <= points else 2 if 4 * most <= points else 0
        return _AxisPlan(record, tables)
    waves = _direct_tables(points, modes, up, half=half)
    names = ("cosines", "sines", "cosines_back", "sines_back")
    for name, table in zip(names, waves, strict=True):
        setattr(record, name, table.data_ptr())
    return _AxisPlan(record, waves)


def row_cost(points: int, kept: int | None) -> float:
    """Operations per point and lane of a transform of a row, about."""
    modes, radices = len(axis_modes(points, kept, half=True)), _radices(points)
    return min(float(modes), math.inf if radices is None else _fast_cost(radices, half=True))


def _fast_cost(radices: list[int], *, half: bool) -> float:
    """The same of a fast transform; two real rows are one complex line."""
    return sum(FAST_COST[radix] for radix in radices) * (0.5 if half else 1.0)


def _radices(points: int) -> list[int] | None:
    """The passes of a fast transform: two or more of radix 2, 3, 4, 5, 7 or 8, or None."""
    rest, radices = points, list[int]()
    while rest % 8 == 0 and rest != 16:  # 16 is better 4 times 4 than 8 times 2
        radices.append(8)
        rest //= 8
    for radix in (4, 2, 7, 5, 3):
        while rest % radix == 0:
            radices.append(radix)
            rest //= radix
    return radices if rest == 1 and 1 < len(radices) <= MOST_PASSES else None


def _fast_tables(points: int, radices: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """Twiddles of each pass but the first, reversed digits, and the places of the frequencies."""
    twiddles, done, first = [], radices[0], radices[0]
    for radix in radices[1:]:
        turns = torch.outer(torch.arange(done), torch.arange(1, radix)).double()
        angle = turns * (2 * math.pi / (done * radix))
        twiddles.append(torch.stack([angle.cos(), angle.sin()], dim=-1).flatten())
        done *= radix
    span = points // first
    order, rest = torch.zeros(span, dtype=torch.int64), torch.arange(span)
    for radix in reversed(radices[1:]):
        span //= radix
        order += rest % radix * span
        rest = rest // radix
    k = torch.arange(points)
    place = first * order[k % len(order)] + k // len(order)
    return torch.cat(twiddles).to(torch.float32), order, place


def _direct_tables(points: int, modes: int, up: int, *, half: bool) -> tuple[Tensor, ...]:
    """Cosines and sines at 0 .. N/2, and their transposes, in blocks of four rows."""
    m = torch.arange(modes if half else max(up, modes - up + 1))
    turns = torch.outer(torch.arange(points // 2 + 1), m) % points
    angle = turns.double() * (2 * math.pi / points)
    weights = torch.ones(len(m), dtype=torch.float64)
    if half:  # the Hermitian rule
        weights = torch.where((m == 0) | (2 * m == points), 1.0, 2.0).double()
    cosines = torch.cos(angle) * weights
    # exact zeros where the angle is a multiple of π
    sines = torch.where(2 * turns % points == 0, 0.0, torch.sin(angle) * weights)
    return tuple(_by_fours(table) for table in (cosines, sines, cosines.T, sines.T))


def _by_fours(table: Tensor) -> Tensor:
    """(rows, columns) -> (rows/4, columns, 4) in float32, filled up with zeros."""
    padded = torch.nn.functional.pad(table, (0, 0, 0, -len(table) % 4))
    return padded.reshape(-1, 4, table.shape[1]).transpose(1, 2).to(torch.float32).contiguous()
