"""Evaluation of a predictor on a dataset: predict batch by batch, compare with the targets.

What the errors are is in `pdno.evaluation.errors`. The result does not depend on the batch size;
predictions are made without gradients and in evaluation mode.
"""

__all__ = ["Evaluation", "evaluate", "gap", "predict_batches"]

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from pdno.data.dataset import OperatorDataset
from pdno.evaluation.errors import Evaluation, evaluate_pairs, gap
from pdno.evaluation.predictor import Predictor, as_predictor, predicting, target_times


def evaluate(
    predictor: Predictor | nn.Module,
    data: OperatorDataset,
    *,
    batch_size: int = 20,
    orders: Sequence[float] = (1.0,),
    edges: Sequence[int] | None = None,
    device: torch.device | str | None = None,
) -> Evaluation:
    """The errors of a predictor on a dataset.

    Arguments:
        predictor: What to evaluate; a bare network is taken as it is (see `as_predictor`).
        data: Inputs and targets.
        batch_size: Samples at once; the result is the same for all.
        orders: The s of H^s, on periodic grids.
        edges: First mode of each band, from 0 on; None takes 0, 1, 2, 4, 8, ... below N/2.
        device: Where to predict; None leaves the inputs where they are.

    Example:
        >>> from pdno.grid import Grid
        >>> u = torch.randn(6, 1, 32)
        >>> data = OperatorDataset.from_arrays(u, 1.25 * u, Grid((32,)))
        >>> result = evaluate(nn.Identity(), data)
        >>> round(result.mean("relative_l2"), 6), round(result.mean("relative_h1"), 6)
        (0.2, 0.2)
    """
    pairs = predict_batches(predictor, data, batch_size=batch_size, device=device)
    times = target_times(data)
    return evaluate_pairs(pairs, data.grid, times=times, orders=orders, edges=edges)


def predict_batches(
    predictor: Predictor | nn.Module,
    data: OperatorDataset,
    *,
    batch_size: int = 20,
    device: torch.device | str | None = None,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Predictions and targets, batch by batch, on the CPU; the arguments are those of `evaluate`.

    Predictions do not depend on the gradient or training mode of the caller.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}; expected at least 1")
    model = as_predictor(predictor)
    times = target_times(data)
    for first in range(0, len(data), batch_size):
        inputs, targets = data.batch(range(first, min(first + batch_size, len(data))))
        with predicting(model):
            prediction = model.predict(inputs.to(device), grid=data.grid, times=times)
        if prediction.shape != targets.shape:
            raise ValueError(
                f"the prediction has shape {tuple(prediction.shape)}; expected that of the "
                f"targets, {tuple(targets.shape)}"
            )
        yield prediction.detach().cpu(), targets
