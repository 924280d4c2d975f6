"""The fully connected networks inside a symbol, and their activations with their orders.

The order is that of a1(x) a2(ξ) for one frequency axis (proposition 1, appendix E). With more axes
only that of the values holds: derivatives of σ(w·ξ + b) do not decay along rays orthogonal to w.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from pdno.spectral.tracing import is_traced


class Activation(NamedTuple):
    """An activation, and m of the class S^m_{1,0} it gives, None where none is proven."""

    function: Callable[[Tensor], Tensor]
    order: int | None


ACTIVATIONS: dict[str, Activation] = {
    # |GELU(z)| <= |z|, GELU' is bounded, higher derivatives are Schwartz
    "gelu": Activation(functional.gelu, 1),
    # these differ from GELU by a Schwartz function
    # torch's own threshold 20 makes a jump of e^-20, which float64 sees
    "softplus": Activation(partial(functional.softplus, threshold=40.0), 1),
    "silu": Activation(functional.silu, 1),
    # bounded, and the derivatives are Schwartz functions
    "tanh": Activation(torch.tanh, 0),
    "sigmoid": Activation(torch.sigmoid, 0),
    "relu": Activation(functional.relu, None),  # it is not smooth
}


def get_activation(name: str) -> Callable[[Tensor], Tensor]:
    """The activation function called `name`."""
    if name not in ACTIVATIONS:
        raise ValueError(f"activation {name!r}; expected one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name].function


class SymbolMLP(nn.Module):
    """linear_in, σ, `layers` times (linear, σ), linear_out; (..., d) -> (..., out_features).

    `first_activation` comes after `linear_in`; the published 2D code has GELU there.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        layers: int = 2,
        hidden: int = 32,
        activation: str = "gelu",
        first_activation: str | None = None,
    ) -> None:
        super().__init__()
        if layers < 0 or hidden < 1:
            sizes = f"symbol_layers {layers} and symbol_hidden {hidden}"
            raise ValueError(f"{sizes}; expected at least 0 and 1")
        self.names = (first_activation or activation, activation)
        self.first_activation, self.activation = map(get_activation, self.names)
        self.linear_in = nn.Linear(in_features, hidden)
        self.hidden = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers))
        self.linear_out = nn.Linear(hidden, out_features)

    def forward(self, points: Tensor) -> Tensor:
        """The values, point by point."""
        values: Tensor = self.linear_out(self.features(points))
        return values

    def fields(self, points: Tensor) -> Tensor:
        """The same values as fields, each dense in memory, (..., d) -> (out_features, ...)."""
        last, z = self.linear_out, self.features(points)
        values = torch.addmm(last.bias[:, None], last.weight, z.reshape(-1, z.shape[-1]).T)
        return values.reshape(-1, *points.shape[:-1])

    def features(self, points: Tensor) -> Tensor:
        """The last hidden layer, (..., d) -> (..., hidden)."""
        z = self.first_activation(self.linear_in(points))
        for layer in self.hidden:
            z = self.activation(layer(z))
        return z


def join_parts(real: Tensor, imaginary: Tensor) -> Tensor:
    """real + i imaginary."""
    join: Callable[..., Tensor] = torch.complex if is_traced() else _Join.apply
    return join(real, imaginary)


class _Join(torch.autograd.Function):
    """torch.complex, whose gradients are dense: each is read three times by a linear map."""

    @staticmethod
    def forward(ctx: FunctionCtx, real: Tensor, imaginary: Tensor) -> Tensor:
        return torch.complex(real, imaginary)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor, Tensor]:
        return grad.real.contiguous(), grad.imag.contiguous()
