"""Separated symbols made of networks: a_ij(x, ξ) = Σ_r b_rij(x) c_rij(ξ), on a grid or anywhere.

The networks see x · coordinate_scale and ξ / frequency_scale (see `symbols.scale`), so one and
the same function c can be asked on the kept modes of a grid, which is what an operator does, and
at any other frequency, which is what the theory asks for: symbol classes are statements about
|ξ| -> ∞, where no grid reaches.
"""

__all__ = ["SeparatedSymbol", "check_time", "with_time"]

from abc import abstractmethod

import torch
from torch import Tensor

from pdno.fourier import Modes
from pdno.grid import Grid
from pdno.symbols.base import Symbol, SymbolValues
from pdno.symbols.mlp import SymbolMLP
from pdno.symbols.scale import InputScale


class SeparatedSymbol(Symbol):
    """Σ_r b_rij(x) c_rij(ξ) with factors that are networks of the scaled x and ξ.

    Arguments:
        in_channels: I.
        out_channels: O.
        scale: What the networks see of x and ξ.
        depends_on_x: Whether there is a b; without it the symbol is a(ξ).
        takes_time: Whether there is a t.
    """

    real: SymbolMLP

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        scale: InputScale,
        depends_on_x: bool,
        takes_time: bool,
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.scale, self.depends_on_x, self.takes_time = scale, depends_on_x, takes_time

    @abstractmethod
    def factors(
        self, xi: Tensor, x: Tensor | None, t: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """c and b at scaled frequencies and points.

        Arguments:
            xi: ξ / frequency_scale, (*K, d).
            x: x · coordinate_scale, (*N, d); None where the symbol does not depend on x.
            t: Time () or (B,), or None.

        Returns:
            c, complex, (R, O, I, *K), and b, real, (R, O or 1, I or 1, *N), or None for 1. With
            one time per sample B stands after I.
        """

    def evaluate(
        self, grid: Grid, modes: Modes = None, t: Tensor | float | None = None
    ) -> SymbolValues:
        """c on the kept modes, b on the whole grid."""
        like = self.real.linear_in.weight
        times = check_time(t, self.takes_time, like)
        x = self.scale.x(grid, like) if self.depends_on_x else None
        return _times_first(self.factors(self.scale.xi(grid, modes, like), x, times), times)

    def evaluate_at(self, x: Tensor, xi: Tensor, t: Tensor | float | None = None) -> SymbolValues:
        """c at any frequencies (M, d), also those that are no integers, and b at points (P, d)."""
        if not self.scale.chosen:
            raise ValueError(
                "this symbol has not chosen its frequency_scale yet: build it with one, or use "
                "it on a grid first"
            )
        like = self.real.linear_in.weight
        times = check_time(t, self.takes_time, like)
        seen = (xi.to(like.device) / self.scale.frequency.to(like.device)).to(like.dtype)
        points = (x.to(like.device) * self.scale.coordinate.to(like.device)).to(like.dtype)
        return _times_first(
            self.factors(seen, points if self.depends_on_x else None, times), times
        )


def check_time(t: Tensor | float | None, takes_time: bool, like: Tensor) -> Tensor | None:
    """The time as a tensor () or (B,) where a symbol takes one."""
    if takes_time != (t is not None):
        raise ValueError(
            "this symbol depends on time: give t, one number or one per sample"
            if takes_time
            else "this symbol has no time: leave t out, or build it with takes_time=True"
        )
    if t is None:
        return None
    times = torch.as_tensor(t, dtype=like.dtype, device=like.device)
    if times.dim() > 1:
        raise ValueError(f"t has shape {tuple(times.shape)}; expected one number or (B,)")
    return times


def with_time(points: Tensor, t: Tensor | None) -> Tensor:
    """Append t to every point: (*N, d) -> (*N, d + 1), or (B, *N, d + 1) for t of shape (B,)."""
    if t is None:
        return points
    if t.dim():
        points = points.expand(len(t), *points.shape)
        t = t.reshape(-1, *[1] * (points.dim() - 1))
    return torch.cat([points, t.expand(*points.shape[:-1], 1)], dim=-1)


def _times_first(factors: tuple[Tensor, Tensor | None], t: Tensor | None) -> SymbolValues:
    """(R, O, I, B, *K) -> (B, R, O, I, *K) where there is one time per sample."""
    c, b = factors
    if t is not None and t.dim():
        c, b = c.movedim(3, 0), None if b is None else b.movedim(3, 0)
    return SymbolValues(c, b)
