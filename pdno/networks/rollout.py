"""Rollouts: a network that predicts one frame, fed with its own predictions."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from pdno.networks.neural_operator import NeuralOperator
from pdno.spectral.grid import Grid


def rollout(network: nn.Module, window: Tensor, steps: int, *, recompute: bool = False) -> Tensor:
    """Predict `steps` frames; the window slides over the predictions (paper section 5.2).

    Shapes: window (B, k·C, *N), the latest k frames, oldest first -> (B, steps, C, *N). To
    `recompute` each step in the backward pass takes the memory of one and a third more time.
    """
    if isinstance(network, NeuralOperator):
        network_step = shared_step(network, Grid(tuple(window.shape[2:])))
        return unroll(network_step, window, steps, recompute=recompute)
    return unroll(network, window, steps, recompute=recompute)


def unroll(
    step: Callable[[Tensor], Tensor], window: Tensor, steps: int, *, recompute: bool = False
) -> Tensor:
    """`rollout` of any function from a window to the next frame."""
    if steps < 1:
        raise ValueError(f"steps is {steps}; expected at least 1")
    frames = []
    for _ in range(steps):
        again = recompute and torch.is_grad_enabled()
        frame = checkpoint(step, window, use_reentrant=False) if again else step(window)
        if window.shape[1] % frame.shape[1]:
            held = f"a window of {window.shape[1]} channels"
            raise ValueError(f"{held} is not whole frames of {frame.shape[1]}")
        frames.append(frame)
        window = torch.cat([window[:, frame.shape[1] :], frame], dim=1)
    return torch.stack(frames, dim=1)


def shared_step(
    network: NeuralOperator, grid: Grid, pde_parameters: Tensor | None = None
) -> Callable[[Tensor], Tensor]:
    """The network on a grid, with its symbols evaluated once for all calls.

    They are evaluated at these PDE parameters, (B, P), where they see such.
    """
    if network.takes_time:
        raise ValueError("a network that takes time predicts in one shot, not by a rollout")
    values = network.evaluate_symbols(grid, pde_parameters)

    def step(window: Tensor) -> Tensor:
        with network.using_symbols(grid, values):
            frame: Tensor = network(window, grid=grid)
            return frame

    return step
