"""`pdno serve`: the laboratory on this machine, over HTTP.

The server listens on loopback, answers no other host name and no other page, and reads only JSON.
Every request is bounded: 4 MiB, 10 seconds to send it and to take the response, ranges of every
number, a list of grids. Equal requests are computed once, and nothing is computed for readers who
have left. No part of a request becomes a path.
"""

import asyncio
import os
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.parse import parse_qsl

import torch
import uvicorn
from pydantic import BaseModel, ValidationError
from torch import Tensor
from uvicorn.protocols.http.h11_impl import H11Protocol

from pdno.interface.errors import SolverError
from pdno.laboratory.catalogue import (
    MOST_BYTES,
    Index,
    Key,
    Moment,
    ServedOperator,
    State,
    StateRequest,
    certify_run,
    pack,
    serve_runs,
    to_json,
    view_layer,
)
from pdno.laboratory.computation import Batches, Refused, Solution, Worker, reference_solution
from pdno.laboratory.page import TYPES, page_files

HOST, NAMES = "127.0.0.1", ("127.0.0.1", "localhost")
MOST_CONNECTIONS = 512
MOST_SLOW = 32  # connections that may take their time, the latest ones
MOST_AT_WORK = 64  # different requests
MOST_READ = 8 * MOST_BYTES  # of a request that is too large, before it is refused
PART = 2**18  # bytes of a response that are sent at a time
SECONDS, SECONDS_OF_MANY = 10.0, 1.0  # to send a request, and to take the response
HEADERS = {
    "content-security-policy": "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; "
    "img-src 'self' data: blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
Request = tuple[str, str, bytes, bytes]  # method, path, query and body
Content = tuple[str, bytes]  # type and body of a response
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class LayerRequest(StateRequest):
    """A state, and a layer and a pair of channels to look at."""

    layer: Index = 0
    output: Index = 0
    input: Index = 0
    time: Moment | None = None


class Query(BaseModel, extra="forbid"):
    """A request without content."""


class CertificateRequest(Query):
    """A layer of an operator."""

    operator: Key
    layer: Index


class Laboratory:
    """The ASGI application: files of the page, and computations (`ROUTES`)."""

    def __init__(self, served: dict[str, ServedOperator], batches: Batches | None = None) -> None:
        self.served, self.batches = served, batches or Batches()
        self.solver, self.certifier = Worker(), Worker()
        self.files, self.certificates = page_files(), dict[tuple[str, int], object]()
        self.running, self.readers = dict[Request, asyncio.Task[Content]](), Counter[Request]()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        status, headers = 200, list[tuple[bytes, bytes]]()
        try:
            check_source(scope)
            body = await read_body(scope, receive)
            request = scope["method"], scope["path"], scope["query_string"], body
            kind, content = await self._share(request, receive)
        except (Refused, SolverError, ValidationError) as error:
            status, kind = getattr(error, "status", 422), "application/json"
            content = to_json({"detail": explain(error)})
            headers = [(b"connection", b"close")]  # what was not read yet is not waited for
        headers.append((b"content-type", kind.encode()))
        headers.append((b"content-length", b"%d" % len(content)))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for end in range(PART, len(content) + PART, PART):  # as fast as the reader takes them
            part, more = content[end - PART : end], end < len(content)
            await send({"type": "http.response.body", "body": part, "more_body": more})

    async def _live(self, receive: Receive, send: Send) -> None:
        """Start a process for solutions before the first one is wanted; end all processes."""
        await receive()
        start = asyncio.create_task(self.solver.run(os.getpid))
        await send({"type": "lifespan.startup.complete"})
        await receive()
        start.cancel()
        self.solver.end()
        self.certifier.end()
        await send({"type": "lifespan.shutdown.complete"})

    async def _share(self, request: Request, receive: Receive) -> Content:
        """What equal requests get, computed until the last of their readers has left."""
        if request not in self.running:
            if len(self.running) >= MOST_AT_WORK:
                raise Refused("too many requests at once: try again in a minute", 429)
            self.running[request] = asyncio.create_task(self._respond(*request))
        self.readers[request] += 1
        task, left = self.running[request], asyncio.create_task(wait_until_left(receive))
        try:
            await asyncio.wait((task, left), return_when=asyncio.FIRST_COMPLETED)
        finally:
            left.cancel()
            self.readers[request] -= 1
            if not self.readers[request]:
                del self.readers[request]
                self.running.pop(request).cancel()
        if not task.done():
            raise Refused("the reader has left", 400)
        return task.result()

    async def _respond(self, method: str, path: str, query: bytes, body: bytes) -> Content:
        file = path[1:] or "index.html"
        if method == "GET" and file in self.files:
            return TYPES[Path(file).suffix], self.files[file]
        if path not in ROUTES:
            raise Refused("there is no such page", 404)
        expected, model = ROUTES[path]
        if method != expected:
            raise Refused(f"expected {expected}", 405)
        values, read = dict(parse_qsl(query.decode("latin-1"))), model.model_validate_json
        request = read(body) if method == "POST" else model.model_validate(values)
        content = await getattr(self, path.removeprefix("/api/"))(request)
        return "application/json", to_json(content)

    async def operators(self, _: Query) -> object:
        """All operators."""
        return {"operators": [served.description for served in self.served.values()]}

    async def predict(self, request: StateRequest) -> object:
        """The prediction from a state, and its seconds."""
        state = State(self._served(request.operator), request)
        inputs, start = await self._inputs(state), perf_counter()
        prediction = await self.batches.predict(state.conditions(), inputs)
        return {**pack(prediction), "seconds": perf_counter() - start}

    async def truth(self, request: StateRequest) -> object:
        """The solution from a state, its seconds and the points of the solver."""
        state = State(self._served(request.operator), request)
        frames, points, seconds = await self._solution(state)
        solution = torch.from_numpy(frames[state.served.window :])
        return {**pack(solution), "seconds": seconds, "points": points}

    async def layer(self, request: LayerRequest) -> object:
        """A pair of channels of a layer in a prediction from a state."""
        state = State(self._served(request.operator), request)
        layer, pair = state.served.layer(request.layer), (request.output, request.input)
        outputs, inputs = layer.symbol.out_channels, layer.symbol.in_channels
        if pair[0] >= outputs or pair[1] >= inputs:
            raise Refused(f"pair {pair}; expected one of {outputs} outputs and {inputs} inputs")
        conditions = state.conditions(request.time or state.times[0])
        predict = partial(conditions.predict, await self._inputs(state))
        return await self.batches.run(partial(view_layer, layer, pair, predict))

    async def certificate(self, request: CertificateRequest) -> object:
        """The certificate of the symbol of a layer."""
        key, served = (request.operator, request.layer), self._served(request.operator)
        served.layer(request.layer)
        if key not in self.certificates:
            modules = {type(module).__module__ for module in served.operator.modules()}
            certify = partial(certify_run, served.run.folder, request.layer, sorted(modules))
            self.certificates[key] = await self.certifier.run(certify)
        return self.certificates[key]

    def _served(self, key: str) -> ServedOperator:
        if key not in self.served:
            raise Refused("no operator of this name is served", 404)
        return self.served[key]

    async def _solution(self, state: State) -> Solution:
        """Frames of the solver, those of the window first."""
        problem = state.served.problem
        if problem is None or state.served.channels:
            raise Refused("no solver is known for the data of this operator")
        member, times = problem.at(state.pde_parameters), state.solver_times(problem)
        values = state.values.numpy()
        return await self.solver.run(
            partial(reference_solution, member, values, state.grid, times)
        )

    async def _inputs(self, state: State) -> Tensor:
        """(1, C, *N), computed by the solver where the operator sees several frames."""
        if not state.served.window:
            return state.inputs()
        solution = await self._solution(state)
        return torch.from_numpy(solution.frames[: state.served.window])[None]


ROUTES: dict[str, tuple[str, type[BaseModel]]] = {
    "/api/operators": ("GET", Query),
    "/api/certificate": ("GET", CertificateRequest),
    "/api/predict": ("POST", StateRequest),
    "/api/truth": ("POST", StateRequest),
    "/api/layer": ("POST", LayerRequest),
}


def explain(error: Exception) -> str:
    """One sentence, without what was sent, which may be anything."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors()[0]
    field = ".".join(str(part)[:40] for part in first["loc"])
    return f"{field}: {first['msg']}" if field else first["msg"]


def check_source(scope: Message) -> None:
    """Refuse other host names, and requests of pages of other sites; a link may open the page."""
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    host, site = headers.get(b"host", ""), headers.get(b"sec-fetch-site", "none")
    if host.partition(":")[0] not in NAMES:
        raise Refused(f"expected the host {' or '.join(NAMES)}", 400)
    opened = scope["path"] == "/" and headers.get(b"sec-fetch-mode") == "navigate"
    own = site in ("none", "same-origin") or opened
    if not own or headers.get(b"origin", f"http://{host}") != f"http://{host}":
        raise Refused("requests of other pages are refused", 403)


async def read_body(scope: Message, receive: Receive) -> bytes:
    """The body of a request.

    A larger one is read for a while before it is refused: the response would be lost otherwise.
    """
    headers = dict(scope["headers"])
    kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
    if scope["method"] == "POST" and kind != b"application/json":
        raise Refused("expected content of type application/json", 415)
    body, size, more = bytearray(), 0, True
    while more and size < MOST_READ:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused("the reader has left", 400)
        part = message.get("body", b"")
        size, more = size + len(part), message.get("more_body", False)
        body += part if size <= MOST_BYTES else b""
    if size > MOST_BYTES:
        raise Refused(f"expected at most {MOST_BYTES:,} bytes", 413)
    return bytes(body)


async def wait_until_left(receive: Receive) -> None:
    """Return when the reader has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


class PatientProtocol(H11Protocol):
    """HTTP/1.1 with time limits for sending and receiving."""

    since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.since = self.loop.time()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.waits():
            self.since = self.loop.time()

    def send_400_response(self, msg: str) -> None:
        self.refuse("400 Bad Request")

    def waits(self) -> bool:
        """Whether a request is not complete, or a response not taken."""
        cycle, taken = self.cycle, not self.flow.write_paused
        return not taken or cycle is None or cycle.more_body or cycle.response_complete

    def refuse(self, status: str = "408 Request Timeout") -> None:
        """End the connection, with a response where none has begun."""
        fields = {**HEADERS, "connection": "close", "content-length": "0"}
        lines = [f"HTTP/1.1 {status}", *(f"{name}: {text}" for name, text in fields.items())]
        if self.cycle is None or not self.cycle.response_started:
            self.transport.write("\r\n".join([*lines, "", ""]).encode())
            self.transport.close()
        else:
            self.transport.abort()


class PatientServer(uvicorn.Server):
    """A server that waits a limited time for each client, and long for a few of them only."""

    async def on_tick(self, counter: int) -> bool:
        """Look at all connections, ten times a second."""
        now, waiting = asyncio.get_running_loop().time(), list[PatientProtocol]()
        for connection in self.server_state.connections:
            assert isinstance(connection, PatientProtocol)
            if connection.waits():
                waiting.append(connection)
            else:
                connection.since = now
        waiting.sort(key=lambda connection: -connection.since)
        for position, connection in enumerate(waiting):
            seconds = SECONDS if position < MOST_SLOW else SECONDS_OF_MANY
            if now - connection.since > seconds:
                connection.refuse()
        return await super().on_tick(counter)


def make_server(app: Laboratory) -> uvicorn.Server:
    """A server of the application with limits for connections."""
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        server_header=False,
        headers=list(HEADERS.items()),
        log_level="warning",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=2,
    )
    return PatientServer(config)


def serve(runs: list[Path], *, port: int = 8000) -> None:
    """Serve the operators of run folders until interrupted; port 0 takes a free one."""
    if not 0 <= port <= 65535:
        raise ValueError(f"port is {port}; expected 1 to 65535, or 0 for a free one")
    app = Laboratory(serve_runs(runs))
    with socket.create_server((HOST, port)) as listening:
        print(f"laboratory: http://{HOST}:{listening.getsockname()[1]}/", flush=True)
        make_server(app).run(sockets=[listening])
