"""The Fourier transform between scattered points and kept modes.

    f̂(ξ) = Σ_p w_p f(x_p) e^{-2πi ξ·x_p},        f(x) = Σ_ξ w(ξ_d) Re[ f̂(ξ) e^{2πi ξ·x} ]

On points that form a periodic grid these are F and F⁻¹ of `pdno.spectral.fourier`. Instead of the
sum, f̂ may be fitted by least squares (see `Points`). Both are products with one table of waves, P
by M complex numbers, or with many modes the non-uniform FFT of FINUFFT (extra points).
"""

import importlib.util
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from pdno.spectral.grid import Modes, axis_modes, hermitian_weights
from pdno.spectral.points import Points, check_enough_points, kept_modes
from pdno.spectral.tracing import is_transformed

PointMethod = Literal["auto", "direct", "nufft"]
# kept modes from which FINUFFT is faster than products: measured in 2D, estimated in 1D and 3D
NUFFT_FROM = {1: 256, 2: 1024, 3: 2048}
ACCURACY = {torch.float32: 1e-6, torch.float64: 1e-12}


def transform_points(
    f: Tensor, points: Points, modes: Modes, *, method: PointMethod = "auto"
) -> Tensor:
    """F[f] on the kept modes, (B, C, P) real -> (B, C, *K) complex."""
    points.check(f, "f")
    kept = kept_modes(points, modes)
    check_enough_points(points, kept)
    weights = points.weights.to(f)
    weighted = f * (weights if points.sets is None else weights[:, None])
    if points.transform == "sum" and _choose(points, kept, method) == "nufft":
        return _fast(weighted.to(f.dtype.to_complex()), points, kept, True)
    coefficients = weighted @ wave_table(points, kept, f)
    if points.transform == "least-squares":
        coefficients = _solve(points, kept, coefficients * _rule(kept).to(f))
    pairs = torch.unflatten(coefficients, -1, (*spectrum(kept), 2))
    return torch.view_as_complex(pairs.contiguous())


def inverse_points(
    f_hat: Tensor, points: Points, modes: Modes, *, method: PointMethod = "auto"
) -> Tensor:
    """F⁻¹[f̂] at the points, (B, ..., *K) complex -> (B, ..., P) real."""
    kept = kept_modes(points, modes)
    f_hat = f_hat.flatten(-len(kept))
    middle = f_hat.shape[1:-1]
    pairs = torch.view_as_real(f_hat.flatten(1, -2)).flatten(-2)
    pairs = pairs * _rule(kept).to(pairs)
    if _choose(points, kept, method) == "nufft":
        whole = torch.view_as_complex(torch.unflatten(pairs, -1, (*spectrum(kept), 2)))
        values = _fast(whole, points, kept, False).real
    else:
        values = pairs @ wave_table(points, kept, pairs).mT
    return torch.unflatten(values, 1, middle)


def spectrum(kept: Sequence[int]) -> tuple[int, ...]:
    """The sizes of the half spectrum of kept modes."""
    return (*(2 * k for k in kept[:-1]), kept[-1])


def wave_table(points: Points, kept: Sequence[int], like: Tensor) -> Tensor:
    """cos 2πξ·x_p and -sin 2πξ·x_p in turn, (P, 2M) or (B, P, 2M), kept with the points."""
    key = ("waves", tuple(kept), like.dtype, like.device)
    table: Tensor | None = points.cache.get(key)
    if table is not None:
        return table
    x = points.coordinates.to(like.device)
    for axis, k in enumerate(kept):
        xi = axis_modes(0, k, half=axis + 1 == len(kept), device=like.device)
        angle = 2 * math.pi * x[..., axis, None] * xi
        part = torch.complex(angle.cos(), -angle.sin()).to(like.dtype.to_complex())
        table = part if table is None else (table[..., None] * part[..., None, :]).flatten(-2)
    assert table is not None
    waves = torch.view_as_real(table).flatten(-2)
    if not x.requires_grad:
        points.cache[key] = waves
    return waves


@cache
def _rule(kept: tuple[int, ...]) -> Tensor:
    """w of the Hermitian rule for real and imaginary parts in turn, (2M,)."""
    rule = hermitian_weights(torch.arange(kept[-1]), 0).double()
    return rule.expand(*spectrum(kept)).flatten().repeat_interleave(2)


def _solve(points: Points, kept: tuple[int, ...], moments: Tensor) -> Tensor:
    """(SᵀWS + λ) û = moments Sᵀ W f, with S the values of the waves at the points."""
    key = ("factor", kept, moments.device)
    factor: Tensor | None = points.cache.get(key)
    if factor is None:
        double = moments.new_empty(0, dtype=torch.float64)
        waves = wave_table(points, kept, double) * _rule(kept).to(double)
        weights = points.weights.to(double.device)[..., None]
        gram = waves.mT @ (waves * weights)
        diagonal = gram.diagonal(dim1=-2, dim2=-1)
        ridge = points.ridge * diagonal.mean(dim=-1)[..., None]
        factor = torch.linalg.cholesky(gram + torch.diag_embed(ridge.expand_as(diagonal)))
        points.cache.pop(("waves", kept, torch.float64, moments.device), None)
        if not points.coordinates.requires_grad:
            points.cache[key] = factor
    solved = torch.cholesky_solve(moments.double().mT, factor)
    return solved.mT.to(moments)


def _choose(points: Points, kept: Sequence[int], method: PointMethod) -> PointMethod:
    """The cheaper way; coordinates that are differentiated need products."""
    if method != "auto":
        return method
    many = math.prod(spectrum(kept)) >= NUFFT_FROM[len(kept)]
    plain = points.coordinates.device.type == "cpu" and not points.coordinates.requires_grad
    usable = many and plain and not is_transformed() and importlib.util.find_spec("finufft")
    return "nufft" if usable else "direct"


def _fast(values: Tensor, points: Points, kept: tuple[int, ...], forward: bool) -> Tensor:
    apply: Callable[..., Tensor] = _Nufft.apply
    return apply(values, points, kept, forward)


class _Nufft(torch.autograd.Function):
    """Σ_p v_p e^{-2πi ξ·x_p}, (B, C, P) -> (B, C, *K), or its adjoint; complex both."""

    @staticmethod
    def forward(
        ctx: Any, values: Tensor, points: Points, kept: tuple[int, ...], forward: bool
    ) -> Tensor:
        import finufft

        ctx.how = points, kept, forward
        x = (2 * math.pi * points.coordinates).to(values.real.dtype)
        shape, half = tuple(2 * k for k in kept), kept[-1]
        options: Any = {"modeord": 1, "eps": ACCURACY[values.real.dtype]}
        options |= {"nthreads": torch.get_num_threads(), "isign": -1 if forward else 1}
        options |= {"n_modes": shape} if forward else {}
        transform = getattr(finufft, f"nufft{len(kept)}d{1 if forward else 2}")
        values = values.detach() if forward else functional.pad(values.detach(), (0, half))
        batches, results = torch.split(values, 1 if points.sets else len(values)), []
        for where, batch in zip(x if points.sets else x[None], batches, strict=True):
            axes = [column.contiguous().numpy() for column in where.T]
            flat = batch.flatten(0, 1).contiguous().numpy()
            result = torch.from_numpy(transform(*axes, flat, **options))
            result = result.reshape(*batch.shape[:2], *(shape if forward else (-1,)))
            results.append(result[..., :half] if forward else result)
        return torch.cat(results)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        points, kept, forward = ctx.how
        return _fast(gradients[0], points, kept, not forward), None, None, None
