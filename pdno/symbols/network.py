"""The paper's symbol network a(x, ξ) = a1(x) a2(ξ), and a(x, ξ, t)."""

__all__ = ["NetworkSymbol"]

from typing import Unpack

from torch import Tensor

from pdno.symbols.mlp import MLPOptions, SymbolMLP, evaluate_complex
from pdno.symbols.scale import InputScale
from pdno.symbols.separated import SeparatedSymbol, with_time


class NetworkSymbol(SeparatedSymbol):
    """a_ij(x, ξ) = a1_ij(x) a2_ij(ξ), three networks for all channel pairs (eq. 9, 16, 19).

    a1 (real), Re a2 and Im a2 each map R^d to O·I numbers. With time they see t as well.

    Arguments:
        in_channels, out_channels, scale, takes_time: As in `SeparatedSymbol`.
        depends_on_x: Whether there is an a1; without it the symbol is a(ξ).
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
        **network: Unpack[MLPOptions],
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
            return SymbolMLP(features, pairs, **network)

        self.real, self.imaginary = make(), make()
        self.space: SymbolMLP | None = make() if depends_on_x else None

    def frequency_factor(self, xi: Tensor, t: Tensor | None) -> Tensor:
        """a2 at ξ."""
        return self._by_pairs(evaluate_complex(self.real, self.imaginary, with_time(xi, t)))

    def space_factor(self, x: Tensor, t: Tensor | None) -> Tensor:
        """a1 at x."""
        assert self.space is not None
        # all pairs of a point lie together in memory, as the operator reads them
        return self._by_pairs(self.space(with_time(x, t)).movedim(-1, 0))

    def _by_pairs(self, values: Tensor) -> Tensor:
        """(O·I, *N) -> (1, O, I, *N)."""
        return values.reshape(1, self.out_channels, self.in_channels, *values.shape[1:])
