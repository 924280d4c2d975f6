"""Distributions of inputs, those of the published data among them, and PDE parameters from ranges.

The normals of Gaussian fields are drawn shell by shell in max_j |ξ_j|, so sample i of seed s is
the same function on every grid up to the modes that the coarser one cannot hold.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from pdno.interface.errors import check_at_least, check_choice
from pdno.spectral.fourier import inverse
from pdno.spectral.grid import Grid

Amplitude = Literal["published", "ported", "printed"]
AMPLITUDES: dict[Amplitude, float] = {"published": 2 * 7.0**3, "ported": 7.0**3, "printed": 7**1.5}

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

    `variance` is σ², `tau` an inverse length; samples are smoother for larger `alpha`;
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
        check_at_least("variance", self.variance, 0)
        check_at_least("mean_deviation", self.mean_deviation, 0)
        check_choice("boundary", self.boundary, ("periodic", "neumann"))

    def sample(self, grid: Grid, *, seed: int, indices: Iterable[int]) -> Tensor:
        """Samples `indices` of `seed` on `grid`, shape (B, 1, *N), float64 on the CPU."""
        if grid.periodic != (self.boundary == "periodic"):
            cure = "use Grid(shape) for periodic and Grid.cells(shape) for Neumann fields"
            raise ValueError(f"a {self.boundary} field does not fit the {grid}: {cure}")
        chosen = list(indices)
        check_at_least("seed and index", min([seed, *chosen]), 0)
        samples = [self._draw(grid, np.random.default_rng([seed, index])) for index in chosen]
        return torch.stack(samples).unsqueeze(1) if samples else torch.empty(0, 1, *grid.shape)

    def _draw(self, grid: Grid, generator: np.random.Generator) -> Tensor:
        k, inside, index = _modes_by_shells(grid.shape, grid.periodic)
        mean = self.mean_deviation * generator.standard_normal()
        z = generator.standard_normal((len(inside), 2) if grid.periodic else len(inside))[inside]
        mu = (4 if grid.periodic else 1) * math.pi**2 * (k**2).sum(axis=1)
        deviation = math.sqrt(self.variance) * (mu + self.tau**2) ** (-self.alpha / 2)
        if grid.periodic:
            # √2 (z₁ cos - z₂ sin) = 2 Re[ f̂ e^{2πiξx} ] with f̂ = (z₁ + i z₂)/√2. The line ξ_d = 0
            # has weight 1 in the Hermitian rule instead of 2, and holds only one of ±ξ here.
            weight = deviation * np.where(k[:, -1] == 0, math.sqrt(2), math.sqrt(0.5))
            values, shape = weight * (z[:, 0] + 1j * z[:, 1]), grid.half_shape
        else:
            values, shape = deviation * np.sqrt(2.0 ** (k > 0).sum(axis=1)) * z, grid.shape
        coefficients = np.zeros(math.prod(shape), dtype=values.dtype)
        coefficients[index], coefficients[0] = values, mean
        g = torch.from_numpy(coefficients).reshape(shape)
        if not grid.periodic:
            for x in grid.axes():
                cosines = torch.cos(math.pi * torch.outer(torch.arange(len(x)), x))
                g = torch.tensordot(g, cosines, dims=([0], [0]))
            return g
        phase = (grid.modes() * torch.tensor(grid.spacing)).sum(-1) * grid.offset
        return inverse(g * torch.exp(2j * math.pi * phase) if grid.offset else g, grid.shape)


@dataclass(frozen=True)
class TwoPhaseField:
    """A two-phase medium: k(x) = high where the Gaussian field g(x) >= 0, low elsewhere."""

    gaussian: GaussianField
    low: float = 3.0
    high: float = 12.0

    def sample(self, grid: Grid, *, seed: int, indices: Iterable[int]) -> Tensor:
        g = self.gaussian.sample(grid, seed=seed, indices=indices)
        return torch.where(g >= 0, self.high, self.low).to(torch.float64)


def heat_initial() -> GaussianField:
    """u₀ of the heat problem: N(0, 7⁴(-Δ + 49)^-2.5) plus the published N(0, 0.01²)."""
    return GaussianField(variance=7.0**4, tau=7.0, alpha=2.5, mean_deviation=0.01)


def burgers_initial() -> GaussianField:
    """u₀ of the Burgers problem: N(0, 625(-Δ + 25)^-2), periodic."""
    return GaussianField(variance=625.0, tau=5.0, alpha=2.0)


def darcy_permeability(low: float = 3.0, high: float = 12.0) -> TwoPhaseField:
    """k of the Darcy problem: high or low by the sign of N(0, 9(-Δ + 9)^-2), Neumann."""
    return TwoPhaseField(GaussianField(9.0, tau=3.0, alpha=2.0, boundary="neumann"), low, high)


def navier_stokes_initial(amplitude: Amplitude = "published") -> GaussianField:
    """ω₀ of the Navier-Stokes problem: N(0, A(-Δ + 49)^-2.5), periodic.

    A is 2·7³ in the code that made the published data (the published weights reach the published
    error with it), 7³ after that code was ported in 2022, and 7^{3/2} as the papers print it.
    """
    check_choice("amplitude", amplitude, AMPLITUDES)
    return GaussianField(variance=AMPLITUDES[amplitude], tau=7.0, alpha=2.5)


def draw_parameters(ranges: Ranges, *, seed: int, index: int) -> dict[str, float]:
    """The PDE parameters of sample `index`, which depend on (seed, index, name) and the range.

    A positive range is that of a scale such as a viscosity: log μ is uniform. Else μ is uniform.
    """
    drawn = {}
    for name, (low, high) in ranges.items():
        # the letters of the name make the stream of each parameter its own
        part = float(np.random.default_rng([seed, index, *name.encode()]).random())
        drawn[name] = low * (high / low) ** part if low > 0 else low + (high - low) * part
    return drawn


@lru_cache(maxsize=16)
def _modes_by_shells(
    shape: tuple[int, ...], periodic: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Modes without zero on the grid, which draws those are, and their indices in the spectrum.

    Periodic: one of each pair ±ξ, indices are those of *N^. Neumann: all k, indices of *N.
    """
    limits = [(n - 1) // 2 if periodic else n - 1 for n in shape]
    half = np.arange(max(limits) + 1)
    axes = [np.arange(-half[-1], half[-1] + 1) if periodic else half] * (len(shape) - 1) + [half]
    k = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    k = k[np.argsort(np.abs(k).max(axis=1), kind="stable")]
    # periodic modes whose last nonzero component is positive are half of the lattice
    k = k[k @ (2 * half[-1] + 1) ** np.arange(len(axes)) > 0]
    inside = np.all(np.abs(k) <= limits, axis=1)
    sizes = (*shape[:-1], shape[-1] // 2 + 1) if periodic else shape
    return k[inside], inside, np.ravel_multi_index(list((k[inside] % shape).T), sizes)
