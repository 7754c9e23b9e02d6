"""The process of one peer: JSON lines in, JSON lines out; see ``bench.answers``."""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from ..answers import Clock, serve
from .models import made
from .peers import PEERS, Parts

__all__ = ["prepare"]

STEPS = 2
"""Steps of which the losses are compared: the second loss has the gradients of the first, and batch
normalisations amplify roundings from step to step."""

_parts: Parts = {}


def prepare(peer: str, command: dict[str, Any]) -> tuple[Callable[[], Any], dict[str, Any]]:
    """Makes a part of a model ready; returns its call, the losses, the seconds of the first call,
    and the most memory that the process has held, in MB."""
    if not _parts:
        _parts.update(PEERS[peer].make(made(command["name"]), command["threads"]))
    call = _parts[command["part"]]
    start = time.perf_counter()
    losses = [float(call())]
    ready = time.perf_counter() - start
    losses += [float(call()) for _ in range(1, STEPS)]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return call, {"losses": losses, "ready": ready, "memory": memory}


def median_round(call: Callable[[], Any], seconds: float, clock: Clock) -> float:
    """Returns the median seconds of the calls that fit into ``seconds``, at least three; the first
    one, which finds the caches cold, does not count."""
    call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = clock()
        call()
        times.append(clock() - start)
    return statistics.median(times)


if __name__ == "__main__":
    serve(sys.argv[1], prepare, time.perf_counter, median_round)
