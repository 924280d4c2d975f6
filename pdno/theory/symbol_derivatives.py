"""Derivatives and differences of a symbol function a(x, ξ) in both of its variables.

    ∂_ξ^α a    or    Δ^α a,  Δ_j a(ξ) = a(ξ + e_j) - a(ξ),
    D^α a      or    Π_j D_j (D_j - 1) ... (D_j - α_j + 1) a,    D = ∂_x / 2πi.

The left ones make Taylor's series, the right ones Newton's, which needs a at integers only.
Derivatives come from automatic differentiation and can be taken of derivatives, too.
"""

__all__ = ["Index", "SymbolFunction", "as_complex", "in_x", "in_xi"]

import math
from collections.abc import Callable

import torch
from torch import Tensor

SymbolFunction = Callable[[Tensor, Tensor], Tensor]
Index = tuple[int, ...]


def in_xi(a: SymbolFunction, alpha: Index, differences: bool) -> SymbolFunction:
    """∂_ξ^α a, or Δ^α a."""
    for axis, power in enumerate(alpha):
        for _ in range(power):
            a = _difference(a, axis) if differences else _slope(a, axis, along_xi=True)
    return a


def in_x(a: SymbolFunction, alpha: Index, differences: bool) -> SymbolFunction:
    """D^α a, or its counterpart D_j (D_j - 1) ... in Newton's series."""
    for axis, power in enumerate(alpha):
        for k in range(power):
            a = _slope_less(a, axis, k if differences else 0)
    return a


def _slope_less(a: SymbolFunction, axis: int, k: int) -> SymbolFunction:
    """(D_j - k) a."""
    slope = _slope(a, axis, along_xi=False)
    if k == 0:
        return lambda x, xi: slope(x, xi) / (2j * math.pi)
    return lambda x, xi: slope(x, xi) / (2j * math.pi) - k * a(x, xi)


def _slope(a: SymbolFunction, axis: int, *, along_xi: bool) -> SymbolFunction:
    """∂a/∂ξ_j or ∂a/∂x_j."""

    def derived(x: Tensor, xi: Tensor) -> Tensor:
        shape = torch.broadcast_shapes(x.shape, xi.shape)  # type: ignore[no-untyped-call]
        x, xi = x.expand(shape), xi.expand(shape)  # so that each value has its own x and ξ
        outermost = not (x.requires_grad or xi.requires_grad)
        with torch.enable_grad():
            variable = xi if along_xi else x
            if not variable.requires_grad:
                variable = variable.detach().clone().requires_grad_()
            value = as_complex(a(x, variable) if along_xi else a(variable, xi))
            real, imaginary = (_gradient(part, variable) for part in (value.real, value.imag))
            slope = torch.complex(real[..., axis], imaginary[..., axis])
        return slope.detach() if outermost else slope

    return derived


def _gradient(values: Tensor, variable: Tensor) -> Tensor:
    """The gradient of each value by its own variable, differentiable again."""
    if not values.requires_grad:
        return torch.zeros_like(variable)
    (gradient,) = torch.autograd.grad(
        values.sum(), variable, create_graph=True, materialize_grads=True
    )
    return gradient


def _difference(a: SymbolFunction, axis: int) -> SymbolFunction:
    """Δ_j a."""

    def derived(x: Tensor, xi: Tensor) -> Tensor:
        one = torch.zeros_like(xi)
        one[..., axis] = 1
        return a(x, xi + one) - a(x, xi)

    return derived


def as_complex(values: Tensor) -> Tensor:
    """The values as complex ones."""
    return values if values.is_complex() else torch.complex(values, torch.zeros_like(values))
