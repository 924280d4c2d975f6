"""Measured trajectories: their noise, the modes above it, and segments to fit.

White noise is as large in all modes, solutions are smooth. So modes with |ξ_j| >= N_j/3, which a
generator leaves out, show the noise; modes within are fitted where they stand out of it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from pdno.spectral.calculus import band_mask
from pdno.spectral.fourier import inverse, transform
from pdno.spectral.grid import Grid, hermitian_weights

EXCITED = 4.0  # energy of a mode in terms of that of the noise from which on it stands out
SMALLEST_SHARE = 1e-9  # of the largest amplitude below which a mode does not stand out


@dataclass(frozen=True)
class Segment:
    """Pieces of trajectories with the same times after their first frames.

    Shapes: first (B, C, *N), later (B, T, C, *N) for `times` t_1 < ... < t_T after the first.
    """

    times: tuple[float, ...]
    first: Tensor
    later: Tensor


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Trajectories u (B, T, C, *N) at increasing times, as measured.

    `tolerance` bounds the error of the numbers besides white noise, relative to their size: that
    of the solver or the instrument.
    """

    u: Tensor
    times: tuple[float, ...]
    tolerance: float = 1e-4
    reference: "Trajectories | None" = field(default=None, repr=False)

    def __post_init__(self) -> None:
        u, times = self.u, self.times
        if u.dim() < 4 or u.shape[1] != len(times) or len(times) < 2:
            expected = "expected (B, T, C, *N) with at least 2 frames"
            raise ValueError(f"u has shape {tuple(u.shape)}, {len(times)} times; {expected}")
        if not len(u):
            raise ValueError("u has no trajectories; expected at least one")
        if not all(a < b for a, b in zip(times, times[1:], strict=False)):
            raise ValueError(f"times {times} do not increase")
        if not bool(u.isfinite().all()):
            raise ValueError("trajectories have NaN or infinity; expected finite numbers")
        object.__setattr__(self, "u", u.double())

    @property
    def grid(self) -> Grid:
        """The periodic grid of the states."""
        return Grid(tuple(self.u.shape[3:]))

    def subset(self, rows: Sequence[int]) -> "Trajectories":
        """Some of the trajectories, with noise and modes measured on all of them."""
        reference = self.reference or self
        return Trajectories(self.u[list(rows)], self.times, self.tolerance, reference)

    @cached_property
    def noise(self) -> Tensor:
        """Standard deviation of the white noise of each field at a point, (C,).

        Frames that are rough by themselves, as many initial states, count for nothing: it is the
        lower quartile over the times.
        """
        if self.reference is not None:
            return self.reference.noise
        outside = 1 - band_mask(self.grid)
        size = float((outside * self._weights()).sum())
        energy = (self._energy() * outside * self._weights()).sum(self._axes)
        return (energy.quantile(0.25, dim=0) * self.grid.size / max(size, 1)).sqrt()

    @cached_property
    def scale(self) -> Tensor:
        """Root mean square of each field, (C,)."""
        if self.reference is not None:
            return self.reference.scale
        return self.u.transpose(0, 2).flatten(1).square().mean(dim=1).sqrt().clamp(min=1e-300)

    @cached_property
    def deviation(self) -> Tensor:
        """Expected error of the numbers, by noise and tolerance, (C,)."""
        return (self.noise.square() + (self.tolerance * self.scale).square()).sqrt()

    @property
    def noisy(self) -> bool:
        """Whether the noise is larger than the tolerance, so that initial states are fitted."""
        return bool((self.noise > self.tolerance * self.scale).any())

    @cached_property
    def reach(self) -> Tensor:
        """The largest |ξ_j| on each axis, within the band, of a mode above the noise, (d,)."""
        if self.reference is not None:
            return self.reference.reach
        energy = self._energy().amax(dim=0)
        least = EXCITED * self.noise.square() / self.grid.size
        least = least + SMALLEST_SHARE**2 * energy.flatten(1).amax(dim=1)
        above = (energy > least.reshape(-1, *[1] * self.grid.dim)).any(dim=0)
        above = above & (band_mask(self.grid) > 0)
        return (self.grid.modes().abs() * above[..., None]).flatten(0, -2).amax(dim=0)

    @cached_property
    def excited(self) -> Tensor:
        """1 at modes up to the reach, else 0, (*N^): those of initial states."""
        return (self.grid.modes().abs() <= self.reach).all(dim=-1).double()

    @cached_property
    def mask(self) -> Tensor:
        """1 at the compared modes, else 0, (*N^): those up to twice the reach, in the band.

        Products of excited modes would be seen there, so what is not there counts, too.
        """
        near = (self.grid.modes().abs() <= 2 * self.reach).all(dim=-1).double()
        return near * band_mask(self.grid)

    @cached_property
    def modes(self) -> int:
        """Real numbers in the compared modes of a field."""
        return round(float((self.mask * self._weights()).sum()))

    @property
    def _axes(self) -> tuple[int, ...]:
        return tuple(range(-self.grid.dim, 0))

    def _weights(self) -> Tensor:
        """How many real numbers stand for each mode of the half spectrum."""
        last = self.grid.modes()[..., -1]
        return hermitian_weights(last, self.grid.shape[-1])

    def _energy(self) -> Tensor:
        """Mean of |û|² over the trajectories, (T, C, *N^)."""
        return transform(self.u, self.grid.dim).abs().square().mean(dim=0)

    def project(self, f: Tensor) -> Tensor:
        """Fields (..., *N) on the modes of initial states; without noise on the whole band."""
        kept = self.excited if self.noisy else band_mask(self.grid)
        return inverse(transform(f, self.grid.dim) * kept, self.grid.shape)

    def weigh(self, f: Tensor) -> Tensor:
        """Differences (..., C, *N) on the compared modes, in units of their expected error."""
        compared = inverse(transform(f, self.grid.dim) * self.mask, self.grid.shape)
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
        """Pieces of `window` steps in time.

        Noisy ones share no frame, so that their errors are independent; without noise the last
        frame of one is the first of the next.
        """
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
