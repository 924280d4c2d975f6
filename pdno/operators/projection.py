"""The projection Q v = W₂ gelu(W₁ v + b₁) + b₂ of a neural operator, at every point.

Its hidden layer is wider than all the rest of a network; kept for the whole
batch it would need most of the memory, so it is made again in the backward pass: in registers by
the compiled loops, else sample by sample.
"""

__all__ = ["apply_projection"]

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from pdno.operators.backends import native
from pdno.operators.plan import choose_backend, native_library
from pdno.tracing import is_traced


def apply_projection(v: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """W₂ gelu(W₁ v + b₁) + b₂, (B, C, N) -> (B, O, N)."""
    if choose_backend(v.dtype, v.device) == "native":
        projected: Tensor = project(v, w1, b1, w2, b2)
        return projected
    weights = (w1, b1, w2, b2)
    if is_traced() or v.device.type != "cpu":
        return _in_reference(v, *weights)
    if not torch.is_grad_enabled():
        return torch.cat([_in_reference(sample[None], *weights) for sample in v])
    parts = [checkpoint(_in_reference, one[None], *weights, use_reentrant=False) for one in v]
    return torch.cat(parts)


def _in_reference(v: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    hidden = functional.gelu(torch.matmul(w1, v) + b1[:, None])
    return torch.matmul(w2, hidden) + b2[:, None]


@torch.library.custom_op("pdno::project", mutates_args=())
def project(v: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """The projection in compiled loops."""
    library = native_library()
    assert library is not None
    dense = (tensor.contiguous() for tensor in (v, w1, b1, w2, b2))
    return native.project(library, *dense)


@torch.library.custom_op("pdno::project_backward", mutates_args=())
def project_backward(
    v: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of v, W₁, b₁, W₂ and b₂."""
    library = native_library()
    assert library is not None
    dense = (tensor.contiguous() for tensor in (v, w1, b1, w2, grad))
    v_bar, w1_bar, b1_bar, w2_bar, b2_bar = native.project_backward(library, *dense)
    return v_bar, w1_bar, b1_bar, w2_bar, b2_bar


@project.register_fake
def _(v: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    return v.new_empty(len(v), len(w2), v.shape[2])


@project_backward.register_fake
def _(
    v: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    dense = [
        torch.empty_like(tensor, memory_format=torch.contiguous_format)
        for tensor in (v, w1, b1, w2)
    ]
    return dense[0], dense[1], dense[2], dense[3], w2.new_empty(len(w2))


def _save(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    v, w1, b1, w2, b2 = ctx.saved_tensors
    if torch.is_grad_enabled():  # to be differentiated again
        needed = [tensor for tensor in ctx.saved_tensors if tensor.requires_grad]
        out = _in_reference(v, w1, b1, w2, b2)
        found = iter(torch.autograd.grad(out, needed, grad, create_graph=True))
        return tuple(next(found) if t.requires_grad else None for t in ctx.saved_tensors)
    gradients: tuple[Tensor, ...] = project_backward(v, w1, b1, w2, grad)
    return gradients


project.register_autograd(_gradients, setup_context=_save)
