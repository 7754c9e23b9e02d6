"""``loopwright runner``: this machine measures for tuners that have the key.

A connection has a thread, which answers one request after the other::

    {"ask": "machine"}                       what this machine is (``station.machine_there``)
    {"ask": "measure", "request": {...}}     records (``station.measure_there``)

The answer is ``{"answer": text}``, or ``{"error": text}``. Connections that do not prove the key
are closed after seconds, and there are so many of them at most; none of what they send is parsed.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .station import STATION, machine_there, measure_there
from .wire import Wire, WireError

MOST_CONNECTIONS = 64
"""Connections at a time; more are closed at once."""
SILENT_SECONDS = 600.0
"""A connection without a request for so long is closed."""
SEND_SECONDS = 30.0
WAIT_SECONDS = 0.5


class Service:
    """Listens at an address, and answers until ``close``."""

    def __init__(self, host: str, port: int, key: bytes, say: Callable[[str], None]) -> None:
        """Begins to listen; raises OSError if it cannot. ``say`` is told what happens."""
        self._socket = socket.create_server((host, port), backlog=MOST_CONNECTIONS)
        self._socket.settimeout(WAIT_SECONDS)
        self._key, self._say = key, say
        self._free = threading.Semaphore(MOST_CONNECTIONS)
        self._closed = threading.Event()

    @property
    def port(self) -> int:
        """The port, which the system chooses for 0."""
        return self._socket.getsockname()[1]

    def run(self) -> None:
        """Answers until ``close`` is called."""
        while not self._closed.is_set():
            try:
                connection, address = self._socket.accept()
            except TimeoutError:
                continue
            except OSError:
                break
            if not self._free.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(
                target=self._serve, args=(connection, f"{address[0]}:{address[1]}"), daemon=True
            ).start()

    def close(self) -> None:
        """Ends listening and measuring."""
        self._closed.set()
        self._socket.close()
        STATION.close()

    def _serve(self, connection: socket.socket, name: str) -> None:
        try:
            wire = Wire(connection, self._key, server=True)
            self._say(f"{name} measures here")
            while not self._closed.is_set():
                request = wire.receive(SILENT_SECONDS)
                wire.send(json.dumps(_answered(request)), SEND_SECONDS)
        except WireError as error:
            self._say(f"{name}: {error}")
        finally:
            with suppress(OSError):
                connection.close()
            self._free.release()


def _answered(text: str) -> dict[str, Any]:
    """Returns the answer to a message, or what is wrong with it."""
    try:
        message = json.loads(text)
        if message["ask"] == "machine":
            return {"answer": machine_there()}
        if message["ask"] == "measure":
            return {"answer": measure_there(json.dumps(message["request"]))}
        return {"error": f"{message['ask']!r} is not known"}
    except Exception as error:  # whatever somebody with the key sends, others go on
        return {"error": f"{type(error).__name__}: {error}"[:1000]}
