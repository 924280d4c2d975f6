"""Norms of linear operators between Sobolev spaces, from below by iteration.

    ‖A‖_{H^s → H^{s-m}} = ‖B‖_{L2 → L2},    B = ⟨D⟩^{s-m} A ⟨D⟩^{-s},    ⟨D⟩^s f = F⁻¹[⟨ξ⟩^s f̂]

On a grid B is a real matrix and its norm the largest singular value. The method of Lanczos takes
the best combination of all iterates (BᵀB)^k v: in an orthonormal basis of them S = BᵀB is
tridiagonal, and the residual of its largest eigenvalue is the next entry beside the diagonal times
the last entry of its vector. Bᵀ comes from reverse differentiation, so any linear map on real
fields that can be differentiated will do.

From a random start the value is rarely far too small. After k steps on n numbers, with θ the
largest eigenvalue of the tridiagonal matrix (Kuczyński and Woźniakowski, SIAM J. Matrix Anal.
Appl. 13, 1992, theorem 4.2),

    P(θ < (1 - ε) ‖B‖²) <= 1.648 n^{1/2} e^{-(2k - 1) ε^{1/2}},

so θ^{1/2} / (1 - ε)^{1/2} is an upper bound with a probability of failure that can be chosen.
`pdno.theory.norm_bound` has upper bounds without one.
"""

__all__ = ["LinearMap", "NormEstimate", "bessel_potential", "operator_norm", "weigh"]

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pdno.operators.kernel import apply_values
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.spectral.fourier import Modes, inverse, transform
from pdno.spectral.grid import Grid
from pdno.symbols.base import Symbol, SymbolValues

LinearMap = Callable[[Tensor], Tensor]
Separated = PseudoDifferentialOperator | Symbol | SymbolValues


@dataclass(frozen=True)
class NormEstimate:
    """A norm, estimated from below."""

    value: float  #: ‖B v‖ / ‖v‖ for the best field v found, a lower bound of ‖B‖
    #: ‖BᵀB v - value² v‖ / (value² ‖v‖): some singular value is so near, as a share of `value`
    residual: float
    iterations: int  #: how often BᵀB was applied
    converged: bool  #: whether the residual fell below the tolerance
    size: int = 0  #: n, numbers of a field
    exhausted: bool = False  #: whether all that a random start can lead to was seen

    def upper(self, failure: float = 1e-9) -> float:
        """A bound from above that is wrong with a probability of at most `failure`.

        It is infinite after too few iterations.
        """
        if self.iterations >= self.size or self.exhausted:
            return self.value
        exponent = math.log(1.648 * math.sqrt(self.size) / failure)
        epsilon = (exponent / (2 * self.iterations - 1)) ** 2
        return self.value / math.sqrt(1 - epsilon) if epsilon < 1 else math.inf


def operator_norm(
    operator: LinearMap,
    grid: Grid,
    *,
    channels: int | None = None,
    s: float = 0.0,
    order: float = 0.0,
    iterations: int = 300,
    tolerance: float = 1e-7,
) -> NormEstimate:
    """‖A‖ from H^s to H^(s - order) on a grid, for any real s, in float64.

    The operator is linear, (B, I, *N) -> (B, O, *N), and `channels` is I, not needed for a
    `PseudoDifferentialOperator`. Iteration stops at a residual below the tolerance; the value has
    far more digits than the field.

    Example:
        >>> from pdno.symbols import Derivative
        >>> d = PseudoDifferentialOperator(Derivative((1,)))
        >>> slope = operator_norm(d, Grid((64,)), s=1.0, order=1.0).value
        >>> 6.2 < slope < 2 * torch.pi
        True
    """
    apply, inputs, device = as_linear_map(operator, grid, channels)
    start = torch.Generator().manual_seed(0)
    v = torch.randn(1, inputs, *grid.shape, dtype=torch.float64, generator=start).to(device)
    if not is_linear(apply, v):
        raise ValueError(
            "the operator is not linear; expected a linear map: leave its constant out, or take "
            "its derivative at a state (pdno.theory.lipschitz.linearise)"
        )
    weighed = weigh(apply, grid, s=s, order=order)

    def squared(field: Tensor) -> Tensor:
        with torch.enable_grad():
            given = field.reshape(v.shape).detach().requires_grad_()
            out = weighed(given)
            (back,) = torch.autograd.grad(out, given, out.detach())
        return back.flatten()

    value, residual, applied, exhausted = _largest_eigenvalue(
        squared, v.flatten(), iterations, tolerance
    )
    converged = residual <= tolerance or exhausted
    return NormEstimate(value**0.5, residual, applied, converged, v.numel(), exhausted)


def weigh(operator: LinearMap, grid: Grid, *, s: float, order: float) -> LinearMap:
    """B = ⟨D⟩^{s-m} A ⟨D⟩^{-s}, whose L2 norm is that of A from H^s to H^{s-m}."""
    return lambda f: bessel_potential(operator(bessel_potential(f, grid, -s)), grid, s - order)


def bessel_potential(f: Tensor, grid: Grid, power: float) -> Tensor:
    """⟨D⟩^power f, (..., *N) -> (..., *N)."""
    if power == 0:
        return f
    xi = grid.modes(device=f.device).to(torch.float64)
    weights = ((1 + xi.square().sum(dim=-1)) ** (power / 2)).to(f.dtype)
    return inverse(transform(f, grid.dim) * weights, grid.shape)


def as_linear_map(
    operator: LinearMap, grid: Grid, channels: int | None
) -> tuple[LinearMap, int, torch.device]:
    """The map with its symbol evaluated once, its number of channels, and where it lives."""
    device = next((weight.device for weight in _weights(operator)), torch.device("cpu"))
    if isinstance(operator, PseudoDifferentialOperator):
        return evaluated(operator, grid), operator.symbol.in_channels, device
    if channels is None:
        raise ValueError("channels is None; expected the number of input channels of the operator")
    dtypes = [
        weight.real.dtype
        for weight in _weights(operator)
        if weight.is_floating_point() or weight.is_complex()
    ]
    if not dtypes or dtypes[0] == torch.float64:
        return operator, channels, device
    # a module of another package may not take other numbers than its weights are
    return (lambda f: operator(f.to(dtypes[0])).to(f.dtype)), channels, device


def _weights(operator: LinearMap) -> list[Tensor]:
    return list(operator.parameters()) if isinstance(operator, nn.Module) else []


def evaluated(layer: PseudoDifferentialOperator, grid: Grid, t: float | None = None) -> LinearMap:
    """K on a grid in float64, its symbol evaluated once."""
    values, modes = symbol_values(layer, grid, t=t)
    return lambda f: apply_values(values, f, grid, modes, method=layer.method)


@torch.no_grad()
def symbol_values(
    symbol: Separated, grid: Grid, modes: Modes = None, t: float | None = None
) -> tuple[SymbolValues, Modes]:
    """The values of a symbol on a grid in double precision, and the modes that are kept."""
    if isinstance(symbol, PseudoDifferentialOperator):
        values, modes = symbol.values(grid, t), symbol.modes
    else:
        values = symbol if isinstance(symbol, SymbolValues) else symbol(grid, modes, t)
    space = None if values.space is None else values.space.detach().double()
    return SymbolValues(values.frequency.detach().to(torch.complex128), space), modes


def is_linear(operator: LinearMap, f: Tensor) -> bool:
    """Whether A0 = 0, A(-f) = -Af, A(2f) = 2Af and A(f + g) = Af + Ag, up to float32's rounding.

    f and g are random fields of the shape of f (1, I, *N), some of single channels.
    """
    draw = torch.Generator().manual_seed(1)
    drawn = torch.randn(3, *f.shape, dtype=torch.float64, generator=draw).to(f)
    single = torch.zeros_like(drawn[2])
    single[:, :1] = drawn[2, :, :1]
    with torch.no_grad():
        for one, two in ((drawn[0], drawn[1]), (drawn[0], single), (drawn[1].exp(), single)):
            given = [0 * one, one, -one, 2 * one, two, one + two]
            zero, at, minus, twice, other, both = operator(torch.cat(given)).chunk(6)
            faults = (zero, at + minus, twice - 2 * at, both - at - other)
            wrong = max(float(fault.abs().max()) for fault in faults)
            size = float(torch.maximum(at.abs(), other.abs()).max())
            if not wrong <= 1e-5 * size:
                return False
    return True


def _largest_eigenvalue(
    symmetric: LinearMap, start: Tensor, iterations: int, tolerance: float
) -> tuple[float, float, int, bool]:
    """θ from below, ‖S v - θ v‖ / (θ ‖v‖), how often S >= 0 was applied, and if all was seen.

    Vectors are (n,). All is seen where the next iterate has no part outside of those before.
    """
    steps = min(iterations, len(start))
    basis = start.new_empty(steps, len(start))
    basis[0] = start / start.norm()
    tridiagonal = torch.zeros(steps, steps, dtype=torch.float64)
    for step in range(steps):
        w = symmetric(basis[step])
        tridiagonal[step, step] = float(w @ basis[step])
        for _ in range(2):  # once loses digits
            w = w - basis[: step + 1].T @ (basis[: step + 1] @ w)
        length = float(w.norm())
        eigenvalues, vectors = torch.linalg.eigh(tridiagonal[: step + 1, : step + 1])
        value = max(float(eigenvalues[-1]), 0.0)
        residual = length * abs(float(vectors[-1, -1])) / value if value > 0 else 0.0
        exhausted = length <= 1e-12 * value
        if residual <= tolerance or exhausted or step + 1 == steps:
            break
        tridiagonal[step, step + 1] = tridiagonal[step + 1, step] = length
        basis[step + 1] = w / length
    return value, residual, step + 1, exhausted
