"""The operators that the laboratory shows, and the states that a reader gives them.

A *state* is a coefficient or an initial value on a grid, (*N). The other inputs follow: the solver
computes the frames of a window; further channels and PDE parameters are constants.
"""

import base64
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Self

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from pdno.data.problems import Problem
from pdno.exports.frozen import grid_with_points
from pdno.fields.distributions import GaussianField, TwoPhaseField
from pdno.files.run_folder import WEIGHTS
from pdno.laboratory.computation import Conditions
from pdno.networks.neural_operator import count_parameters
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.runs.run import Run, find_runs
from pdno.spectral.fourier import inverse, transform
from pdno.spectral.grid import Grid
from pdno.symbols.base import SymbolValues, Time
from pdno.theory.certificate import Certificate, certify
from pdno.training.operator_record import Sampling, symbol_arguments
from pdno.training.trained_operator import TrainedOperator

LARGEST = {1: 4096, 2: 256}  # points per axis that a reader may ask for, by dimension
LARGEST_VALUE = 1e6
MOST_BYTES = 4 * 2**20  # of a request
MOST_FRAMES = 40
STATES = GaussianField(625.0, tau=5.0, alpha=2.0)  # where the distribution is not known

Number = Annotated[float, Field(ge=-LARGEST_VALUE, le=LARGEST_VALUE, allow_inf_nan=False)]
Moment = Annotated[float, Field(gt=0, le=1e4, allow_inf_nan=False)]
Key = Annotated[str, Field(min_length=1, max_length=300)]
Index = Annotated[int, Field(ge=0, le=4096)]
Slider = tuple[str, float, float]  # name and range of a constant
Points = Annotated[int, Field(ge=4, le=max(LARGEST.values()))]


class Array(BaseModel):
    """float32 numbers, little-endian, row by row, in base64."""

    shape: list[int]
    data: str

    @classmethod
    def of(cls, values: Tensor, **fields: object) -> Self:
        """The numbers of a tensor, and the other fields of a subclass."""
        raw = values.detach().float().contiguous().numpy().astype("<f4").tobytes()
        data = base64.b64encode(raw).decode()
        return cls.model_validate({"shape": list(values.shape), "data": data, **fields})


class ServedOperator(BaseModel):
    """The operator of a run with all that the page needs to know; requests are checked by it."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    run: Annotated[Run, Field(exclude=True)]
    operator: Annotated[TrainedOperator, Field(exclude=True)]
    problem: Annotated[Problem | None, Field(exclude=True)]
    sampling: Sampling  #: of the training
    key: str
    title: str
    equation: str | None
    resolutions: list[int]  #: points of the longest axis
    input: GaussianField | TwoPhaseField  #: the distribution of random states
    channels: int  #: constants that are channels
    constants: list[Slider]  #: further channels of the input, and PDE parameters
    window: int  #: frames that the solver has to compute before the operator can predict
    times: list[float] | None
    any_time: bool
    layers: list[tuple[int, int]]  #: outputs and inputs
    weights: int
    error: float | None

    @classmethod
    def of(cls, key: str, run: Run, pde_parameters: Mapping[str, float] | None = None) -> Self:
        """The operator of a run, for one member where it is of a family and that is given."""
        operator = run.operator.fixed(pde_parameters) if pde_parameters else run.operator
        sampling, experiment = operator.sampling, run.experiment
        assert sampling is not None
        problem = experiment.problem if experiment else None
        title = f"{experiment.name}: {experiment.model}" if experiment else key
        wanted = max(sampling.grid.shape), "test", "relative_l2"
        errors = [m.value for m in run.metrics if (m.resolution, m.split, m.metric) == wanted]
        member = [f"{name} {value:g}" for name, value in (pde_parameters or {}).items()]
        channels = 0 if sampling.input_frames else sampling.input_channels - 1
        states = problem.physics()[0] if problem else None
        symbols = [layer.symbol for layer in operator.operators]
        return cls(
            run=run,
            operator=operator,
            problem=problem,
            sampling=sampling,
            key=key,
            title=", ".join([title, *member]),
            equation=problem.equation_text if problem else None,
            resolutions=_resolutions(operator, sampling),
            input=states if isinstance(states, GaussianField | TwoPhaseField) else STATES,
            channels=channels,
            constants=_sliders(sampling, channels, fixed=bool(pde_parameters)),
            window=_window(run, operator, sampling),
            times=None if operator.task.times_wanted == "none" else list(sampling.times or ()),
            any_time=operator.task.times_wanted == "any",
            layers=[(symbol.out_channels, symbol.in_channels) for symbol in symbols],
            weights=count_parameters(operator.network, complex_once=False),
            error=errors[0] if errors and math.isfinite(errors[0]) else None,
        )

    def certify(self, number: int) -> Certificate:
        """Whether the symbol of a layer is in S^1."""
        symbol, dim = self.operator.operators[number].symbol, self.sampling.grid.dim
        return certify(symbol, 1.0, dim=dim, t=self.symbol_arguments())

    def symbol_arguments(self) -> Time:
        """What the symbols see beside x and ξ, at the first time of the training."""
        times, operator = self.sampling.times or (1.0,), self.operator
        return symbol_arguments(operator.network, operator.task, times[0])


def _window(run: Run, operator: TrainedOperator, sampling: Sampling) -> int:
    frames = getattr(operator.task, "frames", None) or sampling.input_frames or 0
    if operator.task.kind == "space-time" or sampling.grid.dim > 2:
        raise ValueError(f"{run.folder} has three axes; the page shows one or two")
    if frames > 1 and (run.experiment is None or run.experiment.problem is None):
        wrong = f"{run.folder} sees several frames, and no solver is known that makes them"
        raise ValueError(f"{wrong}: train it by `pdno train` with a problem")
    return frames if frames > 1 else 0


def _resolutions(operator: TrainedOperator, sampling: Sampling) -> list[int]:
    """Half to four times the points of the training, where all layers have their modes."""

    def has_modes(resolution: int) -> bool:
        try:
            grid = grid_with_points(sampling, resolution)
            return all(len(grid.modes(layer.modes)) for layer in operator.operators)
        except ValueError:
            return False

    points = max(sampling.grid.shape)
    most = max(points, LARGEST[sampling.grid.dim])
    candidates = [points * factor // 4 for factor in (2, 4, 8, 16)]
    return [n for n in candidates if 8 <= n <= most and has_modes(n)]


def _sliders(sampling: Sampling, channels: int, *, fixed: bool) -> list[Slider]:
    names = sampling.input_names[1:] or [f"μ{k + 1}" for k in range(channels)]
    ranges = [(name, (-5.0, 5.0)) for name in names[:channels]]
    ranges += [] if fixed else zip(sampling.pde_parameters, sampling.ranges, strict=True)
    return [(name, low, high) for name, (low, high) in ranges]


class LayerView(BaseModel):
    """a1(x) and a2(ξ) of an output j and an input i, v_i before the layer and K_ji v_i."""

    space: Array | None
    real: Array
    imaginary: Array
    before: Array | None = None
    after: Array | None = None

    @classmethod
    def of(cls, values: SymbolValues, pair: tuple[int, int], **fields: Array) -> Self:
        """The symbol of a pair (j, i) of channels."""
        c, b = select_pair(values, *pair)
        space = None if b is None else Array.of(b[0])
        return cls(space=space, real=Array.of(c[0].real), imaginary=Array.of(c[0].imag), **fields)


def select_pair(values: SymbolValues, j: int, i: int) -> tuple[Tensor, Tensor | None]:
    """The symbol Σ_r b_r(x) c_r(ξ) from input i to output j: c (R, *K) and b (R, *N)."""
    b = values.space
    b = None if b is None else b[:, j % b.shape[1], i % b.shape[2]]
    return values.frequency[:, j, i], b


def view_layer(
    layer: PseudoDifferentialOperator, pair: tuple[int, int], predict: Callable[[], object]
) -> LayerView:
    """A pair (j, i) of channels of a layer in a prediction, in the first of several steps."""
    views = list[LayerView]()

    def view(f: Tensor, grid: Grid | None = None, t: Time = None) -> None:
        grid, v = grid or Grid(tuple(f.shape[2:])), f[0, pair[1]]
        values = layer.values_at_nodes(grid, t).on_grid()
        c, b = select_pair(values, *pair)
        v_hat = c.to(f.dtype.to_complex()) * transform(v, grid.dim, layer.modes)
        parts = inverse(v_hat, grid.shape, layer.modes)
        after = (parts if b is None else parts * b.to(f)).sum(dim=0)
        views.append(LayerView.of(values, pair, before=Array.of(v), after=Array.of(after)))

    hook = layer.register_forward_pre_hook(
        lambda _, arguments, options: view(*arguments, **options), with_kwargs=True
    )
    try:
        predict()
    finally:
        hook.remove()
    return views[0]


class Refused(ValueError):
    """A request that is understood and refused, with the status of the response."""

    def __init__(self, message: str, status: int = 422) -> None:
        super().__init__(message)
        self.status = status


class StateRequest(BaseModel):
    """A state for an operator: float32 numbers, little-endian, row by row, in base64."""

    model_config = ConfigDict(extra="forbid", strict=True)
    operator: Key
    shape: Annotated[list[Points], Field(min_length=1, max_length=3)]
    data: Annotated[str, Field(max_length=MOST_BYTES)]
    constants: Annotated[list[Number], Field(max_length=8)] = []
    frames: Annotated[int, Field(ge=1, le=MOST_FRAMES)] = 1
    times: Annotated[list[Moment], Field(max_length=MOST_FRAMES)] = []

    def values(self) -> Tensor:
        """The state (*N)."""
        try:
            raw = base64.b64decode(self.data, validate=True)
        except ValueError as error:
            raise Refused("data are not base64") from error
        if len(raw) != 4 * math.prod(self.shape):
            raise Refused(f"{len(raw)} bytes of data; expected float32 of shape {self.shape}")
        values = np.frombuffer(raw, dtype="<f4").reshape(self.shape).astype(np.float32)
        if not np.isfinite(values).all() or np.abs(values).max() > LARGEST_VALUE:
            raise Refused(f"data have to be finite, and at most {LARGEST_VALUE:g}")
        return torch.from_numpy(values)


class State:
    """The state of a request, checked against the description of its operator."""

    def __init__(self, served: ServedOperator, request: StateRequest) -> None:
        self.served, self.frames, sliders = served, request.frames, served.constants
        points = max(request.shape)
        if points not in served.resolutions:
            raise Refused(f"shape {request.shape}; expected one of {served.resolutions} points")
        self.grid = grid_with_points(served.sampling, points)
        if [*self.grid.shape] != request.shape:
            raise Refused(f"shape {request.shape}; expected {self.grid.shape}")
        self.values = request.values()
        if isinstance(served.input, TwoPhaseField) and float(self.values.min()) <= 0:
            raise Refused("a permeability has to be positive everywhere")
        if len(request.constants) != len(sliders):
            raise Refused(f"{len(request.constants)} constants; expected {len(sliders)}")
        self.channels, self.pde_parameters = request.constants[: served.channels], {}
        named = zip(sliders, request.constants, strict=True)
        for (name, low, high), value in islice(named, served.channels, None):
            if not low / 2 <= value <= 2 * high:
                raise Refused(f"{name} {value:g}; expected {low / 2:g} to {2 * high:g}")
            self.pde_parameters[name] = value
        self.times = sorted(set(request.times)) or served.times or [1.0]

    def inputs(self) -> Tensor:
        """(1, C, *N), the state and the constants."""
        channels = [torch.full_like(self.values, value) for value in self.channels]
        return torch.stack([self.values, *channels])[None]

    def conditions(self, time: float | None = None) -> Conditions:
        """How to predict from it: at the wanted times, or at one of them."""
        times = self.times if self.served.any_time else [float(k + 1) for k in range(self.frames)]
        chosen = None if self.served.times is None else (time,) if time else tuple(times)
        parameters = tuple(self.pde_parameters.items())
        return Conditions(self.served.operator, self.grid, chosen, parameters)

    def solver_times(self, problem: Problem) -> list[float] | None:
        """The times at which a solver has to give frames, those of the window first."""
        if problem.times is None or self.served.times is None:
            return None if problem.times is None else [problem.times[-1]]
        step = self.served.sampling.step or 1.0
        steps = [step * (k + 1) for k in range(self.served.window + self.frames)]
        return self.times if self.served.any_time else steps


def serve_runs(folders: Sequence[Path]) -> dict[str, ServedOperator]:
    """The operators of all runs in some folders by key, the name of the run's folder."""
    runs = [run for folder in folders for run in find_runs([folder])]
    runs = [run for run in runs if (run.folder / WEIGHTS).is_file()]
    served = dict[str, ServedOperator]()
    for run in runs:
        name = run.folder.resolve().name
        key = name if name not in served else f"{name}-{len(served) + 1}"
        try:
            served[key] = ServedOperator.of(key, run)
        except ValueError as error:
            if len(runs) == 1:
                raise
            print(f"left out: {error}", file=sys.stderr)
    return served
