"""Symbols with one trunk: Re a2 and Im a2 of all pairs are read off the same hidden layers.

    a_ij(x, ξ) = a1_ij(x) a2_ij(ξ),    (Re a2, Im a2) = linear(trunk(φ(ξ)))
    φ(ξ) = ( ξ/⟨ξ⟩_s, s/⟨ξ⟩_s  for s = 1, 4 ),    ⟨ξ⟩_s = (s² + |ξ|²)^{1/2}

Three networks of the paper become one, and a1 has a width of its own, so a step costs less. Each
pair of features is the point (s, ξ)/⟨ξ⟩_s of the upper half sphere, on which R^d is a bounded set
with the directions of infinity as its rim (see `symbols.classical`); the scale 1 resolves ξ near 0
and the scale 4 the modes beyond. With a smooth activation a2 is a smooth function on that closed
set, so a2 is in S^0_{1,0} in every dimension; docs/theory_symbol_classes.md has the proof.
"""

__all__ = ["TrunkSymbol"]

from typing import Any, Unpack

import torch
from torch import Tensor

from pdno.symbols.mlp import ACTIVATIONS, MLPOptions, SymbolMLP, join_parts
from pdno.symbols.scale import InputScale
from pdno.symbols.separated import SeparatedSymbol, with_numbers

SCALES = (1.0, 4.0)  # the s of the features, in units of the `frequency_scale`
GAIN = 3.0  # features lie on spheres, where torch's own start would be almost linear


class TrunkSymbol(SeparatedSymbol):
    """a_ij(x, ξ) = a1_ij(x) a2_ij(ξ) with a2 in S^0_{1,0} (eq. 9, 16), one trunk for all of a2.

    Arguments:
        in_channels, out_channels, scale, depends_on_x, takes_time, pde_parameters: Those of a
            `SeparatedSymbol`.
        space_hidden: Width of the network a1; None for that of the trunk.
        network: Arguments of `SymbolMLP`, for the trunk.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        scale: InputScale,
        depends_on_x: bool = True,
        takes_time: bool = False,
        pde_parameters: int = 0,
        space_hidden: int | None = None,
        **network: Unpack[MLPOptions],
    ) -> None:
        parts: Any = {"scale": scale, "depends_on_x": depends_on_x, "takes_time": takes_time}
        super().__init__(in_channels, out_channels, pde_parameters=pde_parameters, **parts)
        pairs, features = in_channels * out_channels, len(SCALES) * (scale.dim + 1)
        self.trunk = SymbolMLP(features + self.numbers, 2 * pairs, **network)
        with torch.no_grad():
            self.trunk.linear_in.weight.mul_(GAIN)
        if space_hidden is not None:
            network["hidden"] = space_hidden
        space = SymbolMLP(scale.dim + self.numbers, pairs, **network) if depends_on_x else None
        self.space = space
        names = [network.get("activation", "gelu"), network.get("first_activation")]
        self.smooth = all(ACTIVATIONS[name].order is not None for name in names if name)

    def proven_order(self, t: float | None = None) -> float | None:
        return 0.0 if self.smooth and not self.depends_on_x else None

    def frequency_factor(self, xi: Tensor, t: Tensor | None) -> Tensor:
        """a2."""
        squares = xi.square().sum(dim=-1, keepdim=True)
        features = []
        for s in SCALES:
            root = (s * s + squares).sqrt()
            features += [xi / root, s / root]
        values = self.trunk.fields(with_numbers(torch.cat(features, dim=-1), t))
        return self._by_pairs(join_parts(*values.chunk(2)))
