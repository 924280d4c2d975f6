"""Proven upper bounds of the norm H^s -> H^{s-m} of K = Σ_r b_r(x) ∘ c_r(D) + W on a grid.

On a grid B = ⟨D⟩^{s-m} K ⟨D⟩^{-s} is a finite matrix of blocks B(ξ', ξ), from mode ξ to mode
ξ' = ξ + η modulo N. Those of η = 0 make a multiplier, the *mean*. With the multiplier m_r(ξ) that
acts (`pdno.spectral.fourier.whole_spectrum`), μ_r(ξ) = ⟨ξ⟩^{-m} m_r(ξ), and σ = s - m, the rest has bounds

    factors   sup_x |b(x)| · sup_ξ |μ(ξ)| in the norms of `_factors`, for σ = 0;
    Schur     (max_ξ' Σ_ξ β · max_ξ Σ_ξ' β)^{1/2} for numbers β(ξ', ξ) >= ‖B(ξ', ξ)‖₂;
    change    factors for σ = 0, and Schur for the difference B(ξ', ξ) (1 - ⟨ξ'⟩^{-σ} ⟨ξ⟩^σ);
    Peetre    Σ_η 2^{|σ|/2} ⟨η⟩^{|σ|} sup_ξ ‖(b̂ ∘ μ)(η, ξ)‖₂.

Where pairs (ξ', ξ) are too many, those of the largest b̂(η) are in Schur's sums and the rest of η
in Peetre's.

Each is a bound (proofs in docs/theory_operators.md), exact up to rounding, and so is the smallest.
"""

__all__ = ["NormBound", "norm_bound"]

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from pdno.spectral.fourier import Modes, transform, whole_spectrum
from pdno.spectral.grid import Grid
from pdno.symbols.base import SymbolValues
from pdno.theory.sobolev import Separated, symbol_values

PAIRS = 2**26  # of modes, up to which Schur's bound is computed
PAIRS_AT_ONCE = 2**21


@dataclass(frozen=True)
class NormBound:
    """The smallest of several upper bounds, which one it is, and every bound by its name."""

    value: float
    reason: str
    all: dict[str, float]


def norm_bound(
    operator: Separated,
    grid: Grid,
    *,
    s: float = 0.0,
    order: float = 0.0,
    modes: Modes = None,
    local: Tensor | None = None,
    t: float | None = None,
) -> NormBound:
    """An upper bound of ‖K + W‖ from H^s to H^(s - order) on a grid, for any real s.

    K is an operator, or its symbol with kept `modes`, or the values of that on this grid; W is the
    matrix `local`, (O, I), for a whole block of a neural operator.

    Example:
        >>> from pdno.symbols import Derivative
        >>> norm_bound(Derivative((1,)), Grid((64,)), s=1.0, order=1.0).value < 2 * torch.pi
        True
    """
    values, modes = symbol_values(operator, grid, modes, t)
    with torch.no_grad():
        bounds = _Parts(values, grid, modes, order, local).bounds(s - order)
    reason = min(bounds, key=bounds.__getitem__)
    return NormBound(bounds[reason], reason, bounds)


class _Parts:
    """The operator in parts.

    b_whole, b         b(x) with and without its mean, (R, O or 1, I or 1, *N)
    b_hat              coefficients of b on all modes, (R, O or 1, I or 1, |N|)
    mu                 μ(ξ) on all modes, (R, O, I, |N|)
    mean, local        the blocks of η = 0, W included, and W ⟨ξ⟩^{-m}, (|N|, O, I)
    brackets           ⟨ξ⟩ on all modes, (|N|)
    """

    def __init__(
        self, values: SymbolValues, grid: Grid, modes: Modes, order: float, local: Tensor | None
    ) -> None:
        c, b = values.frequency, values.space
        if c.dim() != 3 + grid.dim:
            raise ValueError("a symbol with one time per sample: bound it at one time")
        xi = grid.modes(half=False, device=c.device).to(torch.float64)
        self.grid, self.brackets = grid, (1 + xi.square().sum(dim=-1)).sqrt().flatten()
        weights = self.brackets**-order
        self.mu = (whole_spectrum(c, grid, modes) * weights.reshape(grid.shape)).flatten(3)
        self.b_whole = c.real.new_ones(len(c), 1, 1, *grid.shape) if b is None else b
        average = self.b_whole.flatten(3).mean(dim=-1)
        mean = (average[..., None] * self.mu).sum(dim=0).permute(2, 0, 1)
        w = torch.zeros_like(mean[0]) if local is None else local.detach().to(mean)
        self.local = weights.reshape(-1, 1, 1) * w
        self.mean = mean + self.local
        self.b = self.b_whole - average.reshape(*average.shape, *[1] * grid.dim)
        self.b_hat = whole_spectrum(transform(self.b, grid.dim), grid).flatten(3)

    def bounds(self, sigma: float) -> dict[str, float]:
        """Every bound; where nothing depends on x the mean is the operator."""
        mean = _spectral(self.mean)
        top = float(mean.max())
        if not bool(self.b.any()):
            return {"multiplier": top}
        whole = _factors(self.b_whole, self.mu) + float(_spectral(self.local).max())
        rest = top + _factors(self.b, self.mu)
        # what each η can add at most; all but the largest are bounded by that
        each = self._peetre(sigma)
        order, count = each.argsort(descending=True), PAIRS // self.grid.size
        left = float(each[order[count:]].sum())
        apart, joined, change = self._schur(mean, sigma, order[:count])
        change += left if sigma else 0.0  # |⟨ξ'⟩^σ ⟨ξ⟩^{-σ} - 1| is at most 1, or that power
        peetre = " and Peetre" if left else ""
        return {
            "Schur" + peetre: joined + left,
            "mean and Schur" + peetre: top + apart + left,
            "factors and change" + (peetre if sigma else ""): whole + change,
            "mean, factors and change" + (peetre if sigma else ""): rest + change,
        }

    def _schur(self, mean: Tensor, sigma: float, eta: Tensor) -> tuple[float, float, float]:
        """Schur's bound of blocks of some η ≠ 0, with those of 0, and of the change by weights.

        η are places among all modes of the FFT.
        """
        grid, size = self.grid, self.grid.size
        index = torch.arange(size, device=self.mu.device).reshape(grid.shape)
        sums = self.mu.real.new_zeros(2, 2, size)  # blocks and change, by ξ' and by ξ
        products, step = _products(self.b_hat.abs(), self.mu), max(1, PAIRS_AT_ONCE // size)
        shifts = list(itertools.product(*[range(0, -n, -1) for n in grid.shape]))
        axes = tuple(range(grid.dim))
        for some in torch.split(eta, step) if len(eta) else ():
            # from ξ to ξ' = ξ + η modulo N, for some η and all ξ
            moved = [index.roll(shifts[place], axes).flatten() for place in some.tolist()]
            to = torch.stack(moved)
            ratio = (self.brackets[to] / self.brackets) ** sigma
            beta = self._block_norms(products, some)
            for row, weighed in enumerate((ratio * beta, (ratio - 1).abs() * beta)):
                sums[row, 0].index_add_(0, to.flatten(), weighed.flatten())
                sums[row, 1] += weighed.sum(dim=0)
        most = sums.amax(dim=-1).prod(dim=-1).sqrt()
        joined = (sums[0] + mean).amax(dim=-1).prod().sqrt()
        return float(most[0]), float(joined), float(most[1])

    def _block_norms(self, products: list[tuple[Tensor, Tensor]], some: Tensor) -> Tensor:
        """β(η, ξ) >= ‖(b̂ ∘ μ)(η, ξ)‖₂ for some η and all ξ: the smallest of a few, (P, |N|)."""
        b_squared = self.b_hat[..., some].abs().square()
        # Frobenius, term by term; where b is the same for all i or j, they are summed in μ²
        alike = [axis for axis in (1, 2) if self.b.shape[axis] == 1]
        squares = self.mu.abs().square()
        squares = squares.sum(dim=alike, keepdim=True) if alike else squares
        terms = zip(b_squared.flatten(1, 2), squares.flatten(1, 2), strict=True)
        beta = torch.as_tensor(sum((b.T @ m).sqrt() for b, m in terms))
        for of_eta, of_xi in products:
            beta = torch.minimum(beta, of_eta[some] @ of_xi)
        return beta

    def _peetre(self, sigma: float) -> Tensor:
        """2^{|σ|/2} ⟨η⟩^{|σ|} sup_ξ β(η, ξ) for every η, (|N|)."""
        weights = (2**0.5 * self.brackets) ** abs(sigma)
        products = _products(self.b_hat.abs(), self.mu)
        sums = [(of_eta * of_xi.amax(dim=1)).sum(dim=1) for of_eta, of_xi in products]
        return weights * torch.stack(sums).amin(dim=0)


def _factors(b: Tensor, mu: Tensor) -> float:
    """The least bound in L2 by sup_x of b and sup_ξ of μ: of entries (j, i) or of `_products`."""
    flat = b.flatten(3).abs()
    entries = (flat.amax(dim=-1) * mu.abs().amax(dim=-1)).sum(dim=0)
    apart = [(of_b.amax(dim=0) * of_mu.amax(dim=1)).sum() for of_b, of_mu in _products(flat, mu)]
    return float(torch.stack([_spectral(entries), *apart]).min())


def _products(b: Tensor, mu: Tensor) -> list[tuple[Tensor, Tensor]]:
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


def _spectral(matrices: Tensor) -> Tensor:
    """Largest singular values, (..., O, I) -> (...)."""
    norms: Tensor = torch.linalg.matrix_norm(matrices, 2)
    return norms
