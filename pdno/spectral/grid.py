"""Grids of the unit box [0, 1]^d: points x and integer modes ξ.

A *periodic* grid samples the torus at x_i = (i + offset) / N, without the right end. A grid of a
*box* includes both ends, x_i = i / (N - 1), or has its points in cells, x_i = (i + offset) / N.

Frequencies ξ ∈ Z^d stand for e^{2πi ξ·x}. Real functions need only half of them: the last axis
holds ξ_d = 0 .. N_d // 2, the others the order of the FFT (0, 1, ..., -2, -1).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType

import torch
from torch import Tensor

from pdno.interface.errors import check_shape

Device = torch.device | str | None
Modes = Sequence[int | None] | int | None


@dataclass(frozen=True)
class Grid:
    """A tensor-product grid of the unit box.

    Shapes: points (*N, d), modes (*N^, d) with *N^ = (N_1, ..., N_{d-1}, N_d // 2 + 1).

    Example:
        >>> Grid((3,), periodic=False).points().squeeze(-1).tolist()
        [0.0, 0.5, 1.0]
        >>> Grid((5,)).modes().squeeze(-1).tolist()
        [0, 1, 2]
    """

    shape: tuple[int, ...]
    periodic: bool = True
    offset: float = 0.0

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "shape", tuple(map(int, self.shape)))
        except (TypeError, ValueError, RuntimeError) as problem:
            of_array = getattr(self.shape, "shape", None)  # coordinates, perhaps
            given = f"{self.shape!r:.40}" if of_array is None else f"an array {tuple(of_array)}"
            expected = "expected points per axis: Grid((32,)) has one axis, Grid((32, 32)) two"
            raise ValueError(f"Grid shape is {given}; {expected}") from problem
        if not 1 <= len(self.shape) <= 3:
            raise ValueError(f"Grid has {len(self.shape)} axes; expected 1, 2 or 3 point counts")
        if min(self.shape) < 2:
            raise ValueError(f"Grid shape {self.shape} has an axis with fewer than 2 points")
        if not 0.0 <= self.offset < 1.0:
            raise ValueError(f"Grid offset is {self.offset}; expected 0 (nodes) <= offset < 1")

    @classmethod
    def cells(cls, shape: Sequence[int]) -> "Grid":
        """The cell centres x_i = (i + 1/2) / N of a box."""
        return cls(shape, periodic=False, offset=0.5)  # type: ignore[arg-type]  # it makes a tuple

    @property
    def dim(self) -> int:
        """Number of axes, d."""
        return len(self.shape)

    @property
    def space_axes(self) -> int:
        """Number of axes of space of a field; see `pdno.Points`, where it differs from d."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of points."""
        return math.prod(self.shape)

    @property
    def half_shape(self) -> tuple[int, ...]:
        """Shape *N^ of the half spectrum of a real function."""
        return (*self.shape[:-1], self.shape[-1] // 2 + 1)

    @property
    def spacing(self) -> tuple[float, ...]:
        """Distance between neighbouring points, per axis."""
        both_ends = not self.periodic and self.offset == 0.0
        return tuple(1.0 / (n - 1 if both_ends else n) for n in self.shape)

    def axes(self, *, device: Device = None) -> list[Tensor]:
        """Coordinates along each axis, float64."""
        return [
            (torch.arange(n, dtype=torch.float64, device=device) + self.offset).mul_(h)
            for n, h in zip(self.shape, self.spacing, strict=True)
        ]

    def points(self, *, device: Device = None) -> Tensor:
        """The points x, shape (*N, d), float64."""
        return _mesh(self.axes(device=device))

    def modes(self, kept: Modes = None, *, half: bool = True, device: Device = None) -> Tensor:
        """The integer modes ξ, shape (*N^, d); the last axis may be `half`, as for real functions.

        `kept` is k_max, per axis or for all, None for every mode: see `pdno.spectral.fourier`.
        """
        pairs = list(zip(self.shape, kept_per_axis(self.shape, kept), strict=True))
        axes = [axis_modes(n, k, half=False, device=device) for n, k in pairs[:-1]]
        return _mesh([*axes, axis_modes(*pairs[-1], half=half, device=device)])

    def coarsen(self, factor: int) -> "Grid":
        """The grid of every `factor`-th point along each axis, starting with the first."""
        cannot = f"cannot keep every {factor}-th point of a {self.shape} grid"
        if factor < 1 or any(n % factor for n in self.shape):
            raise ValueError(f"{cannot}: the factor must be positive and divide every axis")
        if not self.periodic and self.offset == 0.0 and factor > 1:
            raise ValueError(f"{cannot} with both ends: use a periodic grid or cell centres")
        return Grid(tuple(n // factor for n in self.shape), self.periodic, self.offset / factor)

    def every(self, factor: int) -> tuple[EllipsisType | slice, ...]:
        """The index of every `factor`-th point of fields (..., *N)."""
        return (..., *(slice(None, None, factor),) * self.dim)

    def of_samples(self, indices: Sequence[int]) -> "Grid":
        """The grid of some samples of a dataset: for all of them the same."""
        return self

    @property
    def sets(self) -> int | None:
        """How many samples have points or masks of their own; None where all share them."""
        return None

    def inside(self, field: Tensor) -> Tensor | None:
        """Where fields (B, ..., *N) lie in the domain, to be broadcast; None for everywhere."""
        return None

    def cover(self, field: Tensor) -> Tensor:
        """The field with zeros outside of the domain."""
        inside = self.inside(field)
        return field if inside is None else torch.where(inside, field, 0.0)

    def weigh(self, field: Tensor) -> Tensor:
        """w^{1/2} u with quadrature weights w of points; on grids these are left out."""
        return self.cover(field)

    def by_sample(self, values: Tensor, field: Tensor) -> Tensor:
        """Values (*N) or (B, *N) of points, as what is broadcast to a field (B, ..., *N)."""
        axes = self.space_axes
        if values.dim() == axes:
            return values.to(field.device)
        ones = [1] * (field.dim() - 1 - axes)
        return values.reshape(len(values), *ones, *values.shape[-axes:]).to(field.device)

    def check(self, field: Tensor, name: str = "field") -> None:
        """ValueError unless the last axes of `field` are those of this grid."""
        axes, shape = self.space_axes, tuple(field.shape)
        if shape[-axes:] != self.shape:
            expected = f"its last {axes} axes must be {self.shape}"
            raise ValueError(f"{name} has shape {shape}; {expected}")


class MaskedGrid(Grid):
    """A grid of a box that holds a domain of any shape: the points where `mask` is true.

    Shapes: mask (*N), or (B, *N) with a domain for each sample. What lies outside is left out.
    """

    mask: Tensor

    def __init__(self, grid: Grid, mask: Tensor) -> None:
        super().__init__(grid.shape, grid.periodic, grid.offset)
        values = torch.as_tensor(mask).to(torch.bool)
        more = ["B"] * (values.dim() > grid.dim)
        check_shape("mask", values, *more, *grid.shape, cure="one for all samples, or (B, *N)")
        if not bool(values.flatten(-grid.dim).any(dim=-1).all()):
            raise ValueError("the mask leaves a domain without points; expected at least one")
        object.__setattr__(self, "mask", values)

    @property
    def sets(self) -> int | None:
        return len(self.mask) if self.mask.dim() > self.dim else None

    def inside(self, field: Tensor) -> Tensor:
        return self.by_sample(self.mask, field)

    def of_samples(self, indices: Sequence[int]) -> "MaskedGrid":
        if self.sets is None:
            return self
        return MaskedGrid(self, self.mask[torch.as_tensor(list(indices), dtype=torch.long)])

    def coarsen(self, factor: int) -> "MaskedGrid":
        return MaskedGrid(super().coarsen(factor), self.mask[self.every(factor)])


def axis_modes(n: int, kept: int | None, *, half: bool, device: Device = None) -> Tensor:
    """Integer frequencies of one axis in the order of the FFT, shape (n^,)."""
    if half:
        return torch.arange(n // 2 + 1 if kept is None else kept, device=device)
    up, down = ((n + 1) // 2, n // 2) if kept is None else (kept, kept)
    return torch.cat([torch.arange(up, device=device), torch.arange(-down, 0, device=device)])


def hermitian_weights(last: Tensor, points: int) -> Tensor:
    """w(ξ_d) of the Hermitian rule of `pdno.spectral.fourier`: 1 at ξ_d = 0 and N_d/2, else 2."""
    return torch.where((last == 0) | (2 * last == points), 1.0, 2.0)


def kept_per_axis(shape: Sequence[int], kept: Modes) -> tuple[int | None, ...]:
    """One k_max per axis (None: all modes), checked against what the grid can hold."""
    ks = (kept,) * len(shape) if kept is None or isinstance(kept, int) else tuple(kept)
    if len(ks) != len(shape):
        raise ValueError(f"modes {ks} name {len(ks)} axes; the grid has {len(shape)}")
    for axis, (k, limit) in enumerate(zip(ks, most_modes(shape), strict=True)):
        if k is not None and not 1 <= k <= limit:
            expected = f"expected 1 to {limit}; keep fewer modes, use a finer grid, or modes=None"
            raise ValueError(f"modes={k} on axis {axis} with {shape[axis]} points: {expected}")
    return ks


def most_modes(shape: Sequence[int]) -> list[int]:
    """The largest k_max that a grid of `shape` can hold, per axis."""
    return [n // 2 for n in shape[:-1]] + [shape[-1] // 2 + 1]


def _mesh(axes: list[Tensor]) -> Tensor:
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)
