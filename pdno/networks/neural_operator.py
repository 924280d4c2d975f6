"""The skeleton of PDNO and FNO: lift, blocks, project; and its rollouts.

    u = Q ∘ (W_L + K_L) ∘ σ(W_{L-1} + K_{L-1}) ∘ ... ∘ σ(W_1 + K_1) ∘ P [f, x]          (eq. 1)

P lifts the channels and the coordinates to `width`, W is a pointwise linear map with bias, K an
integral operator, Q has one hidden layer of 128. As in the published code the last block has no σ.
With a feed-forward part F = W₂ σ(W₁ · + b₁) + b₂ (not in the paper) a block is v + F[(W + K) v].
"""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from pdno.interface.errors import check_at_least, check_choice
from pdno.networks.heads import AnyHead, make_head
from pdno.operators.kernel import apply_projection, choose_backend
from pdno.operators.pseudo_differential import (
    MOST_KEPT,
    CachedLayer,
    Kept,
    PseudoDifferentialOperator,
    share_values,
    values_key,
)
from pdno.spectral.grid import Grid
from pdno.spectral.points import Points
from pdno.spectral.tracing import is_traced
from pdno.symbols.base import SymbolValues
from pdno.symbols.scale import ExactScales, scale_per_axis

PROJECT_HIDDEN = 128
# types of options, whose limits hold for specifications
Size = Annotated[int, Field(ge=1, le=4096)]
SizeOrNone = Annotated[int, Field(ge=0, le=4096)]
Modes = tuple[Size, ...] | Size | None
Coordinates = Literal["appended", "periodic", "none"]
Extension = Literal["even", "odd"]
Zeros = Annotated[int, Field(ge=0)] | Annotated[float, Field(ge=0)]
Padding = Zeros | tuple[Zeros, ...] | Extension
Step = Callable[[Tensor], Tensor]


class PointwiseLinear(nn.Module):
    """v(x) = W f(x) + b at every point, (B, I, *N) -> (B, O, *N)."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(in_channels)  # the start of torch's linear and convolution layers
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(out_channels).uniform_(-bound, bound))

    def forward(self, f: Tensor, term: Tensor | None = None) -> Tensor:
        """W f + b + term, in as few passes as possible."""
        # batched products: several times faster on a CPU than the convolution of size 1
        pair = self.weight.expand(f.shape[0], -1, -1), f.flatten(2)  # not len: it is exported
        mapped = torch.bmm(*pair) if term is None else torch.baddbmm(term.flatten(2), *pair)
        mapped = mapped.add_(self.bias[:, None])
        return mapped.reshape(*mapped.shape[:2], *f.shape[2:])


class PreparedStep:
    """A `NeuralOperator` on a grid and at a time, with kernels and coordinates looked up."""

    def __init__(self, network: "NeuralOperator", grid: Grid, t: Tensor | None) -> None:
        self.network, self.grid, self.t = network, grid, t
        self.below = network.grid_below(grid)
        inner = network.inner_grid(self.below)
        layers = [(layer, layer.values_at_nodes(inner, t)) for layer in network.layers]
        self.nbytes = sum(values.nbytes for _, values in layers)
        self.operators = [
            layer.prepare(values, inner) or partial(layer, grid=inner, t=t)
            for layer, values in layers
        ]
        self.weight, self.bias = network.lift_on(self.below)

    def __call__(self, f: Tensor) -> Tensor:
        """u, (B, C, *N) -> (B, O, *N)."""
        network = self.network
        if torch.is_grad_enabled():
            u: Tensor = network(f, self.t, grid=self.grid)
            return u
        network.check(f, self.grid)
        return self.run(f)

    def run(self, f: Tensor) -> Tensor:
        """The same without a check of f."""
        head = self.network.head
        return self.outputs(f) if head is None else head(f, self.outputs)

    def outputs(self, f: Tensor) -> Tensor:
        """The outputs of Q."""
        network, weight = self.network, self.weight.expand(f.shape[0], -1, -1)
        v = torch.baddbmm(self.bias, weight, f.flatten(2))
        v = network.surround(v.reshape(f.shape[0], -1, *self.below.shape), self.below)
        return network.run_blocks(v, self.operators, self.below)


class NeuralOperator(ExactScales):
    """Q ∘ σ(W + K) ∘ ... ∘ P (eq. 1), with one K of `operators` per block.

    Shapes: (B, in_channels, *N) -> (B, out_channels, *N). The options are those of `PDNO`; the
    `coordinate_scale` multiplies appended coordinates.
    """

    coordinate_scale: Tensor
    _prepared: Kept[PreparedStep]

    def __init__(
        self,
        dim: int,
        in_channels: int,
        out_channels: int,
        width: int,
        operators: Sequence[PseudoDifferentialOperator],
        padding: Padding = 0.0,
        feed_forward: int = 0,
        coordinates: Coordinates = "appended",
        coordinate_scale: float | Sequence[float] = 1.0,
        head: AnyHead = None,
    ) -> None:
        super().__init__()
        columns = {"appended": dim, "periodic": 2 * dim, "none": 0}
        check_choice("coordinates", coordinates, columns)
        check_at_least("feed_forward", feed_forward, 0)
        self.dim, self.in_channels, self.out_channels = dim, in_channels, out_channels
        self.extension = padding if isinstance(padding, str) else None
        self.padding, self.width = _padding_per_axis(padding, dim), width
        self.coordinates = coordinates
        self.register_buffer("coordinate_scale", scale_per_axis(coordinate_scale, dim))
        self.activation: Callable[[Tensor], Tensor] = functional.gelu

        def pointwise(inputs: int, outputs: int, layers: int = len(operators)) -> nn.ModuleList:
            return nn.ModuleList(PointwiseLinear(inputs, outputs) for _ in range(layers))

        residual = len(operators) if feed_forward else 0
        options = make_head(head)
        self.lifted_channels = in_channels + options.inputs(dim)
        self.lift = PointwiseLinear(self.lifted_channels + columns[coordinates], width)
        self.operators = nn.ModuleList(operators)
        self.locals = pointwise(width, width)
        self.expand = pointwise(width, feed_forward, residual)
        self.contract = pointwise(feed_forward, width, residual)
        self.project_hidden = PointwiseLinear(width, PROJECT_HIDDEN)
        self.project = PointwiseLinear(PROJECT_HIDDEN, options.outputs(dim, out_channels))
        self.head = options.attach(dim, out_channels, self.project)
        self._prepared = Kept[PreparedStep](MOST_KEPT * len(operators))

    def forward(
        self,
        f: Tensor,
        t: Tensor | float | None = None,
        *,
        grid: Grid | None = None,
        output_grid: Grid | None = None,
    ) -> Tensor:
        """u on the grid of f, periodic by default, or on the `output_grid`; both may be `Points`.

        Symbols that see time or PDE parameters get these as t, (B, P), time first.
        """
        self.check(f, grid)
        where = grid or Grid(tuple(f.shape[2:]))
        if isinstance(where, Points) or output_grid is not None:
            return self._between_points(f, t, where, output_grid or where)
        if t is None and (prepared := self.prepared_step(where)) is not None:
            return prepared.run(f)
        if self.head is None:
            return self._outputs(f, where, t)
        network = partial(self._outputs, grid=self.grid_below(where), t=t)
        if torch.compiler.is_compiling():  # the compiler sees that symbols are evaluated again
            frame: Tensor = self.head(f, network)
            return frame
        with share_values(self._values(where, t)):
            frame = self.head(f, partial(network, t=None))
            return frame

    def check(self, f: Tensor, grid: Grid | None) -> None:
        """Refuse what is no input on a grid."""
        check_numbers(f, self.lift.weight)
        axes_of_space = self.dim if grid is None else grid.space_axes
        other_dim = grid is not None and grid.dim != self.dim
        if other_dim or f.dim() != axes_of_space + 2 or f.shape[1] != self.in_channels:
            axes = ", ".join(f"N{axis + 1}" for axis in range(self.dim))
            last = f.dim() == self.dim + 2 and f.shape[-1] == self.in_channels
            cure = "call f.movedim(-1, 1)" if last else "build it with other dim and in_channels"
            raise ValueError(
                f"input has shape {tuple(f.shape)}; this {type(self).__name__} takes (B, "
                f"{self.in_channels}, {axes}), channels first and without coordinates: {cure}; on "
                "scattered points give (B, C, P) and grid=pdno.Points(...)"
            )
        (grid or Grid(tuple(f.shape[2:]))).check(f, "f")

    def _outputs(self, f: Tensor, grid: Grid, t: Tensor | float | None = None) -> Tensor:
        """The outputs of Q, from all channels that are lifted."""
        return self.run_blocks(self.enter(f, grid), self.operators, grid, self.inner_grid(grid), t)

    def run_blocks(
        self, v: Tensor, operators: Iterable[Callable[..., Tensor]], grid: Grid, *where: object
    ) -> Tensor:
        """All blocks, each K called with v and `where`, and Q on the grid without its padding."""
        for layer, operator in enumerate(operators):
            v = self.activation(v) if layer and not self.expand else v
            v = self._after(layer, v, operator(v, *where))
        return perceptron(self.project_hidden, self.project, cut(v, grid))

    def _after(self, layer: int, v: Tensor, term: Tensor) -> Tensor:
        """W v + K v, the `term`, or with a feed-forward part v + F[(W + K) v]."""
        mapped: Tensor = self.locals[layer](v, term)
        if not self.expand:
            return mapped
        return v + perceptron(self.expand[layer], self.contract[layer], mapped)

    def _between_points(
        self, f: Tensor, t: Tensor | float | None, grid: Grid, output_grid: Grid
    ) -> Tensor:
        """u at other points, which the last block computes; its W interpolates what it sees."""
        if self.head is not None:
            raise ValueError(f"{self.head.__class__.__name__} needs a grid: leave the head out")
        points = Points.of(grid)
        where = points if output_grid is grid else Points.of(output_grid)
        v, inner = self.enter(f.flatten(2), points), self.inner_points(points)
        for layer, operator in enumerate(self.operators):
            last = self.inner_points(where) if layer + 1 == len(self.operators) else inner
            v = self.activation(v) if layer and not self.expand else v
            term = operator(v, inner, t, output_grid=last)
            v = self._after(layer, inner.interpolate(v, last), term)
        u = perceptron(self.project_hidden, self.project, v)
        return u.reshape(*u.shape[:2], *output_grid.shape)

    def _values(
        self, grid: Grid, t: Tensor | float | None = None
    ) -> list[tuple[PseudoDifferentialOperator, Grid, SymbolValues]]:
        """The values of all symbols on their grids, with their graph, for several calls."""
        grid = self.grid_below(grid)
        inner = self.inner_grid(grid)
        values = [(layer, inner, layer.values_at_nodes(inner, t)) for layer in self.layers]
        if self.velocity is not None:
            values.append((self.velocity, grid, self.velocity.values_at_nodes(grid)))
        return values

    def freeze(self, grid: Grid, *, tolerance: float = 0.0) -> list[CachedLayer]:
        """Evaluate all symbols once, for inference on one grid, until weights change.

        `tolerance` is the relative error allowed in the x-factors; 0 keeps the operator.
        """
        if self.takes_time or self.pde_parameters:
            raise ValueError("symbols of time or PDE parameters vary: do not freeze them")
        below = self.grid_below(grid)
        self._prepared.clear()
        if self.velocity is not None:
            self.velocity.cache_values(below)
        inner = self.inner_grid(below)
        return [operator.cache_values(inner, tolerance) for operator in self.layers]

    def unfreeze(self) -> None:
        """Forget the cached values."""
        self._prepared.clear()
        for operator in (*self.layers, *filter(None, [self.velocity])):
            operator.forget_values()

    def shared_step(self, grid: Grid, pde_parameters: Tensor | None = None) -> Step:
        """The network on a grid, its symbols evaluated once, with their graph, for all calls."""
        if self.takes_time:
            raise ValueError("a network that takes time predicts in one shot, not by a rollout")
        if isinstance(grid, Points):  # where symbols are evaluated at each call
            return partial(self.forward, t=pde_parameters, grid=grid)
        if (prepared := self.prepared_step(grid, pde_parameters)) is not None:
            return prepared
        values = self._values(grid, pde_parameters)

        def step(window: Tensor) -> Tensor:
            with share_values(values):
                frame: Tensor = self(window, grid=grid)
                return frame

        return step

    def prepared_step(self, grid: Grid, t: Tensor | None = None) -> PreparedStep | None:
        """The network on a grid and at t, for calls without gradients until a weight changes.

        None where torch has to see every operation of it.
        """
        modules: list[nn.Module] = [self, *self.layers]
        own = PseudoDifferentialOperator.forward
        if (
            torch.is_grad_enabled()
            or is_traced()
            or choose_backend(self.lift.weight) != "native"
            or torch.is_autocast_enabled("cpu")
            or (t is not None and t.dim() == 2 and len(t) > 1)
            or (t is None and any(o.pde_parameters for o in self.layers))  # of shared values
            or type(self).forward is not NeuralOperator.forward
            or any(type(o).forward is not own for o in self.operators)
            or any(m._forward_pre_hooks or m._forward_hooks for m in modules)
        ):
            return None
        return self._prepared.get(self, values_key(grid, t), lambda: PreparedStep(self, grid, t))

    @property
    def takes_time(self) -> bool:
        """Whether the symbols depend on time."""
        return any(getattr(operator.symbol, "takes_time", False) for operator in self.layers)

    @property
    def pde_parameters(self) -> int:
        """Number of PDE parameters that the symbols take."""
        return max(operator.symbol.pde_parameters for operator in self.layers)

    @property
    def layers(self) -> list[PseudoDifferentialOperator]:
        """The K of each block."""
        return [o for o in self.operators if isinstance(o, PseudoDifferentialOperator)]

    @property
    def velocity(self) -> PseudoDifferentialOperator | None:
        """The velocity K_b of a transport head that has one."""
        velocity = getattr(self.head, "velocity", None)
        return velocity if isinstance(velocity, PseudoDifferentialOperator) else None

    @property
    def coarsen(self) -> int:
        """How many times as fine the grid of a recurrence is as that of the blocks."""
        return 1 if self.head is None else getattr(self.head.options, "coarsen", 1)

    def grid_below(self, grid: Grid) -> Grid:
        """The grid of the network below its head, for fields on a grid."""
        return grid if self.head is None else self.head.network_grid(grid)

    def inner_grid(self, grid: Grid) -> Grid:
        """The grid of the blocks: that of f with the padding, or twice as many points."""
        if self.extension is not None:  # the ends of a box are not repeated
            return Grid(tuple(2 * n - 2 * _has_ends(grid) for n in grid.shape))
        pairs = zip(grid.shape, self.padding, strict=True)
        points = tuple(n + (p if isinstance(p, int) else round(p * n)) for n, p in pairs)
        return Grid(points) if any(self.padding) else grid

    def inner_points(self, points: Points) -> Points:
        """The points of the blocks: in a torus that is larger by the padding."""
        if self.extension is not None or any(isinstance(p, int) and p for p in self.padding):
            padding = self.extension or self.padding
            raise ValueError(
                f"padding={padding} on scattered points: expected a fraction of the domain, "
                "for example 0.25"
            )
        if len(set(self.padding)) > 1:
            raise ValueError(f"padding={self.padding} on scattered points: expected one fraction")
        return points.embedded(self.padding[0])

    def enter(self, f: Tensor, grid: Grid) -> Tensor:
        """What enters the first block, P [f, x] and zeros, (B, C, *N) -> (B, width, *M)."""
        lifted = self.lifted(f, grid)
        return lifted if isinstance(grid, Points) else self.surround(lifted, grid)

    def lifted(self, f: Tensor, grid: Grid) -> Tensor:
        """P [f, x]."""
        if self.coordinates != "none":
            axis = -1 - grid.space_axes
            x = grid.points(device=f.device).movedim(-1, axis)
            if self.coordinates == "periodic":
                x = torch.cat([torch.cos(2 * math.pi * x), torch.sin(2 * math.pi * x)], dim=axis)
            else:
                x = x * self.coordinate_scale.reshape(-1, *[1] * grid.space_axes)
            f = torch.cat([f, x.to(f.dtype).expand(len(f), *x.shape[axis:])], dim=1)
        lifted: Tensor = self.lift(f)
        return lifted

    def lift_on(self, grid: Grid) -> tuple[Tensor, Tensor]:
        """P [f, x] on a grid as W f + b, (width, C) and (1, width, N): b has the coordinates."""
        weight, channels = self.lift.weight, self.lifted_channels
        nothing = weight.new_zeros(1, channels, *grid.shape)
        return weight[:, :channels].contiguous(), self.lifted(nothing, grid).flatten(2)

    def surround(self, v: Tensor, grid: Grid) -> Tensor:
        """v with what is around it in the blocks: zeros, or its reflections."""
        if self.extension is not None:
            sign = 1.0 if self.extension == "even" else -1.0
            return extend(v, grid.dim, sign, ends=_has_ends(grid))
        inner = self.inner_grid(grid).shape
        zeros = [
            n for axis in range(-1, -1 - grid.dim, -1) for n in (0, inner[axis] - v.shape[axis])
        ]
        return functional.pad(v, zeros) if any(zeros) else v


def _padding_per_axis(padding: Padding, dim: int) -> tuple[float, ...]:
    """The zeros after each axis; none where the input is reflected."""
    zeros = 0.0 if isinstance(padding, str) else padding
    per_axis = tuple(zeros) if isinstance(zeros, Sequence) else (zeros,)
    per_axis = per_axis * dim if len(per_axis) == 1 else per_axis
    unknown = isinstance(padding, str) and padding not in ("even", "odd")
    if unknown or len(per_axis) != dim or min(per_axis) < 0:
        expected = "'even', 'odd', a fraction >= 0 or a number of points, or one for each axis"
        raise ValueError(f"padding is {padding!r}; expected {expected}")
    return per_axis


def _has_ends(grid: Grid) -> bool:
    """Whether the points of a box are its two ends and those between."""
    return not grid.periodic and grid.offset == 0


def extend(v: Tensor, dim: int, sign: float, *, ends: bool) -> Tensor:
    """v and its reflection along each axis, times the sign; (B, C, *N) -> (B, C, *2N).

    Points that are `ends` of the axis are not reflected, which makes 2N - 2.
    """
    for axis in range(-dim, 0):
        inside = v.narrow(axis, 1, v.shape[axis] - 2) if ends else v
        v = torch.cat([v, sign * inside.flip(axis)], dim=axis)
    return v


def perceptron(hidden: nn.Module, last: nn.Module, v: Tensor) -> Tensor:
    """W₂ σ(W₁ v + b₁) + b₂ at every point, (B, I, *N) -> (B, O, *N)."""
    assert isinstance(hidden, PointwiseLinear) and isinstance(last, PointwiseLinear)
    if torch.is_autocast_enabled(v.device.type):
        projected: Tensor = last(functional.gelu(hidden(v)))
        return projected
    u = apply_projection(v.flatten(2), hidden.weight, hidden.bias, last.weight, last.bias)
    return u.reshape(*u.shape[:2], *v.shape[2:])


def cut(v: Tensor, grid: Grid) -> Tensor:
    """The points of a smaller grid."""
    for axis, n in enumerate(grid.shape, start=2):
        v = v.narrow(axis, 0, n)
    return v


def check_numbers(f: object, weight: Tensor) -> None:
    """Refuse inputs that are no tensor, empty, or not of the precision of the weights."""
    if not isinstance(f, Tensor):
        cure = "give torch.as_tensor(f, dtype=torch.float32), or take predict, which takes arrays"
        raise ValueError(f"input is of type {type(f).__name__}; expected a tensor: {cure}")
    if f.dim() and f.shape[0] == 0:  # not len: it is exported
        raise ValueError("the batch is empty: give at least one sample")
    if f.dtype != weight.dtype and not torch.is_autocast_enabled(f.device.type):
        actual, own = (str(dtype)[6:] for dtype in (f.dtype, weight.dtype))
        cure = f"give f.to(torch.{own}), or network.to(torch.{actual})"
        raise ValueError(f"input is {actual}, the weights are {own}: {cure}")


def check_sizes(dim: int, modes: Modes, **sizes: int) -> tuple[int, ...] | None:
    """The kept modes, one per axis, if these sizes make a network."""
    check_choice("dim", dim, (1, 2, 3))
    for name, value in sizes.items():
        check_at_least(name, value)
    if modes is None:
        return None
    kept = (modes,) * dim if isinstance(modes, int) else tuple(modes)
    if len(kept) != dim or min(kept) < 1:
        raise ValueError(f"modes {modes}; expected a positive number, or one per axis of {dim}")
    return kept


def count_parameters(network: nn.Module, *, complex_once: bool = True) -> int:
    """Number of parameters; a complex number counts once, as in the paper's table, or twice."""
    count = 0  # parameters called `table` are complex numbers as pairs of real ones
    for name, parameter in network.named_parameters():
        numbers = parameter.numel() * (2 if parameter.is_complex() else 1)
        is_complex = parameter.is_complex() or name.endswith("table")
        count += numbers // 2 if complex_once and is_complex else numbers
    return count


def rollout(network: Step, window: Tensor, steps: int, *, recompute: bool = False) -> Tensor:
    """Predict `steps` frames; the window slides over the predictions (paper section 5.2).

    Shapes: window (B, k·C, *N), the latest k frames, oldest first -> (B, steps, C, *N). The
    network is any function from a window to the next frame. To `recompute` each step in the
    backward pass takes the memory of one and a third more time.
    """
    check_at_least("steps", steps)
    step, frames = network, list[Tensor]()
    if isinstance(network, NeuralOperator):
        step = network.shared_step(Grid(tuple(window.shape[2:])))
    for _ in range(steps):
        again = recompute and torch.is_grad_enabled()
        frame = checkpoint(step, window, use_reentrant=False) if again else step(window)
        if window.shape[1] % frame.shape[1]:
            held = f"a window of {window.shape[1]} channels"
            raise ValueError(f"{held} is not whole frames of {frame.shape[1]}")
        frames.append(frame)
        window = torch.cat([window[:, frame.shape[1] :], frame], dim=1)
    return torch.stack(frames, dim=1)
