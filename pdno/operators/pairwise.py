"""Σ_i b_ji(x) F⁻¹[c_ji f̂_i](x) without a (B, O, I, *N) tensor, forward and backward.

With g_bji = F⁻¹[c_ji f̂_bi], made again in the backward pass, and the gradient ḡ_bj of the result,

    b̄_ji(x) = Σ_b ḡ_bj(x) g_bji(x),        p_bji = (F⁻¹)ᵀ[ b_ji ḡ_bj ],
    c̄_ji(ξ) = Σ_b conj f̂_bi(ξ) p_bji(ξ),   f̂̄_bi(ξ) = Σ_j conj c_ji(ξ) p_bji(ξ).

The triples (j, b, i) are worked off in blocks that fit a memory budget: about the cache on a CPU,
much more on a GPU, where kernels must be large to be fast. Inside, the axes j, b, i stand behind
the rows of the grid where matrix products transform (see `pdno.fourier_matrix`), and before the
grid where the FFT does: that is where each of them is fastest. For float32 on a CPU and planes
whose sides are powers of two, `pdno.native.lanes` does all of it in compiled loops.
"""

__all__ = ["apply_pairwise", "plan_blocks"]

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pdno.fourier import Method, Modes, choose_method, inverse, inverse_transposed
from pdno.fourier_matrix import (
    rows_first,
    rows_last,
    split_signs,
    synthesise_full_axes,
    synthesise_full_axes_transposed,
    synthesise_joined,
    synthesise_joined_transposed,
)
from pdno.grid import kept_per_axis
from pdno.native.lanes import apply_lanes, find_lanes
from pdno.native.pairs import PairLoops, find_loops
from pdno.scratch import Scratch

CPU_BUDGET = 8 * 2**20
GPU_BUDGET = 512 * 2**20

Block = tuple[slice, slice, slice]
ALL = slice(None)


def apply_pairwise(
    c: Tensor, b: Tensor, f_hat: Tensor, shape: tuple[int, ...], modes: Modes, method: Method
) -> Tensor:
    """Σ_i b_ji F⁻¹[c_ji f̂_i], (O, I, *K), (O or 1, I, *N), (B, I, *K) -> (B, O, *N)."""
    b = b.expand(c.shape[0], *b.shape[1:])
    if method == "auto" and b.device.type == "cpu" and b.dtype == torch.float32:
        lanes = find_lanes(shape, kept_per_axis(shape, modes), len(f_hat), c.shape[1])
        if lanes is not None:
            return apply_lanes(c, b, f_hat, lanes)
    way = _choose_way(b, tuple(shape), modes, method)
    # (s, .., j, 1, i, ..), (.., j, 1, i, ..), (s, .., 1, b, i, ..)
    c_terms = way.terms(c.unsqueeze(1), turn=True)
    f_terms = way.terms(f_hat.unsqueeze(0), turn=False)
    out = _Pairwise.apply(c_terms, way.inner(b.unsqueeze(1)), f_terms, way)  # type: ignore[no-untyped-call]
    return way.outer(out).transpose(0, 1)


def _choose_way(b: Tensor, shape: tuple[int, ...], modes: Modes, method: Method) -> "_Way":
    """Compiled loops where they apply, else matrix products or the FFT, whichever is cheaper."""
    by_matrix = choose_method(shape, modes, method) == "matrix"
    compiled = by_matrix and b.device.type == "cpu" and b.dtype == torch.float32
    if compiled and len(shape) >= 2:
        last = kept_per_axis(shape, modes)[-1]
        loops = find_loops(shape[-1], shape[-1] // 2 + 1 if last is None else last)
        return _Way(shape, modes, by_matrix, loops)
    return _Way(shape, modes, by_matrix)


def plan_blocks(
    outputs: int, batch: int, inputs: int, *, item_bytes: int, budget: int
) -> tuple[int, int, int]:
    """How many (j, b, i) make a block: inputs first, then samples, then outputs."""
    fit = max(1, budget // item_bytes)
    i = _even(inputs, fit)
    b = _even(batch, fit // i)
    j = _even(outputs, fit // (i * b)) if b == batch else 1
    return j, b, i


def _even(count: int, most: int) -> int:
    """The size of equal blocks of `count` things, at most `most` of them in each."""
    return math.ceil(count / math.ceil(count / max(1, most)))


@dataclass(frozen=True)
class _Way:
    """How to transform, and where the axes j, b, i stand meanwhile."""

    shape: tuple[int, ...]
    modes: Modes
    by_matrix: bool
    loops: PairLoops | None = None

    @property
    def rows(self) -> int:
        """Number of axes before j."""
        return len(self.shape) - 1 if self.by_matrix else 0

    def inner(self, field: Tensor) -> Tensor:
        return rows_first(field, len(self.shape)).contiguous() if self.by_matrix else field

    def outer(self, field: Tensor) -> Tensor:
        return rows_last(field, len(self.shape)) if self.by_matrix else field

    def terms(self, coefficients: Tensor, *, turn: bool) -> Tensor:
        """Coefficients as terms s whose products over s add up to what `synthesise` takes."""
        if not self.by_matrix:
            return coefficients.unsqueeze(0)
        kept = kept_per_axis(self.shape, self.modes)
        return split_signs(self.inner(coefficients), self.shape, kept, turn=turn)

    def lines(self, field: Tensor) -> Tensor:
        """(.., 1, b, i, last) -> (rows, b, i, last), as the compiled loops take it."""
        return field.flatten(0, self.rows - 1).squeeze(1) if self.rows else field

    def field(self, field: Tensor, *block: slice) -> Tensor:
        """A block of (.., j, b, i, ..)."""
        return field[(ALL,) * self.rows + block]

    def coefficients(self, coefficients: Tensor, *block: slice) -> Tensor:
        """A block of (s, .., j, b, i, ..)."""
        return coefficients[(ALL,) * (self.rows + 1) + block]

    def synthesise(self, joined: Tensor, memory: Scratch) -> Tensor:
        if self.by_matrix:
            return synthesise_joined(joined, self.shape, memory)
        return inverse(joined, self.shape, self.modes)

    def transposed(self, field: Tensor, memory: Scratch) -> Tensor:
        if self.by_matrix:
            kept = kept_per_axis(self.shape, self.modes)
            return synthesise_joined_transposed(field, self.shape, kept, memory)
        return inverse_transposed(field, len(self.shape), self.modes)


class _Pairwise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, c: Tensor, b: Tensor, f_hat: Tensor, way: _Way) -> Tensor:
        ctx.save_for_backward(c, b, f_hat)
        ctx.way = way
        memory = Scratch(c.device)
        rows, outputs, batch = b.shape[: way.rows], b.shape[way.rows], f_hat.shape[way.rows + 2]
        out = b.new_empty(*rows, outputs, batch, *b.shape[way.rows + 3 :])
        for j, n, i in _blocks(b, batch, way):
            c_part, f_part = way.coefficients(c, j, ALL, i), way.coefficients(f_hat, ALL, n, i)
            joined, b_part = _joined(c_part, f_part, memory), way.field(b, j, ALL, i)
            if way.loops is not None:
                h = way.lines(synthesise_full_axes(joined, way.shape, memory))
                way.loops.forward(h, way.lines(b_part).squeeze(1), way.lines(way.field(out, j, n)))
                continue
            g = way.synthesise(joined, memory).mul_(b_part)
            _sum_into(way.field(out, j, n), g, way.rows + 2, memory, first=i.start == 0)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        c, b, f_hat = ctx.saved_tensors
        way: _Way = ctx.way
        need_c, need_b, need_f, _ = ctx.needs_input_grad
        axis_j, axis_b, memory = way.rows, way.rows + 1, Scratch(c.device)
        grad = grad.contiguous().unsqueeze(way.rows + 2)
        c_conj, f_conj = c.conj().resolve_conj(), f_hat.conj().resolve_conj()
        c_bar, b_bar, f_bar = torch.empty_like(c), torch.zeros_like(b), torch.empty_like(f_hat)
        for j, n, i in _blocks(b, f_hat.shape[way.rows + 2], way):
            b_part, g_bar = way.field(b, j, ALL, i), way.field(grad, j, n)
            if way.loops is not None:
                c_part, f_part = way.coefficients(c, j, ALL, i), way.coefficients(f_hat, ALL, n, i)
                joined = _joined(c_part, f_part, memory)
                h = synthesise_full_axes(joined, way.shape, memory)
                h_bar = memory.take("h_bar", tuple(h.shape), h.dtype)
                way.loops.backward(
                    way.lines(h),
                    way.lines(b_part).squeeze(1),
                    way.lines(g_bar).squeeze(2),
                    way.lines(way.field(b_bar, j, ALL, i)).squeeze(1),
                    way.lines(h_bar),
                )
            elif need_b:
                c_part, f_part = way.coefficients(c, j, ALL, i), way.coefficients(f_hat, ALL, n, i)
                g = way.synthesise(_joined(c_part, f_part, memory), memory).mul_(g_bar)
                target = way.field(b_bar, j, ALL, i)
                _sum_into(target, g, axis_b, memory, keep=True, first=n.start == 0)
            if need_c or need_f:
                if way.loops is not None:
                    kept = kept_per_axis(way.shape, way.modes)
                    p = synthesise_full_axes_transposed(h_bar, way.shape, kept, memory)
                else:
                    p = way.transposed(_multiply(g_bar, b_part, memory, "field"), memory)
                for other, total, axis, first in (
                    (
                        way.coefficients(f_conj, ALL, n, i),
                        way.coefficients(c_bar, j, ALL, i),
                        axis_b + 1,
                        n.start == 0,
                    ),
                    (
                        way.coefficients(c_conj, j, ALL, i),
                        way.coefficients(f_bar, ALL, n, i),
                        axis_j + 1,
                        j.start == 0,
                    ),
                ):
                    products = _multiply(p, other, memory, "products")
                    _sum_into(total, products, axis, memory, keep=True, first=first)
        return c_bar, b_bar, f_bar, None


def _joined(c: Tensor, f_hat: Tensor, memory: Scratch) -> Tensor:
    """Σ_s c_s f_s over the first axis."""
    total = _multiply(c[0], f_hat[0], memory, "joined")
    for term in range(1, len(c)):
        total.addcmul_(c[term], f_hat[term])
    return total


def _multiply(a: Tensor, b: Tensor, memory: Scratch, name: str) -> Tensor:
    """a · b in memory that is used again."""
    shape = torch.broadcast_shapes(a.shape, b.shape)  # type: ignore[no-untyped-call]
    return torch.mul(a, b, out=memory.take(name, shape, a.dtype))


def _sum_into(
    total: Tensor, parts: Tensor, axis: int, memory: Scratch, *, keep: bool = False, first: bool
) -> None:
    """total = or += Σ parts along an axis."""
    if parts.shape[axis] == 1:
        part = parts if keep else parts.squeeze(axis)
    else:
        room = memory.take("sum", tuple(total.shape), parts.dtype)
        part = torch.sum(parts, dim=axis, keepdim=keep, out=room)
    if first:
        total.copy_(part)
    else:
        total.add_(part)


def _blocks(b: Tensor, batch: int, way: _Way) -> Iterator[Block]:
    outputs, _, inputs = b.shape[way.rows : way.rows + 3]
    budget = CPU_BUDGET if b.device.type == "cpu" else GPU_BUDGET
    item_bytes = math.prod(way.shape) * b.element_size()
    steps = plan_blocks(outputs, batch, inputs, item_bytes=item_bytes, budget=budget)
    if way.loops is not None:  # they need no room for g
        steps = (1, batch, inputs)
    for j in range(0, outputs, steps[0]):
        for n in range(0, batch, steps[1]):
            for i in range(0, inputs, steps[2]):
                yield (
                    slice(j, min(j + steps[0], outputs)),
                    slice(n, min(n + steps[1], batch)),
                    slice(i, min(i + steps[2], inputs)),
                )
