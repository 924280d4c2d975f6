"""Operands of every compiled operator, and all ways in which they may be wrong."""

import torch

from pdno.operators import compiled, reference
from pdno.spectral.fourier import inverse, transform

SHAPE, KEPT, NODES = [8, 6], [2, 3], 4


def complex_numbers(*shape):
    return torch.randn(*shape, dtype=torch.complex64)


def right_operands():
    """The operators by name, each with operands that it takes."""
    c, b, f_hat = (
        complex_numbers(3, 2, 4, 3),
        torch.randn(3, 2, *SHAPE),
        complex_numbers(5, 2, 4, 3),
    )
    grad, grid = torch.randn(5, 3, *SHAPE), [SHAPE, KEPT]
    a, tables = torch.randn(3, 2, 4, NODES), [torch.randn(NODES, 6), torch.randn(8, 4)]
    v, last = torch.randn(5, 3, 7), torch.randn(5, 2, 7)
    weights = [torch.randn(4, 3), torch.randn(4), torch.randn(2, 4), torch.randn(2)]
    coefficients, displacement = torch.randn(5, 3, 8, 6), torch.randn(5, 2, 4, 3)
    return {
        "pairwise": (compiled.pairwise, [c, b, f_hat, [], *grid]),
        "pairwise at nodes": (compiled.pairwise, [c, a, f_hat, tables, *grid]),
        "pairwise_backward": (compiled.pairwise_backward, [c, b, f_hat, grad, [], *grid]),
        "backward at nodes": (compiled.pairwise_backward, [c, a, f_hat, grad, tables, *grid]),
        "contract": (compiled.contract, [c, f_hat]),
        "contract_backward": (
            compiled.contract_backward,
            [c, f_hat, complex_numbers(5, 3, 4, 3)],
        ),
        "project": (compiled.project, [v, *weights]),
        "project_backward": (compiled.project_backward, [v, *weights, last]),
        "read_spline": (compiled.read_spline, [coefficients, displacement, 3]),
        "read_spline, few nodes": (
            compiled.read_spline,
            [torch.randn(5, 3, 2, 1), torch.randn(5, 2, 2, 1), 5],
        ),
        "read_spline_backward": (
            compiled.read_spline_backward,
            [coefficients, displacement, torch.randn(5, 3, 4, 3), 5],
        ),
        "synthesise": (compiled.synthesise, [f_hat, *grid, False]),
        "analyse": (compiled.analyse, [grad, *grid, True]),
    }


def resized(tensor, axis, change):
    sizes = list(tensor.shape)
    sizes[axis] = max(0, sizes[axis] + change)
    return tensor.new_ones(sizes)


def wrong_tensors(tensor):
    """One axis shorter, longer or empty, an axis less or more, other numbers and memory."""
    for axis, size in enumerate(tensor.shape):
        for change in (-1, 1, 4, -size):
            yield resized(tensor, axis, change)
    yield tensor[0]
    yield tensor[None]
    yield tensor.new_ones(())
    yield tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)
    yield tensor.real.contiguous() if tensor.is_complex() else tensor.to(torch.complex64)
    yield tensor.real.to_sparse() if tensor.is_complex() else tensor.to_sparse()


def wrong_operands(operands):
    """The operands with one of them replaced by a wrong one."""
    for place, operand in enumerate(operands):
        if isinstance(operand, torch.Tensor):
            replacements = list(wrong_tensors(operand))
        elif isinstance(operand, list) and isinstance((*operand, None)[0], torch.Tensor):
            replacements = [
                [*operand[:k], wrong, *operand[k + 1 :]]
                for k, table in enumerate(operand)
                for wrong in wrong_tensors(table)
            ]
            replacements += [operand[:1], [*operand, *operand]]
        elif operand == SHAPE:
            replacements = [[8], [8, 6, 2], [4, 6], [8, 0], [8, 1], [-8, 6], [16, 6], [2, 8, 6, 2]]
        elif operand == KEPT:
            replacements = [[2], [2, 3, 1], [0, 3], [-2, 3], [5, 3], [2, 5], [1000, 3], [-1, -1]]
        else:
            continue
        for replacement in replacements:
            yield [*operands[:place], replacement, *operands[place + 1 :]]


def in_torch(name, operands):
    """What an operator shall return for operands that it takes."""
    if name.startswith("pairwise"):
        return compiled._pairwise_reference(*operands)
    if name == "synthesise":
        return inverse(*operands[:3])
    if name == "analyse":
        field, shape, kept, _ = operands
        return transform(field, len(shape), [None if k == compiled.ALL else k for k in kept])
    if name == "read_spline_backward":
        *inputs, grad, degree = operands
        inputs = [tensor.detach().requires_grad_() for tensor in inputs]
        return torch.autograd.grad(reference.read_spline(*inputs, degree), inputs, grad)
    return getattr(reference, name.partition(",")[0])(*operands)


def call_all():
    """Call every operator with all wrong operands; the number of calls that it refused.

    Others must be of another size that fits, and are computed as by torch.
    """
    refused = 0
    for name, (operator, operands) in right_operands().items():
        operator(*operands)
        for wrong in wrong_operands(operands):
            try:
                out = operator(*wrong)
            except (ValueError, RuntimeError, TypeError, IndexError):
                refused += 1
                continue
            # torch refuses to transform nothing
            if isinstance(out, tuple) or out.numel():
                torch.testing.assert_close(out, in_torch(name, wrong), rtol=1e-4, atol=1e-4)
    return refused
