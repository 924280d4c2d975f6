"""The compiled kernels and GPU kernels as custom operators of torch, with their gradients.

Shapes and precisions are checked before anything is read. Derivatives beyond the first go through
the reference. Hidden layers and x-factors on all rows are made again in the backward pass: for one
sample they would be most of what a step keeps.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial, wraps
from typing import Any, ParamSpec, TypeGuard, TypeVar

import torch
from torch import Tensor

from pdno.interface.errors import check_choice
from pdno.operators import native, reference, triton
from pdno.operators.native import Sizes, find_kernels
from pdno.spectral.fourier import spectrum_shape
from pdno.spectral.grid import Grid, kept_per_axis
from pdno.spectral.tracing import is_traced
from pdno.symbols.base import SymbolValues, interpolate_rows

ALL = -1  # of the kept modes of an axis: schemas of operators have no None in lists
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Ints = Sequence[int]
Tensors = Sequence[Tensor]


def _operator(
    fake: Callable[..., object],
    *,
    backward: Callable[..., Tensors] | None = None,
    in_reference: Callable[..., Tensor] | None = None,
    adjoint: Callable[..., Tensor] | None = None,
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """A function as a custom operator of torch; `fake` gives tensors like those of its result.

    Gradients are those of `backward`, or of `in_reference` where they are differentiated again; a
    linear operator of one tensor has an `adjoint`.
    """

    def save(ctx: Any, inputs: tuple[object, ...], output: object = None) -> None:
        tensors = [value for value in inputs if isinstance(value, Tensor)]
        ctx.rest = inputs[len(tensors) :]
        if adjoint is None:
            ctx.save_for_backward(*tensors)

    def gradients(ctx: Any, grad: Tensor) -> tuple[object, ...]:
        if adjoint is not None:
            return adjoint(grad, *ctx.rest), *(None for _ in ctx.rest)
        assert backward is not None and in_reference is not None
        tensors = ctx.saved_tensors
        needed = ctx.needs_input_grad[: len(tensors)]
        if torch.is_grad_enabled():
            out = in_reference(*tensors, *ctx.rest)
            wanted = [tensor for tensor, need in zip(tensors, needed, strict=True) if need]
            computed = iter(torch.autograd.grad(out, wanted, grad, create_graph=True))
            values = [next(computed) if need else None for need in needed]
        else:
            pairs = zip(backward(*tensors, grad, *ctx.rest), needed, strict=True)
            values = [value if need else None for value, need in pairs]
        # lists of tensors have no gradients, but a place each
        rest = [[None] * len(item) if _are_tensors(item) else None for item in ctx.rest]
        return *values, *rest

    def make(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        name = f"pdno::{function.__name__}"
        operator = torch.library.custom_op(name, function, mutates_args=())
        operator.register_fake(fake)
        if backward is not None or adjoint is not None:
            operator.register_autograd(gradients, setup_context=save)

        class Plain(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *inputs: Any) -> Any:
                save(ctx, inputs)
                run: Callable[..., Any] = function
                return run(*inputs)

            @staticmethod
            def backward(ctx: Any, *grads: Tensor) -> tuple[object, ...]:
                values = gradients(ctx, *grads)
                return tuple(None if isinstance(value, list) else value for value in values)

        @wraps(function)
        def call(*inputs: Arguments.args, **options: Arguments.kwargs) -> Result:
            # the way through torch's dispatcher to a function of Python takes 20 us: it is left
            # where nothing but the derivative asks for it
            if is_traced() or torch._C._len_torch_dispatch_stack():
                watched: Result = operator(*inputs, **options)
                return watched
            if not torch.is_grad_enabled():
                return function(*inputs, **options)
            result: Result = Plain.apply(*inputs)  # type: ignore[no-untyped-call]
            return result

        return call

    return make


def _are_tensors(item: object) -> TypeGuard[Tensors]:
    return isinstance(item, Sequence) and all(isinstance(part, Tensor) for part in item)


def _check(
    name: str, tensor: Tensor, dtype: torch.dtype, *shape: int, device: str = "cpu"
) -> None:
    kind = tensor.dtype, tuple(tensor.shape), tensor.device.type
    if kind != (dtype, shape, device) or tensor.layout != torch.strided:
        raise ValueError(
            f"{name} is {kind[0]} of shape {kind[1]} on {kind[2]}; the compiled operator needs "
            f"{dtype} of shape {shape} on {device}"
        )


@lru_cache(maxsize=256)
def _spectrum(
    shape: tuple[int, ...], kept: tuple[int, ...]
) -> tuple[tuple[int | None, ...], tuple[int, ...]]:
    """The kept modes of a grid, which are checked, and the sizes of its spectrum."""
    grid = Grid(shape)
    modes = kept_per_axis(grid.shape, tuple(None if k == ALL else k for k in kept))
    return modes, spectrum_shape(grid.shape, modes)


def _dense(field: Tensor) -> Tensor:
    return field.resolve_conj().resolve_neg().contiguous()


def _new_dense(field: Tensor) -> Tensor:
    return torch.empty_like(field, memory_format=torch.contiguous_format)


def _new_gradients(*inputs: Tensor | int) -> tuple[Tensor, ...]:
    """Like the operands of an operator, after which comes the gradient of its result."""
    *operands, _ = (item for item in inputs if isinstance(item, Tensor))
    return tuple(map(_new_dense, operands))


# ---- the operator with x-factors ----


def _sizes(c: Tensor, b: Tensor, f_hat: Tensor, tables: Tensors, shape: Ints, kept: Ints) -> Sizes:
    """The sizes of an operator, after a check of all shapes."""
    (modes, spectrum), places = _spectrum(tuple(shape), tuple(kept)), list(shape)
    outputs, inputs = (*c.shape[:2], 0, 0)[:2]
    check = partial(_check, device="cuda" if c.device.type == "cuda" else "cpu")
    check("c", c, torch.complex64, outputs, inputs, *spectrum)
    check("f_hat", f_hat, torch.complex64, *f_hat.shape[:1], inputs, *spectrum)
    if len(tables) > len(shape):
        raise ValueError(f"there are {len(tables)} tables for {len(shape)} axes")
    for axis, table in enumerate(tables[1:]):
        if table.numel():
            places[axis] = table.shape[-1]
            check(f"table {axis}", table, torch.float32, shape[axis], places[axis])
    nodes = 0
    if tables:
        places[-1] = nodes = tables[0].shape[0] if tables[0].dim() else 0
        check("basis", tables[0], torch.float32, nodes, shape[-1])
    check("b", b, torch.float32, outputs, inputs, *places)
    if nodes % 4:
        raise ValueError(f"there are {nodes} nodes; the compiled operator takes a multiple of 4")
    return Sizes(tuple(shape), modes, len(f_hat), inputs, outputs, nodes)


def channels_last(b: Tensor, rows: Tensors) -> Tensor:
    """(O, I, *P) -> (*N, O, I) on all rows, dense; no copy where a network wrote it so."""
    return interpolate_rows(b.movedim((0, 1), (-2, -1)).resolve_neg().contiguous(), rows)


def _new_pairwise_gradients(
    c: Tensor, b: Tensor, f_hat: Tensor, *_: object
) -> tuple[Tensor, Tensor, Tensor]:
    b_bar = b.new_empty(*b.shape[2:], *b.shape[:2]).movedim((-2, -1), (0, 1))
    return _new_dense(c), b_bar, _new_dense(f_hat)


@_operator(_new_pairwise_gradients)
def pairwise_backward(
    c: Tensor, b: Tensor, f_hat: Tensor, grad: Tensor, tables: Tensors, shape: Ints, kept: Ints
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of c, b and f̂."""
    sizes = _sizes(c, b, f_hat, tables, shape, kept)
    _check("grad", grad, torch.float32, len(f_hat), len(c), *shape, device=c.device.type)
    c, f_hat, grad = _dense(c), _dense(f_hat), _dense(grad)
    if c.device.type == "cuda":
        operands = (c, _dense(b), f_hat, grad)
        c_bar, b_bar, f_bar = triton.pairwise_backward(*operands, sizes.shape, sizes.kept)
        return c_bar, channels_last(b_bar, []).movedim((-2, -1), (0, 1)), f_bar
    operands = (c, channels_last(b, tables[1:]), f_hat, grad)
    c_bar, b_bar, f_bar = find_kernels(sizes).backward(*operands, *tables[:1])
    b_bar = interpolate_rows(b_bar, tables[1:], back=True)
    return c_bar, b_bar.movedim((-2, -1), (0, 1)), f_bar


def _pairwise_reference(
    c: Tensor, b: Tensor, f_hat: Tensor, tables: Tensors, shape: Ints, kept: Ints
) -> Tensor:
    space = SymbolValues(c, b, tables[0] if tables else None, tuple(tables[1:])).on_grid().space
    assert space is not None
    modes, _ = _spectrum(tuple(shape), tuple(kept))
    return reference.pairwise(c, space, f_hat, tuple(shape), modes)


@_operator(
    lambda c, b, f_hat, tables, shape, kept: b.new_empty(len(f_hat), len(c), *shape),
    backward=pairwise_backward,
    in_reference=_pairwise_reference,
)
def pairwise(
    c: Tensor, b: Tensor, f_hat: Tensor, tables: Tensors, shape: Ints, kept: Ints
) -> Tensor:
    """Σ_i b_ji F⁻¹[c_ji f̂_i], (O, I, *K), (O, I, *N), (B, I, *K) -> (B, O, *N).

    With tables, ℓ (M, N_d) and those of rows, b_ji = Σ_m A_jim ℓ_m is given as A (O, I, *P, M).
    """
    sizes = _sizes(c, b, f_hat, tables, shape, kept)
    c, f_hat = _dense(c), _dense(f_hat)
    if c.device.type == "cuda":
        return triton.pairwise_forward(c, _dense(b), f_hat, sizes.shape, sizes.kept)
    full = channels_last(b, tables[1:])
    return find_kernels(sizes).forward(c, full, f_hat, *tables[:1])


# ---- sums in frequency space ----


@_operator(_new_gradients)
def contract_backward(c: Tensor, f_hat: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of c and f̂."""
    _check("c", c, torch.complex64, *(*c.shape, 0, 0)[: max(2, c.dim())])
    _check("f_hat", f_hat, torch.complex64, *f_hat.shape[:1], *c.shape[1:])
    _check("grad", grad, torch.complex64, len(f_hat), len(c), *c.shape[2:])
    return native.contract_backward(_dense(c), _dense(f_hat), _dense(grad))


@_operator(
    lambda c, f_hat: f_hat.new_empty(len(f_hat), len(c), *c.shape[2:]),
    backward=contract_backward,
    in_reference=reference.contract,
)
def contract(c: Tensor, f_hat: Tensor) -> Tensor:
    """Σ_i c_ji(ξ) f̂_i(ξ) for every mode, (J, I, *K) and (B, I, *K) -> (B, J, *K)."""
    _check("c", c, torch.complex64, *(*c.shape, 0, 0)[: max(2, c.dim())])
    _check("f_hat", f_hat, torch.complex64, *f_hat.shape[:1], *c.shape[1:])
    return native.contract(_dense(c), _dense(f_hat))


# ---- the projection ----


def _check_projection(v: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> None:
    batch, channels, points = (*v.shape, 0, 0, 0)[:3]
    _check("v", v, torch.float32, batch, channels, points)
    hidden, outputs = (*w1.shape, 0)[0], (*w2.shape, 0)[0]
    _check("w1", w1, torch.float32, hidden, channels)
    _check("b1", b1, torch.float32, hidden)
    _check("w2", w2, torch.float32, outputs, hidden)
    _check("b2", b2, torch.float32, outputs)


@_operator(_new_gradients)
def project_backward(
    v: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of v, W₁, b₁, W₂ and b₂."""
    _check_projection(v, w1, b1, w2, b2)
    _check("grad", grad, torch.float32, len(v), len(w2), v.shape[2])
    return native.project_backward(*map(_dense, (v, w1, b1, w2, grad)))


@_operator(
    lambda v, w1, b1, w2, b2: v.new_empty(len(v), len(w2), v.shape[2]),
    backward=project_backward,
    in_reference=reference.project,
)
def project(v: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """W₂ gelu(W₁ v + b₁) + b₂, (B, C, N) -> (B, O, N)."""
    _check_projection(v, w1, b1, w2, b2)
    return native.project(*map(_dense, (v, w1, b1, w2, b2)))


# ---- transforms of fields ----


def _analyse(grad: Tensor, *rest: Any) -> Tensor:
    return analyse(grad, *rest)


@_operator(
    lambda f_hat, shape, *_: f_hat.real.new_empty(*f_hat.shape[:2], *shape), adjoint=_analyse
)
def synthesise(f_hat: Tensor, shape: Ints, kept: Ints, scaled: bool) -> Tensor:
    """F⁻¹, (B, C, *K) -> (B, C, *N); scaled, the transpose of F."""
    modes, spectrum = _spectrum(tuple(shape), tuple(kept))
    _check("f_hat", f_hat, torch.complex64, *(*f_hat.shape, 0, 0)[:2], *spectrum)
    return native.transform(tuple(shape), modes, False, _dense(f_hat), scaled)


def _new_spectra(q: Tensor, shape: Ints, kept: Ints, scaled: bool) -> Tensor:
    _, spectrum = _spectrum(tuple(shape), tuple(kept))
    return q.new_empty(*q.shape[:2], *spectrum, dtype=q.dtype.to_complex())


@_operator(_new_spectra, adjoint=synthesise)
def analyse(q: Tensor, shape: Ints, kept: Ints, scaled: bool) -> Tensor:
    """The transpose of F⁻¹, (B, C, *N) -> (B, C, *K); scaled, F."""
    modes, _ = _spectrum(tuple(shape), tuple(kept))
    _check("f", q, torch.float32, *(*q.shape, 0, 0)[:2], *shape)
    return native.transform(tuple(shape), modes, True, _dense(q), scaled)


# ---- fields between the points of a grid ----


def _check_spline(coefficients: Tensor, displacement: Tensor, degree: int) -> None:
    missing = (0,) * (2 - displacement.dim())
    batch, dim, *points = (*displacement.shape, *missing)
    nodes = coefficients.shape[2:]
    _check("coefficients", coefficients, torch.float32, batch, *coefficients.shape[1:])
    _check("displacement", displacement, torch.float32, batch, len(nodes), *points)
    multiples = all(0 < n <= m and m % n == 0 for m, n in zip(nodes, points, strict=True))
    if not 1 <= dim <= 3 or not multiples:
        problem = f"nodes {tuple(nodes)} and points {tuple(points)}"
        raise ValueError(f"{problem}; expected 1 to 3 axes, and nodes a multiple of points")
    check_choice("degree", degree, (0, 3, 5))


@_operator(_new_gradients)
def read_spline_backward(
    coefficients: Tensor, displacement: Tensor, grad: Tensor, degree: int
) -> tuple[Tensor, Tensor]:
    """The gradients of coefficients and displacement."""
    _check_spline(coefficients, displacement, degree)
    _check("grad", grad, torch.float32, *coefficients.shape[:2], *displacement.shape[2:])
    operands = _dense(coefficients), _dense(displacement), _dense(grad)
    return native.read_spline_backward(*operands, degree)


@_operator(
    lambda coefficients, displacement, degree: coefficients.new_empty(
        *coefficients.shape[:2], *displacement.shape[2:]
    ),
    backward=read_spline_backward,
    in_reference=reference.read_spline,
)
def read_spline(coefficients: Tensor, displacement: Tensor, degree: int) -> Tensor:
    """Splines at displaced points, (B, C, *M) and (B, d, *N) -> (B, C, *N)."""
    _check_spline(coefficients, displacement, degree)
    return native.read_spline(_dense(coefficients), _dense(displacement), degree)
