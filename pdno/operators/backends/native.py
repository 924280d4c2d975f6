"""The operator in compiled loops, for float32 on a CPU (see native/pairwise.c).

    pairs   out_bj = Σ_i b_ji F⁻¹[c_ji f̂_bi]
    nodes   the same with b_ji = Σ_m ℓ_m A_jim along the last axis (see `pdno.symbols.nodes`)
    modes   out_bj(ξ) = Σ_i c_ji(ξ) f̂_bi(ξ)
    fields  F⁻¹ of many fields, and its transpose
    points  W₂ gelu(W₁ v + b₁) + b₂, the projection

Each lane of the processor's vectors works on one pair of sample and channel, or on one mode. What
is chosen for a size of the problem (how an axis is transformed, how lanes are filled, what fits
the cache, how work is shared out) is chosen once and depends on sizes alone: not on the number of
threads, so neither do the bits of the result. All tensors are dense.
"""

__all__ = ["Sizes", "contract", "find_fields", "find_loops", "native_library", "project"]

import contextlib
import ctypes
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise, product
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pdno.native.build import load_library
from pdno.operators.backends.axes import Axis, plan_axis

CACHE = 640 * 2**10  # bytes of the second cache that transformed tiles may fill
PACKED_AT_ONCE = 512 * 2**10  # bytes of b for one output up to which they are packed at once
FEW_LANES = 0.87  # speed of 8 lanes over that of 16 where all are filled; measured
POINTS = 4  # vectors of points of the projection at once, as in native/projection.h
TASKS = 8  # into how many parts the backward pass can be shared out, at least
Tensors = tuple[Tensor, ...]
_Four = ctypes.c_long * 4  # a structure of four sizes: (O, I, B, modes) or (C, hidden, O, points)


def native_library() -> ctypes.CDLL | None:
    """The compiled loops, where there are some."""
    library = load_library()
    return None if library is None else _declared(library)


@lru_cache(maxsize=4)
def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    """The library, which knows what its functions return."""
    library.contract_room.restype = ctypes.c_long
    for lanes in lane_suffixes(library):
        for name in ("lanes", "nodes_term", "pairwise_room", "nodes_room", "fields_room"):
            getattr(library, name + lanes).restype = ctypes.c_long
    return library


def lane_suffixes(library: ctypes.CDLL) -> tuple[str, ...]:
    """Of the names of its loops: all that the processor has, and 8 lanes where it has 16."""
    return ("", "_8") if hasattr(library, "lanes_8") else ("",)


class _Layer(ctypes.Structure):
    _fields_ = [
        *((name, Axis) for name in ("outer", "inner", "row")),
        *((name, ctypes.c_long) for name in ("dim", "outputs", "batch", "inputs")),
        *((name, ctypes.c_long) for name in ("together", "pack_whole", "nodes", "wave_row")),
    ]


def _call(loop: Any, tensors: Tensors, sizes: Any, *numbers: int) -> Any:
    """A loop of the library, for tensors, sizes and numbers."""
    pointers = (ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors)
    return loop(*pointers, ctypes.byref(sizes), *map(ctypes.c_long, numbers))


def run_tasks(task: Callable[..., None], arguments: Sequence[tuple[int, ...]]) -> None:
    """Call `task` for all arguments, each with places of its own, in as many threads as torch."""
    tasks, futures = list(arguments), list[Future[None]]()
    threads = torch.get_num_threads()
    if threads > 1 and len(tasks) > 1:
        # where the interpreter is about to end no more tasks are taken: the rest is done here
        with contextlib.suppress(RuntimeError):
            while tasks:
                futures.append(_pool(threads).submit(task, *tasks[0]))
                del tasks[0]
    for numbers in tasks:
        task(*numbers)
    for future in futures:
        future.result()


@lru_cache(maxsize=1)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="pdno")


# a forked child has none of its parent's threads: its pool is made anew
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


def _share_out(loop: Any, tensors: Tensors, sizes: Any, tasks: Sequence[Any], room: int) -> None:
    """Call a loop for each task, the numbers after the sizes, with `room` bytes to work in."""

    def part(*numbers: int) -> None:
        _call(loop, (*tensors, _bytes(room)), sizes, *numbers)

    run_tasks(part, tasks)


def _floats(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.float32)


def _bytes(size: int) -> Tensor:
    return torch.empty(size, dtype=torch.uint8)


def _even_ranges(count: int, most: int) -> list[tuple[int, int]]:
    """0 .. count in at most `most` ranges, the same whatever the number of threads."""
    parts = min(count, most)
    return list(pairwise(count * part // parts for part in range(parts + 1)))


class Sizes(NamedTuple):
    """Everything that the plan of the loops depends on."""

    shape: tuple[int, ...]
    kept: tuple[int | None, ...]
    batch: int
    inputs: int
    outputs: int


class _Loops:
    """What all kinds of loops know of one size."""

    def __init__(self, sizes: Sizes, columns: int, nodes: int = 0) -> None:
        self.library: Any = native_library()
        self.sizes = sizes
        self.suffix, self.lanes, self.samples = _best_lanes(self.library, sizes.batch, columns)
        self.batch_blocks = -(-sizes.batch // self.samples)
        self.channel_blocks = -(-columns // (self.lanes // self.samples))
        missing = 3 - len(sizes.shape)
        shape, kept = (1,) * missing + sizes.shape, (None,) * missing + sizes.kept
        axes = zip(shape, kept, (False, False, True), strict=True)
        with torch.inference_mode(False):
            self.axes = [plan_axis(n, k, half=half) for n, k, half in axes]
        self.modes = math.prod(axis.modes for axis in self.axes)
        self.kept_shape = tuple(axis.modes for axis in self.axes)[missing:]
        # whole fours, which products with tables write; odd: columns do not meet in a cache
        self.wave_row = -(-self.axes[2].modes // 4) * 4 + 1
        self.layer = self.make_layer(nodes=nodes)

    def make_layer(self, *, together: int = 1, pack_whole: bool = True, nodes: int = 0) -> _Layer:
        """The sizes as the loops take them."""
        sizes = self.sizes
        channels = (len(sizes.shape), sizes.outputs, sizes.batch, sizes.inputs)
        return _Layer(*self.axes, *channels, together, pack_whole, nodes, self.wave_row)

    def loop(self, name: str) -> Any:
        return getattr(self.library, name + self.suffix)

    def call(self, name: str, tensors: Tensors, layer: _Layer, *numbers: int) -> Any:
        """A loop of tiles of samples, or a size that it asks for."""
        return _call(self.loop(name), tensors, layer, self.samples, *numbers)


class PairLoops(_Loops):
    """out_bj = Σ_i b_ji F⁻¹[c_ji f̂_bi] and its gradients, for one size.

    Shapes: c (O, I, *K) complex, b (*N, O, I), f̂ (B, I, *K) complex, out (B, O, *N).
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes, sizes.inputs)
        width, (outer, inner, _) = self.lanes // self.samples, self.axes
        cell = 2 * self.lanes * torch.float32.itemsize
        tile = cell * (inner.points + 1) * self.wave_row
        if len(sizes.shape) == 3:
            tile += cell * outer.points * self.modes // outer.modes
        fits = max(1, CACHE // tile) if len(sizes.shape) > 1 else 1
        packed = math.prod(sizes.shape) * self.channel_blocks * width * torch.float32.itemsize
        at_once = len(sizes.shape) == 1 or (packed <= PACKED_AT_ONCE and self.batch_blocks > 2)
        self.forward_layer, self.backward_layer = (
            self.make_layer(together=min(fits, tiles), pack_whole=at_once)
            for tiles in (self.channel_blocks, self.batch_blocks)
        )
        # as many ranges of outputs as make enough tasks for usual numbers of threads
        self.ranges = _even_ranges(sizes.outputs, -(-TASKS // self.channel_blocks))

    def _pack(self, f_hat: Tensor) -> Tensor:
        tiles = _floats(self.batch_blocks * self.channel_blocks * self.modes * 2 * self.lanes)
        self.call("pairwise_pack", (f_hat, tiles), self.forward_layer, 0)
        return tiles

    def forward(self, c: Tensor, b: Tensor, f_hat: Tensor, basis: Tensor | None = None) -> Tensor:
        layer, tiles = self.forward_layer, self._pack(f_hat)
        out = _floats(len(f_hat), len(c), *self.sizes.shape)
        tasks = [(self.samples, j, j + 1) for j in range(len(c))]
        room = self.call("pairwise_room", (), layer, False)
        _share_out(self.loop("pairwise_forward"), (tiles, c, b, out), layer, tasks, room)
        return out

    def backward(
        self, c: Tensor, b: Tensor, f_hat: Tensor, grad: Tensor, basis: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        layer, tiles, packed = self.backward_layer, self._pack(f_hat), grad
        if self.samples > 1:
            packed = _floats(self.batch_blocks * self.samples * grad[0].numel())
            self.call("pairwise_pack_gradient", (grad, packed), layer)
        c_bar, b_bar, f_bar = map(torch.empty_like, (c, b, f_hat))
        sums = torch.zeros(len(self.ranges), len(tiles), dtype=torch.float32)

        def part(block: int, index: int) -> None:
            buffer = _bytes(self.call("pairwise_room", (), layer, True))
            tensors = (tiles, c, b, packed, sums[index], c_bar, b_bar, buffer)
            self.call("pairwise_backward", tensors, layer, block, *self.ranges[index])

        run_tasks(part, list(product(range(self.channel_blocks), range(len(self.ranges)))))
        self.call("pairwise_pack", (f_bar, sums.sum(dim=0)), layer, 1)
        return c_bar, b_bar, f_bar


class NodeLoops(_Loops):
    """The same with b_ji = Σ_m ℓ_m A_jim, A (*N[:-1], M, O, I) for b, ℓ (M, N_d)."""

    def _pack(self, f_hat: Tensor, basis: Tensor) -> tuple[Tensor, Tensor]:
        packed = _floats(self.batch_blocks * self.samples * f_hat[0].numel() * 2)
        self.call("nodes_pack", (f_hat, packed), self.layer)
        return packed, basis.reshape(-1, 2, basis.shape[1]).transpose(1, 2).contiguous()

    def forward(self, c: Tensor, a: Tensor, f_hat: Tensor, basis: Tensor) -> Tensor:
        layer, (packed, pairs) = self.layer, self._pack(f_hat, basis)
        out = _floats(len(f_hat), len(c), *self.sizes.shape)
        tasks = [(self.samples, block) for block in range(self.channel_blocks)]
        room = self.call("nodes_room", (), layer, False)
        _share_out(self.loop("nodes_forward"), (packed, c, a, pairs, out), layer, tasks, room)
        return out

    def backward(
        self, c: Tensor, a: Tensor, f_hat: Tensor, grad: Tensor, basis: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        layer, (packed, pairs) = self.layer, self._pack(f_hat, basis)
        c_bar, a_bar, f_bar = map(torch.empty_like, (c, a, f_hat))
        # f' is the sum over blocks in their order: the first ones are added up at once, each of
        # the others has a term of its own, so that the bits do not depend on the threads
        blocks = self.channel_blocks
        first = -(-blocks // torch.get_num_threads())
        size = self.call("nodes_term", (), layer)
        terms = torch.zeros(1 + blocks - first, size, dtype=torch.float32)

        def part(start: int, end: int) -> None:
            buffer = _bytes(self.call("nodes_room", (), layer, True))
            term = terms[0 if start == 0 else 1 + start - first]
            tensors = (packed, c, a, pairs, grad, term, c_bar, a_bar, buffer)
            for block in range(start, end):
                self.call("nodes_backward", tensors, layer, block)

        run_tasks(part, [(0, first), *((block, block + 1) for block in range(first, blocks))])
        self.call("nodes_unpack", (f_bar, terms), layer, len(terms))
        return c_bar, a_bar, f_bar


class FieldLoops(_Loops):
    """F⁻¹ of `batch` fields and its transpose, for one size."""

    def run(self, name: str, source: Tensor, target: Tensor, *, scaled: bool) -> Tensor:
        """Fill the target, fields (F, *N) from coefficients (F, *K) or the other way round.

        "fields_synthesise" is F⁻¹ or, scaled, the transpose of F; "fields_transpose" is the
        transpose of F⁻¹ in the real inner products or, scaled, F.
        """
        layer, tiles = self.layer, -(-self.sizes.batch // self.lanes)
        tasks, room = _even_ranges(tiles, TASKS), _call(self.loop("fields_room"), (), layer)
        numbers = [(scaled, *ends) for ends in tasks]
        _share_out(self.loop(name), (source, target), layer, numbers, room)
        return target


@lru_cache(maxsize=256)
def find_loops(sizes: Sizes, nodes: int = 0) -> PairLoops | NodeLoops:
    """The loops of a size, for x-factors on the grid or at nodes of its rows."""
    return NodeLoops(sizes, sizes.outputs, nodes) if nodes else PairLoops(sizes)


@lru_cache(maxsize=256)
def find_fields(shape: tuple[int, ...], kept: tuple[int | None, ...], count: int) -> FieldLoops:
    """The transforms of `count` fields."""
    return FieldLoops(Sizes(shape, kept, count, 1, 1), columns=1)


def project(v: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """W₂ gelu(W₁ v + b₁) + b₂, (B, C, N) -> (B, O, N)."""
    library: Any = native_library()
    sizes = _Four(v.shape[1], len(w1), len(w2), v.shape[2])
    out = v.new_empty(len(v), len(w2), v.shape[2])

    def part(sample: int) -> None:
        buffer = _floats((v.shape[1] + len(w2)) * POINTS * library.lanes())
        _call(library.project_forward, (v[sample], w1, b1, w2, b2, out[sample], buffer), sizes)

    run_tasks(part, [(sample,) for sample in range(len(v))])
    return out


def project_backward(
    v: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of v, W₁, b₁, W₂ and b₂."""
    library: Any = native_library()
    channels, outputs, lanes = v.shape[1], len(w2), library.lanes()
    sizes = _Four(channels, len(w1), outputs, v.shape[2])
    v_bar, ranges = torch.empty_like(v), _even_ranges(len(v), TASKS)
    sums = v.new_zeros(len(ranges), len(w1) + 1, channels + 1 + outputs, lanes)

    def part(index: int) -> None:
        buffer = _floats((2 * channels + outputs) * POINTS * lanes)
        for sample in range(*ranges[index]):
            tensors = (v[sample], w1, b1, w2, grad[sample], v_bar[sample], sums[index], buffer)
            _call(library.project_backward, tensors, sizes)

    run_tasks(part, [(index,) for index in range(len(ranges))])
    total = sums.sum(dim=(0, 3))  # (hidden + 1, channels + 1 + outputs)
    w1_bar, b1_bar, w2_bar = torch.split(total[:-1], [channels, 1, outputs], dim=1)
    hidden = (w1_bar.contiguous(), b1_bar[:, 0].contiguous(), w2_bar.T.contiguous())
    return v_bar, *hidden, total[-1, :outputs].clone()


def contract(c: Tensor, f_hat: Tensor) -> Tensor:
    """Σ_i c_ji f̂_bi for every mode, (O, I, *K) and (B, I, *K) -> (B, O, *K)."""
    out = f_hat.new_empty(len(f_hat), len(c), *c.shape[2:])
    _contract("contract_forward", c, f_hat, (c, f_hat, out), len(c))
    return out


def contract_backward(c: Tensor, f_hat: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of c and f̂."""
    c_bar, f_bar = torch.empty_like(c), torch.empty_like(f_hat)
    _contract("contract_symbol", c, f_hat, (f_hat, grad, c_bar), len(c))
    _contract("contract_field", c, f_hat, (c, grad, f_bar), len(f_hat))
    return c_bar, f_bar


def _contract(name: str, c: Tensor, f_hat: Tensor, tensors: Tensors, rows: int) -> None:
    """One of the sums, its rows shared out."""
    library: Any = native_library()
    sizes = _Four(len(c), c.shape[1], len(f_hat), math.prod(c.shape[2:]))
    tasks = _even_ranges(rows, torch.get_num_threads())  # each copies the matrices of all modes
    room = _call(library.contract_room, (), sizes)
    _share_out(getattr(library, name), tensors, sizes, tasks, room)


def _best_lanes(library: Any, batch: int, columns: int) -> tuple[str, int, int]:
    """The loops, their lanes and the samples in a tile that leave the fewest lanes empty."""
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
