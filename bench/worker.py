"""The process of one library: JSON lines in, JSON lines out.

``{"do": "prepare", "kind": ..., "params": ..., "threads": ..., "expected": ..., "options": ...}``
makes a workload ready and compares its result with the expected one, a file of NumPy's;
``{"do": "round", "seconds": ...}`` times it for about that long.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .answers import serve
from .families import make
from .idiomatic import KIND, PROGRAMS
from .libraries import LIBRARIES, OURS, result_of
from .workload import wrongness

__all__ = ["FORGIVEN", "main"]

# A peer may be this many tolerances off: it may trade exactness for speed, but not everything.
FORGIVEN = 16.0


def _prepare(library: str, command: dict[str, Any]) -> tuple[Callable[[], Any], dict[str, Any]]:
    kind, params = command["kind"], command["params"]
    workload = PROGRAMS[params["name"]] if kind == KIND else make(kind, params)
    start = time.perf_counter()
    call, spent = LIBRARIES[library].make(workload, command["threads"], command["options"])
    got = result_of(call())
    ready = time.perf_counter() - start - spent
    wrong = wrongness(workload, got, np.load(command["expected"], mmap_mode="r"))
    if not wrong <= (1.0 if library in OURS else FORGIVEN):
        raise ValueError(f"wrong result: {got.shape}, off by {wrong:.3g} tolerances")
    start = time.perf_counter()
    call()
    once = time.perf_counter() - start
    return call, {"wrong": wrong, "tuning": spent, "ready": ready, "once": once}


def main(library: str) -> None:
    """Serves the commands for one library."""
    serve(library, _prepare)


if __name__ == "__main__":
    main(sys.argv[1])
