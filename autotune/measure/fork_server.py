"""Starts workers by forking a process that has imported all they need, which takes milliseconds.

::

    tuner  -- socket: descriptors of pipes -->  server  -- fork -->  worker
           <-- its number, and in the end its exit status --

The server runs as ``python -m loopwright.autotune.measure.fork_server SOCKET PARENT``, has a single
thread and runs no candidate itself. It ends with the tuner, and its workers with it.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from dataclasses import field
from typing import Any

from ...ir.dataclass import dataclass
from ..priority import lower_priority, yield_to_others

_MESSAGE_BYTES = 4096
_FORK_PATIENCE = 120.0
"""Longest wait for an answer: the first one comes when everything is imported."""
_LOOK_SECONDS = 1.0
"""Seconds between two looks whether the tuner still lives."""
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


class ForkedProcess:
    """A worker, with the methods of ``subprocess.Popen`` that its owner needs."""

    def __init__(self, server: _Server) -> None:
        self._server = server
        self._pid: int | None = None
        self._status: int | None = None

    @property
    def pid(self) -> int:
        """The number of the process; waits until it is forked. 0 if the server is gone."""
        if self._pid is None:
            self._server.read_numbers(_FORK_PATIENCE)
        return self._pid or 0

    def started(self, pid: int) -> None:
        """Notes the number that the server sent."""
        self._pid = pid

    def poll(self) -> int | None:
        """Returns the exit status, minus the signal's number if one ended it; None if it runs, or
        is not there yet."""
        if self._pid is None:
            self._server.read_numbers(0.0)
        if self._status is None and self._pid is not None:
            self._status = self._server.status(self._pid)
        return self._status

    def wait(self, timeout: float = _FORK_PATIENCE) -> int:
        """Waits for the end. Raises subprocess.TimeoutExpired."""
        end = time.monotonic() + timeout
        while (status := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("worker", timeout)
            time.sleep(0.002)
        return status

    def kill(self) -> None:
        """Ends the process. Its number stays taken until its status was asked for; one that is not
        there yet ends by itself, when its pipe does."""
        if self.poll() is not None:
            return
        if self._pid is None:
            self._status = -signal.SIGKILL
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)


@dataclass(eq=False)
class _Server:
    """The tuner's end of a server."""

    key: object
    process: subprocess.Popen[bytes]
    channel: socket.socket
    lock: threading.RLock = field(default_factory=threading.RLock)
    forked: deque[ForkedProcess] = field(default_factory=deque[ForkedProcess])
    """Processes whose number was not read yet."""

    def fork(self, descriptors: list[int], cpus: list[int], spare: bool) -> ForkedProcess:
        """Asks for a worker. OSError if the server is gone."""
        with self.lock:
            words = json.dumps({"cpus": cpus, "spare": spare}).encode()
            socket.send_fds(self.channel, [words], descriptors)
            self.forked.append(ForkedProcess(self))
            return self.forked[-1]

    def read_numbers(self, seconds: float) -> None:
        """Reads the numbers of the processes that were asked for, those that come in time."""
        with self.lock:
            while self.forked and select.select([self.channel], [], [], seconds)[0]:
                self.forked.popleft().started(int(self._answer() or 0))

    def status(self, pid: int) -> int | None:
        """Returns the exit status of a worker; None if it runs."""
        with self.lock:
            self.read_numbers(_FORK_PATIENCE)  # answers come in the order of the questions
            with contextlib.suppress(OSError):
                self.channel.send(json.dumps({"status": pid}).encode())
            answer = self._answer()
            return -signal.SIGKILL if answer is None or not pid else json.loads(answer)

    def _answer(self) -> bytes | None:
        """Returns the next message; None if the server is gone."""
        try:
            return self.channel.recv(_MESSAGE_BYTES) or None
        except OSError:
            return None

    def close(self) -> None:
        """Ends the server and its workers."""
        self.channel.close()
        self.process.kill()
        self.process.wait()


_servers: dict[int, _Server] = {}  # by the number of the tuner's process
_servers_lock = threading.Lock()


def fork_worker(descriptors: list[int], cpus: frozenset[int] | None, spare: bool) -> ForkedProcess:
    """Starts a worker with descriptors to read from, to write to, and for its output.

    ``cpus`` are those it may use; a ``spare`` one runs only on an otherwise idle core. Raises
    OSError if no process can be started.
    """
    with _servers_lock:
        for attempt in range(2):
            server = _server()
            try:
                return server.fork(descriptors, sorted(cpus or ()), spare)
            except OSError:
                del _servers[os.getpid()]
                server.close()
                if attempt:
                    raise
        raise AssertionError


def worker_environment() -> dict[str, str]:
    """Returns the environment of a worker: this process's import paths, and one thread per
    library."""
    paths = [p or os.getcwd() for p in sys.path]
    return {**os.environ, **dict.fromkeys(_ONE_THREAD, "1"), "PYTHONPATH": os.pathsep.join(paths)}


def _server() -> _Server:
    """Returns this process's server, a new one if what workers inherit has changed."""
    environment = worker_environment()
    key = (environment, os.getcwd(), os.sched_getaffinity(0), os.sched_getscheduler(0))
    server = _servers.get(os.getpid())
    if server is not None and server.key == key and server.process.poll() is None:
        return server
    # An old one stays as long as its workers need it.
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(_FORK_PATIENCE)
    command = [sys.executable, "-m", "loopwright.autotune.measure.fork_server"]
    with theirs:
        process = subprocess.Popen(
            [*command, str(theirs.fileno()), str(os.getpid())],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=environment,
        )
    server = _servers[os.getpid()] = _Server(key, process, ours)
    atexit.register(server.close)
    return server


# -- the server's end


def main(arguments: list[str]) -> int:
    """Forks workers until the tuner ends."""
    descriptor, parent = (int(a) for a in arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the tuner's business
    if os.sched_getscheduler(0) == os.SCHED_IDLE:
        yield_to_others()  # like the process that started this one
    from ...codegen.llvm.engine import compile_object
    from ...codegen.target import Target
    from . import build_service, kernels, run_service  # noqa: F401 - what workers unpickle
    from .harness import harness_code

    compile_object("define void @nothing() { ret void }", Target.host())
    harness_code()
    gc.freeze()  # what is here is shared with the workers, unchanged
    with socket.socket(fileno=descriptor) as channel:
        while os.getppid() == parent:
            if not select.select([channel], [], [], _LOOK_SECONDS)[0]:
                continue
            words, descriptors, _, _ = socket.recv_fds(channel, _MESSAGE_BYTES, 3)
            if not words:
                break
            request = json.loads(words)
            if descriptors:
                channel.send(str(_fork(channel, descriptors, request)).encode())
            else:
                channel.send(json.dumps(_status(request["status"])).encode())
    return 0


def _fork(channel: socket.socket, descriptors: list[int], request: dict[str, Any]) -> int:
    """Returns the number of a new worker, which serves until its pipe ends."""
    from .worker import main as work

    server = os.getpid()
    pid = os.fork()
    if pid:
        if request["cpus"]:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(pid, request["cpus"])
        if request["spare"]:
            lower_priority(pid)
        for descriptor in descriptors:
            os.close(descriptor)
        return pid
    try:
        channel.close()
        read, write, errors = descriptors
        os.setsid()
        os.dup2(errors, 1)
        os.dup2(errors, 2)
        os._exit(work([str(read), str(write), str(server)]))
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)


def _status(pid: int) -> int | None:
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return -signal.SIGKILL
    return os.waitstatus_to_exitcode(status) if ended else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
