"""The paper's symbol network a(x, ξ) = a1(x) a2(ξ), and a(x, ξ, t)."""

__all__ = ["NetworkSymbol", "check_time", "with_time"]

import torch
from torch import Tensor

from pdno.fourier import Modes
from pdno.grid import Grid
from pdno.symbols.base import Symbol, SymbolValues
from pdno.symbols.mlp import SymbolMLP
from pdno.symbols.scale import InputScale

LOW_RANK_PAYS = 4
"""How many times fewer transforms a low rank must need: each of them costs more than one pair."""


class NetworkSymbol(Symbol):
    """a_ij(x, ξ) = a1_ij(x) a2_ij(ξ), three networks for all channel pairs (eq. 9, 16, 19).

    a1 (real), Re a2 and Im a2 each map R^d to O·I numbers. With time they see t as well.

    Arguments:
        in_channels: I.
        out_channels: O.
        scale: What the networks see of x and ξ.
        depends_on_x: Whether there is an a1; without it the symbol is a(ξ).
        takes_time: Whether there is a t.
        network: Arguments of `SymbolMLP` (layers, hidden, activation, first_activation).
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        scale: InputScale,
        depends_on_x: bool = True,
        takes_time: bool = False,
        **network: int | str | None,
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.scale, self.takes_time, self.depends_on_x = scale, takes_time, depends_on_x
        pairs, features = in_channels * out_channels, scale.dim + takes_time

        def make() -> SymbolMLP:
            return SymbolMLP(features, pairs, **network)  # type: ignore[arg-type]

        self.real, self.imaginary = make(), make()
        self.space: SymbolMLP | None = make() if depends_on_x else None

    def evaluate(
        self, grid: Grid, modes: Modes = None, t: Tensor | float | None = None
    ) -> SymbolValues:
        """a2 on the kept modes, a1 on the whole grid."""
        like = self.real.linear_in.weight
        times = check_time(t, self.takes_time, like)
        xi = with_time(self.scale.xi(grid, modes, like), times)
        a2 = torch.complex(self.real(xi), self.imaginary(xi))
        if self.space is None:
            return SymbolValues(self._by_pairs(a2, times))
        x = with_time(self.scale.x(grid, like), times)
        one_time = times is None or times.dim() == 0
        if (
            one_time
            and LOW_RANK_PAYS * (self.space.linear_out.in_features + 1) <= self.in_channels
        ):
            return self._low_rank(a2, self.space.features(x))
        a1 = self.space(x)
        return SymbolValues(self._by_pairs(a2, times), self._by_pairs(a1, times))

    def _low_rank(self, a2: Tensor, z: Tensor) -> SymbolValues:
        """a1 = W z + b has rank hidden + 1: with x-factors z and 1 fewer transforms are needed.

        a1_ij(x) a2_ij(ξ) = Σ_r z_r(x) W_ijr a2_ij(ξ) + b_ij a2_ij(ξ), exactly.
        """
        assert self.space is not None
        last = self.space.linear_out
        weights = torch.cat([last.weight, last.bias[:, None]], dim=1).T  # (hidden + 1, O·I)
        c = weights.reshape(len(weights), -1, *[1] * (a2.dim() - 1)) * a2
        ones = z.new_ones(*z.shape[:-1], 1)
        b = torch.cat([z, ones], dim=-1).movedim(-1, 0)
        c = c.reshape(len(c), self.out_channels, self.in_channels, *a2.shape[1:])
        return SymbolValues(c, b[:, None, None])

    def _by_pairs(self, values: Tensor, t: Tensor | None) -> Tensor:
        """(O·I, [B,] *N) -> ([B,] 1, O, I, *N)."""
        pairs = values.reshape(1, self.out_channels, self.in_channels, *values.shape[1:])
        return pairs.movedim(3, 0) if t is not None and t.dim() else pairs


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
