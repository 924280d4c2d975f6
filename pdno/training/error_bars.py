"""Conformal error bars: bands around predictions that hold for a stated share of new samples.

With residuals r = u - v of the target u and the prediction v of held-out samples:

    whole field   |r(x)| <= q σ(x) at all x,t at once for a share 1 - α of the samples. σ(x) is the
                  root mean square of r at x over the first third of them, q the quantile of the
                  scores sup_x |r(x)|/σ(x) of the others.
    pointwise     |r(x)| <= q(x) at each x, t for a share 1 - α of the samples, q(x) the quantile
                  of |r(x)| over all of them.
"""

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from pdno.interface.errors import check_choice
from pdno.spectral.calculus import interpolate
from pdno.spectral.grid import Grid

Kind = Literal["field", "point"]
FLOOR = 1e-3  # least σ(x) as a share of its root mean square, where the error is known to vanish


class ErrorBars(nn.Module):
    """v ± band: q σ(x) for whole fields, q(x) for each point by itself.

    Shapes: field and point (C, *N), or (T, C, *N), on the grid of the calibration.
    """

    field: Tensor
    point: Tensor
    coverage: Tensor

    def __init__(self, field: Tensor, point: Tensor, coverage: Tensor, grid: Grid) -> None:
        super().__init__()
        self.grid = grid
        self.register_buffer("field", field)
        self.register_buffer("point", point)
        self.register_buffer("coverage", coverage)

    @classmethod
    def fit(
        cls, predictions: Tensor, targets: Tensor, grid: Grid, coverage: float = 0.9
    ) -> "ErrorBars":
        """From predictions and targets of held-out samples, (B, C, *N) or (B, T, C, *N)."""
        if not 0 < coverage < 1:
            raise ValueError(f"coverage is {coverage}; expected a share between 0 and 1, as 0.9")
        residual = (targets - predictions).abs()
        first = len(residual) // 3
        least = math.ceil(coverage / (1 - coverage) - 1e-9)
        if len(residual) - first < least or not first:
            problem = f"{len(residual)} samples are too few for bars of coverage {coverage:g}"
            raise ValueError(f"{problem}: give {math.ceil(1.5 * least) + 1} or more")
        sigma = residual[:first].double().square().mean(dim=0).sqrt()
        sigma = sigma.clamp_min(FLOOR * float(sigma.square().mean().sqrt())).to(residual)
        if not bool((sigma > 0).all()):
            raise ValueError("all predictions are exact: there is no error to draw bars of")
        scores = (residual[first:] / sigma).flatten(1).amax(dim=1)
        field = conformal_quantile(scores, coverage) * sigma
        point = conformal_quantile(residual, coverage)
        return cls(field, point, torch.tensor(coverage, dtype=field.dtype), grid)

    def band(self, grid: Grid | None = None, kind: Kind = "field") -> Tensor:
        """The half width of the bars on a grid, by default that of the calibration."""
        check_choice("kind", kind, get_args(Kind))
        width = self.field if kind == "field" else self.point
        if grid is None or grid == self.grid:
            return width
        return interpolate(width, self.grid, grid).clamp_min(0.0)

    def covered(self, predictions: Tensor, targets: Tensor, kind: Kind = "field") -> Tensor:
        """Which samples lie in their bars as a whole, (B,), or at which points, (B, C, *N)."""
        inside = (targets - predictions).abs() <= self.band(kind=kind).to(targets)
        return inside.flatten(1).all(dim=1) if kind == "field" else inside


def conformal_quantile(scores: Tensor, coverage: float) -> Tensor:
    """The ⌈(n + 1)(1 - α)⌉-th smallest of n scores along the first axis, (n, ...) -> (...)."""
    rank = math.ceil((len(scores) + 1) * coverage - 1e-9)
    if rank > len(scores):
        raise ValueError(f"{len(scores)} scores are too few for a coverage of {coverage:g}")
    return scores.kthvalue(rank, dim=0).values
