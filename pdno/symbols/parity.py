"""Networks of (1, ξ)/⟨ξ⟩ that are even or odd in ξ by construction.

An operator maps real functions to real ones if a(x, -ξ) = conj a(x, ξ): Re a even, Im a odd. For
any network N, with ω = (1, ξ)/⟨ξ⟩ and ω' = (1, -ξ)/⟨ξ⟩,

    (N(ω) + N(ω')) / 2 is even,    (N(ω) - N(ω')) / 2 is odd,

and every even or odd function is of that form. The last map of N is linear, so the last hidden
layer is enough to be symmetrised; an odd network has no bias there.
"""

__all__ = ["Parity", "ParityMLP"]

from typing import Literal

import torch
from torch import Tensor

from pdno.symbols.mlp import SymbolMLP

Parity = Literal["even", "odd", "none"]

GAIN = 4.0
"""Inputs lie on the unit sphere, where torch's own start would be almost linear."""


class ParityMLP(SymbolMLP):
    """(N(ω) ± N(ω')) / 2, or N(ω) itself, for points ω = (ω_0, ω_1, ..., ω_d).

    Arguments:
        in_features: d + 1.
        out_features: Number of values.
        parity: "even", "odd" or "none", in ω_1, ..., ω_d.
        network: Arguments of `SymbolMLP`.
    """

    def __init__(
        self, in_features: int, out_features: int, *, parity: Parity, **network: int | str | None
    ) -> None:
        super().__init__(in_features, out_features, **network)  # type: ignore[arg-type]
        self.parity = parity
        with torch.no_grad():
            self.linear_in.weight.mul_(GAIN)
        if parity == "odd":
            zeros = torch.zeros_like(self.linear_out.bias)
            del self.linear_out.bias
            self.linear_out.register_buffer("bias", zeros, persistent=False)

    def features(self, points: Tensor) -> Tensor:
        """The last hidden layer with its parity, (..., d + 1) -> (..., hidden)."""
        z = super().features(points)
        if self.parity == "none":
            return z
        mirrored = super().features(torch.cat([points[..., :1], -points[..., 1:]], dim=-1))
        return 0.5 * (z + mirrored if self.parity == "even" else z - mirrored)
