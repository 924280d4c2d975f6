"""Proven upper bounds of the norm H^s -> H^{s-m} of K = Σ_r b_r(x) ∘ c_r(D) + W on a grid.

Let m_r(ξ) be the multiplier that acts (`pdno.fourier.whole_spectrum`), μ_r(ξ) = ⟨ξ⟩^{-m} m_r(ξ),
and σ = s - m. Then B = ⟨D⟩^σ K ⟨D⟩^{-s} has the blocks, from mode ξ to mode ξ' = ξ + η modulo N,

    B(ξ', ξ) = ⟨ξ'⟩^σ ⟨ξ⟩^{-σ} (b̂ ∘ μ)(η, ξ),    (b̂ ∘ μ)(η, ξ)_ji = Σ_r b̂_rji(η) μ_rji(ξ),

a finite matrix, so nothing here is asymptotic. The blocks of η = 0 make a multiplier, the *mean*:
its norm is sup_ξ ‖(b̂ ∘ μ)(0, ξ) + W ⟨ξ⟩^{-m}‖₂. The rest of them are bounded by (proofs in
docs/theory_operators.md)

    factors   sup_x |b(x)| · sup_ξ |μ(ξ)| in the norms of `_factors`, for σ = 0;
    Schur     (max_ξ' Σ_ξ β · max_ξ Σ_ξ' β)^{1/2} for numbers β(ξ', ξ) >= ‖B(ξ', ξ)‖₂;
    change    factors for σ = 0, and Schur for the difference B(ξ', ξ) (1 - ⟨ξ'⟩^{-σ} ⟨ξ⟩^σ);
    Peetre    Σ_η 2^{|σ|/2} ⟨η⟩^{|σ|} sup_ξ ‖(b̂ ∘ μ)(η, ξ)‖₂, where pairs (ξ', ξ) are too many.

Each is a bound, so the smallest is one. They are exact up to the rounding of float64.
"""

__all__ = ["NormBound", "norm_bound"]

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from pdno.fourier import Modes, transform, whole_spectrum
from pdno.grid import Grid
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.symbols.base import Symbol, SymbolValues
from pdno.theory.sobolev import in_double

Products = list[tuple[Tensor, Tensor]]

PAIRS = 2**26
"""Pairs of modes up to which Schur's bound is computed."""
PAIRS_AT_ONCE = 2**21


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


@dataclass(frozen=True)
class _Parts:
    """The operator in parts.

    Arguments:
        grid: Where it acts.
        b: b(x) without its mean, (R, O or 1, I or 1, *N).
        b_whole: b(x) with it.
        b_hat: Coefficients of `b` on all modes, (R, O or 1, I or 1, |N|).
        mu: μ(ξ) on all modes, (R, O, I, |N|).
        mean: The blocks of η = 0, W included, (|N|, O, I).
        local: W ⟨ξ⟩^{-m}, (|N|, O, I).
    """

    grid: Grid
    b: Tensor
    b_whole: Tensor
    b_hat: Tensor
    mu: Tensor
    mean: Tensor
    local: Tensor


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
        parts = _separate(in_double(values), grid, modes, order, local)
        bounds = _all_bounds(parts, s - order)
    reason = min(bounds, key=bounds.__getitem__)
    return NormBound(bounds[reason], reason, bounds)


def _all_bounds(parts: _Parts, sigma: float) -> dict[str, float]:
    """Every bound; where nothing depends on x the mean is the operator."""
    mean = _spectral(parts.mean)
    top = float(mean.max())
    if not bool(parts.b.any()):
        return {"multiplier": top}
    whole = _factors(parts.b_whole, parts.mu) + float(_spectral(parts.local).max())
    rest = top + _factors(parts.b, parts.mu)
    if parts.grid.size**2 > PAIRS:
        if sigma == 0:
            return {"factors": whole, "mean and factors": rest}
        return {"mean and Peetre": top + _peetre(parts, sigma)}
    apart, joined, change = _schur(parts, mean, sigma)
    return {
        "Schur": joined,
        "mean and Schur": top + apart,
        "factors and change": whole + change,
        "mean, factors and change": rest + change,
    }


def _separate(
    values: SymbolValues, grid: Grid, modes: Modes, order: float, local: Tensor | None
) -> _Parts:
    """The parts of K + W for values of its symbol on a grid and kept modes."""
    c, b = values.frequency, values.space
    if c.dim() != 3 + grid.dim:
        raise ValueError("a symbol with one time per sample: bound it at one time")
    weights = _brackets(grid, c.device) ** -order
    mu = (whole_spectrum(c, grid, modes) * weights.reshape(grid.shape)).flatten(3)
    shape = (len(c), 1, 1, *grid.shape)
    b = torch.ones(shape, dtype=torch.float64, device=c.device) if b is None else b
    average = b.flatten(3).mean(dim=-1)
    mean = (average[..., None] * mu).sum(dim=0).permute(2, 0, 1)
    w = torch.zeros_like(mean[0]) if local is None else local.detach().to(mean)
    w_at = weights.reshape(-1, 1, 1) * w
    rest = b - average.reshape(*average.shape, *[1] * grid.dim)
    b_hat = whole_spectrum(transform(rest, grid.dim), grid).flatten(3)
    return _Parts(grid, rest, b, b_hat, mu, mean + w_at, w_at)


def _factors(b: Tensor, mu: Tensor) -> float:
    """The smallest of a few bounds in L2 that take b(x) and μ(ξ) apart.

    Entries: ‖(Σ_r sup_x |b_rji| sup_ξ |μ_rji|)_ji‖₂; else sup_x of b times sup_ξ of μ in the norms
    of `_products`.
    """
    flat = b.flatten(3).abs()
    entries = (flat.amax(dim=-1) * mu.abs().amax(dim=-1)).sum(dim=0)
    apart = [(of_b.amax(dim=0) * of_mu.amax(dim=1)).sum() for of_b, of_mu in _products(flat, mu)]
    return float(torch.stack([_spectral(entries), *apart]).min())


def _schur(parts: _Parts, mean: Tensor, sigma: float) -> tuple[float, float, float]:
    """Schur's bound of the blocks η ≠ 0, of all blocks, and of the change by the weights."""
    grid, size = parts.grid, parts.grid.size
    brackets = _brackets(grid, parts.mu.device)
    index = torch.arange(size, device=parts.mu.device).reshape(grid.shape)
    sums = parts.mu.real.new_zeros(2, 2, size)  # blocks and change, by ξ' and by ξ
    products, step = _products(parts.b_hat.abs(), parts.mu), max(1, PAIRS_AT_ONCE // size)
    shifts = list(itertools.product(*[range(0, -n, -1) for n in grid.shape]))
    axes = tuple(range(grid.dim))
    for start in range(0, size, step):
        some = slice(start, min(start + step, size))
        # from ξ to ξ' = ξ + η modulo N, for some η and all ξ
        to = torch.stack([index.roll(shift, axes).flatten() for shift in shifts[some]])
        ratio = (brackets[to] / brackets) ** sigma
        beta = _block_norms(parts, products, some)
        for row, weighed in enumerate((ratio * beta, (ratio - 1).abs() * beta)):
            sums[row, 0].index_add_(0, to.flatten(), weighed.flatten())
            sums[row, 1] += weighed.sum(dim=0)
    most = sums.amax(dim=-1).prod(dim=-1).sqrt()
    joined = (sums[0] + mean).amax(dim=-1).prod().sqrt()
    return float(most[0]), float(joined), float(most[1])


def _block_norms(parts: _Parts, products: Products, some: slice) -> Tensor:
    """β(η, ξ) >= ‖(b̂ ∘ μ)(η, ξ)‖₂ for some η and all ξ: the smallest of a few, (P, |N|)."""
    b_squared = parts.b_hat[..., some].abs().square()
    # Frobenius, term by term; where b is the same for all i or j, the sum over them is one of μ²
    alike = [axis for axis in (1, 2) if parts.b.shape[axis] == 1]
    squares = parts.mu.abs().square()
    squares = squares.sum(dim=alike, keepdim=True) if alike else squares
    frobenius = sum(
        (b.flatten(0, 1).T @ m.flatten(0, 1)).sqrt()
        for b, m in zip(b_squared, squares, strict=True)
    )
    beta = torch.as_tensor(frobenius)
    for of_eta, of_xi in products:
        beta = torch.minimum(beta, of_eta[some] @ of_xi)
    return beta


def _products(b: Tensor, mu: Tensor) -> Products:
    """Matrices (|N|, Q) of |b| and (Q, |N|) of μ, products of which bound ‖b(·) ∘ μ(·)‖₂.

    Rows and columns: max_j (Σ_ri b_rji²)^{1/2} · max_i (Σ_rj |μ_rji|²)^{1/2}. Where b does not
    depend on i there are instead max_j (Σ_r b_rj²)^{1/2} · ‖(μ_1; ...; μ_R)‖₂ and
    Σ_r max_j |b_rj| · ‖μ_r‖₂.
    """
    rows = b.square().sum(dim=(0, 2)).amax(dim=0).sqrt()
    if b.shape[2] > 1:
        columns = mu.abs().square().sum(dim=(0, 1)).amax(dim=0).sqrt()
        return [(rows[:, None], columns[None])]
    terms = _spectral(mu.permute(0, 3, 1, 2))
    stacked = _spectral(mu.permute(3, 0, 1, 2).flatten(1, 2))
    return [(b.amax(dim=(1, 2)).T, terms), (rows[:, None], stacked[None])]


def _peetre(parts: _Parts, sigma: float) -> float:
    """Σ_η 2^{|σ|/2} ⟨η⟩^{|σ|} sup_ξ β(η, ξ)."""
    weights = (2**0.5 * _brackets(parts.grid, parts.mu.device)) ** abs(sigma)
    products = _products(parts.b_hat.abs(), parts.mu)
    sums = [(of_eta * of_xi.amax(dim=1)).sum(dim=1) @ weights for of_eta, of_xi in products]
    return float(torch.stack(sums).min())


def _brackets(grid: Grid, device: torch.device) -> Tensor:
    """⟨ξ⟩ on all modes, (|N|)."""
    xi = grid.modes(half=False, device=device).to(torch.float64)
    return (1 + xi.square().sum(dim=-1)).sqrt().flatten()


def _spectral(matrices: Tensor) -> Tensor:
    """Largest singular values, (..., O, I) -> (...)."""
    norms: Tensor = torch.linalg.matrix_norm(matrices, 2)
    return norms
