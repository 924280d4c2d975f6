"""Pointwise maps of a neural operator: the linear maps P and W, and the projection Q."""

__all__ = ["PointwiseLinear", "project"]

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from pdno.scratch import Scratch
from pdno.tracing import is_traced


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
    """Q v = W₂ σ(W₁ v + b₁) + b₂ with σ = GELU, (B, C, *N) -> (B, O, *N).

    Sample by sample, and once more in the backward pass: the hidden layer is wider than all the
    rest of the network, and kept for the whole batch it would need most of the memory.
    """
    weights = (hidden.weight, hidden.bias, last.weight, last.bias)
    if torch.is_autocast_enabled(v.device.type) or is_traced():
        return last(functional.gelu(hidden(v)))  # type: ignore[no-any-return]
    flat = _Projection.apply(v.flatten(2), *weights)  # type: ignore[no-untyped-call]
    return flat.reshape(*flat.shape[:2], *v.shape[2:])  # type: ignore[no-any-return]


class _Projection(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, v: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
        ctx.save_for_backward(v, w1, b1, w2)
        memory = Scratch(v.device)
        out = v.new_empty(len(v), len(w2), v.shape[2])
        for sample, result in zip(v, out, strict=True):
            z, a = _hidden(sample, w1, b1, memory)
            torch.addmm(b2[:, None], w2, torch.ops.aten.gelu.out(z, out=a), out=result)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        v, w1, b1, w2 = ctx.saved_tensors
        if torch.is_grad_enabled():  # to be differentiated again
            hidden = torch.matmul(w1, v) + b1[:, None]
            out = torch.matmul(w2, functional.gelu(hidden))
            found = torch.autograd.grad(out, (v, w1, b1, w2), grad, create_graph=True)
            return (*found, grad.sum(dim=(0, 2)))
        memory, v_bar = Scratch(v.device), torch.empty_like(v)
        w1_bar, b1_bar, w2_bar = torch.zeros_like(w1), torch.zeros_like(b1), torch.zeros_like(w2)
        for sample, g, result in zip(v, grad, v_bar, strict=True):
            z, a = _hidden(sample, w1, b1, memory)
            w2_bar.addmm_(g, torch.ops.aten.gelu.out(z, out=a).T)
            torch.mm(w2.T, g, out=a)
            torch.ops.aten.gelu_backward.grad_input(a, z, grad_input=a)
            w1_bar.addmm_(a, sample.T)
            b1_bar.add_(a.sum(dim=1))
            torch.mm(w1.T, a, out=result)
        return v_bar, w1_bar, b1_bar, w2_bar, grad.sum(dim=(0, 2))


def _hidden(sample: Tensor, w1: Tensor, b1: Tensor, memory: Scratch) -> tuple[Tensor, Tensor]:
    """W₁ v + b₁ of one sample, and room for another of its size."""
    shape = (len(w1), sample.shape[1])
    z = memory.take("hidden", shape, sample.dtype)
    return torch.mm(w1, sample, out=z).add_(b1[:, None]), memory.take("room", shape, sample.dtype)
