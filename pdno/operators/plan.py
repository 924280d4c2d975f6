"""How a layer is computed: the one place that chooses.

    reference   plain torch: every device and precision, any number of derivatives (the oracle)
    native      compiled loops: float32 on a CPU
    triton      GPU kernels: float32 on CUDA

A choice depends on sizes, precision and device; it is made once for each of them and kept. Where
torch traces or transforms functions, the reference is taken (see `pdno.tracing`).
"""

__all__ = ["Backend", "choose_backend", "most_nodes", "native_library"]

import ctypes
import math
import os
from functools import lru_cache
from typing import Literal

import torch

from pdno.native.build import load_library, warn_if_slow
from pdno.operators.backends import triton
from pdno.operators.backends.native import (
    FieldLoops,
    NodeLoops,
    PairLoops,
    Sizes,
    lane_suffixes,
    row_cost,
)
from pdno.symbols.nodes import MOST, STEP
from pdno.tracing import is_transformed

Backend = Literal["reference", "native", "triton"]
NODE_WORK = 1.2
"""Of the sum over inputs at a node, per mode and input; measured against that of a row."""

PAIR_WORK = 6.0
"""Of b at a point, its network and the products with it, per pair; measured in the same way."""


def choose_backend(dtype: torch.dtype, device: torch.device, work: int = 0) -> Backend:
    """What computes a layer.

    Arguments:
        dtype: Of the fields.
        device: Where they are.
        work: Numbers that the reference would make; without the native code a large job is
            warned of, once.
    """
    if is_transformed() or dtype != torch.float32:
        return "reference"
    fastest: Backend = _fastest(device.type, work)
    return fastest


# torch.compile need not look inside
@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _fastest(device: str, work: int) -> Backend:
    if device == "cpu":
        if native_library() is not None:
            return "native"
        warn_if_slow(work)
    if device == "cuda" and triton.available() and os.environ.get("PDNO_TRITON", "1") != "0":
        return "triton"
    return "reference"


def native_library() -> ctypes.CDLL | None:
    """The compiled loops, where there are some."""
    library = load_library()
    if library is not None:
        library.contract_room.restype = ctypes.c_long
        for lanes in lane_suffixes(library):
            for name in ("lanes", "nodes_term", "pairwise_room", "nodes_room", "fields_room"):
                getattr(library, name + lanes).restype = ctypes.c_long
    return library


@lru_cache(maxsize=256)
def find_pairs(sizes: Sizes) -> PairLoops:
    """The loops of a size."""
    library = native_library()
    assert library is not None
    return PairLoops(library, sizes)


@lru_cache(maxsize=256)
def find_fields(shape: tuple[int, ...], kept: tuple[int | None, ...], count: int) -> FieldLoops:
    """The transforms of `count` fields."""
    library = native_library()
    assert library is not None
    return FieldLoops(library, Sizes(shape, kept, count, 1, 1))


@lru_cache(maxsize=256)
def find_nodes(sizes: Sizes, nodes: int) -> NodeLoops:
    """The same for x-factors at nodes."""
    library = native_library()
    assert library is not None
    return NodeLoops(library, sizes, nodes)


@lru_cache(maxsize=256)
def most_nodes(shape: tuple[int, ...], kept: tuple[int | None, ...], inputs: int) -> int:
    """Up to how many nodes of a row are less work than all pairs; 0 if none are.

    Per row of the grid and output, pairs cost a transform and a product with b for each input;
    nodes cost a transform for each node, and the sum over inputs at all modes before it.
    """
    points, last = shape[-1], kept[-1]
    modes = points // 2 + 1 if last is None else last
    row = points * row_cost(points, last)
    pairs = inputs * (row + PAIR_WORK * points)
    count = math.floor(pairs / (row + NODE_WORK * modes * inputs))
    return min(count, MOST - STEP, points - 1) // STEP * STEP
