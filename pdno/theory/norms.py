"""Norms of linear operators between Sobolev spaces: lower estimates, proved upper bounds.

    ‖A‖_{H^s → H^{s-m}} = ‖B‖_{L2 → L2},    B = ⟨D⟩^{s-m} A ⟨D⟩^{-s},    ⟨D⟩^s f = F⁻¹[⟨ξ⟩^s f̂]

`operator_norm` is for any linear map that can be differentiated, `norm_bound` for operators with
separated symbols. The proofs are in docs/theory_operators.md.
"""

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pdno.operators.kernel import apply_values
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.spectral.fourier import Modes, inverse, transform, whole_spectrum
from pdno.spectral.grid import Grid
from pdno.symbols.base import Symbol, SymbolValues

LinearMap = Callable[[Tensor], Tensor]
Separated = PseudoDifferentialOperator | Symbol | SymbolValues
MODE_PAIRS = 2**26  # of modes, up to which Schur's bound is computed
MODE_PAIRS_AT_ONCE = 2**21
ROUNDING = 1 + 1e-12  # of float64 in the iteration


# ---- From below ----


@dataclass(frozen=True)
class NormEstimate:
    """A norm, estimated from below by Lanczos' iteration."""

    value: float  #: ‖B v‖ / ‖v‖ for the best field v of the iteration, a lower bound of ‖B‖
    #: ‖BᵀB v - value² v‖ / (value² ‖v‖): some singular value is so near, as a share of `value`
    residual: float
    iterations: int  #: how often BᵀB was applied
    converged: bool  #: whether the residual fell below the tolerance
    size: int = 0  #: n, numbers of a field
    exhausted: bool = False  #: whether the iterates span all that the random start can reach

    def upper(self, failure: float = 1e-9) -> float:
        """A bound from above that is wrong with a probability of at most `failure`.

        After k steps on n numbers, with θ = value² (Kuczyński and Woźniakowski, SIAM J. Matrix
        Anal. Appl. 13, 1992, theorem 4.2),

            P(θ < (1 - ε) ‖B‖²) <= 1.648 n^{1/2} e^{-(2k - 1) ε^{1/2}}.

        The probability is that of the start, for an operator which was chosen without knowing it:
        some operators hide their norm from a start that is known. The bound is infinite after too
        few iterations.
        """
        if self.iterations >= self.size or self.exhausted:
            return self.value * ROUNDING
        exponent = math.log(1.648 * math.sqrt(self.size) / failure)
        epsilon = (exponent / (2 * self.iterations - 1)) ** 2
        return self.value * ROUNDING / math.sqrt(1 - epsilon) if epsilon < 1 else math.inf


def operator_norm(
    operator: LinearMap,
    grid: Grid,
    *,
    channels: int | None = None,
    s: float = 0.0,
    order: float = 0.0,
    iterations: int = 300,
    tolerance: float = 1e-7,
    generator: torch.Generator | None = None,
) -> NormEstimate:
    """‖A‖ from H^s to H^(s - order) on a grid, for any real s, in float64.

    The operator is linear, (B, I, *N) -> (B, O, *N), and `channels` is I, not needed for a
    `PseudoDifferentialOperator`. Iteration stops at a residual below the tolerance; the value has
    far more digits than the field. The generator draws the start; without one it is another in
    each call.

    Example:
        >>> from pdno.symbols import Derivative
        >>> d = PseudoDifferentialOperator(Derivative((1,)))
        >>> slope = operator_norm(d, Grid((64,)), s=1.0, order=1.0).value
        >>> 6.2 < slope < 2 * torch.pi
        True
    """
    apply, like = as_linear_map(operator, grid, channels)
    generator = fresh_generator() if generator is None else generator
    v = torch.randn(like.shape, dtype=torch.float64, generator=generator).to(like.device)
    weighed = weigh(apply, grid, s=s, order=order)

    def squared(field: Tensor) -> Tensor:
        with torch.enable_grad():
            inputs = field.reshape(v.shape).detach().requires_grad_()
            out = weighed(inputs)
            (back,) = torch.autograd.grad(out, inputs, out.detach())
        return back.flatten()

    return _lanczos(squared, v.flatten(), iterations, tolerance)


def fresh_generator() -> torch.Generator:
    """A generator with a fresh random seed."""
    generator = torch.Generator()
    generator.seed()
    return generator


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
) -> tuple[LinearMap, Tensor]:
    """The map with its symbol evaluated once, and a field that is 0; ValueError if not linear."""
    weights = list(operator.parameters()) if isinstance(operator, nn.Module) else []
    dtype = next((w.real.dtype for w in weights if w.is_floating_point() or w.is_complex()), None)
    apply = operator
    if isinstance(operator, PseudoDifferentialOperator):
        apply, channels = evaluated(operator, grid), operator.symbol.in_channels
    elif dtype not in (None, torch.float64):
        # a module of another package may only take the precision of its weights
        def apply(f: Tensor) -> Tensor:
            return operator(f.to(dtype)).to(f.dtype)

    if channels is None:
        raise ValueError("channels is None; expected the number of input channels of the operator")
    device = weights[0].device if weights else torch.device("cpu")
    zero = torch.zeros(1, channels, *grid.shape, dtype=torch.float64, device=device)
    if not is_linear(apply, zero):
        raise ValueError(
            "the operator is not linear: give a state to `extract_symbol`; expected a linear map, "
            "such as its derivative at a state (pdno.theory.lipschitz.linearise)"
        )
    return apply, zero


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
        values, modes = symbol.values(grid, t), symbol.modes_on(grid)
    else:
        values = symbol if isinstance(symbol, SymbolValues) else symbol(grid, modes, t)
    space = None if values.space is None else values.space.detach().double()
    return SymbolValues(values.frequency.detach().to(torch.complex128), space), modes


def is_linear(operator: LinearMap, f: Tensor) -> bool:
    """Whether A0 = 0, A(-f) = -Af, A(2f) = 2Af and A(f + g) = Af + Ag, up to float32's rounding.

    f and g are random fields of the shape of f (1, I, *N), some of single channels.
    """
    generator = torch.Generator().manual_seed(1)
    f, g, h = torch.randn(3, *f.shape, dtype=torch.float64, generator=generator).to(f)
    single = torch.cat([h[:, :1], torch.zeros_like(h[:, 1:])], dim=1)
    for one, two in ((f, g), (f, single), (g.exp(), single)):
        with torch.no_grad():
            parts = operator(torch.cat([0 * one, one, -one, 2 * one, two, one + two])).chunk(6)
        zero, first, minus, twice, second, both = parts
        faults = torch.stack([zero, first + minus, twice - 2 * first, both - first - second])
        if not faults.abs().max() <= 1e-5 * torch.maximum(first.abs(), second.abs()).max():
            return False
    return True


def _lanczos(
    symmetric: LinearMap, start: Tensor, iterations: int, tolerance: float
) -> NormEstimate:
    """The root of the largest eigenvalue of S = BᵀB on vectors (n,), from below.

    In an orthonormal basis of the S^k v it is tridiagonal; the residual of its largest eigenvalue
    is the next entry beside the diagonal times the last of its vector.
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
    converged = residual <= tolerance or exhausted
    return NormEstimate(value**0.5, residual, step + 1, converged, len(start), exhausted)


# ---- From above ----


@dataclass(frozen=True)
class NormBound:
    """The smallest of several upper bounds, which one it is, and every bound by its name."""

    value: float
    reason: str
    all: dict[str, float]


@torch.no_grad()
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
    """An upper bound of ‖K + W‖ from H^s to H^(s - order) on a grid, exact up to rounding.

    K is an operator, or its symbol with kept `modes`, or the values of that on this grid; W is the
    matrix `local`, (O, I), for a whole block of a neural operator.

    Example:
        >>> from pdno.symbols import Derivative
        >>> norm_bound(Derivative((1,)), Grid((64,)), s=1.0, order=1.0).value < 2 * torch.pi
        True
    """
    values, modes = symbol_values(operator, grid, modes, t)
    bounds = _Blocks(values, grid, modes, order, local).bounds(s - order)
    reason = min(bounds, key=bounds.__getitem__)
    return NormBound(bounds[reason], reason, bounds)


class _Blocks:
    """B as a matrix of blocks B(ξ', ξ), from mode ξ to ξ' = ξ + η modulo N, with σ = s - m.

    Those of η = 0 make a multiplier, the *mean*; μ_r(ξ) is the one that acts times ⟨ξ⟩^{-m}.
    docs/theory_operators.md derives the bounds by factors, Schur, change of weights and Peetre.
    """

    def __init__(
        self, values: SymbolValues, grid: Grid, modes: Modes, order: float, local: Tensor | None
    ) -> None:
        c, b = values.frequency, values.space
        if c.dim() != 3 + grid.dim:
            raise ValueError("a symbol with one time per sample: bound it at one time")
        xi = grid.modes(half=False, device=c.device).to(torch.float64)
        self.grid, self.brackets = grid, (1 + xi.square().sum(dim=-1)).sqrt().flatten()  # ⟨ξ⟩
        weights = self.brackets**-order
        # μ(ξ) on all modes, (R, O, I, |N|), and b(x), (R, O or 1, I or 1, *N)
        self.mu = (whole_spectrum(c, grid, modes) * weights.reshape(grid.shape)).flatten(3)
        self.b_whole = c.real.new_ones(len(c), 1, 1, *grid.shape) if b is None else b
        average = self.b_whole.flatten(3).mean(dim=-1)
        mean = (average[..., None] * self.mu).sum(dim=0).permute(2, 0, 1)
        w = torch.zeros_like(mean[0]) if local is None else local.detach().to(mean)
        self.local = weights.reshape(-1, 1, 1) * w  # W ⟨ξ⟩^{-m}, (|N|, O, I)
        self.mean = mean + self.local  # the blocks of η = 0
        self.b = self.b_whole - average.reshape(*average.shape, *[1] * grid.dim)
        self.b_hat = whole_spectrum(transform(self.b, grid.dim), grid).flatten(3)
        self.products = _products(self.b_hat.abs(), self.mu)

    def bounds(self, sigma: float) -> dict[str, float]:
        """Every bound; where nothing depends on x the mean is the operator."""
        mean = spectral_norms(self.mean)
        top = float(mean.max())
        if not bool(self.b.any()):
            return {"multiplier": top}
        whole = _factors(self.b_whole, self.mu) + float(spectral_norms(self.local).max())
        rest = top + _factors(self.b, self.mu)
        # what each η can add at most (Peetre); all but the largest are bounded by that
        weights = (2**0.5 * self.brackets) ** abs(sigma)
        sums = [(of_eta * of_xi.amax(dim=1)).sum(dim=1) for of_eta, of_xi in self.products]
        each = weights * torch.stack(sums).amin(dim=0)
        order, count = each.argsort(descending=True), MODE_PAIRS // self.grid.size
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

        η are indices of modes of the FFT.
        """
        grid, size = self.grid, self.grid.size
        index = torch.arange(size, device=self.mu.device).reshape(grid.shape)
        sums = self.mu.real.new_zeros(2, 2, size)  # blocks and change, by ξ' and by ξ
        shifts = list(itertools.product(*[range(0, -n, -1) for n in grid.shape]))
        axes = tuple(range(grid.dim))
        for chunk in torch.split(eta, max(1, MODE_PAIRS_AT_ONCE // size)) if len(eta) else ():
            # from ξ to ξ' = ξ + η modulo N, for some η and all ξ
            to = torch.stack([index.roll(shifts[k], axes).flatten() for k in chunk.tolist()])
            ratio = (self.brackets[to] / self.brackets) ** sigma
            beta = self._block_norms(chunk)
            for row, weighed in enumerate((ratio * beta, (ratio - 1).abs() * beta)):
                sums[row, 0].index_add_(0, to.flatten(), weighed.flatten())
                sums[row, 1] += weighed.sum(dim=0)
        most = sums.amax(dim=-1).prod(dim=-1).sqrt()
        joined = (sums[0] + mean).amax(dim=-1).prod().sqrt()
        return float(most[0]), float(joined), float(most[1])

    def _block_norms(self, eta: Tensor) -> Tensor:
        """β(η, ξ) >= ‖(b̂ ∘ μ)(η, ξ)‖₂ for some η and all ξ: the smallest of a few, (P, |N|)."""
        # Frobenius, term by term; where b is the same for all i or j, they are summed in μ²
        alike = [axis for axis in (1, 2) if self.b.shape[axis] == 1]
        squares = self.mu.abs().square()
        squares = squares.sum(dim=alike, keepdim=True) if alike else squares
        b_squared = self.b_hat[..., eta].abs().square()
        terms = zip(b_squared.flatten(1, 2), squares.flatten(1, 2), strict=True)
        sums = [torch.as_tensor(sum((b.T @ m).sqrt() for b, m in terms))]
        sums += [of_eta[eta] @ of_xi for of_eta, of_xi in self.products]
        return functools.reduce(torch.minimum, sums)


def _factors(b: Tensor, mu: Tensor) -> float:
    """The least bound in L2 by sup_x of b and sup_ξ of μ: of entries (j, i) or of `_products`."""
    flat = b.flatten(3).abs()
    entries = (flat.amax(dim=-1) * mu.abs().amax(dim=-1)).sum(dim=0)
    apart = [(of_b.amax(dim=0) * of_mu.amax(dim=1)).sum() for of_b, of_mu in _products(flat, mu)]
    return float(torch.stack([spectral_norms(entries), *apart]).min())


def _products(b: Tensor, mu: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Matrices (|N|, Q) of |b| and (Q, |N|) of μ, products of which bound ‖b(·) ∘ μ(·)‖₂.

    Rows and columns; if b is the same for all i, Σ_r max_j |b_rj| ‖μ_r‖₂, and the norm of all μ_r.
    """
    rows = b.square().sum(dim=(0, 2)).amax(dim=0).sqrt()
    if b.shape[2] > 1:
        columns = mu.abs().square().sum(dim=(0, 1)).amax(dim=0).sqrt()
        return [(rows[:, None], columns[None])]
    terms = spectral_norms(mu.permute(0, 3, 1, 2))
    stacked = spectral_norms(mu.permute(3, 0, 1, 2).flatten(1, 2))
    return [(b.amax(dim=(1, 2)).T, terms), (rows[:, None], stacked[None])]


def spectral_norms(matrices: Tensor) -> Tensor:
    """Largest singular values, (..., O, I) -> (...)."""
    norms: Tensor = torch.linalg.matrix_norm(matrices, 2)
    return norms
