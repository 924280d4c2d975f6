"""The symbol of any operator on the torus, learned, solved or composed.

    a(x, ξ) = e^{-2πi ξ·x} A[e^{2πi ξ·}](x)

A real linear operator gives A[e^{2πi ξ·}] = A[cos 2πξ·x] + i A[sin 2πξ·x], two fields for each
mode. A nonlinear one has the symbol of its derivative at a state f. Three ways lead there:

- *waves*: a linear operator is applied to them. Exact.
- *reverse*: row x of the derivative is its transpose applied to the unit field at x, one backward
  pass, and the transform of the row is the symbol. Exact, and first derivatives are enough, which
  is all that the operators of this package have. Samples of a batch must not see each other.
- *differences*: where there is no gradient, as with solvers, four-point differences along the
  waves, with an estimate of their error.

At the lines ξ_d = 0 and N_d/2 the result is what acts of a symbol (`fourier.whole_spectrum`).
One number for each point and mode: for small grids, or few modes.
"""

__all__ = ["ExtractedSymbol", "extract_symbol"]

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pdno.fourier import Modes, transform, truncate_modes, whole_spectrum
from pdno.grid import Grid
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.symbols.base import Symbol, SymbolValues
from pdno.symbols.direct import FullSymbol, apply_directly, full_values
from pdno.theory.sobolev import as_linear_map, in_double, is_linear

NUMBERS = 2**26
"""Values of the largest symbol that is written out, one gigabyte."""

Comparable = PseudoDifferentialOperator | Symbol | SymbolValues | FullSymbol | Tensor


@dataclass(frozen=True)
class ExtractedSymbol:
    """a_ij(x, ξ) on the points of a grid and its kept modes.

    Arguments:
        values: a, (O, I, *N, *K^), complex128.
        grid: The points x.
        modes: The kept modes.
        way: "waves", "reverse" or "differences".
        error: Estimated error of the values; 0 where the way is exact.
    """

    values: Tensor
    grid: Grid
    modes: Modes
    way: str
    error: float = 0.0

    @property
    def xi(self) -> Tensor:
        """The modes, (*K^, d)."""
        return self.grid.modes(self.modes, device=self.values.device)

    def at(self, x: Sequence[float]) -> Tensor:
        """a(x, ·) at the grid point nearest to x, (O, I, *K^)."""
        if len(x) != self.grid.dim:
            raise ValueError(f"x has {len(x)} coordinates; expected {self.grid.dim}")
        values = self.values
        for place, axis in zip(x, self.grid.axes(), strict=True):
            distance = (axis - place).abs()
            if self.grid.periodic:
                distance = torch.minimum(distance % 1, (-distance) % 1)
            values = values.select(2, int(distance.argmin()))
        return values

    def mean_over_x(self) -> Tensor:
        """The mean of a(x, ξ) over x, (O, I, *K^)."""
        return self.values.mean(dim=tuple(range(2, 2 + self.grid.dim)))

    def apply(self, f: Tensor) -> Tensor:
        """The operator of this symbol, (B, I, *N) -> (B, O, *N)."""
        return apply_directly(self.values, f, self.grid, self.modes)

    def distance(self, other: Comparable, *, modes: Modes = None, t: float | None = None) -> float:
        """sup |a - b| / sup |b| over all points, channels and the modes of this symbol.

        b is what acts of the other one on this grid (see `pdno.fourier.whole_spectrum`).

        Arguments:
            other: An operator, a symbol or its values; or numbers b like `values`, taken as such.
            modes: Kept modes of the symbol, which may be more than those looked at here; None for
                all of the grid. An operator knows its own.
            t: Time, for symbols that depend on it.
        """
        b = other if isinstance(other, Tensor) else self._acting(other, modes, t)
        return float((self.values - b).abs().max() / b.abs().max())

    @torch.no_grad()
    def _acting(
        self,
        other: PseudoDifferentialOperator | Symbol | SymbolValues | FullSymbol,
        modes: Modes,
        t: float | None,
    ) -> Tensor:
        grid = self.grid
        if isinstance(other, FullSymbol):
            b = other.values(grid, modes)
        elif isinstance(other, PseudoDifferentialOperator):
            modes, b = other.modes, full_values(in_double(other.values(grid, t)), grid)
        else:
            values = other if isinstance(other, SymbolValues) else other(grid, modes, t)
            b = full_values(in_double(values), grid)
        half = whole_spectrum(b.to(self.values), grid, modes)[..., : grid.half_shape[-1]]
        return truncate_modes(half, grid.shape, self.modes)


def extract_symbol(
    operator: Callable[[Tensor], Tensor],
    grid: Grid,
    *,
    channels: int | None = None,
    state: Tensor | None = None,
    modes: Modes = None,
    batch: int = 64,
    step: float = 1e-3,
) -> ExtractedSymbol:
    """The symbol of an operator, (B, I, *N) -> (B, O, *N), or of its derivative at a state.

    Arguments:
        operator: Linear if there is no state.
        grid: Where it acts.
        channels: I of a linear operator; not needed for a `PseudoDifferentialOperator`.
        state: f (1, I, *N) at which a nonlinear operator is linearised.
        modes: The modes wanted; None for all.
        batch: Fields at once.
        step: Length of the waves that are added to the state, where differences are needed.

    Example:
        >>> from pdno.spectral import derivative
        >>> a = extract_symbol(lambda f: derivative(f, (1,)), Grid((8,)), channels=1)
        >>> (a.mean_over_x()[0, 0].imag / (2 * torch.pi)).round(decimals=9).tolist()
        [0.0, 1.0, 2.0, 3.0, 0.0]
    """
    if state is None:
        apply, inputs, device = as_linear_map(operator, grid, channels)
        f = torch.linspace(-1, 1, inputs * grid.size, dtype=torch.float64, device=device)
        f = f.reshape(1, inputs, *grid.shape)
        if not is_linear(apply, f):
            raise ValueError(
                "the operator is not linear: give a state, and its derivative is taken"
            )
        return ExtractedSymbol(_columns(apply, f, grid, modes, batch), grid, modes, "waves")
    grid.check(state, "state")
    if state.dim() != grid.dim + 2 or len(state) != 1:
        raise ValueError(f"state has shape {tuple(state.shape)}; expected (1, I, *N): one sample")
    if _has_gradient(operator, state):
        return ExtractedSymbol(_rows(operator, state, grid, modes, batch), grid, modes, "reverse")
    slope = _Differences(operator, state, step)
    values = _columns(slope, state, grid, modes, max(1, batch // 4))
    return ExtractedSymbol(values, grid, modes, "differences", slope.error)


def _columns(
    derivative: Callable[[Tensor], Tensor], like: Tensor, grid: Grid, modes: Modes, batch: int
) -> Tensor:
    """e^{-2πi ξ·x} A[e^{2πi ξ·}], mode by mode."""
    xi = grid.modes(modes, device=like.device)
    flat, inputs = xi.reshape(-1, grid.dim), like.shape[1]
    chunks: list[Tensor] = []
    for some in torch.split(flat, max(1, batch // 2)):
        wave = _waves(grid, some)
        out = []
        for channel in range(inputs):
            fields = like.new_zeros(2 * len(some), inputs, *grid.shape)
            fields[:, channel] = torch.cat([wave.real, wave.imag]).to(like.dtype)
            with torch.no_grad():
                cosines, sines = derivative(fields).to(torch.float64).chunk(2)
            out.append(torch.complex(cosines, sines) * wave.conj().unsqueeze(1))
        chunks.append(torch.stack(out, dim=2))  # (modes, O, I, *N)
        _check_size(chunks[0][0].numel() * len(flat))
    values = torch.cat(chunks).movedim(0, -1)
    return values.reshape(*values.shape[:-1], *xi.shape[:-1])


def _rows(
    operator: Callable[[Tensor], Tensor], state: Tensor, grid: Grid, modes: Modes, batch: int
) -> Tensor:
    """|N| e^{-2πi ξ·x} conj F[row x], row by row of the derivative."""
    xi = grid.modes(modes, device=state.device)
    with torch.no_grad():
        outputs = operator(state).shape[1]
    _check_size(outputs * state.numel() * xi.numel() // grid.dim)
    places = torch.arange(outputs * grid.size, device=state.device)
    chunks = []
    for some in torch.split(places, batch):
        rows = _transposed(operator, state, some).to(torch.float64)
        chunks.append(transform(rows, grid.dim, modes).conj().resolve_conj())
    values = torch.cat(chunks).reshape(outputs, *grid.shape, state.shape[1], *xi.shape[:-1])
    waves = _waves(grid, xi.reshape(-1, grid.dim)).movedim(0, -1)
    phases = waves.conj().reshape(*grid.shape, *xi.shape[:-1])
    return values.movedim(1 + grid.dim, 1) * phases * grid.size


def _transposed(operator: Callable[[Tensor], Tensor], state: Tensor, places: Tensor) -> Tensor:
    """The transpose of the derivative at the unit fields of some channels and points."""
    with torch.enable_grad():
        f = state.detach().expand(len(places), *state.shape[1:]).clone().requires_grad_()
        out = operator(f)
        units = torch.zeros_like(out).flatten(1)
        units[torch.arange(len(places)), places] = 1
        (rows,) = torch.autograd.grad(out, f, units.reshape(out.shape))
    return rows


class _Differences:
    """Directional derivatives at a state by (8 (f₁ - f₋₁) - (f₂ - f₋₂)) / 12h, of order h⁴."""

    def __init__(self, operator: Callable[[Tensor], Tensor], state: Tensor, step: float) -> None:
        self.operator, self.state, self.step, self.error = operator, state, step, 0.0

    def __call__(self, directions: Tensor) -> Tensor:
        # in one batch, so that a solver that chooses its steps takes the same for all four
        moved = [self.state + place * self.step * directions for place in (1, -1, 2, -2)]
        one, minus_one, two, minus_two = self.operator(torch.cat(moved)).chunk(4)
        second = (one - minus_one) / (2 * self.step)
        fourth = (8 * (one - minus_one) - (two - minus_two)) / (12 * self.step)
        # that of the formula of order h², which the one of order h⁴ is well below
        self.error = max(self.error, float((fourth - second).abs().max()))
        return fourth


def _waves(grid: Grid, xi: Tensor) -> Tensor:
    """e^{2πi ξ·x} of the transform, which starts at the first point, (M, *N)."""
    x = Grid(grid.shape).points(device=xi.device).reshape(-1, grid.dim)
    angle = 2 * math.pi * (xi.to(torch.float64) @ x.T)
    return torch.polar(torch.ones_like(angle), angle).reshape(-1, *grid.shape)


def _has_gradient(operator: Callable[[Tensor], Tensor], state: Tensor) -> bool:
    with torch.enable_grad():
        return operator(state.detach().clone().requires_grad_()).requires_grad


def _check_size(numbers: int) -> None:
    if numbers > NUMBERS:
        raise ValueError(
            f"a symbol of {numbers} numbers: take a coarser grid, fewer channels or fewer modes"
        )
