"""The operators of the laboratory, and the states that users send.

A *state* is a coefficient or an initial value on a grid, (*N). The other inputs follow: the solver
computes the frames of a window; further channels and PDE parameters are constants.
"""

import base64
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from torch import Tensor

from pdno.data.problems import Problem
from pdno.exports.frozen import grid_with_points
from pdno.fields.distributions import GaussianField, TwoPhaseField
from pdno.files.run_folder import WEIGHTS
from pdno.laboratory.computation import Conditions, Refused
from pdno.networks.neural_operator import count_parameters
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.runs.run import Run, find_runs, load_run
from pdno.spectral.fourier import inverse, transform
from pdno.spectral.grid import Grid
from pdno.symbols.base import SymbolValues, Time
from pdno.theory.certificate import certify
from pdno.training.operator_record import symbol_arguments

LARGEST = {1: 4096, 2: 256}  # points per axis that a reader may ask for, by dimension
LARGEST_VALUE = 1e6
MOST_BYTES = 4 * 2**20  # of a request
MOST_FRAMES = 40
SAMPLES = 3
STATES = GaussianField(625.0, tau=5.0, alpha=2.0)  # where the distribution is not known
to_json = TypeAdapter(object).dump_json

Number = Annotated[float, Field(ge=-LARGEST_VALUE, le=LARGEST_VALUE, allow_inf_nan=False)]
Moment = Annotated[float, Field(gt=0, le=1e4, allow_inf_nan=False)]
Key = Annotated[str, Field(min_length=1, max_length=300)]
Index = Annotated[int, Field(ge=0, le=4096)]
Points = Annotated[int, Field(ge=4, le=max(LARGEST.values()))]
Array = Mapping[str, object]


def pack(values: Tensor) -> Array:
    """Numbers as JSON: their shape, and float32, little-endian, row by row, in base64."""
    raw = values.detach().float().contiguous().numpy().astype("<f4").tobytes()
    return {"shape": list(values.shape), "data": base64.b64encode(raw).decode()}


class ServedOperator:
    """The operator of a run with the metadata that the page needs; it validates requests."""

    def __init__(
        self, key: str, run: Run, pde_parameters: Mapping[str, float] | None = None
    ) -> None:
        self.run, self.experiment = run, run.experiment
        self.problem: Problem | None = self.experiment.problem if self.experiment else None
        # one member where it is of a family and that is given
        self.operator = run.operator.fixed(pde_parameters) if pde_parameters else run.operator
        assert self.operator.sampling is not None
        self.sampling, task = self.operator.sampling, self.operator.task
        grid, names = self.sampling.grid, self.sampling.input_names[1:]
        frames = getattr(task, "frames", None) or self.sampling.input_frames or 0
        if task.kind == "space-time" or grid.dim > 2:
            raise ValueError(f"{run.folder} has three axes; the page shows one or two")
        if frames > 1 and self.problem is None:
            wrong = f"{run.folder} sees several frames, and no solver is known that makes them"
            raise ValueError(f"{wrong}: train it by `pdno train` with a problem")
        self.layers = self.operator.operators
        #: frames that the solver has to compute before the operator can predict
        self.window = frames if frames > 1 else 0
        #: constants that are channels, after the state
        self.channels = 0 if self.sampling.input_frames else self.sampling.input_channels - 1
        names = names or tuple(f"μ{k + 1}" for k in range(self.channels))
        #: names and ranges of constants: further channels of the input, and PDE parameters
        self.constants = [(name, -5.0, 5.0) for name in names[: self.channels]]
        if not pde_parameters:
            ranges = zip(self.sampling.pde_parameters, self.sampling.ranges, strict=True)
            self.constants += [(name, low, high) for name, (low, high) in ranges]
        self.times = None if task.times_wanted == "none" else list(self.sampling.times or ())
        self.any_time = task.times_wanted == "any"
        self.resolutions = _resolutions(grid)
        states = self.problem.physics()[0] if self.problem else None
        #: the distribution of random states
        self.input = states if isinstance(states, GaussianField | TwoPhaseField) else STATES
        self.key, self.pde_parameters = key, pde_parameters or {}

    @property
    def title(self) -> str:
        """Experiment and network, and the member of a family."""
        run = self.experiment
        member = [f"{name} {value:g}" for name, value in self.pde_parameters.items()]
        return ", ".join([f"{run.name}: {run.model}" if run else self.key, *member])

    @cached_property
    def description(self) -> dict[str, object]:
        """What the page needs to know."""
        wanted = max(self.sampling.grid.shape), "test", "relative_l2"
        errors = [m.value for m in self.run.metrics if (m.resolution, m.split, m.metric) == wanted]
        own = ("key", "title", "resolutions", "input", "constants", "window", "times", "any_time")
        return {
            **{name: getattr(self, name) for name in own},
            "equation": self.problem.equation_text if self.problem else None,
            "grid": self.sampling.grid,
            "step": self.sampling.step,
            "layers": [(x.symbol.out_channels, x.symbol.in_channels) for x in self.layers],
            "weights": count_parameters(self.operator.network, complex_once=False),
            "error": errors[0] if errors and math.isfinite(errors[0]) else None,
            "samples": self._samples(),
        }

    def layer(self, number: int) -> PseudoDifferentialOperator:
        """One of them, by a number that may be too large."""
        if number >= len(self.layers):
            raise Refused(f"layer {number} of an operator with {len(self.layers)} layers")
        return self.layers[number]

    def _samples(self) -> list[dict[str, Array]]:
        """A few test samples with the solver's truth, as they lie in the run folder."""
        inputs, grid = self.run.sample_inputs(SAMPLES), self.sampling.grid
        family = self.sampling.pde_parameters  # whose samples are of other members
        if inputs is None or inputs[1] != grid or self.channels or family:
            return []
        targets = torch.from_numpy(self.run.array("target"))
        return [
            {"input": pack(f), "target": pack(u.reshape(-1, *grid.shape))}
            for f, u in zip(inputs[0], targets, strict=False)
        ]

    def certify(self, number: int) -> dict[str, object]:
        """Whether the symbol of a layer is in S^1: the certificate, without what was examined."""
        symbol, dim = self.layers[number].symbol, self.sampling.grid.dim
        certificate = certify(symbol, 1.0, dim=dim, t=self.symbol_arguments())
        return {f.name: getattr(certificate, f.name) for f in fields(certificate) if f.compare}

    def symbol_arguments(self) -> Time:
        """What the symbols see beside x and ξ, at the first time of the training."""
        times, operator = self.sampling.times or (1.0,), self.operator
        return symbol_arguments(operator.network, operator.task, times[0])


def _resolutions(grid: Grid) -> list[int]:
    """Points of the longest axis, half to four times those of the training."""
    points = max(grid.shape)
    most = max(points, LARGEST[grid.dim])
    candidates = [n for n in (points // 2, points, 2 * points, 4 * points) if 8 <= n <= most]
    return [n for n in candidates if not any(m * n % points for m in grid.shape)]


def certify_run(folder: Path, number: int, modules: Sequence[str]) -> dict[str, object]:
    """The certificate of a layer, in another process, which imports plug-ins first."""
    for module in modules:
        import_module(module)
    return ServedOperator("", load_run(folder)).certify(number)


def select_pair(values: SymbolValues, j: int, i: int) -> tuple[Tensor, Tensor | None]:
    """The symbol Σ_r b_r(x) c_r(ξ) from input i to output j: c (R, *K) and b (R, *N)."""
    b = values.space
    b = None if b is None else b[:, j % b.shape[1], i % b.shape[2]]
    return values.frequency[:, j, i], b


def view_symbol(c: Tensor, b: Tensor | None) -> dict[str, Array]:
    """a1(x) and a2(ξ), the first term of the symbol of a pair."""
    space = {} if b is None else {"space": pack(b[0])}
    return {**space, "real": pack(c[0].real), "imaginary": pack(c[0].imag)}


def view_layer(
    layer: PseudoDifferentialOperator, pair: tuple[int, int], predict: Callable[[], object]
) -> dict[str, Array]:
    """The symbol of a pair (j, i) of channels of a layer in the first step of a prediction, v_i
    and K_ji v_i."""
    views = list[dict[str, Array]]()

    def view(f: Tensor, grid: Grid | None = None, t: Time = None, **_: object) -> None:
        grid, v = grid or Grid(tuple(f.shape[2:])), f[0, pair[1]]
        values = layer.values_at_nodes(grid, t).on_grid()
        c, b = select_pair(values, *pair)
        modes = layer.modes_on(grid)
        v_hat = c.to(f.dtype.to_complex()) * transform(v, grid.dim, modes)
        parts = inverse(v_hat, grid.shape, modes)
        after = (parts if b is None else parts * b.to(f)).sum(dim=0)
        views.append(view_symbol(c, b) | {"before": pack(v), "after": pack(after)})

    hook = layer.register_forward_pre_hook(
        lambda _, arguments, options: view(*arguments, **options), with_kwargs=True
    )
    try:
        predict()
    finally:
        hook.remove()
    return views[0]


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
        named = list(zip(sliders, request.constants, strict=True))[served.channels :]
        for (name, low, high), value in named:
            if not low / 2 <= value <= 2 * high:
                raise Refused(f"{name} {value:g}; expected {low / 2:g} to {2 * high:g}")
        self.channels = request.constants[: served.channels]
        self.pde_parameters = {name: value for (name, _, _), value in named}
        self.times = sorted(set(request.times)) or served.times or [1.0]

    def inputs(self) -> Tensor:
        """(1, C, *N), the state and the constants."""
        channels = [torch.full_like(self.values, value) for value in self.channels]
        return torch.stack([self.values, *channels])[None]

    def conditions(self, time: float | None = None) -> Conditions:
        """How to predict from it: at the wanted times, or at one of them."""
        times = self.times if self.served.any_time else [float(k + 1) for k in range(self.frames)]
        chosen = None if self.served.times is None else [time] if time else times
        return Conditions(self.served.operator, self.grid, chosen, self.pde_parameters or None)

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
            served[key] = ServedOperator(key, run)
        except ValueError as error:
            if len(runs) == 1:
                raise
            print(f"left out: {error}", file=sys.stderr)
    return served
