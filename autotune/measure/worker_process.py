"""The tuner's end of a worker process: starts it, sends requests, waits with a deadline,
restarts."""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from ...ir.dataclass import dataclass
from ..priority import seconds_of
from .fork_server import ForkedProcess, fork_worker
from .guarded import FAULT, FAULTS
from .transport import Frame, FrameError, FrameReader, write_frame
from .worker import Service

_STARTS_IN_VAIN = 3
_OPEN_SERVICES = 8
_STARVED_FACTOR = 3.0
"""A worker that was not given its processor time may take this many times as long."""
_READ = 1 << 20


class WorkerError(RuntimeError):
    """Worker processes cannot be started; the message holds their last output."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, or ``error`` (a key of record.ERRORS) and ``detail`` if the worker died."""

    header: dict[str, Any] = field(default_factory=dict)
    blob: bytes = b""
    error: str | None = None
    detail: str = ""
    killed: bool = False
    """A person killed the worker, or the system for lack of memory."""


@dataclass(slots=True)
class _Request:
    """A request to a worker; without a timeout its service is only opened."""

    service: Service
    request: Any = None
    timeout: float = 0.0
    failures: int = 0


class WorkerProcess:
    """One long-lived worker. It is started at the first request and restarted after it dies.

    It serves any number of services; the most recent few stay open. At most one request is under
    way. ``poll`` never blocks; ``wait_for`` waits for several workers.
    """

    def __init__(
        self,
        *,
        cpus: frozenset[int] | None = None,
        spare: bool = False,
        start_timeout: float = 120.0,
        lives: int = 2000,
    ) -> None:
        """``cpus`` are those it may use (all); a ``spare`` worker runs only on an otherwise idle
        core."""
        self.cpus = cpus
        self.spare = spare
        self._start_timeout = start_timeout
        self._lives = lives
        self._process: ForkedProcess | None = None
        self._reader = FrameReader()
        self._pending: _Request | None = None
        self._open: dict[int, Service] = {}  # the most recent one last
        self._opening = False
        self._served = 0
        self._deadline = float("inf")
        self._last_deadline = float("inf")
        self._cpu_before = 0.0
        self.restarts = 0

    @property
    def busy(self) -> bool:
        """True if a request is under way."""
        return self._pending is not None

    @property
    def deadline(self) -> float:
        """The time (``time.monotonic``) at which waiting for the answer ends."""
        return self._deadline

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def fileno(self) -> int:
        return self._read

    def start(self) -> None:
        """Starts now, so that the first request finds the worker ready."""
        if self._process is not None:
            return
        child_read, self._write = os.pipe()
        self._read, child_write = os.pipe()
        os.set_blocking(self._read, False)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by _bury
        try:
            descriptors = [child_read, child_write, self._errors.fileno()]
            self._process = fork_worker(descriptors, self.cpus, self.spare)
        finally:
            os.close(child_read)
            os.close(child_write)
        self._reader = FrameReader()
        self._open, self._served = {}, 0

    def prepare(self, service: Service) -> None:
        """Opens a service before the first request, if nothing else is under way."""
        if not self.busy and id(service) not in self._open:
            self._begin(_Request(service))

    def submit(self, service: Service, request: Any, timeout: float) -> None:
        """Sends a request; the answer is due ``timeout`` seconds after the service is open."""
        assert not self.busy
        self._begin(_Request(service, request, timeout))

    def _begin(self, request: _Request) -> None:
        # An idle worker has nothing to say: what can be read is the end of its pipe.
        died_idle = self._process is not None and select.select([self._read], [], [], 0)[0]
        if self._served >= self._lives or died_idle:
            self._bury()
        self.start()
        self._pending = request
        service = request.service
        if id(service) in self._open:
            self._open[id(service)] = self._open.pop(id(service))
            self._ask(request)
            return
        while len(self._open) >= _OPEN_SERVICES:
            oldest = next(iter(self._open))
            del self._open[oldest]
            self._send("close", oldest)
        self._opening = True
        self._deadline = time.monotonic() + self._start_timeout
        self._send("open", id(service), service)

    def _ask(self, request: _Request) -> None:
        now = time.monotonic()
        self._deadline = now + request.timeout
        self._last_deadline = now + _STARVED_FACTOR * request.timeout
        self._cpu_before = seconds_of(self.pid)
        self._send("ask", id(request.service), request.request)

    def _send(self, do: str, number: int, value: Any = None) -> None:
        frame = Frame({"do": do, "service": number}, pickle.dumps(value))
        with contextlib.suppress(BrokenPipeError):  # poll detects its death
            write_frame(self._write, frame)

    def poll(self) -> Reply | None:
        """Returns the answer if there is one; a Reply with ``error`` if the worker died or was too
        slow.

        Raises WorkerError if a service cannot be opened in several processes.
        """
        while True:
            frame, dead = self._receive()
            late = time.monotonic() >= self._deadline and not self._is_starved()
            if self._opening:
                reply = self._opened(frame, dead or ("not ready in time" if late else ""))
                if reply is not None:
                    return reply
                if frame is None:
                    return None
                continue
            if frame is not None:
                self._served += 1
                return self._done(Reply(frame.header, frame.blob))
            if dead:
                return self._done(self._autopsy(dead))
            return self._done(self._late()) if late else None

    def _is_starved(self) -> bool:
        """True if a late worker had too little processor time to be blamed; extends the
        deadline."""
        now = time.monotonic()
        if self._opening or self._pending is None or now >= self._last_deadline:
            return False
        missing = self._pending.timeout - (seconds_of(self.pid) - self._cpu_before)
        if missing <= 0:
            return False
        self._deadline = min(self._last_deadline, now + max(missing, 0.01))
        return True

    def _opened(self, frame: Frame | None, failure: str) -> Reply | None:
        """Continues after opening a service, or tries again in a new process.

        A worker that dies before its first request says nothing about a candidate.
        """
        request = self._pending
        assert request is not None
        if frame is not None:
            self._opening = False
            self._open[id(request.service)] = request.service
            if request.timeout <= 0:
                return self._done(Reply(frame.header))
            self._ask(request)
        elif failure:
            words = self._last_words() or failure
            self._bury()
            request.failures += 1
            if request.timeout <= 0:  # nobody waits for it: the next request tries again
                return self._done(Reply(error="crash", detail=words))
            if request.failures >= _STARTS_IN_VAIN:
                self._done(Reply())
                raise WorkerError(f"measuring processes do not start: {words}")
            self._begin(request)
        return None

    def _receive(self) -> tuple[Frame | None, str]:
        try:
            while True:
                piece = os.read(self._read, min(_READ, self._reader.wanted))
                if not piece:
                    return None, "the worker is gone"
                frame = self._reader.feed(piece)
                if frame is not None:
                    return frame, ""
        except BlockingIOError:
            return None, ""
        except FrameError as error:
            return None, str(error)

    def _done(self, reply: Reply) -> Reply:
        self._pending, self._opening = None, False
        self._deadline = float("inf")
        return reply

    def _late(self) -> Reply:
        assert self._pending is not None
        seconds = self._pending.timeout
        self._bury()
        return Reply(error="timeout", detail=f"no answer within {seconds:.3g} s")

    def _autopsy(self, failure: str) -> Reply:
        """Returns the cause of death, from the exit status and the last output."""
        process = self._process
        assert process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
        status = process.poll()
        words = self._last_words()
        self._bury()
        if status is not None and -status in FAULTS:
            assert self._pending is not None
            return Reply(error=self._pending.service.fault, detail=FAULT)
        killed = status == -signal.SIGKILL
        memory = "out of memory", "bad_alloc", "cannot allocate"
        if killed or any(phrase in words.lower() for phrase in memory):
            detail = words[-200:] or "killed, as by the system for lack of memory"
            return Reply(error="out_of_memory", detail=detail, killed=killed)
        if status is not None and status < 0:
            return Reply(error="crash", detail=signal.Signals(-status).name)
        return Reply(error="crash", detail=words[-200:] or failure)

    def _last_words(self) -> str:
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - 4000))
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return "; ".join(line.strip() for line in lines[-3:])

    def _bury(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._process = None
        os.close(self._write)
        os.close(self._read)
        self._errors.close()
        self.restarts += 1

    def close(self) -> None:
        """Ends the worker."""
        self._bury()
        self._done(Reply())

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def wait_for(workers: Sequence[WorkerProcess], until: float = math.inf) -> None:
    """Waits until one of the busy workers has something to report, or is past its deadline, or
    until the time (``time.monotonic``) ``until``."""
    busy = [w for w in workers if w.busy]
    if not busy:
        return
    left = min(until, *(w.deadline for w in busy)) - time.monotonic()
    select.select(busy, [], [], max(0.0, min(left, 60.0)))
