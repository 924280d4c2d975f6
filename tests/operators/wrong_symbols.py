"""Symbols of a user whose `evaluate` returns values of wrong shapes, numbers and memory."""

import warnings
from itertools import product

import torch

import pdno
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.symbols.base import Symbol, SymbolValues

SHAPE, MODES, CHANNELS = (8, 12), (3, 4), 5
SPECTRUM = (2 * MODES[0], MODES[1])
REFUSALS = (ValueError, RuntimeError, TypeError, NotImplementedError)


def axes_changed(*sizes):
    """The sizes, with one axis shorter, longer, of one, empty, missing or twice."""
    yield sizes
    for axis, size in enumerate(sizes):
        for other in (size - 1, size + 1, 4 * size, 1, 0):
            yield (*sizes[:axis], max(0, other), *sizes[axis + 1 :])
        yield sizes[:axis] + sizes[axis + 1 :]
        yield (*sizes[:axis], size, *sizes[axis:])
    yield tuple(reversed(sizes))
    yield ()


def memory(tensor):
    """The same values in other precisions and other memory."""
    yield tensor
    yield tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)
    yield tensor.to(torch.float16) if not tensor.is_complex() else tensor.real
    yield tensor.to(torch.complex64)
    yield tensor.to(torch.int64) if not tensor.is_complex() else tensor.conj()
    if tensor.dim():
        yield tensor[..., :1].expand(tensor.shape)  # strides of zero
        yield tensor.mT.contiguous().mT if tensor.dim() > 1 else tensor
        yield torch.stack([tensor, tensor])[..., ::2] if tensor.shape[-1] > 1 else tensor
        yield tensor.flip(-1)
    yield tensor.to("meta")
    yield tensor.to_sparse() if tensor.dim() else tensor


def all_values():
    """Values c and b of a symbol, nearly all of them wrong for the grid."""
    right_c = (1, CHANNELS, CHANNELS, *SPECTRUM)
    for shape in axes_changed(1, CHANNELS, CHANNELS, *SHAPE):
        yield torch.randn(right_c, dtype=torch.complex64), torch.randn(shape)
    for shape in axes_changed(*right_c):
        c = torch.randn(shape, dtype=torch.complex64)
        yield c, torch.randn(1, CHANNELS, CHANNELS, *SHAPE)
        yield c, None
    c, b = torch.randn(right_c, dtype=torch.complex64), torch.randn(1, CHANNELS, CHANNELS, *SHAPE)
    yield from product(memory(c), memory(b))
    yield from ((c, None) for c in memory(c))
    yield from ((c, b) for b in (object(), 1.0, [b], b.numpy()))
    for shape in ((4, *SHAPE), (4,), (*SHAPE, 4), (0, SHAPE[-1]), (3, SHAPE[-1]), (4, 7)):
        yield c, torch.randn(1, CHANNELS, CHANNELS, SHAPE[0], 4), torch.randn(shape)


def _leaf(value):
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return value
    return value.detach().requires_grad_(value.is_floating_point() or value.is_complex())


class Wrong(Symbol):
    """A symbol of a user that gives these values, whatever it is asked for."""

    depends_on_x = True

    def __init__(self, *values):
        super().__init__(CHANNELS, CHANNELS)
        self.values = tuple(map(_leaf, values))

    def evaluate(self, grid, modes=None, t=None):
        return SymbolValues(*self.values)

    def evaluate_at(self, x, xi, t=None):
        c, b, *_ = self.values
        fits = isinstance(b, torch.Tensor) and b.dim() > 3
        return SymbolValues(c, b.flatten(3)[..., : len(x)] if fits else b)


def call(values):
    """Forward and backward, cached and not, on a grid and at points; the number of refusals."""
    f, refused = torch.randn(3, CHANNELS, *SHAPE, requires_grad=True), 0
    points = pdno.Points(torch.rand(9, 2))

    def forward(layer):
        out = layer(f)
        out.square().sum().backward()
        return out

    def cached(layer):
        with torch.no_grad():
            layer.cache_values(pdno.Grid(SHAPE), 1e-3)
            return layer(f.detach())

    def at_points(layer):
        return layer(f, output_grid=points)

    for use in (forward, cached, at_points):
        try:
            out = use(PseudoDifferentialOperator(Wrong(*values), MODES))
        except REFUSALS as error:
            assert str(error).strip(), values
            refused += 1
        else:
            assert out.shape[:2] == (3, CHANNELS)
            if use is forward:
                slow = PseudoDifferentialOperator(Wrong(*values), MODES, method="fft")
                torch.testing.assert_close(out, slow(f), rtol=1e-4, atol=1e-3)
    return refused


def call_all():
    """How many uses of all symbols were refused; the others end with numbers."""
    torch.manual_seed(0)
    with warnings.catch_warnings(action="ignore"):
        return sum(map(call, all_values()))
