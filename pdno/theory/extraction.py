"""The symbol of any operator on the torus, learned, solved or composed.

    a(x, ξ) = e^{-2πi ξ·x} A[e^{2πi ξ·}](x)

A real linear operator has A[e^{2πi ξ·}] = A[cos 2πξ·x] + i A[sin 2πξ·x], a nonlinear one the
symbol of its derivative at a state f. Three ways lead there, the first two exact:

- *waves*: a linear operator is applied to them.
- *reverse*: row x of the derivative is its transpose applied to the unit field at x, one backward
  pass, and the transform of the row is the symbol. Samples of a batch must not see each other.
- *differences*: where there is no gradient, as with solvers, four-point differences along the
  waves, with an estimate of their error.

At the lines ξ_d = 0 and N_d/2 the result is what acts of a symbol (`fourier.whole_spectrum`).
"""

__all__ = ["ExtractedSymbol", "extract_symbol"]

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pdno.spectral.fourier import Modes, transform, truncate_modes, whole_spectrum
from pdno.spectral.grid import Grid
from pdno.symbols.base import FullSymbol, apply_directly, full_values
from pdno.theory.sobolev import LinearMap, Separated, as_linear_map, is_linear, symbol_values

NUMBERS = 2**26  # values of the largest symbol that is written out, one gigabyte


@dataclass(frozen=True)
class ExtractedSymbol:
    """a_ij(x, ξ) on the points of a grid and its kept modes."""

    values: Tensor  #: a, (O, I, *N, *K^), complex128
    grid: Grid
    modes: Modes
    way: str  #: "waves", "reverse" or "differences"
    error: float = 0.0  #: estimated error of the values; 0 where the way is exact

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

    @torch.no_grad()
    def distance(
        self,
        other: Separated | FullSymbol | Tensor,
        *,
        modes: Modes = None,
        t: float | None = None,
    ) -> float:
        """sup |a - b| / sup |b| over all points, channels and the modes of this symbol.

        b is what acts of the other one on this grid (see `pdno.spectral.fourier.whole_spectrum`), where a
        symbol may keep more `modes` than are looked at here; numbers b are taken as such.
        """
        b = other
        if not isinstance(b, Tensor):
            if isinstance(b, FullSymbol):
                numbers = b.values(self.grid, modes)
            else:
                values, modes = symbol_values(b, self.grid, modes, t)
                numbers = full_values(values, self.grid)
            whole = whole_spectrum(numbers.to(self.values), self.grid, modes)
            half = whole[..., : self.grid.half_shape[-1]]
            b = truncate_modes(half, self.grid.shape, self.modes)
        return float((self.values - b).abs().max() / b.abs().max())


def extract_symbol(
    operator: LinearMap,
    grid: Grid,
    *,
    channels: int | None = None,
    state: Tensor | None = None,
    modes: Modes = None,
    batch: int = 64,
    step: float = 1e-3,
) -> ExtractedSymbol:
    """The symbol of an operator, (B, I, *N) -> (B, O, *N), or of its derivative at a state.

    It is one number for each point and mode wanted: for small grids, or few modes.

    Arguments:
        channels: I of a linear operator; not needed for a `PseudoDifferentialOperator`.
        state: f (1, I, *N) at which a nonlinear operator is linearised.
        batch: Fields at once.
        step: Length of the waves that are added to the state, where differences are needed.

    Example:
        >>> from pdno import apply_symbol, symbols
        >>> slope = symbols.Derivative((1,))
        >>> a = extract_symbol(lambda f: apply_symbol(slope, f), Grid((8,)), channels=1)
        >>> (a.mean_over_x()[0, 0].imag / (2 * torch.pi)).abs().round(decimals=9).tolist()
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
    with torch.enable_grad():
        known = operator(state.detach().clone().requires_grad_()).requires_grad
    if known:
        return ExtractedSymbol(_rows(operator, state, grid, modes, batch), grid, modes, "reverse")
    slope = _Differences(operator, state, step)
    values = _columns(slope, state, grid, modes, max(1, batch // 4))
    return ExtractedSymbol(values, grid, modes, "differences", slope.error)


def _columns(derivative: LinearMap, like: Tensor, grid: Grid, modes: Modes, batch: int) -> Tensor:
    """e^{-2πi ξ·x} A[e^{2πi ξ·}], mode by mode."""
    xi = grid.modes(modes, device=like.device)
    flat, inputs = xi.reshape(-1, grid.dim), like.shape[1]
    chunks: list[Tensor] = []
    for some in torch.split(flat, max(1, batch // 2)):
        wave, out = _waves(grid, some), []
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


@torch.enable_grad()
def _rows(operator: LinearMap, state: Tensor, grid: Grid, modes: Modes, batch: int) -> Tensor:
    """|N| e^{-2πi ξ·x} conj F[row x], row by row of the derivative."""
    xi = grid.modes(modes, device=state.device)
    outputs = operator(state.detach()).shape[1]
    _check_size(outputs * state.numel() * xi.numel() // grid.dim)
    chunks = []
    for some in torch.split(torch.arange(outputs * grid.size, device=state.device), batch):
        f = state.detach().expand(len(some), *state.shape[1:]).clone().requires_grad_()
        out = operator(f)
        units = torch.zeros_like(out).flatten(1)
        units[torch.arange(len(some)), some] = 1
        (rows,) = torch.autograd.grad(out, f, units.reshape(out.shape))
        chunks.append(transform(rows.to(torch.float64), grid.dim, modes).conj().resolve_conj())
    values = torch.cat(chunks).reshape(outputs, *grid.shape, state.shape[1], *xi.shape[:-1])
    waves = _waves(grid, xi.reshape(-1, grid.dim)).movedim(0, -1)
    phases = waves.conj().reshape(*grid.shape, *xi.shape[:-1])
    return values.movedim(1 + grid.dim, 1) * phases * grid.size


class _Differences:
    """Directional derivatives at a state by (8 (f₁ - f₋₁) - (f₂ - f₋₂)) / 12h, of order h⁴."""

    def __init__(self, operator: LinearMap, state: Tensor, step: float) -> None:
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


def _check_size(numbers: int) -> None:
    if numbers > NUMBERS:
        raise ValueError(
            f"a symbol of {numbers} numbers: take a coarser grid, fewer channels or fewer modes"
        )
