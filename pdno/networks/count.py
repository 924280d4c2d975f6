"""Parameter counts, in the paper's convention and in real numbers."""

__all__ = ["count_parameters"]

from torch import nn


def count_parameters(network: nn.Module, *, complex_once: bool = True) -> int:
    """Number of parameters of a network.

    Spectral tables are stored as pairs of real numbers in parameters called `table`.

    Arguments:
        network: Any network.
        complex_once: Count a complex number once, as the paper's table does; else its two parts.
    """
    count = 0
    for name, parameter in network.named_parameters():
        numbers = parameter.numel() * (2 if parameter.is_complex() else 1)
        is_complex = parameter.is_complex() or name.endswith("table")
        count += numbers // 2 if complex_once and is_complex else numbers
    return count
