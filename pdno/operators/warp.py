"""Periodic fields between the points of their grid: the warp v(x + δ(x)).

    v(x) = Σ_k c_k Π_a β(M_a x_a - k_a),    ĉ(ξ) = v̂(ξ) / Π_a Σ_j β(j) cos(2πj ξ_a/M_a)

The nodes k are those of a grid of M = refine · N points per axis, β is the centred B-spline of
degree 3 ("cubic") or 5 ("quintic"), which passes through the trigonometric polynomial of v at all
nodes. "keys" is cubic convolution, of order three, which has no prefilter.
"""

import math
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from pdno.operators import compiled, reference
from pdno.operators.kernel import choose_backend
from pdno.spectral.calculus import resample
from pdno.spectral.grid import Grid
from pdno.spectral.tracing import is_traced

Interpolation = Literal["keys", "cubic", "quintic"]
DEGREES = {"keys": 0, "cubic": 3, "quintic": 5}


def warp(
    v: Tensor, displacement: Tensor, interpolation: Interpolation = "quintic", refine: int = 2
) -> Tensor:
    """v(x + δ(x)) for periodic fields, (B, C, *N) and (B, d, *N) in units of the domain."""
    coefficients = interpolation_coefficients(v, interpolation, refine)
    return read_between(coefficients, displacement, interpolation)


def interpolation_coefficients(v: Tensor, interpolation: Interpolation, refine: int) -> Tensor:
    """c of the function through v, (B, C, *N) -> (B, C, *M)."""
    shape, degree = tuple(v.shape[2:]), DEGREES[interpolation]
    prefilter = _prefilter(shape, degree, refine, v.device).to(v.dtype) if degree else None
    # contiguous: torch transforms other layouts by other steps, with other last bits
    return resample(v.contiguous(), [refine * n for n in shape], multiplier=prefilter)


@lru_cache(maxsize=16)
def _prefilter(shape: tuple[int, ...], degree: int, refine: int, device: torch.device) -> Tensor:
    """1 / Π_a Σ_j β(j) cos(2πj ξ_a/M_a) on the half spectrum, (*N^), float64."""
    points = torch.tensor([refine * n for n in shape], dtype=torch.float64)
    theta = 2 * math.pi * Grid(shape).modes().double() / points
    nodes = torch.arange(-(degree // 2), degree // 2 + 1, dtype=torch.float64)
    waves = torch.cos(nodes * theta[..., None])
    sums = (reference.basis_function(nodes, degree) * waves).sum(dim=-1)
    return sums.prod(dim=-1).reciprocal().to(device)


def read_between(
    coefficients: Tensor, displacement: Tensor, interpolation: Interpolation
) -> Tensor:
    """Σ_k c_k Π_a β at the points x + δ(x), (B, C, *M) and (B, d, *N) -> (B, C, *N)."""
    degree = DEGREES[interpolation]
    same = coefficients.dtype == displacement.dtype
    if same and not is_traced() and choose_backend(coefficients) == "native":
        return compiled.read_spline(coefficients, displacement, degree)
    return reference.read_spline(coefficients, displacement, degree)
