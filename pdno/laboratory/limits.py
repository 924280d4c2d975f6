"""What a request may do: how large it is, how long it takes, which numbers it may hold.

`Guard` refuses what is too large, too slow or no JSON before the application sees it, `protocol`
what does not even end its head; `Ask` and `decode` check the rest.
"""

__all__ = ["Ask", "AskLayer", "Guard", "Refused", "decode", "need", "protocol"]

import asyncio
import base64
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from pdno.laboratory.catalogue import LARGEST, MOST_FRAMES

MOST_BYTES = 4 * 2**20  # of a request
SECONDS_TO_SEND = 10.0
PATIENCE = 8  # times that size, which is heard before it is refused
LARGEST_VALUE = 1e6
HEADERS = {
    "content-security-policy": "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; "
    "img-src 'self' data: blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
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
    """The body of a request, up to the limit.

    A reader who sends more is heard for a while, else the answer would be lost on the way.
    """
    body, size, more = bytearray(), 0, True
    while more and size < PATIENCE * MOST_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused("the reader has left", 400)
        part = message.get("body", b"")
        size, more = size + len(part), message.get("more_body", False)
        if size <= MOST_BYTES:
            body += part
    if size > MOST_BYTES:
        raise Refused(f"expected at most {MOST_BYTES:,} bytes", 413)
    return bytes(body)


async def refuse(send: Send, status: int, message: str) -> None:
    """Answer without the application; what was not read yet is not waited for."""
    content = b'{"detail":"' + message.encode() + b'"}'
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


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
