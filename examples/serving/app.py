"""The ASGI application: ``POST /predict`` takes a row and gives the model's result for it.

A body is an array as ``np.save`` writes it (``application/octet-stream``) or as JSON
(``application/json``); the answer is of the same kind. ``GET /health`` tells what was served.
"""

from __future__ import annotations

import io
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import numpy as np

from .batches import Array, Batches, Overloaded

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

JSON = b"application/json"
ARRAY = b"application/octet-stream"


class BadRequest(Exception):
    """The body is not a row for this model."""


class App:
    """Serves a function of float32 rows of one shape, by ASGI 3."""

    def __init__(self, batches: Batches, shape: tuple[int, ...]) -> None:
        self._batches = batches
        self._shape = shape
        self._longest = 64 * int(np.prod(shape)) + 4096
        """Bytes of a body: an element as JSON takes some 25."""

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            status, kind, body = await self._answer(scope, receive)
            headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        async with self._batches:
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Message, receive: Receive) -> tuple[int, bytes, bytes]:
        """Returns status, content type and body of the answer to a request."""
        match scope["method"], scope["path"]:
            case "GET", "/health":
                counts = {"calls": self._batches.calls, "rows": self._batches.rows}
                return 200, JSON, json.dumps(counts).encode()
            case "POST", "/predict":
                kind = dict(scope["headers"]).get(b"content-type", JSON).partition(b";")[0]
                try:
                    row = self._row(kind, await self._body(receive))
                    return 200, kind, _written(kind, await self._batches(row))
                except BadRequest as error:
                    return 400, JSON, json.dumps({"error": str(error)}).encode()
                except Overloaded:
                    return 503, JSON, json.dumps({"error": "too many requests wait"}).encode()
            case _:
                return 404, JSON, json.dumps({"error": "POST /predict or GET /health"}).encode()

    async def _body(self, receive: Receive) -> bytes:
        body = bytearray()
        while True:
            message = await receive()
            body += message.get("body", b"")
            if len(body) > self._longest:
                raise BadRequest(f"a body of more than {self._longest} bytes")
            if not message.get("more_body"):
                return bytes(body)

    def _row(self, kind: bytes, body: bytes) -> Array:
        """Returns the row in a body; one row must not make the batch that it joins fail."""
        if kind not in (JSON, ARRAY):
            raise BadRequest(f"a body is {JSON.decode()} or {ARRAY.decode()}")
        try:
            if kind == JSON:
                row = np.array(json.loads(body))
            else:
                row = np.load(io.BytesIO(body), allow_pickle=False)
        except (ValueError, EOFError, RecursionError, AttributeError) as error:
            raise BadRequest(f"no array: {error}") from None
        if row.dtype.kind not in "biuf" or row.shape != self._shape:
            raise BadRequest(f"a row is {self._shape} numbers, not {row.shape} of {row.dtype}")
        return row.astype(np.float32, copy=False)


def _written(kind: bytes, value: Array) -> bytes:
    if kind == JSON:
        return json.dumps(value.tolist()).encode()
    file = io.BytesIO()
    np.save(file, value)
    return file.getvalue()
