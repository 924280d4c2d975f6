"""A network between its normalisers: what a task trains and asks."""

__all__ = ["Normalized"]

import inspect

from torch import Tensor, nn

from pdno.grid import Grid
from pdno.training.normalizer import Normalizer


class Normalized(nn.Module):
    """decode ∘ network ∘ encode.

    Arguments:
        network: Any network of fields.
        inputs: Normaliser of its inputs, or None.
        outputs: Normaliser of its outputs, or None.
    """

    def __init__(
        self,
        network: nn.Module,
        inputs: Normalizer | None = None,
        outputs: Normalizer | None = None,
    ) -> None:
        super().__init__()
        self.network, self.inputs, self.outputs = network, inputs, outputs
        self._takes_grid = "grid" in inspect.signature(network.forward).parameters

    def encode(self, f: Tensor, grid: Grid) -> Tensor:
        """Inputs as the network sees them."""
        return f if self.inputs is None else self.inputs.encode(f, grid)

    def decode(self, u: Tensor, grid: Grid) -> Tensor:
        """What the network says, in the units of the data."""
        return u if self.outputs is None else self.outputs.decode(u, grid)

    def forward(self, f: Tensor, grid: Grid, t: Tensor | None = None) -> Tensor:
        """decode(network(encode(f))); a network that knows no grid gets the field alone."""
        more: dict[str, Grid | Tensor] = {} if t is None else {"t": t}
        if self._takes_grid:
            more["grid"] = grid
        return self.decode(self.network(self.encode(f, grid), **more), grid)
