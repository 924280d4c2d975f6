"""Evaluation of a predictor on a dataset: predict batch by batch, compare with the targets.

Errors of a prediction v of the target u, means over samples, computed in float64:

    relative_l2           ‖v - u‖ / ‖u‖ over the whole target; "t=11" for one frame, "channel=0"
    relative_h1           the same in ‖·‖_{H^1}, on the torus; H^s weighs the mode ξ with ⟨ξ⟩^s
    relative_l2 band 4-8  ‖P(v - u)‖ / ‖u‖, P keeping the modes 4 <= max |ξ_j| < 8; squares add up

A prediction with NaN or infinity counts as an infinite error.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pdno.data.dataset import OperatorDataset, Pairs
from pdno.interface.display import html_table, one_line
from pdno.spectral.calculus import resample
from pdno.spectral.grid import Grid
from pdno.spectral.metrics import band_errors, relative_error, relative_l2
from pdno.training.samples import Predictor, predict_batches
from pdno.training.trained_operator import as_predictor

SAME_TIME = 1e-9  # relative distance up to which two times are equal


@dataclass(frozen=True)
class Evaluation:
    """The errors of each sample by the name of the metric, (B,) each, float64 on the CPU."""

    errors: dict[str, Tensor]
    times: tuple[float, ...] | None

    def values(self, metric: str = "relative_l2") -> Tensor:
        """The errors of all samples, (B,)."""
        if metric not in self.errors:
            raise ValueError(f"no metric {metric!r}: expected one of {', '.join(self.errors)}")
        return self.errors[metric]

    def mean(self, metric: str = "relative_l2") -> float:
        """The mean over samples."""
        return float(self.values(metric).mean())

    def metrics(self) -> dict[str, float]:
        """The means of all metrics, and the relative L2 of the best and of the worst sample."""
        whole = self.errors["relative_l2"]
        return {name: self.mean(name) for name in self.errors} | {
            "best relative_l2": float(whole.min()),
            "worst relative_l2": float(whole.max()),
        }

    def __repr__(self) -> str:
        metrics = {"samples": str(len(self.values())), "relative_l2": f"{self.mean():.4g}"}
        return one_line("Evaluation", metrics)

    def _repr_html_(self) -> str:
        """For notebooks: all means."""
        means = {name: f"{value:.4g}" for name, value in self.metrics().items()}
        return html_table(f"Evaluation of {len(self.values())} samples", means)


def evaluate(
    predictor: Predictor | nn.Module,
    data: Pairs,
    *,
    batch_size: int = 20,
    orders: Sequence[float] = (1.0,),
    edges: Sequence[int] | None = None,
    device: torch.device | str | None = None,
) -> Evaluation:
    """The errors of a predictor, or of a bare network, on a dataset.

    `orders` are the s of H^s, on periodic grids, and `edges` the first modes of the bands, from 0
    on; None takes 0, 1, 2, 4, 8, ... below N/2. Without a `device` inputs stay where they are.

    Example:
        >>> from pdno.spectral.grid import Grid
        >>> u = torch.randn(6, 1, 32)
        >>> data = OperatorDataset.from_arrays(u, 1.25 * u, Grid((32,)))
        >>> result = evaluate(nn.Identity(), data)
        >>> round(result.mean("relative_l2"), 6), round(result.mean("relative_h1"), 6)
        (0.2, 0.2)
    """
    data = OperatorDataset.from_pairs(data)
    pairs = predict_batches(as_predictor(predictor), data, batch_size=batch_size, device=device)
    return evaluate_pairs(pairs, data.grid, times=data.target_times, orders=orders, edges=edges)


@dataclass(frozen=True)
class Predictions:
    """The predictions of a whole dataset, batch by batch on the CPU, made once and used often."""

    data: OperatorDataset
    batches: tuple[Tensor, ...]

    def pairs(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Predictions and targets, batch by batch; the targets are read again."""
        first = 0
        for prediction in self.batches:
            yield prediction, self.data.batch(range(first, first + len(prediction)))[1]
            first += len(prediction)

    def evaluate(self, edges: Sequence[int] | None = None) -> Evaluation:
        """Their errors; `edges` are those of `evaluate`."""
        grid, times = self.data.grid, self.data.target_times
        return evaluate_pairs(self.pairs(), grid, times=times, edges=edges)


def predict(
    predictor: Predictor | nn.Module,
    data: OperatorDataset,
    *,
    batch_size: int = 20,
    device: torch.device | str | None = None,
) -> Predictions:
    """The predictions of a whole dataset; `batch_size` and `device` are those of `evaluate`."""
    pairs = predict_batches(as_predictor(predictor), data, batch_size=batch_size, device=device)
    return Predictions(data, tuple(prediction for prediction, _ in pairs))


def evaluate_pairs(
    pairs: Iterable[tuple[Tensor, Tensor]],
    grid: Grid,
    *,
    times: Sequence[float] | None = None,
    orders: Sequence[float] = (1.0,),
    edges: Sequence[int] | None = None,
) -> Evaluation:
    """The errors of predictions that are there already; the options are those of `evaluate`.

    Shapes: batches of predictions and targets, (B, C, *N), or (B, T, C, *N) with times.
    """
    edges = default_edges(grid) if edges is None else tuple(edges)
    if not edges or edges[0] != 0 or sorted(set(edges)) != list(edges):
        raise ValueError(f"edges {edges}; expected 0, ... ascending: every mode is in one band")
    ranges = [*(f"{low}-{high}" for low, high in itertools.pairwise(edges)), f"{edges[-1]}+"]
    frames = None if times is None else tuple(float(t) for t in times)
    parts: list[dict[str, Tensor]] = []
    done = 0
    for prediction, target in pairs:
        _check_targets(target, frames, done)
        done += len(target)
        v, u = prediction.double(), target.double()
        part = {"relative_l2": relative_l2(v, u)}
        if frames is not None:
            names = [f"relative_l2 t={t:.12g}" for t in frames]
            part |= zip(names, relative_l2(v, u, keep=2).unbind(dim=1), strict=True)
        channels = zip(v.unbind(-grid.dim - 1), u.unbind(-grid.dim - 1), strict=True)
        for c, channel in enumerate(channels if u.shape[-grid.dim - 1] > 1 else ()):
            part[f"relative_l2 channel={c}"] = relative_l2(*channel)
        for s in orders if grid.periodic else ():
            part[f"relative_h{s:g}"] = relative_error(v, u, dim=grid.dim, s=s)
        errors = band_errors(v, u, dim=grid.dim, edges=list(edges)).unbind(dim=1)
        bands = (f"relative_l2 band {band}" for band in ranges)
        parts.append(part | dict(zip(bands, errors, strict=True)))
    if not parts:
        raise ValueError("the dataset is empty: give at least one sample")
    whole = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    finite = {name: e.nan_to_num(nan=math.inf, posinf=math.inf) for name, e in whole.items()}
    return Evaluation(finite, frames)


def _check_targets(target: Tensor, times: tuple[float, ...] | None, done: int) -> None:
    """Relative errors need targets that are not zero; say which sample is."""
    flat = target.flatten(1 if times is None else 2)
    zero = (flat == 0).all(dim=-1).nonzero()
    if len(zero):
        sample, *frame = zero[0].tolist()
        when = f" at time {times[frame[0]]:g}" if times is not None else ""
        wrong = f"the target of sample {done + sample} is zero everywhere{when}"
        raise ValueError(f"{wrong}, so it has no relative error: leave that sample or time out")


def default_edges(grid: Grid) -> tuple[int, ...]:
    """0, 1, 2, 4, 8, ... below N/2: the mean, then octaves; the last one goes on to the end."""
    largest = max(grid.shape) // 2
    return (0, *(2**k for k in range(largest.bit_length()) if 2**k < max(largest, 2)))


class AtResolution(NamedTuple):
    """Errors at one resolution: of the model there, and of its interpolated prediction."""

    resolution: int
    zero_shot: Evaluation
    interpolated: Evaluation


def evaluate_resolutions(
    predictor: Predictor | nn.Module,
    data: OperatorDataset,
    trained_at: int,
    *,
    resolutions: Sequence[int],
    predicted: Predictions | None = None,
    edges: Sequence[int] | None = None,
    batch_size: int = 20,
    device: torch.device | str | None = None,
) -> list[AtResolution]:
    """Zero-shot and interpolated errors at several resolutions.

    A neural operator G trained on s points predicts on r points, v = G(f on r points). The plain
    alternative is to predict on s points and interpolate, v = Σ_{|ξ|<=s/2} ĝ(ξ) e^{2πiξ·x} with
    g = G(f on s points). All grids are every n-th point of that of `data`; `predicted` are the
    predictions at the points `trained_at`, if they are there already.
    """

    predict_at = partial(predict, predictor, batch_size=batch_size, device=device)
    at_training = predicted or predict_at(_at(data, trained_at))
    results = []
    for r in resolutions:
        there = _at(data, r)
        fine = at_training if r == trained_at else predict_at(there)
        interpolated = (
            _interpolate(v.double(), trained_at, there.grid.shape) for v in at_training.batches
        )
        plain = Predictions(there, tuple(interpolated))
        results.append(AtResolution(r, fine.evaluate(edges), plain.evaluate(edges)))
    return results


def _at(data: OperatorDataset, resolution: int) -> OperatorDataset:
    """The dataset on every n-th point, with `resolution` points per axis."""
    finest, shape = max(data.grid.shape), data.grid.shape
    if set(shape) != {finest} or resolution < 2 or finest % resolution:
        expected = "expected a divisor of the points per axis, the same for all axes"
        raise ValueError(f"resolution {resolution} of a {shape} grid; {expected}")
    return data.subsample(finest // resolution)


def _interpolate(field: Tensor, points: int, shape: tuple[int, ...]) -> Tensor:
    """The trigonometric polynomial through `points` per axis, at the points of another grid."""
    # a grid with the points of both; going coarser by `resample` would smooth instead
    common = math.lcm(points, shape[0])
    fine = resample(field, (common,) * len(shape)) if common != points else field
    for axis in range(-len(shape), 0):
        fine = fine.unfold(axis, 1, common // shape[0]).squeeze(-1)
    return fine


def evaluate_times(
    predictions: Predictions, trained_at: Sequence[float]
) -> tuple[Evaluation, Evaluation]:
    """Errors of predictions at all times: at those of the training, and at the others."""
    times, grid = predictions.data.target_times, predictions.data.grid
    if times is None:
        raise ValueError("a static dataset has no times: use evaluate")
    trained = [any(math.isclose(t, s, rel_tol=SAME_TIME) for s in trained_at) for t in times]
    if all(trained) or not any(trained):
        wrong = f"{sum(trained)} of the {len(times)} times of the data were trained at"
        raise ValueError(f"{wrong}; expected some and not all: use evaluate, or more times")

    def at(frames: list[int]) -> Evaluation:
        chosen = ((v[:, frames], u[:, frames]) for v, u in predictions.pairs())
        return evaluate_pairs(chosen, grid, times=[times[k] for k in frames])

    frames = range(len(times))
    return at([k for k in frames if trained[k]]), at([k for k in frames if not trained[k]])
