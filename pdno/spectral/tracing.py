"""Detection of torch tracing, function transforms and forward differentiation.

Then fast paths, which write into buffers or call compiled code, give way to plain operations.
"""

import torch
from torch.autograd import forward_ad


def is_transformed() -> bool:
    """Whether only plain operations will do: `torch.func`, forward differentiation, export."""
    if torch.compiler.is_compiling():
        return torch.compiler.is_exporting()
    active: bool = torch._C._functorch.peek_interpreter_stack() is not None
    return active or forward_ad._current_level >= 0


def is_traced() -> bool:
    """The same, or a graph is being made: numbers are not known yet."""
    return torch.compiler.is_compiling() or is_transformed()
