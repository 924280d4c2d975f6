"""Predictors, and the loop that predicts a dataset batch by batch."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from pdno.spectral.grid import Grid

BATCH_SIZE = 20


@runtime_checkable
class Predictor(Protocol):
    """Something that predicts the targets of a dataset.

    Where the samples have PDE parameters it is given `pde_parameters`, (B, P), as well.
    """

    def predict(self, inputs: Tensor, *, grid: Grid, times: Sequence[float] | None) -> Tensor:
        """The prediction of inputs (B, C, *N): (B, C, *N), or (B, T, C, *N) at `times`."""


class Batches(Protocol):
    """Inputs and targets by number, and what a prediction of them needs: an `OperatorDataset`."""

    def __len__(self) -> int: ...

    def batch(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Inputs and targets of some samples."""

    def keyword_arguments(self, indices: Sequence[int]) -> dict[str, Any]:
        """Grid, times and PDE parameters of some samples."""


def predict_batches(
    predictor: Predictor,
    data: Batches,
    *,
    batch_size: int = BATCH_SIZE,
    device: torch.device | str | None = None,
    rows: Sequence[int] | None = None,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Predictions and targets, batch by batch, on the CPU.

    `device` is where to predict, None where the inputs are; `rows` are the samples, None is all.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}; expected at least 1")
    rows = range(len(data)) if rows is None else rows
    for first in range(0, len(rows), batch_size):
        some = rows[first : first + batch_size]
        inputs, targets = data.batch(some)
        with evaluation_mode(predictor):
            prediction = predictor.predict(inputs.to(device), **data.keyword_arguments(some))
        if prediction.shape != targets.shape:
            raise ValueError(
                f"the prediction has shape {tuple(prediction.shape)}; expected that of the "
                f"targets, {tuple(targets.shape)}"
            )
        yield prediction.detach().cpu(), targets.cpu()


@contextlib.contextmanager
def evaluation_mode(predictor: object) -> Iterator[None]:
    """No gradients, and evaluation mode where the predictor is a module; its modes come back."""
    modules = predictor.modules() if isinstance(predictor, nn.Module) else ()
    training = [module for module in modules if module.training]
    try:
        for module in training:
            module.training = False
        # not inference mode: values that a network keeps must serve a later training step, too
        with torch.no_grad():
            yield
    finally:
        for module in training:
            module.training = True
