"""Proven upper bounds of the norm H^s -> H^{s-m} of K = Σ_r b_r(x) ∘ c_r(D) + W on a grid.

Let m_r(ξ) be the multiplier that acts (`pdno.theory.hermitian`), μ_r(ξ) = ⟨ξ⟩^{-m} m_r(ξ), and
σ = s - m. Then B = ⟨D⟩^σ K ⟨D⟩^{-s} has the blocks, from mode ξ to mode ξ' = ξ + η modulo N,

    B(ξ', ξ) = ⟨ξ'⟩^σ ⟨ξ⟩^{-σ} (b̂ ∘ μ)(η, ξ),    (b̂ ∘ μ)(η, ξ)_ji = Σ_r b̂_rji(η) μ_rji(ξ),

a finite matrix, so nothing here is asymptotic. The blocks of η = 0 make a multiplier, the *mean*:
its norm is sup_ξ ‖(b̂ ∘ μ)(0, ξ) + W ⟨ξ⟩^{-m}‖₂. The rest of them are bounded by (proofs in
docs/theory_operators.md)

    factors   sup_x |b(x)| · sup_ξ |μ(ξ)| in the norms of `factors`, for σ = 0;
    Schur     (max_ξ' Σ_ξ β · max_ξ Σ_ξ' β)^{1/2} for numbers β(ξ', ξ) >= ‖B(ξ', ξ)‖₂;
    change    factors for σ = 0, and Schur for the difference B(ξ', ξ) (1 - ⟨ξ'⟩^{-σ} ⟨ξ⟩^σ);
    Peetre    Σ_η 2^{|σ|/2} ⟨η⟩^{|σ|} sup_ξ ‖(b̂ ∘ μ)(η, ξ)‖₂, where pairs (ξ', ξ) are too many.

Each is a bound, so the smallest is one. They are exact up to the rounding of float64.
"""

__all__ = ["NormBound", "norm_bound"]

from dataclasses import dataclass

import torch
from torch import Tensor

from pdno.fourier import Modes
from pdno.grid import Grid
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.symbols.base import Symbol, SymbolValues
from pdno.theory.block_bounds import Separated, factors, peetre, schur, separate, spectral
from pdno.theory.sobolev import in_double

PAIRS = 2**26
"""Pairs of modes up to which Schur's bound is computed."""


@dataclass(frozen=True)
class NormBound:
    """The smallest of several upper bounds.

    Arguments:
        value: It.
        reason: Which one it is.
        all: Every bound by its name.
    """

    value: float
    reason: str
    all: dict[str, float]


def norm_bound(
    operator: PseudoDifferentialOperator | Symbol | SymbolValues,
    grid: Grid,
    *,
    s: float = 0.0,
    order: float = 0.0,
    modes: Modes = None,
    local: Tensor | None = None,
    t: float | None = None,
) -> NormBound:
    """An upper bound of ‖K + W‖ from H^s to H^(s - order) on a grid.

    Arguments:
        operator: K, or its symbol, or the values of that on this grid.
        grid: Where it acts.
        s: Of the space it acts on, any real number.
        order: m; the values lie in H^(s - m).
        modes: Kept modes of a symbol; an operator knows its own.
        local: W, a matrix (O, I), for a whole block of a neural operator.
        t: Time, for symbols that depend on it.

    Example:
        >>> from pdno.symbols import Derivative
        >>> norm_bound(Derivative((1,)), Grid((64,)), s=1.0, order=1.0).value < 2 * torch.pi
        True
    """
    with torch.no_grad():
        if isinstance(operator, PseudoDifferentialOperator):
            values, modes = operator.values(grid, t), operator.modes
        else:
            values = operator if isinstance(operator, SymbolValues) else operator(grid, modes, t)
        parts = separate(in_double(values), grid, modes, order, local)
        bounds = _all_bounds(parts, s - order)
    reason = min(bounds, key=bounds.__getitem__)
    return NormBound(bounds[reason], reason, bounds)


def _all_bounds(parts: Separated, sigma: float) -> dict[str, float]:
    """Every bound; where nothing depends on x the mean is the operator."""
    mean = spectral(parts.mean)
    top = float(mean.max())
    if not bool(parts.b.any()):
        return {"multiplier": top}
    whole = factors(parts.b_whole, parts.mu) + float(spectral(parts.local).max())
    rest = top + factors(parts.b, parts.mu)
    if parts.grid.size**2 > PAIRS:
        if sigma == 0:
            return {"factors": whole, "mean and factors": rest}
        return {"mean and Peetre": top + peetre(parts, sigma)}
    apart, joined, change = schur(parts, mean, sigma)
    return {
        "Schur": joined,
        "mean and Schur": top + apart,
        "factors and change": whole + change,
        "mean, factors and change": rest + change,
    }
