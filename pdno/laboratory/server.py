"""`pdno serve`: the laboratory on this machine, over HTTP.

What a request may do is bounded: 4 MiB, 10 seconds to send it, sizes and ranges of every number,
20 samples of a batch, one solve at a time that ends when the reader leaves. The server listens on
loopback and answers to no other name, and only JSON. Files are in memory before the first request:
no word of a request becomes a path.

Predictions that come while another is made wait for it and are made together (`Batches`).
"""

__all__ = ["make_app", "serve"]

import asyncio
import base64
import functools
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pdno.interface.errors import SolverError
from pdno.laboratory.catalogue import Catalogue, Entry, State
from pdno.laboratory.limits import (
    Ask,
    AskLayer,
    Channel,
    Guard,
    Key,
    Refused,
    decode,
    need,
    protocol,
)
from pdno.laboratory.solver import Busy, Solver
from pdno.spectral.grid import Grid

MOST_CONNECTIONS = 256
AT_ONCE = 20  # samples of one prediction
HOST = "127.0.0.1"
TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


class Batches:
    """Predictions, one after another in a thread; those that wait for it are made together."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self.at_once = at_once
        self.thread = ThreadPoolExecutor(1, "predictions")
        self.queue = list[tuple[Any, Tensor, asyncio.Future[Tensor]]]()
        self.running: asyncio.Task[None] | None = None

    async def predict(
        self,
        entry: Entry,
        inputs: Tensor,
        grid: Grid,
        times: list[float] | None,
        pde_parameters: dict[str, float] | None = None,
    ) -> Tensor:
        """(1, C, *N) -> (T, *N)."""
        future: asyncio.Future[Tensor] = asyncio.get_running_loop().create_future()
        same = (entry, grid, tuple(times or ()), tuple((pde_parameters or {}).items()))
        self.queue.append((same, inputs, future))
        if self.running is None or self.running.done():
            self.running = asyncio.create_task(self._run())
        return await future

    async def run(self, function: Callable[[], Any]) -> Any:
        """Something else in the same thread."""
        return await asyncio.get_running_loop().run_in_executor(self.thread, function)

    async def _run(self) -> None:
        while self.queue:
            first = self.queue[0][0]
            same = [one for one in self.queue if one[0] == first and not one[2].done()]
            chosen = same[: self.at_once]
            taken = {id(one) for one in chosen}
            self.queue = [one for one in self.queue if id(one) not in taken and not one[2].done()]
            if not chosen:
                continue
            entry, grid, times, numbers = first
            inputs, given = torch.cat([one[1] for one in chosen]), [grid, list(times) or None]
            given += [dict(numbers)] if numbers else []
            predict = functools.partial(entry.predict, inputs, *given)
            try:
                found = await self.run(predict)
            except Exception as problem:
                for one in chosen:
                    if not one[2].done():
                        one[2].set_exception(problem)
                continue
            for place, one in enumerate(chosen):
                if not one[2].done():
                    one[2].set_result(found[place])


class Laboratory:
    """What the routes do."""

    def __init__(self, catalogue: Catalogue, batches: Batches, solver: Solver) -> None:
        self.catalogue, self.batches, self.solver = catalogue, batches, solver
        self.certificates: dict[tuple[str, int], dict[str, Any]] = {}

    def entry(self, key: str) -> Entry:
        """An operator by its key."""
        if key not in self.catalogue:
            raise Refused("no operator of this name is served", 404)
        return self.catalogue[key]

    def state(self, ask: Ask) -> tuple[Entry, State, Grid]:
        """The operator and the state of a request, checked."""
        entry = self.entry(ask.operator)
        if len(ask.shape) != entry.grid.dim:
            raise Refused(f"shape {ask.shape}; expected {entry.grid.dim} axes")
        grid = entry.grid_at(max(ask.shape))
        if list(grid.shape) != ask.shape or max(ask.shape) not in entry.resolutions():
            raise Refused(f"shape {ask.shape}; expected one of {entry.resolutions()} points")
        wanted = entry.constants + len(entry.pde_parameters)
        if len(ask.constants) != wanted:
            raise Refused(f"{len(ask.constants)} constants; expected {wanted}")
        values = decode(ask.data, ask.shape)
        phases = entry.describe_input()["phases"]
        if phases and float(values.min()) <= 0:
            raise Refused("a permeability has to be positive everywhere")
        state = State(values, tuple(ask.constants), ask.frames, tuple(sorted(set(ask.times))))
        try:
            entry.scalars_of(state)
        except ValueError as problem:
            raise Refused(str(problem)) from problem
        return entry, state, grid

    async def window(self, entry: Entry, state: State) -> Tensor | None:
        """The frames that an operator sees, made by the solver where it sees several."""
        if not entry.window:
            return None
        one_more = State(state.values, state.constants, frames=1)
        frames, _ = await self.solve(entry, one_more)
        return torch.from_numpy(frames[: entry.window].copy())

    async def solve(self, entry: Entry, state: State) -> tuple[Any, dict[str, Any]]:
        """Frames of the solver from a state on."""
        if entry.problem is None or entry.constants:
            raise Refused("no solver is known for the data of this operator")
        problem = entry.problem.at(entry.scalars_of(state))
        told = {"kind": problem.name, **problem.model_dump(mode="json")}
        times = entry.solver_times(state)
        offset = entry.grid_at(max(state.values.shape)).offset
        return await self.solver.solve(told, state.values.numpy(), times, offset)

    async def predict(self, ask: Ask) -> dict[str, Any]:
        entry, state, grid = self.state(ask)
        inputs = entry.inputs_of(state, await self.window(entry, state))
        start = time.perf_counter()
        times, pde_parameters = entry.times_of(state), entry.scalars_of(state)
        found = await self.batches.predict(entry, inputs, grid, times, pde_parameters)
        return encode(found) | {"seconds": time.perf_counter() - start}

    async def truth(self, ask: Ask) -> dict[str, Any]:
        entry, state, _ = self.state(ask)
        frames, told = await self.solve(entry, state)
        wanted = torch.from_numpy(frames[entry.window :].copy())
        return encode(wanted) | {"seconds": told["seconds"], "points": told["points"]}

    async def layer(self, ask: AskLayer) -> dict[str, Any]:
        entry, state, grid = self.state(ask)
        layers = entry.operators
        if not layers:
            raise Refused("this operator has no symbol to look at")
        if ask.layer >= len(layers):
            raise Refused(f"layer {ask.layer}; expected 0 to {len(layers) - 1}")
        symbol = layers[ask.layer].symbol
        if ask.output >= symbol.out_channels or ask.input >= symbol.in_channels:
            sizes = f"{symbol.out_channels} outputs and {symbol.in_channels} inputs"
            raise Refused(f"pair ({ask.output}, {ask.input}); expected one of {sizes}")
        inputs = entry.inputs_of(state, await self.window(entry, state))
        pair = (ask.output, ask.input)
        t = ask.time or (entry.sampling.times or (1.0,))[0]
        at = (t, entry.scalars_of(state))
        look = functools.partial(entry.look_inside, inputs, grid, ask.layer, pair, at)
        found = await self.batches.run(look)
        return {name: value if value is None else encode(value) for name, value in found.items()}

    async def certificate(self, key: str, layer: int) -> dict[str, Any]:
        entry = self.entry(key)
        if not 0 <= layer < len(entry.operators):
            raise Refused(f"layer {layer}; expected 0 to {len(entry.operators) - 1}")
        if (key, layer) not in self.certificates:
            judge = functools.partial(entry.certificate, layer)
            self.certificates[key, layer] = await asyncio.to_thread(judge)
        return self.certificates[key, layer]


def encode(values: Tensor) -> dict[str, Any]:
    """Numbers for an answer, as those of a request."""
    raw = values.float().contiguous().numpy().astype("<f4").tobytes()
    return {"shape": list(values.shape), "data": base64.b64encode(raw).decode()}


async def while_listening(request: Any, work: Awaitable[Any]) -> Any:
    """Do the work, or give it up when the reader leaves."""

    async def leave() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    tasks = asyncio.ensure_future(work), asyncio.ensure_future(leave())
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done():
            return tasks[0].result()
        raise Refused("the reader has left", 499)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def page_files() -> dict[str, bytes]:
    """The page, by the names of its files."""
    home = resources.files("pdno.laboratory") / "web"
    names = [one.name for one in home.iterdir() if Path(one.name).suffix in TYPES]
    return {name: (home / name).read_bytes() for name in names}


def make_app(catalogue: Catalogue, *, at_once: int = AT_ONCE) -> Any:
    """The application; `at_once` 1 makes every prediction alone."""
    fastapi: Any = need("fastapi")
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    solver, files = Solver(), page_files()
    laboratory = Laboratory(catalogue, Batches(at_once), solver)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        yield
        await solver.end()

    app = fastapi.FastAPI(
        title="pdno laboratory", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None
    )
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])
    app.add_middleware(Guard)
    add_refusals(app)
    add_routes(app, laboratory, [entry.describe() for entry in catalogue.values()])
    add_page(app, files)
    return app


def add_routes(app: Any, laboratory: Laboratory, descriptions: list[Any]) -> None:
    """What the page asks for."""
    from fastapi import Request

    async def operators() -> Any:
        return {"backend": "server", "operators": descriptions}

    async def predict(ask: Ask, request: Request) -> Any:
        return await while_listening(request, laboratory.predict(ask))

    async def truth(ask: Ask, request: Request) -> Any:
        return await while_listening(request, laboratory.truth(ask))

    async def layer(ask: AskLayer, request: Request) -> Any:
        return await while_listening(request, laboratory.layer(ask))

    async def certificate(operator: Key, layer: Channel) -> Any:
        return await laboratory.certificate(operator, layer)

    app.add_api_route("/api/operators", operators)
    app.add_api_route("/api/certificate", certificate)
    answers: list[Any] = [predict, truth, layer]
    for answer in answers:
        app.add_api_route(f"/api/{answer.__name__}", answer, methods=["POST"])


def add_page(app: Any, files: dict[str, bytes]) -> None:
    """The files of the page, from memory."""
    from fastapi.responses import JSONResponse, Response

    async def page() -> Any:
        return Response(files["index.html"], media_type="text/html")

    async def file(name: str) -> Any:
        if name not in files:
            return JSONResponse({"detail": "there is no such page"}, 404)
        return Response(files[name], media_type=TYPES[Path(name).suffix])

    app.add_api_route("/", page)
    app.add_api_route("/{name}", file)


def add_refusals(app: Any) -> None:
    """How refusals are told: one sentence, and nothing of what was sent, which may be anything."""
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse

    def unreadable(_: Any, problem: Any) -> Any:
        first = problem.errors()[0]
        place = ".".join(str(part)[:40] for part in first["loc"][1:])
        message = f"{place}: {first['msg']}" if place else str(first["msg"])
        return JSONResponse({"detail": message}, 422)

    def refused(_: Any, problem: Exception) -> Any:
        status = 429 if isinstance(problem, Busy) else getattr(problem, "status", 422)
        return JSONResponse({"detail": str(problem)}, status)

    app.add_exception_handler(RequestValidationError, unreadable)
    for kind in (Refused, Busy, SolverError):
        app.add_exception_handler(kind, refused)


def serve(runs: list[Path], *, port: int = 8000) -> None:
    """Serve the operators of run folders until interrupted; port 0 takes a free one."""
    uvicorn: Any = need("uvicorn")
    app = make_app(Catalogue.of_runs(runs))
    with socket.create_server((HOST, port)) as listening:
        print(f"laboratory: http://{HOST}:{listening.getsockname()[1]}/", flush=True)
        uvicorn.Server(uvicorn.Config(app, **server_settings())).run(sockets=[listening])


def server_settings() -> dict[str, Any]:
    """What every server of ours is told."""
    limits = {"limit_concurrency": MOST_CONNECTIONS, "timeout_keep_alive": 30}
    kind = {"http": protocol(), "ws": "none", "server_header": False}
    return limits | kind | {"log_level": "warning", "timeout_graceful_shutdown": 2}
