"""Linear equations, solved exactly: û(t) = e^{tL(ξ)} û(0), one multiplication for any time."""

__all__ = ["propagate"]

from collections.abc import Sequence

import torch
from torch import Tensor

from pdno.equations.base import Semilinear
from pdno.fourier import inverse, transform


def propagate(system: Semilinear, state: Tensor, times: Sequence[float]) -> Tensor:
    """The solution at `times` of û_t = L(ξ) û, (B, C, *N) -> (B, T, C, *N), float64."""
    shape = state.shape[2:]
    u_hat = transform(state.to(torch.float64), len(shape), system.modes)
    t = torch.tensor(times, dtype=torch.float64, device=state.device)
    factor = torch.exp(system.linear * t.reshape(-1, 1, *[1] * len(shape)))
    return inverse(u_hat.unsqueeze(1) * factor, shape, system.modes)
