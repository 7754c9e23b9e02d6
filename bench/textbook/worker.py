"""The process of one peer: JSON lines in, JSON lines out; see ``bench.answers``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from ..answers import serve
from ..npbench.worker import Run, time_runs
from . import programs
from .program import PROGRAMS, Program

__all__ = ["PEERS"]


def _ours(program: Program) -> Callable[..., Any]:
    import loopwright as lw

    return lw.compile(program.function)


def _numba(program: Program) -> Callable[..., Any]:
    """The function compiled in nopython mode, and the functions of its file that it calls."""
    import numba

    space = program.function.__globals__
    for name, value in [*space.items()]:
        if isinstance(value, FunctionType) and value.__module__ == program.function.__module__:
            space[name] = numba.njit(value)
    function: Callable[..., Any] = space[program.function.__name__]
    return function


PEERS: dict[str, Callable[[Program], Callable[..., Any]]] = {
    "python": lambda program: program.function,
    "loopwright": _ours,
    "numba": _numba,
}
"""What makes the function of a program, by peer; the first says what is right."""


def _flat(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [leaf for each in value for leaf in _flat(each)]
    return [np.asarray(value)]


class Calls(Run):
    """Calls with fresh arguments, whose outcome is flat."""

    def __call__(self, clock: Callable[[], float] = time.perf_counter) -> tuple[float, list[Any]]:
        """Returns the seconds of a call, and its outcome."""
        seconds, found = super().__call__(clock)
        return seconds, [leaf for each in found for leaf in _flat(each.tolist())]


def prepare(peer: str, command: dict[str, Any]) -> tuple[Run, dict[str, Any]]:
    """Makes a program ready; returns its calls, and the seconds of the first one."""
    program = PROGRAMS[command["name"]]
    run = Calls(PEERS[peer](program), program.arguments(program.large))
    start = time.perf_counter()
    _, found = run()
    ready = time.perf_counter() - start
    if command["write"]:
        np.save(command["expected"], np.array(found))
    else:
        np.testing.assert_allclose(
            np.array(found), np.load(command["expected"]), rtol=1e-9, atol=1e-11
        )
    return run, {"ready": ready}


if __name__ == "__main__":
    assert programs  # they declare themselves
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    serve(sys.argv[1], prepare, time.perf_counter, time_runs)
