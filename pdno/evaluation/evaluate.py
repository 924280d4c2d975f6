"""Evaluation of a predictor on a dataset: predict batch by batch, compare with the targets.

Errors of a prediction v of the target u, means over samples, computed in float64:

    relative_l2           ‖v - u‖ / ‖u‖ over the whole target; "t=11" for one frame, "channel=0"
    relative_h1           the same in ‖·‖_{H^1}, on the torus, which weighs the mode ξ with ⟨ξ⟩
    relative_l2 band 4-8  ‖P(v - u)‖ / ‖u‖, P keeping the modes 4 <= max |ξ_j| < 8; squares add up

A prediction with NaN or infinity counts as an infinite error.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
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
FRAME = "relative_l2 t={:.12g}"
NORMS = "norms"


@dataclass(frozen=True)
class Evaluation:
    """The errors of each sample by the name of the metric, (B,) each, float64 on the CPU.

    Beside them the norms of the targets, (B,) or of each frame (B, T), and kept predictions.
    """

    norms: Tensor
    errors: dict[str, Tensor]
    times: tuple[float, ...] | None
    predictions: Tensor | None = None

    def values(self, metric: str = "relative_l2") -> Tensor:
        """The errors of all samples, (B,)."""
        if metric not in self.errors:
            raise ValueError(f"no metric {metric!r}: expected one of {', '.join(self.errors)}")
        return self.errors[metric]

    def mean(self, metric: str = "relative_l2") -> float:
        return float(self.values(metric).mean())

    def metrics(self) -> dict[str, float]:
        """The means of all metrics, and the relative L2 of the best and of the worst sample."""
        whole = self.errors["relative_l2"]
        return {name: self.mean(name) for name in self.errors} | {
            "best relative_l2": float(whole.min()),
            "worst relative_l2": float(whole.max()),
        }

    def frames(self) -> Tensor:
        """The relative L2 error of each frame, (B, T)."""
        return torch.stack([self.values(FRAME.format(t)) for t in self.times or ()], dim=1)

    def split_times(self, trained_at: Sequence[float]) -> tuple[float, float]:
        """The mean relative L2 errors over the frames at these times, and over all others."""
        times = self.times
        if times is None:
            raise ValueError("a static dataset has no times to split its errors by")
        trained = [any(math.isclose(t, s, rel_tol=SAME_TIME) for s in trained_at) for t in times]
        if all(trained) or not any(trained):
            wrong = f"{sum(trained)} of the {len(times)} times of the data were trained at"
            raise ValueError(f"{wrong}; expected some and not all: use mean(), or more times")
        squares, sums = self.norms.square(), list[float]()
        errors = self.frames().square() * squares
        for inside in (torch.tensor(trained), ~torch.tensor(trained)):
            shares = errors[:, inside].sum(dim=1) / squares[:, inside].sum(dim=1)
            sums.append(float(shares.sqrt().mean()))
        return sums[0], sums[1]

    def __repr__(self) -> str:
        metrics = {"samples": str(len(self.values())), "relative_l2": f"{self.mean():.4g}"}
        return one_line("Evaluation", metrics)

    def _repr_html_(self) -> str:
        means = {name: f"{value:.4g}" for name, value in self.metrics().items()}
        return html_table(f"Evaluation of {len(self.values())} samples", means)


def evaluate(
    predictor: Predictor | nn.Module,
    data: Pairs,
    *,
    batch_size: int = 20,
    device: torch.device | str | None = None,
    keep: bool = False,
) -> Evaluation:
    """The errors of a predictor, or of a bare network, on a dataset.

    Without a `device` inputs stay where they are. To `keep` predictions takes memory for all.

    Example:
        >>> from pdno.spectral.grid import Grid
        >>> u = torch.randn(6, 1, 32)
        >>> data = OperatorDataset.from_arrays(u, 1.25 * u, Grid((32,)))
        >>> result = evaluate(nn.Identity(), data)
        >>> round(result.mean("relative_l2"), 6), round(result.mean("relative_h1"), 6)
        (0.2, 0.2)
    """
    data = OperatorDataset.from_pairs(data)
    model, parts, kept = as_predictor(predictor), list[dict[str, Tensor]](), list[Tensor]()
    for v, u in predict_batches(model, data, batch_size=batch_size, device=device):
        parts.append(_errors(v, u, data, len(parts) * batch_size))
        kept += [v] if keep else []
    return _join(parts, data, torch.cat(kept) if keep else None)


def _errors(v: Tensor, u: Tensor, data: OperatorDataset, first: int) -> dict[str, Tensor]:
    """The errors of a batch, (B, C, *N), or (B, T, C, *N) with times, from a sample on."""
    grid, times, rows = data.target_grid, data.target_times, range(first, first + len(v))
    v, u = (data.weigh(field.double(), rows) for field in (v, u))
    dim = grid.space_axes
    norms = u.flatten(1 if times is None else 2).norm(dim=-1)
    if len(zero := (norms == 0).nonzero()):
        sample, *frame = zero[0].tolist()
        when = f" at time {(times or ())[frame[0]]:g}" if frame else ""
        wrong = f"the target of sample {first + sample} is zero everywhere{when}"
        raise ValueError(f"{wrong}, so it has no relative error: leave that sample or time out")
    errors = {NORMS: norms, "relative_l2": relative_l2(v, u)}
    if times is not None:
        frames = relative_l2(v, u, keep=2).unbind(dim=1)
        errors |= zip(map(FRAME.format, times), frames, strict=True)
    if u.shape[-dim - 1] > 1:
        for c, pair in enumerate(zip(v.unbind(-dim - 1), u.unbind(-dim - 1), strict=True)):
            errors[f"relative_l2 channel={c}"] = relative_l2(*pair)
    if type(grid) is not Grid:  # scattered points and masked grids have no frequencies
        return errors
    if data.grid.periodic:
        errors["relative_h1"] = relative_error(v, u, dim=dim, s=1.0)
    edges = octaves(data.grid)
    bands = [*(f"{low}-{high}" for low, high in itertools.pairwise(edges)), f"{edges[-1]}+"]
    shares = band_errors(v, u, dim=dim, edges=edges).unbind(dim=1)
    return errors | {f"relative_l2 band {b}": e for b, e in zip(bands, shares, strict=True)}


def _join(
    parts: list[dict[str, Tensor]], data: OperatorDataset, predictions: Tensor | None = None
) -> Evaluation:
    if not parts:
        raise ValueError("the dataset is empty: give at least one sample")
    errors = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    errors = {name: e.nan_to_num(nan=math.inf, posinf=math.inf) for name, e in errors.items()}
    return Evaluation(errors.pop(NORMS), errors, data.target_times, predictions)


def octaves(grid: Grid) -> list[int]:
    """0, 1, 2, 4, 8, ... below N/2: the mean, then octaves; the last one goes on to the end."""
    largest = max(grid.shape) // 2
    return [0, *(2**k for k in range(largest.bit_length()) if 2**k < max(largest, 2))]


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
    evaluation: Evaluation | None = None,
    batch_size: int = 20,
    device: torch.device | str | None = None,
) -> list[AtResolution]:
    """Zero-shot and interpolated errors at several resolutions.

    A neural operator G trained on s points predicts on r points, v = G(f on r points). The plain
    alternative is to predict on s points and interpolate, v = Σ_{|ξ|<=s/2} ĝ(ξ) e^{2πiξ·x} with
    g = G(f on s points). All grids are every n-th point of that of `data`; `evaluation` is that at
    the points `trained_at` with its predictions, if it was made already.
    """
    model = as_predictor(predictor)
    if evaluation is None:
        there = _at(data, trained_at)
        evaluation = evaluate(model, there, batch_size=batch_size, device=device, keep=True)
    known, results = evaluation.predictions, []
    if known is None:
        raise ValueError("this evaluation has no predictions: make it by evaluate(..., keep=True)")
    for r in resolutions:
        if r == trained_at:
            results.append(AtResolution(r, evaluation, evaluation))
            continue
        there = _at(data, r)
        fine, plain, first = list[dict[str, Tensor]](), list[dict[str, Tensor]](), 0
        for v, u in predict_batches(model, there, batch_size=batch_size, device=device):
            some = known[first : first + len(u)].double()
            interpolated = _interpolate(some, trained_at, there.grid.shape)
            fine.append(_errors(v, u, there, first))
            plain.append(_errors(interpolated, u, there, first))
            first += len(u)
        results.append(AtResolution(r, _join(fine, there), _join(plain, there)))
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
    return fine[Grid(shape).every(common // shape[0])]
