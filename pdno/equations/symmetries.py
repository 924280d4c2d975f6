"""Symmetries of equations: maps T of fields that turn solutions into solutions.

The solution operator S commutes with them, S T = T S, exactly and also on a grid that T maps to
itself. So a training sample stands for as many as there are symmetries.
"""

import math
from dataclasses import dataclass, replace
from itertools import permutations, product

from torch import Tensor

from pdno.spectral.grid import Grid


@dataclass(frozen=True)
class Symmetry:
    """(T f)(x) = sign · f(M x + shift), (M x)_a = ± x_{axes[a]}, minus where `flips`.

    On a box a flip is x -> 1 - x, and there is no shift.
    """

    axes: tuple[int, ...]
    flips: tuple[bool, ...]
    shift: tuple[float, ...]
    sign: int = 1

    def apply(self, f: Tensor, grid: Grid) -> Tensor:
        """T f for fields (..., *N) on a grid that is mapped to itself."""
        if tuple(grid.shape[axis] for axis in self.axes) != grid.shape:
            raise ValueError(f"{self} exchanges axes of different length on {grid}")
        first = f.dim() - grid.dim
        # first shift and flip each axis of f, then let axis a run along axes[a]
        for axis, (flip, b, n) in enumerate(zip(self.flips, self.shift, grid.shape, strict=True)):
            # point i reads f at ±(i + offset) + bN - offset; a flipped array has N - 1 - i at i
            steps = b * n + 1 - 2 * grid.offset if flip else -b * n
            if grid.periodic and abs(steps - round(steps)) > 1e-9:
                reason = f"{b} of {n} points is no whole step"
                raise ValueError(f"{self} does not map {grid} to itself: {reason}")
            if not grid.periodic and (b or (flip and grid.offset not in (0.0, 0.5))):
                reason = "flips of a box need offset 0 or 1/2, and a box has no shifts"
                raise ValueError(f"{self} does not map {grid} to itself: {reason}")
            f = f.flip(first + axis) if flip else f
            f = f.roll(round(steps), first + axis) if grid.periodic and round(steps) else f
        order = [first + self.axes.index(axis) for axis in range(grid.dim)]
        return self.sign * f.permute(*range(first), *order)


@dataclass(frozen=True)
class Symmetries:
    """All products of some turns with translations by whole points of a grid.

    Translations go k/N along each of the `directions`, integer vectors with their N.
    """

    turns: tuple[Symmetry, ...]
    directions: tuple[tuple[tuple[int, ...], int], ...] = ()

    def __len__(self) -> int:
        return len(self.turns) * math.prod(points for _, points in self.directions)

    def __getitem__(self, index: int) -> Symmetry:
        if not 0 <= index < len(self):
            raise IndexError(f"symmetry {index} of {len(self)}")
        rest, turn = divmod(index, len(self.turns))
        chosen = self.turns[turn]
        shift = list(chosen.shift)
        for direction, points in self.directions:
            rest, steps = divmod(rest, points)
            for axis, component in enumerate(direction):
                shift[axis] = (shift[axis] + component * steps / points) % 1.0
        return replace(chosen, shift=tuple(shift))


def box_symmetries(grid: Grid) -> tuple[Symmetry, ...]:
    """The permutations and reflections of the axes that map a grid to itself, 2^d d! of a cube."""
    none = (0.0,) * grid.dim
    flipped = grid.periodic or grid.offset in (0.0, 0.5)
    return tuple(
        Symmetry(order, flips, none)
        for order in permutations(range(grid.dim))
        if tuple(grid.shape[axis] for axis in order) == grid.shape
        for flips in product((False, True) if flipped else (False,), repeat=grid.dim)
    )


def all_translations(grid: Grid) -> tuple[tuple[tuple[int, ...], int], ...]:
    """The directions of all translations of a periodic grid."""
    if not grid.periodic:
        return ()
    axes = range(grid.dim)
    return tuple((tuple(int(a == b) for b in axes), grid.shape[a]) for a in axes)
