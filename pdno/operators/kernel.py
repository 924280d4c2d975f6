"""The operator of a separated symbol, on grids and between scattered points.

    K[f]_j(y) = Σ_r Σ_i b_rij(y) F⁻¹[ c_rij(ξ) F[f_i](ξ) ](y)

Where b does not depend on i, the sum over i is taken in frequency space (`contract`) before R·O
inverse transforms. Where it does, I·O of them are multiplied by b and added up at once
(`pairwise`): no (B, O, I, *N) tensor exists. With b at nodes of each row, the sum over i comes
before the rows are transformed.

On scattered points F takes values at those of the input, and F⁻¹ and b are evaluated at those of
the output: the two sets need not have a point in common.
"""

import math
import os
from collections.abc import Callable
from functools import partial, reduce
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from pdno.interface.errors import check_shape
from pdno.native.build import load_library, warn_if_slow
from pdno.operators import compiled, native, reference, triton
from pdno.operators.native import Sizes, can_plan
from pdno.spectral.fourier import Method, Modes, choose_method, inverse, spectrum_shape, transform
from pdno.spectral.grid import Grid, kept_per_axis
from pdno.spectral.nonuniform import inverse_points, transform_points
from pdno.spectral.points import Points, kept_modes, torus
from pdno.spectral.tracing import is_traced, is_transformed
from pdno.symbols.base import Symbol, SymbolValues, Time

Backend = Literal["reference", "native", "triton"]
LOW_RANK_BUDGET = 64 * 2**20


def choose_backend(
    f: Tensor,
    grid: Grid | None = None,
    modes: Modes = None,
    method: Method = "auto",
    work: int = 0,
) -> Backend:
    """What computes an operator for fields like f on a grid, or a pointwise layer.

    "native" are the compiled kernels, for float32 on a CPU, "triton" those for float32 on CUDA and
    few modes; "reference" is plain torch. Large `work` without native code is warned of, once.
    """
    if method != "auto" or f.dtype != torch.float32 or is_transformed():
        return "reference"
    if f.device.type == "cpu":
        fits = grid is None or can_plan(grid.shape, kept_per_axis(grid.shape, modes))
        return "native" if fits and _has_native_code(work) else "reference"
    wanted = triton.available() and os.environ.get("PDNO_TRITON", "1") != "0"
    if f.device.type != "cuda" or grid is None or not wanted:
        return "reference"
    return "reference" if choose_method(grid.shape, modes) == "fft" else "triton"


# torch.compile need not look inside
@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _has_native_code(work: int) -> bool:
    if load_library() is not None:
        return True
    warn_if_slow(work)
    return False


class Plan(NamedTuple):
    """Where an operator acts, on which modes, and by which backend; F and F⁻¹ there."""

    grid: Grid
    modes: Modes
    method: Method
    backend: Backend

    @classmethod
    def of(
        cls, f: Tensor, grid: Grid, modes: Modes, method: Method = "auto", work: int = 0
    ) -> "Plan":
        """The plan for fields like f, by `choose_backend`."""
        return cls(grid, modes, method, choose_backend(f, grid, modes, method, work))

    @property
    def kept(self) -> tuple[int | None, ...]:
        """The kept modes of each axis."""
        return kept_per_axis(self.grid.shape, self.modes)

    @property
    def sizes(self) -> tuple[tuple[int, ...], list[int]]:
        """The grid and its kept modes, as compiled operators take them."""
        return self.grid.shape, [compiled.ALL if k is None else k for k in self.kept]

    def check(self, values: SymbolValues, channels: tuple[int, int] = (-1, -1)) -> None:
        """ValueError unless these are values of a symbol for outputs and inputs, -1 for any."""
        values.check(channels, spectrum_shape(self.grid.shape, self.kept), self.grid.shape)

    def forward(self, f: Tensor) -> Tensor:
        """F[f]."""
        if self.backend == "native":
            return compiled.analyse(f, *self.sizes, True)
        return transform(f, self.grid.dim, self.modes, method=self.method)

    def inverse(self, f_hat: Tensor) -> Tensor:
        """F⁻¹[f̂]."""
        if self.backend == "native":
            return compiled.synthesise(f_hat, *self.sizes, False)
        return inverse(f_hat, self.grid.shape, self.modes, method=self.method)


def apply_values(
    values: SymbolValues, f: Tensor, grid: Grid, modes: Modes = None, *, method: Method = "auto"
) -> Tensor:
    """K[f] for the values of a symbol on this grid and these modes, (B, I, *N) -> (B, O, *N).

    The method "fft" or "matrix" is one of plain torch; "auto" takes the cheapest of all.
    """
    outputs = values.frequency.shape[-grid.dim - 2 : -grid.dim - 1]
    work = 0 if values.space is None else f.numel() * math.prod(outputs)
    return apply_planned(values, f, Plan.of(f, grid, modes, method, work))


def apply_planned(
    values: SymbolValues, f: Tensor, plan: Plan, which: Tensor | None = None
) -> Tensor:
    """K[f] by a plan; values at several times are those of samples `which` (B,), or of each."""
    grid = plan.grid
    plan.check(values)
    inputs = values.frequency.shape[-grid.dim - 1]
    check_shape("f", f, "B", inputs, *grid.shape, cure="channels first")
    if not len(f):
        raise ValueError("the batch is empty: give at least one sample")
    values = _like(values, f)
    c, b, dim = values.frequency, values.space, grid.dim
    of_pairs = b is not None and b.shape[-dim - 1] > 1
    f_hat = plan.forward(f)
    if c.dim() == 3 + dim:
        return (_sum_pairs if of_pairs else _sum_terms)(values, f_hat, plan)
    # one time per sample: each has a symbol of its own, or one with all of the same time
    if not of_pairs:
        c = c.sum(dim=1, keepdim=True) if b is None and c.shape[1] > 1 else c
        product = torch.einsum("broi...,bi...->bro...", c if which is None else c[which], f_hat)
        parts = plan.inverse(product.flatten(1, 2)).reshape(*product.shape[:3], *grid.shape)
        b = values.on_grid().space
        if b is not None:
            parts = parts * (b if which is None else b[which])[:, :, :, 0]
        return parts.sum(dim=1)
    order = torch.arange(len(f), device=f.device) if which is None else which.argsort()
    sizes = [1] * len(f) if which is None else which.bincount().tolist()
    assert b is not None
    outputs = [
        _sum_pairs(SymbolValues(c_t, b_t, values.basis, values.rows), f_hat_t, plan)
        for c_t, b_t, f_hat_t in zip(c, b, torch.split(f_hat[order], sizes), strict=True)
    ]
    return torch.cat(outputs)[order.argsort()]


def prepare_values(values: SymbolValues, plan: Plan) -> Callable[[Tensor], Tensor] | None:
    """`apply_planned` for dense f without gradients, all looked up before; None if it cannot."""
    values = _like(values, torch.empty(0, dtype=torch.float32))
    c, b, grid, kept = values.frequency, values.space, plan.grid, plan.kept
    if c.dim() != 3 + grid.dim or (b is not None and (len(c) > 1 or b.shape[2] == 1)):
        return None
    analyse = partial(native.transform, grid.shape, kept, True)
    synthesise = partial(native.transform, grid.shape, kept, False)
    if b is None:
        total = (c[0] if len(c) == 1 else c.sum(dim=0)).resolve_conj().contiguous()
        return lambda f: synthesise(native.contract(total, analyse(f)))
    c = c[0].resolve_conj().contiguous()
    b = compiled.channels_last(b[0].expand(len(c), *b.shape[2:]), values.rows)
    sizes = partial(Sizes, grid.shape, kept, inputs=c.shape[1], outputs=len(c))
    basis = None if values.basis is None else values.basis.contiguous()
    nodes = 0 if basis is None else len(basis)

    def apply(f: Tensor) -> Tensor:
        kernels = native.find_kernels(sizes(batch=len(f), nodes=nodes))
        return kernels.forward(c, b, analyse(f), basis)

    return apply


def _like(values: SymbolValues, f: Tensor) -> SymbolValues:
    """The values on the device and in the precision of f."""
    precision = torch.complex128 if f.dtype == torch.float64 else torch.complex64
    frequency = values.frequency.to(f.device, precision)
    space = None if values.space is None else values.space.to(f)
    basis = None if values.basis is None else values.basis.to(f)
    return SymbolValues(frequency, space, basis, tuple(table.to(f) for table in values.rows))


def _sum_terms(values: SymbolValues, f_hat: Tensor, plan: Plan) -> Tensor:
    """Σ_r b_rj F⁻¹[Σ_i c_rji f̂_i]; a large rank a few terms at a time, recomputed backward."""
    contract = compiled.contract if plan.backend == "native" else reference.contract
    c, b, size = values.frequency, values.on_grid().space, plan.grid.size
    if b is None:
        return plan.inverse(contract(c.squeeze(0) if len(c) == 1 else c.sum(dim=0), f_hat))

    def some(c: Tensor, b: Tensor, f_hat: Tensor) -> Tensor:
        parts = plan.inverse(contract(c.flatten(0, 1), f_hat))
        return (parts.reshape(len(f_hat), *c.shape[:2], *parts.shape[2:]) * b[:, :, 0]).sum(dim=1)

    step = max(1, LOW_RANK_BUDGET // (b.element_size() * len(f_hat) * c.shape[1] * size))
    if step >= len(c) or is_traced():
        return some(c, b, f_hat)
    blocks = zip(torch.split(c, step), torch.split(b, step), strict=True)
    parts = (checkpoint(some, *block, f_hat, use_reentrant=False) for block in blocks)
    total: Tensor = reduce(torch.add, parts)
    return total


def _sum_pairs(values: SymbolValues, f_hat: Tensor, plan: Plan) -> Tensor:
    """Σ_r Σ_i b_rji F⁻¹[c_rji f̂_i], with b on the grid or at nodes."""
    values = values if plan.backend == "native" else values.on_grid()
    c, b = values.frequency, values.space
    assert b is not None
    b = b.expand(-1, c.shape[1], *b.shape[2:])
    # the gradient of c[0] would be copied into zeros of the size of c
    terms = [(c.squeeze(0), b.squeeze(0))] if len(c) == 1 else list(zip(c, b, strict=True))
    if plan.backend == "reference":
        rest = f_hat, plan.grid.shape, plan.modes, plan.method
        parts = [reference.pairwise(c_r, b_r, *rest) for c_r, b_r in terms]
    else:
        tables = [] if values.basis is None else [values.basis, *values.rows]
        parts = [compiled.pairwise(c_r, b_r, f_hat, tables, *plan.sizes) for c_r, b_r in terms]
    return parts[0] if len(parts) == 1 else torch.stack(parts).sum(dim=0)


def apply_projection(v: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """W₂ gelu(W₁ v + b₁) + b₂, (B, C, N) -> (B, O, N); on a CPU without a hidden layer kept."""
    weights = (w1, b1, w2, b2)
    if choose_backend(v) == "native":
        return compiled.project(v, *weights)
    if is_traced() or v.device.type != "cpu":
        return reference.project(v, *weights)
    once = partial(checkpoint, reference.project, use_reentrant=False)
    return torch.cat([once(sample, *weights) for sample in torch.split(v, 1)])


# ---- scattered points ----


def apply_on_points(
    symbol: Symbol, f: Tensor, points: Points, modes: Modes, t: Time, where: Points
) -> Tensor:
    """K[f], (B, I, P) -> (B, O, Q), from values at `points` to values at those of `where`."""
    dim = points.dim
    if where.dim != dim:
        raise ValueError(f"inputs lie in {dim} dimensions, outputs in {where.dim}; expected alike")
    kept = kept_modes(points, modes)
    f_hat = transform_points(f, points, kept)
    # a grid knows the order of the modes, also for symbols that have no values between them
    c = symbol.evaluate(torus(points, kept), kept, t).frequency
    b = _space_factor(symbol, where, t, f) if symbol.depends_on_x else None
    one_b = b[0] if b is not None and b.dim() == 5 else b
    one = SymbolValues(c[0] if c.dim() == dim + 4 else c, one_b)
    one.check((symbol.out_channels, symbol.in_channels), f_hat.shape[2:], where.shape[-1:])
    c = c.to(f_hat)
    if b is not None and b.shape[-2] > 1:
        return _sum_pairs_on_points(c, b, f_hat, where, kept)
    if c.dim() == dim + 3:
        product = reference.contract(c.flatten(0, 1), f_hat)
    else:
        product = torch.einsum("broi...,bi...->bro...", c, f_hat).flatten(1, 2)
    ranks = c.shape[-dim - 3]
    if b is None:
        summed = torch.unflatten(product, 1, (ranks, -1)).sum(dim=1) if ranks > 1 else product
        return inverse_points(summed, where, kept)
    parts = torch.unflatten(inverse_points(product, where, kept), 1, (ranks, -1))
    total: Tensor = (parts * b.squeeze(-2)).sum(dim=1)
    return total


def _sum_pairs_on_points(
    c: Tensor, b: Tensor, f_hat: Tensor, where: Points, kept: tuple[int, ...]
) -> Tensor:
    """Σ_r Σ_i b_rji F⁻¹[c_rji f̂_i], some outputs at a time, recomputed backward."""
    c = c if c.dim() == len(kept) + 4 else c[None]
    b = b if b.dim() == 5 else b[None]

    def some(c: Tensor, b: Tensor, f_hat: Tensor) -> Tensor:
        return (b * inverse_points(c * f_hat[:, None, None], where, kept)).sum(dim=(1, 3))

    outputs = c.shape[2]
    item = b.element_size() * len(f_hat) * c.shape[1] * c.shape[3] * b.shape[-1]
    step = max(1, reference.BUDGET // item)
    if step >= outputs:
        return some(c, b, f_hat)
    b = b.expand(-1, -1, outputs, -1, -1)
    blocks = zip(torch.split(c, step, dim=2), torch.split(b, step, dim=2), strict=True)
    parts = [checkpoint(some, *block, f_hat, use_reentrant=False) for block in blocks]
    return torch.cat(parts, dim=1)


def _space_factor(symbol: Symbol, points: Points, t: Time, like: Tensor) -> Tensor:
    """b at the points, (R, O or 1, I or 1, P), or (B, R, O or 1, I or 1, P)."""
    x = points.coordinates.to(like.device)
    zero = x.new_zeros(1, points.dim)
    if points.sets and isinstance(t, Tensor) and t.dim() > 0 and len(t) == len(x):
        # points and parameters of each sample
        rows = [symbol.evaluate_at(x[k], zero, t[k : k + 1]).space for k in range(len(x))]
        return torch.stack([row if row.dim() == 4 else row[0] for row in rows if row is not None])
    b = symbol.evaluate_at(x.flatten(0, -2), zero, t).space
    if b is None:
        raise ValueError("evaluate_at gives no space factor: return b, or set depends_on_x=False")
    b = b.to(like)
    return torch.unflatten(b, -1, x.shape[:2]).movedim(-2, 0) if points.sets else b
