"""Distributions of inputs, those of the published data among them, and PDE parameters from ranges.

The normals of Gaussian fields are drawn shell by shell in max_j |ξ_j|, so sample i of seed s is
the same function on every grid up to the modes that the coarser one cannot hold (those from N/2 on
are left out).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from pdno.spectral.fourier import inverse
from pdno.spectral.grid import Grid

Amplitude = Literal["published", "ported", "printed"]
AMPLITUDES: dict[Amplitude, float] = {"published": 2 * 7.0**3, "ported": 7.0**3, "printed": 7**1.5}

# modes on the grid, which draws those are, and their indices in the flat spectrum
Order = tuple[np.ndarray, np.ndarray, np.ndarray]

Ranges = Mapping[str, tuple[float, float]]
"""Lowest and highest value of PDE parameters by name."""


class Distribution(Protocol):
    """A distribution of inputs; sample i depends on (seed, i) and the grid only."""

    def sample(self, grid: Grid, *, seed: int, indices: Iterable[int]) -> Tensor:
        """Samples `indices` of `seed` on `grid`, shape (B, C, *N), float64 on the CPU."""


@dataclass(frozen=True)
class GaussianField:
    """The distribution N(m, σ²(-Δ + τ²)^-α) without the constant mode, as in published recipes.

    In an orthonormal eigenbasis e_k of the Laplacian, -Δ e_k = μ_k e_k, a sample is

        g(x) = m + Σ_{k≠0} σ (μ_k + τ²)^{-α/2} z_k e_k(x),        z_k ~ N(0, 1) independent.

    Periodic: e = √2 cos 2πξ·x, √2 sin 2πξ·x with μ = 4π²|ξ|², one pair for each ±ξ.
    Neumann:  e = Π_j c_j cos πk_j x_j, c = 1 at k_j = 0 and √2 elsewhere, with μ = π²|k|².

    `variance` is σ², `tau` an inverse length; sample paths are smoother for larger `alpha`.
    `mean_deviation` is the standard deviation of m, a random constant of each sample.

    Example:
        >>> distribution = GaussianField(variance=625.0, tau=5.0, alpha=2.0)
        >>> coarse = distribution.sample(Grid((64,)), seed=0, indices=[7])
        >>> fine = distribution.sample(Grid((128,)), seed=0, indices=[7])
        >>> tuple(coarse.shape), bool((coarse - fine[..., ::2]).abs().max() < 0.05)
        ((1, 1, 64), True)
    """

    variance: float
    tau: float
    alpha: float
    boundary: Literal["periodic", "neumann"] = "periodic"
    mean_deviation: float = 0.0

    def __post_init__(self) -> None:
        if self.variance < 0 or self.mean_deviation < 0:
            raise ValueError(f"{self}: variance and mean_deviation must not be negative")
        if self.boundary not in ("periodic", "neumann"):
            raise ValueError(f"boundary {self.boundary!r}; expected 'periodic' or 'neumann'")

    def sample(self, grid: Grid, *, seed: int, indices: Iterable[int]) -> Tensor:
        """Samples `indices` of `seed` on `grid`, shape (B, 1, *N), float64 on the CPU."""
        periodic = self.boundary == "periodic"
        if grid.periodic != periodic:
            raise ValueError(
                f"a {self.boundary} field on a {'periodic' if grid.periodic else 'box'} grid; "
                "use Grid(shape) for periodic and Grid.cells(shape) for Neumann fields"
            )
        draw = self._draw_periodic if periodic else self._draw_neumann
        chosen = list(indices)
        if min([seed, *chosen]) < 0:
            raise ValueError(f"seed {seed} and indices {chosen} must not be negative")
        samples = [draw(grid, np.random.default_rng([seed, index])) for index in chosen]
        return torch.stack(samples).unsqueeze(1) if samples else torch.empty(0, 1, *grid.shape)

    def _draw_periodic(self, grid: Grid, generator: np.random.Generator) -> Tensor:
        xi, inside, index = _periodic_order(grid.shape)
        mean = self.mean_deviation * generator.standard_normal()
        z = generator.standard_normal((len(inside), 2))[inside]
        weight = self._deviation(4 * math.pi**2 * (xi**2).sum(axis=1))
        # √2 (z₁ cos - z₂ sin) = 2 Re[ f̂ e^{2πiξx} ] with f̂ = (z₁ + i z₂)/√2. The line ξ_d = 0
        # has weight 1 in the Hermitian rule instead of 2, and holds only one of ±ξ here.
        weight = weight * np.where(xi[:, -1] == 0, math.sqrt(2), math.sqrt(0.5))
        coefficients = np.zeros(math.prod(grid.half_shape), dtype=np.complex128)
        coefficients[index] = weight * (z[:, 0] + 1j * z[:, 1])
        coefficients[0] = mean
        f_hat = torch.from_numpy(coefficients).reshape(grid.half_shape)
        if grid.offset:
            phase = (grid.modes() * torch.tensor(grid.spacing)).sum(-1) * grid.offset
            f_hat = f_hat * torch.exp(2j * math.pi * phase)
        return inverse(f_hat, grid.shape)

    def _draw_neumann(self, grid: Grid, generator: np.random.Generator) -> Tensor:
        k, inside, index = _neumann_order(grid.shape)
        mean = self.mean_deviation * generator.standard_normal()
        z = generator.standard_normal(len(inside))[inside]
        weight = self._deviation(math.pi**2 * (k**2).sum(axis=1))
        coefficients = np.zeros(grid.size)
        coefficients[index] = weight * np.sqrt(2.0 ** (k > 0).sum(axis=1)) * z
        coefficients[0] = mean
        g = torch.from_numpy(coefficients).reshape(grid.shape)
        for x in grid.axes():
            cosines = torch.cos(math.pi * torch.outer(torch.arange(len(x)), x))
            g = torch.tensordot(g, cosines, dims=([0], [0]))
        return g

    def _deviation(self, mu: np.ndarray) -> np.ndarray:
        """σ (μ + τ²)^{-α/2}."""
        return np.asarray(math.sqrt(self.variance) * (mu + self.tau**2) ** (-self.alpha / 2))


@dataclass(frozen=True)
class TwoPhaseField:
    """A two-phase medium: k(x) = high where the Gaussian field g(x) >= 0, low elsewhere."""

    gaussian: GaussianField
    low: float = 3.0
    high: float = 12.0

    def sample(self, grid: Grid, *, seed: int, indices: Iterable[int]) -> Tensor:
        """Samples `indices` of `seed` on `grid`, shape (B, 1, *N), float64 on the CPU."""
        g = self.gaussian.sample(grid, seed=seed, indices=indices)
        return torch.where(g >= 0, self.high, self.low).to(torch.float64)


def heat_initial() -> GaussianField:
    """u₀ of the heat problem: N(0, 7⁴(-Δ + 49)^-2.5) plus a constant N(0, 0.01²), periodic.

    The constant is in the published code, not in the paper.
    """
    return GaussianField(variance=7.0**4, tau=7.0, alpha=2.5, mean_deviation=0.01)


def burgers_initial() -> GaussianField:
    """u₀ of the Burgers problem: N(0, 625(-Δ + 25)^-2), periodic."""
    return GaussianField(variance=625.0, tau=5.0, alpha=2.0)


def darcy_permeability(low: float = 3.0, high: float = 12.0) -> TwoPhaseField:
    """k of the Darcy problem: high or low by the sign of N(0, 9(-Δ + 9)^-2), Neumann."""
    return TwoPhaseField(GaussianField(9.0, tau=3.0, alpha=2.0, boundary="neumann"), low, high)


def navier_stokes_initial(amplitude: Amplitude = "published") -> GaussianField:
    """ω₀ of the Navier-Stokes problem: N(0, A(-Δ + 49)^-2.5), periodic.

    A is 2·7³ in the code that made the published data, 7³ after that code was ported in 2022, and
    7^{3/2} as the papers print it. The first is the default: with it the published weights reach
    the published error on data of our own solver.
    """
    if amplitude not in AMPLITUDES:
        raise ValueError(f"amplitude {amplitude!r}; expected one of {', '.join(AMPLITUDES)}")
    return GaussianField(variance=AMPLITUDES[amplitude], tau=7.0, alpha=2.5)


def draw_parameters(ranges: Ranges, *, seed: int, index: int) -> dict[str, float]:
    """The PDE parameters of sample `index`, which depend on (seed, index, name) and the range.

    A positive range is that of a scale such as a viscosity: log μ is uniform. Else μ is uniform.

    Example:
        >>> drawn = draw_parameters({"viscosity": (1e-5, 1e-3)}, seed=0, index=7)
        >>> 1e-5 <= drawn["viscosity"] <= 1e-3
        True
    """
    drawn = {}
    for name, (low, high) in ranges.items():
        # the letters of the name make the stream of each parameter its own
        part = float(np.random.default_rng([seed, index, *name.encode()]).random())
        drawn[name] = low * (high / low) ** part if low > 0 else low + (high - low) * part
    return drawn


@lru_cache(maxsize=8)
def _periodic_order(shape: tuple[int, ...]) -> Order:
    """One of each pair ±ξ by shells; indices are those of *N^."""
    reach = max((n - 1) // 2 for n in shape)
    xi = _by_shells([np.arange(-reach, reach + 1)] * (len(shape) - 1) + [np.arange(reach + 1)])
    # keep ξ where the last nonzero component is positive: half of the lattice, without zero
    sign = np.zeros(len(xi), dtype=np.int64)
    for component in xi.T:
        sign = np.where(component != 0, np.sign(component), sign)
    xi = xi[sign > 0]
    inside = np.all(np.abs(xi) <= [(n - 1) // 2 for n in shape], axis=1)
    half_shape = (*shape[:-1], shape[-1] // 2 + 1)
    return xi[inside], inside, np.ravel_multi_index(list((xi[inside] % shape).T), half_shape)


@lru_cache(maxsize=8)
def _neumann_order(shape: tuple[int, ...]) -> Order:
    """All k != 0 by shells; indices are those of *N."""
    k = _by_shells([np.arange(max(shape))] * len(shape))[1:]
    inside = np.all(k < np.array(shape), axis=1)
    return k[inside], inside, np.ravel_multi_index(list(k[inside].T), shape)


def _by_shells(axes: list[np.ndarray]) -> np.ndarray:
    """The lattice of the axes, shape (M, d), in the order of max_j |k_j|."""
    k = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    return k[np.argsort(np.abs(k).max(axis=1), kind="stable")]
