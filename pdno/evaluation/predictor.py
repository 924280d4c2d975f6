"""Predictors: whatever maps the inputs of a dataset to its targets, in physical units.

Evaluation knows nothing of networks, normalisers or rollouts. It asks for

    predict(inputs (B, C, *N), grid, times)  ->  (B, C, *N), or (B, T, C, *N) at the T times

and compares the answer with the targets. A bare network that gives one field is a predictor after
`as_predictor`; one that is rolled out, takes time or was trained on scaled data needs its task
around it.
"""

__all__ = ["Predictor", "as_predictor", "predicting", "target_times"]

import contextlib
import inspect
from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from pdno.data.dataset import OperatorDataset
from pdno.grid import Grid


@runtime_checkable
class Predictor(Protocol):
    """Something that predicts the targets of a dataset."""

    def predict(self, inputs: Tensor, *, grid: Grid, times: Sequence[float] | None) -> Tensor:
        """The prediction, (B, C, *N) without times and (B, T, C, *N) with them.

        Arguments:
            inputs: (B, C, *N), as the dataset gives them.
            grid: Where they live.
            times: Of the wanted frames; None for a static dataset.
        """


class _NetworkPredictor:
    """u = network(f), one field or one frame."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self._takes_grid = "grid" in inspect.signature(network.forward).parameters

    def predict(self, inputs: Tensor, *, grid: Grid, times: Sequence[float] | None) -> Tensor:
        """The output of the network in evaluation mode."""
        if times is not None and len(times) != 1:
            raise ValueError(
                f"a bare network gives one frame, the dataset wants {len(times)}: give a "
                "predictor that rolls the network out or feeds it the times"
            )
        with predicting(self.network):
            field: Tensor = (
                self.network(inputs, grid=grid) if self._takes_grid else self.network(inputs)
            )
        return field if times is None else field[:, None]


def as_predictor(network: Predictor | nn.Module) -> Predictor:
    """A network that maps (B, C, *N) to (B, C, *N) as a predictor; predictors stay as they are.

    Networks whose `forward` takes a `grid` are given the one of the data.

    Example:
        >>> u = torch.ones(2, 1, 8)
        >>> predictor = as_predictor(nn.Identity())
        >>> bool((predictor.predict(u, grid=Grid((8,)), times=None) == u).all())
        True
    """
    if isinstance(network, Predictor):
        return network
    if not isinstance(network, nn.Module):
        raise ValueError(
            f"a {type(network).__name__} does not predict; expected a network or something with "
            "predict(inputs, *, grid, times)"
        )
    return _NetworkPredictor(network)


@contextlib.contextmanager
def predicting(predictor: object) -> Iterator[None]:
    """No gradients, and evaluation mode where the predictor is a module; its modes come back."""
    modules = list(predictor.modules()) if isinstance(predictor, nn.Module) else []
    before = [module.training for module in modules]
    try:
        for module in modules:
            module.training = False
        # not inference mode: values that a network keeps must serve a later training step, too
        with torch.no_grad():
            yield
    finally:
        for module, training in zip(modules, before, strict=True):
            module.training = training


def target_times(data: OperatorDataset) -> tuple[float, ...] | None:
    """Times of the targets: those behind the window where there is one; None if static."""
    return None if data.times is None else tuple(data.times[data.input_frames or 0 :])
