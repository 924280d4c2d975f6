"""Pseudo-differential neural operators: learn solution operators of differential equations.

Shapes: fields (B, C, *N), trajectories (B, T, C, *N), coordinates (*N, d). B batch, T time,
C channels, *N grid, d dimension. Frequencies ξ are integers, x lies in the unit box.

`__init__.pyi` lists the public names. Each is imported at its first use, so that the command line
starts without torch.
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
