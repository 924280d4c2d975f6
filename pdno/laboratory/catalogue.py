"""The operators of some run folders: what they take and predict, and what they look like inside.

A reader gives one *state*: a coefficient or an initial value on a grid, (*N). What else an
operator needs follows: the frames of a window come from the solver. Further channels of a static
input are constants, and so are the numbers μ of a family of equations.
"""

__all__ = ["Catalogue", "Entry", "State"]

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pdno.data.problems import DarcyProblem, Problem
from pdno.fields.distributions import TwoPhaseField
from pdno.fields.gaussian import GaussianField
from pdno.files import run_folder
from pdno.networks.neural_operator import NeuralOperator, count_parameters
from pdno.operators.kernel import apply_values
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.runs.run import Run, load_run
from pdno.spectral.calculus import interpolate, resample
from pdno.spectral.grid import Grid
from pdno.symbols.base import SymbolValues, Time
from pdno.theory.certificate import Certificate, certify
from pdno.training.task import OneShot, StaticMap

LARGEST = {1: 4096, 2: 256}  # points per axis that a reader may ask for
MOST_FRAMES = 40
SOLVER = {1: 2048, 2: 128}  # points per axis of the solver, which a reader waits for
MOST_LAYERS = 64


@dataclass(frozen=True)
class State:
    """What a reader gives: values on (*N), constants (channels, then pde_parameters), and which times."""

    values: Tensor
    constants: tuple[float, ...] = ()
    frames: int = 1
    times: tuple[float, ...] = ()


class Entry:
    """One operator; `key` is its name in the catalogue."""

    def __init__(self, key: str, run: Run) -> None:
        assert run.operator.sampling is not None
        self.key, self.learner, self.grid = key, run.operator, run.operator.sampling.grid
        self.title = f"{run.experiment.name}: {run.experiment.model}" if run.experiment else key
        self.problem: Problem | None = run.experiment.problem if run.experiment else None
        self.rows, self.frozen = run.metrics, Grid((2,))
        self.sampling, self.task = run.operator.sampling, run.operator.task
        self.pde_parameters = self.sampling.pde_parameters
        if self.task.kind == "space-time" or self.grid.dim > 2:
            raise ValueError(f"{run.folder} has three axes; the page shows one or two")
        seen = getattr(self.task, "frames", None)
        window = self.sampling.input_frames or 0
        count = seen if seen is not None else window
        self.window = 0 if count <= 1 else count
        """Frames that the solver has to make before the operator can go on."""
        if self.window and self.problem is None:
            told = "sees several frames, and no solver is known that makes them"
            raise ValueError(f"{run.folder} {told}: train it by `pdno train` with a problem")

    @cached_property
    def operators(self) -> list[PseudoDifferentialOperator]:
        """Its layers, from the first to the last."""
        return self.learner.operators

    @property
    def constants(self) -> int:
        """Channels after the state."""
        return 0 if self.sampling.input_frames else self.sampling.input_channels - 1

    def scalars_of(self, state: State) -> dict[str, float]:
        """The numbers of the equation by name; ValueError for those far from the training."""
        numbers = dict(zip(self.pde_parameters, state.constants[self.constants :], strict=True))
        for (name, number), (low, high) in zip(
            numbers.items(), self.sampling.ranges, strict=False
        ):
            if not low / 2 <= number <= 2 * high:
                raise ValueError(f"{name} {number:g}; expected {low / 2:g} to {2 * high:g}")
        return numbers

    def fix(self, pde_parameters: Mapping[str, float] | None) -> None:
        """Keep one member of a family alone, for a page without a server."""
        if self.pde_parameters:
            self.learner = self.learner.fixed(pde_parameters)
            told = ", ".join(
                f"{name} {number:g}" for name, number in (pde_parameters or {}).items()
            )
            self.title, self.pde_parameters = f"{self.title}, {told}", ()

    def resolutions(self) -> list[int]:
        """Points of the longest axis that may be asked for: half of the training's, to 4 times."""
        points, largest = max(self.grid.shape), LARGEST[self.grid.dim]
        known = [points * factor // 4 for factor in (2, 4, 8, 16)]
        return [n for n in known if n <= max(largest, points) and self._holds(n)]

    def _holds(self, points: int) -> bool:
        try:
            grid = self.grid_at(points)
            for operator in self.operators:
                grid.modes(operator.modes)
        except ValueError:
            return False
        return points >= 8

    def grid_at(self, points: int) -> Grid:
        """The grid with that many points on the longest axis."""
        longest = max(self.grid.shape)
        shape = [n * points // longest for n in self.grid.shape]
        return self.sampling.grid_of(torch.empty(1, 1, *shape))

    def describe(self) -> dict[str, Any]:
        """All that the page needs to know, as plain JSON."""
        sampling, operators = self.sampling, self.operators
        ours = (max(self.grid.shape), "test", "relative_l2")
        rows = [row for row in self.rows if (row.resolution, row.split, row.metric) == ours]
        return {
            "key": self.key,
            "title": self.title,
            "problem": None if self.problem is None else self.problem.name,
            "equation": None if self.problem is None else self.problem.equation_text,
            "parameters": {} if self.problem is None else self.problem.parameters,
            "task": self.task.kind,
            "grid": {"shape": list(self.grid.shape), "periodic": self.grid.periodic},
            "resolutions": self.resolutions(),
            "input": self.describe_input(),
            "constants": self.describe_constants(),
            "window": self.window,
            "times": None if self.is_static else list(sampling.times or ()),
            "step": sampling.step,
            "any_time": isinstance(self.task, OneShot),
            "truth": self.problem is not None and not self.constants,
            "layers": [
                {"outputs": one.symbol.out_channels, "inputs": one.symbol.in_channels}
                for one in operators[:MOST_LAYERS]
            ],
            "weights": count_parameters(self.learner.network, complex_once=False),
            "error": rows[0].value if rows and math.isfinite(rows[0].value) else None,
        }

    def describe_constants(self) -> list[dict[str, Any]]:
        """Sliders of the further channels, and of the numbers of the equation in their ranges."""
        names = self.sampling.input_names[1:] or [f"μ{k + 1}" for k in range(self.constants)]
        ranges = [(-5.0, 5.0)] * self.constants + list(self.sampling.ranges)
        known = zip([*names[: self.constants], *self.pde_parameters], ranges, strict=False)
        return [{"name": name, "low": low, "high": high} for name, (low, high) in known]

    @property
    def is_static(self) -> bool:
        """Whether it predicts one field without a time."""
        return isinstance(self.task, StaticMap)

    def describe_input(self) -> dict[str, Any]:
        """How inputs are drawn: a Gaussian field N(m, σ²(-Δ + τ²)^-α), or two phases of one."""
        law = (
            self.problem.physics()[0] if self.problem else GaussianField(625.0, tau=5.0, alpha=2.0)
        )
        phases = [law.low, law.high] if isinstance(law, TwoPhaseField) else None
        gaussian = law.gaussian if isinstance(law, TwoPhaseField) else law
        assert isinstance(gaussian, GaussianField)
        numbers = {name: getattr(gaussian, name) for name in ("variance", "tau", "alpha")}
        return {"phases": phases, "boundary": gaussian.boundary, **numbers}

    def times_of(self, state: State) -> list[float] | None:
        """The times of the wanted frames, as the task counts them."""
        if self.is_static:
            return None
        if isinstance(self.task, OneShot):
            return list(state.times or self.sampling.times or (1.0,))
        return [float(k + 1) for k in range(state.frames)]

    def solver_times(self, state: State) -> list[float] | None:
        """The times that a solver starting from the state has to give, the window first."""
        if self.problem is None or self.problem.times is None:
            return None
        if self.is_static:
            return [self.problem.times[-1]]
        if isinstance(self.task, OneShot):
            return self.times_of(state)
        step = self.sampling.step or 1.0
        return [step * (k + 1) for k in range(self.window + state.frames)]

    def predict(
        self,
        inputs: Tensor,
        grid: Grid,
        times: Sequence[float] | None,
        pde_parameters: Mapping[str, float] | None = None,
    ) -> Tensor:
        """(B, C, *N) -> (B, T, *N); a static operator gives one frame."""
        if not pde_parameters:
            self._freeze(grid)
        # a page may ask for one member of a family that was fixed
        member = pde_parameters or None
        found = self.learner.predict(inputs, grid=grid, times=times, pde_parameters=member)
        found = found[:, None] if self.is_static else found
        return found[:, :, 0].float()

    def _freeze(self, grid: Grid) -> None:
        """Evaluate symbols once for the predictions on a grid."""
        network = self.learner.network
        if isinstance(network, NeuralOperator) and not network.takes_time and self.frozen != grid:
            self.learner.freeze(grid)
            self.frozen = grid

    def inputs_of(self, state: State, window: Tensor | None) -> Tensor:
        """(1, C, *N) from a state and the frames (k, *N) that the solver made of it."""
        if window is not None:
            return window[None].float()
        values = state.values[None]
        constants = [torch.full_like(values, value) for value in state.constants[: self.constants]]
        return torch.cat([values, *constants])[None].float()

    @torch.no_grad()
    def look_inside(
        self,
        inputs: Tensor,
        grid: Grid,
        layer: int,
        pair: tuple[int, int],
        at: tuple[float | None, Mapping[str, float]],
    ) -> dict[str, Tensor | None]:
        """a1(x) and a2(ξ) of an output j and an input i, v_i before the layer and K_ji v_i.

        All of it `at` a time and numbers of the equation.
        """
        t, pde_parameters = at
        operator, seen = self.operators[layer], list[tuple[Any, ...]]()
        hook = operator.register_forward_hook(lambda _, given, __: seen.append(given))
        try:
            times = None if self.is_static else [1.0 if t is None else t]
            self.predict(inputs, grid, times, pde_parameters)
        finally:
            hook.remove()
        v, inner = seen[0][0], seen[0][1] if len(seen[0]) > 1 else grid
        values = operator.values(inner or grid, self.seen(t, pde_parameters))
        j, i = pair
        c = values.frequency[:, j : j + 1, i : i + 1].to(v.dtype.to_complex())
        b = values.space
        if b is not None:
            b = b[:, j if b.shape[1] > 1 else 0, i if b.shape[2] > 1 else 0][:, None, None].to(v)
        field = v[:1, i : i + 1]
        after = apply_values(SymbolValues(c, b), field, inner or grid, operator.modes)
        return {
            "space": None if b is None else b[0, 0, 0],
            "real": c[0, 0, 0].real,
            "imaginary": c[0, 0, 0].imag,
            "before": field[0, 0],
            "after": after[0, 0],
        }

    def certificate(self, layer: int) -> dict[str, Any]:
        """Whether the symbol of a layer is in S^1, with what speaks against it."""
        symbol = self.operators[layer].symbol
        middle = {
            name: math.sqrt(low * high) if low > 0 else (low + high) / 2
            for name, (low, high) in zip(self.pde_parameters, self.sampling.ranges, strict=False)
        }
        t = self.seen((self.sampling.times or (1.0,))[0], middle)
        return plain_certificate(certify(symbol, 1.0, dim=self.grid.dim, t=t))

    def seen(self, t: float | None, pde_parameters: Mapping[str, float] | None = None) -> Time:
        """What the symbols see of a time and of numbers; None where they see neither."""
        moment = self.task.scaled_time(t) if isinstance(self.task, OneShot) and t else None
        member = self.learner.fixed(pde_parameters) if pde_parameters else self.learner
        told = member.on(self.grid).in_symbols
        if told is None or moment is None:
            return moment if told is None else told
        return torch.cat([told.new_tensor([[moment]]), told], dim=1)


def plain_certificate(found: Certificate) -> dict[str, Any]:
    """A certificate as plain JSON: verdict, reasons, curves, and the ray of the first witness."""
    first = found.witness
    ray = None
    if first is not None and first.kind in ("growth", "differences"):
        ray = {
            "radii": [math.hypot(*point) for point in first.points],
            "values": [value if math.isfinite(value) else None for value in first.values],
            "direction": list(first.points[-1]),
        }
    curves = {
        str(total): [value if math.isfinite(value) else None for value in values]
        for total, values in found.curves.items()
    }
    return {
        "headline": found.headline,
        "assessment": found.assessment,
        "reasons": [*found.reasons, found.certainty],
        "radii": list(found.radii),
        "curves": curves,
        "ray": ray,
    }


class Catalogue(dict[str, Entry]):
    """Operators by key: the names of their folders, numbered where two are the same."""

    @classmethod
    def of_runs(cls, folders: Sequence[Path]) -> "Catalogue":
        """Those of run folders, and of the run folders inside a folder."""
        places = [place for folder in folders for place in _run_folders(folder)]
        if not places:
            named = ", ".join(map(str, folders)) or "no folder"
            raise ValueError(
                f"{named}: no finished run there; train one, for example by pdno demo"
            )
        found = cls()
        for place in places:
            name = place.resolve().name
            key = name if name not in found else f"{name}-{len(found) + 1}"
            try:
                found[key] = Entry(key, load_run(place))
            except ValueError as problem:
                if len(places) == 1:
                    raise
                print(f"left out: {problem}", file=sys.stderr)
        return found


def _run_folders(folder: Path) -> list[Path]:
    if run_folder.is_finished(folder) and (folder / run_folder.WEIGHTS).is_file():
        return [folder]
    inside = sorted(path.parent for path in folder.glob(f"*/{run_folder.WEIGHTS}"))
    return [place for place in inside if run_folder.is_finished(place)]


def solve(
    problem: Problem, state: Tensor, grid: Grid, times: Sequence[float] | None
) -> tuple[Tensor, tuple[int, ...]]:
    """The solution (T, *N) for a state on a grid, at its points, and the points of the solver.

    The solver works on a finer grid. A permeability is constant around each of its points there
    and the pressure comes back by splines; an initial state is its Fourier series.
    """
    static, shape = isinstance(problem, DarcyProblem), grid.shape
    limit = min(SOLVER[grid.dim] * (2 if static else 1), problem.solver_points)
    every = max(1, limit // max(shape))
    fine, given = tuple(every * n for n in shape), state.double()
    if static:
        for axis in range(grid.dim):
            given = given.repeat_interleave(every, dim=axis)
    else:
        given = resample(given, fine)
    solved, _ = problem.solve(given[None, None], times)
    frames = solved.reshape(-1, *fine)
    if static:
        return interpolate(frames, Grid.cells(fine), grid), fine
    return frames[(slice(None), *(slice(None, None, every),) * grid.dim)], fine
