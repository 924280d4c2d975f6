"""The fused inner loops of the pairwise operator, for float32 on a CPU (see pairs.c)."""

__all__ = ["PairLoops", "find_loops"]

import ctypes
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from pdno.fourier_matrix import half_table
from pdno.native.build import load_pairs
from pdno.native.threads import share_out

POINTERS = ("cosines", "sines", "odd", "back_cosines", "back_sines")
NUMBERS = ("batch", "inputs", "modes", "half", "back", "h_row", "b_row", "out_row")


class _Sizes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in POINTERS] + [
        (name, ctypes.c_long) for name in NUMBERS
    ]


@lru_cache(maxsize=64)
def find_loops(points: int, modes: int) -> "PairLoops | None":
    """The loops for lines of `points` with `modes` modes, or None where they do not apply."""
    library = load_pairs()
    if library is None or points % (2 * library.pairs_lanes()):
        return None
    if points // 2 > library.pairs_most_half():
        return None
    return PairLoops(library, points, modes)


class PairLoops:
    """Σ_i b g with g = F⁻¹ h along the last axis, and its gradients, without ever storing g.

    Shapes: h (rows, batch, inputs, K) complex64, b (rows, inputs, N), out (rows, batch, N);
    views whose rows are contiguous.

    Arguments:
        library: The compiled loops.
        points: N.
        modes: K.
    """

    def __init__(self, library: ctypes.CDLL, points: int, modes: int) -> None:
        self.library, self.modes, self.half = library, modes, points // 2
        lanes = library.pairs_lanes()
        with torch.inference_mode(False):
            table = half_table(points, modes, torch.float32, torch.device("cpu"))
            waves = table.view(modes, 2, points)[:, :, : self.half].clone()
            is_odd = torch.arange(modes) % 2 == 1
            weights = table.view(modes, 2, points)[:, 0, 0]
            cosines, sines = waves[:, 0].contiguous(), waves[:, 1].contiguous()
            cosines[:, 0] = torch.where(is_odd, 0.0, weights)
            sines[:, 0] = 0.0
            odd = torch.zeros(modes, lanes)
            odd[:, 0] = torch.where(is_odd, weights, 0.0)
            self.back = -(-modes // lanes) * lanes
            back = torch.zeros(2, self.half, self.back)
            back[0, :, :modes], back[1, :, :modes] = cosines.T, sines.T
        self.tables = (cosines, sines, odd, back[0].contiguous(), back[1].contiguous())

    def forward(self, h: Tensor, b: Tensor, out: Tensor) -> None:
        """out = Σ_i b_i g_i."""
        sizes = self._sizes(h, b, out)
        pointers = (h.data_ptr(), b.data_ptr(), out.data_ptr())
        self._run(self.library.pairs_forward, pointers, sizes, len(h))

    def backward(self, h: Tensor, b: Tensor, grad: Tensor, b_bar: Tensor, h_bar: Tensor) -> None:
        """b̄ += Σ_b ḡ g and h̄ = the transpose of h -> g, applied to ḡ b."""
        sizes = self._sizes(h, b, grad)
        pointers = tuple(tensor.data_ptr() for tensor in (h, b, grad, b_bar, h_bar))
        self._run(self.library.pairs_backward, pointers, sizes, len(h))

    def _sizes(self, h: Tensor, b: Tensor, out: Tensor) -> _Sizes:
        tables = [table.data_ptr() for table in self.tables]
        strides = (2 * h.stride(0), b.stride(0), out.stride(0))
        shape = (h.shape[1], h.shape[2], self.modes, self.half, self.back)
        return _Sizes(*tables, *shape, *strides)

    def _run(
        self, loop: Callable[..., None], pointers: tuple[int, ...], sizes: _Sizes, rows: int
    ) -> None:
        """All rows, shared out over as many threads as torch uses."""
        arguments = [ctypes.c_void_p(pointer) for pointer in pointers]

        def part(first: int, last: int) -> None:
            loop(*arguments, ctypes.byref(sizes), ctypes.c_long(first), ctypes.c_long(last))

        share_out(part, rows)
