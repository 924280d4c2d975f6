"""How an operator, or its derivative at a state, answers to waves: its columns, or its rows.

A column is the answer to e^{2πi ξ·x}. A row x is the answer of the transpose to the unit field at
x, and its transform has the answers of all waves at x. Both give a(x, ξ); see
`pdno.theory.extraction`.
"""

__all__ = ["Differences", "columns", "has_gradient", "rows"]

import math
from collections.abc import Callable

import torch
from torch import Tensor

from pdno.fourier import Modes, transform
from pdno.grid import Grid

NUMBERS = 2**26
"""Values of the largest symbol that is written out, one gigabyte."""


def columns(
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


def rows(
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


class Differences:
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


def has_gradient(operator: Callable[[Tensor], Tensor], state: Tensor) -> bool:
    with torch.enable_grad():
        return operator(state.detach().clone().requires_grad_()).requires_grad


def _check_size(numbers: int) -> None:
    if numbers > NUMBERS:
        raise ValueError(
            f"a symbol of {numbers} numbers: take a coarser grid, fewer channels or fewer modes"
        )
