"""Evaluation of a predictor on a dataset: predict batch by batch, compare with the targets.

A predictor maps the inputs of a dataset to its targets, in physical units:

    predict(inputs (B, C, *N), grid, times)  ->  (B, C, *N), or (B, T, C, *N) at the T times

Errors of a prediction v of the target u, sample by sample:

    relative L2   ‖v - u‖ / ‖u‖ over the whole target, all times
    per time      the same for each frame alone
    H^s           the same in ‖·‖_{H^s}, which weighs the mode ξ with ⟨ξ⟩^s
    by band       ‖P_b(v - u)‖ / ‖u‖, P_b keeping the modes of band b; Σ_b squares = (relative L2)²

Reported numbers are means over samples. All are computed in float64 and do not depend on the
batch size. A prediction with NaN or infinity counts as an infinite error.

Grids of a box. H^s by Fourier belongs to the torus: the periodic continuation of a function on a
box has a jump or a kink (Darcy's pressure is zero on the boundary, its slope is not), and the norm
would measure that. So H^s is left out there. Bands are given on every grid: they split the error
at the grid points, by Parseval without remainder, but on a box the kink of the continuation puts a
part of a smooth error into high bands.
"""

__all__ = [
    "Evaluation",
    "Predictions",
    "Predictor",
    "as_predictor",
    "default_edges",
    "evaluate",
    "evaluate_pairs",
    "gap",
    "predict",
    "predict_batches",
]

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from pdno.data.dataset import OperatorDataset
from pdno.grid import Grid
from pdno.metrics import band_errors, relative_error, relative_l2
from pdno.training.normalizer import NormalizedNetwork
from pdno.training.task import Learner, StaticMap, evaluation_mode


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


def as_predictor(network: Predictor | nn.Module) -> Predictor:
    """A network that maps (B, C, *N) to (B, C, *N) as a predictor; predictors stay as they are.

    Networks whose `forward` takes a `grid` are given the one of the data. A network that is rolled
    out, takes time or was trained on scaled data needs its task around it, see `Learner`.

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
    return Learner(NormalizedNetwork(network), StaticMap())


@dataclass(frozen=True)
class Evaluation:
    """The errors of each sample of a dataset, by the name of the metric.

    Shapes: every entry of `errors` (B,), float64 on the CPU.

    | name                   | error                                                   |
    |------------------------|---------------------------------------------------------|
    | `relative_l2`          | of the whole target                                     |
    | `relative_l2 t=11`     | of the frame at time 11                                 |
    | `relative_h1`          | in H¹, on periodic grids                                |
    | `relative_l2 band 4-8` | of the modes 4 <= max |ξ_j| < 8; `band 16+` is the rest |

    Arguments:
        errors: Per sample, by name.
        times: Of the frames; None for a static dataset.
    """

    errors: dict[str, Tensor]
    times: tuple[float, ...] | None

    def __len__(self) -> int:
        return len(self.errors["relative_l2"])

    def values(self, metric: str = "relative_l2") -> Tensor:
        """The errors of all samples, (B,)."""
        if metric not in self.errors:
            raise ValueError(f"no metric {metric!r}: expected one of {', '.join(self.errors)}")
        return self.errors[metric]

    def mean(self, metric: str = "relative_l2") -> float:
        """The mean over samples."""
        return float(self.values(metric).mean())

    @property
    def over_time(self) -> Tensor:
        """Relative L2 of each frame, (B, T)."""
        if self.times is None:
            raise ValueError("a static dataset has no times: use values('relative_l2')")
        return torch.stack([self.errors[_time_name(t)] for t in self.times], dim=1)

    def metrics(self) -> dict[str, float]:
        """The means of all metrics, and the relative L2 of the best and of the worst sample."""
        whole = self.errors["relative_l2"]
        return {name: self.mean(name) for name in self.errors} | {
            "best relative_l2": float(whole.min()),
            "worst relative_l2": float(whole.max()),
        }


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
    return evaluate_pairs(pairs, data.grid, times=data.target_times, orders=orders, edges=edges)


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
    for first in range(0, len(data), batch_size):
        inputs, targets = data.batch(range(first, min(first + batch_size, len(data))))
        with evaluation_mode(model):
            prediction = model.predict(inputs.to(device), grid=data.grid, times=data.target_times)
        if prediction.shape != targets.shape:
            raise ValueError(
                f"the prediction has shape {tuple(prediction.shape)}; expected that of the "
                f"targets, {tuple(targets.shape)}"
            )
        yield prediction.detach().cpu(), targets


@dataclass(frozen=True)
class Predictions:
    """The predictions of a whole dataset, made once and used for metrics, pictures and tables.

    Arguments:
        data: Inputs and targets.
        batches: The predictions, batch by batch, on the CPU.
    """

    data: OperatorDataset
    batches: tuple[Tensor, ...]

    def pairs(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Predictions and targets, batch by batch; the targets are read again."""
        first = 0
        for prediction in self.batches:
            yield prediction, self.data.batch(range(first, first + len(prediction)))[1]
            first += len(prediction)

    def evaluate(self, **options: Any) -> Evaluation:
        """Their errors; `orders` and `edges` are those of `evaluate`."""
        times = self.data.target_times
        return evaluate_pairs(self.pairs(), self.data.grid, times=times, **options)


def predict(
    predictor: Predictor | nn.Module, data: OperatorDataset, **options: Any
) -> Predictions:
    """The predictions of a whole dataset; `batch_size` and `device` are those of `evaluate`."""
    pairs = predict_batches(predictor, data, **options)
    return Predictions(data, tuple(prediction for prediction, _ in pairs))


def evaluate_pairs(
    pairs: Iterable[tuple[Tensor, Tensor]],
    grid: Grid,
    *,
    times: Sequence[float] | None = None,
    orders: Sequence[float] = (1.0,),
    edges: Sequence[int] | None = None,
) -> Evaluation:
    """The errors of predictions that are there already.

    Arguments:
        pairs: Batches of predictions and targets, (B, C, *N), or (B, T, C, *N) with times.
        grid: Where they live.
        times: Of the frames; None for a static dataset.
        orders: The s of H^s, on periodic grids.
        edges: First mode of each band; None takes 0, 1, 2, 4, 8, ... below N/2.
    """
    bands = default_edges(grid) if edges is None else _checked_edges(edges)
    kept = orders if grid.periodic else ()
    frames = None if times is None else tuple(float(t) for t in times)
    parts: list[dict[str, Tensor]] = []
    done = 0
    for prediction, target in pairs:
        _check_targets(target, frames, done)
        parts.append(_errors(prediction.double(), target.double(), grid.dim, frames, kept, bands))
        done += len(target)
    if not parts:
        raise ValueError("the dataset is empty: give at least one sample")
    errors = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    return Evaluation(errors, frames)


def default_edges(grid: Grid) -> tuple[int, ...]:
    """0, 1, 2, 4, 8, ... below N/2: the mean, then octaves; the last one goes on to the end."""
    largest = max(grid.shape) // 2
    return (0, *(2**k for k in range(largest.bit_length()) if 2**k < max(largest, 2)))


def gap(train: Evaluation, test: Evaluation, metric: str = "relative_l2") -> float:
    """How much larger the mean error is on the test set than on the training set."""
    return test.mean(metric) - train.mean(metric)


def _errors(
    prediction: Tensor,
    target: Tensor,
    dim: int,
    times: tuple[float, ...] | None,
    orders: Sequence[float],
    edges: tuple[int, ...],
) -> dict[str, Tensor]:
    """All errors of one batch."""
    errors = {"relative_l2": relative_l2(prediction, target)}
    if times is not None:
        columns = relative_l2(prediction, target, keep=2).unbind(dim=1)
        errors |= {_time_name(t): column for t, column in zip(times, columns, strict=True)}
    for s in orders:
        errors[f"relative_h{s:g}"] = relative_error(prediction, target, dim=dim, s=s)
    columns = band_errors(prediction, target, dim=dim, edges=list(edges)).unbind(dim=1)
    errors |= dict(zip(_band_names(edges), columns, strict=True))
    return {
        name: error.nan_to_num(nan=math.inf, posinf=math.inf) for name, error in errors.items()
    }


def _check_targets(target: Tensor, times: tuple[float, ...] | None, done: int) -> None:
    """Relative errors need targets that are not zero; say which sample is."""
    flat = target.flatten(1 if times is None else 2)
    zero = (flat == 0).all(dim=-1).nonzero()
    if len(zero):
        sample, *frame = zero[0].tolist()
        when = f" at time {times[frame[0]]:g}" if times is not None else ""
        raise ValueError(
            f"the target of sample {done + sample} is zero everywhere{when}, so its relative "
            "error has no meaning: leave that sample or time out"
        )


def _checked_edges(edges: Sequence[int]) -> tuple[int, ...]:
    if not edges or edges[0] != 0 or sorted(set(edges)) != list(edges):
        raise ValueError(
            f"edges {tuple(edges)}; expected 0 first and then larger and larger modes, so that "
            "every mode is in one band"
        )
    return tuple(edges)


def _time_name(t: float) -> str:
    return f"relative_l2 t={t:.12g}"


def _band_names(edges: tuple[int, ...]) -> list[str]:
    ranges = [f"{low}-{high}" for low, high in zip(edges, edges[1:], strict=False)]
    return [f"relative_l2 band {band}" for band in (*ranges, f"{edges[-1]}+")]
