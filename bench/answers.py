"""The side of a peer's process: JSON lines in, JSON lines out, and what a round is."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, TypeAlias

__all__ = ["Clock", "Prepare", "serve", "time_round"]

Prepare: TypeAlias = Callable[[str, dict[str, Any]], tuple[Callable[[], Any], dict[str, Any]]]
"""Makes what a command names ready: a call of it, and what to answer."""

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


Clock: TypeAlias = Callable[[], float]


def time_round(call: Callable[[], Any], seconds: float, clock: Clock = time.perf_counter) -> float:
    """Seconds of ``clock`` per call: the best of the samples taken in about ``seconds``, at least
    three; of a call that takes ten times as long, the one."""
    start = clock()
    call()
    once = max(clock() - start, 1e-7)
    if once > 10 * seconds:
        return once
    inner = max(1, int(min(5e-3, seconds / 5) / once))
    best, samples, end = float("inf"), 0, time.perf_counter() + seconds
    while samples < 3 or time.perf_counter() < end:
        start = clock()
        for _ in range(inner):
            call()
        best = min(best, (clock() - start) / inner)
        samples += 1
    return best


def serve(
    name: str,
    prepare: Prepare,
    clock: Clock = time.perf_counter,
    time_round: Callable[[Any, float, Clock], float] = time_round,
) -> None:
    """Serves commands until the input ends, or the process that started this one is gone; rounds
    are timed by ``clock``, in the way of ``time_round``."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes elsewhere
    call: Callable[[], Any] | None = None
    for line in sys.stdin:
        command = json.loads(line)
        try:
            if command["do"] == "prepare":
                call = None
                call, answer = prepare(name, command)
            else:
                assert call is not None
                answer = {"seconds": time_round(call, command["seconds"], clock)}
        except Exception as error:
            # Whatever a library cannot do is a dash in the table, with its reason in the lines.
            answer = {"failed": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=answers, flush=True)
