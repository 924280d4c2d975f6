"""Rollouts: a network that predicts one frame, fed with its own predictions."""

__all__ = ["rollout"]

import torch
from torch import Tensor, nn


def rollout(network: nn.Module, window: Tensor, steps: int) -> Tensor:
    """Predict `steps` frames; the window slides over the predictions (paper section 3.3).

    Shapes: window (B, k·C, *N), the latest k frames as channels -> (B, steps, C, *N).

    Arguments:
        network: Maps a window to the next frame (B, C, *N).
        window: The latest frames, oldest first.
        steps: Number of frames to predict.
    """
    if steps < 1:
        raise ValueError(f"steps is {steps}; expected at least 1")
    frames = []
    for _ in range(steps):
        frame = network(window)
        if window.shape[1] % frame.shape[1]:
            raise ValueError(
                f"a window of {window.shape[1]} channels is not whole frames of {frame.shape[1]}"
            )
        frames.append(frame)
        window = torch.cat([window[:, frame.shape[1] :], frame], dim=1)
    return torch.stack(frames, dim=1)
