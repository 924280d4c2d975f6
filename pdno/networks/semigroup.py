"""A step in time as a semigroup and a local term: exponential Euler with learned symbols.

    u(t + Δt) = e^{A(D)} u + B(D) σ(W u + b)

A is dissipative, so ‖e^{A(D)}‖ <= 1 whatever the weights are, σ(W u + b) is local, and A and B are
classical symbols. For u_t = L(D) u + G(D) g(u) the method of exponential Euler has A = Δt L and
B = (e^{ΔtL} - 1) L⁻¹ G. By how much a step may enlarge an error is a maximum over modes:
`pdno.theory.lipschitz`.
"""

from typing import Annotated

from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from pdno.interface.arguments import RecordsArguments
from pdno.networks.neural_operator import Modes, PointwiseLinear, Size, check_numbers, check_sizes
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.spectral.grid import Grid
from pdno.symbols.classical import ClassicalSymbol
from pdno.symbols.scale import InputScale

Order = Annotated[float, Field(ge=-8, le=8)]


class SemigroupStep(RecordsArguments, nn.Module):
    """e^{A(D)} u + B(D) σ(W u + b), (B, C, *N) -> (B, C, *N).

    A of order `order` is dissipative; `self_adjoint` leaves its skew part, the transport, out. B
    is of order `local_order`, from `width` channels. `modes` are kept.

    Example:
        >>> import torch
        >>> step = SemigroupStep(1, 1, 1, width=4, modes=8)
        >>> step(torch.randn(2, 1, 32)).shape
        torch.Size([2, 1, 32])
    """

    def __init__(
        self,
        dim: int,
        in_channels: int,
        out_channels: int,
        *,
        width: Size = 16,
        modes: Modes = None,
        order: Order = 2.0,
        local_order: Order = -1.0,
        self_adjoint: bool = False,
        symbol_layers: Annotated[int, Field(ge=0, le=64)] = 1,
        symbol_hidden: Size = 32,
        frequency_scale: float | None = None,
    ) -> None:
        super().__init__()
        kept = check_sizes(dim, modes, width=width, in_channels=in_channels)
        if in_channels != out_channels:
            channels = f"from {in_channels} to {out_channels} channels"
            raise ValueError(f"a step {channels}; expected as many: give it one frame, window=1")
        self.dim, self.in_channels, self.out_channels = dim, in_channels, out_channels

        def layer(inputs: int, order: float, *, step: bool) -> PseudoDifferentialOperator:
            scale = InputScale(dim, 1.0, frequency_scale, kept)
            symbol = ClassicalSymbol(
                inputs, in_channels, scale=scale, order=order, depends_on_x=False, takes_time=step,
                self_adjoint=step and self_adjoint, layers=symbol_layers, hidden=symbol_hidden,
            )  # fmt: skip
            return PseudoDifferentialOperator(symbol, kept)

        self.semigroup = layer(in_channels, order, step=True)
        self.forcing = layer(width, local_order, step=False)
        self.local = PointwiseLinear(in_channels, width)

    def forward(self, f: Tensor, *, grid: Grid | None = None) -> Tensor:
        """The next frame on the grid of f, which is periodic unless given."""
        check_numbers(f, self.local.weight)
        where = grid or Grid(tuple(f.shape[2:]))
        linear: Tensor = self.semigroup(f, where, 1.0)
        forced: Tensor = self.forcing(functional.gelu(self.local(f)), where)
        return linear + forced
