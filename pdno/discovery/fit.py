"""Coefficients of a generator from trajectories: least squares through time, by Gauss and Newton.

    min over c and the initial states of  Σ |u_measured(t) - u(t; c, u₀)|² / σ²

on the modes that stand out of the noise. Derivatives come from `Sensitivity`, so memory does not
depend on the number of steps; initial states are eliminated, each from its own equations. The
inverse of the remaining normal matrix is the covariance of c. Starting values are linear least
squares for u(t₂) - u(t₁) = Σ c_k ∫ T_k(u) dt, with splines in time.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from scipy.interpolate import CubicSpline
from torch import Tensor

from pdno.discovery.generator import Generator, Sensitivity
from pdno.discovery.trajectories import Segment, Trajectories
from pdno.interface.errors import SolverError
from pdno.solvers.solve import solve
from pdno.spectral.calculus import resample

MOST_ITERATIONS = 25
GROWTH = 7.0  # logarithm of the largest linear growth between two frames while fitting
MOST_STEPS = 20_000  # about as many that the solution of a guess may take
PREDICTED = 0.3  # relative error of a prediction up to which windows are extended
RIDGE = 1e-13
ENOUGH = 1e-3


class _Normal(NamedTuple):
    """Normal equations of a segment: H, g by trajectory, states last, and the sum of squares."""

    matrix: Tensor
    right: Tensor
    squares: float


@dataclass(frozen=True, eq=False)
class Fit:
    """A generator fitted to trajectories over windows of some steps.

    `matrix` is the normal matrix of the coefficients, initial states eliminated, in units of the
    expected errors; `single` its diagonal before any elimination, and `motion` the sum of squares
    of the changes that are to be explained; `widening` is the one of `Trajectories`.
    """

    generator: Generator
    window: int
    squares: float
    freedom: int
    matrix: Tensor
    single: Tensor
    motion: float
    widening: float
    states: list[Tensor]

    @property
    def misfit(self) -> float:
        """Mean square of the residuals, 1 where noise and tolerance explain them."""
        return self.squares / max(self.freedom, 1)

    @property
    def unit(self) -> float:
        """Variance of an error, by the residuals, which count as no smaller than expected."""
        return max(self.misfit, 1.0) * self.widening

    @property
    def covariance(self) -> Tensor:
        """That of the coefficients."""
        return self.unit * invert(self.matrix)


def invert(matrix: Tensor) -> Tensor:
    """The inverse of a normal matrix, large in directions that have no information."""
    size = matrix.diagonal().clamp(min=1e-300).sqrt()
    scaled = matrix / size / size[:, None]
    values, vectors = torch.linalg.eigh(scaled)
    inverse_matrix: Tensor = (vectors / values.clamp(min=RIDGE)) @ vectors.T
    return inverse_matrix / size / size[:, None]


class GaussNewton:
    """Fits of one generator's coefficients to segments of trajectories."""

    def __init__(self, data: Trajectories, window: int, *, states_free: bool = True) -> None:
        self.data, self.window = data, window
        self.states_free = data.noisy and states_free
        self.segments = data.segments(window)
        self.measured = [segment.first for segment in self.segments]
        steps = [b - a for a, b in zip(data.times, data.times[1:], strict=False)]
        self.growth = GROWTH / min(steps)
        basis = data.basis() if self.states_free else torch.empty(0, *data.grid.shape).double()
        fields = data.u.shape[2]
        # the unit vectors of the initial states, each of one field
        each = torch.eye(fields, dtype=torch.float64)
        self.directions = torch.einsum("cd,m...->cmd...", each, basis).flatten(0, 1)
        pieces = sum(map(len, self.measured))
        self.observed = pieces * window * data.modes * fields

    def fit(self, generator: Generator) -> Fit:
        """Levenberg and Marquardt, from the coefficients of a generator."""
        states, damping = self.measured, 1e-6
        equations = self._equations(generator, states)
        squares = sum(e.squares for e in equations)
        for _ in range(MOST_ITERATIONS):
            step = self._step(generator, states, equations, damping)
            if step is None:
                break
            (generator, states, damping), before = step, squares
            equations = self._equations(generator, states)
            squares = sum(e.squares for e in equations)
            if squares > before * (1 - ENOUGH) or squares < ENOUGH * self.observed:
                break  # or the rest is far below what noise and tolerance explain
        return self._result(generator, equations, states)

    def _step(
        self, generator: Generator, states: list[Tensor], equations: list[_Normal], damping: float
    ) -> tuple[Generator, list[Tensor], float] | None:
        """A step that lowers the sum of squares, if there is one, and the next damping."""
        (matrix, right), before = self._eliminated(equations), sum(e.squares for e in equations)
        size = matrix.diagonal().clamp(min=1e-300).sqrt()
        scaled, c = matrix / size / size[:, None], generator.coefficients.detach()
        for _ in range(12):
            ridge = torch.eye(len(c), dtype=c.dtype) * max(damping, RIDGE)
            change = torch.linalg.solve(scaled + ridge, right / size) / size
            candidate = generator.with_coefficients(c + change)
            pairs = zip(states, equations, strict=True)
            new = [state + self._state_change(e, change) for state, e in pairs]
            if self.squares(candidate, new) < before:
                return candidate, new, damping / 30
            damping = max(damping, 1e-6) * 30
        return None

    def gains(self, generator: Generator, states: list[Tensor], absent: list[int]) -> Tensor:
        """By how much each of the absent terms, beside the others, would lower the squares."""
        matrix, right = self._eliminated(self._equations(generator, states))
        present = [k for k in range(len(right)) if k not in absent]
        mixed = matrix[:, present] @ invert(matrix[present][:, present])
        slope = right - mixed @ right[present]
        curvature = matrix.diagonal() - (mixed * matrix[:, present]).sum(dim=1)
        gains: Tensor = slope.square() / curvature.clamp(min=1e-9 * matrix.diagonal() + 1e-300)
        return gains

    def _state_change(self, e: _Normal, change: Tensor) -> Tensor | float:
        if not len(self.directions):
            return 0.0
        count = len(change)
        right = e.right[:, count:] - e.matrix[:, count:, :count] @ change
        along = torch.linalg.solve(e.matrix[:, count:, count:], right)
        return torch.einsum("bm,mc...->bc...", along, self.directions)

    def _eliminated(self, equations: list[_Normal]) -> tuple[Tensor, Tensor]:
        """Normal equations of the coefficients, without the states."""
        total, right, free = torch.zeros(()), torch.zeros(()), len(self.directions)
        for e in equations:
            count = e.right.shape[1] - free
            h, g = e.matrix[:, :count, :count], e.right[:, :count]
            if free:
                mixed = e.matrix[:, :count, count:]
                both = torch.cat([mixed.mT, e.right[:, count:, None]], dim=2)
                solved = torch.linalg.solve(e.matrix[:, count:, count:], both)
                h = h - mixed @ solved[..., :count]
                g = g - (mixed @ solved[..., count:])[..., 0]
            total, right = total + h.sum(dim=0), right + g.sum(dim=0)
        return total, right

    def _equations(self, generator: Generator, states: list[Tensor]) -> list[_Normal]:
        return [self._normal(generator, s, x) for s, x in zip(self.segments, states, strict=True)]

    def _normal(self, generator: Generator, segment: Segment, states: Tensor) -> _Normal:
        """The normal equations of a segment at some initial states."""
        data, fields = self.data, states.shape[1]
        count, free = len(generator.coefficients), len(self.directions)
        start = states.new_zeros(len(states), 1 + count + free, *states.shape[1:])
        start[:, 0], start[:, 1 + count :] = states, self.directions
        equation = Sensitivity(generator, count + free, self.growth)
        v = solve(equation, start.flatten(1, 2), segment.times)
        shape = (*v.shape[:2], 1 + count + free, fields, *v.shape[3:])
        v = v.reshape(shape).transpose(1, 2)
        residual = data.weigh(segment.later - v[:, 0]).flatten(1)
        slopes = data.weigh(v[:, 1:]).flatten(2)
        matrix, right = slopes @ slopes.mT, (slopes @ residual[..., None])[..., 0]
        squares = float(residual.square().sum())
        if free:
            first = data.weigh(segment.first - states).flatten(1)
            waves = data.weigh(self.directions).flatten(1)
            matrix[:, count:, count:] += waves @ waves.T
            right[:, count:] += first @ waves.T
            squares += float(first.square().sum())
        return _Normal(matrix, right, squares)

    def squares(self, generator: Generator, states: list[Tensor] | None = None) -> float:
        """The sum of squares of a generator; infinite where its solution is not finite."""
        pairs = zip(self.measured, states or self.measured, strict=True)
        moved = sum(float(self.data.weigh(first - x).square().sum()) for first, x in pairs)
        return moved + float(self.frame_squares(generator, states).sum())

    def frame_squares(self, generator: Generator, states: list[Tensor] | None = None) -> Tensor:
        """That of each frame; infinite where a solution is not finite or takes too long."""
        equation, parts = Sensitivity(generator, 0, self.growth), list[Tensor]()
        for segment, x in zip(self.segments, states or self.measured, strict=True):
            squares = torch.full(segment.later.shape[:2], torch.inf, dtype=torch.float64)
            if self._affordable(equation, x, segment.times[-1]):
                with suppress(SolverError):
                    u = solve(equation, x, segment.times)
                    squares = self.data.weigh(segment.later - u).flatten(2).square().sum(dim=2)
            parts.append(squares.flatten())
        return torch.cat(parts)

    def _affordable(self, equation: Sensitivity, states: Tensor, duration: float) -> bool:
        """Whether a solution takes no more steps than any good guess."""
        parts = equation.discretise(self.data.grid)
        if parts.rates is None:
            return True
        rates = parts.rates(parts.coefficients(states))
        turns = torch.minimum(rates.carry, rates.damped) + rates.deform / parts.deformation
        return bool((turns * duration < MOST_STEPS).all())

    def _result(self, generator: Generator, equations: list[_Normal], states: list[Tensor]) -> Fit:
        matrix, _ = self._eliminated(equations)
        count = len(matrix)
        singles = [e.matrix[:, :count, :count].sum(dim=0).diagonal() for e in equations]
        changes = [self.data.weigh(s.later - s.first[:, None]) for s in self.segments]
        values = self.observed * self.data.points // max(self.data.modes, 1)
        return Fit(
            generator,
            self.window,
            squares=sum(e.squares for e in equations),
            freedom=self.observed - count,
            matrix=matrix,
            single=torch.stack(singles).sum(dim=0),
            motion=sum(float(change.square().sum()) for change in changes),
            widening=self.data.widening(values),
            states=states,
        )


def fit_generator(generator: Generator, data: Trajectories, window: int | None = None) -> Fit:
    """Fit the coefficients: steps between frames first, then windows as long as is predictable.

    Windows are the longest that the coefficients so far predict with less than 30 % error, up to
    `window` steps, by default the whole trajectory.
    """
    longest = min(window or len(data.times), len(data.times) - 1)
    guesses = [starting_values(generator, data), torch.zeros_like(generator.coefficients)]
    if bool(generator.coefficients.any()):
        guesses.insert(0, generator.coefficients.detach())
    steps = GaussNewton(data, 1, states_free=False)
    start = min((generator.with_coefficients(c) for c in guesses), key=steps.squares)
    problem = _longest_predictable(start, data, 1, longest)
    if problem is None:
        start = steps.fit(start).generator
        problem = _longest_predictable(start, data, 1, longest)
    result = (problem or GaussNewton(data, 1)).fit(start)
    while problem is not None and problem.window < longest:
        problem = _longest_predictable(result.generator, data, problem.window, longest)
        result = problem.fit(result.generator) if problem else result
    return result


def _longest_predictable(
    generator: Generator, data: Trajectories, shortest: int, longest: int
) -> GaussNewton | None:
    """The longest window, of halves of the longest, that is predicted well enough to go on."""
    window = longest
    while window > max(shortest, 1):
        problem = GaussNewton(data, window)
        size = sum(float(data.weigh(s.later).square().sum()) for s in problem.segments)
        if problem.squares(generator) < PREDICTED**2 * size:
            return problem
        window //= 2
    return None


def starting_values(generator: Generator, data: Trajectories) -> Tensor:
    """Linear least squares for u(t₂) - u(t₁) = Σ c_k ∫ T_k(u) dt, in H^-2."""
    u, columns = data.project(data.u), list[Tensor]()
    units = torch.eye(len(generator.coefficients), dtype=torch.float64)
    with torch.no_grad():
        for unit in units:
            rate = generator.with_coefficients(unit).rate(u.flatten(0, 1))
            columns.append(_integrals(rate.reshape(u.shape), data.times))
    smooth = data.mask / (1 + data.grid.modes().double().square().sum(dim=-1))
    weights = data.deviation.reshape(-1, *[1] * data.grid.dim)

    def vector(f: Tensor) -> Tensor:
        return (resample(f, data.grid.shape, multiplier=smooth) / weights).flatten()

    matrix, right = torch.stack([vector(c) for c in columns], dim=1), vector(u.diff(dim=1))
    norms = matrix.norm(dim=0).clamp(min=1e-300)
    scaled = matrix / norms
    c: Tensor = torch.linalg.solve(scaled.T @ scaled + 1e-10 * units, scaled.T @ right) / norms
    return c


def _integrals(values: Tensor, times: tuple[float, ...]) -> Tensor:
    """∫ from frame to frame of values (B, T, ...), by a cubic spline."""
    if len(times) == 2:
        return (values[:, :1] + values[:, 1:]) * (times[1] - times[0]) / 2
    spline = CubicSpline(times, values.numpy(), axis=1).antiderivative()
    return torch.from_numpy(spline(times)).diff(dim=1)


def without(fit: Fit, drop: int) -> Fit:
    """The fit without one coefficient, to first order; the others move as the covariance says."""
    inverse_matrix, c = invert(fit.matrix), fit.generator.coefficients.detach()
    keep = [k for k in range(len(c)) if k != drop]
    moved = c - inverse_matrix[:, drop] * c[drop] / inverse_matrix[drop, drop]
    generator = fit.generator.with_coefficients(moved[keep], keep)
    grown = fit.squares + float(c[drop].square() / inverse_matrix[drop, drop])
    matrix, single = fit.matrix[keep][:, keep], fit.single[keep]
    return replace(fit, generator=generator, squares=grown, matrix=matrix, single=single)
