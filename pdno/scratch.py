"""Memory that is used again within one computation.

Large tensors that come and go at every operation are mapped and unmapped by the C library each
time, and the page faults cost more than the arithmetic. A `Scratch` hands out the same memory for
the same purpose again and again; it lives as long as the computation that made it.
"""

__all__ = ["Scratch"]

import math

import torch
from torch import Tensor


class Scratch:
    """Named buffers on one device.

    Arguments:
        device: Where the buffers live.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.buffers: dict[tuple[str, torch.dtype], Tensor] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """An uninitialised tensor; it shares its memory with earlier ones of this name."""
        size = math.prod(shape)
        buffer = self.buffers.get((name, dtype))
        if buffer is None or buffer.numel() < size:
            buffer = torch.empty(size, dtype=dtype, device=self.device)
            self.buffers[name, dtype] = buffer
        return buffer[:size].view(shape)
