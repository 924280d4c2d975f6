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
from importlib import import_module, resources
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from pdno.errors import SolverError
from pdno.grid import Grid
from pdno.laboratory.catalogue import LARGEST, MOST_FRAMES, Catalogue, Entry, State
from pdno.laboratory.solver import Busy, Solver

MOST_BYTES = 4 * 2**20  # of a request
SECONDS_TO_SEND = 10.0
MOST_CONNECTIONS = 256
AT_ONCE = 20  # samples of one prediction
LARGEST_VALUE = 1e6
HOSTS = ["localhost", "127.0.0.1", "[::1]", "testserver"]
HEADERS = {
    "content-security-policy": "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; "
    "img-src 'self' data: blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

Number = Annotated[float, Field(ge=-LARGEST_VALUE, le=LARGEST_VALUE, allow_inf_nan=False)]
Moment = Annotated[float, Field(gt=0, le=1e4, allow_inf_nan=False)]
Key = Annotated[str, Field(min_length=1, max_length=300)]
Channel = Annotated[int, Field(ge=0, le=4096)]
Points = Annotated[int, Field(ge=4, le=max(LARGEST.values()))]


class Ask(BaseModel):
    """A state for an operator: float32 numbers, little-endian in base64, row by row."""

    model_config = ConfigDict(extra="forbid", strict=True)
    operator: Key
    shape: Annotated[list[Points], Field(min_length=1, max_length=3)]
    data: Annotated[str, Field(max_length=MOST_BYTES)]
    constants: Annotated[list[Number], Field(max_length=8)] = []
    frames: Annotated[int, Field(ge=1, le=MOST_FRAMES)] = 1
    times: Annotated[list[Moment], Field(max_length=MOST_FRAMES)] = []


class AskLayer(Ask):
    """The same, with a layer and a channel pair to look at."""

    layer: Channel = 0
    output: Channel = 0
    input: Channel = 0
    time: Moment | None = None


class Refused(ValueError):
    """A request that is understood and not done; becomes status 422, or another one."""

    def __init__(self, message: str, status: int = 422) -> None:
        super().__init__(message)
        self.status = status


class Guard:
    """Refuses what is too large, too slow or no JSON before the application sees it."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        body = b""
        if scope["method"] == "POST":
            kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
            if kind != b"application/json":
                await refuse(send, 415, "expected content of type application/json")
                return
            try:
                body = await asyncio.wait_for(read_body(receive), SECONDS_TO_SEND)
            except TimeoutError:
                await refuse(send, 408, f"expected the request within {SECONDS_TO_SEND:g} seconds")
                return
            except Refused as problem:
                await refuse(send, problem.status, str(problem))
                return
        sent = False

        async def replay() -> dict[str, Any]:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def with_headers(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message.get("headers", ()), *added]
            await send(message)

        await self.app(scope, replay, with_headers)


async def read_body(receive: Receive) -> bytes:
    """The body of a request, up to the limit."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused("the reader has left", 400)
        body += message.get("body", b"")
        if len(body) > MOST_BYTES:
            raise Refused(f"expected at most {MOST_BYTES:,} bytes", 413)
        if not message.get("more_body", False):
            return bytes(body)


async def refuse(send: Send, status: int, message: str) -> None:
    """Answer without the application; what was not read yet is not waited for."""
    content = b'{"detail":"' + message.encode() + b'"}'
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


class Batches:
    """Predictions, one after another in a thread; those that wait for it are made together."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self.at_once = at_once
        self.thread = ThreadPoolExecutor(1, "predictions")
        self.queue = list[tuple[Any, Tensor, asyncio.Future[Tensor]]]()
        self.running: asyncio.Task[None] | None = None

    async def predict(
        self, entry: Entry, inputs: Tensor, grid: Grid, times: list[float] | None
    ) -> Tensor:
        """(1, C, *N) -> (T, *N)."""
        future: asyncio.Future[Tensor] = asyncio.get_running_loop().create_future()
        self.queue.append(((entry, grid, tuple(times or ())), inputs, future))
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
            entry, grid, times = first
            inputs = torch.cat([one[1] for one in chosen])
            predict = functools.partial(entry.predict, inputs, grid, list(times) or None)
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
        if len(ask.constants) != entry.constants:
            raise Refused(f"{len(ask.constants)} constants; expected {entry.constants}")
        values = decode(ask.data, ask.shape)
        phases = entry.describe_input()["phases"]
        if phases and float(values.min()) <= 0:
            raise Refused("a permeability has to be positive everywhere")
        state = State(values, tuple(ask.constants), ask.frames, tuple(sorted(set(ask.times))))
        return entry, state, grid

    async def window(self, entry: Entry, state: State) -> Tensor | None:
        """The frames that an operator sees, made by the solver where it sees several."""
        if not entry.window:
            return None
        one_more = State(state.values, frames=1)
        frames, _ = await self.solve(entry, one_more)
        return torch.from_numpy(frames[: entry.window].copy())

    async def solve(self, entry: Entry, state: State) -> tuple[Any, dict[str, Any]]:
        """Frames of the solver from a state on."""
        if entry.problem is None or entry.constants:
            raise Refused("no solver is known for the data of this operator")
        told = {"kind": entry.problem.name, **entry.problem.model_dump(mode="json")}
        times = entry.solver_times(state)
        return await self.solver.solve(told, state.values.numpy(), times)

    async def predict(self, ask: Ask) -> dict[str, Any]:
        entry, state, grid = self.state(ask)
        inputs = entry.inputs_of(state, await self.window(entry, state))
        start = time.perf_counter()
        found = await self.batches.predict(entry, inputs, grid, entry.times_of(state))
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
        look = functools.partial(entry.look_inside, inputs, grid, ask.layer, pair, t)
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


def decode(data: str, shape: list[int]) -> Tensor:
    """The numbers of a request."""
    try:
        raw = base64.b64decode(data, validate=True)
    except ValueError as problem:
        raise Refused("data are not base64") from problem
    wanted = 4 * int(np.prod(shape))
    if len(raw) != wanted:
        raise Refused(f"{len(raw)} bytes of data; expected {wanted} for the shape {shape}")
    values = torch.from_numpy(np.frombuffer(raw, dtype="<f4").reshape(shape).astype(np.float32))
    if not bool(values.isfinite().all()) or float(values.abs().max()) > LARGEST_VALUE:
        raise Refused(f"data have to be finite, and at most {LARGEST_VALUE:g}")
    return values


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
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=HOSTS)
    app.add_middleware(Guard)
    descriptions = [entry.describe() for entry in catalogue.values()]
    add_routes(app, laboratory, descriptions, files)
    return app


def add_routes(
    app: Any, laboratory: Laboratory, descriptions: list[Any], files: dict[str, bytes]
) -> None:
    """The routes, and how refusals are told."""
    from fastapi import Request
    from fastapi.responses import JSONResponse, Response

    def told(status: int, message: str) -> Any:
        return JSONResponse({"detail": message}, status)

    app.add_exception_handler(Refused, lambda _, problem: told(problem.status, str(problem)))
    app.add_exception_handler(Busy, lambda _, problem: told(429, str(problem)))
    app.add_exception_handler(SolverError, lambda _, problem: told(422, str(problem)))

    @app.get("/api/operators")
    async def operators() -> Any:
        return {"backend": "server", "operators": descriptions}

    @app.post("/api/predict")
    async def predict(ask: Ask, request: Request) -> Any:
        return await while_listening(request, laboratory.predict(ask))

    @app.post("/api/truth")
    async def truth(ask: Ask, request: Request) -> Any:
        return await while_listening(request, laboratory.truth(ask))

    @app.post("/api/layer")
    async def layer(ask: AskLayer, request: Request) -> Any:
        return await while_listening(request, laboratory.layer(ask))

    @app.get("/api/certificate")
    async def certificate(operator: Key, layer: Channel) -> Any:
        return await laboratory.certificate(operator, layer)

    @app.get("/{name}")
    async def file(name: str) -> Any:
        if name not in files:
            return told(404, "there is no such page")
        return Response(files[name], media_type=TYPES[Path(name).suffix])

    @app.get("/")
    async def page() -> Any:
        return Response(files["index.html"], media_type="text/html")


def serve(runs: list[Path], *, port: int = 8000, host: Literal["127.0.0.1", "::1"]) -> None:
    """Serve the operators of run folders until interrupted."""
    uvicorn: Any = need("uvicorn")
    catalogue = Catalogue.of_runs(runs)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as listening:
        port = listening.getsockname()[1]
        place = f"[{host}]" if ":" in host else host
        print(f"{len(catalogue)} operators: http://{place}:{port}/", flush=True)
        server = uvicorn.Server(uvicorn.Config(make_app(catalogue), **server_settings()))
        server.run(sockets=[listening])


def server_settings() -> dict[str, Any]:
    """What every server of ours is told."""
    limits = {"limit_concurrency": MOST_CONNECTIONS, "timeout_keep_alive": 30}
    kind = {"http": protocol(), "ws": "none", "server_header": False}
    return limits | kind | {"log_level": "warning", "timeout_graceful_shutdown": 2}


def protocol() -> Any:
    """HTTP/1.1 that does not wait for ever for the head of a request."""
    h11, base = need("h11"), need("uvicorn.protocols.http.h11_impl").H11Protocol

    class Impatient(base):  # type: ignore[misc, valid-type]
        timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.timer = self.loop.call_later(SECONDS_TO_SEND, self.give_up)

        def connection_lost(self, problem: Exception | None) -> None:
            if self.timer is not None:
                self.timer.cancel()
            super().connection_lost(problem)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.timer is not None and self.conn.their_state is not h11.IDLE:
                self.timer.cancel()
                self.timer = None
            elif (
                self.timer is None
                and self.conn.their_state is h11.IDLE
                and self.conn.trailing_data[0]
            ):
                self.timer = self.loop.call_later(SECONDS_TO_SEND, self.give_up)

        def give_up(self) -> None:
            if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
                head = b"HTTP/1.1 408 Request Timeout\r\n"
                self.transport.write(head + b"connection: close\r\ncontent-length: 0\r\n\r\n")
                self.transport.close()

    return Impatient


def need(module: str) -> Any:
    """A module of the extra `serve`."""
    try:
        return import_module(module)
    except ImportError as problem:
        raise ValueError(
            f"the laboratory needs the package {module.split('.')[0]}: pip install 'pdno[serve]'"
        ) from problem
