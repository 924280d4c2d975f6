"""The symbol of any operator on the torus, a(x, ξ) = e^{-2πi ξ·x} A[e^{2πi ξ·}](x).

Of a nonlinear operator it is the symbol of its derivative at a state. At the lines ξ_d = 0 and
N_d/2 the result is what acts of a symbol (`fourier.whole_spectrum`). From the symbol of a heat
equation its diffusivity is recovered.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from pdno.spectral.fourier import Modes, transform, truncate_modes, whole_spectrum
from pdno.spectral.grid import Grid
from pdno.symbols.base import FullSymbol, apply_directly, full_values
from pdno.theory.norms import LinearMap, Separated, as_linear_map, symbol_values

NUMBERS = 2**26  # values of the largest symbol that is written out, one gigabyte
REFERENCE_MODES = 16  # whose residuals measure the noise of a recovered diffusivity


@dataclass(frozen=True)
class ExtractedSymbol:
    """a_ij(x, ξ) on the points of a grid and its kept modes."""

    values: Tensor  #: a, (O, I, *N, *K^), complex128
    grid: Grid
    modes: Modes
    method: Literal["waves", "reverse", "differences"]
    error: float = 0.0  #: estimated error of the values; 0 where the method is exact

    @property
    def xi(self) -> Tensor:
        """The modes, (*K^, d)."""
        return self.grid.modes(self.modes, device=self.values.device)

    def at(self, x: Sequence[float]) -> Tensor:
        """a(x, ·) at the grid point nearest to x, (O, I, *K^)."""
        if len(x) != self.grid.dim:
            raise ValueError(f"x has {len(x)} coordinates; expected {self.grid.dim}")
        values = self.values
        for coordinate, axis in zip(x, self.grid.axes(), strict=True):
            distance = (axis - coordinate).abs()
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

        b is what acts of the other symbol on this grid, where it may keep more `modes` than are
        compared here; values b are taken as such.
        """
        if not isinstance(other, Tensor):
            if isinstance(other, FullSymbol):
                numbers = other.values(self.grid, modes)
            else:
                values, modes = symbol_values(other, self.grid, modes, t)
                numbers = full_values(values, self.grid)
            whole = whole_spectrum(numbers.to(self.values), self.grid, modes)
            half = whole[..., : self.grid.half_shape[-1]]
            other = truncate_modes(half, self.grid.shape, self.modes)
        return float((self.values - other).abs().max() / other.abs().max())


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

    A linear operator is applied to *waves*. At a state, row x of the derivative is its transpose
    applied to the unit field at x, one *reverse* pass; samples of a batch must be independent.
    Without gradients there are *differences* along the waves, with an estimated error. The result
    has one number for each point and mode: for small grids, or few modes.

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
        apply, zero = as_linear_map(operator, grid, channels)
        return ExtractedSymbol(_columns(apply, zero, grid, modes, batch), grid, modes, "waves")
    grid.check(state, "state")
    if state.dim() != grid.dim + 2 or len(state) != 1:
        raise ValueError(f"state has shape {tuple(state.shape)}; expected (1, I, *N): one sample")
    with torch.enable_grad():
        has_gradient = operator(state.detach().clone().requires_grad_()).requires_grad
    if has_gradient:
        return ExtractedSymbol(_rows(operator, state, grid, modes, batch), grid, modes, "reverse")
    errors = [0.0]

    def slope(directions: Tensor) -> Tensor:
        """By (8 (f₁ - f₋₁) - (f₂ - f₋₂)) / 12h, of order h⁴."""
        # in one batch, so that a solver that chooses its steps takes the same for all four
        moved = [state + k * step * directions for k in (1, -1, 2, -2)]
        plus, minus, plus_two, minus_two = operator(torch.cat(moved)).chunk(4)
        fourth = (8 * (plus - minus) - (plus_two - minus_two)) / (12 * step)
        # that of the formula of order h², which the one of order h⁴ is well below
        errors.append(float((fourth - (plus - minus) / (2 * step)).abs().max()))
        return fourth

    values = _columns(slope, state, grid, modes, max(1, batch // 4))
    return ExtractedSymbol(values, grid, modes, "differences", max(errors))


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


def _waves(grid: Grid, xi: Tensor) -> Tensor:
    """e^{2πi ξ·x} of the transform, which starts at the first point, (M, *N)."""
    x = Grid(grid.shape).points(device=xi.device).reshape(-1, grid.dim)
    angle = 2 * math.pi * (xi.to(torch.float64) @ x.T)
    return torch.polar(torch.ones_like(angle), angle).reshape(-1, *grid.shape)


def _check_size(numbers: int) -> None:
    if numbers > NUMBERS:
        cure = "take a coarser grid, fewer channels or fewer modes"
        raise ValueError(f"a symbol of {numbers} numbers: {cure}")


# ---- Physical constants ----


@dataclass(frozen=True)
class Estimate:
    """A number and the standard error of the fit that it comes from."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:.6g} ± {self.error:.1g}"


def recover_diffusivity(
    values: Tensor, xi: Tensor, t: Tensor | float, weights: Tensor | None = None
) -> Estimate:
    """c of a symbol e^{-4π²c|ξ|²t} from its values (..., *K^) at modes ξ (*K^, d).

    -log |a| = c q, q = 4π²|ξ|²t, is a line, fitted with the weights |a|² of the fitted symbol:
    Gauss-Newton for Σ (|a| - e^{-cq})². For a(x, ξ) give the mean over x. Leading axes may hold
    times or repetitions; t broadcasts against the values.

    Example:
        >>> xi = torch.arange(6)[:, None]
        >>> heat = torch.exp(-4 * math.pi**2 * 0.05 * xi[:, 0].double() ** 2)
        >>> round(recover_diffusivity(heat, xi, t=1.0).value, 12)
        0.05
    """
    squared = xi.to(torch.float64).square().sum(dim=-1)
    if values.shape[values.dim() - squared.dim() :] != squared.shape:
        shapes = f"values of shape {tuple(values.shape)} at modes of shape {tuple(xi.shape)}"
        raise ValueError(f"{shapes}; expected the axes of the modes last")
    q = (4 * math.pi**2 * squared * t).expand(values.shape).reshape(-1, squared.numel())
    a = values.detach().to(torch.complex128 if values.is_complex() else torch.float64)
    a = a.reshape(q.shape)
    y = -a.abs().log()
    usable = (q > 0) & torch.isfinite(y)
    if not bool(usable.any()):
        raise ValueError("no mode ξ ≠ 0 at a time t > 0 has a value that is finite and not zero")
    if weights is not None:
        w = weights.to(torch.float64).expand(values.shape).reshape(q.shape)
        w = torch.where(usable, w, 0.0)
        slope = _fit(y, q, w)
        residuals = w.sqrt() * (y - slope * q)
    else:
        # a first guess from the modes that stand out of the noise
        stands_out = usable & (y < y[usable].min() + math.log(4))
        slope = _fit(y, q, torch.where(stands_out, torch.exp(-2 * y), 0.0))
        for _ in range(100):
            before, w = slope, torch.where(usable, torch.exp(-2 * max(slope, 0.0) * q), 0.0)
            slope = _fit(y, q, w)
            if abs(slope - before) <= 1e-14 * abs(before):
                break
        radial = a.abs() - w.sqrt()
        # of modes that are nothing but noise the real part
        residuals = torch.where(w.sqrt() > radial.abs(), -radial, -a.real)
    return Estimate(slope, _standard_error(q, w, torch.where(usable, residuals, 0.0)))


def _fit(y: Tensor, q: Tensor, w: Tensor) -> float:
    """The slope of y = c q."""
    total = (w * q.square()).sum()
    if not float(total) > 0:
        raise ValueError("all weights are zero; expected some positive ones")
    return float(torch.where(w > 0, w * q * y, 0.0).sum() / total)


def _standard_error(q: Tensor, w: Tensor, rho: Tensor) -> float:
    """The error of the slope, for times and modes (T, M), Σ_ξ' (g_ξ·ρ_ξ')² / (n - 1) / (Σ g²)².

    With g = w^{1/2} q and residuals ρ, c is off by Σ_ξ g_ξ·ρ_ξ / Σ g². Often one mode counts, and
    the fit has made its own residual small: each gets those of the n modes ξ' that count most.
    """
    g = w.sqrt() * q
    counts = g.square().sum(dim=0)
    modes = int((counts > 0).sum())
    if modes < 2:
        return math.inf  # a single mode has no error bar
    others = counts.argsort(descending=True)[: min(modes, REFERENCE_MODES)]
    squares = (g.T @ rho[:, others]).square().sum() / (len(others) - 1)
    return float(squares.sqrt() / counts.sum())
