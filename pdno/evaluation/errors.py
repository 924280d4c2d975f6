"""Errors of predictions, sample by sample.

    relative L2   ‖v - u‖ / ‖u‖ of a prediction v over the whole target u, all times
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

__all__ = ["Evaluation", "default_edges", "evaluate_pairs", "gap"]

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pdno.grid import Grid
from pdno.metrics import band_errors, relative_error, relative_l2


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
        edges: Of the bands.
    """

    errors: dict[str, Tensor]
    times: tuple[float, ...] | None
    edges: tuple[int, ...]

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

    @property
    def bands(self) -> Tensor:
        """Error of each band, (B, bands)."""
        return torch.stack([self.errors[name] for name in _band_names(self.edges)], dim=1)

    @property
    def best(self) -> int:
        """Index of the sample with the smallest relative L2."""
        return int(self.errors["relative_l2"].argmin())

    @property
    def worst(self) -> int:
        """Index of the sample with the largest relative L2."""
        return int(self.errors["relative_l2"].argmax())

    def metrics(self) -> dict[str, float]:
        """The means of all metrics, and the relative L2 of the best and of the worst sample."""
        whole = self.errors["relative_l2"]
        return {name: self.mean(name) for name in self.errors} | {
            "best relative_l2": float(whole.min()),
            "worst relative_l2": float(whole.max()),
        }


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
    return Evaluation(errors, frames, bands)


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
