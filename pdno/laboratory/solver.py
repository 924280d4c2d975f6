"""A process of its own that solves: `python -m pdno.laboratory.solver`.

It reads requests and writes answers on its standard input and output until it is ended: a line of
JSON with the number of bytes that follow, then float32 numbers. A solve cannot be interrupted, but
its process can: `Solver.solve` ends it when the one who asked leaves, and the next begins a new
one.
"""

__all__ = ["Busy", "Solver"]

import asyncio
import json
import sys
import time
from typing import Any

import numpy as np
import torch

from pdno.data.problems import PROBLEMS
from pdno.interface.errors import SolverError
from pdno.laboratory.catalogue import solve
from pdno.spectral.grid import Grid

SECONDS = 120.0  # of one solve
MOST_WAITING = 16
Array = np.ndarray[Any, Any]


class Busy(RuntimeError):
    """Too many solves are waiting."""


class Solver:
    """A solving process, begun when it is needed; one solve at a time, the others wait."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds, self.waiting, self.lock = seconds, 0, asyncio.Lock()
        self.process: asyncio.subprocess.Process | None = None

    async def solve(
        self, problem: dict[str, Any], state: Array, times: list[float] | None, offset: float = 0.0
    ) -> tuple[Array, dict[str, Any]]:
        """The frames (T, *N) and what the solver says; cancelling this ends the process.

        `offset` is that of the grid of the state.
        """
        if self.waiting >= MOST_WAITING:
            raise Busy("too many solves are waiting: try again in a minute")
        self.waiting += 1
        try:
            async with self.lock:
                request: dict[str, Any] = {"problem": problem, "times": times, "offset": offset}
                request |= {"shape": list(state.shape)}
                return await asyncio.wait_for(self._ask(request, state), self.seconds)
        except TimeoutError as problem_:
            raise SolverError(0, f"took more than {self.seconds:g} seconds") from problem_
        finally:
            self.waiting -= 1

    async def _ask(self, request: dict[str, Any], state: Array) -> tuple[Array, dict[str, Any]]:
        try:
            process = await self._begin()
            assert process.stdin is not None and process.stdout is not None
            content = state.astype("<f4").tobytes()
            head = json.dumps(request | {"bytes": len(content)}).encode() + b"\n"
            process.stdin.write(head + content)
            await process.stdin.drain()
            answer = json.loads(await process.stdout.readline() or b"{}")
            if "shape" not in answer:
                raise SolverError(0, str(answer.get("error", "was given up: the process ended")))
            raw = await process.stdout.readexactly(answer["bytes"])
            return np.frombuffer(raw, dtype="<f4").reshape(answer["shape"]), answer
        except SolverError:
            raise
        except BaseException:  # also when the one who asked has left
            await self.end()
            raise

    async def _begin(self) -> asyncio.subprocess.Process:
        if self.process is None or self.process.returncode is not None:
            pipe = asyncio.subprocess.PIPE
            command = (sys.executable, "-m", "pdno.laboratory.solver")
            self.process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        return self.process

    async def end(self) -> None:
        """End the process, whatever it does."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        self.process = None


def answer(request: dict[str, Any], content: bytes) -> tuple[dict[str, Any], bytes]:
    """One solve: what is said of it, and its numbers."""
    start = time.perf_counter()
    state = torch.from_numpy(np.frombuffer(content, dtype="<f4").reshape(request["shape"]).copy())
    try:
        options = dict(request["problem"])
        problem = PROBLEMS[options.pop("kind")](**options)
        grid = Grid(tuple(state.shape), problem.periodic, request["offset"])
        frames, points = solve(problem, state, grid, request["times"])
        if not bool(frames.isfinite().all()):
            raise SolverError(0, "has no finite solution")
    except (ValueError, SolverError) as cause:
        return {"error": str(cause)}, b""
    raw = frames.float().numpy().astype("<f4").tobytes()
    told = {"shape": list(frames.shape), "bytes": len(raw), "points": list(points)}
    return told | {"seconds": time.perf_counter() - start}, raw


def main() -> None:
    """Answer until the input ends."""
    torch.set_num_threads(1)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while line := source.readline():
        request = json.loads(line)
        told, raw = answer(request, source.read(request["bytes"]))
        sink.write(json.dumps(told).encode() + b"\n" + raw)
        sink.flush()


if __name__ == "__main__":
    main()
