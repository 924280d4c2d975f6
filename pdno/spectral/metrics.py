"""Error metrics: relative L2 and H^s, per sample, per time and by frequency band.

    ‖u‖²_{H^s} = Σ_ξ ⟨ξ⟩^{2s} |û(ξ)|²,    ⟨ξ⟩ = (1 + |ξ|²)^{1/2},    s real; H⁰ is L2 (Parseval)

All of them are pure functions of fields, (B, C, *N) or (B, T, C, *N), and may be differentiated.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from pdno.spectral.fourier import half_weights, transform
from pdno.spectral.grid import Device, Grid

Size = Callable[[Tensor], Tensor]
LEAST, MOST = 1e-15, 1e15  # norms whose squares float32 holds with all digits


def relative_l2(prediction: Tensor, target: Tensor, *, keep: int = 1) -> Tensor:
    """‖prediction - target‖ / ‖target‖ over all axes but the first `keep`.

    Shapes: (B, ...) -> (B,) for keep=1; (B, T, C, *N) -> (B, T) for keep=2.

    Example:
        >>> u = torch.ones(2, 1, 8)
        >>> relative_l2(1.5 * u, u).tolist()
        [0.5, 0.5]
    """
    return _relative(prediction, target, lambda u: u.flatten(keep).norm(dim=-1))


def relative_error(
    prediction: Tensor, target: Tensor, *, dim: int, s: float = 0.0, keep: int = 1
) -> Tensor:
    """The relative error in H^s of the torus; `relative_l2` for s = 0."""
    if s == 0:
        return relative_l2(prediction, target, keep=keep)
    return _relative(prediction, target, lambda u: sobolev_norm(u, s, dim=dim, keep=keep))


def sobolev_norm(u: Tensor, s: float, *, dim: int, keep: int = 1) -> Tensor:
    """‖u‖_{H^s} of real fields (..., *N) on the torus, over all axes but the first `keep`."""
    grid = Grid(tuple(u.shape[-dim:]))
    weights = sobolev_weights(grid, 2 * s, device=u.device).sqrt().to(u.dtype)
    # a norm of numbers, not a root of a sum: its gradient is finite at zero
    coefficients = torch.view_as_real(transform(u, dim) * weights)
    norm: Tensor = torch.linalg.vector_norm(coefficients.flatten(keep), dim=-1)
    return norm


def sobolev_weights(grid: Grid, power: float, *, device: Device = None) -> Tensor:
    """w(ξ)·⟨ξ⟩^power on the half spectrum, (*N^), float64; w is that of the Hermitian rule."""
    xi = grid.modes(device=device).to(torch.float64)
    weights = half_weights(grid.shape[-1], None, torch.float64, xi.device)
    return weights * (1 + xi.square().sum(dim=-1)) ** (power / 2)


def band_errors(prediction: Tensor, target: Tensor, *, dim: int, edges: list[int]) -> Tensor:
    """Share of the error that lies in each band of frequencies, relative to the whole target.

    Shapes: (B, ..., *N) -> (B, bands). Band b holds edges[b] <= max_j |ξ_j| < edges[b + 1]; the
    squares add up to that of the relative L2 error.
    """
    grid = Grid(tuple(target.shape[-dim:]))
    radius = grid.modes(device=target.device).abs().amax(dim=-1)
    ends = [*edges[1:], int(radius.max()) + 1]
    inside = [(radius >= low) & (radius < high) for low, high in zip(edges, ends, strict=True)]
    weights = half_weights(grid.shape[-1], None, target.dtype, target.device)

    def bands(u: Tensor) -> Tensor:
        parts = (transform(u, dim).abs().square() * weights.to(u.dtype)).flatten(1, -dim - 1)
        return torch.stack([(parts * band).flatten(1).sum(dim=1) for band in inside], dim=1).sqrt()

    def whole(u: Tensor) -> Tensor:
        norm: Tensor = u.flatten(1).norm(dim=1, keepdim=True)
        return norm / math.sqrt(grid.size)  # by Parseval

    return _relative(prediction, target, bands, whole)


def _relative(prediction: Tensor, target: Tensor, size: Size, whole: Size | None = None) -> Tensor:
    """size(prediction - target) / whole(target), in double where squares would leave the range."""
    shape, expected = tuple(prediction.shape), tuple(target.shape)
    if shape != expected:
        raise ValueError(f"prediction has shape {shape} and target {expected}; expected the same")
    difference, norm = prediction - target, (whole or size)(target)
    if norm.dtype != torch.float64 and not bool(((norm > LEAST) & (norm < MOST)).all()):
        wide = _relative(prediction.double(), target.double(), size, whole)
        return wide.to(difference.dtype)
    if bool((norm == 0).any()):
        raise ValueError("a target is zero everywhere and has no relative error: leave it out")
    return size(difference) / norm
