"""Activations of symbol networks, each with the symbol class it gives.

The class is that of a1(x) a2(ξ) for one frequency axis, n = 1 (proposition 1, appendix E). For
n >= 2 a unit w·ξ + b is constant along the rays orthogonal to w, where its derivatives do not
decay, so no more than the order of the values themselves is claimed there.
"""

__all__ = ["ACTIVATIONS", "Activation", "get_activation"]

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Activation:
    """An activation and what it makes of a symbol network.

    Arguments:
        function: The activation.
        order: m of S^m_{1,0}, or None where no class is proven.
        reason: Why.
    """

    function: Callable[[Tensor], Tensor]
    order: int | None
    reason: str


def _softplus(z: Tensor) -> Tensor:
    # torch's own threshold 20 makes a jump of e^-20, which float64 sees
    return functional.softplus(z, threshold=40.0)


_GELU_LIKE = "it differs from GELU by a Schwartz function"
_BOUNDED = "it is bounded and its derivatives are Schwartz functions"

ACTIVATIONS: dict[str, Activation] = {
    "gelu": Activation(
        functional.gelu, 1, "|GELU(z)| <= |z|, GELU' is bounded, higher derivatives are Schwartz"
    ),
    "softplus": Activation(_softplus, 1, _GELU_LIKE),
    "silu": Activation(functional.silu, 1, _GELU_LIKE),
    "tanh": Activation(torch.tanh, 0, _BOUNDED),
    "sigmoid": Activation(torch.sigmoid, 0, _BOUNDED),
    "relu": Activation(functional.relu, None, "it is not smooth, so no class is proven"),
}


def get_activation(name: str) -> Callable[[Tensor], Tensor]:
    """The activation function called `name`."""
    if name not in ACTIVATIONS:
        raise ValueError(f"activation {name!r}; expected one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name].function
