"""The process of one peer: JSON lines in, JSON lines out; see ``bench.answers``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..answers import serve
from ..libraries import result_of
from .peers import PEERS, Job, Runner
from .programs import PROGRAMS

__all__ = ["prepare"]

_RUNNERS: dict[str, Runner] = {}
"""By program: one serves all sizes."""


def prepare(peer: str, command: dict[str, Any]) -> tuple[Callable[[], Any], dict[str, Any]]:
    """Makes a program ready for some sizes; returns its call, the seconds until its first result
    (without tuning), how many codes there are by now, and how far the result is off, as a part of
    the largest one."""
    program = PROGRAMS[command["name"]]
    start = time.perf_counter()
    runner = _RUNNERS.get(program.name)
    if runner is None:
        job = Job(program, command["threads"], command["budget"], command["log"])
        runner = _RUNNERS[program.name] = PEERS[peer].make(job)
    x = program.input(tuple(command["sizes"]))
    before = runner.tuning
    call = runner.call(x)
    got = result_of(call())
    ready = time.perf_counter() - start - (runner.tuning - before)
    expected = np.load(command["expected"])
    if got.shape != expected.shape:
        raise ValueError(f"the result is {got.shape}, not {expected.shape}")
    wrong = float(np.abs(got - expected).max() / np.abs(expected).max()) if got.size else 0.0
    if not wrong <= program.tolerance:
        raise ValueError(f"wrong result at {command['sizes']}: off by {wrong:.3g}")
    answer = {"ready": ready, "wrong": wrong, "compiles": runner.compiles, "tuning": runner.tuning}
    return call, answer


if __name__ == "__main__":
    serve(sys.argv[1], prepare)
