"""A worker process: serves requests of the tuner that started it until its pipe ends.

It is forked from ``fork_server`` and not through ``multiprocessing``, so that a user's script needs
no main guard and a threaded parent is never forked. A frame opens a service under a number, asks
it, or closes it; the first two are answered.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import resource
import signal
from pathlib import Path
from typing import Any, ClassVar, Protocol

from .transport import Frame, read_frame, write_frame

_PR_SET_PDEATHSIG = 1


class Service(Protocol):
    """The work of a worker. It is pickled to the worker and opened there."""

    fault: ClassVar[str]
    """The error that a memory fault means while it answers: a key of record.ERRORS."""

    def open(self) -> None:
        """Prepare; memory allocated here does not count against the limit."""
        ...

    @property
    def memory(self) -> int:
        """Bytes of address space that requests may add."""
        ...

    def handle(self, request: Any) -> Frame:
        """Answers a request. An exception becomes an answer, too."""
        ...

    def close(self) -> None:
        """Releases what ``open`` allocated."""
        ...


def main(arguments: list[str]) -> int:
    """Serves until the pipe ends."""
    read, write, parent = (int(a) for a in arguments)
    _die_with_parent(parent)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    services: dict[int, Service] = {}
    while (frame := read_frame(read)) is not None:
        number = frame.header["service"]
        if frame.header["do"] == "close":
            services.pop(number).close()
        elif frame.header["do"] == "open":
            _limit_memory(None)
            services[number] = pickle.loads(frame.blob)
            services[number].open()
            write_frame(write, Frame({"ready": True}))
        else:
            write_frame(write, _answer(services[number], frame))
    return 0


def _answer(service: Service, frame: Frame) -> Frame:
    try:
        _limit_memory(service.memory)
        return service.handle(pickle.loads(frame.blob))
    except MemoryError as error:
        return Frame({"error": "out_of_memory", "detail": str(error)})
    except Exception as error:  # every effect of a candidate is an answer
        return Frame({"error": "crash", "detail": f"{type(error).__name__}: {error}"})


def _die_with_parent(parent: int) -> None:
    """Ends with the parent, even in the middle of a candidate's endless loop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the tuner's business
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def _limit_memory(more: int | None) -> None:
    """Allows ``more`` bytes of address space beyond those in use; None allows all."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = hard
    if more is not None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        wanted = pages * resource.getpagesize() + more
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
