"""The operator of a separated symbol: what is summed where, and the operators of torch for it.

    K[f]_j(x) = Σ_r Σ_i b_rij(x) F⁻¹[ c_rij(ξ) F[f_i](ξ) ](x)

Where b does not depend on i, the sum over i is taken in frequency space (`contract`), and only the
R·O results are transformed back. Where it does, I·O inverse transforms are needed, multiplied by b
and added up at once (`pairwise`): no (B, O, I, *N) tensor exists, forward or backward. With b at
nodes of each row, the sum over i comes before the rows are transformed. The hidden layer of the
projection (`project`) is made again in the backward pass as well.

Each function of the compiled loops and GPU kernels is a custom operator of torch, so that
`torch.compile` sees one node with known shapes. Derivatives beyond the first, and what torch
transforms (see `pdno.spectral.tracing`), go through the reference.
"""

__all__ = ["Backend", "apply_projection", "apply_values", "choose_backend"]

import os
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from pdno.native.build import warn_if_slow
from pdno.operators.backends import native, reference, triton
from pdno.operators.backends.axes import can_plan
from pdno.operators.backends.native import Sizes, find_fields, find_loops, native_library
from pdno.spectral.fourier import Method, Modes, choose_method, inverse, transform
from pdno.spectral.grid import Grid, kept_per_axis
from pdno.spectral.tracing import is_traced, is_transformed
from pdno.symbols.base import SymbolValues, interpolate_rows

Backend = Literal["reference", "native", "triton"]
Function = TypeVar("Function", bound=Callable[..., Any])
Ints = Sequence[int]
Tensors = Sequence[Tensor]
LOW_RANK_BUDGET = 64 * 2**20
ALL = -1  # of the kept modes of an axis: schemas of operators have no None in lists


def choose_backend(dtype: torch.dtype, device: torch.device, work: int = 0) -> Backend:
    """What computes a layer; large `work` without the native code is warned of, once.

    "native" are the compiled loops, for float32 on a CPU, "triton" the GPU kernels, for float32 on
    CUDA; "reference" is plain torch: every device and precision, any number of derivatives.
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


class _Transform(NamedTuple):
    """F and F⁻¹ on the kept modes; other than "auto", the method is one of plain torch."""

    grid: Grid
    modes: Modes
    method: Method

    @property
    def kept(self) -> list[int]:
        return [ALL if k is None else k for k in kept_per_axis(self.grid.shape, self.modes)]

    def backend(self, dtype: torch.dtype, device: torch.device, work: int = 0) -> Backend:
        if self.method != "auto":
            return "reference"
        chosen = choose_backend(dtype, device, work)
        fits = chosen != "native" or can_plan(self.grid.shape, tuple(self.kept))
        return chosen if fits else "reference"

    def forward(self, f: Tensor) -> Tensor:
        if self.backend(f.dtype, f.device) != "native":
            return transform(f, self.grid.dim, self.modes, method=self.method)
        return analyse(f, self.grid.shape, self.kept, True)

    def inverse(self, f_hat: Tensor) -> Tensor:
        if self.backend(f_hat.real.dtype, f_hat.device) != "native":
            return inverse(f_hat, self.grid.shape, self.modes, method=self.method)
        return synthesise(f_hat, self.grid.shape, self.kept, False)


def apply_values(
    values: SymbolValues,
    f: Tensor,
    grid: Grid,
    modes: Modes = None,
    *,
    method: Method = "auto",
    which: Tensor | None = None,
) -> Tensor:
    """K[f] for the values of a symbol on this grid and these modes, (B, I, *N) -> (B, O, *N).

    The method "fft" or "matrix" is one of plain torch; "auto" takes the cheapest of all. Values at
    several times are those of the samples one by one, or `which` (B,) says whose they are.
    """
    fourier = _Transform(grid, modes, method)
    f_hat = fourier.forward(f)
    if values.frequency.dim() == 3 + grid.dim:
        return _apply(values, f_hat, fourier)
    # one time per sample: each has a symbol of its own, or one with all of the same time
    c, b = values.frequency, values.space
    if b is None or c.shape[3] == 1:
        c = c.sum(dim=1, keepdim=True) if b is None and c.shape[1] > 1 else c
        product = torch.einsum("broi...,bi...->bro...", c if which is None else c[which], f_hat)
        parts = fourier.inverse(product.flatten(1, 2)).reshape(*product.shape[:3], *grid.shape)
        if b is not None:
            parts = parts * (b if which is None else b[which])[:, :, :, 0]
        return parts.sum(dim=1)
    order = torch.arange(len(f_hat), device=f.device) if which is None else which.argsort()
    sizes = [1] * len(f_hat) if which is None else which.bincount().tolist()
    groups = zip(c, b, torch.split(f_hat[order], sizes), strict=True)
    tables = (values.basis, values.rows)
    outputs = [_apply(SymbolValues(*group[:2], *tables), group[2], fourier) for group in groups]
    return torch.cat(outputs)[order.argsort()]


def _apply(values: SymbolValues, f_hat: Tensor, fourier: _Transform) -> Tensor:
    c, b = values.frequency, values.space
    if b is None:
        total = c.squeeze(0) if len(c) == 1 else c.sum(dim=0)
        return fourier.inverse(_contract(total, f_hat))
    if b.shape[2] == 1:
        return _apply_low_rank(c, _on_grid(values), f_hat, fourier)
    # the gradient of c[0] would be copied into zeros of the size of c
    terms = [(c.squeeze(0), b.squeeze(0))] if len(c) == 1 else zip(c, b, strict=True)
    single = [SymbolValues(c_r, b_r, values.basis, values.rows) for c_r, b_r in terms]
    parts = [_apply_pairs(term, f_hat, fourier) for term in single]
    return parts[0] if len(parts) == 1 else torch.stack(parts).sum(dim=0)


def _apply_low_rank(c: Tensor, b: Tensor, f_hat: Tensor, fourier: _Transform) -> Tensor:
    """Σ_r b_rj F⁻¹[Σ_i c_rji f̂_i]; a large rank a few terms at a time, recomputed backward."""
    grid = fourier.grid

    def some(c: Tensor, b: Tensor, f_hat: Tensor) -> Tensor:
        parts = fourier.inverse(_contract(c.flatten(0, 1), f_hat))
        return (parts.reshape(len(f_hat), *c.shape[:2], *grid.shape) * b[:, :, 0]).sum(dim=1)

    step = max(1, LOW_RANK_BUDGET // (b.element_size() * len(f_hat) * c.shape[1] * grid.size))
    if step >= len(c) or is_traced():
        return some(c, b, f_hat)
    blocks = zip(torch.split(c, step), torch.split(b, step), strict=True)
    parts = (checkpoint(some, *block, f_hat, use_reentrant=False) for block in blocks)
    total: Tensor = reduce(torch.add, parts)
    return total


def _apply_pairs(term: SymbolValues, f_hat: Tensor, fourier: _Transform) -> Tensor:
    """Σ_i b_ji F⁻¹[c_ji f̂_i], with c (O, I, *K) and b (O or 1, I, ...) on the grid or at nodes."""
    grid, modes, method = fourier
    c, b = term.frequency, term.space
    assert b is not None
    b = b.expand(len(c), *b.shape[1:])
    backend = fourier.backend(b.dtype, b.device, len(f_hat) * len(b) * b.shape[1] * grid.size)
    if backend == "native":
        tables = [] if term.basis is None else [term.basis, *term.rows]
        return pairwise(c, b, f_hat, tables, grid.shape, fourier.kept)
    b = _on_grid(SymbolValues(c, b, term.basis, term.rows))
    # the GPU kernels sum over modes, which is for few of them
    if backend == "triton" and choose_method(grid.shape, modes) != "fft":
        return pairwise(c, b, f_hat, [], grid.shape, fourier.kept)
    return reference.pairwise(c, b, f_hat, grid.shape, modes, method)


def _on_grid(values: SymbolValues) -> Tensor:
    b = values.on_grid().space
    assert b is not None
    return b


def _contract(c: Tensor, f_hat: Tensor) -> Tensor:
    native_code = choose_backend(c.real.dtype, c.device) == "native"
    return contract(c, f_hat) if native_code else reference.contract(c, f_hat)


def apply_projection(v: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """W₂ gelu(W₁ v + b₁) + b₂, (B, C, N) -> (B, O, N); on a CPU without a hidden layer kept."""
    weights = (w1, b1, w2, b2)
    if choose_backend(v.dtype, v.device) == "native":
        return project(v, *weights)
    if is_traced() or v.device.type != "cpu":
        return reference.project(v, *weights)
    if not torch.is_grad_enabled():
        return torch.cat([reference.project(one[None], *weights) for one in v])
    parts = [checkpoint(reference.project, one[None], *weights, use_reentrant=False) for one in v]
    return torch.cat(parts)


# ---- operators of torch: each with its gradients as another one, and the shapes of both ----


def _operator(fake: Callable[..., Any]) -> Callable[[Function], Function]:
    """A function as a custom operator of torch; `fake` gives tensors like those of its result."""

    def make(function: Function) -> Function:
        name = f"pdno::{function.__name__}"
        made: Any = torch.library.custom_op(name, function, mutates_args=())
        made.register_fake(fake)
        operator: Function = made
        return operator

    return make


@_operator(lambda c, b, f_hat, tables, shape, kept: b.new_empty(len(f_hat), len(c), *shape))
def pairwise(
    c: Tensor, b: Tensor, f_hat: Tensor, tables: Tensors, shape: Ints, kept: Ints
) -> Tensor:
    """Σ_i b_ji F⁻¹[c_ji f̂_i], (O, I, *K), (O, I, *N), (B, I, *K) -> (B, O, *N).

    With tables, the basis ℓ (M, N_d) and those of the rows, it is b_ji = Σ_m A_jim ℓ_m, and
    A (O, I, *P, M) is given for b. A on all rows is made anew in the backward pass: for one sample
    it would be most of what a step keeps.
    """
    c, f_hat = _dense(c), _dense(f_hat)
    sizes = Sizes(tuple(shape), _modes(kept), len(f_hat), c.shape[1], len(c))
    if c.device.type == "cuda":
        return triton.pairwise_forward(c, _dense(b), f_hat, sizes.shape, sizes.kept)
    full = interpolate_rows(_channels_last(b), tables[1:])
    loops = find_loops(sizes, len(tables[0]) if tables else 0)
    return loops.forward(c, full, f_hat, *tables[:1])


@_operator(lambda c, b, f_hat, *_: (_new_dense(c), _new_channels_last(b), _new_dense(f_hat)))
def pairwise_backward(
    c: Tensor, b: Tensor, f_hat: Tensor, grad: Tensor, tables: Tensors, shape: Ints, kept: Ints
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of c, b and f̂."""
    c, f_hat, grad = _dense(c), _dense(f_hat), _dense(grad)
    sizes = Sizes(tuple(shape), _modes(kept), len(f_hat), c.shape[1], len(c))
    if c.device.type == "cuda":
        operands = (c, _dense(b), f_hat, grad)
        c_bar, b_bar, f_bar = triton.pairwise_backward(*operands, sizes.shape, sizes.kept)
        b_bar = _channels_last(b_bar)
    else:
        full = interpolate_rows(_channels_last(b), tables[1:])
        loops = find_loops(sizes, len(tables[0]) if tables else 0)
        c_bar, b_bar, f_bar = loops.backward(c, full, f_hat, grad, *tables[:1])
        b_bar = interpolate_rows(b_bar.view_as(full), tables[1:], back=True)
    return c_bar, b_bar.movedim((-2, -1), (0, 1)), f_bar


@_operator(lambda c, f_hat: f_hat.new_empty(len(f_hat), len(c), *c.shape[2:]))
def contract(c: Tensor, f_hat: Tensor) -> Tensor:
    """Σ_i c_ji(ξ) f̂_i(ξ) for every mode, (J, I, *K) and (B, I, *K) -> (B, J, *K)."""
    return native.contract(_dense(c), _dense(f_hat))


@_operator(lambda c, f_hat, grad: (_new_dense(c), _new_dense(f_hat)))
def contract_backward(c: Tensor, f_hat: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of c and f̂."""
    return native.contract_backward(_dense(c), _dense(f_hat), _dense(grad))


@_operator(lambda v, w1, b1, w2, b2: v.new_empty(len(v), len(w2), v.shape[2]))
def project(v: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """W₂ gelu(W₁ v + b₁) + b₂, (B, C, N) -> (B, O, N)."""
    return native.project(*(tensor.contiguous() for tensor in (v, w1, b1, w2, b2)))


@_operator(lambda *tensors: tuple(map(_new_dense, tensors[:-1])))
def project_backward(
    v: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of v, W₁, b₁, W₂ and b₂."""
    return native.project_backward(*(tensor.contiguous() for tensor in (v, w1, b1, w2, grad)))


@_operator(lambda f_hat, shape, *_: f_hat.real.new_empty(*f_hat.shape[:2], *shape))
def synthesise(f_hat: Tensor, shape: Ints, kept: Ints, scaled: bool) -> Tensor:
    """F⁻¹, (B, C, *K) -> (B, C, *N); scaled, the transpose of F."""
    loops = find_fields(tuple(shape), _modes(kept), f_hat.shape[0] * f_hat.shape[1])
    target = f_hat.new_empty(*f_hat.shape[:2], *shape, dtype=torch.float32)
    return loops.run("fields_synthesise", _dense(f_hat), target, scaled=scaled)


def _new_spectra(q: Tensor, shape: Ints, kept: Ints, scaled: bool) -> Tensor:
    sizes = Grid(tuple(shape)).modes(_modes(kept), device="meta").shape[:-1]
    return q.new_empty(*q.shape[:2], *sizes, dtype=q.dtype.to_complex())


@_operator(_new_spectra)
def analyse(q: Tensor, shape: Ints, kept: Ints, scaled: bool) -> Tensor:
    """The transpose of F⁻¹, (B, C, *N) -> (B, C, *K); scaled, F."""
    loops = find_fields(tuple(shape), _modes(kept), q.shape[0] * q.shape[1])
    target = q.new_empty(*q.shape[:2], *loops.kept_shape, dtype=torch.complex64)
    return loops.run("fields_transpose", _dense(q), target, scaled=scaled)


def _register_gradients(operator: Any, backward: Any, in_reference: Callable[..., Tensor]) -> None:
    """The gradients of a custom operator; where they are differentiated again, the reference's."""

    def save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        tensors = [value for value in inputs if isinstance(value, Tensor)]
        ctx.save_for_backward(*tensors)
        ctx.rest = inputs[len(tensors) :]

    def gradients(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        tensors = ctx.saved_tensors
        needed = ctx.needs_input_grad[: len(tensors)]
        if torch.is_grad_enabled():
            out = in_reference(*tensors, *ctx.rest)
            wanted = [tensor for tensor, need in zip(tensors, needed, strict=True) if need]
            some = iter(torch.autograd.grad(out, wanted, grad, create_graph=True))
            values = [next(some) if need else None for need in needed]
        else:
            found = zip(backward(*tensors, grad, *ctx.rest), needed, strict=True)
            values = [value if need else None for value, need in found]
        # tables, the first of the rest, have no gradients, but a place each
        return *values, *(([None] * len(ctx.rest[0]), None, None) if ctx.rest else ())

    operator.register_autograd(gradients, setup_context=save)


def _pairwise_reference(c: Tensor, b: Tensor, f_hat: Tensor, *rest: Any) -> Tensor:
    tables, shape, kept = rest
    b = _on_grid(SymbolValues(c, b, tables[0] if tables else None, tuple(tables[1:])))
    return reference.pairwise(c, b, f_hat, tuple(shape), _modes(kept))


_register_gradients(pairwise, pairwise_backward, _pairwise_reference)
_register_gradients(contract, contract_backward, reference.contract)
_register_gradients(project, project_backward, reference.project)


def _register_adjoint(operator: Any, adjoint: Any) -> None:
    """The gradient of a linear operator of one tensor, any number of times."""

    def save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.rest = inputs[1:]

    def gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return adjoint(grad, *ctx.rest), None, None, None

    operator.register_autograd(gradient, setup_context=save)


_register_adjoint(synthesise, analyse)
_register_adjoint(analyse, synthesise)


def _modes(kept: Ints) -> tuple[int | None, ...]:
    return tuple(None if k == ALL else k for k in kept)


def _dense(field: Tensor) -> Tensor:
    return field.resolve_conj().resolve_neg().contiguous()


def _channels_last(b: Tensor) -> Tensor:
    """(O, I, *N) -> (*N, O, I), dense; no copy where a network wrote it so."""
    return b.movedim((0, 1), (-2, -1)).resolve_neg().contiguous()


def _new_dense(field: Tensor) -> Tensor:
    return torch.empty_like(field, memory_format=torch.contiguous_format)


def _new_channels_last(b: Tensor) -> Tensor:
    return b.new_empty(*b.shape[2:], *b.shape[:2]).movedim((-2, -1), (0, 1))
