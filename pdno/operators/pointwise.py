"""Maps of the channels at every point: W v + b, and the projection W₂ gelu(W₁ v + b₁) + b₂.

The hidden layer of the projection is wider than all the rest of a network; kept for the whole
batch it would need most of the memory, so it is made again in the backward pass: in registers by
the compiled loops, else sample by sample.
"""

__all__ = ["apply_linear", "apply_projection"]

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from pdno.operators.backends import native
from pdno.operators.plan import choose_backend, native_library
from pdno.tracing import is_traced


def apply_linear(v: Tensor, w: Tensor, b: Tensor, term: Tensor | None = None) -> Tensor:
    """W v + b + term, (B, C, N) -> (B, O, N)."""
    full = not torch.is_autocast_enabled(v.device.type)
    if full and choose_backend(v.dtype, v.device) == "native":
        mapped: Tensor = linear(v, w, b, term)
        return mapped
    # batched products: several times faster on a CPU than the convolution of size 1
    weight = w.expand(len(v), -1, -1)
    product = torch.bmm(weight, v) if term is None else torch.baddbmm(term, weight, v)
    return product.add_(b[:, None])


def _linear_in_reference(v: Tensor, w: Tensor, b: Tensor, term: Tensor | None) -> Tensor:
    mapped = torch.matmul(w, v) + b[:, None]
    return mapped if term is None else mapped + term


@torch.library.custom_op("pdno::linear", mutates_args=())
def linear(v: Tensor, w: Tensor, b: Tensor, term: Tensor | None) -> Tensor:
    """The linear map in compiled loops."""
    library = native_library()
    assert library is not None
    more = None if term is None else term.contiguous()
    return native.map_points(library, v.contiguous(), w.contiguous(), b.contiguous(), more)


@torch.library.custom_op("pdno::linear_backward", mutates_args=())
def linear_backward(v: Tensor, w: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of v, W and b."""
    library = native_library()
    assert library is not None
    return native.map_points_backward(library, v.contiguous(), w.contiguous(), grad.contiguous())


@linear.register_fake
def _(v: Tensor, w: Tensor, b: Tensor, term: Tensor | None) -> Tensor:
    return v.new_empty(len(v), len(w), v.shape[2])


@linear_backward.register_fake
def _(v: Tensor, w: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    dense = torch.contiguous_format
    return (
        torch.empty_like(v, memory_format=dense),
        torch.empty_like(w, memory_format=dense),
        w.new_empty(len(w)),
    )


def _save_linear(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    v, w, b, term = inputs
    ctx.save_for_backward(v, w, b)
    ctx.has_term = term is not None


def _linear_gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    v, w, b = ctx.saved_tensors
    last = grad if ctx.has_term else None
    if torch.is_grad_enabled():  # to be differentiated again
        needed = [tensor for tensor in (v, w, b) if tensor.requires_grad]
        out = _linear_in_reference(v, w, b, None)
        found = iter(torch.autograd.grad(out, needed, grad, create_graph=True))
        return (*(next(found) if t.requires_grad else None for t in (v, w, b)), last)
    return (*linear_backward(v, w, grad), last)


linear.register_autograd(_linear_gradients, setup_context=_save_linear)


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
