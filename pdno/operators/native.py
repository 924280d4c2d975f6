"""The operator in compiled kernels, for float32 on a CPU (see native/kernels.c).

    pairs      out_bj = Σ_i b_ji F⁻¹[c_ji f̂_bi], also with b_ji = Σ_m ℓ_m A_jim along the last axis
    contract   out_bj(ξ) = Σ_i c_ji(ξ) f̂_bi(ξ)
    transform  F⁻¹ of many fields, and its transpose
    project    W₂ gelu(W₁ v + b₁) + b₂

Each SIMD lane works on one pair of sample and output, on one field or on one mode. What is chosen
for a size of the problem (how an axis is transformed, how lanes are filled) depends on sizes
alone: not on the number of threads, so neither do the bits of the result. All tensors are dense.
"""

import contextlib
import ctypes
import math
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from pdno.native.build import load_library
from pdno.operators.axes import plan_axis

FEW_LANES = 0.87  # speed of 8 lanes over that of 16 where all are filled; measured
TASKS = 8  # into how many parts work is shared out, where each part repeats some of it
SIZE_FUNCTIONS = ("lanes", "workspace_size", "packed_size", "fields_size")


def native_library() -> ctypes.CDLL | None:
    """The compiled kernels, where there are some."""
    library = load_library()
    return None if library is None else _declared(library)


@lru_cache(maxsize=4)
def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    """The library, which knows what its functions return."""
    lanes = [name + suffix for name in SIZE_FUNCTIONS for suffix in lane_suffixes(library)]
    for name in ("axis_size", "layer_size", "contract_size", "project_size", *lanes):
        getattr(library, name).restype = ctypes.c_long
    return library


def lane_suffixes(library: ctypes.CDLL) -> tuple[str, ...]:
    """Of the names of its functions: all lanes of the processor, and 8 where it has 16."""
    return ("", "_8") if hasattr(library, "lanes_8") else ("",)


@lru_cache(maxsize=64)
def _function(name: str, arguments: int) -> Callable[..., int]:
    function = getattr(native_library(), name)
    function.argtypes = [ctypes.c_long] * arguments  # pointers, too
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

    def _call(self, name: str, *arguments: Tensor | int) -> int:
        return _call(name + self.suffix, *arguments)

    @property
    def _output_blocks(self) -> int:
        return -(-self.sizes.outputs // (self.lanes // self.samples))

    def _pack(self, f_hat: Tensor, basis: Tensor | None) -> tuple[Tensor, Tensor]:
        packed = _floats(self._call("packed_size", self.layer, 0))
        self._call("pack", f_hat, packed, self.layer)
        if basis is None:
            return packed, _floats(0)
        return packed, basis.reshape(-1, 2, basis.shape[1]).transpose(1, 2).contiguous()

    def forward(self, c: Tensor, b: Tensor, f_hat: Tensor, basis: Tensor | None = None) -> Tensor:
        """Out."""
        packed, pairs = self._pack(f_hat, basis)
        out = _floats(len(f_hat), len(c), *self.sizes.shape)
        size = self._call("workspace_size", self.layer, 0)
        blocks, samples = self._output_blocks, -(-len(f_hat) // self.samples)

        def part(block: int, first: int, last: int) -> None:
            tensors = (packed, c, b, pairs, out, _bytes(size), self.layer)
            self._call("forward", *tensors, block, first, last)

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
        numbers = self._call("packed_size", self.layer, 1)
        terms = torch.zeros(1 + blocks - first, numbers, dtype=torch.float32)
        size = self._call("workspace_size", self.layer, 1)

        def part(start: int, end: int) -> None:
            term, space = terms[0 if start == 0 else 1 + start - first], _bytes(size)
            tensors = (packed, c, b, pairs, grad, term, c_bar, b_bar, space, self.layer)
            for block in range(start, end):
                self._call("backward", *tensors, block)

        run_tasks(part, [(0, first), *((block, block + 1) for block in range(first, blocks))])
        self._call("unpack", f_bar, terms, self.layer, len(terms))
        return c_bar, b_bar, f_bar

    @cached_property
    def spectrum(self) -> tuple[int, ...]:
        """The sizes of coefficients."""
        return tuple(axis.modes for axis in self.axes[-len(self.sizes.shape) :])

    @cached_property
    def fields_size(self) -> int:
        """Bytes that the transform of fields works in."""
        return self._call("fields_size", self.layer)


@lru_cache(maxsize=256)
def find_kernels(sizes: Sizes) -> Kernels:
    """The kernels of a size."""
    return Kernels(sizes)


def transform(
    shape: tuple[int, ...],
    kept: tuple[int | None, ...],
    back: bool | int,
    source: Tensor,
    scaled: bool | None = None,
) -> Tensor:
    """F⁻¹ of fields (B, C, *K), or `back`, of (B, C, *N), F.

    Scaled otherwise they are the transposes of each other in the real inner products.
    """
    batch, channels = source.shape[:2]
    kernels = find_kernels(Sizes(shape, kept, batch * channels, 1, 1, fields=True))
    scaled = bool(back) if scaled is None else scaled
    sizes, dtype = (kernels.spectrum, torch.complex64) if back else (shape, torch.float32)
    name = ("transpose_fields" if back else "synthesise_fields") + kernels.suffix
    target, size = torch.empty(batch, channels, *sizes, dtype=dtype), kernels.fields_size

    def part(first: int, last: int) -> None:
        _call(name, source, target, _bytes(size), kernels.layer, scaled, first, last)

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

    library = native_library()
    assert library is not None
    counts = [(suffix, _call("lanes" + suffix)) for suffix in lane_suffixes(library)]
    choices = [
        (suffix, lanes, samples)
        for suffix, lanes in counts
        for samples in ((lanes,) if sizes.fields else (lanes // 4, 1))
    ]
    return max(choices, key=filled)
