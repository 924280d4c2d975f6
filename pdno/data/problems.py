"""Specifications of data: one of the problems, or a file (`DataFile`).

A problem is a distribution of inputs, an equation, grids and times, which define each sample by
its index. The stored points are every r-th point of the solver's grid. A problem with ranges is a
family of equations: each sample draws the varied PDE parameters. torch is imported when a sample
is made, as commands start without it.
"""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple

from pydantic import BeforeValidator, Field, model_serializer, model_validator

from pdno.interface.errors import check_choice
from pdno.interface.records import Options, Record

if TYPE_CHECKING:
    from torch import Tensor

    from pdno.equations.base import EvolutionEquation
    from pdno.equations.darcy import Darcy
    from pdno.fields.distributions import Distribution, Ranges
    from pdno.spectral.grid import Grid

    Physics = tuple[Distribution, EvolutionEquation | Darcy]

# Values beyond these bounds are typing errors: the data would overflow or never be ready.
Positive = Annotated[float, Field(ge=1e-12, le=1e12)]
Amplitude = Annotated[float, Field(ge=-1e12, le=1e12)]
FinalTime = Annotated[float, Field(ge=1e-9, le=1e4)]
Frames = Annotated[int, Field(ge=1, le=100_000)]
Resolution = Annotated[int, Field(ge=4, le=65536)]
Names = Annotated[tuple[str, ...], BeforeValidator(lambda v: (v,) if isinstance(v, str) else v)]
Fields = tuple[str | tuple[str, ...], str | tuple[str, ...]]  # of inputs and of outputs
NAME_THEM = "name its arrays: inputs and outputs, or --inputs NAME --outputs NAME as arguments"
MOST_NUMBERS = 2**28  # of one sample on the grid of the solver: 2 GiB of float64
MOST_DECAY = 700.0  # e^-700 is about the smallest float64


class Sample(NamedTuple):
    """A sample: input (C, *N), output ([T,] C, *N), float64, and the PDE parameters it drew."""

    input: "Tensor"
    output: "Tensor"
    residual: float
    pde_parameters: Mapping[str, float]


def make_sample(
    physics: "Callable[[Mapping[str, float]], Physics]",
    vary: "Ranges",
    grid: "Grid",
    times: Sequence[float] | None,
    key: tuple[int, int],
) -> Sample:
    """Draw PDE parameters and input with key (seed, index), and solve on the grid.

    `physics` is a function of the parameters.
    """
    from pdno.fields.distributions import draw_parameters
    from pdno.solvers.solve import solve_with_residual

    drawn = draw_parameters(vary, seed=key[0], index=key[1])
    distribution, equation = physics(drawn)
    field = distribution.sample(grid, seed=key[0], indices=[key[1]])
    output, residual = solve_with_residual(equation, field, times)
    return Sample(field[0], output[0], residual, drawn)


class Geometry(Record):
    """What a manifest says of points or masks; their arrays are the first fields of the inputs."""

    kind: Literal["points", "mask"]
    dim: Annotated[int, Field(ge=1, le=3)] = 2
    periodic: bool = False
    transform: Literal["sum", "least-squares"] = "sum"
    ridge: float = 1e-6
    shared: bool = False
    """Whether all samples have the same."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fields."""
        return ("mask",) if self.kind == "mask" else (*"xyz"[: self.dim], "weight")


class Problem(Record, ABC):
    """The base class of problems: parameters, physics and samples."""

    name: ClassVar[str]
    dim: ClassVar[int]
    equation_text: ClassVar[str]
    fields: ClassVar[Fields]
    parameter_names: ClassVar[tuple[str, ...]]
    periodic: ClassVar[bool] = True
    schemes: ClassVar[Mapping[str, str]] = {
        "": "Fourier, 2/3 rule, exponential Runge-Kutta of order 4, steps that follow the flow"
    }
    """Descriptions of the numerical schemes, by the value of `scheme`, if any."""
    geometry: ClassVar[Geometry | None] = None
    """Of points that each sample has for itself."""
    published_points: ClassVar[int]
    """Grid points per axis of the solver that resolve the solution."""

    samples: Annotated[int, Field(ge=1, le=10_000_000)] = 100
    """Number of samples."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Seed; sample i depends on (seed, i) only."""
    resolution: Resolution
    """Stored grid points per axis."""
    solver_resolution: Resolution | None = None
    """Grid points per axis of the solver, a multiple of resolution; None takes the usual one."""
    dtype: Literal["float32", "float64"] = "float32"
    """Number type on disk; solvers use float64, but for the fast scheme of Navier-Stokes."""
    vary: dict[str, tuple[float, float]] = {}
    """PDE parameters that each sample draws from a range, as in viscosity 1e-5 1e-3: log-uniform
    where the range is positive, else uniform."""

    @model_serializer(mode="wrap")
    def _without_ranges(self, handler: Callable[[object], Options]) -> Options:
        left_out = {*self.vary} or {"vary"}  # a parameter that varies has no value of its own
        return {name: value for name, value in handler(self).items() if name not in left_out}

    def at(self, pde_parameters: Mapping[str, float]) -> "Problem":
        """The same problem with these PDE parameters, nothing varied, on the same grids."""
        plain = {**self.model_dump(), **pde_parameters, "solver_resolution": self.solver_points}
        return type(self).model_validate({k: v for k, v in plain.items() if k != "vary"})

    @model_validator(mode="after")
    def _check(self) -> "Problem":
        for name, (low, high) in self.vary.items():
            check_choice(f"vary of {self.name}", name, self.parameter_names)
            if not low < high:
                raise ValueError(f"vary {name} from {low:g} to {high:g}; expected a lower first")
        # all draws lie between the corners, which have to be valid problems
        for corner in itertools.product(*self.vary.values()) if self.vary else ():
            self.at(dict(zip(self.vary, corner, strict=True)))
        if self.solver_points % self.resolution:
            both = f"solver_resolution {self.solver_points} is not a multiple of resolution"
            raise ValueError(f"{both} {self.resolution}: stored points must be the solver's")
        numbers = len(self.times or (0,)) * self.solver_points**self.dim
        if numbers > MOST_NUMBERS:
            size = f"one sample has {numbers:,} numbers on the grid of the solver"
            raise ValueError(f"{size}; expected at most {MOST_NUMBERS:,}: lower the resolution")
        return self

    @property
    def solver_points(self) -> int:
        """Grid points per axis of the solver."""
        usual = self.usual_solver_points
        return self.solver_resolution or (self.resolution if usual % self.resolution else usual)

    @property
    def usual_solver_points(self) -> int:
        """Grid points per axis that resolve the solution."""
        return self.published_points

    @property
    def parameters(self) -> dict[str, float]:
        """The PDE parameters that are the same for all samples."""
        return {n: getattr(self, n) for n in self.parameter_names if n not in self.vary}

    @property
    def times(self) -> tuple[float, ...] | None:
        """Times of the stored frames, evenly spaced up to the last; None for a static problem."""
        last: float | None = getattr(self, "final_time", None)
        if last is None:
            return None
        frames = int(getattr(self, "frames", last))  # by default one per unit of time
        return tuple(last * (k + 1) / frames for k in range(frames))

    def solver_grid(self) -> "Grid":
        """The grid of the solver."""
        from pdno.spectral.grid import Grid

        shape = (self.solver_points,) * self.dim
        return Grid(shape) if self.periodic else Grid.cells(shape)

    def grid(self) -> "Grid":
        """The stored grid."""
        return self.solver_grid().coarsen(self.solver_points // self.resolution)

    @abstractmethod
    def physics(self) -> "Physics":
        """Distribution of the inputs, and the equation."""

    def sample(self, index: int) -> Sample:
        """Sample `index` on the stored grid, solved now."""

        def physics(drawn: Mapping[str, float]) -> "Physics":
            return (self.at(drawn) if drawn else self).physics()

        grid = self.solver_grid()
        whole = make_sample(physics, self.vary, grid, self.times, (self.seed, index))
        points = grid.every(self.solver_points // self.resolution)
        return whole._replace(input=whole.input[points], output=whole.output[points])

    def solve(
        self, data: "Tensor", times: Sequence[float] | None = None
    ) -> "tuple[Tensor, float]":
        """The solution for inputs (B, C, *N) on any grid, and its relative residual."""
        from pdno.solvers.solve import solve_with_residual

        return solve_with_residual(self.physics()[1], data, times)


class HeatProblem(Problem):
    """Heat: u₀ -> u(t) for u_t = c u_xx on the circle (paper section 5.1)."""

    name, dim, published_points = "heat", 1, 1024
    equation_text = "u_t = c u_xx, periodic on (0, 1)"
    fields = ("initial_temperature", "temperature")
    parameter_names = ("diffusivity",)
    schemes = {"": "exact propagator exp(-4 pi^2 xi^2 c t) of each Fourier mode"}

    resolution: Resolution = 1024
    diffusivity: Positive = 0.05
    """c."""
    final_time: FinalTime = 1.0
    """Last time."""
    frames: Frames = 20
    """Number of stored times, evenly spaced up to final_time."""

    @property
    def times(self) -> tuple[float, ...]:
        return super().times or ()

    def physics(self) -> "Physics":
        from pdno.equations.evolution import Heat
        from pdno.fields.distributions import heat_initial

        return heat_initial(), Heat(self.diffusivity)


class BurgersProblem(Problem):
    """Burgers: u₀ -> u(t) for u_t + (u²/2)_x = ν u_xx on the circle (paper section 5.3)."""

    name, dim, published_points = "burgers", 1, 8192
    equation_text = "u_t + (u^2/2)_x = nu u_xx, periodic on (0, L)"
    fields = ("initial_velocity", "velocity")
    parameter_names = ("viscosity", "period")

    resolution: Resolution = 1024
    viscosity: Positive = 0.1
    """ν."""
    period: Positive = 1.0
    """L."""
    final_time: FinalTime = 1.0
    """Last time."""
    frames: Frames = 1
    """Number of stored times, evenly spaced up to final_time."""

    @model_validator(mode="after")
    def _check_decay(self) -> "BurgersProblem":
        decay = self.viscosity * self.final_time * (2 * math.pi / self.period) ** 2
        if decay > MOST_DECAY:
            wrong = f"by the final time all scales have decayed by e^-{decay:.3g}"
            raise ValueError(f"{wrong}: lower viscosity or final_time, or raise period")
        return self

    def physics(self) -> "Physics":
        from pdno.equations.evolution import Burgers
        from pdno.fields.distributions import burgers_initial

        return burgers_initial(), Burgers(self.viscosity, self.period)


class DarcyProblem(Problem):
    """Darcy: k -> u for -∇·(k∇u) = 1, u = 0 on the boundary of the square (paper section 5.2)."""

    name, dim, published_points = "darcy", 2, 512
    equation_text = "-div(k grad u) = f on (0,1)^2, u = 0 on the boundary"
    fields = ("permeability", "pressure")
    parameter_names = ("low", "high", "forcing")
    periodic = False
    schemes = {
        "conservative": "conservative cell-centred finite volumes, harmonic face means",
        "published": "published: splines to nodes, 5-point scheme, arithmetic means, splines back",
    }

    resolution: Resolution = 64
    scheme: Literal["conservative", "published"] = "conservative"
    """Cell-centred finite volumes, or the published scheme with its splines."""
    low: Positive = 3.0
    """Permeability of one phase."""
    high: Positive = 12.0
    """Permeability of the other phase."""
    forcing: Amplitude = 1.0
    """f."""

    def physics(self) -> "Physics":
        from pdno.equations.darcy import Darcy
        from pdno.fields.distributions import darcy_permeability

        return darcy_permeability(self.low, self.high), Darcy(self.forcing, self.scheme)


class NavierStokesProblem(Problem):
    """Navier-Stokes: the vorticity ω₀ -> ω(t) of a forced plane flow (paper section 5.2)."""

    name, dim, published_points = "navier-stokes", 2, 256
    equation_text = (
        "w_t + v.grad w = nu Lap w + A (sin + cos)(2 pi (x1 + x2)), periodic unit square"
    )
    fields = ("initial_vorticity", "vorticity")
    parameter_names = ("viscosity", "forcing")
    schemes = {
        "accurate": Problem.schemes[""],
        "fast": "Fourier, smooth filter, exponential Runge-Kutta of order 4, float32",
    }

    resolution: Resolution = 64
    viscosity: Positive = 1e-5
    """ν."""
    forcing: Amplitude = 0.1
    """Amplitude A of the forcing."""
    amplitude: Literal["published", "ported", "printed"] = "published"
    """Amplitude of ω₀: published data (2·7³), ported code (7³), or as printed (7^1.5)."""
    final_time: Annotated[int, Field(ge=1, le=10_000)] = 20
    """Last time; frames are stored at t = 1, 2, ..., final_time."""
    scheme: Literal["fast", "accurate"] = "fast"
    """How it is solved: "fast" by a smooth filter and long steps in float32, "accurate" by the 2/3
    rule in float64. The fast scheme is also more exact on grids that do not resolve the flow."""

    @property
    def usual_solver_points(self) -> int:
        # `python tools/truth.py`: errors of both schemes on these grids
        smallest, _ = self.vary.get("viscosity", (self.viscosity, 0.0))
        return 128 if smallest >= 1e-4 else self.published_points

    def physics(self) -> "Physics":
        from pdno.equations.base import ACCURATE, FAST
        from pdno.equations.evolution import NavierStokes
        from pdno.fields.distributions import navier_stokes_initial

        scheme = FAST if self.scheme == "fast" else ACCURATE
        equation = NavierStokes(self.viscosity, self.forcing, scheme)
        return navier_stokes_initial(self.amplitude), equation


class ShapesProblem(Problem):
    """A problem with a different domain for each sample, solved by finite elements.

    Samples are the values at the vertices of a mesh, with coordinates and quadrature weights.
    """

    dim, periodic, published_points = 2, False, 704
    geometry: ClassVar[Geometry | None] = Geometry(kind="points")
    parameter_names = ()
    schemes = {"": "quadratic finite elements on triangles, scikit-fem"}

    resolution: Literal[192, 704, 2688] = 704
    """Points of a sample, at most."""

    def solver_grid(self) -> "Grid":
        from pdno.spectral.grid import Grid

        return Grid((self.solver_points,), periodic=False)

    def physics(self) -> "Physics":
        raise ValueError(f"{self.name} has a domain for each sample, and no equation on a grid")

    def sample(self, index: int) -> Sample:
        from pdno.data import shapes

        make = shapes.plate if self.name == "elasticity" else shapes.poisson
        return Sample(*make(self.seed, index, self.resolution), {})


class PoissonShapesProblem(ShapesProblem):
    """Poisson: f -> u for -Δu = f, u = 0 on the boundary, on random domains with holes."""

    name = "poisson-shapes"
    equation_text = "-Lap u = f in D, u = 0 on the boundary of D, D random"
    fields = ("x", "y", "weight", "forcing", "distance"), "solution"


class ElasticityProblem(ShapesProblem):
    """Elasticity: shape -> stress of a plate with a random hole, clamped below, pulled above."""

    name = "elasticity"
    equation_text = "div sigma = 0, plane stress, nu = 0.3; u = 0 below, sigma n = (0, 1) above"
    fields = ("x", "y", "weight", "distance"), "von_mises_stress"


PROBLEMS: dict[str, type[Problem]] = {
    problem.name: problem
    for problem in (
        HeatProblem,
        BurgersProblem,
        DarcyProblem,
        NavierStokesProblem,
        PoissonShapesProblem,
        ElasticityProblem,
    )
}


class Layout(Record):
    """Which arrays of a file are inputs and outputs, and how they lie on a grid.

    Axes are letters: n samples, t time, c channels, and x, y, z space. So "nxyc" has its channels
    last, and "nxyt" is (samples, N1, N2, frames). By default arrays with two axes are "nx" and
    with three "nxy"; all others need their axes.
    """

    inputs: Names = ()
    """Name of the array of inputs; several become channels. In files of The Well: fields, of which
    the first frame is taken, and scalars."""
    outputs: Names = ()
    """Name of the array of outputs; several become channels."""
    input_axes: str | None = None
    """Letters of the axes of the inputs: n samples, c channels, x y z space."""
    output_axes: str | None = None
    """Letters of the axes of the outputs, with t for time; those of the inputs by default."""
    input_channels: Names = ()
    """Names of the channels of the inputs; those of the arrays by default."""
    output_channels: Names = ()
    """Names of the channels of the outputs."""
    periodic: bool | None = None
    """Whether the points lie on a torus, or else in a box; a torus, or what the file says."""
    offset: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Position of the first point in its cell, as in pdno.Grid; 0.5 for cell centres."""
    times: tuple[float, ...] | str | None = None
    """Times of the frames of the outputs, or the name of an array of them; those of the file, else
    1, 2, ... by default."""
    coordinates: str | None = None
    """Name of the array of the coordinates of scattered points, (P, d), or (samples, P, d)."""
    output_coordinates: str | None = None
    """That of the outputs, where they lie on points of their own."""
    weights: str | None = None
    """Name of the array of quadrature weights of scattered points."""
    mask: str | None = None
    """Name of an array that is true or 1 inside of the domain: of a grid, or of padded points."""
    box: tuple[float, float] | None = None
    """Coordinates that become 0 and 1, the same for all axes; 0 and 1 by default."""
    transform: Literal["sum", "least-squares"] = "sum"
    """How coefficients are computed on scattered points, as in pdno.Points."""

    def keyword_arguments(self) -> Options:
        """The options that differ from their defaults."""
        return self.model_dump(include=set(Layout.model_fields), exclude_defaults=True)


class DataFile(Layout):
    """A data file or folder, and how it is read."""

    path: Path

    @model_validator(mode="before")
    @classmethod
    def _path_alone(cls, values: object) -> object:
        return {"path": values} if isinstance(values, (str, Path)) else values

    def spelled(self) -> str | Options:
        """As in a specification: the path alone where there are no options."""
        values = self.model_dump(mode="json", exclude_defaults=True)
        return values if len(values) > 1 else str(self.path)
