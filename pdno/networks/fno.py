"""FNO, the Fourier neural operator that the paper compares with."""

from pdno.networks.heads import AnyHead
from pdno.networks.neural_operator import (
    Coordinates,
    NeuralOperator,
    Padding,
    Size,
    SizeOrNone,
    check_sizes,
)
from pdno.operators.pseudo_differential import FourierIntegralOperator


class FNO(NeuralOperator):
    """Q ∘ σ(W + K_R) ∘ ... ∘ P with a free table R(ξ) per block (paper section 2.2).

    Shapes: (B, in_channels, *N) -> (B, out_channels, *N). Coordinates are appended inside. With
    `space_time` time is one more axis after those of space (FNO-3D). The kept modes k_max are one
    or one per axis; the published coordinate_scale at resolution s is s/(s-1). The other options
    are those of `PDNO`.

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
        width: Size = 20,
        layers: Size = 4,
        modes: tuple[Size, ...] | Size = 12,
        *,
        coordinate_scale: float | tuple[float, ...] = 1.0,
        padding: Padding = 0.0,
        feed_forward: SizeOrNone = 0,
        coordinates: Coordinates = "appended",
        space_time: bool = False,
        head: AnyHead = None,
    ) -> None:
        axes = dim + space_time
        sizes = {"in_channels": in_channels, "out_channels": out_channels}
        kept = check_sizes(axes, modes, width=width, layers=layers, **sizes) or ()
        if space_time and head is not None:
            raise ValueError("a head predicts one frame, a space-time network all: leave one out")
        super().__init__(
            axes,
            in_channels,
            out_channels,
            width=width,
            operators=[FourierIntegralOperator(width, width, modes=kept) for _ in range(layers)],
            coordinate_scale=coordinate_scale,
            padding=padding,
            feed_forward=feed_forward,
            coordinates=coordinates,
            head=head,
        )
