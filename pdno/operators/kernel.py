"""The operator of a separated symbol: what is summed where, and the operators of torch for it.

    K[f]_j(x) = Σ_r Σ_i b_rij(x) F⁻¹[ c_rij(ξ) F[f_i](ξ) ](x)

1. Where b does not depend on i, the sum over i is taken for each mode in frequency space
   (`contract`), and only the R·O results are transformed back.
2. Where it does, I·O inverse transforms are needed, multiplied by b and added up at once
   (`pairwise`): no (B, O, I, *N) tensor exists, forward or backward. Where b is given at nodes of
   each row (`at_nodes`), the sum over i comes before the rows are transformed.

Each of the three is a custom operator of torch, so that `torch.compile` sees one node with known
shapes. `operators.plan` says which backend computes it; derivatives beyond the first, and what
torch transforms, go through the reference.
"""

__all__ = ["apply_values"]

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from pdno.fourier import Method, Modes, choose_method, inverse, transform
from pdno.grid import Grid, kept_per_axis
from pdno.operators.backends import native, reference, triton
from pdno.operators.backends.native import Sizes
from pdno.operators.plan import choose_backend, find_fields, find_nodes, find_pairs, native_library
from pdno.symbols.base import SymbolValues, interpolate_rows
from pdno.tracing import is_traced

LOW_RANK_BUDGET = 64 * 2**20
ALL = -1
"""Of the kept modes of an axis: schemas of operators have no None in lists."""


def apply_values(
    values: SymbolValues, f: Tensor, grid: Grid, modes: Modes = None, *, method: Method = "auto"
) -> Tensor:
    """K[f] for the values of a symbol, (B, I, *N) -> (B, O, *N).

    Arguments:
        values: Of the symbol on this grid and these modes.
        f: Real fields.
        grid: Their grid.
        modes: Kept modes.
        method: How to transform: "fft", "matrix", or "auto" for the cheaper one; other than "auto"
            it is plain torch.
    """
    f_hat = _to_modes(f, grid, modes, method)
    if values.frequency.dim() == 3 + grid.dim:
        return _apply(values, f_hat, grid, modes, method)
    # one time per sample: each has a symbol of its own
    parts = [
        _apply(_of_sample(values, sample), f_hat[sample : sample + 1], grid, modes, method)
        for sample in range(len(f))
    ]
    return torch.cat(parts)


def _of_sample(values: SymbolValues, sample: int) -> SymbolValues:
    space = None if values.space is None else values.space[sample]
    return SymbolValues(values.frequency[sample], space, values.basis, values.rows)


def _apply(
    values: SymbolValues, f_hat: Tensor, grid: Grid, modes: Modes, method: Method
) -> Tensor:
    c, b = values.frequency, values.space
    if b is None:
        total = c.squeeze(0) if len(c) == 1 else c.sum(dim=0)
        return _from_modes(_contract(total, f_hat), grid, modes, method)
    if b.shape[2] == 1:
        return _apply_low_rank(c, values.on_grid().space, f_hat, grid, modes, method)
    # the gradient of c[0] would be copied into zeros of the size of c
    terms = [(c.squeeze(0), b.squeeze(0))] if len(c) == 1 else zip(c, b, strict=True)
    parts = [
        _apply_pairs(SymbolValues(c_r, b_r, values.basis, values.rows), f_hat, grid, modes, method)
        for c_r, b_r in terms
    ]
    return parts[0] if len(parts) == 1 else torch.stack(parts).sum(dim=0)


def _apply_low_rank(
    c: Tensor, b: Tensor | None, f_hat: Tensor, grid: Grid, modes: Modes, method: Method
) -> Tensor:
    """Σ_r b_rj F⁻¹[Σ_i c_rji f̂_i]; a large rank a few terms at a time, recomputed backward."""
    assert b is not None

    def some(c: Tensor, b: Tensor, f_hat: Tensor) -> Tensor:
        mixed = _contract(c.flatten(0, 1), f_hat)
        parts = _from_modes(mixed, grid, modes, method)
        return (parts.reshape(len(f_hat), *c.shape[:2], *grid.shape) * b[:, :, 0]).sum(dim=1)

    item_bytes = b.element_size() * len(f_hat) * c.shape[1] * grid.size
    step = max(1, LOW_RANK_BUDGET // item_bytes)
    if step >= len(c) or is_traced():
        return some(c, b, f_hat)
    total: Tensor | None = None
    for r in range(0, len(c), step):
        terms = slice(r, r + step)
        part = checkpoint(some, c[terms], b[terms], f_hat, use_reentrant=False)
        total = part if total is None else total + part
    assert total is not None
    return total


def _apply_pairs(
    term: SymbolValues, f_hat: Tensor, grid: Grid, modes: Modes, method: Method
) -> Tensor:
    """Σ_i b_ji F⁻¹[c_ji f̂_i], with c (O, I, *K) and b (O or 1, I, ...) on the grid or at nodes."""
    c, b = term.frequency, term.space
    assert b is not None
    b = b.expand(len(c), *b.shape[1:])
    work = len(f_hat) * b.shape[0] * b.shape[1] * grid.size
    backend = choose_backend(b.dtype, b.device, work) if method == "auto" else "reference"
    if backend == "triton" and choose_method(grid.shape, modes) == "fft":
        backend = "reference"  # the kernels sum over modes, which is for few of them
    kept = [ALL if k is None else k for k in kept_per_axis(grid.shape, modes)]
    if term.basis is not None and backend == "native":
        out: Tensor = at_nodes(c, b, f_hat, [term.basis, *term.rows], grid.shape, kept)
        return out
    full = SymbolValues(c, b, term.basis, term.rows).on_grid().space
    assert full is not None
    if backend == "reference":
        return reference.pairwise(c, full, f_hat, grid.shape, modes, method)
    out = pairwise(c, full, f_hat, grid.shape, kept)
    return out


def _to_modes(f: Tensor, grid: Grid, modes: Modes, method: Method) -> Tensor:
    """F[f] on the kept modes."""
    if method != "auto" or choose_backend(f.dtype, f.device) != "native":
        return transform(f, grid.dim, modes, method=method)
    kept = kept_per_axis(grid.shape, modes)
    f_hat: Tensor = analyse(f, grid.shape, [ALL if k is None else k for k in kept], True)
    return f_hat


def _from_modes(f_hat: Tensor, grid: Grid, modes: Modes, method: Method) -> Tensor:
    """F⁻¹[f̂] on the grid."""
    if method != "auto" or choose_backend(f_hat.real.dtype, f_hat.device) != "native":
        return inverse(f_hat, grid.shape, modes, method=method)
    kept = kept_per_axis(grid.shape, modes)
    f: Tensor = synthesise(f_hat, grid.shape, [ALL if k is None else k for k in kept], False)
    return f


def _contract(c: Tensor, f_hat: Tensor) -> Tensor:
    """Σ_i c_ji(ξ) f̂_i(ξ) for every mode, (J, I, *K) and (B, I, *K) -> (B, J, *K)."""
    if choose_backend(c.real.dtype, c.device) != "native":
        return reference.contract(c, f_hat)
    mixed: Tensor = contract(c, f_hat)
    return mixed


# ---- pairs ----


@torch.library.custom_op("pdno::pairwise", mutates_args=())
def pairwise(
    c: Tensor, b: Tensor, f_hat: Tensor, shape: Sequence[int], kept: Sequence[int]
) -> Tensor:
    """Σ_i b_ji F⁻¹[c_ji f̂_i], (O, I, *K), (O, I, *N), (B, I, *K) -> (B, O, *N)."""
    sizes = _sizes(c, f_hat, shape, kept)
    if c.device.type == "cuda":
        operands = (_dense(c), _dense(b), _dense(f_hat))
        return triton.pairwise_forward(*operands, sizes.shape, sizes.kept)
    return find_pairs(sizes).forward(_dense(c), _channels_last(b), _dense(f_hat))


@torch.library.custom_op("pdno::pairwise_backward", mutates_args=())
def pairwise_backward(
    c: Tensor, b: Tensor, f_hat: Tensor, grad: Tensor, shape: Sequence[int], kept: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of c, b and f̂."""
    sizes, grad = _sizes(c, f_hat, shape, kept), _dense(grad)
    if c.device.type == "cuda":
        c_bar, b_bar, f_bar = triton.pairwise_backward(
            _dense(c), _dense(b), _dense(f_hat), grad, sizes.shape, sizes.kept
        )
        return c_bar, _channels_last(b_bar).movedim((-2, -1), (0, 1)), f_bar
    loops = find_pairs(sizes)
    c_bar, b_bar, f_bar = loops.backward(_dense(c), _channels_last(b), _dense(f_hat), grad)
    return c_bar, b_bar.movedim((-2, -1), (0, 1)), f_bar


@pairwise.register_fake
def _(c: Tensor, b: Tensor, f_hat: Tensor, shape: Sequence[int], kept: Sequence[int]) -> Tensor:
    return b.new_empty(len(f_hat), len(c), *shape)


@pairwise_backward.register_fake
def _(
    c: Tensor, b: Tensor, f_hat: Tensor, grad: Tensor, shape: Sequence[int], kept: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    return _new_dense(c), _new_channels_last(b), _new_dense(f_hat)


def _pairwise_reference(
    c: Tensor, b: Tensor, f_hat: Tensor, shape: Sequence[int], kept: Sequence[int]
) -> Tensor:
    return reference.pairwise(c, b, f_hat, tuple(shape), _modes(kept))


# ---- nodes ----


@torch.library.custom_op("pdno::at_nodes", mutates_args=())
def at_nodes(
    c: Tensor,
    a: Tensor,
    f_hat: Tensor,
    tables: Sequence[Tensor],
    shape: Sequence[int],
    kept: Sequence[int],
) -> Tensor:
    """The same with b_ji = Σ_m A_jim ℓ_m; A (O, I, *P, M), tables ℓ (M, N_d) and those of rows.

    A on all rows is made anew in the backward pass: for one sample it would be most of what a step
    keeps.
    """
    basis, *rows = tables
    loops = find_nodes(_sizes(c, f_hat, shape, kept), len(basis))
    return loops.forward(
        _dense(c), interpolate_rows(_channels_last(a), rows), basis, _dense(f_hat)
    )


@torch.library.custom_op("pdno::at_nodes_backward", mutates_args=())
def at_nodes_backward(
    c: Tensor,
    a: Tensor,
    f_hat: Tensor,
    grad: Tensor,
    tables: Sequence[Tensor],
    shape: Sequence[int],
    kept: Sequence[int],
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of c, A and f̂."""
    basis, *rows = tables
    loops = find_nodes(_sizes(c, f_hat, shape, kept), len(basis))
    full = interpolate_rows(_channels_last(a), rows)
    c_bar, a_bar, f_bar = loops.backward(_dense(c), full, basis, _dense(f_hat), _dense(grad))
    a_bar = interpolate_rows(a_bar.view_as(full), rows, back=True)
    return c_bar, a_bar.movedim((-2, -1), (0, 1)), f_bar


@at_nodes.register_fake
def _(
    c: Tensor,
    a: Tensor,
    f_hat: Tensor,
    tables: Sequence[Tensor],
    shape: Sequence[int],
    kept: Sequence[int],
) -> Tensor:
    return a.new_empty(len(f_hat), len(c), *shape)


@at_nodes_backward.register_fake
def _(
    c: Tensor,
    a: Tensor,
    f_hat: Tensor,
    grad: Tensor,
    tables: Sequence[Tensor],
    shape: Sequence[int],
    kept: Sequence[int],
) -> tuple[Tensor, Tensor, Tensor]:
    return _new_dense(c), _new_channels_last(a), _new_dense(f_hat)


def _at_nodes_reference(
    c: Tensor,
    a: Tensor,
    f_hat: Tensor,
    tables: Sequence[Tensor],
    shape: Sequence[int],
    kept: Sequence[int],
) -> Tensor:
    full = SymbolValues(c, a, tables[0], tuple(tables[1:])).on_grid().space
    assert full is not None
    return _pairwise_reference(c, full, f_hat, shape, kept)


# ---- modes ----


@torch.library.custom_op("pdno::contract", mutates_args=())
def contract(c: Tensor, f_hat: Tensor) -> Tensor:
    """Σ_i c_ji(ξ) f̂_i(ξ) for every mode."""
    library = native_library()
    assert library is not None
    return native.contract(library, _dense(c), _dense(f_hat))


@torch.library.custom_op("pdno::contract_backward", mutates_args=())
def contract_backward(c: Tensor, f_hat: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of c and f̂."""
    library = native_library()
    assert library is not None
    return native.contract_backward(library, _dense(c), _dense(f_hat), _dense(grad))


@contract.register_fake
def _(c: Tensor, f_hat: Tensor) -> Tensor:
    return f_hat.new_empty(len(f_hat), len(c), *c.shape[2:])


@contract_backward.register_fake
def _(c: Tensor, f_hat: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    return _new_dense(c), _new_dense(f_hat)


# ---- fields ----


@torch.library.custom_op("pdno::synthesise", mutates_args=())
def synthesise(f_hat: Tensor, shape: Sequence[int], kept: Sequence[int], scaled: bool) -> Tensor:
    """F⁻¹, (B, C, *K) -> (B, C, *N); scaled, the transpose of F."""
    loops = find_fields(tuple(shape), _modes(kept), f_hat.shape[0] * f_hat.shape[1])
    return loops.synthesise(_dense(f_hat), scaled=scaled).view(*f_hat.shape[:2], *shape)


@torch.library.custom_op("pdno::analyse", mutates_args=())
def analyse(q: Tensor, shape: Sequence[int], kept: Sequence[int], scaled: bool) -> Tensor:
    """The transpose of F⁻¹, (B, C, *N) -> (B, C, *K); scaled, F."""
    loops = find_fields(tuple(shape), _modes(kept), q.shape[0] * q.shape[1])
    return loops.transpose(_dense(q), scaled=scaled).view(*q.shape[:2], *loops.kept_shape)


@synthesise.register_fake
def _(f_hat: Tensor, shape: Sequence[int], kept: Sequence[int], scaled: bool) -> Tensor:
    return f_hat.real.new_empty(*f_hat.shape[:2], *shape)


@analyse.register_fake
def _(q: Tensor, shape: Sequence[int], kept: Sequence[int], scaled: bool) -> Tensor:
    sizes = Grid(tuple(shape)).modes(_modes(kept), device="meta").shape[:-1]
    return q.new_empty(*q.shape[:2], *sizes, dtype=q.dtype.to_complex())


def _save_lists(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.lists = inputs[1:]


# each is the gradient of the other, any number of times
synthesise.register_autograd(
    lambda ctx, grad: (analyse(grad, *ctx.lists), None, None, None), setup_context=_save_lists
)
analyse.register_autograd(
    lambda ctx, grad: (synthesise(grad, *ctx.lists), None, None, None), setup_context=_save_lists
)


# ---- derivatives ----


def _register_gradients(
    operator: Any,
    backward: Callable[..., tuple[Tensor, ...]],
    in_reference: Callable[..., Tensor],
    places: tuple[int, ...],
) -> None:
    """The gradients of a custom operator; where they are differentiated again, the reference's.

    Arguments:
        operator: The custom operator.
        backward: Tensors among its arguments, the gradient, other arguments -> gradients.
        in_reference: The same function of its arguments in plain torch.
        places: Which arguments are differentiated.
    """

    def save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        tensors = [value for value in inputs if isinstance(value, Tensor)]
        ctx.save_for_backward(*tensors)
        ctx.rest = inputs[len(tensors) :]

    def gradients(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        tensors = list(ctx.saved_tensors)
        # lists of tables have no gradients, but as many places
        rest = [[None] * len(v) if _is_list_of_tensors(v) else None for v in ctx.rest]
        result: list[Any] = [*[None] * len(tensors), *rest]
        needed = [place for place in places if ctx.needs_input_grad[place]]
        if torch.is_grad_enabled():
            found = torch.autograd.grad(
                in_reference(*tensors, *ctx.rest),
                [tensors[place] for place in needed],
                grad,
                create_graph=True,
            )
            for place, value in zip(needed, found, strict=True):
                result[place] = value
            return tuple(result)
        for place, value in zip(places, backward(*tensors, grad, *ctx.rest), strict=True):
            result[place] = value if place in needed else None
        return tuple(result)

    operator.register_autograd(gradients, setup_context=save)


_register_gradients(pairwise, pairwise_backward, _pairwise_reference, (0, 1, 2))
_register_gradients(at_nodes, at_nodes_backward, _at_nodes_reference, (0, 1, 2))
_register_gradients(contract, contract_backward, reference.contract, (0, 1))


def _is_list_of_tensors(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and any(isinstance(part, Tensor) for part in value)


# ---- layouts ----


def _sizes(c: Tensor, f_hat: Tensor, shape: Sequence[int], kept: Sequence[int]) -> Sizes:
    return Sizes(tuple(shape), _modes(kept), len(f_hat), c.shape[1], len(c))


def _modes(kept: Sequence[int]) -> tuple[int | None, ...]:
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
