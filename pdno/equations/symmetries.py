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
        cannot = f"{self} does not map {grid} to itself"
        if tuple(grid.shape[axis] for axis in self.axes) != grid.shape:
            raise ValueError(f"{cannot}: axes of different length")
        centred = grid.offset in (0.0, 0.5) or not any(self.flips)
        if not grid.periodic and (any(self.shift) or not centred):
            raise ValueError(f"{cannot}: flips of a box need offset 0 or 1/2, it has no shifts")
        first = f.dim() - grid.dim
        # first shift and flip each axis of f, then let axis a run along axes[a]
        for axis, (flip, b, n) in enumerate(zip(self.flips, self.shift, grid.shape, strict=True)):
            # point i reads f at ±(i + offset) + bN - offset; a flipped array has N - 1 - i at i
            steps = b * n + 1 - 2 * grid.offset if flip else -b * n
            f = f.flip(first + axis) if flip else f
            if grid.periodic and abs(steps - round(steps)) > 1e-9:
                raise ValueError(f"{cannot}: {b} of {n} points is no whole step")
            f = f.roll(round(steps), first + axis) if grid.periodic else f
        order = [first + self.axes.index(axis) for axis in range(grid.dim)]
        return self.sign * f.permute(*range(first), *order)


@dataclass(frozen=True)
class Symmetries:
    """All products of given symmetries with translations by whole grid points.

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
        shift = list(self.turns[turn].shift)
        for direction, points in self.directions:
            rest, steps = divmod(rest, points)
            shift = [(b + a * steps / points) % 1.0 for b, a in zip(shift, direction, strict=True)]
        return replace(self.turns[turn], shift=tuple(shift))


def box_symmetries(grid: Grid) -> tuple[Symmetry, ...]:
    """The permutations and reflections of the axes that map a grid to itself, 2^d d! of a cube."""
    signs = (False, True) if grid.periodic or grid.offset in (0.0, 0.5) else (False,)
    return tuple(
        Symmetry(order, flips, (0.0,) * grid.dim)
        for order in permutations(range(grid.dim))
        if tuple(grid.shape[axis] for axis in order) == grid.shape
        for flips in product(signs, repeat=grid.dim)
    )


def all_translations(grid: Grid) -> tuple[tuple[tuple[int, ...], int], ...]:
    """The directions of all translations of a periodic grid."""
    units = [tuple(int(a == b) for b in range(grid.dim)) for a in range(grid.dim)]
    return tuple(zip(units, grid.shape, strict=True)) if grid.periodic else ()
