"""The operator of a separated symbol: what is summed where, by which backend.

    K[f]_j(x) = Σ_r Σ_i b_rij(x) F⁻¹[ c_rij(ξ) F[f_i](ξ) ](x)

Where b does not depend on i, the sum over i is taken in frequency space (`contract`), and only the
R·O results are transformed back. Where it does, I·O inverse transforms are needed, multiplied by b
and added up at once (`pairwise`): no (B, O, I, *N) tensor exists, forward or backward. With b at
nodes of each row, the sum over i comes before the rows are transformed.
"""

__all__ = ["Backend", "apply_projection", "apply_values", "choose_backend"]

import os
from functools import reduce
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from pdno.native.build import warn_if_slow
from pdno.operators import compiled, reference, triton
from pdno.operators.axes import can_plan
from pdno.operators.native import native_library
from pdno.spectral.fourier import Method, Modes, choose_method, inverse, spectrum_shape, transform
from pdno.spectral.grid import Grid, kept_per_axis
from pdno.spectral.tracing import is_traced, is_transformed
from pdno.symbols.base import SymbolValues

Backend = Literal["reference", "native", "triton"]
LOW_RANK_BUDGET = 64 * 2**20


def choose_backend(
    dtype: torch.dtype,
    device: torch.device,
    grid: Grid | None = None,
    modes: Modes = None,
    *,
    method: Method = "auto",
    work: int = 0,
) -> Backend:
    """What computes an operator on a grid, or a pointwise layer; nothing else chooses.

    "native" are the compiled kernels, for float32 on a CPU, "triton" the GPU kernels, for float32
    on CUDA and few modes, over which they sum; "reference" is plain torch: every device, precision
    and method, any number of derivatives. Large `work` without the native code is warned of, once.
    """
    if method != "auto" or dtype != torch.float32 or is_transformed():
        return "reference"
    if device.type == "cpu":
        fits = grid is None or can_plan(grid.shape, kept_per_axis(grid.shape, modes))
        return "native" if fits and _has_native_code(work) else "reference"
    if device.type == "cuda" and grid is not None and choose_method(grid.shape, modes) != "fft":
        wanted = triton.available() and os.environ.get("PDNO_TRITON", "1") != "0"
        return "triton" if wanted else "reference"
    return "reference"


# torch.compile need not look inside
@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _has_native_code(work: int) -> bool:
    if native_library() is not None:
        return True
    warn_if_slow(work)
    return False


class _Fourier(NamedTuple):
    """F and F⁻¹ on the kept modes, and the backend of the operator."""

    grid: Grid
    modes: Modes
    method: Method
    backend: Backend

    @property
    def kept(self) -> list[int]:
        kept = kept_per_axis(self.grid.shape, self.modes)
        return [compiled.ALL if k is None else k for k in kept]

    def forward(self, f: Tensor) -> Tensor:
        if self.backend == "native":
            return compiled.analyse(f, self.grid.shape, self.kept, True)
        return transform(f, self.grid.dim, self.modes, method=self.method)

    def inverse(self, f_hat: Tensor) -> Tensor:
        if self.backend == "native":
            return compiled.synthesise(f_hat, self.grid.shape, self.kept, False)
        return inverse(f_hat, self.grid.shape, self.modes, method=self.method)

    def contract(self, c: Tensor, f_hat: Tensor) -> Tensor:
        if self.backend == "native":
            return compiled.contract(c, f_hat)
        return reference.contract(c, f_hat)


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
    _check_shapes(values, f, grid, modes)
    c, b = values.frequency, values.space
    pairs = 0 if b is None or b.shape[-grid.dim - 1] == 1 else c.shape[-grid.dim - 2] * f.numel()
    precision = torch.promote_types(f.dtype, c.real.dtype)
    backend = choose_backend(precision, f.device, grid, modes, method=method, work=pairs)
    fourier = _Fourier(grid, modes, method, backend)
    f_hat = fourier.forward(f)
    if c.dim() == 3 + grid.dim:
        return _apply(values, f_hat, fourier)
    # one time per sample: each has a symbol of its own, or one with all of the same time
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


def _check_shapes(values: SymbolValues, f: Tensor, grid: Grid, modes: Modes) -> None:
    """Raise a ValueError unless the values of a symbol are those for fields f on a grid."""
    c, b, dim = values.frequency, values.space, grid.dim
    spectrum = spectrum_shape(grid.shape, kept_per_axis(grid.shape, modes))
    if f.dim() != 2 + dim or tuple(f.shape[2:]) != grid.shape:
        raise ValueError(
            f"f has shape {tuple(f.shape)}; expected (B, I, *N) with N = {grid.shape}"
        )
    if not len(f):
        raise ValueError("the batch is empty: give at least one sample")
    if c.dim() not in (3 + dim, 4 + dim) or tuple(c.shape[-dim - 1 :]) != (f.shape[1], *spectrum):
        raise ValueError(
            f"the frequency factor of the symbol has shape {tuple(c.shape)}; expected (R, O, I, "
            f"*K), or (B, R, O, I, *K) with times, where I = {f.shape[1]} and K = {spectrum}"
        )
    if b is None:
        return
    places = list(grid.shape)
    for axis, table in enumerate(values.rows):
        places[axis] = table.shape[1] if table.numel() else places[axis]
    if values.basis is not None:
        places[-1] = len(values.basis)
    leading = (*c.shape[: -dim - 2],)
    channels = [(o, i) for o in {1, c.shape[-dim - 2]} for i in {1, f.shape[1]}]
    if tuple(b.shape) not in [(*leading, *pair, *places) for pair in channels]:
        outputs = c.shape[-dim - 2]
        raise ValueError(
            f"the space factor of the symbol has shape {tuple(b.shape)}; expected "
            f"{(*leading, outputs, f.shape[1], *places)}, of which O = {outputs} and "
            f"I = {f.shape[1]} may be 1"
        )


def _apply(values: SymbolValues, f_hat: Tensor, fourier: _Fourier) -> Tensor:
    c, b = values.frequency, values.space
    if b is None:
        total = c.squeeze(0) if len(c) == 1 else c.sum(dim=0)
        return fourier.inverse(fourier.contract(total, f_hat))
    if b.shape[2] == 1:
        return _apply_low_rank(c, _on_grid(values), f_hat, fourier)
    # the gradient of c[0] would be copied into zeros of the size of c
    terms = [(c.squeeze(0), b.squeeze(0))] if len(c) == 1 else zip(c, b, strict=True)
    single = [SymbolValues(c_r, b_r, values.basis, values.rows) for c_r, b_r in terms]
    parts = [_apply_pairs(term, f_hat, fourier) for term in single]
    return parts[0] if len(parts) == 1 else torch.stack(parts).sum(dim=0)


def _apply_low_rank(c: Tensor, b: Tensor, f_hat: Tensor, fourier: _Fourier) -> Tensor:
    """Σ_r b_rj F⁻¹[Σ_i c_rji f̂_i]; a large rank a few terms at a time, recomputed backward."""
    grid = fourier.grid

    def some(c: Tensor, b: Tensor, f_hat: Tensor) -> Tensor:
        parts = fourier.inverse(fourier.contract(c.flatten(0, 1), f_hat))
        return (parts.reshape(len(f_hat), *c.shape[:2], *grid.shape) * b[:, :, 0]).sum(dim=1)

    step = max(1, LOW_RANK_BUDGET // (b.element_size() * len(f_hat) * c.shape[1] * grid.size))
    if step >= len(c) or is_traced():
        return some(c, b, f_hat)
    blocks = zip(torch.split(c, step), torch.split(b, step), strict=True)
    parts = (checkpoint(some, *block, f_hat, use_reentrant=False) for block in blocks)
    total: Tensor = reduce(torch.add, parts)
    return total


def _apply_pairs(term: SymbolValues, f_hat: Tensor, fourier: _Fourier) -> Tensor:
    """Σ_i b_ji F⁻¹[c_ji f̂_i], with c (O, I, *K) and b (O or 1, I, ...) on the grid or at nodes."""
    grid, modes, method, backend = fourier
    c, b = term.frequency, term.space
    assert b is not None
    b = b.expand(len(c), *b.shape[1:])
    if backend == "native":
        tables = [] if term.basis is None else [term.basis, *term.rows]
        return compiled.pairwise(c, b, f_hat, tables, grid.shape, fourier.kept)
    b = _on_grid(SymbolValues(c, b, term.basis, term.rows))
    if backend == "triton":
        return compiled.pairwise(c, b, f_hat, [], grid.shape, fourier.kept)
    return reference.pairwise(c, b, f_hat, grid.shape, modes, method)


def _on_grid(values: SymbolValues) -> Tensor:
    b = values.on_grid().space
    assert b is not None
    return b


def apply_projection(v: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """W₂ gelu(W₁ v + b₁) + b₂, (B, C, N) -> (B, O, N); on a CPU without a hidden layer kept."""
    weights = (w1, b1, w2, b2)
    if choose_backend(v.dtype, v.device) == "native":
        return compiled.project(v, *weights)
    if is_traced() or v.device.type != "cpu":
        return reference.project(v, *weights)
    if not torch.is_grad_enabled():
        return torch.cat([reference.project(sample[None], *weights) for sample in v])
    samples = [(sample[None], *weights) for sample in v]
    parts = [checkpoint(reference.project, *sample, use_reentrant=False) for sample in samples]
    return torch.cat(parts)
