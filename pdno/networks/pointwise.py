"""Pointwise maps of a neural operator: the linear maps P and W, and the projection Q."""

__all__ = ["PointwiseLinear", "project"]

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from pdno.operators.kernel import apply_projection


class PointwiseLinear(nn.Module):
    """v(x) = W f(x) + b at every point, (B, I, *N) -> (B, O, *N).

    Arguments:
        in_channels: I.
        out_channels: O.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(in_channels)  # the start of torch's linear and convolution layers
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(out_channels).uniform_(-bound, bound))

    def forward(self, f: Tensor) -> Tensor:
        """W f + b."""
        return self.add_to(None, f)

    def add_to(self, term: Tensor | None, f: Tensor) -> Tensor:
        """W f + b + term, in as few passes as possible."""
        # batched products: several times faster on a CPU than the convolution of size 1
        weight, flat = self.weight.expand(len(f), -1, -1), f.flatten(2)
        if term is None:
            mapped = torch.bmm(weight, flat)
        else:
            mapped = torch.baddbmm(term.flatten(2), weight, flat)
        mapped = mapped.add_(self.bias[:, None])
        return mapped.reshape(*mapped.shape[:2], *f.shape[2:])


def project(v: Tensor, hidden: PointwiseLinear, last: PointwiseLinear) -> Tensor:
    """Q v = W₂ σ(W₁ v + b₁) + b₂ with σ = GELU, (B, C, *N) -> (B, O, *N)."""
    if torch.is_autocast_enabled(v.device.type):
        return last(functional.gelu(hidden(v)))  # type: ignore[no-any-return]
    flat = apply_projection(v.flatten(2), hidden.weight, hidden.bias, last.weight, last.bias)
    return flat.reshape(*flat.shape[:2], *v.shape[2:])
