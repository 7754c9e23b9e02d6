"""Machines that ``loopwright runner`` serves, as hosts that measure: ``tcp://host:port,...``."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from ...settings import TuneSettings
from ...task import Task
from .remote import Answer, Machine, RemoteMeasurer, RunnerError, machines_of
from .wire import Wire, WireError, read_key

SCHEME = "tcp://"
_CONNECT_SECONDS = 10.0
_SEND_SECONDS = 30.0
_MOST_FAILURES = 3
"""Requests that fail one after the other before a host counts as gone."""
_REQUEST_SECONDS = 600.0
"""A host that has not answered a request after this time is lost."""


class _Host:
    """A connection to a host, which is made again when it was lost. One request at a time;
    ``failures`` counts those that failed since the last answer."""

    def __init__(self, address: str, key: bytes) -> None:
        self.address, self._key = address, key
        self._host, self._port = _parsed(address)
        self._wire: Wire | None = None
        self.failures = 0
        self._lock = threading.Lock()

    def ask(self, message: Mapping[str, object]) -> str:
        """Returns the answer. Raises WireError if the host is lost, RunnerError if it says no."""
        with self._lock:
            try:
                if self._wire is None:
                    connection = socket.create_connection(
                        (self._host, self._port), _CONNECT_SECONDS
                    )
                    self._wire = Wire(connection, self._key, server=False)
                self._wire.send(json.dumps(message), _SEND_SECONDS)
                answer = json.loads(self._wire.receive(_REQUEST_SECONDS))
            except (OSError, ValueError, WireError) as error:
                self.failures += 1
                self.close()
                raise WireError(f"{SCHEME}{self.address}: {error}") from error
            self.failures = 0
        if not isinstance(answer, dict) or not isinstance(answer.get("answer"), str):
            said = answer.get("error") if isinstance(answer, dict) else answer
            raise RunnerError(f"{SCHEME}{self.address} cannot measure this: {said}")
        return answer["answer"]

    def close(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            with suppress(OSError):
                wire.close()


class Runners:
    """Connections to hosts with one key, and their machines."""

    lost: tuple[type[BaseException], ...] = (WireError,)

    def __init__(self, addresses: Sequence[str], key: bytes) -> None:
        """Raises RunnerError if a host cannot be reached, or has another key."""
        self._hosts = {address: _Host(address, key) for address in addresses}
        self._threads = ThreadPoolExecutor(max(1, 2 * len(addresses)), "loopwright-runners")
        self._next = 0
        try:
            answers = {a: host.ask({"ask": "machine"}) for a, host in self._hosts.items()}
            self.machines = machines_of(answers)
        except BaseException:
            self.close()
            raise

    def measurer(
        self, task: Task, machine: Machine, settings: TuneSettings, seed: int
    ) -> RemoteMeasurer:
        """Returns a measurer of a task whose target is that of ``machine``."""
        return RemoteMeasurer(task, self, machine.hosts, settings, seed)

    def submit(self, request: str, hosts: Sequence[str]) -> Answer:
        """Begins a request on the next of some hosts. Raises RunnerError if none answers."""
        if all(self._hosts[name].failures > _MOST_FAILURES for name in hosts):
            raise RunnerError(f"{', '.join(SCHEME + name for name in hosts)} does not answer")
        self._next += 1
        host = self._hosts[hosts[self._next % len(hosts)]]
        message = {"ask": "measure", "request": json.loads(request)}
        return self._threads.submit(host.ask, message)

    def present(self) -> set[str]:
        """Returns the hosts: each is asked again when it was lost."""
        return set(self._hosts)

    @contextmanager
    def reachable(self) -> Iterator[None]:
        """Nothing but requests fails here."""
        yield

    def close(self) -> None:
        for host in self._hosts.values():
            host.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def __enter__(self) -> Runners:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(runner: str, key_file: Path | None) -> Runners:
    """Returns the hosts of ``tcp://host:port,host:port``, or raises RunnerError."""
    if key_file is None:
        raise RunnerError(
            f"{runner} asks for a key: set LOOPWRIGHT_RUNNER_KEY to the file that its machine has, "
            "too (loopwright runner --new-key FILE makes one)"
        )
    addresses = [a for a in runner.removeprefix(SCHEME).split(",") if a]
    return Runners(list(dict.fromkeys(addresses)), read_key(key_file))


def _parsed(address: str) -> tuple[str, int]:
    """Returns host and port of an address."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise RunnerError(f"{address!r} is not an address; write tcp://host:port")
    return host.strip("[]"), int(port)
