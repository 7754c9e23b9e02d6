"""Clients for the server: each sends its next request when the last was answered."""

from __future__ import annotations

import asyncio
import io
import time
from dataclasses import dataclass

import numpy as np

from .app import ARRAY
from .batches import Array


@dataclass(frozen=True, slots=True)
class Load:
    """What clients saw: requests that were answered per second, and percentiles of seconds."""

    clients: int
    per_second: float
    median: float
    p99: float

    def __str__(self) -> str:
        return (
            f"{self.clients:4} clients {self.per_second:8.0f} requests/s   "
            f"median {1e3 * self.median:6.2f} ms   p99 {1e3 * self.p99:6.2f} ms"
        )


async def _client(port: int, body: bytes, until: float, seconds: list[float]) -> Array:
    """Sends the same row over one connection until ``until``; returns the last answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: {ARRAY.decode()}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    request = head.encode() + body
    while True:
        start = time.perf_counter()
        writer.write(request)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        size = int(answer.split(b"content-length:")[1].split(b"\r\n")[0])
        result = await reader.readexactly(size)
        seconds.append(time.perf_counter() - start)
        if not answer.startswith(b"http/1.1 200"):
            raise RuntimeError(f"{answer.decode()}{result.decode()}")
        if time.perf_counter() > until:
            writer.close()
            return np.load(io.BytesIO(result))


async def load(port: int, rows: Array, duration: float) -> tuple[Load, list[Array]]:
    """Sends each row of ``rows`` over and over from a client of its own, for ``duration`` seconds.

    Returns what the clients saw and the last answer to each row.
    """
    seconds: list[float] = []
    start = time.perf_counter()
    clients = []
    for row in rows:
        file = io.BytesIO()
        np.save(file, row)
        clients.append(_client(port, file.getvalue(), start + duration, seconds))
    answers = await asyncio.gather(*clients)
    median, p99 = np.percentile(seconds, (50, 99))
    rate = len(seconds) / (time.perf_counter() - start)
    return Load(len(rows), rate, float(median), float(p99)), list(answers)
