"""`pdno serve`: the laboratory on this machine, over HTTP.

The server listens on loopback, responds to no other host name, and reads only JSON. Every request
is bounded: 4 MiB, 10 seconds to send it, ranges of every number, a list of grids, one solution at
a time that ends when the reader leaves. No part of a request becomes a path.
"""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import h11
import torch
import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.middleware.trustedhost import TrustedHostMiddleware
from torch import Tensor
from uvicorn.protocols.http.h11_impl import H11Protocol

from pdno.interface.errors import SolverError
from pdno.laboratory.catalogue import (
    MOST_BYTES,
    Array,
    Index,
    Key,
    LayerView,
    Moment,
    Refused,
    ServedOperator,
    State,
    StateRequest,
    serve_runs,
    view_layer,
)
from pdno.laboratory.computation import Batches, Busy, Solution, SolverProcess
from pdno.laboratory.page import TYPES, page_files
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.theory.certificate import Certificate

HOST = "127.0.0.1"
MOST_CONNECTIONS = 256
MOST_READ = 8 * MOST_BYTES  # of a request that is too large, before it is refused
SECONDS_TO_SEND = 10.0
HEADERS = {
    "content-security-policy": "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; "
    "img-src 'self' data: blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class LayerRequest(StateRequest):
    """A state, and a layer and a pair of channels to look at."""

    layer: Index = 0
    output: Index = 0
    input: Index = 0
    time: Moment | None = None


class Frames(Array):
    """Frames (T, *N) and the seconds they took; of a solution also the points of the solver."""

    seconds: float
    points: tuple[int, ...] | None = None


class Laboratory:
    """The routes."""

    def __init__(self, served: dict[str, ServedOperator], batches: Batches) -> None:
        self.served, self.batches, self.solver = served, batches, SolverProcess()
        self.certificates = dict[tuple[str, int], Certificate]()

    async def operators(self) -> dict[str, list[ServedOperator]]:
        """All operators."""
        return {"operators": list(self.served.values())}

    async def predict(self, request: StateRequest) -> Frames:
        """The prediction from a state."""
        state = State(self._served(request.operator), request)
        inputs, start = await self._inputs(state), time.perf_counter()
        prediction = await self.batches.predict(state.conditions(), inputs)
        return Frames.of(prediction, seconds=time.perf_counter() - start)

    async def truth(self, request: StateRequest) -> Frames:
        """The solution from a state."""
        state = State(self._served(request.operator), request)
        solution = await self._solution(state)
        frames = torch.from_numpy(solution.frames[state.served.window :])
        return Frames.of(frames, seconds=solution.seconds, points=solution.points)

    async def layer(self, request: LayerRequest) -> LayerView:
        """A pair of channels of a layer in a prediction from a state."""
        state = State(self._served(request.operator), request)
        layer, pair = self._layer(request.operator, request.layer), (request.output, request.input)
        outputs, inputs = layer.symbol.out_channels, layer.symbol.in_channels
        if pair[0] >= outputs or pair[1] >= inputs:
            raise Refused(f"pair {pair}; expected one of {outputs} outputs and {inputs} inputs")
        conditions = state.conditions(request.time or state.times[0])
        predict = partial(conditions.predict, await self._inputs(state))
        return await self.batches.run(partial(view_layer, layer, pair, predict))

    async def certificate(self, operator: Key, layer: Index) -> Certificate:
        """The certificate of the symbol of a layer."""
        self._layer(operator, layer)
        if (operator, layer) not in self.certificates:
            certificate = await asyncio.to_thread(self.served[operator].certify, layer)
            self.certificates[operator, layer] = certificate
        return self.certificates[operator, layer]

    def _served(self, key: str) -> ServedOperator:
        if key not in self.served:
            raise Refused("no operator of this name is served", 404)
        return self.served[key]

    def _layer(self, key: str, number: int) -> PseudoDifferentialOperator:
        layers = self._served(key).operator.operators
        if number >= len(layers):
            raise Refused(f"layer {number} of an operator with {len(layers)} layers")
        return layers[number]

    async def _solution(self, state: State) -> Solution:
        """Frames of the solver, those of the window first."""
        problem = state.served.problem
        if problem is None or state.served.channels:
            raise Refused("no solver is known for the data of this operator")
        member, times = problem.at(state.pde_parameters), state.solver_times(problem)
        return await self.solver.solution(member, state.values, state.grid, times)

    async def _inputs(self, state: State) -> Tensor:
        """(1, C, *N), computed by the solver where the operator sees several frames."""
        if not state.served.window:
            return state.inputs()
        solution = await self._solution(state)
        return torch.from_numpy(solution.frames[: state.served.window])[None]


def make_app(served: dict[str, ServedOperator], batches: Batches | None = None) -> FastAPI:
    """The application, with all files of the page in memory."""
    laboratory, files = Laboratory(served, batches or Batches()), page_files()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        laboratory.solver.end()

    async def file(name: str = "index.html") -> Response:
        if name not in files:
            raise HTTPException(404, "there is no such page")
        return Response(files[name], media_type=TYPES[Path(name).suffix])

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])
    app.add_middleware(Guard)
    for kind in (RequestValidationError, Refused, Busy, SolverError):
        app.add_exception_handler(kind, respond_to_error)
    for read in (laboratory.operators, laboratory.certificate):
        app.add_api_route(f"/api/{read.__name__}", read)
    for compute in (laboratory.predict, laboratory.truth, laboratory.layer):
        app.add_api_route(f"/api/{compute.__name__}", compute, methods=["POST"])
    for path in ("/", "/{name}"):
        app.add_api_route(path, file, response_model=None)
    return app


async def respond_to_error(_: Request, error: Exception) -> JSONResponse:
    """One sentence, without what was sent, which may be anything."""
    message, status = str(error), 429 if isinstance(error, Busy) else 422
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        field = ".".join(str(part)[:40] for part in first["loc"][1:])
        message = f"{field}: {first['msg']}" if field else str(first["msg"])
    return JSONResponse({"detail": message}, getattr(error, "status", status))


class Guard:
    """The outermost layer: refuses what is too large, too slow or no JSON.

    It reads the whole request, and cancels the application when the reader leaves.
    """

    def __init__(self, app: Callable[[Message, Receive, Send], Awaitable[None]]) -> None:
        self.app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message.get("headers", ()), *added]
            await send(message)

        try:
            body = await read_body(scope, receive) if scope["method"] == "POST" else b""
        except Refused as error:  # without waiting for what was not read yet
            headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
            start = {"type": "http.response.start", "status": error.status, "headers": headers}
            await send_with_headers(start)
            detail = json.dumps({"detail": str(error)}).encode()
            await send({"type": "http.response.body", "body": detail})
            return

        async def replay() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def leave() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        response = asyncio.ensure_future(self.app(scope, replay, send_with_headers))
        tasks = response, asyncio.ensure_future(leave())
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if not response.cancelled():
            response.result()


async def read_body(scope: Message, receive: Receive) -> bytes:
    """The body of a request.

    A larger one is read for a while before it is refused: the response would be lost otherwise.
    """
    headers = {name.lower(): value for name, value in scope["headers"]}
    if headers.get(b"content-type", b"").split(b";")[0].strip().lower() != b"application/json":
        raise Refused("expected content of type application/json", 415)
    body, size, more = bytearray(), 0, True
    try:
        async with asyncio.timeout(SECONDS_TO_SEND):
            while more and size < MOST_READ:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refused("the reader has left", 400)
                part = message.get("body", b"")
                size, more = size + len(part), message.get("more_body", False)
                body += part if size <= MOST_BYTES else b""
    except TimeoutError as error:
        raise Refused(f"expected the request within {SECONDS_TO_SEND:g} seconds", 408) from error
    if size > MOST_BYTES:
        raise Refused(f"expected at most {MOST_BYTES:,} bytes", 413)
    return bytes(body)


class PatientProtocol(H11Protocol):
    """HTTP/1.1 with a time limit for the head of a request."""

    timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._limit(incomplete=True)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        waiting = self.conn.their_state is h11.IDLE
        self._limit(incomplete=waiting and bool(self.conn.trailing_data[0]))

    def _limit(self, *, incomplete: bool) -> None:
        if incomplete and self.timer is None:
            self.timer = self.loop.call_later(SECONDS_TO_SEND, self._give_up)
        elif not incomplete and self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            head = b"HTTP/1.1 408 Request Timeout\r\n"
            self.transport.write(head + b"connection: close\r\ncontent-length: 0\r\n\r\n")
            self.transport.close()


def make_server(app: FastAPI) -> uvicorn.Server:
    """A server of the application with limits for connections."""
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        server_header=False,
        log_level="warning",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=2,
    )
    return uvicorn.Server(config)


def serve(runs: list[Path], *, port: int = 8000) -> None:
    """Serve the operators of run folders until interrupted; port 0 takes a free one."""
    app = make_app(serve_runs(runs))
    with socket.create_server((HOST, port)) as listening:
        print(f"laboratory: http://{HOST}:{listening.getsockname()[1]}/", flush=True)
        make_server(app).run(sockets=[listening])
