"""The process of one library: JSON lines in, JSON lines out.

``{"do": "prepare", "workload": ..., "threads": ..., "options": {...}}`` makes a workload ready and
compares its result with NumPy's; ``{"do": "round", "seconds": ...}`` times it for about that long.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .libraries import LIBRARIES, result_of
from .namespaces import Numpy
from .workloads import WORKLOADS

__all__ = ["main", "time_round"]


def time_round(call: Callable[[], Any], seconds: float) -> float:
    """Seconds per call: the best of the samples taken in about ``seconds``, at least three."""
    start = time.perf_counter()
    call()
    once = max(time.perf_counter() - start, 1e-7)
    inner = max(1, int(min(5e-3, seconds / 5) / once))
    best, samples, end = float("inf"), 0, time.perf_counter() + seconds
    while samples < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(inner):
            call()
        best = min(best, (time.perf_counter() - start) / inner)
        samples += 1
    return best


def _prepare(library: str, command: dict[str, Any]) -> tuple[Callable[[], Any], dict[str, Any]]:
    workload = WORKLOADS[command["workload"]]
    call, spent = LIBRARIES[library][0](workload, command["threads"], command["options"])
    got = result_of(call())
    wanted = workload.body(Numpy(), *workload.arrays().values())
    scale = float(np.abs(wanted).max()) or 1.0
    error = float(np.abs(got.astype(np.float64) - wanted).max()) / scale
    if got.shape != wanted.shape or not error < 1e-3:
        raise ValueError(f"wrong result: {got.shape}, relative error {error:.1e}")
    return call, {"error": error, "tuning_seconds": spent}


def main(library: str) -> None:
    """Serve commands until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes elsewhere
    call: Callable[[], Any] | None = None
    for line in sys.stdin:
        command = json.loads(line)
        try:
            if command["do"] == "prepare":
                call = None
                call, answer = _prepare(library, command)
            else:
                assert call is not None
                answer = {"seconds": time_round(call, command["seconds"])}
        except Exception as error:
            # Whatever a library cannot do is a dash in the table, with its reason in the lines.
            answer = {"failed": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
