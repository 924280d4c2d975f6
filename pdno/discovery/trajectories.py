"""Measured trajectories: their noise, the modes above it, and segments to fit.

White noise is as large in all modes, solutions are smooth. So the highest modes, |ξ_j| >= 5N_j/12,
show the noise, and the others are fitted where they stand out of it. Equations are solved on 3N/2
points if modes |ξ_j| >= N_j/3 do, as a generator leaves these out.
"""

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from pdno.discovery.equation import NORMAL_95
from pdno.spectral.calculus import band_mask, resample
from pdno.spectral.fourier import transform
from pdno.spectral.grid import Grid, hermitian_weights

EXCITED = 4.0  # energy of a mode in terms of that of the noise from which on it stands out
SMALLEST_SHARE = 1e-9  # of the largest amplitude below which a mode does not stand out
FLAT = 2.0  # by what the energies of modes differ at most, where they are white noise


@dataclass(frozen=True)
class Segment:
    """Pieces of trajectories with the same times after their first frames.

    Shapes: first (B, C, *N), later (B, T, C, *N) for `times` t_1 < ... < t_T after the first.
    """

    times: tuple[float, ...]
    first: Tensor
    later: Tensor


class Trajectories:
    """Trajectories u (B, T, C, *N) at increasing times, as measured, on the grid to solve on.

    Errors of the numbers are white noise, and systematic ones of any shape: those of the solver or
    the instrument, below `tolerance` times the root mean square, and modes that are not resolved.

    Attributes:
        noise: Standard deviation of the white noise of each field at a point, (C,).
        systematic: Root mean square of the systematic errors, (C,).
        scale: That of the fields, (C,).
        reach: The largest |ξ_j| on each axis of a mode above the noise, (d,).
        unexplained: How many numbers the noise was measured from.
    """

    def __init__(self, u: Tensor, times: tuple[float, ...], tolerance: float = 1e-4) -> None:
        if u.dim() < 4 or not len(u) or u.shape[1] != len(times) or len(times) < 2:
            expected = "expected (B, T, C, *N) with at least 2 frames"
            raise ValueError(f"u has shape {tuple(u.shape)}, {len(times)} times; {expected}")
        if not all(a < b for a, b in zip(times, times[1:], strict=False)):
            raise ValueError(f"times {times} do not increase")
        if not bool(u.isfinite().all()):
            raise ValueError("trajectories have NaN or infinity; expected finite numbers")
        self.u, self.times = u.double(), times
        self.scale = self.u.transpose(0, 2).flatten(1).square().mean(dim=1).sqrt()
        self.scale = self.scale.clamp(min=1e-300)
        self.points, shape = self.grid.size, self.grid.shape
        energy = transform(self.u, self.grid.dim).abs().square().mean(dim=0)  # (T, C, *N^)
        outside, highest = self._measure_noise(energy)
        allowed = (tolerance * self.scale).square()
        if bool((outside > allowed).any()):
            self.u = resample(self.u, [3 * n // 2 for n in shape])
            outside = highest
            energy = transform(self.u, self.grid.dim).abs().square().mean(dim=0)
        self.systematic = (outside + allowed).sqrt()
        least = EXCITED * self.noise.square() / self.points
        least = least + SMALLEST_SHARE**2 * energy.amax(dim=0).flatten(1).amax(dim=1)
        above = (energy.amax(dim=0) > least.reshape(-1, *[1] * self.grid.dim)).any(dim=0)
        above = above & (band_mask(self.grid) > 0)
        self.reach = (self.grid.modes().abs() * above[..., None]).flatten(0, -2).amax(dim=0)

    def _measure_noise(self, energy: Tensor) -> tuple[Tensor, Tensor]:
        """Measure the noise; mean squares of modes |ξ_j| >= N_j/3 and the highest beside it, (C,).

        Frames that are rough by themselves, as many initial states, count for nothing: it is the
        median over the times. Where energies fall with |ξ|, they are not those of noise.
        """
        part = 2 * (self.grid.modes().abs() / torch.tensor(self.grid.shape)).amax(dim=-1)
        weights = hermitian_weights(self.grid.modes()[..., -1], self.grid.shape[-1])
        counts, sums = list[float](), list[Tensor]()
        for chosen in (part >= 2 / 3, part >= 5 / 6):
            counts.append(float((chosen * weights).sum()))
            sums.append((energy * chosen * weights).sum(tuple(range(-self.grid.dim, 0))))
        highest = (sums[1] / max(counts[1], 1)).quantile(0.5, dim=0)
        lower = ((sums[0] - sums[1]) / max(counts[0] - counts[1], 1)).quantile(0.5, dim=0)
        level = torch.where(lower > FLAT * highest, 0.0, highest)
        self.noise = (level * self.points).sqrt()
        self.unexplained = int(counts[1]) * self.u.shape[:3].numel()
        means = [(s.mean(dim=0), n * level) for s, n in zip(sums, counts, strict=True)]
        outside, rest = (torch.where(mean > FLAT * own, mean - own, 0.0) for mean, own in means)
        return outside, rest

    @property
    def grid(self) -> Grid:
        """The periodic grid to solve on."""
        return Grid(tuple(self.u.shape[3:]))

    def subset(self, rows: Sequence[int]) -> "Trajectories":
        """Some of the trajectories, with noise and modes measured on all of them."""
        part = copy(self)
        part.u = self.u[list(rows)]
        return part

    @cached_property
    def deviation(self) -> Tensor:
        """Expected error of the numbers, (C,)."""
        return (self.noise.square() + self.systematic.square()).sqrt()

    @property
    def noisy(self) -> bool:
        """Whether the noise is the larger error, so that initial states are fitted."""
        return bool((self.noise > self.systematic).any())

    def widening(self, count: int) -> float:
        """By how much variances exceed those of `count` white errors of the expected size.

        Bars add 1.96 standard errors by noise to the bound on what systematic errors e do, whose
        shape is not known: by Cauchy and Schwarz at most |e| standard errors by unit noise.
        """
        white, bound = self.noise / self.deviation, self.systematic / self.deviation
        return float((white + count**0.5 * bound / NORMAL_95).amax()) ** 2

    @cached_property
    def excited(self) -> Tensor:
        """1 at modes up to the reach, else 0, (*N^): those of initial states."""
        return (self.grid.modes().abs() <= self.reach).all(dim=-1).double()

    @cached_property
    def mask(self) -> Tensor:
        """1 at the compared modes, else 0, (*N^): what products of two excited ones reach."""
        near = (self.grid.modes().abs() <= 2 * self.reach).all(dim=-1).double()
        return near * band_mask(self.grid)

    @cached_property
    def modes(self) -> int:
        """Real numbers in the compared modes of a field."""
        last = self.grid.modes()[..., -1]
        return round(float((self.mask * hermitian_weights(last, self.grid.shape[-1])).sum()))

    def project(self, f: Tensor) -> Tensor:
        """Fields (..., *N) on the modes of initial states; without noise on the whole band."""
        kept = self.excited if self.noisy else band_mask(self.grid)
        return resample(f, self.grid.shape, multiplier=kept)

    def weigh(self, f: Tensor) -> Tensor:
        """Differences (..., C, *N) on the compared modes, in units of their expected error."""
        share: float = (self.points / self.grid.size) ** 0.5  # Σ over points of the data
        compared = resample(f, self.grid.shape, multiplier=self.mask) * share
        return compared / self.deviation.reshape(-1, *[1] * self.grid.dim)

    def basis(self) -> Tensor:
        """An orthonormal basis of the modes of initial states, (M, *N)."""
        xi = self.grid.modes()[self.excited > 0]
        signs = [next((k for k in row if k), 0) for row in xi.flip(-1).tolist()]
        phase = 2 * math.pi * (self.grid.points() @ xi[[s >= 0 for s in signs]].double().T)
        waves = torch.cat([torch.cos(phase), torch.sin(phase)], dim=-1).movedim(-1, 0)
        norms = waves.flatten(1).norm(dim=1)
        keep = norms > 1e-6 * math.sqrt(self.grid.size)
        basis: Tensor = waves[keep] / norms[keep].reshape(-1, *[1] * self.grid.dim)
        return basis

    def segments(self, window: int) -> list[Segment]:
        """Pieces of `window` steps in time; noisy ones share no frame, for independent errors."""
        stride = window + 1 if self.noisy else window
        pieces: dict[tuple[float, ...], list[int]] = {}
        for start in range(0, len(self.times) - window, stride):
            later = self.times[start + 1 : start + window + 1]
            steps = tuple(float(f"{t - self.times[start]:.12g}") for t in later)
            pieces.setdefault(steps, []).append(start)
        return [
            Segment(
                steps,
                torch.cat([self.project(self.u[:, s]) for s in starts]),
                torch.cat([self.u[:, s + 1 : s + window + 1] for s in starts]),
            )
            for steps, starts in pieces.items()
        ]
