"""Proven constants of classical symbols in the continuum, and the bounds that follow from them.

    C_αβ = sup_{x, ξ} |∂_ξ^α ∂_x^β a(x, ξ)| ⟨ξ⟩^{|α|-m},     |α|, |β| <= 2,

are enclosed by interval arithmetic (`theory.compactification`), rounding included. Proofs are in
docs/theory_operators.md.
"""

import copy
import math
from dataclasses import dataclass
from functools import partial, reduce

import torch
from torch import Tensor

from pdno.symbols.classical import ClassicalSymbol
from pdno.theory.compactification import (
    SLACK,
    Enclosures,
    Weighted,
    cells,
    sizes_of,
    suprema,
)
from pdno.theory.interval import Ball
from pdno.theory.probe import MultiIndex, multi_indices
from pdno.theory.structure import frequency_factor, space_factor

SHELLS = 64  # of aliases that are summed one by one


@dataclass(frozen=True)
class ProvenConstants:
    """Enclosures of suprema, (2, O, I): attained, and no less than the supremum.

    They hold for the symbol in exact arithmetic with these weights. The keys of `space` are β,
    "gradient" and "laplacian" of a1, those of `frequency` are α and
    "matrix", the norm of the whole channel matrix of the other factor.
    """

    order: float  #: m
    dim: int  #: n
    space: dict[MultiIndex | str, Tensor] | None  #: None if a does not depend on x
    frequency: dict[MultiIndex | str, Tensor]
    boxes: int  #: how many were looked at
    shared: bool = False  #: whether all pairs have the same a1

    def seminorm(self, alpha: MultiIndex, beta: MultiIndex) -> tuple[float, float]:
        """C_αβ, the largest of all pairs of channels, from below and from above."""
        both = self.frequency[alpha]
        if self.space is not None:
            both = both * self.space[beta]
        elif sum(beta):
            return 0.0, 0.0
        low, high = both.amax(dim=(1, 2)).tolist()
        return low / SLACK, high * SLACK

    def norm(self, s: float = 0.0) -> float:
        """‖K f‖_{H^{s-m}} <= norm(s) ‖f‖_{H^s} on the torus, for |s - m| <= 2."""
        whole = float(self.frequency["matrix"][1].max())
        if self.space is None:
            return whole * SLACK
        factors = self._multiplication(abs(s - self.order))
        entries = torch.linalg.matrix_norm(factors * self.frequency[(0,) * self.dim][1], 2)
        bounds = [float(entries), *([float(factors.max()) * whole] if self.shared else [])]
        return min(bounds) * SLACK

    def truncation(self, modes: int, s: float, r: float = 0.0) -> float:
        """‖K f - K_k f‖_{H^r} <= truncation(k, s, r) ‖f‖_{H^s}, r <= s - m and |r| <= 2."""
        gain = s - self.order - r
        gain = 0.0 if abs(gain) < 1e-12 else gain  # s = m + r, as decimals are rounded
        if modes < 1 or gain < 0:
            problem = f"modes {modes}, s {s:g} and r {r:g} for a symbol of order {self.order:g}"
            raise ValueError(f"{problem}; expected modes >= 1 and r <= s - m")
        return float(self.norm(r + self.order) * (1 + modes**2) ** (-gain / 2)) * SLACK

    def aliasing(self, points: int, s: float) -> float:
        """‖K_N f - K f‖_{L2 of the grid N} <= aliasing(N, s) ‖f - Π_N f‖_{H^s}, N >= points.

        Π_N f are the modes |ξ_j| < N_j/2 of f. It needs s > m + n/2 and s > n/2. Between two grids
        f is the function that the finer one resolves.
        """
        power = s - max(self.order, 0.0)
        if points < 2 or 2 * power <= self.dim:
            problem = f"points {points} and s {s:g} for order {self.order:g} and n = {self.dim}"
            raise ValueError(f"{problem}; expected points >= 2 and s - max(m, 0) > n/2")
        n, total = self.dim, 0.0
        for k in range(1, SHELLS):
            count = (2 * k + 1) ** n - (2 * k - 1) ** n
            total += count * (1 + (points * (k - 0.5)) ** 2) ** -power
        edge, q = SHELLS - 0.5, n - 1 - 2 * power
        rest = edge**q + edge ** (q + 1) / (-q - 1)
        total += 2 * n * (2 * (1 + 1 / edge)) ** (n - 1) * points ** (-2 * power) * rest
        return 2 * self.norm(self.order) * math.sqrt(total) * SLACK

    def _multiplication(self, sigma: float) -> Tensor:
        """Bounds of f -> a1 f on H^σ and H^-σ, (O, I), for 0 <= σ <= 2."""
        assert self.space is not None
        if sigma > 2:
            raise ValueError(f"|s - m| is {sigma:g}; expected at most 2: a1 has two derivatives")
        value, gradient, laplacian = (
            self.space[key][1] for key in ((0,) * self.dim, "gradient", "laplacian")
        )
        first = value + gradient / (2 * math.pi)
        second = first + laplacian / (4 * math.pi**2)
        if sigma <= 1:
            return value ** (1 - sigma) * first**sigma
        return first ** (2 - sigma) * second ** (sigma - 1)


def enclose(
    symbol: ClassicalSymbol, *, looseness: float = 1.5, boxes: int = 2**14
) -> ProvenConstants:
    """The constants of a classical symbol, of each factor to that looseness or with so many boxes.

    Symbols with time and elliptic ones that are not self-adjoint or dissipative are exponentials
    of matrices, and those that are not Hermitian act by other values: they are refused.

    Example:
        >>> from pdno.symbols import InputScale
        >>> symbol = ClassicalSymbol(1, 1, scale=InputScale(1, 1.0, 4.0), order=-1.0, hidden=4)
        >>> constants = enclose(symbol)
        >>> low, high = constants.seminorm((1,), (0,))
        >>> low <= high <= 3 * low
        True
    """
    exponential = symbol.elliptic and not (symbol.self_adjoint or symbol.dissipative)
    if symbol.takes_time or exponential or not symbol.hermitian or not symbol.scale.chosen:
        raise ValueError(
            "this symbol has time, is elliptic with a unitary factor, is not Hermitian or has no "
            "frequency_scale yet; expected none of these: e^{tA} has norm 1 at most by "
            "construction, the others have bounds on grids (pdno.theory.norms)"
        )
    double, dim, pairs = copy.deepcopy(symbol).double(), symbol.scale.dim, symbol.pairs
    indices, none = list(multi_indices(dim, 2)), (0,) * dim
    shape = (symbol.out_channels, symbol.in_channels)

    def of_xi(value: Weighted) -> Enclosures:
        """|∂_ξ^α a2| and the norm of the matrix a2."""
        parts = [value.derivative(alpha, ()) for alpha in indices]
        return [*map(sizes_of, parts), _matrix_norm(parts[0], shape)]

    def of_x(value: Weighted) -> Enclosures:
        """|∂_x^β a1|, |∇a1| and |Δa1|."""
        parts = {beta: value.derivative(none, beta)[0] for beta in indices}
        slopes, second = ([parts[b] for b in indices if max(b) == k == sum(b)] for k in (1, 2))
        return [sizes_of(rows) for rows in (*([p] for p in parts.values()), slopes)] + [
            sizes_of([reduce(Ball.__add__, second)])
        ]

    search = partial(
        suprema, units=symbol.scale.frequency.tolist(), looseness=looseness, budget=boxes
    )
    space: dict[MultiIndex | str, Tensor] | None = None
    used = 0
    if symbol.depends_on_x:
        factor, torus = space_factor(double, None), cells(dim, in_x=True, in_xi=False)
        _, bounds, used = search(factor, boxes=torus, rows=of_x, jets="x")
        bounds = torch.unflatten(bounds.expand(-1, -1, pairs), 2, shape)
        space = dict(zip([*indices, "gradient", "laplacian"], bounds, strict=True))
    factor, cube = frequency_factor(double, None), cells(dim, in_x=False)
    _, bounds, more = search(factor, boxes=cube, rows=of_xi)
    names: list[MultiIndex | str] = [*indices, "matrix"]
    frequency = dict(zip(names, torch.unflatten(bounds, 2, shape), strict=True))
    return ProvenConstants(symbol.order, dim, space, frequency, used + more, symbol.elliptic)


def _matrix_norm(parts: list[Ball], shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Norms of matrices by their entries, in all of these."""
    mid, rad = (
        reduce(torch.add, (factor * values for factor, values in zip((1, 1j), kind, strict=False)))
        for kind in ([p.mid for p in parts], [p.rad for p in parts])
    )
    norm = torch.linalg.matrix_norm(torch.unflatten(mid, 1, shape), 2)[:, None].expand(mid.shape)
    spread = torch.linalg.vector_norm(rad, dim=1)[:, None] * SLACK
    return ((norm - spread) / SLACK).clamp_min(0.0), (norm + spread) * SLACK
