"""FNO, the Fourier neural operator that the paper compares with."""

__all__ = ["FNO"]

from collections.abc import Sequence

from pdno.networks.neural_operator import NeuralOperator, check_sizes, per_axis
from pdno.operators.pseudo_differential import FourierIntegralOperator


class FNO(NeuralOperator):
    """Q ∘ σ(W + K_R) ∘ ... ∘ P with a free table R(ξ) per block (paper section 2.2).

    Shapes: (B, in_channels, *N) -> (B, out_channels, *N). Coordinates are appended inside. For
    the space-time FNO-3D take dim=3 and the frames repeated along the third axis.

    Arguments:
        dim: Number of axes d.
        in_channels: Channels of f, without coordinates.
        out_channels: Channels of u.
        width: Channels inside.
        layers: Number of blocks.
        modes: Kept modes k_max, one or one per axis.
        coordinate_scale: Factor of the coordinates; s/(s-1) at resolution s is the published one.
        padding: Fraction of the domain (float) or points (int) of zeros after each axis; one for
            all or one per axis.

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
        padding: float | Sequence[float] = 0.0,
    ) -> None:
        check_sizes(dim, in_channels, out_channels, width, layers)
        kept = per_axis(modes, dim) or ()
        super().__init__(
            dim,
            in_channels,
            out_channels,
            width=width,
            operators=[FourierIntegralOperator(width, width, modes=kept) for _ in range(layers)],
            coordinate_scale=coordinate_scale,
            padding=padding,
        )
