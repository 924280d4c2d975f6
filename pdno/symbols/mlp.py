"""The fully connected network inside a symbol: x or ξ (and t) to one number per channel pair.

    linear_in, σ, then `layers` times (linear, σ), linear_out

The paper's "#layers" counts the hidden-to-hidden maps; there are layers + 2 linear maps in all.
"""

__all__ = ["SymbolMLP", "evaluate_complex", "join_parts"]

from typing import Any

import torch
from torch import Tensor, nn

from pdno.symbols.activations import get_activation
from pdno.tracing import is_traced


class SymbolMLP(nn.Module):
    """A fully connected network on the last axis, (..., d) -> (out_features, ...).

    Arguments:
        in_features: d, or d + 1 with time.
        out_features: Number of values.
        layers: Hidden-to-hidden maps.
        hidden: Width of the hidden layers.
        activation: σ by name.
        first_activation: σ after `linear_in`; the published 2D code has GELU there whatever σ is.
            None means the same as `activation`.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        layers: int = 2,
        hidden: int = 32,
        activation: str = "gelu",
        first_activation: str | None = None,
    ) -> None:
        super().__init__()
        if layers < 0 or hidden < 1:
            raise ValueError(
                f"symbol_layers {layers} and symbol_hidden {hidden}: expected >= 0, >= 1"
            )
        self.activation = get_activation(activation)
        self.first_activation = get_activation(first_activation or activation)
        self.linear_in = nn.Linear(in_features, hidden)
        self.hidden = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers))
        self.linear_out = nn.Linear(hidden, out_features)

    def forward(self, points: Tensor) -> Tensor:
        """Values with the feature axis first, one dense field for each."""
        z = self.features(points)
        bias = self.linear_out.bias[:, None]
        values = torch.addmm(bias, self.linear_out.weight, z.reshape(-1, z.shape[-1]).T)
        return values.reshape(-1, *points.shape[:-1])

    def at_points(self, points: Tensor) -> Tensor:
        """The same values; in memory all features of a point lie together."""
        values: Tensor = self.linear_out(self.features(points))
        return values.movedim(-1, 0)

    def features(self, points: Tensor) -> Tensor:
        """The last hidden layer, (..., d) -> (..., hidden)."""
        z = self.first_activation(self.linear_in(points))
        for layer in self.hidden:
            z = self.activation(layer(z))
        return z


def evaluate_complex(real: SymbolMLP, imaginary: SymbolMLP, points: Tensor) -> Tensor:
    """real(points) + i imaginary(points), (..., d) -> (out_features, ...)."""
    return join_parts(real(points), imaginary(points))


def join_parts(real: Tensor, imaginary: Tensor) -> Tensor:
    """real + i imaginary."""
    if is_traced():
        return torch.complex(real, imaginary)
    joined: Tensor = _Joined.apply(real, imaginary)  # type: ignore[no-untyped-call]
    return joined


class _Joined(torch.autograd.Function):
    """torch.complex, whose gradients are dense: each is read three times by a linear map."""

    @staticmethod
    def forward(ctx: Any, real: Tensor, imaginary: Tensor) -> Tensor:
        return torch.complex(real, imaginary)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        return grad.real.contiguous(), grad.imag.contiguous()
