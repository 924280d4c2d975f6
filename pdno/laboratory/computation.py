"""Computation in the laboratory: predictions in a thread, everything else in processes."""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdno.data.problems import DarcyProblem, Problem
from pdno.interface.errors import SolverError
from pdno.spectral.calculus import interpolate, resample
from pdno.spectral.grid import Grid
from pdno.training.trained_operator import TrainedOperator

MOST_SAMPLES = 20  # of one batch
MOST_WAITING = 16  # for a process
SECONDS = 120.0  # time limit of a process
SOLVER_POINTS = {1: 2048, 2: 128}  # most points per axis, by dimension: a reader waits for them
Result = TypeVar("Result")


class Refused(ValueError):
    """A request that is understood and refused, with the status of the response."""

    def __init__(self, message: str, status: int = 422) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Conditions:
    """Everything but the inputs of a prediction; inputs with equal conditions form a batch."""

    operator: TrainedOperator
    grid: Grid
    times: Sequence[float] | None = None
    pde_parameters: Mapping[str, float] | None = None

    def predict(self, inputs: Tensor) -> Tensor:
        """(B, C, *N) -> (B, T, *N); a static operator predicts one frame."""
        prediction = self.operator.predict(
            inputs, grid=self.grid, times=self.times, pde_parameters=self.pde_parameters
        )
        frames = prediction[:, None] if self.times is None else prediction
        return frames[:, :, 0].float()


class Batches:
    """Predictions, one batch after another in a thread; requests that wait join a batch."""

    def __init__(self, most: int = MOST_SAMPLES) -> None:
        self.most, self.thread, self.lock = most, ThreadPoolExecutor(1), asyncio.Lock()
        self.waiting = dict[asyncio.Future[Tensor], tuple[Conditions, Tensor]]()

    async def predict(self, conditions: Conditions, inputs: Tensor) -> Tensor:
        """(1, C, *N) -> (T, *N)."""
        own = asyncio.Future[Tensor]()
        self.waiting[own] = conditions, inputs
        try:
            async with self.lock:
                if not own.done():  # by the batch of another request
                    equal = {r: f for r, (c, f) in self.waiting.items() if c == conditions}
                    batch = [request for request in equal if not request.done()][: self.most]
                    samples = torch.cat([equal[request] for request in batch])
                    predictions = await self.run(lambda: conditions.predict(samples))
                    for request, prediction in zip(batch, predictions, strict=True):
                        request.set_result(prediction)
            return await own
        finally:  # also where the reader has left
            del self.waiting[own]

    async def run(self, function: Callable[[], Result]) -> Result:
        """Call another function in the same thread."""
        return await asyncio.get_running_loop().run_in_executor(self.thread, function)


class Solution(NamedTuple):
    """Frames (T, *N), the points of the solver per axis, and its seconds."""

    frames: NDArray[np.float32]
    points: tuple[int, ...]
    seconds: float


def reference_solution(
    problem: Problem, state: NDArray[np.float32], grid: Grid, times: Sequence[float] | None
) -> Solution:
    """The solution of a problem from a state (*N) on a grid, at the points of that grid.

    The solver works on a finer grid. A permeability is constant around each of its points there,
    and the pressure is interpolated by splines; an initial state is its Fourier series.
    """
    start, static = time.perf_counter(), isinstance(problem, DarcyProblem)
    limit = min(SOLVER_POINTS[grid.dim] * (2 if static else 1), problem.solver_points)
    factor = max(1, limit // max(grid.shape))
    points, values = tuple(factor * n for n in grid.shape), torch.tensor(state).double()
    if static:
        for axis in range(grid.dim):
            values = values.repeat_interleave(factor, dim=axis)
    else:
        values = resample(values, points)
    frames = problem.solve(values[None, None], times)[0].reshape(-1, *points)
    fine = Grid.cells(points)
    frames = interpolate(frames, fine, grid) if static else frames[grid.every(factor)]
    if not bool(frames.isfinite().all()):
        raise SolverError(0, "has no finite solution")
    return Solution(frames.float().numpy(), points, time.perf_counter() - start)


class Worker:
    """A process that computes one thing at a time, started when it is needed; others wait.

    A solver cannot be interrupted, but its process can be killed, which cancelling does.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds, self.waiting, self.lock = seconds, 0, asyncio.Lock()
        self.pool: ProcessPoolExecutor | None = None
        self.pid: int | None = None

    async def run(self, function: Callable[[], Result]) -> Result:
        """What a function returns that the process can import, or a partial one."""
        if self.waiting >= MOST_WAITING:
            raise Refused("too many solves are waiting: try again in a minute", 429)
        self.waiting += 1
        try:
            async with self.lock:
                return await self._run(function)
        finally:
            self.waiting -= 1

    async def _run(self, function: Callable[[], Result]) -> Result:
        call = asyncio.get_running_loop().run_in_executor
        try:
            async with asyncio.timeout(self.seconds):
                if self.pool is None:
                    context = multiprocessing.get_context("spawn")
                    self.pool = ProcessPoolExecutor(1, context, _start_process)
                self.pid = self.pid or await call(self.pool, os.getpid)
                return await call(self.pool, function)
        except (TimeoutError, BrokenProcessPool, asyncio.CancelledError) as error:
            self.end()
            if isinstance(error, asyncio.CancelledError):  # the reader has left
                raise
            reason = f"has no solution within {self.seconds:g} seconds and the memory there is"
            raise SolverError(0, reason) from error

    def end(self) -> None:
        """Kill the process, whatever it does."""
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        if self.pool is not None:
            self.pool.shutdown(wait=False, cancel_futures=True)
        self.pool = self.pid = None


def _start_process() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
