"""FNO, the Fourier neural operator that the paper compares with."""

__all__ = ["FNO"]

from collections.abc import Sequence
from typing import Any

from pdno.networks.neural_operator import Coordinates, NeuralOperator, Padding, check_sizes
from pdno.operators.pseudo_differential import FourierIntegralOperator


class FNO(NeuralOperator):
    """Q ∘ σ(W + K_R) ∘ ... ∘ P with a free table R(ξ) per block (paper section 2.2).

    Shapes: (B, in_channels, *N) -> (B, out_channels, *N). Coordinates are appended inside. For
    the space-time FNO-3D take dim=3 and the frames repeated along the third axis. The kept modes
    k_max are one or one per axis; the published coordinate_scale at resolution s is s/(s-1).

    Example:
        >>> import torch
        >>> network = FNO(dim=1, in_channels=1, out_channels=1, width=8, modes=4)
        >>> network(torch.randn(2, 1, 32)).shape
        torch.Size([2, 1, 32])
    """

    def __init__(
        self,
        dim: int,
        in_channels: int,
        out_channels: int,
        width: int = 20,
        layers: int = 4,
        modes: Sequence[int] | int = 12,
        *,
        coordinate_scale: float | Sequence[float] = 1.0,
        padding: Padding = 0.0,
        feed_forward: int = 0,
        coordinates: Coordinates = "appended",
    ) -> None:
        channels: Any = {"in_channels": in_channels, "out_channels": out_channels}
        kept = check_sizes(dim, modes, width=width, layers=layers, **channels) or ()
        operators = [FourierIntegralOperator(width, width, modes=kept) for _ in range(layers)]
        inner: Any = {"width": width, "coordinate_scale": coordinate_scale, "padding": padding}
        inner |= {"feed_forward": feed_forward, "coordinates": coordinates}
        super().__init__(dim, **channels, operators=operators, **inner)
