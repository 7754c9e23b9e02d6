"""The process of one peer: JSON lines in, JSON lines out; see ``bench.answers``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..answers import Clock, serve
from .programs import Program, fresh, mistake, outcome

__all__ = ["PEERS", "Run"]


def _ours(program: Program) -> Callable[..., Any]:
    import loopwright as lw

    return lw.compile(program.function("_numpy"))


def _jax(program: Program) -> Callable[..., Any]:
    os.environ["JAX_PLATFORMS"], os.environ["JAX_ENABLE_X64"] = "cpu", "1"
    import jax

    function = program.function("_jax")
    return lambda *arguments: jax.block_until_ready(function(*arguments))


PEERS: dict[str, Callable[[Program], Callable[..., Any]]] = {
    "loopwright": _ours,
    "numpy": lambda program: program.function("_numpy"),
    "numba": lambda program: program.function("_numba_n"),
    "jax": _jax,
}
"""What makes the function of a program, by peer."""


class Run:
    """Calls of one program, each with fresh arguments, of which only the call is timed."""

    def __init__(self, function: Callable[..., Any], arguments: list[Any]) -> None:
        self.function, self.arguments = function, arguments

    def __call__(self, clock: Clock = time.perf_counter) -> tuple[float, list[Any]]:
        """Returns the seconds of a call, and its outcome."""
        arguments = fresh(self.arguments)
        start = clock()
        result = self.function(*arguments)
        return clock() - start, outcome(arguments, result)


def time_runs(run: Any, seconds: float, clock: Clock = time.perf_counter) -> float:
    """Returns the seconds of the best of the calls that fit into some ``seconds``, at least one."""
    best, end = float("inf"), time.perf_counter() + seconds
    while best == float("inf") or time.perf_counter() < end:
        best = min(best, run(clock)[0])
    return best


def prepare(peer: str, command: dict[str, Any]) -> tuple[Run, dict[str, Any]]:
    """Makes a program ready; returns its calls, and the seconds of the first and second one.

    ``expected`` is the file of NumPy's outcome; ``write`` says to write it, else ValueError is
    raised for another outcome.
    """
    program = Program(Path(command["folder"]), command["name"], command["size"])
    run = Run(PEERS[peer](program), program.arguments())
    start = time.perf_counter()
    _, found = run()
    ready = time.perf_counter() - start
    if command["write"]:
        np.savez(command["expected"], *found)
    else:
        with np.load(command["expected"]) as arrays:
            expected = [arrays[name] for name in arrays.files]
        # JAX's variants return what NumPy's write.
        if peer != "jax" and (wrong := mistake(found, expected)):
            raise ValueError(wrong)
    return run, {"ready": ready, "once": run()[0]}


if __name__ == "__main__":
    # One core for all that a library starts: several peers have threads that no setting takes away,
    # so that the time is that of the clock, and the best of many calls.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    serve(sys.argv[1], prepare, time.perf_counter, time_runs)
