"""A worker process: serves requests of the tuner that started it until its pipe ends.

It runs as ``python -m loopwright.autotune.worker READ WRITE PARENT`` and not through
``multiprocessing``, so that a user's script needs no main guard and a threaded parent is never
forked. The first frame brings the service, the others its requests; every one is answered.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import resource
import signal
import sys
from pathlib import Path
from typing import Any, Protocol

from .transport import Frame, read_frame, write_frame

__all__ = ["FAULT_ELSEWHERE", "FAULT_IN_GUARD", "Service", "main"]

FAULT_IN_GUARD = 77
"""Exit status after a touch of a guard zone."""
FAULT_ELSEWHERE = 78
"""Exit status after any other memory fault."""

_PR_SET_PDEATHSIG = 1


class Service(Protocol):
    """What a worker does. It travels to the worker by pickle and is opened there."""

    def open(self) -> None:
        """Prepare; memory taken here is not counted against the limit."""
        ...

    @property
    def memory(self) -> int:
        """Bytes of address space that requests may add."""
        ...

    def handle(self, request: Any) -> Frame:
        """Answer a request. An exception is answered in its stead."""
        ...


def main(arguments: list[str]) -> int:
    """Serve until the pipe ends."""
    read, write, parent = (int(a) for a in arguments)
    _die_with_parent(parent)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    first = read_frame(read)
    if first is None:
        return 0
    service: Service = pickle.loads(first.blob)
    service.open()
    _limit_memory(service.memory)
    write_frame(write, Frame({"ready": True}))
    while (frame := read_frame(read)) is not None:
        write_frame(write, _answer(service, frame))
    return 0


def _answer(service: Service, frame: Frame) -> Frame:
    try:
        return service.handle(pickle.loads(frame.blob))
    except MemoryError as error:
        return Frame({"error": "out_of_memory", "detail": str(error)})
    except Exception as error:  # whatever a candidate brings about is an answer
        return Frame({"error": "crash", "detail": f"{type(error).__name__}: {error}"})


def _die_with_parent(parent: int) -> None:
    """Leave nothing behind, even in the middle of a candidate's endless loop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the tuner's business
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def _limit_memory(more: int) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + more
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
