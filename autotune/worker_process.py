"""The tuner's end of a worker process: start, ask, wait with a deadline, bury, start again."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .transport import Frame, FrameError, FrameReader, write_frame
from .worker import FAULT_ELSEWHERE, FAULT_IN_GUARD, Service

__all__ = ["Reply", "WorkerError", "WorkerProcess", "wait_for"]

_STARTS_IN_VAIN = 3
_READ = 1 << 20
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


class WorkerError(RuntimeError):
    """Worker processes cannot be started at all; the message has their last words."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, or ``error`` (a word of record.ERRORS) and ``detail`` if the worker is no more."""

    header: dict[str, Any] = field(default_factory=dict)
    blob: bytes = b""
    error: str | None = None
    detail: str = ""


class WorkerProcess:
    """One long-lived worker. It is started when first asked and restarted after it dies.

    At most one request is under way. ``poll`` never blocks; ``wait_for`` waits for several workers.
    """

    def __init__(
        self,
        service: Service,
        *,
        cpus: frozenset[int] | None = None,
        start_timeout: float = 120.0,
        lives: int = 2000,
    ) -> None:
        self._service = service
        self._cpus = cpus
        self._start_timeout = start_timeout
        self._lives = lives
        self._process: subprocess.Popen[bytes] | None = None
        self._reader = FrameReader()
        self._pending: tuple[Any, float] | None = None
        self._ready = False
        self._served = 0
        self._starts_in_vain = 0
        self._deadline = float("inf")
        self.restarts = 0

    @property
    def busy(self) -> bool:
        """Whether an answer is due."""
        return self._pending is not None

    @property
    def deadline(self) -> float:
        """When (``time.monotonic``) waiting for the answer ends."""
        return self._deadline

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def fileno(self) -> int:
        return self._read

    def start(self) -> None:
        """Start now, so that the first request finds the worker ready."""
        if self._process is not None:
            return
        child_read, self._write = os.pipe()
        self._read, child_write = os.pipe()
        os.set_blocking(self._read, False)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by _bury
        command = [sys.executable, "-m", "loopwright.autotune.worker"]
        command += [str(child_read), str(child_write), str(os.getpid())]
        try:
            self._process = subprocess.Popen(
                command,
                pass_fds=(child_read, child_write),
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                start_new_session=True,
                env=_environment(),
            )
        finally:
            os.close(child_read)
            os.close(child_write)
        if self._cpus:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(self._process.pid, self._cpus)
        self._reader = FrameReader()
        self._ready, self._served = False, 0
        self._deadline = time.monotonic() + self._start_timeout
        with contextlib.suppress(BrokenPipeError):  # poll will find it dead
            write_frame(self._write, Frame({}, pickle.dumps(self._service)))

    def submit(self, request: Any, timeout: float) -> None:
        """Ask; the answer is due ``timeout`` seconds after the worker has the request."""
        assert not self.busy
        died_idle = self._process is not None and self._process.poll() is not None
        if self._served >= self._lives or (died_idle and self._ready):
            self._bury()
        self.start()
        self._pending = (request, timeout)
        if self._ready:
            self._send()

    def _send(self) -> None:
        assert self._pending is not None
        request, timeout = self._pending
        self._deadline = time.monotonic() + timeout
        with contextlib.suppress(BrokenPipeError):
            write_frame(self._write, Frame({}, pickle.dumps(request)))

    def poll(self) -> Reply | None:
        """The answer if it is there; a Reply with ``error`` if the worker died or was too slow.

        WorkerError if no worker ever got as far as being ready.
        """
        while True:
            frame, dead = self._receive()
            if frame is not None and not self._ready:
                self._ready, self._starts_in_vain = True, 0
                self._send()
                continue
            if frame is not None:
                self._served += 1
                return self._done(Reply(frame.header, frame.blob))
            late = time.monotonic() >= self._deadline
            if (dead or late) and not self._ready:
                self._start_again(dead or "not ready in time")
                return None
            if dead:
                return self._done(self._autopsy(dead))
            return self._done(self._late()) if late else None

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
        self._pending = None
        self._deadline = float("inf")
        return reply

    def _late(self) -> Reply:
        assert self._pending is not None
        seconds = self._pending[1]
        self._bury()
        return Reply(error="timeout", detail=f"no answer within {seconds:.3g} s")

    def _start_again(self, found: str) -> None:
        """A worker that never got ready tells nothing about a candidate."""
        words = self._last_words() or found
        self._bury()
        self._starts_in_vain += 1
        if self._starts_in_vain >= _STARTS_IN_VAIN:
            raise WorkerError(f"measuring processes do not start: {words}")
        self.start()

    def _autopsy(self, found: str) -> Reply:
        """What the worker died of, from its exit status and its last words."""
        process = self._process
        assert process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
        status = process.poll()
        words = self._last_words()
        self._bury()
        if status == FAULT_IN_GUARD:
            return Reply(error="out_of_bounds", detail="touched memory beside an operand")
        if status == FAULT_ELSEWHERE:
            return Reply(error="crash", detail="touched memory that is not there")
        if status == -signal.SIGKILL or _is_about_memory(words):
            return Reply(error="out_of_memory", detail=words[-200:])
        if status is not None and status < 0:
            return Reply(error="crash", detail=signal.Signals(-status).name)
        return Reply(error="crash", detail=words[-200:] or found)

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
        """End the worker."""
        self._bury()
        self._done(Reply())

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def wait_for(workers: Sequence[WorkerProcess]) -> None:
    """Wait until one of the busy workers has something to say, or is past its deadline."""
    busy = [w for w in workers if w.busy]
    if not busy:
        return
    left = min(w.deadline for w in busy) - time.monotonic()
    select.select(busy, [], [], max(0.0, min(left, 60.0)))


def _environment() -> dict[str, str]:
    paths = [p or os.getcwd() for p in sys.path]
    return {**os.environ, **dict.fromkeys(_ONE_THREAD, "1"), "PYTHONPATH": os.pathsep.join(paths)}


def _is_about_memory(words: str) -> bool:
    return any(w in words.lower() for w in ("out of memory", "bad_alloc", "cannot allocate"))
