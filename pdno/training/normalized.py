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
        channels: Channels of one output; None takes what the network says of itself, or 1.
    """

    def __init__(
        self,
        network: nn.Module,
        inputs: Normalizer | None = None,
        outputs: Normalizer | None = None,
        channels: int | None = None,
    ) -> None:
        super().__init__()
        self.network, self.inputs, self.outputs = network, inputs, outputs
        own = getattr(network, "out_channels", 1)
        self.channels: int = own if channels is None else channels
        self._takes_grid = "grid" in inspect.signature(network.forward).parameters

    def encode(self, f: Tensor, grid: Grid) -> Tensor:
        """Inputs as the network sees them."""
        return f if self.inputs is None else self.inputs.encode(f, grid)

    def decode(self, u: Tensor, grid: Grid) -> Tensor:
        """What the network says, in the units of the data."""
        return u if self.outputs is None else self.outputs.decode(u, grid)

    def ask(self, f: Tensor, grid: Grid, t: Tensor | None = None) -> Tensor:
        """The network alone; one that knows no grid gets the field alone."""
        more: dict[str, Grid | Tensor] = {} if t is None else {"t": t}
        if self._takes_grid:
            more["grid"] = grid
        said: Tensor = self.network(f, **more)
        return said

    def forward(self, f: Tensor, grid: Grid, t: Tensor | None = None) -> Tensor:
        """decode(network(encode(f)))."""
        return self.decode(self.ask(self.encode(f, grid), grid, t), grid)
