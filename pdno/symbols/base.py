"""Symbols: the functions a(x, ξ) that define an operator K[f](x) = Σ_ξ a(x, ξ) f̂(ξ) e^{2πi ξ·x}.

Fast operators need the separated form a_ij(x, ξ) = Σ_r b_rij(x) c_rij(ξ) (eq. 16 has one term)
for each output j and input i; in tensors j comes first.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pdno.interface.arguments import RecordsArguments
from pdno.interface.errors import check_shape
from pdno.spectral.fourier import Modes, transform
from pdno.spectral.grid import Grid, hermitian_weights

Time = Tensor | float | None
Ints = Sequence[int]
POINT_MODE_PAIRS = 2**24  # the largest double sum


@dataclass(frozen=True)
class SymbolValues:
    """Values of a separated symbol on a grid and its kept modes.

    The number of inverse transforms depends on the x-factors: O if b = 1, R·O if they do not
    depend on the input channel, O·I for the b_rij of the paper.

    Arguments:
        frequency: c, shape (R, O, I, *N^), complex. With times per sample (B, R, O, I, *N^).
        space: b, shape (R, O or 1, I or 1, *N), real, with the same leading B; None means 1.
        basis: ℓ, shape (M, N_d), if b is given at M nodes of each row, (R, O, I, *N[:-1], M), and
            stands for Σ_m b_m ℓ_m (see `symbols.nodes`).
        rows: The same for the axes before the last, a table (N_a, P_a) each, if b is given at P_a
            points of them, (R, O, I, *P, M); an empty table stands for all points.
    """

    frequency: Tensor
    space: Tensor | None = None
    basis: Tensor | None = None
    rows: tuple[Tensor, ...] = ()

    def __post_init__(self) -> None:
        for name in ("frequency", "space", "basis"):
            if not isinstance(factor := getattr(self, name), Tensor | None):
                given = f"is of type {type(factor).__name__}; expected a tensor"
                raise ValueError(f"the {name} factor of a symbol {given}")

    def check(self, channels: Ints, spectrum: Ints, points: Ints) -> None:
        """ValueError unless these are values for outputs and inputs (-1: any), modes, points."""
        c, b, sizes = self.frequency, self.space, list(points)
        leading = ("B", "R") if c.dim() == 4 + len(spectrum) else ("R",)
        sides = [n if n >= 0 else name for n, name in zip(channels, "OI", strict=True)]
        check_shape("the frequency factor of the symbol", c, *leading, *sides, *spectrum)
        if not c.numel():
            raise ValueError(f"the frequency factor of the symbol is empty: {tuple(c.shape)}")
        if b is None:
            return
        for axis, table in enumerate(self.rows):
            if table.numel():
                check_shape(f"the row {axis} factor of the symbol", table, points[axis], "P")
                sizes[axis] = table.shape[1]
        if self.basis is not None:
            check_shape("the basis of the symbol", self.basis, "M", points[-1])
            sizes[-1] = len(self.basis)
        first = len(leading)
        # a factor of one channel serves all of them
        served = zip(c.shape[first : first + 2], b.shape[first:], strict=False)
        served_sides = [1 if m == 1 else n for n, m in served]
        check_shape("the space factor of the symbol", b, *c.shape[:first], *served_sides, *sizes)

    @property
    def nbytes(self) -> int:
        """Bytes of all factors."""
        factors = (self.frequency, self.space, self.basis, *self.rows)
        return sum(factor.nbytes for factor in factors if factor is not None)

    def on_rows(self) -> "SymbolValues":
        """The same with b on all rows of the grid."""
        if self.space is None or not self.rows:
            return self
        channels = self.space.dim() - 1 - len(self.rows)
        first, last = tuple(range(channels)), tuple(range(-channels, 0))
        full = interpolate_rows(self.space.movedim(first, last), self.rows).movedim(last, first)
        return SymbolValues(self.frequency, full, self.basis)

    def on_grid(self) -> "SymbolValues":
        """The same with b on the whole grid."""
        b = self.on_rows().space
        if self.basis is None or b is None:
            return self
        return SymbolValues(self.frequency, b @ self.basis)


def interpolate_rows(values: Tensor, rows: Sequence[Tensor], *, back: bool = False) -> Tensor:
    """Σ_p rows_a(x, p) v_p along the first axes, (*P, ...) -> (*N, ...), or its transpose."""
    for axis, table in enumerate(rows):
        if table.numel():
            matrix = table.T if back else table
            moved = matrix @ values.reshape(*values.shape[: axis + 1], -1)
            values = moved.reshape(*values.shape[:axis], len(matrix), *values.shape[axis + 1 :])
    return values


class Symbol(RecordsArguments, nn.Module):
    """A symbol a_ij(x, ξ), perhaps with time t and PDE parameters μ."""

    dim: int | None = None  # axes, where the symbol has a number of them
    depends_on_x = False
    takes_time = False
    pde_parameters = 0  # how many μ it depends on
    class_order = 0.0  # m as its formula has it, for comparisons; proofs are those of pdno.theory
    hermitian = False  # whether a(x, -ξ) = conj a(x, ξ): what acts on real functions is a

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        if in_channels < 1 or out_channels < 1:
            raise ValueError(f"from {in_channels} to {out_channels} channels; expected at least 1")
        self.in_channels, self.out_channels = in_channels, out_channels

    @abstractmethod
    def evaluate(self, grid: Grid, modes: Modes = None, t: Time = None) -> SymbolValues:
        """The values on `grid` and its kept `modes`, at time t (one, or one per sample).

        With PDE parameters t is (B, P), time first if the symbol takes it; one row is for all.
        """

    def evaluate_at(self, x: Tensor, xi: Tensor, t: Time = None) -> SymbolValues:
        """c at frequencies (M, d), which need not be integers, and b at points (P, d)."""
        name = type(self).__name__
        raise ValueError(f"{name} has no values off the grid: give a function a(x, ξ) instead")

    def forward(self, grid: Grid, modes: Modes = None, t: Time = None) -> SymbolValues:
        """The same as `evaluate`."""
        return self.evaluate(grid, modes, t)

    def structure(self, t: Tensor | None = None) -> object:
        """A `pdno.theory.expression.Expression` of the same symbol, all pairs, for proofs."""
        return None


def as_parameters(t: Time, symbol: Symbol, like: Tensor) -> Tensor | None:
    """Time and PDE parameters, (P,) or (B, P); a single one may come as () or (B,)."""
    count = symbol.takes_time + symbol.pde_parameters
    names = f"{'time and ' if symbol.takes_time else ''}{symbol.pde_parameters} PDE parameters"
    if (t is None) == bool(count):
        problem = "has no time: leave t out, or take a symbol with takes_time=True"
        if symbol.pde_parameters:
            problem = f"depends on {names}: give them as t of shape (B, {count})"
        elif count:
            problem = "depends on time: give t, one number or one per sample"
        raise ValueError(f"{type(symbol).__name__} {problem}")
    if t is None:
        return None
    values = torch.as_tensor(t, dtype=like.dtype, device=like.device)
    if count == 1 and values.dim() < 2:
        return values[..., None]
    if not symbol.pde_parameters or values.dim() != 2 or values.shape[1] != count:
        rows = f"(B, {count}) for {names}: one row for each sample or for all"
        expected = rows if symbol.pde_parameters else "one number or (B,)"
        raise ValueError(f"t has shape {tuple(values.shape)}; expected {expected}")
    return values[0] if len(values) == 1 else values


class FullSymbol:
    """a_ij(x, ξ) that is not separated: its operator is the double sum itself, on small grids.

    The function takes x (P, 1, d) and ξ (1, M, d) to values (O, I, P, M).
    """

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.function = function

    def values(self, grid: Grid, modes: Modes = None) -> Tensor:
        """a on all pairs of a point and a mode, (O, I, *N, *N^)."""
        x, xi = grid.points().reshape(-1, 1, grid.dim), grid.modes(modes).to(torch.float64)
        _check_size(grid, xi)
        flat = self.function(x, xi.reshape(1, -1, grid.dim))
        return flat.reshape(*flat.shape[:2], *grid.shape, *xi.shape[:-1]).to(torch.complex128)


def full_values(values: SymbolValues, grid: Grid) -> Tensor:
    """A separated symbol written out, Σ_r b_rij(x) c_rij(ξ), shape (O, I, *N, *N^)."""
    c, b, ones = values.frequency, values.space, [1] * grid.dim
    if c.dim() != 3 + grid.dim:
        raise ValueError("a symbol with one time per sample: write it out for one time")
    b = c.real.new_ones(1, 1, 1, *grid.shape) if b is None else b
    return (b.reshape(*b.shape, *ones) * c.reshape(*c.shape[:3], *ones, *c.shape[3:])).sum(dim=0)


def apply_directly(a: Tensor, f: Tensor, grid: Grid, modes: Modes = None) -> Tensor:
    """K[f]_j(x) = Σ_i Σ_ξ a_ij(x, ξ) f̂_i(ξ) e^{2πi ξ·x} (eq. 11) by the double sum.

    (O, I, *N, *N^), (B, I, *N) -> (B, O, *N) with O(|N|²) work and memory.
    """
    xi = grid.modes(modes).to(torch.float64).reshape(-1, grid.dim)
    _check_size(grid, xi)
    # the waves are those of the transform, which starts at the first point wherever that lies
    x = Grid(grid.shape).points().reshape(-1, grid.dim)
    waves = torch.exp(2j * math.pi * (x @ xi.T)) * hermitian_weights(xi[:, -1], grid.shape[-1])
    f_hat = transform(f.to(torch.float64), grid.dim, modes).flatten(2)
    kernel = a.reshape(*a.shape[:2], grid.size, -1) * waves
    return torch.einsum("oixm,bim->box", kernel, f_hat).real.reshape(len(f), -1, *grid.shape)


def _check_size(grid: Grid, xi: Tensor) -> None:
    if (pairs := grid.size * (xi.numel() // grid.dim)) > POINT_MODE_PAIRS:
        problem = f"{pairs} pairs of a point and a mode: the direct sum is for small grids"
        raise ValueError(f"{problem}; use a separated symbol, a coarser grid or fewer modes")
