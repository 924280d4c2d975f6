"""The skeleton of PDNO and FNO: lift, blocks, project.

    u = Q ∘ (W_L + K_L) ∘ σ(W_{L-1} + K_{L-1}) ∘ ... ∘ σ(W_1 + K_1) ∘ P [f, x]          (eq. 1)

P lifts the channels and the coordinates to `width`, W is a pointwise linear map with bias, K an
integral operator, Q has one hidden layer of 128. As in the published code the last block has no σ.
"""

__all__ = ["NeuralOperator"]

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from pdno.grid import Grid
from pdno.networks.pointwise import PointwiseLinear, project
from pdno.operators.cache import FrozenLayer, share_values
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.symbols.base import SymbolValues
from pdno.symbols.scale import keep_exact, scale_per_axis

PROJECT_HIDDEN = 128


class NeuralOperator(nn.Module):
    """Q ∘ σ(W + K) ∘ ... ∘ P (eq. 1).

    Shapes: (B, in_channels, *N) -> (B, out_channels, *N).

    Arguments:
        dim: Number of axes d.
        in_channels: Channels of f, without coordinates.
        out_channels: Channels of u.
        width: Channels inside.
        operators: The K of each block, from width to width channels.
        coordinate_scale: Factor of the coordinates that are appended to f.
        padding: Zeros after the last point of an axis, as a fraction of the domain, so that it
            means the same at every resolution; or, as an int, the number of points as published.
            One for all axes, or one per axis.
    """

    coordinate_scale: Tensor

    def __init__(
        self,
        dim: int,
        in_channels: int,
        out_channels: int,
        *,
        width: int,
        operators: Sequence[PseudoDifferentialOperator],
        coordinate_scale: float | Sequence[float] = 1.0,
        padding: float | Sequence[float] = 0.0,
    ) -> None:
        super().__init__()
        self.dim, self.in_channels, self.out_channels = dim, in_channels, out_channels
        self.width, self.padding = width, _padding_per_axis(padding, dim)
        self.register_buffer("coordinate_scale", scale_per_axis(coordinate_scale, dim))
        self.activation: Callable[[Tensor], Tensor] = functional.gelu
        self.lift = PointwiseLinear(in_channels + dim, width)
        self.operators = nn.ModuleList(operators)
        self.locals = nn.ModuleList(PointwiseLinear(width, width) for _ in operators)
        self.project_hidden = PointwiseLinear(width, PROJECT_HIDDEN)
        self.project = PointwiseLinear(PROJECT_HIDDEN, out_channels)

    def forward(
        self, f: Tensor, t: Tensor | float | None = None, *, grid: Grid | None = None
    ) -> Tensor:
        """u on the grid of f, which is periodic unless given; t for networks that take time."""
        self._check(f)
        where = grid or Grid(tuple(f.shape[2:]))
        where.check(f, "f")
        v = self._pad(self.lift(self._append_coordinates(f, where)))
        inner = self._padded(where)
        last = len(self.operators) - 1
        for layer, (operator, local) in enumerate(zip(self.operators, self.locals, strict=True)):
            assert isinstance(local, PointwiseLinear)
            v = local.add_to(operator(v, inner, t), v)
            v = self.activation(v) if layer < last else v
        for axis, n in enumerate(f.shape[2:], start=2):
            v = v.narrow(axis, 0, n)
        return project(v, self.project_hidden, self.project)

    def freeze(self, grid: Grid, *, tolerance: float = 0.0) -> list[FrozenLayer]:
        """Evaluate all symbols once, for inference on one grid.

        When weights change, the values are evaluated anew by themselves; while gradients of the
        symbols are asked for, they are not used. Networks that take time cannot be frozen.

        Arguments:
            grid: Where the network will be used.
            tolerance: Relative error allowed in the x-factors; 0 keeps the operator as it is.

        Returns:
            The rank and the error of each layer.
        """
        if self.takes_time:
            raise ValueError(
                "symbols that depend on time have other values at every t: not frozen"
            )
        inner = self._padded(grid)
        return [operator.freeze(inner, tolerance) for operator in self._operators()]

    def unfreeze(self) -> None:
        """Forget the frozen values."""
        for operator in self._operators():
            operator.cache.frozen = None

    def evaluate_symbols(self, grid: Grid) -> list[SymbolValues]:
        """The values of all symbols on a grid, with their graph, for `using_symbols`."""
        inner = self._padded(grid)
        return [operator.values(inner) for operator in self._operators()]

    @contextlib.contextmanager
    def using_symbols(self, grid: Grid, values: list[SymbolValues]) -> Iterator[None]:
        """Use these values of the symbols in all calls of this block."""
        kept = [operator.cache for operator in self._operators()]
        with share_values(self._padded(grid), kept, values):
            yield

    @property
    def takes_time(self) -> bool:
        """Whether the symbols depend on time."""
        return any(getattr(operator.symbol, "takes_time", False) for operator in self._operators())

    def _operators(self) -> Iterator[PseudoDifferentialOperator]:
        for operator in self.operators:
            assert isinstance(operator, PseudoDifferentialOperator)
            yield operator

    def _padded(self, grid: Grid) -> Grid:
        """The grid inside, with the padding."""
        if not any(self.padding):
            return grid
        zeros = self._zeros(grid.shape)
        return Grid(tuple(n + more for n, more in zip(grid.shape, zeros, strict=True)))

    def _zeros(self, shape: Sequence[int]) -> list[int]:
        return [
            padding if isinstance(padding, int) else round(padding * n)
            for padding, n in zip(self.padding, shape, strict=True)
        ]

    def _append_coordinates(self, f: Tensor, grid: Grid) -> Tensor:
        x = grid.points(device=f.device) * self.coordinate_scale
        channels = x.movedim(-1, 0).to(f.dtype)
        return torch.cat([f, channels.expand(len(f), *channels.shape)], dim=1)

    def _pad(self, v: Tensor) -> Tensor:
        if not any(self.padding):
            return v
        zeros = self._zeros(v.shape[2:])
        return functional.pad(v, [value for n in reversed(zeros) for value in (0, n)])

    def _apply(self, fn: Any, recurse: bool = True) -> "NeuralOperator":
        scale = self.coordinate_scale
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.coordinate_scale = keep_exact(scale, self.coordinate_scale)
        return self

    def _check(self, f: Tensor) -> None:
        if len(f) == 0:
            raise ValueError("the batch is empty: give at least one sample")
        if f.dim() != self.dim + 2 or f.shape[1] != self.in_channels:
            axes = ", ".join(f"N{axis + 1}" for axis in range(self.dim))
            raise ValueError(
                f"input has shape {tuple(f.shape)}; this {type(self).__name__} takes (B, "
                f"{self.in_channels}, {axes}), channels first and without coordinates: move the "
                "channel axis with f.movedim(-1, 1), or build it with other dim and in_channels"
            )


def _padding_per_axis(padding: float | Sequence[float], dim: int) -> tuple[float, ...]:
    """One padding per axis."""
    values = (padding,) * dim if isinstance(padding, (int, float)) else tuple(padding)
    if len(values) != dim or min(values) < 0:
        raise ValueError(
            f"padding is {padding}; expected a fraction >= 0 or a number of points, or one for "
            f"each of {dim} axes"
        )
    return values
