"""Transforms of an axis in compiled kernels: FFT or direct sum, tables, and cost."""

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from pdno.spectral.grid import axis_modes
from pdno.symbols.nodes import MOST, STEP

# of a pass per complex point, where a direct transform costs 1 per mode and point; measured
FAST_COST = {8: 7.0, 7: 9.0, 5: 7.5, 4: 5.0, 3: 5.0, 2: 3.0}
NODE_WORK = 1.2  # of the sum over inputs at a node, per mode and input; measured against a row's
PAIR_WORK = 6.0  # of b at a point, its network and the products with it, per pair; measured
MOST_DIRECT = 2**24  # numbers of a table of a direct transform, of which there are four


@dataclass(frozen=True)
class Axis:
    """N points, the kept modes and how many of them are >= 0.

    A fast transform has two passes or more, and for tables the twiddle factors, the reversed
    digits, where each frequency is left and the radices of the passes. A direct one has no passes,
    and cosines, sines and the transposes of both.
    """

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
