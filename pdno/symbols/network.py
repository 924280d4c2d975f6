"""The paper's symbol network a(x, ξ) = a1(x) a2(ξ), and a(x, ξ, t)."""

__all__ = ["NetworkSymbol", "check_time", "with_time"]

import torch
from torch import Tensor

from pdno.symbols.mlp import SymbolMLP
from pdno.symbols.scale import InputScale
from pdno.symbols.separated import SeparatedSymbol, check_time, with_time

LOW_RANK_PAYS = 4
"""How many times fewer transforms a low rank must need: each of them costs more than one pair."""


class NetworkSymbol(SeparatedSymbol):
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
        super().__init__(
            in_channels,
            out_channels,
            scale=scale,
            depends_on_x=depends_on_x,
            takes_time=takes_time,
        )
        pairs, features = in_channels * out_channels, scale.dim + takes_time

        def make() -> SymbolMLP:
            return SymbolMLP(features, pairs, **network)  # type: ignore[arg-type]

        self.real, self.imaginary = make(), make()
        self.space: SymbolMLP | None = make() if depends_on_x else None

    def factors(
        self, xi: Tensor, x: Tensor | None, t: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """a2 at ξ and a1 at x."""
        seen = with_time(xi, t)
        a2 = torch.complex(self.real(seen), self.imaginary(seen))
        if self.space is None or x is None:
            return self._by_pairs(a2), None
        points = with_time(x, t)
        one_time = t is None or t.dim() == 0
        if (
            one_time
            and LOW_RANK_PAYS * (self.space.linear_out.in_features + 1) <= self.in_channels
        ):
            return self._low_rank(a2, self.space.features(points))
        return self._by_pairs(a2), self._by_pairs(self.space(points))

    def _low_rank(self, a2: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
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
        return c, b[:, None, None]

    def _by_pairs(self, values: Tensor) -> Tensor:
        """(O·I, *N) -> (1, O, I, *N)."""
        return values.reshape(1, self.out_channels, self.in_channels, *values.shape[1:])
