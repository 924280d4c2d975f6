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

At the lines ξ_d = 0 and N_d/2 the result is what acts of a symbol (see `pdno.theory.hermitian`).
One number for each point and mode: for small grids, or few modes.
"""

__all__ = ["ExtractedSymbol", "extract_symbol"]

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pdno.fourier import Modes, truncate_modes
from pdno.grid import Grid
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.symbols.base import Symbol, SymbolValues
from pdno.symbols.direct import FullSymbol, apply_directly, full_values
from pdno.theory.hermitian import whole_spectrum
from pdno.theory.responses import Differences, columns, has_gradient, rows
from pdno.theory.sobolev import as_linear_map, in_double, is_linear

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

        b is what acts of the other one on this grid (see `pdno.theory.hermitian`).

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
        return ExtractedSymbol(columns(apply, f, grid, modes, batch), grid, modes, "waves")
    _check_state(state, grid)
    if has_gradient(operator, state):
        return ExtractedSymbol(rows(operator, state, grid, modes, batch), grid, modes, "reverse")
    slope = Differences(operator, state, step)
    values = columns(slope, state, grid, modes, max(1, batch // 4))
    return ExtractedSymbol(values, grid, modes, "differences", slope.error)


def _check_state(state: Tensor, grid: Grid) -> None:
    grid.check(state, "state")
    if state.dim() != grid.dim + 2 or len(state) != 1:
        raise ValueError(f"state has shape {tuple(state.shape)}; expected (1, I, *N): one sample")
