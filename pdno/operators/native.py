"""The operator in compiled kernels, for float32 on a CPU (see native/kernels.c), and their plan.

    pairs      out_bj = Σ_i b_ji F⁻¹[c_ji f̂_bi], also with b_ji = Σ_m ℓ_m A_jim along the last axis
    contract   out_bj(ξ) = Σ_i c_ji(ξ) f̂_bi(ξ)
    transform  F⁻¹ of many fields, and its transpose
    project    W₂ gelu(W₁ v + b₁) + b₂

Each SIMD lane works on one pair of sample and output, on one field or on one mode. How an axis is
transformed and lanes are filled depends on sizes alone, not on the number of threads, so neither
do the bits of the result. All tensors are dense.
"""

import contextlib
import ctypes
import math
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from pdno.native.build import load_library
from pdno.spectral.grid import axis_modes
from pdno.symbols.nodes import MOST, STEP

FEW_LANES = 0.87  # speed of 8 lanes over that of 16 where all are filled; measured
TASKS = 8  # into how many parts work is shared out, where each part repeats some of it
# of a pass per complex point, where a direct transform costs 1 per mode and point; measured
FAST_COST = {8: 7.0, 7: 9.0, 5: 7.5, 4: 5.0, 3: 5.0, 2: 3.0}
NODE_WORK = 1.2  # of the sum over inputs at a node, per mode and input; measured against a row's
PAIR_WORK = 6.0  # of b at a point, its network and the products with it, per pair; measured
MOST_DIRECT = 2**24  # numbers of a table of a direct transform, of which there are four


def lane_suffixes() -> tuple[str, ...]:
    """Of the names of functions: all lanes of the processor, and 8 where it has 16."""
    return ("", "_8") if hasattr(load_library(), "lanes_8") else ("",)


@lru_cache(maxsize=64)
def _function(name: str, arguments: int) -> Callable[..., int]:
    function = getattr(load_library(), name)
    function.argtypes = [ctypes.c_long] * arguments  # pointers, too
    function.restype = ctypes.c_long  # a size, or nothing of interest
    checked: Callable[..., int] = function
    return checked


def _call(name: str, *arguments: Tensor | int) -> int:
    """A function of the library, for tensors and numbers."""
    numbers = [x if isinstance(x, int) else x.data_ptr() for x in arguments]
    return _function(name, len(numbers))(*numbers)


def run_tasks(task: Callable[..., None], arguments: Iterable[tuple[int, ...]]) -> None:
    """Call `task` for all arguments, in as many threads as torch has."""
    tasks, futures = list(arguments), list[Future[None]]()
    if len(tasks) > 1 and (threads := torch.get_num_threads()) > 1:
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


def _floats(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.float32)


def _bytes(size: int) -> Tensor:
    return torch.empty(size, dtype=torch.uint8)


def _even_ranges(count: int, most: int) -> list[tuple[int, int]]:
    """0 .. count in at most `most` ranges."""
    parts = min(count, most)
    return list(pairwise(count * part // parts for part in range(parts + 1))) if parts else []


class Sizes(NamedTuple):
    """Everything that the plan of the kernels depends on."""

    shape: tuple[int, ...]
    kept: tuple[int | None, ...]
    batch: int
    inputs: int
    outputs: int
    nodes: int = 0  # at which x-factors are, 0 for all points
    fields: bool = False  # transforms of `batch` fields alone


class Kernels:
    """The operator and its gradients, or the transforms of fields, for one size.

    Shapes: c (O, I, *K) complex, b (*N, O, I) or A (*N[:-1], M, O, I), f̂ (B, I, *K) complex,
    ℓ (M, N_d), out (B, O, *N).
    """

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.suffix, self.lanes, self.samples = _best_lanes(sizes)
        missing = 3 - len(sizes.shape)
        shape, kept = (1,) * missing + sizes.shape, (None,) * missing + sizes.kept
        axes = zip(shape, kept, (False, False, True), strict=True)
        self.axes = [plan_axis(n, k, half=half) for n, k, half in axes]
        records = [_bytes(_call("axis_size")) for _ in self.axes]
        for record, axis in zip(records, self.axes, strict=True):
            sides = (axis.points, axis.modes, axis.up, axis.passes)
            _call("make_axis", record, *sides, *axis.tables)
        self.layer = _bytes(_call("layer_size"))
        numbers = (len(sizes.shape), sizes.outputs, sizes.batch, sizes.inputs, sizes.nodes)
        _call("make_layer", self.layer, *records, *numbers, self.samples)

    def call(self, name: str, *arguments: Tensor | int) -> int:
        """A function of the library, with the lanes of this size."""
        return _call(name + self.suffix, *arguments)

    @property
    def _output_blocks(self) -> int:
        return -(-self.sizes.outputs // (self.lanes // self.samples))

    def _pack(self, f_hat: Tensor, basis: Tensor | None) -> tuple[Tensor, Tensor]:
        packed = _floats(self.call("packed_size", self.layer, 0))
        self.call("pack", f_hat, packed, self.layer)
        pairs = _floats(0, 1) if basis is None else basis
        return packed, pairs.reshape(-1, 2, pairs.shape[1]).transpose(1, 2).contiguous()

    def forward(self, c: Tensor, b: Tensor, f_hat: Tensor, basis: Tensor | None = None) -> Tensor:
        """Out."""
        packed, pairs = self._pack(f_hat, basis)
        out = _floats(len(f_hat), len(c), *self.sizes.shape)
        size = self.call("workspace_size", self.layer, 0)
        blocks, samples = self._output_blocks, -(-len(f_hat) // self.samples)

        def part(block: int, first: int, last: int) -> None:
            tensors = (packed, c, b, pairs, out, _bytes(size), self.layer)
            self.call("forward", *tensors, block, first, last)

        # every sample is computed for itself: how many are together changes no bit
        batches = _even_ranges(samples, -(-torch.get_num_threads() // blocks))
        run_tasks(part, [(block, *batch) for block in range(blocks) for batch in batches])
        return out

    def backward(
        self, c: Tensor, b: Tensor, f_hat: Tensor, grad: Tensor, basis: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of c, b and f̂."""
        packed, pairs = self._pack(f_hat, basis)
        c_bar, b_bar, f_bar = map(torch.empty_like, (c, b, f_hat))
        # f' is the sum over blocks in their order: the first ones are added up at once, each of
        # the others has a term of its own, so that the bits do not depend on the threads
        blocks = self._output_blocks
        first = -(-blocks // torch.get_num_threads())
        numbers = self.call("packed_size", self.layer, 1)
        terms = torch.zeros(1 + blocks - first, numbers, dtype=torch.float32)
        size = self.call("workspace_size", self.layer, 1)

        def part(start: int, end: int) -> None:
            term, space = terms[0 if start == 0 else 1 + start - first], _bytes(size)
            tensors = (packed, c, b, pairs, grad, term, c_bar, b_bar, space, self.layer)
            for block in range(start, end):
                self.call("backward", *tensors, block)

        run_tasks(part, [(0, first), *((block, block + 1) for block in range(first, blocks))])
        self.call("unpack", f_bar, terms, self.layer, len(terms))
        return c_bar, b_bar, f_bar

    @cached_property
    def spectrum(self) -> tuple[int, ...]:
        """The sizes of coefficients."""
        return tuple(axis.modes for axis in self.axes[-len(self.sizes.shape) :])


@lru_cache(maxsize=256)
def find_kernels(sizes: Sizes) -> Kernels:
    """The kernels of a size."""
    return Kernels(sizes)


def transform(
    shape: tuple[int, ...],
    kept: tuple[int | None, ...],
    back: bool,
    source: Tensor,
    scaled: bool | None = None,
) -> Tensor:
    """F⁻¹, (B, C, *K) -> (B, C, *N), or `back`, F; scaled otherwise their transposes."""
    batch, channels = source.shape[:2]
    kernels = find_kernels(Sizes(shape, kept, batch * channels, 1, 1, fields=True))
    scaled = back if scaled is None else scaled
    sizes, dtype = (kernels.spectrum, torch.complex64) if back else (shape, torch.float32)
    target = torch.empty(batch, channels, *sizes, dtype=dtype)
    size = kernels.call("fields_size", kernels.layer)
    tensors = (target, source) if back else (source, target)

    def part(first: int, last: int) -> None:
        numbers = scaled, first, last, back
        kernels.call("transform_fields", *tensors, _bytes(size), kernels.layer, *numbers)

    run_tasks(part, _even_ranges(-(-batch * channels // kernels.lanes), TASKS))
    return target


def project(v: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """W₂ gelu(W₁ v + b₁) + b₂, (B, C, N) -> (B, O, N)."""
    sizes = (v.shape[1], len(w1), len(w2), v.shape[2])
    out = v.new_empty(len(v), len(w2), v.shape[2])
    space = _call("project_size", sizes[0], sizes[2])

    def part(sample: int) -> None:
        tensors = (v[sample], w1, b1, w2, b2, out[sample], _bytes(space))
        _call("project_forward", *tensors, *sizes)

    run_tasks(part, [(sample,) for sample in range(len(v))])
    return out


def project_backward(
    v: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of v, W₁, b₁, W₂ and b₂."""
    channels, hidden, outputs = v.shape[1], len(w1), len(w2)
    sizes = (channels, hidden, outputs, v.shape[2])
    v_bar, ranges = torch.empty_like(v), _even_ranges(len(v), TASKS)
    space, lanes = _call("project_size", sizes[0], sizes[2]), _call("lanes")
    sums = v.new_zeros(len(ranges), hidden + 1, channels + 1 + outputs, lanes)

    def part(index: int) -> None:
        buffer = _bytes(space)
        for sample in range(*ranges[index]):
            tensors = (v[sample], w1, b1, w2, grad[sample], v_bar[sample], sums[index], buffer)
            _call("project_backward", *tensors, *sizes)

    run_tasks(part, [(index,) for index in range(len(ranges))])
    total = sums.sum(dim=(0, 3))  # (hidden + 1, channels + 1 + outputs)
    w1_bar, b1_bar, w2_bar = torch.split(total[:-1], [channels, 1, outputs], dim=1)
    gradients = (w1_bar.contiguous(), b1_bar[:, 0].contiguous(), w2_bar.T.contiguous())
    return v_bar, *gradients, total[-1, :outputs].clone()


def contract(c: Tensor, f_hat: Tensor) -> Tensor:
    """Σ_i c_ji f̂_bi for every mode, (O, I, *K) and (B, I, *K) -> (B, O, *K)."""
    out = f_hat.new_empty(len(f_hat), len(c), *c.shape[2:])
    _multiply(out.transpose(0, 1), c, f_hat.transpose(0, 1), conjugate=False)
    return out


def contract_backward(c: Tensor, f_hat: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of c and f̂."""
    c_bar, f_bar = torch.empty_like(c), torch.empty_like(f_hat)
    _multiply(c_bar, grad.transpose(0, 1), f_hat, conjugate=True)
    _multiply(f_bar, grad, c, conjugate=True)
    return c_bar, f_bar


def read_spline(coefficients: Tensor, displacement: Tensor, degree: int) -> Tensor:
    """Splines at displaced points, (B, C, *M) and (B, d, *N) -> (B, C, *N)."""
    out = _floats(*coefficients.shape[:2], *displacement.shape[2:])
    sizes, points = _spline_sizes(coefficients, displacement, degree), math.prod(out.shape[2:])

    def part(sample: int, first: int, last: int) -> None:
        tensors = (sizes, coefficients[sample], displacement[sample], out[sample])
        _call("read_spline", *tensors, first, last)

    # every point is computed for itself: how they are shared out changes no bit
    ranges = _even_ranges(points, -(-torch.get_num_threads() // max(len(out), 1)))
    run_tasks(part, [(sample, *span) for sample in range(len(out)) for span in ranges])
    return out


def read_spline_backward(
    coefficients: Tensor, displacement: Tensor, grad: Tensor, degree: int
) -> tuple[Tensor, Tensor]:
    """The gradients of coefficients and displacement."""
    c_bar, d_bar = torch.zeros_like(coefficients), torch.empty_like(displacement)
    sizes = _spline_sizes(coefficients, displacement, degree)

    def part(sample: int) -> None:
        tensors = (coefficients, displacement, grad, c_bar, d_bar)
        _call("read_spline_backward", sizes, *(tensor[sample] for tensor in tensors))

    run_tasks(part, [(sample,) for sample in range(len(grad))])
    return c_bar, d_bar


def _spline_sizes(coefficients: Tensor, displacement: Tensor, degree: int) -> Tensor:
    missing = [1] * (5 - coefficients.dim())
    points, nodes = displacement.shape[2:], coefficients.shape[2:]
    return torch.tensor([coefficients.shape[1], degree, *missing, *points, *missing, *nodes])


def _multiply(out: Tensor, a: Tensor, b: Tensor, *, conjugate: bool) -> None:
    """The matrix products out = a b, or a conj(b), of every mode, (rows, columns, *K)."""
    (inner, columns), modes = b.shape[:2], math.prod(b.shape[2:])
    operands = list[Tensor | int]()
    for matrix in (out, a, b):
        operands += [matrix, *matrix.stride()[:2]]
    space = _call("contract_size", inner, columns)

    def part(first: int, last: int) -> None:
        _call("contract", *operands, _bytes(space), inner, columns, modes, conjugate, first, last)

    # each task copies the matrices of all modes
    run_tasks(part, _even_ranges(len(out), torch.get_num_threads()))


def _best_lanes(sizes: Sizes) -> tuple[str, int, int]:
    """The kernels, their lanes and the samples of a vector that leave the fewest lanes empty."""

    def filled(choice: tuple[str, int, int]) -> float:
        suffix, lanes, samples = choice
        pairs = (max(sizes.batch, 1), samples), (sizes.outputs, lanes // samples)
        share = math.prod(count / (-(-count // width) * width) for count, width in pairs)
        return share * (FEW_LANES if suffix else 1.0)

    counts = [(suffix, _call("lanes" + suffix)) for suffix in lane_suffixes()]
    choices = [
        (suffix, lanes, samples)
        for suffix, lanes in counts
        for samples in ((lanes,) if sizes.fields else (lanes // 4, 1))
    ]
    return max(choices, key=filled)


# ---- axes ----


@dataclass(frozen=True)
class Axis:
    """N points, the kept modes and how many of them are >= 0; tables as `make_axis` takes them."""

    points: int
    modes: int
    up: int
    passes: int
    tables: tuple[Tensor, ...]


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # a table made during inference serves training too
def plan_axis(points: int, kept: int | None, *, half: bool) -> Axis:
    """How an axis is transformed: fast where N has small factors, directly else or if cheaper."""
    xi = axis_modes(points, kept, half=half)
    modes, up = len(xi), int((xi >= 0).sum())
    radices = _radices(points)
    if radices is None or _fast_cost(radices, half=half) > modes:
        return Axis(points, modes, up, 0, _direct_tables(points, modes, up, half=half))
    return Axis(points, modes, up, len(radices), _fast_tables(points, radices))


@lru_cache(maxsize=256)
def can_plan(shape: tuple[int, ...], kept: tuple[int | None, ...]) -> bool:
    """Whether tables fit into memory: N has small factors, or they are few modes of few points."""
    axes = [(n, n if k is None else min(n, 2 * k)) for n, k in zip(shape, kept, strict=True)]
    return all(n * modes <= 4 * MOST_DIRECT or _radices(n) is not None for n, modes in axes)


def _fast_cost(radices: tuple[int, ...], *, half: bool) -> float:
    """Operations per point and lane of a fast transform; two real rows are one complex line."""
    return sum(FAST_COST[radix] for radix in radices) * (0.5 if half else 1.0)


def _radices(points: int) -> tuple[int, ...] | None:
    """The passes of a fast transform: two or more of radix 2, 3, 4, 5, 7 or 8, or None."""
    rest, radices = points, list[int]()
    while rest % 8 == 0 and rest != 16:  # 16 is better 4 times 4 than 8 times 2
        radices.append(8)
        rest //= 8
    for radix in (4, 2, 7, 5, 3):
        while rest % radix == 0:
            radices.append(radix)
            rest //= radix
    return tuple(radices) if rest == 1 and len(radices) > 1 else None


def _fast_tables(points: int, radices: tuple[int, ...]) -> tuple[Tensor, ...]:
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
    position = first * order[k % len(order)] + k // len(order)
    return torch.cat(twiddles).to(torch.float32), order, position, torch.tensor(radices)


def _direct_tables(points: int, modes: int, up: int, *, half: bool) -> tuple[Tensor, ...]:
    """Cosines and sines at 0 .. N/2, and their transposes, in blocks of four rows."""
    m = torch.arange(modes if half else max(up, modes - up + 1))
    turns = torch.outer(torch.arange(points // 2 + 1), m) % points
    angle = turns.double() * (2 * math.pi / points)
    # the Hermitian rule
    weights = torch.where((m == 0) | (2 * m == points) | (not half), 1.0, 2.0).double()
    cosines = torch.cos(angle) * weights
    # exact zeros where the angle is a multiple of π
    sines = torch.where(2 * turns % points == 0, 0.0, torch.sin(angle) * weights)
    return tuple(_by_fours(table) for table in (cosines, sines, cosines.T, sines.T))


def _by_fours(table: Tensor) -> Tensor:
    """(rows, columns) -> (rows/4, columns, 4) in float32, filled up with zeros."""
    padded = torch.nn.functional.pad(table, (0, 0, 0, -len(table) % 4))
    return padded.reshape(-1, 4, table.shape[1]).transpose(1, 2).to(torch.float32).contiguous()


@lru_cache(maxsize=256)
def most_nodes(shape: tuple[int, ...], kept: tuple[int | None, ...], inputs: int) -> int:
    """Up to how many nodes of a row are less work than all pairs; 0 if none are."""
    # per row and output, pairs cost a transform and a product with b for each input; nodes cost a
    # transform for each node, and the sum over inputs at all modes before it
    points, last = shape[-1], kept[-1]
    modes, radices = points // 2 + 1 if last is None else last, _radices(points)
    fast = math.inf if radices is None else _fast_cost(radices, half=True)
    row = points * min(len(axis_modes(points, last, half=True)), fast)
    pairs = inputs * (row + PAIR_WORK * points)
    count = math.floor(pairs / (row + NODE_WORK * modes * inputs))
    return min(count, MOST - STEP, points - 1) // STEP * STEP
